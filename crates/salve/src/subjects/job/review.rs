//! An agent's review of what a step did.

use salve_core::event::{Amounts, AttemptEnd};
use salve_core::job::{ReviewPrompt, ReviewVerdict, review_prompt, review_verdict};
use salve_core::scrub::Scrubbed;
use uuid::Uuid;

use super::JobError;
use super::attempt::{StepWorked, WorkspaceLeft};
use super::course::JobCourse;
use super::valid::StepSpec;
use super::verify::{StepVerified, UnmetVerification};
use super::worked::{ErrandEnd, StepErrand};
use crate::heal::RunBase;

impl JobCourse<'_, '_> {
    /// Has a step's reviewer judge what it left; one that gives no verdict has approved nothing.
    pub(super) fn review(
        &mut self,
        base: &mut RunBase<'_>,
        spec: &StepSpec,
        left: &WorkspaceLeft,
        spent: &mut Amounts,
    ) -> Result<StepVerified, JobError> {
        let Some(reviewer) = &spec.reviewer else { return Ok(StepVerified::Met) };
        // Short, so that it does not pass for a secret in what the reviewer says.
        let code: String = Uuid::new_v4().simple().to_string().chars().take(8).collect();
        let change = base.writer.scrubber.scrub(&String::from_utf8_lossy(&left.diff.patch));
        let (instruction, question) = (spec.work.in_words(), reviewer.question.as_deref());
        let told =
            ReviewPrompt { instruction: &instruction, question, change: &change, code: &code };
        let prompt = review_prompt(&self.of, &told);
        let errand = StepErrand { agent: &reviewer.agent, prompt: &prompt, before: *spent };
        let (name, ending, said) = match self.send_agent(base, spec, errand)? {
            ErrandEnd::Ended { name, ending, said, spent: all } => {
                *spent = all;
                (name, ending, said)
            }
            ErrandEnd::NotStarted(text) => {
                let reason = base.writer.scrubber.scrub(&format!("no review: {text}"));
                return Ok(StepVerified::Not(AttemptEnd::Unable { reason }));
            }
        };
        Ok(match self.worked(base, &name, &ending) {
            StepWorked::Not(end) => StepVerified::Not(end),
            StepWorked::Failed { outcome, exit, output } => {
                StepVerified::Unmet(UnmetVerification {
                    output: format!("verification failed: the review failed: {output}"),
                    command: None,
                    exit: Some(exit),
                    timer: outcome,
                })
            }
            StepWorked::Claimed => match verdict_of(&ending.text, &said, &code) {
                ReviewVerdict::Approved => StepVerified::Met,
                ReviewVerdict::Rejected(reason) if reason.is_empty() => {
                    StepVerified::unmet("the reviewer rejected it and gave no reason")
                }
                ReviewVerdict::Rejected(reason) => {
                    StepVerified::unmet(format!("the reviewer rejected it: {reason}"))
                }
                ReviewVerdict::Missing => StepVerified::unmet("the reviewer gave no verdict"),
            },
        })
    }
}

/// Returns the verdict in an agent's last word, or else in what it said last while it worked.
fn verdict_of(last: &Scrubbed, said: &Scrubbed, code: &str) -> ReviewVerdict {
    match review_verdict(last.as_str(), code) {
        ReviewVerdict::Missing => review_verdict(said.as_str(), code),
        verdict @ (ReviewVerdict::Approved | ReviewVerdict::Rejected(_)) => verdict,
    }
}
