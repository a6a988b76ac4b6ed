//! The remedies that an incident tried, each with what the gate said and what came of it.

use jiff::Timestamp;
use serde::Serialize;

use super::tale::Line;
use super::{Ask, Tale, ask};
use crate::event::{
    ChangedFile, Digest, Effect, EffectReport, Event, IncidentEvent, Proof, Proposed,
    RecoveryEvent, RemedyKind, RemedyOrigin, RemedyVerdict,
};

/// One remedy that was considered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RemedyTried {
    /// The attempt it belongs to, from 1.
    pub attempt: u32,
    /// When it was chosen.
    pub chosen_at: Timestamp,
    /// What it is: the exact command where it is one.
    pub text: String,
    /// What sort of thing it is.
    pub kind: RemedyKind,
    /// Who came up with it.
    pub origin: RemedyOrigin,
    /// The hash of exactly what runs.
    pub digest: Digest,
    /// What the gate said.
    pub verdict: RemedyVerdict,
    /// The rule that said so.
    pub rule: String,
    /// Why.
    pub reason: String,
    /// The files it was found to have changed.
    pub files: Vec<ChangedFile>,
    /// How many more files it changed.
    pub more_files: u32,
    /// What came of it.
    pub result: RemedyResult,
    /// How long it took from its start to its verdict, in milliseconds, once that is known.
    pub took_ms: Option<u64>,
}

/// What came of a remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state", content = "why")]
pub enum RemedyResult {
    /// It is about to run.
    Due,
    /// A person has to decide.
    AwaitingPerson,
    /// It runs, or its effect is being judged.
    Running,
    /// The gate does not allow it.
    Denied,
    /// A person declined it.
    Declined,
    /// It could not be done, for this reason.
    CouldNotRun(String),
    /// It was done and this was found afterwards.
    Verified(Proof),
}

/// Returns the remedies of an incident, in the order in which they were chosen.
pub fn remedies_tried(tale: &Tale<'_>) -> Vec<RemedyTried> {
    let mut tried: Vec<RemedyTried> = Vec::new();
    let mut applying = None;
    for line in tale.lines().iter().filter(|line| line.ignored.is_none()) {
        let Event::Incident(event) = &line.entry.event else { continue };
        if let IncidentEvent::Judged { .. } = event {
            tried.extend(chosen(line));
            applying = None;
            continue;
        }
        if let Some(last) = tried.last_mut() {
            take_in(last, event, line.entry.at, &mut applying);
        }
    }
    tried
}

/// The effect that applies a remedy, and when it began.
#[derive(Clone, Copy)]
struct Applying {
    effect: u32,
    since: Timestamp,
}

fn chosen(line: &Line<'_>) -> Option<RemedyTried> {
    let Event::Incident(IncidentEvent::Judged { remedy, judgement }) = &line.entry.event else {
        return None;
    };
    Some(RemedyTried {
        attempt: line.attempt,
        chosen_at: line.entry.at,
        text: remedy.text.to_string(),
        kind: remedy.kind,
        origin: remedy.origin,
        digest: remedy.digest,
        verdict: judgement.verdict,
        rule: judgement.rule.to_string(),
        reason: judgement.reason.to_string(),
        files: Vec::new(),
        more_files: 0,
        result: match judgement.verdict {
            RemedyVerdict::Allow => RemedyResult::Due,
            RemedyVerdict::Ask => RemedyResult::AwaitingPerson,
            RemedyVerdict::Deny => RemedyResult::Denied,
        },
        took_ms: None,
    })
}

/// Takes in what happened to the remedy that was chosen last.
fn take_in(
    last: &mut RemedyTried,
    event: &IncidentEvent,
    at: Timestamp,
    applying: &mut Option<Applying>,
) {
    match event {
        IncidentEvent::Requested { effect, what: Effect::Apply { .. } } => {
            *applying = Some(Applying { effect: *effect, since: at });
            last.result = RemedyResult::Running;
        }
        IncidentEvent::FilesChanged { files, more, .. } => {
            last.files.clone_from(files);
            last.more_files = *more;
        }
        IncidentEvent::Approved { .. } if last.result == RemedyResult::AwaitingPerson => {
            last.result = RemedyResult::Due;
        }
        IncidentEvent::Rejected { .. } if last.result == RemedyResult::AwaitingPerson => {
            last.result = RemedyResult::Declined;
        }
        IncidentEvent::Finished { effect, report } => {
            let is_apply = applying.is_some_and(|applying| applying.effect == *effect);
            let result = match report {
                EffectReport::Failed { reason, .. } if is_apply => {
                    RemedyResult::CouldNotRun(reason.to_string())
                }
                EffectReport::TimedOut if is_apply => {
                    RemedyResult::CouldNotRun("it took too long and was stopped".into())
                }
                EffectReport::Verified { proof, .. } => RemedyResult::Verified(*proof),
                EffectReport::Done
                | EffectReport::Failed { .. }
                | EffectReport::TimedOut
                | EffectReport::NoAgent
                | EffectReport::Measured(_) => return,
            };
            last.took_ms = applying.map(|applying| {
                u64::try_from(at.duration_since(applying.since).as_millis()).unwrap_or(0)
            });
            last.result = result;
        }
        _ => {}
    }
}

/// A question to a person with everything that is needed to answer it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuestionDetail {
    /// The question, and what an answer is bound to.
    pub ask: Ask,
    /// When it was asked.
    pub asked_at: Timestamp,
    /// The remedy that it is about, if it is about one.
    pub remedy: Option<RemedyTried>,
    /// The proposal behind that remedy, if somebody made one.
    pub proposal: Option<Box<Proposed>>,
}

/// Returns what a person is asked now, with everything that is needed to answer it.
pub fn question_detail(tale: &Tale<'_>) -> Option<QuestionDetail> {
    let ask = ask(tale)?;
    let is_asking = |line: &&Line<'_>| {
        matches!(
            line.entry.event,
            Event::Incident(IncidentEvent::Requested { what: Effect::Ask, .. })
        )
    };
    let asked = tale.lines().iter().rev().find(is_asking);
    let asked_at = asked.map_or_else(|| tale.incident().clock(), |line| line.entry.at);
    let trial = tale.incident().trial().map(|trial| trial.remedy.digest);
    let remedy = remedies_tried(tale).into_iter().rev().find(|tried| Some(tried.digest) == trial);
    let proposal = tale.lines().iter().rev().find_map(|line| match &line.entry.event {
        Event::Recovery(RecoveryEvent::Proposed { proposal }) => Some(proposal.clone()),
        _ => None,
    });
    let is_behind = |proposal: &Proposed| {
        let commands = [Some(&proposal.recovery), proposal.fallback.as_ref()];
        let text = remedy.as_ref().map(|remedy| remedy.text.as_str());
        commands.into_iter().flatten().any(|one| Some(one.command.as_str()) == text)
    };
    let proposal = proposal.filter(|proposal| is_behind(proposal));
    Some(QuestionDetail { ask, asked_at, remedy, proposal })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incident::testing::{TestIncident, person, policy, remedy, symptom};

    fn tried(story: &TestIncident) -> Vec<RemedyTried> {
        remedies_tried(&Tale::of(&story.journal).unwrap())
    }

    #[test]
    fn each_remedy_is_told_with_what_came_of_it() {
        let mut story = TestIncident::new(policy());
        story.judge(RemedyKind::Command, "forbidden", RemedyVerdict::Deny);
        story.judge(RemedyKind::Command, "npm ci", RemedyVerdict::Allow);
        assert_eq!(tried(&story)[1].result, RemedyResult::Due);
        story.finish(Effect::Snapshot, EffectReport::Done);
        story.finish_apply(EffectReport::Done);
        story.now += 2_500;
        let again = Box::new(symptom(1, "tree"));
        let failed = EffectReport::Verified { proof: Proof::Failed, symptom: Some(again) };
        story.finish(Effect::Verify, failed);
        let told = tried(&story);
        let texts: Vec<_> = told.iter().map(|tried| tried.text.as_str()).collect();
        assert_eq!(texts, ["forbidden", "npm ci"]);
        assert_eq!(told[0].result, RemedyResult::Denied);
        assert_eq!(told[1].result, RemedyResult::Verified(Proof::Failed));
        assert!(told[1].took_ms.is_some_and(|ms| ms >= 2_500), "{told:?}");
    }

    #[test]
    fn a_question_comes_with_the_remedy_it_is_about_and_an_answer_settles_that() {
        let mut story = TestIncident::new(policy());
        story.judge(RemedyKind::Command, "make clean", RemedyVerdict::Ask);
        story.run();
        let tale = Tale::of(&story.journal).unwrap();
        let detail = question_detail(&tale).unwrap();
        let asked = detail.remedy.unwrap();
        assert_eq!((asked.text.as_str(), asked.verdict), ("make clean", RemedyVerdict::Ask));
        assert_eq!(asked.result, RemedyResult::AwaitingPerson);
        assert_eq!(detail.ask.digest, asked.digest);
        let digest = remedy(RemedyKind::Command, "make clean").digest;
        let no = IncidentEvent::Rejected { question: 1, digest, note: None };
        story.by(person("ada"), Event::Incident(no)).unwrap();
        assert_eq!(tried(&story)[0].result, RemedyResult::Declined);
        assert!(question_detail(&Tale::of(&story.journal).unwrap()).is_none());
    }
}
