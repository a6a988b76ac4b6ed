//! Setting a workspace back to its checkpoints.

use salve_core::event::{JobTurn, ResetCause, ResetEnd};
use salve_core::job::PendingReset;

use super::JobError;
use super::course::JobCourse;
use crate::heal::RunBase;
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
            // Nothing is wrong with the checkpoints: whoever goes on with the job does it. A step that
            // ran now would take files that are half set back for what the steps before it left.
            Err(ResetFailure::Unable(error)) => return Err(error.into()),
            Err(ResetFailure::Disagrees(text)) => {
                ResetEnd::Failed { reason: base.writer.scrubber.scrub(&text) }
            }
        };
        self.say(base, JobTurn::ResetEnded { step: number, end })
    }

    /// Replays the checkpoints of the steps before this one; the workspace is changed only once all
    /// of them agree with what the journal and their records say.
    fn replay(&mut self, step: usize) -> Result<(), ResetFailure> {
        let known = self.of.checkpoints().get(..step).unwrap_or_default();
        let disagrees = |said| ResetFailure::Disagrees(said);
        let steps = self.parts.folder.checkpoints(known).map_err(|e| disagrees(e.to_string()))?;
        let store = &self.parts.workspace;
        let tree = store.replay(&steps).map_err(|error| match error {
            ReplayError::Disagrees { .. } => disagrees(error.to_string()),
            ReplayError::Workspace(error) => ResetFailure::Unable(error),
        })?;
        store.check_out(&tree).map_err(ResetFailure::Unable)
    }
}

/// Why a workspace was not set back.
enum ResetFailure {
    /// The machine does not let it happen now, such as a disk that is full.
    Unable(WorkspaceError),
    /// The checkpoints do not lead there.
    Disagrees(String),
}
