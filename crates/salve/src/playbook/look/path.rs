//! What is at a path that a failure names.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use salve_core::playbook::{PathKind, PathState};

use super::super::Ask;
use super::{git, name_of, procs, relative};

/// Endings that an import leaves out.
const ENDINGS: &[&str] =
    &["", ".js", ".ts", ".tsx", ".jsx", ".mjs", ".cjs", ".json", "/index.js", "/index.ts"];

/// Returns what is at the path, as the failure names it.
pub(super) fn state(ask: &Ask<'_>, name: &str) -> PathState {
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
        inside,
    }
}

/// Resolves `.` and `..` by name.
fn plain(path: &Path) -> PathBuf {
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
