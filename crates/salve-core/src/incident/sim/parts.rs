//! Small made-up values for simulated incidents.

use jiff::Timestamp;
use uuid::Uuid;

use crate::class::Class;
use crate::event::{
    Acted, Actor, AtALoss, Digest, IncidentPolicy, Judgement, OnFailure, Process, Remedy,
    RemedyKind, RemedyOrigin, RemedyVerdict, RepairMode, Repeat, ResourceLimits, Subject,
    SubjectKind, Symptom, Undo,
};
use crate::id::{IncidentId, Signature};
use crate::scrub::Scrubbed;

/// Returns the simulated incident's id.
pub fn id() -> IncidentId {
    IncidentId(Uuid::from_u128(0x5a1e))
}

/// Returns a time, in milliseconds after the simulation began.
pub fn time(ms: u64) -> Timestamp {
    super::super::later(Timestamp::UNIX_EPOCH, ms)
}

/// Returns a process of Salve.
pub fn process(pid: u32) -> Process {
    Process { pid, started: u64::from(pid) * 100, host: Scrubbed::literal("here") }
}

pub fn person(name: &'static str) -> Actor {
    Actor::Person { name: Scrubbed::literal(name) }
}

pub fn agent() -> Actor {
    Actor::Agent { name: Scrubbed::literal("coder") }
}

pub fn subject(kind: SubjectKind, repeat: Repeat) -> Subject {
    Subject { kind, name: Scrubbed::literal("web"), repeat }
}

/// Returns a failure of a build, in a tree.
pub fn symptom(signature: u64, tree: &str) -> Symptom {
    Symptom {
        signature: Signature(signature),
        class: Class::BuildError,
        key_line: Scrubbed::literal("it broke"),
        exit: None,
        tree: Some(Digest::of(&[tree.as_bytes()])),
        acted: Acted::No,
    }
}

/// Returns a remedy as it is usual for its kind.
pub fn remedy(kind: RemedyKind, name: &'static str) -> Remedy {
    let (undo, repeat) = match kind {
        RemedyKind::Retry => (Undo::Nothing, Repeat::Safe),
        RemedyKind::Agent => (Undo::Snapshot, Repeat::Safe),
        RemedyKind::Command | RemedyKind::Patch => (Undo::Snapshot, Repeat::Unsafe),
        RemedyKind::SoftReset | RemedyKind::HardReset => (Undo::Nothing, Repeat::Safe),
    };
    let digest = Digest::of_command(name, ".", 1_000);
    let text = Scrubbed::literal(name);
    Remedy { kind, origin: RemedyOrigin::Playbook, text, digest, undo, repeat }
}

pub fn judgement(verdict: RemedyVerdict) -> Judgement {
    let (rule, reason) = (Scrubbed::literal("rule"), Scrubbed::literal("because"));
    Judgement { verdict, rule, reason }
}

/// Returns the spec's defaults for a dev server.
pub fn policy() -> IncidentPolicy {
    IncidentPolicy {
        person: Scrubbed::literal("ada"),
        mode: RepairMode::Legacy,
        listener: None,
        starts: None,
        limits: ResourceLimits { attempts: Some(3), ..ResourceLimits::default() },
        backoff_ms: 2_000,
        engage_ms: 30_000,
        write_ms: 120_000,
        quiet_ms: 2_000,
        watch_ms: 0,
        cooldown_ms: 600_000,
        max_files: 8,
        max_lines: 300,
        no_progress_limit: None,
        catastrophe_after: None,
        on_failure: OnFailure::Undo,
        at_a_loss: AtALoss::Ask,
    }
}
