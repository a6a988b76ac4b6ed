//! One command that is run to its end: captured, bounded, and nothing left of it.

use std::sync::mpsc;
use std::time::Duration;

use salve_core::event::Exit;

use super::care::Care;
use super::launch::{Input, SpawnError, Spec};

/// How long a command that outlived its limit may take to end by itself.
const GRACE: Duration = Duration::from_secs(2);

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandEnd {
    /// By which code or signal, or that it outlived its limit.
    pub exit: Exit,
    /// How long it ran.
    pub took: Duration,
    /// The last lines it wrote, not scrubbed.
    pub output: String,
}

/// Runs a command until it ends, at most for `limit`, and ends whatever it leaves behind.
///
/// It reads nothing: a question it asks is answered by the end of its input.
pub fn run_command(care: &Care, spec: &Spec, limit: Duration) -> Result<CommandEnd, SpawnError> {
    let (tell, told) = mpsc::channel();
    let then = Box::new(move |ended| {
        // Whoever has stopped listening knows already.
        let _ = tell.send(ended);
    });
    let running = care.spawn_with(spec, Input::Ended, then)?;
    let in_time = told.recv_timeout(limit).ok();
    let grace = if in_time.is_some() { Duration::ZERO } else { GRACE };
    care.end(&running, grace);
    let ended = in_time.clone().or_else(|| running.ended());
    Ok(CommandEnd {
        exit: in_time.map_or(Exit::TimedOut, |ended| ended.exit),
        took: ended.map_or(limit, |ended| ended.uptime),
        output: spec.output.tail(),
    })
}
