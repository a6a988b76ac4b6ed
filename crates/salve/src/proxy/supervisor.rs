//! The life of the wrapped server: started, greeted, watched, and started again when it dies.

use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::pipe::PipeFlags;
use salve_core::event::ProcessExit;
use salve_core::tool::envelope::MessageId;

use super::crash::ProxyCrashLog;
use super::from_server::ServerPump;
use super::healing::CallHealing;
use super::link::{Happened, Link, ServerWire};
use super::wire::write_all;
use super::{OnNeed, ProxyPlan, ProxyTiming, words};
use crate::agent::vitals::Vitals;
use crate::heal::interruption::{Interruption, Patience};
use crate::process::{
    Capture, ProcessEnd, ProcessInput, Running, SpawnError, Spec, Supervisor, Terminal,
};

/// How much a server's pipes hold, if the system lets them.
const PIPE: usize = 256 << 10;
/// How long a server that was asked to end may take.
const GRACE: Duration = Duration::from_millis(1500);
/// How long the rest of a dead server's output is waited for.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How often a server may die before it has answered anything at all.
const FIRST_STARTS: u32 = 3;
/// How often in a row a server is started again without being wanted.
const UNASKED_RESTARTS: u32 = 5;

/// A server that was started, and has not been found dead.
#[derive(Debug)]
struct LivingServer {
    running: Running,
    /// What it reads, until the client may write to it.
    stdin: Option<OwnedFd>,
    /// Says when all that it wrote has been passed on.
    passed_on: Receiver<()>,
    since: Instant,
    watch: Option<HangWatch>,
}

/// A server that owes an answer and has been asked whether it lives.
#[derive(Debug)]
struct HangWatch {
    vitals: Vitals,
    ping: MessageId,
}

/// When the next thing is due by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// A look at whether the server hangs.
    Look,
    /// Its next start.
    Start(Instant),
    /// Its end, because the client has gone.
    Leave(Instant),
}

/// Starts the server, again and again, until the client has gone.
pub(super) struct ProxySupervisor {
    pub(super) plan: ProxyPlan,
    pub(super) care: Supervisor,
    pub(super) link: Arc<Link>,
    pub(super) capture: Arc<Capture>,
    pub(super) inbox: Receiver<Happened>,
    pub(super) healing: Arc<CallHealing>,
    crash_log: ProxyCrashLog,
    living: Option<LivingServer>,
    generation: u64,
    failures: u32,
    due: Due,
    /// When a server that is down may be started at the earliest.
    not_before: Option<Instant>,
    needed: Option<OnNeed>,
    /// Why the server is not there, as the client is told.
    reason: String,
}

/// What the supervisor is made of.
pub(super) struct ProxySupervisorParts {
    pub(super) plan: ProxyPlan,
    pub(super) care: Supervisor,
    pub(super) link: Arc<Link>,
    pub(super) capture: Arc<Capture>,
    pub(super) inbox: Receiver<Happened>,
    pub(super) healing: Arc<CallHealing>,
}

impl ProxySupervisor {
    pub(super) fn new(parts: ProxySupervisorParts) -> Self {
        let ProxySupervisorParts { plan, care, link, capture, inbox, healing } = parts;
        let crash_log = ProxyCrashLog::new(plan.name.clone());
        Self {
            plan,
            care,
            link,
            capture,
            inbox,
            healing,
            crash_log,
            living: None,
            generation: 0,
            failures: 0,
            due: Due::Look,
            not_before: None,
            needed: None,
            reason: String::new(),
        }
    }

    /// Starts the server for the first time.
    pub(super) fn start_first(&mut self) -> Result<(), SpawnError> {
        self.spawn()?;
        self.open_up();
        Ok(())
    }

    /// Supervises until the client has gone; returns how the program should end.
    pub(super) fn run(&mut self) -> ExitCode {
        loop {
            let left = self.time_left();
            let happened = match self.inbox.recv_timeout(left) {
                Ok(happened) => Some(happened),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(Happened::ClientLost),
            };
            let end = match happened {
                Some(happened) => self.take_in(happened),
                None => self.wake(),
            };
            if let Some(code) = end {
                return code;
            }
        }
    }

    /// Returns what is read only now, while the server itself is starting.
    fn needed(&mut self) -> &OnNeed {
        self.needed.get_or_insert_with(|| {
            let needed = (self.plan.on_need)();
            let mut session = self.link.session();
            session.declare(needed.tools.clone());
            session.limit(needed.limits.clone());
            drop(session);
            needed
        })
    }

    fn timing(&mut self) -> ProxyTiming {
        self.needed().timing
    }

    fn time_left(&mut self) -> Duration {
        match self.due {
            Due::Look => {
                let look = self.timing().hang / 8;
                let shortest = self.link.session().shortest_limit();
                shortest.map_or(look, |limit| look.min(Duration::from_millis(limit / 4 + 1)))
            }
            Due::Start(at) | Due::Leave(at) => at.saturating_duration_since(Instant::now()),
        }
    }

    fn take_in(&mut self, happened: Happened) -> Option<ExitCode> {
        let is_current = |generation| generation == self.generation && self.living.is_some();
        match happened {
            Happened::ServerEnded { generation } if is_current(generation) => self.bury(),
            Happened::OutputClosed { generation } if is_current(generation) => {
                // Most close their output by ending.
                if let Some(living) = &self.living {
                    living.running.wait(GRACE);
                }
                self.bury()
            }
            Happened::Greeted { generation } if is_current(generation) => {
                self.open_up();
                self.tell_lists();
                None
            }
            Happened::Wanted => {
                let is_down = self.living.is_none() && self.due == Due::Look;
                if is_down { self.start_or_refuse() } else { None }
            }
            Happened::Restart => self.restart(),
            Happened::ClientEnded => self.client_ended(),
            Happened::ClientLost => Some(self.end(ExitCode::SUCCESS)),
            Happened::Stop(signal) => {
                let code = u8::try_from(128 + signal).unwrap_or(u8::MAX);
                if let Some(living) = &self.living {
                    // As the server would hear it without Salve; what it leaves is ended below.
                    let _ = Interruption::within(signal, GRACE).hand_on(
                        &self.care,
                        &living.running,
                        |pause| {
                            std::thread::sleep(pause);
                            Patience::Left
                        },
                    );
                }
                Some(self.end(ExitCode::from(code)))
            }
            // Of a server that is gone.
            Happened::ServerEnded { .. }
            | Happened::OutputClosed { .. }
            | Happened::Greeted { .. } => None,
        }
    }

    fn wake(&mut self) -> Option<ExitCode> {
        match self.due {
            Due::Look => {
                self.refuse_overdue();
                self.time_out();
                if self.is_hung() { self.end_hung() } else { None }
            }
            Due::Start(_) => {
                self.due = Due::Look;
                self.start_again()
            }
            Due::Leave(_) => Some(self.end(ExitCode::SUCCESS)),
        }
    }

    fn spawn(&mut self) -> Result<(), SpawnError> {
        let pipe = || {
            let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
            // A smaller one does as well, only slower.
            let _ = rustix::pipe::fcntl_setpipe_size(&reader, PIPE);
            Ok((reader, writer))
        };
        let system = |source: rustix::io::Errno| SpawnError::System {
            program: self.plan.name.clone(),
            source: source.into(),
        };
        let (stdin, to_server) = pipe().map_err(system)?;
        let (from_server, stdout) = pipe().map_err(system)?;
        self.generation += 1;
        let generation = self.generation;
        let spec = Spec {
            argv: self.plan.argv.clone(),
            dir: self.plan.dir.clone(),
            env: Vec::new(),
            server: self.plan.name.clone(),
            terminal: Terminal::Pipes,
            output: Arc::clone(&self.capture),
        };
        let link = Arc::clone(&self.link);
        let then = Box::new(move |_: ProcessEnd| link.tell(Happened::ServerEnded { generation }));
        let running = self.care.spawn_with(&spec, ProcessInput::Wired { stdin, stdout }, then)?;
        let (tell, passed_on) = mpsc::channel();
        let (link, capture) = (Arc::clone(&self.link), Arc::clone(&self.capture));
        let healing = Arc::clone(&self.healing);
        let pump = ServerPump { link, capture, healing, generation };
        let work = move || {
            pump.run(from_server);
            drop(tell);
        };
        super::thread("salve-from-server", work)
            .map_err(|source| SpawnError::System { program: self.plan.name.clone(), source })?;
        self.link.hear();
        let (stdin, since) = (Some(to_server), Instant::now());
        self.living = Some(LivingServer { running, stdin, passed_on, since, watch: None });
        Ok(())
    }

    /// Lets the client write to the server, after all that waited for it.
    fn open_up(&mut self) {
        let Some(stdin) = self.living.as_mut().and_then(|living| living.stdin.take()) else {
            return;
        };
        let mut wire = self.link.server();
        let told = if self.generation == 1 { Vec::new() } else { self.link.session().settle_in() };
        if told.iter().all(|line| write_all(&stdin, line).is_ok()) {
            self.link.deliver_by(&stdin);
        }
        *wire = ServerWire::Up(stdin);
    }

    /// Tells the client to read the server's lists again: it may be another version by now.
    fn tell_lists(&self) {
        let lists = self.link.session().lists().to_vec();
        for list in lists {
            self.link.to_client(&words::list_changed(list));
        }
    }

    /// Clears up after a server that has ended, and decides what comes next.
    fn bury(&mut self) -> Option<ExitCode> {
        let living = self.living.take()?;
        *self.link.server() = ServerWire::Awaited;
        self.care.end(&living.running, Duration::ZERO);
        // What it still said counts as said.
        let _ = living.passed_on.recv_timeout(LAST_WORDS);
        let exit = living.running.ended().map_or(ProcessExit::Code(-1), |ended| ended.exit);
        if let Due::Leave(_) = self.due {
            return Some(ExitCode::from(exit.passed_on()));
        }
        self.failed(&words::ended(&exit), living.since.elapsed(), &exit)
    }

    /// Ends the server because a new one may do better, and starts that at once.
    fn restart(&mut self) -> Option<ExitCode> {
        let living = self.living.take()?;
        *self.link.server() = ServerWire::Awaited;
        self.care.end(&living.running, GRACE);
        let _ = living.passed_on.recv_timeout(LAST_WORDS);
        let left = self.link.session().server_ended();
        self.link.refuse(&left.refuse, "The server was started again to heal another call.");
        for id in &left.withdrawn {
            self.link.to_client(&words::withdrawal(id));
        }
        self.start_again()
    }

    /// Answers what cannot be sent again, and sets when the next start is.
    fn failed(&mut self, how: &str, uptime: Duration, exit: &ProcessExit) -> Option<ExitCode> {
        let left = self.link.session().server_ended();
        let scrubber = self.needed().scrubber.clone();
        self.reason = self.crash_log.record(how, &self.capture.tail(), &scrubber);
        for id in &left.withdrawn {
            self.link.to_client(&words::withdrawal(id));
        }
        let timing = self.timing();
        self.failures = if uptime >= timing.settled { 1 } else { self.failures + 1 };
        let has_answered = self.link.session().has_answered();
        if !has_answered && self.failures >= FIRST_STARTS {
            let refused = self.link.session().refuse_all();
            self.link.refuse(&left.refuse, &self.reason);
            self.link.refuse(&refused, &self.reason);
            self.say(format_args!("{how}, {FIRST_STARTS} times, and never answered"));
            return Some(ExitCode::from(exit.passed_on()));
        }
        let restarts = format!("{} It is being started again.", self.reason);
        self.link.refuse(&left.refuse, &restarts);
        let delay = timing.delay(self.failures);
        self.say(format_args!("{how}; started again in {} ms", delay.as_millis()));
        if self.failures > UNASKED_RESTARTS {
            self.due = Due::Look;
            self.go_down(delay);
        } else {
            self.due = Due::Start(Instant::now() + delay);
        }
        None
    }

    /// Waits until the server is wanted, and not before `delay` has passed.
    fn go_down(&mut self, delay: Duration) {
        self.not_before = Some(Instant::now() + delay);
        *self.link.server() = ServerWire::Down;
        let refused = self.link.session().refuse_all();
        self.link.refuse(&refused, &self.reason);
    }

    fn start_or_refuse(&mut self) -> Option<ExitCode> {
        if self.not_before.is_some_and(|at| Instant::now() < at) {
            let refused = self.link.session().refuse_all();
            self.link.refuse(&refused, &self.reason);
            return None;
        }
        *self.link.server() = ServerWire::Awaited;
        self.start_again()
    }

    fn start_again(&mut self) -> Option<ExitCode> {
        if let Err(error) = self.spawn() {
            let how = format!("cannot be started: {error}");
            return self.failed(&how, Duration::ZERO, &ProcessExit::Code(127));
        }
        let greeting = self.link.session().greet();
        let Some(greeting) = greeting else {
            self.open_up();
            return None;
        };
        let stdin = self.living.as_ref().and_then(|living| living.stdin.as_ref());
        // One that cannot even be written to has ended, which is noticed by itself.
        let _ = stdin.map(|stdin| write_all(stdin, &greeting));
        None
    }

    /// Answers what has waited too long for a server that is not there yet.
    fn refuse_overdue(&mut self) {
        let hold = self.timing().hold;
        let is_up = matches!(self.link.idle_server().as_deref(), None | Some(ServerWire::Up(_)));
        let longest = u64::try_from(hold.as_millis()).unwrap_or(u64::MAX);
        if !is_up {
            let since = self.link.now_ms().saturating_sub(longest);
            let refused = self.link.session().refuse_undelivered(since);
            self.link.refuse(&refused, &self.reason);
        }
    }

    /// Answers calls that take longer than the settings allow, and tells the server to stop.
    fn time_out(&self) {
        let overdue = self.link.session().take_overdue(self.link.now_ms());
        if overdue.is_empty() {
            return;
        }
        if let Some(wire) = self.link.idle_server()
            && let ServerWire::Up(stdin) = &*wire
        {
            for request in &overdue {
                // A server that cannot be written to stops anyway.
                let _ = write_all(stdin, &words::out_of_time(&request.id));
            }
        }
        self.link.refuse(&overdue, "The tool was not done within its time limit (timeout_ms).");
    }

    /// Looks whether the server owes an answer, does not say that it lives, and does nothing.
    fn is_hung(&mut self) -> bool {
        let hang = self.timing().hang;
        let Some(living) = &mut self.living else { return false };
        let silence = match self.link.silence() {
            Some(silence) if silence >= hang / 2 => silence,
            Some(_) | None => {
                living.watch = None;
                return false;
            }
        };
        let now = Instant::now();
        let Some(watch) = &mut living.watch else {
            let ping = MessageId::from_json(&format!("\"salve-{}\"", self.link.now_ms()));
            if let Some(wire) = self.link.idle_server()
                && let ServerWire::Up(fd) = &*wire
            {
                self.link.session().ask_for_self(ping.clone());
                let _ = write_all(fd, &words::ping(&ping));
            }
            let vitals = Vitals::new(living.running.process().pid, now);
            living.watch = Some(HangWatch { vitals, ping });
            return false;
        };
        let idle = watch.vitals.look(now);
        let has_answered = !self.link.session().waits_for_own(&watch.ping);
        !has_answered && silence >= hang && idle >= hang / 4
    }

    fn end_hung(&mut self) -> Option<ExitCode> {
        let living = self.living.take()?;
        *self.link.server() = ServerWire::Awaited;
        self.care.end(&living.running, GRACE);
        let _ = living.passed_on.recv_timeout(LAST_WORDS);
        let exit = ProcessExit::Hung;
        self.failed(&words::ended(&exit), living.since.elapsed(), &exit)
    }

    /// Lets the server finish what it is doing for a client that sends no more.
    fn client_ended(&mut self) -> Option<ExitCode> {
        let is_busy = self.link.session().is_waiting();
        *self.link.server() = ServerWire::Closed;
        if let Some(living) = &mut self.living {
            living.stdin = None;
        } else {
            return Some(ExitCode::SUCCESS);
        }
        let timing = self.timing();
        let leave = if is_busy { timing.finish } else { GRACE };
        self.due = Due::Leave(Instant::now() + leave);
        None
    }

    /// Ends the server and all that came from it.
    fn end(&mut self, code: ExitCode) -> ExitCode {
        if let Some(living) = self.living.take() {
            self.care.end(&living.running, GRACE);
        }
        code
    }

    /// Says something where the server's own complaints go.
    fn say(&self, what: std::fmt::Arguments<'_>) {
        self.capture.take_in(format!("salve: `{}` {what}\n", self.plan.name).as_bytes());
    }
}
