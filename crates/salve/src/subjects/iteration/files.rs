//! The files of a loop: `.salve/loops/<id>/`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use salve_core::event::{LoopId, TestsSeen};
use salve_core::iteration::{Loop, LoopStateFile, RoleFile};
use salve_core::scrub::Scrubbed;
use serde::Serialize;

use crate::atomic::{self, WriteError};
use crate::files::{make_directories, read_start};
use crate::project::Project;

/// The files that are never set aside with an iteration: they are the whole loop's.
const WHOLE: [&str; 6] =
    ["state.json", "events.jsonl", "usage.jsonl", "task.md", "report.md", "escalation.json"];

/// The largest file that is kept with an iteration, and the most that is read of one.
const LARGEST: u64 = 4 << 20;

/// What the known files of a loop are.
const ABOUT: [(&str, &str); 8] = [
    ("task.md", "the task"),
    ("plan.md", "the planner's plan"),
    ("implementation.md", "what the implementer did"),
    ("test-output.txt", "what the tests printed"),
    ("test-results.json", "what Salve made of it"),
    ("test-report.md", "the tester's report"),
    ("review.md", "the reviewer's review"),
    ("recovery.json", "the recovery that was proposed"),
];

/// The directory of one loop.
#[derive(Clone, Debug)]
pub struct Folder {
    dir: PathBuf,
    /// Its path below the project's root.
    below: String,
}

/// By what a file is known to have been written: which file it is, and when it last changed.
type FileIdentity = (u64, i64, i64);

/// What files there were at a moment.
#[derive(Clone, Debug, Default)]
pub(super) struct FileIdentities(BTreeMap<String, FileIdentity>);

/// What `test-results.json` says.
#[derive(Serialize)]
struct Results<'r> {
    version: u32,
    loop_id: &'r LoopId,
    iteration: u32,
    command: &'r Scrubbed,
    results: &'r TestsSeen,
}

impl Folder {
    /// Returns the directory of a loop, which need not be there yet.
    pub fn of(project: &Project, id: &LoopId) -> Self {
        let state = project.state_dir();
        let name = state.file_name().unwrap_or_default().to_string_lossy();
        let below = format!("{name}/loops/{id}");
        Self { dir: state.join("loops").join(id.as_str()), below }
    }

    /// Returns its path.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Makes the directory and writes down what is to be done.
    pub(super) fn make(&self, task: &Scrubbed) -> Result<(), WriteError> {
        self.make_dir(&self.dir)?;
        atomic::write(&self.dir.join("task.md"), format!("{}\n", task.as_str().trim_end()))
    }

    fn make_dir(&self, dir: &Path) -> Result<(), WriteError> {
        make_directories(dir).map_err(|error| WriteError::new(dir, error))
    }

    /// Returns the path of a file below the project's root.
    pub(super) fn below(&self, name: &str) -> String {
        format!("{}/{name}", self.below)
    }

    /// Writes how the loop stands.
    pub(super) fn tell(&self, state: &LoopStateFile) -> Result<(), WriteError> {
        let text = serde_json::to_string_pretty(state).unwrap_or_default();
        atomic::write(&self.dir.join("state.json"), text + "\n")
    }

    /// Writes what a run of the tests printed and what was made of it.
    pub(super) fn keep_tests(
        &self,
        of: &Loop,
        command: &Scrubbed,
        output: &Scrubbed,
        seen: &TestsSeen,
    ) -> Result<(), WriteError> {
        atomic::write(&self.dir.join("test-output.txt"), output.as_str())?;
        let results = Results {
            version: 1,
            loop_id: of.id(),
            iteration: of.iteration(),
            command,
            results: seen,
        };
        let text = serde_json::to_string_pretty(&results).unwrap_or_default();
        atomic::write(&self.dir.join("test-results.json"), text + "\n")
    }

    /// Writes how the loop ended, for people.
    pub(super) fn keep_report(&self, report: &str) -> Result<(), WriteError> {
        atomic::write(&self.dir.join("report.md"), report)
    }

    /// Returns the loop's files that a role may read.
    pub(super) fn readable(&self) -> Vec<RoleFile> {
        let there = ABOUT.iter().filter(|(name, _)| is_file(&self.dir.join(name)));
        let mut files: Vec<RoleFile> = there
            .map(|(name, about)| RoleFile { path: self.below(name), about: (*about).to_owned() })
            .collect();
        if self.dir.join("iterations").is_dir() {
            let about = "the same files of earlier iterations, by number".to_owned();
            files.push(RoleFile { path: self.below("iterations/"), about });
        }
        files
    }

    /// Looks at files, to tell later which of them were written.
    pub(super) fn stamps(&self, names: &[String]) -> FileIdentities {
        let stamp = |name: &String| Some((name.clone(), stamp(&self.dir.join(name))?));
        FileIdentities(names.iter().filter_map(stamp).collect())
    }

    /// Returns which of these files were not written since, or are empty or no files.
    pub(super) fn unwritten(&self, names: &[String], before: &FileIdentities) -> Vec<String> {
        let is_missing = |name: &&String| {
            let path = self.dir.join(name);
            let is_empty = fs::symlink_metadata(&path).is_ok_and(|about| about.len() == 0);
            let now = stamp(&path);
            now.is_none() || is_empty || now.as_ref() == before.0.get(*name)
        };
        names.iter().filter(is_missing).cloned().collect()
    }

    /// Returns what a file says, as far as it is read.
    pub(super) fn read(&self, name: &str) -> Option<String> {
        let bytes = read_start(&self.dir.join(name), LARGEST).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Keeps an iteration's files beside those of the others, and takes its proposal away, which
    /// is no other iteration's.
    pub(super) fn set_aside(&self, iteration: u32) -> Result<(), WriteError> {
        let to = self.dir.join("iterations").join(format!("{iteration:04}"));
        let Ok(there) = fs::read_dir(&self.dir) else { return Ok(()) };
        for entry in there.flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else { continue };
            let path = self.dir.join(name);
            if WHOLE.contains(&name) || !is_file(&path) {
                continue;
            }
            self.make_dir(&to)?;
            let text = self.read(name).unwrap_or_default();
            atomic::write(&to.join(name), text)?;
            if name == "recovery.json" {
                fs::remove_file(&path).map_err(|error| WriteError::new(&path, error))?;
            }
        }
        Ok(())
    }
}

/// Returns whether there is a file of its own, neither a link nor anything else.
fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|about| about.is_file())
}

fn stamp(path: &Path) -> Option<FileIdentity> {
    let about = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?;
    Some((about.ino(), about.ctime(), about.ctime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(dir: &Path) -> Folder {
        let project = Project::at(dir).unwrap();
        let folder = Folder::of(&project, &"v1".parse().unwrap());
        folder.make(&Scrubbed::literal("do it")).unwrap();
        folder
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_file_counts_only_if_it_was_written_since() {
        let dir = tempfile::tempdir().unwrap();
        let folder = folder(dir.path());
        let path = |name: &str| folder.dir().join(name);
        for name in ["same.md", "grown.md", "replaced.md"] {
            fs::write(path(name), "old").unwrap();
        }
        let all = names(&["same.md", "grown.md", "replaced.md", "new.md", "none.md", "link.md"]);
        let before = folder.stamps(&all);
        assert_eq!(folder.unwritten(&all, &before), all);
        // The clock by which changes are told may be coarse.
        let grow = || fs::write(path("grown.md"), "old").unwrap();
        grow();
        while folder.unwritten(&names(&["grown.md"]), &before) == ["grown.md"] {
            grow();
        }
        atomic::write(&path("replaced.md"), "old").unwrap();
        fs::write(path("new.md"), "new").unwrap();
        std::os::unix::fs::symlink("new.md", path("link.md")).unwrap();
        assert_eq!(folder.unwritten(&all, &before), ["same.md", "none.md", "link.md"]);
        fs::write(path("empty.md"), "").unwrap();
        assert_eq!(folder.unwritten(&names(&["empty.md"]), &before), ["empty.md"]);
    }

    #[test]
    fn an_iterations_files_are_kept_and_its_proposal_does_not_outlive_it() {
        let dir = tempfile::tempdir().unwrap();
        let folder = folder(dir.path());
        for name in ["plan.md", "recovery.json", "state.json"] {
            fs::write(folder.dir().join(name), name).unwrap();
        }
        fs::write(dir.path().join("key"), "secret").unwrap();
        std::os::unix::fs::symlink(dir.path().join("key"), folder.dir().join("key.md")).unwrap();
        folder.set_aside(3).unwrap();
        folder.set_aside(3).unwrap();
        let kept = folder.dir().join("iterations/0003");
        let there = fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap().file_name());
        let mut there: Vec<_> = there.map(|name| name.into_string().unwrap()).collect();
        there.sort();
        assert_eq!(there, ["plan.md", "recovery.json"]);
        assert_eq!(fs::read_to_string(kept.join("plan.md")).unwrap(), "plan.md");
        assert!(folder.dir().join("plan.md").exists() && folder.dir().join("state.json").exists());
        assert!(!folder.dir().join("recovery.json").exists());
    }
}
