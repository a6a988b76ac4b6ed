//! Where git finds programs, besides a directory called `.git`.
//!
//! A repository's settings are read, and nothing that they name is run or looked up: not by git either,
//! which is only asked to take a file's text apart.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::find::{SealedPlace, closed, leading};
use super::view::{TreeEntry, TreeView};
use crate::files::{FileKind, read_bytes};
use crate::process::quiet_git;

/// What in a repository makes git run programs or look for them elsewhere.
const IN_REPOSITORY: [&str; 6] =
    ["config", "config.worktree", "commondir", "HEAD", "hooks", "info"];

/// The same where others may fetch into the repository.
pub(super) const IN_BARE: [&str; 5] = ["config", "config.worktree", "commondir", "hooks", "info"];

/// What makes a directory a repository to git, wherever it is.
pub(super) const BARE: [&str; 3] = ["HEAD", "objects", "refs"];

/// The last parts of settings whose values git runs, and of those that name files which make it do so.
const PROGRAMS: [&str; 32] = [
    "alternaterefscommand",
    "askpass",
    "attributesfile",
    "clean",
    "cmd",
    "command",
    "difffilter",
    "driver",
    "editor",
    "external",
    "fsmonitor",
    "gitproxy",
    "helper",
    "packobjectshook",
    "pager",
    "path",
    "process",
    "program",
    "receivepack",
    "sendmailcmd",
    "sequence",
    "smtpserver",
    "smudge",
    "sshcommand",
    "templatedir",
    "textconv",
    "tocmd",
    "cccmd",
    "update",
    "uploadpack",
    "vcs",
    "defaultkeycommand",
];

/// The hooks that git knows, for a directory of them that holds other things too.
const HOOKS: [&str; 28] = [
    "applypatch-msg",
    "commit-msg",
    "fsmonitor-watchman",
    "p4-changelist",
    "p4-post-changelist",
    "p4-pre-submit",
    "p4-prepare-changelist",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-receive",
    "post-rewrite",
    "post-update",
    "pre-applypatch",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "pre-receive",
    "prepare-commit-msg",
    "proc-receive",
    "push-to-checkout",
    "reference-transaction",
    "sendemail-validate",
    "update",
];

/// How many files of settings are read for one repository.
const MOST_FILES: usize = 50;

/// Returns the places of a repository: of what its `.git` says, if that is a file, and of its settings.
pub(super) fn of_repository(top: &Path, dot_git: &Path, view: &impl TreeView) -> Vec<SealedPlace> {
    let mut found = Vec::new();
    let own = named_in(dot_git, b"gitdir:", top).unwrap_or_else(|| dot_git.to_path_buf());
    let common = named_in(&own.join("commondir"), b"", &own);
    let dirs: Vec<PathBuf> = [own].into_iter().chain(common).collect();
    for dir in &dirs {
        found.extend(IN_REPOSITORY.map(|name| leading(dir.join(name))));
        if dir != dot_git {
            found.push(closed(dir.clone()));
        }
    }
    let configs = |dir: &PathBuf| ["config", "config.worktree"].map(|name| dir.join(name));
    let mut files: Vec<PathBuf> = dirs.iter().flat_map(configs).collect();
    let mut read = 0;
    while let Some(file) = files.get(read).cloned().filter(|_| read < MOST_FILES) {
        read += 1;
        for (key, value) in settings(top, &file) {
            let last = key.rsplit('.').next().unwrap_or_default();
            let is_include = key.starts_with("include.") || key.starts_with("includeif.");
            if last == "path" && is_include {
                let included = file.parent().unwrap_or(top).join(expanded(&value));
                found.push(leading(included.clone()));
                files.push(included);
            } else if last == "hookspath" {
                found.extend(hooks(top, &expanded(&value)));
            } else if last == "templatedir" {
                found.push(leading(top.join(expanded(&value))));
            } else if PROGRAMS.contains(&last) || key.starts_with("alias.") {
                found.extend(files_in(top, &value, view).into_iter().map(leading));
            }
        }
    }
    found
}

/// Tells whether a path has the name of something that every repository has.
pub fn is_part_of_bare(path: &Path) -> bool {
    BARE.iter().any(|name| path.file_name() == Some(OsStr::new(name)))
}

/// Returns what in a directory makes git run programs, if git takes the directory for a repository.
pub(super) fn of_bare(dir: &Path, entries: &[(OsString, TreeEntry)]) -> Vec<PathBuf> {
    let has = |name: &&str| entries.iter().any(|(other, _)| other == *name);
    let is_bare = BARE.iter().all(has);
    if is_bare { IN_BARE.map(|name| dir.join(name)).to_vec() } else { Vec::new() }
}

/// Returns the directories of hooks that the user's and the machine's settings name for every
/// repository.
pub(super) fn users_hooks(top: &Path) -> Vec<PathBuf> {
    let ask = |scope: &str| {
        let mut git = quiet_git(top);
        git.args(["config", scope, "--includes", "--get", "core.hooksPath"]).stdin(Stdio::null());
        let output = git.stderr(Stdio::null()).output().ok()?;
        let value = output.stdout.trim_ascii_end();
        (!value.is_empty()).then(|| expanded(OsStr::from_bytes(value)))
    };
    ["--global", "--system"].into_iter().filter_map(ask).collect()
}

/// Returns the places of a directory of hooks, told from the top of a working tree.
pub(super) fn hooks(top: &Path, dir: &Path) -> Vec<SealedPlace> {
    let dir: PathBuf = top.join(dir).components().collect();
    if top.starts_with(&dir) {
        // All of the tree is not sealed for the sake of what has these names.
        HOOKS.map(|name| leading(dir.join(name))).to_vec()
    } else {
        vec![leading(dir)]
    }
}

/// Returns where a file of git's says that something is, after `word`.
fn named_in(file: &Path, word: &[u8], base: &Path) -> Option<PathBuf> {
    let text = read_bytes(&real(file), FileKind::Note).ok()?;
    let name = text.strip_prefix(word)?.trim_ascii();
    (!name.is_empty()).then(|| base.join(OsStr::from_bytes(name)))
}

/// Returns the settings in a file by their names in small letters. Git takes its text apart, and opens
/// nothing by itself.
fn settings(top: &Path, file: &Path) -> Vec<(String, OsString)> {
    let Ok(text) = read_bytes(&real(file), FileKind::Document) else { return Vec::new() };
    let mut git = quiet_git(top);
    git.args(["config", "--file", "-", "--no-includes", "--list", "-z"]);
    let spawned = git.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let Ok(mut child) = spawned else { return Vec::new() };
    let stdin = child.stdin.take();
    let output = std::thread::scope(|scope| {
        // It may stop reading at what it does not understand.
        scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(&text)));
        child.wait_with_output()
    });
    let listed = output.map(|output| output.stdout).unwrap_or_default();
    let entry = |part: &[u8]| {
        let end = memchr::memchr(b'\n', part)?;
        let name = String::from_utf8_lossy(&part[..end]).to_lowercase();
        Some((name, OsString::from_vec(part[end + 1..].to_vec())))
    };
    listed.split(|&byte| byte == 0).filter_map(entry).collect()
}

/// Returns a path of the settings as git takes it.
fn expanded(value: &OsStr) -> PathBuf {
    let home = || std::env::var_os("HOME").map(PathBuf::from);
    match Path::new(value).strip_prefix("~") {
        Ok(rest) => home().map_or_else(|| PathBuf::from(value), |home| home.join(rest)),
        Err(_) => PathBuf::from(value),
    }
}

/// Returns the files that a command line names, as far as its words tell.
fn files_in(top: &Path, value: &OsStr, view: &impl TreeView) -> Vec<PathBuf> {
    let is_between = |byte: &u8| byte.is_ascii_whitespace() || b"\"'!;&|()=<>`".contains(byte);
    let words = value.as_bytes().split(is_between).filter(|word| !word.is_empty());
    let paths = words.map(|word| top.join(expanded(OsStr::from_bytes(word))));
    let is_file = |path: &PathBuf| {
        path != top && matches!(view.entry(path), TreeEntry::File | TreeEntry::Link(_))
    };
    paths.filter(is_file).collect()
}

fn real(file: &Path) -> PathBuf {
    file.canonicalize().unwrap_or_else(|_| file.to_path_buf())
}
