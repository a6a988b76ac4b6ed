//! Which remedies fit tests of a loop that could not execute.
//!
//! What the tester proposes comes first where the gate allows it, then what the playbook has, then
//! what memory knows; what needs a person comes last, in the same order.
//!
//! **Invariant:** a proposal's fallback is never offered before its first command has failed.

use salve_core::class::Class;
use salve_core::event::{Digest, Event, IncidentEvent, Judgement, Mode, Origin, Verdict};
use salve_core::gate::{Request, State, Which};
use salve_core::incident::{Fate, Incident, choose};
use salve_core::playbook::Diagnosis;
use salve_core::scrub::Scrubbed;

use super::checkup::Checkup;
use super::quest::ago;
use super::remedies::AGAIN;
use crate::config::ChangedManifest;
use crate::heal::shelf::{self, Cure, Offer, What};
use crate::store::StoreError;

/// How sure a tester's command is, in thousandths: it is tried for what it is.
const PROPOSED: u16 = 500;

impl Checkup<'_, '_> {
    /// Returns what would be put to the incident next.
    pub(super) fn next_recovery(&mut self) -> Result<Option<Offer>, StoreError> {
        let offers = self.recovery_offers()?;
        let Some(incident) = &self.incident else { return Ok(None) };
        let open = |offer: &&Offer| choose(incident, vec![offer.candidate.clone()]).is_some();
        let order = [Verdict::Deny, Verdict::Allow, Verdict::Ask];
        let found = order.into_iter().find_map(|verdict| {
            let mut fitting = offers.iter().filter(|offer| offer.judgement.verdict == verdict);
            fitting.find(open)
        });
        Ok(found.cloned())
    }

    /// Finds out what a remedy that was chosen before would do, if that is not known.
    pub(super) fn recall_recovery(&mut self, digest: Digest) -> Result<(), StoreError> {
        let offers = self.recovery_offers()?;
        let what = offers.into_iter().find(|offer| offer.candidate.remedy.digest == digest);
        self.case.cures.extend(what.map(|offer| Cure { digest, what: offer.what }));
        Ok(())
    }

    /// Returns what follows when nothing is left to try.
    pub(super) fn nothing_left(&self) -> Event {
        let tried = self.incident.as_ref().map(Incident::tried).unwrap_or_default();
        let is_denied = !tried.is_empty() && tried.iter().all(|one| one.fate == Fate::Denied);
        match self.quest.is_some() && is_denied && self.clinic.shelf.policy.denies_unknown() {
            // Whoever has unknown commands denied does not want to be asked about them.
            true => Event::Incident(IncidentEvent::Ended {
                outcome: salve_core::event::Outcome::Aborted,
            }),
            false => Event::Incident(IncidentEvent::NothingLeft {}),
        }
    }

    fn recovery_offers(&mut self) -> Result<Vec<Offer>, StoreError> {
        let (Some(incident), Some(quest)) = (&self.incident, &mut self.quest) else {
            return Ok(Vec::new());
        };
        if quest.is_well {
            return Ok(vec![shelf::resort(What::Again, AGAIN)]);
        }
        let is_declined = |one: &salve_core::incident::Tried| one.fate == Fate::Declined;
        if incident.tried().iter().any(is_declined) {
            // Whoever declines wants the loop to go on without.
            return Ok(Vec::new());
        }
        let (store, now) = (self.clinic.desk.store, self.clinic.desk.now());
        let autos = quest.files.chronicle(store)?.autos(quest.since, Some(incident.id()));
        let state = State {
            auto_recoveries_this_run: autos.count,
            // A fallback is part of its own recovery, for which nothing has to cool down.
            seconds_since_last_auto: match autos.last {
                Some(last) => Some(ago(now, last).as_secs_f64()),
                None => Some(f64::MAX),
            },
        };
        self.clinic.shelf.set_auto(&state);
        let mut offers = self.of_tester(&state);
        offers.extend(self.of_salve(&offers)?);
        let signature = self.case.seen.as_ref().map(|seen| seen.symptom.signature);
        let (shelf, scrubber) = (&self.clinic.shelf, &self.clinic.desk.scrubber);
        let mut offers = shelf.earn(offers, store, signature, scrubber)?;
        let used_up = autos.count >= self.clinic.shelf.policy.max_auto_recoveries();
        for offer in offers.iter_mut().filter(|one| one.judgement.verdict == Verdict::Allow) {
            if let Some(judgement) = self.second_thought(offer, used_up) {
                offer.judgement = judgement;
            }
        }
        Ok(offers)
    }

    /// Returns what the tester proposes: its command, and its fallback once that has failed.
    fn of_tester(&self, state: &State) -> Vec<Offer> {
        let Some(proposal) = self.quest.as_ref().and_then(|quest| quest.proposal.as_ref()) else {
            return Vec::new();
        };
        let (shelf, scrubber) = (&self.clinic.shelf, &self.clinic.desk.scrubber);
        let offer = |request: &Request| {
            shelf.offer_request(request, (Origin::Proposal, PROPOSED), state, scrubber)
        };
        let first = offer(proposal.recovery());
        let tried = self.incident.as_ref().map(Incident::tried).unwrap_or_default();
        let has_failed = tried
            .iter()
            .any(|one| one.digest == first.candidate.remedy.digest && one.fate == Fate::Failed);
        let fallback = proposal.request(Which::Fallback).ok().filter(|_| has_failed);
        [Some(first), fallback.map(offer)].into_iter().flatten().collect()
    }

    /// Returns what playbook and memory have against the failure, and nobody proposed already.
    fn of_salve(&self, proposed: &[Offer]) -> Result<Vec<Offer>, StoreError> {
        if self.has_no_tests() {
            // What nobody saw to fail is the tester's to judge.
            return Ok(Vec::new());
        }
        let diagnosis = self.case.diagnosis.clone().unwrap_or_else(Diagnosis::unknown);
        let (shelf, scrubber) = (&self.clinic.shelf, &self.clinic.desk.scrubber);
        let mut offers = shelf.prescribed(&diagnosis, &self.case.failed, Mode::Legacy, scrubber);
        if let Some(seen) = &self.case.seen {
            let place = (&self.clinic.project, self.clinic.desk.store);
            let known = shelf.known(place, seen.symptom.signature, scrubber)?;
            offers.extend(shelf::beside(known, &diagnosis));
        }
        let is_new = |offer: &Offer| {
            let text = &offer.candidate.remedy.text;
            !proposed.iter().any(|one| one.candidate.remedy.text == *text)
        };
        offers.retain(|offer| is_new(offer) && !matches!(offer.what, What::Patch(_)));
        if self.asks_person().is_some() {
            // What a full disk needs is no second run.
            offers.retain(|offer| !matches!(offer.what, What::Again));
        }
        Ok(offers)
    }

    /// Returns why something that is allowed needs a person all the same, if it does.
    fn second_thought(&self, offer: &Offer, used_up: bool) -> Option<Judgement> {
        if matches!(offer.what, What::Again) {
            return None;
        }
        let ask = |rule, reason: String| {
            let rule = Scrubbed::literal(rule);
            let reason = self.clinic.desk.scrubber.scrub(&reason);
            Some(Judgement { verdict: Verdict::Ask, rule, reason })
        };
        if let Some(why) = self.asks_person() {
            return ask("environment", why.to_owned());
        }
        let changed = self.quest.as_ref().map(|quest| quest.changed.as_slice()).unwrap_or_default();
        if !changed.is_empty() && self.clinic.heal.changed_manifest == ChangedManifest::Ask {
            let named: Vec<_> = changed.iter().take(5).map(Scrubbed::as_str).collect();
            let named = named.join(", ");
            let rest = changed.len().saturating_sub(5);
            let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
            let reason = format!("changed in this run of the loop: {named}{more}");
            return ask("changed_manifest", reason);
        }
        if used_up {
            let most = self.clinic.shelf.policy.max_auto_recoveries();
            let reason = format!("{most} of {most} unattended commands of this run are used up");
            return ask("max_auto_recoveries_per_run", reason);
        }
        None
    }

    /// Returns why no command may run unattended against this kind of failure, if so.
    fn asks_person(&self) -> Option<&'static str> {
        match self.case.seen.as_ref()?.symptom.class {
            Class::Permission | Class::Auth => Some("permissions are a person's to give"),
            Class::DiskFull => Some("the disk is full, and what may go is a person's decision"),
            Class::Oom => Some("there is not enough memory"),
            Class::ImportError
            | Class::DependencyMissing
            | Class::DependencyConflict
            | Class::VersionMismatch
            | Class::MissingTool
            | Class::SyntaxError
            | Class::TypeError
            | Class::LintError
            | Class::TestFailure
            | Class::BuildError
            | Class::RuntimeError
            | Class::ConfigError
            | Class::Environment
            | Class::Network
            | Class::Tls
            | Class::RateLimit
            | Class::PortConflict
            | Class::DbError
            | Class::ResourceLimit
            | Class::LockHeld
            | Class::Timeout
            | Class::Hang
            | Class::Unknown => None,
        }
    }
}
