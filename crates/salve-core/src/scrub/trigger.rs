//! Finds words in text, fast where there are none.
//!
//! Nearly all of a log is of no interest. Three bytes at a time are hashed into a bit map that
//! fits the innermost cache; only where the bit is set are words compared. Unlike in an automaton,
//! no step waits for the one before.

use std::ops::Range;

use super::shape::Class;

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
    words: Vec<Vec<Word<T>>>,
}

/// A word without its head, which has been compared already.
struct Word<T> {
    head: [u8; HEAD],
    tail: Vec<u8>,
    len: usize,
    act: T,
}

fn hash(head: [u8; HEAD]) -> usize {
    let [a, b, c] = head.map(u32::from);
    ((a | b << 8 | c << 16).wrapping_mul(0x9e37_79b1) >> 16) as usize
}

impl<T: Copy> Triggers<T> {
    /// Takes words of two bytes or more, and what may follow those of two.
    pub(super) fn new(words: impl IntoIterator<Item = (String, Option<Class>, T)>) -> Self {
        let (bits, lists) = (vec![0; HASHES / 64], vec![0; HASHES]);
        let mut triggers = Self { bits, lists, words: Vec::new() };
        for (word, next, act) in words {
            let len = word.len();
            match *word.as_bytes() {
                [a, b, c, ref tail @ ..] => {
                    triggers.add(Word { head: [a, b, c], tail: tail.to_vec(), len, act });
                }
                [a, b] => (0..=u8::MAX).filter(|&c| next.is_none_or(|n| n.has(c))).for_each(|c| {
                    triggers.add(Word { head: [a, b, c], tail: Vec::new(), len, act });
                }),
                [] | [_] => {}
            }
        }
        triggers
    }

    fn add(&mut self, word: Word<T>) {
        let hash = hash(word.head);
        self.bits[hash / 64] |= 1 << (hash % 64);
        if self.lists[hash] == 0 {
            self.words.push(Vec::new());
            self.lists[hash] = u16::try_from(self.words.len()).unwrap_or(u16::MAX);
        }
        self.words[usize::from(self.lists[hash]) - 1].push(word);
    }

    /// Calls `visit` with every word in `text`, also those that overlap, by their beginnings.
    pub(super) fn each(&self, text: &[u8], mut visit: impl FnMut(Range<usize>, T)) {
        for (at, head) in text.windows(HEAD).enumerate() {
            let head = [head[0], head[1], head[2]];
            let hash = hash(head);
            if self.bits[hash / 64] >> (hash % 64) & 1 == 0 {
                continue;
            }
            for word in &self.words[usize::from(self.lists[hash]) - 1] {
                if word.head == head && text[at + HEAD..].starts_with(&word.tail) {
                    visit(at..at + word.len, word.act);
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
        let rows = words.iter().enumerate().map(|(i, word)| ((*word).to_owned(), None, i));
        let triggers = Triggers::new(rows);
        let text = "my password://x and ss xy";
        let mut found = Vec::new();
        triggers.each(text.as_bytes(), |place, word| found.push((place.start, words[word])));
        let mut want: Vec<_> = words.iter().flat_map(|word| text.match_indices(word)).collect();
        want.sort_by_key(|(at, word)| (*at, word.len()));
        found.sort_by_key(|(at, word)| (*at, word.len()));
        assert_eq!(found, want);
    }
}
