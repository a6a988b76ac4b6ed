//! `salve proxy`: stands in front of a server of the Model Context Protocol.

use std::ffi::OsString;
use std::process::ExitCode;

use uuid::Uuid;

use super::project::kept;
use super::{CliError, Output, foundation};
use crate::config::{self, Settings, Sources};
use crate::proxy::{self, CallCare, OnNeed, ProxyError, ProxyPlan, ProxyTiming};

/// Arguments of `salve proxy`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Name of the server in errors and logs [default: after its command]
    #[arg(long, short = 'n', value_name = "NAME")]
    name: Option<String>,
    /// Command that starts the server
    #[arg(last = true, required = true, value_name = "SERVER")]
    command: Vec<OsString>,
}

/// Runs the proxy, in two processes: one that works and one that keeps.
pub(super) fn run(args: &Args, out: &Output) -> Result<ExitCode, CliError> {
    kept(|| work(args, out))
}

fn work(args: &Args, out: &Output) -> Result<ExitCode, CliError> {
    let here = std::env::current_dir()
        .map_err(|error| CliError::failed("cannot tell where this is").because(error))?;
    let global = out.global().clone();
    let plan = ProxyPlan {
        name: args.name.clone().unwrap_or_else(|| proxy::server_name(&args.command)),
        argv: args.command.clone(),
        dir: here,
        on_need: Box::new(move || on_need(&Output::new(&global))),
    };
    let care = foundation::care(Uuid::new_v4())?;
    let (own, global) = (care.clone(), out.global().clone());
    let means = Box::new(move || super::call::means(own.clone(), &Output::new(&global)));
    let calls = CallCare { desk: super::tool_calls::desk(care.clone(), out), means };
    proxy::run(plan, care, calls).map_err(|error| match error {
        ProxyError::Spawn(error) => CliError::failed("cannot start the server").because(error),
        ProxyError::System(error) => CliError::failed("cannot set up the proxy").because(error),
    })
}

/// Reads the settings; wrong ones are told, and those that ship with Salve hold instead, because a
/// server must not be out of reach for a slip in a file.
fn on_need(out: &Output) -> OnNeed {
    let loaded = super::config::load(out).and_then(|config| {
        let scrubber = foundation::scrubber(&config)?;
        let table = config.settings.heal_table();
        let tools = table.tools.into_iter().map(|(tool, terms)| (tool, terms.hints)).collect();
        Ok(OnNeed { timing: timing(&config.settings), scrubber, tools })
    });
    let error = match loaded {
        Ok(needed) => return needed,
        Err(error) => error,
    };
    out.error(&error);
    let shipped = config::load(&Sources::default());
    let timing = shipped.map_or_else(|_| ProxyTiming::longest(), |config| timing(&config.settings));
    OnNeed { timing, scrubber: crate::scrub::scrubber(), tools: Vec::new() }
}

fn timing(settings: &Settings) -> ProxyTiming {
    let proxy = &settings.proxy;
    ProxyTiming {
        hang: proxy.hang_timeout,
        first_delay: proxy.restart_delay,
        longest_delay: proxy.longest_restart_delay,
        settled: proxy.settled,
        hold: proxy.hold,
        finish: proxy.finish,
    }
}
