//! Which remedy comes next, and how much thought an agent may spend on it.

use std::cmp::Reverse;

use serde::Serialize;

use super::Incident;
use crate::event::{Remedy, RemedyKind, RemedyOrigin};

/// A remedy that fits the failure, and how much is known for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub remedy: Remedy,
    /// How far it is trusted to help, in thousandths.
    pub confidence: u16,
}

/// Returns the candidate to put to the gate next, if any is left.
///
/// Left out are remedies that were denied or declined in this incident, those that failed and may
/// not be tried twice, resets the budget has none left for, and everything but a hard reset when
/// the same failure keeps coming back. A failure of the passing kind is first answered with a
/// plain retry; otherwise what the project knows comes first, then what the user knows, a patch
/// from the fleet, the playbook, proposals, a command from the fleet, and Salve's own resorts; the
/// surer one first.
pub fn choose(incident: &Incident, candidates: Vec<Candidate>) -> Option<Candidate> {
    let stuck = incident.is_stuck();
    let retry_first = incident.symptom().class.may_pass() && incident.attempt() == 1;
    let open = candidates.into_iter().filter(|Candidate { remedy, .. }| {
        incident.may_try(remedy) && (!stuck || remedy.kind == RemedyKind::HardReset)
    });
    open.min_by_key(|Candidate { remedy, confidence }| {
        let retry = retry_first && remedy.kind == RemedyKind::Retry;
        // What only a person may have run again waits until nothing else is left.
        (incident.needs_word(remedy), !retry, rank(remedy), Reverse(*confidence))
    })
}

/// Returns the place of a remedy in the order of trust.
fn rank(remedy: &Remedy) -> u8 {
    match (remedy.origin, remedy.kind) {
        (RemedyOrigin::Person, _) => 0,
        (RemedyOrigin::Project, _) => 1,
        (RemedyOrigin::User, _) => 2,
        // It has to heal in a private layer before anything of it is in the tree.
        (RemedyOrigin::Fleet, RemedyKind::Patch) => 3,
        (RemedyOrigin::Playbook, _) => 4,
        (RemedyOrigin::Proposal, _) => 5,
        (
            RemedyOrigin::Fleet,
            RemedyKind::Retry
            | RemedyKind::Command
            | RemedyKind::Agent
            | RemedyKind::SoftReset
            | RemedyKind::HardReset,
        ) => 6,
        (RemedyOrigin::Builtin, _) => 7,
    }
}

/// How much thought an attempt deserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// A simple fix: imports, typos, formatting.
    Simple,
    /// A fix in context: types, logic.
    Context,
    /// Deep analysis: architecture, complex bugs.
    Deep,
}

impl Tier {
    /// Returns the tier of an attempt, counted within the incident from 1.
    pub fn of_attempt(attempt: u32) -> Self {
        match attempt {
            0..=2 => Tier::Simple,
            3..=4 => Tier::Context,
            5.. => Tier::Deep,
        }
    }

    /// Returns what it is called in the settings.
    pub const fn as_str(self) -> &'static str {
        match self {
            Tier::Simple => "simple",
            Tier::Context => "context",
            Tier::Deep => "deep",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::Class;
    use crate::event::{Event, IncidentEvent, RemedyVerdict, Repeat};
    use crate::incident::testing::{TestIncident, judgement, policy, remedy, symptom};

    fn candidate(
        kind: RemedyKind,
        origin: RemedyOrigin,
        confidence: u16,
        name: &'static str,
    ) -> Candidate {
        Candidate { remedy: Remedy { origin, ..remedy(kind, name) }, confidence }
    }

    fn name(chosen: Option<Candidate>) -> Option<String> {
        chosen.map(|candidate| candidate.remedy.text.into_string())
    }

    fn candidates() -> Vec<Candidate> {
        use {RemedyKind as K, RemedyOrigin as O};
        vec![
            candidate(K::Retry, O::Builtin, 0, "retry"),
            candidate(K::Agent, O::Builtin, 0, "agent"),
            candidate(K::Command, O::Playbook, 990, "playbook"),
            candidate(K::Command, O::User, 900, "user"),
            candidate(K::Command, O::Project, 600, "project, unsure"),
            candidate(K::Command, O::Project, 700, "project, surer"),
        ]
    }

    #[test]
    fn what_the_project_knows_comes_first_and_what_was_tried_is_left_out() {
        let mut story = TestIncident::new(policy());
        let mut order = Vec::new();
        while let Some(chosen) = choose(&story.incident, candidates()) {
            order.push(chosen.remedy.text.to_string());
            let judgement = judgement(RemedyVerdict::Deny);
            story
                .salve(Event::Incident(IncidentEvent::Judged {
                    remedy: Box::new(chosen.remedy),
                    judgement,
                }))
                .unwrap();
        }
        let want = ["project, surer", "project, unsure", "user", "playbook", "retry", "agent"];
        assert_eq!(order, want);
    }

    #[test]
    fn a_passing_failure_is_first_answered_with_a_retry() {
        let mut symptom = symptom(1, "tree");
        symptom.class = Class::Network;
        let story = TestIncident::with(policy(), symptom, Repeat::Safe);
        assert_eq!(name(choose(&story.incident, candidates())), Some("retry".into()));
    }

    #[test]
    fn the_tier_follows_the_attempt() {
        use Tier::*;
        let tiers: Vec<Tier> = (1..=6).map(Tier::of_attempt).collect();
        assert_eq!(tiers, [Simple, Simple, Context, Context, Deep, Deep]);
    }
}
