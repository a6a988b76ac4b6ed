//! One role's turn: its agent is told what to do, and must leave behind what it must.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use salve_core::agent::Trouble;
use salve_core::event::{Amounts, EffectReport, LoopTurn, Promise, Resource, RoleEnd};
use salve_core::iteration::{PromiseRefusal, RoleBrief, brief, promised, until};
use salve_core::scrub::Scrubbed;

use super::driver::LoopRun;
use super::files::FileIdentities;
use super::plan::RolePlan;
use super::{LoopError, LoopNews};
use crate::agent::{
    Activity, AgentBounds, AgentEvent, AgentGround, AgentTask, EditReach, End, Ending,
};
use crate::config::{SandboxMode, WeakenedTests};
use crate::heal::agents::{no_price_words, trouble_words, words};
use crate::heal::running_agent::{AgentNotStarted, AgentStart, RunningAgent, release, start_agent};
use crate::heal::{files, layers, millis};
use crate::project::Project;
use crate::store::StoreError;
use crate::workspace::{LayerError, Name, PrivateLayer};

/// How a role's agent ended, or why it did not begin.
enum TurnCame {
    /// It worked and ended so.
    Ended(Box<Ending>),
    /// It could not be started.
    NotStarted(AgentNotStarted),
}

impl LoopRun<'_, '_> {
    /// Lets a role do its part.
    pub(super) fn role(&mut self, name: &Scrubbed, attempt: u32) -> Result<(), LoopError> {
        let role = self.driver.plan.role(name.as_str()).cloned();
        let before = role.as_ref().map(|role| self.driver.folder.stamps(&role.writes));
        let task = role.as_ref().map(|role| self.task(role)).transpose()?;
        self.say(LoopTurn::RoleBegan { role: name.clone(), attempt })?;
        self.tell()?;
        if !self.of.is_at_work() {
            // Somebody ordered otherwise.
            return Ok(());
        }
        let kept = self.keep_work();
        let (Some(role), Some(before), Some(task)) = (role, before, task) else {
            let text = format!("there is no role `{name}` in the settings: add loop.roles.{name}");
            let end = RoleEnd::Unable { reason: self.driver.base.writer.scrubber.scrub(&text) };
            return self.ended(name, end, Amounts::default(), Promise::None);
        };
        let (end, spent) = match self.work(&role, &task, kept)? {
            TurnCame::NotStarted(AgentNotStarted { text, is_missing }) => {
                let reason =
                    self.driver.base.writer.scrubber.scrub(&format!("{}: {text}", role.name));
                let end =
                    if is_missing { RoleEnd::Unable { reason } } else { RoleEnd::Short { reason } };
                (end, Amounts::default())
            }
            TurnCame::Ended(ending) => {
                let spent = Amounts { wall_ms: millis(ending.took), ..ending.spent };
                (self.judge(&role, &ending, &before), spent)
            }
        };
        let promise = match end {
            RoleEnd::Done => self.promise(&role),
            RoleEnd::Short { .. }
            | RoleEnd::Away { .. }
            | RoleEnd::Unable { .. }
            | RoleEnd::Stopped => Promise::None,
        };
        self.ended(name, end, spent, promise)
    }

    fn ended(
        &mut self,
        role: &Scrubbed,
        end: RoleEnd,
        spent: Amounts,
        promise: Promise,
    ) -> Result<(), LoopError> {
        Ok(self.say(LoopTurn::RoleEnded { role: role.clone(), end, spent, promise })?)
    }

    /// Returns what a role's agent is to do.
    fn task(&mut self, role: &RolePlan) -> Result<AgentTask, StoreError> {
        let notes = self.notes()?;
        let (driver, of) = (&self.driver, &self.of);
        let folder = &driver.folder;
        let writes: Vec<String> = role.writes.iter().map(|name| folder.below(name)).collect();
        let recovery = role.proposes.then(|| folder.below("recovery.json"));
        let prompt = brief(&RoleBrief {
            of,
            role: &role.name,
            prompt: &role.prompt,
            writes: &writes,
            recovery: recovery.as_deref(),
            promise: role.promises.then_some(driver.plan.promise.as_str()),
            tests: &driver.plan.tests.command,
            files: &folder.readable(),
            notes: &notes,
        });
        let left = |resource| of.left(resource);
        let wall = left(Resource::WallMs).map_or(Duration::MAX, Duration::from_millis);
        let env = [
            ("SALVE_LOOP", of.id().to_string()),
            ("SALVE_LOOP_DIR", folder.dir().to_string_lossy().into_owned()),
            ("SALVE_ROLE", role.name.clone()),
            ("SALVE_ITERATION", of.iteration().to_string()),
        ];
        Ok(AgentTask {
            agent: role.agent.name.clone(),
            prompt,
            dir: driver.base.project.root().to_path_buf(),
            mcp: role.agent.mcp.clone(),
            model: role.agent.model.clone(),
            env: env.map(|(name, value)| (name.to_owned(), value)).to_vec(),
            ground: AgentGround::Tree,
            reach: EditReach::Loop,
            bounds: AgentBounds {
                wall: role.agent.wall.min(wall),
                idle: role.agent.idle,
                tokens: [role.tokens, left(Resource::Tokens)].into_iter().flatten().min(),
                work: None,
                money_micros: left(Resource::MoneyMicros),
            },
            // What a role writes is a file of the loop.
            transcript: None,
        })
    }

    /// Returns what a role should know besides how the loop stands: how tests were weakened, and
    /// what people answered when they were asked about a recovery.
    fn notes(&mut self) -> Result<Vec<Scrubbed>, StoreError> {
        let mut notes = match self.of.refused() {
            Some(PromiseRefusal::Weakened) => self.weakenings(),
            Some(PromiseRefusal::Red | PromiseRefusal::NotExecuted) | None => Vec::new(),
        };
        let writer = &self.driver.base.writer;
        let view = self.files.view(writer.store)?;
        let answers = view.answers(self.of.iteration()).filter(|answer| answer.is_news());
        notes.extend(answers.map(|answer| writer.scrubber.scrub(&answer.to_string())));
        Ok(notes)
    }

    /// Keeps the files as they are before a role begins; returns under which name.
    fn keep_work(&mut self) -> Name {
        let attempt = u32::try_from(self.of.stamps().last_seq()).unwrap_or(u32::MAX);
        let name = Name::before(self.kept_as(), attempt);
        let (project, writer) = (&self.driver.base.project, &self.driver.base.writer);
        let days = self.driver.live.current().settings.heal.attempt_days;
        let kept = Duration::from_secs(u64::from(days) * 86_400);
        let report = files::keep(project, name, writer.now(), kept, &writer.scrubber);
        if let EffectReport::Failed { reason, .. } = report {
            self.note(&format!("the files could not be kept before this turn: {reason}"));
        }
        name
    }

    /// Has an agent work and waits for its end.
    fn work(
        &mut self,
        role: &RolePlan,
        task: &AgentTask,
        kept: Name,
    ) -> Result<TurnCame, StoreError> {
        let driver = &mut *self.driver;
        let news = driver.news.sender();
        let on = Box::new(move |event| {
            // Nobody is left to tell when the run of Salve is over.
            let _ = news.send(LoopNews::Agent(event));
        });
        let now = driver.base.writer.now();
        let project = &driver.base.project;
        let mode = driver.live.current().settings.recovery.sandbox.mode;
        let layer = match lay(project, kept, driver.folder.dir()) {
            Ok(layer) => Some(layer),
            Err(LayerError::Unheld) if mode == SandboxMode::Off => None,
            Err(error) => {
                let text = layers::unheld_words(&error);
                return Ok(TurnCame::NotStarted(AgentNotStarted { text, is_missing: false }));
            }
        };
        let writable = vec![driver.folder.dir().to_path_buf()];
        let ground =
            layer.clone().map_or(AgentGround::Tree, |layer| AgentGround::Layer { layer, writable });
        let task = &AgentTask { ground, ..task.clone() };
        let start = AgentStart { profile: &role.agent.profile, task, now };
        let (care, scrubber) = (&driver.base.care, &driver.base.writer.scrubber);
        let mut hired = match start_agent(&mut driver.live, care, &start, scrubber, on)? {
            Ok(hired) => hired,
            Err(why) => return Ok(TurnCame::NotStarted(why)),
        };
        let ending = self.follow(role, &mut hired)?;
        let left = release(&mut self.driver.live, hired.guard, self.driver.base.writer.now())?;
        let (project, scrubber) = (&self.driver.base.project, &self.driver.base.writer.scrubber);
        let brought = layer.map(|layer| layers::bring_in(project, kept, &layer, scrubber));
        let told = brought.unwrap_or_else(|| Ok(Vec::new())).unwrap_or_else(|why| {
            vec![format!("what the {} did could not be brought into your files: {why}", role.name)]
        });
        for text in told.into_iter().chain(left) {
            self.note(&text);
        }
        Ok(TurnCame::Ended(ending))
    }

    fn follow(
        &mut self,
        role: &RolePlan,
        hired: &mut RunningAgent,
    ) -> Result<Box<Ending>, StoreError> {
        loop {
            match self.hear() {
                LoopNews::Agent(AgentEvent::Ended(ending)) => return Ok(ending),
                LoopNews::Agent(AgentEvent::Spent(spent)) => {
                    let role = self.driver.base.writer.scrubber.scrub(&role.name);
                    self.say(LoopTurn::Charged { role, spent })?;
                }
                LoopNews::Agent(AgentEvent::Activity(Activity::Trouble(kind, text))) => {
                    let name = self.driver.base.writer.scrubber.scrub(&role.agent.name);
                    self.note(&trouble_words(&name, kind, &text));
                }
                LoopNews::Agent(AgentEvent::Activity(Activity::NoPrice)) => {
                    let name = self.driver.base.writer.scrubber.scrub(&role.agent.name);
                    self.note(&no_price_words(&name));
                }
                other @ (LoopNews::Agent(AgentEvent::Activity(_))
                | LoopNews::Ran(_)
                | LoopNews::Ordered
                | LoopNews::Note(_)
                | LoopNews::Stop(_)) => self.take(other)?,
            }
            if self.is_called_off() {
                hired.stop();
            }
        }
    }

    /// Says whether a role did its part.
    fn judge(&self, role: &RolePlan, ending: &Ending, before: &FileIdentities) -> RoleEnd {
        let scrubber = &self.driver.base.writer.scrubber;
        let reason = || scrubber.scrub(&words(&scrubber.scrub(&role.name), ending));
        match ending.end {
            End::Stopped => RoleEnd::Stopped,
            _ if self.stopping.is_some() => RoleEnd::Stopped,
            End::Finished | End::NoResult => {
                let missing = self.driver.folder.unwritten(&role.writes, before);
                if missing.is_empty() {
                    return RoleEnd::Done;
                }
                let paths: Vec<_> =
                    missing.iter().map(|name| self.driver.folder.below(name)).collect();
                let text = format!("the {} did not write {}", role.name, paths.join(", "));
                RoleEnd::Short { reason: scrubber.scrub(&text) }
            }
            End::Failed(Trouble::RateLimit | Trouble::Overloaded) => {
                let (pause, times) = (self.driver.plan.park, self.of.parks());
                let until = until(ending.text.as_str(), self.now(), pause, times);
                RoleEnd::Away { until, reason: reason() }
            }
            End::Failed(Trouble::Auth | Trouble::Billing) => RoleEnd::Unable { reason: reason() },
            End::Failed(Trouble::Other) | End::TimedOut | End::Idle | End::OverBudget(_) => {
                RoleEnd::Short { reason: reason() }
            }
        }
    }

    /// Returns whether a role that did its part promised that the task is done.
    fn promise(&self, role: &RolePlan) -> Promise {
        let says = |name: &String| {
            let text = self.driver.folder.read(name).unwrap_or_default();
            promised(&text, &self.driver.plan.promise)
        };
        if !role.promises || !role.writes.iter().any(says) {
            return Promise::None;
        }
        match self.driver.plan.weakened_tests {
            WeakenedTests::Refuse if !self.weakenings().is_empty() => Promise::Weakened,
            WeakenedTests::Refuse | WeakenedTests::Allow => Promise::Made { tree: self.tree() },
        }
    }
}

/// Lays a private layer for a role, through which the loop's own directory shows.
fn lay(project: &Project, kept: Name, dir: &Path) -> Result<Arc<PrivateLayer>, LayerError> {
    let layer = layers::lay(project, kept)?;
    layer.show_through(dir)?;
    Ok(layer)
}
