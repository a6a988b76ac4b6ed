//! Issues that a team reported and that a check shows.

use salve_core::event::{Event, IssueSettled, Proof, TeamEvent};
use salve_core::id::{IncidentId, IssueId};

use super::CheckEnd;
use crate::heal::RunBase;
use crate::store::StoreError;
use crate::team;

/// Returns the issues that a check shows and that Salve acts on.
pub(super) fn open(base: &RunBase<'_>, check: &str) -> Result<Vec<IssueId>, StoreError> {
    let team = team::read(base.writer.store)?;
    Ok(team.of_check(check).map(|issue| issue.id).collect())
}

/// Settles the issues that were open before a check ran, where it is green now.
pub(super) fn settle(
    base: &mut RunBase<'_>,
    check: &str,
    issues: &[IssueId],
    end: CheckEnd,
    healed: Option<IncidentId>,
) -> Result<(), StoreError> {
    let incident = match end {
        CheckEnd::Green => None,
        CheckEnd::Healed(Proof::Proven | Proof::Transient) => healed,
        // Green and red by turns says nothing about an issue.
        CheckEnd::Healed(Proof::Flaky | Proof::Masked | Proof::Failed)
        | CheckEnd::NeedsPerson
        | CheckEnd::Watches
        | CheckEnd::CalledOff
        | CheckEnd::Stopped(_) => return Ok(()),
    };
    for &issue in issues {
        let how = IssueSettled::Green { check: base.writer.scrubber.scrub(check), incident };
        base.writer.note(vec![Event::Team(TeamEvent::IssueSettled { issue, how })])?;
        let text = format!("issue-{} is settled: the check is green", issue.short());
        base.note(check, &text);
    }
    Ok(())
}
