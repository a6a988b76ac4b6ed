//! Issues that a team reported of a check.
//!
//! A check that is red shows an issue, and is healed with it. Of a green one nothing shows what was
//! reported: where an agent may repair, it writes a test that does, and mends it.
//!
//! **Invariant:** an issue is settled by a person, or by evidence: a run of the check that failed
//! while it was open, or a test that fails without the repair.

use jiff::Timestamp;
use salve_core::event::{
    Event, IncidentEvent, IssueSettled, ProcessExit, Proof, RepairMode, TeamEvent,
};
use salve_core::id::{IncidentId, IssueId};
use salve_core::scrub::Scrubbed;

use super::CheckEnd;
use crate::heal::cause::Evidence;
use crate::heal::{RunBase, RunIntent};
use crate::store::{StoreError, Stream};
use crate::team;

/// How many incidents back one looks.
const LOOKED_BACK: usize = 500;

/// The issues of a check that Salve acts on, as they stood when the run began.
#[derive(Debug, Default)]
pub(super) struct ReportedIssues {
    open: Vec<ReportedIssue>,
    /// The one that is worked on while the check is green.
    worked: Option<IssueId>,
}

#[derive(Clone, Debug)]
struct ReportedIssue {
    id: IssueId,
    at: Timestamp,
    text: Scrubbed,
}

impl ReportedIssues {
    /// Reads what is open.
    pub(super) fn read(base: &RunBase<'_>, check: &str) -> Result<Self, StoreError> {
        let team = team::read(base.writer.store)?;
        let issue = |issue: &salve_core::team::Issue| ReportedIssue {
            id: issue.id,
            at: issue.at,
            text: issue.text.clone(),
        };
        Ok(Self { open: team.of_check(check).map(issue).collect(), worked: None })
    }

    /// Tells whether what was reported is worked on while the check is green.
    pub(super) fn is_worked_on(&self) -> bool {
        self.worked.is_some()
    }

    /// Begins to work on an issue of the green check, once a run and where an agent may repair;
    /// returns what it is about.
    pub(super) fn take_up(&mut self, base: &mut RunBase<'_>, check: &str) -> Option<Evidence> {
        let may = base.terms.mode == RepairMode::Agent
            && base.agents.is_some()
            && base.intent == RunIntent::Heal
            && self.worked.is_none();
        let issue = self.open.first().filter(|_| may)?.clone();
        self.worked = Some(issue.id);
        let text = format!("the check is green, and issue-{} is worked on", issue.id.short());
        base.note(check, &text);
        let told = format!("reported: {}", issue.text);
        let (rules, scrubber) = (base.rules, &base.writer.scrubber);
        let mut evidence = Evidence::of(&told, Some(&ProcessExit::Code(0)), rules, scrubber);
        evidence.symptom.key_line = scrubber.scrub(&told);
        Some(evidence)
    }

    /// Settles the issues for which there is evidence that they are mended.
    pub(super) fn settle(
        &self,
        base: &mut RunBase<'_>,
        check: &str,
        end: CheckEnd,
        healed: Option<IncidentId>,
    ) -> Result<(), StoreError> {
        let is_healed = matches!(end, CheckEnd::Healed(Proof::Proven | Proof::Transient));
        // Green and red by turns says nothing about an issue.
        if !is_healed && end != CheckEnd::Green {
            return Ok(());
        }
        for issue in &self.open {
            let is_shown = match self.worked {
                Some(worked) => worked == issue.id && end == CheckEnd::Healed(Proof::Proven),
                None => is_healed || was_red_since(base, check, issue.at)?,
            };
            let id = issue.id.short();
            if !is_shown {
                let text = format!(
                    "issue-{id} stays open: the check is green, and nothing has shown it to fail"
                );
                base.note(check, &text);
                continue;
            }
            let incident = healed.filter(|_| is_healed);
            let how = IssueSettled::Green { check: base.writer.scrubber.scrub(check), incident };
            let settled = TeamEvent::IssueSettled { issue: issue.id, how };
            base.writer.note(vec![Event::Team(settled)])?;
            base.note(check, &format!("issue-{id} is settled: the check is green"));
        }
        Ok(())
    }
}

/// Tells whether the check was seen to fail after an issue was reported.
fn was_red_since(base: &RunBase<'_>, check: &str, at: Timestamp) -> Result<bool, StoreError> {
    let journal = base.writer.store.journal();
    let name = base.writer.scrubber.scrub(check);
    for opened in journal.tail(&Stream::Incidents, LOOKED_BACK)?.iter().rev() {
        let Event::Incident(IncidentEvent::Opened { subject, .. }) = &opened.event else {
            continue;
        };
        let Some(id) = opened.incident.filter(|_| subject.name == name) else { continue };
        if opened.at >= at {
            return Ok(true);
        }
        let told = base.writer.entries(id)?;
        if told.last().is_some_and(|last| last.at >= at) {
            return Ok(true);
        }
    }
    Ok(false)
}
