//! Finds many words in a text at once, by four letters of each.
//!
//! Each word is filed under the rarest run of four bytes in it. A text is walked once, and a
//! table of bits, small enough to stay in a fast cache, turns away nearly every run before
//! anything is looked up. An automaton over as many words is slower: it does not fit the cache,
//! and takes long to build.

use super::shape::Shape;

/// Words of the bit table: 2¹⁸ bits.
const WORDS: usize = 4096;
/// Buckets of the table behind it.
const BUCKETS: usize = 4096;
/// Counters of runs; a power of two.
const COUNTERS: usize = 1 << 15;

/// How often runs of four bytes occur in what errors say, roughly: runs may share a counter.
#[derive(Debug)]
pub(crate) struct Common(Box<[u32; COUNTERS]>);

impl Default for Common {
    fn default() -> Self {
        Self(Box::new([0; COUNTERS]))
    }
}

impl Common {
    /// Counts the runs of one text.
    pub(crate) fn count(&mut self, text: &str) {
        runs(text.as_bytes()).for_each(|(_, run)| self.0[counter(run)] += 1);
    }

    /// Returns how often a run occurs.
    fn of(&self, run: u32) -> u32 {
        self.0[counter(run)]
    }

    /// Returns the rarest run of a text, with the place at which it ends.
    fn rarest(&self, text: &str) -> Option<(usize, u32)> {
        runs(text.as_bytes()).min_by_key(|(_, run)| self.of(*run))
    }
}

/// Values filed under a run of four bytes.
#[derive(Debug)]
struct Table<T> {
    bits: Box<[u64; WORDS]>,
    /// Where each bucket of `entries` starts; one more than there are buckets.
    starts: Vec<u32>,
    entries: Vec<(u32, T)>,
}

impl<T> Table<T> {
    fn new(mut entries: Vec<(u32, T)>) -> Self {
        let mut bits = Box::new([0; WORDS]);
        for (run, _) in &entries {
            let (word, bit) = place(*run);
            bits[word] |= bit;
        }
        entries.sort_by_key(|(run, _)| bucket(*run));
        let below = |number: usize| entries.partition_point(|(run, _)| bucket(*run) < number);
        let starts = (0..=BUCKETS).map(|number| u32::try_from(below(number)).unwrap_or(u32::MAX));
        let starts = starts.collect();
        Self { bits, starts, entries }
    }

    /// Returns whether anything may be filed under a run.
    fn may_hold(&self, run: u32) -> bool {
        let (word, bit) = place(run);
        self.bits[word] & bit != 0
    }

    /// Returns what is filed under a run.
    fn get(&self, run: u32) -> impl Iterator<Item = &T> {
        let number = bucket(run);
        let range = self.starts[number] as usize..self.starts[number + 1] as usize;
        self.entries[range].iter().filter(move |(other, _)| *other == run).map(|(_, value)| value)
    }
}

/// Words that are found whatever their case.
#[derive(Debug)]
pub(crate) struct Words {
    /// The number of a word, and how many of its bytes stand before the end of its run.
    table: Table<(u32, u32)>,
    words: Vec<String>,
}

impl Words {
    /// Files lower-case words of at least four bytes.
    pub(crate) fn new(words: Vec<String>, common: &Common) -> Self {
        let entries = (0..).zip(&words).filter_map(|(number, word)| {
            let (end, run) = common.rarest(word)?;
            Some((run, (number, u32::try_from(end).ok()?)))
        });
        Self { table: Table::new(entries.collect()), words }
    }

    /// Calls `see` with the start and the number of every word in `text`, until it says no.
    pub(crate) fn find(&self, text: &[u8], from: usize, mut see: impl FnMut(usize, usize) -> bool) {
        for (end, run) in runs(&text[from..]) {
            if !self.table.may_hold(run) {
                continue;
            }
            for &(number, before) in self.table.get(run) {
                let Some(start) = (from + end).checked_sub(before as usize) else { continue };
                let word = self.words[number as usize].as_bytes();
                let there = text.get(start..start + word.len());
                let found = start >= from && there.is_some_and(|t| t.eq_ignore_ascii_case(word));
                if found && !see(start, number as usize) {
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
pub(crate) struct Grams(Table<ShapeId>);

impl Grams {
    /// Files every shape.
    pub(crate) fn new<'s>(
        shapes: impl Iterator<Item = (ShapeId, &'s Shape)>,
        common: &Common,
    ) -> Self {
        let entries = shapes.filter_map(|(id, shape)| {
            let rarest = shape.literals().filter_map(|literal| common.rarest(literal));
            rarest.map(|(_, run)| run).min_by_key(|run| common.of(*run)).map(|run| (run, id))
        });
        Self(Table::new(entries.collect()))
    }

    /// Adds the shapes that may match a flat line to `found`, each once.
    pub(crate) fn look(&self, line: &str, found: &mut Vec<ShapeId>) {
        for (_, run) in runs(line.as_bytes()) {
            if !self.0.may_hold(run) {
                continue;
            }
            for id in self.0.get(run) {
                if !found.contains(id) {
                    found.push(*id);
                }
            }
        }
    }
}

/// Returns every run of four bytes in lower case, with the place of its last byte.
fn runs(text: &[u8]) -> impl Iterator<Item = (usize, u32)> {
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
fn counter(run: u32) -> usize {
    (run.wrapping_mul(0xc2b2_ae35) >> 17) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_finds_the_shapes_that_may_match_it() {
        let sources =
            ["Cannot find module '{m}'", "Cannot find value {v}", "Port {p:port} is taken"];
        let shapes: Vec<Shape> =
            sources.iter().map(|s| Shape::anchored(s, false).unwrap()).collect();
        let mut common = Common::default();
        shapes.iter().flat_map(Shape::literals).for_each(|literal| common.count(literal));
        let grams = Grams::new((0..).zip(&shapes).map(|(n, shape)| ((n, 0), shape)), &common);
        let look = |line: &str| {
            let mut found = Vec::new();
            grams.look(line, &mut found);
            found
        };
        assert_eq!(look("Error: CANNOT FIND MODULE 'x'"), [(0, 0)]);
        assert_eq!(look("port 3000 is taken by port 3000 is taken"), [(2, 0)]);
        assert_eq!(look("all is well"), []);
    }

    #[test]
    fn words_are_found_in_any_case_and_not_before_the_start() {
        let words =
            Words::new(["error", "fail", "● it"].map(String::from).into(), &Common::default());
        let find = |text: &str, from| {
            let mut found = Vec::new();
            words.find(text.as_bytes(), from, |start, number| {
                found.push((start, number));
                true
            });
            found
        };
        assert_eq!(find("an Error, an ERROR: failed ● it", 0), [(3, 0), (13, 0), (20, 1), (27, 2)]);
        assert_eq!(find("an Error, an ERROR", 4), [(13, 0)]);
        assert_eq!(find("err", 0), []);
        assert_eq!(find("", 0), []);
    }
}
