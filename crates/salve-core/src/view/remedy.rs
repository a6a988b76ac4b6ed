//! The remedies of an incident, each with what the gate said and what came of it.

use jiff::Timestamp;
use serde::Serialize;

use crate::event::{
    Authority, ChangedFile, Digest, Effect, EffectReport, Entry, IncidentEvent, Judgement,
    ProcessExit, Proof, Remedy, RemedyKind, RemedyOrigin, RemedyVerdict,
};
use crate::scrub::Scrubbed;

/// One remedy that was considered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RemedyTried {
    /// The attempt it belongs to, from 1.
    pub attempt: u32,
    /// When it was chosen.
    pub chosen_at: Timestamp,
    /// What it is: the exact command where it is one.
    pub text: Scrubbed,
    /// What sort of thing it is.
    pub kind: RemedyKind,
    /// Who came up with it.
    pub origin: RemedyOrigin,
    /// The hash of exactly what runs.
    pub digest: Digest,
    /// What the gate said.
    pub verdict: RemedyVerdict,
    /// The rule that said so.
    pub rule: Scrubbed,
    /// Why.
    pub reason: Scrubbed,
    /// The files it was found to have changed.
    pub files: Vec<ChangedFile>,
    /// How many more files it changed.
    pub more_files: u32,
    /// What came of it.
    pub result: RemedyResult,
    /// How long it took from its start to its verdict, in milliseconds, once that is known.
    pub took_ms: Option<u64>,
    /// How it was applied, if it was.
    #[serde(skip)]
    pub applied: Option<AppliedRemedy>,
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

/// How a remedy was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedRemedy {
    /// The effect's number.
    pub effect: u32,
    /// When it was begun.
    pub at: Timestamp,
    /// The journal's entry that says so.
    pub seq: u64,
    /// On whose word.
    pub on: Authority,
    /// How that ended, if it has.
    pub end: Option<AppliedEnd>,
}

/// How the application of a remedy ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedEnd {
    /// When.
    pub at: Timestamp,
    /// The journal's entry that says so.
    pub seq: u64,
    /// What became of it.
    pub how: Fulfilment,
    /// The exit code, where there is one.
    pub exit_code: Option<i32>,
    /// What went wrong, if something did.
    pub error: Option<Scrubbed>,
}

/// What became of a command that was to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fulfilment {
    /// It has not run.
    NotRun,
    /// It was begun, and nobody has said how it ended.
    Running,
    /// It ended without an error.
    Succeeded,
    /// It ended with one, or outlived its time-out.
    Failed,
    /// Salve ended while it ran: it is verified, and never run again.
    Interrupted,
}

impl Fulfilment {
    /// Returns the word for it in `escalation.json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Fulfilment::NotRun => "not_run",
            Fulfilment::Running => "running",
            Fulfilment::Succeeded => "succeeded",
            Fulfilment::Failed => "failed",
            Fulfilment::Interrupted => "interrupted",
        }
    }
}

impl AppliedRemedy {
    /// Returns what became of it.
    pub fn fulfilment(&self) -> Fulfilment {
        self.end.as_ref().map_or(Fulfilment::Running, |end| end.how)
    }
}

impl RemedyTried {
    /// Returns a remedy that was put to the gate.
    pub(super) fn chosen(
        remedy: &Remedy,
        judgement: &Judgement,
        attempt: u32,
        chosen_at: Timestamp,
    ) -> Self {
        Self {
            attempt,
            chosen_at,
            text: remedy.text.clone(),
            kind: remedy.kind,
            origin: remedy.origin,
            digest: remedy.digest,
            verdict: judgement.verdict,
            rule: judgement.rule.clone(),
            reason: judgement.reason.clone(),
            files: Vec::new(),
            more_files: 0,
            result: match judgement.verdict {
                RemedyVerdict::Allow => RemedyResult::Due,
                RemedyVerdict::Ask => RemedyResult::AwaitingPerson,
                RemedyVerdict::Deny => RemedyResult::Denied,
            },
            took_ms: None,
            applied: None,
        }
    }

    /// Tells whether it was found to have helped.
    pub fn has_helped(&self) -> bool {
        matches!(
            self.result,
            RemedyResult::Verified(Proof::Proven | Proof::Transient | Proof::Flaky)
        )
    }

    /// Takes in what happened since it was chosen.
    pub(super) fn hear(&mut self, event: &IncidentEvent, entry: &Entry) {
        match event {
            IncidentEvent::Requested { effect, what: Effect::Apply { on, .. } } => {
                let (effect, at, seq, on) = (*effect, entry.at, entry.seq, *on);
                self.applied = Some(AppliedRemedy { effect, at, seq, on, end: None });
                self.result = RemedyResult::Running;
            }
            IncidentEvent::FilesChanged { files, more, .. } => {
                self.files.clone_from(files);
                self.more_files = *more;
            }
            IncidentEvent::Approved { .. } if self.result == RemedyResult::AwaitingPerson => {
                self.result = RemedyResult::Due;
            }
            IncidentEvent::Rejected { .. } if self.result == RemedyResult::AwaitingPerson => {
                self.result = RemedyResult::Declined;
            }
            // Somebody else took over: what ran was cut off.
            IncidentEvent::Claimed { .. } => {
                let error = Scrubbed::literal(
                    "Salve ended while it ran: how far it came is not known, and it is not run again",
                );
                self.end(entry, Fulfilment::Interrupted, None, Some(error));
            }
            IncidentEvent::Finished { effect, report } => self.finished(*effect, report, entry),
            _ => {}
        }
    }

    /// Takes in that an effect came back.
    fn finished(&mut self, effect: u32, report: &EffectReport, entry: &Entry) {
        let is_apply = self.applied.as_ref().is_some_and(|applied| applied.effect == effect);
        if is_apply {
            let (how, exit_code, error) = application_end(report);
            self.end(entry, how, exit_code, error);
        }
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
            | EffectReport::Conflict { .. }
            | EffectReport::Measured(_) => return,
        };
        let took = |applied: &AppliedRemedy| entry.at.duration_since(applied.at).as_millis();
        self.took_ms = self.applied.as_ref().map(|one| u64::try_from(took(one)).unwrap_or(0));
        self.result = result;
    }

    /// Takes in how its application ended; what is known already stays.
    fn end(
        &mut self,
        entry: &Entry,
        how: Fulfilment,
        exit_code: Option<i32>,
        error: Option<Scrubbed>,
    ) {
        if let Some(applied) = &mut self.applied {
            let (at, seq) = (entry.at, entry.seq);
            applied.end.get_or_insert(AppliedEnd { at, seq, how, exit_code, error });
        }
    }
}

/// Returns what became of a command that reports so, its exit code, and what went wrong.
fn application_end(report: &EffectReport) -> (Fulfilment, Option<i32>, Option<Scrubbed>) {
    match report {
        EffectReport::Done => (Fulfilment::Succeeded, Some(0), None),
        EffectReport::Failed { reason, exit } => {
            let how = if exit.is_some() { Fulfilment::Failed } else { Fulfilment::NotRun };
            let exit_code = match exit {
                Some(ProcessExit::Code(code)) => Some(*code),
                Some(ProcessExit::Signal(_) | ProcessExit::TimedOut | ProcessExit::Hung) | None => {
                    None
                }
            };
            (how, exit_code, Some(reason.clone()))
        }
        EffectReport::TimedOut => {
            let error = Scrubbed::literal("it outlived its time-out");
            (Fulfilment::Failed, None, Some(error))
        }
        EffectReport::NoAgent
        | EffectReport::Conflict { .. }
        | EffectReport::Measured(_)
        | EffectReport::Verified { .. } => {
            (Fulfilment::NotRun, None, Some(Scrubbed::literal("nobody ran it")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use crate::incident::testing::{TestIncident, person, policy, remedy, symptom};
    use crate::repair::question_detail;
    use crate::view::IncidentView;

    fn tried(story: &TestIncident) -> Vec<RemedyTried> {
        IncidentView::of(story.journal.clone()).unwrap().remedies().to_vec()
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
        let view = IncidentView::of(story.journal.clone()).unwrap();
        let detail = question_detail(&view).unwrap();
        let asked = detail.remedy.unwrap();
        assert_eq!((asked.text.as_str(), asked.verdict), ("make clean", RemedyVerdict::Ask));
        assert_eq!(asked.result, RemedyResult::AwaitingPerson);
        assert_eq!(detail.ask.digest, asked.digest);
        let digest = remedy(RemedyKind::Command, "make clean").digest;
        let no = IncidentEvent::Rejected { question: 1, digest, note: None };
        story.by(person("ada"), Event::Incident(no)).unwrap();
        assert_eq!(tried(&story)[0].result, RemedyResult::Declined);
        assert!(question_detail(&IncidentView::of(story.journal.clone()).unwrap()).is_none());
    }
}
