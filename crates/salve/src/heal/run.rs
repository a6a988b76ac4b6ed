//! One run of a command that judges: bounded, captured, nothing left of it, and it can be stopped.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use salve_core::event::{ProcessExit, Repeat, Subject, SubjectKind};
use salve_core::scrub::{Scrubbed, Scrubber};

use super::cause::FailurePlace;
use super::files::with_causes;
use super::interruption::{Interruption, Patience};
use super::run_base::RunBase;
use super::spawn_thread;
use super::watch_sense::{BETWEEN_LOOKS, WatchSense};
use crate::process::{
    Capture, ProcessEnd, ProcessInput, RepeatableInput, Running, Spec, Supervisor, Terminal,
    stood_still,
};

#[derive(Clone, Debug)]
pub struct CommandRun {
    /// Whose command it is.
    pub name: String,
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// Where it runs.
    pub dir: PathBuf,
    /// Variables it gets besides Salve's own.
    pub env: Vec<(OsString, OsString)>,
    /// How long it may take.
    pub limit: Duration,
    /// What it reads; nothing if there is none.
    pub input: Option<Arc<RepeatableInput>>,
}

/// A command that judges a subject: a check, or the tests of a loop.
#[derive(Clone, Debug)]
pub struct CommandPlan {
    /// What sort of subject it judges.
    pub kind: SubjectKind,
    /// The subject's name: that in the settings, or its command.
    pub name: String,
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// What runs, for people.
    pub command: Scrubbed,
    /// Where it runs.
    pub dir: PathBuf,
    /// Variables it gets besides Salve's own.
    pub env: Vec<(OsString, OsString)>,
    /// How long one run may take.
    pub limit: Duration,
    /// The setting that says so, if one does.
    pub limit_setting: Option<String>,
    /// What each run of it reads; nothing if there is none.
    pub input: Option<Arc<RepeatableInput>>,
}

impl CommandPlan {
    /// Returns what is said of a run that outlived its limit.
    pub fn outlived(&self) -> String {
        let limit = self.limit.as_secs_f64();
        match &self.limit_setting {
            Some(setting) => format!(
                "it was still running after {limit} s and was ended; {setting} gives it longer"
            ),
            None => format!("it was still running after {limit} s and was ended"),
        }
    }

    /// Returns what it judges, as a subject of incidents.
    pub fn subject(&self, scrubber: &Scrubber) -> Subject {
        Subject { kind: self.kind, name: scrubber.scrub(&self.name), repeat: Repeat::Safe }
    }

    /// Returns where it runs, for the look into causes.
    pub fn place(&self, base: &RunBase<'_>) -> FailurePlace {
        let (root, sandbox) = (base.project.root(), &base.remedies.sandbox);
        FailurePlace::new(root, &self.dir, &self.argv, &self.env, sandbox)
    }

    /// Returns whether another run of it reads the same as the first.
    pub fn can_repeat(&self) -> bool {
        self.input.as_ref().is_none_or(|input| input.can_repeat())
    }

    /// Returns one run of it.
    pub fn command_run(&self) -> CommandRun {
        let Self { name, argv, dir, env, limit, input, .. } = self.clone();
        CommandRun { name, argv, dir, env, limit, input }
    }
}

/// How one run of a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandRunEnd {
    /// By which code or signal, or that it outlived its limit.
    pub exit: ProcessExit,
    /// How long it took.
    pub took: Duration,
    /// The last lines it wrote, or why it could not be started; not scrubbed.
    pub output: String,
    /// Whether it was ended because somebody wanted that.
    pub stopped: bool,
    /// Whether it was ended because it outlived its limit.
    pub timed_out: bool,
    /// Whether it was ended because it had done its work and waited for edits.
    pub watches: bool,
    /// Processes that it left behind when it ended by itself.
    pub left: usize,
}

impl CommandRunEnd {
    /// Returns a run of nothing, which ended without an error.
    pub fn nothing() -> Self {
        let (exit, took, output) = (ProcessExit::Code(0), Duration::ZERO, String::new());
        let (stopped, timed_out, watches) = (false, false, false);
        Self { exit, took, output, stopped, timed_out, watches, left: 0 }
    }

    pub fn is_green(&self) -> bool {
        self.exit == ProcessExit::Code(0) && !self.stopped
    }
}

/// How long a check that is ended may take to end by itself.
const GRACE: Duration = Duration::from_secs(2);

/// How long a check may tidy up where nobody can end it by another Ctrl-C.
const TIDYING: Duration = Duration::from_secs(10);

/// How long what a check started may outlive it.
const MOMENT: Duration = Duration::from_millis(300);

/// How long a reader of ours may take to read the last of what it wrote.
const PASSING: Duration = Duration::from_secs(5);

/// What reaches the thread that waits for a check.
enum RunNews {
    Ended(ProcessEnd),
    Stop,
    Interrupt(Interruption),
}

/// What a run came to.
enum RunEndKind {
    /// It ended by itself.
    Ended(ProcessEnd),
    /// Somebody wanted it to end.
    Stopped,
    /// It outlived its limit.
    TimedOut,
    /// It had done its work and waited for edits.
    Watches,
}

/// A run under way.
#[derive(Clone, Debug)]
pub struct Stopper(Sender<RunNews>);

impl Stopper {
    /// Ends the run.
    pub fn stop(&self) {
        // A run that is over need not be told.
        let _ = self.0.send(RunNews::Stop);
    }

    /// Hands a signal on to the run, which may tidy up before it ends; `say` is called with words for
    /// people if that takes its time. At the second call the run is ended.
    pub fn interrupt(&self, signal: i32, say: impl FnOnce(String) + Send + 'static) {
        let _ = self.0.send(RunNews::Interrupt(Interruption::new(signal, TIDYING, say)));
    }
}

impl std::fmt::Debug for RunNews {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            RunNews::Ended(_) => "Ended",
            RunNews::Stop => "Stop",
            RunNews::Interrupt(_) => "Interrupt",
        })
    }
}

/// Runs a command on a thread of its own; `then` is called there with how it ended.
pub fn start(
    care: &Supervisor,
    errand: &CommandRun,
    output: Arc<Capture>,
    then: impl FnOnce(CommandRunEnd) + Send + 'static,
) -> Stopper {
    let (care, errand) = (care.clone(), errand.clone());
    let (tell, news) = mpsc::channel();
    let stopper = Stopper(tell.clone());
    spawn_thread("check", move || then(run(&care, &errand, output, tell, &news)));
    stopper
}

/// Runs a command to its end and waits for it.
pub fn wait(care: &Supervisor, errand: &CommandRun, output: Arc<Capture>) -> CommandRunEnd {
    let (tell, news) = mpsc::channel();
    run(care, errand, output, tell, &news)
}

fn run(
    care: &Supervisor,
    errand: &CommandRun,
    output: Arc<Capture>,
    tell: Sender<RunNews>,
    news: &mpsc::Receiver<RunNews>,
) -> CommandRunEnd {
    let spec = Spec {
        argv: errand.argv.clone(),
        dir: errand.dir.clone(),
        env: errand.env.clone(),
        server: errand.name.clone(),
        terminal: Terminal::Pipes,
        output,
    };
    let since = Instant::now();
    let then = Box::new(move |ended| {
        // Whoever has stopped listening knows already.
        let _ = tell.send(RunNews::Ended(ended));
    });
    let not_run = |error: &dyn std::error::Error| {
        let output = with_causes(error);
        let (exit, took) = (ProcessExit::Code(127), since.elapsed());
        CommandRunEnd { exit, took, output, ..CommandRunEnd::nothing() }
    };
    let input = match errand.input.as_ref().map_or(Ok(ProcessInput::Ended), |input| input.next()) {
        Ok(input) => input,
        Err(error) => return not_run(&error),
    };
    let running = match care.spawn_with(&spec, input, then) {
        Ok(running) => running,
        Err(error) => return not_run(&error),
    };
    let end = wait_for_end(care, errand, &running, &spec.output, news);
    let took = since.elapsed();
    let (grace, left) = match end {
        RunEndKind::Ended(_) => (Duration::ZERO, care.orphans(&running, MOMENT).len()),
        RunEndKind::Stopped | RunEndKind::TimedOut | RunEndKind::Watches => (GRACE, 0),
    };
    care.end(&running, grace);
    if let Some(input) = &errand.input {
        input.settle();
    }
    // A reader that takes longer gets the rest while we go on.
    let _is_passed = running.wait_for_output(PASSING);
    let (stopped, timed_out, watches) = (
        matches!(end, RunEndKind::Stopped),
        matches!(end, RunEndKind::TimedOut),
        matches!(end, RunEndKind::Watches),
    );
    let exit = match end {
        RunEndKind::Ended(ended) => ended.exit,
        RunEndKind::Stopped | RunEndKind::TimedOut | RunEndKind::Watches => ProcessExit::TimedOut,
    };
    CommandRunEnd { exit, took, output: spec.output.tail(), stopped, timed_out, watches, left }
}

/// Waits until a command ends, has to be ended, or turns out to watch for edits.
fn wait_for_end(
    care: &Supervisor,
    errand: &CommandRun,
    running: &Running,
    output: &Capture,
    news: &mpsc::Receiver<RunNews>,
) -> RunEndKind {
    let (since, stood) = (Instant::now(), stood_still());
    // Nothing is done while the shell has stopped the job.
    let ran = || since.elapsed().saturating_sub(stood_still().saturating_sub(stood));
    let mut sense = WatchSense::new(errand, running);
    loop {
        let left = errand.limit.saturating_sub(ran());
        match news.recv_timeout(left.min(BETWEEN_LOOKS)) {
            Ok(RunNews::Ended(ended)) => break RunEndKind::Ended(ended),
            Ok(RunNews::Stop) | Err(RecvTimeoutError::Disconnected) => break RunEndKind::Stopped,
            Ok(RunNews::Interrupt(interruption)) => {
                interruption.hand_on(care, running, |pause| match news.recv_timeout(pause) {
                    Ok(RunNews::Stop | RunNews::Interrupt(_))
                    | Err(RecvTimeoutError::Disconnected) => Patience::Over,
                    Ok(RunNews::Ended(_)) | Err(RecvTimeoutError::Timeout) => Patience::Left,
                });
                break RunEndKind::Stopped;
            }
            Err(RecvTimeoutError::Timeout) if ran() >= errand.limit => {
                break RunEndKind::TimedOut;
            }
            Err(RecvTimeoutError::Timeout) => {
                if sense.watches(care, running, output) {
                    break RunEndKind::Watches;
                }
            }
        }
    }
}
