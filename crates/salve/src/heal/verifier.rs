//! What a change did to what judges it: tests, their settings and scripts.

use std::ffi::OsString;
use std::path::Path;

use crate::files::{FileKind, read_bytes};
use salve_core::check::tamper::{self, Edit, Examined, Weakening};

/// A file below the project's root and what it was; nothing where there was no such file.
pub type KeptVerifierFile = (String, Option<Vec<u8>>);

/// Examines what became of these files, for a check that is run by `argv`.
pub fn examine(root: &Path, files: &[KeptVerifierFile], argv: &[OsString]) -> Examined {
    let now = |path: &str| read_bytes(&root.join(path), FileKind::Bulk).ok();
    let states = files.iter().map(|(path, before)| ExaminedFile {
        path: path.clone(),
        before: before.clone(),
        after: now(path),
    });
    examine_states(&states.collect::<Vec<_>>(), argv)
}

/// A file below the project's root in two states; nothing where there is no such file.
#[derive(Clone, Debug)]
pub struct ExaminedFile {
    pub path: String,
    /// What it held before.
    pub before: Option<Vec<u8>>,
    /// What it holds after.
    pub after: Option<Vec<u8>>,
}

/// Examines what became of files between two states, for a check that is run by `argv`.
pub fn examine_states(files: &[ExaminedFile], argv: &[OsString]) -> Examined {
    let text = |bytes: &Option<Vec<u8>>| {
        bytes.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    };
    let texts: Vec<(Option<String>, Option<String>)> =
        files.iter().map(|file| (text(&file.before), text(&file.after))).collect();
    let edits = files.iter().zip(&texts).map(|(file, (before, after))| Edit {
        path: &file.path,
        before: before.as_deref(),
        after: after.as_deref(),
    });
    let words = argv.iter().map(|word| word.to_string_lossy().into_owned());
    tamper::examine(&edits.collect::<Vec<_>>(), &words.collect::<Vec<_>>())
}

/// Returns a weakening in words.
pub fn said(weakening: &Weakening) -> String {
    let Weakening { path, line, what } = weakening;
    match line {
        Some(line) => format!("{path}:{line}: {what}"),
        None => format!("{path}: {what}"),
    }
}
