//! Checks where Salve cannot keep its records: they run as they would without it.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use super::{CliError, Output};
use crate::project::ProjectError;

/// A check that runs without care.
pub(super) struct BareCheck<'c> {
    pub(super) name: &'c str,
    pub(super) argv: Vec<OsString>,
    pub(super) dir: PathBuf,
    pub(super) env: Vec<(OsString, OsString)>,
}

/// Runs checks one after the other, says why they are not cared for, and returns the code
/// of the first that failed.
pub(super) fn run(
    checks: &[BareCheck<'_>],
    because: &ProjectError,
    out: &Output,
) -> Result<ExitCode, CliError> {
    out.remark(format_args!(
        "Salve cannot keep its records here, so nothing is healed: {because}\n  {}",
        because.advice()
    ));
    let mut first = 0;
    for BareCheck { name, argv, dir, env } in checks {
        let Some((program, args)) = argv.split_first() else { continue };
        let ran = Command::new(program).args(args).current_dir(dir).envs(env.clone()).status();
        let ran = ran.map_err(|error| {
            CliError::usage(format!("cannot start the check `{name}`")).because(error)
        })?;
        let code = ran.code().or_else(|| ran.signal().map(|signal| 128 + signal)).unwrap_or(1);
        first = if first == 0 { code } else { first };
    }
    Ok(ExitCode::from(u8::try_from(first).unwrap_or(1)))
}
