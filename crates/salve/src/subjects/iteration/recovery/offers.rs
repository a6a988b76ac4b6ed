//! Which remedies fit tests of a loop that could not execute.
//!
//! What the tester proposes comes first where the gate allows it, then what the playbook has, then
//! what memory knows; what needs a person comes last, in the same order.
//!
//! **Invariant:** a proposal's fallback is never offered before its first command has failed.

use std::time::Duration;

use jiff::Timestamp;
use salve_core::class::Class;
use salve_core::event::{Judgement, RemedyOrigin, RemedyVerdict, RepairMode};
use salve_core::gate::{GateCounters, Request, Which};
use salve_core::incident::{Incident, RemedyFate};
use salve_core::playbook::Diagnosis;
use salve_core::scrub::Scrubbed;

use super::proposal::ProposalWatch;
use super::seen_tests::SeenTests;
use super::sought::SoughtRecovery;
use super::{AGAIN, RecoveryTerms};
use crate::config::ChangedManifest;
use crate::heal::remedies::{self, Offer, OfferTrust, RemedyWay};
use crate::heal::{Case, RunBase, manifests};
use crate::store::StoreError;

/// How sure a tester's command is, in thousandths: it is tried for what it is.
const PROPOSED: u16 = 500;

/// Finds what fits tests of a loop that could not execute.
pub(super) struct RecoveryOffers<'o> {
    pub(super) terms: &'o RecoveryTerms,
    pub(super) sought: &'o mut SoughtRecovery,
    pub(super) seen: &'o SeenTests,
    pub(super) proposal: &'o ProposalWatch,
}

impl RecoveryOffers<'_> {
    /// Returns everything that fits, in the order in which it is to be tried.
    pub(super) fn find(
        &mut self,
        base: &mut RunBase<'_>,
        case: &Case,
    ) -> Result<Vec<Offer>, StoreError> {
        let Some(incident) = case.incident() else { return Ok(Vec::new()) };
        if self.seen.is_well {
            return Ok(vec![remedies::resort(RemedyWay::Again, AGAIN)]);
        }
        if incident.tried().iter().any(|one| one.fate == RemedyFate::Declined) {
            // Whoever declines wants the loop to go on without.
            return Ok(Vec::new());
        }
        let (store, now, since) = (base.writer.store, base.writer.now(), self.sought.since);
        let autos = self.sought.files.view(store)?.unattended_runs(since, Some(incident.id()));
        let state = GateCounters {
            auto_recoveries_this_run: autos.count,
            // A fallback is part of its own recovery, for which nothing has to cool down.
            seconds_since_last_auto: match autos.last {
                Some(last) => Some(ago(now, last).as_secs_f64()),
                None => Some(f64::MAX),
            },
        };
        base.remedies.set_auto(&state);
        let base = &*base;
        let mut offers = self.of_tester(incident, &state, base);
        offers.extend(self.of_salve(case, &offers, base)?);
        let signature = case.seen().map(|seen| seen.symptom.signature);
        let mut offers = base.remedies.earn(offers, store, signature, &base.writer.scrubber)?;
        let used_up = autos.count >= base.remedies.policy.max_auto_recoveries();
        for offer in offers.iter_mut().filter(|one| one.judgement.verdict == RemedyVerdict::Allow) {
            if let Some(judgement) = self.second_thought(offer, case, used_up, base) {
                offer.judgement = judgement;
            }
        }
        Ok(offers)
    }

    /// Returns what the tester proposes: its command, and its fallback once that has failed.
    fn of_tester(
        &self,
        incident: &Incident,
        state: &GateCounters,
        base: &RunBase<'_>,
    ) -> Vec<Offer> {
        let Some(proposal) = &self.proposal.found else { return Vec::new() };
        let offer = |request: &Request| {
            let trust = OfferTrust { origin: RemedyOrigin::Proposal, confidence: PROPOSED };
            base.remedies.offer_request(request, trust, state, &base.writer.scrubber)
        };
        let first = offer(proposal.recovery());
        let has_failed = incident.tried().iter().any(|one| {
            one.digest == first.candidate.remedy.digest && one.fate == RemedyFate::Failed
        });
        let fallback = proposal.request(Which::Fallback).ok().filter(|_| has_failed);
        [Some(first), fallback.map(offer)].into_iter().flatten().collect()
    }

    /// Returns what playbook and memory have against the failure, and nobody proposed already.
    fn of_salve(
        &self,
        case: &Case,
        proposed: &[Offer],
        base: &RunBase<'_>,
    ) -> Result<Vec<Offer>, StoreError> {
        if !self.seen.has_tests {
            // What nobody saw to fail is the tester's to judge.
            return Ok(Vec::new());
        }
        let diagnosis = case.diagnosis().cloned().unwrap_or_else(Diagnosis::unknown);
        let (known, scrubber) = (&base.remedies, &base.writer.scrubber);
        let mut offers = known.prescribed(&diagnosis, case.failed(), RepairMode::Legacy, scrubber);
        if let Some(seen) = case.seen() {
            let (store, signature) = (base.writer.store, seen.symptom.signature);
            let known = known.known(&base.project, store, signature, scrubber)?;
            offers.extend(remedies::beside(known, &diagnosis));
        }
        let is_new = |offer: &Offer| {
            let text = &offer.candidate.remedy.text;
            !proposed.iter().any(|one| one.candidate.remedy.text == *text)
        };
        offers.retain(|offer| is_new(offer) && !matches!(offer.what, RemedyWay::Patch(_)));
        if asks_person(case).is_some() {
            // What a full disk needs is no second run.
            offers.retain(|offer| !matches!(offer.what, RemedyWay::Again));
        }
        Ok(offers)
    }

    /// Returns why something that is allowed needs a person all the same, if it does.
    fn second_thought(
        &self,
        offer: &Offer,
        case: &Case,
        used_up: bool,
        base: &RunBase<'_>,
    ) -> Option<Judgement> {
        if matches!(offer.what, RemedyWay::Again) {
            return None;
        }
        let ask = |rule, reason: String| {
            let (rule, reason) = (Scrubbed::literal(rule), base.writer.scrubber.scrub(&reason));
            Some(Judgement { verdict: RemedyVerdict::Ask, rule, reason })
        };
        if let Some(why) = asks_person(case) {
            return ask("environment", why.to_owned());
        }
        let changed = &self.sought.changed;
        if self.terms.changed_manifest == ChangedManifest::Ask
            && let Some(asked) = manifests::judgement_on(changed, "loop", &base.writer.scrubber)
        {
            return Some(asked);
        }
        if used_up {
            let most = base.remedies.policy.max_auto_recoveries();
            let reason = format!("{most} of {most} unattended commands of this run are used up");
            return ask("max_auto_recoveries_per_run", reason);
        }
        None
    }
}

/// Returns how long ago something was.
fn ago(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}

/// Returns why no command may run unattended against this kind of failure, if so.
fn asks_person(case: &Case) -> Option<&'static str> {
    match case.seen()?.symptom.class {
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
