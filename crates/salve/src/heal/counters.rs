//! The counters of healing on disk: the state, its checkpoints, and the way back to one.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use salve_core::check::state::{HealingCounters, validate_state};
use salve_core::view::IncidentView;

use super::records::RecordError;
use crate::atomic;
use crate::files::{FileKind, read_bytes};

/// How many checkpoints are kept.
const CHECKPOINTS: usize = 10;

/// The state of healing, kept in a directory.
#[derive(Debug)]
pub(super) struct Counters {
    dir: PathBuf,
    state: HealingCounters,
    /// Whether there is anything worth a checkpoint.
    is_new: bool,
}

/// What the way back to a checkpoint found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CounterRestore {
    /// The file that the state before was kept in, if there was one.
    pub(super) aside: Option<String>,
    /// The checkpoint, if a valid one was found.
    pub(super) checkpoint: Option<String>,
}

impl Counters {
    /// Reads the state; one that is not valid is set aside, and the last valid checkpoint holds.
    pub(super) fn open(dir: PathBuf) -> Result<(Self, Option<CounterRestore>), RecordError> {
        let path = dir.join("state.json");
        let text = match read_bytes(&path, FileKind::Document).map_err(std::io::Error::from) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok((Self { dir, state: HealingCounters::default(), is_new: false }, None));
            }
            Err(error) => return Err(RecordError::at(&path)(error)),
        };
        match validate_state(&text) {
            Ok(state) => Ok((Self { dir, state, is_new: true }, None)),
            Err(_) => {
                let aside = set_aside(&dir, &text, Timestamp::now())?;
                let found = last_checkpoint(&dir);
                let (checkpoint, state) = found.map_or((None, None), |(n, s)| (Some(n), Some(s)));
                let mut counters = Self { dir, state: state.unwrap_or_default(), is_new: false };
                counters.save()?;
                Ok((counters, Some(CounterRestore { aside: Some(aside), checkpoint })))
            }
        }
    }

    /// Takes in what happened in an incident.
    pub(super) fn take_in(&mut self, view: &IncidentView) -> Result<(), RecordError> {
        let before = self.state.clone();
        self.state.take_in(view);
        if self.state == before { Ok(()) } else { self.save() }
    }

    fn save(&mut self) -> Result<(), RecordError> {
        self.is_new = true;
        Ok(atomic::write(&self.dir.join("state.json"), self.state.to_text())?)
    }

    /// Keeps the state as one to go back to; nothing if it is the last one already.
    pub(super) fn checkpoint(&mut self, at: Timestamp) -> Result<(), RecordError> {
        if !std::mem::take(&mut self.is_new) {
            return Ok(());
        }
        let text = self.state.to_text();
        let names = checkpoints(&self.dir);
        let last =
            names.last().and_then(|name| read_bytes(&self.dir.join(name), FileKind::Document).ok());
        if last.as_deref() == Some(text.as_bytes()) {
            return Ok(());
        }
        atomic::write(&self.dir.join(format!("checkpoint-{}.json", stamp(at))), text)?;
        let spare = (names.len() + 1).saturating_sub(CHECKPOINTS);
        for name in names.iter().take(spare) {
            // What cannot be removed today may be tomorrow.
            let _ = fs::remove_file(self.dir.join(name));
        }
        Ok(())
    }

    /// Goes back to the last valid checkpoint; the present state is kept for a later look.
    pub(super) fn roll_back(&mut self, at: Timestamp) -> Result<CounterRestore, RecordError> {
        let text = read_bytes(&self.dir.join("state.json"), FileKind::Document).ok();
        let aside = text.map(|text| set_aside(&self.dir, &text, at)).transpose()?;
        let (checkpoint, state) = match last_checkpoint(&self.dir) {
            Some((name, state)) => (Some(name), Some(state)),
            None => (None, None),
        };
        self.state = self.state.rolled_back(state);
        self.save()?;
        Ok(CounterRestore { aside, checkpoint })
    }
}

impl std::fmt::Display for CounterRestore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(aside) = &self.aside {
            write!(f, "the state was kept in {aside}, ")?;
        }
        match &self.checkpoint {
            Some(checkpoint) => write!(f, "{checkpoint} holds now"),
            None => f.write_str("there was no valid checkpoint, so the counters start from zero"),
        }
    }
}

/// Keeps a state that holds no longer.
fn set_aside(dir: &Path, text: &[u8], at: Timestamp) -> Result<String, RecordError> {
    let name = format!("corrupted-state-{}.json", stamp(at));
    atomic::write(&dir.join(&name), text)?;
    Ok(name)
}

/// Returns the names of the checkpoints, oldest first.
fn checkpoints(dir: &Path) -> Vec<String> {
    let files = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> = files
        .filter_map(|file| file.file_name().into_string().ok())
        .filter(|name| name.starts_with("checkpoint-") && name.ends_with(".json"))
        .collect();
    names.sort();
    names
}

/// Returns the last checkpoint that is valid.
fn last_checkpoint(dir: &Path) -> Option<(String, HealingCounters)> {
    checkpoints(dir).into_iter().rev().find_map(|name| {
        let text = read_bytes(&dir.join(&name), FileKind::Document).ok()?;
        validate_state(&text).ok().map(|state| (name, state))
    })
}

fn stamp(at: Timestamp) -> String {
    at.strftime("%Y%m%dT%H%M%S%.3fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn counters(dir: &Path, tokens: u64) -> Counters {
        let state = HealingCounters { healing_tokens: tokens, ..HealingCounters::default() };
        let mut counters = Counters { dir: dir.to_path_buf(), state, is_new: true };
        counters.save().unwrap();
        counters
    }

    #[test]
    fn the_last_valid_checkpoint_is_found_past_the_broken_ones() {
        let home = tempfile::tempdir().unwrap();
        let mut counters = counters(home.path(), 7);
        counters.checkpoint(at(10)).unwrap();
        counters.checkpoint(at(11)).unwrap();
        assert_eq!(checkpoints(home.path()).len(), 1, "nothing was new");
        fs::write(home.path().join("checkpoint-29990101T000000.000Z.json"), "{}").unwrap();
        counters.state.heal_attempts = 3;
        counters.state.error_counts.insert("00".into(), 3);
        counters.save().unwrap();
        let restored = counters.roll_back(at(20)).unwrap();
        let want = "the state was kept in corrupted-state-19700101T000020.000Z.json, \
                    checkpoint-19700101T000010.000Z.json holds now";
        assert_eq!(restored.to_string(), want);
        let aside = fs::read(home.path().join(restored.aside.unwrap())).unwrap();
        assert_eq!(validate_state(&aside).unwrap().heal_attempts, 3, "kept as it was");
        let (again, restored) = Counters::open(home.path().to_path_buf()).unwrap();
        assert_eq!(restored, None);
        assert_eq!((again.state.heal_attempts, again.state.healing_tokens), (0, 7));
        assert!(again.state.error_counts.is_empty());
    }

    #[test]
    fn a_state_that_is_not_valid_is_kept_and_replaced() {
        let home = tempfile::tempdir().unwrap();
        counters(home.path(), 7).checkpoint(at(10)).unwrap();
        fs::write(home.path().join("state.json"), "{\"version\": 1, \"heal").unwrap();
        let (counters, restored) = Counters::open(home.path().to_path_buf()).unwrap();
        assert_eq!(counters.state.healing_tokens, 7);
        let aside = restored.unwrap().aside.unwrap();
        assert_eq!(fs::read_to_string(home.path().join(aside)).unwrap(), "{\"version\": 1, \"heal");
        assert!(Counters::open(home.path().to_path_buf()).unwrap().1.is_none(), "it is valid now");
    }

    #[test]
    fn old_checkpoints_go() {
        let home = tempfile::tempdir().unwrap();
        for second in 0..15 {
            counters(home.path(), u64::try_from(second).unwrap()).checkpoint(at(second)).unwrap();
        }
        assert_eq!(checkpoints(home.path()).len(), CHECKPOINTS);
        assert_eq!(last_checkpoint(home.path()).unwrap().1.healing_tokens, 14);
    }
}
