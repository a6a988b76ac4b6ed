//! Which remedies fit a check's failure.

use salve_core::event::{Event, IncidentEvent, Mode};
use salve_core::incident::Phase;
use salve_core::playbook::{Diagnosis, Nature};

use super::checkup::Checkup;
use crate::heal::Wrote;
use crate::heal::cause::{self, Place, has_safe};
use crate::heal::shelf::{self, Cure, Offer, What};
use crate::store::StoreError;

/// What running a check again is called.
pub(super) const AGAIN: &str = "run it again";

impl Checkup<'_, '_> {
    /// Chooses the next remedy and puts it to the gate.
    pub(super) fn choose(&mut self) -> Result<Event, StoreError> {
        let Some(Offer { candidate, judgement, what }) = self.next_offer()? else {
            return Ok(self.nothing_left());
        };
        self.case.tried = self.case.seen.clone();
        let digest = candidate.remedy.digest;
        self.case.cures.retain(|old| old.digest != digest);
        self.case.cures.push(Cure { digest, what });
        Ok(Event::Incident(IncidentEvent::Judged { remedy: Box::new(candidate.remedy), judgement }))
    }

    /// Returns what would be put to the gate next.
    pub(super) fn next_offer(&mut self) -> Result<Option<Offer>, StoreError> {
        self.diagnose()?;
        if self.quest.is_some() {
            return self.next_recovery();
        }
        let offers = self.offers()?;
        let signature = self.case.seen.as_ref().map(|seen| seen.symptom.signature);
        let (store, scrubber) = (self.clinic.desk.store, &self.clinic.desk.scrubber);
        let offers = self.clinic.shelf.earn(offers, store, signature, scrubber)?;
        let incident = self.incident.as_ref();
        Ok(incident.and_then(|incident| shelf::pick(incident, &offers).cloned()))
    }

    /// Returns where the check runs.
    pub(super) fn place(&self) -> Place {
        let (root, plan) = (self.clinic.project.root(), &self.plan);
        Place::new(root, &plan.dir, (&plan.argv, &plan.env), &self.clinic.shelf.sandbox)
    }

    /// Looks into the cause of the present failure, once, and tells the journal.
    fn diagnose(&mut self) -> Result<(), StoreError> {
        if self.case.diagnosis.is_some() {
            return Ok(());
        }
        let scrubber = &self.clinic.desk.scrubber;
        let found = match &self.case.seen {
            Some(seen) => cause::diagnose(seen, &self.place(), scrubber),
            None => Diagnosis::unknown(),
        };
        let rule = found.rule.as_ref().map(|rule| scrubber.scrub(rule));
        let (nature, findings) = (found.nature, found.findings.clone());
        self.case.diagnosis = Some(found);
        if !findings.is_empty() {
            self.keep_evidence();
        }
        let Some(rule) = rule else { return Ok(()) };
        let event = Event::Incident(IncidentEvent::Diagnosed { nature, rule, findings });
        let (by, Some(incident)) = (self.clinic.desk.salve(), &mut self.incident) else {
            return Ok(());
        };
        let (face, name) = (&mut *self.clinic.face, &self.plan.name);
        let mut show = |incident: &_, entry: &_| face.entry(name, incident, entry);
        while incident.phase() == Phase::Choosing {
            match self.clinic.desk.write(incident, &by, vec![event.clone()], &mut show)? {
                Wrote::Done(_) => break,
                Wrote::Overtaken => {}
            }
        }
        Ok(())
    }

    /// Returns everything that fits the present failure, as far as its cause is known.
    fn offers(&mut self) -> Result<Vec<Offer>, StoreError> {
        let diagnosis = self.case.diagnosis.clone().unwrap_or_else(Diagnosis::unknown);
        let proposed = self.proposed()?;
        let (mode, scrubber) = (self.clinic.heal.mode, &self.clinic.desk.scrubber);
        let shelf = &self.clinic.shelf;
        let mut offers = shelf.prescribed(&diagnosis, &self.case.failed, mode, scrubber);
        if self.may_be_flaky(&diagnosis) {
            offers.push(shelf::resort(What::Again, AGAIN));
        }
        offers.extend(proposed);
        if diagnosis.nature == Nature::Transient {
            return Ok(offers);
        }
        if let Some(seen) = &self.case.seen {
            let signature = seen.symptom.signature;
            let known =
                shelf.known((&self.clinic.project, self.clinic.desk.store), signature, scrubber)?;
            offers.extend(shelf::beside(known, &diagnosis));
        }
        if mode == Mode::Agent && needs_thought(&diagnosis) && self.agent_is_of_use() {
            offers.push(shelf::resort(What::Agent, AGAIN));
        }
        Ok(offers)
    }

    /// Returns whether the check is worth another run before anything is changed.
    fn may_be_flaky(&self, diagnosis: &Diagnosis) -> bool {
        let passing = self
            .case
            .seen
            .as_ref()
            .is_some_and(|seen| seen.symptom.class.categories().job == "transient_runtime");
        let by_nature = match diagnosis.nature {
            Nature::Transient => false,
            Nature::Infrastructure | Nature::Code => false,
            Nature::Unknown => passing,
        };
        by_nature && self.case.reruns < self.clinic.heal.reruns
    }
}

/// Returns whether an agent may help, given the cause.
fn needs_thought(diagnosis: &Diagnosis) -> bool {
    match diagnosis.nature {
        Nature::Unknown | Nature::Code => true,
        Nature::Transient => false,
        // What was prescribed did not help: an agent may find out why.
        Nature::Infrastructure => has_safe(diagnosis),
    }
}
