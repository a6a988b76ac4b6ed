//! `salve doctor`: checks the machine and says how to mend each thing.

use std::io::Write;

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use super::answer::refuse_agents;
use super::{CliError, Exit, Output};
use crate::doctor::{self, Finding, FindingState};
use crate::project::{Project, ProjectError};
use crate::seal_keys::SealKeys;
use crate::store::StoreError;

/// Arguments of `salve doctor`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Make a new key to seal people's words with; those that the old one sealed allow nothing more
    #[arg(long)]
    new_key: bool,
    /// Look at the fleet at this address instead [default: fleet.url]
    #[arg(long, value_name = "URL", num_args = 0..=1, conflicts_with = "new_key")]
    fleet: Option<Option<String>>,
}

/// What `--json` prints.
#[derive(Serialize)]
struct DoctorReport<'a> {
    version: u32,
    state: FindingState,
    findings: &'a [Finding],
}

/// Examines and reports; fails if anything keeps Salve from working.
pub(super) fn run(args: Args, out: &Output) -> Result<Exit, CliError> {
    if args.new_key {
        refuse_agents("make a new key")?;
        let name = SealKeys::renew().map_err(StoreError::from)?;
        writeln!(out.fitted(), "people's words are sealed with a new key from now on: {name}")?;
        return Ok(Exit::Well);
    }
    let project = match Project::locate(out.global().project.as_deref()) {
        Ok(project) => Some(project),
        Err(ProjectError::NotFound { .. }) => None,
        Err(error) => {
            let advice = error.advice();
            return Err(CliError::usage("there is no project to look at")
                .because(error)
                .hint(advice));
        }
    };
    let findings = match &args.fleet {
        Some(url) => of_fleet(url.as_deref(), out)?,
        None => doctor::examine(project.as_ref()),
    };
    let worst = findings.iter().map(|finding| finding.state).max().unwrap_or(FindingState::Ok);
    if out.json() {
        out.fact(&DoctorReport { version: 1, state: worst, findings: &findings })?;
    } else {
        let mut to = out.fitted();
        for finding in &findings {
            line(&mut to, finding)?;
        }
    }
    Ok(match worst {
        FindingState::Ok | FindingState::Warn => Exit::Well,
        FindingState::Fail => Exit::Failed,
    })
}

/// Looks at a fleet.
fn of_fleet(url: Option<&str>, out: &Output) -> Result<Vec<Finding>, CliError> {
    let config = super::config::in_force(out)?;
    let mut settings = config.settings.fleet;
    settings.url = url.map(str::to_owned).or(settings.url);
    let terms = settings
        .terms()
        .map_err(|error| CliError::usage("`fleet.name` is wrong").because(error))?
        .ok_or_else(|| {
            CliError::usage("no fleet is meant")
                .hint("salve doctor --fleet URL, or set `fleet.url` in salve.toml")
        })?;
    Ok(doctor::examine_fleet(&terms, settings.monitor.as_deref()))
}

/// Prints one finding: a mark, what was looked at, what was seen, and what to do.
fn line(to: &mut impl Write, finding: &Finding) -> std::io::Result<()> {
    let (mark, colour) = match finding.state {
        FindingState::Ok => ("ok  ", AnsiColor::Green),
        FindingState::Warn => ("warn", AnsiColor::Yellow),
        FindingState::Fail => ("FAIL", AnsiColor::Red),
    };
    let style = Style::new().bold().fg_color(Some(colour.into()));
    writeln!(to, "{style}{mark}{style:#}  {:<14} {}", finding.check, finding.detail)?;
    match &finding.mend {
        Some(mend) => writeln!(to, "{:21}→ {mend}", ""),
        None => Ok(()),
    }
}
