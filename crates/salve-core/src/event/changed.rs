//! A file that a remedy changed.

use serde::{Deserialize, Serialize};

use crate::scrub::Scrubbed;

/// The most files that one event names.
const MOST: usize = 200;

/// A file that was found changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangedFile {
    /// Its path below the project's root.
    pub path: Scrubbed,
    /// Lines added and removed, if they could be counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<u32>,
}

impl ChangedFile {
    /// Returns as many files as one event names, and how many more there are.
    pub fn some(mut files: Vec<Self>) -> (Vec<Self>, u32) {
        let more = files.len().saturating_sub(MOST);
        files.truncate(MOST);
        (files, u32::try_from(more).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_names_a_bounded_number_of_files() {
        let file = ChangedFile { path: Scrubbed::literal("a"), lines: None };
        assert_eq!(ChangedFile::some(vec![file.clone(); 3]).1, 0);
        let (named, more) = ChangedFile::some(vec![file; MOST + 7]);
        assert_eq!((named.len(), more), (MOST, 7));
    }
}
