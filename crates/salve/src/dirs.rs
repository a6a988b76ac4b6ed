//! Where the user's own files are.
//!
//! A variable that holds a relative path is ignored, as the XDG specification says.

use std::path::PathBuf;

/// Returns the directory of the user's own data, `$XDG_DATA_HOME/salve`.
pub fn data() -> Option<PathBuf> {
    base("XDG_DATA_HOME", ".local/share")
}

/// Returns the directory of the user's own settings, `$XDG_CONFIG_HOME/salve`.
pub fn config() -> Option<PathBuf> {
    base("XDG_CONFIG_HOME", ".config")
}

/// Returns the directory of what can be made again, `$XDG_CACHE_HOME/salve`.
pub fn cache() -> Option<PathBuf> {
    base("XDG_CACHE_HOME", ".cache")
}

/// Returns the directory of what lasts and is of this machine alone, `$XDG_STATE_HOME/salve`.
pub fn state() -> Option<PathBuf> {
    base("XDG_STATE_HOME", ".local/state")
}

fn base(variable: &str, below_home: &str) -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let base = absolute(variable).or_else(|| Some(absolute("HOME")?.join(below_home)))?;
    Some(base.join("salve"))
}
