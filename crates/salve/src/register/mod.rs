//! Registers Salve's MCP server in the settings files of coding agents and editors.
//!
//! **Invariant:** nothing that stands in such a file is changed, moved or reformatted; a file that
//! cannot be read is left as it is.

mod edit;
mod hooks;
mod permit;
mod places;
#[cfg(test)]
mod tests;
mod wrap;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

pub use hooks::plan_hooks;
pub use permit::plan_permission;
pub use places::{ClientHomes, Places};
pub use wrap::{ListedServer, Reached, WrapPlan, Wrapping, list, plan_wrapping};

use crate::atomic::{self, WriteError};
use crate::files::{FileKind, Links, read_text_where};

/// The name under which Salve is registered.
pub const NAME: &str = "salve";
/// The program that serves it, where it is found by its name.
pub const PROGRAM: &str = "salve";
/// The arguments with which that program serves it.
pub const ARGUMENTS: [&str; 1] = ["mcp"];

/// A coding agent or editor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Client {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// Cursor.
    Cursor,
    /// Visual Studio Code.
    Vscode,
    /// opencode.
    Opencode,
}

/// For whom the server is registered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum RegistrationScope {
    /// For this project, in a file that is shared with it.
    #[default]
    Project,
    /// For this user, in all projects.
    User,
}

impl RegistrationScope {
    /// Returns its name on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::User => "user",
        }
    }
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// To register Salve.
    Add,
    /// To take it out again.
    Remove,
}

/// Why a registration failed; the file is as it was.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// There is no home directory.
    #[error("there is no home directory, so no file of the user")]
    NoHome,
    /// The file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file is not what its client writes; nothing was changed.
    #[error("{}: {why}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, with its place.
        why: String,
    },
    /// The file or its copy could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// A change of one file that has not been made yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistrationPlan {
    /// The file.
    pub path: PathBuf,
    /// What is in it, if it exists.
    pub old: Option<String>,
    /// What is to be in it.
    pub new: String,
    backups: Option<PathBuf>,
}

/// What became of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistrationDone {
    /// It was right already.
    Nothing,
    /// It was made.
    Made,
    /// Nothing but Salve was in it, so it was removed; a copy is kept like any other.
    Removed(Option<PathBuf>),
    /// It was changed; a copy of what it was is kept here, where there is a place for copies.
    Changed(Option<PathBuf>),
}

impl Client {
    /// Every agent and editor.
    pub const ALL: [Self; 6] =
        [Self::Claude, Self::Codex, Self::Gemini, Self::Cursor, Self::Vscode, Self::Opencode];

    /// Returns what people call it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
            Self::Gemini => "Gemini CLI",
            Self::Cursor => "Cursor",
            Self::Vscode => "VS Code",
            Self::Opencode => "opencode",
        }
    }

    /// Returns the file in which it looks for servers.
    pub fn file(self, scope: RegistrationScope, places: &Places) -> Result<PathBuf, RegisterError> {
        let home = || places.home.clone().ok_or(RegisterError::NoHome);
        if let (Some(file), RegistrationScope::User) = (self.file_elsewhere(&places.homes), scope) {
            return Ok(file);
        }
        let below = match (self, scope) {
            (Self::Claude, RegistrationScope::Project) => ".mcp.json",
            (Self::Claude, RegistrationScope::User) => ".claude.json",
            (Self::Codex, RegistrationScope::Project | RegistrationScope::User) => {
                ".codex/config.toml"
            }
            (Self::Gemini, RegistrationScope::Project | RegistrationScope::User) => {
                ".gemini/settings.json"
            }
            (Self::Cursor, RegistrationScope::Project | RegistrationScope::User) => {
                ".cursor/mcp.json"
            }
            (Self::Vscode, RegistrationScope::Project) => ".vscode/mcp.json",
            (Self::Vscode, RegistrationScope::User) => ".config/Code/User/mcp.json",
            (Self::Opencode, RegistrationScope::Project) => "opencode.json",
            (Self::Opencode, RegistrationScope::User) => ".config/opencode/opencode.json",
        };
        Ok(match scope {
            RegistrationScope::Project => places.project.join(below),
            RegistrationScope::User => home()?.join(below),
        })
    }

    /// Returns the user's file where a variable leads the client elsewhere.
    fn file_elsewhere(self, homes: &ClientHomes) -> Option<PathBuf> {
        let below = |home: &Option<PathBuf>, file: &str| home.as_ref().map(|home| home.join(file));
        match self {
            Self::Claude => below(&homes.claude, ".claude.json"),
            Self::Codex => below(&homes.codex, "config.toml"),
            Self::Gemini => below(&homes.gemini, ".gemini/settings.json"),
            Self::Opencode => below(&homes.config, "opencode/opencode.json"),
            Self::Cursor | Self::Vscode => None,
        }
    }

    /// Returns what a person has to do in the client itself before it uses Salve, if anything.
    pub fn first_steps(self, scope: RegistrationScope) -> Option<&'static str> {
        match (self, scope) {
            (Self::Claude, RegistrationScope::Project) => {
                Some("start `claude` here once and approve the server `salve`")
            }
            (Self::Codex, RegistrationScope::Project) => Some(
                "start `codex` here once and trust the folder, else it reads no settings of it",
            ),
            (Self::Gemini, _) => Some("start `gemini` here once and trust the folder"),
            (Self::Cursor, _) => Some("switch the server `salve` on under Settings, MCP"),
            (Self::Vscode, _) => Some("start the server `salve` from the list of MCP servers"),
            (Self::Claude | Self::Codex, RegistrationScope::User) | (Self::Opencode, _) => None,
        }
    }

    /// Returns whether its settings can say that Salve's tools run without its asking.
    pub fn can_be_allowed(self) -> bool {
        match self {
            Self::Claude | Self::Codex | Self::Gemini => true,
            Self::Cursor | Self::Vscode | Self::Opencode => false,
        }
    }

    /// Returns the program that lists its servers by `mcp list`, if it has one.
    pub fn lister(self) -> Option<&'static str> {
        match self {
            Self::Claude | Self::Codex | Self::Gemini | Self::Opencode => Some(self.word()),
            Self::Cursor | Self::Vscode => None,
        }
    }

    /// Returns its name on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Cursor => "cursor",
            Self::Vscode => "vscode",
            Self::Opencode => "opencode",
        }
    }

    fn shape(self) -> edit::ClientFileShape {
        match self {
            Self::Opencode => edit::ClientFileShape::Opencode,
            Self::Claude => edit::ClientFileShape::Json { list: "mcpServers", typed: true },
            Self::Vscode => edit::ClientFileShape::Json { list: "servers", typed: true },
            Self::Gemini | Self::Cursor => {
                edit::ClientFileShape::Json { list: "mcpServers", typed: false }
            }
            Self::Codex => edit::ClientFileShape::Toml,
        }
    }
}

/// Returns how the client's file has to change; nothing is written.
pub fn plan(
    client: Client,
    scope: RegistrationScope,
    places: &Places,
    wish: Wish,
) -> Result<RegistrationPlan, RegisterError> {
    let path = client.file(scope, places)?;
    // People keep such files elsewhere and link to them; the link stays.
    let path = path.canonicalize().unwrap_or(path);
    let old = read(&path)?;
    let malformed = |why| RegisterError::Malformed { path: path.clone(), why };
    let text = old.as_deref().unwrap_or_default();
    let new = edit::edit(client.shape(), text, wish, &places.program).map_err(malformed)?;
    Ok(RegistrationPlan { path, old, new, backups: places.backups.clone() })
}

/// Returns the program that a client would start for Salve, if Salve is registered there.
pub fn registered_program(
    client: Client,
    scope: RegistrationScope,
    places: &Places,
) -> Result<Option<String>, RegisterError> {
    let path = client.file(scope, places)?;
    let text = read(&path)?.unwrap_or_default();
    edit::program_of(client.shape(), &text).map_err(|why| RegisterError::Malformed { path, why })
}

/// Reads a file that need not exist.
fn read(path: &Path) -> Result<Option<String>, RegisterError> {
    match read_text_where(path, FileKind::Document, Links::Follow) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.is_absent() => Ok(None),
        Err(error) => Err(RegisterError::Read { path: path.to_owned(), source: error.into() }),
    }
}

impl RegistrationPlan {
    /// Returns whether there is nothing to do.
    pub fn is_done(&self) -> bool {
        self.old.as_deref().unwrap_or_default() == self.new
    }

    /// Returns the lines that differ, with a little around them.
    pub fn diff(&self) -> Vec<String> {
        let old: Vec<&str> = self.old.as_deref().unwrap_or_default().lines().collect();
        let new: Vec<&str> = self.new.lines().collect();
        let same = |(a, b): &(&&str, &&str)| a == b;
        let start = old.iter().zip(&new).take_while(same).count();
        let most = old.len().min(new.len()) - start;
        let end = old.iter().rev().zip(new.iter().rev()).take(most).take_while(same).count();
        let mark = |sign: &'static str| move |line: &&str| format!("{sign} {line}");
        let before = old[start.saturating_sub(2)..start].iter().map(mark(" "));
        let gone = old[start..old.len() - end].iter().map(mark("-"));
        let come = new[start..new.len() - end].iter().map(mark("+"));
        let after = old[old.len() - end..].iter().take(2).map(mark(" "));
        before.chain(gone).chain(come).chain(after).collect()
    }

    /// Writes the file, and a copy of what it was.
    pub fn apply(&self) -> Result<RegistrationDone, RegisterError> {
        if self.is_done() {
            return Ok(RegistrationDone::Nothing);
        }
        let make = |dir: Option<&Path>| match dir {
            Some(dir) => fs::create_dir_all(dir).map_err(|error| WriteError::new(dir, error)),
            None => Ok(()),
        };
        let kept = match (&self.old, &self.backups) {
            (Some(old), Some(backups)) => {
                let copy = backups.join(self.copy_name());
                make(Some(backups))?;
                atomic::write(&copy, old)?;
                Some(copy)
            }
            (Some(_) | None, _) => None,
        };
        if self.new.trim().is_empty() && self.old.is_some() {
            fs::remove_file(&self.path).map_err(|error| WriteError::new(&self.path, error))?;
            return Ok(RegistrationDone::Removed(kept));
        }
        make(self.path.parent())?;
        atomic::write(&self.path, &self.new)?;
        Ok(if self.old.is_some() {
            RegistrationDone::Changed(kept)
        } else {
            RegistrationDone::Made
        })
    }

    /// Returns a name for the copy that no other file's copy has.
    fn copy_name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let hash = Sha256::digest(self.path.as_os_str().as_encoded_bytes());
        let hash: String = hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        format!("{}.{hash}", name.trim_start_matches('.'))
    }
}
