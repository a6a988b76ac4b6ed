//! Starting an agent for an incident, and hearing how it ended.
//!
//! One agent at a time works on a project's files. While it runs, the settings that bear on what
//! runs unattended are held; what it left in them waits for a person.

use std::time::Duration;

use jiff::Timestamp;
use salve_core::agent::Trouble;
use salve_core::class::Class;
use salve_core::event::{Actor, Event, IncidentEvent, Process, Resource, SessionEvent};
use salve_core::incident::DueEffect as Effecting;
use salve_core::repair::agent_title;
use salve_core::scrub::{Scrubbed, Scrubber};

use super::millis;
use super::running_agent::{AgentNotStarted, AgentStart, RunningAgent, release, start_agent};
use crate::agent::{AgentEvent, AgentRun, AgentTask, End, Ending, Mcp, Profile};
use crate::config::LiveSettings;
use crate::process::{self, Supervisor};
use crate::store::{Store, StoreError, Stream};

/// How long an agent has to end by itself once it said that it has finished.
const PARTING: Duration = Duration::from_secs(10);
/// How long ending an agent may take beyond the time it has.
const ENDING: Duration = Duration::from_secs(30);
/// How many comings and goings of sessions are looked at.
const SESSIONS: usize = 200;

/// How an agent is started.
#[derive(Clone, Debug)]
pub struct AgentPlan {
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

/// An agent for certain kinds of failure.
#[derive(Clone, Debug)]
pub struct Specialist {
    /// The kinds.
    pub classes: Vec<Class>,
    /// What it is told besides the failure.
    pub prompt: Option<String>,
    /// The model of its own, if it has one.
    pub model: Option<String>,
    /// How it is started.
    pub plan: AgentPlan,
}

/// What it takes to start agents.
#[derive(Debug)]
pub struct Agents<'a> {
    /// How they are started.
    pub plan: AgentPlan,
    /// Those for certain kinds of failure.
    pub specialists: Vec<Specialist>,
    /// The settings, which are held while one runs.
    pub live: LiveSettings<'a>,
}

/// Waits until an agent has ended with all it started; one that does not is made to.
pub fn see_off(agent: &AgentRun) {
    if agent.wait(PARTING).is_none() {
        agent.stop();
        // Ending it is bounded by itself.
        let _late = agent.wait(ENDING);
    }
}

#[derive(Clone, Debug)]
pub struct AgentCall {
    pub effect: Effecting,
    /// How the agent is run.
    pub profile: Profile,
    /// What it is to do.
    pub task: AgentTask,
    /// When.
    pub now: Timestamp,
}

/// What came of starting an agent.
#[derive(Debug)]
pub enum AgentLaunch {
    /// It works; the event is for the incident.
    Works(Box<RunningAgent>, Event),
    /// It does not, for this reason.
    Refused(String),
}

impl Agents<'_> {
    /// Returns the specialist for a kind of failure, if there is one.
    pub fn specialist(&self, class: Class) -> Option<&Specialist> {
        self.specialists.iter().find(|specialist| specialist.classes.contains(&class))
    }

    /// Starts an agent; the settings are held until it has ended.
    pub fn launch(
        &mut self,
        care: &Supervisor,
        call: &AgentCall,
        scrubber: &Scrubber,
        on: Box<dyn FnMut(AgentEvent) + Send>,
    ) -> Result<AgentLaunch, StoreError> {
        let AgentCall { effect, ref profile, ref task, now } = *call;
        let start = AgentStart { profile, task, now };
        match start_agent(&mut self.live, care, &start, scrubber, on)? {
            Ok(running) => {
                let launched = Event::Incident(IncidentEvent::AgentLaunched {
                    effect: effect.effect,
                    process: running.process().clone(),
                    agent: scrubber.scrub(&task.agent),
                    model: task.model.as_ref().map(|model| scrubber.scrub(model)),
                    limit_ms: millis(task.bounds.wall.saturating_add(ENDING)),
                });
                Ok(AgentLaunch::Works(Box::new(running), launched))
            }
            Err(AgentNotStarted { text, .. }) => Ok(AgentLaunch::Refused(text)),
        }
    }

    /// Lets go of the settings that were held for an agent; returns what a person should know.
    pub fn release(&mut self, guard: u64, now: Timestamp) -> Result<Option<String>, StoreError> {
        release(&mut self.live, guard, now)
    }
}

/// Returns whether a session of somebody's agent listens.
pub fn is_attended(store: &Store, scrubber: &Scrubber) -> Result<bool, StoreError> {
    Ok(!listeners(store, scrubber)?.is_empty())
}

/// Returns who listens, once for each session; the tools of an agent of ours listen for nobody.
pub fn listeners(store: &Store, scrubber: &Scrubber) -> Result<Vec<Actor>, StoreError> {
    let there = sessions(store, scrubber)?.into_iter();
    Ok(there.filter(|(session, _)| !is_from_here(session.pid)).map(|(_, who)| who).collect())
}

/// Tells whether this very process started another, or a process that led to it.
fn is_from_here(pid: u32) -> bool {
    let above = |pid: &u32| process::tree::stat(*pid).map(|stat| stat.parent);
    let mut line = std::iter::successors(above(&pid), |pid| above(pid).filter(|up| *up != *pid));
    line.any(|pid| pid == std::process::id())
}

/// Returns the name of the one agent that listens, if it is one.
pub fn only_listener(store: &Store, scrubber: &Scrubber) -> Option<Scrubbed> {
    // Who listens is only said; what cannot be read now is read when it matters.
    let mut names = listeners(store, scrubber).ok()?.into_iter().filter_map(|who| match who {
        Actor::Agent { name } => Some(name),
        Actor::Salve(_) | Actor::Person { .. } | Actor::Unproven { .. } | Actor::Forged { .. } => {
            None
        }
    });
    let first = names.next()?;
    names.all(|name| name == first).then_some(first)
}

/// Returns who listens and can answer: not whoever waits for this very process.
pub fn others(store: &Store, scrubber: &Scrubber) -> Result<Vec<Actor>, StoreError> {
    let line = process::lineage();
    // Who started both talks to the session; a server that anybody may talk to is no one's.
    let is_own = |session: &Process| {
        let parent = process::tree::stat(session.pid).map(|stat| stat.parent);
        parent.is_some_and(|pid| line.contains(&pid)) && process::tree::is_fed(session.pid)
    };
    let there = sessions(store, scrubber)?.into_iter().filter(|(session, _)| !is_own(session));
    Ok(there.map(|(_, who)| who).collect())
}

/// Returns the sessions of agents that live, with whose they are.
fn sessions(store: &Store, scrubber: &Scrubber) -> Result<Vec<(Process, Actor)>, StoreError> {
    let told = store.journal().tail(&Stream::Sessions, SESSIONS)?;
    let mut there: Vec<(&Process, &Actor)> = Vec::new();
    for entry in &told {
        match &entry.event {
            Event::Session(SessionEvent::Attached { process }) => there.push((process, &entry.by)),
            Event::Session(SessionEvent::Detached { process }) => {
                there.retain(|(known, _)| *known != process)
            }
            _ => {}
        }
    }
    there.retain(|(session, _)| !process::is_gone(session, scrubber));
    Ok(there.into_iter().map(|(session, who)| (session.clone(), who.clone())).collect())
}

/// Says what an agent waits for, and what a person can do about it.
pub fn trouble_words(name: &Scrubbed, kind: Trouble, text: &Scrubbed) -> String {
    let title = agent_title(name);
    match kind {
        // What is wrong nobody knows, so there is nothing to advise.
        Trouble::Other => format!("{title} has trouble: {text}"),
        Trouble::Auth | Trouble::RateLimit | Trouble::Billing | Trouble::Overloaded => {
            format!("{title} has trouble with its service: {text} ({})", kind.advice())
        }
    }
}

/// Says that a limit on money cannot hold for an agent, and what does.
pub fn no_price_words(name: &Scrubbed) -> String {
    let title = agent_title(name);
    format!(
        "{title} does not tell what it costs, so max_cents cannot hold; max_tokens does \
         (prices in salve.toml help: [agent.prices.{name}])"
    )
}

/// Says how an agent ended and what it cost.
pub fn words(name: &Scrubbed, ending: &Ending) -> String {
    let how = match ending.end {
        End::Finished | End::NoResult => "has finished".to_owned(),
        End::Failed(trouble) => format!("could not work ({})", trouble.advice()),
        End::TimedOut => "took too long and was ended".to_owned(),
        End::Idle => "showed no sign of life and was ended".to_owned(),
        End::OverBudget(Resource::Tokens) => "used up its tokens and was ended".into(),
        End::OverBudget(_) => "used up its money and was ended".to_owned(),
        End::Stopped => "was stopped".to_owned(),
    };
    let mut text = format!("{} {how} after {:.1} s", agent_title(name), ending.took.as_secs_f64());
    if let Some(cost) = ending.spent.cost_in_words() {
        text.push_str(&format!(", {cost}"));
    }
    let said = ending.text.as_str().trim().lines().next().unwrap_or_default();
    if said.is_empty() {
        text
    } else {
        format!("{text}: {}", said.chars().take(200).collect::<String>())
    }
}
