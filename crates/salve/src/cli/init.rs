//! `salve init`: settings from what the project is, and Salve's place in an agent's settings.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::atomic::{self, FileMade};
use crate::detect::{self, Findings};
use crate::project::Project;
use crate::register::{
    self, Client, Places, RegisterError, RegistrationDone, RegistrationPlan, RegistrationScope,
    Wish,
};

use super::{CliError, Exit, Output};

/// Find this project's dev servers and write a short salve.toml
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only show what would be written
    #[arg(long)]
    dry_run: bool,
    /// Also add the lines that git should ignore to .gitignore
    #[arg(long, short)]
    yes: bool,
    /// Tell this agent or editor about Salve's MCP server and hooks, in its own settings files
    #[arg(long, value_name = "CLIENT")]
    agent: Vec<Client>,
    /// Whose settings file that is
    #[arg(long, default_value = "project", requires = "agent")]
    scope: RegistrationScope,
}

/// Runs the command.
pub(super) fn run(args: Args, out: &Output) -> Result<Exit, CliError> {
    let named = out.global().project.as_deref().unwrap_or(Path::new("."));
    let project = Project::at(named)?;
    if args.agent.is_empty() {
        return init(&args, project.root(), out);
    }
    let mode = if args.dry_run { InitMode::Show } else { InitMode::Write };
    for client in &args.agent {
        let places = Places::here(project.root());
        let plan = register::plan(*client, args.scope, &places, Wish::Add)?;
        carry_out(*client, &plan, mode, out)?;
        if let Some(plan) = register::plan_hooks(*client, args.scope, &places, Wish::Add)? {
            carry_out(*client, &plan, mode, out)?;
        }
    }
    Ok(Exit::Well)
}

/// Whether files are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InitMode {
    /// They are.
    Write,
    /// What would be written is shown.
    Show,
}

/// Shows a change of a client's file and makes it.
pub(super) fn carry_out(
    client: Client,
    plan: &RegistrationPlan,
    mode: InitMode,
    out: &Output,
) -> Result<(), CliError> {
    let done = match mode {
        InitMode::Write => Some(plan.apply()?),
        InitMode::Show => None,
    };
    let path = plan.path.display().to_string();
    let (word, copy) = match (&done, plan.is_done()) {
        (_, true) => ("right already", None),
        (None, false) => ("would change", None),
        (Some(RegistrationDone::Nothing | RegistrationDone::Made), false) => ("made", None),
        (Some(RegistrationDone::Changed(copy)), false) => ("changed", copy.as_ref()),
        (Some(RegistrationDone::Removed(copy)), false) => ("removed", copy.as_ref()),
    };
    if out.json() {
        #[derive(Serialize)]
        struct Fact<'a> {
            client: &'a str,
            file: &'a str,
            result: &'a str,
            diff: Vec<String>,
            backup: Option<&'a Path>,
        }
        let (diff, backup) = (plan.diff(), copy.map(PathBuf::as_path));
        let fact = Fact { client: client.title(), file: &path, result: word, diff, backup };
        return out.fact(&fact);
    }
    let mut stdout = out.stdout();
    writeln!(stdout, "{}: {word} {path}", client.title())?;
    if !plan.is_done() {
        for line in plan.diff() {
            writeln!(stdout, "    {line}")?;
        }
    }
    if let Some(copy) = copy {
        writeln!(stdout, "    before: {}", copy.display())?;
    }
    Ok(())
}

fn init(args: &Args, root: &Path, out: &Output) -> Result<Exit, CliError> {
    let findings = detect::detect(root);
    let there = ["salve.toml", "salve.json"].into_iter().find(|name| root.join(name).exists());
    if let (Some(name), false) = (there, args.dry_run) {
        return Err(CliError::usage(format!("there is a {name} already"))
            .hint("edit it; `salve init --dry-run` shows what would be written"));
    }
    if findings.servers.is_empty() && findings.checks.is_empty() {
        let what = format!("found no dev server and no check in {}", root.display());
        return Err(CliError::failed(what).hint(
            "start one with `salve dev -- COMMAND`, or write [servers.NAME] into salve.toml",
        ));
    }
    let text = detect::settings_text(&findings);
    let ignores = detect::missing_ignores(root);
    if !args.dry_run {
        if let FileMade::Existed = atomic::write_new(&root.join("salve.toml"), &text)? {
            return Err(CliError::usage("there is a salve.toml already"));
        }
        crate::project::keep_out_of_git(root);
        if args.yes && !ignores.is_empty() {
            let new = detect::with_ignores(root, &ignores);
            atomic::write(&root.join(".gitignore"), new)?;
        }
    }
    tell(args, &findings, &text, &ignores, out)
}

fn tell(
    args: &Args,
    findings: &Findings,
    text: &str,
    ignores: &[&str],
    out: &Output,
) -> Result<Exit, CliError> {
    if out.json() {
        let server = |found: &detect::Detected| {
            serde_json::json!({
                "name": found.name, "command": found.command, "dir": found.dir,
                "framework": found.framework, "why": found.why,
            })
        };
        let servers: Vec<_> = findings.servers.iter().map(server).collect();
        let checks: Vec<_> = findings.checks.iter().map(server).collect();
        out.fact(&serde_json::json!({
            "servers": servers, "checks": checks, "services": findings.services, "written": !args.dry_run,
            "gitignore": ignores, "text": text,
        }))?;
        return Ok(Exit::Well);
    }
    let mut stdout = out.stdout();
    for found in findings.servers.iter().chain(&findings.checks) {
        let framework = found.framework.map(|name| format!(" ({name})")).unwrap_or_default();
        writeln!(stdout, "found {}{framework}: {}", found.name, found.command)?;
        writeln!(stdout, "      because of {}", found.why.join(", "))?;
    }
    if args.dry_run {
        writeln!(stdout, "\nsalve.toml would be:\n\n{text}")?;
        return Ok(Exit::Well);
    }
    writeln!(stdout, "wrote salve.toml")?;
    match (ignores.is_empty(), args.yes) {
        (true, _) => {}
        (false, true) => writeln!(stdout, "added {} to .gitignore", ignores.join(", "))?,
        (false, false) => {
            writeln!(stdout, "kept out of git here, by .git/info/exclude: {}", ignores.join(", "))?;
        }
    }
    let next = match (findings.servers.is_empty(), findings.checks.is_empty()) {
        (true, _) => "salve heal",
        (false, true) => "salve dev",
        (false, false) => "salve dev, salve heal",
    };
    writeln!(stdout, "next: {next}")?;
    Ok(Exit::Well)
}

impl From<RegisterError> for CliError {
    fn from(error: RegisterError) -> Self {
        match error {
            RegisterError::Malformed { .. } => Self::failed("the file was left as it is")
                .because(error)
                .hint("mend the file, then run this again"),
            RegisterError::NoHome => Self::usage("no file to register in").because(error),
            RegisterError::Read { .. } => {
                Self::failed("cannot use the client's settings").because(error)
            }
            RegisterError::Write(error) => error.into(),
        }
    }
}
