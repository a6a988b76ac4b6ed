//! Agents that repair servers: those that listen, and one that Salve starts itself.
//!
//! A repair that waits for an agent is first left to sessions that are attached. Where there is
//! none, or they let an attempt go by, and Salve may start one, it does: one at a time, since all of them work on the same files,
//! within what is left of the incident's budget. What such an agent changed counts, whether or not
//! it said so: its edits are measured and the server judges them.
//!
//! **Invariant:** nothing is measured, undone or verified while an agent of ours still runs.

use std::time::{Duration, Instant};

use salve_core::agent::prompt;
use salve_core::event::{
    Amounts, Effect, Event, IncidentEvent, RemedyKind, Report, Resource, Scope,
};
use salve_core::id::IncidentId;
use salve_core::incident::{Incident, Phase, Run as Effecting};
use salve_core::repair::{Tale, Work, order};
use salve_core::scrub::Scrubbed;

use super::Input;
use super::fleet::Fleet;
use crate::agent::{AgentEvent, Bounds, End, Ending, Reach, Task};
use crate::heal::agents::{Call, Launched, is_attended, words};
use crate::heal::files::{Edits, has_changed};
use crate::heal::millis;
use crate::store::{StoreError, Stream};

/// How often it is looked whether those who listen are still there.
const LOOK: Duration = Duration::from_secs(1);

/// Returns the effect by which an incident waits for an agent.
fn awaited(incident: &Incident) -> Option<u32> {
    let by_agent = incident.trial().is_some_and(|trial| trial.remedy.kind == RemedyKind::Agent);
    match incident.phase() {
        Phase::Doing { effect, what: Effect::Apply { .. }, .. } if by_agent => Some(effect),
        Phase::Choosing
        | Phase::Due { .. }
        | Phase::Doing { .. }
        | Phase::Asking { .. }
        | Phase::CoolingDown { .. }
        | Phase::Ending { .. }
        | Phase::Closed(_) => None,
    }
}

impl Fleet<'_> {
    /// Does what is due about a server's agent, and returns when to look again.
    pub(super) fn tend_agent(&mut self, at: usize) -> Result<Option<Instant>, StoreError> {
        let server = &mut self.servers[at];
        let called_off = server.incident.as_ref().is_none_or(Incident::is_called_off);
        if let Some(minder) = &mut server.minder {
            if called_off {
                minder.stop();
            }
            return Ok(None);
        }
        let Some(incident) = &server.incident else { return Ok(None) };
        let effect = awaited(incident).and(server.case.running);
        let Some(effect) = effect.filter(|effect| awaited(incident) == Some(effect.effect)) else {
            return Ok(None);
        };
        if called_off {
            self.finish(at, effect, Report::NoAgent)?;
            return Ok(Some(Instant::now()));
        }
        let is_tried = server.case.called == Some(effect.effect);
        if self.agents.is_none() || is_tried || self.servers.iter().any(|one| one.minder.is_some())
        {
            return Ok(None);
        }
        if is_attended(self.desk.store, &self.desk.scrubber)? && !self.was_ignored(at)? {
            return Ok(Some(Instant::now() + LOOK));
        }
        self.servers[at].case.called = Some(effect.effect);
        self.launch(at, effect)?;
        Ok(None)
    }

    /// Returns whether what was chosen is an agent's turn while one of ours works for another
    /// server: both would edit the same files, and neither's edits could be told apart.
    pub(super) fn has_to_queue(&self, at: usize, chosen: &Event) -> bool {
        let Event::Incident(IncidentEvent::Judged { remedy, .. }) = chosen else { return false };
        let mut others = self.servers.iter().enumerate().filter(|(other, _)| *other != at);
        remedy.kind == RemedyKind::Agent && others.any(|(_, server)| server.minder.is_some())
    }

    /// Returns whether those who listen let an earlier attempt of the incident go by.
    fn was_ignored(&self, at: usize) -> Result<bool, StoreError> {
        let Some(incident) = &self.servers[at].incident else { return Ok(false) };
        if incident.attempt() < 2 {
            return Ok(false);
        }
        let journal = self.desk.store.journal();
        let entries = journal.read(0, &Stream::Incident(incident.id()), usize::MAX)?;
        let is_left = |work: &Work| work.overdue && work.mark.is_none() && work.agent.is_none();
        Ok(Tale::of(&entries).is_ok_and(|tale| tale.works().iter().any(is_left)))
    }

    /// Starts an agent for the repair of a server.
    fn launch(&mut self, at: usize, effect: Effecting) -> Result<(), StoreError> {
        let Some(task) = self.task(at)? else { return Ok(()) };
        let Some(incident) = self.servers[at].incident.as_ref().map(Incident::id) else {
            return Ok(());
        };
        let (now, post) = (self.desk.now(), self.post.clone());
        let Some(agents) = &mut self.agents else { return Ok(()) };
        let on = Box::new(move |event| {
            // Nobody is left to tell when the fleet is gone.
            let _ = post.send(Input::Agent { server: at, effect, event });
        });
        let (care, scrubber) = (&self.care, &self.desk.scrubber);
        let profile = agents.plan.profile.clone();
        let call = Call { incident, effect, profile, task, now };
        match agents.launch(care, &call, scrubber, on)? {
            Launched::Works(minder, launched) => {
                self.servers[at].minder = Some(*minder);
                self.append(at, incident, launched)
            }
            Launched::Refused(text) => {
                self.note(at, &text);
                Ok(())
            }
        }
    }

    /// Returns what the agent is to do.
    fn task(&self, at: usize) -> Result<Option<Task>, StoreError> {
        let server = &self.servers[at];
        let (Some(incident), Some(agents)) = (&server.incident, &self.agents) else {
            return Ok(None);
        };
        let journal = self.desk.store.journal();
        let entries = journal.read(0, &Stream::Incident(incident.id()), usize::MAX)?;
        let Ok(tale) = Tale::of(&entries) else { return Ok(None) };
        let plan = &agents.plan;
        let left = |resource| incident.ledger().left(resource);
        Ok(Some(Task {
            agent: plan.name.clone(),
            prompt: prompt(&order(&tale, server.plan.command.clone())),
            dir: self.root.clone(),
            mcp: plan.mcp.clone(),
            model: plan.model.clone(),
            env: Vec::new(),
            reach: Reach::Project,
            bounds: Bounds {
                wall: plan.wall,
                idle: plan.idle,
                tokens: left(Resource::Tokens),
                work: None,
                money_micros: left(Resource::MoneyMicros),
            },
        }))
    }

    /// Takes in what an agent of ours does.
    pub(super) fn agent_told(
        &mut self,
        at: usize,
        effect: Effecting,
        event: AgentEvent,
    ) -> Result<(), StoreError> {
        let Some(minder) = &self.servers[at].minder else { return Ok(()) };
        let incident = minder.incident;
        match event {
            AgentEvent::Activity(_) => Ok(()),
            AgentEvent::Spent(spent) => self.charge(at, incident, (effect, spent)),
            AgentEvent::Ended(ending) => {
                let spent = Amounts { wall_ms: millis(ending.took), ..ending.spent };
                self.charge(at, incident, (effect, spent))?;
                self.agent_ended(at, &ending)
            }
        }
    }

    /// Takes in that an agent of ours has ended, with all it started.
    fn agent_ended(&mut self, at: usize, ending: &Ending) -> Result<(), StoreError> {
        let Some(minder) = self.servers[at].minder.take() else { return Ok(()) };
        self.let_settings_go(at, minder.guard)?;
        for text in minder.mend_repository(self.name(at, Scope::Attempt)) {
            self.note(at, &text);
        }
        let name = self.agents.as_ref().map(|agents| agents.plan.name.clone()).unwrap_or_default();
        self.note(at, &words(&self.desk.scrubber.scrub(&name), ending));
        let effect = minder.effect;
        // Whoever comes next finds out what it did, if we are to end or it has said so itself.
        if self.stopping.is_some() || !self.is_effect(at, effect) {
            return Ok(());
        }
        let (project, name) = (self.project.clone(), self.name(at, Scope::Attempt));
        let end = ending.end;
        self.aside(at, effect, move || match (end, name.map(|name| has_changed(&project, name))) {
            (End::Stopped, _) => Report::failed(Scrubbed::literal("the agent was stopped")),
            (_, Some(Ok(Edits::None)) | None) => Report::NoAgent,
            // What cannot be told here is told when it is measured.
            (_, Some(Ok(Edits::Some) | Err(_))) => Report::Done,
        });
        Ok(())
    }

    /// Lets go of the settings that were held for an agent.
    fn let_settings_go(&mut self, at: usize, guard: u64) -> Result<(), StoreError> {
        let now = self.desk.now();
        let Some(agents) = &mut self.agents else { return Ok(()) };
        if let Some(text) = agents.release(guard, now)? {
            self.note(at, &text);
        }
        Ok(())
    }

    /// Charges an incident for what its agent has cost until now, even if it is over.
    fn charge(
        &mut self,
        at: usize,
        incident: IncidentId,
        (effect, spent): (Effecting, Amounts),
    ) -> Result<(), StoreError> {
        self.append(
            at,
            incident,
            Event::Incident(IncidentEvent::Charged { effect: effect.effect, spent }),
        )
    }

    /// Adds to an incident what holds whoever else writes meanwhile.
    fn append(&mut self, at: usize, id: IncidentId, event: Event) -> Result<(), StoreError> {
        self.desk.store.journal().append(self.desk.draft(Some(id), event))?;
        let server = &mut self.servers[at];
        let Some(incident) = server.incident.as_mut().filter(|incident| incident.id() == id) else {
            return Ok(());
        };
        let (face, name) = (&mut self.face, &server.plan.name);
        let mut show = |incident: &Incident, entry: &_| face.entry(name, incident, entry);
        self.desk.catch_up(incident, &mut show)
    }
}
