//! `salve loop run`: roles that work on a task until it is done, a limit is reached, or a person
//! is needed.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;

use salve_core::event::{Actor, Draft, Event, LoopEnd, LoopEvent, LoopId, Order, Turn};
use salve_core::iteration::{Loop, Standing};
use salve_core::scrub::{Scrubbed, Scrubber};
use signal_hook::consts::SIGINT;
use uuid::Uuid;

use super::super::dev::agents::{live, mcp};
use super::super::dev::locate;
use super::super::ground;
use super::super::heal::{begin, heed_control, mend_git};
use super::super::listen::{Heard, listen};
use super::super::project::{speaker, tell_mended, user_name};
use super::super::{CliError, Exit, Output};
use super::lines::Teller;
use super::nurse::{Bell, Nurse};
use super::plan::Planner;
use crate::heal::{Desk, Presence, control, loops};
use crate::notify::{self, Notifier};
use crate::project::Project;
use crate::store::Store;
use crate::subjects::iteration::{Driver, Ending, Folder, Input, LoopError, Plan, recall};

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
    /// Agent for all roles that name none: a command that gets the task on stdin, or claude, codex
    /// or gemini [default: that of agent.runtime]
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// End with exit code 3 instead of waiting where a recovery needs a person, or in a pause
    #[arg(long)]
    no_wait: bool,
}

/// Runs a loop.
pub(super) fn run(args: &Args, out: &Output) -> Result<ExitCode, CliError> {
    let project = locate(out)?;
    let config = super::super::config::in_force(out)?;
    let scrubber = ground::scrubber(&config)?;
    let planner = planner(args, &project, &scrubber)?;
    let plan = planner.plan(&config)?;
    mend_git(&project, out)?;
    let store = Store::open(&project)?;
    tell_mended(&store, out);
    let by = starter(&scrubber)?;
    let notices = Notifier::start(&project, notify::Plan::new(&config.settings), &scrubber)?;
    let desk = Desk::new(&store, scrubber.clone());
    let run = Uuid::new_v4();
    let right = begin(&project, &desk, run, out)?;
    let care = ground::care(run)?;
    let outlet = ground::outlet(out);
    let mut teller = Teller { out, outlet: outlet.clone() };
    let (post, inbox) = mpsc::channel();
    let bell = hang_bell((&project, &store), &post)?;
    let mut live = live((&project, &store), &scrubber, out)?;
    let roles: Vec<String> = plan.roles.iter().map(|role| role.name.clone()).collect();
    heed(&project, &desk, &post);
    let of = start(args, (&store, &desk), (&plan, by), &mut teller)?;
    let planner = &planner;
    live.demand(move |config| planner.wrong(config, &roles));
    let presence = if args.no_wait { Presence::Unattended } else { Presence::Attended };
    let mut nurse = Nurse {
        project: project.clone(),
        store: &store,
        scrubber: scrubber.clone(),
        care: care.clone(),
        config: config.clone(),
        out,
        outlet,
        presence,
        bell,
        notices,
    };
    let replan = |config: &_| planner.plan(config).map_err(|error| error.to_string());
    let mut driver = Driver {
        folder: Folder::of(&project, of.id()),
        project: project.clone(),
        desk,
        care,
        rules: config.fingerprint_rules(),
        live,
        planner: &replan,
        plan,
        recover: &mut nurse,
        inbox: (post, inbox),
        face: &mut teller,
        presence,
    };
    let ending = driver.run(of)?;
    if !matches!(ending, Ending::Stopped(_)) {
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
) -> Result<Planner<'a>, CliError> {
    Ok(Planner {
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
        Actor::Agent { .. } => Err(CliError::usage("an agent cannot start a loop")
            .hint("let the person who started you run it")),
    }
}

/// Begins to heed CONTROL.md; what it has to say reaches the loop.
fn heed(project: &Project, desk: &Desk<'_>, post: &mpsc::Sender<Input>) {
    let post = post.clone();
    // Nobody is left to tell when the loop is over.
    let tell = move |text| drop(post.send(Input::Note(text)));
    heed_control(project, desk, desk.scrubber.scrub(&user_name()), tell);
}

/// Hands on what comes from outside: to the loop, and to a recovery while there is one.
fn hang_bell(
    (project, store): (&Project, &Store),
    post: &mpsc::Sender<Input>,
) -> Result<Bell, CliError> {
    let (heard, ears) = mpsc::channel::<Heard>();
    listen(project, store, &heard, &[])?;
    let (bell, post) = (Bell::default(), post.clone());
    let rung = bell.clone();
    let ring = move || ears.into_iter().for_each(|heard| rung.ring(heard, &post));
    std::thread::Builder::new()
        .name("bell".into())
        .spawn(ring)
        .map_err(|error| CliError::failed("cannot start a thread").because(error))?;
    Ok(bell)
}

/// Starts the loop, or has it go on where it was left.
fn start(
    args: &Args,
    (store, desk): (&Store, &Desk<'_>),
    (plan, by): (&Plan, Actor),
    teller: &mut Teller<'_>,
) -> Result<Loop, CliError> {
    let (id, known) = which(args, store)?;
    let task = task(args, known.as_ref(), &desk.scrubber)?;
    let terms = Box::new(plan.terms.clone());
    let iteration = known.as_ref().map_or(0, Loop::iteration);
    if let Some(known) = &known {
        // A clock that was set back must not make the loop's own time run backwards.
        desk.go_on_from(known.clock());
    }
    let event = Event::Loop(LoopEvent::Turned {
        id: id.clone(),
        iteration,
        what: Turn::Started { terms, task },
    });
    let draft = Draft { by, ..desk.draft(None, event) };
    let entry = store.journal().append(draft)?;
    let recalled = || -> Result<Loop, CliError> {
        recall(store, &id)?
            .ok_or_else(|| CliError::failed("the journal does not have the loop that was started"))
    };
    let of = recalled()?;
    crate::subjects::iteration::Face::entry(teller, &of, &entry);
    let pause = control::pause(store)?.filter(|_| of.paused_by().is_none());
    match pause.and_then(|by| loops::ordered(&of, Order::Pause, &by)) {
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
        return Ok((id.clone(), recall(store, id)?));
    }
    let has_task = args.task.is_some() || args.task_file.is_some();
    let known = loops::known(store)?;
    let open: Vec<&Loop> =
        known.iter().filter(|of| !matches!(of.standing(), Standing::Ended(_))).collect();
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
            Standing::Ended(LoopEnd::Completed) => {
                Err(CliError::usage(format!("the loop `{}` is completed", known.id()))
                    .hint("give it another task: --task \"…\""))
            }
            Standing::Ended(LoopEnd::Limit(_) | LoopEnd::Stuck | LoopEnd::Failed { .. })
            | Standing::Running
            | Standing::Parked { .. }
            | Standing::Waits { .. }
            | Standing::Stopped => Ok(known.task().clone()),
        },
    }
}

/// Returns what an ending means to the shell.
fn exit_of(ending: &Ending) -> ExitCode {
    match ending {
        Ending::Over(LoopEnd::Completed) => Exit::Well.into(),
        Ending::Over(LoopEnd::Limit(_) | LoopEnd::Stuck | LoopEnd::Failed { .. }) => {
            Exit::Failed.into()
        }
        Ending::CalledOff => Exit::Failed.into(),
        Ending::NeedsPerson(_) => Exit::NeedsPerson.into(),
        Ending::Stopped(SIGINT) => Exit::Interrupted.into(),
        Ending::Stopped(signal) => ExitCode::from(u8::try_from(128 + signal).unwrap_or(1)),
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
