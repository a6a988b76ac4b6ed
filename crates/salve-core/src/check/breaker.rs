//! The breakers: when healing stops by itself, told from what happened.
//!
//! Tokens have no function of their own here: the incident's budget is that breaker.

use std::collections::{BTreeMap, BTreeSet};

use super::attempt::{HealAttemptOutcome, attempts};
use super::{FailedCase, Results, Sort};
use crate::event::{ChangedFile, Effect, Event, IncidentEvent, IncidentOutcome, Proof};
use crate::id::Signature;
use crate::incident::Phase;
use crate::view::IncidentView;

/// The remark of somebody who only ran a check again.
pub const AGAIN: &str = "run again by hand";

/// Returns how many incidents with this failure were not healed since it was last healed.
///
/// `past` are earlier incidents, oldest first. One that is healed each time is no systemic issue,
/// and what was called off says nothing.
pub fn unhealed(signature: Signature, past: &[IncidentView]) -> usize {
    let mut count = 0;
    for view in past.iter().filter(|view| is_of(view, signature)) {
        match came_out(view) {
            Fared::Healed => count = 0,
            Fared::Unhealed => count += 1,
            Fared::Unclear => {}
        }
    }
    count
}

fn is_of(view: &IncidentView, signature: Signature) -> bool {
    let opened = view.lines().first().map(|line| &line.entry.event);
    let same = matches!(opened, Some(Event::Incident(IncidentEvent::Opened { symptom, .. })) if symptom.signature == signature);
    same
}

/// How an incident fared.
enum Fared {
    Healed,
    Unhealed,
    Unclear,
}

fn came_out(view: &IncidentView) -> Fared {
    let applies = |event: &Event| {
        matches!(
            event,
            Event::Incident(IncidentEvent::Requested { what: Effect::Apply { .. }, .. })
        )
    };
    let tried = view.lines().iter().any(|line| applies(&line.entry.event));
    match outcome_of(view) {
        // Where it was at most run again, nothing has failed to help.
        Fared::Unhealed if !tried => Fared::Unclear,
        fared @ (Fared::Healed | Fared::Unhealed | Fared::Unclear) => fared,
    }
}

fn outcome_of(view: &IncidentView) -> Fared {
    let Phase::Closed(outcome) = view.incident().phase() else { return Fared::Unhealed };
    match outcome {
        // It was green, whoever did it.
        IncidentOutcome::Recovered(Proof::Proven | Proof::Transient | Proof::Flaky) => {
            Fared::Healed
        }
        IncidentOutcome::Aborted => Fared::Unclear,
        IncidentOutcome::Recovered(Proof::Masked | Proof::Failed)
        | IncidentOutcome::GivenUp
        | IncidentOutcome::Unhealed => Fared::Unhealed,
        IncidentOutcome::Resolved if was_only_run_again(view) => Fared::Unhealed,
        IncidentOutcome::Resolved => Fared::Healed,
    }
}

/// Tells whether somebody only ran the check again, and it was still red.
fn was_only_run_again(view: &IncidentView) -> bool {
    let events = || view.lines().iter().map(|line| &line.entry.event);
    let again = events().any(
        |event| matches!(event, Event::Incident(IncidentEvent::Resolved { note: Some(note) }) if note.as_str() == AGAIN),
    );
    let green = events().any(|event| matches!(event, Event::Incident(IncidentEvent::SeenGreen {})));
    again && !green
}

/// Returns the files that, with this change, were changed by more than `limit` heals.
pub fn churned(past: &[IncidentView], now: &[ChangedFile], limit: u32) -> Vec<String> {
    let mut heals: BTreeMap<String, u32> = BTreeMap::new();
    for view in past {
        let stayed =
            |end: HealAttemptOutcome, back: bool| end == HealAttemptOutcome::Success && !back;
        let kept = attempts(view).into_iter().filter(|a| stayed(a.result, a.rolled_back.is_some()));
        let files: BTreeSet<String> =
            kept.flat_map(|attempt| attempt.files).map(|file| file.path.to_string()).collect();
        for file in files {
            *heals.entry(file).or_default() += 1;
        }
    }
    let paths = now.iter().map(|file| file.path.to_string());
    paths.filter(|path| heals.get(path).copied().unwrap_or(0) >= limit).collect()
}

/// Returns what failed after a repair and did not before it, as far as the repair made it fail.
///
/// What was hidden by the first failure and came to light is none of its doing: tests that did
/// not run before, and what a compiler gets to only once something else is mended.
pub fn new_errors<'a>(before: &Results, after: &'a Results) -> Vec<&'a FailedCase> {
    let (Some(tool), false) = (after.tool, before.cut) else { return Vec::new() };
    if before.tool != Some(tool) {
        return Vec::new();
    }
    let new = after.new_since(before);
    let known: BTreeSet<_> = before.files().into_iter().collect();
    let elsewhere =
        |case: &&&FailedCase| case.file.as_deref().is_some_and(|file| !known.contains(file));
    match tool.sort() {
        Sort::Test => match (before.counts.ran(), after.counts.ran()) {
            (Some(then), Some(now)) if now <= then => new,
            _ => Vec::new(),
        },
        Sort::Types | Sort::Lint => new.iter().filter(elsewhere).copied().collect(),
        Sort::Build if before.new_since(after).is_empty() => {
            new.iter().filter(elsewhere).copied().collect()
        }
        Sort::Build => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
