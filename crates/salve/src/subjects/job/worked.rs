//! An agent at work for a step: doing it, or reviewing what was done.

use std::time::Duration;

use salve_core::agent::Trouble;
use salve_core::event::{Amounts, AttemptEnd, JobTurn, ProcessExit, Resource, StepTimer};
use salve_core::iteration::until;
use salve_core::scrub::Scrubbed;

use super::attempt::{StepWorked, WorkResult};
use super::course::{JobCourse, now_of};
use super::valid::{NamedAgent, StepSpec};
use super::{JobError, JobNews};
use crate::agent::{
    Activity, AgentBounds, AgentEvent, AgentGround, AgentTask, EditReach, End, Ending,
};
use crate::heal::agents::{no_price_words, words};
use crate::heal::running_agent::{AgentNotStarted, AgentStart, release, start_agent};
use crate::heal::{RunBase, layers, millis};

/// How long a step is parked where an agent does not say.
const PARK: jiff::SignedDuration = jiff::SignedDuration::from_mins(15);

/// What an agent is to do for a step.
#[derive(Clone, Copy)]
pub(super) struct StepErrand<'e> {
    pub(super) agent: &'e NamedAgent,
    /// What it is told.
    pub(super) prompt: &'e str,
    /// What the attempt has cost before it.
    pub(super) before: Amounts,
}

/// How an agent's work for a step ended.
pub(super) enum ErrandEnd {
    /// It worked, and came to an end.
    Ended {
        /// What it is called.
        name: String,
        /// How it ended.
        ending: Box<Ending>,
        /// What it said last while it worked; not every program repeats that at its end.
        said: Scrubbed,
        /// What the attempt has cost by now.
        spent: Amounts,
    },
    /// It could not be started; a person has to do this first.
    NotStarted(String),
}

impl JobCourse<'_, '_> {
    /// Has an agent do a step.
    pub(super) fn run_agent(
        &mut self,
        base: &mut RunBase<'_>,
        spec: &StepSpec,
        prompt: &str,
        agent: &NamedAgent,
    ) -> Result<WorkResult, JobError> {
        let errand = StepErrand { agent, prompt, before: Amounts::default() };
        Ok(match self.send_agent(base, spec, errand)? {
            ErrandEnd::Ended { name, ending, spent, .. } => {
                WorkResult { worked: self.worked(base, &name, &ending), spent }
            }
            ErrandEnd::NotStarted(text) => {
                let reason = base.writer.scrubber.scrub(&text);
                let worked = StepWorked::Not(AttemptEnd::Unable { reason });
                WorkResult { worked, spent: Amounts::default() }
            }
        })
    }

    /// Has an agent work and waits for its end.
    pub(super) fn send_agent(
        &mut self,
        base: &mut RunBase<'_>,
        spec: &StepSpec,
        errand: StepErrand<'_>,
    ) -> Result<ErrandEnd, JobError> {
        let ready = (self.parts.planner)(errand.agent).and_then(|plan| Ok((plan, self.ground()?)));
        let (plan, ground) = match ready {
            Ok(ready) => ready,
            Err(text) => return Ok(ErrandEnd::NotStarted(text)),
        };
        let task = AgentTask {
            agent: plan.name.clone(),
            prompt: errand.prompt.to_owned(),
            dir: self.parts.workspace.dir(),
            mcp: plan.mcp.clone(),
            model: plan.model.clone(),
            env: self.environment(spec),
            ground,
            reach: EditReach::Loop,
            bounds: self.agent_bounds(spec),
            // The attempt's own log has its words.
            transcript: None,
        };
        let news = self.parts.news.sender();
        let on = Box::new(move |event| {
            // Nobody is left to tell when the run of Salve is over.
            let _ = news.send(JobNews::Agent(event));
        });
        let start = AgentStart { profile: &plan.profile, task: &task, now: base.writer.now() };
        let (live, scrubber) = (&mut self.parts.live, &base.writer.scrubber);
        let mut hired = match start_agent(live, &base.care, &start, scrubber, on)? {
            Ok(hired) => hired,
            Err(AgentNotStarted { text, .. }) => return Ok(ErrandEnd::NotStarted(text)),
        };
        let mut said = Scrubbed::default();
        let ending = loop {
            match self.hear(base) {
                JobNews::Agent(AgentEvent::Ended(ending)) => break ending,
                JobNews::Agent(AgentEvent::Spent(spent)) => {
                    self.say(base, JobTurn::Charged { spent: errand.before.plus(spent) })?
                }
                JobNews::Agent(AgentEvent::Activity(Activity::NoPrice)) => {
                    let name = base.writer.scrubber.scrub(&plan.name);
                    self.note(base, &no_price_words(&name));
                }
                JobNews::Agent(AgentEvent::Activity(Activity::Expires(timer, left))) => {
                    self.take(base, JobNews::Warned(timer, left))?;
                }
                JobNews::Agent(AgentEvent::Activity(activity)) => {
                    self.show(&activity);
                    if let Activity::Said(text) = activity {
                        said = text;
                    }
                }
                other => self.take(base, other)?,
            }
            if self.is_called_off() {
                hired.stop();
            }
        };
        if let Some(text) = release(&mut self.parts.live, hired.guard, base.writer.now())? {
            self.note(base, &text);
        }
        let own = Amounts { wall_ms: millis(ending.took), ..ending.spent };
        let (name, spent) = (plan.name, errand.before.plus(own));
        Ok(ErrandEnd::Ended { name, ending, said, spent })
    }

    /// Returns what an agent works on, or why it is not let in.
    fn ground(&self) -> Result<AgentGround, String> {
        let mode = self.parts.live.current().settings.recovery.sandbox.mode;
        layers::hold(self.parts.workspace.root(), mode)
    }

    /// Shows what an agent is doing.
    fn show(&mut self, activity: &Activity) {
        match activity {
            Activity::Said(text) | Activity::Used(text) | Activity::Trouble(_, text) => {
                self.parts.face.activity(text);
            }
            Activity::Session(_) | Activity::NoPrice | Activity::Expires(..) => {}
        }
    }

    fn agent_bounds(&self, spec: &StepSpec) -> AgentBounds {
        let left = |resource| self.of.steps().left(resource);
        let wall = left(Resource::WallMs).map_or(Duration::MAX, Duration::from_millis);
        AgentBounds {
            wall: spec.wall.min(wall),
            idle: spec.idle,
            tokens: left(Resource::Tokens),
            work: None,
            money_micros: left(Resource::MoneyMicros),
        }
    }

    /// Says what an agent's end means for its step.
    pub(super) fn worked(&self, base: &RunBase<'_>, name: &str, ending: &Ending) -> StepWorked {
        let scrubber = &base.writer.scrubber;
        let reason = || scrubber.scrub(&words(&scrubber.scrub(name), ending));
        let output = ending.text.as_str().to_owned();
        let failed = |outcome| {
            let exit = ending.exit.clone();
            StepWorked::Failed { outcome, exit, output: format!("{}\n{output}", reason()) }
        };
        match ending.end {
            End::Stopped => StepWorked::Not(AttemptEnd::Stopped),
            _ if self.is_called_off() => StepWorked::Not(AttemptEnd::Stopped),
            End::Finished | End::NoResult => StepWorked::Claimed,
            End::Failed(Trouble::RateLimit | Trouble::Overloaded) => {
                let until =
                    until(ending.text.as_str(), now_of(base), PARK, self.of.steps().parks());
                StepWorked::Not(AttemptEnd::Away { until, reason: reason() })
            }
            End::Failed(Trouble::Auth | Trouble::Billing) => {
                StepWorked::Not(AttemptEnd::Unable { reason: reason() })
            }
            // Its program is not there or may not run; it would not be there the next time either.
            End::Failed(Trouble::Other) if matches!(ending.exit, ProcessExit::Code(126 | 127)) => {
                StepWorked::Not(AttemptEnd::Unable { reason: reason() })
            }
            End::TimedOut => failed(Some(StepTimer::Wall)),
            End::Idle => failed(Some(StepTimer::Idle)),
            End::Failed(Trouble::Other) | End::OverBudget(_) => failed(None),
        }
    }
}
