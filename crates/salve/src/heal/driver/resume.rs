//! Going on with what an earlier run of Salve left.

use salve_core::event::{
    EffectReport, Event, IncidentEvent, NoteEvent, RemedyKind, Scope, Symptom, variables_in_force,
};
use salve_core::id::IncidentId;
use salve_core::incident::{Incident, IncidentMove, OwnerState, Phase, TrialReach};
use salve_core::playbook::SetVariable;
use salve_core::repair::evidence_path;
use salve_core::scrub::Scrubbed;

use super::case::Case;
use super::effects::left_words;
use super::table::IncidentTable;
use crate::files::{FileKind, read_text};
use crate::heal::Wrote;
use crate::heal::cause::Evidence;
use crate::heal::run_base::RunBase;
use crate::heal::run_environment::EnvironmentChange;
use crate::heal::{failure_log, files};
use crate::process;
use crate::store::StoreError;

impl IncidentTable<'_, '_> {
    /// Takes over what an earlier run of Salve left of a subject.
    pub(super) fn resume(&mut self, at: usize) -> Result<(), StoreError> {
        let subject = self.subjects.opening(at, self.base).subject;
        let mut left = self.base.writer.unfinished(&subject)?;
        if !self.subjects.has_many_incidents() {
            left = left.pop().into_iter().collect();
        }
        // What was worked on goes on; the others wait as they did.
        left.sort_by_key(|incident| match incident.phase() {
            Phase::Asking { .. } | Phase::CoolingDown { .. } | Phase::Ending { .. } => false,
            Phase::Choosing | Phase::Due { .. } | Phase::Doing { .. } | Phase::Closed(_) => true,
        });
        for incident in left {
            self.cases[at].set_aside();
            self.take_over(at, incident)?;
        }
        Ok(())
    }

    /// Returns the claim of an incident, or says why it is left alone.
    fn claim_of(&mut self, at: usize, incident: &Incident) -> Option<Event> {
        let holder = match incident.owner() {
            Some(owner) if !process::is_gone(owner, &self.base.writer.scrubber) => {
                OwnerState::Unknown
            }
            Some(_) | None => OwnerState::Gone,
        };
        match incident.claim(&self.base.writer.me, holder) {
            Ok(claim) => Some(claim),
            Err(error) => {
                let text = format!("incident {} is left alone: {error}", incident.id().short());
                self.base.note(self.cases[at].name(), &text);
                None
            }
        }
    }

    /// Takes over an incident that an earlier run of Salve left.
    fn take_over(&mut self, at: usize, mut incident: Incident) -> Result<(), StoreError> {
        let Some(mut claim) = self.claim_of(at, &incident) else { return Ok(()) };
        self.base.writer.catch_up(&mut incident, &mut |_, _| {})?;
        self.base.writer.go_on_from(incident.clock());
        let case = &mut self.cases[at];
        case.begin(incident);
        recall(self.base, case)?;
        let variables = &self.cases[at].work.environment;
        self.subjects.set_variables(at, EnvironmentChange::Try(variables));
        let by = self.base.writer.salve();
        // A person may answer in this very moment: what they said comes first, and it is ours still.
        while let Wrote::Overtaken = self.say_as(at, &by, vec![claim])? {
            let now = self.cases[at].incident().cloned();
            match now.and_then(|now| self.claim_of(at, &now)) {
                Some(again) => claim = again,
                None => {
                    self.subjects.taken_away(at);
                    return Ok(());
                }
            }
        }
        self.tell_cut_short(at)?;
        let (subjects, mut context) = self.split();
        subjects.resumed(at, &mut context)?;
        self.settle()?;
        let now = self.base.writer.now();
        let next = self.cases[at].incident().map(|one| one.next(&self.base.writer.me, now));
        if let Some(IncidentMove::Write(over @ Event::Incident(IncidentEvent::CooledDown {}))) =
            next
        {
            // Its cooldown ended while nobody was there to say so.
            self.say(at, vec![over])?;
        }
        let phase = self.cases[at].incident().map(Incident::phase);
        let asks = matches!(phase, Some(Phase::Asking { .. } | Phase::CoolingDown { .. }));
        // What a person was asked about may be settled: the subject itself tells.
        if let Some((person, note)) = self.subjects.restarted_by(at, self.base).filter(|_| asks) {
            let note = Some(Scrubbed::literal(note));
            let resolved = Event::Incident(IncidentEvent::Resolved { note });
            self.say_as(at, &person, vec![resolved])?;
        }
        self.settle().map(drop)
    }
}

impl IncidentTable<'_, '_> {
    /// Says which files changed since a command began that a kill cut short: they are not undone, for the
    /// user may have edited them meanwhile.
    fn tell_cut_short(&mut self, at: usize) -> Result<(), StoreError> {
        let case = &self.cases[at];
        let (Some(incident), Some(trial)) = (case.incident().map(Incident::id), case.trial())
        else {
            return Ok(());
        };
        // An agent's change is measured next, and told then.
        let is_cut = trial.reach == TrialReach::Unsure && !trial.is_attributable();
        if !is_cut || trial.remedy.kind == RemedyKind::Agent {
            return Ok(());
        }
        let since = format!("since `{}` began, which was cut short", trial.remedy.text);
        let Some(name) = case.snapshot(Scope::Attempt) else { return Ok(()) };
        let found = files::look(&self.base.project, name).ok().flatten();
        let Some(found) = found.filter(|found| !found.files.is_empty()) else { return Ok(()) };
        let words = left_words(&since, &found.files, incident);
        self.base.note(case.name(), &words);
        let text = self.base.writer.scrubber.scrub(&words);
        self.base.writer.add(incident, Event::Note(NoteEvent::Noted { text }))?;
        self.cases[at].catch_up(self.base)
    }
}

/// Finds out what an earlier run of Salve saw, from the journal and the evidence it kept.
fn recall(base: &RunBase<'_>, case: &mut Case) -> Result<(), StoreError> {
    let Some(incident) = case.incident() else { return Ok(()) };
    let told = base.writer.entries(incident.id())?;
    let Some(Event::Incident(IncidentEvent::Opened { symptom, .. })) =
        told.first().map(|one| &one.event)
    else {
        return Ok(());
    };
    let first = recalled(base, incident, symptom);
    // What the present remedy is tried against may be a later failure.
    let signature = incident.trial().map(|trial| trial.signature);
    let seen = told.iter().rev().find_map(|entry| match &entry.event {
        Event::Incident(IncidentEvent::Finished {
            report: EffectReport::Verified { symptom: Some(symptom), .. },
            ..
        })
        | Event::Incident(IncidentEvent::Sickened { symptom })
            if Some(symptom.signature) == signature =>
        {
            Some(symptom)
        }
        _ => None,
    });
    let tried = seen.map(|symptom| recalled(base, incident, symptom));
    let set = variables_in_force(told.iter().map(|entry| &entry.event));
    case.work.environment = set.iter().map(SetVariable::from).collect();
    (case.work.first, case.work.tried) = (Some(first), tried);
    Ok(())
}

/// Finds out what a failure of an earlier run was.
fn recalled(base: &RunBase<'_>, incident: &Incident, symptom: &Symptom) -> Evidence {
    let id: IncidentId = incident.id();
    let path = base.project.home().join(evidence_path(incident.subject().kind, id));
    let kept = read_text(&path, FileKind::Document);
    let output = kept.as_deref().map(failure_log::evidence).unwrap_or_default();
    let (rules, scrubber) = (base.rules, &base.writer.scrubber);
    let of = |output: &str| Evidence::of(output, symptom.exit.as_ref(), rules, scrubber);
    let mut evidence = of(output);
    if evidence.symptom.signature != symptom.signature {
        // What was kept is of a later failure, or was touched since: only the journal tells.
        evidence = of(symptom.key_line.as_str());
    }
    evidence.symptom = symptom.clone();
    evidence
}
