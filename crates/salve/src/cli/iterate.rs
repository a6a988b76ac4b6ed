//! `salve loop`: agents that work turn by turn until the work is done.
//!
//! `salve loop run` drives a whole loop of roles; without a subcommand one agent works on one
//! check.

pub(super) mod attach;
mod lines;
mod plan;
mod run;
pub(super) mod stats;
mod status;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use salve_core::event::SubjectKind;

use super::dev::agents::{DEFAULT_AGENT, agent_help};
use super::dev::locate;
use super::heal::{CheckRequest, RequestedCheck, care, use_agent};
use super::project::kept;
use super::{CliError, Output};
use crate::config::Settings;
use crate::heal::RunIntent;

/// Arguments of `salve loop`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct Args {
    #[command(subcommand)]
    what: Option<LoopCommand>,
    #[arg(long, value_name = "AGENT", help = agent_help("Agent that takes the turns", DEFAULT_AGENT))]
    agent: Option<String>,
    /// Turns that the agent may take [default: heal.max_attempts]
    #[arg(long, value_name = "N")]
    turns: Option<u32>,
    /// Seconds that one turn may take [default: agent.wall_limit_ms]
    #[arg(long, value_name = "SECONDS")]
    turn_limit: Option<u64>,
    /// Command that is green when the work is done
    #[arg(last = true, value_name = "COMMAND", required = true)]
    command: Vec<OsString>,
}

/// What is wanted of a loop.
#[derive(Debug, clap::Subcommand)]
enum LoopCommand {
    /// Let planner, implementer, tester and reviewer work on a task until it is done
    Run(run::Args),
    /// Show how loops stand
    Status(status::Args),
    /// Recover the tests of a loop that somebody else runs, by its recovery.json
    Attach(attach::Args),
    /// Show how recoveries came out
    Stats(stats::Args),
}

/// Does what is wanted, in two processes: one that works and one that keeps.
pub(super) fn run(args: &Args, out: &Output) -> Result<ExitCode, CliError> {
    match &args.what {
        Some(LoopCommand::Run(args)) => kept(|| run::run(args, out)),
        Some(LoopCommand::Status(args)) => status::run(args, out).map(Into::into),
        Some(LoopCommand::Attach(args)) => kept(|| attach::run(args, out)),
        Some(LoopCommand::Stats(args)) => stats::run(args, out).map(Into::into),
        None => kept(|| turns(args, out)),
    }
}

/// Lets turns cost what a loop may: the tiers of a repair are less than what the programs of most
/// agents tell their models before they begin.
fn spend_as_a_loop(settings: &mut Settings) {
    let (tokens, cents) = (settings.r#loop.max_tokens, settings.r#loop.max_cents);
    let heal = &mut settings.heal;
    (heal.max_tokens, heal.run_max_tokens, heal.run_max_cents) = (tokens, tokens, cents);
    settings.agent.max_cents = cents;
    let tiers = &mut heal.tiers;
    for tier in [&mut tiers.simple, &mut tiers.context, &mut tiers.deep] {
        tier.max_tokens = if tokens == 0 { u64::MAX } else { tokens };
    }
}

/// Lets one agent work on one check.
fn turns(args: &Args, out: &Output) -> Result<ExitCode, CliError> {
    let project = locate(out)?;
    let mut config = super::config::in_force(out)?;
    if let Some(agent) = &args.agent {
        use_agent(&mut config, agent);
    }
    let settings = &mut config.settings;
    if !settings.agent.repair || settings.agent.runtime.is_none() {
        return Err(CliError::usage("there is no agent to work with")
            .hint("name one: salve loop --agent claude -- npm test"));
    }
    settings.heal.max_attempts = args.turns.unwrap_or(settings.heal.max_attempts).max(1);
    if let Some(seconds) = args.turn_limit {
        settings.agent.wall_limit = Duration::from_secs(seconds.max(1));
    }
    spend_as_a_loop(settings);
    let wanted = RequestedCheck::command(SubjectKind::Iteration, &args.command);
    let request = CheckRequest { wanted: &[wanted], intent: RunIntent::Heal };
    care(project, &config, request, out)
}
