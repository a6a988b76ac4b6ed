//! What a loop wants recovered, and what the loop is told.

use salve_core::event::{Event, RecoveryEvent};
use salve_core::scrub::Scrubbed;

use crate::heal::files::with_causes;
use crate::heal::judging_command::ONLY;
use crate::heal::loop_files::LoopFiles;
use crate::heal::run::CommandRunEnd;
use crate::heal::{RunBase, SubjectContext, manifests};
use crate::store::StoreError;

/// What the loop wants recovered.
pub(super) struct SoughtRecovery {
    /// The loop's name.
    pub(super) name: String,
    /// The iteration of the loop.
    pub(super) iteration: u32,
    /// The journal's entry at which the loop's run began.
    pub(super) since: u64,
    /// How the loop saw the tests come out.
    pub(super) first: Option<CommandRunEnd>,
    /// The loop's files.
    pub(super) files: LoopFiles,
    /// What said what is installed and changed in this run of the loop.
    pub(super) changed: Vec<Scrubbed>,
    /// Why something could not be kept, so that it is said once.
    pub(super) complaint: Option<String>,
}

impl SoughtRecovery {
    /// Finds out what of what says what is installed changed in this run of the loop.
    pub(super) fn look_at_manifests(&mut self, base: &RunBase<'_>) -> Result<(), StoreError> {
        let name = base.writer.scrubber.scrub(&self.name);
        let root = base.project.root();
        self.changed = manifests::changed(&base.writer, root, &name, self.since)?;
        Ok(())
    }

    /// Puts on record that a proposal is not taken up.
    pub(super) fn refuse(
        &self,
        reason: &str,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        let scrubber = &context.base.writer.scrubber;
        let (name, reason) = (scrubber.scrub(&self.name), scrubber.scrub(reason));
        let iteration = self.iteration;
        context.note(ONLY, reason.as_str());
        let refused = RecoveryEvent::Refused { name, iteration, reason };
        context.base.writer.note(vec![Event::Recovery(refused)]).map(drop)
    }

    /// Writes what the journal says into the loop's files.
    pub(super) fn tell_loop(&mut self, base: &mut RunBase<'_>) {
        if let Err(error) = self.files.refresh(base.writer.store) {
            let complaint = with_causes(&error);
            if self.complaint.as_ref() != Some(&complaint) {
                let text = format!("the loop's files could not be written: {complaint}");
                base.note(&self.name, &text);
                self.complaint = Some(complaint);
            }
        }
    }
}
