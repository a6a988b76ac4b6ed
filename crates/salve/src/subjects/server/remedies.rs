//! Which remedies fit a server's failure, and what the gate says about each.
//!
//! What memory knows comes first where the gate allows it, then the playbook, then a plain restart
//! or an agent. What would need a person is offered last, when nothing else is left to try.

use jiff::Timestamp;
use salve_core::event::{
    Digest, Event, Judgement, Origin, Remedy, RemedyKind, Repeat, Undo, Verdict,
};
use salve_core::gate::{self, DEFAULT_TIMEOUT_SECONDS, Request, State};
use salve_core::incident::{Candidate, choose};
use salve_core::memory::{Kind, Ranked, rank};
use salve_core::playbook::{Action, Diagnosis, Nature};
use salve_core::scrub::Scrubbed;

use super::fleet::Fleet;
use super::playbook;
use crate::store::StoreError;

/// What a remedy would do.
#[derive(Clone, Debug)]
pub(super) struct Cure {
    pub(super) digest: Digest,
    pub(super) what: What,
}

/// The ways in which a remedy acts.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// It only runs the server again.
    Restart,
    /// A command that memory knows.
    Known {
        /// The command, as the gate approved it.
        command: String,
        /// How long it may take.
        seconds: u64,
    },
    /// What the playbook prescribes.
    Playbook(Action),
    /// An agent's turn.
    Agent,
}

/// A remedy with what the gate says about it.
pub(super) struct Offer {
    pub(super) candidate: Candidate,
    pub(super) judgement: Judgement,
    pub(super) what: What,
}

impl Fleet<'_> {
    /// Chooses the next remedy and puts it to the gate.
    pub(super) fn choose(&mut self, at: usize) -> Result<Event, StoreError> {
        let offers = self.offers(at)?;
        let Some(incident) = &self.servers[at].incident else { return Ok(Event::NothingLeft {}) };
        for verdict in [Verdict::Allow, Verdict::Ask] {
            let candidates = offers
                .iter()
                .filter(|offer| offer.judgement.verdict == verdict)
                .map(|offer| offer.candidate.clone())
                .collect();
            let Some(chosen) = choose(incident, candidates) else { continue };
            let offer = offers.iter().find(|offer| offer.candidate == chosen);
            let Some(Offer { candidate, judgement, what }) = offer else { continue };
            let digest = candidate.remedy.digest;
            let (remedy, judgement) = (Box::new(candidate.remedy.clone()), judgement.clone());
            let cure = Cure { digest, what: what.clone() };
            let cures = &mut self.servers[at].case.cures;
            cures.retain(|old| old.digest != digest);
            cures.push(cure);
            return Ok(Event::Judged { remedy, judgement });
        }
        Ok(Event::NothingLeft {})
    }

    /// Returns everything that fits the present failure, as far as its cause is known.
    fn offers(&mut self, at: usize) -> Result<Vec<Offer>, StoreError> {
        let diagnosis = self.insight(at).cloned().unwrap_or_else(Diagnosis::unknown);
        let mut offers = self.prescribed(at, &diagnosis);
        if diagnosis.nature == Nature::Transient {
            return Ok(offers);
        }
        // What the playbook prescribes runs with the state it was judged in, so it goes before
        // the same words from memory.
        let is_new = |known: &Offer| {
            let text = &known.candidate.remedy.text;
            !diagnosis.remedies.iter().any(|one| one.remedy.text == *text)
        };
        offers.extend(self.known(at)?.into_iter().filter(is_new));
        let own = playbook::resort(&diagnosis, self.repair.mode);
        offers.extend(own.map(builtin));
        Ok(offers)
    }

    /// Returns the commands that memory knows for this failure.
    fn known(&mut self, at: usize) -> Result<Vec<Offer>, StoreError> {
        let Some(seen) = &self.servers[at].case.seen else { return Ok(Vec::new()) };
        let signature = seen.symptom.signature;
        let here = self.desk.store.memory().recall(signature)?;
        let elsewhere = match &self.user {
            Some(user) => user.memory().recall(signature)?,
            None => None,
        };
        let ranked = rank(here.as_ref(), elsewhere.as_ref(), Timestamp::now());
        let commands = ranked.remedies.iter().filter(|known| known.remedy.kind == Kind::Command);
        Ok(commands.filter_map(|known| self.offer_known(known)).collect())
    }

    fn offer_known(&self, known: &Ranked) -> Option<Offer> {
        let request =
            Request::new(known.remedy.text.as_str(), ".", DEFAULT_TIMEOUT_SECONDS).ok()?;
        let state = State {
            auto_recoveries_this_run: self.auto.count,
            seconds_since_last_auto: self.auto.last.map(|last| last.elapsed().as_secs_f64()),
        };
        let judged =
            crate::gate::judge(&self.root, self.policy, &request, &state, &self.desk.scrubber);
        let seconds = request.timeout_seconds();
        let (verdict, command) = match &judged.verdict {
            gate::Verdict::Auto(approval) => (Verdict::Allow, approval.command().to_owned()),
            gate::Verdict::Human { .. } => (Verdict::Ask, request.command().to_owned()),
            gate::Verdict::Deny { .. } => (Verdict::Deny, request.command().to_owned()),
        };
        let remedy = Remedy {
            kind: RemedyKind::Command,
            origin: known.origin,
            text: known.remedy.text.clone(),
            digest: Digest::of_command(&command, ".", seconds.saturating_mul(1_000)),
            undo: Undo::Snapshot,
            repeat: Repeat::Unsafe,
        };
        let judgement = Judgement {
            verdict,
            rule: self.desk.scrubber.scrub(&judged.verdict.rule().to_string()),
            reason: self.desk.scrubber.scrub(judged.verdict.reason()),
        };
        let confidence = (known.confidence.share() * 1_000.0).round() as u16;
        let what = What::Known { command, seconds };
        Some(Offer { candidate: Candidate { remedy, confidence }, judgement, what })
    }
}

/// Returns one of Salve's own resorts.
fn builtin(what: What) -> Offer {
    let (kind, text, rule, reason, undo) = match what {
        What::Agent => (
            RemedyKind::Agent,
            "repair by an agent",
            "agent.repair",
            "an agent may repair this project",
            Undo::Snapshot,
        ),
        What::Restart | What::Known { .. } | What::Playbook(_) => (
            RemedyKind::Retry,
            "restart",
            "restart",
            "running it again changes nothing",
            Undo::Nothing,
        ),
    };
    let remedy = Remedy {
        kind,
        origin: Origin::Builtin,
        text: Scrubbed::literal(text),
        digest: Digest::of(&[text.as_bytes()]),
        undo,
        repeat: Repeat::Safe,
    };
    let judgement = Judgement {
        verdict: Verdict::Allow,
        rule: Scrubbed::literal(rule),
        reason: Scrubbed::literal(reason),
    };
    Offer { candidate: Candidate { remedy, confidence: 0 }, judgement, what }
}
