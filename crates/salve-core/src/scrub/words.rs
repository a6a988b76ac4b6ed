//! The words by which names and values are judged, from `data/scrub.toml`.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use serde::{Deserialize, Deserializer};

use super::table::table;

/// All lists of words.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScrubWords {
    /// Words of placeholders.
    pub(super) filler: ScrubWordList,
    /// Words that make a placeholder of whatever they stand in.
    pub(super) telling: ScrubWordList,
    /// Words that follow a secret's name without being one.
    pub(super) stop: ScrubWordList,
    /// Words of sentences.
    pub(super) prose: ScrubWordList,
    /// Words after the one that tells, which change nothing.
    pub(super) tail: ScrubWordList,
    /// Words before `key` that make it a secret one.
    pub(super) key_of: ScrubWordList,
    /// Words that speak about a password or token.
    pub(super) about: ScrubWordList,
    /// Names of passwords.
    pub(super) pass: ScrubWordList,
    /// Names of credentials.
    pub(super) credentials: ScrubWordList,
    /// Authorization schemes.
    pub(super) schemes: ScrubWordList,
}

/// Returns the words as shipped.
pub(super) fn listed() -> &'static ScrubWords {
    &table().words
}

/// The longest word of any list.
const WORD_MAX: usize = 24;

/// A list of lower-case words.
#[derive(Debug, Default)]
pub(super) struct ScrubWordList(HashSet<Vec<u8>, BuildHasherDefault<Fnv>>);

/// A hash that is quick for short words; nobody chooses them to collide.
#[derive(Debug)]
pub(super) struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl ScrubWordList {
    /// Returns whether `word` is in the list, whatever its case.
    pub(super) fn has(&self, word: &[u8]) -> bool {
        let mut lower = [0; WORD_MAX];
        let Some(lower) = lower.get_mut(..word.len()) else { return false };
        lower.copy_from_slice(word);
        lower.make_ascii_lowercase();
        self.0.contains(&*lower)
    }
}

impl<'de> Deserialize<'de> for ScrubWordList {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Ok(Self(text.split_whitespace().map(|word| word.as_bytes().to_vec()).collect()))
    }
}
