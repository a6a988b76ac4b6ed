//! `salve status`.

use super::{CliError, Exit, Output};

/// Arguments of `salve status`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

/// Runs the command.
pub(super) fn run(_args: Args, _out: &Output) -> Result<Exit, CliError> {
    Err(CliError::failed("`salve status` is not built yet"))
}
