//! What a team proposes, as remedies like all others: judged, tried, verified, undone.
//!
//! **Invariant:** a proposal has no more rights than what memory knows: a command passes the gate,
//! a patch fits and does not touch Salve's own settings, an instruction is an agent's turn.

use salve_core::event::{
    Digest, FixKind, Judgement, Remedy, RemedyKind, RemedyOrigin, RemedyVerdict, RepairMode,
    Repeat, Undo,
};
use salve_core::gate::DEFAULT_TIMEOUT_SECONDS;
use salve_core::incident::Candidate;
use salve_core::memory::{Ranked, RememberedKind};
use salve_core::repair::who;
use salve_core::scrub::{Scrubbed, Scrubber};
use salve_core::team::TeamProposal;

use super::remedies::{Offer, OfferTrust, Remedies, RemedyWay, SURE};
use crate::project::Project;
use crate::workspace::{FileChange, PatchError, Workspace};

/// What proposals are judged by.
#[derive(Debug)]
pub struct ProposalJudge<'a> {
    pub project: &'a Project,
    /// Whether agents may repair it.
    pub mode: RepairMode,
    /// What is known not to help.
    pub failed: &'a [Ranked],
    /// What takes secrets out.
    pub scrubber: &'a Scrubber,
}

/// Returns what each proposal would do, in the order in which they are to be tried.
///
/// Left out are those that failed before, patches that do not fit, and instructions where no agent
/// may repair.
pub fn offers(
    proposals: &[&TeamProposal],
    remedies: &Remedies<'_>,
    bench: &ProposalJudge<'_>,
) -> Vec<Offer> {
    let mut workspace = None;
    let mut offers = Vec::new();
    for (place, proposal) in proposals.iter().enumerate() {
        if has_failed(proposal, bench.failed) {
            continue;
        }
        let confidence = SURE.saturating_sub(u16::try_from(place).unwrap_or(SURE));
        let text = &proposal.fix.text;
        offers.extend(match proposal.fix.kind {
            FixKind::Command => {
                let trust = OfferTrust { origin: RemedyOrigin::Proposal, confidence };
                remedies.offer_command(text, trust, bench.scrubber)
            }
            FixKind::Patch => {
                if workspace.is_none() {
                    workspace = Workspace::open(bench.project).ok();
                }
                let fits =
                    workspace.as_ref().map(|there| there.patches().fits(text.as_str().as_bytes()));
                match fits {
                    Some(Ok(files)) => Some(patch(proposal, &files, confidence, bench)),
                    // It is never taken, and whoever proposed it should know why.
                    Some(Err(PatchError::Refused { path, why })) => {
                        Some(refused_patch(proposal, &format!("{path} {why}"), bench))
                    }
                    Some(Err(_)) | None => None,
                }
            }
            FixKind::Instruction => match bench.mode {
                RepairMode::Agent => Some(instruction(proposal, confidence, bench.scrubber)),
                RepairMode::Legacy => None,
            },
        });
    }
    offers
}

/// Returns what a remedy that an earlier run of Salve chose would do, by its hash.
pub fn recall(remedy: &Remedy, proposals: &[TeamProposal]) -> Option<RemedyWay> {
    let millis = DEFAULT_TIMEOUT_SECONDS.saturating_mul(1_000);
    let command = remedy.text.as_str();
    if remedy.kind == RemedyKind::Command
        && Digest::of_command(command, ".", millis) == remedy.digest
    {
        let command = command.to_owned();
        return Some(RemedyWay::Known { command, seconds: DEFAULT_TIMEOUT_SECONDS, dir: None });
    }
    proposals.iter().find_map(|proposal| {
        let text = &proposal.fix.text;
        let (digest, what) = match proposal.fix.kind {
            FixKind::Command => return None,
            FixKind::Patch => (of_patch(text), RemedyWay::Patch(text.as_str().as_bytes().to_vec())),
            FixKind::Instruction => (of_instruction(text), RemedyWay::Instruction(text.clone())),
        };
        (digest == remedy.digest).then_some(what)
    })
}

fn of_patch(text: &Scrubbed) -> Digest {
    Digest::of(&[b"patch", text.as_str().as_bytes()])
}

fn of_instruction(text: &Scrubbed) -> Digest {
    Digest::of(&[b"instruction", text.as_str().as_bytes()])
}

fn has_failed(proposal: &TeamProposal, failed: &[Ranked]) -> bool {
    let kind = match proposal.fix.kind {
        FixKind::Command => RememberedKind::Command,
        FixKind::Patch => RememberedKind::Patch,
        FixKind::Instruction => return false,
    };
    failed.iter().any(|known| known.remedy.kind == kind && known.remedy.text == proposal.fix.text)
}

fn patch(
    proposal: &TeamProposal,
    files: &[FileChange],
    confidence: u16,
    bench: &ProposalJudge<'_>,
) -> Offer {
    let (verdict, reason) = match bench.mode {
        RepairMode::Agent => (RemedyVerdict::Allow, "agents may repair this project, and it fits"),
        RepairMode::Legacy => (RemedyVerdict::Ask, "no agent may repair this project"),
    };
    let named = files.first().map(|file| file.path.as_str()).unwrap_or_default();
    let more = match files.len() {
        0 | 1 => String::new(),
        all => format!(" and {} more", all - 1),
    };
    let text = format!("patch of {named}{more} by {}", who(&proposal.by));
    patch_offer(proposal, text, confidence, judgement(verdict, "proposal.patch", reason), bench)
}

/// Returns a patch that reaches for what no repair may change, so that the denial is told.
fn refused_patch(proposal: &TeamProposal, why: &str, bench: &ProposalJudge<'_>) -> Offer {
    let rule = Scrubbed::literal("proposal.patch");
    let judgement =
        Judgement { verdict: RemedyVerdict::Deny, rule, reason: bench.scrubber.scrub(why) };
    patch_offer(proposal, format!("patch by {}", who(&proposal.by)), 0, judgement, bench)
}

fn patch_offer(
    proposal: &TeamProposal,
    text: String,
    confidence: u16,
    judgement: Judgement,
    bench: &ProposalJudge<'_>,
) -> Offer {
    let digest = of_patch(&proposal.fix.text);
    let remedy = remedy(RemedyKind::Patch, bench.scrubber.scrub(&text), digest);
    let candidate = Candidate { remedy, confidence };
    let what = RemedyWay::Patch(proposal.fix.text.as_str().as_bytes().to_vec());
    Offer { candidate, judgement, what }
}

fn instruction(proposal: &TeamProposal, confidence: u16, scrubber: &Scrubber) -> Offer {
    let text = &proposal.fix.text;
    let name = format!("repair by an agent as {} says", who(&proposal.by));
    let digest = of_instruction(text);
    let remedy = remedy(RemedyKind::Agent, scrubber.scrub(&name), digest);
    let judgement =
        judgement(RemedyVerdict::Allow, "proposal.instruction", "an agent may repair this project");
    let candidate = Candidate { remedy, confidence };
    Offer { candidate, judgement, what: RemedyWay::Instruction(text.clone()) }
}

fn remedy(kind: RemedyKind, text: Scrubbed, digest: Digest) -> Remedy {
    let (origin, undo, repeat) = (RemedyOrigin::Proposal, Undo::Snapshot, Repeat::Unsafe);
    Remedy { kind, origin, text, digest, undo, repeat }
}

fn judgement(verdict: RemedyVerdict, rule: &'static str, reason: &'static str) -> Judgement {
    Judgement { verdict, rule: Scrubbed::literal(rule), reason: Scrubbed::literal(reason) }
}
