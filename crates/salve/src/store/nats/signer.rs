//! Who says something to a fleet: the key in the user's credentials signs it.
//!
//! The server knows who may write, and does not say who wrote. So what has to be known to be
//! somebody's own word bears a seal of the very key with which they are let in.

use std::fs;
use std::path::Path;

use nkeys::KeyPair;
use serde::{Deserialize, Serialize};

use crate::store::FixAuthor;

/// What begins the part of a file with credentials in which the key is.
const SEED: &str = "NKEY SEED";

/// The version of an envelope.
const VERSION: u32 = 1;

/// Signs messages, where there is a key, and looks at the seals of others.
#[derive(Default)]
pub(super) struct FixSigner {
    pair: Option<KeyPair>,
}

impl std::fmt::Debug for FixSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FixSigner").field("key", &self.key()).finish_non_exhaustive()
    }
}

/// A message as it travels.
#[derive(Debug, Serialize, Deserialize)]
struct SealedFix {
    version: u32,
    /// The message, exactly as it was signed.
    body: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seal: Option<FixSeal>,
}

/// Whose word it is.
#[derive(Debug, Serialize, Deserialize)]
struct FixSeal {
    key: String,
    /// In hex digits.
    signature: String,
}

impl FixSigner {
    /// Takes the key from a file with credentials; one that has none was refused by the server
    /// already.
    pub(super) fn of(credentials: Option<&Path>) -> Self {
        let text = credentials.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        let mut lines = text.lines().skip_while(|line| !line.contains(SEED));
        let seed = lines.nth(1).map(str::trim);
        Self { pair: seed.and_then(|seed| KeyPair::from_seed(seed).ok()) }
    }

    /// Returns the key by which others know us.
    pub(super) fn key(&self) -> Option<String> {
        self.pair.as_ref().map(KeyPair::public_key)
    }

    /// Puts a message into its envelope; `place` is signed with it, so that nobody puts it elsewhere.
    pub(super) fn sealed(&self, place: &str, body: &str) -> Vec<u8> {
        let seal = self.pair.as_ref().and_then(|pair| {
            let signature = pair.sign(&signed(place, body)).ok()?;
            let signature = signature.iter().map(|byte| format!("{byte:02x}")).collect();
            Some(FixSeal { key: pair.public_key(), signature })
        });
        let envelope = SealedFix { version: VERSION, body: body.to_owned(), seal };
        // Every part has string keys only, so there is no failing path.
        serde_json::to_vec(&envelope).unwrap_or_default()
    }

    /// Returns the message in an envelope and whose word it is; nothing where it makes no sense or
    /// its seal does not hold.
    pub(super) fn opened(&self, place: &str, bytes: &[u8]) -> Option<(String, FixAuthor)> {
        let SealedFix { version, body, seal } = serde_json::from_slice(bytes).ok()?;
        if version > VERSION {
            return None;
        }
        let Some(seal) = seal else { return Some((body, FixAuthor::Unknown)) };
        let signature = unhex(&seal.signature)?;
        let pair = KeyPair::from_public_key(&seal.key).ok()?;
        pair.verify(&signed(place, &body), &signature).ok()?;
        let is_mine = self.key().is_some_and(|own| own == seal.key);
        Some((body, if is_mine { FixAuthor::Me } else { FixAuthor::Key(seal.key) }))
    }
}

fn signed(place: &str, body: &str) -> Vec<u8> {
    format!("salve fix {VERSION}\n{place}\n{body}").into_bytes()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if text.len() != 128 || !text.is_ascii() {
        return None;
    }
    let pair = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    (0..text.len()).step_by(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signer(pair: KeyPair) -> FixSigner {
        FixSigner { pair: Some(pair) }
    }

    /// **Invariant:** A message is somebody's own word only with a seal of their key on the very
    /// message and its place.
    #[test]
    fn a_seal_holds_for_its_message_at_its_place_only() {
        let (ann, bea) = (signer(KeyPair::new_user()), signer(KeyPair::new_user()));
        let sent = ann.sealed("a.b", "npm ci");
        assert_eq!(ann.opened("a.b", &sent).unwrap().1, FixAuthor::Me);
        let key = FixAuthor::Key(ann.key().unwrap());
        assert_eq!(bea.opened("a.b", &sent).unwrap(), ("npm ci".to_owned(), key));
        assert_eq!(bea.opened("a.c", &sent), None, "elsewhere");
        let text = String::from_utf8(sent).unwrap();
        let forged = [
            text.replace("npm ci", "npm cx"),
            text.replace(&ann.key().unwrap(), &bea.key().unwrap()),
            text.replace("\"signature\":\"", "\"signature\":\"zz"),
            "{}".to_owned(),
        ];
        for forged in forged {
            assert_eq!(bea.opened("a.b", forged.as_bytes()), None, "{forged}");
        }
        let unsigned = FixSigner::default().sealed("a.b", "npm ci");
        assert_eq!(ann.opened("a.b", &unsigned).unwrap().1, FixAuthor::Unknown);
    }

    #[test]
    fn the_key_is_the_one_in_the_credentials() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ann.creds");
        let pair = KeyPair::new_user();
        let seed = pair.seed().unwrap();
        let text = format!(
            "-----BEGIN NATS USER JWT-----\nabc\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        );
        fs::write(&path, text).unwrap();
        assert_eq!(FixSigner::of(Some(&path)).key(), Some(pair.public_key()));
        assert_eq!(FixSigner::of(None).key(), None);
        assert!(!format!("{:?}", FixSigner::of(Some(&path))).contains(&seed));
    }
}
