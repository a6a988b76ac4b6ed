//! `salve loop status`: how loops stand, who runs them, and what a person can do.

use std::collections::BTreeMap;
use std::io::Write as _;

use jiff::{SignedDuration, Timestamp};
use salve_core::event::{Event, LoopEvent, LoopId, Process, TestsVerdict};
use salve_core::iteration::{Loop, LoopStateFile, Status, StepsStanding};
use salve_core::scrub::Scrubber;
use salve_core::view::{AskedQuestion, IncidentView};
use serde::Serialize;

use super::super::events::visible;
use super::super::project::{locate, scrubber};
use super::super::{CliError, Exit, Output};
use crate::process;
use crate::reading::{known_loops, loop_view};
use crate::store::{Store, StoreError, Stream};

/// Arguments of `salve loop status`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Loop [default: all]
    #[arg(value_name = "ID")]
    id: Option<LoopId>,
}

/// Who runs a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Runner {
    /// A process that lives.
    Alive,
    /// A process that is gone: it was killed.
    Gone,
    /// Nobody, as it should be.
    Nobody,
}

/// How a loop stands, and what a person can do.
#[derive(Debug, Serialize)]
struct LoopStatusReport {
    version: u32,
    loop_id: LoopId,
    /// Who runs it, or serves it if it is somebody else's.
    runner: Runner,
    /// How it stands; nothing where it is somebody else's loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<LoopStateFile>,
    /// What a person is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    question: Option<OpenLoopQuestion>,
    /// What a person can type.
    next: Vec<String>,
}

/// What a person is asked.
#[derive(Debug, Serialize)]
struct OpenLoopQuestion {
    since: Timestamp,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
}

impl OpenLoopQuestion {
    fn of(asked: &AskedQuestion) -> Self {
        let command = asked.command.as_ref().map(ToString::to_string);
        Self { since: asked.at, reason: asked.reason.to_string(), command }
    }
}

/// Shows how loops stand.
pub(super) fn run(args: &Args, out: &Output) -> Result<Exit, CliError> {
    let store = Store::open_existing(&locate(out)?)?;
    let reports = store.as_ref().map(reports).transpose()?.unwrap_or_default();
    let wanted = |one: &&LoopStatusReport| args.id.as_ref().is_none_or(|id| one.loop_id == *id);
    let shown: Vec<&LoopStatusReport> = reports.iter().filter(wanted).collect();
    if let (Some(id), []) = (&args.id, shown.as_slice()) {
        return Err(CliError::failed(format!("there is no loop `{id}`"))
            .hint("list them: salve loop status"));
    }
    if shown.is_empty() && !out.json() {
        out.remark("no loop yet; start one: salve loop run --task \"…\"");
    }
    for report in shown {
        if out.json() {
            out.fact(report)?
        } else {
            writeln!(out.fitted(), "{}", lines(report, Timestamp::now()).join("\n    "))?
        }
    }
    Ok(Exit::Well)
}

/// Returns how every loop of a project stands, in the order of their names.
fn reports(store: &Store) -> Result<Vec<LoopStatusReport>, StoreError> {
    let scrubber = scrubber();
    let mut reports = BTreeMap::new();
    for of in known_loops(store.journal())? {
        reports.insert(of.id().clone(), of_own(store, &of, &scrubber)?);
    }
    for (id, by) in attached(store)? {
        if !reports.contains_key(&id) {
            let report = of_other(store, id.clone(), by.as_ref(), &scrubber)?;
            reports.extend(report.map(|report| (id, report)));
        }
    }
    Ok(reports.into_values().collect())
}

fn of_own(store: &Store, of: &Loop, scrubber: &Scrubber) -> Result<LoopStatusReport, StoreError> {
    let view = loop_view(store.journal(), of.id().as_str())?;
    let asks = view.awaiting();
    let is_gone = of.stamps().driver().is_none_or(|driver| process::is_gone(driver, scrubber));
    let runner = match (of.standing(), is_gone) {
        (StepsStanding::Running | StepsStanding::Parked { .. }, true) => Runner::Gone,
        (_, false) => Runner::Alive,
        (StepsStanding::Waits { .. } | StepsStanding::Stopped | StepsStanding::Ended(_), true) => {
            Runner::Nobody
        }
    };
    let id = of.id();
    let mut next = answers(asks, id);
    if of.paused_by().is_some() {
        next.push(format!("salve resume --loop {id}"));
    }
    let is_over = matches!(of.standing(), StepsStanding::Ended(_));
    if runner != Runner::Alive && !is_over {
        next.push(format!("salve loop run --id {id}"));
    }
    Ok(LoopStatusReport {
        version: 1,
        loop_id: id.clone(),
        runner,
        state: view.state(),
        question: asks.and_then(IncidentView::open_question).map(OpenLoopQuestion::of),
        next,
    })
}

/// Returns how somebody else's loop stands that Salve serves, or that waits for a person.
fn of_other(
    store: &Store,
    id: LoopId,
    by: Option<&Process>,
    scrubber: &Scrubber,
) -> Result<Option<LoopStatusReport>, StoreError> {
    let view = loop_view(store.journal(), id.as_str())?;
    let asks = view.awaiting();
    let runner = match by {
        Some(process) if !process::is_gone(process, scrubber) => Runner::Alive,
        Some(_) => Runner::Gone,
        None => Runner::Nobody,
    };
    if runner != Runner::Alive && asks.is_none() {
        return Ok(None);
    }
    let question = asks.and_then(IncidentView::open_question).map(OpenLoopQuestion::of);
    let next = answers(asks, &id);
    Ok(Some(LoopStatusReport { version: 1, loop_id: id, runner, state: None, question, next }))
}

/// Returns the loops of others that Salve was attached to, and by which process it is still.
fn attached(store: &Store) -> Result<BTreeMap<LoopId, Option<Process>>, StoreError> {
    let mut attached = BTreeMap::new();
    for entry in store.journal().read(0, &Stream::LoopServices, usize::MAX)? {
        match &entry.event {
            Event::Loop(LoopEvent::Attached { id }) => {
                attached.insert(id.clone(), entry.by.process().cloned());
            }
            Event::Loop(LoopEvent::Detached { id }) => {
                attached.insert(id.clone(), None);
            }
            _ => {}
        }
    }
    Ok(attached)
}

fn answers(asks: Option<&IncidentView>, id: &LoopId) -> Vec<String> {
    let words = match asks {
        Some(_) => ["approve", "reject", "resolve"].as_slice(),
        None => &[],
    };
    words.iter().map(|word| format!("salve {word}-recovery --loop {id}")).collect()
}

/// Returns what is shown of a loop: a line, and what belongs to it.
fn lines(report: &LoopStatusReport, now: Timestamp) -> Vec<String> {
    let id = &report.loop_id;
    let mut lines = vec![match &report.state {
        Some(state) => line(state, now),
        None => {
            let status = match report.question {
                Some(_) => Status::AwaitingHuman.as_str(),
                None => "served",
            };
            format!("{id:<20} {status} · somebody else's loop")
        }
    }];
    if let Some(state) = &report.state {
        lines.extend(state.paused_by.as_ref().map(|by| format!("paused by {by}")));
        let why = state.reason.as_ref().filter(|_| state.paused_by.is_none());
        lines.extend(why.map(|why| visible(why.as_str())));
    }
    if report.runner == Runner::Gone {
        lines.push(match report.state {
            Some(_) => "nobody runs it: its process is gone".to_owned(),
            None => "nobody serves it: start `salve loop attach` again".to_owned(),
        });
    }
    if let Some(OpenLoopQuestion { since, reason, command }) = &report.question {
        let what = command.as_ref().map(|command| format!("may `{command}` run? "));
        let what = visible(&what.unwrap_or_default());
        lines.push(format!("asks since {since:.0}: {what}{}", visible(reason)));
    }
    lines.extend(report.next.iter().cloned());
    lines
}

fn line(state: &LoopStateFile, now: Timestamp) -> String {
    let tests = match state.tests {
        Some(TestsVerdict::Green) => " · tests green",
        Some(TestsVerdict::Red) => " · tests red",
        Some(TestsVerdict::NotExecuted) => " · tests could not execute",
        None => "",
    };
    let role = state.role.as_ref().map(|role| format!(" · {role}")).unwrap_or_default();
    let until = state.resumes_at.map(|at| format!(" until {at:.0}{}", in_time(at, now)));
    let (id, status, iteration) = (&state.loop_id, state.status.as_str(), state.iteration);
    format!("{id:<20} {status}{} · iteration {iteration}{role}{tests}", until.unwrap_or_default())
}

/// Returns how long it is until then, for people.
fn in_time(at: Timestamp, now: Timestamp) -> String {
    let left = at.duration_since(now).max(SignedDuration::ZERO);
    let (hours, minutes) = (left.as_hours(), left.as_mins() % 60);
    match (hours, minutes) {
        (0, 0) => format!(", in {} s", left.as_secs()),
        (0, minutes) => format!(", in {minutes} min"),
        (hours, minutes) => format!(", in {hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_is_left_is_told_as_people_tell_it() {
        let now = Timestamp::UNIX_EPOCH;
        for (seconds, want) in
            [(-5, ", in 0 s"), (59, ", in 59 s"), (600, ", in 10 min"), (7_260, ", in 2 h 1 min")]
        {
            assert_eq!(in_time(now + SignedDuration::from_secs(seconds), now), want);
        }
    }
}
