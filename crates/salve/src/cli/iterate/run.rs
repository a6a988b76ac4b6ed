//! `salve loop run`: roles that work on a task until it is done, a limit is reached, or a person
//! is needed.

use std::path::PathBuf;
use std::process::ExitCode;

use salve_core::event::{
    Actor, Draft, Event, LoopEnd, LoopEvent, LoopId, LoopTurn, PersonOrder, RepairMode,
};
use salve_core::iteration::{Loop, StepsStanding};
use salve_core::scrub::{Scrubbed, Scrubber};
use signal_hook::consts::SIGINT;

use super::super::dev::agents::{DEFAULT_AGENT, agent_help, live, mcp};
use super::super::dev::locate;
use super::super::foundation::{self, Foundation, Purpose, remedies_of_own, repair_terms};
use super::super::heal::records;
use super::super::project::speaker;
use super::super::serve::{PageArgs, beside};
use super::super::{CliError, Exit, Output};
use super::lines::Teller;
use super::plan::SettingsPlanner;
use crate::config::Config;
use crate::heal::inbox::{InboxMessage, NewsQueue};
use crate::heal::{IncidentWriter, Presence, RunBase, RunIntent, control, loops};
use crate::notify;
use crate::project::Project;
use crate::reading::{known_loop, known_loops};
use crate::store::Store;
use crate::subjects::iteration::{Folder, LoopDriver, LoopEnding, LoopError, LoopPlan};

/// The longest task that is taken.
const LONGEST_TASK: u64 = 256 << 10;

/// Arguments of `salve loop run`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 the task was promised and the tests are green, 1 a limit was \
    reached, it got stuck, could not go on or was called off, 2 usage or config, 3 a person is needed, 130 \
    interrupted. Run it again with the same --id to go on."
)]
pub(super) struct Args {
    #[command(flatten)]
    page: PageArgs,
    /// Name of the loop, in a-z, 0-9 and - [default: the project's directory, or the one that is
    /// not over]
    #[arg(long, value_name = "ID")]
    id: Option<LoopId>,
    /// What is to be done
    #[arg(long, value_name = "TEXT", conflicts_with = "task_file")]
    task: Option<String>,
    /// File that says what is to be done
    #[arg(long, value_name = "FILE")]
    task_file: Option<PathBuf>,
    /// Command of the tests [default: loop.tests, or what the project's own files name]
    #[arg(long, value_name = "COMMAND")]
    tests: Option<String>,
    /// Iterations of this run [default: loop.max_iterations]
    #[arg(long, value_name = "N")]
    iterations: Option<u32>,
    #[arg(long, value_name = "AGENT", help = agent_help("Agent for all roles that name none", DEFAULT_AGENT))]
    agent: Option<String>,
    /// End with exit code 3 instead of waiting where a recovery needs a person, or in a pause
    #[arg(long)]
    no_wait: bool,
    /// Tell what a recovery would do and by which rule, and do nothing
    #[arg(long)]
    observe: bool,
}

/// Runs a loop.
pub(super) fn run(args: &Args, out: &Output) -> Result<ExitCode, CliError> {
    let project = locate(out)?;
    let config = super::super::config::in_force(out)?;
    let scrubber = foundation::scrubber(&config)?;
    let planner = planner(args, &project, &scrubber)?;
    let plan = planner.plan(&config)?;
    let foundation = Foundation::lay(project.clone(), &config, out)?;
    let by = starter(&scrubber)?;
    beside(&args.page, &project, out)?;
    let right = foundation.take_right()?;
    let mut teller = Teller { out, outlet: foundation.outlet.clone() };
    let planner = &planner;
    let replan = |config: &_| planner.plan(config).map_err(|error| error.to_string());
    let mut take_over = |config: &Config, base: &mut RunBase<'_>| {
        base.remedies = remedies_of_own(&base.project, config);
        base.terms =
            repair_terms(config, Purpose::Recoveries, RepairMode::Legacy, &base.writer.scrubber);
        foundation.notices.borrow_mut().take_over(notify::NoticePlan::new(&config.settings))
    };
    let mut voice = foundation.voice(&config);
    let mut base = foundation.base(&config, Purpose::Recoveries, &mut voice)?;
    base.intent = RunIntent::observing(args.observe);
    base.presence = if args.no_wait { Presence::Unattended } else { Presence::Attended };
    let sender = base.inbox.sender();
    let mut live = live(&project, &foundation.store, &scrubber, out)?;
    let roles: Vec<String> = plan.roles.iter().map(|role| role.name.clone()).collect();
    foundation.listen(&base.inbox, &[], move |signal| {
        // Nobody is left to tell when the loop is over.
        let _ = sender.send(InboxMessage::Stop(signal));
    })?;
    let of = start(args, &base.writer, &plan, by, &mut teller)?;
    live.demand(move |config| planner.wrong(config, &roles));
    let mut driver = LoopDriver {
        folder: Folder::of(&project, of.id()),
        news: NewsQueue::new(base.inbox.sender()),
        records: records(&base),
        base,
        live,
        planner: &replan,
        take_over: &mut take_over,
        plan,
        reporter: &mut teller,
    };
    let ending = driver.run(of)?;
    if !matches!(ending, LoopEnding::Stopped(_)) {
        // Otherwise something may still be ending.
        right.give_back();
    }
    Ok(exit_of(&ending))
}

/// Returns what makes plans of settings, with what the command line sets.
fn planner<'a>(
    args: &'a Args,
    project: &'a Project,
    scrubber: &'a Scrubber,
) -> Result<SettingsPlanner<'a>, CliError> {
    Ok(SettingsPlanner {
        project,
        scrubber,
        mcp: mcp(project)?,
        agent: args.agent.as_deref(),
        tests: args.tests.as_deref(),
        iterations: args.iterations,
    })
}

/// Returns who starts the loop: a person, and never an agent that Salve started.
fn starter(scrubber: &Scrubber) -> Result<Actor, CliError> {
    match speaker(scrubber) {
        by @ (Actor::Person { .. } | Actor::Salve(_)) => Ok(by),
        Actor::Agent { .. } | Actor::Unproven { .. } | Actor::Forged { .. } => {
            Err(CliError::usage("an agent cannot start a loop")
                .hint("let the person who started you run it"))
        }
    }
}

/// Starts the loop, or has it go on where it was left.
fn start(
    args: &Args,
    writer: &IncidentWriter<'_>,
    plan: &LoopPlan,
    by: Actor,
    teller: &mut Teller<'_>,
) -> Result<Loop, CliError> {
    let store = writer.store;
    let (id, known) = which(args, store)?;
    let task = task(args, known.as_ref(), &writer.scrubber)?;
    let terms = Box::new(plan.terms.clone());
    let iteration = known.as_ref().map_or(0, Loop::iteration);
    if let Some(known) = &known {
        // A clock that was set back must not make the loop's own time run backwards.
        writer.go_on_from(known.stamps().clock());
    }
    let event = Event::Loop(LoopEvent::Turned {
        id: id.clone(),
        iteration,
        what: LoopTurn::Started { terms, task },
    });
    let draft = Draft { by, ..writer.draft(None, event) };
    let entry = store.journal().append(draft)?;
    let recalled = || -> Result<Loop, CliError> {
        known_loop(store.journal(), &id)?
            .ok_or_else(|| CliError::failed("the journal does not have the loop that was started"))
    };
    let of = recalled()?;
    crate::subjects::iteration::LoopReporter::entry(teller, &of, &entry);
    let pause = control::pause(store)?.filter(|_| of.paused_by().is_none());
    match pause.and_then(|by| loops::ordered(&of, PersonOrder::Pause, &by)) {
        // What holds everything in the project holds this loop, too.
        Some(draft) => {
            store.journal().append(draft)?;
            recalled()
        }
        None => Ok(of),
    }
}

/// Returns which loop is meant, and how it stands.
fn which(args: &Args, store: &Store) -> Result<(LoopId, Option<Loop>), CliError> {
    if let Some(id) = &args.id {
        return Ok((id.clone(), known_loop(store.journal(), id)?));
    }
    let has_task = args.task.is_some() || args.task_file.is_some();
    let known = known_loops(store.journal())?;
    let open: Vec<&Loop> =
        known.iter().filter(|of| !matches!(of.standing(), StepsStanding::Ended(_))).collect();
    match (open.as_slice(), has_task) {
        ([one], false) => Ok((one.id().clone(), Some((*one).clone()))),
        ([_, _, ..], false) => {
            let names: Vec<&str> = open.iter().map(|of| of.id().as_str()).collect();
            Err(CliError::usage("several loops are not over")
                .hint(format!("say which: --id {}", names.join(", or --id "))))
        }
        ([], false) => Err(no_task()),
        (_, true) => {
            let name = store.project().root().file_name().unwrap_or_default().to_string_lossy();
            let name = LoopId::made_of(&name);
            let is_free = |id: &LoopId| known.iter().all(|of| of.id() != id);
            let mut names = std::iter::once(name.clone()).chain((2..).map(|n| name.numbered(n)));
            Ok((names.find(is_free).unwrap_or(name), None))
        }
    }
}

fn no_task() -> CliError {
    CliError::usage("there is nothing to do")
        .hint("say what: salve loop run --task \"…\", or --task-file FILE")
}

/// Returns what is to be done: what the user says now, or said when the loop was started.
fn task(args: &Args, known: Option<&Loop>, scrubber: &Scrubber) -> Result<Scrubbed, CliError> {
    let given = match (&args.task, &args.task_file) {
        (Some(text), _) => Some(text.clone()),
        (None, Some(file)) => {
            let read = || -> std::io::Result<String> {
                use std::io::Read as _;
                let mut text = String::new();
                std::fs::File::open(file)?.take(LONGEST_TASK).read_to_string(&mut text)?;
                Ok(text)
            };
            Some(read().map_err(|error| {
                CliError::usage(format!("cannot read the task in {}", file.display()))
                    .because(error)
            })?)
        }
        (None, None) => None,
    };
    match (given, known) {
        (Some(text), _) if text.trim().is_empty() => Err(no_task()),
        (Some(text), _) => Ok(scrubber.scrub(text.trim())),
        (None, None) => Err(no_task()),
        (None, Some(known)) => match known.standing() {
            StepsStanding::Ended(LoopEnd::Completed) => {
                Err(CliError::usage(format!("the loop `{}` is completed", known.id()))
                    .hint("give it another task: --task \"…\""))
            }
            StepsStanding::Ended(LoopEnd::Limit(_) | LoopEnd::Stuck | LoopEnd::Failed { .. })
            | StepsStanding::Running
            | StepsStanding::Parked { .. }
            | StepsStanding::Waits { .. }
            | StepsStanding::Stopped => Ok(known.task().clone()),
        },
    }
}

/// Returns what an ending means to the shell.
fn exit_of(ending: &LoopEnding) -> ExitCode {
    match ending {
        LoopEnding::Over(LoopEnd::Completed) => Exit::Well.into(),
        LoopEnding::Over(LoopEnd::Limit(_) | LoopEnd::Stuck | LoopEnd::Failed { .. }) => {
            Exit::Failed.into()
        }
        LoopEnding::CalledOff => Exit::Failed.into(),
        LoopEnding::NeedsPerson(_) => Exit::NeedsPerson.into(),
        LoopEnding::Stopped(SIGINT) => Exit::Interrupted.into(),
        LoopEnding::Stopped(signal) => ExitCode::from(u8::try_from(128 + signal).unwrap_or(1)),
    }
}

impl From<LoopError> for CliError {
    fn from(error: LoopError) -> Self {
        match error {
            LoopError::Store(error) => error.into(),
            LoopError::Write(error) => error.into(),
        }
    }
}
