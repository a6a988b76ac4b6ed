//! One server's processes: started, probed, ended.

use std::time::{Duration, Instant};

use salve_core::event::{Digest, Event, Exit, IncidentEvent, Mode, Report, ServerEvent, Stage};
use salve_core::incident::Run as Effecting;
use salve_core::watch::{Address, Ailment, Answer, Due, Seen, Strictness, Turn, Watch};

use super::address::FIRST_LOOK;
use super::fleet::Fleet;
use super::heed::Heed;
use super::{Ailing, Failing, Input, Life, Remark, Server, ServerPlan, Source, State, Then};
use crate::heal::files::with_causes;
use crate::heal::{millis, spawn_thread};
use crate::process::{Ended, Spec};
use crate::store::StoreError;
use crate::workspace::Workspace;

impl Fleet<'_> {
    /// Starts a server's process, to verify an effect if one is given.
    pub(super) fn start(
        &mut self,
        at: usize,
        verifies: Option<Effecting>,
    ) -> Result<(), StoreError> {
        let server = &mut self.servers[at];
        server.generation += 1;
        server.ended_well = false;
        server.waits = false;
        let generation = server.generation;
        let spec = spec_of(server);
        let post = self.post.clone();
        let then = Box::new(move |ended| {
            // Nobody is left to tell when the fleet is gone.
            let _ = post.send(Input::Exited { server: at, generation, ended });
        });
        let since = Instant::now();
        let running = match self.care.spawn(&spec, then) {
            Ok(running) => running,
            Err(error) => return self.never_started(at, &with_causes(&error), verifies),
        };
        let strictness = match verifies {
            Some(_) => Strictness::Strict,
            None => Strictness::Lenient,
        };
        let terms = server.plan.timing.terms(strictness, server.crashed_after);
        let address = server.plan.url.clone();
        let known = if address.is_some() { Address::Known } else { Address::Unknown };
        let started = Event::Server(ServerEvent::Started {
            server: self.desk.scrubber.scrub(&server.plan.name),
            process: running.process().clone(),
            command: server.plan.command.clone(),
            run: self.run.clone(),
        });
        server.state = State::Up(Box::new(Life {
            running,
            since,
            watch: Watch::new(terms, known),
            look_at: address.is_none().then(|| since + FIRST_LOOK),
            source: Source::Set,
            heed: Heed::new(since),
            address,
            fault: None,
            verifies,
        }));
        let command = server.plan.command.clone();
        let Some(Effecting { effect, .. }) = verifies else {
            self.desk.note(vec![started])?;
            self.remark(at, &Remark::Started { command });
            return Ok(());
        };
        let checked =
            Event::Incident(IncidentEvent::Progressed { effect, stage: Stage::HealthCheck });
        self.insist(at, &[started, checked])
    }

    /// Looks at what is due for a server that runs, and returns when to look again.
    pub(super) fn look_after(&mut self, at: usize) -> Result<Option<Instant>, StoreError> {
        let heed = self.heed(at);
        let until = self.watch_over(at)?;
        Ok([heed, until].into_iter().flatten().min())
    }

    fn watch_over(&mut self, at: usize) -> Result<Option<Instant>, StoreError> {
        loop {
            let State::Up(life) = &mut self.servers[at].state else { return Ok(None) };
            let now = millis(life.since.elapsed());
            match life.watch.due(now) {
                Due::Probe => self.probe(at),
                Due::At(time) if time <= now => {
                    let turn = life.watch.hear(now, Seen::Time);
                    self.turned(at, turn)?;
                }
                Due::At(time) => {
                    let due = life.since + Duration::from_millis(time);
                    return Ok(Some(life.look_at.map_or(due, |look| look.min(due))));
                }
                Due::Nothing => return Ok(life.look_at),
            }
        }
    }

    /// Takes in what a probe found.
    pub(super) fn probed(
        &mut self,
        at: usize,
        answer: Answer,
        fault: Option<String>,
    ) -> Result<(), StoreError> {
        let State::Up(life) = &mut self.servers[at].state else { return Ok(()) };
        life.fault = fault;
        let turn = life.watch.hear(millis(life.since.elapsed()), Seen::Answered(answer));
        self.turned(at, turn)
    }

    /// Follows a turn that a server's run took.
    pub(super) fn turned(&mut self, at: usize, turn: Option<Turn>) -> Result<(), StoreError> {
        match turn {
            None => Ok(()),
            // That it is being probed was told when it started.
            Some(Turn::Checking) => Ok(()),
            Some(Turn::Soaking) => self.tell_stage(at, Stage::VerifyingFix),
            Some(Turn::Well) => self.is_well(at),
            Some(Turn::Unwell(ailment)) => {
                let State::Up(life) = &self.servers[at].state else { return Ok(()) };
                let ailing = Ailing { ailment, fault: life.fault.clone() };
                let (uptime, verifies) = (life.since.elapsed(), life.verifies);
                self.clear(at, Then::Unwell { ailing, uptime, verifies });
                Ok(())
            }
        }
    }

    /// Writes that a server is well, and tells the effect that waited for it.
    fn is_well(&mut self, at: usize) -> Result<(), StoreError> {
        let server = &mut self.servers[at];
        let State::Up(life) = &mut server.state else { return Ok(()) };
        let url = life.address.as_deref().map(|url| self.desk.scrubber.scrub(url));
        let verifies = life.verifies.take();
        let after = life.since.elapsed();
        life.look_at = None;
        let name = self.desk.scrubber.scrub(&server.plan.name);
        self.desk.note(vec![Event::Server(ServerEvent::Up { server: name, url: url.clone() })])?;
        match verifies {
            Some(effect) => {
                let soak = self.servers[at].plan.timing.soak;
                self.remark(at, &Remark::Verified { url, soak });
                self.verified(at, effect)
            }
            None => {
                self.remark(at, &Remark::Well { url, after });
                self.well_by_hand(at)
            }
        }
    }

    /// Ends whatever is left of a server, then goes on with `then`.
    pub(super) fn clear(&mut self, at: usize, then: Then) {
        let server = &mut self.servers[at];
        let generation = server.generation;
        let running = match std::mem::replace(&mut server.state, State::Clearing(then)) {
            State::Up(life) => Some(life.running),
            State::Down | State::Clearing(_) => None,
        };
        let (post, care, grace) = (self.post.clone(), self.care.clone(), server.plan.timing.stop);
        let project = (self.repair.mode == Mode::Agent).then(|| self.project.clone());
        spawn_thread("ending", move || {
            let exit = running.and_then(|running| {
                care.end(&running, grace);
                running.ended().map(|ended| ended.exit)
            });
            // A tree that cannot be read is unlike any other.
            let tree = project.and_then(|project| Workspace::open(&project).ok()?.tree().ok());
            let _ = post.send(Input::Cleared { server: at, generation, exit, tree });
        });
    }

    /// Takes in that a server's process ended by itself.
    pub(super) fn exited(&mut self, at: usize, ended: Ended) -> Result<(), StoreError> {
        let server = &mut self.servers[at];
        let State::Up(life) = &server.state else { return Ok(()) };
        let verifies = life.verifies;
        // What an agent does about it is judged by the files too, and reading them takes a while.
        let at_once = self.repair.mode == Mode::Legacy || ended.exit == Exit::Code(0);
        if at_once && self.care.leftovers(&life.running).is_empty() {
            server.state = State::Down;
            return self.gone(at, (ended, None), verifies);
        }
        self.clear(at, Then::Gone { ended, verifies });
        Ok(())
    }

    /// Goes on once nothing of a server is left.
    pub(super) fn cleared(
        &mut self,
        at: usize,
        exit: Option<Exit>,
        tree: Option<Digest>,
    ) -> Result<(), StoreError> {
        let server = &mut self.servers[at];
        let State::Clearing(then) = std::mem::replace(&mut server.state, State::Down) else {
            return Ok(());
        };
        match then {
            Then::Gone { ended, verifies } => self.gone(at, (ended, tree), verifies),
            Then::Unwell { ailing, uptime, verifies } => {
                let exit = match ailing.ailment {
                    Ailment::Hung => Some(Exit::Hung),
                    Ailment::NotListening
                    | Ailment::Replaced
                    | Ailment::Unhealthy
                    | Ailment::Impaired => None,
                };
                let ailing = Some(ailing);
                let unstarted = None;
                self.sickened(at, Failing { exit, uptime, ailing, unstarted, tree, verifies })
            }
            Then::Stopped => {
                self.stopped(at, exit)?;
                self.remark(at, &Remark::Stopped);
                Ok(())
            }
            Then::Restart => {
                self.stopped(at, exit)?;
                self.start(at, None)
            }
            Then::Verify(effect) => {
                self.stopped(at, exit)?;
                self.start(at, Some(effect))
            }
        }
    }

    /// Writes that a server is down because somebody wanted it.
    fn stopped(&self, at: usize, exit: Option<Exit>) -> Result<(), StoreError> {
        let Some(exit) = exit else { return Ok(()) };
        let server = self.desk.scrubber.scrub(&self.servers[at].plan.name);
        self.desk.note(vec![Event::Server(ServerEvent::Stopped { server, exit })])?;
        Ok(())
    }

    /// Takes in that a server has ended and nothing of it is left.
    fn gone(
        &mut self,
        at: usize,
        (ended, tree): (Ended, Option<Digest>),
        verifies: Option<Effecting>,
    ) -> Result<(), StoreError> {
        if ended.exit == Exit::Code(0) {
            self.servers[at].ended_well = true;
            let name = self.desk.scrubber.scrub(&self.servers[at].plan.name);
            let stopped =
                Event::Server(ServerEvent::Stopped { server: name, exit: ended.exit.clone() });
            self.desk.note(vec![stopped])?;
            self.remark(at, &Remark::Ended { exit: ended.exit });
            return match verifies {
                // A clean stop is no failure, so nothing more is tried; nor was it proven well.
                Some(effect) => self.finish(at, effect, Report::Done),
                None => Ok(()),
            };
        }
        let Ended { exit, uptime } = ended;
        let exit = Some(exit);
        let (ailing, unstarted) = (None, None);
        self.sickened(at, Failing { exit, uptime, ailing, unstarted, tree, verifies })
    }

    /// Takes in that a server could not even be started.
    fn never_started(
        &mut self,
        at: usize,
        why: &str,
        verifies: Option<Effecting>,
    ) -> Result<(), StoreError> {
        self.servers[at].state = State::Down;
        let (exit, uptime) = (Some(Exit::Code(127)), Duration::ZERO);
        let unstarted = Some(why.to_owned());
        let (ailing, tree) = (None, None);
        self.sickened(at, Failing { exit, uptime, ailing, unstarted, tree, verifies })
    }
}

/// Returns what is added to a server's last words when it had not ended by itself.
pub(super) fn told(ailing: &Ailing) -> String {
    let what = match ailing.ailment {
        Ailment::NotListening => "the server never began to listen",
        Ailment::Replaced => "another process answers in the server's place",
        Ailment::Hung => "the server listens and does not answer",
        Ailment::Unhealthy => "the server does not answer as it should",
        // Its own words say it.
        Ailment::Impaired => return String::new(),
    };
    let fault = ailing.fault.as_deref().unwrap_or("no answer");
    format!("\nsalve: {what} ({fault})\n")
}

/// Returns what is started when a server is.
fn spec_of(server: &Server) -> Spec {
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
