//! Who repairs this project's servers, and who runs them.
//!
//! `.dev-repair.lock` in the project's root says that a repair goes on: whose, and by which very
//! process. It is for people and other tools; that a repair has one owner is the journal's doing.
//! A lock is stale when that very process is gone, and then it is removed. What is no lock of ours
//! is set aside, never trusted and never lost.
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use salve_core::event::Process;
use salve_core::id::IncidentId;
use salve_core::scrub::Scrubber;

use crate::atomic::{self, WriteError};
use crate::files::{FileKind, read_bytes};
use crate::heal::right::LockHolder;
use crate::process;
use crate::project::Project;

/// The lock's name in the project's root.
const NAME: &str = ".dev-repair.lock";

/// How a lock was found at the start of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FoundLock {
    /// It is ours now.
    Ours,
    /// It is ours now; a dead process had left it.
    AfterTheDead(LockHolder),
    /// It is ours now; what stood there was no lock and is kept under this name.
    AfterRubbish(PathBuf),
    /// A process that lives, or may live, holds it.
    Held(LockHolder),
}

/// Takes the repair lock below `root` for `incident`.
///
/// # Errors
///
/// When the lock cannot be read or written; the repair may go on without it.
pub(super) fn take(
    root: &Path,
    incident: IncidentId,
    me: &Process,
    scrubber: &Scrubber,
) -> Result<FoundLock, WriteError> {
    let path = root.join(NAME);
    let text = serde_json::to_vec_pretty(&LockHolder::of(me, Some(incident))).unwrap_or_default();
    let mut taken = FoundLock::Ours;
    // Whoever takes a stale lock away may find that another was faster to put a new one there.
    for _ in 0..8 {
        if atomic::write_new(&path, &text)? == atomic::FileMade::New {
            return Ok(taken);
        }
        match read(&path) {
            None => {}
            Some(Ok(holder)) => {
                let process = holder.process(scrubber);
                if process == *me {
                    // Several servers of one run are repaired under one lock.
                    return Ok(FoundLock::Ours);
                }
                if !process::is_gone(&process, scrubber) {
                    return Ok(FoundLock::Held(holder));
                }
                remove(&path)?;
                taken = FoundLock::AfterTheDead(holder);
            }
            Some(Err(())) => {
                let aside = path.with_extension("lock.unreadable");
                fs::rename(&path, &aside).map_err(|error| WriteError::new(&path, error))?;
                taken = FoundLock::AfterRubbish(aside);
            }
        }
    }
    Ok(taken)
}

/// Returns whether another process that lives, or may live, holds the repair lock below `root`.
pub(super) fn is_held_by_another(root: &Path, me: &Process, scrubber: &Scrubber) -> bool {
    let Some(Ok(holder)) = read(&root.join(NAME)) else { return false };
    let process = holder.process(scrubber);
    process != *me && !process::is_gone(&process, scrubber)
}

/// Lets go of the repair lock below `root`, if it is ours.
pub(super) fn let_go(root: &Path, me: &Process, scrubber: &Scrubber) -> Result<(), WriteError> {
    let path = root.join(NAME);
    match read(&path) {
        Some(Ok(holder)) if holder.process(scrubber) == *me => remove(&path),
        Some(_) | None => Ok(()),
    }
}

/// Removes a repair lock whose very process is gone, and returns whose it was.
pub fn clear_stale(root: &Path, scrubber: &Scrubber) -> Result<Option<LockHolder>, WriteError> {
    let path = root.join(NAME);
    match read(&path) {
        Some(Ok(holder)) if process::is_gone(&holder.process(scrubber), scrubber) => {
            remove(&path)?;
            Ok(Some(holder))
        }
        Some(_) | None => Ok(None),
    }
}

/// Reads a lock: nothing, a holder, or something that is no lock of ours.
fn read(path: &Path) -> Option<Result<LockHolder, ()>> {
    match read_bytes(path, FileKind::Note) {
        Ok(text) => Some(serde_json::from_slice(&text).map_err(drop)),
        Err(error) if error.is_absent() => None,
        Err(_) => Some(Err(())),
    }
}

fn remove(path: &Path) -> Result<(), WriteError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(WriteError::new(path, error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Returns the servers of a project that some run of Salve cares for right now, by name.
pub fn cared_for(project: &Project, scrubber: &Scrubber) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(project.state_dir().join("run")) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "lock") {
            continue;
        }
        // The lock itself is not tried: whoever tries it has it for a moment.
        let held = read(&path).and_then(Result::ok).is_some_and(|holder| {
            let process = holder.process(scrubber);
            !process::is_gone(&process, scrubber)
        });
        if let Some(name) = path.file_stem().filter(|_| held) {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use salve_core::scrub::ScrubKey;
    use uuid::Uuid;

    use super::*;
    use crate::heal::right::{RunLock, RunRight};

    fn scrubber() -> Scrubber {
        Scrubber::new(ScrubKey::new([3; 32]))
    }

    fn id(n: u128) -> IncidentId {
        IncidentId(Uuid::from_u128(n))
    }

    fn read_lock(root: &Path) -> LockHolder {
        serde_json::from_str(&fs::read_to_string(root.join(NAME)).unwrap()).unwrap()
    }

    #[test]
    fn a_lock_says_which_repair_and_which_very_process() {
        let dir = tempfile::tempdir().unwrap();
        let scrubber = scrubber();
        let me = process::this(&scrubber);
        assert_eq!(take(dir.path(), id(7), &me, &scrubber).unwrap(), FoundLock::Ours);
        assert_eq!(read_lock(dir.path()), LockHolder::of(&me, Some(id(7))));
        assert_eq!(
            take(dir.path(), id(8), &me, &scrubber).unwrap(),
            FoundLock::Ours,
            "the same run"
        );
        let_go(dir.path(), &me, &scrubber).unwrap();
        assert!(!dir.path().join(NAME).exists());
        let_go(dir.path(), &me, &scrubber).unwrap();
    }

    #[test]
    fn a_lock_of_a_reused_pid_is_stale_and_one_of_another_host_is_not() {
        let scrubber = scrubber();
        let me = process::this(&scrubber);
        let reused = Process { started: me.started + 1, ..me.clone() };
        let elsewhere = Process { host: scrubber.scrub("elsewhere"), pid: 1, ..me.clone() };
        let dir = tempfile::tempdir().unwrap();
        let holder = LockHolder::of(&reused, Some(id(1)));
        fs::write(dir.path().join(NAME), serde_json::to_vec(&holder).unwrap()).unwrap();
        let taken = take(dir.path(), id(2), &me, &scrubber).unwrap();
        assert_eq!(taken, FoundLock::AfterTheDead(holder));

        let holder = LockHolder::of(&elsewhere, Some(id(1)));
        fs::write(dir.path().join(NAME), serde_json::to_vec(&holder).unwrap()).unwrap();
        let taken = take(dir.path(), id(2), &me, &scrubber).unwrap();
        assert_eq!(taken, FoundLock::Held(holder.clone()));
        let_go(dir.path(), &me, &scrubber).unwrap();
        assert_eq!(read_lock(dir.path()), holder, "another's lock stays");
        assert_eq!(clear_stale(dir.path(), &scrubber).unwrap(), None);
    }

    #[test]
    fn rubbish_is_set_aside_and_not_lost() {
        let dir = tempfile::tempdir().unwrap();
        let scrubber = scrubber();
        let me = process::this(&scrubber);
        for rubbish in ["", "{", "4711\n", "{\"pid\":1}", "\u{0}\u{1}"] {
            fs::write(dir.path().join(NAME), rubbish).unwrap();
            let FoundLock::AfterRubbish(aside) = take(dir.path(), id(1), &me, &scrubber).unwrap()
            else {
                panic!("{rubbish:?}");
            };
            assert_eq!(fs::read_to_string(aside).unwrap(), rubbish);
            assert_eq!(read_lock(dir.path()).repair_id, Some(id(1)));
            let_go(dir.path(), &me, &scrubber).unwrap();
        }
    }

    /// **Invariant:** A server has one run of Salve that cares for it.
    #[test]
    fn of_many_who_want_one_server_one_gets_it_and_the_others_are_told_who() {
        let dir = tempfile::tempdir().unwrap();
        let project = Project::at(dir.path()).unwrap();
        project.make_state_dir().unwrap();
        let me = process::this(&scrubber());
        for round in 0..100 {
            let server = &format!("web-{round}");
            let all: Vec<_> = std::thread::scope(|scope| {
                let tries: Vec<_> = (0..4)
                    .map(|_| scope.spawn(|| RunLock::take(&project, RunRight::Server(server), &me)))
                    .collect();
                tries.into_iter().map(|one| one.join().unwrap()).collect()
            });
            assert_eq!(all.iter().filter(|taken| taken.is_ok()).count(), 1, "{all:?}");
        }
        let held = RunLock::take(&project, RunRight::Server("web"), &me).unwrap();
        let refused = RunLock::take(&project, RunRight::Server("web"), &me).unwrap_err();
        assert!(refused.to_string().contains(&format!("process {}", me.pid)), "{refused}");
        drop(held);
        // A child that another test is just starting may have it open for a moment longer.
        while RunLock::take(&project, RunRight::Server("web"), &me).is_err() {
            std::thread::yield_now();
        }
    }
}
