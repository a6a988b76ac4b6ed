//! Making a compact block out of another and what was added since.

use super::base::{BLOCK, Base, COMMON, HEADER, KIND, LISTED, MAGIC, SINGLE, VERSION, put};
use super::bytes::put_varint;
use super::fresh::Fresh;
use super::rarity;
use crate::id::Signature;

/// Returns one block with the failures of `base` and `fresh` but those `removed` (sorted).
pub(super) fn merge(base: &Base, fresh: &Fresh, removed: &[u32]) -> Base {
    let packed = base.docs();
    let all = packed + fresh.len();
    let kept = (0..all).filter(|number| removed.binary_search(number).is_err());
    let signature = |number: u32| match number.checked_sub(packed) {
        None => base.signature(number),
        Some(number) => fresh.signatures().get(number as usize).copied(),
    };
    let mut writer = Writer::new(all - removed.len() as u32);
    writer.signatures.extend(kept.filter_map(signature));

    let renumber = |number: u32| match removed.binary_search(&number) {
        Ok(_) => None,
        Err(before) => Some(number - before as u32),
    };
    let mut added = fresh.vocabulary().into_iter().peekable();
    let mut numbers = Vec::new();
    let mut at = 0;
    loop {
        let old = base.nth(at);
        let word = match (old, added.peek()) {
            (Some((word, _)), Some(&new)) => word.min(new),
            (Some((word, _)), None) => word,
            (None, Some(&new)) => new,
            (None, None) => break,
        };
        numbers.clear();
        let mut common = 0;
        if let Some((_, term)) = old.filter(|&(found, _)| found == word) {
            at += 1;
            common = if term.is_common() { term.holders() } else { 0 };
            term.each(|number| {
                // Damage could name failures that are not there, or out of order.
                let fits = number < packed && numbers.last().is_none_or(|&last| last < number);
                numbers.extend(Some(number).filter(|_| fits));
            });
            numbers = numbers.drain(..).filter_map(renumber).collect();
        }
        if added.next_if_eq(&word).is_some() {
            let list = fresh.list(word).iter();
            numbers.extend(list.filter_map(|number| renumber(packed + number)));
        }
        writer.word(word, &numbers, common);
    }
    writer.finish()
}

/// Collects the parts of a block.
pub(super) struct Writer {
    signatures: Vec<Signature>,
    weights: Vec<u32>,
    words: Vec<u8>,
    places: Vec<u8>,
    lists: Vec<u8>,
}

impl Writer {
    /// Starts a block of `docs` failures.
    pub(super) fn new(docs: u32) -> Self {
        Self {
            signatures: Vec::with_capacity(docs as usize),
            weights: vec![0; docs as usize],
            words: Vec::new(),
            places: Vec::new(),
            lists: Vec::new(),
        }
    }

    /// Writes the list of one word; `common` is in how many more it was when lists were given up.
    fn word(&mut self, word: u32, numbers: &[u32], common: u32) {
        let all = self.weights.len();
        let holders = numbers.len() + common as usize;
        let place = self.lists.len() as u32;
        let place = match numbers {
            [] if common == 0 => return,
            _ if common > 0 || holders > (all / 16).max(4096) => {
                put_varint(&mut self.lists, holders as u32);
                place | COMMON
            }
            &[number] => number | SINGLE,
            numbers => {
                self.list(numbers);
                place | LISTED
            }
        };
        self.words.extend(word.to_le_bytes());
        self.places.extend(place.to_le_bytes());
        if place & KIND != COMMON {
            let weight = u32::from(rarity(all as u32, holders as u32));
            for &number in numbers {
                if let Some(sum) = self.weights.get_mut(number as usize) {
                    *sum += weight;
                }
            }
        }
    }

    fn list(&mut self, numbers: &[u32]) {
        put_varint(&mut self.lists, numbers.len() as u32);
        let blocks = numbers.chunks(BLOCK);
        let table = self.lists.len();
        let start = table + if blocks.len() < 2 { 0 } else { blocks.len() * 8 };
        self.lists.resize(start, 0);
        for (nth, block) in blocks.enumerate() {
            if start > table {
                let offset = (self.lists.len() - start) as u32;
                let entry = table + nth * 8;
                let first = block.first().copied().unwrap_or_default();
                put(&mut self.lists, entry..entry + 4, &first.to_le_bytes());
                put(&mut self.lists, entry + 4..entry + 8, &offset.to_le_bytes());
            }
            let mut last = 0;
            for &number in block {
                put_varint(&mut self.lists, number - last);
                last = number;
            }
        }
    }

    /// Puts the parts together.
    pub(super) fn finish(self) -> Base {
        let docs = self.weights.len() as u32;
        let terms = self.words.len() / 4;
        let length = HEADER + docs as usize * 10 + terms * 8 + self.lists.len();
        let mut bytes = Vec::with_capacity(length);
        bytes.extend(MAGIC);
        for count in [VERSION, docs, terms as u32, self.lists.len() as u32] {
            bytes.extend(count.to_le_bytes());
        }
        bytes.resize(HEADER, 0);
        self.signatures.iter().for_each(|signature| bytes.extend(signature.0.to_le_bytes()));
        for weight in self.weights {
            bytes.extend(u16::try_from(weight).unwrap_or(u16::MAX).to_le_bytes());
        }
        bytes.extend(self.words);
        bytes.extend(self.places);
        bytes.extend(self.lists);
        Base::new(bytes, docs, terms)
    }
}
