//! Patches of a tool's source that an agent proposes: issues like all others, about one tool.
//!
//! **Invariant:** such a patch waits. Only `salve debug --apply`, which a person has to run, takes
//! it up.

use salve_core::event::{Actor, Digest, FixKind};
use salve_core::id::IssueId;
use salve_core::scrub::{Scrubbed, Scrubber};
use salve_core::team::{About, RawFix, RawIssue};

use super::{TeamError, find, propose, read, report, unknown};
use crate::store::Store;

/// What the check of such an issue begins with; no check of the settings can have this name.
const ABOUT_A_TOOL: &str = "tool: ";

/// A patch of a tool's source, as it came in.
#[derive(Clone, Debug)]
pub struct RawToolPatch {
    pub tool: String,
    /// What it said.
    pub error: String,
    pub patch: String,
    /// Why it should help.
    pub why: Option<String>,
}

/// A patch of a tool's source that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposedToolPatch {
    pub issue: IssueId,
    pub tool: String,
    /// What it said.
    pub error: Scrubbed,
    pub patch: Scrubbed,
    /// Why it should help.
    pub why: Option<Scrubbed>,
    /// Who proposes it.
    pub by: Actor,
}

/// Returns what tells a patch from every other one, so that a person applies the one they saw.
pub fn tool_patch_digest(patch: &[u8]) -> Digest {
    Digest::of(&[b"tool patch", patch])
}

/// Takes in a patch of a tool's source; nothing is changed by it.
///
/// # Errors
///
/// When a part of it is empty, too long or holds a secret.
pub fn propose_tool_patch(
    store: &Store,
    by: &Actor,
    raw: &RawToolPatch,
    scrubber: &Scrubber,
) -> Result<IssueId, TeamError> {
    let fix = RawFix { kind: "patch".to_owned(), text: raw.patch.clone(), why: raw.why.clone() };
    // What is wrong with the patch is said before an issue is there.
    salve_core::team::accept::fix(&fix, scrubber)?;
    let about = format!("{ABOUT_A_TOOL}{}", raw.tool.trim());
    let issue = RawIssue {
        text: raw.error.clone(),
        check: Some(about.clone()),
        files: Vec::new(),
        auto_fix: false,
    };
    let reported = report(store, by, &issue, &[about], scrubber)?;
    let id = reported.issue.0.simple().to_string();
    propose(store, by, &id, &fix, scrubber)?;
    Ok(reported.issue)
}

/// Returns the patch that was proposed last in an issue about a tool.
///
/// # Errors
///
/// When there is no such issue.
pub fn find_tool_patch(
    store: &Store,
    given: &str,
    scrubber: &Scrubber,
) -> Result<ProposedToolPatch, TeamError> {
    let team = read(store)?;
    let about = find(store, &team, given, scrubber)?;
    let About::Issue(id) = about else { return Err(unknown(given, scrubber)) };
    let issue = team.open().find(|issue| issue.id == id);
    let patches = team.about(about).filter(|known| known.fix.kind == FixKind::Patch);
    let (Some(issue), Some(patch)) = (issue, patches.last()) else {
        return Err(unknown(given, scrubber));
    };
    let tool = issue.check.as_ref().and_then(|check| check.as_str().strip_prefix(ABOUT_A_TOOL));
    let Some(tool) = tool else { return Err(unknown(given, scrubber)) };
    Ok(ProposedToolPatch {
        issue: id,
        tool: tool.to_owned(),
        error: issue.text.clone(),
        patch: patch.fix.text.clone(),
        why: patch.why.clone(),
        by: patch.by.clone(),
    })
}
