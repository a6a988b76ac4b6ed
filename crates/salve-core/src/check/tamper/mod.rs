//! Whether a repair changed what judges it, and how.
//!
//! The verifier of a check is more than its tests: what tests compare with, the settings of the
//! runner, the linter and the type checker, the scripts that start them, the remarks in the code
//! that tell them to look away. [`examine`] tells which files of a change belong to it, what they
//! were before — so that the repaired state can be judged by the verifier as it was — and, for
//! people, exactly what was weakened.
//!
//! Files are told by path and text alone. What is not recognised as weaker is still judged by the
//! previous verifier, because any change to it counts as touching it; the findings explain, they
//! do not decide.

mod assertion;
mod aware;
mod cases;
mod compare;
mod config;
mod hazard;
mod inline;
mod manifest;
mod path;
mod shell;
mod suppress;
#[cfg(test)]
mod tests;
mod text;

use std::collections::BTreeSet;

use compare::{ComparedFile, Note, Whole, compare};
use config::Diff;
use text::{Language, SourceText};

/// The largest file whose text is looked at.
const LARGEST: usize = 512 * 1024;

/// The most findings that are kept.
const MOST: usize = 200;

/// The words of a check's command.
pub type CheckWords<'a> = &'a [String];

/// One file of a change.
#[derive(Clone, Copy, Debug)]
pub struct Edit<'a> {
    /// Its path below the project's root, with `/` between the parts.
    pub path: &'a str,
    /// What it was, or `None` if it did not exist.
    pub before: Option<&'a str>,
    /// What it is, or `None` if it is gone.
    pub after: Option<&'a str>,
}

/// A part of what judges a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum VerifierPart {
    Tests,
    /// Tests in the same file as the code they test.
    InlineTests,
    /// What tests compare with.
    Snapshot,
    /// Settings of the test runner, or what it loads by itself.
    Runner,
    /// Settings of a linter or formatter.
    Lint,
    /// Settings of a type checker.
    Types,
    /// What runs for every change in the project's forge or before a commit.
    Ci,
    /// A script that the check runs.
    Script,
    /// The scripts and settings in a manifest.
    Manifest,
    /// A remark that tells a tool to look away.
    Remark,
    /// An installed package, the runner itself included.
    Installed,
    /// Code that behaves otherwise under test.
    Aware,
}

impl VerifierPart {
    /// Returns the name for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            VerifierPart::Tests | VerifierPart::InlineTests => "tests",
            VerifierPart::Snapshot => "expected output",
            VerifierPart::Runner => "test runner settings",
            VerifierPart::Lint => "lint settings",
            VerifierPart::Types => "type checker settings",
            VerifierPart::Ci => "continuous integration",
            VerifierPart::Script => "check script",
            VerifierPart::Manifest => "manifest",
            VerifierPart::Remark => "suppression",
            VerifierPart::Installed => "installed package",
            VerifierPart::Aware => "code that knows of tests",
        }
    }
}

/// How a file is put back to the verifier as it was, with the rest of the repair in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Previous {
    /// By taking the file as it was before the change, or leaving it out if there was none.
    AsBefore,
    /// By writing this, in which only what judges is as it was.
    Text(String),
    /// It cannot be told what judges in it.
    Unknown,
}

/// A file of the verifier that a change touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifierTouch {
    pub path: String,
    /// The part of the verifier.
    pub part: VerifierPart,
    /// What it was.
    pub previous: Previous,
}

/// A way in which the verifier judges less than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weakening {
    /// The file.
    pub path: String,
    /// The line in the file as it is now, or as it was if what stood there is gone.
    pub line: Option<u32>,
    /// What was weakened, for people; it quotes the file, so it is not yet scrubbed.
    pub what: String,
}

/// What a change does to the verifier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examined {
    /// The files of the verifier that it touches.
    pub touched: Vec<VerifierTouch>,
    /// How the verifier judges less than before.
    pub weakenings: Vec<Weakening>,
}

/// Returns which part of the verifier a file is by its path alone, if it is one.
pub fn part(path: &str, words: CheckWords<'_>) -> Option<VerifierPart> {
    path::part(path, words)
}

/// Examines a whole change.
pub fn examine(edits: &[Edit<'_>], words: CheckWords<'_>) -> Examined {
    let gained = gained(edits, words);
    let mut examined = Examined::default();
    for edit in edits.iter().filter(|edit| edit.before != edit.after) {
        let Some((touch, notes)) = one(edit, words, &gained) else { continue };
        examined.touched.push(touch);
        for Note { line, what } in notes {
            if examined.weakenings.len() < MOST {
                examined.weakenings.push(Weakening { path: edit.path.to_owned(), line, what });
            }
        }
    }
    examined
}

/// Returns the names of tests that some file has now and did not have, for those that moved.
fn gained(edits: &[Edit<'_>], words: CheckWords<'_>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for edit in edits {
        let Some(language) = Language::of(edit.path).filter(|_| is_small(edit)) else { continue };
        if path::part(edit.path, words) != Some(VerifierPart::Tests) && language != Language::Rust {
            continue;
        }
        let [before, after] =
            [edit.before, edit.after].map(|text| ComparedFile::new(text.unwrap_or(""), language));
        let had: BTreeSet<&str> = before.names().collect();
        names.extend(after.names().filter(|name| !had.contains(name)).map(str::to_owned));
    }
    names
}

fn is_small(edit: &Edit<'_>) -> bool {
    [edit.before, edit.after].into_iter().flatten().all(|text| text.len() <= LARGEST)
}

/// Examines one file.
fn one(
    edit: &Edit<'_>,
    words: CheckWords<'_>,
    gained: &BTreeSet<String>,
) -> Option<(VerifierTouch, Vec<Note>)> {
    let Some(part) = path::part(edit.path, words) else { return code(edit, gained) };
    let touch = |previous| VerifierTouch { path: edit.path.to_owned(), part, previous };
    if !is_small(edit) {
        return Some((touch(Previous::AsBefore), Vec::new()));
    }
    let (before, after) = (edit.before.unwrap_or(""), edit.after.unwrap_or(""));
    if part == VerifierPart::Manifest && edit.before.is_some() && edit.after.is_some() {
        return manifest(edit.path, before, after)
            .map(|(previous, notes)| (touch(previous), notes));
    }
    let mut notes = match (part, Language::of(edit.path)) {
        (VerifierPart::Tests | VerifierPart::Runner | VerifierPart::Script, Some(language))
            if is_code(part, edit.path) =>
        {
            test_file(edit, language, gained)
        }
        _ => Vec::new(),
    };
    match part {
        VerifierPart::Runner
        | VerifierPart::Lint
        | VerifierPart::Types
        | VerifierPart::Manifest => {
            let diff = Diff::new(before, after);
            notes.extend(config::notes(&diff));
            notes.extend(shell::notes(&diff).into_iter().filter(|_| !edit.path.ends_with(".py")));
        }
        VerifierPart::Ci | VerifierPart::Script => {
            notes.extend(shell::notes(&Diff::new(before, after)))
        }
        VerifierPart::Snapshot if edit.before.is_some() && edit.after.is_some() => {
            notes.push(Note { line: None, what: "what tests compare with was changed".to_owned() });
        }
        VerifierPart::Installed => {
            notes.push(Note {
                line: None,
                what: "an installed package was changed by hand".to_owned(),
            });
        }
        VerifierPart::Snapshot
        | VerifierPart::Tests
        | VerifierPart::InlineTests
        | VerifierPart::Remark
        | VerifierPart::Aware => {}
    }
    let code = Language::of(edit.path).is_some();
    if edit.after.is_none() && part != VerifierPart::Ci && !(code && part == VerifierPart::Tests) {
        notes.push(Note { line: None, what: format!("{} are gone", part.as_str()) });
    }
    Some((touch(Previous::AsBefore), notes))
}

/// Tells whether a file of this part is compared test by test.
fn is_code(part: VerifierPart, path: &str) -> bool {
    part == VerifierPart::Tests || (part == VerifierPart::Runner && path.ends_with(".py"))
}

/// Compares a file of tests with what it was.
fn test_file(edit: &Edit<'_>, language: Language, gained: &BTreeSet<String>) -> Vec<Note> {
    let before = ComparedFile::new(edit.before.unwrap_or(""), language);
    let after = ComparedFile::new(edit.after.unwrap_or(""), language);
    if edit.after.is_none() {
        let lost = before.names().any(|name| !gained.contains(name));
        let moved = before.has_tests() && !lost;
        let gone = Note { line: None, what: "the file of tests is gone".to_owned() };
        return if moved { Vec::new() } else { vec![gone] };
    }
    let mut notes = compare(&before, &after, gained, Whole::Tests);
    notes.extend(suppress::notes(before.source(), after.source()));
    notes
}

/// Compares what judges in a manifest; nothing if that is as it was.
fn manifest(path: &str, before: &str, after: &str) -> Option<(Previous, Vec<Note>)> {
    let Some(sections) = manifest::sections(path, before, after) else {
        let what = "the manifest cannot be read".to_owned();
        return Some((Previous::AsBefore, vec![Note { line: None, what }]));
    };
    if sections.before == sections.after {
        return None;
    }
    let diff = Diff::new(&sections.before, &sections.after);
    let mut notes = config::notes(&diff);
    notes.extend(shell::notes(&diff));
    // The lines are those of an extract, not of the file.
    notes.iter_mut().for_each(|note| note.line = None);
    Some((Previous::Text(sections.merged), notes))
}

/// Examines a file that is not the verifier's own but may hold some of it.
fn code(edit: &Edit<'_>, gained: &BTreeSet<String>) -> Option<(VerifierTouch, Vec<Note>)> {
    let language = Language::of(edit.path).filter(|_| is_small(edit))?;
    let before = ComparedFile::new(edit.before.unwrap_or(""), language);
    let after = ComparedFile::new(edit.after.unwrap_or(""), language);
    let (was, is) = (before.source(), after.source());
    let touch = |part, previous| VerifierTouch { path: edit.path.to_owned(), part, previous };
    let aware = aware::notes(was, is);
    let remarks = suppress::notes(was, is);
    let inline = language == Language::Rust && inline::differ(was, is);
    if !aware.is_empty() {
        let notes = aware.into_iter().chain(remarks).collect();
        return Some((touch(VerifierPart::Aware, Previous::Unknown), notes));
    }
    if inline || (language == Language::Rust && before.names().ne(after.names())) {
        let mut notes = compare(&before, &after, gained, Whole::Mixed);
        notes.extend(remarks);
        let merged = edit.after.and_then(|_| inline::merged(was, is));
        let previous = match merged.filter(|_| inline) {
            Some(text) => {
                // What was told to look away elsewhere in the file goes, too.
                let source = SourceText::new(&text, language);
                Previous::Text(suppress::without(was, &source).unwrap_or_else(|| text.clone()))
            }
            None => Previous::Unknown,
        };
        return Some((touch(VerifierPart::InlineTests, previous), notes));
    }
    let text = suppress::without(was, is)?;
    Some((touch(VerifierPart::Remark, Previous::Text(text)), remarks))
}
