//! Programs of the machine that Salve itself calls.
//!
//! A project may bring a `git` of its own and stand in `PATH`, by `node_modules/.bin` or by a dot.
//! What Salve calls for itself runs outside of every sandbox, so it is looked for once, in absolute
//! directories that are not the project's.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock};

/// Where programs are looked for behind what `PATH` names.
const USUAL: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

/// Returns the program of this name that is the machine's and not that of the project at `dir`.
///
/// Where there is none the path leads nowhere, so that whoever starts it is told.
pub fn machine_program(name: &str, dir: &Path) -> PathBuf {
    type Found = Mutex<HashMap<(String, PathBuf), PathBuf>>;
    static FOUND: OnceLock<Found> = OnceLock::new();
    let project = project_of(dir);
    let mut found = super::lock(FOUND.get_or_init(Found::default));
    let known = found.entry((name.to_owned(), project.clone()));
    known
        .or_insert_with(|| find(name, &project, &std::env::var_os("PATH").unwrap_or_default()))
        .clone()
}

/// Returns `PATH` for programs of the machine that Salve itself calls: git's scripts look there for
/// `uname` and the like, and would find those of the project at `dir`.
pub(super) fn machine_path(dir: &Path) -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    path_outside(&project_of(dir), &path)
}

/// Variables by which a program does or loads something else before what it is asked.
const LEADING: [&str; 17] = [
    "BASH_ENV",
    "ENV",
    "JAVA_TOOL_OPTIONS",
    "LD_AUDIT",
    "LD_PRELOAD",
    "NODE_OPTIONS",
    "NODE_PATH",
    "PERL5LIB",
    "PERL5OPT",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "RUBYLIB",
    "RUBYOPT",
    "SHELLOPTS",
    "_JAVA_OPTIONS",
    "npm_config_userconfig",
];

/// Returns a command that asks a program of the machine something for Salve itself, away from the
/// project and without what would have it do more.
pub fn asking_command(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let is_leading = LEADING.iter().any(|leading| name == *leading);
        if is_leading || name.as_encoded_bytes().starts_with(b"GIT_") {
            command.env_remove(name);
        }
    }
    if let Ok(here) = std::env::current_dir() {
        command.env("PATH", machine_path(&here));
    }
    command.current_dir("/").stdin(Stdio::null());
    command
}

/// Returns the program of this name that is the machine's and not that of the project that this
/// process is in, if there is one.
pub fn program_outside(name: &str) -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    Some(machine_program(name, &here)).filter(|program| is_program(program))
}

/// Returns where the user's own `PATH` has a program, wherever that is.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Returns the topmost directory that a project's files may be in, from one of its directories.
fn project_of(dir: &Path) -> PathBuf {
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf());
    // A mark at the root would make all programs of the machine those of a project.
    let marked = |dir: &&Path| {
        dir.parent().is_some() && [".git", ".salve"].iter().any(|name| dir.join(name).exists())
    };
    dir.ancestors().find(marked).unwrap_or(&dir).to_path_buf()
}

/// Returns whether neither a path nor what a link in it leads to is the project's.
fn is_elsewhere(path: &Path, project: &Path) -> bool {
    path.canonicalize().is_ok_and(|path| !path.starts_with(project))
}

fn dirs_outside(project: &Path, path: &OsStr) -> impl Iterator<Item = PathBuf> {
    let dirs: Vec<PathBuf> =
        std::env::split_paths(path).chain(USUAL.iter().map(PathBuf::from)).collect();
    dirs.into_iter().filter(move |dir| dir.is_absolute() && is_elsewhere(dir, project))
}

fn path_outside(project: &Path, path: &OsStr) -> OsString {
    // What holds a colon was no directory of `PATH`.
    std::env::join_paths(dirs_outside(project, path)).unwrap_or_else(|_| USUAL.join(":").into())
}

fn find(name: &str, project: &Path, path: &OsStr) -> PathBuf {
    dirs_outside(project, path)
        .map(|dir| dir.join(name))
        .find(|file| is_program(file) && is_elsewhere(file, project))
        .unwrap_or_else(|| Path::new("/nonexistent").join(name))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_program_of_the_project_is_never_the_machines() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let [project, bin, other] = ["project", "project/bin", "other"].map(|name| top.join(name));
        for place in [&bin, &other] {
            fs::create_dir_all(place).unwrap();
            fs::write(place.join("git"), "#!/bin/sh\n").unwrap();
            fs::set_permissions(place.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let linked = top.join("linked");
        fs::create_dir(&linked).unwrap();
        std::os::unix::fs::symlink(bin.join("git"), linked.join("git")).unwrap();
        let path = |dirs: &[&Path]| std::env::join_paths(dirs).unwrap();
        let relative = Path::new("bin");
        let found = find("git", &project, &path(&[relative, &bin, &linked, &other]));
        assert_eq!(found, other.join("git"));
        let seen = path_outside(&project, &path(&[relative, &bin, &project, &other]));
        let dirs: Vec<PathBuf> = std::env::split_paths(&seen).collect();
        assert_eq!(dirs.first(), Some(&other));
        assert!(dirs.iter().all(|dir| dir.is_absolute() && !dir.starts_with(&project)), "{dirs:?}");
        let none = find("no-such-program", &project, &path(&[&bin]));
        assert!(!none.exists() && none.is_absolute());
    }
}
