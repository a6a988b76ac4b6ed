//! Fixes as remedies: what the journal says of them and what the gate does.

use salve_core::event::{
    Digest, Judgement, Remedy, RemedyKind, RemedyOrigin, RemedyVerdict, Repeat, Undo,
};
use salve_core::incident::Candidate;
use salve_core::scrub::{Scrubbed, Scrubber};
use salve_core::tool::rule::ToolFix;

use crate::heal::remedies::{Offer, RemedyWay};

/// How sure a rule is, in thousandths: it is the user's own word.
const SURE: u16 = 999;

/// Returns the hash by which the journal knows a fix.
pub(super) fn digest(fix: &ToolFix) -> Digest {
    Digest::of(&[b"tool fix", fix.cause().as_bytes()])
}

/// Returns a fix as a remedy. The settings that name it are the user's word, so the gate allows it;
/// a change of settings by an agent is held back before it gets here.
pub(super) fn offer(fix: &ToolFix, scrubber: &Scrubber) -> Offer {
    let rule = match fix {
        ToolFix::ConnectVpn { .. } => "auto_heal.vpn_script",
        ToolFix::Run { .. } | ToolFix::Call { .. } | ToolFix::Restart | ToolFix::Wait { .. } => {
            "auto_heal.rules"
        }
    };
    let remedy = Remedy {
        kind: RemedyKind::Command,
        origin: RemedyOrigin::Person,
        text: scrubber.scrub(&fix.name()),
        digest: digest(fix),
        undo: Undo::Nothing,
        repeat: Repeat::Unsafe,
    };
    let judgement = Judgement {
        verdict: RemedyVerdict::Allow,
        rule: Scrubbed::literal(rule),
        reason: Scrubbed::literal("the settings say that this helps"),
    };
    let candidate = Candidate { remedy, confidence: SURE };
    Offer { candidate, judgement, what: RemedyWay::BySubject }
}

/// Returns what memory knows and the gate lets run without a person: nobody is asked about a call
/// that waits.
pub(super) fn allowed(known: Vec<Offer>) -> Vec<Offer> {
    let is_allowed = |offer: &Offer| {
        offer.judgement.verdict == RemedyVerdict::Allow
            && matches!(offer.what, RemedyWay::Known { .. })
    };
    known.into_iter().filter(is_allowed).collect()
}
