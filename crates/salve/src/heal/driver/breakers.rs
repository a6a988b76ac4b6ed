//! When healing stops by itself: what core's breakers are told, and what follows.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use salve_core::check::{Results, breaker};
use salve_core::event::{Breaker, ChangedFile, Event, IncidentEvent, RemedyKind, Symptom};
use salve_core::id::IncidentId;
use salve_core::incident::Incident;
use salve_core::view::IncidentView;

use super::case::Case;
use crate::heal::control;
use crate::heal::run_base::RunBase;
use crate::store::{StoreError, Stream};

/// How many incidents back one looks.
const LOOKED_BACK: usize = 200;

/// Within which time failures of one subject count together.
const MANY_WITHIN: Duration = Duration::from_secs(300);

/// How many new failures are named.
const NAMED: usize = 5;

/// Stops before anything is tried if the same failure was left unhealed several times.
pub(super) fn halt_if_systemic(base: &mut RunBase<'_>, case: &mut Case) -> Result<(), StoreError> {
    let Some(incident) = case.incident() else { return Ok(()) };
    let (id, signature) = (incident.id(), incident.symptom().signature);
    let past = past(base, id, |symptom| symptom.signature == signature)?;
    let count = breaker::unhealed(signature, &past) + 1;
    if count >= base.terms.breakers.same_error as usize {
        let text = format!("the same failure was not healed in {count} incidents by now");
        base.note(case.name(), &text);
        trip(base, case, Breaker::SameError)?;
    }
    Ok(())
}

/// Stops before anything is tried if the subject failed in many different ways of late: each heals
/// or is given up by itself, and together they would go on for ever.
pub(super) fn halt_if_many(base: &mut RunBase<'_>, case: &mut Case) -> Result<(), StoreError> {
    let since = ago(base.writer.now(), MANY_WITHIN);
    case.opened.retain(|opened| *opened >= since);
    let count = case.opened.len();
    if count >= base.terms.breakers.many_failures as usize {
        case.opened.clear();
        let text = format!("it failed in {count} different ways within five minutes");
        base.note(case.name(), &text);
        trip(base, case, Breaker::ManyFailures)?;
    }
    Ok(())
}

/// Stops if a file is changed again and again.
pub(super) fn stop_if_churned(
    base: &mut RunBase<'_>,
    case: &mut Case,
    files: &[ChangedFile],
) -> Result<(), StoreError> {
    let Some(id) = case.incident().map(Incident::id) else { return Ok(()) };
    let past = past(base, id, |_| true)?;
    let limit = base.terms.breakers.file_changes;
    let churned = breaker::churned(&past, files, limit);
    if !churned.is_empty() {
        let text = format!("more than {limit} heals changed {}", churned.join(", "));
        base.note(case.name(), &text);
        trip(base, case, Breaker::FileChurn)?;
    }
    Ok(())
}

/// Stops, and undoes everything, if what was tried made other things fail.
pub(super) fn stop_if_worse(
    base: &mut RunBase<'_>,
    case: &mut Case,
    results: impl Fn(&str, &RunBase<'_>) -> Results,
) -> Result<(), StoreError> {
    let changes = case.trial().is_some_and(|trial| trial.remedy.kind != RemedyKind::Retry);
    let (Some(first), Some(seen), true) = (case.first(), case.seen(), changes) else {
        return Ok(());
    };
    let before = results(first.output.as_str(), base);
    let after = results(seen.output.as_str(), base);
    let new = breaker::new_errors(&before, &after);
    if !new.is_empty() {
        let named: Vec<_> = new.iter().take(NAMED).map(|case| case.name.as_str()).collect();
        let text = format!("{} new, with the repair: {}", new.len(), named.join(", "));
        base.note(case.name(), &text);
        trip(base, case, Breaker::NewErrors)?;
    }
    Ok(())
}

/// Takes in how many processes were left behind, and holds all healing if they are many.
pub(super) fn count_orphans(
    base: &mut RunBase<'_>,
    case: &mut Case,
    left: usize,
) -> Result<(), StoreError> {
    base.orphans = base.orphans.saturating_add(left);
    let limit = base.terms.breakers.orphans as usize;
    if base.orphans < limit || case.incident().is_none() {
        return Ok(());
    }
    let count = std::mem::take(&mut base.orphans);
    let why = format!("{count} processes were left behind and had to be ended");
    let text = match control::write_pause(&base.project, &why) {
        Ok(()) => format!("{why}: PAUSE is in .salve/CONTROL.md"),
        Err(error) => format!("{why}: PAUSE could not be written: {error}"),
    };
    base.note(case.name(), &text);
    trip(base, case, Breaker::Orphans)
}

/// Trips a breaker, once in an incident: whoever says yes to going on need not say so again.
fn trip(base: &mut RunBase<'_>, case: &mut Case, breaker: Breaker) -> Result<(), StoreError> {
    let Some(id) = case.incident().map(Incident::id) else { return Ok(()) };
    let event = Event::Incident(IncidentEvent::Tripped { breaker });
    if base.writer.entries(id)?.iter().any(|entry| entry.event == event) {
        return Ok(());
    }
    base.writer.add(id, event)?;
    case.catch_up(base)
}

/// Returns the earlier incidents whose first failure is wanted, oldest first.
fn past(
    base: &RunBase<'_>,
    present: IncidentId,
    is_wanted: impl Fn(&Symptom) -> bool,
) -> Result<Vec<IncidentView>, StoreError> {
    let since = ago(base.writer.now(), base.terms.kept);
    let opened = base.writer.store.journal().read_since(since, &Stream::Incidents)?;
    let mut past = Vec::new();
    for opened in opened.iter().rev().take(LOOKED_BACK).rev() {
        let (Event::Incident(IncidentEvent::Opened { symptom, .. }), Some(id)) =
            (&opened.event, opened.incident)
        else {
            continue;
        };
        if id != present && is_wanted(symptom) {
            // An incident that a newer Salve opened is that Salve's to tell about.
            past.extend(IncidentView::of(base.writer.entries(id)?).ok());
        }
    }
    Ok(past)
}

fn ago(now: Timestamp, time: Duration) -> Timestamp {
    let time = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
    now.saturating_sub(time).unwrap_or(Timestamp::MIN)
}
