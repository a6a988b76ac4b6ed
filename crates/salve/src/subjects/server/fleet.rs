//! All servers of one run: one inbox, one loop.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant, SystemTime};

use salve_core::event::{Actor, Event, IncidentEvent};
use salve_core::fingerprint::Rules;
use salve_core::incident::Phase;
use salve_core::scrub::Scrubbed;

use super::repair::LAST_WORDS;
use super::scribing::Scribing;
use super::{
    Case, Face, Held, Input, Remark, RepairPlan, Server, ServerPlan, State, crash_log, lock,
};
use crate::heal::agents::Agents;
use crate::heal::right::{NotGiven, Right, RunLock};
use crate::heal::shelf::Shelf;
use crate::heal::{Desk, Presence};
use crate::process::thrift::Thrift;
use crate::process::{Capture, Care};
use crate::project::Project;
use crate::store::StoreError;

/// How a run of servers came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All of them ended by themselves, as they should.
    Clean,
    /// The user wanted it, by this signal.
    Stopped(i32),
    /// A person has to decide, and nobody is at the terminal.
    NeedsPerson,
}

/// Why a run of servers could not go on.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// Another run cares for one of the servers.
    #[error(transparent)]
    NotGiven(#[from] NotGiven),
    /// The journal could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Everything a run of servers works with.
pub struct Fleet<'a> {
    pub(super) project: Project,
    pub(super) root: PathBuf,
    pub(super) desk: Desk<'a>,
    pub(super) care: Care,
    pub(super) rules: &'a Rules,
    pub(super) shelf: Shelf<'a>,
    pub(super) repair: RepairPlan,
    pub(super) agents: Option<Agents<'a>>,
    pub(super) run: Scrubbed,
    pub(super) servers: Vec<Server>,
    pub(super) post: Sender<Input>,
    pub(super) face: &'a mut dyn Face,
    pub(super) scribing: Scribing,
    /// How often causes were looked into.
    pub(super) looks: u64,
    inbox: Receiver<Input>,
    presence: Presence,
    thrift: Thrift,
    pub(super) stopping: Option<Stopping>,
    /// Who paused healing.
    pub(super) paused: Option<Actor>,
}

/// How the user ends it all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stopping {
    pub(super) signal: i32,
    pub(super) since: Instant,
}

impl Stopping {
    /// Returns until when what is under way may take.
    fn deadline(&self) -> Instant {
        self.since + LAST_EFFECTS
    }
}

/// How long what is under way may take when everything ends.
const LAST_EFFECTS: Duration = Duration::from_secs(15);

/// What a fleet is made of.
pub struct Parts<'a> {
    /// The project.
    pub project: Project,
    /// Where incidents meet the journal.
    pub desk: Desk<'a>,
    /// What starts and ends processes.
    pub care: Care,
    /// What recognises failures.
    pub rules: &'a Rules,
    /// Where remedies are taken from.
    pub shelf: Shelf<'a>,
    /// How repairs go.
    pub repair: RepairPlan,
    /// What it takes to start agents, where they are.
    pub agents: Option<Agents<'a>>,
    /// The mark of this run.
    pub run: Scrubbed,
    /// Where everything arrives, and how to get there.
    pub inbox: (Sender<Input>, Receiver<Input>),
    /// Who is shown what happens.
    pub face: &'a mut dyn Face,
    /// Whether somebody is there.
    pub presence: Presence,
}

impl<'a> Fleet<'a> {
    /// Makes a fleet without servers.
    pub fn new(parts: Parts<'a>) -> Self {
        let Parts { project, desk, care, rules, shelf, repair, agents, run, inbox, face, presence } =
            parts;
        let (post, inbox) = inbox;
        Self {
            root: project.root().to_path_buf(),
            project,
            desk,
            care,
            rules,
            shelf,
            repair,
            agents,
            run,
            servers: Vec::new(),
            post,
            face,
            scribing: Scribing::default(),
            looks: 0,
            inbox,
            presence,
            thrift: Thrift::default(),
            stopping: None,
            paused: None,
        }
    }

    /// Adds a server; `by` is the person who wants it, if a person does.
    ///
    /// # Errors
    ///
    /// When another run of Salve cares for it.
    pub fn add(
        &mut self,
        plan: ServerPlan,
        capture: Arc<Capture>,
        by: Option<Actor>,
    ) -> Result<(), FleetError> {
        let held = RunLock::take(&self.project, Right::Server(&plan.name), &self.desk.me)?;
        self.servers.push(Server {
            plan,
            capture,
            state: State::Down,
            held: Held::No,
            generation: 0,
            incident: None,
            case: Case::default(),
            minder: None,
            busy: None,
            crashed_after: None,
            started_by: by,
            waits: true,
            disturbed: Vec::new(),
            skipped: false,
            ended_well: false,
            _lock: held,
        });
        Ok(())
    }

    /// Runs the servers until all is over.
    pub fn live(&mut self) -> Result<Ending, FleetError> {
        if let Some(holder) = lock::clear_stale(&self.root, &self.desk.scrubber).ok().flatten() {
            self.note(0, &format!("removed a stale repair lock of process {}", holder.pid));
        }
        self.give_back();
        for at in 0..self.servers.len() {
            self.resume(at)?;
        }
        let open: Vec<_> =
            self.servers.iter().filter_map(|server| Some(server.incident.as_ref()?.id())).collect();
        crash_log::tidy(&self.root, self.repair.logs_kept, &open, SystemTime::now());
        self.thrift.stir(Instant::now());
        let ending = loop {
            let until = self.tend()?;
            if let Some(ending) = self.is_over() {
                break ending;
            }
            match self.next_input(until) {
                Ok(input) => {
                    self.thrift.stir(Instant::now());
                    self.take(input)?;
                }
                Err(RecvTimeoutError::Timeout) => self.thrift.wake(Instant::now()),
                Err(RecvTimeoutError::Disconnected) => break Ending::Stopped(0),
            }
        };
        self.leave()?;
        Ok(ending)
    }

    /// Waits for what comes next, until it is time to look again.
    fn next_input(&self, until: Option<Instant>) -> Result<Input, RecvTimeoutError> {
        match until.into_iter().chain(self.thrift.due()).min() {
            Some(time) => self.inbox.recv_timeout(time.saturating_duration_since(Instant::now())),
            None => self.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    /// Does what is due for every server, and returns when to look again.
    fn tend(&mut self) -> Result<Option<Instant>, StoreError> {
        let mut until = self.stopping.as_ref().map(Stopping::deadline);
        for at in 0..self.servers.len() {
            if self.stopping.is_none() {
                if let Some(time) = self.drive(at)? {
                    let left = Duration::try_from(time.duration_since(self.desk.now()));
                    let time = Instant::now() + left.unwrap_or_default();
                    until = Some(until.map_or(time, |known| known.min(time)));
                }
                // An incident of the past may have ended just now.
                self.start_if_ready(at)?;
                if let Some(time) = self.tend_agent(at)? {
                    until = Some(until.map_or(time, |known| known.min(time)));
                }
            }
        }
        self.look_for_addresses()?;
        for at in 0..self.servers.len() {
            if let Some(time) = self.look_after(at)? {
                until = Some(until.map_or(time, |known| known.min(time)));
            }
        }
        Ok(until)
    }

    fn start_if_ready(&mut self, at: usize) -> Result<(), StoreError> {
        let server = &self.servers[at];
        if !server.waits || !matches!(server.state, State::Down) || !self.may_start(at) {
            return Ok(());
        }
        let is_well = |name: &String| {
            self.servers
                .iter()
                .filter(|other| other.plan.name == *name)
                .all(|other| matches!(&other.state, State::Up(life) if life.watch.is_well()))
        };
        if !server.plan.depends_on.iter().all(is_well) {
            return Ok(());
        }
        self.start(at, None)
    }

    fn take(&mut self, input: Input) -> Result<(), StoreError> {
        let current = |fleet: &Self, server: usize, generation: u64| {
            fleet.servers.get(server).is_some_and(|one| one.generation == generation)
        };
        match input {
            Input::Exited { server, generation, ended } if current(self, server, generation) => {
                self.exited(server, ended)
            }
            Input::Cleared { server, generation, exit, tree }
                if current(self, server, generation) =>
            {
                self.cleared(server, exit, tree)
            }
            Input::Probed { server, generation, answer, fault }
                if current(self, server, generation) =>
            {
                self.probed(server, answer, fault)
            }
            Input::Heeded { server, generation, remedy } if current(self, server, generation) => {
                self.heeded(server, remedy);
                Ok(())
            }
            // Of a run that is over.
            Input::Exited { .. }
            | Input::Cleared { .. }
            | Input::Probed { .. }
            | Input::Heeded { .. } => Ok(()),
            Input::Done { server, effect, report } => self.done(server, effect, report),
            Input::Agent { server, effect, event } => self.agent_told(server, effect, event),
            Input::Diagnosed { server, look, diagnosis } => {
                self.diagnosed(server, look, diagnosis);
                Ok(())
            }
            Input::Note { server, text } => {
                self.note(server, &text);
                Ok(())
            }
            Input::Journal(entries) => self.heard(&entries),
            Input::Resized { rows, cols } => {
                self.resize(rows, cols);
                Ok(())
            }
            Input::Typed(keys) => {
                self.each_up(|life| life.running.type_in(&keys));
                Ok(())
            }
            Input::Pause(person) => self.pause(&person),
            Input::Signal(signal) => {
                self.each_up(|life| life.running.signal(signal));
                Ok(())
            }
            Input::Stop(signal) => {
                self.stop(signal);
                Ok(())
            }
        }
    }

    /// Returns how it ended, if it has.
    fn is_over(&self) -> Option<Ending> {
        let is_down =
            |server: &Server| matches!(server.state, State::Down) && server.minder.is_none();
        let all_down = self.servers.iter().all(is_down);
        if !all_down {
            return None;
        }
        if let Some(stopping) = &self.stopping {
            // What a remedy moved away is given back first.
            let is_idle = self.servers.iter().all(|server| server.busy.is_none());
            let is_late = Instant::now() >= stopping.deadline();
            return (is_idle || is_late).then_some(Ending::Stopped(stopping.signal));
        }
        let idle = |at: usize| {
            let server = &self.servers[at];
            match &server.incident {
                None => !server.waits && server.held == Held::No,
                Some(incident) => match incident.phase() {
                    Phase::Closed(_) => true,
                    // What ended by itself cannot relapse.
                    Phase::Ending { .. } => server.ended_well,
                    Phase::Choosing
                    | Phase::Due { .. }
                    | Phase::Doing { .. }
                    | Phase::Asking { .. }
                    | Phase::CoolingDown { .. } => self.waits_for_person(at),
                },
            }
        };
        if !(0..self.servers.len()).all(idle) {
            return None;
        }
        let needs = (0..self.servers.len()).any(|at| {
            let server = &self.servers[at];
            !server.ended_well && (self.waits_for_person(at) || server.skipped)
        });
        match (needs, self.presence) {
            (true, Presence::Attended) => None,
            (true, Presence::Unattended) => Some(Ending::NeedsPerson),
            (false, _) => Some(Ending::Clean),
        }
    }

    /// Lets go of what is held, so that others may go on.
    fn leave(&mut self) -> Result<(), StoreError> {
        for at in 0..self.servers.len() {
            let owned = self.servers[at]
                .incident
                .as_ref()
                .is_some_and(|incident| incident.owner() == Some(&self.desk.me));
            if owned {
                self.say(at, vec![Event::Incident(IncidentEvent::Released {})])?;
            }
        }
        // Whoever comes next finds a lock of a dead process at worst.
        let _ = lock::let_go(&self.root, &self.desk.me, &self.desk.scrubber);
        self.scribing.wait(LAST_WORDS);
        Ok(())
    }

    pub(super) fn remark(&mut self, at: usize, remark: &Remark) {
        if let Some(server) = self.servers.get(at) {
            self.face.remark(&server.plan.name, remark);
        }
    }
}
