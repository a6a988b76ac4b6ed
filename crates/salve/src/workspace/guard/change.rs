//! What differs between a kept repository and the real one, and how it is put back.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha1::{Digest as _, Sha1};

use super::copy;
use crate::files::{FileKind, read_bytes, read_text};
use crate::workspace::error::WorkspaceError;
use crate::workspace::git::{Git, pipe};
use crate::workspace::name::REFS;

/// Files and directories by which git remembers an operation that is under way.
const OPERATIONS: [&str; 9] = [
    "rebase-merge",
    "rebase-apply",
    "sequencer",
    "MERGE_HEAD",
    "MERGE_MSG",
    "MERGE_MODE",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "BISECT_LOG",
];

/// The ref of what was put away with `git stash`.
const STASH: &str = "refs/stash";

/// Files that say how git works in a repository.
const SETTINGS: [&str; 4] = ["config", "config.worktree", "info/attributes", "info/exclude"];

/// A part of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GitPart {
    /// All of it: it was deleted or damaged.
    Repository,
    /// What HEAD names.
    Head,
    /// Branches, tags and other refs.
    Refs,
    /// What was put away with `git stash`.
    Stash,
    /// What is staged.
    Index,
    /// Settings, attributes and ignore rules.
    Settings,
    /// Programs that git runs.
    Hooks,
    /// A rebase, merge or the like that is under way.
    Operation,
    /// A lock that is left.
    Lock,
}

/// One change to a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitChange {
    /// What was changed.
    pub part: GitPart,
    /// How, for people.
    pub text: String,
}

/// Finds all changes.
pub(super) fn changes(
    kept: &Path,
    common: &Path,
    top: &Path,
) -> Result<Vec<GitChange>, WorkspaceError> {
    let mut found = Vec::new();
    let mut add = |part, text: String| found.push(GitChange { part, text });
    let own = own_dir(top, common)?;
    let was = below(kept, common, &own);
    let read = |path: PathBuf| read_bytes(&path, FileKind::Bulk).ok();
    let head = |dir: &Path| {
        let text = read(dir.join("HEAD")).unwrap_or_default();
        String::from_utf8_lossy(&text).trim_end().trim_start_matches("ref: ").to_owned()
    };
    if head(&was) != head(&own) {
        add(GitPart::Head, format!("HEAD was {} and is {}", head(&was), head(&own)));
    }
    let (before, now) = (refs(&Git::private(top, kept.into()))?, refs(&Git::at(top))?);
    let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    for name in names.into_iter().filter(|name| before.get(*name) != now.get(*name)) {
        add(
            if name == STASH { GitPart::Stash } else { GitPart::Refs },
            match (before.get(name), now.get(name)) {
                (Some(was), Some(is)) => format!("{name} was {was} and is {is}"),
                (Some(was), None) => format!("{name} was deleted; it was {was}"),
                (None, is) => format!("{name} is new: {}", is.map_or("", String::as_str)),
            },
        );
    }
    if !same_index(&was, &own, top)? {
        add(GitPart::Index, "what is staged was changed".to_owned());
    }
    for name in SETTINGS.iter().filter(|name| read(kept.join(name)) != read(common.join(name))) {
        add(GitPart::Settings, format!(".git/{name} was changed"));
    }
    let hooks = differing(&kept.join("hooks"), &common.join("hooks"));
    for name in hooks {
        add(GitPart::Hooks, format!(".git/hooks/{name} was changed"));
    }
    for name in OPERATIONS {
        match (was.join(name).exists(), own.join(name).exists()) {
            (true, false) => add(GitPart::Operation, format!("{name} is gone")),
            (false, true) => add(GitPart::Operation, format!("{name} was begun")),
            (true, true) | (false, false) => {}
        }
    }
    if own.join("index.lock").exists() {
        add(GitPart::Lock, "index.lock is there: git runs, or was ended in the midst".to_owned());
    }
    Ok(found)
}

/// Puts one part back.
pub(super) fn put_back(
    part: GitPart,
    kept: &Path,
    common: &Path,
    top: &Path,
) -> Result<(), WorkspaceError> {
    let own = own_dir(top, common)?;
    let was = below(kept, common, &own);
    match part {
        GitPart::Repository => Ok(()),
        GitPart::Head => give(&was.join("HEAD"), &own.join("HEAD")),
        GitPart::Refs => put_refs(kept, common, top, |name| name != STASH),
        GitPart::Stash => put_refs(kept, common, top, |name| name == STASH),
        GitPart::Index => put_index(&was, &own),
        GitPart::Settings => {
            SETTINGS.iter().try_for_each(|name| give(&kept.join(name), &common.join(name)))
        }
        GitPart::Hooks => {
            let (from, to) = (kept.join("hooks"), common.join("hooks"));
            differing(&from, &to).iter().try_for_each(|name| give(&from.join(name), &to.join(name)))
        }
        GitPart::Operation => OPERATIONS.iter().try_for_each(|name| {
            let (from, to) = (was.join(name), own.join(name));
            if from.exists() != to.exists() { give(&from, &to) } else { Ok(()) }
        }),
        GitPart::Lock => give(&was.join("index.lock"), &own.join("index.lock")),
    }
}

/// Gives back the files without which git does not work, where they cannot be read.
pub(super) fn mend_files(kept: &Path, common: &Path) -> Result<(), WorkspaceError> {
    let head = read_text(&common.join("HEAD"), FileKind::Note).unwrap_or_default();
    let is_id = |text: &str| text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !head.starts_with("ref: refs/") && !is_id(head.trim_end()) {
        give(&kept.join("HEAD"), &common.join("HEAD"))?;
    }
    if !is_index_whole(common) {
        give(&kept.join("index"), &common.join("index"))?;
    }
    let listed =
        Git::private(common, common.to_path_buf()).ask(&["config", "--local", "--list"])?;
    if listed.is_none() {
        give(&kept.join("config"), &common.join("config"))?;
    }
    Ok(())
}

/// Returns whether the index is what git wrote, or there is none.
pub(super) fn is_index_whole(common: &Path) -> bool {
    let Ok(index) = read_bytes(&common.join("index"), FileKind::Bulk) else { return true };
    let Some((content, sum)) = index.split_last_chunk::<20>() else { return false };
    // A sum of zeros is none; a longer one is of another kind and not looked at.
    let is_right = || *sum == [0; 20] || Sha1::digest(content)[..] == sum[..];
    let is_sha1 =
        !read_text(&common.join("config"), FileKind::Settings).is_ok_and(|c| c.contains("sha256"));
    content.starts_with(b"DIRC") && (!is_sha1 || is_right())
}

/// Returns the refs but for Salve's own.
fn refs(git: &Git) -> Result<BTreeMap<String, String>, WorkspaceError> {
    let listed = git.read(&["for-each-ref", "--format=%(refname) %(objectname)"])?;
    let text = String::from_utf8_lossy(&listed).into_owned();
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    let ours = format!("{REFS}/");
    let others = pairs.filter(|(name, _)| !name.starts_with(&ours));
    Ok(others.map(|(name, id)| (name.to_owned(), id.to_owned())).collect())
}

/// Sets those refs to what they were, each only if nobody changes it at the same time.
fn put_refs(
    kept: &Path,
    common: &Path,
    top: &Path,
    which: impl Fn(&str) -> bool,
) -> Result<(), WorkspaceError> {
    let git = Git::at(top);
    let (mut before, mut now) = (refs(&Git::private(top, kept.into()))?, refs(&git)?);
    for refs in [&mut before, &mut now] {
        refs.retain(|name, _| which(name));
    }
    git.feed(&["update-ref", "--stdin"], |to| {
        for (name, is) in now.iter().filter(|(name, _)| !before.contains_key(*name)) {
            writeln!(to, "delete {name} {is}").map_err(pipe)?;
        }
        for (name, was) in before.iter().filter(|(name, was)| now.get(*name) != Some(was)) {
            let is = now.get(name).map_or_else(|| "0".repeat(was.len()), Clone::clone);
            writeln!(to, "update {name} {was} {is}").map_err(pipe)?;
        }
        Ok(())
    })?;
    // The stash is nothing without its log.
    let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let mut changed = names.into_iter().filter(|name| before.get(*name) != now.get(*name));
    let log = |dir: &Path, name: &str| dir.join("logs").join(name);
    changed.try_for_each(|name| give(&log(kept, name), &log(common, name)))
}

/// Puts the index back as git does: under its lock.
fn put_index(was: &Path, own: &Path) -> Result<(), WorkspaceError> {
    let lock = own.join("index.lock");
    let io = || WorkspaceError::io(&lock);
    match read_bytes(&was.join("index"), FileKind::Bulk) {
        Ok(content) => {
            let mut file = fs::File::create_new(&lock).map_err(io())?;
            io::Write::write_all(&mut file, &content).map_err(io())?;
            fs::rename(&lock, own.join("index")).map_err(io())
        }
        Err(_) => give(&was.join("index"), &own.join("index")),
    }
}

/// Returns whether the same is staged; that git looked at files meanwhile is no change.
fn same_index(was: &Path, own: &Path, top: &Path) -> Result<bool, WorkspaceError> {
    let index = |dir: &Path| read_bytes(&dir.join("index"), FileKind::Bulk).ok();
    if index(was) == index(own) {
        return Ok(true);
    }
    let staged = |dir: &Path| Git::private(top, dir.into()).ask(&["ls-files", "--stage", "-z"]);
    Ok(staged(was)? == staged(own)?)
}

/// Gives a file or directory back, or removes it if there was none.
fn give(from: &Path, to: &Path) -> Result<(), WorkspaceError> {
    let io = || WorkspaceError::io(to);
    match fs::symlink_metadata(from) {
        Err(_) => remove(to).map_err(io()),
        Ok(meta) if meta.is_dir() => {
            remove(to).map_err(io())?;
            copy::copy(from, to).map_err(io())
        }
        Ok(_) => {
            let mut fresh = to.as_os_str().to_owned();
            fresh.push(".salve-new");
            if let Some(dir) = to.parent() {
                fs::create_dir_all(dir).map_err(io())?;
            }
            fs::copy(from, &fresh).and_then(|_| fs::rename(&fresh, to)).map_err(io())
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    }
}

/// Returns the names of the files that differ in two directories.
fn differing(one: &Path, other: &Path) -> Vec<String> {
    let names = |dir: &Path| -> BTreeSet<String> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let all = &names(one) | &names(other);
    let read = |dir: &Path, name: &str| read_bytes(&dir.join(name), FileKind::Bulk).ok();
    all.into_iter().filter(|name| read(one, name) != read(other, name)).collect()
}

/// Returns the directory with HEAD and index of the working tree at `top`.
fn own_dir(top: &Path, common: &Path) -> Result<PathBuf, WorkspaceError> {
    let dir = Git::at(top).ask(&["rev-parse", "--absolute-git-dir"])?;
    Ok(dir.map_or_else(|| common.to_path_buf(), |dir| super::path(&dir)))
}

/// Returns what stands for `own` in the kept repository.
fn below(kept: &Path, common: &Path, own: &Path) -> PathBuf {
    match own.strip_prefix(common) {
        Ok(rest) if !rest.as_os_str().is_empty() => kept.join(rest),
        Ok(_) | Err(_) => kept.to_path_buf(),
    }
}
