//! Directories of jobs that were killed before they began.
//!
//! A job begins with its first entry in the journal. Whoever is killed while the workspace is still
//! being made leaves a directory that no command can name; the next job that begins removes it.

use std::collections::BTreeSet;
use std::io;

use super::known;
use crate::files;
use crate::heal::right::{RunLock, RunRight};
use crate::project::Project;
use crate::store::{Store, StoreError};
use crate::workspace::StepStore;

/// Removes the directories of jobs that never began.
///
/// **Invariant:** a directory goes only if its lock was held once and nobody holds it now, the journal
/// does not know its job, and nothing was ever told about it: a job whose journal was lost has results
/// that somebody may want.
pub fn sweep_unbegun(project: &Project, store: &Store) -> Result<(), StoreError> {
    let jobs = project.state_dir().join("jobs");
    let Ok(entries) = files::list(&jobs) else { return Ok(()) };
    let mut rights = Vec::new();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_told = ["state.json", "events.jsonl", "artifacts"];
        if is_told.iter().any(|told| path.join(told).symlink_metadata().is_ok()) {
            continue;
        }
        if let Some(right) = RunLock::take_abandoned(project, RunRight::Job(&name)) {
            rights.push((name, right));
        }
    }
    if rights.is_empty() {
        return Ok(());
    }
    // Read with the rights in hand: whoever had one has written its first entry by now, or never will.
    let begun: BTreeSet<String> = known(store)?.iter().map(|job| job.id().short()).collect();
    for (name, right) in rights {
        if !begun.contains(&name) {
            StepStore::forget(project.root(), &jobs.join(&name));
            // What cannot be removed is met by the next one.
            let _: io::Result<()> = files::remove_tree(&jobs.join(&name));
        }
        drop(right);
    }
    Ok(())
}
