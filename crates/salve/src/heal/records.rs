//! What is kept of a heal below `.salve`: the evidence, each attempt, and what was decided.
//!
//! All but the evidence is told by core from the journal, so a file that was lost or that a killed
//! Salve left behind is written again with the next entry of its incident.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use salve_core::check::attempt::{Attempt, attempts, file_name};
use salve_core::check::decisions::{Decision, decisions, last_told};
use salve_core::event::{Event, IncidentEvent};
use salve_core::id::IncidentId;
use salve_core::incident::Incident;
use salve_core::repair::evidence_path;
use salve_core::view::IncidentView;

use super::counters::Counters;
use super::failure_log::FailureLog;
use super::files::with_causes;
use super::subject::SubjectContext;
use crate::atomic::{self, WriteError};
use crate::files::{self, FileKind, make_directories, open_to_append, read_bytes, rename};
use crate::project::Project;
use crate::reading::incident_view;
use crate::store::StoreError;

/// The largest that the log of decisions grows before it is set aside.
const LARGEST_LOG: u64 = 1 << 20;

/// The files of one project's heals.
#[derive(Debug)]
pub struct Records {
    state_dir: PathBuf,
    kept: Duration,
    /// What the attempts' files say, as far as this process wrote them.
    written: HashMap<String, Vec<u8>>,
    /// The last entry of each incident that the log of decisions tells of.
    told: HashMap<IncidentId, u64>,
    /// The counters, once they were needed.
    counters: Option<Counters>,
    /// Why something could not be kept, so that it is said once.
    complaint: Option<String>,
}

/// Why something of a heal could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A file could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A file could not be read, set aside or added to.
    #[error("cannot keep {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl RecordError {
    pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        |source| Self::File { path, source }
    }
}

impl Records {
    /// Opens the records of a project, whose old files go after `kept`.
    pub fn new(project: &Project, kept: Duration) -> Self {
        let (written, told) = (HashMap::new(), HashMap::new());
        Self {
            state_dir: project.state_dir(),
            kept,
            written,
            told,
            counters: None,
            complaint: None,
        }
    }

    /// Returns the counters; where those on disk could not be trusted, says what holds instead.
    fn counters(&mut self) -> Result<&mut Counters, RecordError> {
        if self.counters.is_none() {
            let (counters, restored) = Counters::open(self.dir()?)?;
            if let Some(restored) = restored {
                let at = Timestamp::now();
                let text = format!("{at:.0} the state was not valid: {restored}\n");
                self.log(&text)?;
            }
            self.counters = Some(counters);
        }
        match &mut self.counters {
            Some(counters) => Ok(counters),
            None => Err(RecordError::at(&self.state_dir)(io::ErrorKind::NotFound.into())),
        }
    }

    fn write_checkpoint(&mut self, at: Timestamp) -> Result<(), RecordError> {
        let state = self.state_dir.join("healing-attempts").join("state.json");
        if self.counters.is_some() || state.exists() {
            self.counters()?.checkpoint(at)
        } else {
            Ok(())
        }
    }

    /// Returns the directory of attempts, making it if need be.
    pub(super) fn dir(&self) -> Result<PathBuf, RecordError> {
        let dir = self.state_dir.join("healing-attempts");
        make_directories(&dir).map_err(RecordError::at(&dir))?;
        Ok(dir)
    }

    fn write_evidence(&self, root: &Path, log: &FailureLog) -> Result<(), RecordError> {
        self.dir()?;
        Ok(atomic::write(&root.join(evidence_path(log.kind, log.incident)), log.text())?)
    }

    /// Keeps what an incident tells; returns the decisions that are new.
    fn keep(&mut self, view: &IncidentView) -> Result<Vec<Decision>, RecordError> {
        let new = self.keep_decisions(view.id(), decisions(view))?;
        let dir = self.dir()?;
        for attempt in attempts(view) {
            self.keep_attempt(&dir, &attempt)?;
        }
        self.counters()?.take_in(view)?;
        Ok(new)
    }

    fn keep_attempt(&mut self, dir: &Path, attempt: &Attempt) -> Result<(), RecordError> {
        let name = file_name(attempt.incident, attempt.attempt);
        let mut text = serde_json::to_vec_pretty(attempt).unwrap_or_default();
        text.push(b'\n');
        if self.written.get(&name) != Some(&text) {
            atomic::write(&dir.join(&name), &text)?;
            self.written.insert(name, text);
        }
        Ok(())
    }

    fn keep_decisions(
        &mut self,
        incident: IncidentId,
        decisions: Vec<Decision>,
    ) -> Result<Vec<Decision>, RecordError> {
        let path = self.state_dir.join("decisions.log");
        let aside = self.state_dir.join("decisions.1.log");
        let told = match self.told.get(&incident) {
            Some(told) => *told,
            // An earlier run of Salve may have told of some.
            None => {
                [&aside, &path].map(|log| told_in(log, incident)).into_iter().max().unwrap_or(0)
            }
        };
        let new: Vec<_> = decisions.into_iter().filter(|one| one.seq > told).collect();
        if let Some(last) = new.last() {
            self.log(&new.iter().map(|one| format!("{one}\n")).collect::<String>())?;
            self.told.insert(incident, last.seq);
        }
        Ok(new)
    }

    /// Adds lines to the log of decisions; one that is full is set aside first.
    fn log(&self, lines: &str) -> Result<(), RecordError> {
        let path = self.state_dir.join("decisions.log");
        if fs::metadata(&path).is_ok_and(|meta| meta.len() > LARGEST_LOG) {
            let aside = self.state_dir.join("decisions.1.log");
            rename(&path, &aside).map_err(RecordError::at(&aside))?;
        }
        let log = open_to_append(&path, 0o666);
        let written = log.and_then(|mut log| log.write_all(lines.as_bytes()));
        written.map_err(RecordError::at(&path))
    }

    /// Removes what is older than it is kept, except what is of an `open` incident.
    pub fn tidy(&self, open: IncidentId, now: SystemTime) {
        let Ok(dir) = self.dir() else { return };
        for path in files::list(&dir).unwrap_or_default() {
            let Some(name) = path.file_name().and_then(OsStr::to_str) else { continue };
            let written = path.symlink_metadata().and_then(|meta| meta.modified());
            let is_old = written.is_ok_and(|written| {
                now.duration_since(written).is_ok_and(|passed| passed > self.kept)
            });
            if is_old && is_ours(name) && !name.contains(&open.short()) {
                // What cannot be removed today may be tomorrow.
                let _ = files::remove(&path);
            }
        }
    }
}

/// Returns the last entry of an incident that a log file tells of.
fn told_in(log: &Path, incident: IncidentId) -> u64 {
    read_bytes(log, FileKind::Bulk)
        .map_or(0, |text| last_told(&String::from_utf8_lossy(&text), incident))
}

/// Returns whether a file's name is that of an attempt, of evidence, of an agent's words, or of a
/// state set aside.
fn is_ours(name: &str) -> bool {
    let is_id = |id: &str| id.len() == 8 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let of_attempt = name.strip_prefix("attempt-").and_then(|rest| rest.strip_suffix(".json"));
    let of_attempt = of_attempt.and_then(|rest| rest.split_once('-'));
    let is_attempt = of_attempt.is_some_and(|(id, n)| is_id(id) && n.parse::<u32>().is_ok());
    let is_state = name.starts_with("corrupted-state-") && name.ends_with(".json");
    let of_log = name.strip_suffix(".log");
    let of_log = of_log.map(|name| name.strip_suffix(".agent").unwrap_or(name));
    is_attempt || is_state || of_log.is_some_and(is_id)
}

impl Records {
    /// Keeps what a failure left behind, in place of what an earlier one of the incident did;
    /// returns what a person should know.
    pub fn keep_evidence(&mut self, root: &Path, log: &FailureLog) -> Option<String> {
        let kept = self.write_evidence(root, log);
        self.complaint_of(kept)
    }

    /// Keeps the counters as ones to go back to, if there are any; returns what a person should
    /// know.
    pub fn checkpoint(&mut self, at: Timestamp) -> Option<String> {
        let kept = self.write_checkpoint(at);
        self.complaint_of(kept)
    }

    /// Keeps what the journal tells of a subject's incident.
    pub fn keep_incident(
        &mut self,
        at: usize,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        let Some(id) = context.incident(at).map(Incident::id) else { return Ok(()) };
        let Some(view) = incident_view(context.base.writer.store.journal(), id)? else {
            return Ok(());
        };
        let kept = self.keep(&view);
        let is_catastrophe =
            kept.as_ref().is_ok_and(|new| new.iter().any(|one| one.is_catastrophe));
        if let Some(complaint) = self.complaint_of(kept.map(drop)) {
            context.note(at, &complaint);
        }
        if is_catastrophe {
            self.roll_back_counters(at, id, context);
        }
        Ok(())
    }

    /// Goes back to the last valid counters, and says so in the journal.
    fn roll_back_counters(
        &mut self,
        at: usize,
        id: IncidentId,
        context: &mut SubjectContext<'_, '_>,
    ) {
        let now = context.base.writer.now();
        match self.counters().and_then(|counters| counters.roll_back(now)) {
            Ok(restored) => {
                let restored = context.base.writer.scrubber.scrub(&restored.to_string());
                let restored = IncidentEvent::CountersRestored { restored };
                context.add(at, id, Event::Incident(restored));
            }
            Err(error) => {
                if let Some(complaint) = self.complaint_of(Err(error)) {
                    context.note(at, &complaint);
                }
            }
        }
    }

    /// Returns what a person should know about something that could not be kept, once for each
    /// reason.
    fn complaint_of(&mut self, kept: Result<(), RecordError>) -> Option<String> {
        let text = with_causes(&kept.err()?);
        let is_new = self.complaint.as_ref() != Some(&text);
        self.complaint = Some(text.clone());
        is_new.then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use salve_core::id::IncidentId;
    use std::fs::OpenOptions;
    use uuid::Uuid;

    use super::*;

    fn records(kept: Duration) -> (tempfile::TempDir, Records) {
        let home = tempfile::tempdir().unwrap();
        let project = Project::at(home.path()).unwrap();
        project.make_state_dir().unwrap();
        let records = Records::new(&project, kept);
        (home, records)
    }

    fn decision(seq: u64) -> Decision {
        let (at, incident) = (jiff::Timestamp::UNIX_EPOCH, IncidentId(Uuid::from_u128(7)));
        Decision { seq, at, incident, is_catastrophe: false, text: format!("decision {seq}") }
    }

    #[test]
    fn a_decision_is_told_once_also_by_the_next_run_and_across_a_full_log() {
        let (home, mut records) = records(Duration::ZERO);
        let id = IncidentId(Uuid::from_u128(7));
        records.keep_decisions(id, vec![decision(1)]).unwrap();
        records.keep_decisions(id, vec![decision(1), decision(2)]).unwrap();
        records.told.clear();
        records.keep_decisions(id, vec![decision(1), decision(2), decision(3)]).unwrap();
        let log = home.path().join(".salve/decisions.log");
        let seqs = |path: &Path| fs::read_to_string(path).unwrap().matches("decision ").count();
        assert_eq!(seqs(&log), 3);
        let padding = "x".repeat(LARGEST_LOG as usize);
        OpenOptions::new().append(true).open(&log).unwrap().write_all(padding.as_bytes()).unwrap();
        records.told.clear();
        records.keep_decisions(id, vec![decision(3), decision(4)]).unwrap();
        records.told.clear();
        records.keep_decisions(id, vec![decision(3), decision(4)]).unwrap();
        assert_eq!(seqs(&log), 1, "the full log was set aside");
        assert_eq!(seqs(&home.path().join(".salve/decisions.1.log")), 3);
    }

    #[test]
    fn old_records_go_and_what_is_not_ours_stays() {
        let day = Duration::from_secs(86_400);
        let (_home, records) = records(day);
        let dir = records.dir().unwrap();
        let ours = [
            "attempt-0a1b2c3d-1.json",
            "0a1b2c3d.log",
            "0a1b2c3d.agent.log",
            "corrupted-state-20260101T000000Z.json",
        ];
        let stays = ["attempt-00000000-2.json", "notes.log", "attempt-x-1.json", "state.json"];
        for name in ours.iter().chain(&stays) {
            fs::write(dir.join(name), "").unwrap();
        }
        let open = IncidentId(Uuid::from_u128(7));
        records.tidy(open, SystemTime::now());
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 8, "nothing is old yet");
        records.tidy(open, SystemTime::now() + 2 * day);
        let mut left: Vec<_> =
            fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        let mut stays = stays.map(std::ffi::OsString::from);
        stays.sort();
        assert_eq!(left, stays);
    }
}
