//! The variables with which a check works in a shadow as in the real tree.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::ShadowRoots;
use crate::files::{FileKind, read_bytes};
use crate::workspace::tree::WorkingTree;

/// Variables that name the real place of programs and packages, as they should.
const KEPT: [&str; 5] = ["PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "NODE_EXTRA_CA_CERTS", "_"];

/// Keeps tools from changing the packages that the shadow shares, and from staying on.
const FIXED: [(&str, &str); 2] = [("UV_NO_SYNC", "1"), ("NX_DAEMON", "false")];

/// The same for pnpm; npm complains about them.
const PNPM: [&str; 2] = ["npm_config_verify_deps_before_run", "pnpm_config_verify_deps_before_run"];

/// Returns the variables to add to our own.
pub(super) fn variables(ground: &ShadowRoots, tree: &WorkingTree) -> Vec<(OsString, OsString)> {
    let mut env: Vec<(OsString, OsString)> = std::env::vars_os()
        .filter(|(name, _)| !KEPT.iter().any(|kept| name == kept))
        .map(|(name, value)| (name, ground.to_shadow(&value), value))
        .filter(|(_, there, here)| there != here)
        .map(|(name, there, _)| (name, there))
        .collect();
    let mut set = |name: &str, value: OsString| {
        env.retain(|(known, _)| known != name);
        env.push((name.into(), value));
    };
    for (name, value) in FIXED {
        set(name, value.into());
    }
    set("PWD", ground.root.clone().into_os_string());
    if let Some(dir) = temporary(ground) {
        set("TMPDIR", dir.into_os_string());
    }
    let mut names = tree.items.keys().map(|path| Path::new(path).file_name());
    if names.clone().any(|name| name == Some(OsStr::new("pnpm-lock.yaml"))) {
        PNPM.iter().for_each(|name| set(name, "false".into()));
    }
    if names.any(|name| name == Some(OsStr::new("Cargo.toml"))) {
        set("CARGO_TARGET_DIR", ground.root.join("target").into_os_string());
    }
    let sources = sources(ground, tree);
    if !sources.is_empty() {
        let known = std::env::var_os("PYTHONPATH").unwrap_or_default();
        let known = std::env::split_paths(&known).filter(|path| !path.as_os_str().is_empty());
        let known = known.map(|path| ground.path(&path));
        // A path with a colon cannot be named at all.
        if let Ok(joined) = std::env::join_paths(sources.into_iter().chain(known)) {
            set("PYTHONPATH", joined);
        }
    }
    env
}

/// Makes a directory for temporary files where nothing new may be made among the others, since the
/// real tree lies there.
fn temporary(ground: &ShadowRoots) -> Option<PathBuf> {
    let usual = std::env::temp_dir();
    let usual = usual.canonicalize().unwrap_or(usual);
    let dir = ground.top.parent()?.join("tmp");
    (ground.real_top.starts_with(usual) && fs::create_dir(&dir).is_ok()).then_some(dir)
}

/// Returns where the shadow's own Python sources are that are installed by their real place.
fn sources(ground: &ShadowRoots, tree: &WorkingTree) -> Vec<PathBuf> {
    let inside = tree.hidden.iter().map(|path| ground.real.join(path));
    let active = std::env::var_os("VIRTUAL_ENV").map(PathBuf::from);
    let environments = inside.chain(active).filter(|dir| dir.join("pyvenv.cfg").is_file());
    let mut found: Vec<PathBuf> = Vec::new();
    for environment in environments {
        for version in entries(&environment.join("lib")) {
            for file in entries(&version.join("site-packages")) {
                found.extend(named(&file, &ground.real_top).iter().map(|path| ground.path(path)));
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Returns the directories below `top` from which a file among installed packages has sources
/// imported.
fn named(file: &Path, top: &Path) -> Vec<PathBuf> {
    let name = file.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let is_finder = name.starts_with("__editable__") && name.ends_with("_finder.py");
    if !is_finder && !name.ends_with(".pth") {
        return Vec::new();
    }
    let text = read_bytes(file, FileKind::Document).unwrap_or_default();
    let pieces = text.split(|&byte| if is_finder { b"'\"".contains(&byte) } else { byte == b'\n' });
    let paths = pieces.map(|piece| Path::new(OsStr::from_bytes(piece.trim_ascii())));
    let below = paths.filter(|path| path.starts_with(top) && path.exists());
    // A finder names the packages, a path file where they are.
    let dir = |path: &Path| {
        if is_finder { path.parent().map(Path::to_path_buf) } else { Some(path.into()) }
    };
    below.filter_map(dir).collect()
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
