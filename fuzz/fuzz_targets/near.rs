//! An index is refused, or answers without panic; one that was kept answers as before.
#![no_main]

use libfuzzer_sys::fuzz_target;
use salve_core::id::Signature;
use salve_core::near::{NearIndex, IndexOrigin};

fuzz_target!(|input: (Vec<&str>, &[u8])| {
    let (texts, bytes) = input;
    if let Ok((index, _)) = NearIndex::from_bytes(bytes.to_vec()) {
        texts.iter().for_each(|text| drop(index.nearest(text, 3)));
    }
    let mut index = NearIndex::new();
    (0..).zip(&texts).for_each(|(number, text)| index.add(Signature(number), text));
    let origin = IndexOrigin { store: 1, upto: texts.len() as u64 };
    let kept = index.to_bytes(origin).to_vec();
    let (again, from) = NearIndex::from_bytes(kept).expect("our own index reads back");
    assert_eq!(from, origin);
    for text in &texts {
        assert_eq!(again.nearest(text, 3), index.nearest(text, 3));
    }
});
