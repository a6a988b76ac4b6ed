//! Answering one question.

use std::cmp::Reverse;

use super::base::IndexTerm;
use super::{Match, NearIndex};

/// Postings read to find candidates; a question's rarer words come first.
const READ: usize = 24_000;
/// Lists up to this long are always read.
const SHORT: usize = 256;
/// Candidates that are weighed with all words.
const SHORTLIST: usize = 64;

/// One word of the question.
struct NearQuery<'a> {
    word: u32,
    weight: u32,
    packed: Option<IndexTerm<'a>>,
    fresh: &'a [u32],
}

impl NearQuery<'_> {
    fn holders(&self) -> usize {
        self.packed.map_or(0, |term| term.holders() as usize) + self.fresh.len()
    }
}

/// Returns up to `limit` failures that share words with the question, best first.
pub(super) fn nearest(index: &NearIndex, words: &[u32], limit: usize) -> Vec<Match> {
    let mut asked: Vec<NearQuery> = words.iter().map(|&word| ask(index, word)).collect();
    asked.retain(|asked| asked.weight > 0);
    asked.sort_by_key(|asked| (asked.holders(), asked.word));
    let total = asked.iter().map(|asked| asked.weight).sum();

    let (shared, read) = gather(index, &asked, total);
    let rest = asked.get(read..).unwrap_or_default();
    let shortlist = shortlist(index, shared, total, limit.max(SHORTLIST));

    let mut found: Vec<Match> = shortlist
        .into_iter()
        .filter_map(|(number, shared)| weigh(index, number, shared, rest, total))
        .collect();
    found.sort_by(|a, b| {
        b.likeness.total_cmp(&a.likeness).then_with(|| a.signature.cmp(&b.signature))
    });
    found.truncate(limit);
    found
}

fn ask(index: &NearIndex, word: u32) -> NearQuery<'_> {
    let packed = index.base.term(word);
    let weight = u32::from(index.weight(word));
    NearQuery { word, weight, packed, fresh: index.fresh.list(word) }
}

/// Reads lists, the shortest first, and returns the weight of the words each failure has of those
/// read, and how many were read.
///
/// A failure that has none of the words read so far can only have the rest. So reading ends when
/// all the rest weigh less than what the best one has already, or when it becomes too much.
fn gather(index: &NearIndex, asked: &[NearQuery], total: u32) -> (Tally, usize) {
    let size = asked.iter().map(NearQuery::holders).sum::<usize>();
    let longest = asked.first().map_or(0, NearQuery::holders).max(READ);
    let mut tally = Tally::with_room(size.min(longest));
    let (mut left, mut rest) = (longest, total);
    for (nth, asked) in asked.iter().enumerate() {
        let enough = tally.best >= rest && asked.holders() > SHORT;
        if enough || asked.holders() > left {
            return (tally, nth);
        }
        left -= asked.holders();
        rest -= asked.weight;
        if let Some(term) = asked.packed {
            term.each(|number| tally.add(number, asked.weight));
        }
        for &number in asked.fresh {
            tally.add(index.base.docs() + number, asked.weight);
        }
    }
    (tally, asked.len())
}

/// Returns the `size` failures that look most alike by the rare words alone.
fn shortlist(index: &NearIndex, shared: Tally, total: u32, size: usize) -> Vec<(u32, u32)> {
    let packed = index.base.docs();
    let least = if shared.count > size { shared.best / 4 } else { 0 };
    let mut found: Vec<(u32, u32, u32)> = shared
        .entries()
        .filter(|&(_, sum)| sum >= least)
        .filter(|(number, _)| index.removed.binary_search(number).is_err())
        .map(|(number, shared)| {
            let weight = match number.checked_sub(packed) {
                None => index.base.weight(number),
                Some(number) => index.fresh.weight(number),
            };
            let whole = (total + weight).saturating_sub(shared).max(1);
            // Both are below 2²¹, so the quotient keeps 31 bits of precision.
            let likeness = (u64::from(shared) << 31) / u64::from(whole);
            (u32::try_from(likeness).unwrap_or(u32::MAX), number, shared)
        })
        .collect();
    if found.len() > size {
        found
            .select_nth_unstable_by_key(size, |&(likeness, number, _)| (Reverse(likeness), number));
        found.truncate(size);
    }
    found.into_iter().map(|(_, number, shared)| (number, shared)).collect()
}

/// Weighs failure `number` with all words of the question.
fn weigh(
    index: &NearIndex,
    number: u32,
    shared: u32,
    rest: &[NearQuery],
    total: u32,
) -> Option<Match> {
    let (signature, weight, more) = match number.checked_sub(index.base.docs()) {
        None => {
            let has = |asked: &&NearQuery| asked.packed.is_some_and(|term| term.has(number));
            let more: u32 = rest.iter().filter(has).map(|asked| asked.weight).sum();
            (index.base.signature(number)?, index.base.weight(number), more)
        }
        Some(number) => {
            let words = index.fresh.words(number);
            let has = |asked: &&NearQuery| words.binary_search(&asked.word).is_ok();
            let more = rest.iter().filter(has).map(|asked| asked.weight).sum();
            let weight = words.iter().map(|&word| u32::from(index.weight(word))).sum();
            (*index.fresh.signatures().get(number as usize)?, weight, more)
        }
    };
    let both = shared + more;
    let whole = (total + weight).saturating_sub(both).max(both).max(1);
    Some(Match { signature, likeness: both as f32 / whole as f32 })
}

/// A table of sums by failure, with open addressing; made for one question.
struct Tally {
    /// Failure number plus one (zero is a free slot) and sum.
    slots: Vec<(u32, u32)>,
    shift: u32,
    /// The largest sum.
    best: u32,
    /// How many failures have a sum.
    count: usize,
}

impl Tally {
    /// Makes a table for up to `count` different failures.
    fn with_room(count: usize) -> Self {
        let bits = (count * 2).max(16).next_power_of_two().trailing_zeros();
        Self { slots: vec![(0, 0); 1 << bits], shift: 32 - bits.min(31), best: 0, count: 0 }
    }

    fn add(&mut self, number: u32, weight: u32) {
        let key = number.wrapping_add(1);
        let mask = self.slots.len() - 1;
        let mut at = (key.wrapping_mul(0x9e37_79b1) >> self.shift) as usize & mask;
        // A damaged list can name more failures than it says: then the rest is left out.
        for _ in 0..self.slots.len() {
            let Some(slot) = self.slots.get_mut(at) else { return };
            if slot.0 == 0 || slot.0 == key {
                self.count += usize::from(slot.0 == 0);
                *slot = (key, slot.1 + weight);
                self.best = self.best.max(slot.1);
                return;
            }
            at = (at + 1) & mask;
        }
    }

    fn entries(&self) -> impl Iterator<Item = (u32, u32)> {
        self.slots.iter().filter(|slot| slot.0 != 0).map(|&(key, sum)| (key - 1, sum))
    }
}
