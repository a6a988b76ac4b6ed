//! Which remedy is put to the gate next.
//!
//! What the playbook prescribes, what the team proposes, what memory knows, the subject's own
//! resorts and an agent's turn are offered to the incident; core says which of them comes first.

use salve_core::event::{Digest, Event, IncidentEvent, Judgement, RemedyVerdict, RepairMode};
use salve_core::incident::{Incident, choose};
use salve_core::playbook::{Diagnosis, Nature};
use salve_core::scrub::Scrubbed;

use super::agents::is_of_use;
use super::case::Case;
use super::team;
use crate::heal::cause::has_safe;
use crate::heal::proposals;
use crate::heal::remedies::{self, FleetQuestion, Offer, RemedyWay};
use crate::heal::run_base::{RunBase, RunIntent};
use crate::heal::subject::{Resorts, Subjects};
use crate::store::StoreError;
use crate::workspace::LayerMeans;

/// Chooses remedies for the incident of one subject.
pub(super) struct Chooser<'r, 'a> {
    pub(super) base: &'r mut RunBase<'a>,
    pub(super) case: &'r mut Case,
    pub(super) subjects: &'r mut dyn Subjects,
    pub(super) at: usize,
}

impl Chooser<'_, '_> {
    /// Chooses the next remedy for an incident that stands like this.
    pub(super) fn choose(&mut self, incident: &Incident) -> Result<Event, StoreError> {
        let mut next = self.next(incident)?;
        if self.base.intent == RunIntent::Observe
            && let Some(offer) = next.take()
        {
            self.base.note(self.case.name(), &would_do(&offer));
        }
        let Some(Offer { candidate, judgement, what }) = next else {
            return Ok(Event::Incident(self.subjects.nothing_left(incident, self.base)));
        };
        self.case.work.tried = self.case.work.seen.clone();
        self.case.learn_cure(candidate.remedy.digest, what);
        let remedy = Box::new(candidate.remedy);
        Ok(Event::Incident(IncidentEvent::Judged { remedy, judgement }))
    }

    /// Returns what would be put to the gate next.
    fn next(&mut self, incident: &Incident) -> Result<Option<Offer>, StoreError> {
        if let Some(own) = self.subjects.offers(self.at, self.base, self.case)? {
            return Ok(first_open(incident, &own).cloned());
        }
        if self.subjects.runs_again_first(self.at, self.case)
            && let Some(again) = self.again_first(incident)
        {
            return Ok(Some(again));
        }
        let offers = self.offers(incident)?;
        Ok(remedies::pick(incident, &offers).cloned())
    }

    /// Returns that the subject is only run again, unless that was refused.
    fn again_first(&self, incident: &Incident) -> Option<Offer> {
        let diagnosis = Diagnosis::unknown();
        let again = self.subjects.resorts(self.at, self.case, &diagnosis, self.base).again;
        remedies::pick(incident, &[remedies::resort(RemedyWay::Again, again)]).cloned()
    }

    /// Returns whether something other than an agent's turn is left to try.
    pub(super) fn has_cheap(&mut self, incident: &Incident) -> Result<bool, StoreError> {
        let next = self.next(incident)?;
        Ok(next.is_some_and(|offer| !matches!(offer.what, RemedyWay::Agent)))
    }

    /// Finds out what a remedy that an earlier run of Salve chose would do.
    pub(super) fn recall(&mut self, digest: Digest) -> Result<(), StoreError> {
        let Some(incident) = self.case.incident().cloned() else { return Ok(()) };
        let work = &mut self.case.work;
        let is_unseen = work.seen.is_none();
        if is_unseen {
            // What it was chosen against is known from the journal and the evidence that was kept.
            work.seen = work.tried.clone().or_else(|| work.first.clone());
        }
        let found = self.find(&incident, digest);
        if is_unseen {
            self.case.work.seen = None;
        }
        if let Some(what) = found? {
            self.case.learn_cure(digest, what);
        }
        Ok(())
    }

    fn find(
        &mut self,
        incident: &Incident,
        digest: Digest,
    ) -> Result<Option<RemedyWay>, StoreError> {
        let offers = match self.subjects.offers(self.at, self.base, self.case)? {
            Some(own) => own,
            None => self.offers(incident)?,
        };
        let known = offers.into_iter().find(|offer| offer.candidate.remedy.digest == digest);
        match known.map(|offer| offer.what) {
            Some(what) => Ok(Some(what)),
            None => recalled(self.base, incident, digest),
        }
    }

    /// Finds out what a remedy of an earlier run was, where the team proposed it.
    pub(super) fn recall_proposed(&mut self, digest: Digest) -> Result<(), StoreError> {
        let Some(incident) = self.case.incident() else { return Ok(()) };
        if let Some(what) = recalled(self.base, incident, digest)? {
            self.case.learn_cure(digest, what);
        }
        Ok(())
    }

    /// Returns everything that fits the present failure, as far as its cause is known.
    fn offers(&mut self, incident: &Incident) -> Result<Vec<Offer>, StoreError> {
        let diagnosis = self.case.diagnosis().cloned().unwrap_or_else(Diagnosis::unknown);
        let mode = self.base.terms.mode;
        let proposed = team::proposed(self.base, self.case)?;
        let base = &*self.base;
        let (remedies, scrubber) = (&base.remedies, &base.writer.scrubber);
        let mut offers = remedies.prescribed(&diagnosis, self.case.failed(), mode, scrubber);
        let Resorts { again, own } = self.subjects.resorts(self.at, self.case, &diagnosis, base);
        offers.extend(own.into_iter().map(|what| remedies::resort(what, again)));
        if !self.subjects.may_run_again(self.at, self.case, base) {
            offers.retain(|offer| !matches!(offer.what, RemedyWay::Again));
        }
        if !self.subjects.takes_variables() {
            offers.retain(|offer| {
                !matches!(&offer.what, RemedyWay::Playbook(action) if action.only_sets_variables())
            });
        }
        offers.extend(proposed);
        if diagnosis.nature != Nature::Transient {
            if let Some(seen) = self.case.seen() {
                let (store, signature) = (base.writer.store, seen.symptom.signature);
                let known = remedies.known(&base.project, store, signature, scrubber)?;
                offers.extend(remedies::beside(known, &diagnosis));
                let asked = FleetQuestion { signature, subject: incident.subject().kind };
                let told = remedies.known_in_fleet(&base.project, store, asked, scrubber)?;
                offers.extend(remedies::beside(told, &diagnosis));
            }
            if mode == RepairMode::Agent
                && needs_thought(&diagnosis)
                && is_of_use(base, self.case, self.subjects.agent_manner())?
            {
                let agent = remedies::resort(RemedyWay::Agent, again);
                let starts_one = base.agents.is_some();
                offers.push(if starts_one {
                    unless_unheld(agent, &LayerMeans::over(base.project.root()))
                } else {
                    agent
                });
            }
        }
        let signature = Some(incident.symptom().signature);
        let mut offers = remedies.earn(offers, base.writer.store, signature, scrubber)?;
        for offer in &mut offers {
            if offer.judgement.verdict == RemedyVerdict::Allow
                && let Some(asked) = self.subjects.second_thought(self.at, offer, base)?
            {
                offer.judgement = asked;
            }
        }
        Ok(offers)
    }
}

/// Returns an agent's turn as it is where a private layer can be laid for it; where not, a person is asked
/// whether it may work on the files themselves.
fn unless_unheld(offer: Offer, means: &LayerMeans) -> Offer {
    match means {
        LayerMeans::Overlay { .. } | LayerMeans::Copy => offer,
        LayerMeans::None => Offer {
            judgement: Judgement {
                verdict: RemedyVerdict::Ask,
                rule: Scrubbed::literal("agent.layer"),
                reason: Scrubbed::literal(
                    "nothing on this machine keeps an agent's writes apart: it would work on your \
                     files themselves",
                ),
            },
            ..offer
        },
    }
}

/// Returns what would be done with an offer, and by which rule.
fn would_do(offer: &Offer) -> String {
    let Offer { candidate, judgement, .. } = offer;
    let would = match judgement.verdict {
        RemedyVerdict::Allow => "would try",
        RemedyVerdict::Ask => "would ask about",
        RemedyVerdict::Deny => "would not try",
    };
    let (rule, reason) = (&judgement.rule, &judgement.reason);
    format!("observing: {would} `{}` ({rule}: {reason}); nothing was done", candidate.remedy.text)
}

/// Returns what a remedy of an earlier run was, from what the team proposed.
fn recalled(
    base: &RunBase<'_>,
    incident: &Incident,
    digest: Digest,
) -> Result<Option<RemedyWay>, StoreError> {
    let remedy = incident.trial().map(|trial| &trial.remedy).filter(|one| one.digest == digest);
    let Some(remedy) = remedy else { return Ok(None) };
    let team = crate::team::read(base.writer.store)?;
    Ok(proposals::recall(remedy, &team.proposals))
}

/// Returns the first offer of a list in its own order that the incident would take: what must not
/// run goes on record first, and what needs a person comes last.
fn first_open<'o>(incident: &Incident, offers: &'o [Offer]) -> Option<&'o Offer> {
    let open = |offer: &&Offer| choose(incident, vec![offer.candidate.clone()]).is_some();
    [RemedyVerdict::Deny, RemedyVerdict::Allow, RemedyVerdict::Ask].into_iter().find_map(
        |verdict| offers.iter().filter(|offer| offer.judgement.verdict == verdict).find(open),
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nothing_keeps_an_agents_writes_apart_a_person_is_asked() {
        let verdict = |means: LayerMeans| {
            let offer = remedies::resort(RemedyWay::Agent, "again");
            unless_unheld(offer, &means).judgement.verdict
        };
        assert_eq!(verdict(LayerMeans::Overlay { base: "/x".into() }), RemedyVerdict::Allow);
        assert_eq!(verdict(LayerMeans::Copy), RemedyVerdict::Allow);
        assert_eq!(verdict(LayerMeans::None), RemedyVerdict::Ask);
    }
}
