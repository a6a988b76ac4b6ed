//! `salve mcp install`: tells agents and editors about Salve's MCP server.

use std::io::Write as _;
use std::path::Path;

use clap::ValueEnum as _;

use crate::project::{Project, ProjectError};
use crate::register::{self, Client, Places, RegistrationScope, Wish};

use super::super::init::{InitMode, carry_out};
use super::listing::tell_listing;
use super::{CliError, Exit, Output};

/// Arguments of `salve mcp install`.
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
    /// Let the client use Salve's tools without asking, where its settings can say so
    #[arg(long, conflicts_with = "remove")]
    allow_tools: bool,
    /// Take Salve out again
    #[arg(long)]
    remove: bool,
}

/// An agent or editor by name, or all that are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    Auto,
    One(Client),
}

impl clap::ValueEnum for Named {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Self::Auto,
            Self::One(Client::Claude),
            Self::One(Client::Codex),
            Self::One(Client::Gemini),
            Self::One(Client::Cursor),
            Self::One(Client::Vscode),
            Self::One(Client::Opencode),
        ]
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        match self {
            Self::Auto => {
                Some(clap::builder::PossibleValue::new("auto").help("All that are found"))
            }
            Self::One(client) => client.to_possible_value(),
        }
    }
}

/// Runs the command.
pub(super) fn run(args: &Args, out: &Output) -> Result<Exit, CliError> {
    let project = match Project::locate(out.global().project.as_deref()) {
        Err(ProjectError::NotFound { .. }) => Project::at(Path::new("."))?,
        located => located?,
    };
    let places = Places::here(project.root());
    let clients = clients(&args.client, &places)?;
    let mut failed: Vec<CliError> = Vec::new();
    for client in clients {
        match register_client(client, args, &places, out) {
            Ok(()) => tell_what_follows(client, args, &places, out)?,
            Err(error) => failed.push(error),
        }
    }
    // One file that cannot be read keeps no other from being written.
    if let Some(last) = failed.pop() {
        failed.iter().for_each(|error| out.error(error));
        return Err(last);
    }
    Ok(Exit::Well)
}

/// Adds Salve to one client's settings, or removes it.
fn register_client(
    client: Client,
    args: &Args,
    places: &Places,
    out: &Output,
) -> Result<(), CliError> {
    let wish = if args.remove { Wish::Remove } else { Wish::Add };
    let mode = if args.print { InitMode::Show } else { InitMode::Write };
    let plan = register::plan(client, args.scope, places, wish)?;
    carry_out(client, &plan, mode, out)?;
    if (args.allow_tools || args.remove)
        && let Some(plan) = register::plan_permission(client, args.scope, places, wish)?
    {
        carry_out(client, &plan, mode, out)?;
    }
    // The hooks come with `salve init --agent`, and go with the server.
    if args.remove
        && let Some(plan) = register::plan_hooks(client, args.scope, places, wish)?
    {
        carry_out(client, &plan, mode, out)?;
    }
    Ok(())
}

/// Returns the clients that are meant, each once: those that are named, or all that are found.
pub(super) fn clients(named: &[Named], places: &Places) -> Result<Vec<Client>, CliError> {
    let mut all: Vec<Client> = Vec::new();
    let one = |named: &Named| match named {
        Named::Auto => None,
        Named::One(client) => Some(*client),
    };
    let asks = named.is_empty() || named.contains(&Named::Auto);
    let found = if asks { found(places, std::env::var_os("PATH").as_deref()) } else { Vec::new() };
    for client in named.iter().filter_map(one).chain(found) {
        if !all.contains(&client) {
            all.push(client);
        }
    }
    if all.is_empty() {
        return Err(
            CliError::failed("found no agent and no editor here").hint("name one: --client claude")
        );
    }
    Ok(all)
}

/// Says what a person has to do still before the client uses Salve, what can be written for them, and what
/// the client says itself.
fn tell_what_follows(
    client: Client,
    args: &Args,
    places: &Places,
    out: &Output,
) -> Result<(), CliError> {
    if args.remove || args.print || out.json() {
        return Ok(());
    }
    if let Some(steps) = client.first_steps(args.scope) {
        writeln!(out.stdout(), "    still to do: {steps}")?;
    }
    if client.can_be_allowed() && !args.allow_tools {
        let words = format!("--client {} --scope {}", client.word(), args.scope.word());
        writeln!(
            out.stdout(),
            "    it asks before it uses the tools; `salve mcp install {words} --allow-tools` says \
             that it need not"
        )?;
    }
    tell_listing(client, &places.project, out)
}

/// Returns the clients that are installed or that the project or the user has files of.
fn found(places: &Places, path: Option<&std::ffi::OsStr>) -> Vec<Client> {
    let is_installed = |program: &str| {
        std::env::split_paths(path.unwrap_or_default()).any(|dir| dir.join(program).is_file())
    };
    let is_there = |name: &str| {
        let home = places.home.as_ref().is_some_and(|home| home.join(name).exists());
        home || places.project.join(name).exists()
    };
    let is_found = |client: &Client| match client {
        Client::Claude => is_installed("claude") || is_there(".claude") || is_there(".mcp.json"),
        Client::Codex => is_installed("codex") || is_there(".codex"),
        Client::Gemini => is_installed("gemini") || is_there(".gemini"),
        Client::Cursor => is_installed("cursor") || is_there(".cursor"),
        Client::Vscode => is_installed("code") || is_there(".vscode"),
        Client::Opencode => {
            is_installed("opencode") || is_there("opencode.json") || is_there(".opencode")
        }
    };
    Client::value_variants().iter().copied().filter(is_found).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_are_installed_or_have_files_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let [bin, project, home] = ["bin", "project", "home"].map(|name| dir.path().join(name));
        for made in [&bin, &project.join(".codex"), &home.join(".cursor")] {
            std::fs::create_dir_all(made).unwrap();
        }
        let (homes, program) = (register::ClientHomes::default(), "salve".to_owned());
        let places = Places { project, home: Some(home), backups: None, homes, program };
        let path = Some(bin.as_os_str());
        assert_eq!(found(&places, path), [Client::Codex, Client::Cursor]);
        std::fs::write(bin.join("gemini"), "").unwrap();
        assert_eq!(found(&places, path), [Client::Codex, Client::Gemini, Client::Cursor]);
        assert_eq!(found(&places, None), [Client::Codex, Client::Cursor]);
    }
}
