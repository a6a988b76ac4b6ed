//! Machines broken on purpose, to show that the simulator would notice.

use jiff::Timestamp;

use super::super::{
    Awaited, DueEffect, Ignored, Incident, IncidentMove, Ledger, Phase, Then, Trial, TrialReach,
};
use super::judge::Invariant;
use crate::event::{
    Authority, Effect, EffectReport, Entry, Event, IncidentEvent, IncidentOutcome, Process, Proof,
    RemedyVerdict,
};
use crate::scrub::Scrubbed;

/// A way in which a machine can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SimulatedFault {
    /// A remedy that asks or is denied is taken for allowed.
    SkipsTheGate,
    /// Any process may claim, whoever owns the incident.
    ClaimsFreely,
    /// After a takeover the remedy that may have run is applied again.
    RepeatsBlindly,
    /// An effect runs before its entry is written.
    ActsFirst,
    /// The intention to apply a remedy is not safe from a power failure.
    WritesLoosely,
    /// An entry that comes twice makes its effect run twice.
    ActsTwice,
    /// An approval is used again after its remedy failed.
    ReusesApprovals,
    /// An approval of something else is good enough.
    IgnoresDigests,
    /// A failed attempt gives its budget back.
    RefundsFailures,
    /// The workspace is not kept before it is changed.
    SkipsTheSnapshot,
    /// A change that did not help stays.
    ForgetsToUndo,
    /// What was applied is taken for cured.
    SkipsTheProof,
    /// What an agent did in a layer is taken over untried.
    SkipsTheLayer,
    /// The state holds something that is not in the journal.
    RemembersAside,
    /// The end of the cooldown is missed.
    CoolsForEver,
    /// Nobody is named when a person has to decide.
    AsksNobody,
}

impl SimulatedFault {
    /// Every fault, with the invariants of which it must break one.
    pub const ALL: &[(Self, &[Invariant])] = &[
        (Self::SkipsTheGate, &[Invariant::Gated]),
        (Self::ClaimsFreely, &[Invariant::OneOwner]),
        (Self::RepeatsBlindly, &[Invariant::Gated, Invariant::ApprovalOnce]),
        (Self::ActsFirst, &[Invariant::JournalFirst]),
        (Self::WritesLoosely, &[Invariant::JournalFirst]),
        (Self::ActsTwice, &[Invariant::JournalFirst]),
        (Self::ReusesApprovals, &[Invariant::ApprovalOnce]),
        (Self::IgnoresDigests, &[Invariant::Gated]),
        (Self::RefundsFailures, &[Invariant::BudgetFalls]),
        (Self::SkipsTheSnapshot, &[Invariant::WorkGivenBack]),
        (Self::ForgetsToUndo, &[Invariant::WorkGivenBack]),
        (Self::SkipsTheProof, &[Invariant::Verified]),
        (Self::SkipsTheLayer, &[Invariant::ProvenFirst]),
        (Self::RemembersAside, &[Invariant::ReplayIsLive]),
        (Self::CoolsForEver, &[Invariant::EndsOrWaits]),
        (Self::AsksNobody, &[Invariant::EndsOrWaits]),
    ];

    /// Takes an entry in, wrongly.
    pub(super) fn step(
        self,
        incident: &mut Incident,
        entry: &Entry,
    ) -> Result<Option<DueEffect>, Ignored> {
        let before = incident.clone();
        let mut entry = entry.clone();
        self.distort(incident, &mut entry);
        let taken = incident.step(&entry);
        match (self, &entry.event) {
            (Self::RepeatsBlindly, Event::Incident(IncidentEvent::Claimed { .. }))
                if taken.is_ok() =>
            {
                if let Phase::Doing { what: what @ Effect::Apply { .. }, .. } = before.repair.phase
                {
                    incident.repair.due(what, 0);
                }
            }
            (Self::ReusesApprovals, Event::Incident(IncidentEvent::Finished { .. })) => {
                reuse(incident, &before)
            }
            (Self::RefundsFailures, Event::Incident(IncidentEvent::Finished { .. }))
                if incident.repair.trials.tried.len() > before.repair.trials.tried.len() =>
            {
                incident.repair.ledger = Ledger::new(incident.repair.policy.limits);
            }
            (Self::SkipsTheSnapshot, _) => {
                if let Phase::Due { what: Effect::Snapshot, .. } = incident.repair.phase {
                    incident.repair.due_apply();
                }
            }
            (Self::SkipsTheLayer, _) => {
                if let Phase::Due { what: Effect::VerifyInLayer, .. } = incident.repair.phase {
                    incident.repair.due(Effect::TakeOver, 0);
                }
            }
            (Self::ForgetsToUndo, _) => {
                if let Phase::Due { what: Effect::RollBack(_), .. } = incident.repair.phase {
                    incident.repair.proceed(incident.repair.then);
                }
            }
            (
                Self::SkipsTheProof,
                Event::Incident(IncidentEvent::Finished { report: EffectReport::Done, .. }),
            ) => {
                if let Phase::Due { what: Effect::Verify, .. } = incident.repair.phase {
                    incident.repair.proceed(Then::End(IncidentOutcome::Recovered(Proof::Proven)));
                }
            }
            _ => {}
        }
        taken
    }

    /// Reads an entry wrongly.
    fn distort(self, incident: &Incident, entry: &mut Entry) {
        match (self, &mut entry.event) {
            (Self::SkipsTheGate, Event::Incident(IncidentEvent::Judged { judgement, .. })) => {
                judgement.verdict = RemedyVerdict::Allow;
            }
            (Self::ClaimsFreely, Event::Incident(IncidentEvent::Claimed { instead_of })) => {
                *instead_of = incident.owner.clone();
            }
            (
                Self::IgnoresDigests,
                Event::Incident(IncidentEvent::Approved { question, digest, .. }),
            ) => {
                if let Phase::Asking { number, digest: asked, .. } = incident.repair.phase {
                    (*question, *digest) = (number, asked);
                }
            }
            _ => {}
        }
    }

    /// Says wrongly what comes next.
    pub(super) fn next(self, incident: &Incident, me: &Process, now: Timestamp) -> IncidentMove {
        let next = incident.next(me, now);
        match (self, next, incident.repair.phase) {
            (
                Self::CoolsForEver,
                IncidentMove::Write(Event::Incident(IncidentEvent::CooledDown {})),
                _,
            ) => IncidentMove::Wait { on: Awaited::Time, until: None },
            (Self::AsksNobody, IncidentMove::Wait { until: None, .. }, Phase::Asking { .. }) => {
                let on = Awaited::Person(Scrubbed::default());
                IncidentMove::Wait { on, until: None }
            }
            (_, next, _) => next,
        }
    }

    /// Tells which entries survive a power failure, perhaps wrongly.
    pub(super) fn is_durable(self, event: &Event) -> bool {
        let requested = matches!(event, Event::Incident(IncidentEvent::Requested { .. }));
        event.is_durable() && !(self == Self::WritesLoosely && requested)
    }

    /// Changes the state of a living process behind the journal's back.
    pub(super) fn meddle(self, incident: &mut Incident) {
        if self == Self::RemembersAside {
            incident.repair.failures_in_row += 1;
        }
    }

    /// Tells whether a claim is written although the owner is alive.
    pub(super) fn claim(self, incident: &Incident) -> Option<Event> {
        let instead_of = incident.owner.clone();
        (self == Self::ClaimsFreely)
            .then_some(Event::Incident(IncidentEvent::Claimed { instead_of }))
    }
}

/// Begins the trial of `before` again on the approval it has already used.
fn reuse(incident: &mut Incident, before: &Incident) {
    let Some(trial) = &before.repair.trials.current else { return };
    if let (Phase::Choosing, Some(approval @ Authority::Approval(_))) =
        (incident.repair.phase, trial.authority)
    {
        incident.repair.trials.current =
            Some(Trial { reach: TrialReach::Untouched, ..trial.clone() });
        incident.repair.begin(approval);
    }
}

/// Takes an entry in, as the machine does or as the fault has it.
pub(super) fn step(
    fault: Option<SimulatedFault>,
    incident: &mut Incident,
    entry: &Entry,
) -> Result<Option<DueEffect>, Ignored> {
    match fault {
        Some(fault) => fault.step(incident, entry),
        None => incident.step(entry),
    }
}

/// Says what comes next, as the machine does or as the fault has it.
pub(super) fn next(
    fault: Option<SimulatedFault>,
    incident: &Incident,
    me: &Process,
    now: Timestamp,
) -> IncidentMove {
    match fault {
        Some(fault) => fault.next(incident, me, now),
        None => incident.next(me, now),
    }
}
