//! Memory through the store: what goes in comes out, and the index stays in step.

use std::fs;

use jiff::{SignedDuration, Timestamp};
use salve_core::class::Class;
use salve_core::event::Proof;
use salve_core::memory::Kind;

use super::super::memory::Page;
use super::*;
use crate::project::Project;

fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&Project::at(dir.path()).unwrap()).unwrap();
    (dir, store)
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
}

fn scrubbed(text: &str) -> Scrubbed {
    serde_json::from_value(text.into()).unwrap()
}

fn failure(number: u64) -> Failure {
    Failure {
        signature: Signature(number),
        class: Class::ImportError,
        error_type: Scrubbed::literal("ImportError"),
        normalized: scrubbed(&format!("No module named part{number} in module{}", number % 10)),
        identity: number
            .is_multiple_of(2)
            .then(|| scrubbed(&format!("python.module(\"{number}\")"))),
    }
}

fn npm_ci() -> Remedy {
    Remedy { kind: Kind::Command, text: Scrubbed::literal("npm ci") }
}

fn outcome(proof: Proof, seconds: i64) -> Outcome {
    let (by, project) = (Scrubbed::literal("salve"), Scrubbed::literal("shop"));
    Outcome { at: at(seconds), by, incident: None, project, proof }
}

#[test]
fn what_was_learned_is_recalled_whole() {
    let (_dir, store) = store();
    let memory = store.memory();
    // The highest bit too: a signature is not a signed number.
    let seen = Failure { signature: Signature(u64::MAX - 1), ..failure(2) };
    assert_eq!(memory.recall(seen.signature).unwrap(), None);
    memory.see(&seen, at(10)).unwrap();
    memory.see(&seen, at(20)).unwrap();
    memory.learn(&seen, &npm_ci(), &outcome(Proof::Failed, 30)).unwrap();
    memory.learn(&seen, &npm_ci(), &outcome(Proof::Proven, 40)).unwrap();

    let mut want = Knowledge::new(seen.clone(), at(10));
    (want.seen, want.last_seen) = (2, at(20));
    want.learn(npm_ci(), outcome(Proof::Failed, 30));
    want.learn(npm_ci(), outcome(Proof::Proven, 40));
    assert_eq!(memory.recall(seen.signature).unwrap(), Some(want));
    let counts = Counts { failures: 1, remedies: 1, proven: 1, failed: 0 };
    assert_eq!(memory.counts().unwrap(), counts);
    for (prefix, found) in [("ffff", 1), ("fffffffffffffffe", 1), ("ff0", 0), ("0", 0), ("x", 0)] {
        assert_eq!(memory.signatures_like(prefix).unwrap().len(), found, "{prefix}");
    }

    assert!(memory.forget(seen.signature).unwrap());
    assert!(!memory.forget(seen.signature).unwrap());
    assert_eq!(memory.counts().unwrap(), Counts::default());
}

#[test]
fn merging_twice_is_merging_once() {
    let (_dir, store) = store();
    let mut known = Knowledge::new(failure(1), at(5));
    known.learn(npm_ci(), outcome(Proof::Proven, 6));
    assert_eq!(store.memory().merge(&[known.clone()]).unwrap(), 1);
    assert_eq!(store.memory().merge(&[known.clone()]).unwrap(), 0);
    assert_eq!(store.memory().recall(Signature(1)).unwrap(), Some(known));
}

#[test]
fn all_is_listed_and_visited_in_portions() {
    let (_dir, store) = store();
    let all: Vec<_> = (0..1201_u32)
        .map(|number| Knowledge::new(failure(number.into()), at(number.into())))
        .collect();
    store.memory().merge(&all).unwrap();
    let page = store.memory().list(Page { skip: 1, limit: 2 }).unwrap();
    let numbers: Vec<_> = page.iter().map(|known| known.failure.signature.0).collect();
    assert_eq!(numbers, [1199, 1198]);
    let mut visited = Vec::new();
    store
        .memory()
        .each(|portion| {
            visited.extend(portion);
            Ok::<_, StoreError>(())
        })
        .unwrap();
    assert_eq!(visited, all);
}

#[test]
fn a_withdrawn_failure_is_not_in_force_and_comes_back_with_its_history() {
    let (_dir, store) = store();
    let memory = store.memory();
    memory.learn(&failure(1), &npm_ci(), &outcome(Proof::Proven, 1)).unwrap();
    let before = memory.recall(Signature(1)).unwrap().unwrap();
    store.write(Durability::Process, |tx| withdraw(tx, Signature(1))).unwrap();
    assert_eq!(memory.recall(Signature(1)).unwrap(), None);
    assert_eq!(memory.counts().unwrap(), Counts::default());
    memory.see(&failure(1), at(9)).unwrap();
    let after = memory.recall(Signature(1)).unwrap().unwrap();
    assert_eq!(after.remedies, before.remedies);
}

/// Asks for the failure most like number 77 with its words in another order.
fn nearest(store: &Store) -> Vec<u64> {
    let found = store.memory().near().unwrap().find("module7 named module, No in part77", 1);
    found.unwrap().iter().map(|(near, _)| near.signature.0).collect()
}

#[test]
fn the_index_follows_the_database_and_survives_its_own_loss() {
    let (_dir, store) = store();
    let memory = store.memory();
    assert!(nearest(&store).is_empty());
    let known = |range: std::ops::Range<u64>| {
        range.map(|number| Knowledge::new(failure(number), at(0))).collect::<Vec<_>>()
    };
    memory.merge(&known(0..100)).unwrap();
    assert_eq!(nearest(&store), [77]);
    let path = store.project().state_dir().join("near.index");
    assert!(!path.exists(), "a small memory needs no file");

    memory.merge(&known(100..3000)).unwrap();
    assert_eq!(nearest(&store), [77]);
    let good = fs::read(&path).unwrap();
    memory.merge(&known(3000..3010)).unwrap();
    assert_eq!(nearest(&store), [77]);
    assert_eq!(fs::read(&path).unwrap(), good, "a few more are read from the database");

    let mut bad = good.clone();
    bad[good.len() / 2] ^= 1;
    for bytes in [bad.as_slice(), b"", b"something else"] {
        fs::write(&path, bytes).unwrap();
        assert_eq!(nearest(&store), [77]);
        assert!(fs::read(&path).unwrap().len() >= good.len(), "made anew");
    }
    memory.forget(Signature(77)).unwrap();
    assert_ne!(nearest(&store), [77]);
    memory.merge(&known(77..78)).unwrap();
    assert_eq!(nearest(&store), [77]);
}

#[test]
fn another_memorys_index_is_not_believed() {
    let ((_a, one), (_b, two)) = (store(), store());
    let known = |from| (from..from + 3000).map(|n| Knowledge::new(failure(n), at(0))).collect();
    let (first, second): (Vec<_>, Vec<_>) = (known(0), known(5000));
    one.memory().merge(&first).unwrap();
    two.memory().merge(&second).unwrap();
    assert_eq!(nearest(&one), [77]);
    let name = "near.index";
    let copy = fs::read(one.project().state_dir().join(name)).unwrap();
    fs::write(two.project().state_dir().join(name), copy).unwrap();
    assert!(nearest(&two)[0] >= 5000);
}

#[test]
fn the_users_own_memory_is_a_store_like_any_other() {
    let dir = tempfile::tempdir().unwrap();
    let user = Project::of_user(dir.path().join("share/salve"));
    let store = Store::open(&user).unwrap();
    store.memory().see(&failure(1), at(1)).unwrap();
    drop(store);
    assert!(dir.path().join("share/salve/memory.db").exists());
    let store = Store::open(&user).unwrap();
    assert_eq!(store.memory().counts().unwrap().failures, 1);
}
