//! How the recovery of a loop's tests goes on where an earlier run of Salve stopped.

use salve_core::event::{Effect, Event, IncidentEvent, Proposed, Source};
use salve_core::gate::Proposal;
use salve_core::incident::{Incident, Phase};
use salve_core::recovery;

use super::Remark;
use super::checkup::Checkup;
use crate::heal::manifests;
use crate::heal::recovery_file::{self, Found};
use crate::store::StoreError;

impl Checkup<'_, '_> {
    /// Takes up an incident of an earlier run: what it asks goes on being asked, and what was
    /// approved meanwhile is done once the tests have been seen to fail again.
    pub(super) fn resume_quest(&mut self, claim: Event) -> Result<(), StoreError> {
        let Some(incident) = &mut self.incident else { return Ok(()) };
        let (face, name) = (&mut *self.clinic.face, &self.plan.name);
        let mut show = |incident: &Incident, entry: &_| face.entry(name, incident, entry);
        self.clinic.desk.claim(incident, claim, &mut show)?;
        if let Some(proposal) = self.recall_proposal()? {
            self.ask_anew(proposal)?;
        }
        let root = self.clinic.project.root().to_path_buf();
        let name = self.clinic.desk.scrubber.scrub(&self.plan.name);
        if let Some(quest) = &mut self.quest {
            quest.changed = manifests::changed(&self.clinic.desk, &root, &name, quest.since)?;
        }
        if self.has_no_tests() {
            self.ask_on();
        }
        if self.is_blind() {
            self.start(None);
        }
        Ok(())
    }

    /// Tells whether the tests have to be seen before an incident of an earlier run goes on.
    pub(super) fn is_blind(&self) -> bool {
        let Some(incident) = self.incident.as_ref().filter(|_| self.case.seen.is_none()) else {
            return false;
        };
        match incident.phase() {
            Phase::Choosing | Phase::Asking { .. } => true,
            Phase::Due { what, .. } => {
                matches!(what, Effect::Snapshot | Effect::Apply { .. })
            }
            Phase::Doing { .. }
            | Phase::CoolingDown { .. }
            | Phase::Ending { .. }
            | Phase::Closed(_) => false,
        }
    }

    /// Tells whether nobody in this run of Salve has seen a loop's tests yet.
    pub(super) fn is_unseen(&self) -> bool {
        let is_unseen = self.quest.as_ref().is_some_and(|quest| quest.last.is_none());
        is_unseen && !self.has_no_tests()
    }

    /// Goes on with an incident of an earlier run whose tests execute by now.
    pub(super) fn executes_again(&mut self) -> Result<(), StoreError> {
        let phase = self.incident.as_ref().map(Incident::phase);
        if let Some(quest) = &mut self.quest {
            quest.is_well = true;
        }
        match phase {
            Some(Phase::Asking { .. }) => {
                self.say(vec![Event::Incident(IncidentEvent::Superseded {})])
            }
            _ => Ok(()),
        }
    }

    /// Says what an earlier run of Salve asked and nobody has answered.
    pub(super) fn ask_on(&mut self) {
        let incident = self.incident.as_ref();
        let asks = incident.filter(|one| matches!(one.phase(), Phase::Asking { .. }));
        if let Some(incident) = asks.map(Incident::id) {
            self.remark(&Remark::Asks { incident });
        }
    }

    /// Takes up the proposal of an incident that goes on: as its file has it, or the journal.
    ///
    /// Returns what is proposed now, if that is something else than what the journal knows of.
    fn recall_proposal(&mut self) -> Result<Option<Box<Proposed>>, StoreError> {
        let (Some(quest), Some(incident)) = (&mut self.quest, &self.incident) else {
            return Ok(None);
        };
        let (stamp, found) = recovery_file::read(&quest.files.proposal(), quest.turn);
        quest.stamp = stamp;
        let chronicle = quest.files.chronicle(self.clinic.desk.store)?;
        let course = chronicle.courses().find(|course| course.id() == incident.id());
        let kept = course.and_then(|course| course.proposal.as_ref());
        match found {
            Found::Proposal(proposal) => {
                let now = recovery::proposed(&proposal, &self.clinic.desk.scrubber);
                let is_known = kept.is_some_and(|kept| kept.wants_the_same(&now));
                quest.proposal = Some(proposal);
                Ok((!is_known).then(|| Box::new(now)))
            }
            // What became of the file since does not take back what was proposed.
            Found::Nothing | Found::Refused(_) => {
                let kept = kept.filter(|kept| kept.source == Source::Tester).map(recovery::to_json);
                quest.proposal = kept.and_then(|kept| Proposal::read(&kept).ok()).map(Box::new);
                Ok(None)
            }
        }
    }
}
