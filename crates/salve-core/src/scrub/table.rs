//! The table of token shapes, read from `data/scrub.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

use super::shape::Shape;

/// The table as shipped; a test checks every row of it.
const TEXT: &str = include_str!("../../data/scrub.toml");

/// One row: a kind of token and what it looks like.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    /// The name that stands in the marker.
    pub(super) kind: String,
    /// How the token begins; each of these is searched for.
    pub(super) prefix: Vec<String>,
    /// The shape of what follows the prefix.
    pub(super) rest: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    token: Vec<Row>,
}

/// A compiled row.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) kind: &'static str,
    pub(super) prefix: &'static str,
    pub(super) rest: Shape,
}

/// Returns the built-in tokens, one for each prefix.
pub(super) fn tokens() -> &'static [Token] {
    static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
        // The file is part of the program; the tests fail when it cannot be read.
        toml::from_str::<File>(TEXT).map(|file| file.token).unwrap_or_default()
    });
    static TOKENS: LazyLock<Vec<Token>> = LazyLock::new(|| {
        let compile = |row: &'static Row| {
            let shape = Shape::new(&row.rest).ok();
            row.prefix.iter().filter_map(move |prefix| {
                Some(Token { kind: &row.kind, prefix, rest: shape.clone()? })
            })
        };
        ROWS.iter().flat_map(compile).collect()
    });
    &TOKENS
}
