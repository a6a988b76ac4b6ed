//! `salve proxy`: stands in front of a server of the Model Context Protocol.

use std::ffi::OsString;
use std::process::ExitCode;

use salve_core::tool::rule::{ToolPattern, ToolTerms};
use salve_core::tool::session::ToolTimeLimit;
use uuid::Uuid;

use super::project::kept;
use super::{CliError, Output, foundation};
use crate::config::{self, Settings, Sources};
use crate::proxy::bridge::{self, BridgeTarget, HttpHeader};
use crate::proxy::several::{self, SwitchedServer};
use crate::proxy::{self, CallCare, OnNeed, ProxyError, ProxyPlan, ProxyTiming};
use crate::sandbox::shell;

/// Arguments of `salve proxy`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Name of the server in errors and logs [default: after its command]
    #[arg(long, short = 'n', value_name = "NAME")]
    name: Option<String>,
    /// Address of a server that is reached by HTTP
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    url: Option<String>,
    /// Header that is sent to that address, as `Name: value`
    #[arg(long, value_name = "HEADER", requires = "url")]
    header: Vec<String>,
    /// Only bridge standard input and output and the address
    #[arg(long, hide = true, requires = "url")]
    bridge: bool,
    /// One of several servers behind this proxy, as `NAME=COMMAND` or `NAME=URL`; may be given more
    /// than once
    #[arg(long, value_name = "NAME=COMMAND", conflicts_with_all = ["command", "url", "name"])]
    server: Vec<String>,
    /// Command that starts the server
    #[arg(last = true, required_unless_present_any = ["url", "server"], value_name = "SERVER")]
    command: Vec<OsString>,
}

/// Runs the proxy, in two processes: one that works and one that keeps.
pub(super) fn run(args: &Args, out: &Output) -> Result<ExitCode, CliError> {
    if !args.server.is_empty() {
        let servers = several_servers(&args.server)?;
        return several::run(servers)
            .map_err(|error| CliError::failed("cannot start the servers").because(error));
    }
    match target(args)? {
        Some(target) if args.bridge => {
            let ran = bridge::run(target).map(|()| ExitCode::SUCCESS);
            ran.map_err(|error| CliError::failed("cannot read the messages").because(error))
        }
        Some(_) | None => kept(|| work(args, out)),
    }
}

/// Returns how each of several servers is started: behind a proxy of its own.
fn several_servers(given: &[String]) -> Result<Vec<SwitchedServer>, CliError> {
    let own = std::env::current_exe()
        .map_err(|error| CliError::failed("cannot tell where Salve is").because(error))?;
    let mut servers: Vec<SwitchedServer> = Vec::new();
    for text in given {
        let (name, command) = text.split_once('=').unwrap_or_default();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if name.is_empty() || command.trim().is_empty() || !name.chars().all(is_plain) {
            return Err(CliError::usage(format!("`{text}` is not NAME=COMMAND"))
                .hint("--server git='uvx mcp-server-git'"));
        }
        if servers.iter().any(|server| server.name == name) {
            return Err(CliError::usage(format!("two servers are called `{name}`")));
        }
        let mut argv: Vec<OsString> = vec![own.clone().into(), "proxy".into()];
        argv.extend(["--name".into(), name.into()]);
        if is_address(command) {
            argv.extend(["--url".into(), command.into()]);
        } else {
            argv.push("--".into());
            argv.extend(shell(command));
        }
        servers.push(SwitchedServer { name: name.to_owned(), argv });
    }
    Ok(servers)
}

fn is_address(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

/// Returns where a server is reached by HTTP, if it is.
fn target(args: &Args) -> Result<Option<BridgeTarget>, CliError> {
    let Some(url) = args.url.clone() else { return Ok(None) };
    if !is_address(&url) {
        return Err(CliError::usage("an address begins with http:// or https://"));
    }
    let header = |text: &String| {
        HttpHeader::parse(text).ok_or_else(|| CliError::usage("a header is written `Name: value`"))
    };
    let headers = args.header.iter().map(header).collect::<Result<_, _>>()?;
    Ok(Some(BridgeTarget { url, headers }))
}

/// Returns the command of the server: for one that is reached by HTTP, this program as a bridge.
fn command(args: &Args) -> Result<Vec<OsString>, CliError> {
    let Some(url) = &args.url else { return Ok(args.command.clone()) };
    let own = std::env::current_exe()
        .map_err(|error| CliError::failed("cannot tell where Salve is").because(error))?;
    let mut words: Vec<OsString> = vec![own.into(), "proxy".into(), "--bridge".into()];
    words.extend(["--url".into(), url.into()]);
    words.extend(args.header.iter().flat_map(|text| ["--header".into(), text.into()]));
    Ok(words)
}

/// Returns the name of a server in errors and logs.
fn name(args: &Args) -> String {
    let of_url = |url: &String| {
        let host = url.split("://").nth(1).unwrap_or(url).split(['/', ':', '@', '?']).next();
        proxy::server_name(&[host.unwrap_or_default().into()])
    };
    let own = || args.url.as_ref().map_or_else(|| proxy::server_name(&args.command), of_url);
    args.name.clone().unwrap_or_else(own)
}

fn work(args: &Args, out: &Output) -> Result<ExitCode, CliError> {
    let here = std::env::current_dir().map_err(|error| {
        CliError::failed("cannot find out the present directory").because(error)
    })?;
    let global = out.global().clone();
    let plan = ProxyPlan {
        name: name(args),
        argv: command(args)?,
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
        let limit = |(tools, terms): &(ToolPattern, ToolTerms)| {
            Some(ToolTimeLimit { tools: tools.clone(), limit_ms: terms.timeout_ms? })
        };
        let limits = table.tools.iter().filter_map(limit).collect();
        let tools = table.tools.into_iter().map(|(tool, terms)| (tool, terms.hints)).collect();
        Ok(OnNeed { timing: timing(&config.settings), scrubber, tools, limits })
    });
    let error = match loaded {
        Ok(needed) => return needed,
        Err(error) => error,
    };
    out.error(&error);
    let shipped = config::load(&Sources::default());
    let timing = shipped.map_or_else(|_| ProxyTiming::longest(), |config| timing(&config.settings));
    let (tools, limits) = Default::default();
    OnNeed { timing, scrubber: crate::scrub::scrubber(), tools, limits }
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
