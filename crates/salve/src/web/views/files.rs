//! What failures and repairs left behind in files: evidence, transcripts and changes.

use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use salve_core::id::IncidentId;
use salve_core::repair;
use salve_core::scrub::Scrubber;
use schemars::JsonSchema;
use serde::Serialize;

use super::{ProjectReader, ViewError};
use crate::files::{Links, open_regular};
use crate::workspace::{AttemptChange, Moment, Workspace};

/// How much of the end of a log is shown.
const LOG_BYTES: u64 = 128 * 1024;

/// The end of a log or of evidence, line by line.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::web) struct TextTail {
    /// The file, from the project's root.
    pub(in crate::web) path: String,
    /// Whether the beginning is left out.
    pub(in crate::web) is_cut: bool,
    /// How many bytes of the file lie before the first line.
    #[serde(skip)]
    pub(in crate::web) first_offset: u64,
    pub(in crate::web) lines: Vec<String>,
}

/// What one attempt changed.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::web) struct AttemptDiff {
    pub(in crate::web) attempt: u32,
    /// Where it is now.
    pub(in crate::web) place: ChangePlace,
    /// The change as a patch, without secrets.
    pub(in crate::web) patch: String,
}

/// Where the change of an attempt is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::web) enum ChangePlace {
    /// In the project's files.
    InFiles,
    /// A person took it back.
    TakenBack,
    /// It was never brought into the files, or taken back because it did not help.
    LeftOut,
}

/// Reads what an incident left behind in files.
#[derive(Debug)]
pub(in crate::web) struct IncidentFileReader<'r> {
    reader: &'r mut ProjectReader,
}

impl<'r> IncidentFileReader<'r> {
    pub(super) fn new(reader: &'r mut ProjectReader) -> Self {
        Self { reader }
    }

    /// Returns the end of what a failure left behind, if it is still there.
    pub(in crate::web) fn evidence(&mut self, given: &str) -> Result<Option<TextTail>, ViewError> {
        let view = self.reader.incidents().view(given)?;
        let path = repair::evidence_path(view.subject().kind, view.id());
        tail_of(self.reader.scrubber(), &self.reader.project().root().join(&path), path)
    }

    /// Returns the end of what agents of ours said about an incident, if one worked on it.
    pub(in crate::web) fn transcript(
        &mut self,
        given: &str,
    ) -> Result<Option<TextTail>, ViewError> {
        let path = repair::transcript_path(self.reader.incidents().view(given)?.id());
        tail_of(self.reader.scrubber(), &self.reader.project().root().join(&path), path)
    }

    /// Returns what each attempt of an incident changed, as far as snapshots are kept.
    pub(in crate::web) fn diffs(&mut self, id: IncidentId) -> Result<Vec<AttemptDiff>, ViewError> {
        let kept = Workspace::open(self.reader.project())?;
        let mut diffs = Vec::new();
        let standing = kept.attempts().standing(id)?;
        for change in kept.attempts().changes(id)? {
            let place = match change.after.moment {
                _ if standing.contains(&change) => ChangePlace::InFiles,
                Moment::InLayer => ChangePlace::LeftOut,
                Moment::Before | Moment::After | Moment::Undone(_) => ChangePlace::TakenBack,
            };
            let AttemptChange { before, after } = change;
            let (Some(before), Some(after)) = (kept.load(before)?, kept.load(after)?) else {
                continue;
            };
            let patch = self.reader.scrubber().scrub(&kept.diff(&before, &after)?).into_string();
            if !patch.is_empty() {
                diffs.push(AttemptDiff { attempt: before.name().attempt, place, patch });
            }
        }
        Ok(diffs)
    }
}

/// Returns the end of a file without its secrets, if there is one.
pub(super) fn tail_of(
    scrubber: &Scrubber,
    path: &Path,
    shown: String,
) -> Result<Option<TextTail>, ViewError> {
    match read_tail(path) {
        Ok((text, first_offset)) => {
            let text = scrubber.scrub(&text).into_string();
            let lines = text.lines().map(str::to_owned).collect();
            Ok(Some(TextTail { path: shown, is_cut: first_offset > 0, first_offset, lines }))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ViewError::File(shown, error)),
    }
}

/// Reads the last whole lines of a regular file, and tells how many bytes lie before them.
fn read_tail(path: &Path) -> io::Result<(String, u64)> {
    // A link here could lead to any file of the user's, and a pipe would keep us waiting.
    let mut file = open_regular(path, Links::Refuse)?;
    let from = file.metadata()?.len().saturating_sub(LOG_BYTES);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(LOG_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    match text.split_once('\n') {
        Some((broken, whole)) if from > 0 => {
            Ok((whole.to_owned(), from.saturating_add(broken.len() as u64 + 1)))
        }
        _ => Ok((text, from)),
    }
}
