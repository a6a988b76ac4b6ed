//! The care of all processes that one worker starts.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::process::{Pid, PidfdFlags, Signal};
use salve_core::event::{Process, ProcessExit};
use uuid::Uuid;

use super::capture::{OutputPipe, Passed, Pump, WorkOutput};
use super::launch::{self, ProcessInput, SpawnError, Spec, Terminal};
use super::tree::{self, FoundProcess};
use super::{family, keyboard, lock, reaper};

/// Takes care of the servers and commands of one run of Salve.
///
/// Starting it makes this process the one that orphans fall to. Children belong to the process,
/// so several of them share one thread that waits and one table.
#[derive(Clone, Debug)]
pub struct Supervisor {
    run: Uuid,
    pub(super) shared: Arc<ChildrenShare>,
    is_ending: Arc<AtomicBool>,
    work: WorkOutput,
}

/// Why no care can be taken.
#[derive(Debug, thiserror::Error)]
#[error("cannot supervise processes on this system")]
pub struct SupervisorError(#[from] io::Error);

/// One process that was started, whether it still runs or not.
#[derive(Clone, Debug)]
pub struct Running {
    pub(super) life: Arc<ProcessLife>,
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessEnd {
    /// By which code or signal.
    pub exit: ProcessExit,
    /// How long it ran.
    pub uptime: Duration,
}

/// What ending a family took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndReport {
    /// How many processes were asked to end.
    pub asked: usize,
    /// How many had to be killed.
    pub killed: usize,
    /// Those that even that did not end: the system holds them.
    pub left: Vec<FoundProcess>,
}

/// What is called when a process has ended.
pub(super) type WhenEnded = Box<dyn FnOnce(ProcessEnd) + Send>;

/// What the caller's threads and the reaper share: all children of this process.
pub(super) struct ChildrenShare {
    pub(super) epoll: OwnedFd,
    pub(super) pump: Pump,
    pub(super) table: Mutex<ChildTable>,
}

/// Who is alive, and whose name was ever used.
#[derive(Default)]
pub(super) struct ChildTable {
    pub(super) alive: HashMap<u32, Alive>,
    /// Each server that was ever started.
    pub(super) origins: Vec<ServerOrigin>,
}

/// A process that has not been reaped.
pub(super) struct Alive {
    pub(super) life: Arc<ProcessLife>,
    pub(super) then: Option<WhenEnded>,
    pub(super) streams: Vec<Arc<OutputPipe>>,
}

/// A server, over all its restarts.
pub(super) struct ServerOrigin {
    pub(super) run: Uuid,
    pub(super) server: String,
    pub(super) brand: u64,
    /// The sessions its processes led; a number may come back only when all of it has gone.
    pub(super) sessions: Vec<u32>,
}

/// One process from its start to its end.
#[derive(Debug)]
pub(super) struct ProcessLife {
    pub(super) pid: Pid,
    pub(super) pidfd: OwnedFd,
    pub(super) process: Process,
    pub(super) server: String,
    /// The place of its server among the origins.
    pub(super) origin: usize,
    pub(super) since: Instant,
    /// What keeps its input open.
    pub(super) input: Mutex<Option<OwnedFd>>,
    pub(super) has_terminal: bool,
    /// The terminal that it only reads from.
    keyboard: Option<PathBuf>,
    pub(super) ended: Mutex<Option<ProcessEnd>>,
    pub(super) has_ended: Condvar,
    passed: Vec<Arc<Passed>>,
}

/// The care of all children of this process, as long as somebody takes it.
static SHARED: Mutex<Weak<ChildrenShare>> = Mutex::new(Weak::new());

/// Returns the care of all children of this process, if somebody takes it.
pub(super) fn shared() -> Option<Arc<ChildrenShare>> {
    lock(&SHARED).upgrade()
}

impl Supervisor {
    /// Makes this process the one that orphans fall to, and starts to wait for children.
    pub fn start(run: Uuid) -> Result<Supervisor, SupervisorError> {
        let mut known = lock(&SHARED);
        if let Some(shared) = known.upgrade() {
            return Ok(Supervisor {
                run,
                shared,
                is_ending: Arc::default(),
                work: WorkOutput::default(),
            });
        }
        let me = rustix::process::getpid();
        rustix::process::set_child_subreaper(Some(me)).map_err(io::Error::from)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io::Error::from)?;
        let shared = ChildrenShare { epoll, pump: Pump::start()?, table: Mutex::default() };
        let shared = Arc::new(shared);
        reaper::start(&shared)?;
        *known = Arc::downgrade(&shared);
        Ok(Supervisor { run, shared, is_ending: Arc::default(), work: WorkOutput::default() })
    }

    /// Returns it telling through `work` what the work under way writes.
    #[must_use]
    pub fn telling(self, work: WorkOutput) -> Supervisor {
        Supervisor { work, ..self }
    }

    /// Returns where it is told what the work under way writes.
    pub fn work(&self) -> &WorkOutput {
        &self.work
    }

    /// Starts a process in a session of its own.
    ///
    /// `then` is called once, on another thread, when the process has ended and been reaped, and
    /// its last output kept. It must not wait for anything: every other exit waits behind it.
    pub fn spawn(
        &self,
        spec: &Spec,
        then: Box<dyn FnOnce(ProcessEnd) + Send>,
    ) -> Result<Running, SpawnError> {
        self.spawn_with(spec, ProcessInput::Open, then)
    }

    /// Starts a process in a session of its own that reads what `input` says.
    pub(crate) fn spawn_with(
        &self,
        spec: &Spec,
        input: ProcessInput,
        then: WhenEnded,
    ) -> Result<Running, SpawnError> {
        if matches!(input, ProcessInput::Ended) && self.is_ending.load(Ordering::SeqCst) {
            return Err(SpawnError::Ending);
        }
        let (origin, brand) = self.origin(spec);
        spec.output.mark_start();
        let mut mains = reaper::mains();
        let launched = launch::launch(spec, input, self.run, brand)?;
        mains.insert(launched.pid.as_raw_nonzero().get().unsigned_abs());
        drop(mains);
        self.adopt(spec, origin, launched, then).map_err(|source| {
            let program = spec.argv.first().map(|word| word.to_string_lossy().into_owned());
            SpawnError::System { program: program.unwrap_or_default(), source }
        })
    }

    fn adopt(
        &self,
        spec: &Spec,
        origin: usize,
        launched: launch::LaunchedProcess,
        then: WhenEnded,
    ) -> io::Result<Running> {
        let pid = launched.pid;
        let raw = pid.as_raw_nonzero().get().unsigned_abs();
        let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
        let started = tree::stat(raw).map_or(0, |stat| stat.started);
        let process = Process { pid: raw, started, host: tree::host() };
        let life = Arc::new(ProcessLife {
            pid,
            pidfd,
            process,
            server: spec.server.clone(),
            origin,
            since: launched.since,
            input: Mutex::new(launched.input),
            has_terminal: match spec.terminal {
                Terminal::Pipes => false,
                Terminal::Keyboard { .. } | Terminal::Pty { .. } => true,
            },
            keyboard: launched.keyboard,
            ended: Mutex::default(),
            has_ended: Condvar::new(),
            passed: launched.streams.iter().map(|stream| stream.passed()).collect(),
        });
        for stream in &launched.streams {
            self.shared.pump.add(stream)?;
        }
        let alive = Alive { life: Arc::clone(&life), then: Some(then), streams: launched.streams };
        {
            let mut table = lock(&self.shared.table);
            if let Some(origin) = table.origins.get_mut(origin) {
                origin.sessions.push(raw);
            }
            table.alive.insert(raw, alive);
        }
        let key = epoll::EventData::new_u64(u64::from(raw));
        epoll::add(&self.shared.epoll, &life.pidfd, key, epoll::EventFlags::IN)?;
        Ok(Running { life })
    }

    /// Returns the place and the brand of a server, the same at every restart.
    fn origin(&self, spec: &Spec) -> (usize, u64) {
        let mut table = lock(&self.shared.table);
        let known = |origin: &ServerOrigin| {
            origin.run == self.run
                && origin.server == spec.server
                && launch::is_agents(origin.brand) == launch::starts_agent(spec)
        };
        if let Some(place) = table.origins.iter().position(known) {
            return (place, table.origins[place].brand);
        }
        let place = table.origins.len();
        let brand = launch::brand(self.run, spec, place + 1);
        let (run, server) = (self.run, spec.server.clone());
        table.origins.push(ServerOrigin { run, server, brand, sessions: Vec::new() });
        (place, brand)
    }

    /// Ends a process and all that came from it: asks, waits for `grace`, then kills.
    ///
    /// Returns when nothing of it is left. Of a process that has ended already, this ends what it
    /// left behind.
    pub fn end(&self, running: &Running, grace: Duration) -> EndReport {
        family::end(&self.shared, &running.life, grace)
    }

    /// Sends a signal to a process and to those of its group, as a terminal does.
    pub fn signal_group(&self, running: &Running, number: i32) {
        if let Some(signal) = Signal::from_named_raw(number) {
            family::signal_group(&self.shared, &running.life, signal);
        }
    }

    /// Returns whether a process lives that was sent a signal with its group, or whether one of the
    /// group outlived it that catches the signal.
    pub fn handles(&self, running: &Running, number: i32) -> bool {
        Signal::from_named_raw(number)
            .is_some_and(|signal| family::handles(&self.shared, &running.life, signal))
    }

    /// Returns the pids of all that lives of each of these servers, from one look at the system.
    pub fn families(&self, servers: &[Running]) -> Vec<Vec<u32>> {
        let Some(sight) = family::Sight::take() else { return vec![Vec::new(); servers.len()] };
        let pids = |running: &Running| {
            let members = family::members_in(&sight, &self.shared, &running.life);
            members.iter().map(|stat| stat.pid).collect()
        };
        servers.iter().map(pids).collect()
    }

    /// Ends all processes whose name `is_meant`, as [`Supervisor::end`] does, and lets no more commands
    /// begin: everything ends.
    pub fn wind_up(&self, is_meant: impl Fn(&str) -> bool, grace: Duration) {
        self.is_ending.store(true, Ordering::SeqCst);
        let lives: Vec<Arc<ProcessLife>> = {
            let table = lock(&self.shared.table);
            let meant = table.alive.values().filter(|alive| is_meant(&alive.life.server));
            meant.map(|alive| Arc::clone(&alive.life)).collect()
        };
        for life in lives {
            family::end(&self.shared, &life, grace);
        }
    }

    /// Returns what a process that has ended left behind, and that does not end within a moment.
    pub fn orphans(&self, running: &Running, moment: Duration) -> Vec<FoundProcess> {
        let deadline = Instant::now() + moment;
        loop {
            let left = self.leftovers(running);
            if left.is_empty() || Instant::now() >= deadline {
                return left;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns how many processes of that server live.
    pub(crate) fn count(&self, running: &Running) -> usize {
        family::members(&self.shared, &running.life).len()
    }

    /// Returns what lives of that server besides its main process.
    pub fn leftovers(&self, running: &Running) -> Vec<FoundProcess> {
        let members = family::members(&self.shared, &running.life);
        let main = running.life.process.pid;
        members.iter().filter(|stat| stat.pid != main).filter_map(tree::found).collect()
    }
}

impl Running {
    pub fn process(&self) -> &Process {
        &self.life.process
    }

    /// Returns how it ended, once it has.
    pub fn ended(&self) -> Option<ProcessEnd> {
        lock(&self.life.ended).clone()
    }

    /// Gives its terminal, if it has one, another size.
    pub fn resize(&self, rows: u16, cols: u16) {
        self.on_terminal(|terminal| {
            let size =
                rustix::termios::Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
            // It may be going away just now.
            let _ = rustix::termios::tcsetwinsize(terminal, size);
        });
    }

    /// Types into its terminal, if it has one; what it does not take is dropped.
    pub fn type_in(&self, keys: &[u8]) {
        self.on_terminal(|terminal| {
            let _ = rustix::io::write(terminal, keys);
        });
    }

    /// Returns whether one of these processes, which are of its family, waits for what is typed into
    /// its terminal.
    pub(crate) fn hears_keys(&self, family: &[u32]) -> bool {
        let Some(terminal) = &self.life.keyboard else { return false };
        family.iter().any(|pid| keyboard::waits_for_input(*pid, terminal))
    }

    fn on_terminal(&self, act: impl FnOnce(&OwnedFd)) {
        if let Some(terminal) = lock(&self.life.input).as_ref().filter(|_| self.life.has_terminal) {
            act(terminal);
        }
    }

    /// Waits until all that it wrote has been passed on, at most for `limit`; returns whether it
    /// has. There is an end to it only when nothing of its family is left.
    pub(crate) fn wait_for_output(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let left = || deadline.saturating_duration_since(Instant::now());
        self.life.passed.iter().all(|passed| passed.wait(left()))
    }

    /// Sends a signal to its main process.
    pub fn signal(&self, number: i32) {
        if let Some(signal) = Signal::from_named_raw(number) {
            // It may have ended just now.
            let _ = rustix::process::pidfd_send_signal(&self.life.pidfd, signal);
        }
    }

    /// Waits until it has ended, at most for `limit`.
    pub fn wait(&self, limit: Duration) -> Option<ProcessEnd> {
        self.life.wait(limit)
    }
}

impl ProcessLife {
    /// Waits until it has been reaped, at most for `limit`.
    pub(super) fn wait(&self, limit: Duration) -> Option<ProcessEnd> {
        let ended = lock(&self.ended);
        let waited = self.has_ended.wait_timeout_while(ended, limit, |ended| ended.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }
}

impl fmt::Debug for ChildrenShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}
