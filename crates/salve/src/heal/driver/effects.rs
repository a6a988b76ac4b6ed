//! What an incident asks for, done in the world on a thread of its own.
//!
//! Each effect answers by the inbox with what the incident is told, and with the state that it
//! left where a repair may have changed files.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use salve_core::event::{
    Authority, ChangedFile, EffectReport, Event, IncidentEvent, NoteEvent, RemedyOrigin, Scope,
};
use salve_core::id::IncidentId;
use salve_core::incident::{DueEffect, Incident};

use super::breakers;
use super::case::Case;
use crate::heal::agents::see_off;
use crate::heal::cause::{self, FailurePlace, KnownCommand, run_known};
use crate::heal::files::{self, failed};
use crate::heal::inbox::{InboxMessage, StateLeft};
use crate::heal::remedies::RemedyWay;
use crate::heal::run_base::RunBase;
use crate::heal::{layers, patches, spawn_thread};
use crate::store::StoreError;
use crate::workspace::{FileChange, LayerError, Measured};

/// Runs the effects of one incident.
pub(super) struct EffectRunner<'r, 'a> {
    pub(super) base: &'r mut RunBase<'a>,
    pub(super) case: &'r mut Case,
    pub(super) effect: DueEffect,
}

impl EffectRunner<'_, '_> {
    /// Keeps the files as they are before the attempt.
    pub(super) fn snapshot(&mut self) {
        let (project, scrubber) = self.own();
        let name = self.case.snapshot(Scope::Attempt);
        let (now, kept) = (self.base.writer.now(), self.base.terms.kept);
        self.aside(move || match name {
            Some(name) => files::keep(&project, name, now, kept, &scrubber),
            None => files::nothing_there(),
        });
    }

    /// Measures what the attempt changed, once its agent has ended.
    pub(super) fn measure(&mut self) {
        let (project, scrubber) = self.own();
        let name = self.case.snapshot(Scope::Attempt);
        let agent = self.case.work.agents.running().map(|running| running.agent());
        let is_in_layer = self.case.is_in_layer();
        let layer = self.case.work.layer.clone();
        self.spawn(move || {
            let Some(name) = name else { return (files::nothing_there(), None) };
            if let Some(agent) = agent {
                // It said that it has finished, and may still be writing.
                see_off(&agent);
            }
            if is_in_layer {
                return layers::measure(&project, name, layer.as_deref(), &scrubber);
            }
            match files::look(&project, name) {
                Ok(Some(measured)) => {
                    (EffectReport::Measured(measured.change), Some(left_by(measured)))
                }
                Ok(None) => (files::nothing_there(), None),
                Err(error) => (failed(&scrubber, &error), None),
            }
        });
    }

    /// Takes in what a repair changed.
    pub(super) fn measured(&mut self, left: &StateLeft) -> Result<(), StoreError> {
        let case = &mut *self.case;
        case.work.tree = Some(left.tree);
        for note in &left.notes {
            self.base.note(case.name(), note);
        }
        let Some(incident) = case.incident().map(Incident::id) else { return Ok(()) };
        for note in &left.notes {
            let text = self.base.writer.scrubber.scrub(note);
            self.base.writer.add(incident, Event::Note(NoteEvent::Noted { text }))?;
        }
        if left.files.is_empty() {
            return case.catch_up(self.base);
        }
        if case.trial().is_some_and(|trial| !trial.is_attributable()) {
            let words = left_words("while it was repaired", &left.files, incident);
            self.base.note(case.name(), &words);
            let text = self.base.writer.scrubber.scrub(&words);
            self.base.writer.add(incident, Event::Note(NoteEvent::Noted { text }))?;
        }
        case.work.changed = true;
        case.work.written.paths.extend(left.files.iter().map(|file| PathBuf::from(&file.path)));
        case.work.agents.has_worked();
        let scrubber = &self.base.writer.scrubber;
        let named = left
            .files
            .iter()
            .map(|file| ChangedFile { path: scrubber.scrub(&file.path), lines: file.lines });
        let (files, more) = ChangedFile::some(named.collect());
        let changed =
            IncidentEvent::FilesChanged { effect: self.effect.effect, files: files.clone(), more };
        self.base.writer.add(incident, Event::Incident(changed))?;
        case.catch_up(self.base)?;
        breakers::stop_if_churned(self.base, case, &files)
    }

    /// Brings what the agent did in its layer into the tree.
    pub(super) fn take_over(&mut self) {
        let (project, scrubber) = self.own();
        let name = self.case.snapshot(Scope::Attempt);
        // What is taken over is what was kept of it.
        self.case.work.layer = None;
        self.spawn(move || match name {
            Some(name) => layers::take_over(&project, name, &scrubber),
            None => (files::nothing_there(), None),
        });
    }

    /// Takes back what the attempt changed, or all attempts.
    pub(super) fn roll_back(&mut self, scope: Scope) {
        let (project, scrubber) = self.own();
        let name = self.case.snapshot(Scope::Attempt);
        self.aside(move || match name {
            Some(name) => files::roll_back(&project, name, scope, &scrubber),
            None => files::nothing_there(),
        });
    }

    /// Applies a remedy that is a command, a prescription or a patch.
    pub(super) fn apply(
        &mut self,
        what: RemedyWay,
        on: Authority,
        place: FailurePlace,
    ) -> Result<(), StoreError> {
        let (_, scrubber) = self.own();
        let care = self.base.care.clone();
        match what {
            RemedyWay::Known { command, seconds, dir } => {
                let (root, name) = (self.base.project.root().into(), self.case.name().to_owned());
                let limit = Duration::from_secs(seconds);
                let sandbox = self.base.remedies.sandbox.clone();
                let known = KnownCommand { command, root, dir, name, limit, sandbox, on };
                self.aside(move || run_known(&care, &known, &scrubber));
            }
            RemedyWay::Playbook(action) => {
                self.aside(move || cause::carry_out(&action, on, &place, &care, &scrubber));
            }
            RemedyWay::Patch(patch) => return self.apply_patch(patch),
            // These are no effects of a thread of its own.
            RemedyWay::Again
            | RemedyWay::SoftReset
            | RemedyWay::HardReset
            | RemedyWay::Agent
            | RemedyWay::Instruction(_)
            | RemedyWay::BySubject => self.aside(|| EffectReport::Done),
        }
        Ok(())
    }

    /// Tells whether the remedy may reach the user's files only after it helped apart from them: another
    /// machine told it, and no person allowed it.
    fn has_to_be_proven_apart(&self) -> bool {
        self.case.trial().is_some_and(|trial| {
            trial.remedy.origin == RemedyOrigin::Fleet && trial.authority == Some(Authority::Gate)
        })
    }

    /// Applies a patch in a private layer, as an agent would work; only where nothing can hold one, in the
    /// tree itself.
    fn apply_patch(&mut self, patch: Vec<u8>) -> Result<(), StoreError> {
        let (project, scrubber) = self.own();
        let laid = self.case.snapshot(Scope::Attempt).map(|name| layers::lay(&project, name));
        match laid.unwrap_or(Err(LayerError::NothingKept)) {
            Ok(layer) => {
                let Some(incident) = self.case.incident().map(Incident::id) else { return Ok(()) };
                let laid = IncidentEvent::LayerLaid { effect: self.effect.effect };
                self.base.writer.add(incident, Event::Incident(laid))?;
                self.case.catch_up(self.base)?;
                self.case.work.layer = Some(Arc::clone(&layer));
                self.aside(move || patches::apply_in(&project, &layer, &patch, &scrubber));
            }
            Err(LayerError::Unheld) if !self.has_to_be_proven_apart() => {
                self.aside(move || patches::apply(&project, &patch, &scrubber));
            }
            Err(error) => {
                let report = failed(&scrubber, &error);
                self.aside(|| report);
            }
        }
        Ok(())
    }

    /// Runs something that takes time on a thread of its own.
    pub(super) fn aside(&mut self, work: impl FnOnce() -> EffectReport + Send + 'static) {
        let project = self.base.project.clone();
        let changes = self.case.changed_by(self.effect);
        self.spawn(move || {
            let report = work();
            // With the state it left kept, undoing it spares what others edit from here on.
            let found = changes.and_then(|name| files::look(&project, name).ok().flatten());
            (report, found.map(left_by))
        });
    }

    fn spawn(&mut self, work: impl FnOnce() -> (EffectReport, Option<StateLeft>) + Send + 'static) {
        let Some(incident) = self.case.incident().map(|incident| incident.id()) else { return };
        let (sender, effect) = (self.base.inbox.sender(), self.effect);
        self.case.work.busy = Some(effect);
        spawn_thread("effect", move || {
            let (report, left) = work();
            // Nobody is left to tell when the run is over; the journal says what was begun.
            let _ = sender.send(InboxMessage::Done { incident, effect, report, left });
        });
    }

    fn own(&self) -> (crate::project::Project, salve_core::scrub::Scrubber) {
        (self.base.project.clone(), self.base.writer.scrubber.clone())
    }
}

/// Says which files changed while something was tried beside the user, whose edits nobody can tell apart.
pub(super) fn left_words(since: &str, files: &[FileChange], incident: IncidentId) -> String {
    let paths: Vec<String> = files.iter().map(|file| file.path.clone()).collect();
    let (files, id) = (layers::some(&paths), incident.short());
    format!(
        "these files changed {since}: {files}; they stay whether or not it helps, and \
         `salve undo heal-{id}` takes them back"
    )
}

fn left_by(measured: Measured) -> StateLeft {
    StateLeft { tree: measured.after.tree(), files: measured.files, notes: Vec::new() }
}
