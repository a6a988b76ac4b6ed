//! A repository for a shadow: its own index, refs and settings; the real one's objects.

use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::workspace::WorkspaceError;
use crate::workspace::git::Git;

/// The settings that say how files are stored; all others, such as hooks and filters, stay away.
const SETTINGS: &str = r"^core\.(autocrlf|eol|filemode|ignorecase|symlinks)$";

/// Returns the top of the working tree around git's directory, if there is one.
pub(in crate::workspace) fn top(git: &Git) -> Result<Option<PathBuf>, WorkspaceError> {
    if git.store().is_some() {
        return Ok(None);
    }
    Ok(git.ask(&["rev-parse", "--show-toplevel"])?.map(line))
}

/// Makes the repository of a shadow whose top is `top`.
pub(super) fn make(git: &Git, top: &Path) -> Result<(), WorkspaceError> {
    let path = |name: &str| -> Result<PathBuf, WorkspaceError> {
        let args = ["rev-parse", "--path-format=absolute", "--git-path", name];
        Ok(line(git.read(&args)?))
    };
    let ask = |args: &[&str]| -> Result<String, WorkspaceError> {
        let answer = git.ask(args)?.unwrap_or_default();
        Ok(String::from_utf8_lossy(&answer).trim_end().to_owned())
    };
    let (index, objects) = (path("index")?, path("objects")?);
    let head = ask(&["rev-parse", "--quiet", "--verify", "HEAD^{commit}"])?;
    let branch = ask(&["symbolic-ref", "--quiet", "HEAD"])?;
    let format = ask(&["rev-parse", "--show-object-format"])?;
    let settings = ask(&["config", "--get-regexp", SETTINGS])?;

    let dir = top.join(".git");
    for part in ["objects/info", "objects/pack", "refs/heads", "info"] {
        let part = dir.join(part);
        fs::create_dir_all(&part).map_err(WorkspaceError::io(part))?;
    }
    let write = |name: &str, text: &[u8]| {
        fs::write(dir.join(name), text).map_err(WorkspaceError::io(dir.join(name)))
    };
    write(
        "objects/info/alternates",
        &[objects.into_os_string().into_vec(), b"\n".into()].concat(),
    )?;
    if branch.is_empty() {
        write("HEAD", format!("{head}\n").as_bytes())?;
    } else {
        write("HEAD", format!("ref: {branch}\n").as_bytes())?;
        if !head.is_empty() {
            write("packed-refs", format!("{head} {branch}\n").as_bytes())?;
        }
    }
    write("config", config(&format, &settings).as_bytes())?;
    // The user's own index, and what a split one is made of; without one nothing is tracked.
    let beside = index.parent().unwrap_or(Path::new("/"));
    for entry in fs::read_dir(beside).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name == "index" || name.as_encoded_bytes().starts_with(b"sharedindex.") {
            let place = dir.join(&name);
            fs::copy(entry.path(), &place).map_err(WorkspaceError::io(place))?;
        }
    }
    let _none = fs::copy(path("info/exclude")?, dir.join("info/exclude"));
    Ok(())
}

fn config(format: &str, settings: &str) -> String {
    let mut text = match format {
        "sha256" => {
            "[extensions]\n\tobjectformat = sha256\n[core]\n\trepositoryformatversion = 1\n"
        }
        _ => "[core]\n\trepositoryformatversion = 0\n",
    }
    .to_owned();
    text.push_str("\tbare = false\n");
    for line in settings.lines() {
        let (key, value) = line.split_once(' ').unwrap_or((line, "true"));
        let key = key.strip_prefix("core.").unwrap_or(key);
        if value.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            text.push_str(&format!("\t{key} = {value}\n"));
        }
    }
    text
}

fn line(mut answer: Vec<u8>) -> PathBuf {
    if answer.last() == Some(&b'\n') {
        answer.pop();
    }
    PathBuf::from(std::ffi::OsString::from_vec(answer))
}
