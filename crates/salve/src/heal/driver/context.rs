//! What is collected for an agent about a red check.

use std::path::{Component, Path, PathBuf};

use crate::files::{FileKind, read_text};
use salve_core::check::{Results, SourceExcerpt};
use salve_core::scrub::{Scrubbed, Scrubber};

/// How many lines around a place are told.
const AROUND: usize = 30;
/// How many places, files and failed cases are told.
const MOST: usize = 12;
/// The files in which projects tell how they are built.
const NOTES: [&str; 5] =
    ["ARCHITECTURE.md", "docs/architecture.md", "CONTRIBUTING.md", "CLAUDE.md", "AGENTS.md"];

/// Looks at the project's files for an agent.
pub(super) struct ContextReader<'a> {
    pub(super) root: &'a Path,
    /// Where the check runs.
    pub(super) dir: &'a Path,
    pub(super) scrubber: &'a Scrubber,
}

impl ContextReader<'_> {
    /// Returns the places that a failure names, with the lines around each.
    pub(super) fn places(&self, results: &Results) -> Vec<SourceExcerpt> {
        let failed =
            results.failed.iter().filter_map(|case| Some((case.file.as_deref()?, case.line?)));
        let named =
            results.places.iter().filter_map(|place| Some((place.file.as_str(), place.line?)));
        let mut told: Vec<(&str, u32)> = Vec::new();
        for (file, line) in named.chain(failed) {
            let is_near = |(known, at): &(&str, u32)| {
                *known == file && at.abs_diff(line) <= u32::try_from(AROUND).unwrap_or(0)
            };
            if told.len() < MOST && !told.iter().any(is_near) {
                told.push((file, line));
            }
        }
        told.iter().filter_map(|(file, line)| self.around(file, *line)).collect()
    }

    /// Returns the beginnings of the files that a failure names.
    pub(super) fn related(&self, results: &Results) -> Vec<SourceExcerpt> {
        let files = results.files().into_iter().take(MOST);
        files.filter_map(|file| self.whole(file)).collect()
    }

    /// Returns the project's own notes on how it is built.
    pub(super) fn notes(&self) -> Vec<SourceExcerpt> {
        NOTES.iter().filter_map(|name| self.piece(&self.root.join(name), 1, usize::MAX)).collect()
    }

    /// Returns what failed, by name.
    pub(super) fn failed(&self, results: &Results) -> Vec<Scrubbed> {
        let name = |case: &salve_core::check::FailedCase| match &case.file {
            Some(file) if !case.is_whole_file() => format!("{} ({file})", case.name),
            Some(_) | None => case.name.clone(),
        };
        results.failed.iter().take(MOST).map(|case| self.scrubber.scrub(&name(case))).collect()
    }

    fn around(&self, file: &str, line: u32) -> Option<SourceExcerpt> {
        let at = usize::try_from(line).ok()?;
        self.piece(&self.dir.join(file), at.saturating_sub(AROUND).max(1), 2 * AROUND)
    }

    fn whole(&self, file: &str) -> Option<SourceExcerpt> {
        self.piece(&self.dir.join(file), 1, usize::MAX)
    }

    /// Returns lines of a text file of the project, from `from` on.
    fn piece(&self, path: &Path, from: usize, lines: usize) -> Option<SourceExcerpt> {
        let path = self.own(path)?;
        let text = read_text(&path, FileKind::Settings).ok()?;
        let kept: Vec<&str> = text.lines().skip(from.saturating_sub(1)).take(lines).collect();
        let below = path.strip_prefix(self.root).ok()?.to_string_lossy().into_owned();
        Some(SourceExcerpt {
            path: self.scrubber.scrub(&below),
            from: u32::try_from(from).unwrap_or(u32::MAX),
            text: self.scrubber.scrub(&kept.join("\n")),
        })
    }

    /// Returns the real path of a file if it is the project's own to tell: below its root, and
    /// neither Salve's, git's, nor one of those that hold secrets.
    fn own(&self, path: &Path) -> Option<PathBuf> {
        let path = path.canonicalize().ok()?;
        let below = path.strip_prefix(self.root).ok()?;
        let is_hidden = |part: Component<'_>| {
            let part = part.as_os_str().to_string_lossy();
            part == ".git" || part == ".salve" || part.starts_with(".env")
        };
        (!below.components().any(is_hidden)).then_some(path)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use salve_core::check;
    use salve_core::scrub::ScrubKey;

    use super::*;

    #[test]
    fn only_the_projects_own_text_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("p");
        fs::create_dir_all(root.join(".salve")).unwrap();
        fs::write(root.join("../outside.py"), "secret").unwrap();
        fs::write(root.join(".env.local"), "KEY=1").unwrap();
        fs::write(root.join("bad.bin"), [0xff, 0xfe, 0]).unwrap();
        fs::write(root.join("m.py"), "one\ntwo\nthree\n").unwrap();
        std::os::unix::fs::symlink(root.join("../outside.py"), root.join("link.py")).unwrap();
        let scrubber = Scrubber::new(ScrubKey::new([1; 32]));
        let reader = ContextReader { root: &root, dir: &root, scrubber: &scrubber };
        for hidden in ["../outside.py", "link.py", ".env.local", "bad.bin", "none.py", "."] {
            assert_eq!(reader.whole(hidden), None, "{hidden}");
        }
        let told = reader.around("m.py", 2).unwrap();
        assert_eq!((told.path.as_str(), told.from), ("m.py", 1));
        assert_eq!(told.text.as_str(), "one\ntwo\nthree");
    }

    #[test]
    fn a_place_is_told_once() {
        let output = "m.py:2: error: bad  [x]\nm.py:3: error: worse  [x]\n\
                      Found 2 errors in 1 file (checked 1 source file)\n";
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::write(root.join("m.py"), "one\ntwo\nthree\n").unwrap();
        let scrubber = Scrubber::new(ScrubKey::new([1; 32]));
        let reader = ContextReader { root: &root, dir: &root, scrubber: &scrubber };
        let results = check::read(output);
        assert_eq!(reader.places(&results).len(), 1, "{results:?}");
        assert_eq!(reader.failed(&results).len(), 2);
    }
}
