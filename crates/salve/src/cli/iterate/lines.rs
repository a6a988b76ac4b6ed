//! What is said about a loop: one line for each thing that happens to it.

use std::sync::Arc;

use salve_core::event::{
    Amounts, Encoded, Entry, Event, LoopEnd, LoopEvent, LoopTurn, PersonOrder, Promise,
    RecoveryEnd, RoleEnd, TestsSeen, TestsVerdict,
};
use salve_core::iteration::{Loop, PromiseRefusal, WARN_AT};
use salve_core::repair::who;
use salve_core::scrub::Scrubbed;
use serde::Serialize;

use super::super::Output;
use super::super::terminal_reporter::{Colours, Grade, TerminalLine, window_width};
use crate::process::Outlet;
use crate::subjects::iteration::{LoopReporter, why};

/// Tells what happens to a loop, to whoever reads.
pub(super) struct Teller<'a> {
    pub(super) out: &'a Output,
    pub(super) outlet: Arc<Outlet>,
}

/// What `--json` prints: one thing that happened a line.
#[derive(Serialize)]
struct LoopReportLine<'f> {
    version: u32,
    seq: u64,
    at: jiff::Timestamp,
    loop_id: &'f str,
    iteration: u32,
    /// What happened, as the journal has it.
    what: serde_json::Value,
}

impl Teller<'_> {
    fn say(&self, line: &TerminalLine) {
        if self.out.global().quiet && line.grade == Grade::News {
            return;
        }
        let line = line.clone().fitted(window_width());
        self.outlet.say(&line.show(Colours::on(&std::io::stderr())));
    }
}

impl LoopReporter for Teller<'_> {
    fn entry(&mut self, of: &Loop, entry: &Entry) {
        let Event::Loop(LoopEvent::Turned { id, iteration, what }) = &entry.event else { return };
        let by = who(&entry.by);
        if self.out.json() {
            let Encoded { mut data, .. } = entry.event.encode();
            let what = data.get_mut("what").map(serde_json::Value::take).unwrap_or_default();
            let (seq, at, iteration) = (entry.seq, entry.at, *iteration);
            let fact =
                LoopReportLine { version: 1, seq, at, loop_id: id.as_str(), iteration, what };
            // Whoever read it has gone; the loop goes on.
            let _ = self.out.fact(&fact);
            return;
        }
        for line in lines(of, what, &by) {
            self.say(&line);
        }
    }

    fn note(&mut self, text: &Scrubbed) {
        self.say(&TerminalLine::new(Grade::News, "note", text.to_string()));
    }
}

/// Returns what to say about something that somebody says happened to a loop.
fn lines(of: &Loop, what: &LoopTurn, by: &str) -> Vec<TerminalLine> {
    let news = |verb, text: String| vec![TerminalLine::new(Grade::News, verb, text)];
    match what {
        LoopTurn::Started { task, .. } => {
            let task = task.as_str().trim().lines().next().unwrap_or_default();
            news("loop", format!("{} · {}", of.id(), cut(task, 100)))
        }
        LoopTurn::Began { .. } => {
            let most = of.terms().limits.attempts.map(|most| format!(" of at most {most}"));
            let text = format!("{}{}", of.iteration(), most.unwrap_or_default());
            let mut lines = news("iteration", text);
            if of.unchanged() >= WARN_AT {
                let text = format!(
                    "{} iterations left the same files with the same failures; the planner is told",
                    of.unchanged()
                );
                lines.push(TerminalLine::new(Grade::Grave, "warning", text));
            }
            lines
        }
        LoopTurn::RoleBegan { role, attempt: 1 } => news("working", role.to_string()),
        LoopTurn::RoleBegan { role, attempt } => {
            news("working", format!("{role}, attempt {attempt}"))
        }
        LoopTurn::RoleEnded { role, end, spent, promise } => {
            let mut lines = vec![role_ended(of, role, *promise, end, *spent)];
            lines.extend(refused(of));
            lines
        }
        LoopTurn::TestsRan { tests } => {
            let mut lines = vec![tested(of, tests)];
            lines.extend(refused(of));
            lines
        }
        LoopTurn::RecoveryBegan {} => news("recovery", "the tests could not execute".to_owned()),
        LoopTurn::RecoveryEnded { how, .. } => vec![recovered(of, *how)],
        LoopTurn::Stopped {} => {
            news("stopped", format!("go on with: salve loop run --id {}", of.id()))
        }
        LoopTurn::Ended { why } => ended(of, why),
        LoopTurn::Ordered { order } => ordered(of, *order, by).into_iter().collect(),
        LoopTurn::Charged { .. } => Vec::new(),
    }
}

fn role_ended(
    of: &Loop,
    role: &Scrubbed,
    promise: Promise,
    end: &RoleEnd,
    spent: Amounts,
) -> TerminalLine {
    let id = of.id();
    match end {
        RoleEnd::Done => {
            let promises = match promise {
                Promise::None => "",
                Promise::Made { .. } | Promise::Weakened => " · promises that the task is done",
            };
            TerminalLine::new(Grade::News, "done", format!("{role}{promises}{}", cost(spent)))
        }
        RoleEnd::Short { reason } => TerminalLine::new(
            Grade::Grave,
            "fell short",
            format!("{reason}{}\nsee .salve/loops/{id}/", cost(spent)),
        ),
        RoleEnd::Away { until, reason } => {
            let text = format!(
                "until {until} · {reason}\nstop it with Ctrl-C; it goes on with: salve loop run --id {id}"
            );
            TerminalLine::new(Grade::Grave, "parked", text)
        }
        RoleEnd::Unable { reason } => {
            let text = format!("{reason}\nthen go on with: salve loop run --id {id}");
            TerminalLine::new(Grade::Grave, "needs you", text)
        }
        RoleEnd::Stopped => TerminalLine::new(Grade::News, "stopped", role.to_string()),
    }
}

/// Returns what to say about an order; a pause is said when it holds something.
fn ordered(of: &Loop, order: PersonOrder, by: &str) -> Option<TerminalLine> {
    let id = of.id();
    match order {
        PersonOrder::Pause if of.is_at_work() => {
            let text = format!("by {by}, once what runs has ended");
            Some(TerminalLine::new(Grade::News, "paused", text))
        }
        PersonOrder::Resume => Some(TerminalLine::new(Grade::News, "resumed", format!("by {by}"))),
        PersonOrder::Skip => Some(TerminalLine::new(Grade::News, "skipped", format!("by {by}"))),
        PersonOrder::Abort => {
            let text = format!("by {by}\ngo on with: salve loop run --id {id}");
            Some(TerminalLine::new(Grade::Grave, "stopped", text))
        }
        PersonOrder::Escalate => {
            let text = format!("{by} wanted to be asked\ngo on with: salve loop run --id {id}");
            Some(TerminalLine::new(Grade::Grave, "needs you", text))
        }
        PersonOrder::Pause | PersonOrder::Retry => None,
    }
}

/// Returns what to say if the iteration has just ended with a promise that does not count.
fn refused(of: &Loop) -> Option<TerminalLine> {
    let why = match of.refused().filter(|_| of.is_between())? {
        PromiseRefusal::Red => "the tests are red",
        PromiseRefusal::NotExecuted => "the tests could not execute",
        PromiseRefusal::Weakened => "what judges the task was weakened since the loop began",
    };
    let text = format!("the promise does not count, since {why}; the next planner is told");
    Some(TerminalLine::new(Grade::Grave, "refused", text))
}

fn tested(of: &Loop, tests: &TestsSeen) -> TerminalLine {
    let seconds = tests.took_ms as f64 / 1e3;
    let see = format!("see .salve/loops/{}/test-output.txt", of.id());
    match tests.verdict {
        TestsVerdict::Green => {
            TerminalLine::new(Grade::Good, "green", format!("tests in {seconds:.1} s"))
        }
        TestsVerdict::Red => {
            let count = match tests.count {
                Some(count) => format!("{count} failed · "),
                None => String::new(),
            };
            let text = format!("tests in {seconds:.1} s · {count}{}\n{see}", tests.key_line);
            TerminalLine::new(Grade::Grave, "red", text)
        }
        TestsVerdict::NotExecuted => {
            let text = format!("tests could not execute · {}\n{see}", tests.key_line);
            TerminalLine::new(Grade::Grave, "red", text)
        }
    }
}

fn recovered(of: &Loop, how: RecoveryEnd) -> TerminalLine {
    match how {
        RecoveryEnd::Well => TerminalLine::new(Grade::Good, "recovered", "the tests execute"),
        RecoveryEnd::NotInfrastructure => TerminalLine::new(
            Grade::News,
            "recovery",
            "nothing to recover: the code is the next iteration's",
        ),
        RecoveryEnd::Rejected => {
            TerminalLine::new(Grade::News, "recovery", "declined; the loop goes on without")
        }
        RecoveryEnd::NeedsPerson => {
            let id = of.id();
            let text = format!(
                "the recovery of the tests waits for your decision\n\
                 salve approve-recovery --loop {id}; then: salve loop run --id {id}"
            );
            TerminalLine::new(Grade::Grave, "needs you", text)
        }
    }
}

fn ended(of: &Loop, end: &LoopEnd) -> Vec<TerminalLine> {
    let (id, mut lines) = (of.id(), Vec::new());
    let after = match of.iteration() {
        1 => "one iteration".to_owned(),
        many => format!("{many} iterations"),
    };
    let total = format!("{} after {after}{}", why(end), cost(of.spent()));
    let next = format!("see .salve/loops/{id}/report.md\ngo on with: salve loop run --id {id}");
    lines.push(match end {
        LoopEnd::Completed => TerminalLine::new(Grade::Good, "completed", total),
        LoopEnd::Limit(_) => TerminalLine::new(Grade::Grave, "limit", format!("{total}\n{next}")),
        LoopEnd::Stuck => TerminalLine::new(Grade::Grave, "stuck", format!("{total}\n{next}")),
        LoopEnd::Failed { .. } => {
            TerminalLine::new(Grade::Grave, "failed", format!("{total}\n{next}"))
        }
    });
    lines
}

/// Returns what something cost, as the end of a line.
fn cost(spent: Amounts) -> String {
    let Amounts { wall_ms, .. } = spent;
    let mut text = String::new();
    if wall_ms > 0 {
        text.push_str(&format!(" · {:.1} s", wall_ms as f64 / 1e3));
    }
    if let Some(cost) = spent.cost_in_words() {
        text.push_str(&format!(" · {cost}"));
    }
    text
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
