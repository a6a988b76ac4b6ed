//! Installed packages while an agent works: what it edits there is put back before it is judged.

use salve_core::event::Scope;

use super::checkup::Checkup;
use crate::workspace::{PackageGuard, Workspace};

impl Checkup<'_, '_> {
    /// Keeps the installed packages before an agent begins; where that fails, what it edits there
    /// is only told.
    pub(super) fn keep_packages(&mut self) {
        self.case.packages = self.packages();
        self.case.packages_since = None;
    }

    fn packages(&self) -> Option<PackageGuard> {
        let workspace = Workspace::open(&self.clinic.project).ok()?;
        let before = workspace.load(self.name(Scope::Attempt)?).ok()??;
        workspace.guard_packages(&before).ok()?
    }

    /// Puts back what an agent edited of the installed packages, and says so.
    pub(super) fn put_packages_back(&mut self) {
        let Some(guard) = self.case.packages.take() else { return };
        let done = guard.put_back();
        if !done.files.is_empty() {
            self.note(&format!(
                "it edited what is installed, which is no part of the project; put back: {}",
                done.files.join(", ")
            ));
        }
        if done.left.is_empty() {
            self.case.packages_since = Some(self.clinic.desk.now());
        }
    }
}
