//! `salve call`: runs one command, and heals what keeps it from working.

mod input;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use salve_core::event::Exit as ProcessExit;
use salve_core::tool::failure::FailedCall;
use salve_core::tool::rule::{HealChoice, ToolFix};
use salve_core::tool::session::ToolHints;
use uuid::Uuid;

use self::input::CallInput;
use super::project::kept;
use super::{CliError, Exit, Output, foundation};
use crate::agent::vitals::Vitals;
use crate::process::{Capture, Ended, Outlet, OutputStyle, Running, Spec, Supervisor, Terminal};
use crate::project::Project;
use crate::tools::{HealMeans, Healed};

/// How often a command with an idle limit is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How long a command that is ended may take to end by itself.
const GRACE: Duration = Duration::from_secs(2);
/// How long the last of its output may take.
const PASSING: Duration = Duration::from_secs(5);

/// Arguments of `salve call`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Seconds that the command may take
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
    let words: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
    let mut run = CallRun {
        args,
        out,
        care: foundation::care(Uuid::new_v4())?,
        tool: words.join(" "),
        input: CallInput::of_process()?,
        tried: None,
    };
    loop {
        let began = Timestamp::now();
        let capture = Arc::new(Capture::new(Arc::new(Outlet::standard()), OutputStyle::Plain));
        let next = match run.attempt(&capture)? {
            CallEnd::Ended(ProcessExit::Code(0)) => return Ok(run.worked()),
            CallEnd::Ended(exit) => run.failed(&exit, &capture.tail(), began),
            CallEnd::Stopped(why) => {
                out.remark(format_args!("salve: {why}; the call may have taken effect"));
                return Ok(Exit::NeedsPerson.into());
            }
        };
        if let NextAttempt::End(code) = next {
            return Ok(code);
        }
    }
}

/// How one run of the command ended.
enum CallEnd {
    /// By itself.
    Ended(ProcessExit),
    /// It was ended, for this reason.
    Stopped(String),
}

/// What follows a failed run.
enum NextAttempt {
    /// Another one.
    Again,
    /// Nothing; the program ends like this.
    End(ExitCode),
}

/// A fix after which the command runs again.
struct TriedFix {
    fix: ToolFix,
    means: HealMeans,
    call: FailedCall,
}

/// One command and all that is done to make it work.
struct CallRun<'a> {
    args: &'a Args,
    out: &'a Output,
    care: Supervisor,
    tool: String,
    input: CallInput,
    tried: Option<TriedFix>,
}

impl CallRun<'_> {
    /// Runs the command once.
    fn attempt(&mut self, capture: &Arc<Capture>) -> Result<CallEnd, CliError> {
        let dir = std::env::current_dir()
            .map_err(|error| CliError::failed("cannot tell where this is").because(error))?;
        let spec = Spec {
            argv: self.args.command.clone(),
            dir,
            env: Vec::new(),
            server: "call".to_owned(),
            terminal: Terminal::Pipes,
            output: Arc::clone(capture),
        };
        let (tell, ended) = mpsc::channel();
        let then = Box::new(move |end: Ended| {
            // Whoever has stopped listening knows already.
            let _ = tell.send(end);
        });
        let input = self.input.next()?;
        let running = self
            .care
            .spawn_with(&spec, input, then)
            .map_err(|error| CliError::failed("cannot run the command").because(error))?;
        let stopped = self.wait(&running, &ended, capture);
        let grace = if stopped.is_some() { GRACE } else { Duration::ZERO };
        self.care.end(&running, grace);
        // A reader that takes longer gets the rest while we go on.
        let _ = running.wait_for_output(PASSING);
        let exit = running.ended().map_or(ProcessExit::Code(-1), |ended| ended.exit);
        Ok(stopped.map_or(CallEnd::Ended(exit), CallEnd::Stopped))
    }

    /// Waits for the command's end, or for one of its limits; returns which.
    fn wait(
        &self,
        running: &Running,
        ended: &mpsc::Receiver<Ended>,
        capture: &Capture,
    ) -> Option<String> {
        let begun = Instant::now();
        let mut vitals = Vitals::new(running.process().pid, begun);
        let mut written = 0;
        let (wall, idle) = (self.args.wall, self.args.idle);
        loop {
            let has_limit = wall.is_some() || idle.is_some();
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
            if let Some(seconds) = wall.filter(|&s| begun.elapsed() >= Duration::from_secs(s)) {
                return Some(format!("it was not done after {seconds} s and was ended"));
            }
            if let Some(seconds) = idle.filter(|&s| vitals.look(now) >= Duration::from_secs(s)) {
                return Some(format!("it did nothing for {seconds} s and was ended"));
            }
        }
    }

    /// Says what made the command work, if it did not at once.
    fn worked(&self) -> ExitCode {
        if let Some(TriedFix { fix, means, call }) = &self.tried {
            means.judge_fix(fix, true);
            let resolution = Some(fix.describe());
            means.record(&Healed { call, resolution, is_healed: true });
            self.out.remark(format_args!("salve: {} and called again: healed", fix.describe()));
        }
        ExitCode::SUCCESS
    }

    /// Heals what made the command fail, if something is known that does and it is safe.
    fn failed(&mut self, exit: &ProcessExit, text: &str, began: Timestamp) -> NextAttempt {
        let Some(means) = means(self.care.clone(), self.out) else {
            return NextAttempt::End(code_of(exit));
        };
        let call = means.judge_failure(&self.tool, text);
        match self.fix(&means, &call, began) {
            Ok(fix) => {
                self.tried = Some(TriedFix { fix, means, call });
                NextAttempt::Again
            }
            Err(why) => {
                means.record(&Healed { call: &call, resolution: None, is_healed: false });
                let Some(why) = why else { return NextAttempt::End(code_of(exit)) };
                self.out.remark(format_args!("salve: {}", means.scrub(&why)));
                NextAttempt::End(Exit::NeedsPerson.into())
            }
        }
    }

    /// Fixes what is wrong; returns what was done, or why a person is needed, or that nothing is
    /// known.
    fn fix(
        &self,
        means: &HealMeans,
        call: &FailedCall,
        began: Timestamp,
    ) -> Result<ToolFix, Option<String>> {
        if let Some(TriedFix { fix, call: before, .. }) = &self.tried {
            if before.category == call.category {
                means.judge_fix(fix, false);
            }
            return Err(Some(format!("{} and called again, which did not help", fix.describe())));
        }
        if !means.may_retry(0) || !self.input.can_repeat() {
            return Err(None);
        }
        let fix = match means.choose(call, ToolHints::default(), &|_| false) {
            HealChoice::Fix(fix) => fix,
            HealChoice::Nothing => return Err(None),
            HealChoice::MayHaveActed => {
                return Err(Some("the call may have taken effect and was not repeated".to_owned()));
            }
            HealChoice::Person(why) => return Err(Some(why)),
        };
        let by_caller = &mut |_: &ToolFix| Err("that is for tools of servers".to_owned());
        means.fix(&fix, began, by_caller).map_err(|error| Some(error.to_string()))?;
        Ok(fix)
    }
}

fn code_of(exit: &ProcessExit) -> ExitCode {
    let code = match exit {
        ProcessExit::Code(code) => *code,
        ProcessExit::Signal(signal) => 128 + signal,
        ProcessExit::TimedOut | ProcessExit::Hung => 1,
    };
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
