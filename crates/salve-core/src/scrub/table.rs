//! The table of token shapes and commands, read from `data/scrub.toml`.

use std::ops::Range;
use std::sync::LazyLock;

use serde::Deserialize;

use super::command::ScrubCommand;
use super::line::ScrubLine;
use super::shape::{CharClass, SecretShape};
use super::value::Body;
use super::words::ScrubWords;

/// The table as shipped; a test checks every row of it.
const TEXT: &str = include_str!("../../data/scrub.toml");

/// One row: a kind of token and what it looks like.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    /// The name that stands in the marker.
    pub(super) kind: String,
    /// How the token begins; each of these is searched for.
    prefix: Vec<String>,
    /// What stands before the prefix and belongs to the token.
    lead: Option<String>,
    /// The shape of what follows the prefix.
    rest: String,
    #[serde(default)]
    body: Body,
    /// Tokens that have to be found.
    #[cfg_attr(not(test), expect(dead_code, reason = "examples are for the tests"))]
    pub(super) hits: Vec<String>,
    /// Texts that have to stay.
    #[serde(default)]
    #[cfg_attr(not(test), expect(dead_code, reason = "examples are for the tests"))]
    pub(super) misses: Vec<String>,
}

/// The whole file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScrubTable {
    pub(super) token: Vec<Row>,
    pub(super) command: Vec<ScrubCommand>,
    pub(super) words: ScrubWords,
}

/// Reads a table.
pub(super) fn parse(text: &str) -> Result<ScrubTable, toml::de::Error> {
    toml::from_str(text)
}

/// Returns the table as shipped.
pub(super) fn table() -> &'static ScrubTable {
    // The file is part of the program; the tests fail when it cannot be read.
    static TABLE: LazyLock<ScrubTable> = LazyLock::new(|| parse(TEXT).unwrap_or_default());
    &TABLE
}

/// A compiled row, for one prefix.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) kind: &'static str,
    pub(super) prefix: &'static str,
    lead: Option<SecretShape>,
    rest: SecretShape,
    body: Body,
}

/// Returns the built-in tokens, one for each prefix.
pub(super) fn tokens() -> &'static [Token] {
    static TOKENS: LazyLock<Vec<Token>> = LazyLock::new(|| {
        let compile = |row: &'static Row| {
            let rest = SecretShape::new(&row.rest).ok();
            let lead = row.lead.as_deref().map(|lead| SecretShape::new(lead).ok());
            row.prefix.iter().filter_map(move |prefix| {
                let lead = match &lead {
                    None => None,
                    Some(shape) => Some(shape.clone()?),
                };
                Some(Token { kind: &row.kind, prefix, lead, rest: rest.clone()?, body: row.body })
            })
        };
        table().token.iter().flat_map(compile).collect()
    });
    &TOKENS
}

impl Token {
    /// Returns what may follow the prefix.
    pub(super) fn next(&self) -> Option<CharClass> {
        self.rest.first()
    }

    /// Returns the secret's place if the prefix found at `hit` begins one.
    pub(super) fn find(&self, line: &ScrubLine<'_>, hit: Range<usize>) -> Option<Range<usize>> {
        if line.text[hit.clone()] != *self.prefix.as_bytes() {
            return None;
        }
        let start = match &self.lead {
            None => hit.start,
            Some(lead) => {
                // What colours the token is no part of it.
                let floor = line.after_colour(hit.start);
                hit.start - lead.len_before(&line.text[floor..hit.start])?
            }
        };
        // What goes on from a host name is no word of its own.
        let wordy = self.prefix.as_bytes()[0].is_ascii_alphanumeric();
        if (wordy || self.lead.is_some()) && !line.begins(start) && self.rest.is_all_secret() {
            return None;
        }
        let rest = self.rest.find(line.text, hit.end)?;
        if line.is_in_base64(start) {
            return None;
        }
        let body = if hit.start > start && rest.end - hit.end < 16 {
            start..rest.end
        } else {
            rest.clone()
        };
        if !self.body.accepts(&line.text[body]) {
            return None;
        }
        Some(if self.rest.is_all_secret() { start..rest.end } else { rest })
    }
}
