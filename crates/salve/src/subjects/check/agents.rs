//! An agent's turn at a check.

use salve_core::agent::prompt;
use salve_core::event::{Amounts, Event, Report, Resource, Scope};
use salve_core::id::IncidentId;
use salve_core::incident::{Incident, Run as Effecting};
use salve_core::repair::{Tale, order};
use salve_core::scrub::Scrubbed;

use super::Input;
use super::checkup::Checkup;
use crate::agent::{AgentEvent, Bounds, End, Ending, Task};
use crate::heal::agents::{Call, Launched, words};
use crate::heal::files::{Edits, has_changed};
use crate::heal::millis;
use crate::store::{Filter, StoreError};

impl Checkup<'_, '_> {
    /// Starts an agent for the present attempt.
    pub(super) fn call_agent(&mut self, effect: Effecting) -> Result<(), StoreError> {
        let Some(task) = self.task()? else { return self.finish(effect, Report::NoAgent) };
        let Some(incident) = self.incident.as_ref().map(Incident::id) else { return Ok(()) };
        let (now, post) = (self.clinic.desk.now(), self.clinic.inbox.0.clone());
        let on = Box::new(move |event| {
            // Nobody is left to tell when the run of Salve is over.
            let _ = post.send(Input::Agent { effect, event });
        });
        let Some(agents) = &mut self.clinic.agents else {
            return self.finish(effect, Report::NoAgent);
        };
        let (care, scrubber) = (&self.clinic.care, &self.clinic.desk.scrubber);
        let call = Call { incident, effect, task, now };
        match agents.launch(care, &call, scrubber, on)? {
            Launched::Works(minder, launched) => {
                self.minder = Some(minder);
                self.append(incident, launched)
            }
            Launched::Refused(text) => {
                let reason = self.clinic.desk.scrubber.scrub(&text);
                self.finish(effect, Report::Failed { reason })
            }
        }
    }

    /// Returns what the agent is to do.
    fn task(&self) -> Result<Option<Task>, StoreError> {
        let (Some(incident), Some(agents)) = (&self.incident, &self.clinic.agents) else {
            return Ok(None);
        };
        let journal = self.clinic.desk.store.journal();
        let entries = journal.read(0, &Filter::incident(incident.id()), usize::MAX)?;
        let Ok(tale) = Tale::of(&entries) else { return Ok(None) };
        let plan = &agents.plan;
        let tier = self.clinic.heal.tiers.terms(incident.tier());
        let left = |resource| incident.ledger().left(resource);
        let tokens = [left(Resource::Tokens), Some(tier.max_tokens)].into_iter().flatten().min();
        Ok(Some(Task {
            agent: plan.name.clone(),
            prompt: prompt(&order(&tale, self.plan.command.clone())),
            dir: self.clinic.project.root().to_path_buf(),
            mcp: plan.mcp.clone(),
            model: tier.models.get(&plan.name).cloned().or_else(|| plan.model.clone()),
            env: Vec::new(),
            bounds: Bounds {
                wall: plan.wall,
                idle: plan.idle,
                tokens,
                money_micros: left(Resource::MoneyMicros),
            },
        }))
    }

    /// Takes in what an agent of ours does.
    pub(super) fn agent_told(
        &mut self,
        effect: Effecting,
        event: AgentEvent,
    ) -> Result<(), StoreError> {
        let Some(incident) = self.minder.as_ref().map(|minder| minder.incident) else {
            return Ok(());
        };
        let charge = |spent| Event::Charged { effect: effect.effect, spent };
        match event {
            AgentEvent::Activity(_) => Ok(()),
            AgentEvent::Spent(spent) => self.append(incident, charge(spent)),
            AgentEvent::Ended(ending) => {
                let spent = Amounts { wall_ms: millis(ending.took), ..ending.spent };
                self.append(incident, charge(spent))?;
                self.agent_ended(&ending)
            }
        }
    }

    /// Takes in that an agent of ours has ended, with all it started.
    fn agent_ended(&mut self, ending: &Ending) -> Result<(), StoreError> {
        let Some(minder) = self.minder.take() else { return Ok(()) };
        let now = self.clinic.desk.now();
        let Some(agents) = &mut self.clinic.agents else { return Ok(()) };
        let left = agents.release(minder.guard, now)?;
        let name = agents.plan.name.clone();
        if let Some(text) = left {
            self.note(&text);
        }
        self.note(&words(&self.clinic.desk.scrubber.scrub(&name), ending));
        let effect = minder.effect;
        // Whoever comes next finds out what it did, if we are to end.
        if self.stopping.is_some() || self.case.effect != Some(effect) {
            return Ok(());
        }
        let (project, name) = (self.clinic.project.clone(), self.name(Scope::Attempt));
        let end = ending.end;
        self.aside(effect, move || match (end, name.map(|name| has_changed(&project, name))) {
            (End::Stopped, _) => {
                Report::Failed { reason: Scrubbed::literal("the agent was stopped") }
            }
            (_, Some(Ok(Edits::None)) | None) => {
                Report::Failed { reason: Scrubbed::literal("the agent changed nothing") }
            }
            // What cannot be told here is told when it is measured.
            (_, Some(Ok(Edits::Some) | Err(_))) => Report::Done,
        });
        Ok(())
    }

    /// Adds to an incident what holds whoever else writes meanwhile.
    pub(super) fn append(&mut self, id: IncidentId, event: Event) -> Result<(), StoreError> {
        let desk = &self.clinic.desk;
        desk.store.journal().append(desk.draft(Some(id), event))?;
        let Some(incident) = self.incident.as_mut().filter(|incident| incident.id() == id) else {
            return Ok(());
        };
        let (face, name) = (&mut *self.clinic.face, &self.plan.name);
        let mut show = |incident: &Incident, entry: &_| face.entry(name, incident, entry);
        desk.catch_up(incident, &mut show)
    }
}
