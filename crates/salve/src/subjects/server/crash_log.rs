//! The crash logs in the project's root: one of each crash, and the latest under a fixed name.
//!
//! A log of its own per incident keeps two crashes from being taken for one another. Old ones are
//! removed after a while; those of an incident that is not over never are.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use salve_core::event::Symptom;
use salve_core::id::IncidentId;
use salve_core::playbook::Finding;
use salve_core::repair::{crash_log_name, exit_text};
use salve_core::scrub::Scrubbed;

use crate::atomic::{self, WriteError};

/// The name under which the latest crash is always found.
const LATEST: &str = ".dev-crash.log";

/// Everything that a crash log says.
#[derive(Clone, Debug)]
pub(super) struct CrashLog {
    /// The incident.
    pub(super) incident: IncidentId,
    /// When it happened.
    pub(super) at: Timestamp,
    /// The server's name.
    pub(super) server: Scrubbed,
    /// What ran.
    pub(super) command: Scrubbed,
    /// How long it ran.
    pub(super) uptime: Duration,
    /// What was seen.
    pub(super) symptom: Symptom,
    /// What was found out about it, for a person.
    pub(super) findings: Vec<Finding>,
    /// The last lines it wrote.
    pub(super) evidence: Scrubbed,
}

impl CrashLog {
    /// Returns the log's text: a header of one fact a line, an empty line, the evidence.
    pub(super) fn text(&self) -> String {
        let Self { incident, at, server, command, uptime, symptom, findings, evidence } = self;
        let mut text = String::new();
        let mut fact = |name: &str, value: &dyn std::fmt::Display| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name:<12} {value}");
        };
        fact("Incident:", incident);
        fact("Time:", at);
        fact("Server:", server);
        fact("Command:", command);
        let exit = symptom.exit.as_ref();
        fact("Exit:", &exit.map_or_else(|| "unhealthy".to_owned(), exit_text));
        fact("Uptime:", &format_args!("{:.1} s", uptime.as_secs_f64()));
        fact("Fingerprint:", &format_args!("{} ({})", symptom.signature, symptom.class));
        fact("Key line:", &symptom.key_line);
        for Finding { what, next } in findings {
            fact("Found:", what);
            fact("Next:", next);
        }
        let _ = writeln!(text, "\n{}", evidence.as_str().trim_end());
        text
    }

    /// Writes the incident's own log and the latest one below `root`.
    pub(super) fn write(&self, root: &Path) -> Result<PathBuf, WriteError> {
        let text = self.text();
        let path = root.join(crash_log_name(self.incident));
        atomic::write(&path, &text)?;
        atomic::write(&root.join(LATEST), &text)?;
        Ok(path)
    }
}

/// Removes logs below `root` that are older than `kept`, except those of `open` incidents.
pub(super) fn tidy(root: &Path, kept: Duration, open: &[IncidentId], now: SystemTime) {
    let current: Vec<String> = open.iter().map(|id| crash_log_name(*id)).collect();
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let file = entry.file_name();
        let Some(file) = file.to_str() else { continue };
        let age = entry.metadata().and_then(|meta| meta.modified());
        let is_old =
            age.is_ok_and(|written| now.duration_since(written).is_ok_and(|passed| passed > kept));
        if is_old && is_incidents(file) && !current.iter().any(|name| name == file) {
            // What cannot be removed today may be tomorrow.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Returns whether a file's name is that of an incident's log.
fn is_incidents(file: &str) -> bool {
    let id = file.strip_prefix(".dev-crash.").and_then(|rest| rest.strip_suffix(".log"));
    id.is_some_and(|id| id.len() == 8 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
pub(super) mod testing {
    use salve_core::class::Class;
    use salve_core::event::{Acted, Exit};
    use salve_core::id::Signature;
    use uuid::Uuid;

    use super::*;

    /// Returns the log of an incident whose id begins with `id`.
    pub(in super::super) fn log(id: u128, code: i32) -> CrashLog {
        CrashLog {
            incident: IncidentId(Uuid::from_u128(id << 96)),
            at: Timestamp::UNIX_EPOCH,
            server: Scrubbed::literal("web"),
            command: Scrubbed::literal("npm run dev"),
            uptime: Duration::from_millis(4_230),
            symptom: Symptom {
                signature: Signature(7),
                class: Class::DependencyMissing,
                key_line: Scrubbed::literal("Error: Cannot find module 'express'"),
                exit: Some(Exit::Code(code)),
                tree: None,
                acted: Acted::No,
            },
            findings: Vec::new(),
            evidence: Scrubbed::literal("one\nError: Cannot find module 'express'\n\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use salve_core::event::Exit;

    use super::*;

    fn log(id: u128, exit: Exit) -> CrashLog {
        let log = testing::log(id, 1);
        CrashLog { symptom: Symptom { exit: Some(exit), ..log.symptom.clone() }, ..log }
    }

    #[test]
    fn the_header_says_what_happened_and_the_evidence_follows() {
        insta::assert_snapshot!(log(0xa1b2_c3d4, Exit::Code(1)).text(), @r"
        Incident:    a1b2c3d4-0000-0000-0000-000000000000
        Time:        1970-01-01T00:00:00Z
        Server:      web
        Command:     npm run dev
        Exit:        exit 1
        Uptime:      4.2 s
        Fingerprint: 0000000000000007 (dependency_missing)
        Key line:    Error: Cannot find module 'express'

        one
        Error: Cannot find module 'express'
        ");
        assert!(log(1, Exit::Signal(9)).text().contains("signal SIGKILL"));
        let (what, next) = ("express is not installed.", "npm install");
        let found = Finding { what: Scrubbed::literal(what), next: Scrubbed::literal(next) };
        let log = CrashLog { findings: vec![found], ..log(1, Exit::Code(1)) };
        let header =
            "'express'\nFound:       express is not installed.\nNext:        npm install\n\n";
        assert!(log.text().contains(header), "{}", log.text());
    }

    #[test]
    fn each_incident_has_its_own_log_and_the_latest_has_a_fixed_name() {
        let dir = tempfile::tempdir().unwrap();
        let first = log(0x1111_1111, Exit::Code(1)).write(dir.path()).unwrap();
        let second = log(0x2222_2222, Exit::Code(2)).write(dir.path()).unwrap();
        assert_eq!(first, dir.path().join(".dev-crash.11111111.log"));
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        assert!(read(&first).contains("exit 1"));
        assert_eq!(read(&second), read(&dir.path().join(LATEST)));
    }

    #[test]
    fn old_logs_go_except_those_of_open_incidents() {
        let dir = tempfile::tempdir().unwrap();
        let [old, open] = [0x1111_1111, 0x2222_2222].map(|id| log(id, Exit::Code(1)));
        old.write(dir.path()).unwrap();
        open.write(dir.path()).unwrap();
        fs::write(dir.path().join(".dev-crash.notes.log"), "the user's own").unwrap();
        let day = Duration::from_secs(86_400);
        let later = SystemTime::now() + 2 * day;
        tidy(dir.path(), day, &[], SystemTime::now());
        assert!(dir.path().join(crash_log_name(old.incident)).exists(), "it is not old yet");
        tidy(dir.path(), day, &[open.incident], later);
        let mut left: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [".dev-crash.22222222.log", LATEST, ".dev-crash.notes.log"]);
    }
}
