//! What people want of servers, from this terminal or another.

use std::time::{Duration, Instant};

use salve_core::event::{Actor, Entry, Event, IncidentEvent, Order, ServerEvent, ServerOrder};

use super::fleet::{Fleet, Stopping};
use super::{Held, Life, State, Then};
use crate::heal::cause::is_remedy;
use crate::heal::spawn_thread;
use crate::process::Terminal;
use crate::store::StoreError;

/// How often it is looked for remedies that still run when everything ends.
const REMEDY_LOOK: Duration = Duration::from_millis(100);

/// How long a remedy's command may take to end when it is told to.
const REMEDY_GRACE: Duration = Duration::from_secs(2);

impl Fleet<'_> {
    /// Takes in what others wrote to the journal.
    pub(super) fn heard(&mut self, entries: &[Entry]) -> Result<(), StoreError> {
        for entry in entries {
            if entry.by.process() == Some(&self.desk.me) {
                continue;
            }
            if let Event::Server(ServerEvent::Ordered { server, order }) = &entry.event {
                let found = self.servers.iter().position(|one| *server == one.plan.name.as_str());
                if let Some(at) = found {
                    self.ordered(at, *order, &entry.by)?;
                }
            }
        }
        for at in 0..self.servers.len() {
            let server = &mut self.servers[at];
            let Some(incident) = &mut server.incident else { continue };
            let news = entries.iter().any(|entry| {
                entry.incident == Some(incident.id()) && entry.seq > incident.last_seq()
            });
            if news {
                let (face, name) = (&mut self.face, &server.plan.name);
                let mut show = |incident: &_, entry: &_| face.entry(name, incident, entry);
                self.desk.catch_up(incident, &mut show)?;
            }
        }
        Ok(())
    }

    /// Does what somebody wants of a server.
    fn ordered(&mut self, at: usize, order: ServerOrder, by: &Actor) -> Result<(), StoreError> {
        let person = by.person().map(|_| by.clone());
        let is_up = matches!(self.servers[at].state, State::Up(_));
        match order {
            ServerOrder::Stop => {
                self.servers[at].held = Held::ByOrder;
                self.servers[at].waits = false;
                if let Some(person) = &person {
                    self.say_as(
                        at,
                        person,
                        vec![Event::Incident(IncidentEvent::Ordered { order: Order::Abort })],
                    )?;
                }
                if is_up {
                    self.clear(at, Then::Stopped);
                }
            }
            ServerOrder::Start | ServerOrder::Restart if !self.may_start(at) => {
                self.note(at, "a repair is going on; it will start the server");
            }
            ServerOrder::Start if is_up => {}
            ServerOrder::Start | ServerOrder::Restart => {
                let server = &mut self.servers[at];
                server.held = Held::No;
                server.skipped = false;
                server.started_by = person;
                if is_up {
                    self.clear(at, Then::Restart);
                } else {
                    server.waits = true;
                }
            }
        }
        Ok(())
    }

    /// Pauses healing, or lets it go on.
    pub(super) fn pause(&mut self, person: &Actor) -> Result<(), StoreError> {
        let (order, text) = match self.paused.take() {
            Some(_) => (Order::Resume, "healing goes on"),
            None => {
                self.paused = Some(person.clone());
                (Order::Pause, "healing is paused: what fails is left as it is")
            }
        };
        for at in 0..self.servers.len() {
            self.say_as(at, person, vec![Event::Incident(IncidentEvent::Ordered { order })])?;
        }
        self.note(0, text);
        Ok(())
    }

    /// Ends all servers, because the user wants it.
    pub(super) fn stop(&mut self, signal: i32) {
        self.stopping = Some(Stopping { signal, since: Instant::now() });
        if self.servers.iter().any(|server| server.busy.is_some()) {
            let care = self.care.clone();
            // A remedy whose command ends puts back what it had moved away.
            spawn_thread("remedies", move || {
                // One that was just being started is known a little later.
                loop {
                    care.wind_up(is_remedy, REMEDY_GRACE);
                    std::thread::sleep(REMEDY_LOOK);
                }
            });
        }
        for at in 0..self.servers.len() {
            match &mut self.servers[at].state {
                State::Down => {}
                State::Up(_) => self.clear(at, Then::Stopped),
                // What was to start again no longer is.
                State::Clearing(then) => *then = Then::Stopped,
            }
            if let Some(minder) = &mut self.servers[at].minder {
                minder.stop();
            }
        }
    }

    /// Does something to every server that runs.
    pub(super) fn each_up(&self, act: impl Fn(&Life)) {
        for server in &self.servers {
            if let State::Up(life) = &server.state {
                act(life);
            }
        }
    }

    /// Gives the servers' terminals another size, now and at their next start.
    pub(super) fn resize(&mut self, rows: u16, cols: u16) {
        self.each_up(|life| life.running.resize(rows, cols));
        for server in &mut self.servers {
            if let Terminal::Pty { .. } = server.plan.terminal {
                server.plan.terminal = Terminal::Pty { rows, cols };
            }
        }
    }
}
