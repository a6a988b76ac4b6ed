//! A failure's identity: normalised text, signature and class.

mod anchor;
mod clean;
mod hole;
mod lexer;
mod path;
mod peel;
mod pick;
mod rules;
mod shape;
mod vocabulary;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use anchor::{AnchorError, AnchorRow, Example};
pub use clean::clean;
pub use lexer::mask;
pub use rules::{RuleError, Rules, parse_anchors};
pub use shape::ShapeError;

use crate::class::Class;
use crate::id::Signature;

/// The version of [`Fingerprint`] and of the way signatures are made.
pub const VERSION: u32 = 1;

/// What is known about a failure besides its output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hints {
    /// The exit code.
    pub exit_code: Option<i32>,
    /// The signal that ended the process, as in `KILL` or `SIGKILL`.
    pub signal: Option<String>,
    /// The tool that failed.
    pub tool: Option<String>,
}

/// The identity of one failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The version of this value.
    pub version: u32,
    /// The first 16 hex digits of the SHA-256 of `normalized`.
    pub signature: Signature,
    /// The kind of failure.
    pub class: Class,
    /// What a person calls the error, as in `TypeError` or `EADDRINUSE`.
    pub error_type: String,
    /// The line that names the failure, without decorations.
    pub key_line: String,
    /// The text that is hashed: what identifies the failure and nothing that varies.
    pub normalized: String,
    /// The known failure this is, as in `port.in_use("3000")`.
    pub identity: Option<String>,
}

impl Rules {
    /// Returns the fingerprint of a failure's output.
    pub fn fingerprint(&self, text: &str, _hints: &Hints) -> Fingerprint {
        let text = clean(text);
        let text = pick::Text::new(&text);
        let found = pick::candidates(self, &text);
        let best = pick::pick(&found);
        let key_line = best.map_or("", |best| peel::peel(text.line(best.line)).body);
        match best.and_then(|best| best.anchor.as_ref()) {
            Some((anchor, values)) => {
                let row = &self.anchors[*anchor];
                let identity = anchor::identity(&row.id, values);
                Fingerprint {
                    version: VERSION,
                    signature: sign(&identity),
                    class: row.class,
                    error_type: row.error_type.clone(),
                    key_line: key_line.to_owned(),
                    normalized: identity.clone(),
                    identity: Some(identity),
                }
            }
            None => {
                let normalized = mask(peel::peel(key_line).core);
                Fingerprint {
                    version: VERSION,
                    signature: sign(&normalized),
                    class: Class::Unknown,
                    error_type: String::new(),
                    key_line: key_line.to_owned(),
                    normalized,
                    identity: None,
                }
            }
        }
    }

    /// Returns the identity of a known failure.
    pub fn recognise(&self, text: &str) -> Option<String> {
        self.fingerprint(text, &Hints::default()).identity
    }

    /// Returns whether the anchor `id` matches anything in `text`.
    pub fn matches(&self, id: &str, text: &str) -> bool {
        let text = clean(text);
        let found = pick::candidates(self, &pick::Text::new(&text));
        found
            .iter()
            .any(|c| c.anchor.as_ref().is_some_and(|(anchor, _)| self.anchors[*anchor].id == id))
    }
}

/// Returns the signature of a normalised text.
pub fn sign(normalized: &str) -> Signature {
    let digest = Sha256::digest(normalized.as_bytes());
    let head = digest.iter().take(8).fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    Signature(head)
}
