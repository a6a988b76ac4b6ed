//! Whether a green check is the remedy's doing.

use salve_core::event::{Proof, RemedyKind, Report};
use salve_core::incident::{Run as Effecting, Trial};

use super::checkup::Checkup;

impl Checkup<'_, '_> {
    /// Finds out whether the remedy made the check green.
    pub(super) fn prove(&mut self, effect: Effecting) {
        let trial = self.incident.as_ref().and_then(|incident| incident.trial());
        let unchanged = |trial: &Trial| {
            trial.remedy.kind == RemedyKind::Retry
                || trial.measured.is_some_and(|change| change.files == Some(0))
        };
        // Nothing was changed, so it would have passed by itself.
        let proof = match trial.is_none_or(unchanged) {
            true => Proof::Transient,
            false => Proof::Proven,
        };
        self.aside(effect, move || Report::Verified { proof, symptom: None });
    }
}
