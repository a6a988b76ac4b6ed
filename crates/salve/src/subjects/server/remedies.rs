//! Which remedies fit a server's failure.

use salve_core::event::{Event, IncidentEvent, Mode};
use salve_core::incident::Incident;
use salve_core::playbook::{Diagnosis, Nature};

use super::fleet::Fleet;
use crate::heal::cause::has_safe;
use crate::heal::shelf::{self, Cure, Offer, What};
use crate::store::StoreError;

impl Fleet<'_> {
    /// Chooses the next remedy for a server whose incident stands like this, and puts it to the
    /// gate.
    pub(super) fn choose(&mut self, at: usize, incident: &Incident) -> Result<Event, StoreError> {
        let offers = self.offers(at)?;
        let signature = Some(incident.symptom().signature);
        let (store, scrubber) = (self.desk.store, &self.desk.scrubber);
        let offers = self.shelf.earn(offers, store, signature, scrubber)?;
        let Some(Offer { candidate, judgement, what }) = shelf::pick(incident, &offers) else {
            return Ok(Event::Incident(IncidentEvent::NothingLeft {}));
        };
        let digest = candidate.remedy.digest;
        let cures = &mut self.servers[at].case.cures;
        cures.retain(|old| old.digest != digest);
        cures.push(Cure { digest, what: what.clone() });
        let (remedy, judgement) = (Box::new(candidate.remedy.clone()), judgement.clone());
        Ok(Event::Incident(IncidentEvent::Judged { remedy, judgement }))
    }

    /// Returns everything that fits the present failure, as far as its cause is known.
    fn offers(&mut self, at: usize) -> Result<Vec<Offer>, StoreError> {
        let diagnosis = self.insight(at).cloned().unwrap_or_else(Diagnosis::unknown);
        let (case, mode) = (&self.servers[at].case, self.repair.mode);
        let scrubber = &self.desk.scrubber;
        let mut offers = self.shelf.prescribed(&diagnosis, &case.failed, mode, scrubber);
        if diagnosis.nature == Nature::Transient {
            return Ok(offers);
        }
        if let Some(seen) = &case.seen {
            let signature = seen.found.symptom.signature;
            let known = self.shelf.known((&self.project, self.desk.store), signature, scrubber)?;
            offers.extend(shelf::beside(known, &diagnosis));
        }
        offers.extend(own(&diagnosis, mode).map(|what| shelf::resort(what, "restart")));
        Ok(offers)
    }
}

/// Returns which of Salve's own resorts make sense, given the cause.
fn own(diagnosis: &Diagnosis, mode: Mode) -> Option<What> {
    let by_mode = match mode {
        Mode::Agent => What::Agent,
        Mode::Legacy => What::Again,
    };
    match (diagnosis.nature, mode) {
        (Nature::Unknown, _) => Some(by_mode),
        // It may pass; the playbook's own restart is all that is tried.
        (Nature::Transient, _) => None,
        (Nature::Code, Mode::Agent) => Some(What::Agent),
        // The rule says whether running it again can help; a person reads what was found.
        (Nature::Code, Mode::Legacy) => None,
        // What was prescribed did not help: an agent may find out why.
        (Nature::Infrastructure, Mode::Agent) if has_safe(diagnosis) => Some(What::Agent),
        (Nature::Infrastructure, _) => None,
    }
}
