//! Salve's own verification of a step that claims to be done.
//!
//! What costs least is looked at first; a reviewer is asked last.

use std::path::Path;

use salve_core::event::{Amounts, AttemptEnd, ProcessExit, StepTimer};

use super::JobError;
use super::attempt::WorkspaceLeft;
use super::course::JobCourse;
use super::spec::VerifyEntry;
use super::valid::StepSpec;
use crate::heal::RunBase;
use crate::heal::verifier::{self, KeptVerifierFile};
use crate::workspace::StepDiff;

/// What came of the verification of a step.
pub(super) enum StepVerified {
    /// The step is done.
    Met,
    /// It is not.
    Unmet(UnmetVerification),
    /// That cannot be told for now, or not before a person did something.
    Not(AttemptEnd),
}

/// What a step that claims to be done does not fulfil.
pub(super) struct UnmetVerification {
    pub(super) output: String,
    /// The command that failed, if one did.
    pub(super) command: Option<String>,
    pub(super) exit: Option<ProcessExit>,
    pub(super) timer: Option<StepTimer>,
}

impl StepVerified {
    /// Returns what is not fulfilled, in words.
    pub(super) fn unmet(what: impl AsRef<str>) -> Self {
        let output = format!("verification failed: {}", what.as_ref());
        Self::Unmet(UnmetVerification { output, command: None, exit: None, timer: None })
    }
}

impl VerifyEntry {
    /// Returns whether nothing is said by which a step could be verified.
    fn is_silent(&self) -> bool {
        let is_empty = self.files.is_empty() && self.changed.is_empty();
        is_empty && self.command.is_none() && self.reviewer.is_none()
    }

    /// Returns what is verified, for an agent to know.
    pub(super) fn in_words(&self) -> Option<String> {
        let mut all = Vec::new();
        all.extend(self.command.as_ref().map(|line| format!("`{line}` exits with 0")));
        let named = |files: &[String], what: &str| {
            (!files.is_empty()).then(|| format!("{} {what}", files.join(", ")))
        };
        all.extend(named(&self.files, "must be there"));
        all.extend(named(&self.changed, "must change"));
        all.extend(self.max_files.map(|most| format!("at most {most} files change")));
        all.extend(self.max_lines.map(|most| format!("at most {most} lines change")));
        all.extend(self.reviewer.as_ref().map(|_| "another agent reviews it".to_owned()));
        (!all.is_empty()).then(|| all.join("; "))
    }
}

impl JobCourse<'_, '_> {
    /// Returns whether a step fulfils what it has to.
    pub(super) fn verify(
        &mut self,
        base: &mut RunBase<'_>,
        spec: &StepSpec,
        left: &WorkspaceLeft,
        spent: &mut Amounts,
    ) -> Result<StepVerified, JobError> {
        if let Some(what) = self.unmet_by_files(spec, left)? {
            return Ok(StepVerified::unmet(what));
        }
        let argv = spec.verify.command.as_ref().map(|line| line.argv()).unwrap_or_default();
        let weakened = self.weakened(spec, &argv, &left.diff)?;
        if !weakened.is_empty() {
            return Ok(StepVerified::unmet(format!("weakened: {}", weakened.join("; "))));
        }
        if !argv.is_empty() {
            let ended = self.command(base, argv, spec)?;
            spent.wall_ms = spent.wall_ms.saturating_add(crate::heal::millis(ended.took));
            if ended.exit != ProcessExit::Code(0) || ended.stopped {
                let (output, exit, timer) = (ended.output, Some(ended.exit), ended.timer);
                let command = spec.verify.command.as_ref().map(ToString::to_string);
                let unmet = UnmetVerification { output, command, exit, timer };
                return Ok(StepVerified::Unmet(unmet));
            }
        }
        self.review(base, spec, left, spent)
    }

    /// Returns what the files themselves say against a step, if anything.
    fn unmet_by_files(
        &self,
        spec: &StepSpec,
        left: &WorkspaceLeft,
    ) -> Result<Option<String>, JobError> {
        if let Some(dir) = left.unborn.first() {
            return Ok(Some(format!(
                "{dir}/ is a git repository without a commit, of which no checkpoint can keep a \
                 file: commit something in it, or remove {dir}/.git"
            )));
        }
        let (dir, verify) = (self.parts.workspace.dir(), &spec.verify);
        let is_missing = |file: &&String| dir.join(file).symlink_metadata().is_err();
        if let Some(file) = verify.files.iter().find(is_missing) {
            return Ok(Some(format!("{file} is missing")));
        }
        let is_unchanged = |file: &&String| {
            let path = self.parts.workspace.path_of(file);
            !left.diff.files.iter().any(|changed| Path::new(&changed.path) == path)
        };
        if let Some(file) = verify.changed.iter().find(is_unchanged) {
            return Ok(Some(format!("{file} was not changed")));
        }
        let changed = left.diff.files.len();
        if changed == 0
            && spec.work.is_by_agent()
            && verify.is_silent()
            && !verify.may_change_nothing
        {
            let text = "no file changed, and nothing else shows that it is done";
            return Ok(Some(text.to_owned()));
        }
        if let Some(most) = verify.max_files.filter(|most| changed > *most) {
            return Ok(Some(format!("{changed} files changed, at most {most} may")));
        }
        let Some(most) = verify.max_lines else { return Ok(None) };
        let before = self.parts.workspace.tree_before(self.of.at_step().unwrap_or_default())?;
        Ok(match self.parts.workspace.changed_lines(&before, &left.tree)? {
            Some(lines) if lines > most => {
                Some(format!("{lines} lines changed, at most {most} may"))
            }
            Some(_) => None,
            None => Some("a binary file changed, whose lines cannot be counted".to_owned()),
        })
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
        if spec.verify.weakened_tests || !spec.work.is_by_agent() {
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
