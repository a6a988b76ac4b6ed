//! One server's processes: started, probed, ended.

use std::time::{Duration, Instant};

use salve_core::class::Class;
use salve_core::event::{
    Digest, EffectReport, EffectStage, Event, IncidentEvent, ProcessExit, Proof, RemedyKind,
    ServerEvent,
};
use salve_core::fingerprint::Hints;
use salve_core::incident::{DueEffect, Trial};
use salve_core::scrub::Scrubbed;
use salve_core::watch::{
    Address, Due, ProbeAnswer, SelfReload, ServerSight, ServerTrouble, ServerWatch, Strictness,
    WatchTerms, WatchTurn,
};

use super::address::FIRST_LOOK;
use super::awaiting::AwaitingWatch;
use super::comeback::waits;
use super::installed::InstalledPackages;
use super::output_watch::{OutputWatch, found};
use super::probing::probe;
use super::servers::ServersShare;
use super::{
    AfterEnd, Ailing, CaredServer, Debugging, Ending, Failing, LifeNews, ProcessState, ServerNews,
    ServerPlan, ServerRun, Soak, Source, Stir,
};
use crate::heal::cause::{Evidence, FailurePlace};
use crate::heal::files::with_causes;
use crate::heal::{Case, Remark, RunBase, SeenFailure, SubjectContext, millis};
use crate::process::{ProcessEnd, Running, Spec};
use crate::store::StoreError;

/// How long a server may take to end once somebody quit it.
const QUITTING: Duration = Duration::from_secs(10);

/// One server, and what it may use while it is looked after.
pub(super) struct ServerCare<'s, 'c, 'a> {
    pub(super) server: &'s mut CaredServer,
    pub(super) at: usize,
    pub(super) shared: &'s ServersShare,
    pub(super) context: &'s mut SubjectContext<'c, 'a>,
}

impl ServerCare<'_, '_, '_> {
    /// Starts the server's process, to verify an effect if one is given.
    pub(super) fn start(&mut self, verifies: Option<DueEffect>) -> Result<(), StoreError> {
        let server = &mut *self.server;
        server.generation += 1;
        server.ended_well = false;
        server.waits = false;
        server.awaits_lock = None;
        server.forget_what_stirred(verifies);
        let has_incident = self.context.incident(self.at).is_some_and(waits);
        let news = self.shared.news_of(self.at, server.generation);
        let spec = spec_of(server);
        let then = Box::new(move |ended| news(LifeNews::Exited(ended)));
        let since = Instant::now();
        let base = &mut *self.context.base;
        let running = match base.care.spawn(&spec, then) {
            Ok(running) => running,
            Err(error) => {
                return self.never_started(&with_causes(&error), verifies);
            }
        };
        let (strictness, soak) = match verifies {
            Some(_) => (Strictness::Strict, Soak::Needed),
            None if has_incident => (Strictness::Lenient, Soak::Needed),
            None => (Strictness::Lenient, Soak::Spared),
        };
        let mut terms = server.plan.timing.terms(strictness, soak, server.crashed_after);
        if server.has_answered {
            // That it stays up tells nothing about a server that is known to answer.
            terms.survive_ms = terms.startup_ms;
        }
        let command = server.plan.command.clone();
        let started = Event::Server(ServerEvent::Started {
            server: base.writer.scrubber.scrub(&server.plan.name),
            process: running.process().clone(),
            command: command.clone(),
            run: self.shared.run.clone(),
        });
        let run = ServerRun::begin(running, since, terms, server.plan.url.clone());
        let soak = match soak {
            Soak::Needed => server.plan.timing.soak,
            Soak::Spared => Duration::ZERO,
        };
        server.state = ProcessState::Up(Box::new(ServerRun { verifies, soak, ..run }));
        match verifies {
            None => {
                base.writer.note(vec![started])?;
                if has_incident {
                    self.tell_tried_again()
                } else {
                    self.remark(&Remark::Started { command })
                }
            }
            Some(DueEffect { effect, .. }) => {
                let stage = EffectStage::HealthCheck;
                let checked = Event::Incident(IncidentEvent::Progressed { effect, stage });
                self.context.happened(self.at, vec![started, checked]);
            }
        }
        Ok(())
    }

    /// Looks at what is due for a server that runs, and returns when to look again.
    pub(super) fn watch_over(&mut self) -> Result<Option<Instant>, StoreError> {
        loop {
            let ProcessState::Up(life) = &mut self.server.state else { return Ok(None) };
            let now = millis(life.since.elapsed());
            match life.watch.due(now) {
                Due::Probe => {
                    life.asked_from = self.server.capture.written();
                    probe(self);
                }
                Due::At(time) if time <= now => {
                    let turn = life.watch.hear(now, ServerSight::Time);
                    self.turned(turn)?;
                }
                Due::At(time) => {
                    let due = life.since + Duration::from_millis(time);
                    return Ok(Some(life.look_at.map_or(due, |look| look.min(due))));
                }
                Due::Nothing => return Ok(life.look_at),
            }
        }
    }

    /// Takes in what happened to the present run.
    pub(super) fn hear(&mut self, news: LifeNews) -> Result<(), StoreError> {
        match news {
            LifeNews::Exited(ended) => self.exited(ended),
            LifeNews::Cleared(ending) => self.cleared(ending),
            LifeNews::Probed { answer, fault, status, took } => {
                let ProcessState::Up(life) = &mut self.server.state else { return Ok(()) };
                life.fault = fault;
                life.silent_since = match answer {
                    ProbeAnswer::Slow | ProbeAnswer::Silent | ProbeAnswer::Still => {
                        let asked = Instant::now().checked_sub(took);
                        life.silent_since.or(asked)
                    }
                    ProbeAnswer::Good
                    | ProbeAnswer::Bad
                    | ProbeAnswer::Nobody
                    | ProbeAnswer::Stranger => None,
                };
                life.is_slow =
                    answer == ProbeAnswer::Slow || took >= self.server.plan.timing.timeout;
                if answer == ProbeAnswer::Good {
                    life.good_until = self.server.capture.written();
                    life.status = status;
                    life.slowest = life.slowest.max(Some(took));
                    self.server.speaks_http |= status.is_some();
                }
                let turn =
                    life.watch.hear(millis(life.since.elapsed()), ServerSight::Answered(answer));
                if answer == ProbeAnswer::Slow {
                    self.tell_slow();
                }
                self.turned(turn)
            }
            LifeNews::Arrived { what } => {
                self.server.stirred = Some(Stir::Arrived(what));
                Ok(())
            }
            LifeNews::Read { found: broken } => {
                found(self, broken);
                Ok(())
            }
        }
    }

    /// Follows a turn that the server's run took.
    pub(super) fn turned(&mut self, turn: Option<WatchTurn>) -> Result<(), StoreError> {
        let ProcessState::Up(life) = &self.server.state else { return Ok(()) };
        match turn {
            // That it is being probed was told when it started.
            None | Some(WatchTurn::Checking) => Ok(()),
            Some(WatchTurn::Soaking) => {
                if let Some(DueEffect { effect, .. }) = life.verifies {
                    let stage = EffectStage::VerifyingFix;
                    let soaks = Event::Incident(IncidentEvent::Progressed { effect, stage });
                    self.context.say(self.at, vec![soaks]);
                }
                Ok(())
            }
            Some(WatchTurn::Well) => self.is_well(),
            Some(WatchTurn::Unwell(ailment)) => {
                let ailing = Ailing { ailment, fault: life.fault.clone() };
                self.is_unwell(ailing);
                Ok(())
            }
        }
    }

    /// Writes that the server is well, and tells the effect that waited for it.
    fn is_well(&mut self) -> Result<(), StoreError> {
        let ProcessState::Up(life) = &mut self.server.state else { return Ok(()) };
        let writer = &self.context.base.writer;
        let url = life.address.as_deref().map(|url| writer.scrubber.scrub(url));
        let verifies = life.verifies.take();
        let after = life.since.elapsed();
        let (status, was_ill, soak) = (life.status, life.was_ill, life.soak);
        let goes_on = life.debugging == Debugging::StandsStill;
        if goes_on {
            life.debugging = Debugging::GoesOn;
        }
        let (dir, root) = (&self.server.plan.dir, self.context.base.project.root());
        // It may be found well twice: without an address, then at one.
        life.installed = life.installed.take().or_else(|| InstalledPackages::look(dir, root));
        if life.address.is_some() {
            if life.source != Source::Seen {
                life.look_at = None;
            }
            self.server.has_answered = true;
            self.server.was_restarted_ill = false;
        }
        let server = writer.scrubber.scrub(&self.server.plan.name);
        writer.note(vec![Event::Server(ServerEvent::Up { server, url: url.clone() })])?;
        match verifies {
            Some(effect) => {
                self.remark(&Remark::Verified { url, soak });
                let proof = self.proof();
                let report = EffectReport::Verified { proof, symptom: None };
                self.context.finish(self.at, effect, report);
                self.settle_questions("well again after another repair");
            }
            None if self.context.incident(self.at).is_some_and(waits) => {
                life.was_ill = false;
                self.remark(&Remark::Verified { url, soak });
                self.tell_came_back();
            }
            // Nobody was told that it was unwell.
            None if goes_on => {}
            // Its incident is still being looked into; that it is well is told with its end.
            None if was_ill && self.context.incident(self.at).is_some() => {}
            None => self.remark(&Remark::Well { url, after, status }),
        }
        Ok(())
    }

    /// Returns what it proves that the server is well.
    fn proof(&self) -> Proof {
        let trial = self.context.cases.get(self.at).and_then(Case::trial);
        let unchanged = |trial: &Trial| {
            trial.remedy.kind == RemedyKind::Retry
                || trial.measured.is_some_and(|change| change.files == Some(0))
        };
        // Where nothing was changed, it would have passed by itself.
        if trial.is_none_or(unchanged) { Proof::Transient } else { Proof::Proven }
    }

    /// Settles the incidents that waited for a person, once the server is well without their help.
    pub(super) fn settle_questions(&mut self, note: &'static str) {
        if let Some(person) = self.server.started_by.clone() {
            self.context.settled(self.at, person, Scrubbed::literal(note));
        }
    }

    /// Goes on once nothing of the server is left.
    fn cleared(&mut self, ending: Ending) -> Result<(), StoreError> {
        let ProcessState::Clearing(then) =
            std::mem::replace(&mut self.server.state, ProcessState::Down)
        else {
            return Ok(());
        };
        self.tell_of_force(&then, ending.killed);
        let Ending { exit, tree, .. } = ending;
        match then {
            AfterEnd::Gone { ended, verifies } => self.gone(ended, tree, verifies),
            AfterEnd::Unwell { ailing, uptime, verifies } => {
                let exit = match ailing.ailment {
                    ServerTrouble::Hung => Some(ProcessExit::Hung),
                    ServerTrouble::NotListening
                    | ServerTrouble::Replaced
                    | ServerTrouble::Unhealthy
                    | ServerTrouble::Impaired => None,
                };
                let (ailing, unstarted) = (Some(ailing), None);
                self.failed(Failing { exit, uptime, ailing, unstarted, tree, verifies })
            }
            AfterEnd::Stopped => {
                self.stopped(exit)?;
                self.remark(&Remark::Stopped);
                Ok(())
            }
            AfterEnd::Restart => {
                self.stopped(exit)?;
                self.start(None)
            }
            AfterEnd::Verify(effect) => {
                self.stopped(exit)?;
                self.start(Some(effect))
            }
        }
    }

    /// Writes that the server is down because somebody wanted it.
    fn stopped(&self, exit: Option<ProcessExit>) -> Result<(), StoreError> {
        let Some(exit) = exit else { return Ok(()) };
        let writer = &self.context.base.writer;
        let server = writer.scrubber.scrub(&self.server.plan.name);
        writer.note(vec![Event::Server(ServerEvent::Stopped { server, exit })]).map(drop)
    }

    /// Takes in that the server has ended and nothing of it is left.
    pub(super) fn gone(
        &mut self,
        ended: ProcessEnd,
        tree: Option<Digest>,
        verifies: Option<DueEffect>,
    ) -> Result<(), StoreError> {
        let ProcessEnd { exit, uptime } = ended;
        let has_quit = self.server.told_to_quit.is_some_and(|told| told.elapsed() < QUITTING);
        if exit == ProcessExit::Code(0) || has_quit {
            self.server.ended_well = true;
            self.stopped(Some(exit.clone()))?;
            self.remark(&Remark::Ended { exit });
            if let Some(effect) = verifies {
                // A clean stop is no failure, so nothing more is tried; nor was it proven well.
                self.context.finish(self.at, effect, EffectReport::Done);
            }
            return Ok(());
        }
        let (exit, ailing, unstarted) = (Some(exit), None, None);
        self.failed(Failing { exit, uptime, ailing, unstarted, tree, verifies })
    }

    /// Takes in that the server could not even be started.
    fn never_started(&mut self, why: &str, verifies: Option<DueEffect>) -> Result<(), StoreError> {
        self.server.state = ProcessState::Down;
        let (exit, uptime) = (Some(ProcessExit::Code(127)), Duration::ZERO);
        let (ailing, unstarted, tree) = (None, Some(why.to_owned()), None);
        self.failed(Failing { exit, uptime, ailing, unstarted, tree, verifies })
    }

    /// Tells how the server failed.
    fn failed(&mut self, failing: Failing) -> Result<(), StoreError> {
        let evidence = self.examine(&failing);
        let Failing { exit, uptime, verifies, .. } = failing;
        self.server.crashed_after = Some(uptime);
        self.await_what_is_missing(evidence.output.as_str());
        let stopped = Event::Server(ServerEvent::Stopped {
            server: self.context.base.writer.scrubber.scrub(&self.server.plan.name),
            exit: exit.unwrap_or(ProcessExit::Hung),
        });
        let before = vec![stopped];
        if verifies.is_none() && self.starts_on_free_port(&evidence)? {
            return Ok(());
        }
        if verifies.is_none() && self.fails_as_before(&evidence) {
            // The question stands, and nothing was tried.
            let line = evidence.symptom.key_line.clone();
            let missing = self.server.awaiting.as_ref().map(AwaitingWatch::words);
            self.remark(&Remark::StillFails { line, missing });
            return self.context.base.writer.note(before).map(drop);
        }
        let (took, waiter) = (uptime, None);
        self.context.failed(self.at, SeenFailure { evidence, took, before, verifies, waiter });
        Ok(())
    }

    /// Finds out what a failure is.
    pub(super) fn examine(&self, failing: &Failing) -> Evidence {
        let gone = failing.ailing.as_ref().filter(|ailing| match ailing.ailment {
            ServerTrouble::Impaired => ailing.fault.is_some(),
            ServerTrouble::NotListening
            | ServerTrouble::Replaced
            | ServerTrouble::Hung
            | ServerTrouble::Unhealthy => false,
        });
        let mut output = match (&failing.unstarted, &self.server.state) {
            (Some(why), _) => why.clone(),
            // It was seen beside the server, which need not have written a word about it.
            (None, _) if gone.is_some() => String::new(),
            // What it wrote while it was well says nothing about its illness.
            (None, ProcessState::Up(life)) => self.said_of_illness(life),
            (None, ProcessState::Down | ProcessState::Clearing(_)) => self.server.capture.tail(),
        };
        if let Some(ailing) = &failing.ailing {
            output.push_str(&told(ailing, self.server.has_answered));
        }
        let base = &*self.context.base;
        let (exit, scrubber) = (failing.exit.as_ref(), &base.writer.scrubber);
        let mut found = Evidence::of(&output, exit, base.rules, scrubber);
        if exit.is_none() && failing.ailing.is_some() {
            // It runs, and these are its words about what is wrong since it last answered well.
            found.judged_as = ProcessExit::Code(1);
        }
        found.symptom.tree = failing.tree.filter(|_| self.is_telling(failing));
        found
    }

    /// Returns what a server that runs said of what is wrong with it: in answering the last look,
    /// since what it said before may be mended, else since it last answered well.
    fn said_of_illness(&self, life: &ServerRun) -> String {
        let capture = &self.server.capture;
        let last = capture.tail_since(life.asked_from);
        let rules = self.context.base.rules;
        match rules.fingerprint(&last, &Hints::default()).class {
            Class::Unknown => capture.tail_since(life.good_until),
            _ => last,
        }
    }

    /// Returns whether the files in which a failure came up tell something about progress: those
    /// that an agent did not touch do not.
    fn is_telling(&self, failing: &Failing) -> bool {
        let trial = self.context.cases.get(self.at).and_then(Case::trial);
        let changed = trial.and_then(|trial| trial.measured).map(|change| change.files != Some(0));
        failing.verifies.is_none() || changed == Some(true)
    }

    fn remark(&mut self, remark: &Remark) {
        self.context.base.reporter.remark(&self.server.plan.name, remark);
    }
}

/// Returns where a server runs, for a thread of its own.
pub(super) fn place(plan: &ServerPlan, shared: &ServersShare, base: &RunBase<'_>) -> FailurePlace {
    let (root, sandbox) = (base.project.root(), &base.remedies.sandbox);
    let place = FailurePlace::new(root, &plan.dir, &plan.argv, &plan.env, sandbox);
    FailurePlace { run: shared.run.as_str().parse().ok(), ..place }
}

/// Returns what is added to a server's last words when it had not ended by itself.
fn told(ailing: &Ailing, has_answered: bool) -> String {
    let what = match ailing.ailment {
        ServerTrouble::NotListening if has_answered => "the server listens no more",
        ServerTrouble::NotListening => "the server never began to listen",
        ServerTrouble::Replaced => "another process answers in the server's place",
        ServerTrouble::Hung => "the server listens and does not answer",
        ServerTrouble::Unhealthy => "the server does not answer as it should",
        ServerTrouble::Impaired => {
            // Without more its own words say it.
            return ailing.fault.clone().map_or_else(String::new, |fault| format!("{fault}\n"));
        }
    };
    let fault = ailing.fault.as_deref().unwrap_or("no answer");
    format!("\nsalve: {what} ({fault})\n")
}

/// Returns what is started when a server is.
fn spec_of(server: &CaredServer) -> Spec {
    let ServerPlan { argv, dir, env, name, terminal, .. } = &server.plan;
    Spec {
        argv: argv.clone(),
        dir: dir.clone(),
        env: env.clone(),
        server: name.clone(),
        terminal: *terminal,
        output: server.capture.clone(),
    }
}

impl ServerRun {
    /// Returns a run that has just begun, of a server that answers at `address` if that is known.
    fn begin(running: Running, since: Instant, terms: WatchTerms, address: Option<String>) -> Self {
        let known = if address.is_some() { Address::Known } else { Address::Unknown };
        Self {
            running,
            since,
            startup: Duration::from_millis(terms.startup_ms),
            watch: ServerWatch::new(terms, known),
            look_at: address.is_none().then(|| since + FIRST_LOOK),
            looked_after: 0,
            source: Source::Set,
            output: OutputWatch::new(since),
            installed: None,
            gone_told: false,
            is_slow: false,
            slowest: None,
            silent_since: None,
            slow_told: false,
            never_listened: false,
            was_ill: false,
            soak: Duration::ZERO,
            address,
            fault: None,
            good_until: 0,
            asked_from: 0,
            status: None,
            reload: SelfReload::Unknown,
            debugging: Debugging::NotSeen,
            verifies: None,
        }
    }
}

impl ServersShare {
    /// Returns a way to tell what happens to one run of a server.
    pub(super) fn news_of(&self, server: usize, generation: u64) -> impl Fn(LifeNews) + use<> {
        let sender = self.news.clone();
        move |what| {
            // Nobody is left to tell when the run is over.
            let _ = sender.send(ServerNews::Of { server, generation, what });
        }
    }
}
