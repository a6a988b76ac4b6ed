//! Setting a workspace back to its checkpoints.

use salve_core::event::{JobTurn, ResetCause, ResetEnd};
use salve_core::job::PendingReset;

use super::JobError;
use super::course::JobCourse;
use crate::heal::RunBase;
use crate::heal::files::with_causes;
use crate::workspace::{ReplayError, WorkspaceError};

impl JobCourse<'_, '_> {
    /// Sets the workspace back to before a step.
    pub(super) fn reset(
        &mut self,
        base: &RunBase<'_>,
        pending: PendingReset,
    ) -> Result<(), JobError> {
        let PendingReset { step, cause } = pending;
        let number = u32::try_from(step).unwrap_or(u32::MAX);
        self.say(base, JobTurn::ResetBegan { step: number, cause })?;
        self.begun = true;
        let end = match self.replay(step) {
            Ok(()) => {
                if cause == ResetCause::ResumeFrom {
                    let (branch, all) = (self.of.branch(), self.of.terms().steps.len());
                    self.parts.folder.set_aside(branch.saturating_sub(1), step, all)?;
                }
                ResetEnd::Done
            }
            Err(text) => ResetEnd::Failed { reason: base.writer.scrubber.scrub(&text) },
        };
        self.say(base, JobTurn::ResetEnded { step: number, end })
    }

    /// Replays the checkpoints of the steps before this one; the workspace is changed only once all
    /// of them agree with what the journal and their records say.
    fn replay(&mut self, step: usize) -> Result<(), String> {
        let known = self.of.checkpoints().get(..step).unwrap_or_default();
        let steps = self.parts.folder.checkpoints(known).map_err(|error| error.to_string())?;
        let store = &self.parts.workspace;
        let tree = store.replay(&steps).map_err(|error| match error {
            ReplayError::Disagrees { .. } => error.to_string(),
            ReplayError::Workspace(error) => with_causes(&error),
        })?;
        let set_back = || -> Result<(), WorkspaceError> { store.check_out(&tree) };
        set_back().map_err(|error| with_causes(&error))
    }
}
