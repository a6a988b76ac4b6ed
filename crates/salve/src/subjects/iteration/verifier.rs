//! Whether what judges the task was weakened since the loop began.

use salve_core::event::Digest;
use salve_core::id::IncidentId;
use salve_core::scrub::Scrubbed;
use uuid::Uuid;

use super::driver::LoopRun;
use crate::heal::verifier::{KeptVerifierFile, examine, said};
use crate::workspace::{Moment, Snapshot, Workspace, WorkspaceError};

impl LoopRun<'_, '_> {
    /// Returns under which id the states of this loop's files are kept.
    pub(super) fn kept_as(&self) -> IncidentId {
        let hash = Digest::of(&[b"loop", self.of.id().as_str().as_bytes()]);
        let mut id = [0; 16];
        id.copy_from_slice(&hash.0[..16]);
        IncidentId(Uuid::from_bytes(id))
    }

    /// Returns how tests, their settings and scripts were weakened since this run of the loop
    /// began; nothing where that cannot be told.
    pub(super) fn weakenings(&self) -> Vec<Scrubbed> {
        let scrubber = &self.driver.base.writer.scrubber;
        match self.examined() {
            Ok(found) => found.iter().map(|text| scrubber.scrub(text)).collect(),
            Err(error) => {
                vec![scrubber.scrub(&format!("the tests could not be compared: {error}"))]
            }
        }
    }

    fn examined(&self) -> Result<Vec<String>, WorkspaceError> {
        let workspace = Workspace::open(&self.driver.base.project)?;
        let Some(first) = self.first_state(&workspace)? else { return Ok(Vec::new()) };
        let was = |path: String| Ok((path.clone(), workspace.content(&first, &path)?));
        let changed = workspace.measure(&first)?.files;
        let files: Result<Vec<KeptVerifierFile>, WorkspaceError> =
            changed.into_iter().map(|file| was(file.path)).collect();
        let argv = self.driver.plan.tests.command_run(self.of.id().as_str()).argv;
        let examined = examine(self.driver.base.project.root(), &files?, &argv);
        Ok(examined.weakenings.iter().map(said).collect())
    }

    /// Returns the state before the first role of this run of the loop.
    fn first_state(&self, workspace: &Workspace) -> Result<Option<Snapshot>, WorkspaceError> {
        let names = workspace.names(self.kept_as())?;
        let is_ours = |at: u32| u64::from(at) > self.of.stamps().run_since();
        let first = names
            .into_iter()
            .filter(|name| name.moment == Moment::Before && is_ours(name.attempt))
            .min_by_key(|name| name.attempt);
        first.map_or(Ok(None), |name| workspace.load(name))
    }
}
