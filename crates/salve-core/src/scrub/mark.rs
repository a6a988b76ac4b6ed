//! What stands in a secret's place.

use std::ops::Range;

use sha2::{Digest, Sha256};

/// The key under which secrets are hashed, so that a marker cannot be guessed back.
///
/// One key per user: the same secret has the same marker in all of that user's files and nowhere
/// else.
#[derive(Clone)]
pub struct ScrubKey([u8; 32]);

impl ScrubKey {
    /// Takes 32 random bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the first four bytes of the HMAC-SHA-256 of `secret`.
    fn hash(&self, secret: &[u8]) -> [u8; 4] {
        let mut inner = [0x36; 64];
        let mut outer = [0x5c; 64];
        for (i, byte) in self.0.iter().enumerate() {
            inner[i] ^= byte;
            outer[i] ^= byte;
        }
        let inner = Sha256::new().chain_update(inner).chain_update(secret).finalize();
        let [a, b, c, d, ..] = Sha256::new().chain_update(outer).chain_update(inner).finalize().0;
        [a, b, c, d]
    }
}

impl std::fmt::Debug for ScrubKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

/// How every marker begins.
pub(super) const OPEN: &[u8] = b"[secret:";

/// Appends the marker for `secret`: `[secret:kind:hash]`.
pub(super) fn write(out: &mut Vec<u8>, key: &ScrubKey, kind: &str, secret: &[u8]) {
    out.extend_from_slice(OPEN);
    out.extend_from_slice(kind.as_bytes());
    out.push(b':');
    for byte in key.hash(secret) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
    out.push(b']');
}

/// Returns the length of the marker that `text` begins with, if it does.
pub(super) fn len(text: &[u8]) -> Option<usize> {
    let rest = text.strip_prefix(OPEN)?;
    let kind = rest.iter().take(48).position(|&b| b == b':')?;
    let name = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
    let hash = rest.get(kind + 1..kind + 9)?;
    let hex = |b: &u8| b.is_ascii_digit() || (b'a'..=b'f').contains(b);
    let whole = kind > 0
        && rest[..kind].iter().all(name)
        && hash.iter().all(hex)
        && rest.get(kind + 9) == Some(&b']');
    whole.then_some(OPEN.len() + kind + 10)
}

/// Returns the places of all markers in `text`.
pub(super) fn all(text: &[u8]) -> Vec<Range<usize>> {
    let opened = memchr::memmem::find_iter(text, OPEN);
    opened.filter_map(|at| Some(at..at + len(&text[at..])?)).collect()
}

/// Returns where `byte` first stands in `text` outside of markers.
pub(super) fn find_outside(text: &[u8], byte: u8) -> Option<usize> {
    let mut at = 0;
    while at < text.len() {
        if text[at] == byte {
            return Some(at);
        }
        at += len(&text[at..]).unwrap_or(1);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_hmac_sha_256() {
        // RFC 4231 has no 32-byte key; this value was computed with another implementation.
        let key = ScrubKey::new([0x0b; 32]);
        assert_eq!(key.hash(b"Hi There"), [0x19, 0x8a, 0x60, 0x7e]);
    }

    #[test]
    fn a_marker_is_known_again() {
        let mut out = Vec::new();
        write(&mut out, &ScrubKey::new([1; 32]), "github-token", b"x");
        assert_eq!(len(&out), Some(out.len()));
        for bad in ["[secret:", "[secret::12345678]", "[secret:A:12345678]", "[secret:a:1234567]"] {
            assert_eq!(len(bad.as_bytes()), None, "{bad}");
        }
    }
}
