//! The invariants hold in every simulated fleet, and a broken fleet is caught.

use super::*;

/// Enough fleets to catch every fault, and few enough to be simulated all the time.
const SEEDS: u64 = 12;

#[track_caller]
fn whole(plan: FleetSimPlan, seeds: Range<u64>) -> FleetSimSummary {
    run(plan, seeds).unwrap_or_else(|broken| panic!("{broken}"))
}

/// **Invariant:** However many workers die, sleep and come back, and whatever the network loses, no
/// step is committed twice, nothing acknowledged is lost, and every job ends.
#[test]
fn every_invariant_holds_in_every_fleet() {
    let seen = whole(FleetSimPlan::SMALL, 0..SEEDS);
    assert_eq!(seen.seeds, SEEDS);
    let figures = [
        ("jobs", seen.jobs),
        ("take-overs", seen.takeovers),
        ("steps", seen.steps),
        ("fenced", seen.fenced),
        ("refused", seen.refused),
        ("unheard", seen.unheard),
        ("found written", seen.found_written),
        ("kills", seen.kills),
        ("suspensions", seen.suspensions),
        ("outages", seen.outages),
        ("lost", seen.lost),
        ("doubled", seen.doubled),
        ("reconciled", seen.reconciled),
    ];
    for (what, figure) in figures {
        assert!(figure >= 10, "{what}: {seen:#?}");
    }
    for end in ["done", "dead", "waiting", "withdrawn"] {
        assert!(seen.ends.contains_key(end), "{end} never came: {seen:#?}");
    }
    assert!(!seen.ends.contains_key("queued") && !seen.ends.contains_key("claimed"), "{seen:#?}");
}

/// **Invariant:** Ten thousand workers take one another's jobs no more than forty do.
#[test]
fn ten_thousand_workers_are_no_other_than_forty() {
    let plan = FleetSimPlan { jobs: 3_000, chaos_ms: 6_000, ..FleetSimPlan::LARGE };
    let seen = whole(plan, 0..1);
    assert!(seen.jobs > 2_000 && seen.takeovers > 10, "{seen:#?}");
}

#[test]
fn every_fault_of_a_fleet_is_caught_by_its_invariant() {
    for &(fault, invariants) in FleetSimFault::ALL {
        let broken = run_with(fault, FleetSimPlan::SMALL, 0..SEEDS);
        let broken = broken.expect_err(&format!("{fault:?} was not caught"));
        assert!(invariants.contains(&broken.invariant), "{fault:?} broke {broken}");
    }
}

#[test]
fn every_invariant_of_a_fleet_can_fail() {
    for invariant in FleetInvariant::ALL {
        let covered = FleetSimFault::ALL.iter().any(|(_, broken)| broken.contains(&invariant));
        assert!(covered, "no fault breaks {invariant:?}");
    }
}

#[test]
fn a_seed_is_one_fleet() {
    let plan = FleetSimPlan { chaos_ms: 10_000, ..FleetSimPlan::SMALL };
    assert_eq!(run(plan, 7..9), run(plan, 7..9));
    assert_ne!(run(plan, 7..8), run(plan, 8..9));
}
