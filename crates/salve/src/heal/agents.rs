//! Starting an agent for an incident, and hearing how it ended.
//!
//! One agent at a time works on a project's files. While it runs, the settings that bear on what
//! runs unattended are held; what it left in them waits for a person.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use salve_core::class::Class;
use salve_core::event::{Actor, Amounts, Event, Process, Resource};
use salve_core::id::IncidentId;
use salve_core::incident::Run as Effecting;
use salve_core::repair::agent_title;
use salve_core::scrub::{Scrubbed, Scrubber};

use super::files::with_causes;
use super::millis;
use crate::agent::{self, Agent, AgentEvent, End, Ending, Mcp, Profile, Task};
use crate::config::{Live, Reload};
use crate::process::{self, Care};
use crate::project::Project;
use crate::store::{Filter, Store, StoreError};
use crate::workspace::{GitGuard, GitPart, Name, RestoreError, Workspace};

/// How long an agent has to end by itself once it said that it has finished.
const PARTING: Duration = Duration::from_secs(10);
/// How long ending an agent may take beyond the time it has.
const ENDING: Duration = Duration::from_secs(30);
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
    pub live: Live<'a>,
    /// The project, whose repository is kept while one runs.
    pub project: Project,
}

/// An agent of ours at work.
#[derive(Debug)]
pub struct Minder {
    agent: Arc<Agent>,
    /// The agent's name.
    pub name: String,
    /// The incident it works for.
    pub incident: IncidentId,
    /// The effect that it was started for.
    pub effect: Effecting,
    /// The entry by which the settings are held.
    pub guard: u64,
    /// Whether it was told to stop.
    stopped: bool,
    /// The user's repository as it was.
    repository: Option<GitGuard>,
    /// The commit that was checked out.
    commit: Option<String>,
    project: Project,
}

impl Minder {
    /// Gives back what the agent broke in the user's repository, what makes git run programs, and
    /// what it threw away of the user's work since the state `before`; returns what a person should
    /// know.
    pub fn mend_repository(&self, before: Option<Name>) -> Vec<String> {
        let Some(kept) = &self.repository else { return Vec::new() };
        let mended = || -> Result<Vec<String>, RestoreError> {
            let mut told = kept.mend()?;
            let files = self.give_back_discarded(before)?;
            let (wrong, rest): (Vec<_>, Vec<_>) = kept.changes()?.into_iter().partition(|change| {
                let is_given_back = change.part == GitPart::Stash && !files.is_empty();
                runs_programs(change.part) || is_given_back
            });
            kept.put_back(&wrong)?;
            if !files.is_empty() {
                let files = files.join(", ");
                told.push(format!("it threw away what was not committed; {files} is given back"));
            }
            told.extend(wrong.iter().map(|change| format!("{}; it was put back", change.text)));
            told.extend(rest.into_iter().map(|change| change.text));
            Ok(told)
        };
        mended().unwrap_or_else(|error| {
            vec![format!("the repository could not be looked at: {}", with_causes(&error))]
        })
    }

    fn give_back_discarded(&self, before: Option<Name>) -> Result<Vec<String>, RestoreError> {
        let (Some(before), Some(commit)) = (before, &self.commit) else { return Ok(Vec::new()) };
        let workspace = Workspace::open(&self.project)?;
        match workspace.load(before)? {
            Some(before) => workspace.give_back_discarded(&before, commit),
            None => Ok(Vec::new()),
        }
    }

    /// Returns the agent, for those who have to wait for its end.
    pub fn agent(&self) -> Arc<Agent> {
        Arc::clone(&self.agent)
    }

    /// Tells it to stop, once.
    pub fn stop(&mut self) {
        if !std::mem::replace(&mut self.stopped, true) {
            self.agent.stop();
        }
    }
}

/// Waits until an agent has ended with all it started; one that does not is made to.
pub fn see_off(agent: &Agent) {
    if agent.wait(PARTING).is_none() {
        agent.stop();
        // Ending it is bounded by itself.
        let _late = agent.wait(ENDING);
    }
}

/// What an agent is called for.
#[derive(Clone, Debug)]
pub struct Call {
    /// The incident.
    pub incident: IncidentId,
    /// The effect.
    pub effect: Effecting,
    /// How the agent is run.
    pub profile: Profile,
    /// What it is to do.
    pub task: Task,
    /// When.
    pub now: Timestamp,
}

/// What came of starting an agent.
#[derive(Debug)]
pub enum Launched {
    /// It works; the event is for the incident.
    Works(Box<Minder>, Event),
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
        care: &Care,
        call: &Call,
        scrubber: &Scrubber,
        on: Box<dyn FnMut(AgentEvent) + Send>,
    ) -> Result<Launched, StoreError> {
        let Call { incident, effect, ref profile, ref task, now } = *call;
        let guard = self.live.agent_starts(now)?;
        // Without a repository, or where it cannot be kept, the files are kept all the same.
        let workspace = Workspace::open(&self.project).ok();
        let repository = workspace.as_ref().and_then(|there| there.guard_git().ok().flatten());
        let commit = workspace.as_ref().and_then(|there| there.commit().ok().flatten());
        match agent::start(care, profile, task, scrubber, on) {
            Ok(agent) => {
                let launched = Event::AgentLaunched {
                    effect: effect.effect,
                    process: agent.process().clone(),
                    agent: scrubber.scrub(&task.agent),
                    model: task.model.as_ref().map(|model| scrubber.scrub(model)),
                    limit_ms: millis(task.bounds.wall.saturating_add(ENDING)),
                };
                let agent = Arc::new(agent);
                let (name, stopped) = (task.agent.clone(), false);
                let project = self.project.clone();
                let minder = Minder {
                    agent,
                    name,
                    incident,
                    effect,
                    guard,
                    stopped,
                    repository,
                    commit,
                    project,
                };
                Ok(Launched::Works(Box::new(minder), launched))
            }
            Err(error) => {
                let left = self.release(guard, now)?;
                let mut text = format!("{error}: {}", error.source);
                if error.is_missing() {
                    text =
                        format!("{error}: it is not installed; install it, or set agent.runtime");
                }
                Ok(Launched::Refused(left.map_or(text.clone(), |left| format!("{text}\n{left}"))))
            }
        }
    }

    /// Lets go of the settings that were held for an agent; returns what a person should know.
    pub fn release(&mut self, guard: u64, now: Timestamp) -> Result<Option<String>, StoreError> {
        Ok(match self.live.agent_ended(guard, now)? {
            Reload::Unchanged | Reload::Changed(_) => None,
            Reload::Waiting { digest, .. } => {
                let digest: String = digest.to_string().chars().take(12).collect();
                Some(format!("the settings were changed meanwhile: salve config accept {digest}"))
            }
            Reload::Rejected(error) => Some(format!("the settings are wrong now: {error}")),
        })
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

/// Returns whether a session of somebody's agent listens.
pub fn is_attended(store: &Store, scrubber: &Scrubber) -> Result<bool, StoreError> {
    Ok(!listeners(store, scrubber)?.is_empty())
}

/// Returns who listens, once for each session.
pub fn listeners(store: &Store, scrubber: &Scrubber) -> Result<Vec<Actor>, StoreError> {
    Ok(sessions(store, scrubber)?.into_iter().map(|(_, who)| who).collect())
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
    let kinds = ["agent_attached", "agent_detached"].map(str::to_owned).to_vec();
    let told = store.journal().tail(&Filter { kinds, ..Filter::default() }, SESSIONS)?;
    let mut there: Vec<(&Process, &Actor)> = Vec::new();
    for entry in &told {
        match &entry.event {
            Event::AgentAttached { process } => there.push((process, &entry.by)),
            Event::AgentDetached { process } => there.retain(|(known, _)| *known != process),
            _ => {}
        }
    }
    there.retain(|(session, _)| !process::is_gone(session, scrubber));
    Ok(there.into_iter().map(|(session, who)| (session.clone(), who.clone())).collect())
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
