//! Finds words in text, fast where there are none.
//!
//! Nearly all of a log is of no interest. Three bytes at a time are hashed into a bit map that
//! fits the innermost cache; only where the bit is set are words compared. Unlike in an automaton,
//! no step waits for the one before.

use std::ops::Range;

/// How many bytes of a word are hashed.
const HEAD: usize = 3;

/// How many hashes there are.
const HASHES: usize = 1 << 16;

/// Words and what to do where they are found.
pub(super) struct Triggers<T> {
    /// One bit for each hash that a word begins with.
    bits: Vec<u64>,
    /// For each hash, one more than the index of its list; 0 if it has none.
    lists: Vec<u16>,
    words: Vec<Vec<(Vec<u8>, T)>>,
}

fn hash(head: [u8; HEAD]) -> usize {
    let [a, b, c] = head.map(u32::from);
    ((a | b << 8 | c << 16).wrapping_mul(0x9e37_79b1) >> 16) as usize
}

impl<T: Copy> Triggers<T> {
    /// Takes the words; of one byte there are none.
    pub(super) fn new(words: impl IntoIterator<Item = (String, T)>) -> Self {
        let (bits, lists) = (vec![0; HASHES / 64], vec![0; HASHES]);
        let mut triggers = Self { bits, lists, words: Vec::new() };
        for (word, act) in words {
            match *word.as_bytes() {
                [a, b, c, ..] => triggers.add([a, b, c], &word, act),
                [a, b] => (0..=u8::MAX).for_each(|c| triggers.add([a, b, c], &word, act)),
                [] | [_] => {}
            }
        }
        triggers
    }

    fn add(&mut self, head: [u8; HEAD], word: &str, act: T) {
        let hash = hash(head);
        self.bits[hash / 64] |= 1 << (hash % 64);
        if self.lists[hash] == 0 {
            self.words.push(Vec::new());
            self.lists[hash] = u16::try_from(self.words.len()).unwrap_or(u16::MAX);
        }
        let list = &mut self.words[usize::from(self.lists[hash]) - 1];
        // Two heads of a two-byte word may share a hash.
        if !(word.len() < HEAD && list.iter().any(|(known, _)| known == word.as_bytes())) {
            list.push((word.as_bytes().to_vec(), act));
        }
    }

    /// Calls `visit` with every word in `text`, also those that overlap, by their beginnings.
    pub(super) fn each(&self, text: &[u8], mut visit: impl FnMut(Range<usize>, T)) {
        for (at, head) in text.windows(HEAD).enumerate() {
            let hash = hash([head[0], head[1], head[2]]);
            if self.bits[hash / 64] >> (hash % 64) & 1 == 0 {
                continue;
            }
            for (word, act) in &self.words[usize::from(self.lists[hash]) - 1] {
                if text[at..].starts_with(word) {
                    visit(at..at + word.len(), *act);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_found_where_it_stands() {
        let words = ["pass", "password", "ss", "://", "wor", "xyz"];
        let triggers = Triggers::new(words.map(str::to_owned).into_iter().zip(0..));
        let text = "my password://x and ss xy";
        let mut found = Vec::new();
        triggers.each(text.as_bytes(), |place, word| found.push((place.start, words[word])));
        let mut want: Vec<_> = words.iter().flat_map(|word| text.match_indices(word)).collect();
        want.sort_by_key(|(at, word)| (*at, word.len()));
        found.sort_by_key(|(at, word)| (*at, word.len()));
        assert_eq!(found, want);
    }
}
