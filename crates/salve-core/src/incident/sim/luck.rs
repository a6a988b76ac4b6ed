//! How things turn out in a simulated life.

use super::super::{Candidate, Incident, choose};
use super::parts;
use super::rng::Rng;
use crate::event::{
    Acted, AtALoss, Change, Effect, EffectReport, Event, IncidentEvent, IncidentPolicy, Proof,
    RemedyKind, RemedyVerdict, Symptom,
};
use crate::scrub::Scrubbed;

/// The remedies that can be chosen.
const REMEDIES: [(RemedyKind, &str); 7] = [
    (RemedyKind::Retry, "retry"),
    (RemedyKind::Command, "install"),
    (RemedyKind::Command, "clean"),
    (RemedyKind::Patch, "patch"),
    (RemedyKind::Agent, "agent"),
    (RemedyKind::SoftReset, "soft"),
    (RemedyKind::HardReset, "hard"),
];

/// Returns how an effect turns out.
pub(super) fn report(rng: &mut Rng, what: Effect) -> EffectReport {
    let luck = rng.below(100);
    let failed = || EffectReport::failed(Scrubbed::literal("no luck"));
    match what {
        Effect::Measure if luck < 80 => {
            let (files, lines) = (rng.pick([0, 3, 8, 9]), rng.pick([1, 300, 301]));
            let lines = Some(lines).filter(|_| luck > 5);
            EffectReport::Measured(Change { files: Some(files), lines })
        }
        Effect::VerifyInLayer if luck < 60 => EffectReport::Done,
        Effect::Verify | Effect::VerifyInLayer if luck < 87 => verified(rng),
        Effect::TakeOver if luck < 10 => EffectReport::Conflict { paths: Vec::new() },
        Effect::TakeOver if luck < 90 => EffectReport::Done,
        Effect::Verify if luck < 90 => EffectReport::Done,
        Effect::RollBack(_) | Effect::Record | Effect::Release if luck < 92 => EffectReport::Done,
        Effect::Snapshot | Effect::Apply { .. } | Effect::Ask if luck < 80 => EffectReport::Done,
        _ if luck < 95 => failed(),
        _ => EffectReport::TimedOut,
    }
}

fn verified(rng: &mut Rng) -> EffectReport {
    use Proof::{Failed, Flaky, Masked, Proven, Transient};
    let proof = rng.pick([Failed, Failed, Failed, Failed, Proven, Transient, Flaky, Masked]);
    let symptom = (proof == Failed).then(|| Box::new(symptom(rng)));
    EffectReport::Verified { proof, symptom }
}

/// Recalls, chooses and asks the gate.
pub(super) fn choice(rng: &mut Rng, view: &Incident) -> Event {
    let known = REMEDIES.iter().filter(|_| rng.chance(80));
    let candidates: Vec<Candidate> = known
        .map(|(kind, name)| parts::remedy(*kind, name))
        .map(|remedy| Candidate { remedy, confidence: 0 })
        .collect();
    let open = rng.index(candidates.len().max(1));
    let some = candidates.into_iter().skip(open).collect();
    match choose(view, some) {
        None => Event::Incident(IncidentEvent::NothingLeft {}),
        Some(Candidate { remedy, .. }) => {
            use RemedyVerdict::{Allow, Ask, Deny};
            let verdict = rng.pick([Allow, Allow, Allow, Ask, Ask, Deny]);
            Event::Incident(IncidentEvent::Judged {
                remedy: Box::new(remedy),
                judgement: parts::judgement(verdict),
            })
        }
    }
}

/// Returns a failure.
pub(super) fn symptom(rng: &mut Rng) -> Symptom {
    let signature = rng.below(3);
    let acted = if rng.chance(15) { Acted::Maybe } else { Acted::No };
    Symptom { acted, ..parts::symptom(signature, rng.pick(["a", "b", "c"])) }
}

/// Returns the terms of a life.
pub(super) fn policy(rng: &mut Rng) -> IncidentPolicy {
    let mut policy = parts::policy();
    policy.limits.attempts = Some(1 + rng.below(5));
    policy.limits.tokens = Some(1_000).filter(|_| rng.chance(30));
    policy.limits.resets = Some(rng.below(3));
    policy.cooldown_ms = rng.pick([0, 60_000, 600_000]);
    policy.at_a_loss = rng.pick([AtALoss::Ask, AtALoss::Ask, AtALoss::Close]);
    policy.watch_ms = rng.pick([0, 0, 5_000]);
    policy.no_progress_limit = rng.pick([None, Some(1), Some(2)]);
    policy.catastrophe_after = rng.pick([None, Some(2), Some(3)]);
    policy
}
