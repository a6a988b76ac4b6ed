//! Where agents and editors keep their files.

use std::path::{Path, PathBuf};

use super::{PROGRAM, RegisterError, RegistrationScope};
use crate::dirs;

/// Where the files are.
#[derive(Clone, Debug)]
pub struct Places {
    /// The project's directory.
    pub project: PathBuf,
    /// The user's home.
    pub home: Option<PathBuf>,
    /// Where copies of files are kept before they are changed.
    pub backups: Option<PathBuf>,
    /// Where the clients themselves look instead of the home directory.
    pub homes: ClientHomes,
    /// What starts Salve: its name where that is enough, else its path.
    pub program: String,
}

/// Where clients keep their files if not in the usual place, by the variables that they read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientHomes {
    /// `CLAUDE_CONFIG_DIR`.
    pub claude: Option<PathBuf>,
    /// `CODEX_HOME`.
    pub codex: Option<PathBuf>,
    /// `GEMINI_CLI_HOME`.
    pub gemini: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`, which opencode reads.
    pub config: Option<PathBuf>,
}

impl ClientHomes {
    /// Returns what the variables say that `read` looks up.
    pub fn by(read: impl Fn(&str) -> Option<std::ffi::OsString>) -> Self {
        let set = |name| read(name).map(PathBuf::from).filter(|path| path.is_absolute());
        Self {
            claude: set("CLAUDE_CONFIG_DIR"),
            codex: set("CODEX_HOME"),
            gemini: set("GEMINI_CLI_HOME"),
            config: set("XDG_CONFIG_HOME"),
        }
    }
}

impl Places {
    /// Returns where the files of this user and this project are.
    pub fn here(project: &Path) -> Self {
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        let backups = dirs::data().map(|data| data.join("backups"));
        let homes = ClientHomes::by(|name| std::env::var_os(name));
        Self { project: project.to_owned(), home, backups, homes, program: own_program() }
    }

    /// Returns what starts Salve in a file of this scope. A file that a project shares names it; in
    /// one of the user's own stands where it lies, because editors that a desktop starts look in
    /// fewer places than a shell.
    pub(super) fn program_in(&self, scope: RegistrationScope) -> String {
        let path = (scope == RegistrationScope::User && self.program == PROGRAM).then(on_path);
        let path = path.flatten().and_then(|path| path.into_os_string().into_string().ok());
        path.unwrap_or_else(|| self.program.clone())
    }

    /// Returns the directory of the user's settings for Claude Code.
    pub(super) fn claude_dir(&self) -> Result<PathBuf, RegisterError> {
        let home = || self.home.as_ref().map(|home| home.join(".claude"));
        self.homes.claude.clone().or_else(home).ok_or(RegisterError::NoHome)
    }
}

/// Returns where a shell finds Salve by its name.
fn on_path() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&path).map(|dir| dir.join(PROGRAM));
    found.find(|file| file.is_absolute() && file.is_file())
}

/// Returns what starts this very Salve: its name where a shell finds it by that, else its path.
fn own_program() -> String {
    let own = std::env::current_exe().and_then(|own| own.canonicalize()).ok();
    match (on_path(), own) {
        (None, Some(own)) => own.to_string_lossy().into_owned(),
        (Some(_), _) | (None, None) => PROGRAM.to_owned(),
    }
}
