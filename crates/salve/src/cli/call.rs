//! `salve call`: runs one command, and heals what keeps it from working.

mod interrupts;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use salve_core::event::ProcessExit;
use salve_core::tool::failure::FailedCall;
use salve_core::tool::rule::ToolFix;
use salve_core::tool::session::ToolHints;

use self::interrupts::Interrupts;
use super::project::kept;
use super::{CliError, Exit, Output, tool_calls};
use crate::agent::vitals::Vitals;
use crate::process::keeper::KeeperHandle;
use crate::process::{
    Capture, Outlet, OutputStyle, ProcessEnd, RepeatableInput, Running, SpawnError, Spec,
    Supervisor, Terminal,
};
use crate::project::Project;
use crate::subjects::tool::{
    CallAnswer, CallDesk, FAILED_OTHERWISE, FailingCall, ServerFixes, ToolCaller,
};
use crate::tools::{HealMeans, HealTime};

/// How often a command with an idle limit is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How long a command that is ended may take to end by itself.
const GRACE: Duration = Duration::from_secs(2);
/// How long the last of its output may take.
const PASSING: Duration = Duration::from_secs(5);

/// How a worker ends whose keeper was killed; nobody is left to read it.
const KILLED: i32 = 137;

/// Arguments of `salve call`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Seconds that the call may take in all, its healing included
    #[arg(long, value_name = "SECONDS")]
    wall: Option<u64>,
    /// Seconds that the command may do nothing at all
    #[arg(long, value_name = "SECONDS")]
    idle: Option<u64>,
    /// Command to run
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the command, in two processes: one that works and one that keeps.
pub(super) fn run(args: &Args, out: &Output) -> Result<ExitCode, CliError> {
    kept(|| work(args, out))
}

/// Gathers the means to heal a failed call, with the settings that are in force; wrong ones are told,
/// and then nothing is healed.
pub(super) fn means(care: Supervisor, out: &Output) -> Option<HealMeans> {
    let dir = std::env::current_dir().unwrap_or_default();
    let project = Project::locate(out.global().project.as_deref()).ok();
    match super::config::in_force(out) {
        Ok(config) => Some(HealMeans::new(config, care, project, dir)),
        Err(error) => {
            out.error(&error);
            None
        }
    }
}

fn work(args: &Args, out: &Output) -> Result<ExitCode, CliError> {
    let care = tool_calls::care()?;
    end_with_keeper(care.clone());
    let interrupts = Interrupts::listen(care.clone())
        .map_err(|error| CliError::failed("cannot listen for signals").because(error))?;
    let dir = std::env::current_dir().map_err(|error| {
        CliError::failed("cannot find out the present directory").because(error)
    })?;
    let run = CommandCall {
        argv: args.command.clone(),
        dir,
        care: care.clone(),
        interrupts,
        wall: args.wall.map(|seconds| WallLimit {
            seconds,
            end: Instant::now() + Duration::from_secs(seconds),
        }),
        idle: args.idle.map(Duration::from_secs),
    };
    let input = RepeatableInput::of_process()?;
    let (began, since) = (Timestamp::now(), Instant::now());
    let (exit, text) = match run.attempt(&input) {
        Ok(CallEnd::Ended(ProcessExit::Code(0), _)) => return Ok(ExitCode::SUCCESS),
        Ok(CallEnd::Ended(exit, text)) => (exit, text),
        Ok(CallEnd::Interrupted(exit)) => return Ok(ExitCode::from(exit.passed_on())),
        Ok(CallEnd::Stopped(why)) => return Ok(stopped(&why, out)),
        Err(error) => {
            let code = error.code();
            out.error(&CliError::failed("cannot run the command").because(error));
            return Ok(code);
        }
    };
    let time = run.wall.map_or(HealTime::Any, |wall| HealTime::Until(wall.end));
    let words: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
    let outcome = Arc::new(Mutex::new(CallResult::new(exit.clone())));
    let caller = CommandCaller { run, input, outcome: Arc::clone(&outcome) };
    let desk = CallDesk::with_call(FailingCall {
        tool: words.join(" "),
        arguments: serde_json::Value::Null,
        text,
        exit: Some(exit),
        began,
        took: since.elapsed(),
        retries: 0,
        so_far: Vec::new(),
        caller: Box::new(caller),
    });
    tool_calls::serve(&desk, &care, time, out);
    let outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(outcome.tell(out))
}

/// Ends the command and all that heals it when the keeper is gone: somebody killed the call.
fn end_with_keeper(care: Supervisor) {
    let keeper = KeeperHandle::of_this_worker();
    crate::process::spawn_thread("keeper", move || {
        if keeper.is_ok_and(|keeper| keeper.wait().is_ok()) {
            care.wind_up(|_| true, GRACE);
            std::process::exit(KILLED);
        }
    });
}

fn stopped(why: &str, out: &Output) -> ExitCode {
    out.remark(format_args!("salve: {why}; the call may have taken effect"));
    Exit::NeedsPerson.into()
}

/// How one run of the command ended.
enum CallEnd {
    /// By itself, with the last lines that it wrote.
    Ended(ProcessExit, String),
    /// After somebody interrupted it, who wants no other run.
    Interrupted(ProcessExit),
    /// It was ended, for this reason.
    Stopped(String),
}

/// The command, which may have to run again.
struct CommandCall {
    argv: Vec<OsString>,
    dir: PathBuf,
    care: Supervisor,
    interrupts: Arc<Interrupts>,
    wall: Option<WallLimit>,
    idle: Option<Duration>,
}

/// How long a call may take with all that heals it.
#[derive(Clone, Copy, Debug)]
struct WallLimit {
    /// As it was asked for.
    seconds: u64,
    end: Instant,
}

impl CommandCall {
    /// Runs the command once.
    fn attempt(&self, input: &RepeatableInput) -> Result<CallEnd, CallError> {
        let capture = Arc::new(Capture::new(Arc::new(Outlet::standard()), OutputStyle::Plain));
        let spec = Spec {
            argv: self.argv.clone(),
            dir: self.dir.clone(),
            env: Vec::new(),
            server: "call".to_owned(),
            terminal: Terminal::Pipes,
            output: Arc::clone(&capture),
        };
        let (tell, ended) = mpsc::channel();
        let then = Box::new(move |end: ProcessEnd| {
            // Whoever has stopped listening knows already.
            let _ = tell.send(end);
        });
        let stdin = input.next()?;
        let start = || Ok(self.care.spawn_with(&spec, stdin, then)?);
        let running = self.interrupts.start(start)?;
        let stopped = self.wait(&running, &ended, &capture);
        self.interrupts.ended();
        let grace = if stopped.is_some() { GRACE } else { Duration::ZERO };
        self.care.end(&running, grace);
        input.settle();
        // A reader that takes longer gets the rest while we go on.
        let _ = running.wait_for_output(PASSING);
        let exit = running.ended().map_or(ProcessExit::Code(-1), |ended| ended.exit);
        Ok(match stopped {
            Some(why) => CallEnd::Stopped(why),
            None if self.interrupts.have_come() => CallEnd::Interrupted(exit),
            None => CallEnd::Ended(exit, capture.tail()),
        })
    }

    /// Waits for the command's end, or for one of its limits; returns which.
    fn wait(
        &self,
        running: &Running,
        ended: &mpsc::Receiver<ProcessEnd>,
        capture: &Capture,
    ) -> Option<String> {
        let begun = Instant::now();
        let mut vitals = Vitals::new(running.process().pid, begun);
        let mut written = 0;
        loop {
            let has_limit = self.wall.is_some() || self.idle.is_some();
            if !has_limit {
                let _ = ended.recv();
                return None;
            }
            if ended.recv_timeout(LOOK).is_ok() {
                return None;
            }
            let now = Instant::now();
            if capture.written() != written {
                written = capture.written();
                vitals.heard(now);
            }
            if let Some(wall) = self.wall.filter(|wall| wall.end <= now) {
                return Some(format!("it was not done after {} s and was ended", wall.seconds));
            }
            if let Some(limit) = self.idle.filter(|&limit| vitals.look(now) >= limit) {
                return Some(format!("it did nothing for {} s and was ended", limit.as_secs()));
            }
        }
    }
}

/// Why the command could not run.
#[derive(Debug, thiserror::Error)]
enum CallError {
    #[error(transparent)]
    Input(#[from] std::io::Error),
    #[error(transparent)]
    Spawn(#[from] SpawnError),
}

impl CallError {
    /// Returns how the program ends: as a shell does that cannot run a command.
    fn code(&self) -> ExitCode {
        match self {
            Self::Spawn(SpawnError::NotFound { .. }) => ExitCode::from(127),
            Self::Spawn(SpawnError::NotExecutable { .. }) => ExitCode::from(126),
            Self::Spawn(_) | Self::Input(_) => Exit::Failed.into(),
        }
    }
}

/// What came of it all.
struct CallResult {
    exit: ProcessExit,
    /// What made it work.
    healed: Option<String>,
    /// What helped, after which it failed of something else.
    done: Vec<String>,
    /// Why a person is needed.
    note: Option<String>,
    /// Why it was ended when it ran again.
    stopped: Option<String>,
}

impl CallResult {
    fn new(exit: ProcessExit) -> Self {
        Self { exit, healed: None, done: Vec::new(), note: None, stopped: None }
    }

    /// Says what was done, and returns how the program ends.
    fn tell(&self, out: &Output) -> ExitCode {
        if let Some(by) = &self.healed {
            out.remark(format_args!("salve: {by} and called again: healed"));
            return ExitCode::SUCCESS;
        }
        if let Some(why) = &self.stopped {
            return stopped(why, out);
        }
        match &self.note {
            None => {
                if !self.done.is_empty() {
                    let done = self.done.join(", then ");
                    out.remark(format_args!("salve: {done} and called again, {FAILED_OTHERWISE}"));
                }
                ExitCode::from(self.exit.passed_on())
            }
            Some(note) => {
                out.remark(format_args!("salve: {note}"));
                Exit::NeedsPerson.into()
            }
        }
    }
}

/// Runs the command again where that may help.
struct CommandCaller {
    run: CommandCall,
    input: RepeatableInput,
    outcome: Arc<Mutex<CallResult>>,
}

impl CommandCaller {
    fn note(&self, note: impl FnOnce(&mut CallResult)) {
        note(&mut self.outcome.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl ToolCaller for CommandCaller {
    fn hints(&self) -> ToolHints {
        ToolHints::default()
    }

    fn has_tool(&self, _: &str) -> bool {
        false
    }

    fn can_repeat(&self) -> bool {
        self.input.can_repeat()
    }

    fn server(&self) -> Arc<dyn ServerFixes> {
        Arc::new(NoServer)
    }

    fn call_again(&mut self) -> CallAnswer {
        if let Some(wall) = self.run.wall.filter(|wall| wall.end <= Instant::now()) {
            let note = format!(
                "Salve did what helps, but the limit of {} s is over: call it again",
                wall.seconds
            );
            self.note(|outcome| outcome.note = Some(note));
            return CallAnswer::Gone;
        }
        match self.run.attempt(&self.input) {
            Ok(CallEnd::Ended(ProcessExit::Code(0), _)) => {
                self.note(|outcome| outcome.exit = ProcessExit::Code(0));
                CallAnswer::Worked
            }
            Ok(CallEnd::Ended(exit, text)) => {
                self.note(|outcome| outcome.exit = exit);
                CallAnswer::Failed { text }
            }
            Ok(CallEnd::Interrupted(exit)) => {
                self.note(|outcome| outcome.exit = exit);
                CallAnswer::Gone
            }
            Ok(CallEnd::Stopped(why)) => {
                self.note(|outcome| outcome.stopped = Some(why));
                CallAnswer::Gone
            }
            Err(error) => CallAnswer::Failed { text: error.to_string() },
        }
    }

    fn give_up(&mut self, _: Option<&FailedCall>, note: Option<&str>) {
        self.note(|outcome| outcome.note = note.map(str::to_owned));
    }

    fn failed_otherwise(&mut self, after: &str) {
        self.note(|outcome| outcome.done.push(after.to_owned()));
    }

    fn healed(&mut self, by: &str) {
        self.note(|outcome| outcome.healed = Some(by.to_owned()));
    }
}

/// A command has no server.
struct NoServer;

impl ServerFixes for NoServer {
    fn carry_out(&self, _: &ToolFix) -> Result<(), String> {
        Err("only a tool of an MCP server has that".to_owned())
    }

    fn read(&self, _: &str) -> Option<Result<String, String>> {
        None
    }
}
