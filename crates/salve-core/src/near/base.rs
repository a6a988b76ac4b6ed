//! The compact block: one allocation that is also the file.
//!
//! Layout, all numbers little-endian: a header of 48 bytes (magic, version, counts, origin,
//! checksum), then the failures' signatures (`u64`), their total weights (`u16`), the words' hashes
//! in ascending order (`u32`), where each word's posting list is (`u32`), and the lists.
//!
//! A list is its length and the ascending numbers of the failures with that word as differences,
//! seven bits a byte. A list longer than [`BLOCK`] starts with a table of blocks, so that one
//! failure can be looked up without reading the rest. A word in one failure only has its number
//! where others have their list's place; a word in very many has a length and no list.

use super::IndexOrigin;
use super::bytes::{checksum, take_varint, u16_at, u32_at, u64_at};
use super::merge::Writer;
use crate::id::Signature;

/// Postings between two entries of a list's table.
pub(super) const BLOCK: usize = 128;
pub(super) const MAGIC: &[u8; 8] = b"SALVNEAR";
pub(super) const VERSION: u32 = 1;
pub(super) const HEADER: usize = 48;
/// Where the checksum stands; it is of all bytes but its own.
const CHECKSUM: std::ops::Range<usize> = 40..48;

/// The two highest bits of a word's place say what the other thirty are.
pub(super) const KIND: u32 = 0b11 << 30;
pub(super) const LISTED: u32 = 0b00 << 30;
pub(super) const COMMON: u32 = 0b01 << 30;
pub(super) const SINGLE: u32 = 0b10 << 30;

/// Why bytes are not an index that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadIndex {
    /// It is something else, or cut short.
    #[error("not an index of near matches")]
    Foreign,
    /// It was written by a version with another layout.
    #[error("an index of near matches of version {0}, not {VERSION}")]
    Version(u32),
    /// Its bytes are not those that were written.
    #[error("a damaged index of near matches")]
    Damaged,
}

/// The block and where its parts begin.
#[derive(Clone, Debug)]
pub(super) struct Base {
    bytes: Vec<u8>,
    docs: u32,
    terms: usize,
}

impl Default for Base {
    fn default() -> Self {
        Writer::new(0).finish()
    }
}

impl Base {
    /// Wraps a block that was just laid out.
    pub(super) fn new(bytes: Vec<u8>, docs: u32, terms: usize) -> Self {
        Self { bytes, docs, terms }
    }

    /// Takes over bytes that [`Base::seal`] returned.
    pub(super) fn from_bytes(bytes: Vec<u8>) -> Result<(Self, IndexOrigin), BadIndex> {
        if bytes.len() < HEADER || !bytes.starts_with(MAGIC) {
            return Err(BadIndex::Foreign);
        }
        let word = |at| u32_at(&bytes, at).ok_or(BadIndex::Foreign);
        let long = |at| u64_at(&bytes, at).ok_or(BadIndex::Foreign);
        let version = word(2)?;
        if version != VERSION {
            return Err(BadIndex::Version(version));
        }
        let (docs, terms, lists) = (word(3)?, word(4)? as usize, word(5)? as usize);
        let length = HEADER as u64 + u64::from(docs) * 10 + terms as u64 * 8 + lists as u64;
        if bytes.len() as u64 != length || docs >= 1 << 30 || long(5)? != sum(&bytes) {
            return Err(BadIndex::Damaged);
        }
        let origin = IndexOrigin { store: long(3)?, upto: long(4)? };
        Ok((Self { bytes, docs, terms }, origin))
    }

    /// Writes `origin` and the checksum into the block and returns it.
    pub(super) fn seal(&mut self, origin: IndexOrigin) -> &[u8] {
        put(&mut self.bytes, 24..32, &origin.store.to_le_bytes());
        put(&mut self.bytes, 32..40, &origin.upto.to_le_bytes());
        let sum = sum(&self.bytes);
        put(&mut self.bytes, CHECKSUM, &sum.to_le_bytes());
        &self.bytes
    }

    /// Returns how many failures the block holds.
    pub(super) fn docs(&self) -> u32 {
        self.docs
    }

    /// Returns how much memory the block takes, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns the signature of failure `number`.
    pub(super) fn signature(&self, number: u32) -> Option<Signature> {
        if number >= self.docs {
            return None;
        }
        u64_at(self.bytes.get(HEADER..)?, number as usize).map(Signature)
    }

    /// Returns the sum of the weights of the words of failure `number`.
    pub(super) fn weight(&self, number: u32) -> u32 {
        let weights = self.part(self.docs as usize * 8);
        u16_at(weights, number as usize).map_or(0, u32::from)
    }

    /// Returns the number of the failure with `signature`, by looking at every one.
    pub(super) fn find(&self, signature: Signature) -> Option<u32> {
        let wanted = signature.0.to_le_bytes();
        let mut all = self.part(0).chunks_exact(8).take(self.docs as usize);
        all.position(|bytes| bytes == wanted).map(|at| at as u32)
    }

    /// Returns what is known of `word`.
    pub(super) fn term(&self, word: u32) -> Option<IndexTerm<'_>> {
        let words = self.part(self.docs as usize * 10);
        let (mut low, mut high) = (0, self.terms);
        while low < high {
            let middle = low + (high - low) / 2;
            match u32_at(words, middle)?.cmp(&word) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return self.nth(middle).map(|(_, term)| term),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// Returns the `at`-th word in ascending order and what is known of it.
    pub(super) fn nth(&self, at: usize) -> Option<(u32, IndexTerm<'_>)> {
        if at >= self.terms {
            return None;
        }
        let words = self.part(self.docs as usize * 10);
        let places = words.get(self.terms * 4..)?;
        let place = u32_at(places, at)?;
        let rest = place & !KIND;
        let mut list = places.get(self.terms * 4..)?;
        let term = match place & KIND {
            SINGLE => IndexTerm::Single(rest),
            kind => {
                list = list.get(rest as usize..)?;
                // More holders than failures is damage, and must not become a large allocation.
                let holders = take_varint(&mut list)?.min(self.docs);
                if kind == COMMON {
                    IndexTerm::Common(holders)
                } else {
                    IndexTerm::Listed(holders, list)
                }
            }
        };
        Some((u32_at(words, at)?, term))
    }

    /// Returns the block from `offset` behind the header.
    fn part(&self, offset: usize) -> &[u8] {
        self.bytes.get(HEADER + offset..).unwrap_or_default()
    }
}

/// What the block knows of one word.
#[derive(Clone, Copy, Debug)]
pub(super) enum IndexTerm<'a> {
    /// It is in this failure only.
    Single(u32),
    /// It is in that many failures, too many to say anything.
    Common(u32),
    /// It is in that many failures, and this is the list.
    Listed(u32, &'a [u8]),
}

impl<'a> IndexTerm<'a> {
    /// Returns in how many failures the word is.
    pub(super) fn holders(self) -> u32 {
        match self {
            IndexTerm::Single(_) => 1,
            IndexTerm::Common(holders) | IndexTerm::Listed(holders, _) => holders,
        }
    }

    /// Returns whether the word is in too many failures to have a list.
    pub(super) fn is_common(self) -> bool {
        match self {
            IndexTerm::Common(_) => true,
            IndexTerm::Single(_) | IndexTerm::Listed(..) => false,
        }
    }

    /// Calls `visit` with the number of each failure that has the word, ascending.
    pub(super) fn each(self, mut visit: impl FnMut(u32)) {
        match self {
            IndexTerm::Single(number) => visit(number),
            IndexTerm::Common(_) => {}
            IndexTerm::Listed(holders, list) => {
                let (table, mut rest) = split_table(holders, list);
                let mut number = 0_u32;
                for nth in 0..holders as usize {
                    let Some(step) = take_varint(&mut rest) else { return };
                    let first = nth % BLOCK == 0 && !table.is_empty();
                    number = if first { step } else { number.saturating_add(step) };
                    visit(number);
                }
            }
        }
    }

    /// Returns whether failure `wanted` has the word.
    pub(super) fn has(self, wanted: u32) -> bool {
        match self {
            IndexTerm::Single(number) => number == wanted,
            IndexTerm::Common(_) => false,
            IndexTerm::Listed(holders, list) => {
                let (table, lists) = split_table(holders, list);
                block_of(table, lists, wanted).is_some_and(|block| block_has(block, wanted))
            }
        }
    }
}

/// Parts a long list's table of blocks from its numbers.
fn split_table(holders: u32, list: &[u8]) -> (&[u8], &[u8]) {
    let blocks = (holders as usize).div_ceil(BLOCK);
    if blocks < 2 { (&[], list) } else { list.split_at_checked(blocks * 8).unwrap_or_default() }
}

/// Returns the part of a list in which `wanted` would be.
fn block_of<'a>(table: &[u8], list: &'a [u8], wanted: u32) -> Option<&'a [u8]> {
    if table.is_empty() {
        return Some(list);
    }
    let (mut low, mut high) = (0, table.len() / 8);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if u32_at(table, middle * 2)? <= wanted { low = middle } else { high = middle }
    }
    list.get(u32_at(table, low * 2 + 1)? as usize..)
}

/// Returns whether one of the first [`BLOCK`] numbers of `block` is `wanted`.
fn block_has(mut block: &[u8], wanted: u32) -> bool {
    let mut number = 0_u32;
    for _ in 0..BLOCK {
        let Some(step) = take_varint(&mut block) else { return false };
        number = number.saturating_add(step);
        if number >= wanted {
            return number == wanted;
        }
    }
    false
}

/// Overwrites `range` of `bytes`, which the caller has made long enough.
pub(super) fn put(bytes: &mut [u8], range: std::ops::Range<usize>, value: &[u8]) {
    if let Some(place) = bytes.get_mut(range) {
        place.copy_from_slice(value);
    }
}

/// Returns the checksum of a block but for the place where it stands.
fn sum(bytes: &[u8]) -> u64 {
    let head = checksum(bytes.get(..CHECKSUM.start).unwrap_or_default());
    head ^ checksum(bytes.get(CHECKSUM.end..).unwrap_or_default())
}

/// Makes the checksum of altered bytes fit, to test what lies behind it.
#[cfg(test)]
pub(super) fn reseal(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = sum(&bytes);
    put(&mut bytes, CHECKSUM, &sum.to_le_bytes());
    bytes
}
