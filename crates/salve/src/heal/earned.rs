//! Approvals that commands earned, read from the project's journal and put to use.
//!
//! **Invariant:** what an earned rule allows passes the gate like an entry of `auto_approve`: where
//! such an entry would not let it run, neither does the rule.

use std::collections::BTreeSet;

use jiff::Timestamp;
use salve_core::earned::{Earned, EarnedRule, EarningTerms, RuleStanding};
use salve_core::event::{Entry, Event, IncidentEvent, RemedyKind, RemedyVerdict, RuleKey};
use salve_core::gate::{self, CommandPlace, DEFAULT_TIMEOUT_SECONDS, GateCase, Request};
use salve_core::id::{IncidentId, Signature};
use salve_core::scrub::{Scrubbed, Scrubber};

use super::remedies::{Offer, Remedies, RemedyWay};
use crate::store::{Journal, Store, StoreError, Stream};

/// Reads what was earned in a project.
pub fn load(journal: &dyn Journal) -> Result<Earned, StoreError> {
    let approved = journal.read(0, &Stream::ApprovedRemedies, usize::MAX)?;
    let mut incidents: BTreeSet<IncidentId> =
        approved.iter().filter_map(|entry| entry.incident).collect();
    if incidents.is_empty() {
        return Ok(Earned::default());
    }
    let judged = journal.read(0, &Stream::Approvals, usize::MAX)?;
    // Wherever else the same commands ran, how they did counts too.
    let commands: Vec<_> = judged.iter().filter_map(command).collect();
    let ours: BTreeSet<_> = commands
        .iter()
        .filter(|(id, _)| incidents.contains(id))
        .map(|(_, digest)| digest)
        .collect();
    incidents.extend(commands.iter().filter(|(_, digest)| ours.contains(digest)).map(|(id, _)| id));
    let mut entries = journal.read(0, &Stream::EarnedRules, usize::MAX)?;
    for id in incidents {
        entries.extend(journal.read(0, &Stream::Incident(id), usize::MAX)?);
    }
    entries.sort_by_key(|entry| entry.seq);
    Ok(Earned::of(&entries))
}

/// Returns the command that an entry is about, with its incident.
fn command(entry: &Entry) -> Option<(IncidentId, salve_core::event::Digest)> {
    match &entry.event {
        Event::Incident(IncidentEvent::Judged { remedy, .. })
            if remedy.kind == RemedyKind::Command =>
        {
            Some((entry.incident?, remedy.digest))
        }
        _ => None,
    }
}

/// Returns the rule for a failure and a command if it could be accepted now.
pub fn proposed(
    store: &Store,
    key: RuleKey,
    terms: EarningTerms,
    now: Timestamp,
) -> Result<Option<EarnedRule>, StoreError> {
    if terms.after == 0 {
        return Ok(None);
    }
    let earned = load(store.journal())?;
    let rule = earned.rule(key).filter(|rule| rule.standing(terms, now) == RuleStanding::Proposed);
    Ok(rule.cloned())
}

impl Remedies<'_> {
    /// Allows what people let run again and again, it helped, and a person accepted that.
    pub fn earn(
        &self,
        mut offers: Vec<Offer>,
        store: &Store,
        signature: Option<Signature>,
        scrubber: &Scrubber,
    ) -> Result<Vec<Offer>, StoreError> {
        let asks = |offer: &&mut Offer| offer.judgement.verdict == RemedyVerdict::Ask;
        let (Some(signature), journal) = (signature, store.journal()) else { return Ok(offers) };
        let is_any = !journal.tail(&Stream::EarnedRules, 1)?.is_empty();
        if self.terms.after == 0 || !is_any || !offers.iter_mut().any(|offer| asks(&offer)) {
            return Ok(offers);
        }
        let (earned, now) = (load(journal)?, Timestamp::now());
        for offer in offers.iter_mut().filter(asks) {
            let key = RuleKey { signature, remedy: offer.candidate.remedy.digest };
            if earned.allows(key, self.terms, now) && self.would_allow(offer, scrubber) {
                offer.judgement.verdict = RemedyVerdict::Allow;
                offer.judgement.rule = scrubber.scrub(&key.to_string());
                offer.judgement.reason =
                    Scrubbed::literal("people approved it, it helped, and a person accepted that");
            } else if let Some(word) = earned.rule(key).and_then(EarnedRule::word_before_seals) {
                let again = format!(
                    "{} let it run unattended before Salve sealed such words; \
                     `salve rules accept {}` lets it again",
                    word.by,
                    key.short()
                );
                offer.judgement.rule = scrubber.scrub(&key.to_string());
                offer.judgement.reason = scrubber.scrub(&again);
            }
        }
        Ok(offers)
    }

    /// Returns whether the gate would let a command run if it stood in `auto_approve`.
    fn would_allow(&self, offer: &Offer, scrubber: &Scrubber) -> bool {
        let (command, seconds) = match &offer.what {
            RemedyWay::Known { command, seconds, .. } => (command.as_str(), *seconds),
            RemedyWay::Playbook(_) => {
                (offer.candidate.remedy.text.as_str(), DEFAULT_TIMEOUT_SECONDS)
            }
            RemedyWay::Again
            | RemedyWay::SoftReset
            | RemedyWay::HardReset
            | RemedyWay::Patch(_)
            | RemedyWay::Agent
            | RemedyWay::Instruction(_)
            | RemedyWay::BySubject => return false,
        };
        let Ok(request) = Request::new(command, ".", seconds) else { return false };
        let policy = self.policy.also_approving(request.command());
        // Where it runs was resolved, judged and is held since.
        let (place, state) = (CommandPlace::Inside, self.auto_state());
        let case = GateCase { policy: &policy, request: &request, place: &place, state: &state };
        match gate::decide(case, scrubber) {
            gate::GateVerdict::Auto(approval) => approval.command() == command,
            gate::GateVerdict::Human { .. } | gate::GateVerdict::Deny { .. } => false,
        }
    }
}
