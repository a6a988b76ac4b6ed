//! What every memory has to do.

use jiff::{SignedDuration, Timestamp};
use salve_core::class::Class;
use salve_core::event::Proof;
use salve_core::id::Signature;
use salve_core::memory::{
    Knowledge, KnowledgeChange, KnowledgeEdit, Rekeying, RemedyTrial, RememberedFailure,
    RememberedKind, RememberedRemedy,
};
use salve_core::scrub::Scrubbed;
use serde_json::json;

use super::for_every_engine;
use crate::store::{
    FileBase, FileEdit, ItemChange, KeyedItem, LearnedItem, MemorySize, Page, Store, StoreError,
    UnknownItem,
};

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

fn npm_ci() -> RememberedRemedy {
    RememberedRemedy { kind: RememberedKind::Command, text: Scrubbed::literal("npm ci") }
}

fn outcome(proof: Proof, seconds: i64) -> RemedyTrial {
    let (by, project) = (Scrubbed::literal("salve"), Scrubbed::literal("shop"));
    RemedyTrial { at: at(seconds), by, incident: None, project, proof }
}

#[test]
fn what_was_learned_is_recalled_whole() {
    for_every_engine(|bench| {
        let store = bench.open();
        let memory = store.memory();
        // The highest bit too: a signature is not a signed number.
        let seen = RememberedFailure { signature: Signature(u64::MAX - 1), ..failure(2) };
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
        let counts = MemorySize { failures: 1, remedies: 1, proven: 1, failed: 0 };
        assert_eq!(memory.counts().unwrap(), counts);
        for (prefix, found) in
            [("ffff", 1), ("fffffffffffffffe", 1), ("ff0", 0), ("0", 0), ("x", 0)]
        {
            assert_eq!(memory.signatures_like(prefix).unwrap().len(), found, "{prefix}");
        }

        assert!(memory.forget(seen.signature).unwrap());
        assert!(!memory.forget(seen.signature).unwrap());
        assert_eq!(memory.counts().unwrap(), MemorySize::default());
    });
}

#[test]
fn merging_twice_is_merging_once() {
    for_every_engine(|bench| {
        let store = bench.open();
        let mut known = Knowledge::new(failure(1), at(5));
        known.learn(npm_ci(), outcome(Proof::Proven, 6));
        assert_eq!(store.memory().merge(&[known.clone()]).unwrap(), 1);
        assert_eq!(store.memory().merge(&[known.clone()]).unwrap(), 0);
        assert_eq!(store.memory().recall(Signature(1)).unwrap(), Some(known));
    });
}

#[test]
fn all_is_listed_and_visited_in_portions() {
    for_every_engine(|bench| {
        let store = bench.open();
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
    });
}

#[test]
fn a_withdrawn_failure_is_not_in_force_and_comes_back_with_its_history() {
    for_every_engine(|bench| {
        let store = bench.open();
        let memory = store.memory();
        memory.learn(&failure(1), &npm_ci(), &outcome(Proof::Proven, 1)).unwrap();
        let before = memory.recall(Signature(1)).unwrap().unwrap();
        let withdrawn = vec![Signature(1), Signature(2)];
        memory.edit_file(&FileEdit { withdrawn, ..FileEdit::of("a.json") }).unwrap();
        assert_eq!(memory.recall(Signature(1)).unwrap(), None);
        assert_eq!(memory.counts().unwrap(), MemorySize::default());
        memory.see(&failure(1), at(9)).unwrap();
        let after = memory.recall(Signature(1)).unwrap().unwrap();
        assert_eq!(after.remedies, before.remedies);
    });
}

#[test]
fn an_edit_is_taken_in_as_it_would_be_in_hand() {
    for_every_engine(|bench| {
        let store = bench.open();
        let install = RememberedRemedy {
            kind: RememberedKind::Command,
            text: Scrubbed::literal("npm install"),
        };
        let taught =
            |remedy| KnowledgeChange::Taught { remedy, at: at(3), by: Scrubbed::literal("ann") };
        let learned = |proof, seconds| KnowledgeChange::Learned {
            remedy: npm_ci(),
            outcome: outcome(proof, seconds),
        };
        let edits = [
            KnowledgeEdit::of(&failure(1), at(1), KnowledgeChange::Seen),
            KnowledgeEdit {
                failure: failure(1),
                at: at(2),
                changes: vec![learned(Proof::Failed, 2), taught(install.clone())],
            },
            KnowledgeEdit {
                failure: failure(1),
                at: at(4),
                changes: vec![
                    KnowledgeChange::FirstSeen(at(-5)),
                    KnowledgeChange::LastSeen(at(7)),
                    KnowledgeChange::Dropped(install.clone()),
                    KnowledgeChange::Dropped(npm_ci()),
                    learned(Proof::Proven, 4),
                ],
            },
        ];
        let want = edits.iter().fold(None, |known, edit| Some(edit.apply(known)));
        store.memory().edit(&edits).unwrap();
        let known = bench.open().memory().recall(Signature(1)).unwrap();
        assert_eq!(known, want);
        let known = known.unwrap();
        assert_eq!((known.first_seen, known.remedies.len()), (at(-5), 1));
        assert_eq!(known.find(&npm_ci()).unwrap().record.failed, 0, "what was dropped is gone");
    });
}

fn item(key: &str, value: serde_json::Value) -> KeyedItem {
    let serde_json::Value::Object(item) = value else { panic!("{value} is no item") };
    KeyedItem { key: key.to_owned(), item }
}

fn items(store: &Store, most: u64) -> Vec<(String, LearnedItem)> {
    let items = store.memory().file_items("a.yaml", most).unwrap();
    items.into_iter().map(Into::into).collect()
}

#[test]
fn a_files_items_keep_their_places_and_what_people_added() {
    for_every_engine(|bench| {
        let store = bench.open();
        let change = |changes: Vec<ItemChange>| {
            let edit = FileEdit { items: changes, ..FileEdit::of("a.yaml") };
            store.memory().edit_file(&edit).unwrap();
        };
        change(vec![
            ItemChange::Put(item("a", json!({"x": 1, "mine": true}))),
            ItemChange::Put(item("b", json!({"x": 2}))),
            ItemChange::Put(item("c", json!({"x": 3}))),
        ]);
        change(vec![
            ItemChange::Update { keyed: item("a", json!({"y": 4})), own_keys: &["x", "y"] },
            ItemChange::Put(item("b", json!({"z": 5}))),
            ItemChange::Drop { key: "c".into() },
        ]);
        let [a, b] = [item("a", json!({"mine": true, "y": 4})), item("b", json!({"z": 5}))];
        assert_eq!(items(&store, 9), [a.into(), b.clone().into()]);
        assert_eq!(items(&store, 1), [b.into()], "the latest, where not all are wanted");
        let other = store.memory().file_items("b.yaml", 9).unwrap();
        assert_eq!(other, [], "another file has its own");
    });
}

#[test]
fn what_is_added_to_an_item_adds_up_and_leaves_the_rest() {
    for_every_engine(|bench| {
        let store = bench.open();
        let add = |value, unknown| {
            let (keyed, counts, latest) = (item("a", value), &["n"][..], &["at"][..]);
            let items = vec![ItemChange::Add { keyed, counts, latest, unknown }];
            store.memory().edit_file(&FileEdit { items, ..FileEdit::of("a.yaml") }).unwrap();
        };
        add(json!({"n": 9}), UnknownItem::Skip);
        assert_eq!(items(&store, 9), [], "what is not known is not made up");
        add(json!({"n": 1, "x": "first", "at": "2026-02"}), UnknownItem::Put);
        add(json!({"n": 2, "x": "second", "at": "2026-01"}), UnknownItem::Put);
        add(json!({"n": 3, "at": "2026-03"}), UnknownItem::Skip);
        let want = item("a", json!({"n": 6, "x": "first", "at": "2026-03"}));
        assert_eq!(items(&store, 9), [want.into()]);
    });
}

#[test]
fn a_file_edit_is_one_step_and_what_the_file_said_is_kept_with_it() {
    for_every_engine(|bench| {
        let store = bench.open();
        assert_eq!(store.memory().file_base("a.json").unwrap(), None);
        let items = vec![item("k", json!({"x": 1}))];
        let base = Some(FileBase { digest: "d".into(), items });
        let knowledge = vec![KnowledgeEdit::of(&failure(3), at(3), KnowledgeChange::Seen)];
        let edit = FileEdit { knowledge, base: base.clone(), ..FileEdit::of("a.json") };
        store.memory().edit_file(&edit).unwrap();
        assert_eq!(bench.open().memory().file_base("a.json").unwrap(), base);
        assert_eq!(bench.open().memory().counts().unwrap().failures, 1);
    });
}

#[test]
fn a_forgotten_failure_is_near_to_nothing() {
    for_every_engine(|bench| {
        let store = bench.open();
        let known: Vec<_> = (0..100).map(|number| Knowledge::new(failure(number), at(0))).collect();
        store.memory().merge(&known).unwrap();
        let nearest = || {
            let near = store.memory().near().unwrap();
            let found = near.find("module7 named module, No in part77", 1).unwrap();
            found.iter().map(|(near, _)| near.signature.0).collect::<Vec<_>>()
        };
        assert_eq!(nearest(), [77]);
        store.memory().forget(Signature(77)).unwrap();
        assert_ne!(nearest(), [77]);
    });
}

#[test]
fn remedies_are_listed_for_the_failures_seen_last_oldest_first() {
    for_every_engine(|bench| {
        let store = bench.open();
        for (number, seconds) in [(1, 30), (2, 10), (3, 20)] {
            let proven = outcome(Proof::Proven, seconds);
            store.memory().learn(&failure(number), &npm_ci(), &proven).unwrap();
        }
        store.memory().see(&failure(4), at(40)).unwrap();
        let found = store.memory().with_remedies(2).unwrap();
        let numbers: Vec<_> = found.iter().map(|known| known.failure.signature.0).collect();
        assert_eq!(numbers, [3, 1]);
    });
}

#[test]
fn what_is_known_moves_to_another_signature_and_adds_up_there() {
    for_every_engine(|bench| {
        let store = bench.open();
        let memory = store.memory();
        let install = RememberedRemedy {
            kind: RememberedKind::Command,
            text: Scrubbed::literal("npm install"),
        };
        memory.see(&failure(1), at(1)).unwrap();
        memory.learn(&failure(1), &npm_ci(), &outcome(Proof::Failed, 2)).unwrap();
        memory.learn(&failure(1), &install, &outcome(Proof::Proven, 3)).unwrap();
        memory.see(&failure(2), at(4)).unwrap();
        memory.learn(&failure(2), &npm_ci(), &outcome(Proof::Failed, 5)).unwrap();
        memory.learn(&failure(3), &npm_ci(), &outcome(Proof::Proven, 6)).unwrap();
        let withdrawn = vec![Signature(3)];
        memory.edit_file(&FileEdit { withdrawn, ..FileEdit::of("a.json") }).unwrap();
        let file = "healing-patterns.json";
        let own = item(&Signature(1).to_string(), json!({"team": "shop"}));
        let items = vec![ItemChange::Put(own)];
        memory.edit_file(&FileEdit { items, ..FileEdit::of(file) }).unwrap();

        assert_eq!(memory.tables_digest().unwrap(), None);
        let all = memory.failures(0, 9).unwrap();
        assert_eq!(all.failures, [failure(1), failure(2), failure(3)], "withdrawn ones too");
        assert_eq!(memory.failures(all.next.unwrap(), 9).unwrap().next, None);
        let rekeyings = [(1, 2), (3, 4), (7, 8)]
            .map(|(from, to)| Rekeying { from: Signature(from), to: failure(to) });
        memory.rekey("t1", &rekeyings).unwrap();
        assert_eq!(bench.open().memory().tables_digest().unwrap().as_deref(), Some("t1"));

        assert_eq!(memory.recall(Signature(1)).unwrap(), None);
        let joined = memory.recall(Signature(2)).unwrap().unwrap();
        assert_eq!((joined.failure.clone(), joined.seen), (failure(2), 2));
        assert_eq!(joined.find(&npm_ci()).unwrap().record.failed, 2);
        assert_eq!(joined.find(&install).unwrap().record.proven, 1);
        assert_eq!(memory.recall(Signature(4)).unwrap(), None, "withdrawn as it was");
        memory.see(&failure(4), at(9)).unwrap();
        let back = memory.recall(Signature(4)).unwrap().unwrap();
        assert_eq!(back.find(&npm_ci()).unwrap().record.proven, 1, "with its history");
        let own = memory.file_items(file, 9).unwrap();
        assert_eq!(own, [item(&Signature(2).to_string(), json!({"team": "shop"}))]);

        memory.rekey("t1", &[Rekeying { from: Signature(2), to: failure(9) }]).unwrap();
        assert!(memory.recall(Signature(2)).unwrap().is_some(), "once for the same tables");
    });
}
