//! One illness of one subject, from the first symptom to its outcome.
//!
//! The same machine serves all five subjects. It decides and never acts:
//!
//! - [`Incident::step`] takes one journal entry in: state + entry → state + the effect to run.
//!   Replaying the journal through it rebuilds the state, whoever wrote the entries and however
//!   often Salve was killed in between. What does not belong is refused with a reason
//!   ([`Ignored`]) and changes nothing.
//! - [`Incident::next`] looks at the state, never at what has just happened, and says what the
//!   owner does next: write an entry, choose a remedy, or wait. A mark or an approval that came
//!   before anyone waited for it therefore counts.
//!
//! The owner's loop has three moves: ask `next`, append the entry if the incident's last entry is
//! still [`Incident::last_seq`], and only then run the effect that `step` returns for it. Results
//! come back as entries. A phase exists only where we wait for the world; recalling, choosing and
//! gating are plain calls between two entries.
//!
//! Time never runs backwards here: hand `next` the later of the wall clock and
//! [`Incident::clock`] plus the time seen to pass since.
//!
//! **Invariants**, each held by the simulator (`sim`) and by the tests beside the code:
//! never two owners; never an effect without its journal entry; a remedy is applied only when the
//! gate allowed it or a person approved exactly it; an approval is used once; what may have acted
//! is measured and verified, never applied again blindly; budgets never rise without a named
//! person; an incident ends or waits for someone named.

mod agent_watch;
mod answers;
mod budget;
mod change;
mod choose;
mod follow;
mod history;
mod ignored;
mod machine;
mod names;
mod people;
mod phase;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
mod step;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod trial;
mod trials;
mod view;

pub use budget::Ledger;
pub use change::{is_small, larger};
pub use choose::{Candidate, Tier, choose};
pub use history::History;
pub use ignored::Ignored;
pub use names::{RepairPhase, phase_names};
pub use phase::{ConsideredRemedy, Phase, RemedyFate, Told, Trial, TrialGround, TrialReach};
pub use step::DueEffect;

pub(crate) use phase::{Launched, Marks, Then};

use jiff::{SignedDuration, Timestamp};

use crate::event::{
    Effect, EffectReport, Entry, Event, IncidentEvent, IncidentOutcome, Process, Proof, Remedy,
};
use crate::id::Signature;
use crate::scrub::Scrubbed;

/// What the owner of an incident does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IncidentMove {
    /// Append this entry, then run the effect that [`Incident::step`] returns for it.
    Write(Event),
    /// Recall, [`choose`] and gate; then append [`IncidentEvent::Judged`] or [`IncidentEvent::NothingLeft`].
    Choose,
    /// Do nothing until something arrives, or until the time given.
    Wait {
        /// What is waited for.
        on: Awaited,
        /// When to look again though nothing arrived.
        until: Option<Timestamp>,
    },
    /// Do nothing: somebody else owns the incident, or nobody; see [`Incident::claim`].
    NotMine,
    /// Do nothing any more.
    Over,
}

/// What an incident waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// Time to pass.
    Time,
    /// The effect of this number to come back.
    Effect(u32),
    /// A person, by name.
    Person(Scrubbed),
}

/// Whether the process that owns an incident is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerState {
    /// That very process runs.
    Alive,
    /// That very process is gone: its pid is free, or another process has it.
    Gone,
    /// It cannot be told, for example because it is on another host.
    Unknown,
}

/// Why an incident cannot be claimed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotClaimed {
    /// The incident is over.
    #[error("the incident is over")]
    Over,
    /// It belongs to the one who asks.
    #[error("the incident is already ours")]
    Mine,
    /// Somebody owns it who is alive, or may be.
    #[error("the incident belongs to process {} on {}", .0.pid, .0.host)]
    Held(Process),
}

/// Why entries do not make an incident.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotOpened {
    /// The first entry is not the opening of an incident.
    #[error("the incident's first entry is missing")]
    NoOpening,
    /// Nobody is named who could be asked.
    #[error("the incident names nobody to ask")]
    NobodyNamed,
    /// The number of attempts has no limit, so it might never end.
    #[error("the incident has no limit on attempts")]
    Endless,
}

/// One failure's whole story so far: whose it is, and the work on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    owner: Option<Process>,
    paused: Option<Scrubbed>,
    last_seq: u64,
    repair: machine::RepairMachine,
}

/// Returns `from` plus milliseconds, stopping at the end of time.
pub(crate) fn later(from: Timestamp, ms: u64) -> Timestamp {
    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
    from.saturating_add(SignedDuration::from_millis(ms)).unwrap_or(Timestamp::MAX)
}

impl Incident {
    /// Rebuilds an incident from all its entries.
    ///
    /// # Errors
    ///
    /// When the first entry is not its opening, or names nobody to ask.
    pub fn replay<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Result<Self, NotOpened> {
        let mut entries = entries.into_iter();
        let mut incident = Self::open(entries.next().ok_or(NotOpened::NoOpening)?)?;
        for entry in entries {
            // What is refused now was refused when it was live: it changes nothing.
            let _refused = incident.step(entry);
        }
        Ok(incident)
    }

    /// Takes over an incident whose owner is gone or has let go.
    ///
    /// The entry takes effect only if nothing else was appended meanwhile.
    ///
    /// # Errors
    ///
    /// When the owner is not surely gone, or there is nothing to take.
    pub fn claim(&self, me: &Process, holder: OwnerState) -> Result<Event, NotClaimed> {
        match (&self.owner, holder) {
            _ if matches!(self.repair.phase, Phase::Closed(_)) => Err(NotClaimed::Over),
            (None, _) => Ok(Event::Incident(IncidentEvent::Claimed { instead_of: None })),
            (Some(owner), _) if owner == me => Err(NotClaimed::Mine),
            (Some(owner), OwnerState::Gone) => {
                Ok(Event::Incident(IncidentEvent::Claimed { instead_of: Some(owner.clone()) }))
            }
            (Some(owner), OwnerState::Alive | OwnerState::Unknown) => {
                Err(NotClaimed::Held(owner.clone()))
            }
        }
    }

    /// Returns what `me` does next, judged from the state alone.
    pub fn next(&self, me: &Process, now: Timestamp) -> IncidentMove {
        if let Phase::Closed(_) = self.repair.phase {
            return IncidentMove::Over;
        }
        if self.owner.as_ref() != Some(me) {
            return IncidentMove::NotMine;
        }
        let now = now.max(self.repair.clock);
        let from = |from: Timestamp, event: Event| {
            if now < from {
                IncidentMove::Wait { on: Awaited::Time, until: Some(from) }
            } else {
                IncidentMove::Write(event)
            }
        };
        let request = |what| {
            Event::Incident(IncidentEvent::Requested {
                effect: self.repair.effects.saturating_add(1),
                what,
            })
        };
        match self.repair.phase {
            Phase::Choosing | Phase::Due { .. } if self.paused_by().is_some() => {
                self.wait_for_person()
            }
            Phase::Choosing => match self.repair.ledger.exhausted() {
                Some(resource) => {
                    IncidentMove::Write(Event::Incident(IncidentEvent::Exhausted { resource }))
                }
                None => IncidentMove::Choose,
            },
            Phase::Due { what, from: time } => match self.repair.out_of_budget_for(what) {
                // Late costs used up the budget after the remedy was allowed.
                Some(resource) => {
                    IncidentMove::Write(Event::Incident(IncidentEvent::Exhausted { resource }))
                }
                None => from(time, request(what)),
            },
            Phase::Doing { effect, .. } => match self.repair.agent_deadline() {
                Some(time) if time <= now => {
                    IncidentMove::Write(Event::Incident(IncidentEvent::Finished {
                        effect,
                        report: EffectReport::NoAgent,
                    }))
                }
                until => IncidentMove::Wait { on: Awaited::Effect(effect), until },
            },
            Phase::Asking { told: Told::No, .. } => IncidentMove::Write(request(Effect::Ask)),
            Phase::Asking { .. } => self.wait_for_person(),
            Phase::CoolingDown { until } => {
                from(until, Event::Incident(IncidentEvent::CooledDown {}))
            }
            Phase::Ending { outcome, from: time } => {
                from(time, Event::Incident(IncidentEvent::Ended { outcome }))
            }
            Phase::Closed(_) => IncidentMove::Over,
        }
    }

    fn wait_for_person(&self) -> IncidentMove {
        let person = self.paused_by().unwrap_or(&self.repair.policy.person).clone();
        IncidentMove::Wait { on: Awaited::Person(person), until: None }
    }

    /// Returns who paused what would run next; undoing and ending go on in a pause.
    pub fn paused_by(&self) -> Option<&Scrubbed> {
        let held = match self.repair.phase {
            Phase::Choosing => true,
            Phase::Due { what, .. } => match what {
                Effect::Snapshot
                | Effect::Apply { .. }
                | Effect::Measure
                | Effect::VerifyInLayer
                | Effect::TakeOver
                | Effect::Verify => true,
                Effect::RollBack(_) | Effect::Ask | Effect::Record | Effect::Release => false,
            },
            Phase::Doing { .. }
            | Phase::Asking { .. }
            | Phase::CoolingDown { .. }
            | Phase::Ending { .. }
            | Phase::Closed(_) => false,
        };
        self.paused.as_ref().filter(|_| held)
    }

    /// Returns what memory may credit: the remedy, the failure it cured, and the proof.
    ///
    /// `None` unless the heal is proven and it is sure that this remedy did it: where its run was
    /// cut off, only what it left in the files is sure.
    pub fn credit(&self) -> Option<(&Remedy, Signature)> {
        let trial = self.repair.trials.current.as_ref()?;
        let proven = self.repair.outcome == Some(IncidentOutcome::Recovered(Proof::Proven));
        let is_sure = match trial.reach {
            TrialReach::Applied => true,
            TrialReach::Unsure => trial.remedy.kind.edits(),
            TrialReach::Untouched | TrialReach::InLayer => false,
        };
        (proven && is_sure).then_some((&trial.remedy, trial.signature))
    }
}
