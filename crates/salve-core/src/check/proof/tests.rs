use super::*;
use crate::check::read;
use Colour::{Green, Red};

const WHY: &str = "no such file";

fn counts(ran: Option<u32>) -> TestCounts {
    TestCounts { passed: ran, total: ran, ..TestCounts::default() }
}

/// A repair of the tree whose old state fails as it did.
fn proven() -> ProofEvidence<'static> {
    ProofEvidence {
        now: Green,
        confirmed: Some(Green),
        touched: Touched::Tree,
        earlier: &[Red],
        before: Before::RedAlike,
        old_verifier: OldVerifier::Untouched,
        weakenings: 0,
        counts_before: counts(Some(4)),
        counts_after: counts(Some(4)),
    }
}

#[track_caller]
fn check(evidence: &ProofEvidence<'_>, proof: Proof, ground: ProofGround, keep: Keep) {
    assert_eq!(judge(evidence), Judged { proof, ground, keep }, "{evidence:?}");
}

#[test]
fn each_row_of_the_table() {
    let why = || Scrubbed::literal(WHY);
    use {Before as B, OldVerifier as V, Proof as P, ProofGround as G};
    let of = |before| ProofEvidence { before, ..proven() };
    check(&proven(), P::Proven, G::UnrepairedRed, Keep::All);
    check(&ProofEvidence { now: Red, ..proven() }, P::Failed, G::StillRed, Keep::Nothing);
    check(&of(B::Green), P::Transient, G::UnrepairedGreen, Keep::NotNeeded);
    check(&of(B::RedOther), P::Transient, G::UnrepairedOther, Keep::All);
    check(&of(B::NotRun(why())), P::Transient, G::UnrepairedNotRun(why()), Keep::All);
    check(&of(B::Off), P::Transient, G::SeenOnce, Keep::All);
    let twice = ProofEvidence { earlier: &[Green, Red, Red], ..of(B::Off) };
    check(&twice, P::Proven, G::SeenAgain, Keep::All);
    let nothing = ProofEvidence { touched: Touched::Nothing, ..proven() };
    check(&nothing, P::Transient, G::NothingChanged, Keep::NotNeeded);
    // What was installed is shared by both trees, so the old one passing says nothing.
    let installed =
        ProofEvidence { touched: Touched::Outside, earlier: &[Red, Red], ..of(B::Green) };
    check(&installed, P::Proven, G::SeenAgain, Keep::All);

    let turns = ProofEvidence { earlier: &[Red, Green, Red], ..proven() };
    check(&turns, P::Flaky, G::UnrepairedByTurns, Keep::Nothing);
    let turns = ProofEvidence { earlier: &[Green, Red], ..of(B::Green) };
    check(&turns, P::Flaky, G::UnrepairedByTurns, Keep::Nothing);
    let again = ProofEvidence { confirmed: Some(Red), ..proven() };
    check(&again, P::Flaky, G::RepairedByTurns, Keep::Nothing);

    let under = |old_verifier, weakenings| ProofEvidence { old_verifier, weakenings, ..proven() };
    check(&under(V::Red, 1), P::Masked, G::OnlyChangedVerifier, Keep::Nothing);
    check(&under(V::Red, 0), P::Masked, G::OnlyChangedVerifier, Keep::Nothing);
    check(&under(V::NotRun(why()), 0), P::Masked, G::VerifierNotAsked(why()), Keep::Nothing);
    let untried = G::VerifierNotAsked(Scrubbed::literal("it was not tried"));
    check(&under(V::Untouched, 2), P::Masked, untried, Keep::Nothing);
    check(&under(V::Green, 0), P::Proven, G::UnrepairedRed, Keep::All);
    check(&under(V::Green, 1), P::Proven, G::UnrepairedRed, Keep::AllButVerifier);

    let fewer = |after| ProofEvidence { counts_after: counts(after), ..proven() };
    let lost = |after| G::FewerTests { before: 4, after };
    check(&fewer(Some(3)), P::Masked, lost(Some(3)), Keep::Nothing);
    check(&fewer(None), P::Masked, lost(None), Keep::Nothing);
    check(&fewer(Some(5)), P::Proven, G::UnrepairedRed, Keep::All);
    let asked = ProofEvidence { old_verifier: V::Green, ..fewer(Some(3)) };
    check(&asked, P::Proven, G::UnrepairedRed, Keep::AllButVerifier);
    for unknown in [None, Some(0)] {
        let fresh = ProofEvidence { counts_before: counts(unknown), ..fewer(None) };
        check(&fresh, P::Proven, G::UnrepairedRed, Keep::All);
    }
}

#[test]
fn a_green_exit_does_not_outweigh_failed_tests() {
    let counts_after = TestCounts { failed: Some(1), ..counts(Some(4)) };
    for old_verifier in [OldVerifier::Untouched, OldVerifier::Green] {
        let evidence = ProofEvidence { counts_after, old_verifier, ..proven() };
        check(&evidence, Proof::Masked, ProofGround::GreenInSpiteOf(1), Keep::Nothing);
    }
}

#[test]
fn a_skipped_test_is_a_lost_test() {
    let before = TestCounts { passed: Some(3), failed: Some(1), skipped: Some(0), ..counts(None) };
    let after =
        TestCounts { passed: Some(3), failed: Some(0), skipped: Some(1), ..counts(Some(4)) };
    let after = TestCounts { passed: Some(3), ..after };
    let evidence = ProofEvidence { counts_before: before, counts_after: after, ..proven() };
    check(
        &evidence,
        Proof::Masked,
        ProofGround::FewerTests { before: 4, after: Some(3) },
        Keep::Nothing,
    );
}

/// Calls `each` with every combination of evidence.
fn every(mut each: impl FnMut(&ProofEvidence<'_>)) {
    let not = || Scrubbed::literal(WHY);
    let before =
        [Before::RedAlike, Before::RedOther, Before::Green, Before::Off, Before::NotRun(not())];
    let verifier =
        [OldVerifier::Untouched, OldVerifier::Green, OldVerifier::Red, OldVerifier::NotRun(not())];
    let earlier: [&[Colour]; 5] = [&[], &[Red], &[Red, Red], &[Green, Red], &[Red, Green, Red]];
    let ran = [None, Some(0), Some(3), Some(4)];
    for now in [Green, Red] {
        for confirmed in [None, Some(Green), Some(Red)] {
            for touched in [Touched::Nothing, Touched::Tree, Touched::Outside] {
                for (earlier, before) in
                    earlier.iter().flat_map(|e| before.iter().map(move |b| (e, b)))
                {
                    for (old, weakenings) in verifier.iter().flat_map(|v| [0, 2].map(|w| (v, w))) {
                        for (b, a) in ran.iter().flat_map(|b| ran.iter().map(move |a| (*b, *a))) {
                            each(&ProofEvidence {
                                now,
                                confirmed,
                                touched,
                                earlier,
                                before: before.clone(),
                                old_verifier: old.clone(),
                                weakenings,
                                counts_before: counts(b),
                                counts_after: counts(a),
                            });
                        }
                    }
                }
            }
        }
    }
}

/// **Invariant:** Nothing is proven unless the state before the repair was seen to fail.
#[test]
fn every_combination_of_evidence_is_judged_soundly() {
    let mut seen = 0_u32;
    every(|evidence| {
        seen += 1;
        let Judged { proof, ground, keep } = judge(evidence);
        let red = evidence.now == Red;
        assert_eq!(proof == Proof::Failed, red, "only a red check has failed: {evidence:?}");
        let fell = match (evidence.counts_before.ran(), evidence.counts_after.ran()) {
            (None | Some(0), _) => false,
            (Some(_), None) => true,
            (Some(before), Some(after)) => after < before,
        };
        let agrees = evidence.old_verifier == OldVerifier::Green;
        let untouched = evidence.old_verifier == OldVerifier::Untouched;
        let sound = agrees || (untouched && evidence.weakenings == 0 && !fell);
        assert_eq!(proof == Proof::Masked, !red && !sound, "{evidence:?}");
        let undone = matches!(proof, Proof::Masked | Proof::Failed | Proof::Flaky);
        assert_eq!(keep == Keep::Nothing, undone, "{evidence:?}");
        if proof == Proof::Proven {
            let failed_again =
                evidence.before == Before::RedAlike && evidence.touched == Touched::Tree;
            let seen_twice = evidence.earlier.ends_with(&[Red, Red])
                && (evidence.before == Before::Off || evidence.touched == Touched::Outside);
            assert!(failed_again || seen_twice, "{evidence:?}");
            assert!(evidence.touched != Touched::Nothing, "{evidence:?}");
            assert!(evidence.confirmed != Some(Red), "{evidence:?}");
            assert!(turns(evidence.earlier.iter().copied()) < 2, "{evidence:?}");
        }
        if keep == Keep::All {
            assert!(evidence.weakenings == 0 && !fell, "a weakening never stays: {evidence:?}");
        }
        assert!(!ground.to_string().is_empty());
    });
    assert_eq!(seen, 2 * 3 * 3 * 25 * 8 * 16);
}

#[test]
fn a_failure_is_known_by_signature_or_by_its_tests() {
    let of = |names: &[&str]| {
        let lines: String = names.iter().map(|name| format!("test {name} ... FAILED\n")).collect();
        let result = "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured\n";
        read(&format!("running 2 tests\n{lines}{result}"))
    };
    let like = |first: (u64, &[&str]), again: (u64, &[&str])| {
        let (one, two) = (of(first.1), of(again.1));
        let failure = |number, results| CheckFailure { signature: Signature(number), results };
        likeness(failure(first.0, &one), failure(again.0, &two))
    };
    assert_eq!(like((1, &["a"]), (1, &["z"])), Before::RedAlike);
    assert_eq!(like((1, &["a", "b"]), (2, &["a"])), Before::RedAlike);
    assert_eq!(like((1, &["a"]), (2, &["a", "z"])), Before::RedOther);
    assert_eq!(like((1, &["a"]), (2, &[])), Before::RedOther);
}
