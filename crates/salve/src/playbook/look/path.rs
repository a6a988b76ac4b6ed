//! What is at a path that a failure names.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use salve_core::playbook::{PathKind, PathState, UnfitScript};

use super::super::FailedSubject;
use super::{find, git, name_of, procs, relative};

/// Endings that an import leaves out.
const ENDINGS: &[&str] =
    &["", ".js", ".ts", ".tsx", ".jsx", ".mjs", ".cjs", ".json", "/index.js", "/index.ts"];

/// Returns what is at the path, as the failure names it.
pub(super) fn state(ask: &FailedSubject<'_>, name: &str) -> PathState {
    let named = Path::new(name.strip_prefix("file://").unwrap_or(name));
    let mut path = plain(&ask.dir.join(named));
    if fs::symlink_metadata(&path).is_err() {
        let text = path.display().to_string();
        let full = ENDINGS.iter().map(|ending| PathBuf::from(format!("{text}{ending}")));
        path = full.into_iter().find(|path| path.exists()).unwrap_or(path);
    }
    let inside = relative(ask.root, &path);
    let meta = fs::symlink_metadata(&path).ok();
    let kind = match &meta {
        None => PathKind::Missing,
        Some(meta) if meta.is_file() => PathKind::File(meta.len()),
        Some(meta) if meta.is_dir() => PathKind::Directory,
        Some(_) => PathKind::Other,
    };
    let nearest = path.ancestors().find(|path| path.exists()).unwrap_or(ask.root);
    let owner = fs::metadata(nearest).ok();
    let tracked = |path: &str| {
        let endings = ENDINGS.iter().map(|ending| format!("{path}{ending}"));
        endings.into_iter().any(|path| git::is_tracked(ask.root, &path))
    };
    PathState {
        tracked: inside.as_deref().is_some_and(|path| !path.is_empty() && tracked(path)),
        ignored: inside.as_deref().is_some_and(|p| !p.is_empty() && git::is_ignored(ask.root, p)),
        kind,
        nearest: relative(ask.root, nearest)
            .filter(|path| !path.is_empty())
            .unwrap_or_else(|| nearest.display().to_string()),
        owner: owner.as_ref().map(|meta| name_of(meta.uid())).unwrap_or_default(),
        mode: owner.map_or(0, |meta| meta.mode() & 0o7777),
        hold: if meta.is_some() && inside.is_some() {
            procs::hold(ask, &path)
        } else {
            Default::default()
        },
        unfit: match kind {
            PathKind::File(_) if inside.is_some() => unfit(&path),
            PathKind::File(_) | PathKind::Missing | PathKind::Directory | PathKind::Other => None,
        },
        inside,
    }
}

/// Returns why the system cannot run a script, by its first line.
fn unfit(path: &Path) -> Option<UnfitScript> {
    /// What the kernel reads of a script's first line.
    const MOST: u64 = 256;
    let mut head = Vec::new();
    fs::File::open(path).ok()?.take(MOST).read_to_end(&mut head).ok()?;
    let line = head.split(|byte| *byte == b'\n').next()?.strip_prefix(b"#!")?;
    if line.ends_with(b"\r") {
        return Some(UnfitScript::WindowsLines);
    }
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace();
    let program = words.next()?;
    if !program.starts_with('/') || !Path::new(program).exists() {
        return Some(UnfitScript::NoInterpreter(program.to_owned()));
    }
    let by_env = program.ends_with("/env");
    let named = words.find(|word| !word.starts_with('-') && !word.contains('='))?;
    (by_env && find(named).is_none()).then(|| UnfitScript::NoInterpreter(named.to_owned()))
}

/// Resolves `.` and `..` by name.
pub(super) fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(out.pop()),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => out.push(part),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_the_system_cannot_run_is_known_by_its_first_line() {
        let dir = tempfile::tempdir().unwrap();
        let missing = |name: &str| Some(UnfitScript::NoInterpreter(name.to_owned()));
        let rows = [
            ("#!/bin/sh\necho\n", None),
            ("#!/bin/sh -e\n", None),
            ("#!/usr/bin/env sh\n", None),
            ("#!/usr/bin/env -S sh -e\n", None),
            ("echo\r\n", None),
            ("#!/bin/sh\r\necho\r\n", Some(UnfitScript::WindowsLines)),
            ("#!/opt/gone/python3\n", missing("/opt/gone/python3")),
            ("#!/usr/bin/env no-such-program-here\n", missing("no-such-program-here")),
        ];
        for (text, want) in rows {
            let path = dir.path().join("run.sh");
            fs::write(&path, text).unwrap();
            assert_eq!(unfit(&path), want, "{text:?}");
        }
    }
}
