//! Two changes of one file brought together, where they do not touch the same lines.

use std::fs;
use std::path::Path;

use crate::workspace::error::WorkspaceError;
use crate::workspace::git::Git;
use crate::workspace::scratch_dir::ScratchDir;

/// The largest file that is merged; larger ones are no source code.
const LARGEST: usize = 4 << 20;

/// Three versions of one file.
pub(super) struct Versions<'a> {
    /// What both changes began with.
    pub(super) base: &'a [u8],
    /// What stands in the tree.
    pub(super) ours: &'a [u8],
    /// What is to be brought in.
    pub(super) theirs: &'a [u8],
}

/// Returns the file with both changes; nothing if they conflict.
pub(super) fn merge(
    git: &Git,
    scratch: &Path,
    versions: &Versions<'_>,
) -> Result<Option<Vec<u8>>, WorkspaceError> {
    let all = [("ours", versions.ours), ("base", versions.base), ("theirs", versions.theirs)];
    let is_text = |text: &[u8]| text.len() <= LARGEST && memchr::memchr(0, text).is_none();
    if !all.iter().all(|(_, text)| is_text(text)) {
        return Ok(None);
    }
    let lair = ScratchDir::make(scratch)?;
    let paths = all.map(|(name, _)| lair.dir().join(name));
    for (path, (_, text)) in paths.iter().zip(all) {
        fs::write(path, text).map_err(WorkspaceError::io(path))?;
    }
    let words = paths.each_ref().map(|path| path.to_string_lossy());
    // It exits with the number of conflicts.
    git.ask(&["merge-file", "-p", "-q", &words[0], &words[1], &words[2]])
}
