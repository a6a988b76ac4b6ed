//! Commands that Salve cannot care for at the moment: they run as they would without it.

use std::ffi::OsString;
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use super::terminal_reporter::bare_result;
use super::{CliError, Output};
use crate::heal::right::NotGiven;
use crate::project::ProjectError;

/// A check or a server that runs without care.
pub(super) struct BareCommand<'c> {
    pub(super) name: &'c str,
    pub(super) argv: Vec<OsString>,
    pub(super) dir: PathBuf,
    pub(super) env: Vec<(OsString, OsString)>,
}

/// Why commands run without care.
pub(super) enum BareReason<'e> {
    /// Nothing can be written where records are kept.
    NoRecords(&'e ProjectError),
    /// Another run of Salve heals the checks of this project.
    HealedElsewhere(&'e NotGiven),
}

impl BareReason<'_> {
    fn text(&self) -> String {
        match self {
            BareReason::NoRecords(error) => format!(
                "Salve cannot keep its records here, so nothing is healed: {error}\n  {}",
                error.advice()
            ),
            BareReason::HealedElsewhere(error) => format!(
                "{error}; meanwhile this is only run, and not healed\n  see it: salve status"
            ),
        }
    }
}

/// Runs commands one after the other, says why they are not cared for, and returns the code
/// of the first that failed.
pub(super) fn run(
    commands: &[BareCommand<'_>],
    why: &BareReason<'_>,
    out: &Output,
) -> Result<ExitCode, CliError> {
    out.remark(why.text());
    let begun = Instant::now();
    let (mut first, mut green) = (0, Vec::new());
    for BareCommand { name, argv, dir, env } in commands {
        let Some((program, args)) = argv.split_first() else { continue };
        let mut command = Command::new(program);
        command.args(args).current_dir(dir).envs(env.clone());
        if out.json() {
            // What is printed there is facts alone.
            let stderr = std::io::stderr().as_fd().try_clone_to_owned();
            command.stdout(stderr.map_or_else(|_| Stdio::null(), Stdio::from));
        }
        let since = Instant::now();
        let ran = command
            .status()
            .map_err(|error| CliError::usage(format!("cannot start `{name}`")).because(error))?;
        let code = ran.code().or_else(|| ran.signal().map(|signal| 128 + signal)).unwrap_or(1);
        if code == 0 {
            green.push(((*name).to_owned(), since.elapsed()));
        }
        first = if first == 0 { code } else { first };
    }
    let code = u8::try_from(first).unwrap_or(1);
    if out.json() {
        out.fact(&bare_result(code, begun.elapsed(), &green))?;
    }
    Ok(ExitCode::from(code))
}
