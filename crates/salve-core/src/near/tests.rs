//! The index against a naive reference, under changes, and with damaged bytes.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const EXPRESS: &str = "Cannot find module 'express' required from server.js";
const LODASH: &str = "Cannot find module 'lodash' required from server.js";
const PORT: &str = "listen EADDRINUSE address already in use port 3000";

fn three() -> NearIndex {
    let mut index = NearIndex::new();
    for (number, text) in [(1, EXPRESS), (2, LODASH), (3, PORT)] {
        index.add(Signature(number), text);
    }
    index
}

/// Says which failure the index finds first.
#[track_caller]
fn check(index: &NearIndex, text: &str, want: Option<u64>) {
    let found = index.nearest(text, 1).first().map(|near| near.signature.0);
    assert_eq!(found, want, "{text:?}");
}

#[test]
fn the_same_words_in_any_order_are_wholly_alike() {
    let mut index = three();
    for _ in 0..2 {
        let near = index.nearest("server.js required: express module, find from cannot", 3);
        assert_eq!(near[0], Match { signature: Signature(1), likeness: 1.0 });
        assert_eq!(near[1].signature, Signature(2));
        assert!(near[1].likeness < 1.0 && near[1].likeness > 0.3, "{near:?}");
        index.pack();
    }
}

#[test]
fn what_shares_no_word_is_not_near() {
    check(&three(), "segmentation fault", None);
    check(&NearIndex::new(), EXPRESS, None);
    check(&three(), "", None);
}

#[test]
fn a_removed_failure_is_not_found_and_can_come_back() {
    let mut index = three();
    for packed in [false, true] {
        if packed {
            index.pack();
        }
        assert!(index.remove(Signature(1)));
        assert!(!index.remove(Signature(1)), "twice");
        assert!(!index.remove(Signature(9)), "never known");
        assert_eq!(index.len(), 2);
        check(&index, EXPRESS, Some(2));
        index.pack();
        check(&index, EXPRESS, Some(2));
        index.add(Signature(1), EXPRESS);
        check(&index, EXPRESS, Some(1));
    }
}

#[test]
fn bytes_come_back_as_the_same_index() {
    let mut index = three();
    let origin = IndexOrigin { store: 7, upto: 42 };
    let bytes = index.to_bytes(origin).to_vec();
    let (read, found) = NearIndex::from_bytes(bytes).unwrap();
    assert_eq!((found, read.len()), (origin, 3));
    assert_eq!(read.nearest(PORT, 9), index.nearest(PORT, 9));
}

#[test]
fn foreign_older_and_damaged_bytes_are_refused() {
    let bytes = three().to_bytes(IndexOrigin::default()).to_vec();
    let read = |bytes: &[u8]| NearIndex::from_bytes(bytes.to_vec()).map(|_| ()).unwrap_err();
    assert_eq!(read(b""), BadIndex::Foreign);
    assert_eq!(read(&[0; 100]), BadIndex::Foreign);
    assert_eq!(read(&bytes[..bytes.len() - 1]), BadIndex::Damaged);
    let mut other = bytes.clone();
    other[8] = 9;
    assert_eq!(read(&other), BadIndex::Version(9));
    for at in 12..bytes.len() {
        let mut other = bytes.clone();
        other[at] ^= 4;
        assert_eq!(read(&other), BadIndex::Damaged, "byte {at}");
    }
}

/// Reads every list of a block whose checksum was made to fit, as no accident could.
fn exercise(bytes: Vec<u8>) {
    let mut base = Base::default();
    if let Ok((read, _)) = Base::from_bytes(bytes) {
        base = read;
    }
    let mut index = NearIndex { base, ..NearIndex::default() };
    index.nearest(EXPRESS, 5);
    index.add(Signature(77), EXPRESS);
    index.pack();
    index.nearest(EXPRESS, 5);
}

/// Returns a text of a few of `vocabulary` words, some of them common.
fn text(vocabulary: u32) -> impl Strategy<Value = String> {
    prop::collection::vec(0..vocabulary, 1..12).prop_map(|words| {
        words.iter().map(|word| format!("w{} ", word * word / 40)).collect::<String>()
    })
}

/// The measure as its definition says, over all failures.
fn reference(known: &BTreeMap<u64, String>, asked: &str) -> Vec<(u64, f64)> {
    let set = |text: &str| words::words(text).into_iter().collect::<BTreeSet<u32>>();
    let sets: BTreeMap<u64, BTreeSet<u32>> =
        known.iter().map(|(&number, text)| (number, set(text))).collect();
    let weight = |word: &u32| {
        let holders = sets.values().filter(|words| words.contains(word)).count();
        f64::from(rarity(known.len() as u32, holders as u32))
    };
    let asked = set(asked);
    let score = |words: &BTreeSet<u32>| {
        let both: f64 = words.intersection(&asked).map(weight).sum();
        both / words.union(&asked).map(weight).sum::<f64>()
    };
    let mut all: Vec<(u64, f64)> =
        sets.iter().map(|(&number, words)| (number, score(words))).collect();
    all.retain(|&(_, score)| score > 0.0);
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    all
}

proptest! {
    #[test]
    fn answers_are_those_of_the_definition(
        known in prop::collection::vec(text(60), 1..60),
        asked in text(60),
        packed: prop::sample::Index,
        gone: prop::sample::Index,
    ) {
        let mut index = NearIndex::new();
        let mut kept = BTreeMap::new();
        for (number, text) in (1..).zip(&known) {
            if packed.index(known.len()) + 1 == number as usize {
                index.pack();
            }
            index.add(Signature(number), text);
            kept.insert(number, text.clone());
        }
        let gone = gone.index(known.len()) as u64 + 1;
        index.remove(Signature(gone));
        kept.remove(&gone);
        index.pack();
        let got = index.nearest(&asked, 3);
        let want = reference(&kept, &asked);
        prop_assert_eq!(got.len(), want.len().min(3));
        for (got, want) in got.iter().zip(&want) {
            prop_assert!((f64::from(got.likeness) - want.1).abs() < 1e-5, "{:?} {:?}", got, want);
        }
    }

    #[test]
    fn hostile_bytes_never_panic(
        mut tail in prop::collection::vec(any::<u8>(), 0..300),
        at: prop::sample::Index,
        fit: bool,
    ) {
        let mut bytes = three().to_bytes(IndexOrigin::default()).to_vec();
        let at = at.index(bytes.len() - 48) + 48;
        let end = (at + tail.len()).min(bytes.len());
        tail.truncate(end - at);
        bytes[at..end].copy_from_slice(&tail);
        if fit {
            bytes = base::reseal(bytes);
        }
        exercise(bytes);
    }
}

#[test]
fn long_lists_and_many_packs_lose_nothing() {
    let mut index = NearIndex::new();
    for number in 0..9_000_u64 {
        index.add(
            Signature(number),
            &format!("shared{} part{} own{number}", number % 7, number % 90),
        );
    }
    assert_eq!(index.len(), 9_000);
    for number in (0..9_000).step_by(501) {
        check(
            &index,
            &format!("shared{} part{} own{number}", number % 7, number % 90),
            Some(number),
        );
        // Without its own word, only failures with both other words are as near.
        let near = index.nearest(&format!("shared{} part{}", number % 7, number % 90), 5);
        assert!(near.iter().all(|near| near.signature.0 % 630 == number % 630), "{near:?}");
    }
}
