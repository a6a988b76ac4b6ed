//! What only SQLite's memory does: an index in a file that stays in step, and the user's own file.

use std::fs;

use jiff::{SignedDuration, Timestamp};
use salve_core::class::Class;

use super::*;
use crate::project::Project;
use crate::store::Store;

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

fn failure(number: u64) -> RememberedFailure {
    RememberedFailure {
        signature: Signature(number),
        class: Class::ImportError,
        error_type: Scrubbed::literal("ImportError"),
        normalized: scrubbed(&format!("No module named part{number} in module{}", number % 10)),
        identity: number
            .is_multiple_of(2)
            .then(|| scrubbed(&format!("python.module(\"{number}\")"))),
        key_line: scrubbed(&format!("ImportError: No module named part{number}")),
    }
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
        assert!(fs::read(&path).unwrap().len() >= good.len(), "made again");
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
