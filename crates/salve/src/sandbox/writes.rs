//! Keeps a command's writes within the project and the caches of its tools.
//!
//! The rules bind the thread that sets them and every process it starts from then on, so a remedy
//! runs on a thread of its own.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    RulesetStatus,
};

/// Where tools keep what they download, below the home directory.
const CACHES: &[&str] = &[
    ".npm",
    ".cache",
    ".local/share/pnpm",
    ".local/state/pnpm",
    ".pnpm-store",
    ".bun",
    ".yarn",
    ".local/share/uv",
    ".local/share/virtualenv",
    ".cargo/registry",
    ".cargo/git",
    "go/pkg",
    ".gem",
    ".bundle",
    ".composer",
    ".node-gyp",
    ".pyenv/shims",
];

/// Variables that say where tools keep what they download.
const VARIABLES: &[&str] = &[
    "TMPDIR",
    "npm_config_cache",
    "XDG_CACHE_HOME",
    "PIP_CACHE_DIR",
    "UV_CACHE_DIR",
    "POETRY_CACHE_DIR",
    "YARN_CACHE_FOLDER",
    "PNPM_HOME",
    "GOCACHE",
    "GOMODCACHE",
    "BUN_INSTALL",
    "COREPACK_HOME",
    "CARGO_TARGET_DIR",
];

/// Where writing stays allowed; everywhere else the kernel refuses it.
///
/// The kernel's rules only allow, and an allowed directory is allowed with all below it.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    places: Vec<PathBuf>,
}

impl Writes {
    /// Allows a file, or a directory with all below it; what is not there cannot be written to
    /// either.
    pub(crate) fn allow(mut self, place: impl Into<PathBuf>) -> Self {
        self.places.push(place.into());
        self
    }

    /// Takes from this thread, and from all it starts from now on, the right to write elsewhere;
    /// returns whether the kernel enforces it.
    pub(crate) fn restrict(self) -> Result<bool, RulesetError> {
        let writes = AccessFs::from_write(ABI::V5);
        let mut rules = Ruleset::default().handle_access(writes)?.create()?;
        for place in self.places {
            let Ok(fd) = PathFd::new(&place) else { continue };
            let access =
                if place.is_dir() { writes } else { writes & AccessFs::from_file(ABI::V5) };
            rules = rules.add_rule(PathBeneath::new(fd, access))?;
        }
        Ok(rules.restrict_self()?.ruleset != RulesetStatus::NotEnforced)
    }
}

/// Confines this thread and what it starts; returns whether the kernel enforces it.
pub(super) fn confine(root: &Path) -> bool {
    places(root).into_iter().fold(Writes::default(), Writes::allow).restrict().unwrap_or(false)
}

fn places(root: &Path) -> Vec<PathBuf> {
    let mut places = vec![root.to_path_buf(), "/tmp".into(), "/var/tmp".into(), "/dev".into()];
    places.extend(VARIABLES.iter().filter_map(std::env::var_os).map(PathBuf::from));
    let home = std::env::var_os("HOME").map(PathBuf::from);
    if let Some(home) = home {
        places.extend(CACHES.iter().map(|cache| home.join(cache)));
        for file in [".package-cache", ".package-cache-mutate", ".global-cache"] {
            places.push(home.join(".cargo").join(file));
        }
    }
    places
}
