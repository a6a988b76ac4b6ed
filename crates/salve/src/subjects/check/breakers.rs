//! When healing stops by itself: what core's breakers are told, and what follows.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use salve_core::check::breaker;
use salve_core::event::{Breaker, ChangedFile, Entry, Event, IncidentEvent, RemedyKind, Symptom};
use salve_core::id::IncidentId;
use salve_core::incident::Incident;
use salve_core::repair::Tale;

use super::checkup::Checkup;
use crate::heal::control;
use crate::store::{StoreError, Stream};

/// How many incidents back one looks.
const LOOKED_BACK: usize = 200;

/// How many new failures are named.
const NAMED: usize = 5;

impl Checkup<'_, '_> {
    /// Stops before anything is tried if the same failure was left unhealed several times.
    pub(super) fn halt_if_systemic(&mut self) -> Result<(), StoreError> {
        let Some(incident) = &self.incident else { return Ok(()) };
        let (id, signature) = (incident.id(), incident.symptom().signature);
        let past = self.past(id, |symptom| symptom.signature == signature)?;
        let count = breaker::unhealed(signature, &tales(&past)) + 1;
        if count >= self.clinic.heal.breakers.same_error as usize {
            self.note(&format!("the same failure was not healed in {count} incidents by now"));
            self.trip(Breaker::SameError)?;
        }
        Ok(())
    }

    /// Stops if a file is changed again and again.
    pub(super) fn stop_if_churned(&mut self, files: &[ChangedFile]) -> Result<(), StoreError> {
        let Some(id) = self.incident.as_ref().map(Incident::id) else { return Ok(()) };
        let past = self.past(id, |_| true)?;
        let limit = self.clinic.heal.breakers.file_changes;
        let churned = breaker::churned(&tales(&past), files, limit);
        if !churned.is_empty() {
            self.note(&format!("more than {limit} heals changed {}", churned.join(", ")));
            self.trip(Breaker::FileChurn)?;
        }
        Ok(())
    }

    /// Stops, and undoes everything, if what was tried made other things fail.
    pub(super) fn stop_if_worse(&mut self) -> Result<(), StoreError> {
        let trial = self.incident.as_ref().and_then(Incident::trial);
        let changes = trial.is_some_and(|trial| trial.remedy.kind != RemedyKind::Retry);
        let (Some(seen), true) = (&self.case.seen, changes) else { return Ok(()) };
        let (before, after) = (self.first_results(), self.results(seen.output.as_str()));
        let new = breaker::new_errors(&before, &after);
        if !new.is_empty() {
            let named: Vec<_> = new.iter().take(NAMED).map(|case| case.name.as_str()).collect();
            let text = format!("{} new, with the repair: {}", new.len(), named.join(", "));
            self.note(&text);
            self.trip(Breaker::NewErrors)?;
        }
        Ok(())
    }

    /// Takes in how many processes were left behind, and holds all healing if they are many.
    pub(super) fn count_orphans(&mut self, left: usize) -> Result<(), StoreError> {
        self.clinic.orphans = self.clinic.orphans.saturating_add(left);
        let limit = self.clinic.heal.breakers.orphans as usize;
        if self.clinic.orphans < limit || self.incident.is_none() {
            return Ok(());
        }
        let count = std::mem::take(&mut self.clinic.orphans);
        let why = format!("{count} processes were left behind and had to be ended");
        match control::write_pause(&self.clinic.project, &why) {
            Ok(()) => self.note(&format!("{why}: PAUSE is in .salve/CONTROL.md")),
            Err(error) => self.note(&format!("{why}: PAUSE could not be written: {error}")),
        }
        self.trip(Breaker::Orphans)
    }

    /// Trips a breaker, once in an incident: whoever says yes to going on need not say so again.
    fn trip(&mut self, breaker: Breaker) -> Result<(), StoreError> {
        let Some(id) = self.incident.as_ref().map(Incident::id) else { return Ok(()) };
        let stream = Stream::Incident(id);
        let tripped = self.clinic.desk.store.journal().read(0, &stream, usize::MAX)?;
        match tripped
            .iter()
            .any(|entry| entry.event == Event::Incident(IncidentEvent::Tripped { breaker }))
        {
            true => Ok(()),
            false => self.append(id, Event::Incident(IncidentEvent::Tripped { breaker })),
        }
    }

    /// Returns the entries of earlier incidents whose first failure is wanted, oldest first.
    fn past(
        &self,
        present: IncidentId,
        is_wanted: impl Fn(&Symptom) -> bool,
    ) -> Result<Vec<Vec<Entry>>, StoreError> {
        let journal = self.clinic.desk.store.journal();
        let since = ago(self.clinic.desk.now(), self.clinic.heal.kept);
        let mut past = Vec::new();
        let opened = journal.read_since(since, &Stream::Incidents)?;
        for opened in opened.iter().rev().take(LOOKED_BACK).rev() {
            let (Event::Incident(IncidentEvent::Opened { symptom, .. }), Some(id)) =
                (&opened.event, opened.incident)
            else {
                continue;
            };
            if id != present && is_wanted(symptom) {
                past.push(journal.read(0, &Stream::Incident(id), usize::MAX)?);
            }
        }
        Ok(past)
    }
}

fn tales(past: &[Vec<Entry>]) -> Vec<Tale<'_>> {
    // An incident that a newer Salve opened is that Salve's to tell about.
    past.iter().filter_map(|entries| Tale::of(entries).ok()).collect()
}

fn ago(now: Timestamp, time: Duration) -> Timestamp {
    let time = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
    now.saturating_sub(time).unwrap_or(Timestamp::MIN)
}
