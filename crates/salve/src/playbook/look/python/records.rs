//! What was installed into a virtual environment, by the lists that installers leave behind.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use salve_core::playbook::Venv;
use sha2::{Digest as _, Sha256};

use super::super::super::FailedSubject;
use super::{normalised, site_packages};
use crate::files::{FileKind, Links, read_bytes_where, read_text};

/// How many distributions are looked at, and how many files of each.
const DISTRIBUTIONS: usize = 1_000;
const FILES: usize = 2_000;

/// Returns what is installed: normalised name, version, and where its lists are.
pub(super) fn distributions(packages: &Path) -> Vec<(String, String, PathBuf)> {
    let entries = fs::read_dir(packages).into_iter().flatten().flatten();
    let found = entries.take(DISTRIBUTIONS * 4).filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let (name, version) = name.strip_suffix(".dist-info")?.rsplit_once('-')?;
        Some((normalised(name), version.to_owned(), entry.path()))
    });
    found.take(DISTRIBUTIONS).collect()
}

/// Returns the distributions that the output names and whose files are not those that were
/// installed: one of its files differs from its hash, or is gone.
pub(super) fn damaged(ask: &FailedSubject<'_>, venv: &Venv, output: &str) -> Vec<(String, String)> {
    let tops = named(output);
    if tops.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for packages in site_packages(&ask.root.join(&venv.path)) {
        for (name, version, lists) in distributions(&packages) {
            let record = read_text(&lists.join("RECORD"), FileKind::Document).unwrap_or_default();
            let own = |line: &str| tops.iter().any(|top| is_of(line, top));
            if record.lines().any(own) && is_damaged(&packages, &record) {
                found.push((name, version));
            }
        }
    }
    found
}

/// Returns the first part of each path below `site-packages` that the output names, and of each
/// module that it does not find.
fn named(output: &str) -> BTreeSet<String> {
    let mut tops = BTreeSet::new();
    for (at, mark) in output.match_indices("site-packages/") {
        let rest = &output[at + mark.len()..];
        let end = rest.find(['/', '"', '\'', ':', ' ', '\n', ')']).unwrap_or(rest.len());
        tops.insert(rest[..end].trim_end_matches(".py").to_owned());
    }
    for (at, mark) in output.match_indices("No module named ") {
        let rest = output[at + mark.len()..].trim_start_matches('\'');
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        tops.insert(rest[..rest.find(|c| !is_name(c)).unwrap_or(rest.len())].to_owned());
    }
    tops.retain(|top| !top.is_empty());
    tops
}

/// Returns whether a line of a list is about a file of the module.
fn is_of(line: &str, top: &str) -> bool {
    line.strip_prefix(top).is_some_and(|rest| rest.starts_with('/') || rest.starts_with(".py,"))
}

/// Returns whether a source file of the list is gone or another than was installed.
fn is_damaged(packages: &Path, record: &str) -> bool {
    let lines = record.lines().filter_map(|line| {
        let (path, hash) = line.split_once(",sha256=")?;
        let hash = hash.split(',').next()?;
        // Programs are rewritten when they are installed, and their list keeps the old hash.
        (path.ends_with(".py") && !path.starts_with("..")).then_some((path, hash))
    });
    lines.take(FILES).any(|(path, hash)| {
        let path = packages.join(path);
        match read_bytes_where(&path, FileKind::Document, Links::Follow) {
            Ok(bytes) => URL_SAFE_NO_PAD.encode(Sha256::digest(&bytes)) != hash,
            Err(error) => error.is_absent(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_another_than_was_installed_is_damage() {
        let packages = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = packages.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("shop/__init__.py", "one = 1\n");
        let hash = URL_SAFE_NO_PAD.encode(Sha256::digest(b"one = 1\n"));
        let record = format!("shop/__init__.py,sha256={hash},8\n../bin/shop,sha256=x,1\n");
        assert!(!is_damaged(packages.path(), &record));
        write("shop/__init__.py", "one = (1\n");
        assert!(is_damaged(packages.path(), &record));
        fs::remove_file(packages.path().join("shop/__init__.py")).unwrap();
        assert!(is_damaged(packages.path(), &record));
    }

    #[test]
    fn the_output_names_distributions_by_their_files_and_parts() {
        let output = "  File \"/p/.venv/lib/python3.11/site-packages/flask/app.py\", line 3\n\
                      /p/.venv/lib/python3.11/site-packages/six.py:9: in <module>\n\
                      ModuleNotFoundError: No module named 'werkzeug.core'\n\
                      ModuleNotFoundError: No module named 'other'\n\
                      /p/.venv/bin/python: No module named uvicorn";
        let want = ["flask", "other", "six", "uvicorn", "werkzeug"].map(str::to_owned);
        assert_eq!(named(output), BTreeSet::from(want));
    }
}
