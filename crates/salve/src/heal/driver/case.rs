//! What this process knows of one subject's incidents besides the journal.

use std::collections::{HashSet, VecDeque};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use salve_core::event::{Actor, Digest, Effect, Event, RemedyKind, Scope, Undo};
use salve_core::id::Signature;
use salve_core::incident::{DueEffect, Incident, Phase, Told, Trial, TrialReach};
use salve_core::playbook::{Diagnosis, SetVariable};

use super::agents::AgentTurns;
use super::team::TeamCall;
use crate::heal::Wrote;
use crate::heal::cause::Evidence;
use crate::heal::remedies::{CarriedRemedy, RemedyWay};
use crate::heal::run_base::{RunBase, snapshot_name};
use crate::heal::subject::{FailureWaiter, SeenFailure};
use crate::store::StoreError;
use crate::workspace::{Name, PrivateLayer};

/// One subject's incidents, and what this process knows of them besides.
///
/// A subject has one incident for each failure. One of them at most is worked on; the others are
/// set aside until it is over or waits.
#[derive(Default)]
pub struct Case {
    name: String,
    incident: Option<Incident>,
    pub(super) work: CaseWork,
    /// The incidents that wait: for a person, for a cooldown or a watch to end, or for their turn.
    pub(super) aside: Vec<AsideIncident>,
    /// The failures for which somebody waits while another one is worked on, oldest first.
    pub(super) queued: VecDeque<SeenFailure>,
    /// When this process opened incidents of the subject.
    pub(super) opened: Vec<Timestamp>,
}

/// An incident that waits while its subject has another one.
pub(super) struct AsideIncident {
    pub(super) incident: Incident,
    pub(super) work: CaseWork,
}

/// What this process knows of an incident besides the journal; it goes with the incident.
#[derive(Default)]
pub(super) struct CaseWork {
    /// The effect that runs in this process.
    pub(super) effect: Option<DueEffect>,
    /// The effect that a thread is at.
    pub(super) busy: Option<DueEffect>,
    /// What the first failure was found to be.
    pub(super) first: Option<Evidence>,
    /// What the last failure was found to be.
    pub(super) seen: Option<Evidence>,
    /// The failure that the present remedy is tried against.
    pub(super) tried: Option<Evidence>,
    /// How long what failed last had run.
    pub(super) took: Duration,
    /// What is known of the cause.
    pub(super) insight: Insight,
    /// What each remedy that was put to the gate would do.
    pub(super) cures: Vec<CarriedRemedy>,
    /// The remedies that did not help, as far as this process tried them.
    pub(super) failed: Vec<Digest>,
    /// The state that the present repair left.
    pub(super) tree: Option<Digest>,
    /// Whether the present remedy changed files that a snapshot holds.
    pub(super) changed: bool,
    /// The files that its remedies wrote.
    pub(super) written: WrittenFiles,
    /// How often the subject was only run again.
    pub(super) reruns: u32,
    /// The agents that were called.
    pub(super) agents: AgentTurns,
    /// The private layer of the present attempt, while it is needed.
    pub(super) layer: Option<Arc<PrivateLayer>>,
    /// What those who listen were asked.
    pub(super) team: TeamCall,
    /// The variables that the present remedy set for the rest of the run.
    pub(super) environment: Vec<SetVariable>,
    /// Those who wait for the outcome.
    pub(super) waiters: Vec<FailureWaiter>,
}

/// The files that an incident's remedies wrote, and when Salve last wrote any of them.
#[derive(Default)]
pub(super) struct WrittenFiles {
    /// Their paths below the project's root.
    pub(super) paths: HashSet<PathBuf>,
    pub(super) until: Option<SystemTime>,
}

impl WrittenFiles {
    /// Returns whether the last change of a file is Salve's.
    ///
    /// The kernel tells of a change a moment after it was made, by when a remedy may be undone and
    /// over; only the file itself says when it was changed last.
    fn has_last(&self, root: &Path, path: &Path) -> bool {
        let is_ours = path.strip_prefix(root).is_ok_and(|path| self.paths.contains(path));
        let Some(until) = self.until.filter(|_| is_ours) else { return false };
        let Ok(file) = path.symlink_metadata() else {
            // An attempt that made it was undone.
            return true;
        };
        let nanos = u32::try_from(file.ctime_nsec()).unwrap_or_default();
        let seconds = u64::try_from(file.ctime()).unwrap_or_default();
        SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos) <= until
    }
}

/// What is known of the cause of the present failure.
#[derive(Debug, Default)]
pub(super) enum Insight {
    /// Nobody has looked.
    #[default]
    None,
    /// The look of this number goes on.
    Looking(u64),
    /// This came of it, and the journal does not know yet.
    Found(Box<Diagnosis>),
    /// This came of it, and the journal knows.
    Told(Box<Diagnosis>),
}

impl Case {
    /// Returns a subject without an incident.
    pub(super) fn new(name: String) -> Self {
        Self { name, ..Self::default() }
    }

    /// Returns what the subject is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the incident that is worked on or was last, if there is one.
    pub fn incident(&self) -> Option<&Incident> {
        self.incident.as_ref()
    }

    /// Returns the remedy in question, if there is one.
    pub fn trial(&self) -> Option<&Trial> {
        self.incident.as_ref().and_then(Incident::trial)
    }

    /// Returns the effect that runs in this process.
    pub fn effect(&self) -> Option<DueEffect> {
        self.work.effect
    }

    /// Returns whether the last change of a file below `root` is one that a remedy made, or undid.
    pub fn has_written(&self, root: &Path, path: &Path) -> bool {
        let aside = self.aside.iter().map(|aside| &aside.work);
        aside.chain([&self.work]).any(|work| work.written.has_last(root, path))
    }

    /// Returns what the first failure was found to be.
    pub fn first(&self) -> Option<&Evidence> {
        self.work.first.as_ref()
    }

    /// Returns what the last failure was found to be.
    pub fn seen(&self) -> Option<&Evidence> {
        self.work.seen.as_ref()
    }

    /// Returns what is known of the cause of the present failure.
    pub fn diagnosis(&self) -> Option<&Diagnosis> {
        match &self.work.insight {
            Insight::Found(diagnosis) | Insight::Told(diagnosis) => Some(diagnosis),
            Insight::None | Insight::Looking(_) => None,
        }
    }

    /// Returns the remedies that did not help, as far as this process tried them.
    pub fn failed(&self) -> &[Digest] {
        &self.work.failed
    }

    /// Returns the state that the present repair left, if it was measured.
    pub fn tree(&self) -> Option<Digest> {
        self.work.tree
    }

    /// Returns the private layer in which the change of the present attempt lies, if this process laid
    /// it.
    pub fn layer(&self) -> Option<&Arc<PrivateLayer>> {
        self.work.layer.as_ref()
    }

    /// Tells whether what the present remedy did lies in a private layer, all of it.
    pub fn is_in_layer(&self) -> bool {
        self.trial().is_some_and(|trial| trial.reach == TrialReach::InLayer)
    }

    /// Tells whether the present remedy changed files that a snapshot holds.
    pub fn has_changed_files(&self) -> bool {
        self.work.changed
    }

    /// Returns how often the subject was only run again.
    pub fn reruns(&self) -> u32 {
        self.work.reruns
    }

    /// Tells whether anything was put to the gate by this process.
    pub fn has_chosen(&self) -> bool {
        !self.work.cures.is_empty()
    }

    /// Returns what the present remedy does, as far as this process knows.
    pub(super) fn cure(&self) -> Option<&CarriedRemedy> {
        let digest = self.trial()?.remedy.digest;
        self.work.cures.iter().find(|cure| cure.digest == digest)
    }

    /// Tells whether this process knows what a remedy would do.
    pub fn knows(&self, digest: Digest) -> bool {
        self.work.cures.iter().any(|cure| cure.digest == digest)
    }

    /// Returns what a remedy would do, as far as this process knows.
    pub(super) fn what(&self, digest: Digest) -> Option<RemedyWay> {
        let cure = self.work.cures.iter().find(|cure| cure.digest == digest);
        cure.map(|cure| cure.what.clone())
    }

    /// Takes in what a remedy would do.
    pub(super) fn learn_cure(&mut self, digest: Digest, what: RemedyWay) {
        self.work.cures.retain(|old| old.digest != digest);
        self.work.cures.push(CarriedRemedy { digest, what });
    }

    /// Returns the name of the snapshot that is taken before the present attempt.
    pub fn snapshot(&self, scope: Scope) -> Option<Name> {
        self.incident.as_ref().map(|incident| snapshot_name(incident, scope))
    }

    /// Returns the snapshot from before a command that changes files and is not measured later.
    pub(super) fn changed_by(&self, effect: DueEffect) -> Option<Name> {
        let trial = self.trial()?;
        let applies = matches!(effect.what, Effect::Apply { .. });
        let is_command = trial.remedy.kind == RemedyKind::Command;
        let is_kept = trial.remedy.undo == Undo::Snapshot;
        (applies && is_command && is_kept).then(|| self.snapshot(Scope::Attempt))?
    }

    /// Tells whether a command was tried after which a failure shows that this incident has not seen.
    ///
    /// Two things may be broken at once: the command has mended the first then, and memory must not
    /// call it a failed approach. What an agent or a patch changed may have caused the other failure.
    pub(super) fn leads_to_another_failure(&self, signature: Signature) -> bool {
        let is_command = self.trial().is_some_and(|trial| trial.remedy.kind == RemedyKind::Command);
        let has_seen = |incident: &Incident| incident.history().has_seen(signature);
        is_command && !self.incident().is_some_and(has_seen)
    }

    /// Takes in that what was tried did not help, so that it is not tried again, and that the
    /// cause has to be looked into again.
    pub(super) fn did_not_help(&mut self) {
        self.work.insight = Insight::None;
        let digest = self.trial().map(|trial| trial.remedy.digest);
        self.work.failed.extend(digest);
    }

    /// Drops the variables that the present remedy set, because it did not help.
    pub(super) fn drop_variables(&mut self) {
        match self.cure().map(|cure| cure.what.clone()) {
            Some(RemedyWay::Playbook(action)) => {
                let is_set = |one: &SetVariable| action.variables().any(|set| set.name == one.name);
                self.work.environment.retain(|one| !is_set(one));
            }
            Some(_) => {}
            // An earlier run of Salve knew what it sets.
            None => self.work.environment.clear(),
        }
    }

    /// Takes in what was seen last.
    pub(super) fn saw(&mut self, evidence: Evidence, took: Duration) {
        self.work.first.get_or_insert_with(|| evidence.clone());
        self.work.seen = Some(evidence);
        self.work.took = took;
    }

    /// Begins with an incident; what is known of an earlier one goes.
    pub(super) fn begin(&mut self, incident: Incident) {
        self.incident = Some(incident);
        self.forget();
    }

    /// Lets an incident that is over go.
    pub(super) fn close(&mut self) -> Option<Incident> {
        self.forget();
        self.incident.take()
    }

    /// Forgets what is known of an incident; an agent that still works has to be waited for.
    fn forget(&mut self) {
        let agents = std::mem::take(&mut self.work.agents).only_running();
        self.work = CaseWork { agents, ..CaseWork::default() };
    }

    /// Tells whether the present incident only waits, so that another one may have its turn.
    pub(super) fn is_quiet(&self) -> bool {
        let works = self.work.busy.is_some() || self.work.agents.running().is_some();
        let phase = self.incident.as_ref().map(Incident::phase);
        let waits = match phase {
            None | Some(Phase::CoolingDown { .. } | Phase::Ending { .. }) => true,
            Some(Phase::Asking { .. }) => self.asks(),
            Some(Phase::Choosing | Phase::Due { .. } | Phase::Doing { .. } | Phase::Closed(_)) => {
                false
            }
        };
        waits && !works
    }

    /// Sets the present incident aside.
    pub(super) fn set_aside(&mut self) {
        let Some(incident) = self.incident.take() else { return };
        let work = std::mem::take(&mut self.work);
        self.aside.push(AsideIncident { incident, work });
    }

    /// Takes up an incident that was set aside, instead of the present one.
    pub(super) fn take_up(&mut self, index: usize) {
        let AsideIncident { incident, work } = self.aside.remove(index);
        self.set_aside();
        (self.incident, self.work) = (Some(incident), work);
    }

    /// Returns the present incident with what is known of it besides.
    pub(super) fn present(&mut self) -> Option<(&Incident, &mut CaseWork)> {
        Some((self.incident.as_ref()?, &mut self.work))
    }

    /// Returns all incidents, the present one first.
    pub fn incidents(&self) -> impl Iterator<Item = &Incident> {
        self.incident.iter().chain(self.aside.iter().map(|aside| &aside.incident))
    }

    /// Tells whether nothing goes on until a person answers, and knows of it.
    pub fn asks(&self) -> bool {
        let phase = self.incident.as_ref().map(Incident::phase);
        matches!(phase, Some(Phase::Asking { told: Told::Yes, .. }))
    }

    /// Writes to the incident, unless others were faster.
    pub(super) fn write(
        &mut self,
        base: &mut RunBase<'_>,
        by: &Actor,
        events: Vec<Event>,
    ) -> Result<Wrote, StoreError> {
        let Some(incident) = &mut self.incident else { return Ok(Wrote::Done(None)) };
        let (reporter, name) = (&mut *base.reporter, &self.name);
        let mut show = |incident: &Incident, entry: &_| reporter.entry(name, incident, entry);
        base.writer.write(incident, by, events, &mut show)
    }

    /// Writes what is on record with the incident while a remedy is chosen, however often others
    /// write meanwhile.
    pub(super) fn write_while_choosing(
        &mut self,
        base: &mut RunBase<'_>,
        event: &Event,
    ) -> Result<(), StoreError> {
        let by = base.writer.salve();
        while self.incident.as_ref().is_some_and(|one| one.phase() == Phase::Choosing) {
            match self.write(base, &by, vec![event.clone()])? {
                Wrote::Done(_) => break,
                Wrote::Overtaken => {}
            }
        }
        Ok(())
    }

    /// Takes in what others wrote.
    pub(super) fn catch_up(&mut self, base: &mut RunBase<'_>) -> Result<(), StoreError> {
        let (reporter, name) = (&mut *base.reporter, &self.name);
        let mut show = |incident: &Incident, entry: &_| reporter.entry(name, incident, entry);
        let aside = self.aside.iter_mut().map(|aside| &mut aside.incident);
        for incident in self.incident.iter_mut().chain(aside) {
            base.writer.catch_up(incident, &mut show)?;
        }
        Ok(())
    }

    /// Writes to those incidents of ours which were set aside and are meant, however often others
    /// write meanwhile; none of them has an effect to run.
    pub(super) fn write_aside(
        &mut self,
        base: &mut RunBase<'_>,
        by: &Actor,
        event: &Event,
        is_meant: impl Fn(&Incident) -> bool,
    ) -> Result<(), StoreError> {
        let (reporter, name) = (&mut *base.reporter, &self.name);
        let mut show = |incident: &Incident, entry: &_| reporter.entry(name, incident, entry);
        for AsideIncident { incident, .. } in &mut self.aside {
            while incident.owner() == Some(&base.writer.me) && is_meant(incident) {
                match base.writer.write(incident, by, vec![event.clone()], &mut show)? {
                    Wrote::Done(_) => break,
                    Wrote::Overtaken => {}
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_remedy_wrote_is_told_from_what_somebody_edits_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let (root, file) = (dir.path(), dir.path().join("app.sh"));
        std::fs::write(&file, "exit 1\n").unwrap();
        std::fs::write(root.join("other.sh"), "exit 1\n").unwrap();
        let written = |until| WrittenFiles { paths: HashSet::from(["app.sh".into()]), until };
        let changed = file.metadata().unwrap();
        let at = Duration::new(changed.ctime() as u64, changed.ctime_nsec() as u32);
        let at = SystemTime::UNIX_EPOCH + at;
        assert!(written(Some(at)).has_last(root, &file), "it wrote it last");
        assert!(!written(Some(at - Duration::from_nanos(1))).has_last(root, &file), "edited since");
        assert!(!written(None).has_last(root, &file), "no remedy was applied");
        assert!(!written(Some(at)).has_last(root, &root.join("other.sh")), "not its file");
        std::fs::remove_file(&file).unwrap();
        assert!(written(Some(at)).has_last(root, &file), "what it had made was taken away");
    }
}
