//! The one command by which a subject is judged, and everything around its runs.
//!
//! A check is such a subject, and so are the tests of a loop while they are recovered. What both do
//! alike stands here: running, stopping, telling a failure, keeping records, and when a person is
//! waited for.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use salve_core::event::{Event, IncidentEvent};
use salve_core::id::IncidentId;
use salve_core::incident::{DueEffect, Incident};

use super::cause::Evidence;
use super::failure_log::FailureLog;
use super::inbox::InboxMessage;
use super::pause_watch::{PauseStanding, PauseWatch};
use super::records::Records;
use super::run::{self, CommandPlan, CommandRunEnd, Stopper};
use super::{Case, Presence, Remark, RunBase, SeenFailure, SubjectContext};
use crate::process::Capture;
use crate::store::StoreError;

/// The place of a subject that is the only one of its run.
pub const ONLY: usize = 0;

/// The command that judges the only subject of a run.
pub struct JudgingCommand<'r> {
    /// What runs, and where.
    pub plan: CommandPlan,
    /// The incident that a person settled, until the command has shown it.
    pub settled: Option<IncidentId>,
    capture: Arc<Capture>,
    records: &'r mut Records,
    running: Option<Stopper>,
    pause: PauseWatch,
    is_begun: bool,
    is_ending: bool,
}

/// What the only subject of a run waits for besides its command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PersonWait {
    /// Nobody.
    None,
    /// A person, who is there.
    Here,
    /// A person, who is not there.
    Away,
}

impl<'r> JudgingCommand<'r> {
    /// Makes a command that was not run yet.
    pub fn new(plan: CommandPlan, capture: Capture, records: &'r mut Records) -> Self {
        Self {
            plan,
            settled: None,
            capture: Arc::new(capture),
            records,
            running: None,
            pause: PauseWatch::default(),
            is_begun: false,
            is_ending: false,
        }
    }

    /// Tells whether it runs.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Tells, once, that the subject has no incident of an earlier run and is to be looked at.
    pub fn is_to_begin(&mut self, context: &SubjectContext<'_, '_>) -> bool {
        let is_new = !std::mem::replace(&mut self.is_begun, true);
        is_new && context.incident(ONLY).is_none() && !self.is_ending
    }

    /// Runs it, to verify an effect if one is given; `then` is called with how it ended.
    pub fn start(
        &mut self,
        verifies: Option<DueEffect>,
        base: &mut RunBase<'_>,
        then: impl FnOnce(CommandRunEnd) + Send + 'static,
    ) {
        if verifies.is_none() {
            let command = self.plan.command.clone();
            base.reporter.remark(&self.plan.name, &Remark::Running { command });
        }
        let (errand, capture) = (self.plan.command_run(), self.capture.clone());
        self.running = Some(run::start(&base.care, &errand, capture, then));
    }

    /// Takes in that it ended; tells whether that matters, which it does unless everything ends.
    pub fn has_ended(&mut self, ran: &CommandRunEnd, context: &mut SubjectContext<'_, '_>) -> bool {
        self.running = None;
        if !self.is_ending {
            if ran.left > 0 {
                let things = if ran.left == 1 { "a process" } else { "processes" };
                context.note(ONLY, &format!("{things} that it left running ended with it"));
            }
            context.left_behind(ONLY, ran.left);
        }
        !self.is_ending
    }

    /// Tells that the subject failed.
    pub fn failed(
        &self,
        evidence: Evidence,
        ran: &CommandRunEnd,
        verifies: Option<DueEffect>,
        context: &mut SubjectContext<'_, '_>,
    ) {
        let (took, before, waiter) = (ran.took, Vec::new(), None);
        context.failed(ONLY, SeenFailure { evidence, took, before, verifies, waiter });
    }

    /// Takes in that the subject is well, outside of any repair.
    pub fn is_well(&mut self, ran: &CommandRunEnd, context: &mut SubjectContext<'_, '_>) {
        if ran.is_green() {
            context.base.reporter.remark(&self.plan.name, &Remark::Green { took: ran.took });
        }
        if let Some(id) = self.settled.take() {
            // A person settled an incident, and the subject is well indeed.
            context.add(ONLY, id, Event::Incident(IncidentEvent::SeenGreen {}));
        }
        self.keep_checkpoint(context);
    }

    /// Keeps the counters as ones to go back to, now that the subject is well.
    pub fn keep_checkpoint(&mut self, context: &mut SubjectContext<'_, '_>) {
        let at = context.base.writer.now();
        if let Some(complaint) = self.records.checkpoint(at) {
            context.note(ONLY, &complaint);
        }
    }

    /// Removes old records when an incident begins.
    pub fn tidy_records(&self, context: &SubjectContext<'_, '_>) {
        if let Some(incident) = context.incident(ONLY).map(Incident::id) {
            self.records.tidy(incident, SystemTime::now());
        }
    }

    /// Keeps what a failure left behind.
    pub fn keep_evidence(&mut self, log: &FailureLog, context: &mut SubjectContext<'_, '_>) {
        if let Some(complaint) = self.records.keep_evidence(context.base.project.root(), log) {
            context.note(ONLY, &complaint);
        }
    }

    /// Keeps what the journal tells of the incident.
    pub fn keep_incident(
        &mut self,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        self.records.keep_incident(ONLY, context)
    }

    /// Ends the run that is under way.
    pub fn stop(&self) {
        if let Some(running) = &self.running {
            running.stop();
        }
    }

    /// Hands the signal by which everything ends on to the run that is under way, which may tidy up.
    pub fn end(&mut self, signal: i32, base: &RunBase<'_>) {
        self.is_ending = true;
        if let Some(running) = &self.running {
            let inbox = base.inbox.sender();
            running.interrupt(signal, move |text| {
                // Nobody is left to tell when the run of Salve is over.
                let _ = inbox.send(InboxMessage::Note { subject: ONLY, text });
            });
        }
    }

    /// Looks whether healing is paused, and for how long that is waited out.
    pub fn look_at_pause(&mut self, context: &mut SubjectContext<'_, '_>) -> PauseStanding {
        self.pause.look(ONLY, context)
    }

    pub fn person_wait(&self, cases: &[Case], presence: Presence) -> PersonWait {
        match (cases.get(ONLY).is_some_and(Case::asks), presence) {
            (true, Presence::Unattended) => PersonWait::Away,
            (true, Presence::Attended) => PersonWait::Here,
            (false, _) => PersonWait::None,
        }
    }
}

/// Measures how long a person is waited for, while nothing else goes on.
#[derive(Debug, Default)]
pub struct PersonClock {
    since: Option<Instant>,
    waited: std::time::Duration,
}

impl PersonClock {
    /// Takes in whether a person is waited for from now on.
    pub fn count(&mut self, waits: impl FnOnce() -> bool) {
        if let Some(since) = self.since.take() {
            self.waited += since.elapsed();
        }
        self.since = waits().then(Instant::now);
    }

    /// Returns how long a person was waited for.
    pub fn waited(&self) -> std::time::Duration {
        self.waited
    }
}
