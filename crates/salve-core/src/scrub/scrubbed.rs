//! Text that is safe to keep.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A text without secrets: what the scrubber made, and the only text that may be stored or shown.
///
/// There is no way from a `String` to a `Scrubbed` but through [`Scrubber`](super::Scrubber), so
/// a type that holds `Scrubbed` cannot be given raw text by mistake. `Deserialize` is for reading
/// back what was stored: such text went through the scrubber before it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Scrubbed(String);

impl Scrubbed {
    /// Wraps what a scrubber has just written.
    pub(super) fn from_scrubber(text: String) -> Self {
        Self(text)
    }

    /// Wraps a text that stands in the program itself and so holds nobody's secret.
    pub fn literal(text: &'static str) -> Self {
        Self(text.to_owned())
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text as a plain `String`.
    pub fn into_string(self) -> String {
        self.0
    }

    /// Returns the first `max` bytes, or a little less so that no character is cut.
    pub fn head(&self, max: usize) -> Self {
        let mut end = max.min(self.0.len());
        while !self.0.is_char_boundary(end) {
            end -= 1;
        }
        Self(self.0[..end].to_owned())
    }

    /// Returns the last `max` bytes, or a little less so that no character is cut.
    pub fn tail(&self, max: usize) -> Self {
        let mut start = self.0.len().saturating_sub(max);
        while !self.0.is_char_boundary(start) {
            start += 1;
        }
        Self(self.0[start..].to_owned())
    }

    /// Returns the lines, each as safe to keep as the whole.
    pub fn lines(&self) -> impl Iterator<Item = Self> {
        self.0.lines().map(|line| Self(line.to_owned()))
    }
}

impl fmt::Display for Scrubbed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for Scrubbed {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for Scrubbed {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for Scrubbed {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_and_tail_never_cut_a_character() {
        let text = Scrubbed::literal("aé€b");
        let heads: Vec<_> = (0..=8).map(|n| text.head(n).into_string()).collect();
        assert_eq!(heads, ["", "a", "a", "aé", "aé", "aé", "aé€", "aé€b", "aé€b"]);
        let tails: Vec<_> = (0..=8).map(|n| text.tail(n).into_string()).collect();
        assert_eq!(tails, ["", "b", "b", "b", "€b", "€b", "é€b", "aé€b", "aé€b"]);
    }
}
