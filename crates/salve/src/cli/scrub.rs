//! `salve scrub`.

use super::{CliError, Exit, Output};

/// Arguments of `salve scrub`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

/// Runs the command.
pub(super) fn run(_args: Args, _out: &Output) -> Result<Exit, CliError> {
    Err(CliError::failed("`salve scrub` is not built yet"))
}
