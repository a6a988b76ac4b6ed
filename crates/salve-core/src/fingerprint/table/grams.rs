//! Finds many words in a text at once, by four letters of each.
//!
//! Each word is filed under the rarest run of four bytes in it. A text is walked once, and a
//! table of bits, small enough to stay in a fast cache, turns away nearly every run before
//! anything is looked up. An automaton over as many words is slower: it does not fit the cache,
//! and takes long to build.

use super::kept::Kept;
use super::pattern::Pattern;

/// Words of the bit table: 2¹⁸ bits.
pub(crate) const BITS: usize = 4096;
/// Buckets of the table behind it.
const BUCKETS: usize = 4096;
/// Counters of runs; a power of two.
pub(crate) const COUNTERS: usize = 1 << 15;

/// How often runs of four bytes occur in what errors say, roughly: runs may share a counter.
#[derive(Debug)]
pub(crate) struct Common(pub(crate) Kept<[u16; COUNTERS]>);

impl Common {
    /// Returns how often a run occurs.
    pub(crate) fn of(&self, run: u32) -> u16 {
        self.0[counter(run)]
    }

    /// Returns the rarest run of a text, with the place at which it ends.
    pub(crate) fn rarest(&self, text: &str) -> Option<(usize, u32)> {
        runs(text.as_bytes()).min_by_key(|(_, run)| self.of(*run))
    }
}

/// What is filed under a run of four bytes: the run, and two numbers.
pub(crate) type GramEntry = (u32, u32, u32);

/// Entries by run.
#[derive(Debug)]
pub(crate) struct GramTable {
    pub(crate) bits: Kept<[u64; BITS]>,
    /// Where each bucket of `entries` starts; one more than there are buckets.
    pub(crate) starts: Kept<[u32]>,
    pub(crate) entries: Kept<[GramEntry]>,
}

impl GramTable {
    /// Files entries; those of one run stay in their order.
    pub(crate) fn new(mut entries: Vec<GramEntry>) -> Self {
        let mut bits = Box::new([0; BITS]);
        for (run, ..) in &entries {
            let (word, bit) = place(*run);
            bits[word] |= bit;
        }
        entries.sort_by_key(|(run, ..)| bucket(*run));
        let below = |number: usize| entries.partition_point(|(run, ..)| bucket(*run) < number);
        let starts = (0..=BUCKETS).map(|number| u32::try_from(below(number)).unwrap_or(u32::MAX));
        let starts = Kept::Made(starts.collect());
        Self { bits: Kept::Made(bits), starts, entries: Kept::Made(entries.into()) }
    }

    /// Files more entries, before the others of their run.
    fn with(&self, mut more: Vec<GramEntry>) -> Self {
        more.extend_from_slice(&self.entries);
        Self::new(more)
    }

    /// Returns what is filed under a run.
    fn get(&self, run: u32) -> impl Iterator<Item = (u32, u32)> {
        let number = bucket(run);
        let range = self.starts[number] as usize..self.starts[number + 1] as usize;
        let entries = self.entries[range].iter();
        entries.filter(move |(other, ..)| *other == run).map(|(_, one, two)| (*one, *two))
    }
}

/// Words that are found whatever their case.
#[derive(Debug)]
pub(crate) struct GramWords {
    /// The number of a word, and how many of its bytes stand before the end of its run.
    pub(crate) table: GramTable,
    /// All words, one after the other.
    pub(crate) text: Kept<str>,
    /// Where each word starts in `text`; one more than there are words.
    pub(crate) starts: Kept<[u32]>,
    /// The numbers of the words that have no run, for each of which a text is searched.
    pub(crate) short: Kept<[u32]>,
}

impl GramWords {
    /// Files lower-case words.
    pub(crate) fn new(words: &[String], common: &Common) -> Self {
        let none = Self {
            table: GramTable::new(Vec::new()),
            text: Kept::Fixed(""),
            starts: Kept::Fixed(&[0]),
            short: Kept::Fixed(&[]),
        };
        none.with(words, common)
    }

    /// Files more lower-case words behind the others.
    pub(crate) fn with(&self, words: &[String], common: &Common) -> Self {
        let mut text = self.text.to_owned();
        let mut starts = self.starts.to_vec();
        let mut short = self.short.to_vec();
        let mut entries = Vec::new();
        for (number, word) in (self.count()..).zip(words) {
            text.push_str(word);
            starts.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
            match common.rarest(word) {
                Some((end, run)) => {
                    entries.push((run, number, u32::try_from(end).unwrap_or(u32::MAX)));
                }
                None => short.push(number),
            }
        }
        Self {
            table: self.table.with(entries),
            text: Kept::Made(text.into()),
            starts: Kept::Made(starts.into()),
            short: Kept::Made(short.into()),
        }
    }

    /// Returns how many words there are.
    fn count(&self) -> u32 {
        u32::try_from(self.starts.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// Returns a word by its number.
    pub(crate) fn word(&self, number: usize) -> &[u8] {
        &self.text.as_bytes()[self.starts[number] as usize..self.starts[number + 1] as usize]
    }

    /// Calls `see` with the start and the number of every word in `text`, until it says no.
    pub(crate) fn find(&self, text: &[u8], from: usize, mut see: impl FnMut(usize, usize) -> bool) {
        let bits: &[u64; BITS] = &self.table.bits;
        for (end, run) in runs(&text[from..]) {
            let (word, bit) = place(run);
            if bits[word] & bit == 0 {
                continue;
            }
            for (number, before) in self.table.get(run) {
                let Some(start) = (from + end).checked_sub(before as usize) else { continue };
                let word = self.word(number as usize);
                let there = text.get(start..start + word.len());
                let found = start >= from && there.is_some_and(|t| t.eq_ignore_ascii_case(word));
                if found && !see(start, number as usize) {
                    return;
                }
            }
        }
        for &number in &*self.short {
            let word = self.word(number as usize);
            for (at, there) in text[from..].windows(word.len().max(1)).enumerate() {
                if there.eq_ignore_ascii_case(word) && !see(from + at, number as usize) {
                    return;
                }
            }
        }
    }
}

/// A shape: its anchor's number and its own.
pub(crate) type ShapeId = (u32, u32);

/// Shapes, found by a run of their literals.
#[derive(Debug)]
pub(crate) struct Grams(pub(crate) GramTable);

impl Default for Grams {
    fn default() -> Self {
        Self(GramTable::new(Vec::new()))
    }
}

impl Grams {
    /// Files more shapes, each under the rarest run of its literals, before the others of that run.
    pub(crate) fn with<'p>(
        &self,
        shapes: impl Iterator<Item = (ShapeId, &'p Pattern)>,
        common: &Common,
    ) -> Self {
        let entries = shapes.filter_map(|((anchor, shape), pattern)| {
            let rarest = pattern.literals().filter_map(|literal| common.rarest(literal));
            let run = rarest.map(|(_, run)| run).min_by_key(|run| common.of(*run))?;
            Some((run, anchor, shape))
        });
        Self(self.0.with(entries.collect()))
    }

    /// Adds the shapes that may match a flat line to `found`, each once.
    pub(crate) fn look(&self, line: &str, found: &mut Vec<ShapeId>) {
        let bits: &[u64; BITS] = &self.0.bits;
        for (_, run) in runs(line.as_bytes()) {
            let (word, bit) = place(run);
            if bits[word] & bit == 0 {
                continue;
            }
            for id in self.0.get(run) {
                if !found.contains(&id) {
                    found.push(id);
                }
            }
        }
    }
}

/// Returns every run of four bytes in lower case, with the place of its last byte.
pub(crate) fn runs(text: &[u8]) -> impl Iterator<Item = (usize, u32)> {
    let push = |run: u32, byte: &u8| run << 8 | u32::from(byte.to_ascii_lowercase());
    let mut run = text.iter().take(3).fold(0, push);
    text.iter().enumerate().skip(3).map(move |(at, byte)| {
        run = push(run, byte);
        (at, run)
    })
}

/// Returns where a run's bit is.
fn place(run: u32) -> (usize, u64) {
    let hash = run.wrapping_mul(0x9e37_79b1) >> 14;
    ((hash >> 6) as usize, 1 << (hash & 63))
}

/// Returns the bucket a run is filed in.
fn bucket(run: u32) -> usize {
    (run.wrapping_mul(0x85eb_ca6b) >> 20) as usize
}

/// Returns the counter of a run.
pub(crate) fn counter(run: u32) -> usize {
    (run.wrapping_mul(0xc2b2_ae35) >> 17) as usize
}

#[cfg(test)]
mod tests {
    use crate::fingerprint::tables;

    use super::super::pattern::LetterCase;
    use super::*;

    /// A count of nothing.
    const UNCOUNTED: Common = Common(Kept::Fixed(&[0; COUNTERS]));

    #[test]
    fn a_line_finds_the_shapes_that_may_match_it() {
        let sources =
            ["Cannot find module '{m}'", "Cannot find value {v}", "Port {p:port} is taken"];
        let patterns = sources.iter().map(|s| Pattern::anchored(s, LetterCase::Exact).unwrap());
        let rows = [patterns.collect::<Vec<_>>()];
        let common = tables::common(&rows);
        let shapes = || (0..).zip(&rows[0]).map(|(number, pattern)| ((number, 0), pattern));
        let look = |grams: &Grams, line: &str| {
            let mut found = Vec::new();
            grams.look(line, &mut found);
            found
        };
        let last = Grams::default().with(shapes().skip(2), &common);
        let whole = Grams::default().with(shapes(), &common);
        for grams in [whole, last.with(shapes().take(2), &common)] {
            assert_eq!(look(&grams, "Error: CANNOT FIND MODULE 'x'"), [(0, 0)]);
            assert_eq!(look(&grams, "port 3000 is taken by port 3000 is taken"), [(2, 0)]);
            assert_eq!(look(&grams, "all is well"), []);
        }
        assert_eq!(look(&last, "Error: CANNOT FIND MODULE 'x'"), []);
    }

    #[test]
    fn words_are_found_in_any_case_and_not_before_the_start() {
        let all = ["error", "fail", "● it", "ts2"].map(String::from);
        let whole = GramWords::new(&all, &UNCOUNTED);
        let grown = GramWords::new(&all[..2], &UNCOUNTED).with(&all[2..], &UNCOUNTED);
        for words in [whole, grown] {
            let find = |text: &str, from| {
                let mut found = Vec::new();
                words.find(text.as_bytes(), from, |start, number| {
                    found.push((start, number));
                    true
                });
                found
            };
            let want = [(3, 0), (13, 0), (20, 1), (27, 2)];
            assert_eq!(find("an Error, an ERROR: failed ● it", 0), want);
            assert_eq!(find("an Error, an ERROR", 4), [(13, 0)]);
            assert_eq!(find("error TS2322 and ts2", 0), [(0, 0), (6, 3), (17, 3)]);
            assert_eq!(find("TS2322 and ts2", 1), [(11, 3)]);
            assert_eq!(find("err", 0), []);
            assert_eq!(find("", 0), []);
        }
    }
}
