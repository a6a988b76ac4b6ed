//! Drafts are complete proposals, and only for what the playbook has a command against.

use super::*;
use crate::event::{Digest, Remedy, RemedyKind, RemedyOrigin, Repeat, Undo};
use crate::playbook::{Gate, Nature, PlaybookFinding};
use crate::scrub::ScrubKey;

fn scrubber() -> Scrubber {
    Scrubber::new(ScrubKey::new([1; 32]))
}

fn prescription(text: &'static str, action: Action, gate: Gate) -> Prescription {
    Prescription {
        rule: "node.binary-mismatch".into(),
        action,
        gate,
        remedy: Remedy {
            kind: RemedyKind::Command,
            origin: RemedyOrigin::Playbook,
            text: Scrubbed::literal(text),
            digest: Digest::of(&[text.as_bytes()]),
            undo: Undo::Nothing,
            repeat: Repeat::Safe,
        },
        why: Scrubbed::literal("the binary is another version's"),
    }
}

fn run(seconds: u64) -> Action {
    let limit = std::time::Duration::from_secs(seconds);
    let (argv, edits) = (vec!["npm".into(), "ci".into()], crate::playbook::Edits::Derived);
    Action { steps: vec![ActionStep::Run { argv, dir: String::new(), limit, edits }] }
}

fn drafted(remedies: Vec<Prescription>, execution: Execution) -> Option<Proposed> {
    let finding = PlaybookFinding {
        what: Scrubbed::literal("esbuild's parts differ"),
        next: Scrubbed::literal("npm ci"),
    };
    let diagnosis = Diagnosis {
        nature: Nature::Infrastructure,
        rule: Some("node.binary-mismatch".into()),
        remedies,
        findings: vec![finding],
    };
    let key_line = Scrubbed::literal("Error: Host version \"0.21.5\" (esbuild)");
    let output = Scrubbed::literal("> vitest\n\nError: Host version \"0.21.5\" (esbuild)\n");
    let failure = DraftedFailure {
        at: Timestamp::UNIX_EPOCH,
        class: Class::VersionMismatch,
        key_line: &key_line,
        output: &output,
        execution,
        diagnosis: &diagnosis,
    };
    draft(&failure, &scrubber())
}

#[test]
fn a_draft_is_a_complete_proposal() {
    let remedies = vec![
        prescription("npm ci", run(600), Gate::Safe),
        prescription("npm install", run(9_999), Gate::Ask),
    ];
    let draft = drafted(remedies, Execution::Nothing).unwrap();
    let value = to_json(&draft);
    assert_eq!((&value["source"], &value["version"]), (&json!("salve"), &json!(1)));
    assert_eq!(
        (&value["category"], &value["severity"]),
        (&json!("dependency"), &json!("blocking"))
    );
    let evidence = "test-output.txt:3: Error: Host version \"0.21.5\" (esbuild)";
    assert_eq!(value["diagnosis"]["evidence"], json!([evidence]));
    assert_eq!(value["diagnosis"]["root_cause"], "esbuild's parts differ");
    // Whoever reads it takes it for what it is: every field is there and valid.
    let proposal = RecoveryProposal::read(&value).unwrap();
    assert_eq!(proposal.recovery(), &Request::new("npm ci", ".", 600).unwrap());
    assert_eq!(proposal.confidence, Confidence::High);
    let fallback = proposal.request(Which::Fallback).unwrap();
    assert_eq!(fallback, &Request::new("npm install", ".", MAX_TIMEOUT_SECONDS).unwrap());
    let again = proposed(&proposal, &scrubber());
    assert_eq!(Proposed { source: ProposalSource::Salve, ..again }, draft);
}

#[test]
fn nothing_is_drafted_without_a_command_and_a_part_is_degraded() {
    let again = prescription("restart", Action::restart(), Gate::Safe);
    assert_eq!(drafted(vec![again.clone()], Execution::Nothing), None);
    assert_eq!(drafted(Vec::new(), Execution::Nothing), None);
    let remedies = vec![again, prescription("npm ci", run(1), Gate::Safe)];
    let draft = drafted(remedies, Execution::Partly).unwrap();
    assert_eq!(draft.severity, Severity::Degraded);
    assert_eq!(draft.recovery.command, "npm ci");
    assert_eq!(draft.fallback, None);
}
