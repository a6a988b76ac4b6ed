//! What an agent is told about its step: all of it the first time, and the least that helps after a
//! failure.

use std::fmt::Write as _;

use super::Job;
use super::heal::LONGEST_SUMMARY;

/// The most changed files that are named.
const MOST_FILES: usize = 20;

/// What an agent is told besides what the job knows.
#[derive(Clone, Copy, Debug)]
pub struct StepPrompt<'p> {
    /// What the step is to do.
    pub instruction: &'p str,
    /// How Salve verifies it, for people.
    pub verification: Option<&'p str>,
}

/// Writes what an agent is told about the step that is due.
///
/// After a failure it is a prompt of its own, never added to the old conversation: an agent that
/// reads its own failed reasoning again tends to repeat it.
pub fn step_prompt(of: &Job, prompt: &StepPrompt<'_>) -> String {
    let terms = of.terms();
    let mut text = format!("# Objective\n\n{}\n\n", terms.objective.as_str().trim());
    let step = of.at_step().unwrap_or_default();
    let id = terms.steps.get(step).map(|step| step.id.as_str()).unwrap_or_default();
    let count = terms.steps.len();
    let _ = writeln!(
        text,
        "# Step {} of {count}: {id}\n\n{}\n",
        step.saturating_add(1),
        prompt.instruction.trim()
    );
    if let Some(verification) = prompt.verification {
        let _ = writeln!(
            text,
            "Salve verifies the step itself: {verification}. What you report about it is not \
             believed.\n"
        );
    }
    let Some(last) = of.failures().last() else { return text };
    let failure = &last.failure;
    let _ = writeln!(
        text,
        "# The last attempt failed\n\n- what failed: {}\n- failure signature: {}",
        failure.summary.head(LONGEST_SUMMARY),
        failure.signature
    );
    if let Some(command) = &failure.command {
        let _ = writeln!(text, "- last command: `{}`", command.head(LONGEST_SUMMARY));
    }
    if !failure.changed.is_empty() {
        text.push_str("- files that it changed:\n");
        for file in failure.changed.iter().take(MOST_FILES) {
            let _ = writeln!(text, "  - {file}");
        }
    }
    text.push_str("- approaches that failed:\n");
    for line in of.failed_approaches() {
        let _ = writeln!(text, "  - {line}");
    }
    text.push_str("\nDo not repeat an unchanged remedy.\n");
    text
}
