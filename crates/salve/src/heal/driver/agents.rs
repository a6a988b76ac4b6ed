//! Agents of ours at work on an incident: when one is called, what it costs, how it ends.
//!
//! Where somebody's own agent listens and may take up the repair, it is waited for; where none
//! does, or those who listen let an attempt go by, one of ours is started. Its words are counted
//! by the attempt that it was started for, but only what it changed counts, whether or not it said
//! so: its edits are measured and the subject judges them.
//!
//! **Invariant:** nothing is measured, undone or verified while an agent of ours still runs.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use salve_core::event::{
    Amounts, Effect, EffectReport, Event, IncidentEvent, RemedyKind, Resource, Scope,
};
use salve_core::id::IncidentId;
use salve_core::incident::{DueEffect, Incident, Phase};
use salve_core::scrub::Scrubbed;
use salve_core::view::{AgentWork, IncidentView};

use super::breakers;
use super::brief;
use super::case::Case;
use super::effects::EffectRunner;
use crate::agent::{Activity, AgentBounds, AgentEvent, EditReach, End, Ending, Profile, Task};
use crate::heal::agents::{
    AgentCall, AgentLaunch, Specialist, is_attended, no_price_words, trouble_words, words,
};
use crate::heal::files::{Edits, has_changed};
use crate::heal::inbox::InboxMessage;
use crate::heal::millis;
use crate::heal::run_base::RunBase;
use crate::heal::running_agent::RunningAgent;
use crate::heal::subject::{AgentManner, Subjects};
use crate::store::StoreError;
use crate::workspace::{PackageGuard, Workspace};

/// How often it is looked whether those who listen are still there.
const LOOK: Duration = Duration::from_secs(1);

/// How many turns of one model may leave everything as it was before there is no further one.
const IDLE_TURNS: u32 = 2;

/// The agents that were called for one incident.
#[derive(Default)]
pub(super) struct AgentTurns {
    /// The agent of ours that works now.
    running: Option<AtWork>,
    /// What somebody wants the agent of the present attempt to do.
    instruction: Option<Scrubbed>,
    /// The effect that an agent was last called for.
    called: Option<u32>,
    /// The model of the last turns, if it was not the agent's own choice.
    model: Option<String>,
    /// How many turns of that model in a row left everything as it was.
    idle: u32,
    /// Whether calling the agent again is of no use: it cannot work here and now.
    is_out: bool,
    /// The installed packages as they were before the agent that works, where they are kept.
    packages: Option<PackageGuard>,
    /// Since when no installed package was edited, if those that were are put back.
    packages_since: Option<Timestamp>,
}

/// An agent of ours at work, and what for.
struct AtWork {
    agent: RunningAgent,
    incident: IncidentId,
    effect: DueEffect,
}

impl AgentTurns {
    /// Returns the agent of ours that works now, if one does.
    pub(super) fn running(&self) -> Option<&RunningAgent> {
        self.running.as_ref().map(|work| &work.agent)
    }

    /// Returns the agent that works, without what its incident brought about.
    pub(super) fn only_running(self) -> Self {
        Self { running: self.running, packages: self.packages, ..Self::default() }
    }

    /// Tells whether the agent of ours that works was started for an incident.
    pub(super) fn works_for(&self, incident: IncidentId) -> bool {
        self.running.as_ref().is_some_and(|work| work.incident == incident)
    }

    /// Returns since when no installed package was edited.
    pub(super) fn packages_since(&self) -> Option<Timestamp> {
        self.packages_since
    }

    /// Takes in what the agent of the present attempt is to do besides.
    pub(super) fn instruct(&mut self, instruction: Option<Scrubbed>) {
        self.instruction = instruction;
    }

    /// Takes in that files were changed.
    pub(super) fn has_worked(&mut self) {
        self.idle = 0;
    }

    /// Tells the agent that works to stop.
    pub(super) fn stop(&mut self) {
        if let Some(running) = &mut self.running {
            running.agent.stop();
        }
    }

    /// Takes in how a turn ended, before it is known whether it changed anything.
    fn count(&mut self, end: End, model: Option<String>) {
        self.is_out |= matches!(end, End::Failed(trouble) if trouble.lasts());
        // With a larger budget the next one may get further.
        if !matches!(end, End::OverBudget(_)) {
            if self.model != model {
                self.model = model;
                self.idle = 0;
            }
            self.idle += 1;
        }
    }
}

/// Returns whether an agent may do better than those before it.
pub(super) fn is_of_use(
    base: &RunBase<'_>,
    case: &Case,
    manner: AgentManner,
) -> Result<bool, StoreError> {
    let turns = &case.work.agents;
    let is_another = turns.model != model(base, case);
    if !turns.is_out && (is_another || turns.idle < IDLE_TURNS) {
        return Ok(true);
    }
    match manner {
        AgentManner::ListenersFirst => is_attended(base.writer.store, &base.writer.scrubber),
        AgentManner::AtOnce => Ok(false),
    }
}

/// What follows from looking at an incident that waits for an agent.
pub(super) enum AgentStep {
    /// Nothing until something arrives, or until then.
    Wait(Option<Instant>),
    /// The effect is over.
    Finish(DueEffect, EffectReport),
}

/// Calls agents for the incident of one subject.
pub(super) struct AgentRunner<'r, 'a> {
    pub(super) base: &'r mut RunBase<'a>,
    pub(super) case: &'r mut Case,
    pub(super) subjects: &'r dyn Subjects,
    pub(super) at: usize,
}

impl AgentRunner<'_, '_> {
    /// Does what is due about an agent; `others` tells whether one works for another subject.
    pub(super) fn tend(&mut self, others: bool) -> Result<AgentStep, StoreError> {
        let called_off = self.case.incident().is_none_or(Incident::is_called_off);
        if self.case.work.agents.running.is_some() {
            if called_off {
                self.case.work.agents.stop();
            }
            return Ok(AgentStep::Wait(None));
        }
        let awaited = self.case.incident().and_then(awaited);
        let Some(effect) = self.case.effect().filter(|effect| awaited == Some(effect.effect))
        else {
            return Ok(AgentStep::Wait(None));
        };
        if called_off {
            return Ok(AgentStep::Finish(effect, EffectReport::NoAgent));
        }
        let manner = self.subjects.agent_manner();
        if self.base.agents.is_none() {
            return Ok(match manner {
                AgentManner::ListenersFirst => AgentStep::Wait(None),
                AgentManner::AtOnce => AgentStep::Finish(effect, EffectReport::NoAgent),
            });
        }
        if others || self.case.work.agents.called == Some(effect.effect) {
            return Ok(AgentStep::Wait(None));
        }
        let (store, scrubber) = (self.base.writer.store, &self.base.writer.scrubber);
        let listens = manner == AgentManner::ListenersFirst && is_attended(store, scrubber)?;
        if listens && !self.was_ignored()? {
            return Ok(AgentStep::Wait(Some(Instant::now() + LOOK)));
        }
        self.case.work.agents.called = Some(effect.effect);
        self.launch(effect, manner)
    }

    /// Returns whether those who listen let an earlier attempt of the incident go by.
    fn was_ignored(&self) -> Result<bool, StoreError> {
        let Some(incident) = self.case.incident() else { return Ok(false) };
        if incident.attempt() < 2 {
            return Ok(false);
        }
        let entries = self.base.writer.entries(incident.id())?;
        let is_left =
            |work: &AgentWork| work.overdue && work.mark.is_none() && work.agent.is_none();
        Ok(IncidentView::of(entries).is_ok_and(|view| view.works().iter().any(is_left)))
    }

    fn launch(&mut self, effect: DueEffect, manner: AgentManner) -> Result<AgentStep, StoreError> {
        let (Some((profile, task)), Some(incident)) =
            (self.task()?, self.case.incident().map(Incident::id))
        else {
            return Ok(AgentStep::Finish(effect, EffectReport::NoAgent));
        };
        self.keep_packages();
        let (now, sender) = (self.base.writer.now(), self.base.inbox.sender());
        let on = Box::new(move |event| {
            // Nobody is left to tell when the run is over.
            let _ = sender.send(InboxMessage::Agent { incident, effect, event });
        });
        let Some(agents) = &mut self.base.agents else { return Ok(AgentStep::Wait(None)) };
        let (care, scrubber) = (&self.base.care, &self.base.writer.scrubber);
        let call = AgentCall { effect, profile, task, now };
        match agents.launch(care, &call, scrubber, on)? {
            AgentLaunch::Works(agent, launched) => {
                let work = AtWork { agent: *agent, incident, effect };
                self.case.work.agents.running = Some(work);
                self.base.writer.add(incident, launched)?;
                self.case.catch_up(self.base)?;
                Ok(AgentStep::Wait(None))
            }
            AgentLaunch::Refused(text) => {
                self.case.work.agents.is_out = true;
                match manner {
                    // Somebody may come who listens.
                    AgentManner::ListenersFirst => {
                        self.base.note(self.case.name(), &text);
                        Ok(AgentStep::Wait(None))
                    }
                    AgentManner::AtOnce => {
                        let reason = self.base.writer.scrubber.scrub(&text);
                        Ok(AgentStep::Finish(effect, EffectReport::failed(reason)))
                    }
                }
            }
        }
    }

    /// Returns which agent is to do what: where the failure is a specialist's, that one.
    fn task(&self) -> Result<Option<(Profile, Task)>, StoreError> {
        let (Some(incident), Some(agents)) = (self.case.incident(), &self.base.agents) else {
            return Ok(None);
        };
        let specialist = specialist(self.base, self.case);
        let instruction = self.case.work.agents.instruction.clone();
        let Some(mut brief) = brief::of(self.base, self.case, self.subjects, self.at)? else {
            return Ok(None);
        };
        brief.specialty = specialist.and_then(|specialist| specialist.prompt.clone());
        brief.instruction = instruction;
        let plan = specialist.map_or(&agents.plan, |specialist| &specialist.plan);
        let tier = self.base.terms.tiers.terms(incident.tier());
        let left = |resource| incident.ledger().left(resource);
        let task = Task {
            agent: plan.name.clone(),
            prompt: self.subjects.brief(self.at, &brief),
            dir: self.base.project.root().to_path_buf(),
            mcp: plan.mcp.clone(),
            model: model(self.base, self.case),
            env: Vec::new(),
            reach: EditReach::Project,
            bounds: AgentBounds {
                wall: plan.wall,
                idle: plan.idle,
                tokens: left(Resource::Tokens),
                work: Some(tier.max_tokens),
                money_micros: left(Resource::MoneyMicros),
            },
        };
        Ok(Some((plan.profile.clone(), task)))
    }

    /// Returns what the agent that works is called.
    fn running_name(&self) -> Scrubbed {
        let running = self.case.work.agents.running();
        let name = running.map_or_else(String::new, |running| running.name.clone());
        self.base.writer.scrubber.scrub(&name)
    }

    /// Takes in what an agent of ours does; `stopping` tells whether everything ends.
    pub(super) fn told(
        &mut self,
        effect: DueEffect,
        event: AgentEvent,
        stopping: bool,
    ) -> Result<(), StoreError> {
        let Some(incident) = self.case.work.agents.running.as_ref().map(|work| work.incident)
        else {
            return Ok(());
        };
        let charge =
            |spent| Event::Incident(IncidentEvent::Charged { effect: effect.effect, spent });
        match event {
            AgentEvent::Activity(Activity::Trouble(kind, text)) => {
                let words = trouble_words(&self.running_name(), kind, &text);
                self.base.note(self.case.name(), &words);
                Ok(())
            }
            AgentEvent::Activity(Activity::NoPrice) => {
                let words = no_price_words(&self.running_name());
                self.base.note(self.case.name(), &words);
                Ok(())
            }
            AgentEvent::Activity(Activity::Session(_) | Activity::Said(_) | Activity::Used(_)) => {
                Ok(())
            }
            AgentEvent::Spent(spent) => {
                // It is charged even if the incident is over by now.
                self.base.writer.add(incident, charge(spent))?;
                self.case.catch_up(self.base)
            }
            AgentEvent::Ended(ending) => {
                let spent = Amounts { wall_ms: millis(ending.took), ..ending.spent };
                self.base.writer.add(incident, charge(spent))?;
                self.case.catch_up(self.base)?;
                self.ended(&ending, stopping)
            }
        }
    }

    /// Takes in that an agent of ours has ended, with all it started.
    fn ended(&mut self, ending: &Ending, stopping: bool) -> Result<(), StoreError> {
        let Some(AtWork { agent: running, effect, .. }) = self.case.work.agents.running.take()
        else {
            return Ok(());
        };
        breakers::count_orphans(self.base, self.case, ending.left)?;
        let now = self.base.writer.now();
        let left = match &mut self.base.agents {
            Some(agents) => agents.release(running.guard, now)?,
            None => None,
        };
        let before = self.case.snapshot(Scope::Attempt);
        for text in running.mend_repository(before).into_iter().chain(left) {
            self.base.note(self.case.name(), &text);
        }
        let name = self.base.writer.scrubber.scrub(&running.name);
        self.base.note(self.case.name(), &words(&name, ending));
        self.put_packages_back();
        if ending.end == End::OverBudget(Resource::Tokens) {
            self.tell_tokens();
        }
        // Whoever comes next finds out what it did, if we are to end or it has said so itself.
        if stopping || self.case.effect() != Some(effect) {
            return Ok(());
        }
        let model = model(self.base, self.case);
        self.case.work.agents.count(ending.end, model);
        let (project, end) = (self.base.project.clone(), ending.end);
        let manner = self.subjects.agent_manner();
        let mut runner = EffectRunner { base: self.base, case: self.case, effect };
        runner.aside(move || match (end, before.map(|name| has_changed(&project, name))) {
            (End::Stopped, _) => EffectReport::failed(Scrubbed::literal("the agent was stopped")),
            (end, Some(Ok(Edits::None)) | None) => match manner {
                AgentManner::ListenersFirst => EffectReport::NoAgent,
                AgentManner::AtOnce => EffectReport::failed(idleness(end)),
            },
            // What cannot be told here is told when it is measured.
            (_, Some(Ok(Edits::Some) | Err(_))) => EffectReport::Done,
        });
        Ok(())
    }

    /// Says which limit ended the agent, for a person who may want to raise it.
    fn tell_tokens(&mut self) {
        let Some(incident) = self.case.incident() else { return };
        let (tier, left) = (incident.tier(), incident.ledger().left(Resource::Tokens));
        let limit = self.base.terms.tiers.terms(tier).max_tokens;
        let text = match left {
            Some(0) => format!(
                "the tokens of this heal are spent: heal.max_tokens or heal.run_max_tokens allows \
                 more, and so does `salve refill heal-{}`",
                incident.id().short()
            ),
            Some(_) | None => format!(
                "its work in one turn may take {limit} tokens, beside what it is told at its \
                 start: heal.tiers.{}.max_tokens allows more",
                tier.as_str()
            ),
        };
        self.base.note(self.case.name(), &text);
    }

    /// Keeps the installed packages before an agent begins; where that fails, what it edits there
    /// is only told.
    fn keep_packages(&mut self) {
        let guard = || {
            let workspace = Workspace::open(&self.base.project).ok()?;
            let before = workspace.load(self.case.snapshot(Scope::Attempt)?).ok()??;
            workspace.guard_packages(&before).ok()?
        };
        let kept = guard();
        let turns = &mut self.case.work.agents;
        (turns.packages, turns.packages_since) = (kept, None);
    }

    /// Puts back what an agent edited of the installed packages, and says so.
    fn put_packages_back(&mut self) {
        let Some(guard) = self.case.work.agents.packages.take() else { return };
        let done = guard.put_back();
        if !done.files.is_empty() {
            let text = format!(
                "it edited what is installed, which is no part of the project; put back: {}",
                done.files.join(", ")
            );
            self.base.note(self.case.name(), &text);
        }
        if done.left.is_empty() {
            self.case.work.agents.packages_since = Some(self.base.writer.now());
        }
    }
}

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

/// Returns the specialist for the present failure, if there is one.
fn specialist<'b>(base: &'b RunBase<'_>, case: &Case) -> Option<&'b Specialist> {
    base.agents.as_ref()?.specialist(case.seen()?.symptom.class)
}

/// Returns the model that the agent of the present attempt is to use, if not its own choice.
fn model(base: &RunBase<'_>, case: &Case) -> Option<String> {
    let (incident, agents) = (case.incident()?, base.agents.as_ref()?);
    let specialist = specialist(base, case);
    let plan = specialist.map_or(&agents.plan, |specialist| &specialist.plan);
    let own = specialist.and_then(|specialist| specialist.model.clone());
    let tier = base.terms.tiers.terms(incident.tier());
    own.or_else(|| tier.models.get(&plan.name).cloned()).or_else(|| plan.model.clone())
}

/// Says that an agent left everything as it was, and why.
fn idleness(end: End) -> Scrubbed {
    match end {
        End::Failed(trouble) => trouble.complaint(),
        End::TimedOut => Scrubbed::literal("the agent took too long and changed nothing"),
        End::Idle => Scrubbed::literal("the agent showed no sign of life and changed nothing"),
        End::OverBudget(_) => Scrubbed::literal("the agent used up its budget and changed nothing"),
        End::Finished | End::NoResult | End::Stopped => {
            Scrubbed::literal("the agent changed nothing")
        }
    }
}
