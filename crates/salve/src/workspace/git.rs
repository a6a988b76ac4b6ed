//! Calls of git in one repository, the user's or one of Salve's own.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};

use super::error::WorkspaceError;
use super::oid::Format;
use crate::process::quiet_git;

/// The longest complaint of git that is passed on.
const LONGEST_COMPLAINT: usize = 400;

/// A way to call git in one repository.
#[derive(Clone, Debug)]
pub(super) struct Git {
    /// Where it runs; listings are relative to it.
    dir: PathBuf,
    /// The repository, if it is not the one that git finds from `dir`.
    private: Option<PathBuf>,
    settings: GitConfigScope,
}

/// Whose settings a git listens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GitConfigScope {
    /// The repository's, the user's and the machine's.
    All,
    /// The repository's only.
    Own,
}

/// Returns the settings of a repository of our own.
pub(super) fn alone_config(format: Format) -> &'static str {
    match format {
        Format::Sha1 => "[core]\n\trepositoryformatversion = 0\n",
        Format::Sha256 => {
            "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = sha256\n"
        }
    }
}

impl Git {
    /// Returns a git that finds its repository from `dir` up.
    pub(super) fn at(dir: &Path) -> Self {
        Self { dir: dir.to_path_buf(), private: None, settings: GitConfigScope::All }
    }

    /// Returns a git that keeps `dir`'s files in the repository at `store`.
    pub(super) fn private(dir: &Path, store: PathBuf) -> Self {
        Self { dir: dir.to_path_buf(), private: Some(store), settings: GitConfigScope::All }
    }

    /// Makes an empty repository at `store` whose git listens to no settings but our own.
    pub(super) fn alone(store: &Path, format: Format) -> Result<Self, WorkspaceError> {
        for part in ["objects/pack", "refs/heads"] {
            let part = store.join(part);
            fs::create_dir_all(&part).map_err(WorkspaceError::io(part))?;
        }
        let config = alone_config(format);
        for (name, text) in [("config", config), ("HEAD", "ref: refs/heads/main\n")] {
            fs::write(store.join(name), text).map_err(WorkspaceError::io(store.join(name)))?;
        }
        let (dir, store) = (store.to_path_buf(), store.to_path_buf());
        Ok(Self { dir, private: Some(store), settings: GitConfigScope::Own })
    }

    /// Returns a git for the repository that [`Git::alone`] made at `store`, with `dir`'s files.
    pub(super) fn alone_over(dir: &Path, store: &Path) -> Self {
        let (dir, store) = (dir.to_path_buf(), store.to_path_buf());
        Self { dir, private: Some(store), settings: GitConfigScope::Own }
    }

    /// Returns the private repository, if this is one.
    pub(super) fn store(&self) -> Option<&Path> {
        self.private.as_deref()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = quiet_git(&self.dir);
        if self.settings == GitConfigScope::Own {
            command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
            command.env("GIT_ATTR_NOSYSTEM", "1");
        }
        if let Some(store) = &self.private {
            let option = |name: &str, value: &Path| {
                let mut option = std::ffi::OsString::from(name);
                option.push(value.as_os_str());
                option
            };
            command.arg(option("--git-dir=", store)).arg(option("--work-tree=", &self.dir));
        }
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs git and returns what it printed.
    pub(super) fn read(&self, args: &[&str]) -> Result<Vec<u8>, WorkspaceError> {
        let child = spawn(self.command(args))?;
        finish(args, child.wait_with_output())
    }

    /// Runs git and returns what it printed, or nothing if it refused.
    pub(super) fn ask(&self, args: &[&str]) -> Result<Option<Vec<u8>>, WorkspaceError> {
        match self.read(args) {
            Ok(answer) => Ok(Some(answer)),
            Err(WorkspaceError::Git { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Runs git, lets `write` feed it and `read` take in what it prints.
    pub(super) fn converse(
        &self,
        args: &[&str],
        write: impl FnOnce(&mut dyn Write) -> Result<(), WorkspaceError> + Send,
        read: impl FnOnce(&mut dyn BufRead) -> Result<(), WorkspaceError>,
    ) -> Result<(), WorkspaceError> {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stderr(Stdio::null());
        let mut child = spawn(command)?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let done = std::thread::scope(|scope| {
            let writer = scope.spawn(move || feed_to(stdin, write));
            let taken = match stdout {
                Some(stdout) => read(&mut io::BufReader::new(stdout)),
                None => Ok(()),
            };
            // What was not read is not wanted: the end of the pipe ends git and the writer.
            let fed = writer.join().unwrap_or(Ok(()));
            taken.and(fed)
        });
        let ended = finish(args, child.wait_with_output());
        done.and(ended.map(drop))
    }

    /// Runs git, lets `write` feed it, and returns what it printed.
    pub(super) fn feed(
        &self,
        args: &[&str],
        write: impl FnOnce(&mut dyn Write) -> Result<(), WorkspaceError> + Send,
    ) -> Result<Vec<u8>, WorkspaceError> {
        let mut command = self.command(args);
        command.stdin(Stdio::piped());
        let mut child = spawn(command)?;
        let stdin = child.stdin.take();
        std::thread::scope(|scope| {
            let writer = scope.spawn(move || feed_to(stdin, write));
            let printed = finish(args, child.wait_with_output());
            let fed = writer.join().unwrap_or(Ok(()));
            // What git complained about tells more than the pipe that broke because of it.
            match fed {
                Err(error) if printed.is_ok() || !is_broken_pipe(&error) => Err(error),
                _ => printed,
            }
        })
    }
}

fn feed_to(
    stdin: Option<ChildStdin>,
    write: impl FnOnce(&mut dyn Write) -> Result<(), WorkspaceError>,
) -> Result<(), WorkspaceError> {
    let Some(stdin) = stdin else { return Ok(()) };
    let mut to = io::BufWriter::with_capacity(1 << 16, stdin);
    write(&mut to)?;
    to.flush().map_err(pipe)
}

/// Makes an error of a failed write to git.
pub(super) fn pipe(source: io::Error) -> WorkspaceError {
    WorkspaceError::Io { path: PathBuf::from("the pipe to git"), source }
}

fn is_broken_pipe(error: &WorkspaceError) -> bool {
    matches!(error, WorkspaceError::Io { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
}

fn spawn(mut command: Command) -> Result<Child, WorkspaceError> {
    command.spawn().map_err(|source| WorkspaceError::NoGit { source })
}

fn finish(args: &[&str], output: io::Result<Output>) -> Result<Vec<u8>, WorkspaceError> {
    let command = args.first().copied().unwrap_or_default().to_owned();
    let output = output.map_err(|source| WorkspaceError::NoGit { source })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said: String = said.trim().chars().take(LONGEST_COMPLAINT).collect();
    let said = if said.is_empty() { output.status.to_string() } else { said };
    Err(WorkspaceError::Git { command, said })
}

/// Writes a path as git's `fast-import` reads it: quoted, with every odd byte as an octal escape.
pub(super) fn quote(path: &OsStr) -> String {
    let mut quoted = String::from("\"");
    for &byte in path.as_encoded_bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', byte as char]),
            b' '..=b'~' => quoted.push(byte as char),
            _ => quoted.push_str(&format!("\\{byte:03o}")),
        }
    }
    quoted.push('"');
    quoted
}
