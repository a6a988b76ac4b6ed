//! What Ctrl-C does to a command that runs until it is stopped.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::SIGINT;

use super::{CliError, Exit};

/// Makes Ctrl-C end the process at once with the documented exit code.
///
/// Only for commands that leave nothing half done.
pub(super) fn end_with_130() -> Result<(), CliError> {
    let always = Arc::new(AtomicBool::new(true));
    let code = i32::from(Exit::Interrupted.code());
    signal_hook::flag::register_conditional_shutdown(SIGINT, code, always)
        .map(drop)
        .map_err(|error| CliError::failed("cannot listen for Ctrl-C").because(error))
}
