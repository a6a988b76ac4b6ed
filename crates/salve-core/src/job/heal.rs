//! The self-heal controller's decisions: what kind of failure it is, and what is done about it.

use super::Job;
use crate::class::Class;
use crate::event::{Digest, FailureClass, HealStrategy, ProcessExit, StepFailure, StepTimer};
use crate::scrub::Scrubbed;
use crate::steps::ProgressMark;

/// A rule by which users say what kind a failure is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureRule {
    /// Text that the failure's output has, whatever its case.
    pub contains: String,
    /// The kind.
    pub class: FailureClass,
}

/// How an attempt failed, before it is known of what kind that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// The step's command or agent failed.
    Failed(Class),
    /// A timer ended it.
    TimedOut(StepTimer),
    /// An agent's own program failed; that says nothing about the step.
    AgentFailed,
    /// An agent said that it was done, and Salve's own verification says otherwise. An agent that
    /// is told so may do better, whatever the verification's failure would mean for a command.
    Unverified,
}

/// Returns what kind a failure is: by the first of the users' rules that fits, else by Salve's.
pub fn class_of(outcome: AttemptOutcome, output: &str, rules: &[FailureRule]) -> FailureClass {
    let output = output.to_lowercase();
    let own = rules.iter().find(|rule| output.contains(&rule.contains.to_lowercase()));
    if let Some(rule) = own {
        return rule.class;
    }
    match outcome {
        AttemptOutcome::TimedOut(StepTimer::Wall | StepTimer::Idle)
        | AttemptOutcome::AgentFailed
        | AttemptOutcome::Unverified => FailureClass::TransientRuntime,
        // The repository's own complaints name no class of the fingerprint's.
        AttemptOutcome::Failed(_) if CONFLICTS.iter().any(|words| output.contains(words)) => {
            FailureClass::DeterministicRepo
        }
        AttemptOutcome::Failed(class) => class.categories().job,
    }
}

/// What git says when two changes disagree; running a step again does not reconcile them.
const CONFLICTS: [&str; 4] =
    ["merge conflict", "conflict (content)", "patch does not apply", "patch failed:"];

/// Returns what a failed attempt leaves, to tell whether the next one leaves the same: the failure's
/// signature, how its process ended, and the tree.
pub(super) fn mark(failure: &StepFailure) -> ProgressMark {
    let (kind, number) = match &failure.exit {
        None => (0_u8, 0),
        Some(ProcessExit::Code(code)) => (1, *code),
        Some(ProcessExit::Signal(signal)) => (2, *signal),
        Some(ProcessExit::TimedOut) => (3, 0),
        Some(ProcessExit::Hung) => (4, 0),
    };
    let signature = failure.signature.0.to_le_bytes();
    let failing = Digest::of(&[b"step", &signature, &[kind], &number.to_le_bytes()]);
    ProgressMark { tree: failure.tree, failing }
}

impl Job {
    /// Returns what is to be done about a failed attempt at the present step, and of what kind it is
    /// in the light of the attempts before.
    ///
    /// | failure | while attempts are left | else |
    /// |---|---|---|
    /// | may pass | soft reset | queue retry |
    /// | the same failure left the same tree, as often as it may | hard reset, as often as the job may be | queue retry |
    /// | contract, repo, in what an attempt left that might have passed | hard reset, as often as the job may be | none |
    /// | contract, repo | none: it fails at once | none |
    /// | policy | a person is asked | a person is asked |
    pub fn decide(&self, failure: &StepFailure) -> (FailureClass, HealStrategy) {
        let step = self.steps.position.at_step().and_then(|step| self.terms.steps.get(step));
        let (attempts, limit) = step.map_or((0, 1), |step| (step.attempts, step.no_progress));
        let tried = u32::try_from(self.steps.position.complaints().len()).unwrap_or(u32::MAX);
        let is_left = tried.saturating_add(1) < attempts;
        let class = match failure.class {
            FailureClass::TransientRuntime
                if self.steps.progress.repeats(mark(failure)) >= limit =>
            {
                FailureClass::StuckNoProgress
            }
            class => class,
        };
        let strategy = match class {
            FailureClass::TransientRuntime if is_left => HealStrategy::SoftReset,
            FailureClass::StuckNoProgress if is_left && self.resets < self.terms.resets => {
                HealStrategy::HardReset
            }
            FailureClass::TransientRuntime | FailureClass::StuckNoProgress => {
                HealStrategy::QueueRetry
            }
            FailureClass::DeterministicContract | FailureClass::DeterministicRepo
                if is_left && self.resets < self.terms.resets && self.met_leftovers() =>
            {
                HealStrategy::HardReset
            }
            FailureClass::DeterministicContract | FailureClass::DeterministicRepo => {
                HealStrategy::None
            }
            FailureClass::DeterministicPolicy => HealStrategy::OperatorRequest,
        };
        (class, strategy)
    }

    /// Returns whether the last attempt ran in files that the one before had left half done. What it
    /// met there (`mkdir: File exists`, a directory that is cloned already) says nothing about the
    /// step itself.
    fn met_leftovers(&self) -> bool {
        self.failures.last().is_some_and(|before| {
            before.strategy == HealStrategy::SoftReset && !before.failure.changed.is_empty()
        })
    }

    /// Returns what was tried and did not help, one line each, without repeating itself.
    pub fn failed_approaches(&self) -> Vec<Scrubbed> {
        let mut lines: Vec<Scrubbed> = Vec::new();
        for failed in &self.failures {
            let line = failed.failure.summary.head(LONGEST_SUMMARY);
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        lines
    }
}

/// The most characters of a failure that are repeated.
pub(super) const LONGEST_SUMMARY: usize = 300;
