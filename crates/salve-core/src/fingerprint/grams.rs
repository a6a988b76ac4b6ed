//! Finds the shapes that may match a line, by four letters of each.
//!
//! Each shape is filed under the rarest run of four bytes in its literals; a line is walked once,
//! and a table of bits turns away nearly every run before anything is looked up.

use std::collections::HashMap;

use super::shape::Shape;

/// Words of the bit table: 2¹⁸ bits, which stay in a fast cache.
const WORDS: usize = 4096;
/// Buckets of the table behind it.
const BUCKETS: usize = 4096;

/// A shape: its anchor's number and its own.
pub(crate) type ShapeId = (u32, u32);

/// Shapes by a run of four bytes.
#[derive(Debug)]
pub(crate) struct Grams {
    bits: Vec<u64>,
    /// Where each bucket of `entries` starts; one more than there are buckets.
    starts: Vec<u32>,
    entries: Vec<(u32, ShapeId)>,
}

impl Grams {
    /// Files every shape under its rarest run.
    pub(crate) fn new<'s>(shapes: impl Iterator<Item = (ShapeId, &'s Shape)> + Clone) -> Self {
        let mut common: HashMap<u32, u32> = HashMap::new();
        for (_, shape) in shapes.clone() {
            shape.literals().for_each(|literal| {
                runs(literal).for_each(|run| *common.entry(run).or_default() += 1);
            });
        }
        let mut bits = vec![0; WORDS];
        let mut entries = Vec::new();
        for (id, shape) in shapes {
            let rarest = shape.literals().flat_map(runs).min_by_key(|run| common.get(run));
            if let Some(run) = rarest {
                let (word, bit) = place(run);
                bits[word] |= bit;
                entries.push((run, id));
            }
        }
        entries.sort_by_key(|(run, _)| bucket(*run));
        let below = |number: usize| entries.partition_point(|(run, _)| bucket(*run) < number);
        let starts = (0..=BUCKETS).map(|number| u32::try_from(below(number)).unwrap_or(u32::MAX));
        Self { bits, starts: starts.collect(), entries }
    }

    /// Adds the shapes that may match a flat line to `found`, each once.
    pub(crate) fn look(&self, line: &str, found: &mut Vec<ShapeId>) {
        for run in runs(line) {
            let (word, bit) = place(run);
            if self.bits[word] & bit == 0 {
                continue;
            }
            let number = bucket(run);
            let range = self.starts[number] as usize..self.starts[number + 1] as usize;
            let same = self.entries[range].iter().filter(|(other, _)| *other == run);
            for (_, id) in same {
                if !found.contains(id) {
                    found.push(*id);
                }
            }
        }
    }
}

/// Returns every run of four bytes, in lower case.
fn runs(text: &str) -> impl Iterator<Item = u32> {
    let mut run = 0_u32;
    text.bytes().enumerate().filter_map(move |(at, byte)| {
        run = run << 8 | u32::from(byte.to_ascii_lowercase());
        (at >= 3).then_some(run)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_finds_the_shapes_that_may_match_it() {
        let sources =
            ["Cannot find module '{m}'", "Cannot find value {v}", "Port {p:port} is taken"];
        let shapes: Vec<Shape> =
            sources.iter().map(|s| Shape::anchored(s, false).unwrap()).collect();
        let grams = Grams::new((0..).zip(&shapes).map(|(n, shape)| ((n, 0), shape)));
        let look = |line: &str| {
            let mut found = Vec::new();
            grams.look(line, &mut found);
            found
        };
        assert_eq!(look("Error: CANNOT FIND MODULE 'x'"), [(0, 0)]);
        assert_eq!(look("port 3000 is taken by port 3000 is taken"), [(2, 0)]);
        assert_eq!(look("all is well"), []);
    }
}
