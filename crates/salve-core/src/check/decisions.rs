//! What was decided in a heal and why, one line each, for `decisions.log`.
//!
//! All of it is read from the journal. Each line names its entry, so that none is written twice.

use std::fmt;

use jiff::Timestamp;

use crate::event::{
    Breaker, Effect, EffectReport, Event, IncidentEvent, IncidentOutcome, PersonOrder, Proof,
    RemedyVerdict, Scope, Symptom,
};
use crate::id::IncidentId;
use crate::incident::RepairPhase;
use crate::repair::{ended, who};
use crate::view::IncidentView;

/// One decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The journal's entry.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    pub incident: IncidentId,
    /// Whether everything is undone because too many attempts failed in a row.
    pub is_catastrophe: bool,
    /// What was decided, in one line.
    pub text: String,
}

/// Why everything is undone though not too many attempts failed.
const NEW_ERRORS: &str = "breaker new errors";

/// What a catastrophic rollback is called in the log.
const CATASTROPHE: &str = "CATASTROPHIC ROLLBACK";

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seq, at, incident, text, is_catastrophe: _ } = self;
        write!(f, "{at:.0} heal-{} #{seq} ", incident.short())?;
        // One decision is one line, and says nothing to a terminal.
        text.chars().try_for_each(|c| write!(f, "{}", if c.is_control() { ' ' } else { c }))
    }
}

/// Returns what was decided in an incident, in its order.
pub fn decisions(view: &IncidentView) -> Vec<Decision> {
    let (mut why, mut asked) = (String::new(), String::new());
    let (mut undoing, mut is_worse) = (None, false);
    let mut decided = Vec::new();
    for line in view.lines().iter().filter(|line| line.ignored.is_none()) {
        let entry = &line.entry;
        note_reason(&entry.event, &mut why);
        is_worse |=
            entry.event == Event::Incident(IncidentEvent::Tripped { breaker: Breaker::NewErrors });
        for notice in &line.notices {
            if matches!(notice.phase, RepairPhase::Exhausted | RepairPhase::FailedRequiresHuman) {
                asked = format!(": {}", notice.message);
            }
        }
        let mut is_catastrophe = false;
        let text = match &entry.event {
            Event::Incident(IncidentEvent::Requested { effect, what: Effect::RollBack(scope) }) => {
                undoing = Some(*effect);
                let by_breaker = std::mem::take(&mut is_worse);
                is_catastrophe = *scope == Scope::Incident && !by_breaker;
                Some(roll_back(view, *scope, if by_breaker { NEW_ERRORS } else { &why }))
            }
            Event::Incident(IncidentEvent::Finished { effect, report })
                if undoing == Some(*effect) =>
            {
                undoing = None;
                not_undone(report)
            }
            Event::Incident(IncidentEvent::Requested { what: Effect::Ask, .. }) => {
                let why = std::mem::take(&mut asked);
                Some(format!("ESCALATED to {}{why}", view.incident().policy().person))
            }
            event => words(event, &who(&entry.by)),
        };
        decided.extend(text.map(|text| Decision {
            seq: entry.seq,
            at: entry.at,
            incident: view.id(),
            is_catastrophe,
            text,
        }));
    }
    decided
}

/// Returns the number of the last entry of an incident that a log tells of, 0 if of none.
pub fn last_told(log: &str, incident: IncidentId) -> u64 {
    let mark = format!(" heal-{} #", incident.short());
    let told = log.lines().filter_map(|line| {
        let rest = line.split_once(&mark)?.1;
        rest.split_once(' ')?.0.parse::<u64>().ok()
    });
    told.max().unwrap_or(0)
}

/// Remembers why a change may have to be undone.
fn note_reason(event: &Event, why: &mut String) {
    let told = match event {
        Event::Incident(IncidentEvent::Finished { report, .. }) => match report {
            EffectReport::Verified { proof: Proof::Failed, symptom } => {
                let seen = |s: &Symptom| format!("still red: {}", s.key_line);
                symptom.as_deref().map_or_else(|| "still red".to_owned(), seen)
            }
            EffectReport::Verified { proof: Proof::Masked, .. } => {
                "green only because what judges it was weakened".into()
            }
            EffectReport::Verified { proof: Proof::Flaky, .. } => "green and red by turns".into(),
            EffectReport::Failed { reason, .. } => reason.to_string(),
            EffectReport::TimedOut => "it took too long".into(),
            EffectReport::Conflict { .. } => "the same lines were edited meanwhile".into(),
            EffectReport::Done
            | EffectReport::NoAgent
            | EffectReport::Measured(_)
            | EffectReport::Verified { proof: Proof::Proven | Proof::Transient, .. } => return,
        },
        Event::Incident(IncidentEvent::Sickened { symptom }) => {
            format!("red again: {}", symptom.key_line)
        }
        Event::Incident(IncidentEvent::Ordered { order }) => {
            format!("ordered: {}", order_word(*order))
        }
        Event::Incident(IncidentEvent::Rejected { .. }) => "a person said no".into(),
        Event::Incident(IncidentEvent::Tripped { breaker }) => {
            format!("breaker {}", breaker_word(*breaker))
        }
        _ => return,
    };
    *why = told;
}

fn roll_back(view: &IncidentView, scope: Scope, why: &str) -> String {
    match scope {
        Scope::Attempt => format!("ROLLBACK of the attempt: {why}"),
        Scope::Incident if why == NEW_ERRORS => format!("ROLLBACK of everything: {why}"),
        Scope::Incident => {
            let limit = view.incident().policy().catastrophe_after.unwrap_or_default();
            format!("{CATASTROPHE} after {limit} failures in a row: {why}")
        }
    }
}

fn not_undone(report: &EffectReport) -> Option<String> {
    match report {
        EffectReport::Failed { reason, .. } => Some(format!("the roll-back failed: {reason}")),
        EffectReport::TimedOut => Some("the roll-back took too long".into()),
        EffectReport::Done
        | EffectReport::NoAgent
        | EffectReport::Conflict { .. }
        | EffectReport::Measured(_)
        | EffectReport::Verified { .. } => None,
    }
}

/// Returns what an event decides, if it does.
fn words(event: &Event, person: &str) -> Option<String> {
    Some(match event {
        Event::Incident(IncidentEvent::Opened { subject, symptom, .. }) => {
            let (signature, class) = (symptom.signature, symptom.class);
            format!("OPENED {}: {} ({signature}, {class})", subject.name, symptom.key_line)
        }
        Event::Incident(IncidentEvent::Judged { remedy, judgement }) => {
            let verdict = match judgement.verdict {
                RemedyVerdict::Allow => "CHOSE",
                RemedyVerdict::Ask => "ASKED about",
                RemedyVerdict::Deny => "DENIED",
            };
            let (rule, reason) = (&judgement.rule, &judgement.reason);
            format!("{verdict} `{}`: rule {rule}: {reason}", remedy.text)
        }
        Event::Incident(IncidentEvent::NothingLeft {}) => "NOTHING LEFT to try".into(),
        Event::Incident(IncidentEvent::Superseded {}) => {
            "SUPERSEDED: something else is proposed".into()
        }
        Event::Incident(IncidentEvent::CameBack { why }) => format!("CAME BACK: {why}"),
        Event::Incident(IncidentEvent::Exhausted { resource }) => {
            format!("EXHAUSTED: {resource:?}")
        }
        Event::Incident(IncidentEvent::Tripped { breaker }) => {
            format!("BREAKER {}: {}", breaker_word(*breaker), breaker_action(*breaker))
        }
        Event::Incident(IncidentEvent::Finished {
            report: EffectReport::Verified { proof, .. },
            ..
        }) => match proof {
            Proof::Failed => return None,
            Proof::Proven | Proof::Transient | Proof::Flaky | Proof::Masked => {
                format!("VERIFIED: {}", proof_word(*proof))
            }
        },
        Event::Incident(IncidentEvent::Approved { question, .. }) => {
            format!("APPROVED by {person}: question {question}")
        }
        Event::Incident(IncidentEvent::Rejected { question, .. }) => {
            format!("REJECTED by {person}: question {question}")
        }
        Event::Incident(IncidentEvent::Resolved { .. }) => format!("RESOLVED by {person}"),
        Event::Incident(IncidentEvent::Refilled { .. }) => format!("REFILLED by {person}"),
        Event::Incident(IncidentEvent::Ordered { order }) => {
            format!("{} by {person}", order_word(*order))
        }
        Event::Incident(IncidentEvent::Ended { outcome }) => {
            format!("OUTCOME: {}", outcome_words(*outcome))
        }
        Event::Incident(IncidentEvent::CountersRestored { restored }) => {
            format!("{CATASTROPHE}: {restored}")
        }
        _ => return None,
    })
}

fn outcome_words(outcome: IncidentOutcome) -> String {
    match outcome {
        IncidentOutcome::Recovered(proof) => format!("green, {}", proof_word(proof)),
        IncidentOutcome::Resolved
        | IncidentOutcome::GivenUp
        | IncidentOutcome::Unhealed
        | IncidentOutcome::Aborted => ended(outcome).to_owned(),
    }
}

pub fn proof_word(proof: Proof) -> &'static str {
    match proof {
        Proof::Proven => "proven",
        Proof::Transient => "transient",
        Proof::Flaky => "flaky",
        Proof::Masked => "masked",
        Proof::Failed => "failed",
    }
}

fn order_word(order: PersonOrder) -> &'static str {
    match order {
        PersonOrder::Pause => "PAUSE",
        PersonOrder::Resume => "RESUME",
        PersonOrder::Skip => "SKIP",
        PersonOrder::Retry => "RETRY",
        PersonOrder::Abort => "ABORT",
        PersonOrder::Escalate => "ESCALATE",
    }
}

fn breaker_word(breaker: Breaker) -> &'static str {
    match breaker {
        Breaker::SameError => "same error",
        Breaker::FileChurn => "file churn",
        Breaker::NewErrors => "new errors",
        Breaker::Orphans => "orphans",
        Breaker::ManyFailures => "many failures",
    }
}

fn breaker_action(breaker: Breaker) -> &'static str {
    match breaker {
        Breaker::SameError => "HALT, a systemic issue",
        Breaker::FileChurn => "flagged for review",
        Breaker::NewErrors => "everything is rolled back and flagged",
        Breaker::Orphans => "PAUSE is written to CONTROL.md",
        Breaker::ManyFailures => "HALT, a person looks at them together",
    }
}

#[cfg(test)]
mod tests;
