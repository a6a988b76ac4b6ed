//! Failures added since the compact block was made.

use std::collections::HashMap;

use crate::id::Signature;

/// The words of a few thousand failures, quick to add to.
#[derive(Clone, Debug, Default)]
pub(super) struct Fresh {
    signatures: Vec<Signature>,
    words: Vec<Box<[u32]>>,
    /// The sum of the words' weights when the failure was added; good enough to shortlist by.
    weights: Vec<u32>,
    holders: HashMap<u32, Vec<u32>>,
}

impl Fresh {
    /// Adds a failure with its sorted, distinct words.
    pub(super) fn add(&mut self, signature: Signature, words: Vec<u32>, weight: u32) {
        let number = self.len();
        for &word in &words {
            self.holders.entry(word).or_default().push(number);
        }
        self.signatures.push(signature);
        self.words.push(words.into_boxed_slice());
        self.weights.push(weight);
    }

    /// Returns how many failures there are.
    pub(super) fn len(&self) -> u32 {
        // Bounded by the size at which an index packs itself.
        self.signatures.len() as u32
    }

    /// Returns in how many failures `word` occurs.
    pub(super) fn holders(&self, word: u32) -> u32 {
        self.list(word).len() as u32
    }

    /// Returns the numbers of the failures with `word`, ascending.
    pub(super) fn list(&self, word: u32) -> &[u32] {
        self.holders.get(&word).map_or(&[], Vec::as_slice)
    }

    /// Returns the distinct words of all failures, sorted.
    pub(super) fn vocabulary(&self) -> Vec<u32> {
        let mut words: Vec<u32> = self.holders.keys().copied().collect();
        words.sort_unstable();
        words
    }

    /// Returns the words of failure `number`.
    pub(super) fn words(&self, number: u32) -> &[u32] {
        self.words.get(number as usize).map_or(&[], |words| words)
    }

    /// Returns the weight failure `number` had when it was added.
    pub(super) fn weight(&self, number: u32) -> u32 {
        self.weights.get(number as usize).copied().unwrap_or_default()
    }

    /// Returns all signatures in the order of adding.
    pub(super) fn signatures(&self) -> &[Signature] {
        &self.signatures
    }

    /// Returns about how much memory this takes, in bytes.
    pub(super) fn memory(&self) -> usize {
        let words: usize = self.words.iter().map(|words| words.len() * 4 + 16).sum();
        let holders: usize = self.holders.values().map(|list| list.capacity() * 4).sum();
        let slots = self.holders.capacity() * (size_of::<(u32, Vec<u32>)>() + 1);
        self.signatures.capacity() * 8 + self.weights.capacity() * 4 + words + holders + slots
    }
}
