//! A change that may not have been needed is taken back, and the check shows whether it was.
//!
//! That the state before it passed in a directory beside the tree is no certainty: what the check
//! depends on may be another there. So the tree itself is put back. If the check passes there too,
//! the change stays away; if it fails, the change was needed after all and returns.
//!
//! **Invariant:** what is concluded is of the very tree that the check ran in last, and was green in.

use salve_core::event::{Proof, Report, Scope};
use salve_core::incident::Run as Effecting;

use super::Input;
use super::case::{Doubt, Tree};
use super::checkup::Checkup;
use super::prove::Conclusion;
use crate::heal::{files, spawn_thread};
use crate::store::StoreError;

impl Checkup<'_, '_> {
    /// Takes a change back for which nothing speaks.
    pub(super) fn doubt(&mut self, effect: Effecting, why: String) {
        self.case.doubt = Some(Doubt { why, tree: Tree::Without });
        self.move_files(effect, Tree::Without);
    }

    /// Returns whether the change that is in doubt is away.
    pub(super) fn is_without(&self) -> bool {
        self.case.doubt.as_ref().is_some_and(|doubt| doubt.tree == Tree::Without)
    }

    fn move_files(&self, effect: Effecting, to: Tree) {
        let (project, scrubber) = (self.clinic.project.clone(), self.clinic.desk.scrubber.clone());
        let (name, post) = (self.name(Scope::Attempt), self.clinic.inbox.0.clone());
        spawn_thread("doubt", move || {
            let report = match (name, to) {
                (Some(name), Tree::Without) => files::restore(&project, name, &scrubber),
                (Some(name), Tree::With) => files::redo(&project, name, &scrubber),
                (None, _) => files::nothing_there(),
            };
            // Nobody is left to tell when the run of Salve is over.
            let _ = post.send(Input::Moved { effect, report });
        });
    }

    /// Takes in that the files were moved to where they are looked at.
    pub(super) fn moved(&mut self, effect: Effecting, report: &Report) -> Result<(), StoreError> {
        if self.case.effect != Some(effect) {
            return Ok(());
        }
        let reason = match report {
            Report::Failed { reason, .. } => reason.to_string(),
            Report::Done
            | Report::TimedOut
            | Report::NoAgent
            | Report::Measured(_)
            | Report::Verified { .. } => {
                self.start(Some(effect));
                return Ok(());
            }
        };
        match self.case.doubt.take() {
            // It was not moved, and green when it was seen last.
            Some(Doubt { why, tree: Tree::Without }) => {
                let why = format!("{why}\nthe change could not be taken back: {reason}");
                self.in_doubt(effect, &why)
            }
            Some(Doubt { tree: Tree::With, .. }) | None => {
                let text = format!("what was needed could not be put back: {reason}");
                let reason = self.clinic.desk.scrubber.scrub(&text);
                self.finish(effect, Report::failed(reason))
            }
        }
    }

    /// Takes in how the check does where the change in doubt is away, or back and well.
    pub(super) fn settle_doubt(
        &mut self,
        effect: Effecting,
        is_well: bool,
    ) -> Result<(), StoreError> {
        match (self.case.doubt.take(), is_well) {
            (Some(Doubt { why, tree: Tree::Without }), true) => {
                let why = self.clinic.desk.scrubber.scrub(&why);
                let proof = Proof::Transient;
                self.conclude(effect, Conclusion { proof, why, taken_back: true })
            }
            (Some(Doubt { why, tree: Tree::With }), true) => self.in_doubt(
                effect,
                &format!("{why}\nbut not here: without the change it fails, so the change stays"),
            ),
            (Some(Doubt { why, .. }), false) => {
                self.case.doubt = Some(Doubt { why, tree: Tree::With });
                self.move_files(effect, Tree::With);
                Ok(())
            }
            (None, _) => Ok(()),
        }
    }

    fn in_doubt(&mut self, effect: Effecting, why: &str) -> Result<(), StoreError> {
        let why = self.clinic.desk.scrubber.scrub(why);
        self.conclude(effect, Conclusion { proof: Proof::Transient, why, taken_back: false })
    }
}
