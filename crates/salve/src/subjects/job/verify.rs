//! Salve's own verification of a step that claims to be done.

use salve_core::event::{Exit, StepTimer};

use super::JobError;
use super::course::JobCourse;
use super::spec::{StepSpec, StepWork};
use crate::heal::RunBase;
use crate::heal::verifier::{self, KeptVerifierFile};
use crate::workspace::StepDiff;

/// What a step that claims to be done does not fulfil.
pub(super) struct UnmetVerification {
    pub(super) output: String,
    pub(super) exit: Option<Exit>,
    pub(super) timer: Option<StepTimer>,
}

impl JobCourse<'_, '_> {
    /// Returns what a step does not fulfil, if anything.
    pub(super) fn verify(
        &mut self,
        base: &mut RunBase<'_>,
        spec: &StepSpec,
        diff: &StepDiff,
    ) -> Result<Option<UnmetVerification>, JobError> {
        let unmet =
            |output: String| Ok(Some(UnmetVerification { output, exit: None, timer: None }));
        let dir = self.parts.workspace.dir();
        for file in &spec.verify.files {
            if dir.join(file).symlink_metadata().is_err() {
                return unmet(format!("verification failed: {file} is missing"));
            }
        }
        for file in &spec.verify.changed {
            if !diff.files.iter().any(|changed| changed.path.ends_with(file.as_str())) {
                return unmet(format!("verification failed: {file} was not changed"));
            }
        }
        let changed = diff.files.len();
        if let Some(most) = spec.verify.max_files.filter(|most| changed > *most) {
            let text = format!("verification failed: {changed} files changed, at most {most} may");
            return unmet(text);
        }
        let Some(line) = spec.verify.command.as_ref() else { return Ok(None) };
        let weakened = self.weakened(spec, &line.argv(), diff)?;
        if !weakened.is_empty() {
            return unmet(format!("verification failed: weakened: {}", weakened.join("; ")));
        }
        let ended = self.command(base, line.argv(), spec)?;
        if ended.exit == Exit::Code(0) && !ended.stopped {
            return Ok(None);
        }
        Ok(Some(UnmetVerification {
            output: ended.output,
            exit: Some(ended.exit),
            timer: ended.timer,
        }))
    }

    /// Returns how an agent weakened what judges its step: tests, their settings and scripts.
    ///
    /// A command says in so many words what it does to them; whoever wrote the job has read it.
    fn weakened(
        &self,
        spec: &StepSpec,
        argv: &[std::ffi::OsString],
        diff: &StepDiff,
    ) -> Result<Vec<String>, JobError> {
        if spec.verify.weakened_tests || matches!(spec.work, StepWork::Command(_)) {
            return Ok(Vec::new());
        }
        let store = &self.parts.workspace;
        let before = store.tree_before(self.of.at_step().unwrap_or_default())?;
        let mut files: Vec<KeptVerifierFile> = Vec::new();
        for file in &diff.files {
            files.push((file.path.clone(), store.content(&before, &file.path)?));
        }
        let examined = verifier::examine(store.root(), &files, argv);
        Ok(examined.weakenings.iter().map(verifier::said).collect())
    }
}
