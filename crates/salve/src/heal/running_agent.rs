//! Having an agent work: what it could spoil is held while it does, and given back afterwards.

use std::sync::Arc;

use jiff::Timestamp;
use salve_core::event::Process;
use salve_core::scrub::Scrubber;

use super::files::with_causes;
use crate::agent::{self, AgentEvent, AgentGround, AgentRun, AgentTask, Profile};
use crate::config::{LiveSettings, Reload};
use crate::process::Supervisor;
use crate::project::Project;
use crate::store::StoreError;
use crate::workspace::{GitGuard, GitPart, Workspace, WorkspaceError};

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
    /// The user's repository as it was.
    repository: Option<GitGuard>,
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
    /// The project that it works in.
    pub project: &'a Project,
    /// How its program is run.
    pub profile: &'a Profile,
    /// What it is to do.
    pub task: &'a AgentTask,
    /// When it begins.
    pub now: Timestamp,
}

/// Starts an agent; the settings and the user's repository are held until it has ended.
pub fn start_agent(
    live: &mut LiveSettings<'_>,
    care: &Supervisor,
    &AgentStart { project, profile, task, now }: &AgentStart<'_>,
    scrubber: &Scrubber,
    on: Box<dyn FnMut(AgentEvent) + Send>,
) -> Result<Result<RunningAgent, AgentNotStarted>, StoreError> {
    let guard = live.agent_starts(now)?;
    // Without a repository, or where it cannot be kept, the files are kept all the same; from a layer
    // it is out of reach.
    let workspace = match task.ground {
        AgentGround::Tree => Workspace::open(project).ok(),
        AgentGround::Layer { .. } => None,
    };
    let repository = workspace.as_ref().and_then(|there| there.guard_git().ok().flatten());
    match agent::start(care, profile, task, scrubber, on) {
        Ok(agent) => {
            let (agent, name) = (Arc::new(agent), task.agent.clone());
            Ok(Ok(RunningAgent { name, agent, guard, stopped: false, repository }))
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
    /// Gives back what the agent broke in the user's repository, and what makes git run programs;
    /// returns what a person should know.
    pub fn mend_repository(&self) -> Vec<String> {
        let Some(kept) = &self.repository else { return Vec::new() };
        let mended = || -> Result<Vec<String>, WorkspaceError> {
            let mut told = kept.mend()?;
            let (wrong, rest): (Vec<_>, Vec<_>) =
                kept.changes()?.into_iter().partition(|change| runs_programs(change.part));
            kept.put_back(&wrong)?;
            told.extend(wrong.iter().map(|change| format!("{}; it was put back", change.text)));
            told.extend(rest.into_iter().map(|change| change.text));
            Ok(told)
        };
        mended().unwrap_or_else(|error| {
            vec![format!("the repository could not be looked at: {}", with_causes(&error))]
        })
    }

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

/// Returns whether a part of a repository makes git run programs.
fn runs_programs(part: GitPart) -> bool {
    match part {
        GitPart::Settings | GitPart::Hooks => true,
        GitPart::Repository
        | GitPart::Head
        | GitPart::Refs
        | GitPart::Stash
        | GitPart::Index
        | GitPart::Operation
        | GitPart::Lock => false,
    }
}
