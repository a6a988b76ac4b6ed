//! YAML from files that anybody may have written.

use serde::de::DeserializeOwned;
use serde_saphyr::{Options, budget};

/// Why a text is not the YAML that was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YamlError {
    /// The line, from 1.
    pub line: u64,
    /// The column, from 1.
    pub column: u64,
    /// What is wrong, on one line.
    pub reason: String,
}

/// Reads YAML of at most `largest` bytes, within limits that no honest file reaches.
pub fn parse_yaml<T: DeserializeOwned>(text: &str, largest: usize) -> Result<T, YamlError> {
    let mut options = Options::default();
    options.budget = budget! {
        max_depth: 32,
        max_aliases: 200,
        max_anchors: 200,
        max_documents: 1,
        max_recorded_anchor_events: 20_000,
        max_recorded_anchor_bytes: 1 << 20,
        max_total_scalar_bytes: largest,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let place = error.location();
        let said = error.without_snippet().to_string();
        YamlError {
            line: place.map_or(1, |place| place.line()),
            column: place.map_or(1, |place| place.column()),
            reason: said.lines().next().unwrap_or_default().to_owned(),
        }
    })
}
