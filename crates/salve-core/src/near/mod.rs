//! The most similar known failures, when no signature is equal.
//!
//! An [`NearIndex`] holds which words each known failure's normalised text has, and nothing of the text
//! itself. A question reads the posting lists of its rarest words first, so its cost depends on how
//! rare they are and not on how many failures are known. Likeness is the Jaccard measure with every
//! word weighed by how rare it is: two failures are alike when the words that tell them from all
//! others are the same.
//!
//! Like text is only a proposal: [`agree`] says whether a known failure's remedies may be tried.
//!
//! **Invariant:** bytes that are not an index, or a damaged one, are refused or answer with fewer
//! matches; they never panic.

mod agree;
mod base;
mod bytes;
mod fresh;
mod merge;
mod query;
mod words;

use crate::id::Signature;

pub use agree::{NearAgreement, Side, agree};
pub use base::BadIndex;

use base::Base;
use fresh::Fresh;

/// One known failure that resembles the question.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Match {
    /// The known failure.
    pub signature: Signature,
    /// How alike the texts are, from 0 (no rare word in common) to 1 (the same words).
    pub likeness: f32,
}

/// What an index was built from, so that its keeper can tell whether it still fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexOrigin {
    /// Which store the failures came from.
    pub store: u64,
    /// How far that store had been read.
    pub upto: u64,
}

/// The words of up to a billion known failures, most of them in one compact block.
#[derive(Clone, Debug, Default)]
pub struct NearIndex {
    base: Base,
    fresh: Fresh,
    /// Numbers of removed failures, sorted, until the next [`NearIndex::pack`].
    removed: Vec<u32>,
}

impl NearIndex {
    /// Makes an index that knows nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads an index that [`NearIndex::to_bytes`] wrote.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<(Self, IndexOrigin), BadIndex> {
        let (base, origin) = Base::from_bytes(bytes)?;
        Ok((Self { base, ..Self::default() }, origin))
    }

    /// Packs the index and returns it as bytes to keep.
    pub fn to_bytes(&mut self, origin: IndexOrigin) -> &[u8] {
        self.pack();
        self.base.seal(origin)
    }

    /// Adds a failure. The caller sees to it that no signature is added twice.
    pub fn add(&mut self, signature: Signature, normalized: &str) {
        let words = words::words(normalized);
        let weight = words.iter().map(|&word| u32::from(self.weight(word))).sum();
        self.fresh.add(signature, words, weight);
        if self.fresh.len() >= (self.base.docs() / 16).clamp(4096, 65_536) {
            self.pack();
        }
    }

    /// Forgets a failure and returns whether it was known.
    pub fn remove(&mut self, signature: Signature) -> bool {
        let packed = self.base.docs();
        let fresh = self.fresh.signatures().iter().position(|&known| known == signature);
        let found = match fresh {
            Some(at) => u32::try_from(at).ok().and_then(|at| packed.checked_add(at)),
            None => self.base.find(signature),
        };
        let Some(number) = found else { return false };
        match self.removed.binary_search(&number) {
            Ok(_) => false,
            Err(at) => {
                self.removed.insert(at, number);
                true
            }
        }
    }

    /// Returns how many failures are known.
    pub fn len(&self) -> usize {
        self.base.docs() as usize + self.fresh.len() as usize - self.removed.len()
    }

    /// Returns whether no failure is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how much memory the index takes, in bytes.
    pub fn memory(&self) -> usize {
        self.base.memory() + self.fresh.memory() + self.removed.capacity() * size_of::<u32>()
    }

    /// Moves what was added since the last time into the compact block and drops what was removed.
    pub fn pack(&mut self) {
        if self.fresh.len() > 0 || !self.removed.is_empty() {
            self.base = merge::merge(&self.base, &self.fresh, &self.removed);
            self.fresh = Fresh::default();
            self.removed = Vec::new();
        }
    }

    /// Returns up to `limit` known failures, the most similar first.
    ///
    /// Equal likeness is ordered by signature, so an answer does not depend on the order of adding.
    pub fn nearest(&self, normalized: &str, limit: usize) -> Vec<Match> {
        query::nearest(self, &words::words(normalized), limit)
    }

    /// Returns how much `word` says, in 1/64 nat; nothing when it is in too many failures.
    fn weight(&self, word: u32) -> u16 {
        let packed = self.base.term(word);
        if packed.is_some_and(|term| term.is_common()) {
            return 0;
        }
        let holders = packed.map_or(0, |term| term.holders()) + self.fresh.holders(word);
        rarity(self.base.docs() + self.fresh.len(), holders)
    }
}

/// Returns what a word found in `holders` of `all` failures says, in 1/64 nat.
fn rarity(all: u32, holders: u32) -> u16 {
    let ratio = f64::from(all.max(1)) / f64::from(holders.max(1));
    // At most 64 · ln(1 + 2³²) ≈ 1,420.
    ((1.0 + ratio).ln() * 64.0) as u16
}

#[cfg(test)]
mod tests;
