//! Finds words in text, fast where there are none.
//!
//! Nearly all of a log is of no interest. Three bytes at a time are hashed into a bit map that
//! fits the innermost cache; only where the bit is set are words compared. Unlike in an automaton,
//! no step waits for the one before.

use std::ops::Range;

use super::shape::CharClass;

/// How many bytes of a word are hashed.
const HEAD: usize = 3;

/// How many hashes there are.
const HASHES: usize = 1 << 16;

/// How many bytes of a word are compared at once.
const WIDE: usize = 8;

/// Words and what to do where they are found.
pub(super) struct Triggers<T> {
    /// One bit for each hash that a word begins with.
    bits: Box<[u64; HASHES / 64]>,
    /// For each hash, where its words begin; they end where the next hash's begin.
    starts: Vec<u32>,
    words: Vec<TriggerWord<T>>,
}

/// A word, its first bytes as a number.
struct TriggerWord<T> {
    wide: u64,
    mask: u64,
    tail: Vec<u8>,
    len: usize,
    act: T,
}

impl<T> TriggerWord<T> {
    fn new(word: &[u8], act: T) -> Self {
        let (mut wide, mut mask) = ([0; WIDE], [0; WIDE]);
        let head = word.len().min(WIDE);
        wide[..head].copy_from_slice(&word[..head]);
        mask[..head].fill(0xff);
        let (wide, mask) = (u64::from_le_bytes(wide), u64::from_le_bytes(mask));
        Self { wide, mask, tail: word[head..].to_vec(), len: word.len(), act }
    }
}

fn hash(head: [u8; HEAD]) -> usize {
    let [a, b, c] = head.map(u32::from);
    // Below `HASHES`, as sixteen bits are left.
    ((a | b << 8 | c << 16).wrapping_mul(0x9e37_79b1) >> 16) as usize
}

impl<T: Copy> Triggers<T> {
    /// Takes words of two bytes or more, and what may follow those of two.
    pub(super) fn new(words: impl IntoIterator<Item = (String, Option<CharClass>, T)>) -> Self {
        let mut bits = Box::new([0; HASHES / 64]);
        let mut all: Vec<(usize, TriggerWord<T>)> = Vec::new();
        for (word, next, act) in words {
            match *word.as_bytes() {
                [a, b, c, ..] => {
                    all.push((hash([a, b, c]), TriggerWord::new(word.as_bytes(), act)))
                }
                [a, b] => {
                    let fits = |c: &u8| next.is_none_or(|next| next.has(*c));
                    let mut heads: Vec<_> =
                        (0..=u8::MAX).filter(fits).map(|c| hash([a, b, c])).collect();
                    heads.sort_unstable();
                    heads.dedup();
                    all.extend(
                        heads.into_iter().map(|h| (h, TriggerWord::new(word.as_bytes(), act))),
                    );
                }
                [] | [_] => {}
            }
        }
        all.sort_by_key(|(hash, _)| *hash);
        let mut starts = vec![0; HASHES + 1];
        for (hash, _) in &all {
            bits[hash / 64] |= 1 << (hash % 64);
            starts[hash + 1] += 1;
        }
        for i in 0..HASHES {
            starts[i + 1] += starts[i];
        }
        Self { bits, starts, words: all.into_iter().map(|(_, word)| word).collect() }
    }

    /// Calls `visit` with every word in `text`, also those that overlap, by their beginnings.
    pub(super) fn each(&self, text: &[u8], mut visit: impl FnMut(Range<usize>, T)) {
        for (at, head) in text.windows(HEAD).enumerate() {
            let hash = hash([head[0], head[1], head[2]]) % HASHES;
            if self.bits[hash / 64] >> (hash % 64) & 1 == 1 {
                self.compare(text, at, hash, &mut visit);
            }
        }
    }

    fn compare(
        &self,
        text: &[u8],
        at: usize,
        hash: usize,
        visit: &mut impl FnMut(Range<usize>, T),
    ) {
        let rest = &text[at..];
        let wide = rest.first_chunk().copied().unwrap_or_else(|| {
            let mut last = [0; WIDE];
            last[..rest.len()].copy_from_slice(rest);
            last
        });
        let wide = u64::from_le_bytes(wide);
        for word in &self.words[self.starts[hash] as usize..self.starts[hash + 1] as usize] {
            if wide & word.mask == word.wide
                && rest.len() >= word.len
                && (word.tail.is_empty() || rest[WIDE..].starts_with(&word.tail))
            {
                visit(at..at + word.len, word.act);
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
