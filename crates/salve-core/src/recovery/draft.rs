//! Proposals: the tester's as the journal keeps it, and Salve's own from failure and playbook.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Execution;
use crate::class::Class;
use crate::event::{Attempted, ProposalSource, Proposed};
use crate::gate::{
    Category, Confidence, DEFAULT_TIMEOUT_SECONDS, MAX_TIMEOUT_SECONDS, RecoveryProposal, Request,
    Severity, Which,
};
use crate::playbook::{Action, ActionStep, Diagnosis, Prescription};
use crate::scrub::{Scrubbed, Scrubber};

/// The longest line of evidence.
const LINE: usize = 500;

/// A failure that a proposal is drafted for.
#[derive(Clone, Copy, Debug)]
pub struct DraftedFailure<'a> {
    /// When it was diagnosed.
    pub at: Timestamp,
    /// Its kind.
    pub class: Class,
    /// The line that names it.
    pub key_line: &'a Scrubbed,
    /// What the tests wrote.
    pub output: &'a Scrubbed,
    /// How much of them executed.
    pub execution: Execution,
    /// What was made of its cause.
    pub diagnosis: &'a Diagnosis,
}

/// Drafts a proposal from what the playbook prescribes; nothing if it prescribes no command.
pub fn draft(failure: &DraftedFailure<'_>, scrubber: &Scrubber) -> Option<Proposed> {
    // What would only hold for a run of ours is no command that helps a loop.
    let is_command =
        |one: &&Prescription| !one.action.is_restart() && !one.action.only_sets_variables();
    let commands = failure.diagnosis.remedies.iter().filter(is_command);
    let mut commands = commands.take(2);
    let first = commands.next()?;
    let line = failure.key_line.head(LINE);
    let number = line_number(failure.output.as_str(), line.as_str());
    let findings = failure.diagnosis.findings.first();
    Some(Proposed {
        source: ProposalSource::Salve,
        timestamp: failure.at,
        category: category(failure.class, &first.rule),
        severity: match failure.execution {
            Execution::Partly => Severity::Degraded,
            Execution::All | Execution::InVain | Execution::Nothing => Severity::Blocking,
        },
        error_pattern: scrubber.scrub(&regex_syntax::escape(line.as_str())),
        root_cause: findings.map_or(&first.why, |finding| &finding.what).clone(),
        evidence: vec![scrubber.scrub(&format!("test-output.txt:{number}: {line}"))],
        recovery: attempted(first, scrubber),
        expected_outcome: Scrubbed::literal("the tests can execute"),
        fallback: commands.next().map(|next| attempted(next, scrubber)),
    })
}

fn attempted(prescription: &Prescription, scrubber: &Scrubber) -> Attempted {
    let command = match prescription.action.variables().next() {
        None => prescription.remedy.text.clone(),
        Some(_) => scrubber.scrub(&prescription.action.without_variables().text()),
    };
    Attempted {
        command,
        working_dir: Scrubbed::literal("."),
        timeout_seconds: seconds(&prescription.action),
        confidence: Some(if prescription.is_safe() {
            Confidence::High
        } else {
            Confidence::Medium
        }),
    }
}

/// Returns how long all steps of an action may take together.
fn seconds(action: &Action) -> u64 {
    let limits = action.steps.iter().map(|step| match step {
        ActionStep::Run { limit, .. } => limit.as_secs(),
        ActionStep::SetAside { .. }
        | ActionStep::CopyAside { .. }
        | ActionStep::Clear { .. }
        | ActionStep::Unlock { .. }
        | ActionStep::End { .. }
        | ActionStep::Environment { .. } => 0,
    });
    match limits.sum() {
        0 => DEFAULT_TIMEOUT_SECONDS,
        all => u64::min(all, MAX_TIMEOUT_SECONDS),
    }
}

/// Returns where a line stands in an output, from 1.
fn line_number(output: &str, line: &str) -> usize {
    let at = output.lines().position(|one| one.contains(line));
    at.map_or(1, |at| at + 1)
}

fn category(class: Class, rule: &str) -> Category {
    let of_packages = ["node.", "python.", "cargo.", "go.", "ruby.", "php.", "check."];
    let named = class.categories().recovery.and_then(Category::from_name);
    match named {
        Some(category) => category,
        None if of_packages.iter().any(|start| rule.starts_with(start)) => Category::Dependency,
        None => Category::Environment,
    }
}

/// Returns a tester's proposal as the journal keeps it.
pub fn proposed(proposal: &RecoveryProposal, scrubber: &Scrubber) -> Proposed {
    let scrub = |text: &str| scrubber.scrub(text);
    let attempted = |request: &Request, confidence| Attempted {
        command: scrub(request.command()),
        working_dir: scrub(request.working_dir()),
        timeout_seconds: request.timeout_seconds(),
        confidence,
    };
    let fallback = proposal.request(Which::Fallback).ok();
    Proposed {
        source: ProposalSource::Tester,
        timestamp: proposal.timestamp,
        category: proposal.category,
        severity: proposal.severity,
        error_pattern: scrub(&proposal.diagnosis.error_pattern),
        root_cause: scrub(&proposal.diagnosis.root_cause),
        evidence: proposal.diagnosis.evidence.iter().map(|line| scrub(line)).collect(),
        recovery: attempted(proposal.recovery(), Some(proposal.confidence)),
        expected_outcome: scrub(&proposal.expected_outcome),
        fallback: fallback.map(|request| attempted(request, proposal.fallback_confidence)),
    }
}

/// Returns a proposal in the recovery format.
pub fn to_json(proposed: &Proposed) -> Value {
    let Attempted { command, working_dir, timeout_seconds, confidence } = &proposed.recovery;
    let mut value = json!({
        "version": 1,
        "source": proposed.source,
        "timestamp": proposed.timestamp,
        "category": proposed.category,
        "severity": proposed.severity,
        "diagnosis": {
            "error_pattern": proposed.error_pattern,
            "root_cause": proposed.root_cause,
            "evidence": proposed.evidence,
        },
        "recovery": {
            "command": command,
            "working_dir": working_dir,
            "timeout_seconds": timeout_seconds,
            "expected_outcome": proposed.expected_outcome,
            "confidence": confidence,
        },
    });
    if let Some(fallback) = &proposed.fallback {
        let mut other = json!({
            "command": fallback.command,
            "working_dir": fallback.working_dir,
            "timeout_seconds": fallback.timeout_seconds,
        });
        if let Some(confidence) = fallback.confidence {
            other["confidence"] = json!(confidence);
        }
        value["fallback"] = other;
    }
    value
}

#[cfg(test)]
mod tests;
