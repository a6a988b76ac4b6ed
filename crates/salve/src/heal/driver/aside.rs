//! Several incidents of one subject: which of them a failure belongs to, and whose turn it is.
//!
//! An incident is one failure (one signature) of one subject. Another failure is another incident;
//! what an earlier one healed stays as it is, and what it asks a person is still asked. One
//! incident of a subject is worked on at a time, because two would work on the same files and the
//! same process; the others are set aside and have their turn when it is over or only waits.

use std::collections::VecDeque;
use std::time::Instant;

use salve_core::event::{Actor, Event, IncidentEvent, IncidentOutcome};
use salve_core::id::Signature;
use salve_core::incident::{Incident, IncidentMove, Phase};
use salve_core::scrub::Scrubbed;

use super::case::{AsideIncident, Case};
use super::table::IncidentTable;
use crate::heal::Wrote;
use crate::heal::subject::{FailureWaiter, SeenFailure};
use crate::store::StoreError;

/// What becomes of a failure that answers no verification.
pub(super) enum FollowUp {
    /// It opens an incident.
    Opens,
    /// It opens an incident while the present one waits.
    OpensBeside,
    /// It is the present incident's, which seemed healed.
    Relapses,
    /// Whoever waits for it waits for the open incident of the subject at that place.
    Joins { of: usize, waiter: FailureWaiter },
    /// It has its turn after the incident that is worked on.
    Queues,
    /// It is only put on record.
    Skipped,
}

pub(super) enum NextTurn {
    /// Another incident's, which was taken up.
    Taken,
    /// Nobody else's, until then at least.
    Later(Option<Instant>),
}

impl Case {
    /// Takes up the incident of a failure, if there is one that was set aside and the present one
    /// only waits.
    fn take_up_seen(&mut self, signature: Signature) {
        let has_it = |incident: &Incident| incident.history().has_seen(signature);
        if self.is_quiet() && !self.incident().is_some_and(has_it) {
            let found = self.aside.iter().position(|aside| has_it(&aside.incident));
            if let Some(index) = found {
                self.take_up(index);
            }
        }
    }

    /// Returns those who wait for an open incident of a failure, with the incident.
    fn waiters_of(&mut self, signature: Signature) -> Option<(&mut Vec<FailureWaiter>, &Incident)> {
        let is_it = |incident: &Incident| {
            let ends = matches!(incident.phase(), Phase::Ending { .. } | Phase::Closed(_));
            !ends && incident.history().has_seen(signature)
        };
        if self.incident().is_some_and(is_it) {
            let (incident, work) = self.present()?;
            return Some((&mut work.waiters, incident));
        }
        let found = self.aside.iter_mut().find(|aside| is_it(&aside.incident));
        found.map(|AsideIncident { incident, work }| (&mut work.waiters, &*incident))
    }
}

impl IncidentTable<'_, '_> {
    /// Returns what becomes of a failure that answers no verification.
    pub(super) fn follow_up(&mut self, at: usize, failure: &SeenFailure) -> FollowUp {
        let signature = failure.evidence.symptom.signature;
        let has_many = self.subjects.has_many_incidents();
        if let Some(waiter) = failure.waiter
            && let Some(of) = self.open_incident_of(at, signature)
        {
            return FollowUp::Joins { of, waiter };
        }
        self.cases[at].take_up_seen(signature);
        let case = &self.cases[at];
        let Some(incident) = case.incident() else { return FollowUp::Opens };
        let is_same = incident.history().has_seen(signature);
        let seemed_healed = matches!(
            incident.phase(),
            Phase::Ending { outcome: IncidentOutcome::Recovered(_), .. }
        );
        if seemed_healed && (is_same || !has_many) {
            FollowUp::Relapses
        } else if has_many && !is_same && case.is_quiet() {
            FollowUp::OpensBeside
        } else if has_many && !is_same && failure.waiter.is_some() {
            FollowUp::Queues
        } else {
            FollowUp::Skipped
        }
    }

    /// Returns whose open incident a failure may join.
    fn open_incident_of(&mut self, at: usize, signature: Signature) -> Option<usize> {
        let others = 0..if self.subjects.shares_causes() { self.cases.len() } else { 0 };
        let mut places = [at].into_iter().chain(others.filter(|other| *other != at));
        places.find(|place| self.cases[*place].waiters_of(signature).is_some())
    }

    /// Has whoever waits for a failure wait for an open incident.
    pub(super) fn join(
        &mut self,
        at: usize,
        of: usize,
        waiter: FailureWaiter,
        failure: SeenFailure,
    ) -> Result<(), StoreError> {
        let signature = failure.evidence.symptom.signature;
        let Some((waiters, incident)) = self.cases[of].waiters_of(signature) else {
            return Ok(());
        };
        waiters.push(waiter);
        self.subjects.joined(at, waiter, incident);
        if failure.before.is_empty() {
            return Ok(());
        }
        self.base.writer.note(failure.before).map(drop)
    }

    /// Gives an incident that was set aside its turn, or a failure that had to wait, while the
    /// present incident only waits.
    pub(super) fn give_turn(&mut self, at: usize) -> Result<NextTurn, StoreError> {
        let (now, me) = (self.base.writer.now(), self.base.writer.me.clone());
        let case = &mut self.cases[at];
        case.aside.retain(|aside| aside.incident.next(&me, now) != IncidentMove::NotMine);
        if !case.is_quiet() || self.subjects.is_held(at, case) {
            // Its end wakes us.
            return Ok(NextTurn::Later(None));
        }
        let of = |failure: &SeenFailure| failure.evidence.symptom.signature;
        if let Some(signature) = case.queued.front().map(of) {
            let queued = std::mem::take(&mut case.queued).into_iter();
            let (same, others): (VecDeque<_>, _) =
                queued.partition(|failure| of(failure) == signature);
            case.queued = others;
            // The first opens an incident, or joins one; the others join that.
            same.into_iter().try_for_each(|failure| self.failed(at, failure))?;
            return Ok(NextTurn::Taken);
        }
        let moves = case.aside.iter().map(|aside| aside.incident.next(&me, now));
        let moves: Vec<IncidentMove> = moves.collect();
        let wants = |one: &IncidentMove| !matches!(one, IncidentMove::Wait { .. });
        // Where nothing else is there, what waits for a person is what the subject is about.
        let last = moves.len().checked_sub(1).filter(|_| case.incident().is_none());
        if let Some(index) = moves.iter().position(wants).or(last) {
            case.take_up(index);
            return Ok(NextTurn::Taken);
        }
        let until = moves.into_iter().filter_map(|one| match one {
            IncidentMove::Wait { until, .. } => until,
            _ => None,
        });
        Ok(NextTurn::Later(until.min().map(|until| self.base.writer.instant(until))))
    }

    /// Settles what waits for a person, because the subject is well.
    pub(super) fn settle_questions(
        &mut self,
        at: usize,
        by: &Actor,
        note: &Scrubbed,
    ) -> Result<(), StoreError> {
        let waits = |incident: &Incident| {
            matches!(incident.phase(), Phase::Asking { .. } | Phase::CoolingDown { .. })
        };
        let note = Some(note.clone());
        let resolved = Event::Incident(IncidentEvent::Resolved { note });
        self.cases[at].write_aside(self.base, by, &resolved, waits)?;
        while self.cases[at].incident().is_some_and(waits) {
            match self.say_as(at, by, vec![resolved.clone()])? {
                Wrote::Done(_) => break,
                Wrote::Overtaken => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
