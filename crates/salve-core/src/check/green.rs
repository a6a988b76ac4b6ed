//! When a check was green last, and on which files.
//!
//! A check that is red on the very files on which it was green a moment ago was not broken by an
//! edit: it is run once more before anything is made of it.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::event::Digest;

/// The version of what is written.
const VERSION: u32 = 1;

/// How long ago a moment ago is at most: later, too much beside the files may have changed.
const A_MOMENT: Duration = Duration::from_secs(60 * 60);

/// A run of a check that was green, as it is kept for the next run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GreenRun {
    version: u32,
    /// When it was green.
    at: Timestamp,
    /// The files before it ran, and after; a check may write some itself.
    trees: Vec<Digest>,
}

impl GreenRun {
    /// Makes the record of a run that was green.
    pub fn new(at: Timestamp, trees: Vec<Digest>) -> Self {
        Self { version: VERSION, at, trees }
    }

    /// Reads a record; nothing if it is not one, or is of another version.
    pub fn parse(text: &str) -> Option<Self> {
        let read: Self = serde_json::from_str(text).ok()?;
        (read.version == VERSION).then_some(read)
    }

    /// Returns the record as it is written.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns how long ago it was green on these very files, if that was a moment ago.
    pub fn ago_on(&self, tree: Digest, now: Timestamp) -> Option<Duration> {
        let ago = Duration::try_from(now.duration_since(self.at)).ok()?;
        (self.trees.contains(&tree) && ago <= A_MOMENT).then_some(ago)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_files_a_moment_ago_speak_against_an_edit() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let (before, after, other) =
            (Digest::of(&[b"1"]), Digest::of(&[b"2"]), Digest::of(&[b"3"]));
        let green = GreenRun::new(at(1_000), vec![before, after]);
        let green = GreenRun::parse(&green.to_text()).unwrap();
        let rows = [
            (before, 1_012, Some(12)),
            (after, 1_012, Some(12)),
            (other, 1_012, None),
            (before, 1_000 + 3_601, None),
            // The clock went back.
            (before, 900, None),
        ];
        for (tree, now, want) in rows {
            let ago = green.ago_on(tree, at(now)).map(|ago| ago.as_secs());
            assert_eq!(ago, want, "{tree:?} at {now}");
        }
        assert_eq!(
            GreenRun::parse(&green.to_text().replace("\"version\":1", "\"version\":2")),
            None
        );
    }
}
