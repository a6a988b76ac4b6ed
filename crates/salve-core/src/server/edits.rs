//! Which changed files may have mended a server, by their names.

/// Directories in which nobody edits: what is installed, built or cached.
const DERIVED_DIRS: [&str; 22] = [
    ".git",
    ".hg",
    ".jj",
    ".salve",
    "node_modules",
    "__pycache__",
    ".venv",
    "venv",
    ".tox",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".next",
    ".nuxt",
    ".svelte-kit",
    ".astro",
    ".turbo",
    ".parcel-cache",
    ".vite",
    ".angular",
    ".gradle",
    ".idea",
];

/// Endings of what programs write in passing.
const PASSING: [&str; 19] = [
    ".log",
    ".pid",
    ".sock",
    ".lock.tmp",
    ".tmp",
    ".temp",
    ".swp",
    ".swo",
    ".swx",
    ".pyc",
    ".db",
    ".db-journal",
    ".db-wal",
    ".db-shm",
    ".sqlite",
    ".sqlite3",
    ".sqlite-journal",
    ".sqlite3-journal",
    "~",
];

/// Tells whether somebody may edit files in a directory of this name.
pub fn is_watched_dir(name: &str) -> bool {
    !DERIVED_DIRS.contains(&name)
}

/// Tells whether a change of this file, below the project's root, may be somebody's edit.
pub fn is_edit(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_own = name.starts_with(".dev-crash") || name.starts_with(".dev-repair");
    // Editors try whether they can write with a file of this name, and mark what is open.
    let is_editors = name == "4913" || name.starts_with(".#") || name.starts_with('#');
    let is_passing = PASSING.iter().any(|end| name.ends_with(end));
    path.split('/').all(is_watched_dir) && !is_own && !is_editors && !is_passing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_somebody_may_have_edited_counts() {
        for path in ["app.py", "src/main.ts", ".env", "vite.config.js", "package-lock.json"] {
            assert!(is_edit(path), "{path}");
        }
        for path in [
            "node_modules/vite/index.js",
            "src/__pycache__/app.cpython-312.pyc",
            ".git/index",
            ".salve/salve.db-wal",
            ".dev-crash.log",
            ".dev-repair.lock",
            ".app.py.swp",
            "app.py~",
            "server.log",
            "db.sqlite3",
            "4913",
            ".#app.py",
        ] {
            assert!(!is_edit(path), "{path}");
        }
    }
}
