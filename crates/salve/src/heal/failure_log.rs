//! What a failure left behind, as a text for agents and people.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;
use salve_core::event::{SubjectKind, Symptom};
use salve_core::id::IncidentId;
use salve_core::playbook::PlaybookFinding;
use salve_core::repair::exit_text;
use salve_core::scrub::Scrubbed;

/// Everything that the log of a failure says.
#[derive(Clone, Debug)]
pub struct FailureLog {
    pub incident: IncidentId,
    /// Which failure of the incident it is: 1 for the one that opened it, and one more for each
    /// attempt since.
    pub number: u64,
    /// When it happened.
    pub at: Timestamp,
    /// What sort of thing failed.
    pub kind: SubjectKind,
    pub name: Scrubbed,
    /// What ran.
    pub command: Scrubbed,
    /// How long it ran.
    pub took: Duration,
    /// What was seen.
    pub symptom: Symptom,
    /// What was found out about it, for a person.
    pub findings: Vec<PlaybookFinding>,
    /// The last lines it wrote.
    pub evidence: Scrubbed,
}

impl FailureLog {
    /// Returns the log's text: a header of one fact a line, an empty line, the evidence.
    pub fn text(&self) -> String {
        let Self { incident, at, kind, name, command, took, symptom, findings, evidence, .. } =
            self;
        let mut text = String::new();
        let mut fact = |name: &str, value: &dyn std::fmt::Display| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name:<12} {value}");
        };
        let (subject, ran) = headings(*kind);
        fact("Incident:", incident);
        fact("Time:", at);
        fact(subject, name);
        fact("Command:", command);
        let exit = symptom.exit.as_ref();
        fact("Exit:", &exit.map_or_else(|| "unhealthy".to_owned(), exit_text));
        fact(ran, &format_args!("{:.1} s", took.as_secs_f64()));
        fact("Fingerprint:", &format_args!("{} ({})", symptom.signature, symptom.class));
        fact("Key line:", &symptom.key_line);
        for PlaybookFinding { what, next } in findings {
            fact("Found:", what);
            fact("Next:", next);
        }
        let _ = writeln!(text, "\n{}", evidence.as_str().trim_end());
        text
    }
}

/// Returns the evidence in the text of a log.
pub fn evidence(text: &str) -> &str {
    text.split_once("\n\n").map_or("", |(_, evidence)| evidence)
}

/// Returns what the header calls the subject and the time that it ran.
fn headings(kind: SubjectKind) -> (&'static str, &'static str) {
    match kind {
        SubjectKind::Server => ("Server:", "Uptime:"),
        SubjectKind::Check => ("Check:", "Took:"),
        SubjectKind::Tool => ("Tool:", "Took:"),
        SubjectKind::Step => ("Step:", "Took:"),
        SubjectKind::Iteration => ("Loop:", "Took:"),
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use salve_core::class::Class;
    use salve_core::event::{Acted, ProcessExit};
    use salve_core::id::Signature;
    use uuid::Uuid;

    use super::*;

    /// Returns the log of an incident of a server whose id begins with `id`.
    pub(crate) fn log(id: u128, code: i32) -> FailureLog {
        FailureLog {
            incident: IncidentId(Uuid::from_u128(id << 96)),
            number: 1,
            at: Timestamp::UNIX_EPOCH,
            kind: SubjectKind::Server,
            name: Scrubbed::literal("web"),
            command: Scrubbed::literal("npm run dev"),
            took: Duration::from_millis(4_230),
            symptom: Symptom {
                signature: Signature(7),
                class: Class::DependencyMissing,
                key_line: Scrubbed::literal("Error: Cannot find module 'express'"),
                exit: Some(ProcessExit::Code(code)),
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
    use salve_core::event::ProcessExit;

    use super::testing::log;
    use super::*;

    #[test]
    fn the_header_says_what_happened_and_the_evidence_follows() {
        insta::assert_snapshot!(log(0xa1b2_c3d4, 1).text(), @r"
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
        let log = log(1, 1);
        let killed = Symptom { exit: Some(ProcessExit::Signal(9)), ..log.symptom.clone() };
        let killed = FailureLog { symptom: killed, ..log.clone() };
        assert!(killed.text().contains("signal SIGKILL"));
        let (what, next) = ("express is not installed.", "npm install");
        let found =
            PlaybookFinding { what: Scrubbed::literal(what), next: Scrubbed::literal(next) };
        let log = FailureLog { findings: vec![found], kind: SubjectKind::Check, ..log };
        let header =
            "'express'\nFound:       express is not installed.\nNext:        npm install\n\n";
        let text = log.text();
        assert!(text.contains(header), "{text}");
        assert_eq!(evidence(&text), "one\nError: Cannot find module 'express'\n");
        assert_eq!(evidence("cut off"), "");
        assert!(text.contains("Check:       web\n") && text.contains("Took:        4.2 s\n"));
    }
}
