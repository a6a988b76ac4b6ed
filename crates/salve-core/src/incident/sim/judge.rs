//! The invariants, told from the journal and the world alone.
//!
//! The judge does not ask the machine whether it behaved. It keeps its own small account of who
//! owns, what was allowed and what was done, and compares.

use std::collections::BTreeSet;

use super::super::{DueEffect, Incident, Phase, Trial, TrialGround};
use crate::event::{
    Actor, Authority, Digest, Effect, EffectReport, Entry, Event, IncidentEvent, IncidentOutcome,
    Process, Proof, RemedyVerdict, Resource, SubjectKind,
};

/// What must never be otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Invariant {
    /// Only the one owner acts, and it takes over only from a process that is gone.
    OneOwner,
    /// Every effect was written to the journal by its owner before it ran, and ran once.
    JournalFirst,
    /// Every remedy that ran was allowed by the gate, or approved by a person, exactly so.
    Gated,
    /// Every approval was used once at most.
    ApprovalOnce,
    /// A budget rises by a named person's refill alone, and is not overdrawn by attempts.
    BudgetFalls,
    /// The workspace was kept before it was changed, and given back unless it was cured, settled
    /// by a person, or the person was told that it could not be.
    WorkGivenBack,
    /// Nothing is called recovered that was not verified after the last change.
    Verified,
    /// What lies in a private layer reaches the workspace only once it was measured, and for a check
    /// proven, in the layer.
    ProvenFirst,
    /// Replaying the journal gives the state that lived through it.
    ReplayIsLive,
    /// An incident ends or waits for someone named.
    EndsOrWaits,
}

impl Invariant {
    /// Every invariant.
    pub const ALL: [Self; 10] = [
        Self::OneOwner,
        Self::JournalFirst,
        Self::Gated,
        Self::ApprovalOnce,
        Self::BudgetFalls,
        Self::WorkGivenBack,
        Self::Verified,
        Self::ProvenFirst,
        Self::ReplayIsLive,
        Self::EndsOrWaits,
    ];
}

/// An invariant that did not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{invariant:?} does not hold: {detail}")]
pub struct Broken {
    pub invariant: Invariant,
    /// What was seen.
    pub detail: String,
}

pub(super) fn hold(invariant: Invariant, holds: bool, detail: &str) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err(Broken { invariant, detail: detail.to_owned() }) }
}

/// Keeps account of what was written and what was done.
#[derive(Debug, Default)]
pub(super) struct Judge {
    owner: Option<Process>,
    ran: BTreeSet<u32>,
    used: BTreeSet<u64>,
    allowed: Vec<Digest>,
    applied: BTreeSet<u32>,
    granted: u64,
    /// Whether the subject shows in a private layer whether a change helps.
    is_check: bool,
    /// A snapshot holds what is in the workspace now.
    kept: bool,
    /// The workspace holds a change that is not proven.
    dirty: bool,
    undo_failed: bool,
    well: bool,
    /// What is known of a change in a private layer.
    layer: LayerAccount,
}

/// What is known of a change in a private layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LayerAccount {
    #[default]
    Unknown,
    Measured,
    Proven,
}

impl Judge {
    /// Returns the judge of a subject's life.
    pub(super) fn of(kind: SubjectKind) -> Self {
        Self { is_check: kind == SubjectKind::Check, ..Self::default() }
    }

    /// Looks at a new entry; `gone` tells whether a process is surely gone.
    pub(super) fn wrote(
        &mut self,
        entry: &Entry,
        gone: impl Fn(&Process) -> bool,
    ) -> Result<(), Broken> {
        match (&entry.event, &entry.by) {
            (Event::Incident(IncidentEvent::Claimed { instead_of }), Actor::Salve(process))
                if self.owner == *instead_of && self.owner.as_ref() != Some(process) =>
            {
                let fair = instead_of.as_ref().is_none_or(gone);
                hold(Invariant::OneOwner, fair, "taken from a process that is alive")?;
                self.owner = Some(process.clone());
            }
            (Event::Incident(IncidentEvent::Released {}), Actor::Salve(process))
                if self.owner.as_ref() == Some(process) =>
            {
                self.owner = None;
            }
            (
                Event::Incident(IncidentEvent::Judged { remedy, judgement }),
                Actor::Salve(process),
            ) if self.owner.as_ref() == Some(process)
                && judgement.verdict == RemedyVerdict::Allow =>
            {
                self.allowed.push(remedy.digest);
            }
            (Event::Incident(IncidentEvent::Refilled { granted }), by) if by.person().is_some() => {
                self.granted = self.granted.saturating_add(granted.attempts);
            }
            _ => {}
        }
        Ok(())
    }

    /// Looks at what the journal still holds after the power failed.
    ///
    /// What the world saw stays; what was only written is read again.
    pub(super) fn lost_power(&mut self, journal: &[Entry]) -> Result<(), Broken> {
        let requests = || {
            journal.iter().filter_map(|entry| match entry.event {
                Event::Incident(IncidentEvent::Requested { effect, what }) => Some((effect, what)),
                _ => None,
            })
        };
        let known =
            self.applied.iter().all(|effect| requests().any(|(number, _)| number == *effect));
        hold(Invariant::JournalFirst, known, "a remedy ran and nothing tells of it")?;
        // Harmless effects whose entries are gone may run again under the same number.
        let last = requests().map(|(effect, _)| effect).max().unwrap_or(0);
        self.ran.retain(|effect| *effect <= last);
        (self.owner, self.granted) = (None, 0);
        self.allowed.clear();
        // The same request may stand there twice, of which the second was refused.
        let mut spent = BTreeSet::new();
        for entry in journal {
            self.wrote(entry, |_| true)?;
            if let Event::Incident(IncidentEvent::Requested {
                effect,
                what: Effect::Apply { remedy, on: Authority::Gate },
            }) = entry.event
                && self.applied.contains(&effect)
                && spent.insert(effect)
            {
                let place = self.allowed.iter().position(|allowed| *allowed == remedy);
                place.map(|place| self.allowed.swap_remove(place));
            }
        }
        Ok(())
    }

    /// Looks at an effect that a process is about to run.
    pub(super) fn acts(
        &mut self,
        by: &Process,
        run: DueEffect,
        journal: &[Entry],
        attempts: u64,
    ) -> Result<(), Broken> {
        hold(Invariant::OneOwner, self.owner.as_ref() == Some(by), "somebody else acts")?;
        let intention =
            Event::Incident(IncidentEvent::Requested { effect: run.effect, what: run.what });
        let written = |entry: &Entry| entry.event == intention && entry.by.process() == Some(by);
        let known = journal.iter().any(written);
        hold(Invariant::JournalFirst, known, "an effect that nobody wrote down")?;
        let first = self.ran.insert(run.effect);
        hold(Invariant::JournalFirst, first, "an effect that runs twice")?;
        match run.what {
            Effect::Snapshot => {
                // What is kept is the workspace as it is; an unproven change must not be in it.
                hold(Invariant::WorkGivenBack, !self.dirty || self.undo_failed, "kept a change")?;
            }
            Effect::Apply { remedy, on } => {
                self.applies(remedy, on, journal)?;
                self.applied.insert(run.effect);
                let within = self.applied.len() as u64 <= attempts.saturating_add(self.granted);
                hold(Invariant::BudgetFalls, within, "more attempts than granted")?;
                self.well = false;
                self.layer = LayerAccount::Unknown;
            }
            Effect::TakeOver => {
                let known = if self.is_check {
                    self.layer == LayerAccount::Proven
                } else {
                    self.layer != LayerAccount::Unknown
                };
                hold(Invariant::ProvenFirst, known, "taken over untried")?;
                self.well = false;
            }
            Effect::Verify | Effect::VerifyInLayer => self.well = false,
            Effect::Measure
            | Effect::RollBack(_)
            | Effect::Ask
            | Effect::Record
            | Effect::Release => {}
        }
        Ok(())
    }

    fn applies(&mut self, remedy: Digest, on: Authority, journal: &[Entry]) -> Result<(), Broken> {
        match on {
            Authority::Gate => {
                let place = self.allowed.iter().position(|allowed| *allowed == remedy);
                hold(Invariant::Gated, place.is_some(), "no rule allowed this")?;
                // An allowance is for one run; a second one needs a second look.
                place.map(|place| self.allowed.swap_remove(place));
            }
            Authority::Approval(seq) => {
                let approval = journal.iter().find(|entry| entry.seq == seq);
                let fits = approval.is_some_and(|entry| {
                    let about =
                        matches!(entry.event, Event::Incident(IncidentEvent::Approved { digest, .. }) if digest == remedy);
                    about && entry.by.person().is_some()
                });
                hold(Invariant::Gated, fits, "no person approved exactly this")?;
                hold(Invariant::ApprovalOnce, self.used.insert(seq), "approval used twice")?;
            }
        }
        Ok(())
    }

    /// Notes what an effect did to the workspace and the subject; `edits` if it changes files.
    pub(super) fn did(
        &mut self,
        run: DueEffect,
        report: &EffectReport,
        edits: bool,
    ) -> Result<(), Broken> {
        match (run.what, report) {
            (Effect::Snapshot, EffectReport::Done) => self.kept = true,
            (Effect::Apply { .. }, _) if edits => {
                hold(Invariant::WorkGivenBack, self.kept, "changed what was not kept")?;
                self.kept = false;
                self.dirty = true;
            }
            (Effect::Measure, EffectReport::Measured(_)) => self.layer = LayerAccount::Measured,
            (Effect::VerifyInLayer, EffectReport::Done) => self.layer = LayerAccount::Proven,
            (Effect::VerifyInLayer, EffectReport::Verified { proof, .. }) => {
                self.well = matches!(proof, Proof::Transient | Proof::Flaky);
            }
            (Effect::TakeOver, EffectReport::Conflict { .. }) => {}
            (Effect::TakeOver, _) => {
                hold(
                    Invariant::WorkGivenBack,
                    self.kept || self.dirty,
                    "changed what was not kept",
                )?;
                self.kept = false;
                self.dirty = true;
            }
            (Effect::RollBack(_), EffectReport::Done) => self.dirty = false,
            (Effect::RollBack(_), _) => self.undo_failed = true,
            (Effect::Verify, EffectReport::Verified { proof, .. }) => {
                self.well = matches!(proof, Proof::Proven | Proof::Transient | Proof::Flaky);
            }
            _ => {}
        }
        Ok(())
    }

    /// Compares the state before and after an entry that was taken in.
    pub(super) fn took(
        &mut self,
        entry: &Entry,
        before: &Incident,
        after: &Incident,
    ) -> Result<(), Broken> {
        let is_heir = matches!(entry.event, Event::Incident(IncidentEvent::Claimed { .. }));
        let applied = matches!(before.phase(), Phase::Doing { what: Effect::Apply { .. }, .. });
        let is_there = |trial: &Trial| trial.ground == TrialGround::Workspace;
        if is_heir && applied && before.trial().is_some_and(is_there) {
            // A kill cut it short: it may be anybody's by now, and is left to a person.
            self.dirty = false;
        }
        let refill = matches!(entry.event, Event::Incident(IncidentEvent::Refilled { .. }))
            && entry.by.person().is_some();
        for resource in Resource::ALL {
            let falls = refill || after.ledger().left(resource) <= before.ledger().left(resource);
            hold(Invariant::BudgetFalls, falls, "a budget rose without a refill")?;
        }
        if let Event::Incident(IncidentEvent::Ended { outcome }) = entry.event {
            let recovered = matches!(outcome, IncidentOutcome::Recovered(_));
            hold(Invariant::Verified, !recovered || self.well, "not verified after all")?;
            let may_stay = recovered || outcome == IncidentOutcome::Resolved || self.undo_failed;
            hold(Invariant::WorkGivenBack, !self.dirty || may_stay, "left a change behind")?;
        }
        Ok(())
    }
}
