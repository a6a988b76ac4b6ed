//! Going on with what an earlier run of Salve left.

use salve_core::event::{Event, IncidentEvent, Order, ServerEvent};
use salve_core::incident::{Incident, Move, Phase};
use salve_core::scrub::Scrubbed;

use super::fleet::Fleet;
use crate::store::{StoreError, Stream};

/// How many starts of servers one looks back.
const STARTS: usize = 800;

impl Fleet<'_> {
    /// Takes over an incident that an earlier run of Salve left.
    pub(super) fn resume(&mut self, at: usize) -> Result<(), StoreError> {
        let subject = self.servers[at].plan.subject(&self.desk.scrubber);
        let Some(mut incident) = self.desk.unfinished(&subject)?.pop() else { return Ok(()) };
        let holder = match incident.owner() {
            Some(owner) if crate::process::is_gone(owner, &self.desk.scrubber) => {
                salve_core::incident::Holder::Gone
            }
            Some(_) => salve_core::incident::Holder::Unknown,
            None => salve_core::incident::Holder::Gone,
        };
        let claim = match incident.claim(&self.desk.me, holder) {
            Ok(claim) => claim,
            Err(error) => {
                let text = format!("incident {} is left alone: {error}", incident.id().short());
                self.note(at, &text);
                return Ok(());
            }
        };
        self.desk.catch_up(&mut incident, &mut |_, _| {})?;
        self.desk.go_on_from(incident.clock());
        let is_anothers = self.is_of_another_command(at, &incident)?;
        self.servers[at].incident = Some(incident);
        self.say(at, vec![claim])?;
        if is_anothers {
            return self.set_apart(at);
        }
        let now = self.desk.now();
        let next = self.servers[at].incident.as_ref().map(|one| one.next(&self.desk.me, now));
        if let Some(Move::Write(over @ Event::Incident(IncidentEvent::CooledDown {}))) = next {
            // Its cooldown ended while nobody was there to say so.
            self.say(at, vec![over])?;
        }
        let asking = self.servers[at]
            .incident
            .as_ref()
            .is_some_and(|incident| matches!(incident.phase(), Phase::Asking { .. }));
        match self.servers[at].started_by.clone().filter(|_| asking) {
            Some(person) => {
                let note = Some(Scrubbed::literal("started again by hand"));
                self.say_as(at, &person, vec![Event::Incident(IncidentEvent::Resolved { note })])
            }
            None => Ok(()),
        }
    }

    /// Returns whether an incident is of something else that ran under the server's name.
    fn is_of_another_command(&self, at: usize, incident: &Incident) -> Result<bool, StoreError> {
        let plan = &self.servers[at].plan;
        let starts = self.desk.store.journal().tail(&Stream::Servers, STARTS)?;
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

    /// Ends an incident of something else: what runs now cannot be its relapse, nor prove its heal.
    fn set_apart(&mut self, at: usize) -> Result<(), StoreError> {
        let Some(incident) = &self.servers[at].incident else { return Ok(()) };
        match (incident.phase(), self.servers[at].started_by.clone()) {
            // It was healed, and nobody can watch it any more.
            (Phase::Ending { .. }, _) => {
                self.say(at, vec![Event::Incident(IncidentEvent::Released {})])?;
                self.say(at, vec![Event::Incident(IncidentEvent::Claimed { instead_of: None })])
            }
            (
                Phase::Choosing
                | Phase::Due { .. }
                | Phase::Doing { .. }
                | Phase::Asking { .. }
                | Phase::CoolingDown { .. }
                | Phase::Closed(_),
                Some(person),
            ) => self.say_as(
                at,
                &person,
                vec![Event::Incident(IncidentEvent::Ordered { order: Order::Abort })],
            ),
            (_, None) => Ok(()),
        }
    }
}
