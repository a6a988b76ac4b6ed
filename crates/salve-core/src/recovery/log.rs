//! The lines of a loop's `events.jsonl`.

use jiff::Timestamp;
use serde::Serialize;

use crate::event::{
    EffectReport, Entry, Event, IncidentEvent, IncidentOutcome, Proof, RecoveryEvent, RemedyKind,
    RemedyVerdict,
};
use crate::gate::{Category, Confidence};
use crate::id::IncidentId;
use crate::scrub::Scrubbed;
use crate::view::{AskedQuestion, Fulfilment, IncidentView, QuestionSettled};

/// One line: the recovery format's event with its fields, and when and where it happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LogLine {
    /// What happened.
    pub event: &'static str,
    /// What kind of infrastructure is broken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<Category>,
    /// On whose word: `auto` or `human`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Scrubbed>,
    /// How sure its proposer says it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// How it ended: `null` if by a signal or its time-out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<Option<i32>>,
    /// How long it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Scrubbed>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Scrubbed>,
    /// Who is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub awaiting: Option<&'static str>,
    /// Who settled it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<&'static str>,
    /// How it was settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<&'static str>,
    /// What was remarked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<Scrubbed>,
    /// The role of the loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Scrubbed>,
    /// How it came out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<&'static str>,
    /// What changed, one line each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Scrubbed>,
    /// When.
    pub timestamp: Timestamp,
    pub loop_id: String,
    /// Its iteration, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u32>,
    /// The incident, if it belongs to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incident: Option<IncidentId>,
    /// The journal's entry.
    pub seq: u64,
}

/// Returns the lines that the last entry of a recovery brings about; none if it changed nothing.
pub(crate) fn recovery_lines(view: &IncidentView) -> Vec<LogLine> {
    let Some(last) = view.lines().last().filter(|line| line.ignored.is_none()) else {
        return Vec::new();
    };
    let entry = &last.entry;
    let mut lines: Vec<LogLine> = said(view, entry).into_iter().collect();
    lines.extend(came_to(view, entry));
    let (iteration, incident) = (Some(view.iteration()).filter(|n| *n > 0), Some(view.id()));
    for line in &mut lines {
        (line.iteration, line.incident) = (iteration, incident);
        (line.timestamp, line.seq) = (entry.at, entry.seq);
    }
    lines
}

/// Returns what follows from an entry itself.
fn said(view: &IncidentView, entry: &Entry) -> Option<LogLine> {
    let line = |event| LogLine { event, ..LogLine::default() };
    match &entry.event {
        Event::Recovery(RecoveryEvent::Proposed { proposal }) => Some(LogLine {
            category: Some(proposal.category),
            command: Some(proposal.recovery.command.clone()),
            confidence: proposal.recovery.confidence,
            ..line("recovery_proposed")
        }),
        Event::Incident(IncidentEvent::Judged { remedy, judgement }) => {
            let command = Some(remedy.text.clone());
            match judgement.verdict {
                RemedyVerdict::Allow if remedy.kind == RemedyKind::Command => {
                    let source = Some("auto");
                    Some(LogLine { source, command, ..line("recovery_approved") })
                }
                RemedyVerdict::Deny => {
                    let reason = Some(judgement.reason.clone());
                    Some(LogLine { command, reason, ..line("recovery_refused") })
                }
                RemedyVerdict::Allow | RemedyVerdict::Ask => None,
            }
        }
        Event::Incident(IncidentEvent::Approved { note, .. }) => {
            let settled = |asked: &&AskedQuestion| {
                asked.settled.is_some_and(|settled| settled.seq == entry.seq)
            };
            let asked = view.questions().iter().find(settled);
            let command = asked.and_then(|asked| asked.command.clone());
            let (source, note) = (Some("human"), note.clone());
            Some(LogLine { source, command, note, ..line("recovery_approved") })
        }
        Event::Incident(IncidentEvent::Rejected { note, .. }) => {
            let (by, method, note) = (Some("human"), Some("reject"), note.clone());
            Some(LogLine { by, method, note, ..line("recovery_resolved") })
        }
        Event::Incident(IncidentEvent::Resolved { note, .. }) => {
            let (by, method, note) = (Some("human"), Some("manual"), note.clone());
            Some(LogLine { by, method, note, ..line("recovery_resolved") })
        }
        Event::Incident(IncidentEvent::Claimed { .. } | IncidentEvent::Finished { .. }) => {
            ran(view, entry).or_else(|| still_failing(view, entry))
        }
        _ => None,
    }
}

/// Returns how the command ended whose end an entry tells, if it does.
fn ran(view: &IncidentView, entry: &Entry) -> Option<LogLine> {
    let remedy = view.last_applied()?;
    let applied = remedy.applied.as_ref()?;
    let end = applied.end.as_ref().filter(|end| end.seq == entry.seq)?;
    let took = end.at.duration_since(applied.at).as_millis();
    let (event, duration_ms) = match end.how {
        Fulfilment::Succeeded => ("recovery_executed", Some(took)),
        // How long it ran is not known.
        Fulfilment::Interrupted => ("recovery_failed", None),
        Fulfilment::Failed | Fulfilment::NotRun | Fulfilment::Running => {
            ("recovery_failed", Some(took))
        }
    };
    Some(LogLine {
        event,
        command: Some(remedy.text.clone()),
        exit_code: Some(end.exit_code),
        duration_ms: duration_ms.map(|took| u64::try_from(took).unwrap_or(0)),
        error: end.error.clone(),
        ..LogLine::default()
    })
}

/// Returns that a command did not help, if an entry says so.
fn still_failing(view: &IncidentView, entry: &Entry) -> Option<LogLine> {
    let Event::Incident(IncidentEvent::Finished {
        report: EffectReport::Verified { proof: Proof::Failed, .. },
        ..
    }) = &entry.event
    else {
        return None;
    };
    let command = Some(view.last_applied()?.text.clone());
    let (exit_code, error) = (Some(Some(0)), view.trouble().cloned());
    Some(LogLine { event: "recovery_failed", command, exit_code, error, ..LogLine::default() })
}

/// Returns what follows from where an entry led.
fn came_to(view: &IncidentView, entry: &Entry) -> Option<LogLine> {
    let line = |event| LogLine { event, ..LogLine::default() };
    let asked = view.questions().last().filter(|asked| asked.seq == entry.seq);
    if let Some(asked) = asked {
        let (reason, awaiting) = (Some(asked.reason.clone()), Some("human"));
        return Some(LogLine { reason, awaiting, ..line("recovery_escalated") });
    }
    let recovered = matches!(
        entry.event,
        Event::Incident(IncidentEvent::Ended { outcome: IncidentOutcome::Recovered(_) })
    );
    let approved = |asked: &AskedQuestion| {
        asked.settled.is_some_and(|settled| settled.how == QuestionSettled::Approved)
    };
    let (by, method) = (Some("human"), Some("approve"));
    let by_person = recovered && view.questions().iter().any(approved);
    by_person.then(|| LogLine { by, method, ..line("recovery_resolved") })
}
