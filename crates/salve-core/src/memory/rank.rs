//! What to try, in which order.

use std::cmp::Reverse;

use jiff::Timestamp;
use serde::Serialize;

use super::{
    Confidence, Knowledge, Record, RecordStanding, RemedyTrial, RemedyWord, RememberedKind,
    RememberedRemedy, TriedRemedy,
};
use crate::event::{Proof, RemedyOrigin};
use crate::scrub::Scrubbed;

/// A known remedy with its place among the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ranked {
    pub remedy: RememberedRemedy,
    /// Whose memory it is from.
    pub origin: RemedyOrigin,
    /// How it did there.
    pub record: Record,
    /// What that says about trying it.
    pub standing: RecordStanding,
    /// How sure it is to heal.
    pub confidence: Confidence,
    /// On whose word it is known.
    pub word: RemedyWord,
    /// The project in which it was last seen to heal, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healed_in: Option<Scrubbed>,
}

/// What memory says about one failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// What to try, best first.
    pub remedies: Vec<Ranked>,
    /// What was tried and failed: not to be tried again.
    pub failed: Vec<Ranked>,
}

impl Choice {
    /// Returns whether anything was ever tried.
    pub fn tried_before(&self) -> bool {
        self.remedies.iter().chain(&self.failed).any(|ranked| ranked.record.tries() > 0)
    }
}

/// Ranks what the project's memory and the user's own know.
///
/// The project comes first, because its failures are its own. A remedy known to both counts as the
/// project's: one that failed here is not tried again because it helped elsewhere. Within a memory
/// the surer remedy comes first, then the cheaper kind, then the more recent.
pub fn rank(project: Option<&Knowledge>, user: Option<&Knowledge>, now: Timestamp) -> Choice {
    let mut choice = Choice::default();
    for (origin, knowledge) in [(RemedyOrigin::Project, project), (RemedyOrigin::User, user)] {
        for ranked in choice.ranked(origin, knowledge, now) {
            match ranked.standing {
                RecordStanding::Failed => choice.failed.push(ranked),
                RecordStanding::Untried | RecordStanding::Works | RecordStanding::Undecided => {
                    choice.remedies.push(ranked);
                }
            }
        }
    }
    choice
}

impl Choice {
    /// Adds what other machines of a fleet saw to heal, behind all that is known here.
    ///
    /// What failed there may be that machine's doing, so it keeps nothing from being tried here.
    pub fn add_from_fleet(&mut self, fleet: &Knowledge, now: Timestamp) {
        let ranked = self.ranked(RemedyOrigin::Fleet, Some(fleet), now);
        self.remedies
            .extend(ranked.into_iter().filter(|one| one.standing == RecordStanding::Works));
    }

    /// Returns all that other machines of a fleet tell, for people to see.
    pub fn of_fleet(fleet: &Knowledge, now: Timestamp) -> Self {
        let all = Self::default().ranked(RemedyOrigin::Fleet, Some(fleet), now);
        let is_failed = |one: &Ranked| one.standing == RecordStanding::Failed;
        let (failed, remedies) = all.into_iter().partition(is_failed);
        Self { remedies, failed }
    }

    /// Judges what a memory knows and this does not, the surest first.
    fn ranked(
        &self,
        origin: RemedyOrigin,
        knowledge: Option<&Knowledge>,
        now: Timestamp,
    ) -> Vec<Ranked> {
        let mut ranked: Vec<Ranked> = knowledge
            .map_or(&[][..], |knowledge| &knowledge.remedies)
            .iter()
            .filter(|tried| !self.knows(&tried.remedy))
            .map(|tried| judge(tried, origin, now))
            .collect();
        ranked.sort_by(|a, b| order(a).cmp(&order(b)));
        ranked
    }

    fn knows(&self, remedy: &RememberedRemedy) -> bool {
        self.remedies.iter().chain(&self.failed).any(|ranked| ranked.remedy == *remedy)
    }
}

fn judge(tried: &TriedRemedy, origin: RemedyOrigin, now: Timestamp) -> Ranked {
    let record = tried.record;
    let is_seen = |outcome: &&RemedyTrial| {
        outcome.proof == Proof::Proven && !outcome.project.as_str().is_empty()
    };
    let healed_in = tried.outcomes.iter().rev().find(is_seen);
    Ranked {
        remedy: tried.remedy.clone(),
        origin,
        record,
        standing: record.standing(),
        confidence: record.confidence(now),
        word: tried.word(),
        healed_in: healed_in.map(|outcome| outcome.project.clone()),
    }
}

type RankOrder<'a> = (Reverse<Confidence>, RememberedKind, Reverse<Option<Timestamp>>, &'a str);

fn order(ranked: &Ranked) -> RankOrder<'_> {
    let RememberedRemedy { kind, text } = &ranked.remedy;
    (Reverse(ranked.confidence), *kind, Reverse(ranked.record.last), text.as_str())
}
