//! `salve completions`: a completion script for the user's shell.

use std::io::Write;

use clap::Command;
use clap_complete::{Shell, generate};

use super::{CliError, Exit, Output};

/// Arguments of `salve completions`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell to complete for
    shell: Shell,
}

/// Prints the script.
pub(super) fn run(args: Args, command: &mut Command, out: &Output) -> Result<Exit, CliError> {
    // The generator panics when its writer fails, so it gets one that cannot.
    let mut script = Vec::new();
    generate(args.shell, command, "salve", &mut script);
    out.exact().write_all(&script)?;
    Ok(Exit::Well)
}
