//! What git calls a file's content: the hash of the blob that holds it, byte for byte.
//!
//! Hashing here instead of in git keeps filters, line-end conversion and attributes out of it: what
//! is hashed is what is on disk.

use std::fmt;

use sha1::Sha1;
use sha2::{Digest as _, Sha256};

/// Which hash a repository names its objects by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Sha1,
    Sha256,
}

impl Format {
    /// Returns what git calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
        }
    }

    /// Returns the name of the tree without files, which every repository has.
    pub(super) fn empty_tree(self) -> &'static str {
        match self {
            Self::Sha1 => "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
            Self::Sha256 => "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
        }
    }

    /// Reads what git calls it.
    pub(super) fn parse(name: &str) -> Option<Self> {
        match name {
            "sha1" => Some(Self::Sha1),
            "sha256" => Some(Self::Sha256),
            _ => None,
        }
    }
}

/// The name of one object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Oid {
    format_len: u8,
    bytes: [u8; 32],
}

impl Oid {
    fn of(hash: &[u8]) -> Self {
        let mut bytes = [0; 32];
        bytes[..hash.len()].copy_from_slice(hash);
        // A hash is 20 or 32 bytes long.
        Self { format_len: hash.len() as u8, bytes }
    }

    /// Reads the hex digits that git prints.
    pub(super) fn parse(hex: &[u8]) -> Option<Self> {
        if !matches!(hex.len(), 40 | 64) {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
            let digit = |digit: u8| (digit as char).to_digit(16);
            *byte = u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok()?;
        }
        Some(Self::of(&bytes[..hex.len() / 2]))
    }

    /// Returns the name of the blob that holds `content`.
    pub(super) fn of_blob(format: Format, content: &[u8]) -> Self {
        let mut hasher = Hasher::new(format, content.len() as u64);
        hasher.update(content);
        hasher.finish()
    }

    /// Reads the hash itself.
    pub(super) fn from_bytes(hash: &[u8]) -> Option<Self> {
        matches!(hash.len(), 20 | 32).then(|| Self::of(hash))
    }

    /// Returns the hash itself.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.format_len)]
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Oid({self})")
    }
}

/// Hashes the content of one blob as it is read.
pub(super) enum Hasher {
    Sha1(Sha1),
    Sha256(Sha256),
}

impl Hasher {
    /// Begins the hash of a blob of `len` bytes.
    pub(super) fn new(format: Format, len: u64) -> Self {
        let mut hasher = match format {
            Format::Sha1 => Self::Sha1(Sha1::new()),
            Format::Sha256 => Self::Sha256(Sha256::new()),
        };
        hasher.update(format!("blob {len}\0").as_bytes());
        hasher
    }

    /// Takes in the next bytes.
    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha1(hash) => hash.update(bytes),
            Self::Sha256(hash) => hash.update(bytes),
        }
    }

    /// Returns the name.
    pub(super) fn finish(self) -> Oid {
        match self {
            Self::Sha1(hash) => Oid::of(&hash.finalize()),
            Self::Sha256(hash) => Oid::of(&hash.finalize()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_has_the_name_that_git_gives_it() {
        let rows = [
            (Format::Sha1, &b""[..], "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"),
            (Format::Sha1, b"hello\n", "ce013625030ba8dba906f756967f9e9ca394464a"),
            (
                Format::Sha256,
                b"",
                "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
            ),
        ];
        for (format, content, name) in rows {
            let oid = Oid::of_blob(format, content);
            assert_eq!(oid.to_string(), name);
            assert_eq!(Oid::parse(name.as_bytes()), Some(oid));
        }
        assert_eq!(Oid::parse(b"e69de29"), None);
        assert_eq!(Oid::parse(&[b'g'; 40]), None);
    }
}
