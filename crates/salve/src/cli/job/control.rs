//! `salve control RUN …`: what a person orders a job to do, whether or not somebody runs it.

use std::io::Write as _;

use jiff::Timestamp;
use salve_core::event::JobOrder;
use salve_core::job::{Job, job_state};

use super::super::answer::{refuse_agents, speaker};
use super::super::{CliError, Exit, Output, project};
use super::fleet::{FleetArgs, fleet_of, wanted_in_fleet};
use super::wanted;
use crate::store::{FleetOrder, Store};
use crate::subjects::job::{
    JobOrderError, expect_taken, order_job, step_named, steps_in_words, tell_queue,
};

/// Arguments of `salve control`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// The run's id; its first digits will do
    run: String,
    /// What it is to do
    action: ControlAction,
    /// The step to go on from, by its id or number (from 1); only with resume_from_step
    step: Option<String>,
    /// Who speaks [default: git's user.name, or the login]
    #[arg(long = "as", value_name = "NAME", env = "SALVE_USER")]
    name: Option<String>,
    #[command(flatten)]
    fleet: FleetArgs,
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
    if let Some(store) = args.fleet.open(out)? {
        return order_in_fleet(args, &store, out);
    }
    let store = project::open_store(out)?;
    let scrubber = project::scrubber();
    let of = wanted(&store, &args.run)?;
    let order = order(args, &of)?;
    let name = speaker(args.name.as_deref(), &store, &scrubber);
    let is_queued =
        order_job(&store, &of, order, name).map_err(|error| refused(&of, error))?.is_queued;
    let after = wanted(&store, &args.run)?;
    if out.json() {
        out.fact(&job_state(&after))?;
    } else {
        let id = of.id().short();
        writeln!(out.fitted(), "{id}  {} was ordered", order.as_str())?;
        let is_run = is_queued
            || after.stamps().driver().is_some_and(|d| !crate::process::is_gone(d, &scrubber));
        if !is_run && order != JobOrder::Cancel {
            out.remark(format!("  no salve runs it now; go on with: salve resume {id}"));
        }
    }
    Ok(Exit::Well)
}

/// Gives an order to a job of a fleet: whoever runs it hears of it, or will.
fn order_in_fleet(args: &Args, store: &Store, out: &Output) -> Result<Exit, CliError> {
    let of = wanted_in_fleet(store, &args.run)?.job;
    let order = order(args, &of)?;
    let name = speaker(args.name.as_deref(), store, &project::scrubber());
    expect_taken(&of, order, &name).map_err(|error| refused(&of, error))?;
    let (job, at) = (of.id(), Timestamp::now());
    fleet_of(store)?.order(&FleetOrder { version: 1, job, order, by: name, at })?;
    tell_queue(store, &of, order)?;
    if out.json() {
        out.fact(&job_state(&of))?;
    } else {
        writeln!(out.stdout(), "{}  {} was ordered", job.short(), order.as_str())?;
    }
    Ok(Exit::Well)
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
    let Some(word) = &args.step else {
        return Err(CliError::usage("resume_from_step needs a step").hint(steps_in_words(of)));
    };
    step_named(of, word).ok_or_else(|| {
        CliError::usage(format!("there is no step `{word}`")).hint(steps_in_words(of))
    })
}

pub(super) fn refused(of: &Job, error: JobOrderError) -> CliError {
    let id = of.id().short();
    match error {
        JobOrderError::Store(error) => error.into(),
        JobOrderError::NotTaken { order, why } => {
            CliError::failed(format!("the job {id} does not take `{order}`"))
                .because(why)
                .hint(format!("salve show {id}"))
        }
    }
}
