//! What memory learns from a check's incident: what healed it, and what did not help.

use salve_core::event::{Origin, Proof, RemedyKind, Scope};
use salve_core::incident::{Incident, Reach};
use salve_core::memory::Kind;
use salve_core::playbook::Action;
use salve_core::scrub::Scrubbed;

use super::checkup::Checkup;
use crate::heal::cause::Evidence;
use crate::heal::shelf::What;
use crate::heal::{Lesson, patches};
use crate::store::StoreError;

impl Checkup<'_, '_> {
    /// Tells memory how the incident came out.
    pub(super) fn record(&mut self) -> Result<(), StoreError> {
        let credited = self.incident.as_ref().and_then(Incident::credit);
        let Some((remedy, signature)) = credited else { return Ok(()) };
        let digest = remedy.digest;
        self.recall_cure(digest)?;
        let mut seen = [&self.case.tried, &self.case.first].into_iter().flatten();
        match seen.find(|seen| seen.symptom.signature == signature) {
            Some(seen) => self.learn(seen, Proof::Proven),
            None => Ok(()),
        }
    }

    /// Tells memory that the present remedy did not help.
    pub(super) fn learn_failure(&self) -> Result<(), StoreError> {
        let trial = self.incident.as_ref().and_then(Incident::trial);
        let was_cut_off = trial.is_some_and(|trial| trial.reach == Reach::Unsure);
        match &self.case.tried {
            Some(tried) if !was_cut_off => self.learn(tried, Proof::Failed),
            Some(_) | None => Ok(()),
        }
    }

    /// Tells memory how the present remedy did against what it was tried against.
    fn learn(&self, seen: &Evidence, proof: Proof) -> Result<(), StoreError> {
        let Some((id, trial)) =
            self.incident.as_ref().and_then(|one| Some((one.id(), one.trial()?.clone())))
        else {
            return Ok(());
        };
        let what = self.cure().map(|cure| cure.what.clone());
        if let Some(What::Known { dir: Some(dir), .. }) = &what
            && dir.path() != self.clinic.project.root()
        {
            // Memory knows no directory, so elsewhere it would be another command.
            return Ok(());
        }
        let (kind, text) = match (trial.remedy.kind, what) {
            (RemedyKind::Command, Some(what)) if what.is_lasting() => {
                (Kind::Command, trial.remedy.text.clone())
            }
            (RemedyKind::Patch, Some(What::Patch(patch))) => {
                let text = String::from_utf8_lossy(&patch).into_owned();
                (Kind::Patch, self.clinic.desk.scrubber.scrub(&text))
            }
            // An earlier run of Salve knew what it does; its text tells enough.
            (RemedyKind::Command, None)
                if trial.remedy.origin == Origin::Playbook
                    && Action::is_lasting_text(trial.remedy.text.as_str()) =>
            {
                (Kind::Command, trial.remedy.text.clone())
            }
            (RemedyKind::Agent, _) | (RemedyKind::Patch, None) => match self.patch() {
                Some(patch) => (Kind::Patch, patch),
                None => return Ok(()),
            },
            (
                RemedyKind::Command
                | RemedyKind::Patch
                | RemedyKind::Retry
                | RemedyKind::SoftReset
                | RemedyKind::HardReset,
                _,
            ) => return Ok(()),
        };
        let digest = trial.remedy.digest;
        let lesson = Lesson { fingerprint: &seen.fingerprint, kind, text, digest, proof };
        // Across projects only what healed is worth knowing; what failed may be this one's doing.
        let user = (proof == Proof::Proven).then(|| self.clinic.shelf.user_to_tell()).flatten();
        self.clinic.desk.learn(id, &lesson, self.clinic.project.root(), user.as_ref())
    }

    /// Returns what the present attempt changed, if it can be remembered.
    fn patch(&self) -> Option<Scrubbed> {
        let before = self.name(Scope::Attempt)?;
        let scrubber = &self.clinic.desk.scrubber;
        patches::of_attempt(&self.clinic.project, before, scrubber).ok().flatten()
    }
}
