//! Having an agent work: the settings that bear on what runs unattended are held while it does.

use std::sync::Arc;

use jiff::Timestamp;
use salve_core::event::Process;
use salve_core::scrub::Scrubber;

use crate::agent::{self, AgentEvent, AgentRun, AgentTask, Profile};
use crate::config::{LiveSettings, Reload};
use crate::process::Supervisor;
use crate::store::StoreError;

/// An agent of ours at work, and what is held for it.
#[derive(Debug)]
pub struct RunningAgent {
    /// What it is called.
    pub name: String,
    agent: Arc<AgentRun>,
    /// The entry by which the settings are held.
    pub guard: u64,
    /// Whether it was told to stop.
    stopped: bool,
}

/// Why an agent does not work.
#[derive(Clone, Debug)]
pub struct AgentNotStarted {
    /// Why, and what to do.
    pub text: String,
    /// Whether its program is not there.
    pub is_missing: bool,
}

/// What it takes to start one agent.
#[derive(Debug)]
pub struct AgentStart<'a> {
    /// How its program is run.
    pub profile: &'a Profile,
    /// What it is to do.
    pub task: &'a AgentTask,
    /// When it begins.
    pub now: Timestamp,
}

/// Starts an agent; the settings are held until it has ended.
pub fn start_agent(
    live: &mut LiveSettings<'_>,
    care: &Supervisor,
    &AgentStart { profile, task, now }: &AgentStart<'_>,
    scrubber: &Scrubber,
    on: Box<dyn FnMut(AgentEvent) + Send>,
) -> Result<Result<RunningAgent, AgentNotStarted>, StoreError> {
    let guard = live.agent_starts(now)?;
    match agent::start(care, profile, task, scrubber, on) {
        Ok(agent) => {
            let (agent, name) = (Arc::new(agent), task.agent.clone());
            Ok(Ok(RunningAgent { name, agent, guard, stopped: false }))
        }
        Err(error) => {
            let left = release(live, guard, now)?;
            let is_missing = error.is_missing();
            let text = if is_missing {
                format!("{error}: it is not installed; install it, or set agent.runtime")
            } else {
                format!("{error}: {}", error.source)
            };
            let text = left.map_or(text.clone(), |left| format!("{text}\n{left}"));
            Ok(Err(AgentNotStarted { text, is_missing }))
        }
    }
}

/// Lets go of the settings that were held for an agent; returns what a person should know.
pub fn release(
    live: &mut LiveSettings<'_>,
    guard: u64,
    now: Timestamp,
) -> Result<Option<String>, StoreError> {
    Ok(match live.agent_ended(guard, now)? {
        Reload::Unchanged | Reload::Changed(_) => None,
        Reload::Waiting { digest, .. } => {
            let digest: String = digest.to_string().chars().take(12).collect();
            Some(format!("the settings were changed meanwhile: salve config accept {digest}"))
        }
        Reload::Rejected(error) => Some(format!("the settings are wrong now: {error}")),
    })
}

impl RunningAgent {
    /// Returns the agent's process.
    pub fn process(&self) -> &Process {
        self.agent.process()
    }

    /// Returns the agent, for those who have to wait for its end.
    pub fn agent(&self) -> Arc<AgentRun> {
        Arc::clone(&self.agent)
    }

    /// Tells it to stop, once.
    pub fn stop(&mut self) {
        if !std::mem::replace(&mut self.stopped, true) {
            self.agent.stop();
        }
    }
}
