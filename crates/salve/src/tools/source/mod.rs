//! The source of a tool: found in the declared directories, by what registers it.

mod registration;

use std::path::{Path, PathBuf};

use ignore::WalkBuilder;
use memchr::memmem;

use self::registration::{PieceKind, SourceLanguage, SourcePiece, pieces};
use crate::files::{self, FileKind};

/// How many files are looked at, in all directories.
const MOST_FILES: usize = 50_000;
/// How deep one looks.
const DEEPEST: usize = 24;
/// How much code is shown.
const LONGEST: usize = 16 << 10;
/// How many other places are named.
const MOST_OTHERS: usize = 5;
/// Directories that hold nothing that somebody wrote here.
const FOREIGN: [&str; 12] = [
    "node_modules",
    "target",
    "venv",
    "__pycache__",
    "site-packages",
    "dist",
    "build",
    "vendor",
    "out",
    "coverage",
    "env",
    "bower_components",
];

/// Where a tool is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ToolSource {
    pub(super) file: PathBuf,
    /// The line where it begins, from 1.
    pub(super) line: usize,
    /// What is written there about the tool.
    pub(super) code: String,
    /// Other places that may be meant, each as `file:line`.
    pub(super) others: Vec<String>,
}

/// A file with what is in it about a tool.
struct FoundSource {
    file: PathBuf,
    surest: PieceKind,
    line: usize,
    code: String,
}

/// Returns where a tool is written, looking below these directories.
pub(super) fn find_tool(roots: &[PathBuf], tool: &str) -> Option<ToolSource> {
    if tool.is_empty() {
        return None;
    }
    let mut found: Vec<FoundSource> = Vec::new();
    let mut left = MOST_FILES;
    for root in roots {
        search(root, tool, &mut left, &mut found);
    }
    // A test that names the tool is not where it is written.
    found.sort_by_key(|found| (found.surest, is_test(&found.file), found.file.clone()));
    found.dedup_by(|a, b| a.file == b.file);
    let mut found = found.into_iter();
    let FoundSource { file, line, code, .. } = found.next()?;
    let place = |other: FoundSource| format!("{}:{}", other.file.display(), other.line);
    Some(ToolSource { file, line, code, others: found.take(MOST_OTHERS).map(place).collect() })
}

fn search(root: &Path, tool: &str, left: &mut usize, found: &mut Vec<FoundSource>) {
    let mut walk = WalkBuilder::new(root);
    walk.max_depth(Some(DEEPEST)).filter_entry(|entry| {
        let is_dir = entry.file_type().is_some_and(|kind| kind.is_dir());
        !is_dir || entry.depth() == 0 || is_own(&entry.file_name().to_string_lossy())
    });
    // A directory that cannot be read has nothing for us.
    for entry in walk.build().flatten() {
        let path = entry.path();
        let extension = path.extension().unwrap_or_default().to_string_lossy();
        let Some(language) = SourceLanguage::of(&extension) else { continue };
        if *left == 0 || !entry.file_type().is_some_and(|kind| kind.is_file()) {
            continue;
        }
        *left -= 1;
        found.extend(look(path, language, tool));
    }
}

fn is_own(directory: &str) -> bool {
    !FOREIGN.contains(&directory)
}

fn is_test(file: &Path) -> bool {
    file.components().any(|part| {
        let part = part.as_os_str().to_string_lossy();
        part == "tests"
            || part == "test"
            || part.starts_with("test_")
            || part.contains(".test.")
            || part.contains("_test.")
    })
}

fn look(file: &Path, language: SourceLanguage, tool: &str) -> Option<FoundSource> {
    // Nobody writes a tool by hand in more than that.
    let bytes = files::read_bytes(file, FileKind::Settings).ok()?;
    memmem::find(&bytes, tool.as_bytes())?;
    let text = String::from_utf8(bytes).ok()?;
    let pieces = pieces(language, &text, tool);
    let surest = pieces.iter().map(|piece| piece.kind).min()?;
    let (line, code) = shown(&text, &pieces, surest);
    Some(FoundSource { file: file.to_path_buf(), surest, line, code })
}

/// Returns the pieces as they are shown: whole lines, with marks where something is left out.
fn shown(text: &str, pieces: &[SourcePiece], surest: PieceKind) -> (usize, String) {
    let kept = pieces.iter().filter(|piece| {
        // What only has the same name says nothing where the tool is registered.
        piece.kind != PieceKind::SameName || surest == PieceKind::SameName
    });
    let mut code = String::new();
    let mut first = None;
    for piece in kept {
        let start = text[..piece.bytes.start].rfind('\n').map_or(0, |at| at + 1);
        let end = text[piece.bytes.end..].find('\n').map_or(text.len(), |at| piece.bytes.end + at);
        first.get_or_insert(start);
        if !code.is_empty() {
            code.push_str("\n…\n");
        }
        code.push_str(&text[start..end]);
    }
    if code.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|at| code.is_char_boundary(*at)).unwrap_or_default();
        code.truncate(end);
        code.push_str("\n…");
    }
    let line = text[..first.unwrap_or_default()].matches('\n').count() + 1;
    (line, code)
}

#[cfg(test)]
mod tests;
