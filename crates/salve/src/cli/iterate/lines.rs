//! What is said about a loop: one line for each thing that happens to it.

use std::io::IsTerminal as _;
use std::sync::Arc;

use salve_core::event::{
    Amounts, Encoded, Entry, Event, LoopEnd, LoopEvent, Order, Promise, RecoveryEnd, RoleEnd,
    TestsSeen, TestsVerdict, Turn,
};
use salve_core::iteration::{Loop, Refusal, WARN_AT};
use salve_core::repair::who;
use salve_core::scrub::Scrubbed;
use serde::Serialize;

use super::super::Output;
use super::super::voice::{Grade, Line};
use crate::process::Outlet;
use crate::subjects::iteration::{LoopReporter, why};

/// Tells what happens to a loop, to whoever reads.
pub(super) struct Teller<'a> {
    pub(super) out: &'a Output,
    pub(super) outlet: Arc<Outlet>,
}

/// What `--json` prints: one thing that happened a line.
#[derive(Serialize)]
struct Fact<'f> {
    version: u32,
    seq: u64,
    at: jiff::Timestamp,
    loop_id: &'f str,
    iteration: u32,
    /// What happened, as the journal has it.
    what: serde_json::Value,
}

impl Teller<'_> {
    fn say(&self, line: &Line) {
        if self.out.global().quiet && line.grade == Grade::News {
            return;
        }
        let coloured = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        self.outlet.say(&line.show(coloured));
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
            let fact = Fact { version: 1, seq, at, loop_id: id.as_str(), iteration, what };
            // Whoever read it has gone; the loop goes on.
            let _ = self.out.fact(&fact);
            return;
        }
        for line in lines(of, what, &by) {
            self.say(&line);
        }
    }

    fn note(&mut self, text: &Scrubbed) {
        self.say(&Line::new(Grade::News, "note", text.to_string()));
    }
}

/// Returns what to say about something that somebody says happened to a loop.
fn lines(of: &Loop, what: &Turn, by: &str) -> Vec<Line> {
    let news = |verb, text: String| vec![Line::new(Grade::News, verb, text)];
    match what {
        Turn::Started { task, .. } => {
            let task = task.as_str().trim().lines().next().unwrap_or_default();
            news("loop", format!("{} · {}", of.id(), cut(task, 100)))
        }
        Turn::Began { .. } => {
            let most = of.terms().limits.attempts.map(|most| format!(" of at most {most}"));
            let text = format!("{}{}", of.iteration(), most.unwrap_or_default());
            let mut lines = news("iteration", text);
            if of.unchanged() >= WARN_AT {
                let text = format!(
                    "{} iterations left the same files with the same failures; the planner is told",
                    of.unchanged()
                );
                lines.push(Line::new(Grade::Grave, "warning", text));
            }
            lines
        }
        Turn::RoleBegan { role, attempt: 1 } => news("working", role.to_string()),
        Turn::RoleBegan { role, attempt } => news("working", format!("{role}, attempt {attempt}")),
        Turn::RoleEnded { role, end, spent, promise } => {
            let mut lines = vec![role_ended(of, (role, *promise), end, *spent)];
            lines.extend(refused(of));
            lines
        }
        Turn::TestsRan { tests } => {
            let mut lines = vec![tested(of, tests)];
            lines.extend(refused(of));
            lines
        }
        Turn::RecoveryBegan {} => news("recovery", "the tests could not execute".to_owned()),
        Turn::RecoveryEnded { how, .. } => vec![recovered(of, *how)],
        Turn::Stopped {} => news("stopped", format!("go on with: salve loop run --id {}", of.id())),
        Turn::Ended { why } => ended(of, why),
        Turn::Ordered { order } => ordered(of, *order, by).into_iter().collect(),
        Turn::Charged { .. } => Vec::new(),
    }
}

fn role_ended(
    of: &Loop,
    (role, promise): (&Scrubbed, Promise),
    end: &RoleEnd,
    spent: Amounts,
) -> Line {
    let id = of.id();
    match end {
        RoleEnd::Done => {
            let promises = match promise {
                Promise::None => "",
                Promise::Made { .. } | Promise::Weakened => " · promises that the task is done",
            };
            Line::new(Grade::News, "done", format!("{role}{promises}{}", cost(spent)))
        }
        RoleEnd::Short { reason } => Line::new(
            Grade::Grave,
            "fell short",
            format!("{reason}{}\nsee .salve/loops/{id}/", cost(spent)),
        ),
        RoleEnd::Away { until, reason } => {
            let text = format!(
                "until {until} · {reason}\nstop it with Ctrl-C; it goes on with: salve loop run --id {id}"
            );
            Line::new(Grade::Grave, "parked", text)
        }
        RoleEnd::Unable { reason } => {
            let text = format!("{reason}\nthen go on with: salve loop run --id {id}");
            Line::new(Grade::Grave, "needs you", text)
        }
        RoleEnd::Stopped => Line::new(Grade::News, "stopped", role.to_string()),
    }
}

/// Returns what to say about an order; a pause is said when it holds something.
fn ordered(of: &Loop, order: Order, by: &str) -> Option<Line> {
    let id = of.id();
    match order {
        Order::Pause if of.is_at_work() => {
            let text = format!("by {by}, once what runs has ended");
            Some(Line::new(Grade::News, "paused", text))
        }
        Order::Resume => Some(Line::new(Grade::News, "resumed", format!("by {by}"))),
        Order::Skip => Some(Line::new(Grade::News, "skipped", format!("by {by}"))),
        Order::Abort => {
            let text = format!("by {by}\ngo on with: salve loop run --id {id}");
            Some(Line::new(Grade::Grave, "stopped", text))
        }
        Order::Escalate => {
            let text = format!("{by} wanted to be asked\ngo on with: salve loop run --id {id}");
            Some(Line::new(Grade::Grave, "needs you", text))
        }
        Order::Pause | Order::Retry => None,
    }
}

/// Returns what to say if the iteration has just ended with a promise that does not count.
fn refused(of: &Loop) -> Option<Line> {
    let why = match of.refused().filter(|_| of.is_between())? {
        Refusal::Red => "the tests are red",
        Refusal::NotExecuted => "the tests could not execute",
        Refusal::Weakened => "what judges the task was weakened since the loop began",
    };
    let text = format!("the promise does not count, since {why}; the next planner is told");
    Some(Line::new(Grade::Grave, "refused", text))
}

fn tested(of: &Loop, tests: &TestsSeen) -> Line {
    let seconds = tests.took_ms as f64 / 1e3;
    let see = format!("see .salve/loops/{}/test-output.txt", of.id());
    match tests.verdict {
        TestsVerdict::Green => Line::new(Grade::Good, "green", format!("tests in {seconds:.1} s")),
        TestsVerdict::Red => {
            let count = match tests.count {
                Some(count) => format!("{count} failed · "),
                None => String::new(),
            };
            let text = format!("tests in {seconds:.1} s · {count}{}\n{see}", tests.key_line);
            Line::new(Grade::Grave, "red", text)
        }
        TestsVerdict::NotExecuted => {
            let text = format!("tests could not execute · {}\n{see}", tests.key_line);
            Line::new(Grade::Grave, "red", text)
        }
    }
}

fn recovered(of: &Loop, how: RecoveryEnd) -> Line {
    match how {
        RecoveryEnd::Well => Line::new(Grade::Good, "recovered", "the tests execute"),
        RecoveryEnd::NotInfrastructure => Line::new(
            Grade::News,
            "recovery",
            "nothing to recover: the code is the next iteration's",
        ),
        RecoveryEnd::Rejected => {
            Line::new(Grade::News, "recovery", "declined; the loop goes on without")
        }
        RecoveryEnd::NeedsPerson => {
            let id = of.id();
            let text = format!(
                "the recovery of the tests waits for your decision\n\
                 salve approve-recovery --loop {id}; then: salve loop run --id {id}"
            );
            Line::new(Grade::Grave, "needs you", text)
        }
    }
}

fn ended(of: &Loop, end: &LoopEnd) -> Vec<Line> {
    let (id, mut lines) = (of.id(), Vec::new());
    let after = match of.iteration() {
        1 => "one iteration".to_owned(),
        many => format!("{many} iterations"),
    };
    let total = format!("{} after {after}{}", why(end), cost(of.spent()));
    let next = format!("see .salve/loops/{id}/report.md; go on with: salve loop run --id {id}");
    lines.push(match end {
        LoopEnd::Completed => Line::new(Grade::Good, "completed", total),
        LoopEnd::Limit(_) => Line::new(Grade::Grave, "limit", format!("{total}\n{next}")),
        LoopEnd::Stuck => Line::new(Grade::Grave, "stuck", format!("{total}\n{next}")),
        LoopEnd::Failed { .. } => Line::new(Grade::Grave, "failed", format!("{total}\n{next}")),
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
