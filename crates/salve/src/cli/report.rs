//! `salve report`: tells Salve of an issue, and shows what is open.

use std::io::Write;

use anstyle::{AnsiColor, Style};
use salve_core::id::IssueId;
use salve_core::team::RawIssue;
use serde::Serialize;

use super::events::visible;
use super::{CliError, Exit, Output, config, project};
use crate::store::Store;
use crate::team::{self, OpenTeamWork, TeamError};

/// Arguments of `salve report`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What is wrong [default: show what is open]
    text: Option<String>,
    /// Check of salve.toml that shows it
    #[arg(long, value_name = "NAME", requires = "text")]
    check: Option<String>,
    /// File it is about; may be given more than once
    #[arg(long, value_name = "PATH", requires = "text")]
    file: Vec<String>,
    /// Let `salve heal` act on it
    #[arg(long, requires = "text")]
    auto_fix: bool,
    /// Say that an issue is settled; the text says how
    #[arg(long, value_name = "ID", conflicts_with_all = ["check", "file", "auto_fix"])]
    settle: Option<String>,
}

/// What `--json` prints of an issue.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct IssueRow {
    version: u32,
    issue_id: IssueId,
    standing: &'static str,
}

/// Reports, settles or lists.
pub(super) fn run(args: Args, out: &Output) -> Result<Exit, CliError> {
    let scrubber = project::scrubber();
    let by = project::speaker(&scrubber);
    if let Some(given) = &args.settle {
        let store = project::open_store(out)?;
        let issue = team::settle(&store, &by, given, args.text.as_deref(), &scrubber)?;
        return tell(issue, "settled", out);
    }
    let Some(text) = args.text else { return list(out) };
    let raw = RawIssue { text, check: args.check, files: args.file, auto_fix: args.auto_fix };
    let checks: Vec<String> = config::load(out)?.settings.checks.into_keys().collect();
    let store = project::open_store(out)?;
    let reported = team::report(&store, &by, &raw, &checks, &scrubber)?;
    tell(reported.issue, if reported.is_known { "known already" } else { "reported" }, out)
}

fn tell(issue_id: IssueId, standing: &'static str, out: &Output) -> Result<Exit, CliError> {
    if out.json() {
        out.fact(&IssueRow { version: 1, issue_id, standing })?;
        return Ok(Exit::Well);
    }
    let green = Style::new().fg_color(Some(AnsiColor::Green.into()));
    writeln!(out.fitted(), "{green}●{green:#} issue-{}  {standing}", issue_id.short())?;
    Ok(Exit::Well)
}

fn list(out: &Output) -> Result<Exit, CliError> {
    let store = Store::open_existing(&project::locate(out)?)?;
    let open = match &store {
        Some(store) => team::open(store)?,
        None => OpenTeamWork { version: 1, ..OpenTeamWork::default() },
    };
    if out.json() {
        out.fact(&open)?;
        return Ok(Exit::Well);
    }
    let mut stdout = out.fitted();
    if open.issues.is_empty() && open.incidents.is_empty() {
        writeln!(stdout, "nothing is open")?;
    }
    for one in &open.incidents {
        let (id, check, line) = (one.incident_id.short(), &one.check, &one.key_line);
        writeln!(stdout, "heal-{id}  {}: {}", visible(check.as_str()), visible(line.as_str()))?;
        proposals(&mut stdout, &one.proposals)?;
    }
    for one in &open.issues {
        let (id, by, text) = (one.issue_id.short(), visible(&one.by), visible(one.text.as_str()));
        writeln!(stdout, "issue-{id}  {by}: {text}\n  {}", visible(&one.standing))?;
        proposals(&mut stdout, &one.proposals)?;
    }
    Ok(Exit::Well)
}

fn proposals(out: &mut impl Write, all: &[team::OpenProposal]) -> std::io::Result<()> {
    for one in all {
        let (by, text) = (visible(&one.by), visible(one.text.head(120).as_str()));
        writeln!(out, "  {by} proposes ({}): {text}", one.kind.as_str())?;
    }
    Ok(())
}

impl From<TeamError> for CliError {
    fn from(error: TeamError) -> Self {
        let advice = error.advice();
        match error {
            TeamError::Store(error) => error.into(),
            TeamError::NotAPerson => Self::needs_person("an agent cannot settle an issue")
                .hint("a person runs this in a terminal of their own"),
            TeamError::Refused(_) | TeamError::Unknown(_) | TeamError::Ambiguous(_) => {
                Self::usage("this is not taken").because(error).hint(advice)
            }
            TeamError::NoProject | TeamError::Restless => {
                Self::failed("this is not taken").because(error).hint(advice)
            }
        }
    }
}
