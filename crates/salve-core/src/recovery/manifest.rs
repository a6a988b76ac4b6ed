//! Which files say what a package manager installs and how.

/// The manifests, lockfiles and settings of package managers, by their names.
const NAMES: [&str; 40] = [
    ".npmrc",
    ".pnpmfile.cjs",
    ".yarnrc",
    ".yarnrc.yml",
    "Cargo.lock",
    "Cargo.toml",
    "Gemfile",
    "Gemfile.lock",
    "Pipfile",
    "Pipfile.lock",
    "bun.lock",
    "bun.lockb",
    "bunfig.toml",
    "composer.json",
    "composer.lock",
    "constraints.txt",
    "deno.json",
    "deno.lock",
    "environment.yml",
    "go.mod",
    "go.sum",
    "go.work",
    "npm-shrinkwrap.json",
    "package-lock.json",
    "package.json",
    "pdm.lock",
    "pip.conf",
    "pnpm-lock.yaml",
    "pnpm-workspace.yaml",
    "poetry.lock",
    "poetry.toml",
    "pyproject.toml",
    "requirements.in",
    "requirements.txt",
    "rust-toolchain.toml",
    "setup.cfg",
    "setup.py",
    "uv.lock",
    "uv.toml",
    "yarn.lock",
];

/// Tells whether a path below the project's root says what is installed, or how.
pub fn is_manifest(path: &str) -> bool {
    let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    let is_requirements = name.starts_with("requirements") && name.ends_with(".txt");
    let is_cargo_settings = (dir == ".cargo" || dir.ends_with("/.cargo"))
        && (name == "config.toml" || name == "config");
    NAMES.binary_search(&name).is_ok() || is_requirements || is_cargo_settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_what_is_installed_is_known_by_its_name() {
        assert!(NAMES.is_sorted());
        for path in [
            "package.json",
            "web/bun.lock",
            ".npmrc",
            "a/b/requirements-dev.txt",
            ".cargo/config.toml",
            "go.sum",
        ] {
            assert!(is_manifest(path), "{path}");
        }
        for path in ["src/package.json.ts", "config.toml", "lock", "requirements.md", "x/.cargo"] {
            assert!(!is_manifest(path), "{path}");
        }
    }
}
