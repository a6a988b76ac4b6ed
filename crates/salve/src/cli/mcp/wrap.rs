//! `salve mcp wrap`, `unwrap` and `status`: the servers of agents and editors behind `salve proxy`.

use std::io::Write as _;
use std::path::Path;

use serde::Serialize;

use super::super::init::{InitMode, carry_out};
use super::install::{Named, clients};
use super::{CliError, Exit, Output};
use crate::project::{Project, ProjectError};
use crate::register::{self, ListedServer, Places, Reached, RegistrationScope, Wrapping};

/// Arguments of `salve mcp wrap` and `salve mcp unwrap`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Agent or editor; may be given several times [default: all that are found here]
    #[arg(long, value_name = "CLIENT")]
    client: Vec<Named>,
    /// Whose settings file that is
    #[arg(long, default_value = "project")]
    scope: RegistrationScope,
    /// Only show what would be changed
    #[arg(long)]
    print: bool,
    /// Servers by their names in that file [default: all that a command starts]
    #[arg(value_name = "SERVER")]
    servers: Vec<String>,
}

/// Arguments of `salve mcp status`.
#[derive(Debug, clap::Args)]
pub(super) struct StatusArgs {
    /// Agent or editor; may be given several times [default: all that are found here]
    #[arg(long, value_name = "CLIENT")]
    client: Vec<Named>,
}

/// Changes the settings files, and shows each change.
pub(super) fn run(args: &Args, wish: Wrapping, out: &Output) -> Result<Exit, CliError> {
    let places = found_places(out)?;
    let mode = if args.print { InitMode::Show } else { InitMode::Write };
    let mut known = Vec::new();
    for client in clients(&args.client, &places)? {
        known.extend(register::list(client, args.scope, &places)?);
        let wrapping = register::plan_wrapping(client, args.scope, &places, wish, &args.servers)?;
        if mode == InitMode::Write {
            wrapping.keep_original()?;
        }
        if wrapping.plan.old.is_some() {
            carry_out(client, &wrapping.plan, mode, out)?;
        }
    }
    let is_known = |name: &&String| known.iter().any(|server: &ListedServer| server.name == **name);
    match args.servers.iter().find(|name| !is_known(name)) {
        Some(unknown) => Err(CliError::usage(format!("there is no server `{unknown}`"))
            .hint("`salve mcp status` lists them")),
        None => Ok(Exit::Well),
    }
}

/// One server, as it is shown.
#[derive(Debug, Serialize)]
struct ShownServer {
    client: &'static str,
    scope: &'static str,
    name: String,
    reached: Reached,
}

/// Shows which servers are behind the proxy.
pub(super) fn status(args: &StatusArgs, out: &Output) -> Result<Exit, CliError> {
    let places = found_places(out)?;
    let mut shown = Vec::new();
    for client in clients(&args.client, &places)? {
        for (scope, word) in
            [(RegistrationScope::Project, "project"), (RegistrationScope::User, "user")]
        {
            let listed = register::list(client, scope, &places)?;
            let show = |ListedServer { name, reached }| ShownServer {
                client: client.title(),
                scope: word,
                name,
                reached,
            };
            shown.extend(listed.into_iter().map(show));
        }
    }
    if out.json() {
        out.fact(&serde_json::json!({ "version": 1, "servers": shown }))?;
        return Ok(Exit::Well);
    }
    let mut stdout = out.stdout();
    for ShownServer { client, scope, name, reached } in &shown {
        let how = match reached {
            Reached::Wrapped => "behind salve proxy",
            Reached::Direct => "direct; `salve mcp wrap` puts it behind the proxy",
            Reached::Remote => "by its address, which is not wrapped",
            Reached::Salve => "Salve itself",
        };
        writeln!(stdout, "{client} ({scope})  {name}: {how}")?;
    }
    if shown.is_empty() {
        out.remark("no servers are registered here");
    }
    Ok(Exit::Well)
}

fn found_places(out: &Output) -> Result<Places, CliError> {
    let project = match Project::locate(out.global().project.as_deref()) {
        Err(ProjectError::NotFound { .. }) => Project::at(Path::new("."))?,
        located => located?,
    };
    Ok(Places::here(project.root()))
}
