//! An incident replayed from its journal under other terms.
//!
//! The machine of an incident is pure: fed the same entries it takes the same course. So two of
//! them, one under the terms that held and one under others, are fed the journal side by side. What
//! they would do next is compared before and after every entry. The first difference is exact; what
//! would have come after it depends on the world, and nobody knows it.
//!
//! **Invariant:** terms that are the same never make a difference.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::event::{Entry, Event, IncidentEvent, IncidentPolicy, Judgement, Remedy, RemedyVerdict};
use crate::incident::{Awaited, Incident, IncidentMove, NotOpened};

/// The terms that are other than those that held; what is absent stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OtherTerms {
    /// How often a remedy may be tried.
    #[serde(default)]
    pub attempts: Option<u64>,
    /// How many tokens may be spent.
    #[serde(default)]
    pub tokens: Option<u64>,
    /// How long it may take, in seconds.
    #[serde(default)]
    pub seconds: Option<u64>,
    /// How long nothing is tried once the budget is used up, in seconds.
    #[serde(default)]
    pub cooldown_seconds: Option<u64>,
    /// The most files that a repair may change without a person.
    #[serde(default)]
    pub max_files: Option<u32>,
    /// The most lines that a repair may change without a person.
    #[serde(default)]
    pub max_lines: Option<u32>,
}

impl OtherTerms {
    fn change(&self, policy: &mut IncidentPolicy) {
        let limits = &mut policy.limits;
        limits.attempts = self.attempts.or(limits.attempts);
        limits.tokens = self.tokens.or(limits.tokens);
        let milliseconds = |seconds: u64| seconds.saturating_mul(1_000);
        limits.wall_ms = self.seconds.map(milliseconds).or(limits.wall_ms);
        policy.cooldown_ms = self.cooldown_seconds.map_or(policy.cooldown_ms, milliseconds);
        policy.max_files = self.max_files.unwrap_or(policy.max_files);
        policy.max_lines = self.max_lines.unwrap_or(policy.max_lines);
    }
}

/// Where an incident would have gone differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CourseDifference {
    /// The number of the last entry that both courses share.
    pub after_seq: u64,
    /// When the courses part.
    pub at: Timestamp,
    /// What was done.
    pub happened: String,
    /// What would have been done instead.
    pub instead: String,
}

/// Replays an incident under other terms; `rejudge` says what the gate would say about a remedy.
///
/// Returns the first difference, or nothing where the course would have been the same.
///
/// # Errors
///
/// When the entries make no incident, or the other terms have no end.
pub fn replay_under(
    entries: &[Entry],
    terms: &OtherTerms,
    rejudge: impl Fn(&Remedy, &Judgement) -> RemedyVerdict,
) -> Result<Option<CourseDifference>, NotOpened> {
    let (first, rest) = entries.split_first().ok_or(NotOpened::NoOpening)?;
    let mut changed = first.clone();
    if let Event::Incident(IncidentEvent::Opened { policy, .. }) = &mut changed.event {
        terms.change(policy);
    }
    let (mut real, mut other) = (Incident::replay([first])?, Incident::replay([&changed])?);
    let mut shared = first.seq;
    for entry in rest {
        if let Some(difference) = compare(&real, &other, shared, entry.at) {
            return Ok(Some(difference));
        }
        if let Some(difference) = compare_verdict(entry, shared, &rejudge) {
            return Ok(Some(difference));
        }
        // What is refused now was refused when it was live: it changes nothing.
        let _refused = real.step(entry);
        let _refused_too = other.step(entry);
        shared = entry.seq;
        if let Some(difference) = compare(&real, &other, shared, entry.at) {
            return Ok(Some(difference));
        }
    }
    Ok(None)
}

/// Compares what both would do at a time.
fn compare(
    real: &Incident,
    other: &Incident,
    after_seq: u64,
    at: Timestamp,
) -> Option<CourseDifference> {
    let owner = real.owner()?;
    let (done, instead) = (real.next(owner, at), other.next(owner, at));
    if done == instead {
        return None;
    }
    let (happened, instead) = (in_words(&done), in_words(&instead));
    Some(CourseDifference { after_seq, at, happened, instead })
}

fn compare_verdict(
    entry: &Entry,
    after_seq: u64,
    rejudge: impl Fn(&Remedy, &Judgement) -> RemedyVerdict,
) -> Option<CourseDifference> {
    let Event::Incident(IncidentEvent::Judged { remedy, judgement }) = &entry.event else {
        return None;
    };
    let verdict = rejudge(remedy, judgement);
    if verdict == judgement.verdict {
        return None;
    }
    let word = |verdict| match verdict {
        RemedyVerdict::Allow => "may run unattended",
        RemedyVerdict::Ask => "waits for a person",
        RemedyVerdict::Deny => "must not run",
    };
    Some(CourseDifference {
        after_seq,
        at: entry.at,
        happened: format!("`{}` {}", remedy.text, word(judgement.verdict)),
        instead: format!("`{}` {}", remedy.text, word(verdict)),
    })
}

/// Says what a move is.
fn in_words(next: &IncidentMove) -> String {
    match next {
        IncidentMove::Choose => "the next remedy is chosen".to_owned(),
        IncidentMove::NotMine => "nobody acts".to_owned(),
        IncidentMove::Over => "it is over".to_owned(),
        IncidentMove::Wait { on, until } => {
            let what = match on {
                Awaited::Time => "it waits".to_owned(),
                Awaited::Effect(_) => "Salve waits for what runs".to_owned(),
                Awaited::Person(name) => format!("{name} is asked"),
            };
            match until {
                Some(time) => format!("{what} until {}", time.strftime("%H:%M:%S")),
                None => what,
            }
        }
        IncidentMove::Write(Event::Incident(event)) => event_in_words(event),
        IncidentMove::Write(event) => event.kind().replace('_', " "),
    }
}

fn event_in_words(event: &IncidentEvent) -> String {
    use crate::event::Effect;
    match event {
        IncidentEvent::Requested { what, .. } => match what {
            Effect::Snapshot => "the files are kept safe before the remedy runs",
            Effect::Apply { .. } => "the remedy runs",
            Effect::Measure => "the change is measured",
            Effect::VerifyInLayer => "the agent's layer shows whether the change helps",
            Effect::TakeOver => "the change is taken over",
            Effect::Verify => "the subject shows whether the remedy helped",
            Effect::RollBack(_) => "the change is undone",
            Effect::Ask => "a person is asked",
            Effect::Record => "what was learned is recorded",
            Effect::Release => "what was held is let go",
        }
        .to_owned(),
        IncidentEvent::Exhausted { resource } => {
            format!("the budget is used up: {}", format!("{resource:?}").to_lowercase())
        }
        IncidentEvent::CooledDown {} => "the cooldown is over".to_owned(),
        IncidentEvent::Ended { .. } => "the incident ends".to_owned(),
        other => Event::Incident(other.clone()).kind().replace('_', " "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::RemedyKind;
    use crate::incident::testing::{TestIncident, policy};

    /// Plays an incident to where its remedy runs.
    fn journal() -> Vec<Entry> {
        let mut story = TestIncident::new(policy());
        story.judge(RemedyKind::Command, "npm ci", RemedyVerdict::Allow);
        story.run();
        story.journal
    }

    fn same(_: &Remedy, judgement: &Judgement) -> RemedyVerdict {
        judgement.verdict
    }

    #[test]
    fn the_same_terms_take_the_same_course() {
        let entries = journal();
        assert_eq!(replay_under(&entries, &OtherTerms::default(), same).unwrap(), None);
        let attempts = policy().limits.attempts;
        let terms = OtherTerms { attempts, ..OtherTerms::default() };
        assert_eq!(replay_under(&entries, &terms, same).unwrap(), None);
    }

    #[test]
    fn the_first_other_effect_is_told_and_nothing_after_it() {
        let entries = journal();
        let none = OtherTerms { attempts: Some(0), ..OtherTerms::default() };
        let difference = replay_under(&entries, &none, same).unwrap().unwrap();
        assert!(difference.instead.contains("budget is used up"), "{difference:?}");
        let judged = entries.iter().find(|entry| entry.event.kind() == "judged").unwrap();
        assert!(difference.after_seq < judged.seq, "before anything was chosen: {difference:?}");
    }

    #[test]
    fn another_word_of_the_gate_parts_the_courses() {
        let entries = journal();
        let terms = OtherTerms::default();
        let asked = replay_under(&entries, &terms, |_, _| RemedyVerdict::Ask).unwrap().unwrap();
        assert_eq!(asked.happened, "`npm ci` may run unattended");
        assert_eq!(asked.instead, "`npm ci` waits for a person");
        let judged = entries.iter().position(|entry| entry.event.kind() == "judged").unwrap();
        assert_eq!(asked.after_seq, entries[judged - 1].seq);
    }
}
