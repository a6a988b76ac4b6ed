//! Which files say what a package manager installs and how.

/// The manifests, lockfiles, settings and build scripts of package managers, by their names.
const NAMES: [&str; 54] = [
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
    "binding.gyp",
    "build.gradle",
    "build.gradle.kts",
    "build.rs",
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
    "gradle-wrapper.jar",
    "gradle-wrapper.properties",
    "gradle.properties",
    "gradlew",
    "maven-wrapper.jar",
    "maven-wrapper.properties",
    "mvnw",
    "npm-shrinkwrap.json",
    "package-lock.json",
    "package.json",
    "pdm.lock",
    "pip.conf",
    "pnpm-lock.yaml",
    "pnpm-workspace.yaml",
    "poetry.lock",
    "poetry.toml",
    "pom.xml",
    "pyproject.toml",
    "requirements.in",
    "requirements.txt",
    "rust-toolchain.toml",
    "settings.gradle",
    "settings.gradle.kts",
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

/// The scripts of a `package.json` that run when packages are installed.
const INSTALL_SCRIPTS: [&str; 9] = [
    "preinstall",
    "install",
    "postinstall",
    "preprepare",
    "prepare",
    "postprepare",
    "prepublish",
    "pnpm:devPreinstall",
    "dependencies",
];

/// Returns the words of a `package.json` that may name files which run when packages are installed.
pub fn install_script_words(package: &str) -> Vec<String> {
    let package: serde_json::Value = serde_json::from_str(package).unwrap_or_default();
    let scripts = INSTALL_SCRIPTS.iter().filter_map(|name| package["scripts"][name].as_str());
    let is_end = |c: char| c.is_whitespace() || "\"'`;&|<>()=,".contains(c);
    let words = scripts.flat_map(|script| script.split(is_end));
    words.filter(|word| !word.is_empty() && !word.starts_with('-')).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_that_run_at_an_install_name_their_files() {
        let package = r#"{"scripts":{"postinstall":"node ./tools/post.js --quiet && sh 'x.sh'",
            "test":"node test.js","prepare":"husky"}}"#;
        assert_eq!(
            install_script_words(package),
            ["node", "./tools/post.js", "sh", "x.sh", "husky"],
        );
        assert_eq!(install_script_words("[]"), [""; 0]);
        assert_eq!(install_script_words("{"), [""; 0]);
    }

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
