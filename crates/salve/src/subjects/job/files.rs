//! The files of a job: `.salve/jobs/<run>/`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use salve_core::event::{Checkpoint, Entry};
use salve_core::id::JobId;
use salve_core::job::{AttemptRecord, Job, job_state, task_events};
use salve_core::scrub::Scrubbed;
use serde::{Deserialize, Serialize};

use super::digest;
use crate::atomic::{self, FileText, WriteError};
use crate::files::{FileKind, make_directories, open_to_append, read_bytes, remove_tree, rename};
use crate::project::Project;
use crate::store::{JobArtifact, JobQueue, StoreError};
use crate::workspace::{ChangedPath, ReplayStep, StepDiff, StepStore};

/// The directory of one run of a job.
#[derive(Clone, Debug)]
pub struct JobFolder {
    dir: PathBuf,
}

/// What a step that is done left: `state/steps/step-XXXX.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepRecord {
    /// The version of its shape.
    pub version: u32,
    pub step_id: String,
    /// Its number, from 0.
    pub step_index: usize,
    /// The attempt that succeeded, from 1.
    pub attempt: u32,
    /// The SHA-256 of its patch.
    pub diff_hash: String,
    /// The files that it changed, each with its checksum afterwards.
    pub changed_files: Vec<ChangedPath>,
    /// When it was done.
    pub finished_at: Timestamp,
}

/// A checkpoint that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{} is {what}", path.display())]
pub(super) struct BadCheckpoint {
    path: PathBuf,
    what: &'static str,
}

/// How far the log of a job reaches with one of its entries.
struct LoggedEntry {
    seq: u64,
    end: usize,
}

/// Returns the lines of a job's own log that an entry stands for.
fn event_lines(of: &Job, entry: &Entry) -> String {
    let mut lines = String::new();
    for event in task_events(of, entry) {
        let mut told = event.payload;
        told.insert("event".to_owned(), event.name.into());
        told.insert("seq".to_owned(), entry.seq.into());
        lines.push_str(&serde_json::Value::Object(told).to_string());
        lines.push('\n');
    }
    lines
}

/// Returns what a log lacks of the lines that it should have.
fn what_lacks(logged: &[u8], lines: &[u8], ends: &[LoggedEntry]) -> Vec<u8> {
    if let Some(rest) = lines.strip_prefix(logged) {
        // A line that was cut off in its midst is completed.
        return rest.to_vec();
    }
    // Another release may have said it in other words: what is there stays.
    let seq = |line: &[u8]| -> Option<u64> {
        serde_json::from_slice::<serde_json::Value>(line).ok()?.get("seq")?.as_u64()
    };
    let last = logged.rsplit(|byte| *byte == b'\n').find_map(seq).unwrap_or_default();
    let end = ends.iter().rev().find(|entry| entry.seq <= last).map_or(0, |entry| entry.end);
    let rest = lines.get(end..).unwrap_or_default();
    if rest.is_empty() || logged.ends_with(b"\n") {
        return rest.to_vec();
    }
    [b"\n", rest].concat()
}

impl JobFolder {
    /// Returns the directory of a run, which need not be there yet.
    pub fn of(project: &Project, id: JobId) -> Self {
        Self { dir: project.state_dir().join("jobs").join(id.short()) }
    }

    /// Returns its path.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Tells whether its files are still there.
    pub fn is_kept(&self) -> bool {
        self.dir.is_dir()
    }

    /// Removes all files of the run, wherever they are; the journal still tells of it.
    pub fn remove(&self, project: &Project) -> std::io::Result<()> {
        StepStore::forget(project.root(), &self.dir);
        remove_tree(&self.dir)
    }

    /// Returns where the job's own file is.
    pub fn spec(&self) -> PathBuf {
        self.dir.join("job.json")
    }

    fn write(&self, path: &Path, text: impl AsRef<[u8]>) -> Result<(), WriteError> {
        let parent = path.parent().unwrap_or(&self.dir);
        make_directories(parent).map_err(|error| WriteError::new(parent, error))?;
        atomic::write(path, text)
    }

    /// Writes what is told again from the journal: nothing waits for the disk.
    fn write_derived(&self, path: &Path, text: impl AsRef<[u8]>) -> Result<(), WriteError> {
        let parent = path.parent().unwrap_or(&self.dir);
        make_directories(parent).map_err(|error| WriteError::new(parent, error))?;
        atomic::write_derived(path, text)
    }

    /// Writes what the job is to do.
    pub fn keep_spec(&self, text: &str) -> Result<(), WriteError> {
        self.write(&self.spec(), text)
    }

    /// Writes how the job stands.
    pub(super) fn tell(&self, of: &Job) -> Result<(), WriteError> {
        let text = serde_json::to_string_pretty(&job_state(of)).unwrap_or_default();
        self.write_derived(&self.dir.join("state.json"), text + "\n")
    }

    /// Adds what an entry is called by the spec to the job's own log.
    pub(super) fn log(&self, of: &Job, entry: &Entry) -> Result<(), WriteError> {
        self.add_to_log(event_lines(of, entry).as_bytes())
    }

    fn log_path(&self) -> PathBuf {
        self.dir.join("events.jsonl")
    }

    fn add_to_log(&self, lines: &[u8]) -> Result<(), WriteError> {
        if lines.is_empty() {
            return Ok(());
        }
        let path = self.log_path();
        let failed = |error| WriteError::new(&path, error);
        let mut file = open_to_append(&path, 0o644).map_err(failed)?;
        file.write_all(lines).map_err(failed)
    }

    /// Brings the job's own log and state up to its journal: whoever was killed right after a write
    /// to the journal, or had no room on the disk, left the files behind it.
    pub fn bring_up<'e>(
        &self,
        id: JobId,
        entries: impl IntoIterator<Item = &'e Entry>,
    ) -> Result<(), WriteError> {
        let mut lines = String::new();
        let mut made: Option<Job> = None;
        // Where each entry's lines end, so that only what comes after the log's last one is added.
        let mut ends: Vec<LoggedEntry> = Vec::new();
        for entry in entries {
            let is_taken = match &mut made {
                Some(known) => known.step(entry).is_ok(),
                None => {
                    made = Job::replay(id, [entry]);
                    made.is_some()
                }
            };
            if let Some(known) = made.as_ref().filter(|_| is_taken) {
                lines.push_str(&event_lines(known, entry));
                ends.push(LoggedEntry { seq: entry.seq, end: lines.len() });
            }
        }
        let Some(known) = made else { return Ok(()) };
        let logged = match read_bytes(&self.log_path(), FileKind::Bulk) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.is_absent() => Some(Vec::new()),
            // One that cannot be read is left as it is.
            Err(_) => None,
        };
        if let Some(logged) = logged {
            self.add_to_log(&what_lacks(&logged, lines.as_bytes(), &ends))?;
        }
        self.tell(&known)
    }

    /// Writes how an attempt went.
    pub(super) fn keep_attempt(&self, record: &AttemptRecord) -> Result<(), WriteError> {
        let name = format!("attempt-{:04}-{:04}.json", record.step_index, record.attempt);
        let text = serde_json::to_string_pretty(record).unwrap_or_default();
        self.write_derived(&self.dir.join("state/self_heal").join(name), text + "\n")
    }

    /// Writes what an attempt printed.
    pub(super) fn keep_output(
        &self,
        step: usize,
        attempt: u32,
        output: &Scrubbed,
    ) -> Result<(), WriteError> {
        let name = format!("step-{step:04}-attempt-{attempt:04}.log");
        self.write_derived(&self.dir.join("logs").join(name), output.as_str())
    }

    /// Returns the file of a step's patch.
    pub fn patch(&self, step: usize) -> PathBuf {
        self.dir.join(format!("artifacts/patches/steps/step-{step:04}.patch"))
    }

    fn record(&self, step: usize) -> PathBuf {
        self.dir.join(format!("state/steps/step-{step:04}.json"))
    }

    /// Writes the checkpoint of a step that is done.
    pub(super) fn keep_checkpoint(
        &self,
        record: &StepRecord,
        diff: &StepDiff,
        tree: &str,
    ) -> Result<Checkpoint, WriteError> {
        let text = serde_json::to_string_pretty(record).unwrap_or_default() + "\n";
        let (patch, state) = (self.patch(record.step_index), self.record(record.step_index));
        for parent in [&patch, &state].into_iter().filter_map(|path| path.parent()) {
            make_directories(parent).map_err(|error| WriteError::new(parent, error))?;
        }
        // The journal, which is written next, knows both by their hashes.
        atomic::write_together(&[
            FileText { path: &patch, bytes: &diff.patch },
            FileText { path: &state, bytes: text.as_bytes() },
        ])?;
        Ok(Checkpoint {
            patch: digest(&diff.patch),
            state: digest(text.as_bytes()),
            tree: digest(tree.as_bytes()),
        })
    }

    /// Reads the checkpoints back; each file must be what the journal says.
    pub(super) fn checkpoints(
        &self,
        known: &[Checkpoint],
    ) -> Result<Vec<ReplayStep>, BadCheckpoint> {
        let check = |path: PathBuf, wanted| {
            let Ok(bytes) = read_bytes(&path, FileKind::Bulk) else {
                return Err(BadCheckpoint { path, what: "missing" });
            };
            if digest(&bytes) == wanted {
                Ok((path, bytes))
            } else {
                Err(BadCheckpoint { path, what: "not what the step left" })
            }
        };
        let step = |(number, checkpoint): (usize, &Checkpoint)| {
            let (patch, _) = check(self.patch(number), checkpoint.patch)?;
            let (path, text) = check(self.record(number), checkpoint.state)?;
            let record: StepRecord = serde_json::from_slice(&text)
                .map_err(|_| BadCheckpoint { path, what: "not readable" })?;
            Ok(ReplayStep { patch, files: record.changed_files })
        };
        known.iter().enumerate().map(step).collect()
    }

    /// Returns what a step that is done left, for a queue to keep.
    pub(super) fn artifacts(&self, step: usize) -> Vec<JobArtifact> {
        let read = |path: PathBuf| {
            let name = path.file_name()?.to_string_lossy().into_owned();
            Some(JobArtifact { name, bytes: read_bytes(&path, FileKind::Bulk).ok()? })
        };
        [self.patch(step), self.record(step)].into_iter().filter_map(read).collect()
    }

    /// Writes what is missing of the steps that are done, as a queue kept it.
    pub fn give_back_missing(&self, of: &Job, queue: &dyn JobQueue) -> Result<(), StoreError> {
        for step in 0..of.checkpoints().len() {
            for path in [self.patch(step), self.record(step)] {
                let Some(name) = path.file_name().filter(|_| !path.exists()) else { continue };
                if let Some(bytes) = queue.artifact(of.id(), &name.to_string_lossy())? {
                    // What cannot be written is missed by whoever needs it.
                    let _ = self.write(&path, bytes);
                }
            }
        }
        Ok(())
    }

    /// Sets the files of a step and of those after it aside, for a run that goes on from before it.
    pub(super) fn set_aside(&self, branch: u32, from: usize, to: usize) -> Result<(), WriteError> {
        let aside = self.dir.join(format!("artifacts/branches/{branch:04}"));
        for step in from..to {
            for path in [self.patch(step), self.record(step)] {
                let Some(name) = path.file_name().filter(|_| path.exists()) else { continue };
                make_directories(&aside).map_err(|error| WriteError::new(&aside, error))?;
                let to = aside.join(name);
                rename(&path, &to).map_err(|error| WriteError::new(&to, error))?;
            }
        }
        Ok(())
    }

    /// Returns the file of what the whole job changed.
    pub fn result(&self) -> PathBuf {
        self.dir.join("artifacts/result.patch")
    }

    /// Writes what the whole job changed, for the user to take.
    pub(super) fn keep_result(&self, diff: &StepDiff) -> Result<(), WriteError> {
        self.write(&self.result(), &diff.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::{LoggedEntry, what_lacks};

    /// Compares what a log is after what it lacked was added to it.
    #[track_caller]
    fn check(logged: &str, want: &str) {
        let (one, two, last) = ("{\"seq\":4}\n{\"seq\":4}\n", "{\"seq\":7}\n", "{\"seq\":9}\n");
        let lines = [one, two, last].concat();
        let end = |seq, end| LoggedEntry { seq, end };
        let ends = [
            end(3, 0),
            end(4, one.len()),
            end(7, one.len() + two.len()),
            end(8, one.len() + two.len()),
            end(9, lines.len()),
        ];
        let lacks = what_lacks(logged.as_bytes(), lines.as_bytes(), &ends);
        assert_eq!(format!("{logged}{}", String::from_utf8(lacks).unwrap()), want);
    }

    #[test]
    fn a_log_that_lags_behind_its_journal_gets_the_rest() {
        let whole = "{\"seq\":4}\n{\"seq\":4}\n{\"seq\":7}\n{\"seq\":9}\n";
        for cut in 0..=whole.len() {
            check(&whole[..cut], whole);
        }
        // What another release wrote stays, and only what came later is added.
        check("{\"old\":1,\"seq\":4}\n", "{\"old\":1,\"seq\":4}\n{\"seq\":7}\n{\"seq\":9}\n");
        check("{\"seq\":8}\n{\"hal", "{\"seq\":8}\n{\"hal\n{\"seq\":9}\n");
        check("{\"seq\":12}", "{\"seq\":12}");
    }
}
