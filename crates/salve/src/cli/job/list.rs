//! `salve jobs`, and `salve show RUN`.

use std::io::Write as _;

use salve_core::job::{Job, JobState, JobStatus, QueueState, job_state};

use super::super::answer::refuse_agents;
use super::super::events::visible;
use super::super::{CliError, Exit, Output, project};
use super::wanted;
use crate::store::Store;
use crate::subjects::job::{JobFolder, known};

/// Arguments of `salve jobs`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(subcommand)]
    what: Option<JobsCommand>,
}

/// What is wanted of the jobs in the queue.
#[derive(Debug, clap::Subcommand)]
enum JobsCommand {
    /// List the jobs of the queue that failed for good
    Dead,
    /// Let a job of the queue be tried again
    Requeue {
        /// The run's id; its first digits will do
        run: String,
    },
}

/// Lists the runs of jobs, the latest first.
pub(in crate::cli) fn run(args: &Args, out: &Output) -> Result<Exit, CliError> {
    match &args.what {
        None => list(out),
        Some(JobsCommand::Dead) => dead(out),
        Some(JobsCommand::Requeue { run }) => requeue(run, out),
    }
}

fn list(out: &Output) -> Result<Exit, CliError> {
    let store = Store::open_existing(&project::locate(out)?)?;
    let jobs = store.as_ref().map(known).transpose()?.unwrap_or_default();
    let queued = match &store {
        Some(store) => store.queue().queued(Some(QueueState::Queued))?,
        None => Vec::new(),
    };
    for job in jobs.iter().rev() {
        let state = job_state(job);
        let is_queued = queued.iter().any(|row| row.job == job.id());
        if out.json() {
            out.fact(&state)?;
        } else if is_queued {
            writeln!(out.stdout(), "{}", line_with(job, &state, "queued"))?;
        } else {
            writeln!(out.stdout(), "{}", line(job, &state))?;
        }
    }
    if jobs.is_empty() && !out.json() {
        out.remark("there is no job here; start one: salve run JOB.toml");
    }
    Ok(Exit::Well)
}

/// Lists the jobs of the queue that failed for good; exit code 3 if there are any.
fn dead(out: &Output) -> Result<Exit, CliError> {
    let Some(store) = Store::open_existing(&project::locate(out)?)? else { return Ok(Exit::Well) };
    let dead = store.queue().queued(Some(QueueState::Dead))?;
    for row in &dead {
        if out.json() {
            out.fact(row)?;
            continue;
        }
        let reason = row.reason.as_ref().map(|reason| visible(reason.head(120).as_str()));
        let (id, reason) = (row.job.short(), reason.unwrap_or_default());
        let tried = format!("{} tries, {} workers lost", row.tries, row.losses);
        writeln!(out.stdout(), "{id}  {tried}  {reason}")?;
    }
    if !out.json() {
        out.remark(if dead.is_empty() {
            "no job of the queue failed for good"
        } else {
            "let one be tried again: salve jobs requeue RUN"
        });
    }
    Ok(if dead.is_empty() { Exit::Well } else { Exit::NeedsPerson })
}

fn requeue(digits: &str, out: &Output) -> Result<Exit, CliError> {
    refuse_agents("queue a job again")?;
    let store = project::open_store(out)?;
    let of = wanted(&store, digits)?;
    let id = of.id().short();
    if !store.queue().requeue(of.id())? {
        let rows = store.queue().queued(None)?;
        let state = rows.iter().find(|row| row.job == of.id()).map(|row| row.state.as_str());
        return Err(CliError::failed(format!("the job {id} cannot be queued again"))
            .because(
                state.map_or("it was not submitted".to_owned(), |state| format!("it is `{state}`")),
            )
            .hint(format!("salve resume {id}")));
    }
    writeln!(out.stdout(), "{id}  queued")?;
    Ok(Exit::Well)
}

fn line(job: &Job, state: &JobState) -> String {
    line_with(job, state, state.status.as_str())
}

fn line_with(job: &Job, state: &JobState, word: &str) -> String {
    let objective = visible(state.objective.head(80).as_str());
    let done = format!("{}/{}", state.steps_done, state.steps);
    format!("{}  {word:<14} {done:>7}  {objective}", job.id().short())
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
