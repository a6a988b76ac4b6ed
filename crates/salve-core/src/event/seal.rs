//! The seal on a person's word: proof that Salve wrote it for them, made with the user's own key.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{BadDigest, Digest};

/// How many hex digits name a key.
const KEY_DIGITS: usize = 16;

/// A seal, shown as the key's name, a colon and 64 hex digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Seal {
    key: String,
    mac: Digest,
}

impl Seal {
    /// Returns the seal that a key of a name, as [`Seal::name_of_key`] gives it, has made.
    pub fn new(key: String, mac: Digest) -> Self {
        Self { key, mac }
    }

    /// Returns the name of the key that made it.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns what the key made of the word.
    pub fn mac(&self) -> Digest {
        self.mac
    }

    /// Returns the name of a key, from which the key cannot be guessed.
    pub fn name_of_key(key: &[u8]) -> String {
        Digest::of(&[b"name of a sealing key", key]).to_string().chars().take(KEY_DIGITS).collect()
    }
}

impl fmt::Display for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.key, self.mac)
    }
}

impl From<Seal> for String {
    fn from(seal: Seal) -> Self {
        seal.to_string()
    }
}

impl FromStr for Seal {
    type Err = BadDigest;

    fn from_str(text: &str) -> Result<Self, BadDigest> {
        let (key, mac) = text.split_once(':').ok_or(BadDigest)?;
        let is_name = key.len() == KEY_DIGITS && key.bytes().all(|b| b.is_ascii_hexdigit());
        if is_name { Ok(Self { key: key.to_owned(), mac: mac.parse()? }) } else { Err(BadDigest) }
    }
}

impl TryFrom<String> for Seal {
    type Error = BadDigest;

    fn try_from(text: String) -> Result<Self, BadDigest> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_is_read_back_as_it_is_shown_and_nothing_else_is_one() {
        let seal = Seal::new(Seal::name_of_key(b"key"), Digest::of(&[b"word"]));
        assert_eq!(seal.to_string().parse::<Seal>().as_ref(), Ok(&seal));
        let mac = seal.mac();
        for wrong in ["", ":", "0123", &format!("{mac}"), &format!("x:{mac}"), "0123456789abcdef:1"]
        {
            assert!(wrong.parse::<Seal>().is_err(), "{wrong}");
        }
    }
}
