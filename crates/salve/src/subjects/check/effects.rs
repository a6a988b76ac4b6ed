//! What a check's incident asks for, done in the world.

use std::time::Duration;

use salve_core::event::{
    Authority, ChangedFile, Digest, Effect, Event, IncidentEvent, RemedyKind, Report, Scope, Undo,
};
use salve_core::incident::{Incident, Run as Effecting};
use salve_core::scrub::Scrubbed;

use super::Input;
use super::checkup::Checkup;
use crate::heal::agents::{Minder, see_off};
use crate::heal::cause::{self, Known, run_known};
use crate::heal::files::{self, failed};
use crate::heal::patches;
use crate::heal::shelf::What;
use crate::heal::spawn_thread;
use crate::store::StoreError;
use crate::workspace::{FileChange, Name};

impl Checkup<'_, '_> {
    /// Does what the incident asks for.
    pub(super) fn run(&mut self, effect: Effecting) -> Result<(), StoreError> {
        self.case.effect = Some(effect);
        match effect.what {
            Effect::Snapshot => self.snapshot(effect),
            Effect::Apply { remedy, on } => return self.apply(effect, (remedy, on)),
            Effect::Measure => self.measure(effect),
            Effect::Verify => {
                self.count_rerun();
                self.case.doubt = None;
                self.start(Some(effect));
            }
            Effect::RollBack(scope) => self.roll_back(effect, scope),
            Effect::Ask | Effect::Release => return self.finish(effect, Report::Done),
            Effect::Record => {
                let report = match self.record() {
                    Ok(()) => Report::Done,
                    Err(error) => failed(&self.clinic.desk.scrubber, &error),
                };
                return self.finish(effect, report);
            }
        }
        Ok(())
    }

    fn count_rerun(&mut self) {
        let trial = self.incident.as_ref().and_then(|incident| incident.trial());
        self.case.is_again = trial.is_some_and(|trial| trial.remedy.kind == RemedyKind::Retry);
        self.case.reruns += u32::from(self.case.is_again);
    }

    /// Runs something that takes time on a thread of its own, and reports by the inbox.
    pub(super) fn aside(&self, effect: Effecting, work: impl FnOnce() -> Report + Send + 'static) {
        let (post, project) = (self.clinic.inbox.0.clone(), self.clinic.project.clone());
        let changes = self.changes(effect);
        spawn_thread("effect", move || {
            let report = work();
            // With the state it left kept, undoing it spares what others edit from here on;
            // without, all goes back.
            if let Some(Ok(Some(found))) = changes.map(|name| files::look(&project, name)) {
                let (tree, files) = (found.after.tree(), found.files);
                let _ = post.send(Input::Measured { effect, tree, files });
            }
            // Nobody is left to tell when the run of Salve is over; the journal says what was
            // begun.
            let _ = post.send(Input::Done { effect, report });
        });
    }

    /// Takes in what a repair changed.
    pub(super) fn measured(
        &mut self,
        effect: Effecting,
        tree: Digest,
        files: &[FileChange],
    ) -> Result<(), StoreError> {
        self.case.tree = Some(tree);
        let Some(incident) = self.incident.as_ref().map(Incident::id) else { return Ok(()) };
        if files.is_empty() {
            return Ok(());
        }
        self.case.changed = true;
        self.case.turns.idle = 0;
        let scrubber = &self.clinic.desk.scrubber;
        let named = files
            .iter()
            .map(|file| ChangedFile { path: scrubber.scrub(&file.path), lines: file.lines });
        let (files, more) = ChangedFile::some(named.collect());
        let changed = Event::Incident(IncidentEvent::FilesChanged {
            effect: effect.effect,
            files: files.clone(),
            more,
        });
        self.append(incident, changed)?;
        self.stop_if_churned(&files)
    }

    /// Returns the snapshot from before a command that changes files, which nobody measures later.
    fn changes(&self, effect: Effecting) -> Option<Name> {
        let trial = self.incident.as_ref()?.trial()?;
        let applies = matches!(effect.what, Effect::Apply { .. });
        let is_command = trial.remedy.kind == RemedyKind::Command;
        let is_kept = trial.remedy.undo == Undo::Snapshot;
        (applies && is_command && is_kept).then(|| self.name(Scope::Attempt))?
    }

    /// Returns the name of the snapshot that is taken before the present attempt.
    pub(super) fn name(&self, scope: Scope) -> Option<Name> {
        let incident = self.incident.as_ref()?;
        let attempt = match scope {
            Scope::Attempt => incident.attempt(),
            Scope::Incident => 1,
        };
        Some(Name::before(incident.id(), attempt))
    }

    fn snapshot(&self, effect: Effecting) {
        let (project, scrubber) = (self.clinic.project.clone(), self.clinic.desk.scrubber.clone());
        let name = self.name(Scope::Attempt);
        let (now, kept) = (self.clinic.desk.now(), self.clinic.heal.kept);
        self.aside(effect, move || match name {
            Some(name) => files::keep(&project, name, (now, kept), &scrubber),
            None => files::nothing_there(),
        });
    }

    fn measure(&self, effect: Effecting) {
        let (project, scrubber) = (self.clinic.project.clone(), self.clinic.desk.scrubber.clone());
        let (name, post) = (self.name(Scope::Attempt), self.clinic.inbox.0.clone());
        let agent = self.minder.as_ref().map(Minder::agent);
        self.aside(effect, move || {
            let Some(name) = name else { return files::nothing_there() };
            if let Some(agent) = agent {
                // It said that it has finished, and may still be writing.
                see_off(&agent);
            }
            match files::look(&project, name) {
                Ok(Some(measured)) => {
                    let (tree, files) = (measured.after.tree(), measured.files);
                    let _ = post.send(Input::Measured { effect, tree, files });
                    Report::Measured(measured.change)
                }
                Ok(None) => files::nothing_there(),
                Err(error) => failed(&scrubber, &error),
            }
        });
    }

    fn roll_back(&self, effect: Effecting, scope: Scope) {
        let (project, scrubber) = (self.clinic.project.clone(), self.clinic.desk.scrubber.clone());
        let name = self.name(scope);
        self.aside(effect, move || match name {
            Some(name) => files::restore(&project, name, &scrubber),
            None => files::nothing_there(),
        });
    }

    /// Applies the remedy that hashes to `digest`, on somebody's word.
    fn apply(
        &mut self,
        effect: Effecting,
        (digest, on): (Digest, Authority),
    ) -> Result<(), StoreError> {
        self.look_for_proposal()?;
        if !self.case.cures.iter().any(|cure| cure.digest == digest) {
            // An earlier run of Salve chose it: choosing again finds out what it would do.
            match self.quest.is_some() {
                true => self.recall_recovery(digest)?,
                false => {
                    self.choose()?;
                    self.recall_cure(digest)?;
                }
            }
        }
        self.case.changed = false;
        let cure = self.case.cures.iter().find(|cure| cure.digest == digest).cloned();
        let (care, scrubber) = (self.clinic.care.clone(), self.clinic.desk.scrubber.clone());
        match cure.map(|cure| cure.what) {
            Some(What::Agent) => return self.call_agent(effect, None),
            Some(What::Instruction(words)) => return self.call_agent(effect, Some(words)),
            Some(What::Known { command, seconds, dir }) => {
                self.clinic.shelf.count_auto();
                let root = self.clinic.project.root().to_path_buf();
                let (name, limit) = (self.plan.name.clone(), Duration::from_secs(seconds));
                let sandbox = self.clinic.shelf.sandbox.clone();
                let known = Known { command, root, dir, name, limit, sandbox, on };
                self.aside(effect, move || run_known(&care, &known, &scrubber).report);
            }
            Some(What::Playbook(action)) => {
                let place = self.place();
                let carry_out = move || cause::carry_out((&action, on), &place, &care, &scrubber);
                self.aside(effect, carry_out);
            }
            Some(What::Patch(patch)) => {
                let project = self.clinic.project.clone();
                self.aside(effect, move || patches::apply(&project, &patch, &scrubber));
            }
            Some(What::Again) => return self.finish(effect, Report::Done),
            None => {
                let reason = Scrubbed::literal(match &self.quest {
                    Some(quest) if quest.is_well => "the tests execute by now, so it was not run",
                    Some(_) => "something else is proposed by now, so it was not run",
                    None => "what it would do is no longer known",
                });
                return self.finish(effect, Report::failed(reason));
            }
        }
        Ok(())
    }
}
