//! The tester's proposal in `recovery.json`: read, watched, and drafted where there is none.

use std::time::{Duration, Instant};

use salve_core::event::{Event, IncidentEvent, ProposalSource, Proposed, RecoveryEvent};
use salve_core::gate::{RecoveryProposal, Which};
use salve_core::incident::{Incident, Phase};
use salve_core::recovery::{self, DraftedFailure};

use super::sought::SoughtRecovery;
use crate::heal::SubjectContext;
use crate::heal::files::with_causes;
use crate::heal::judging_command::ONLY;
use crate::heal::recovery_file::{self, FoundProposal, ProposalStamp, Turn};
use crate::store::StoreError;

/// How often it is looked whether something else is proposed while a person is asked.
const LOOK: Duration = Duration::from_millis(200);

/// The tester's proposal, and when its file was read.
pub(super) struct ProposalWatch {
    pub(super) found: Option<Box<RecoveryProposal>>,
    pub(super) stamp: ProposalStamp,
    turn: Turn,
    look_at: Instant,
}

impl ProposalWatch {
    /// Returns a watch for what is proposed in one turn of the tester.
    pub(super) fn new(turn: Turn) -> Self {
        Self { found: None, stamp: ProposalStamp::default(), turn, look_at: Instant::now() }
    }

    /// Reads the tester's proposal, and says why what is there is none.
    pub(super) fn read(
        &mut self,
        sought: &SoughtRecovery,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        let (stamp, found) = recovery_file::read(&sought.files.proposal(), self.turn);
        self.stamp = stamp;
        match found {
            FoundProposal::Proposal(proposal) => self.found = Some(proposal),
            FoundProposal::Nothing => {}
            FoundProposal::Refused(refused) => sought.refuse(&refused.to_string(), context)?,
        }
        Ok(())
    }

    /// Looks again once it is time, while a person is asked, and returns when to look next.
    pub(super) fn look_again(
        &mut self,
        sought: &SoughtRecovery,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<Instant, StoreError> {
        if Instant::now() >= self.look_at {
            self.look_at = Instant::now() + LOOK;
            self.take_in_change(sought, context)?;
        }
        Ok(self.look_at)
    }

    /// Looks whether something else is proposed by now, and asks about that then; tells whether it
    /// is.
    pub(super) fn take_in_change(
        &mut self,
        sought: &SoughtRecovery,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<bool, StoreError> {
        if recovery_file::stamp(&sought.files.proposal()) == self.stamp {
            return Ok(false);
        }
        let before = self.found.clone();
        self.read(sought, context)?;
        let Some(proposal) = self.found.clone() else { return Ok(false) };
        if before.is_some_and(|old| wants_the_same(&old, &proposal)) {
            return Ok(false);
        }
        context.has_other_remedies(ONLY);
        let proposed = recovery::proposed(&proposal, &context.base.writer.scrubber);
        ask_about(Box::new(proposed), context);
        Ok(true)
    }

    /// Takes up the proposal of an incident that goes on: as its file has it, or the journal.
    ///
    /// What is proposed now, if that is something else than what the journal knows of, is asked.
    pub(super) fn recall(
        &mut self,
        sought: &mut SoughtRecovery,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        let Some(id) = context.incident(ONLY).map(Incident::id) else { return Ok(()) };
        let (stamp, found) = recovery_file::read(&sought.files.proposal(), self.turn);
        self.stamp = stamp;
        let view = sought.files.view(context.base.writer.store)?;
        let kept = view.recovery(id).and_then(|recovery| recovery.proposals().next_back());
        match found {
            FoundProposal::Proposal(proposal) => {
                let now = recovery::proposed(&proposal, &context.base.writer.scrubber);
                let is_known = kept.is_some_and(|kept| kept.wants_the_same(&now));
                self.found = Some(proposal);
                if !is_known {
                    ask_about(Box::new(now), context);
                }
            }
            // What became of the file since does not take back what was proposed.
            FoundProposal::Nothing | FoundProposal::Refused(_) => {
                let kept = kept
                    .filter(|kept| kept.source == ProposalSource::Tester)
                    .map(recovery::to_json);
                let kept = kept.and_then(|kept| RecoveryProposal::read(&kept).ok());
                self.found = kept.map(Box::new);
            }
        }
        Ok(())
    }

    /// Drafts a proposal where the tester made none.
    pub(super) fn draft(
        &mut self,
        failure: &DraftedFailure<'_>,
        sought: &SoughtRecovery,
        context: &mut SubjectContext<'_, '_>,
    ) -> Option<Proposed> {
        let draft = recovery::draft(failure, &context.base.writer.scrubber)?;
        let written = sought.files.write_draft(&draft);
        self.stamp = recovery_file::stamp(&sought.files.proposal());
        if let Err(error) = written {
            let text = format!("recovery.json could not be written: {}", with_causes(&error));
            context.note(ONLY, &text);
        }
        Some(draft)
    }
}

/// Puts on record what is proposed by now; where a person is asked, the question is about that.
fn ask_about(proposal: Box<Proposed>, context: &mut SubjectContext<'_, '_>) {
    let mut events = vec![Event::Recovery(RecoveryEvent::Proposed { proposal })];
    let phase = context.incident(ONLY).map(Incident::phase);
    if let Some(Phase::Asking { .. }) = phase {
        context.note(ONLY, "something else is proposed by now, so the question is another one");
        events.push(Event::Incident(IncidentEvent::Superseded {}));
    }
    context.say(ONLY, events);
}

/// Tells whether two proposals want the very same done.
fn wants_the_same(one: &RecoveryProposal, other: &RecoveryProposal) -> bool {
    let request = |proposal: &RecoveryProposal, which| proposal.request(which).ok().cloned();
    let same = |which| request(one, which) == request(other, which);
    same(Which::Recovery) && same(Which::Fallback)
}
