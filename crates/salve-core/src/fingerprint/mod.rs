//! A failure's identity: normalised text, signature and class.
//!
//! The output is cleaned of what a terminal would not show; one pass finds the lines
//! that may name the failure; those are peeled of log decorations and judged; the best one is the
//! key line. If a row of the anchor table knows it, its identity is the row's id with the values
//! that identify, as in `port.in_use("3000")`; otherwise it is the line with what varies masked.
//! The signature is a hash of that identity.

mod anchor;
mod built_in;
mod clean;
mod compared;
mod essence;
mod flat;
mod frames;
mod head;
mod heading;
mod hole;
mod lexer;
mod logger;
mod path;
mod peel;
mod pick;
mod rules;
mod shape;
mod stamp;
mod table;
#[cfg(test)]
mod tables;
mod telling;
#[cfg(test)]
mod tests;
mod text;
mod unknown;
mod window;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use clean::clean;
pub(crate) use compared::without_compared;
pub use heading::undecorated;
pub use lexer::mask;
pub use rules::{FingerprintRules, RecognisedRow, RowError, Rows};
pub use table::pattern::ShapeError;
pub use table::row::{AnchorError, AnchorRow, ClassError, ClassRow, Example};
pub use window::{WHOLE, Window};

use crate::class::Class;
use crate::id::Signature;
use anchor::Anchor;
use peel::Peeled;
use pick::KeyLineCandidate;
use text::OutputText;

/// The version of [`Fingerprint`] and of the way signatures are made.
pub const VERSION: u32 = 1;

/// What is known about a failure besides its output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hints {
    pub exit_code: Option<i32>,
    /// The signal that ended the process, as in `KILL` or `SIGKILL`.
    pub signal: Option<String>,
    /// The tool that failed.
    pub tool: Option<String>,
}

impl Hints {
    /// Returns the class that the exit alone proves.
    fn class(&self) -> Option<Class> {
        let signal = self.signal.as_deref().map(|name| name.trim_start_matches("SIG"));
        match (self.exit_code, signal) {
            (Some(127), _) => Some(Class::MissingTool),
            (Some(126), _) => Some(Class::Permission),
            (Some(134 | 136 | 139), _) | (_, Some("SEGV" | "ABRT" | "BUS" | "FPE" | "ILL")) => {
                Some(Class::RuntimeError)
            }
            // Killed is killed: by whom and why only the output can tell.
            _ => None,
        }
    }

    /// Returns the identity of a failure that printed nothing.
    fn silent(&self) -> String {
        let mut text = "no output".to_owned();
        for (word, value) in [
            ("tool", self.tool.clone()),
            ("exit", self.exit_code.map(|code| code.to_string())),
            (
                "signal",
                self.signal.as_deref().map(|name| name.trim_start_matches("SIG").to_owned()),
            ),
        ] {
            if let Some(value) = value {
                text.push_str(&format!(", {word} {value}"));
            }
        }
        text
    }
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

impl FingerprintRules {
    /// Returns the fingerprint of a failure's output.
    ///
    /// Of a long output only what may matter is looked at; see [`Window`].
    pub fn fingerprint(&self, text: &str, hints: &Hints) -> Fingerprint {
        if text.len() <= WHOLE {
            return self.judge(text, hints);
        }
        let mut window = Window::new(self);
        window.push(text.as_bytes());
        self.judge(&window.finish(), hints)
    }

    /// Makes the fingerprint of a text that is not too long.
    fn judge(&self, text: &str, hints: &Hints) -> Fingerprint {
        let text = clean(text);
        let text = without_hashes(&text);
        let text = OutputText::new(&text);
        let found = pick::candidates(self, &text);
        let best = pick::pick(&found).map(|best| self.beneath(&text, &found, best));
        let Some(KeyLineCandidate { line, anchor, .. }) = best else {
            return self.unnamed_failure(&text, hints);
        };
        let row = anchor.as_ref().and_then(|(row, values)| Some((self.anchor(*row)?, values)));
        match row {
            Some((row, values)) => known(&text, *line, row, values),
            None => self.unknown(&text, *line, hints),
        }
    }

    /// Returns what made a test fail, where its surroundings did; else `best` itself.
    ///
    /// A test that cannot reach its database says nothing about the test. What the code under
    /// test does wrong stays the test's failure.
    fn beneath<'c>(
        &self,
        text: &OutputText<'_>,
        found: &'c [KeyLineCandidate],
        best: &'c KeyLineCandidate,
    ) -> &'c KeyLineCandidate {
        let class = |found: &KeyLineCandidate| Some(self.anchor(found.row()?)?.class);
        if class(best) != Some(Class::TestFailure) {
            return best;
        }
        let reported = found.iter().filter(|next| pick::reports(text, best.line, next.line));
        let surroundings = reported
            .filter(|next| class(next).is_some_and(|class| class.categories().recovery.is_some()));
        surroundings
            .reduce(|best, next| if next.score > best.score { next } else { best })
            .unwrap_or(best)
    }

    /// Makes the fingerprint of a failure that no anchor knows.
    fn unknown(&self, text: &OutputText<'_>, line: usize, hints: &Hints) -> Fingerprint {
        let peeled = peel::peel(text.line(line));
        let normalized = unknown::normalize(text, line);
        let class = self.class_of(text, &peeled, &normalized, hints);
        Fingerprint {
            version: VERSION,
            signature: sign(&normalized),
            class,
            error_type: head::error_type(&peeled).map_or_else(|| class.to_string(), str::to_owned),
            key_line: shown(peeled.body),
            normalized,
            identity: None,
        }
    }

    /// Returns the class of a failure that no anchor knows.
    fn class_of(
        &self,
        text: &OutputText<'_>,
        peeled: &Peeled<'_>,
        normalized: &str,
        hints: &Hints,
    ) -> Class {
        // Of a panic whose message is on the next line, the head says nothing.
        let body = Some(peeled.body).filter(|body| !body.contains(" panicked at "));
        let class = body.and_then(|body| self.classify(&flat::flatten(body)));
        let class = class.or_else(|| self.classify(&flat::flatten(normalized)));
        let form = || head::form(peeled).filter(|form| *form >= head::NAMED);
        match class.or_else(|| form().map(|_| Class::RuntimeError)) {
            // The plainest class says less than anything else that says anything.
            plain @ (None | Some(Class::RuntimeError)) => self
                .class_of_name(peeled)
                .or_else(|| hints.class())
                .or_else(|| plain.filter(|_| unknown::in_tests(text)).map(|_| Class::TestFailure))
                .or_else(|| broke_build(text, peeled).then_some(Class::BuildError))
                .or(plain)
                .unwrap_or(Class::Unknown),
            Some(class) => class,
        }
    }

    /// Returns the class that the words in an error's name tell, as in `QuotaExceededError`.
    fn class_of_name(&self, peeled: &Peeled<'_>) -> Option<Class> {
        let class = self.classify(&unknown::part_camel_case(head::error_type(peeled)?))?;
        // What is wrong with a value or with the settings a name alone does not tell.
        (!matches!(class, Class::RuntimeError | Class::ConfigError)).then_some(class)
    }

    /// Makes the fingerprint of an output in which no line looks like a failure.
    fn unnamed_failure(&self, text: &OutputText<'_>, hints: &Hints) -> Fingerprint {
        let says = |line: &usize| peel::peel(text.line(*line)).body.contains(char::is_alphanumeric);
        let last = (0..text.len()).rev().find(says);
        if let Some(line) = last {
            return self.unknown(text, line, hints);
        }
        let normalized = hints.silent();
        let class = hints.class().unwrap_or(Class::Unknown);
        Fingerprint {
            version: VERSION,
            signature: sign(&normalized),
            class,
            error_type: class.to_string(),
            key_line: String::new(),
            normalized,
            identity: None,
        }
    }

    /// Returns the row that names the failure in `text`, and the identifying values without frame.
    fn winner(&self, text: &str) -> Option<(&str, Vec<String>)> {
        let text = clean(text);
        let found = pick::candidates(self, &OutputText::new(&text));
        let (anchor, values) = pick::pick(&found)?.anchor.clone()?;
        Some((&self.anchor(anchor)?.id, values))
    }

    /// Returns whether row `number` of the anchors matches anything in `text`.
    fn row_matches(&self, number: usize, text: &str) -> bool {
        let text = clean(text);
        let found = pick::candidates(self, &OutputText::new(&text));
        found.iter().filter_map(|found| found.anchor.as_ref()).any(|(row, _)| *row == number)
    }
}

/// Returns whether a build tool tells of a failure that is no error of the language itself.
fn broke_build(text: &OutputText<'_>, peeled: &Peeled<'_>) -> bool {
    let own = head::error_type(peeled).is_some_and(telling::is_empty);
    !own && unknown::in_build(text)
}

/// Makes the fingerprint of a failure that an anchor knows.
fn known(text: &OutputText<'_>, line: usize, row: &Anchor, values: &[String]) -> Fingerprint {
    let mut values = values.to_vec();
    if row.frame
        && !values.iter().any(|value| is_member(value))
        && let Some(frame) = frames::top(text, line)
    {
        let (function, file) = unknown::place(&frame);
        values.extend([function, file]);
    }
    let identity = anchor::identity(&row.id, &values);
    Fingerprint {
        version: VERSION,
        signature: sign(&identity),
        class: row.class,
        error_type: row.error_type.clone(),
        key_line: shown(peel::peel(text.line(line)).body),
        normalized: identity.clone(),
        identity: Some(identity),
    }
}

/// Returns whether a value is a member that a person named, as in `config.plugins`, and so tells
/// where it is used; `e.map` is what a minifier left of it.
fn is_member(value: &str) -> bool {
    let named = |part: &str| {
        part.len() > 2
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$'))
    };
    value.contains('.') && value.split('.').all(named)
}

/// Returns a scrubbed text whose marks name the kind of a secret and no more.
///
/// The hash in a mark differs from secret to secret and from key to key; a failure does not.
fn without_hashes(text: &str) -> Cow<'_, str> {
    const MARK: &str = "[secret:";
    if memchr::memmem::find(text.as_bytes(), MARK.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(MARK) {
        let (before, mark) = rest.split_at(at + MARK.len());
        out.push_str(before);
        let end = mark.find([']', '\n']).unwrap_or(mark.len());
        let kind = mark[..end].split(':').next().unwrap_or_default();
        out.push_str(kind);
        rest = &mark[end..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Returns a line as it is shown: not longer than a person reads.
fn shown(line: &str) -> String {
    const LONGEST: usize = 1000;
    if line.len() <= LONGEST {
        return line.to_owned();
    }
    let end = (0..=LONGEST).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", &line[..end])
}

/// Returns the signature of a failure that no row knows, by the line that names it alone.
pub fn sign_unnamed(key_line: &str) -> Signature {
    let text = clean(key_line);
    sign(&unknown::normalize(&OutputText::new(&text), 0))
}

/// Returns the signature of a normalised text.
pub fn sign(normalized: &str) -> Signature {
    let digest = Sha256::digest(normalized.as_bytes());
    let head = digest.iter().take(8).fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    Signature(head)
}
