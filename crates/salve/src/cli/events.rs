//! `salve events`.

use super::{CliError, Exit, Output, project};

/// Arguments of `salve events`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

/// Runs the command.
pub(super) fn run(_args: Args, out: &Output) -> Result<Exit, CliError> {
    project::locate(out)?;
    Err(CliError::failed("`salve events` is not built yet"))
}
