//! What is left to read when a loop is over.

use std::fmt::Write as _;

use salve_core::event::{LoopEnd, Resource, TestsVerdict};
use salve_core::iteration::Loop;

/// Says in words why a loop is over.
pub fn why(end: &LoopEnd) -> String {
    match end {
        LoopEnd::Completed => "the task is done, and Salve's own tests are green".to_owned(),
        LoopEnd::Limit(resource) => format!("the limit on {} was reached", limit(*resource)),
        LoopEnd::Stuck => "the same files with the same failures came back too often".to_owned(),
        LoopEnd::Failed { reason } => reason.to_string(),
    }
}

fn limit(resource: Resource) -> &'static str {
    match resource {
        Resource::Attempts => "iterations (loop.max_iterations)",
        Resource::Tokens => "tokens (loop.max_tokens)",
        Resource::MoneyMicros => "money (loop.max_cents)",
        Resource::WallMs => "time (loop.max_wall_ms)",
        Resource::Resets => "resets",
    }
}

/// Returns the report on a loop that is over.
pub(super) fn report(of: &Loop, end: &LoopEnd) -> String {
    let (id, spent) = (of.id(), of.spent());
    let mut text = format!("# Loop {id}\n\nIt is over: {}.\n\n", why(end));
    let _ = writeln!(text, "- iterations: {}", of.iteration());
    let cost = spent.cost_in_words().unwrap_or_else(|| "no tokens".to_owned());
    let seconds = spent.wall_ms as f64 / 1e3;
    let _ = writeln!(text, "- cost of this run: {cost}, {seconds:.0} s of work");
    if of.unchanged() > 1 {
        let _ = writeln!(text, "- iterations that left the same: {}", of.unchanged());
    }
    match of.tests() {
        None => text.push_str("- tests: never run\n"),
        Some(tests) => {
            let how = match tests.verdict {
                TestsVerdict::Green => "green",
                TestsVerdict::Red => "red",
                TestsVerdict::NotExecuted => "could not execute",
            };
            let _ = writeln!(text, "- tests: {how} {}", tests.key_line);
            for name in &tests.failed {
                let _ = writeln!(text, "  - {name}");
            }
        }
    }
    let _ = writeln!(text, "\n## The task\n\n{}\n", of.task());
    match end {
        LoopEnd::Completed => {}
        LoopEnd::Limit(_) | LoopEnd::Stuck | LoopEnd::Failed { .. } => {
            let _ = writeln!(
                text,
                "## What next\n\nLook at the plans and reviews in `iterations/`. Then go on with \
                 `salve loop run --id {id}`, or with another task: `salve loop run --id {id} \
                 --task \"…\"`."
            );
        }
    }
    text
}
