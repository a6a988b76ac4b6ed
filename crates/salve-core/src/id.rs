//! Names for things: incidents, issues and signatures.
//!
//! Ids are made at the edge, where randomness is; core only carries them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// One incident's id; the specs call it `repairId`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IncidentId(pub Uuid);

impl IncidentId {
    /// Returns the first eight hex digits, as used in file names and on screen.
    pub fn short(self) -> String {
        let mut text = self.0.simple().to_string();
        text.truncate(8);
        text
    }
}

impl fmt::Display for IncidentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for IncidentId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, uuid::Error> {
        text.parse().map(Self)
    }
}

/// The id of an issue that somebody reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IssueId(pub Uuid);

impl IssueId {
    /// Returns the first eight hex digits, as used on screen.
    pub fn short(self) -> String {
        IncidentId(self.0).short()
    }
}

impl fmt::Display for IssueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of one run of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub Uuid);

impl JobId {
    /// Returns the last twelve hex digits, as used in directories and on screen: the first of ids
    /// that were made at about the same time are the same.
    pub fn short(self) -> String {
        let text = self.0.simple().to_string();
        text[20..].to_owned()
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The identity of a failure: the first 64 bits of the SHA-256 of its normalised text.
///
/// Shown and stored as 16 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Signature(pub u64);

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signature({self})")
    }
}

impl From<Signature> for String {
    fn from(signature: Signature) -> Self {
        signature.to_string()
    }
}

/// A text that is not 16 lower-case hex digits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a signature is 16 lower-case hex digits, not `{0}`")]
pub struct BadSignature(pub String);

impl FromStr for Signature {
    type Err = BadSignature;

    fn from_str(text: &str) -> Result<Self, BadSignature> {
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if text.len() != 16 || !text.bytes().all(hex) {
            return Err(BadSignature(text.to_owned()));
        }
        u64::from_str_radix(text, 16).map(Self).map_err(|_| BadSignature(text.to_owned()))
    }
}

impl TryFrom<String> for Signature {
    type Error = BadSignature;

    fn try_from(text: String) -> Result<Self, BadSignature> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_sixteen_hex_digits_both_ways() {
        let signature = Signature(0x00ab_cdef_0123_4567);
        assert_eq!(signature.to_string(), "00abcdef01234567");
        assert_eq!("00abcdef01234567".parse(), Ok(signature));
        for bad in ["", "abc", "00ABCDEF01234567", "+0abcdef01234567", "00abcdef012345678"] {
            assert_eq!(bad.parse::<Signature>(), Err(BadSignature(bad.into())), "{bad}");
        }
    }
}
