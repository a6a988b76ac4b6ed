//! One command that is run to its end: captured, bounded, and nothing left of it.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use salve_core::event::ProcessExit;

use super::launch::{ProcessInput, SpawnError, Spec};
use super::supervisor::Supervisor;

/// How long a command that outlived its limit may take to end by itself.
const GRACE: Duration = Duration::from_secs(2);
/// How often the processes of a command are counted.
const LOOK: Duration = Duration::from_millis(100);

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandEnd {
    /// By which code or signal, or that it outlived its limit.
    pub exit: ProcessExit,
    /// How long it ran.
    pub took: Duration,
    /// The last lines it wrote, not scrubbed.
    pub output: String,
}

/// What a command may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandBounds {
    /// How long it may run.
    pub(crate) limit: Duration,
    /// How many processes it may have at once.
    pub(crate) processes: usize,
}

/// How a command within bounds ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bounded {
    /// By itself, or after its time.
    Ended(CommandEnd),
    /// It had too many processes.
    Crowded(CommandEnd),
}

/// Runs a command until it ends, at most for `limit`, and ends whatever it leaves behind.
///
/// It reads nothing: a question it asks is answered by the end of its input.
pub fn run_command(
    care: &Supervisor,
    spec: &Spec,
    limit: Duration,
) -> Result<CommandEnd, SpawnError> {
    let bounds = CommandBounds { limit, processes: usize::MAX };
    run_bounded(care, spec, bounds).map(|bounded| match bounded {
        Bounded::Ended(end) | Bounded::Crowded(end) => end,
    })
}

/// Runs a command as [`run_command`] does, and ends it too when it has too many processes.
pub(crate) fn run_bounded(
    care: &Supervisor,
    spec: &Spec,
    bounds: CommandBounds,
) -> Result<Bounded, SpawnError> {
    let (tell, told) = mpsc::channel();
    let then = Box::new(move |ended| {
        // Whoever has stopped listening knows already.
        let _ = tell.send(ended);
    });
    let running = care.spawn_with(spec, ProcessInput::Ended, then)?;
    let deadline = Instant::now() + bounds.limit;
    let (in_time, is_crowded) = loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let wait = if bounds.processes == usize::MAX { left } else { left.min(LOOK) };
        if let Ok(ended) = told.recv_timeout(wait) {
            break (Some(ended), false);
        }
        if left.is_zero() {
            break (None, false);
        }
        if care.count(&running) > bounds.processes {
            break (None, true);
        }
    };
    let grace = if in_time.is_some() || is_crowded { Duration::ZERO } else { GRACE };
    care.end(&running, grace);
    let ended = in_time.clone().or_else(|| running.ended());
    let end = CommandEnd {
        exit: in_time.map_or(ProcessExit::TimedOut, |ended| ended.exit),
        took: ended.map_or(bounds.limit, |ended| ended.uptime),
        output: spec.output.tail(),
    };
    Ok(if is_crowded { Bounded::Crowded(end) } else { Bounded::Ended(end) })
}
