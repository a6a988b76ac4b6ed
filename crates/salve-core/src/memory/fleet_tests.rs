//! Messages between machines, in every order and however often.

use jiff::SignedDuration;
use uuid::Uuid;

use super::*;
use crate::class::Class;
use crate::memory::Knowledge;
use crate::scrub::ScrubKey;

const PATCH: &str = "diff --git a/.git/hooks/x b/.git/hooks/x\n--- /dev/null\n+++ b/.git/hooks/x\n";

fn scrubber() -> Scrubber {
    Scrubber::new(ScrubKey::new([3; 32]))
}

fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
}

fn source(machine: &'static str) -> FixSource {
    FixSource {
        person: Scrubbed::literal("ann"),
        machine: Scrubbed::literal(machine),
        project: Scrubbed::literal("web"),
    }
}

fn failure() -> RememberedFailure {
    RememberedFailure {
        signature: Signature(7),
        class: Class::ImportError,
        error_type: Scrubbed::default(),
        normalized: Scrubbed::literal("no module foo"),
        identity: None,
        key_line: Scrubbed::default(),
    }
}

fn tried(kind: RememberedKind, text: &'static str, proof: Proof, second: i64) -> FixNews {
    let remedy = RememberedRemedy { kind, text: Scrubbed::literal(text) };
    let incident = IncidentId(Uuid::from_u128(u128::from(second.unsigned_abs())));
    let told = FixTold::Tried { failure: failure(), remedy, at: at(second), incident, proof };
    FixNews::new(source("one"), told)
}

fn command(proof: Proof, second: i64) -> FixNews {
    tried(RememberedKind::Command, "npm ci", proof, second)
}

fn forgotten(second: i64) -> FixNews {
    FixNews::new(source("one"), FixTold::Forgotten { signature: Signature(7), at: at(second) })
}

/// Folds messages and returns what is known then, and how many changed something.
fn folded(all: &[FixNews]) -> (Option<Knowledge>, usize) {
    let (mut fold, mut known, mut changes) = (FixFold::default(), None, 0);
    for news in all {
        match fold.take(news, &Scrubbed::literal("ann on one"), at(100)) {
            FixStep::Learn(edit) => known = Some(edit.apply(known)),
            FixStep::Forget { .. } => known = None,
            FixStep::Known => continue,
        }
        changes += 1;
    }
    (known, changes)
}

fn tries(all: &[FixNews]) -> u64 {
    folded(all).0.map_or(0, |known| known.remedies.iter().map(|one| one.record.tries()).sum())
}

/// **Invariant:** A message that comes again changes nothing.
#[test]
fn what_comes_twice_is_taken_in_once() {
    let all = [command(Proof::Proven, 1), command(Proof::Failed, 2)];
    let twice = [all.clone(), all.clone()].concat();
    assert_eq!(folded(&twice), folded(&all));
    assert_eq!((tries(&all), folded(&all).1), (2, 2));
}

#[test]
fn what_was_forgotten_stays_forgotten_and_what_was_seen_since_counts() {
    let (old, new) = (command(Proof::Proven, 1), command(Proof::Proven, 3));
    assert_eq!(tries(&[old.clone(), forgotten(2)]), 0);
    assert_eq!(tries(&[forgotten(2), old.clone()]), 0, "it was told late");
    assert_eq!(tries(&[old.clone(), forgotten(2), new.clone()]), 1);
    assert_eq!(tries(&[old, forgotten(2), forgotten(2), new]), 1);
    let late = [forgotten(9_000_000), command(Proof::Proven, 101)];
    assert_eq!(tries(&late), 0, "as long as it is not later than now");
    let mut fold = FixFold::default();
    let by = Scrubbed::literal("x");
    fold.take(&forgotten(9_000_000), &by, at(100));
    let later = fold.take(&command(Proof::Proven, 102), &by, at(103));
    assert!(matches!(later, FixStep::Learn(_)), "a word of next year silences no year");
}

/// **Invariant:** What others say changes nothing that decides what runs unattended, and tells no
/// agent anything.
#[test]
fn what_is_sealed_meant_for_agents_or_garbage_is_not_used() {
    let read = |text: &str| FixNews::read(text, &scrubber());
    let news = command(Proof::Proven, 1);
    assert_eq!(read(&news.to_text()).unwrap(), news);
    let sealed = tried(RememberedKind::Patch, PATCH, Proof::Proven, 1).to_text();
    assert!(matches!(read(&sealed), Err(UnusableFix::Sealed(_))));
    let words = tried(RememberedKind::Instruction, "run curl", Proof::Proven, 1).to_text();
    assert_eq!(read(&words), Err(UnusableFix::Instruction));
    let newer = news.to_text().replace("\"version\":1", "\"version\":2");
    assert_eq!(read(&newer), Err(UnusableFix::Newer(2)));
    for garbage in ["", "{}", "\u{0}", "[1]", "{\"version\":1}", &"x".repeat(200_000)] {
        assert!(read(garbage).is_err(), "{garbage:.20}");
    }
}

#[test]
fn a_secret_that_somebody_sent_is_taken_out() {
    let secret = format!("ghp_{}", "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8");
    let news = command(Proof::Proven, 1).to_text().replace("npm ci", &format!("login {secret}"));
    let read = FixNews::read(&news, &scrubber()).unwrap();
    assert!(!read.to_text().contains(&secret), "{}", read.to_text());
}

#[test]
fn a_remedy_that_heals_every_day_takes_a_bounded_place() {
    let places: BTreeSet<String> =
        (0..1_000).map(|second| command(Proof::Proven, second).place()).collect();
    assert!(places.len() <= usize::from(SLOTS), "{}", places.len());
    let other = FixNews { source: source("two"), ..command(Proof::Proven, 1) };
    assert!(!places.contains(&other.place()), "another machine's word is its own");
    assert_ne!(command(Proof::Failed, 1).place(), command(Proof::Proven, 1).place());
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '.';
    assert!(places.iter().chain([&forgotten(1).place()]).all(|place| place.chars().all(is_plain)));
}

#[test]
fn machines_that_saw_different_outcomes_both_stand_there() {
    let mut fold = FixFold::default();
    let mut known = None;
    for (news, by) in
        [(command(Proof::Proven, 1), "ann on one"), (command(Proof::Failed, 2), "bea on two")]
    {
        let FixStep::Learn(edit) = fold.take(&news, &Scrubbed::literal(by), at(9)) else {
            panic!()
        };
        known = Some(edit.apply(known));
    }
    let known = known.unwrap();
    let found = Disagreement::about(&known.remedies[0]).unwrap();
    assert_eq!((found.healed.len(), found.failed[0].as_str()), (1, "bea on two"));
    assert_eq!(known.remedies[0].record.tries(), 2, "neither is overruled");
    let (agreed, _) = folded(&[command(Proof::Proven, 1), command(Proof::Proven, 2)]);
    assert_eq!(Disagreement::about(&agreed.unwrap().remedies[0]), None);
}
