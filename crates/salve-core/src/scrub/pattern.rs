//! The user's own patterns.

use regex_automata::meta::Regex;
use regex_automata::util::syntax;

use super::line::{Find, rank};
use super::lines::Lines;

/// Why a user's pattern cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadPattern {
    /// The kind would not fit into a marker.
    #[error("the kind `{0}` of a scrub pattern is not made of a-z, 0-9 and `-`")]
    Kind(String),
    /// The regular expression cannot be read.
    #[error("the scrub pattern `{kind}` is not a regular expression")]
    Regex {
        /// The pattern's kind.
        kind: String,
        /// What is wrong with it.
        #[source]
        source: Box<regex_automata::meta::BuildError>,
    },
}

/// The user's own patterns, compiled.
#[derive(Clone, Debug, Default)]
pub(super) struct ScrubPatterns {
    list: Vec<(String, Regex)>,
}

impl ScrubPatterns {
    pub(super) fn new<'a>(
        patterns: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, BadPattern> {
        let compile = |(kind, regex): (&str, &str)| {
            let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
            if kind.is_empty() || kind.len() > 40 || !kind.bytes().all(fits) {
                return Err(BadPattern::Kind(kind.to_owned()));
            }
            let bytes = syntax::Config::new().utf8(false);
            let config = Regex::config().utf8_empty(false).nfa_size_limit(Some(1 << 20));
            let regex = Regex::builder().configure(config).syntax(bytes).build(regex);
            let bad = |e| BadPattern::Regex { kind: kind.to_owned(), source: Box::new(e) };
            Ok((kind.to_owned(), regex.map_err(bad)?))
        };
        Ok(Self { list: patterns.into_iter().map(compile).collect::<Result<_, _>>()? })
    }

    /// Adds what the patterns match in `text`, line by line.
    pub(super) fn find<'k>(&'k self, text: &[u8], finds: &mut Vec<Find<'k>>) {
        if self.list.is_empty() {
            return;
        }
        let mut lines = Lines::new(text);
        while let Some(place) = lines.next_line() {
            for (kind, regex) in &self.list {
                for groups in regex.captures_iter(&text[place.clone()]) {
                    let whole = groups.get_match().map(|m| m.span());
                    let Some(span) = groups.get_group(1).or(whole) else { continue };
                    let place = place.start + span.start..place.start + span.end;
                    finds.push(Find { place, kind, rank: rank::SHAPE });
                }
            }
        }
    }
}
