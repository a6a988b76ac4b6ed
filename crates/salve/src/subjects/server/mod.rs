//! Dev servers under care: started, watched, healed, ended.
//!
//! [`Servers`] are the subjects of one run. Their processes are looked after in `life`: everything
//! that happens to them (a process ended, a probe came back, somebody typed) arrives as
//! [`ServerNews`], and everything that takes time runs on a thread of its own. When a server is
//! well is decided by [`salve_core::watch`]; what is done when it is not is the driver's part.

mod address;
mod awaiting;
mod comeback;
mod crash_log;
mod crash_log_writer;
mod ending;
mod illness;
mod installed;
mod life;
mod lock;
mod lock_wait;
mod neighbour;
mod output_watch;
mod plan;
mod probing;
mod servers;
mod unrecorded;

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use salve_core::event::{Actor, Digest, ProcessExit};
use salve_core::incident::DueEffect;
use salve_core::watch::{ProbeAnswer, SelfReload, ServerTrouble, ServerWatch};

pub use lock::{cared_for, clear_stale};
pub use plan::{ServerPlan, ServerTerms, Soak, Timing};
pub use servers::{Servers, ServersEnd};

use self::awaiting::AwaitingWatch;
use self::installed::InstalledPackages;
use crate::heal::right::RunLock;
use crate::heal::run_environment::RunEnvironment;
use crate::process::{Capture, ProcessEnd, Running};

/// Something that happened to servers.
#[derive(Debug)]
pub enum ServerNews {
    /// Something happened to one run of one server.
    Of {
        server: usize,
        /// Which of its runs.
        generation: u64,
        /// What.
        what: LifeNews,
    },
    /// Our terminal has another size.
    Resized {
        /// Its height in lines.
        rows: u16,
        /// Its width in columns.
        cols: u16,
    },
    /// Something was typed for the servers that have a terminal.
    Typed(Vec<u8>),
    /// Something was typed for the server if it waits for keys and nobody is asked anything.
    TypedFor {
        /// What was typed.
        keys: Vec<u8>,
        /// Where it goes otherwise.
        otherwise: Sender<Vec<u8>>,
    },
    /// A signal that is meant for the servers.
    Signal(i32),
    /// Files of the project changed, or why that cannot be told.
    FilesChanged(Result<Vec<PathBuf>, String>),
}

/// Something that happened to one run of a server.
#[derive(Debug)]
pub enum LifeNews {
    /// Its process ended and was reaped.
    Exited(ProcessEnd),
    /// Nothing of its processes is left.
    Cleared(Ending),
    /// A probe came back.
    Probed {
        /// What it found.
        answer: ProbeAnswer,
        /// Why that is no good answer.
        fault: Option<String>,
        /// The status of a good one, if it has one.
        status: Option<u16>,
        /// How long it took to come.
        took: Duration,
    },
    /// Something that its failure named as missing is there.
    Arrived {
        /// What, in words.
        what: String,
    },
    /// What it wrote was read.
    Read {
        /// What is broken around it, if something is.
        found: Option<Impairment>,
    },
}

/// How a server's processes came to their end.
#[derive(Debug)]
pub struct Ending {
    /// How its main process ended, if there was one.
    exit: Option<ProcessExit>,
    /// How many of its processes had to be ended by force.
    killed: usize,
    /// What the project's files are then, where that matters.
    tree: Option<Digest>,
}

/// Something that is broken around a server that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impairment {
    /// What would put it right.
    remedy: Digest,
    /// Which of its packages are gone, in words, if that is what is broken.
    gone: Option<String>,
}

/// One server and all that is known of it.
struct CaredServer {
    plan: ServerPlan,
    environment: RunEnvironment,
    capture: Arc<Capture>,
    state: ProcessState,
    held: Held,
    generation: u64,
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
    /// Its last run that ended by itself: what it wrote may still be passed on.
    last_run: Option<Running>,
    /// When somebody quit it last, by a key or a signal.
    told_to_quit: Option<Instant>,
    /// Whether it is to start as soon as those it depends on are well.
    waits: bool,
    /// Whether an earlier run of it was found to answer somewhere.
    has_answered: bool,
    /// Whether any run of it answered in HTTP.
    speaks_http: bool,
    /// Whether it was restarted because it was ill, and has not been well since.
    was_restarted_ill: bool,
    /// Why it was started last.
    cause: StartCause,
    /// What changed since it was started last, if that may have mended it.
    stirred: Option<Stir>,
    /// Files that changed while it ran.
    changed_meanwhile: Vec<PathBuf>,
    /// The ports that it left to other worktrees of the repository.
    left_ports: Vec<u16>,
    /// Files that it seems to write itself.
    own_writes: HashSet<PathBuf>,
    /// What its last failure waits for.
    awaiting: Option<AwaitingWatch>,
    /// When to look again whether another Salve still repairs the project, if its failure waits for that.
    awaits_lock: Option<Instant>,
    _lock: RunLock,
}

/// What may have mended a server that waits for a person.
enum Stir {
    /// One of these files changed. Who changed it is found out when it matters: what a remedy wrote is
    /// known only once the remedy is over.
    Files(BTreeSet<PathBuf>),
    /// What it waited for is there, in words.
    Arrived(String),
}

/// Why a server was started.
#[derive(Clone, Debug, PartialEq, Eq)]
enum StartCause {
    /// Its run began, a person wanted it, or a remedy is verified.
    Wanted,
    /// What may have stood in its way has changed, in words.
    Changed(String),
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
enum ProcessState {
    /// None is.
    Down,
    /// It runs.
    Up(Box<ServerRun>),
    /// What is left of it is being ended.
    Clearing(AfterEnd),
}

/// What follows once nothing of a server is left.
enum AfterEnd {
    /// It ended by itself.
    Gone { ended: ProcessEnd, verifies: Option<DueEffect> },
    /// It was ended because it was unwell.
    Unwell { ailing: Ailing, uptime: Duration, verifies: Option<DueEffect> },
    /// It was ended because somebody wanted that.
    Stopped,
    /// It is to start again, as somebody wanted.
    Restart,
    /// It is to start again to verify a remedy.
    Verify(DueEffect),
}

/// What is wrong with a server that had not ended.
#[derive(Clone, Debug)]
struct Ailing {
    ailment: ServerTrouble,
    fault: Option<String>,
}

/// How a server failed.
struct Failing {
    exit: Option<ProcessExit>,
    uptime: Duration,
    /// What was wrong while it ran.
    ailing: Option<Ailing>,
    /// Why it could not even be started.
    unstarted: Option<String>,
    /// What the project's files were then, where that matters.
    tree: Option<Digest>,
    /// The effect that its run was to verify.
    verifies: Option<DueEffect>,
}

/// Whether somebody debugs a server, as far as that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Debugging {
    /// Nothing says so.
    NotSeen,
    /// It stands still in a debugger.
    StandsStill,
    /// It stood still in one and answers again.
    GoesOn,
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
struct ServerRun {
    running: Running,
    since: Instant,
    watch: ServerWatch,
    address: Option<String>,
    /// How that is known.
    source: Source,
    /// How long it may take until it answers.
    startup: Duration,
    /// When to look for an address again.
    look_at: Option<Instant>,
    /// How much it had written when it was looked at last.
    looked_after: u64,
    fault: Option<String>,
    /// How much had been written when it last answered well.
    good_until: u64,
    /// How much had been written when it was last asked.
    asked_from: u64,
    /// Its status at the last good answer.
    status: Option<u16>,
    /// Whether it reloads by itself, as far as that was looked at.
    reload: SelfReload,
    /// When what it writes is read.
    output: output_watch::OutputWatch,
    /// The packages that were there when it was found well.
    installed: Option<InstalledPackages>,
    /// Whether it was told that some of them are gone.
    gone_told: bool,
    /// Whether it takes longer to answer than others, so that it is given the time.
    is_slow: bool,
    /// Since when it has not answered at all.
    silent_since: Option<Instant>,
    /// The longest that a good answer of this run took.
    slowest: Option<Duration>,
    /// Whether it was told that it takes its time.
    slow_told: bool,
    /// Whether it was found in trouble because it has not begun to listen anywhere.
    never_listened: bool,
    /// How long it has to stay well before that counts.
    soak: Duration,
    /// Whether it was ill in this run, and nobody was told that it is well again.
    was_ill: bool,
    /// Whether somebody debugs it.
    debugging: Debugging,
    /// The effect that this run verifies.
    verifies: Option<DueEffect>,
}
