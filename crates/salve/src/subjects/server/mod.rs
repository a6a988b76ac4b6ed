//! Dev servers under care: started, watched, healed, ended.
//!
//! [`Fleet`] is one thread with one inbox. Everything that happens (a process ended, a probe came
//! back, an effect is done, somebody wrote to the journal, Ctrl-C) arrives there as an [`Input`];
//! everything that takes time runs on a thread of its own and answers by the inbox. What is
//! decided comes from core: [`salve_core::watch`] says when a server is well,
//! [`salve_core::incident`] what is done when it is not.

mod address;
mod agents;
mod asking;
mod crash_log;
mod effects;
mod fleet;
mod heed;
mod life;
mod lock;
mod orders;
mod plan;
mod playbook;
mod remedies;
mod repair;
mod resuming;
mod scribing;
mod telling;

use std::sync::Arc;
use std::time::{Duration, Instant};

use salve_core::event::{Actor, Digest, Entry, Exit, Report};
use salve_core::incident::{Incident, Run as Effecting};
use salve_core::playbook::{Diagnosis, Finding};
use salve_core::scrub::Scrubbed;
use salve_core::watch::{Ailment, Answer, Watch};

pub use fleet::{Ending, Fleet, FleetError, Parts};
pub use lock::{cared_for, clear_stale};
pub use plan::{RepairPlan, ServerPlan, Timing};

use crate::agent::AgentEvent;
use crate::heal::agents::Minder;
use crate::heal::cause::Evidence;
use crate::heal::right::RunLock;
use crate::heal::shelf::Cure;
use crate::process::{Capture, Ended, Running};

/// Something that reached the fleet.
#[derive(Debug)]
pub enum Input {
    /// A server's process ended and was reaped.
    Exited {
        /// Which server.
        server: usize,
        /// Which of its runs.
        generation: u64,
        /// How.
        ended: Ended,
    },
    /// Nothing of a server's processes is left.
    Cleared {
        /// Which server.
        server: usize,
        /// Which of its runs.
        generation: u64,
        /// How its process ended, if there was one.
        exit: Option<Exit>,
        /// What the project's files are then, where that matters.
        tree: Option<Digest>,
    },
    /// A probe came back.
    Probed {
        /// Which server.
        server: usize,
        /// Which of its runs.
        generation: u64,
        /// What it found.
        answer: Answer,
        /// Why that is no good answer.
        fault: Option<String>,
    },
    /// An effect came back.
    Done {
        /// Which server.
        server: usize,
        /// The effect.
        effect: Effecting,
        /// What it reports.
        report: Report,
    },
    /// An agent of ours did something.
    Agent {
        /// Which server it works on.
        server: usize,
        /// The effect that it was started for.
        effect: Effecting,
        /// What it did.
        event: AgentEvent,
    },
    /// What a server that runs wrote was read.
    Heeded {
        /// Which server.
        server: usize,
        /// Which of its runs.
        generation: u64,
        /// What would put right what is broken around it, if it told of something.
        remedy: Option<Digest>,
    },
    /// A look into the cause of a failure came back.
    Diagnosed {
        /// Which server.
        server: usize,
        /// Which look.
        look: u64,
        /// What it found.
        diagnosis: Box<Diagnosis>,
    },
    /// Something that a person should know.
    Note {
        /// Which server.
        server: usize,
        /// What.
        text: String,
    },
    /// Entries that appeared in the journal.
    Journal(Vec<Entry>),
    /// Our terminal has another size.
    Resized {
        /// Its height in lines.
        rows: u16,
        /// Its width in columns.
        cols: u16,
    },
    /// Something was typed for the servers that have a terminal.
    Typed(Vec<u8>),
    /// Somebody wants healing to pause, or to go on after a pause.
    Pause(Actor),
    /// A signal that is meant for the servers.
    Signal(i32),
    /// The user wants it to end, by this signal.
    Stop(i32),
}

/// What is shown to whoever runs the fleet.
pub trait Face {
    /// A server's incident took in an entry.
    fn entry(&mut self, server: &str, incident: &Incident, entry: &Entry);
    /// Something about a server that is no part of an incident.
    fn remark(&mut self, server: &str, remark: &Remark);
}

/// Something about a server that is no part of an incident.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// It was started.
    Started {
        /// What runs.
        command: Scrubbed,
    },
    /// It was found well.
    Well {
        /// Where it answers.
        url: Option<Scrubbed>,
        /// How long that took.
        after: Duration,
    },
    /// It was found well after a remedy; the incident tells the rest.
    Verified {
        /// Where it answers.
        url: Option<Scrubbed>,
        /// How long it stayed so.
        soak: Duration,
    },
    /// It ended by itself, as it should.
    Ended {
        /// How.
        exit: Exit,
    },
    /// It was stopped because somebody wanted it.
    Stopped,
    /// Something that a person should know.
    Note(Scrubbed),
}

/// One server and all that is known of it.
struct Server {
    plan: ServerPlan,
    capture: Arc<Capture>,
    state: State,
    held: Held,
    generation: u64,
    incident: Option<Incident>,
    case: Case,
    /// The agent of ours that works on it.
    minder: Option<Minder>,
    /// The effect that a thread is at.
    busy: Option<Effecting>,
    /// How long the last run that crashed had lived.
    crashed_after: Option<Duration>,
    /// The person who last started it, if a person did.
    started_by: Option<Actor>,
    /// The remedies for which it was disturbed while it ran.
    disturbed: Vec<Digest>,
    /// Whether its last failure was not repaired.
    skipped: bool,
    /// Whether its last run ended by itself, as it should.
    ended_well: bool,
    /// Whether it is to start as soon as those it depends on are well.
    waits: bool,
    _lock: RunLock,
}

/// What this process knows of the incident besides the journal.
#[derive(Default)]
struct Case {
    /// The effect that runs in this process.
    running: Option<Effecting>,
    /// The effect that an agent was last called for.
    called: Option<u32>,
    /// What the last failure was found to be.
    seen: Option<Seen>,
    /// What is known of its cause.
    insight: playbook::Insight,
    /// What each remedy that was put to the gate would do.
    cures: Vec<Cure>,
    /// The remedies that did not help, as far as this process tried them.
    failed: Vec<Digest>,
}

/// What a failure left behind.
#[derive(Clone, Debug)]
struct Seen {
    found: Evidence,
    uptime: Duration,
    /// What was found out about it, for a person.
    findings: Vec<Finding>,
}

/// Whether a server is down because somebody wants it so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// Nobody does.
    No,
    /// It was stopped by order, and starts by order.
    ByOrder,
}

/// Whether a server's processes are there.
enum State {
    /// None is.
    Down,
    /// It runs.
    Up(Box<Life>),
    /// What is left of it is being ended.
    Clearing(Then),
}

/// What follows once nothing of a server is left.
enum Then {
    /// It ended by itself.
    Gone { ended: Ended, verifies: Option<Effecting> },
    /// It was ended because it was unwell.
    Unwell { ailing: Ailing, uptime: Duration, verifies: Option<Effecting> },
    /// It was ended because somebody wanted that.
    Stopped,
    /// It is to start again, as somebody wanted.
    Restart,
    /// It is to start again to verify a remedy.
    Verify(Effecting),
}

/// What is wrong with a server that had not ended.
#[derive(Clone, Debug)]
struct Ailing {
    ailment: Ailment,
    fault: Option<String>,
}

/// How a server failed.
struct Failing {
    exit: Option<Exit>,
    uptime: Duration,
    /// What was wrong while it ran.
    ailing: Option<Ailing>,
    /// Why it could not even be started.
    unstarted: Option<String>,
    /// What the project's files were then, where that matters.
    tree: Option<Digest>,
    /// The effect that its run was to verify.
    verifies: Option<Effecting>,
}

/// How it is known where a server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The settings say so.
    Set,
    /// The server wrote it.
    Told,
    /// It was seen to listen there; nothing says that it speaks HTTP.
    Seen,
}

/// One run of a server's process.
struct Life {
    running: Running,
    since: Instant,
    watch: Watch,
    address: Option<String>,
    /// How that is known.
    source: Source,
    /// When to look for an address again.
    look_at: Option<Instant>,
    fault: Option<String>,
    /// When what it writes is read.
    heed: heed::Heed,
    /// The effect that this run verifies.
    verifies: Option<Effecting>,
}
