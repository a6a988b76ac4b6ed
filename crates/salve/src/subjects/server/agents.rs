//! Agents that repair servers: those that listen, and one that Salve starts itself.
//!
//! A repair that waits for an agent is first left to sessions that are attached. Where there is
//! none, or they let an attempt go by, and Salve may start one, it does: one at a time, since all of them work on the same files,
//! within what is left of the incident's budget. What such an agent changed counts, whether or not
//! it said so: its edits are measured and the server judges them.
//!
//! **Invariant:** nothing is measured, undone or verified while an agent of ours still runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use salve_core::agent::prompt;
use salve_core::event::{Amounts, Effect, Event, Process, RemedyKind, Report, Resource, Scope};
use salve_core::id::IncidentId;
use salve_core::incident::{Incident, Phase, Run as Effecting};
use salve_core::repair::{Tale, Work, agent_title, order};
use salve_core::scrub::Scrubbed;

use super::Input;
use super::fleet::Fleet;
use super::life::millis;
use crate::agent::{self, Agent, AgentEvent, Bounds, End, Ending, Mcp, Profile, Task};
use crate::config::{Live, Reload};
use crate::process;
use crate::project::Project;
use crate::store::{Filter, StoreError};
use crate::workspace::{Name, Workspace, WorkspaceError};

/// How long an agent has to end by itself once it said that it has finished.
const PARTING: Duration = Duration::from_secs(10);
/// How long ending an agent may take beyond the time it has.
const ENDING: Duration = Duration::from_secs(30);
/// How often it is looked whether those who listen are still there.
const LOOK: Duration = Duration::from_secs(1);
/// How many comings and goings of sessions are looked at.
const SESSIONS: usize = 200;

/// How an agent is started.
#[derive(Clone, Debug)]
pub struct AgentPlan {
    /// Its name.
    pub name: String,
    /// How it is run.
    pub profile: Profile,
    /// How it reaches Salve.
    pub mcp: Mcp,
    /// The model, if not its own choice.
    pub model: Option<String>,
    /// How long it may take.
    pub wall: Duration,
    /// How long it may show no sign of life.
    pub idle: Duration,
}

/// What it takes to start agents.
#[derive(Debug)]
pub struct Agents<'a> {
    /// How they are started.
    pub plan: AgentPlan,
    /// The settings, which are held while one runs.
    pub live: Live<'a>,
}

/// An agent of ours at work.
pub(super) struct Minder {
    agent: Arc<Agent>,
    incident: IncidentId,
    effect: Effecting,
    /// The entry by which the settings are held.
    guard: u64,
    /// Whether it was told to stop.
    stopped: bool,
}

impl Minder {
    /// Returns the agent, for those who have to wait for its end.
    pub(super) fn agent(&self) -> Arc<Agent> {
        Arc::clone(&self.agent)
    }

    /// Tells it to stop, once.
    pub(super) fn stop(&mut self) {
        if !std::mem::replace(&mut self.stopped, true) {
            self.agent.stop();
        }
    }
}

/// Waits until an agent has ended with all it started; one that does not is made to.
pub(super) fn see_off(agent: &Agent) {
    if agent.wait(PARTING).is_none() {
        agent.stop();
        // Ending it is bounded by itself.
        let _late = agent.wait(ENDING);
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
        if self.is_attended()? && !self.was_ignored(at)? {
            return Ok(Some(Instant::now() + LOOK));
        }
        self.servers[at].case.called = Some(effect.effect);
        self.launch(at, effect)?;
        Ok(None)
    }

    /// Returns whether what was chosen is an agent's turn while one of ours works for another
    /// server: both would edit the same files, and neither's edits could be told apart.
    pub(super) fn has_to_queue(&self, at: usize, chosen: &Event) -> bool {
        let Event::Judged { remedy, .. } = chosen else { return false };
        let mut others = self.servers.iter().enumerate().filter(|(other, _)| *other != at);
        remedy.kind == RemedyKind::Agent && others.any(|(_, server)| server.minder.is_some())
    }

    /// Returns whether a session of somebody's agent listens.
    fn is_attended(&self) -> Result<bool, StoreError> {
        let kinds = ["agent_attached", "agent_detached"].map(str::to_owned).to_vec();
        let told =
            self.desk.store.journal().tail(&Filter { kinds, ..Filter::default() }, SESSIONS)?;
        let mut there: Vec<&Process> = Vec::new();
        for entry in &told {
            match &entry.event {
                Event::AgentAttached { process } => there.push(process),
                Event::AgentDetached { process } => there.retain(|known| *known != process),
                _ => {}
            }
        }
        Ok(there.iter().any(|session| !process::is_gone(session, &self.desk.scrubber)))
    }

    /// Returns whether those who listen let an earlier attempt of the incident go by.
    fn was_ignored(&self, at: usize) -> Result<bool, StoreError> {
        let Some(incident) = &self.servers[at].incident else { return Ok(false) };
        if incident.attempt() < 2 {
            return Ok(false);
        }
        let journal = self.desk.store.journal();
        let entries = journal.read(0, &Filter::incident(incident.id()), usize::MAX)?;
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
        let guard = agents.live.agent_starts(now)?;
        let on = Box::new(move |event| {
            // Nobody is left to tell when the fleet is gone.
            let _ = post.send(Input::Agent { server: at, effect, event });
        });
        let (care, scrubber) = (&self.care, &self.desk.scrubber);
        match agent::start(care, &agents.plan.profile, &task, scrubber, on) {
            Ok(agent) => {
                let launched = Event::AgentLaunched {
                    effect: effect.effect,
                    process: agent.process().clone(),
                    agent: scrubber.scrub(&agents.plan.name),
                    limit_ms: millis(task.bounds.wall.saturating_add(ENDING)),
                };
                let agent = Arc::new(agent);
                let minder = Minder { agent, incident, effect, guard, stopped: false };
                self.servers[at].minder = Some(minder);
                self.append(at, incident, launched)
            }
            Err(error) => {
                self.let_settings_go(at, guard)?;
                let mut text = format!("{error}: {}", error.source);
                if error.is_missing() {
                    text =
                        format!("{error}: it is not installed; install it, or set agent.runtime");
                }
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
        let entries = journal.read(0, &Filter::incident(incident.id()), usize::MAX)?;
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
            bounds: Bounds {
                wall: plan.wall,
                idle: plan.idle,
                tokens: left(Resource::Tokens),
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
            (End::Stopped, _) => {
                Report::Failed { reason: Scrubbed::literal("the agent was stopped") }
            }
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
        let text = match agents.live.agent_ended(guard, now)? {
            Reload::Unchanged | Reload::Changed(_) => return Ok(()),
            Reload::Waiting { digest, .. } => {
                let digest: String = digest.to_string().chars().take(12).collect();
                format!("the settings were changed meanwhile: salve config accept {digest}")
            }
            Reload::Rejected(error) => format!("the settings are wrong now: {error}"),
        };
        self.note(at, &text);
        Ok(())
    }

    /// Charges an incident for what its agent has cost until now, even if it is over.
    fn charge(
        &mut self,
        at: usize,
        incident: IncidentId,
        (effect, spent): (Effecting, Amounts),
    ) -> Result<(), StoreError> {
        self.append(at, incident, Event::Charged { effect: effect.effect, spent })
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

/// Whether files were edited.
pub(super) enum Edits {
    /// None was.
    None,
    /// At least one was.
    Some,
}

/// Finds out whether anything changed since the snapshot of that name, and keeps the state found.
pub(super) fn has_changed(project: &Project, name: Name) -> Result<Edits, WorkspaceError> {
    let workspace = Workspace::open(project)?;
    let Some(before) = workspace.load(name)? else { return Ok(Edits::Some) };
    let change = workspace.measure(&before)?.change;
    Ok(if change.files == Some(0) { Edits::None } else { Edits::Some })
}

/// Says how an agent ended and what it cost.
fn words(name: &Scrubbed, ending: &Ending) -> String {
    let how = match ending.end {
        End::Finished | End::NoResult => "has finished".to_owned(),
        End::Failed(trouble) => format!("could not work ({})", trouble.advice()),
        End::TimedOut => "took too long and was ended".to_owned(),
        End::Idle => "showed no sign of life and was ended".to_owned(),
        End::OverBudget(Resource::Tokens) => "used up the incident's tokens and was ended".into(),
        End::OverBudget(_) => "used up the incident's money and was ended".to_owned(),
        End::Stopped => "was stopped".to_owned(),
    };
    let Amounts { tokens, money_micros, .. } = ending.spent;
    let mut text = format!("{} {how} after {:.1} s", agent_title(name), ending.took.as_secs_f64());
    if tokens > 0 {
        text.push_str(&format!(", {tokens} tokens"));
    }
    if money_micros > 0 {
        text.push_str(&format!(", ${:.2}", money_micros as f64 / 1e6));
    }
    let said = ending.text.as_str().trim().lines().next().unwrap_or_default();
    match said.is_empty() {
        true => text,
        false => format!("{text}: {}", said.chars().take(200).collect::<String>()),
    }
}
