//! One command of a step: bounded by two timers, captured, and nothing left of it.
//!
//! It is over when its process is, not when a pipe that some child of it holds is closed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use salve_core::event::{ProcessExit, StepTimer};

use super::JobNews;
use crate::agent::{TimerNews, Vitals, WorkTimers};
use crate::heal::files::with_causes;
use crate::heal::inbox::NewsSender;
use crate::heal::spawn_thread;
use crate::process::{Capture, Spec, Supervisor, Terminal};

/// How long a command that is ended may take to end by itself.
const GRACE: Duration = Duration::from_secs(2);
/// How long the last of its output is waited for.
const REST: Duration = Duration::from_secs(5);
/// The longest time between two looks at its processes.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub(super) struct StepCommandRun {
    pub(super) argv: Vec<OsString>,
    pub(super) dir: PathBuf,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) wall: Duration,
    pub(super) idle: Duration,
}

/// How it ended.
#[derive(Clone, Debug)]
pub struct CommandEnded {
    pub(super) exit: ProcessExit,
    /// The timer that ended it, if one did.
    pub(super) timer: Option<StepTimer>,
    /// Whether it was told to stop.
    pub(super) stopped: bool,
    pub(super) output: String,
    pub(super) took: Duration,
}

/// What reaches the thread that waits for a command.
enum CommandNews {
    Ended(ProcessExit),
    Stop,
}

/// Both ends of what the thread that waits for a command is told by.
struct CommandNewsLine {
    sender: Sender<CommandNews>,
    receiver: Receiver<CommandNews>,
}

/// Ends a command that is under way.
#[derive(Clone)]
pub(super) struct CommandStopper(Sender<CommandNews>);

impl CommandStopper {
    pub(super) fn stop(&self) {
        // One that is over need not be told.
        let _ = self.0.send(CommandNews::Stop);
    }
}

/// Runs a command on a thread of its own; the inbox hears of its timers and its end.
pub(super) fn start(
    care: &Supervisor,
    run: StepCommandRun,
    output: Arc<Capture>,
    inbox: NewsSender<JobNews>,
) -> CommandStopper {
    let (sender, receiver) = mpsc::channel();
    let stopper = CommandStopper(sender.clone());
    let line = CommandNewsLine { sender, receiver };
    let care = care.clone();
    spawn_thread("step", move || {
        let ended = follow(&care, &run, &output, line, &inbox);
        // Nobody is left to tell when the run of Salve is over.
        let _ = inbox.send(JobNews::Ended(Box::new(ended)));
    });
    stopper
}

fn follow(
    care: &Supervisor,
    run: &StepCommandRun,
    output: &Arc<Capture>,
    line: CommandNewsLine,
    inbox: &NewsSender<JobNews>,
) -> CommandEnded {
    let begun = Instant::now();
    let spec = Spec {
        argv: run.argv.clone(),
        dir: run.dir.clone(),
        env: run.env.clone(),
        server: "step".to_owned(),
        terminal: Terminal::Pipes,
        output: Arc::clone(output),
    };
    let then = Box::new(move |ended: crate::process::ProcessEnd| {
        // Whoever has stopped listening knows already.
        let _ = line.sender.send(CommandNews::Ended(ended.exit));
    });
    let running = match care.spawn_with(&spec, crate::process::ProcessInput::Ended, then) {
        Ok(running) => running,
        Err(error) => {
            let (exit, output) = (ProcessExit::Code(127), with_causes(&error));
            let took = begun.elapsed();
            return CommandEnded { exit, timer: None, stopped: false, output, took };
        }
    };
    let mut timers = StepTimers::new(run, running.process().pid, begun);
    let (exit, timer, stopped) = loop {
        match line.receiver.recv_timeout(timers.look) {
            Ok(CommandNews::Ended(exit)) => break (exit, None, false),
            Ok(CommandNews::Stop) | Err(RecvTimeoutError::Disconnected) => {
                break (ProcessExit::TimedOut, None, true);
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Some(timer) = timers.ring(output.written(), inbox) {
            break (ProcessExit::TimedOut, Some(timer), false);
        }
    };
    let took = begun.elapsed();
    care.end(&running, if timer.is_some() || stopped { GRACE } else { Duration::ZERO });
    // A reader that takes longer gets the rest while we go on.
    let _is_passed = running.wait_for_output(REST);
    CommandEnded { exit, timer, stopped, output: output.tail(), took }
}

/// The two timers of an attempt.
struct StepTimers {
    timers: WorkTimers,
    look: Duration,
    begun: Instant,
    vitals: Vitals,
    written: u64,
}

impl StepTimers {
    fn new(run: &StepCommandRun, pid: u32, begun: Instant) -> Self {
        let shorter = run.wall.min(run.idle);
        Self {
            timers: WorkTimers::new(run.wall, run.idle),
            look: (shorter / 8).clamp(Duration::from_millis(20), LOOK),
            begun,
            vitals: Vitals::new(pid, begun),
            written: 0,
        }
    }

    /// Returns the timer that has run out, if one has; says once when one is about to.
    fn ring(&mut self, written: u64, inbox: &NewsSender<JobNews>) -> Option<StepTimer> {
        let now = Instant::now();
        if written != self.written {
            self.written = written;
            self.vitals.heard(now);
        }
        let idle = self.vitals.look(now);
        for news in self.timers.look(now.duration_since(self.begun), idle) {
            match news {
                TimerNews::Over(timer) => return Some(timer),
                TimerNews::Near(timer, left) => {
                    // Nobody is left to warn when the run of Salve is over.
                    let _ = inbox.send(JobNews::Warned(timer, left));
                }
            }
        }
        None
    }
}
