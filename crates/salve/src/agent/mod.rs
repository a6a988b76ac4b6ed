//! Running a coding agent without a person: bounded, watched and charged.
//!
//! [`start`] runs an agent by its profile, reads its stream, tells what it does and costs, and
//! ends it when it is over its time, its budget, or shows no sign of life. How it ended is data,
//! never an error: an agent that cannot work is a thing that happens.
//!
//! The agent and everything it starts carry `SALVE_AGENT` in their environment, by which Salve
//! refuses them decisions. An agent in a private layer cannot write the journal: Salve's tools are
//! served to it from outside (`tool_door`). One that works in the tree itself, where nothing can hold
//! it, is kept out of `.salve/` by its own permissions only.

mod drive;
mod home;
mod host;
mod outlets;
mod profile;
mod received;
mod state_place;
#[cfg(test)]
mod tests;
mod timers;
mod tool_door;
mod transcript;
pub(crate) mod vitals;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use salve_core::agent::Trouble;
use salve_core::event::{Amounts, Process, ProcessExit, Resource, StepTimer};
use salve_core::scrub::{Scrubbed, Scrubber};

pub use home::Home;
pub use profile::{Mcp, Profile};
pub use state_place::StatePlace;
pub use transcript::TranscriptPlace;

use crate::process::{AGENT_MARK, SpawnError, Supervisor};
pub(crate) use timers::{TimerNews, WorkTimers};
pub(crate) use vitals::Vitals;

use crate::workspace::{
    HeldTree, LayerCommand, LayerLaunch, LayerSight, PrivateLayer, WorkspaceError,
};
use drive::{AgentRunMessage, Drive};
use host::Launch;
use tool_door::ToolDoor;
use transcript::Transcript;

/// What an agent is to do, and within which limits.
#[derive(Clone, Debug)]
pub struct AgentTask {
    /// The name it is known by in the journal.
    pub agent: String,
    /// What it is told.
    pub prompt: String,
    /// The directory it works in.
    pub dir: PathBuf,
    /// How it reaches Salve.
    pub mcp: Mcp,
    /// The model, if not its own choice.
    pub model: Option<String>,
    /// Further variables.
    pub env: Vec<(String, String)>,
    /// What it may edit.
    pub reach: EditReach,
    /// What it works on.
    pub ground: AgentGround,
    /// How far it may go.
    pub bounds: AgentBounds,
    /// Where its words are kept for people, if they are.
    pub transcript: Option<TranscriptPlace>,
}

/// What an agent works on.
#[derive(Clone, Debug)]
pub enum AgentGround {
    /// The tree itself.
    Tree,
    /// A private layer over it.
    Layer {
        layer: Arc<PrivateLayer>,
        /// What it may write to outside of the layer, besides what is its own.
        writable: Vec<PathBuf>,
    },
    /// A tree that is nobody's work in progress, while the rest of the machine is out of its reach.
    Held {
        /// The tree.
        tree: Arc<HeldTree>,
        /// What it may write to outside of it, besides what is its own.
        writable: Vec<PathBuf>,
    },
}

impl AgentTask {
    /// Returns a variable as the agent sees it.
    fn variable(&self, name: &str) -> Option<OsString> {
        let set = self.env.iter().rev().find(|(known, _)| known == name);
        set.map(|(_, value)| value.into()).or_else(|| std::env::var_os(name))
    }
}

/// What an agent may edit, as far as its own permissions can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditReach {
    /// The project's files.
    Project,
    /// Those, and the files that the roles of a loop hand to one another.
    Loop,
}

/// How far a run may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentBounds {
    /// How long it may take.
    pub wall: Duration,
    /// How long it may show no sign of life.
    pub idle: Duration,
    /// How many tokens it may use in all; absent is no limit.
    pub tokens: Option<u64>,
    /// How many tokens its work may take, beside what it is told at its start; absent is no limit.
    pub work: Option<u64>,
    /// How much money it may cost, in millionths; absent is no limit.
    pub money_micros: Option<u64>,
}

/// What an agent does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentEvent {
    /// It works on something.
    Activity(Activity),
    /// What the run has cost until now, in all.
    Spent(Amounts),
    /// It is over; nothing follows.
    Ended(Box<Ending>),
}

/// What an agent was seen to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Activity {
    /// It began a session.
    Session(Scrubbed),
    /// It said something.
    Said(Scrubbed),
    /// It used this tool.
    Used(Scrubbed),
    /// It met trouble that it may still get over.
    Trouble(Trouble, Scrubbed),
    /// Nobody will tell what it costs, so that no limit on money can hold for it.
    NoPrice,
    /// This timer will end it after so long.
    Expires(StepTimer, Duration),
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Why it is over.
    pub end: End,
    /// The agent's last word, or what it complained about.
    pub text: Scrubbed,
    /// What it cost in all.
    pub spent: Amounts,
    /// How its process ended.
    pub exit: ProcessExit,
    /// How long it took.
    pub took: Duration,
    /// Lines of its output that were not understood.
    pub unknown: u64,
    /// Processes that it left behind when it ended by itself.
    pub left: usize,
}

/// Why a run is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It says that it has finished; what it did is for others to judge.
    Finished,
    /// It could not work, for this reason.
    Failed(Trouble),
    /// Its process ended well but told no result.
    NoResult,
    /// It took longer than it may, and was ended.
    TimedOut,
    /// It showed no sign of life, and was ended.
    Idle,
    /// It used more than it may, and was ended.
    OverBudget(Resource),
    /// It was told to stop.
    Stopped,
}

/// A run under way.
#[derive(Debug)]
pub struct AgentRun {
    process: Process,
    messages: SyncSender<AgentRunMessage>,
    ending: Mutex<Receiver<Ending>>,
}

/// Why an agent could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the agent `{program}`")]
pub struct StartError {
    pub program: String,
    /// Why not.
    #[source]
    pub source: Unstarted,
}

/// What kept an agent from starting.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum Unstarted {
    /// What it needs could not be laid ready.
    Prepare(#[from] io::Error),
    /// Its layer could not be laid ready.
    Layer(#[from] WorkspaceError),
    /// Its process did not start.
    Spawn(#[from] SpawnError),
}

impl StartError {
    /// Returns whether the program is not installed.
    pub fn is_missing(&self) -> bool {
        matches!(self.source, Unstarted::Spawn(SpawnError::NotFound { .. }))
    }
}

/// Starts an agent; `on` is told on another thread what it does, [`AgentEvent::Ended`] last.
pub fn start(
    care: &Supervisor,
    profile: &Profile,
    task: &AgentTask,
    scrubber: &Scrubber,
    on: Box<dyn FnMut(AgentEvent) + Send>,
) -> Result<AgentRun, StartError> {
    let failed = |source| StartError { program: profile.program.clone(), source };
    let door = if task.ground.is_held() && task.reach.has_tools() {
        Some(ToolDoor::open(care, task).map_err(|error| failed(error.into()))?)
    } else {
        None
    };
    let mcp = door.as_ref().map_or_else(|| task.mcp.clone(), |door| door.relay(&task.mcp));
    let filled = profile.fill(task, &mcp).map_err(|error| failed(error.into()))?;
    let mut env = filled.env;
    env.extend(task.env.iter().cloned());
    env.push((AGENT_MARK.to_owned(), task.agent.clone()));
    let launch = Launch { argv: filled.argv, dir: task.dir.clone(), env, input: filled.input };
    let own = door.iter().map(|door| door.dir().to_path_buf());
    let state: Vec<PathBuf> = profile.state_paths(task).collect();
    if task.ground.is_held() {
        state.iter().for_each(|path| state_place::make_place(path));
    }
    let own = own.chain([filled.files.path().to_path_buf()]).chain(state);
    let ground = task.ground.with(own);
    let started = host::start(care, launch, &ground).map_err(failed)?;
    let process = started.family.process().clone();
    let (messages, inbox) = mpsc::sync_channel(drive::INBOX);
    let (tell, ending) = mpsc::channel();
    let mut on = on;
    if task.bounds.money_micros.is_some() && profile.is_without_price() {
        on(AgentEvent::Activity(Activity::NoPrice));
    }
    let transcript = Transcript::open(task.transcript.as_ref(), scrubber);
    let words = care.work().begin_words();
    let drive =
        Drive::new(profile, task.bounds, scrubber.clone(), words, on).with_transcript(transcript);
    let outbox = messages.clone();
    // The layer stays for as long as somebody works in it.
    let (files, ground) = (filled.files, ground);
    let run = move || {
        let ending = drive.run(started, &outbox, &inbox);
        drop((files, door, ground));
        // Nobody may be waiting for it.
        let _ = tell.send(ending);
    };
    std::thread::Builder::new()
        .name("agent".into())
        .spawn(run)
        .map_err(|error| failed(error.into()))?;
    Ok(AgentRun { process, messages, ending: Mutex::new(ending) })
}

impl AgentGround {
    /// Tells whether the agent is kept from the rest of the machine.
    fn is_held(&self) -> bool {
        match self {
            Self::Tree => false,
            Self::Layer { .. } | Self::Held { .. } => true,
        }
    }

    /// Returns it with further places that may be written to.
    fn with(&self, own: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut ground = self.clone();
        match &mut ground {
            Self::Tree => {}
            Self::Layer { writable, .. } | Self::Held { writable, .. } => writable.extend(own),
        }
        ground
    }

    /// Returns how a command is started on it.
    fn launch(&self, argv: Vec<OsString>, dir: PathBuf) -> Result<LayerLaunch, WorkspaceError> {
        let command = |writable: &Vec<PathBuf>| LayerCommand {
            argv: argv.clone(),
            dir: dir.clone(),
            writable: writable.clone(),
            sight: LayerSight::Agent,
        };
        match self {
            Self::Tree => Ok(LayerLaunch { argv, dir, env: Vec::new() }),
            Self::Layer { layer, writable } => layer.launch(&command(writable)),
            Self::Held { tree, writable } => tree.launch(&command(writable)),
        }
    }
}

impl AgentRun {
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Tells it to stop; it has ended when [`AgentEvent::Ended`] comes.
    pub fn stop(&self) {
        // An agent that is over need not be told.
        let _ = self.messages.send(AgentRunMessage::Stop);
    }

    /// Waits until it is over, at most for `limit`; returns how it ended, once.
    pub fn wait(&self, limit: Duration) -> Option<Ending> {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(limit).ok()
    }
}
