//! All servers of one run, as the driver cares for them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use salve_core::agent::server_brief;
use salve_core::check::CheckBrief;
use salve_core::event::{
    Actor, EffectReport, Entry, Event, IncidentEvent, PersonOrder, RepairMode, ResourceLimits,
    ServerEvent, ServerOrder,
};
use salve_core::id::IncidentId;
use salve_core::incident::{DueEffect, Incident, Phase};
use salve_core::playbook::{Diagnosis, Nature};
use salve_core::scrub::Scrubbed;
use salve_core::watch::SelfReload;
use signal_hook::consts::SIGQUIT;

use super::address::look_for_addresses;
use super::awaiting::AwaitingWatch;
use super::crash_log::{self, CrashLog};
use super::crash_log_writer::{CrashLogWriter, PendingCrashLog};
use super::life::{ServerCare, place};
use super::lock_wait::LOCK_LOOK;
use super::unrecorded::{UnrecordedEnd, UnrecordedServers, runs_any};
use super::{
    AfterEnd, CaredServer, Held, ProcessState, ServerNews, ServerPlan, ServerRun, ServerTerms,
    StartCause, lock, output_watch,
};
use crate::file_watch::FileWatch;
use crate::heal::cause::FailurePlace;
use crate::heal::failure_log::FailureLog;
use crate::heal::files::failed;
use crate::heal::inbox::{Inbox, InboxMessage, NewsQueue, NewsSender};
use crate::heal::remedies::RemedyWay;
use crate::heal::right::{NotGiven, RunLock, RunRight};
use crate::heal::run_environment::{EnvironmentChange, RunEnvironment};
use crate::heal::{
    AgentManner, Case, OpeningTerms, Presence, Resorts, RunBase, RunEnd, SubjectContext, Subjects,
};
use crate::process::{Capture, Terminal};
use crate::store::{StoreError, Stream};

/// How many starts of servers one looks back.
const STARTS: usize = 800;

/// How long a repair's record is awaited when everything ends.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How a run of servers came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServersEnd {
    /// All of them ended by themselves, as they should.
    Clean,
    /// The user wanted it, by this signal.
    Stopped(i32),
    /// A person has to decide, and nobody is at the terminal.
    NeedsPerson,
}

/// The servers of one run.
pub struct Servers {
    pub(super) all: Vec<CaredServer>,
    shared: ServersShare,
    pub(super) news: NewsQueue<ServerNews>,
    terms: ServerTerms,
    logs: CrashLogWriter,
    /// The watch over the project's files, where it may help.
    pub(super) files: Option<FileWatch>,
    /// Whether old crash logs were removed.
    is_tidy: bool,
    /// Whether everything ends.
    is_ending: bool,
    end: ServersEnd,
}

/// What all servers of a run share.
pub(super) struct ServersShare {
    /// The mark of this run.
    pub(super) run: Scrubbed,
    pub(super) news: NewsSender<ServerNews>,
}

impl Servers {
    /// Makes a run without servers, with its mark and the terms of their incidents.
    pub fn new(run: Scrubbed, terms: ServerTerms, inbox: &Inbox) -> Self {
        let news = NewsQueue::new(inbox.sender());
        let shared = ServersShare { run, news: news.sender() };
        let (logs, end) = (CrashLogWriter::default(), ServersEnd::Clean);
        let (is_tidy, is_ending) = (false, false);
        let files = None;
        Self { all: Vec::new(), shared, news, terms, logs, files, is_tidy, is_ending, end }
    }

    /// Returns the way by which the servers hear of things.
    pub fn news(&self) -> NewsSender<ServerNews> {
        self.news.sender()
    }

    /// Adds a server.
    ///
    /// # Errors
    ///
    /// When another run of Salve cares for it.
    pub fn add(
        &mut self,
        plan: ServerPlan,
        capture: Arc<Capture>,
        base: &RunBase<'_>,
    ) -> Result<(), NotGiven> {
        let held = RunLock::take(&base.project, RunRight::Server(&plan.name), &base.writer.me)?;
        self.all.push(CaredServer {
            environment: RunEnvironment::new(&plan.env),
            plan,
            capture,
            state: ProcessState::Down,
            held: Held::No,
            generation: 0,
            crashed_after: None,
            started_by: base.by.clone(),
            waits: true,
            disturbed: Vec::new(),
            skipped: false,
            ended_well: false,
            last_run: None,
            told_to_quit: None,
            has_answered: false,
            speaks_http: false,
            was_restarted_ill: false,
            cause: StartCause::Wanted,
            stirred: None,
            changed_meanwhile: Vec::new(),
            left_ports: Vec::new(),
            own_writes: HashSet::new(),
            awaiting: None,
            awaits_lock: None,
            _lock: held,
        });
        Ok(())
    }

    /// Runs the servers until all is over.
    pub fn run(&mut self, base: &mut RunBase<'_>) -> Result<ServersEnd, StoreError> {
        let name = self.all.first().map(|server| server.plan.name.clone()).unwrap_or_default();
        let root = base.project.root().to_path_buf();
        let stale = lock::clear_stale(&root, &base.writer.scrubber).ok().flatten();
        if let Some(holder) = stale {
            base.note(&name, &format!("removed a stale repair lock of process {}", holder.pid));
        }
        for path in crate::playbook::give_back(&root, &base.writer.scrubber) {
            let text = format!("gave back {path}, which an interrupted repair had moved away");
            base.note(&name, &text);
        }
        let mut times = 0;
        let end = loop {
            match base.care_for(self) {
                Err(error) if runs_any(self) && !self.is_ending => {
                    times += 1;
                    match UnrecordedServers(self).run(&error, times, base) {
                        UnrecordedEnd::Over => {}
                        UnrecordedEnd::Stopped(signal) => break Ok(RunEnd::Stopped(signal)),
                        UnrecordedEnd::NothingRuns => break Err(error),
                    }
                }
                end => break end,
            }
        };
        // Whoever comes next finds a lock of a dead process at worst.
        let _ = lock::let_go(&root, &base.writer.me, &base.writer.scrubber);
        self.logs.wait(LAST_WORDS);
        for server in &self.all {
            server.wait_for_output();
        }
        Ok(match end? {
            RunEnd::Stopped(signal) => ServersEnd::Stopped(signal),
            RunEnd::Over => self.end,
        })
    }

    /// Returns one server with what it may use.
    pub(super) fn one<'s, 'c, 'a>(
        &'s mut self,
        at: usize,
        context: &'s mut SubjectContext<'c, 'a>,
    ) -> ServerCare<'s, 'c, 'a> {
        ServerCare { server: &mut self.all[at], at, shared: &self.shared, context }
    }

    /// Starts a server that is to start, once those it depends on are well.
    fn start_if_ready(
        &mut self,
        at: usize,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        let server = &self.all[at];
        if !server.waits || !matches!(server.state, ProcessState::Down) || !may_start(at, context) {
            return Ok(());
        }
        let is_well = |name: &String| {
            self.all
                .iter()
                .filter(|other| other.plan.name == *name)
                .all(|other| matches!(&other.state, ProcessState::Up(life) if life.watch.is_well()))
        };
        if !server.plan.depends_on.iter().all(is_well) {
            return Ok(());
        }
        self.one(at, context).start(None)
    }

    /// Does what somebody wants of a server.
    fn ordered(
        &mut self,
        at: usize,
        order: ServerOrder,
        by: &Actor,
        context: &mut SubjectContext<'_, '_>,
    ) {
        let person = by.person().map(|_| by.clone());
        let server = &mut self.all[at];
        let is_up = matches!(server.state, ProcessState::Up(_));
        match order {
            ServerOrder::Stop => {
                server.held = Held::ByOrder;
                server.waits = false;
                if let Some(person) = person {
                    let order =
                        Event::Incident(IncidentEvent::Ordered { order: PersonOrder::Abort });
                    context.say_as(at, person, vec![order]);
                }
                if is_up {
                    self.one(at, context).clear(AfterEnd::Stopped);
                }
            }
            ServerOrder::Start | ServerOrder::Restart if !may_start(at, context) => {
                // Whatever becomes of the repair, the server is started.
                server.held = Held::No;
                server.waits = !is_up;
                server.started_by = person;
                context.note(at, "a repair is going on; the server starts with it, or after it");
            }
            ServerOrder::Start if is_up => {}
            ServerOrder::Start | ServerOrder::Restart => {
                server.held = Held::No;
                server.skipped = false;
                server.started_by = person;
                server.cause = StartCause::Wanted;
                if is_up {
                    self.one(at, context).clear(AfterEnd::Restart);
                } else {
                    server.waits = true;
                }
            }
        }
    }

    /// Does something to every server that runs.
    pub(super) fn each_up(&self, act: impl Fn(&ServerRun)) {
        for server in &self.all {
            if let ProcessState::Up(life) = &server.state {
                act(life);
            }
        }
    }

    /// Returns the run of a server that waits for keys, unless a person is asked something: then
    /// the keys are the answer.
    fn hearer(&self, context: &SubjectContext<'_, '_>) -> Option<&ServerRun> {
        let asks = |incident: &Incident| {
            matches!(incident.phase(), Phase::Asking { .. } | Phase::CoolingDown { .. })
        };
        if context.cases.iter().flat_map(Case::incidents).any(asks) {
            return None;
        }
        self.all.iter().find_map(|server| match &server.state {
            ProcessState::Up(life) => {
                let family = context.base.care.families(std::slice::from_ref(&life.running));
                life.running.hears_keys(&family.concat()).then_some(&**life)
            }
            ProcessState::Down | ProcessState::Clearing(_) => None,
        })
    }

    /// Passes a signal on to the servers that run; who quits while none does ends Salve.
    fn pass_on(&mut self, signal: i32, context: &SubjectContext<'_, '_>) {
        self.each_up(|life| life.running.signal(signal));
        if signal != SIGQUIT {
            return;
        }
        let up = |server: &&mut CaredServer| matches!(server.state, ProcessState::Up(_));
        let mut is_heard = false;
        for server in self.all.iter_mut().filter(up) {
            server.told_to_quit = Some(Instant::now());
            is_heard = true;
        }
        if !is_heard {
            // It ends already where nobody hears it.
            let _ = context.base.inbox.sender().send(InboxMessage::Stop(signal));
        }
    }

    /// Gives the servers' terminals another size, now and at their next start.
    pub(super) fn resize(&mut self, rows: u16, cols: u16) {
        self.each_up(|life| life.running.resize(rows, cols));
        for server in &mut self.all {
            match &mut server.plan.terminal {
                Terminal::Pipes => {}
                terminal @ Terminal::Pty { .. } => *terminal = Terminal::Pty { rows, cols },
                terminal @ Terminal::Keyboard { .. } => {
                    *terminal = Terminal::Keyboard { rows, cols };
                }
            }
        }
    }

    /// Returns whether nothing goes on for a server until a person does something.
    fn waits_for_person(case: &Case) -> bool {
        let Some(incident) = case.incident() else { return false };
        match incident.phase() {
            // Nothing is tried meanwhile, and what follows is a question.
            Phase::CoolingDown { .. } => true,
            Phase::Asking { .. } => case.asks(),
            Phase::Choosing
            | Phase::Due { .. }
            | Phase::Doing { .. }
            | Phase::Ending { .. }
            | Phase::Closed(_) => false,
        }
    }

    /// Returns whether a server leaves nothing to care for.
    fn is_settled(&self, at: usize, case: &Case) -> bool {
        let server = &self.all[at];
        match case.incident().map(Incident::phase) {
            None => !server.waits && server.held == Held::No && server.awaits_lock.is_none(),
            Some(Phase::Closed(_)) => true,
            // What ended by itself cannot relapse.
            Some(Phase::Ending { .. }) => server.ended_well,
            Some(_) => Self::waits_for_person(case),
        }
    }
}

impl Subjects for Servers {
    fn names(&self) -> Vec<String> {
        self.all.iter().map(|server| server.plan.name.clone()).collect()
    }

    fn opening(&self, at: usize, base: &RunBase<'_>) -> OpeningTerms {
        let subject = self.all[at].plan.subject(&base.writer.scrubber);
        OpeningTerms {
            subject,
            policy: self.terms.policy(&base.terms),
            left: ResourceLimits::default(),
        }
    }

    fn place(&self, at: usize, base: &RunBase<'_>) -> FailurePlace {
        place(&self.all[at].plan, &self.shared, base)
    }

    fn command(&self, at: usize) -> Scrubbed {
        self.all[at].plan.command.clone()
    }

    fn may_run_again(&self, at: usize, _: &Case, base: &RunBase<'_>) -> bool {
        let server = &self.all[at];
        match &server.state {
            // One that is ill and reloads by itself needs no restart; any other has one. One that is
            // well by now needs none either.
            ProcessState::Up(life) => {
                let is_ill = life.watch.is_ill() && life.reload == SelfReload::Unknown;
                // One that does not listen yet may still get there, and would begin anew.
                is_ill && !server.was_restarted_ill && !life.never_listened
            }
            // Where somebody is there, what is missing is waited for; else it is tried as often as
            // it may be before Salve ends.
            ProcessState::Down | ProcessState::Clearing(_) => {
                base.presence == Presence::Unattended
                    || !server.awaiting.as_ref().is_some_and(AwaitingWatch::needs_service)
            }
        }
    }

    fn resorts(&self, _: usize, _: &Case, diagnosis: &Diagnosis, base: &RunBase<'_>) -> Resorts {
        // Where a rule knows the failure, it says whether running it again can help.
        let own = match (diagnosis.nature, base.terms.mode) {
            (Nature::Unknown, RepairMode::Legacy) => vec![RemedyWay::Again],
            (Nature::Unknown | Nature::Transient | Nature::Code | Nature::Infrastructure, _) => {
                Vec::new()
            }
        };
        Resorts { again: "restart", own }
    }

    fn takes_variables(&self) -> bool {
        true
    }

    fn set_variables(&mut self, at: usize, change: EnvironmentChange<'_>) {
        let server = &mut self.all[at];
        server.plan.env = server.environment.change(change);
    }

    fn brief(&self, _: usize, brief: &CheckBrief) -> String {
        server_brief(brief)
    }

    fn verify(
        &mut self,
        at: usize,
        effect: DueEffect,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        if let ProcessState::Up(life) = &self.all[at].state {
            self.all[at].was_restarted_ill |= life.watch.is_ill();
        }
        match &mut self.all[at].state {
            ProcessState::Down => return self.one(at, context).start(Some(effect)),
            ProcessState::Up(_) => self.one(at, context).clear(AfterEnd::Verify(effect)),
            ProcessState::Clearing(then) => *then = AfterEnd::Verify(effect),
        }
        Ok(())
    }

    fn closed(&mut self, _: usize, _: &Incident, _: &mut SubjectContext<'_, '_>) {}

    fn tend(
        &mut self,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<Option<Instant>, StoreError> {
        if !std::mem::replace(&mut self.is_tidy, true) {
            let open = context.cases.iter().flat_map(Case::incidents).map(Incident::id);
            let open: Vec<IncidentId> = open.collect();
            let root = context.base.project.root();
            crash_log::tidy(root, context.base.terms.kept, &open, SystemTime::now());
        }
        let mut until: Vec<Instant> = Vec::new();
        if !self.is_ending {
            for at in 0..self.all.len() {
                self.start_if_ready(at, context)?;
                self.start_if_stirred(at, context)?;
            }
            until.extend(self.look_at_lock(context)?);
            self.watch_files(context);
        }
        look_for_addresses(self, context)?;
        for at in 0..self.all.len() {
            let mut one = self.one(at, context);
            one.settle_if_well();
            until.extend(output_watch::read(&mut one));
            until.extend(one.watch_over()?);
        }
        Ok(until.into_iter().min())
    }

    fn hear(&mut self, context: &mut SubjectContext<'_, '_>) -> Result<(), StoreError> {
        let Some(news) = self.news.next() else { return Ok(()) };
        match news {
            ServerNews::Of { server, generation, what } => {
                let is_current =
                    self.all.get(server).is_some_and(|one| one.generation == generation);
                // What is of a run that is over says nothing any more.
                if is_current { self.one(server, context).hear(what) } else { Ok(()) }
            }
            ServerNews::Resized { rows, cols } => {
                self.resize(rows, cols);
                Ok(())
            }
            ServerNews::Typed(keys) => {
                self.each_up(|life| life.running.type_in(&keys));
                Ok(())
            }
            ServerNews::TypedFor { keys, otherwise } => {
                match self.hearer(context) {
                    Some(life) => life.running.type_in(&keys),
                    // Nobody is left to hear it when the run is over.
                    None => drop(otherwise.send(keys)),
                }
                Ok(())
            }
            ServerNews::Signal(signal) => {
                self.pass_on(signal, context);
                Ok(())
            }
            ServerNews::FilesChanged(changed) => {
                self.files_changed(changed, context);
                Ok(())
            }
        }
    }

    fn stop(&mut self, signal: i32, context: &mut SubjectContext<'_, '_>) {
        self.is_ending = true;
        for at in 0..self.all.len() {
            match &mut self.all[at].state {
                ProcessState::Down => {}
                ProcessState::Up(_) => self.one(at, context).interrupt(signal),
                // What was to start again no longer is.
                ProcessState::Clearing(then) => *then = AfterEnd::Stopped,
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.all.iter().all(|server| matches!(server.state, ProcessState::Down))
    }

    fn is_over(&mut self, cases: &[Case], base: &RunBase<'_>) -> bool {
        if !cases.iter().enumerate().all(|(at, case)| self.is_settled(at, case)) {
            return false;
        }
        let needs = cases.iter().enumerate().any(|(at, case)| {
            let server = &self.all[at];
            !server.ended_well && (Self::waits_for_person(case) || server.skipped)
        });
        self.end = if needs { ServersEnd::NeedsPerson } else { ServersEnd::Clean };
        !(needs && base.presence == Presence::Attended)
    }

    fn agent_manner(&self) -> AgentManner {
        AgentManner::ListenersFirst
    }

    fn has_many_incidents(&self) -> bool {
        true
    }

    fn may_repair(&mut self, at: usize, id: IncidentId, base: &mut RunBase<'_>) -> bool {
        let taken = lock::take(base.project.root(), id, &base.writer.me, &base.writer.scrubber);
        let name = &self.all[at].plan.name.clone();
        match taken {
            Ok(lock::FoundLock::Ours) => {}
            Ok(lock::FoundLock::AfterTheDead(holder)) => {
                base.note(name, &format!("removed a stale repair lock of process {}", holder.pid));
            }
            Ok(lock::FoundLock::AfterRubbish(aside)) => {
                let text =
                    format!("the repair lock was unreadable; it is kept as {}", aside.display());
                base.note(name, &text);
            }
            Ok(lock::FoundLock::Held(holder)) => {
                let mut text = format!(
                    "process {} on {} is repairing this project (.dev-repair.lock)",
                    holder.pid, holder.host
                );
                // Of another machine's process nobody here sees the end.
                if holder.process(&base.writer.scrubber).host == base.writer.me.host {
                    text.push_str("; when that is over, this server has its turn");
                    self.all[at].awaits_lock = Some(Instant::now() + LOCK_LOOK);
                }
                base.note(name, &text);
                return false;
            }
            // The journal keeps two from repairing at once; the file only tells others.
            Err(error) => base.note(name, &format!("cannot write .dev-repair.lock: {error}")),
        }
        true
    }

    fn skipped(&mut self, at: usize) {
        self.all[at].skipped = true;
    }

    /// Ends an incident of something else that ran under the server's name: what runs now cannot
    /// be its relapse, nor prove its heal.
    fn resumed(
        &mut self,
        at: usize,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        let Some(id) = context.incident(at).map(Incident::id) else { return Ok(()) };
        // Others see by the lock that the repair goes on.
        self.may_repair(at, id, context.base);
        let server = &self.all[at];
        let Some(incident) = context.incident(at) else { return Ok(()) };
        let phase = incident.phase();
        if !is_of_another_command(&server.plan, incident, context.base)? {
            return Ok(());
        }
        match (phase, server.started_by.clone()) {
            // It was healed, and nobody can watch it any more.
            (Phase::Ending { .. }, _) => {
                context.say(at, vec![Event::Incident(IncidentEvent::Released {})]);
                let claimed = IncidentEvent::Claimed { instead_of: None };
                context.say(at, vec![Event::Incident(claimed)]);
            }
            (
                Phase::Choosing
                | Phase::Due { .. }
                | Phase::Doing { .. }
                | Phase::Asking { .. }
                | Phase::CoolingDown { .. }
                | Phase::Closed(_),
                Some(person),
            ) => {
                let order = IncidentEvent::Ordered { order: PersonOrder::Abort };
                context.say_as(at, person, vec![Event::Incident(order)]);
            }
            (_, None) => {}
        }
        Ok(())
    }

    fn restarted_by(&self, at: usize, _: &RunBase<'_>) -> Option<(Actor, &'static str)> {
        Some((self.all[at].started_by.clone()?, "started again by hand"))
    }

    /// Writes the crash log: at once where an agent is going to read it, else in passing.
    fn keep_evidence(&mut self, at: usize, log: FailureLog, context: &mut SubjectContext<'_, '_>) {
        let (root, log) = (context.base.project.root().to_path_buf(), CrashLog(log));
        match context.base.terms.mode {
            RepairMode::Agent => {
                if let Err(error) = log.write(&root) {
                    context.note(at, &format!("cannot write the crash log: {error}"));
                }
            }
            RepairMode::Legacy => {
                let inbox = context.base.inbox.sender();
                self.logs.add(PendingCrashLog { server: at, root, log, inbox });
            }
        }
    }

    fn release(&mut self, at: usize, context: &mut SubjectContext<'_, '_>) -> EffectReport {
        let is_at_work = |case: &Case| {
            let phase = case.incident().map(Incident::phase);
            matches!(phase, Some(Phase::Due { .. } | Phase::Doing { .. }))
        };
        let mut others = context.cases.iter().enumerate().filter(|(other, _)| *other != at);
        let is_last = !others.any(|(_, case)| is_at_work(case));
        let writer = &context.base.writer;
        match lock::let_go(context.base.project.root(), &writer.me, &writer.scrubber) {
            Err(error) if is_last => failed(&writer.scrubber, &error),
            Ok(()) | Err(_) => EffectReport::Done,
        }
    }

    fn heard(
        &mut self,
        entries: &[Entry],
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        for entry in entries {
            if entry.by.process() == Some(&context.base.writer.me) {
                continue;
            }
            if let Event::Server(ServerEvent::Ordered { server, order }) = &entry.event {
                let found = self.all.iter().position(|one| *server == one.plan.name.as_str());
                if let Some(at) = found {
                    self.ordered(at, *order, &entry.by, context);
                }
            }
        }
        Ok(())
    }
}

/// Returns whether the incident, if any, leaves starting a server to people.
fn may_start(at: usize, context: &SubjectContext<'_, '_>) -> bool {
    match context.incident(at).map(Incident::phase) {
        None
        | Some(
            Phase::Asking { .. }
            | Phase::CoolingDown { .. }
            | Phase::Ending { .. }
            | Phase::Closed(_),
        ) => true,
        Some(Phase::Choosing | Phase::Due { .. } | Phase::Doing { .. }) => false,
    }
}

/// Returns whether an incident is of something else that ran under the server's name.
fn is_of_another_command(
    plan: &ServerPlan,
    incident: &Incident,
    base: &RunBase<'_>,
) -> Result<bool, StoreError> {
    let starts = base.writer.store.journal().tail(&Stream::Servers, STARTS)?;
    let command = starts.iter().rev().find_map(|entry| match &entry.event {
        Event::Server(ServerEvent::Started { server, command, .. })
            if *server == plan.name.as_str() && entry.seq <= incident.last_seq() =>
        {
            Some(command)
        }
        _ => None,
    });
    Ok(command.is_some_and(|command| *command != plan.command))
}
