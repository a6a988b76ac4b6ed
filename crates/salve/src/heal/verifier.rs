//! What a change did to what judges it: tests, their settings and scripts.

use std::ffi::OsString;
use std::path::Path;

use crate::files::{FileKind, read_bytes};
use salve_core::check::tamper::{self, Edit, Examined, Weakening};

/// A file below the project's root and what it was; nothing where there was no such file.
pub type KeptVerifierFile = (String, Option<Vec<u8>>);

/// Examines what became of these files, for a check that is run by `argv`.
pub fn examine(root: &Path, files: &[KeptVerifierFile], argv: &[OsString]) -> Examined {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let texts = files.iter().map(|(path, before)| {
        (before.clone().map(text), read_bytes(&root.join(path), FileKind::Bulk).ok().map(text))
    });
    let texts: Vec<(Option<String>, Option<String>)> = texts.collect();
    let edits = files.iter().zip(&texts).map(|((path, _), (before, after))| Edit {
        path,
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
