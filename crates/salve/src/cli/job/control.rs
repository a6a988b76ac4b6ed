//! `salve control RUN …`: what a person orders a job to do, whether or not somebody runs it.

use std::io::Write as _;

use jiff::Timestamp;
use salve_core::event::{Actor, Draft, JobEvent, JobOrder, JobTurn};
use salve_core::job::{Job, job_state};
use salve_core::scrub::Scrubbed;

use super::super::answer::{refuse_agents, speaker};
use super::super::{CliError, Exit, Output, project};
use super::wanted;
use crate::store::Store;

/// Arguments of `salve control`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// The run's id; its first digits will do
    run: String,
    /// What it is to do
    action: ControlAction,
    /// The step to go on from, by its id or number (from 0); only with resume_from_step
    step: Option<String>,
    /// Who speaks [default: git's user.name, or the login]
    #[arg(long = "as", value_name = "NAME", env = "SALVE_USER")]
    name: Option<String>,
}

/// What a job is ordered to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
enum ControlAction {
    /// Begin nothing new
    Pause,
    /// Go on after a pause
    Resume,
    /// Stop at once
    Cancel,
    /// Try the present step again, with its counters at zero
    RetryStep,
    /// Set the workspace back to the last checkpoint and try the step again
    HardResetStep,
    /// Set the workspace back to before a step and go on from there
    ResumeFromStep,
}

/// Gives the order.
pub(in crate::cli) fn run(args: &Args, out: &Output) -> Result<Exit, CliError> {
    refuse_agents("steer a job")?;
    let store = project::open_store(out)?;
    let scrubber = project::scrubber();
    let of = wanted(&store, &args.run)?;
    let order = order(args, &of)?;
    let name = speaker(args.name.as_deref(), &store, &scrubber);
    refuse_what_it_would_not_take(&of, order, &name)?;
    let event = JobEvent::Advanced { id: of.id(), what: JobTurn::Ordered { order } }.into();
    let by = Actor::Person { name };
    let at = Timestamp::now();
    store.journal().append(Draft { at, by, incident: None, event })?;
    let after = wanted(&store, &args.run)?;
    let is_queued = tell_queue(&store, &after, order)?;
    if out.json() {
        out.fact(&job_state(&after))?;
    } else {
        let id = of.id().short();
        writeln!(out.stdout(), "{id}  {} was ordered", order.as_str())?;
        let is_run =
            is_queued || after.driver().is_some_and(|d| !crate::process::is_gone(d, &scrubber));
        if !is_run && order != JobOrder::Cancel {
            out.remark(format!("  no salve runs it now; go on with: salve resume {id}"));
        }
    }
    Ok(Exit::Well)
}

/// Lets the queue know what a person wants of a job that no worker has; tells whether it is queued.
fn tell_queue(store: &Store, of: &Job, order: JobOrder) -> Result<bool, CliError> {
    Ok(match order {
        JobOrder::Pause => false,
        JobOrder::Cancel => {
            store.queue().withdraw(of.id())?;
            false
        }
        JobOrder::Resume
        | JobOrder::RetryStep
        | JobOrder::HardResetStep
        | JobOrder::ResumeFromStep { .. } => store.queue().requeue(of.id())?,
    })
}

fn order(args: &Args, of: &Job) -> Result<JobOrder, CliError> {
    if args.step.is_some() && args.action != ControlAction::ResumeFromStep {
        return Err(CliError::usage("only resume_from_step names a step"));
    }
    Ok(match args.action {
        ControlAction::Pause => JobOrder::Pause,
        ControlAction::Resume => JobOrder::Resume,
        ControlAction::Cancel => JobOrder::Cancel,
        ControlAction::RetryStep => JobOrder::RetryStep,
        ControlAction::HardResetStep => JobOrder::HardResetStep,
        ControlAction::ResumeFromStep => JobOrder::ResumeFromStep { step: step(args, of)? },
    })
}

/// Returns the step that is named, by its id or its number.
fn step(args: &Args, of: &Job) -> Result<u32, CliError> {
    let steps = &of.terms().steps;
    let known = || {
        let known = steps.iter().enumerate().map(|(at, step)| format!("{at} {}", step.id));
        format!("the steps are: {}", known.collect::<Vec<_>>().join(", "))
    };
    let Some(word) = &args.step else {
        return Err(CliError::usage("resume_from_step needs a step").hint(known()));
    };
    let by_id = steps.iter().position(|step| step.id.as_str() == word);
    let by_number = word.parse::<usize>().ok().filter(|at| *at < steps.len());
    by_id
        .or(by_number)
        .and_then(|at| u32::try_from(at).ok())
        .ok_or_else(|| CliError::usage(format!("there is no step `{word}`")).hint(known()))
}

fn refuse_what_it_would_not_take(
    of: &Job,
    order: JobOrder,
    name: &Scrubbed,
) -> Result<(), CliError> {
    of.would_take(order, name).map_err(|_| {
        let id = of.id().short();
        let why = match order {
            JobOrder::ResumeFromStep { .. } => {
                let done = of.checkpoints().len();
                format!("only {done} steps are done: the first to go on from is at most {done}")
            }
            JobOrder::Pause
            | JobOrder::Resume
            | JobOrder::Cancel
            | JobOrder::RetryStep
            | JobOrder::HardResetStep => {
                format!("it is `{}`", job_state(of).status.as_str())
            }
        };
        CliError::failed(format!("the job {id} does not take `{}`", order.as_str()))
            .because(why)
            .hint(format!("salve show {id}"))
    })
}
