//! The maths of trust, row by row and over every history.

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::tool::{FailedToolCall, Period, ToolStatistics, failure_type, fix_matches};
use super::usage::{Level, UsageRecord, Warned};
use super::*;
use crate::class::Class;
use crate::event::{Proof, RemedyOrigin};
use crate::id::Signature;
use crate::scrub::Scrubbed;

use Proof::{Failed, Flaky, Masked, Proven, Transient};

const DAY: SignedDuration = SignedDuration::from_hours(24);

fn day(number: i32) -> Timestamp {
    Timestamp::UNIX_EPOCH + DAY * number
}

fn record(proofs: &[Proof]) -> Record {
    let mut record = Record::default();
    proofs.iter().for_each(|&proof| record.add(proof, day(0)));
    record
}

fn command(text: &'static str) -> RememberedRemedy {
    RememberedRemedy { kind: RememberedKind::Command, text: Scrubbed::literal(text) }
}

fn outcome(proof: Proof, number: i32) -> RemedyTrial {
    let by = Scrubbed::literal("someone");
    RemedyTrial { at: day(number), by, incident: None, project: Scrubbed::default(), proof }
}

fn failure() -> RememberedFailure {
    RememberedFailure {
        signature: Signature(7),
        class: Class::ImportError,
        error_type: Scrubbed::literal("ImportError"),
        normalized: Scrubbed::literal("No module named foo"),
        identity: None,
        key_line: Scrubbed::default(),
    }
}

fn knowledge(tried: &[(&'static str, &[Proof])]) -> Knowledge {
    let mut knowledge = Knowledge::new(failure(), day(0));
    for (text, proofs) in tried {
        knowledge.teach(command(text), day(0), Scrubbed::literal("someone"));
        proofs.iter().for_each(|&proof| knowledge.learn(command(text), outcome(proof, 0)));
    }
    knowledge
}

#[test]
fn a_record_says_whether_to_try_again() {
    let rows: &[(&[Proof], RecordStanding)] = &[
        (&[], RecordStanding::Untried),
        (&[Proven], RecordStanding::Works),
        (&[Failed], RecordStanding::Failed),
        (&[Masked], RecordStanding::Failed),
        (&[Transient], RecordStanding::Undecided),
        (&[Flaky, Transient], RecordStanding::Undecided),
        (&[Failed, Proven], RecordStanding::Works),
        (&[Proven, Failed], RecordStanding::Works),
        (&[Proven, Failed, Failed], RecordStanding::Failed),
        (&[Proven, Failed, Masked], RecordStanding::Failed),
        (&[Proven, Failed, Transient, Failed], RecordStanding::Failed),
        (&[Proven, Failed, Failed, Proven], RecordStanding::Works),
    ];
    for (proofs, want) in rows {
        assert_eq!(record(proofs).standing(), *want, "{proofs:?}");
    }
}

#[test]
fn confidence_is_what_the_record_earns() {
    let rows: &[(&[Proof], i32, &str)] = &[
        (&[], 0, "50%"),
        (&[Proven], 0, "67%"),
        (&[Proven, Proven, Proven], 0, "80%"),
        (&[Failed], 0, "33%"),
        (&[Masked], 0, "33%"),
        (&[Flaky], 0, "40%"),
        (&[Transient], 0, "50%"),
        (&[Proven, Failed], 0, "50%"),
        (&[Proven], 365, "33%"),
    ];
    for (proofs, idle, want) in rows {
        let got = record(proofs).confidence(day(*idle)).to_string();
        assert_eq!(got, *want, "{proofs:?} after {idle} days");
    }
}

/// Ranks and shows what is to be tried, then what is not.
#[track_caller]
fn check_rank(
    project: &[(&'static str, &[Proof])],
    user: &[(&'static str, &[Proof])],
    want: (&[&str], &[&str]),
) {
    let choice = rank(Some(&knowledge(project)), Some(&knowledge(user)), day(1));
    let texts = |list: &[Ranked]| {
        list.iter().map(|ranked| ranked.remedy.text.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(
        (texts(&choice.remedies), texts(&choice.failed)),
        (strings(want.0), strings(want.1))
    );
}

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

#[test]
fn the_project_comes_first_then_the_surer_remedy() {
    check_rank(&[("a", &[])], &[("b", &[Proven, Proven])], (&["a", "b"], &[]));
    check_rank(&[("a", &[Proven]), ("b", &[Proven, Proven])], &[], (&["b", "a"], &[]));
    check_rank(&[], &[("b", &[]), ("a", &[])], (&["a", "b"], &[]));
}

/// **Invariant:** A failed approach is never proposed.
#[test]
fn a_failed_approach_is_never_proposed() {
    check_rank(&[("a", &[Failed]), ("b", &[])], &[], (&["b"], &["a"]));
    // What failed here is not tried because it helped elsewhere, and the other way round it is.
    check_rank(&[("a", &[Failed])], &[("a", &[Proven])], (&[], &["a"]));
    check_rank(&[("a", &[Proven])], &[("a", &[Failed])], (&["a"], &[]));
}

#[test]
fn the_cheaper_kind_comes_first_when_both_are_as_sure() {
    let mut known = Knowledge::new(failure(), day(0));
    for kind in [RememberedKind::Instruction, RememberedKind::Patch, RememberedKind::Command] {
        let remedy = RememberedRemedy { kind, text: Scrubbed::literal("x") };
        known.teach(remedy, day(0), Scrubbed::literal("someone"));
    }
    let choice = rank(Some(&known), None, day(0));
    let kinds: Vec<_> = choice.remedies.iter().map(|ranked| ranked.remedy.kind).collect();
    assert_eq!(kinds, RememberedKind::ALL);
    assert!(choice.remedies.iter().all(|ranked| ranked.origin == RemedyOrigin::Project));
    assert!(!choice.tried_before());
}

#[test]
fn descriptions_come_back_as_the_same_remedy() {
    let rows = [
        (RememberedKind::Command, "pip install foo", "pip install foo"),
        (RememberedKind::Patch, "--- a\n+++ b\n", "patch: --- a\n+++ b\n"),
        (RememberedKind::Instruction, "use the full hash", "instruction: use the full hash"),
    ];
    for (kind, text, want) in rows {
        let remedy = RememberedRemedy { kind, text: Scrubbed::literal(text) };
        assert_eq!(remedy.description(), want);
        assert_eq!(RememberedRemedy::describes(want), (kind, text));
    }
    // A command that looks like another kind can still be written down.
    assert_eq!(
        RememberedRemedy::describes("command: patch: x"),
        (RememberedKind::Command, "patch: x")
    );
}

fn usage(observations: u64, [warned, preventions, false_positives]: [u64; 3]) -> UsageRecord {
    UsageRecord { observations, warned, preventions, false_positives, last_seen: day(0) }
}

#[test]
fn usage_confidence_follows_the_table() {
    let rows = [
        (0, 0.50),
        (2, 0.50),
        (3, 0.60),
        (4, 0.60),
        (5, 0.70),
        (9, 0.70),
        (10, 0.75),
        (19, 0.75),
        (20, 0.85),
        (44, 0.85),
        (45, 0.92),
        (99, 0.92),
        (100, 0.95),
        (u64::MAX, 0.95),
    ];
    for (observations, want) in rows {
        let got = usage(observations, [0, 0, 0]).confidence(day(0)).share();
        assert_eq!(got, want, "{observations} observations");
    }
}

#[test]
fn preventions_false_positives_and_idle_days_change_it() {
    let rows = [
        (10, [10, 8, 0], 0, 0.765),  // 0.7 · 0.75 + 0.3 · 0.8
        (10, [4, 4, 0], 0, 0.825),   // 0.7 · 0.75 + 0.3 · 1
        (10, [4, 0, 0], 0, 0.525),   // warned, failed all the same
        (100, [2, 1, 1], 0, 0.765),  // 0.7 · 0.95 + 0.3 · 0.5 - 0.05
        (100, [99, 0, 99], 0, 0.30), // the floor
        (5, [0, 0, 0], 29, 0.70),
        (5, [0, 0, 0], 30, 0.65),
        (5, [0, 0, 0], 59, 0.65),
        (5, [0, 0, 0], 60, 0.60),
        (5, [0, 0, 0], 10_000, 0.0),
    ];
    for (observations, warned, idle, want) in rows {
        let got = usage(observations, warned).confidence(day(idle)).share();
        assert_eq!(got, want, "{observations} {warned:?} after {idle} days");
    }
}

#[test]
fn a_pattern_warns_from_70_and_most_strongly_from_95() {
    assert_eq!(usage(4, [0, 0, 0]).level(day(0)), Level::Quiet);
    assert_eq!(usage(5, [0, 0, 0]).level(day(0)), Level::Active);
    assert_eq!(usage(99, [0, 0, 0]).level(day(0)), Level::Active);
    assert_eq!(usage(100, [0, 0, 0]).level(day(0)), Level::Strongest);
    assert_eq!(usage(5, [0, 0, 0]).level(day(30)), Level::Quiet);
}

#[test]
fn a_pattern_expires_by_age_only() {
    let worst = usage(1, [99, 0, 99]);
    assert!(!worst.is_expired(day(90)) && worst.is_expired(day(91)));
    let best = usage(1000, [99, 99, 0]);
    assert!(!best.is_expired(day(90)) && best.is_expired(day(91)));
}

#[test]
fn a_warned_call_that_was_changed_and_worked_is_no_false_positive() {
    let mut usage = UsageRecord::first(day(0));
    usage.settle(Warned::Prevented, day(1));
    usage.settle(Warned::FalsePositive, day(2));
    usage.settle(Warned::FailedAnyway, day(3));
    let want = UsageRecord {
        observations: 2,
        warned: 3,
        preventions: 1,
        false_positives: 1,
        last_seen: day(3),
    };
    assert_eq!(usage, want);
}

#[test]
fn tool_failures_are_typed_by_class_then_by_the_spec_s_words() {
    let rows = [
        (Class::Network, "x", "network"),
        (Class::Auth, "connection refused", "auth"),
        (Class::Unknown, "Dial TCP 10.0.0.1: no answer", "network"),
        (Class::Unknown, "HTTP 403 Forbidden", "auth"),
        (Class::Unknown, "manifest unknown", "unknown"),
        (Class::SyntaxError, "line 401", "unknown"),
        (Class::Unknown, "order 401 was not found", "unknown"),
    ];
    for (class, error, want) in rows {
        assert_eq!(failure_type(class, error), want, "{class} {error}");
    }
}

#[test]
fn a_taught_fix_matches_its_tool_and_text() {
    let error = "Error: Manifest Unknown: quay.io/org/app";
    assert!(fix_matches("deploy", "manifest unknown", Some("deploy"), error));
    assert!(fix_matches("deploy", "manifest unknown", None, error));
    assert!(fix_matches("*", "manifest unknown", Some("other"), error));
    assert!(!fix_matches("deploy", "manifest unknown", Some("other"), error));
    assert!(!fix_matches("deploy", "refused", Some("deploy"), error));
    assert!(!fix_matches("", " ", None, error));
}

#[test]
fn statistics_count_days_and_iso_weeks() {
    let call =
        |at: &str, kind, auto_healed| FailedToolCall { at: at.parse().unwrap(), kind, auto_healed };
    let stats = ToolStatistics::of([
        call("2026-01-26T10:30:00Z", "network", true),
        call("2026-01-26T23:59:59Z", "auth", false),
        call("2026-01-25T00:00:00Z", "network", true),
        call("2027-01-01T00:00:00Z", "unknown", true),
    ]);
    assert_eq!((stats.total_failures, stats.auto_fixed, stats.manual_required), (4, 3, 1));
    assert_eq!(stats.fix_rate, 0.75);
    assert_eq!(stats.by_type["network"], 2);
    assert_eq!(stats.daily["2026-01-26"], Period { total: 2, auto_fixed: 1 });
    let weeks: Vec<_> = stats.weekly.keys().map(String::as_str).collect();
    assert_eq!(weeks, ["2026-W04", "2026-W05", "2026-W53"]);
    assert_eq!(ToolStatistics::of([]).fix_rate, 0.0);
}

fn proofs() -> impl Strategy<Value = Vec<Proof>> {
    let proof = prop::sample::select(vec![Proven, Transient, Flaky, Masked, Failed]);
    prop::collection::vec(proof, 0..40)
}

proptest! {
    #[test]
    fn only_a_proven_heal_raises_confidence(history in proofs(), idle in 0..2000) {
        let fresh = record(&history).confidence(day(0));
        let before = record(&history).confidence(day(idle));
        prop_assert!(before <= fresh);
        for proof in [Proven, Transient, Flaky, Masked, Failed] {
            let mut after = record(&history);
            after.add(proof, day(idle));
            let after = after.confidence(day(idle));
            match proof {
                Proven => prop_assert!(after >= before),
                Transient => prop_assert_eq!(after, before),
                Flaky | Masked | Failed => prop_assert!(after <= before),
            }
        }
    }

    #[test]
    fn what_is_proposed_never_has_only_failures(history in proofs()) {
        let mut known = Knowledge::new(failure(), day(0));
        history.iter().for_each(|&proof| known.learn(command("x"), outcome(proof, 0)));
        let choice = rank(Some(&known), None, day(0));
        let lost = history.contains(&Failed) || history.contains(&Masked);
        prop_assert_eq!(choice.remedies.len() + choice.failed.len(), usize::from(!history.is_empty()));
        if lost && !history.contains(&Proven) {
            prop_assert!(choice.remedies.is_empty());
        }
    }

    #[test]
    fn usage_confidence_is_bounded_and_monotone(
        observations in 0_u64..200,
        preventions in 0_u64..50,
        anyway in 0_u64..50,
        false_positives in 0_u64..50,
        idle in 0..400,
    ) {
        let warned = preventions + anyway + false_positives;
        let of = |observations, warned, preventions, false_positives, idle| {
            usage(observations, [warned, preventions, false_positives]).confidence(day(idle))
        };
        let here = of(observations, warned, preventions, false_positives, idle);
        prop_assert!(here <= Confidence::FULL);
        let more = of(observations + 1, warned, preventions, false_positives, idle);
        prop_assert!(more >= here, "an observation");
        let more = of(observations, warned + 1, preventions + 1, false_positives, idle);
        prop_assert!(warned == 0 || more >= here, "a prevention");
        let less = of(observations, warned + 1, preventions, false_positives + 1, idle);
        prop_assert!(less <= here, "a false positive");
        let less = of(observations, warned, preventions, false_positives, idle + 30);
        prop_assert!(less <= here, "thirty idle days");
    }

    #[test]
    fn tool_statistics_always_add_up(
        calls in prop::collection::vec((0_i64..4_000_000_000, 0_usize..3, any::<bool>()), 0..60),
    ) {
        let of = |&(second, kind, auto_healed): &(i64, usize, bool)| {
            let at = Timestamp::from_second(second).unwrap();
            FailedToolCall { at, kind: ["network", "auth", "unknown"][kind], auto_healed }
        };
        let stats = ToolStatistics::of(calls.iter().map(of));
        prop_assert_eq!(stats.total_failures, calls.len() as u64);
        prop_assert_eq!(stats.auto_fixed + stats.manual_required, stats.total_failures);
        prop_assert_eq!(stats.by_type.values().sum::<u64>(), stats.total_failures);
        for periods in [&stats.daily, &stats.weekly] {
            prop_assert_eq!(periods.values().map(|p| p.total).sum::<u64>(), stats.total_failures);
            prop_assert_eq!(periods.values().map(|p| p.auto_fixed).sum::<u64>(), stats.auto_fixed);
        }
    }

    #[test]
    fn merging_is_idempotent_and_loses_nothing(a in proofs(), b in proofs()) {
        let of = |history: &[Proof], start: i32| {
            let mut known = Knowledge::new(failure(), day(start));
            for (number, &proof) in (start..).zip(history) {
                known.learn(command("x"), outcome(proof, number));
            }
            known
        };
        let (mut known, other) = (of(&a, 0), of(&b, 1000));
        merge(&mut known, &other);
        let once = known.clone();
        merge(&mut known, &other);
        prop_assert_eq!(&known, &once);
        merge(&mut known, &of(&a, 0));
        prop_assert_eq!(&known, &once);
        let tries = known.find(&command("x")).map_or(0, |tried| tried.record.tries());
        let kept = |n: usize| n <= TriedRemedy::KEPT;
        if kept(a.len()) && kept(b.len()) {
            prop_assert_eq!(tries, (a.len() + b.len()) as u64);
        } else {
            prop_assert_eq!(tries, a.len().max(b.len()) as u64);
        }
    }

    #[test]
    fn any_text_is_described_and_read_back(
        prefix in "((command|patch|instruction): ?)?", text: String,
    ) {
        let text: Scrubbed = serde_json::from_value((prefix + &text).into()).unwrap();
        for kind in RememberedKind::ALL {
            let remedy = RememberedRemedy { kind, text: text.clone() };
            let description = remedy.description();
            prop_assert_eq!(RememberedRemedy::describes(&description), (kind, text.as_str()));
        }
    }
}
