//! One effect that an incident asks for: by what means it is done, and what comes back from it.
//!
//! What takes long runs on a thread of its own ([`EffectRunner`]); what the subject does, or Salve
//! itself at once, is done here.

use std::time::SystemTime;

use salve_core::event::{
    Authority, Digest, Effect, EffectReport, Event, IncidentEvent, RemedyKind,
};
use salve_core::incident::{DueEffect, Incident};
use salve_core::playbook::{Action, SetVariable};
use salve_core::scrub::Scrubbed;

use super::case::Case;
use super::effects::EffectRunner;
use super::lessons;
use super::table::IncidentTable;
use crate::heal::files::failed;
use crate::heal::inbox::StateLeft;
use crate::heal::remedies::RemedyWay;
use crate::heal::run_environment::EnvironmentChange;
use crate::heal::subject::{SubjectContext, Subjects};
use crate::store::StoreError;

/// An effect of the incident at one place of the table.
pub(super) struct DueEffectRun<'t, 'd, 'a> {
    pub(super) table: &'t mut IncidentTable<'d, 'a>,
    pub(super) at: usize,
    pub(super) effect: DueEffect,
}

impl<'a> DueEffectRun<'_, '_, 'a> {
    /// Does what the incident asks for.
    pub(super) fn run(mut self) -> Result<(), StoreError> {
        self.case().work.effect = Some(self.effect);
        let report = match self.effect.what {
            Effect::Apply { remedy, on } => return self.apply(remedy, on),
            Effect::Verify => return self.verify(),
            Effect::VerifyInLayer => {
                let (at, effect) = (self.at, self.effect);
                let (subjects, mut context) = self.subjects();
                return subjects.verify_in_layer(at, effect, &mut context);
            }
            Effect::TakeOver => {
                self.runner().take_over();
                return Ok(());
            }
            Effect::Ask => EffectReport::Done,
            Effect::Record => self.record()?,
            Effect::Release => {
                let at = self.at;
                let (subjects, mut context) = self.subjects();
                subjects.release(at, &mut context)
            }
            Effect::Snapshot => {
                self.runner().snapshot();
                return Ok(());
            }
            Effect::Measure => {
                self.runner().measure();
                return Ok(());
            }
            Effect::RollBack(scope) => {
                self.runner().roll_back(scope);
                return Ok(());
            }
        };
        self.finish(report)
    }

    /// Takes in what the effect reports from a thread of its own.
    pub(super) fn done(
        mut self,
        report: EffectReport,
        left: Option<StateLeft>,
    ) -> Result<(), StoreError> {
        let (effect, is_ending) = (self.effect, self.table.is_ending);
        let case = self.case();
        case.work.busy = case.work.busy.filter(|busy| *busy != effect);
        if matches!(effect.what, Effect::Apply { .. } | Effect::TakeOver | Effect::RollBack(_)) {
            case.work.written.until = Some(SystemTime::now());
        }
        let undoes = matches!(effect.what, Effect::RollBack(_))
            || matches!(report, EffectReport::Failed { .. } | EffectReport::TimedOut);
        // When everything ends nothing new is begun, only undone.
        if case.effect() != Some(effect) || (is_ending && !undoes) {
            return Ok(());
        }
        if let Some(left) = left {
            self.runner().measured(&left)?;
        }
        self.finish(report)
    }

    fn case(&mut self) -> &mut Case {
        &mut self.table.cases[self.at]
    }

    fn subjects(&mut self) -> (&mut dyn Subjects, SubjectContext<'_, 'a>) {
        self.table.split()
    }

    fn runner(&mut self) -> EffectRunner<'_, 'a> {
        let case = &mut self.table.cases[self.at];
        EffectRunner { base: self.table.base, case, effect: self.effect }
    }

    fn finish(self, report: EffectReport) -> Result<(), StoreError> {
        self.table.finish(self.at, self.effect, report)
    }

    /// Has the subject show whether it is well, with the variables that the remedy sets.
    fn verify(mut self) -> Result<(), StoreError> {
        let (at, effect) = (self.at, self.effect);
        let case = self.case();
        let is_again = case.trial().is_some_and(|trial| trial.remedy.kind == RemedyKind::Retry);
        case.work.reruns += u32::from(is_again);
        let variables = &self.table.cases[at].work.environment;
        self.table.subjects.set_variables(at, EnvironmentChange::Try(variables));
        let (subjects, mut context) = self.subjects();
        subjects.verify(at, effect, &mut context)
    }

    /// Tells the journal which variables a remedy sets for the rest of the run.
    fn set_environment(&mut self, action: &Action) -> Result<(), StoreError> {
        let variables: Vec<SetVariable> = action.variables().cloned().collect();
        let case = &mut self.table.cases[self.at];
        let Some(incident) = case.incident().map(Incident::id) else { return Ok(()) };
        if variables.is_empty() || !self.table.subjects.takes_variables() {
            return Ok(());
        }
        let scrubber = &self.table.base.writer.scrubber;
        let told = variables.iter().map(|one| one.scrubbed(scrubber)).collect();
        let set = IncidentEvent::EnvironmentSet { effect: self.effect.effect, variables: told };
        self.table.base.writer.add(incident, Event::Incident(set))?;
        case.drop_variables();
        case.work.environment.extend(variables);
        case.catch_up(self.table.base)
    }

    /// Tells memory how the incident came out.
    fn record(&mut self) -> Result<EffectReport, StoreError> {
        let credited = self.case().incident().and_then(Incident::credit);
        let digest = credited.map(|(remedy, _)| remedy.digest);
        if let Some(digest) = digest.filter(|digest| self.case().what(*digest).is_none()) {
            self.table.chooser(self.at).recall_proposed(digest)?;
        }
        let (base, case) = (&mut *self.table.base, &self.table.cases[self.at]);
        Ok(match lessons::record(base, case) {
            Ok(()) => EffectReport::Done,
            Err(error) => failed(&base.writer.scrubber, &error),
        })
    }

    /// Applies the remedy that hashes to `digest`, on somebody's word.
    fn apply(mut self, digest: Digest, on: Authority) -> Result<(), StoreError> {
        let (at, effect) = (self.at, self.effect);
        let (subjects, mut context) = self.subjects();
        let withdrawn = subjects.withdrawn(at, digest, &mut context)?;
        self.table.settle()?;
        let withdrawn = match withdrawn {
            None if !self.table.base.writer.is_authorised(on)? => {
                Some("its approval bears no seal that holds")
            }
            withdrawn => withdrawn,
        };
        if let Some(reason) = withdrawn {
            return self.finish(EffectReport::failed(Scrubbed::literal(reason)));
        }
        if self.case().what(digest).is_none() {
            // An earlier run of Salve chose it: looking again finds out what it would do.
            self.table.chooser(at).recall(digest)?;
        }
        let case = self.case();
        case.work.changed = false;
        match case.what(digest) {
            // An agent that listens is waited for, its marks come by the journal; where there is
            // none, one is started.
            Some(RemedyWay::Agent) => case.work.agents.instruct(None),
            Some(RemedyWay::Instruction(words)) => case.work.agents.instruct(Some(words)),
            Some(RemedyWay::Again | RemedyWay::SoftReset) => {
                return self.finish(EffectReport::Done);
            }
            Some(RemedyWay::HardReset) => {
                let (subjects, mut context) = self.subjects();
                let report = subjects.set_back(at, &mut context);
                return self.finish(report);
            }
            Some(RemedyWay::BySubject) => {
                let (subjects, mut context) = self.subjects();
                return subjects.apply(at, effect, digest, &mut context);
            }
            Some(
                what @ (RemedyWay::Known { .. } | RemedyWay::Playbook(_) | RemedyWay::Patch(_)),
            ) => return self.change_files(what, on),
            None => {
                let reason = Scrubbed::literal("what it would do is no longer known");
                return self.finish(EffectReport::failed(reason));
            }
        }
        self.table.tend_agent(at).map(drop)
    }

    /// Applies a remedy that changes files or runs a command.
    fn change_files(mut self, what: RemedyWay, on: Authority) -> Result<(), StoreError> {
        if let RemedyWay::Known { .. } = what {
            self.table.base.remedies.count_auto();
        }
        if let RemedyWay::Playbook(action) = &what {
            self.set_environment(action)?;
        }
        let place = self.table.subjects.place(self.at, self.table.base);
        self.runner().apply(what, on, place)
    }
}
