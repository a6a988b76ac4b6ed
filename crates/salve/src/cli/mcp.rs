//! `salve mcp`: the repair tools for agents, over stdin and stdout or over HTTP.

mod install;
mod listing;
mod through;
mod wrap;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::config::{ServerSettings, Sources};
use crate::mcp::{HttpError, Ready, RepairToolsPlace, serve_http, serve_stdio};
use crate::project::{Project, ProjectError};
use crate::register::Wrapping;

use super::{CliError, Exit, Output, config, project};

/// Arguments of `salve mcp`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Option<McpCommand>,
    /// Serve over HTTP on this loopback address, such as 127.0.0.1:7718, instead of stdin and stdout
    #[arg(long, value_name = "ADDR")]
    http: Option<SocketAddr>,
    /// Pass messages on to a server that waits on this socket
    #[arg(long, value_name = "SOCKET", hide = true, conflicts_with = "http")]
    through: Option<PathBuf>,
}

/// What else there is to do.
#[derive(Debug, clap::Subcommand)]
enum McpCommand {
    /// Tell agents and editors about this server, in their own settings files
    Install(install::Args),
    /// Put the servers that agents and editors have behind `salve proxy`, in their own settings files
    Wrap(wrap::Args),
    /// Take those servers out from behind the proxy again
    Unwrap(wrap::Args),
    /// Show which servers are behind the proxy
    Status(wrap::StatusArgs),
}

/// Serves until the client leaves or the process is told to end.
pub(super) fn run(args: Args, out: &Output) -> Result<Exit, CliError> {
    match &args.command {
        Some(McpCommand::Install(args)) => return install::run(args, out),
        Some(McpCommand::Wrap(args)) => return wrap::run(args, Wrapping::Wrap, out),
        Some(McpCommand::Unwrap(args)) => return wrap::run(args, Wrapping::Unwrap, out),
        Some(McpCommand::Status(args)) => return wrap::status(args, out),
        None => {}
    }
    if let Some(socket) = &args.through {
        // In an agent's private layer: the journal is out of reach, and the server runs outside.
        through::pass_on(socket)
            .map_err(|error| CliError::failed("cannot reach the tools").because(error))?;
        return Ok(Exit::Well);
    }
    let project = match Project::locate(out.global().project.as_deref()) {
        // An agent may be started anywhere; where there is no project, nothing is pending.
        Err(ProjectError::NotFound { .. }) => Project::at(Path::new("."))?,
        located => located?,
    };
    let place = place(project, out);
    match args.http {
        Some(addr) => serve_http(place, addr, |ready| tell(ready, out)).map_err(explain)?,
        None => serve_stdio(place)
            .map_err(|error| CliError::failed("cannot serve the tools").because(error))?,
    }
    Ok(Exit::Well)
}

/// Returns what the settings say to a server of tools; a mistake in them costs only what is
/// the user's own.
fn place(project: Project, out: &Output) -> RepairToolsPlace {
    let settings = config::load(out).map(|config| config.settings).ok();
    let own = settings.as_ref().and_then(|own| own.scrub.scrubber().ok());
    let servers = settings.map(|settings| settings.servers_in_order()).unwrap_or_default();
    let url = |server: ServerSettings| Some((server.name, server.url?.to_string()));
    let sources = Sources::of_process(Some(&project), &out.global().set);
    RepairToolsPlace {
        sources,
        project,
        scrubber: own.unwrap_or_else(project::scrubber),
        urls: servers.into_iter().filter_map(url).collect(),
    }
}

fn tell(ready: &Ready, out: &Output) {
    let Ready { url, file } = ready;
    if out.json() {
        // Whoever cannot read it finds the token in its file.
        let _unread = out.fact(&serde_json::json!({ "url": url, "tokenFile": file }));
        return;
    }
    out.remark(format_args!("Salve  serving the repair tools on {url}"));
    out.remark(format_args!("       clients show the token in {}", file.display()));
    out.remark("       Authorization: Bearer $(cat that file)");
}

fn explain(error: HttpError) -> CliError {
    let hint = match &error {
        HttpError::NotLoopback(addr) => format!("use 127.0.0.1:{}", addr.port()),
        HttpError::Listen(..) => "choose another port, or 0 for a free one".to_owned(),
        HttpError::Token(file, _) => format!("look at {}", file.display()),
        HttpError::Project(error) => error.advice(),
        HttpError::Wait(_) => "try again".to_owned(),
    };
    let usage = matches!(error, HttpError::NotLoopback(_));
    let told = if usage { CliError::usage } else { CliError::failed }("cannot serve over HTTP");
    told.because(error).hint(hint)
}
