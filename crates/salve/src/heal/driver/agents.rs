//! Agents of ours at work on an incident: when one is called, what it costs, how it ends.
//!
//! Where somebody's own agent listens and may take up the repair, it is waited for; where none
//! does, or those who listen let an attempt go by, one of ours is started. Its words are counted
//! by the attempt that it was started for, but only what it changed counts, whether or not it said
//! so: its edits are measured and the subject judges them.
//!
//! **Invariant:** nothing is measured, undone or verified while an agent of ours still runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use salve_core::agent::Trouble;
use salve_core::event::{
    Amounts, Authority, Effect, EffectReport, Event, IncidentEvent, RemedyKind, Resource, Scope,
};
use salve_core::id::IncidentId;
use salve_core::incident::{DueEffect, Incident, Phase};
use salve_core::repair;
use salve_core::scrub::Scrubbed;
use salve_core::view::{AgentWork, IncidentView};

use super::breakers;
use super::brief;
use super::busy::BusyRuns;
use super::case::Case;
use super::effects::EffectRunner;
use crate::agent::{
    Activity, AgentBounds, AgentEvent, AgentGround, AgentTask, EditReach, End, Ending, Profile,
    TranscriptPlace,
};
use crate::heal::agents::{
    AgentCall, AgentLaunch, Specialist, is_attended, no_price_words, trouble_words, words,
};
use crate::heal::files::{TreeEdits, has_changed, with_causes};
use crate::heal::inbox::InboxMessage;
use crate::heal::layers::{self, edits_in};
use crate::heal::millis;
use crate::heal::run_base::RunBase;
use crate::heal::running_agent::RunningAgent;
use crate::heal::subject::{AgentManner, Subjects};
use crate::store::StoreError;
use crate::workspace::LayerError;

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
    /// Whether calling the agent again is of no use before a person says a word: it cannot work here and
    /// now.
    is_out: bool,
    /// The last entry of the incident when a turn was counted.
    counted_at: Option<u64>,
    /// The runs that came to nothing because the agent's service was too busy.
    busy: BusyRuns,
    /// Whether it was said that nobody tells what the agent costs.
    is_price_missed: bool,
    /// The effect for which it was looked what a session had changed that has left.
    looked_after: Option<u32>,
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
        Self { running: self.running, ..Self::default() }
    }

    /// Tells whether the agent of ours that works was started for an incident.
    pub(super) fn works_for(&self, incident: IncidentId) -> bool {
        self.running.as_ref().is_some_and(|work| work.incident == incident)
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

    /// Takes in how a turn ended, before it is known whether it changed anything; `last` is the last
    /// entry of its incident.
    fn count(&mut self, end: End, model: Option<String>, last: Option<u64>) {
        self.counted_at = last;
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
    if !turns.is_out && (is_another || turns.idle < IDLE_TURNS) || has_new_word(base, case)? {
        return Ok(true);
    }
    match manner {
        AgentManner::ListenersFirst => is_attended(base.writer.store, &base.writer.scrubber),
        AgentManner::AtOnce => Ok(false),
    }
}

/// Tells whether a person said something about the incident since an agent's turn was last counted: what
/// kept the agent from working may be mended by now.
fn has_new_word(base: &RunBase<'_>, case: &Case) -> Result<bool, StoreError> {
    let (Some(since), Some(incident)) = (case.work.agents.counted_at, case.incident()) else {
        return Ok(false);
    };
    let entries = base.writer.entries(incident.id())?;
    Ok(entries.iter().any(|entry| entry.seq > since && entry.by.person().is_some()))
}

/// What follows from looking at an incident that waits for an agent.
pub(super) enum AgentStep {
    /// Nothing until something arrives, or until then.
    Wait(Option<Instant>),
    /// The effect is over.
    Finish(DueEffect, EffectReport),
}

/// Waits until it is time to look again whether those who listen are still there.
fn look_again() -> AgentStep {
    AgentStep::Wait(Some(Instant::now() + LOOK))
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
        let is_called = self.case.work.agents.called == Some(effect.effect);
        let (store, scrubber) = (self.base.writer.store, &self.base.writer.scrubber);
        let listens = manner == AgentManner::ListenersFirst && is_attended(store, scrubber)?;
        let is_taken_up = self.case.incident().is_some_and(Incident::is_taken_up);
        if is_taken_up && !is_called && !listens && self.has_left_edits(effect) {
            return Ok(AgentStep::Finish(effect, EffectReport::Done));
        }
        if self.base.agents.is_none() {
            return Ok(match manner {
                AgentManner::ListenersFirst if is_taken_up => look_again(),
                AgentManner::ListenersFirst => AgentStep::Wait(None),
                AgentManner::AtOnce => AgentStep::Finish(effect, EffectReport::NoAgent),
            });
        }
        if others {
            return Ok(AgentStep::Wait(None));
        }
        if let Some(again) = self.case.work.agents.busy.called_again_at(effect.effect) {
            if Instant::now() < again {
                return Ok(AgentStep::Wait(Some(again)));
            }
            self.case.work.agents.busy.calls_again();
            return self.launch(effect, manner);
        }
        if is_called {
            // It could not be started; somebody may still come who listens, but not for ever.
            // One that has just ended is still being measured; what it left is told by that.
            let is_measured = self.case.work.busy.is_some();
            let is_given_up = self.case.work.agents.is_out && !is_taken_up && !is_measured;
            return Ok(if is_given_up && self.is_overdue() {
                AgentStep::Finish(effect, EffectReport::NoAgent)
            } else if is_given_up {
                look_again()
            } else {
                AgentStep::Wait(None)
            });
        }
        if listens && !self.was_ignored()? && (is_taken_up || !self.is_overdue()) {
            return Ok(look_again());
        }
        self.call(effect, manner)
    }

    /// Starts one of our agents, unless that is of no use.
    fn call(&mut self, effect: DueEffect, manner: AgentManner) -> Result<AgentStep, StoreError> {
        if self.case.work.agents.is_out && !has_new_word(self.base, self.case)? {
            let reason = Scrubbed::literal("whoever listened has left, and the agent cannot work");
            return Ok(AgentStep::Finish(effect, EffectReport::failed(reason)));
        }
        self.case.work.agents.called = Some(effect.effect);
        self.case.work.agents.is_out = false;
        self.launch(effect, manner)
    }

    /// Returns whether those who listen have had their time to take the attempt up.
    fn is_overdue(&self) -> bool {
        let Some(incident) = self.case.incident() else { return false };
        let Phase::Doing { since, .. } = incident.phase() else { return false };
        let waited = self.base.writer.now().duration_since(since).as_millis();
        waited >= i128::from(incident.policy().engage_ms)
    }

    /// Looks once whether a session that took the attempt up and has left changed anything; whoever left
    /// edits nothing more.
    fn has_left_edits(&mut self, effect: DueEffect) -> bool {
        if self.case.work.agents.looked_after.replace(effect.effect) == Some(effect.effect) {
            return false;
        }
        let before = self.case.snapshot(Scope::Attempt);
        before.is_some_and(|name| {
            matches!(has_changed(&self.base.project, name), Ok(TreeEdits::Some))
        })
    }

    /// Has the agent called again whose service was too busy for it, if it has changed nothing; returns
    /// whether it is.
    fn is_put_off(&mut self, ending: &Ending, effect: DueEffect) -> bool {
        if ending.end != End::Failed(Trouble::Overloaded) {
            return false;
        }
        let before = self.case.snapshot(Scope::Attempt);
        let layer = self.case.work.layer.as_deref();
        let is_unchanged =
            |name| matches!(edits_in(&self.base.project, name, layer), Ok(TreeEdits::None));
        if !before.is_none_or(is_unchanged) {
            return false;
        }
        let spent = Amounts { wall_ms: millis(ending.took), ..ending.spent };
        let turns = &mut self.case.work.agents;
        let Some(pause) = turns.busy.put_off(effect.effect, spent, Instant::now()) else {
            turns.is_out = true;
            return false;
        };
        let text = format!(
            "its service is busy, which counts as no attempt: it is called again in {} s",
            pause.as_secs()
        );
        self.base.note(self.case.name(), &text);
        true
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
        let (Some((profile, mut task)), Some(incident)) =
            (self.task()?, self.case.incident().map(Incident::id))
        else {
            return Ok(AgentStep::Finish(effect, EffectReport::NoAgent));
        };
        match self.lay(effect, incident)? {
            Ok(ground) => task.ground = ground,
            Err(text) => return Ok(self.refused(effect, manner, &text)),
        }
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
            AgentLaunch::Refused(text) => Ok(self.refused(effect, manner, &text)),
        }
    }

    /// Goes on without an agent that cannot be started.
    fn refused(&mut self, effect: DueEffect, manner: AgentManner, text: &str) -> AgentStep {
        self.case.work.agents.is_out = true;
        match manner {
            // Somebody may come who listens.
            AgentManner::ListenersFirst => {
                self.base.note(self.case.name(), text);
                look_again()
            }
            AgentManner::AtOnce => {
                let reason = self.base.writer.scrubber.scrub(text);
                AgentStep::Finish(effect, EffectReport::failed(reason))
            }
        }
    }

    /// Lays a private layer for an agent, and says so in the journal before it starts; returns what it
    /// works on, or why there is no layer.
    fn lay(
        &mut self,
        effect: DueEffect,
        incident: IncidentId,
    ) -> Result<Result<AgentGround, String>, StoreError> {
        let Some(attempt) = self.case.snapshot(Scope::Attempt) else {
            return Ok(Err("there is no incident to work for".to_owned()));
        };
        let layer = match layers::lay(&self.base.project, attempt) {
            Ok(layer) => layer,
            // A person was asked, and knows.
            Err(LayerError::Unheld) if self.is_approved() => return Ok(Ok(AgentGround::Tree)),
            Err(error) => {
                let why = with_causes(&error);
                return Ok(Err(format!("the agent cannot work on a private layer: {why}")));
            }
        };
        let laid = IncidentEvent::LayerLaid { effect: effect.effect };
        self.base.writer.add(incident, Event::Incident(laid))?;
        self.case.catch_up(self.base)?;
        if !self.case.is_in_layer() {
            return Ok(Err("the repair was called off".to_owned()));
        }
        self.case.work.layer = Some(Arc::clone(&layer));
        Ok(Ok(AgentGround::Layer { layer, writable: Vec::new() }))
    }

    /// Tells whether a person allowed the present attempt.
    fn is_approved(&self) -> bool {
        let authority = self.case.trial().and_then(|trial| trial.authority);
        matches!(authority, Some(Authority::Approval(_)))
    }

    /// Returns which agent is to do what: where the failure is a specialist's, that one.
    fn task(&self) -> Result<Option<(Profile, AgentTask)>, StoreError> {
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
        let task = AgentTask {
            agent: plan.name.clone(),
            prompt: self.subjects.brief(self.at, &brief),
            dir: self.base.project.root().to_path_buf(),
            mcp: plan.mcp.clone(),
            model: model(self.base, self.case),
            env: Vec::new(),
            reach: EditReach::Project,
            // What it is laid on is known when it starts.
            ground: AgentGround::Tree,
            bounds: AgentBounds {
                wall: plan.wall,
                idle: plan.idle,
                tokens: left(Resource::Tokens),
                work: Some(tier.max_tokens),
                money_micros: left(Resource::MoneyMicros),
            },
            transcript: Some(self.transcript_of(incident, &plan.name)),
        };
        Ok(Some((plan.profile.clone(), task)))
    }

    /// Returns where the words of an agent are kept that begins to work on an incident.
    fn transcript_of(&self, incident: &Incident, agent: &str) -> TranscriptPlace {
        let path = self.base.project.root().join(repair::transcript_path(incident.id()));
        let at = self.base.writer.now();
        TranscriptPlace {
            path,
            heading: format!("── attempt {}, {agent}, {at:.0}", incident.attempt()),
        }
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
        let busy = &self.case.work.agents.busy;
        let charge = |spent| {
            let spent = busy.with_present(effect.effect, spent);
            Event::Incident(IncidentEvent::Charged { effect: effect.effect, spent })
        };
        match event {
            AgentEvent::Activity(Activity::Trouble(kind, text)) => {
                let words = trouble_words(&self.running_name(), kind, &text);
                self.base.note(self.case.name(), &words);
                Ok(())
            }
            AgentEvent::Activity(Activity::NoPrice) => {
                let words = no_price_words(&self.running_name());
                if !std::mem::replace(&mut self.case.work.agents.is_price_missed, true) {
                    self.base.note(self.case.name(), &words);
                }
                Ok(())
            }
            AgentEvent::Activity(
                Activity::Session(_)
                | Activity::Said(_)
                | Activity::Used(_)
                | Activity::Expires(..),
            ) => Ok(()),
            AgentEvent::Spent(spent) => {
                // It is charged even if the incident is over by now.
                let charged = charge(spent);
                self.base.writer.add(incident, charged)?;
                self.case.catch_up(self.base)
            }
            AgentEvent::Ended(ending) => {
                let charged = charge(Amounts { wall_ms: millis(ending.took), ..ending.spent });
                self.base.writer.add(incident, charged)?;
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
        if let Some(text) = left {
            self.base.note(self.case.name(), &text);
        }
        let name = self.base.writer.scrubber.scrub(&running.name);
        self.base.note(self.case.name(), &words(&name, ending));
        if ending.end == End::OverBudget(Resource::Tokens) {
            self.tell_tokens();
        }
        // Whoever comes next finds out what it did, if we are to end or it has said so itself.
        if stopping || self.case.effect() != Some(effect) {
            return Ok(());
        }
        if self.is_put_off(ending, effect) {
            return Ok(());
        }
        let model = model(self.base, self.case);
        let last = self.case.incident().map(Incident::last_seq);
        self.case.work.agents.count(ending.end, model, last);
        // A failure may have passed by itself; but that is found out once, not with every attempt.
        let restarts = self.case.incident().is_some_and(|incident| incident.attempt() == 1);
        let (project, end) = (self.base.project.clone(), ending.end);
        let manner = self.subjects.agent_manner();
        let layer = self.case.work.layer.clone();
        let edits = move |name| edits_in(&project, name, layer.as_deref());
        let mut runner = EffectRunner { base: self.base, case: self.case, effect };
        runner.aside(move || match (end, before.map(edits)) {
            (End::Stopped, _) => EffectReport::failed(Scrubbed::literal("the agent was stopped")),
            (end, Some(Ok(TreeEdits::None)) | None) => match manner {
                AgentManner::ListenersFirst if restarts => EffectReport::NoAgent,
                AgentManner::ListenersFirst | AgentManner::AtOnce => {
                    EffectReport::failed(idleness(end))
                }
            },
            // What cannot be told here is told when it is measured.
            (_, Some(Ok(TreeEdits::Some) | Err(_))) => EffectReport::Done,
        });
        Ok(())
    }

    /// Says which limit ended the agent, for a person who may want to raise it.
    fn tell_tokens(&mut self) {
        let Some(incident) = self.case.incident() else { return };
        let (tier, left) = (incident.tier(), incident.ledger().left(Resource::Tokens));
        let limit = self.base.terms.tiers.terms(tier).max_tokens;
        let text = match left {
            Some(0) => {
                let refill = format!("`salve refill heal-{} --tokens N`", incident.id().short());
                match self.base.spent.tokens {
                    0 => format!(
                        "the tokens of this heal are spent: heal.max_tokens and heal.run_max_tokens \
                         say how many there are, and {refill} lets it go on"
                    ),
                    earlier => format!(
                        "the tokens of this run are spent, {earlier} of them by earlier heals: \
                         {refill} lets it go on, and heal.run_max_tokens allows more the next time"
                    ),
                }
            }
            Some(_) | None => format!(
                "its work in one turn may take {limit} tokens, beside what it is told at its \
                 start: heal.tiers.{}.max_tokens allows more",
                tier.as_str()
            ),
        };
        self.base.note(self.case.name(), &text);
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
