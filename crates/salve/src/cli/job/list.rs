//! `salve jobs`, and `salve show RUN`.

use std::io::Write as _;

use salve_core::job::{Job, JobState, JobStatus, job_state};

use super::super::events::visible;
use super::super::{CliError, Exit, Output, project};
use crate::store::Store;
use crate::subjects::job::{JobFolder, known};

/// Arguments of `salve jobs`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {}

/// Lists the runs of jobs, the latest first.
pub(in crate::cli) fn run(_: &Args, out: &Output) -> Result<Exit, CliError> {
    let store = Store::open_existing(&project::locate(out)?)?;
    let jobs = store.as_ref().map(known).transpose()?.unwrap_or_default();
    for job in jobs.iter().rev() {
        let state = job_state(job);
        if out.json() {
            out.fact(&state)?;
        } else {
            writeln!(out.stdout(), "{}", line(job, &state))?;
        }
    }
    if jobs.is_empty() && !out.json() {
        out.remark("there is no job here; start one: salve run JOB.toml");
    }
    Ok(Exit::Well)
}

fn line(job: &Job, state: &JobState) -> String {
    let objective = visible(state.objective.head(80).as_str());
    let done = format!("{}/{}", state.steps_done, state.steps);
    format!("{}  {:<14} {done:>7}  {objective}", job.id().short(), state.status.as_str())
}

/// Shows one run of a job; exit code 3 if a person is needed.
pub(in crate::cli) fn show(job: &Job, store: &Store, out: &Output) -> Result<Exit, CliError> {
    let state = job_state(job);
    if out.json() {
        out.fact(&state)?;
    } else {
        print(job, &state, store, out)?;
    }
    Ok(match state.status {
        JobStatus::AwaitingHuman => Exit::NeedsPerson,
        JobStatus::Running
        | JobStatus::Paused
        | JobStatus::Parked
        | JobStatus::Stopped
        | JobStatus::Completed
        | JobStatus::Failed => Exit::Well,
    })
}

fn print(job: &Job, state: &JobState, store: &Store, out: &Output) -> Result<(), CliError> {
    let mut to = out.stdout();
    writeln!(to, "{}", line(job, state))?;
    if let Some(reason) = &state.reason {
        writeln!(to, "  {}", visible(reason.as_str()))?;
    }
    for (number, step) in job.terms().steps.iter().enumerate() {
        let word = match (number < state.steps_done, state.step_index == Some(number)) {
            (true, _) => "done",
            (false, true) => "due",
            (false, false) => "waits",
        };
        writeln!(to, "  {number:>4}  {word:<6} {}", visible(step.id.as_str()))?;
    }
    for failed in job.failures() {
        let (failure, strategy) = (&failed.failure, failed.strategy);
        let text = visible(failure.summary.head(200).as_str());
        writeln!(to, "  attempt {}: {} · {strategy} · {text}", failed.attempt, failure.class)?;
    }
    if let Some(order) = &state.live_control.recovery {
        let how = if order.honored { "done" } else { "waits" };
        writeln!(
            to,
            "  ordered: {} by {} ({how})",
            order.action,
            visible(order.requested_by.as_str())
        )?;
    }
    let folder = JobFolder::of(store.project(), job.id());
    writeln!(to, "  files: {}", folder.dir().display())?;
    Ok(())
}
