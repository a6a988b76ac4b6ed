//! The crash logs in the project's root: one of each crash, and the latest under a fixed name.
//!
//! A log of its own per incident keeps two crashes from being taken for one another; what an
//! attempt led to does not replace what led to the attempt. Old ones are removed after a while;
//! those of an incident that is not over never are.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use salve_core::id::IncidentId;
use salve_core::repair::crash_log_name;

use crate::atomic::{self, WriteError};
use crate::heal::failure_log::FailureLog;

/// The name under which the latest crash is always found.
const LATEST: &str = ".dev-crash.log";

/// Everything that a crash log says.
#[derive(Clone, Debug)]
pub(super) struct CrashLog(pub(super) FailureLog);

impl CrashLog {
    pub(super) fn incident(&self) -> IncidentId {
        self.0.incident
    }

    /// Tells whether both are of the same failure of the same incident.
    pub(super) fn is_of_same_failure(&self, other: &Self) -> bool {
        (self.0.incident, self.0.number) == (other.0.incident, other.0.number)
    }

    /// Writes the incident's own log and the latest one below `root`; the log of the failure
    /// before it is kept under its number.
    pub(super) fn write(&self, root: &Path) -> Result<PathBuf, WriteError> {
        let text = self.0.text();
        let path = root.join(crash_log_name(self.incident()));
        if let Some(before) = self.0.number.checked_sub(1).filter(|before| *before > 0) {
            let kept = path.with_extension(format!("{before}.log"));
            if path.exists() && !kept.exists() {
                fs::rename(&path, &kept).map_err(|error| WriteError::new(&path, error))?;
            }
        }
        atomic::write(&path, &text)?;
        atomic::write(&root.join(LATEST), &text)?;
        Ok(path)
    }
}

/// Removes logs below `root` that are older than `kept`, except those of `open` incidents.
pub(super) fn tidy(root: &Path, kept: Duration, open: &[IncidentId], now: SystemTime) {
    let current: Vec<String> = open.iter().map(|id| crash_log_name(*id)).collect();
    let is_open =
        |file: &str| current.iter().any(|name| file.starts_with(name.trim_end_matches("log")));
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let file = entry.file_name();
        let Some(file) = file.to_str() else { continue };
        let age = entry.metadata().and_then(|meta| meta.modified());
        let is_old =
            age.is_ok_and(|written| now.duration_since(written).is_ok_and(|passed| passed > kept));
        if is_old && is_incidents(file) && !is_open(file) {
            // What cannot be removed today may be tomorrow.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Returns whether a file's name is that of an incident's log.
fn is_incidents(file: &str) -> bool {
    let id = file.strip_prefix(".dev-crash.").and_then(|rest| rest.strip_suffix(".log"));
    id.is_some_and(|id| {
        let (id, number) = id.split_once('.').unwrap_or((id, "1"));
        id.len() == 8
            && id.bytes().all(|byte| byte.is_ascii_hexdigit())
            && number.parse::<u64>().is_ok()
    })
}

#[cfg(test)]
pub(super) mod testing {
    use crate::heal::failure_log::testing;

    use super::*;

    /// Returns the log of an incident whose id begins with `id`.
    pub(in super::super) fn log(id: u128, code: i32) -> CrashLog {
        CrashLog(testing::log(id, code))
    }
}

#[cfg(test)]
mod tests {
    use super::testing::log;
    use super::*;

    #[test]
    fn each_incident_has_its_own_log_and_the_latest_has_a_fixed_name() {
        let dir = tempfile::tempdir().unwrap();
        let first = log(0x1111_1111, 1).write(dir.path()).unwrap();
        let second = log(0x2222_2222, 2).write(dir.path()).unwrap();
        assert_eq!(first, dir.path().join(".dev-crash.11111111.log"));
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        assert!(read(&first).contains("exit 1"));
        assert_eq!(read(&second), read(&dir.path().join(LATEST)));
    }

    #[test]
    fn what_an_attempt_led_to_does_not_replace_what_led_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let nth = |number, code| CrashLog(FailureLog { number, ..log(0x1111_1111, code).0 });
        for (number, code) in [(1, 1), (1, 2), (2, 3), (2, 4), (3, 5)] {
            nth(number, code).write(dir.path()).unwrap();
        }
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        for (name, exit) in [
            (".dev-crash.11111111.1.log", "exit 2"),
            (".dev-crash.11111111.2.log", "exit 4"),
            (".dev-crash.11111111.log", "exit 5"),
            (LATEST, "exit 5"),
        ] {
            assert!(read(name).contains(exit), "{name}: {}", read(name));
        }
        let (day, id) = (Duration::from_secs(86_400), nth(1, 1).incident());
        let later = SystemTime::now() + 2 * day;
        tidy(dir.path(), day, &[id], later);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4, "it is not over");
        tidy(dir.path(), day, &[], later);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn old_logs_go_except_those_of_open_incidents() {
        let dir = tempfile::tempdir().unwrap();
        let [old, open] = [0x1111_1111, 0x2222_2222].map(|id| log(id, 1));
        old.write(dir.path()).unwrap();
        open.write(dir.path()).unwrap();
        fs::write(dir.path().join(".dev-crash.notes.log"), "the user's own").unwrap();
        let day = Duration::from_secs(86_400);
        let later = SystemTime::now() + 2 * day;
        tidy(dir.path(), day, &[], SystemTime::now());
        assert!(dir.path().join(crash_log_name(old.incident())).exists(), "it is not old yet");
        tidy(dir.path(), day, &[open.incident()], later);
        let mut left: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [".dev-crash.22222222.log", LATEST, ".dev-crash.notes.log"]);
    }
}
