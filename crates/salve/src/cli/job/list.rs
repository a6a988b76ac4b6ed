//! `salve jobs`, and `salve show RUN`.

use std::io::Write;

use jiff::Timestamp;
use salve_core::event::JobOrder;
use salve_core::job::{Job, JobState, JobStatus, QueueState, QueuedJob, job_state};
use serde::Serialize;
use uuid::Uuid;

use super::super::answer::{refuse_agents, speaker};
use super::super::events::visible;
use super::super::{CliError, Exit, Output, project};
use super::control::refused;
use super::fleet::{FleetArgs, find_in_fleet, fleet_of, wanted_in_fleet};
use super::fleet_questions::FleetQuestionLine;
use super::result_ways::ResultWays;
use super::run::not_given;
use super::wanted;
use crate::heal::right::{RunLock, RunRight};
use crate::store::{FleetOrder, Store};
use crate::subjects::job::{
    FleetQuestion, JobError, JobFolder, JobInFleet, RESULT, jobs_in_fleet, known, order_job,
};
use crate::workspace::StepStore;

/// Arguments of `salve jobs`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(subcommand)]
    what: Option<JobsCommand>,
    #[command(flatten)]
    fleet: FleetArgs,
}

/// What is wanted of the jobs in the queue.
#[derive(Debug, clap::Subcommand)]
enum JobsCommand {
    /// List the jobs of the queue that failed for good
    Dead,
    /// Take over what a completed run made: into your files, or as a branch
    Take {
        /// The run's id; its first digits will do
        run: String,
        /// Make this branch, one commit for each step, and leave your files as they are
        #[arg(long, value_name = "NAME")]
        branch: Option<String>,
    },
    /// Remove the files of runs: workspaces, patches, records; the journal still tells of them
    Remove {
        /// The runs' ids; their first digits will do
        #[arg(required = true)]
        runs: Vec<String>,
    },
    /// Let a job of the queue be tried again
    Requeue {
        /// The run's id; its first digits will do
        run: String,
    },
}

/// Lists the runs of jobs, the latest first.
pub(in crate::cli) fn run(args: &Args, out: &Output) -> Result<Exit, CliError> {
    if let Some(store) = args.fleet.open(out)? {
        return run_in_fleet(args.what.as_ref(), &store, out);
    }
    match &args.what {
        None => list(out),
        Some(JobsCommand::Dead) => match Store::open_existing(&project::locate(out)?)? {
            Some(store) => dead(&store, out),
            None => Ok(Exit::Well),
        },
        Some(JobsCommand::Requeue { run }) => requeue(run, out),
        Some(JobsCommand::Take { run, branch }) => take(run, branch.as_deref(), out),
        Some(JobsCommand::Remove { runs }) => remove(runs, out),
    }
}

fn list(out: &Output) -> Result<Exit, CliError> {
    let store = Store::open_existing(&project::locate(out)?)?;
    let jobs = store.as_ref().map(known).transpose()?.unwrap_or_default();
    let rows = match &store {
        Some(store) => store.queue().queued(None)?,
        None => Vec::new(),
    };
    for job in jobs.iter().rev() {
        let state = job_state(job);
        let row = rows.iter().find(|row| row.job == job.id()).map(|row| row.state);
        let is_removed =
            store.as_ref().is_some_and(|store| !JobFolder::of(store.project(), job.id()).is_kept());
        if out.json() {
            out.fact(&state)?;
        } else if is_removed {
            writeln!(out.fitted(), "{}", line_with(job, &state, "removed"))?;
        } else {
            let word = standing_word(job, &state, row);
            writeln!(out.fitted(), "{}", line_with(job, &state, word))?;
        }
    }
    if jobs.is_empty() && !out.json() {
        out.remark("there is no job here; start one: salve run JOB.toml");
    }
    Ok(Exit::Well)
}

/// One job that is not over, in a few words.
#[derive(Debug, Serialize)]
pub(in crate::cli) struct OpenJobLine {
    id: String,
    state: &'static str,
    steps_done: usize,
    steps: usize,
    objective: String,
}

impl OpenJobLine {
    /// Returns the jobs that are not over, the latest first.
    pub(in crate::cli) fn of(store: &Store) -> Result<Vec<Self>, CliError> {
        let queued = store.queue().queued(Some(QueueState::Queued))?;
        let all = known(store)?;
        let is_open = |status: JobStatus| match status {
            JobStatus::Completed | JobStatus::Failed => false,
            JobStatus::Running
            | JobStatus::Paused
            | JobStatus::Parked
            | JobStatus::Stopped
            | JobStatus::AwaitingHuman => true,
        };
        let line = |job: &Job| {
            let state = job_state(job);
            let is_queued = queued.iter().any(|row| row.job == job.id());
            is_open(state.status).then(|| Self {
                id: job.id().short(),
                state: if is_queued { "queued" } else { state.status.as_str() },
                steps_done: state.steps_done,
                steps: state.steps,
                objective: state.objective.head(60).to_string(),
            })
        };
        Ok(all.iter().rev().filter_map(line).collect())
    }

    /// Returns it for people, with what to do about it where nobody runs it.
    pub(in crate::cli) fn in_words(&self) -> String {
        let Self { id, state, steps_done, steps, objective } = self;
        let next = match *state {
            "queued" => "; salve worker".to_owned(),
            "stopped" => format!("; salve resume {id}"),
            "awaiting_human" => format!("; salve show {id}"),
            _ => String::new(),
        };
        format!("{id}  {state} {steps_done}/{steps}{next}  {}", visible(objective))
    }
}

/// Lists the jobs of the queue that failed for good; exit code 3 if there are any.
fn dead(store: &Store, out: &Output) -> Result<Exit, CliError> {
    let dead = store.queue().queued(Some(QueueState::Dead))?;
    for row in &dead {
        if out.json() {
            out.fact(row)?;
            continue;
        }
        let reason = row.reason.as_ref().map(|reason| visible(reason.head(120).as_str()));
        let (id, reason) = (row.job.short(), reason.unwrap_or_default());
        let tried = format!("{} tries, {} workers lost", row.tries, row.losses);
        writeln!(out.fitted(), "{id}  {tried}  {reason}")?;
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
    let rows = store.queue().queued(None)?;
    let state = rows.iter().find(|row| row.job == of.id()).map(|row| row.state);
    let is_queued = if of.is_cancelled() && state.is_some() {
        // Taken back first, or its worker would let it be.
        let name = speaker(None, &store, &project::scrubber());
        let taken = order_job(&store, &of, JobOrder::Resume, name);
        taken.map_err(|error| refused(&of, error))?.is_queued
    } else {
        store.queue().requeue(of.id())?
    };
    if !is_queued {
        let why = state.map_or("it was not submitted".to_owned(), |state| match state {
            QueueState::Queued => {
                "it is queued: a worker runs it as soon as one is free".to_owned()
            }
            QueueState::Claimed
            | QueueState::Waiting
            | QueueState::Done
            | QueueState::Dead
            | QueueState::Withdrawn => format!("it is `{}`", state.as_str()),
        });
        return Err(CliError::failed(format!("the job {id} cannot be queued again"))
            .because(why)
            .hint(format!("salve show {id}")));
    }
    tell(&of, "queued", out)?;
    Ok(Exit::Well)
}

/// Lets a job of a fleet be tried again; one that was called off is taken back first, or its worker
/// would let it be.
fn requeue_in_fleet(digits: &str, store: &Store, out: &Output) -> Result<Exit, CliError> {
    refuse_agents("queue a job again")?;
    let JobInFleet { row, job: of } = wanted_in_fleet(store, digits)?;
    let (id, job) = (of.id().short(), of.id());
    if of.is_cancelled() {
        let (by, at) = (speaker(None, store, &project::scrubber()), Timestamp::now());
        let order = JobOrder::Resume;
        fleet_of(store)?.order(&FleetOrder { version: 1, job, order, by, at })?;
    }
    if !store.queue().requeue(job)? {
        return Err(CliError::failed(format!("the job {id} cannot be queued again"))
            .because(format!("it is `{}`", row.state.as_str()))
            .hint(format!("salve show {id}")));
    }
    tell(&of, "queued", out)?;
    Ok(Exit::Well)
}

/// Has a job of a fleet go on, if a run of it is meant that is not known here: whoever is free runs it.
pub(in crate::cli) fn resume_in_fleet(
    digits: &str,
    fleet: &FleetArgs,
    out: &Output,
) -> Result<Option<Exit>, CliError> {
    let Some(store) = fleet.open(out)? else { return Ok(None) };
    let Some(JobInFleet { row, job: of }) = find_in_fleet(&store, digits)? else {
        return Ok(None);
    };
    refuse_agents("go on with a job")?;
    let (id, job) = (of.id().short(), of.id());
    let state = job_state(&of);
    if state.status == JobStatus::Completed {
        return Err(CliError::usage(format!("the job {id} is done"))
            .hint(format!("salve control {id} resume_from_step STEP")));
    }
    let is_held = state.status == JobStatus::Paused || of.is_cancelled();
    if is_held {
        let (by, at) = (speaker(None, &store, &project::scrubber()), Timestamp::now());
        let order = JobOrder::Resume;
        fleet_of(&store)?.order(&FleetOrder { version: 1, job, order, by, at })?;
    }
    let is_queued = store.queue().requeue(job)?;
    let words = match (is_queued, row.state) {
        (true, _) => "is queued: a worker goes on with it",
        (false, QueueState::Claimed) if is_held => "goes on where it runs",
        (false, QueueState::Claimed) => "is run by a worker already",
        (false, _) => "is queued already: a worker goes on with it as soon as one is free",
    };
    tell(&of, words, out)?;
    Ok(Some(Exit::Well))
}

/// Does with the jobs of a fleet what is wanted.
fn run_in_fleet(what: Option<&JobsCommand>, store: &Store, out: &Output) -> Result<Exit, CliError> {
    match what {
        None => list_fleet(store, out),
        Some(JobsCommand::Dead) => dead(store, out),
        Some(JobsCommand::Requeue { run }) => requeue_in_fleet(run, store, out),
        Some(JobsCommand::Take { run, branch }) => {
            take_from_fleet(run, branch.as_deref(), store, out)
        }
        Some(JobsCommand::Remove { runs }) => {
            refuse_agents("remove a job")?;
            for digits in runs {
                let of = wanted_in_fleet(store, digits)?.job;
                if !store.queue().forget(of.id())? {
                    let id = of.id().short();
                    return Err(CliError::failed(format!("a worker has the job {id}"))
                        .hint(format!("salve control {id} cancel")));
                }
                tell(&of, "removed", out)?;
            }
            Ok(Exit::Well)
        }
    }
}

fn list_fleet(store: &Store, out: &Output) -> Result<Exit, CliError> {
    let jobs = jobs_in_fleet(store)?;
    for JobInFleet { row, job } in jobs.iter().rev() {
        let state = job_state(job);
        if out.json() {
            out.fact(&state)?;
        } else {
            writeln!(out.stdout(), "{}", line_with(job, &state, fleet_word(row, &state)))?;
        }
    }
    if !out.json() {
        for question in FleetQuestionLine::all(store)? {
            writeln!(out.stdout(), "needs you: {}", question.in_words())?;
        }
    }
    if jobs.is_empty() && !out.json() {
        out.remark("there is no job in the fleet; send one: salve submit JOB.toml");
    }
    Ok(Exit::Well)
}

/// Returns how a job of a fleet stands: what the queue knows comes first, unless the job itself says
/// more.
fn fleet_word(row: &QueuedJob, state: &JobState) -> &'static str {
    match row.state {
        QueueState::Queued | QueueState::Dead | QueueState::Withdrawn => row.state.as_str(),
        QueueState::Claimed | QueueState::Waiting | QueueState::Done => state.status.as_str(),
    }
}

/// Makes the changes of a completed run of a fleet in the user's files.
fn take_from_fleet(
    digits: &str,
    branch: Option<&str>,
    store: &Store,
    out: &Output,
) -> Result<Exit, CliError> {
    let of = wanted_in_fleet(store, digits)?.job;
    let id = of.id().short();
    let result = store.queue().artifact(of.id(), RESULT)?;
    let Some(patch) = result.filter(|_| job_state(&of).status == JobStatus::Completed) else {
        return Err(CliError::usage(format!("the job {id} is not completed"))
            .hint(format!("salve show {id}")));
    };
    let words = match branch {
        _ if patch.is_empty() => "no file changed: there is nothing to take over".to_owned(),
        None => {
            ResultWays::apply_from_fleet(store.project(), &patch)?;
            "is in your files; nothing was committed".to_owned()
        }
        Some(name) => {
            ResultWays::branch_from_fleet(store, &of, name)?;
            format!("is the branch {name}")
        }
    };
    tell(&of, &words, out)?;
    Ok(Exit::Well)
}

/// Shows one run of a job of a fleet; exit code 3 if a person is needed.
pub(in crate::cli) fn show_in_fleet(
    found: &JobInFleet,
    store: &Store,
    out: &Output,
) -> Result<Exit, CliError> {
    let JobInFleet { row, job } = found;
    let state = job_state(job);
    let waits = row.state == QueueState::Waiting;
    let question = if waits { FleetQuestion::of(store.queue(), job.id())? } else { None };
    if out.json() {
        out.fact(&state)?;
    } else {
        let mut to = out.stdout();
        writeln!(to, "{}", line_with(job, &state, fleet_word(row, &state)))?;
        print_course(job, &state, &mut to)?;
        if let Some(worker) = row.worker.as_ref().filter(|_| row.state == QueueState::Claimed) {
            writeln!(to, "  runs with: {}", visible(worker.as_str()))?;
        }
        let reason = row.reason.as_ref().filter(|_| state.reason.is_none());
        if let Some(reason) = reason {
            writeln!(to, "  {}", visible(reason.head(200).as_str()))?;
        }
        if let Some(question) = &question {
            write!(to, "{}", FleetQuestionLine::of(question).in_full())?;
        }
        if state.status == JobStatus::Completed {
            writeln!(to, "  take it over: salve jobs take {}", job.id().short())?;
            writeln!(to, "  or as a branch: salve jobs take {} --branch NAME", job.id().short())?;
        }
    }
    Ok(exit_of(state.status))
}

fn take(digits: &str, branch: Option<&str>, out: &Output) -> Result<Exit, CliError> {
    let store = project::open_store(out)?;
    let of = wanted(&store, digits)?;
    let (id, folder) = (of.id().short(), JobFolder::of(store.project(), of.id()));
    if job_state(&of).status != JobStatus::Completed {
        return Err(CliError::usage(format!("the job {id} is not completed"))
            .hint(format!("salve show {id}")));
    }
    if !folder.is_kept() {
        return Err(CliError::usage(format!("the files of the job {id} were removed")));
    }
    let _right = right_to(&store, &id)?;
    let workspace = StepStore::open(folder.dir()).map_err(JobError::from)?;
    let ways = ResultWays::of(store.project(), &folder, &workspace)?;
    match branch {
        _ if ways.is_empty() => tell(&of, &ways.in_words(&id), out)?,
        Some(name) => {
            ways.make_branch(name)?;
            tell(&of, &format!("is the branch {name}"), out)?;
        }
        None => {
            ways.apply(&id)?;
            tell(&of, "is in your files; nothing was committed", out)?;
        }
    }
    Ok(Exit::Well)
}

/// Says what was done about a run.
fn tell(of: &Job, words: &str, out: &Output) -> Result<(), CliError> {
    if out.json() {
        return out.fact(&job_state(of));
    }
    writeln!(out.fitted(), "{}  {words}", of.id().short())?;
    Ok(())
}

/// Takes the right to a job that nobody runs.
fn right_to(store: &Store, id: &str) -> Result<RunLock, CliError> {
    let me = crate::process::this(&project::scrubber());
    RunLock::take_for(store.project(), RunRight::Job(id), &me, Uuid::new_v4()).map_err(not_given)
}

fn remove(runs: &[String], out: &Output) -> Result<Exit, CliError> {
    refuse_agents("remove a job")?;
    let store = project::open_store(out)?;
    for digits in runs {
        let of = wanted(&store, digits)?;
        let (id, folder) = (of.id().short(), JobFolder::of(store.project(), of.id()));
        if folder.is_kept() {
            let _right = right_to(&store, &id)?;
            // Nobody could run it any more.
            if !store.queue().forget(of.id())? {
                return Err(CliError::failed(format!("a worker has the job {id}"))
                    .hint(format!("salve control {id} cancel")));
            }
            folder.remove(store.project()).map_err(|error| {
                CliError::failed(format!("cannot remove {}", folder.dir().display())).because(error)
            })?;
        }
        tell(&of, "removed", out)?;
    }
    Ok(Exit::Well)
}

/// Returns how a job stands, for people; `row` is how it stands in the queue, if it is there.
fn standing_word(job: &Job, state: &JobState, row: Option<QueueState>) -> &'static str {
    match row {
        Some(QueueState::Queued) if state.status != JobStatus::Completed => "queued",
        Some(_) | None if is_interrupted(job, state) => "interrupted",
        Some(_) | None => state.status.as_str(),
    }
}

/// Says what makes a job go on that does not do so by itself; nothing of one that does, or is done.
fn what_is_next(job: &Job, state: &JobState, row: Option<QueueState>) -> Option<String> {
    let id = job.id().short();
    match state.status {
        JobStatus::Completed => return None,
        JobStatus::Paused => return Some(format!("let it go on: salve control {id} resume")),
        JobStatus::Running | JobStatus::Parked if !is_interrupted(job, state) => return None,
        JobStatus::Running
        | JobStatus::Parked
        | JobStatus::AwaitingHuman
        | JobStatus::Stopped
        | JobStatus::Failed => {}
    }
    Some(match row {
        Some(QueueState::Queued) => "it is in the queue: salve worker".to_owned(),
        Some(QueueState::Claimed) => {
            "it is in the queue: another worker takes it over when its worker does not come back"
                .to_owned()
        }
        Some(QueueState::Waiting | QueueState::Dead | QueueState::Withdrawn) => {
            format!("put it into the queue again: salve jobs requeue {id}")
        }
        Some(QueueState::Done) | None => format!("go on with it: salve resume {id}"),
    })
}

/// Tells whether a job would go on if the process that ran it were still there.
fn is_interrupted(job: &Job, state: &JobState) -> bool {
    let goes_on = matches!(state.status, JobStatus::Running | JobStatus::Parked);
    let driver = job.stamps().driver();
    goes_on && driver.is_some_and(|by| crate::process::is_gone(by, &project::scrubber()))
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
    Ok(exit_of(state.status))
}

fn exit_of(status: JobStatus) -> Exit {
    match status {
        JobStatus::AwaitingHuman => Exit::NeedsPerson,
        JobStatus::Running
        | JobStatus::Paused
        | JobStatus::Parked
        | JobStatus::Stopped
        | JobStatus::Completed
        | JobStatus::Failed => Exit::Well,
    }
}

fn print(job: &Job, state: &JobState, store: &Store, out: &Output) -> Result<(), CliError> {
    let mut to = out.fitted();
    let rows = store.queue().queued(None)?;
    let row = rows.iter().find(|row| row.job == job.id()).map(|row| row.state);
    writeln!(to, "{}", line_with(job, state, standing_word(job, state, row)))?;
    print_course(job, state, &mut to)?;
    if let Some(next) = what_is_next(job, state, row) {
        writeln!(to, "  {next}")?;
    }
    let folder = JobFolder::of(store.project(), job.id());
    writeln!(to, "  files: {}", folder.dir().display())?;
    if let Some(workspace) = StepStore::known_root(folder.dir()) {
        writeln!(to, "  workspace: {}", workspace.display())?;
    }
    Ok(())
}

/// Prints what happened to a job, and what is to come.
fn print_course(job: &Job, state: &JobState, to: &mut impl Write) -> Result<(), CliError> {
    if let Some(reason) = &state.reason {
        writeln!(to, "  {}", visible(reason.as_str()))?;
    }
    for (number, step) in job.terms().steps.iter().enumerate() {
        let word = match (number < state.steps_done, state.step_index == Some(number)) {
            (true, _) => "done",
            (false, true) => "due",
            (false, false) => "waits",
        };
        // People count from 1, here and in what is told while a job runs.
        writeln!(to, "  {:>4}  {word:<6} {}", number + 1, visible(step.id.as_str()))?;
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
    Ok(())
}
