//! `salve doctor`: checks the machine and says how to mend each thing.

use std::io::Write;

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use super::{CliError, Exit, Output};
use crate::doctor::{self, Finding, FindingState};
use crate::project::{Project, ProjectError};

/// Arguments of `salve doctor`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

/// What `--json` prints.
#[derive(Serialize)]
struct DoctorReport<'a> {
    version: u32,
    state: FindingState,
    findings: &'a [Finding],
}

/// Examines and reports; fails if anything keeps Salve from working.
pub(super) fn run(_args: Args, out: &Output) -> Result<Exit, CliError> {
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
    let findings = doctor::examine(project.as_ref());
    let worst = findings.iter().map(|finding| finding.state).max().unwrap_or(FindingState::Ok);
    if out.json() {
        out.fact(&DoctorReport { version: 1, state: worst, findings: &findings })?;
    } else {
        let mut to = out.stdout();
        for finding in &findings {
            line(&mut to, finding)?;
        }
    }
    Ok(match worst {
        FindingState::Ok | FindingState::Warn => Exit::Well,
        FindingState::Fail => Exit::Failed,
    })
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
