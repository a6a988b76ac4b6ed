//! The invariants hold in thousands of lives, and a broken machine is caught.

use super::*;

/// Enough lives to catch every fault many times over, and few enough to be run all the time.
const SEEDS: u64 = 3_000;

/// **Invariant:** All of these hold in every simulated life, and the simulator can fail.
#[test]
fn every_invariant_holds_in_every_life() {
    let summary = run(0..SEEDS).unwrap_or_else(|failure| panic!("{failure}: {}", failure.broken));
    assert_eq!(summary.seeds, SEEDS);
    assert!(summary.kills > SEEDS, "{summary:#?}");
    use Instant::{AfterActing, AfterWriting, BeforeActing, BeforeWriting};
    for at in [BeforeWriting, AfterWriting, BeforeActing, AfterActing] {
        assert!(summary.killed_at.get(&at) > Some(&100), "{at:?}: {summary:#?}");
    }
    assert!(summary.takeovers > SEEDS / 2, "{summary:#?}");
    assert!(summary.effects > SEEDS, "{summary:#?}");
    assert!(summary.refused > SEEDS, "{summary:#?}");
    assert!(summary.lost > SEEDS / 4, "{summary:#?}");
    let outcomes = ["Recovered(Proven)", "Resolved", "GivenUp", "Aborted", "Unhealed"];
    let questions = [
        "Remedy",
        "ChangeTooLarge",
        "Conflict",
        "Exhausted(Attempts)",
        "Exhausted(Tokens)",
        "NothingLeft",
        "NoProgress",
        "RollBackFailed",
        "SnapshotFailed",
        "Masked",
        "MayHaveActed",
        "Tripped(NewErrors)",
        "Ordered",
    ];
    let waits = questions.map(|question| format!("waits: {question}"));
    for end in outcomes.map(str::to_owned).iter().chain(&waits) {
        assert!(summary.ends.contains_key(end), "{end} never came: {summary:#?}");
    }
}

#[test]
fn every_fault_is_caught_by_its_invariant() {
    for &(fault, invariants) in SimulatedFault::ALL {
        let failure = run_with(fault, 0..SEEDS).expect_err(&format!("{fault:?} was not caught"));
        let invariant = failure.broken.invariant;
        assert!(invariants.contains(&invariant), "{fault:?} broke {failure}: {}", failure.broken);
    }
}

#[test]
fn every_invariant_can_fail() {
    for invariant in Invariant::ALL {
        let covered = SimulatedFault::ALL.iter().any(|(_, broken)| broken.contains(&invariant));
        assert!(covered, "no fault breaks {invariant:?}");
    }
}

#[test]
fn a_seed_is_one_life() {
    assert_eq!(run(7..9), run(7..9));
    assert_ne!(run(7..8), run(8..9));
}
