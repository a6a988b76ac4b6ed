//! Whether a green check proves that the repair repaired it.
//!
//! A check that is green after a repair says little: it may have been red by chance, it may be red
//! and green by turns, or the repair may have weakened what judges it. So the state before the
//! repair is run once more, and where the repair touched the verifier, so is the repaired state
//! with the verifier as it was. [`judge`] is the table that weighs what they found; it never runs
//! anything.
//!
//! **Invariants:** nothing is proven unless the check is green, the verifier as it was agrees where
//! it was touched, no tests were lost, and the old state was seen to fail. What could not be run
//! never speaks for the repair.

use std::fmt;

use super::TestCounts;
use super::results::{Results, Sort};
use crate::event::Proof;
use crate::id::Signature;
use crate::scrub::Scrubbed;

/// The colour of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Colour {
    /// The check passed.
    Green,
    /// The check failed.
    Red,
}

/// What a remedy changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Touched {
    /// Nothing at all, as measured: an agent or a patch that left every file as it was.
    Nothing,
    /// Files of the tree, so the tree before can be compared with the tree after.
    Tree,
    /// Only what no snapshot holds, such as installed packages: the tree before cannot be told from
    /// the tree after.
    Outside,
}

/// What the state before the repair did when it was run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Before {
    /// It failed as it had; see [`likeness`].
    RedAlike,
    /// It failed otherwise.
    RedOther,
    /// It failed the tests that the repair brought, which show what was reported.
    RedByNewTests,
    /// It passed.
    Green,
    /// It was not run, because that is switched off or would tell nothing.
    Off,
    /// It could not be run.
    NotRun(Scrubbed),
}

/// What the repaired state does when it is judged by the verifier as it was before the repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OldVerifier {
    /// The repair touched nothing of the verifier.
    Untouched,
    /// It passes.
    Green,
    /// It fails.
    Red,
    /// It could not be run.
    NotRun(Scrubbed),
}

/// Everything that bears on a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProofEvidence<'a> {
    /// The whole check after the repair.
    pub now: Colour,
    /// The check after the repair, once more; `None` if it was not run twice.
    pub confirmed: Option<Colour>,
    /// What the remedy changed.
    pub touched: Touched,
    /// Every run of the unrepaired state until the repair, the oldest first; the last one is the
    /// failure that was repaired.
    pub earlier: &'a [Colour],
    /// The unrepaired state run again after the repair.
    pub before: Before,
    /// The repaired state under the previous verifier.
    pub old_verifier: OldVerifier,
    /// How many ways in which the verifier was weakened were found.
    pub weakenings: usize,
    /// The counts of the unrepaired state; the largest known is best.
    pub counts_before: TestCounts,
    /// The counts of the repaired state.
    pub counts_after: TestCounts,
}

/// What is to become of the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Keep {
    /// It stays.
    All,
    /// It stays but for what it did to the verifier, which was not needed.
    AllButVerifier,
    /// It was not needed; taking it back should leave the check green.
    NotNeeded,
    /// It is undone.
    Nothing,
}

/// What was found, why, and what follows for the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    pub proof: Proof,
    /// The row of the table that said so.
    pub ground: ProofGround,
    /// What is to become of the change.
    pub keep: Keep,
}

/// Why a repair was judged as it was; its text is for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProofGround {
    /// The check is red.
    StillRed,
    /// Only the changed verifier is content.
    OnlyChangedVerifier,
    /// The verifier was changed, and the previous one could not be asked.
    VerifierNotAsked(Scrubbed),
    /// The check passes though its own output names failed tests; this many.
    GreenInSpiteOf(u32),
    /// Fewer tests ran than before; `None` if it is no longer known how many.
    FewerTests {
        /// How many ran before.
        before: u32,
        /// How many run now.
        after: Option<u32>,
    },
    /// The repaired state is green and red by turns.
    RepairedByTurns,
    /// The unrepaired state is green and red by turns.
    UnrepairedByTurns,
    /// The check is green and red by turns, and nothing was changed in between.
    CheckByTurns,
    /// Nothing was changed.
    NothingChanged,
    /// The unrepaired state passes as well.
    UnrepairedGreen,
    /// The unrepaired state fails, but not as it did.
    UnrepairedOther,
    /// The unrepaired state could not be run again.
    UnrepairedNotRun(Scrubbed),
    /// The unrepaired state was not run again, and had been seen to fail only once.
    SeenOnce,
    /// The unrepaired state was not run again, but had failed time and again before.
    SeenAgain,
    /// The unrepaired state still fails as it did.
    UnrepairedRed,
    /// The tests that the repair brought fail without the rest of it.
    NewTestsFail,
}

impl fmt::Display for ProofGround {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProofGround::StillRed => f.write_str("the check still fails"),
            ProofGround::OnlyChangedVerifier => f.write_str(
                "the repair changed what judges it, and as it was before, the check fails",
            ),
            ProofGround::VerifierNotAsked(why) => write!(
                f,
                "the repair changed what judges it, which could not be run as it was before: {why}"
            ),
            ProofGround::GreenInSpiteOf(failed) => {
                write!(f, "the check passes, though its output names {failed} failed tests")
            }
            ProofGround::FewerTests { before, after: Some(after) } => {
                write!(f, "only {after} tests run where {before} did before")
            }
            ProofGround::FewerTests { before, after: None } => {
                write!(f, "{before} tests ran before, and now the output names none")
            }
            ProofGround::RepairedByTurns => f.write_str("the repaired state passed, then failed"),
            ProofGround::UnrepairedByTurns => {
                f.write_str("the state before the repair passes and fails by turns")
            }
            ProofGround::CheckByTurns => {
                f.write_str("on the same files it passed, failed, and passed again: it is flaky")
            }
            ProofGround::NothingChanged => f.write_str("nothing was changed, and the check passes"),
            ProofGround::UnrepairedGreen => {
                f.write_str("the state before the repair passes as well")
            }
            ProofGround::UnrepairedOther => {
                f.write_str("the state before the repair fails too, but in another way")
            }
            ProofGround::UnrepairedNotRun(why) => {
                write!(f, "the state before the repair could not be run again: {why}")
            }
            ProofGround::SeenOnce => f.write_str(
                "the failure was seen only once, and the state before the repair was not run again",
            ),
            ProofGround::SeenAgain => f.write_str("without the repair it was sure to fail again"),
            ProofGround::NewTestsFail => {
                f.write_str("the tests that came with the repair fail without the rest of it")
            }
            ProofGround::UnrepairedRed => {
                f.write_str("the state before the repair still fails the same way")
            }
        }
    }
}

/// Weighs the evidence.
pub fn judge(evidence: &ProofEvidence<'_>) -> Judged {
    if evidence.now == Colour::Red {
        return Judged { proof: Proof::Failed, ground: ProofGround::StillRed, keep: Keep::Nothing };
    }
    if let Some(ground) = mask(evidence) {
        return Judged { proof: Proof::Masked, ground, keep: Keep::Nothing };
    }
    let (proof, ground) = cause(evidence);
    let clean = evidence.weakenings == 0 && lost_tests(evidence).is_none();
    let keep = match (&ground, clean) {
        (ProofGround::NothingChanged | ProofGround::UnrepairedGreen, _) => Keep::NotNeeded,
        (
            ProofGround::RepairedByTurns
            | ProofGround::UnrepairedByTurns
            | ProofGround::CheckByTurns,
            _,
        ) => Keep::Nothing,
        (_, true) => Keep::All,
        (_, false) => Keep::AllButVerifier,
    };
    Judged { proof, ground, keep }
}

/// Returns why the check only looks green, if it does.
fn mask(evidence: &ProofEvidence<'_>) -> Option<ProofGround> {
    // Whatever turned the exit code, no verifier that counts failures is content with them.
    if let Some(failed) = evidence.counts_after.failed.filter(|failed| *failed > 0) {
        return Some(ProofGround::GreenInSpiteOf(failed));
    }
    match &evidence.old_verifier {
        // The verifier as it was is content: whatever was done to it did not make it so.
        OldVerifier::Green => None,
        OldVerifier::Red => Some(ProofGround::OnlyChangedVerifier),
        OldVerifier::NotRun(why) => Some(ProofGround::VerifierNotAsked(why.clone())),
        OldVerifier::Untouched if evidence.weakenings > 0 => {
            Some(ProofGround::VerifierNotAsked(Scrubbed::literal("it was not tried")))
        }
        OldVerifier::Untouched => lost_tests(evidence),
    }
}

/// Returns how many tests no longer run, where that is known.
fn lost_tests(evidence: &ProofEvidence<'_>) -> Option<ProofGround> {
    let before = evidence.counts_before.ran().filter(|ran| *ran > 0)?;
    let after = evidence.counts_after.ran();
    let lost = after.is_none_or(|after| after < before);
    lost.then_some(ProofGround::FewerTests { before, after })
}

/// Returns whether it was the repair that turned the check green.
fn cause(evidence: &ProofEvidence<'_>) -> (Proof, ProofGround) {
    if evidence.confirmed == Some(Colour::Red) {
        return (Proof::Flaky, ProofGround::RepairedByTurns);
    }
    let again = match evidence.before {
        Before::RedAlike | Before::RedOther => Some(Colour::Red),
        // These tests are no run of the state as it was.
        Before::RedByNewTests => None,
        Before::Green => Some(Colour::Green),
        Before::Off | Before::NotRun(_) => None,
    };
    if turns(evidence.earlier.iter().copied().chain(again)) >= 2 {
        let ground = match evidence.touched {
            Touched::Nothing => ProofGround::CheckByTurns,
            Touched::Tree | Touched::Outside => ProofGround::UnrepairedByTurns,
        };
        return (Proof::Flaky, ground);
    }
    if evidence.touched == Touched::Nothing {
        return (Proof::Transient, ProofGround::NothingChanged);
    }
    match (&evidence.before, evidence.touched) {
        // Both trees are alike to a run that shares what was changed.
        (Before::Off, _) | (_, Touched::Outside) => {
            let reds = evidence.earlier.iter().rev().take_while(|run| **run == Colour::Red).count();
            if reds >= 2 {
                (Proof::Proven, ProofGround::SeenAgain)
            } else {
                (Proof::Transient, ProofGround::SeenOnce)
            }
        }
        (Before::RedAlike, _) => (Proof::Proven, ProofGround::UnrepairedRed),
        (Before::RedByNewTests, _) => (Proof::Proven, ProofGround::NewTestsFail),
        (Before::RedOther, _) => (Proof::Transient, ProofGround::UnrepairedOther),
        (Before::Green, _) => (Proof::Transient, ProofGround::UnrepairedGreen),
        (Before::NotRun(why), _) => (Proof::Transient, ProofGround::UnrepairedNotRun(why.clone())),
    }
}

/// Counts how often runs of one state changed their colour.
pub fn turns(runs: impl IntoIterator<Item = Colour>) -> usize {
    let mut runs = runs.into_iter();
    let Some(mut last) = runs.next() else { return 0 };
    runs.filter(|run| std::mem::replace(&mut last, *run) != *run).count()
}

/// One failed run of a check: its signature and what its output says.
#[derive(Clone, Copy, Debug)]
pub struct CheckFailure<'a> {
    /// The failure's identity.
    pub signature: Signature,
    /// What failed, with paths relative to the tree it ran in.
    pub results: &'a Results,
}

/// Tells whether the unrepaired state, run again, failed as it had.
///
/// It did if the failure has the same signature, or if the very tests failed, and no others, that
/// had failed before: a test is known better by its name than by what it prints.
pub fn likeness(first: CheckFailure<'_>, again: CheckFailure<'_>) -> Before {
    let tests = again.results.tool.is_some_and(|tool| tool.sort() == Sort::Test);
    let same_tool = first.results.tool == again.results.tool;
    let known =
        !again.results.failed.is_empty() && again.results.new_since(first.results).is_empty();
    if first.signature == again.signature || (tests && same_tool && known) {
        Before::RedAlike
    } else {
        Before::RedOther
    }
}

#[cfg(test)]
mod tests;
