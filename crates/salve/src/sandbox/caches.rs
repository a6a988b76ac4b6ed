//! Where package managers keep what they download, and what a command may do there.
//!
//! A command gets the *data* of the managers that it names: what they download and look up again.
//! Everything else that managers keep outside of the project is or leads to code that runs elsewhere
//! (unpacked packages, tools, settings, scripts for every build). That is *thrown away*: the command
//! sees it and may write there, in a layer that ends with it. So are the caches of managers that it
//! does not name, whose programs it may yet start.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::means::Spaces;
use crate::files::{FileKind, read_text};

/// A place of a manager's.
struct Keep {
    /// The words by which a command names the manager.
    words: &'static [&'static str],
    /// The directory below the home directory, unless a variable names another.
    base: &'static str,
    /// Variables that say where it is instead.
    variables: &'static [&'static str],
    /// What of it is data; an empty path is all of it.
    data: &'static [&'static str],
}

const NODE: &[&str] = &["npm", "npx", "pnpm", "pnpx", "yarn", "yarnpkg", "corepack"];
const NPM: &[&str] = &["npm", "npx"];
const PNPM: &[&str] = &["pnpm", "pnpx"];
const YARN: &[&str] = &["yarn", "yarnpkg"];
const BUN: &[&str] = &["bun", "bunx"];
const DENO: &[&str] = &["deno"];
const PIP: &[&str] = &["pip", "pip3", "python", "python3"];
const UV: &[&str] = &["uv", "uvx"];
const POETRY: &[&str] = &["poetry"];
const PIPENV: &[&str] = &["pipenv"];
const CARGO: &[&str] = &["cargo"];
const GO: &[&str] = &["go"];
const RUBY: &[&str] = &["bundle", "bundler", "gem"];
const COMPOSER: &[&str] = &["composer"];
const GRADLE: &[&str] = &["gradle", "gradlew"];
const MAVEN: &[&str] = &["mvn", "mvnw"];

/// Every place of every manager.
#[rustfmt::skip]
const KEEPS: &[Keep] = &[
    Keep { words: NPM, base: ".npm", variables: &["npm_config_cache", "NPM_CONFIG_CACHE"], data: &["_cacache", "_logs"] },
    Keep { words: PNPM, base: ".local/share/pnpm", variables: &["PNPM_HOME"], data: &["store"] },
    Keep { words: PNPM, base: ".local/state/pnpm", variables: &[], data: &[""] },
    Keep { words: PNPM, base: ".pnpm-store", variables: &[], data: &[""] },
    Keep { words: PNPM, base: ".cache/pnpm", variables: &[], data: &[] },
    Keep { words: YARN, base: ".yarn/berry", variables: &["YARN_GLOBAL_FOLDER"], data: &["cache"] },
    Keep { words: YARN, base: ".cache/yarn", variables: &["YARN_CACHE_FOLDER"], data: &[] },
    Keep { words: NODE, base: ".cache/node", variables: &["COREPACK_HOME"], data: &[] },
    Keep { words: NODE, base: ".cache/node-gyp", variables: &[], data: &[] },
    Keep { words: BUN, base: ".bun/install/cache", variables: &["BUN_INSTALL_CACHE_DIR"], data: &[] },
    Keep { words: DENO, base: ".cache/deno", variables: &["DENO_DIR"], data: &[] },
    Keep { words: PIP, base: ".cache/pip", variables: &["PIP_CACHE_DIR"], data: &["http", "http-v2", "selfcheck"] },
    Keep { words: PIP, base: ".local/share/virtualenv", variables: &[], data: &[] },
    Keep { words: UV, base: ".cache/uv", variables: &["UV_CACHE_DIR"], data: &[] },
    Keep { words: UV, base: ".local/share/uv", variables: &["UV_TOOL_DIR"], data: &[] },
    Keep { words: POETRY, base: ".cache/pypoetry", variables: &["POETRY_CACHE_DIR"], data: &["cache", "artifacts", "virtualenvs"] },
    Keep { words: PIPENV, base: ".cache/pipenv", variables: &["PIPENV_CACHE_DIR"], data: &[] },
    Keep { words: PIPENV, base: ".local/share/virtualenvs", variables: &["WORKON_HOME"], data: &[""] },
    Keep { words: CARGO, base: ".cargo/registry", variables: &[], data: &["index", "cache"] },
    Keep { words: CARGO, base: ".cargo/git", variables: &[], data: &["db"] },
    Keep { words: GO, base: "go/pkg", variables: &["GOMODCACHE"], data: &[] },
    Keep { words: GO, base: ".cache/go-build", variables: &["GOCACHE"], data: &[] },
    Keep { words: RUBY, base: ".bundle", variables: &["BUNDLE_USER_HOME"], data: &["cache", "ruby"] },
    Keep { words: RUBY, base: ".gem", variables: &[], data: &["ruby", "specs"] },
    Keep { words: COMPOSER, base: ".composer/cache", variables: &["COMPOSER_CACHE_DIR"], data: &[""] },
    Keep { words: COMPOSER, base: ".cache/composer", variables: &[], data: &[""] },
    Keep { words: GRADLE, base: ".gradle", variables: &["GRADLE_USER_HOME"], data: &["caches/modules-2/files-2.1"] },
    Keep { words: MAVEN, base: ".m2", variables: &[], data: &["repository"] },
];

/// Programs that packages download for themselves, below the directory of caches, with the word by
/// which a command or the manifest asks for them.
const DOWNLOADS: &[(&str, &str)] = &[
    ("playwright", "ms-playwright"),
    ("cypress", "Cypress"),
    ("puppeteer", "puppeteer"),
    ("electron", "electron"),
    ("prisma", "prisma"),
];

/// Where the first yarn keeps what it downloads for root.
const ROOTS_YARN: &str = "/usr/local/share/.cache/yarn";

/// The files by which several cargos agree who works.
const CARGO_FILES: [&str; 3] = [".package-cache", ".package-cache-mutate", ".global-cache"];

/// Devices that any program may need.
const DEVICES: &[&str] =
    &["null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm"];

/// Where a command may write outside of the project.
#[derive(Debug, Default)]
pub(super) struct CachePlaces {
    /// What stays as the command leaves it.
    pub(super) kept: Vec<PathBuf>,
    /// What is as it was when the command has ended; parents before what lies below them.
    pub(super) thrown: Vec<PathBuf>,
}

/// What the places of a command depend on.
pub(super) struct CacheAsk<'a> {
    /// The command as the rules know it.
    pub(super) command: &'a str,
    /// The project.
    pub(super) root: &'a Path,
    /// What the settings list besides.
    pub(super) listed: &'a [String],
    /// Whether anything can be thrown away; where not, what a named manager has is kept whole.
    pub(super) spaces: Spaces,
}

/// Returns where a command may write outside of the project, making the caches of the managers that
/// it names.
pub(super) fn places(ask: &CacheAsk<'_>) -> CachePlaces {
    let absolute =
        |name: &&str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let home = absolute(&"HOME").filter(|home| home.is_dir());
    let caches = absolute(&"XDG_CACHE_HOME").or_else(|| Some(home.as_ref()?.join(".cache")));
    let mut found = CachePlaces::default();
    found.kept.extend(DEVICES.iter().map(|name| Path::new("/dev").join(name)));
    found.kept.extend(absolute(&"CARGO_TARGET_DIR").filter(|_| names(ask.command, CARGO)));
    if names(ask.command, PNPM) {
        found.kept.extend(pnpm_locks());
    }
    if let Some(home) = &home {
        for keep in KEEPS {
            let at = keep.variables.iter().find_map(absolute);
            let at = at.unwrap_or_else(|| match (keep.base.strip_prefix(".cache/"), &caches) {
                (Some(name), Some(caches)) => caches.join(name),
                _ => cargo_home(home, keep.base).unwrap_or_else(|| home.join(keep.base)),
            });
            found.add(keep, &at, ask.command);
        }
        if names(ask.command, CARGO) {
            found.kept.extend(cargo_files(home));
        }
    }
    if names(ask.command, YARN) && rustix::process::geteuid().is_root() {
        let keep = Keep { words: YARN, base: "", variables: &[], data: &[] };
        found.add(&keep, Path::new(ROOTS_YARN), ask.command);
    }
    if let Some(caches) = caches.filter(|caches| caches.is_dir()) {
        found.kept.extend(downloads(ask, &caches));
        found.thrown.push(caches);
    }
    let below_home = |path: &str| home.as_ref().map(|home| home.join(path));
    found.kept.extend(ask.listed.iter().filter_map(|cache| match cache.strip_prefix("~/") {
        Some(rest) => below_home(rest),
        None => Some(PathBuf::from(cache)).filter(|path| path.is_absolute()),
    }));
    found.in_order(ask)
}

impl CachePlaces {
    fn add(&mut self, keep: &Keep, at: &Path, command: &str) {
        let is_named = names(command, keep.words);
        if is_named {
            // Where it cannot be made, the manager says so itself.
            let _ = fs::create_dir_all(at);
            for data in keep.data {
                let _ = fs::create_dir_all(at.join(data));
                self.kept.push(at.join(data));
            }
        }
        if !(is_named && keep.data.contains(&"")) && at.is_dir() {
            self.thrown.push(at.to_path_buf());
        }
    }

    /// Sorts parents before their children; where nothing can be thrown away, a manager that is named
    /// has its places to write to, and others have none.
    fn in_order(mut self, ask: &CacheAsk<'_>) -> Self {
        if ask.spaces == Spaces::None {
            let named = KEEPS.iter().filter(|keep| names(ask.command, keep.words));
            let named: Vec<&str> = named.map(|keep| keep.base).collect();
            let is_named = |place: &PathBuf| named.iter().any(|base| place.ends_with(base));
            self.kept.extend(std::mem::take(&mut self.thrown).into_iter().filter(is_named));
        }
        self.thrown.sort();
        self.thrown.dedup();
        let is_kept = |place: &PathBuf| self.kept.contains(place);
        self.thrown.retain(|place| !is_kept(place));
        self
    }
}

/// Returns a place of cargo's that `CARGO_HOME` moves.
fn cargo_home(home: &Path, base: &str) -> Option<PathBuf> {
    let name = base.strip_prefix(".cargo/")?;
    let moved = std::env::var_os("CARGO_HOME").map(PathBuf::from).filter(|p| p.is_absolute());
    Some(moved.unwrap_or_else(|| home.join(".cargo")).join(name))
}

fn cargo_files(home: &Path) -> Vec<PathBuf> {
    let moved = std::env::var_os("CARGO_HOME").map(PathBuf::from).filter(|p| p.is_absolute());
    let cargo = moved.unwrap_or_else(|| home.join(".cargo"));
    let made = |file: &PathBuf| {
        // Where it cannot be made, cargo says so itself.
        let _ = OpenOptions::new().append(true).create(true).open(file);
    };
    CARGO_FILES.iter().map(|file| cargo.join(file)).inspect(made).collect()
}

/// Returns where packages of this project keep programs that they download, made as they would.
fn downloads(ask: &CacheAsk<'_>, caches: &Path) -> Vec<PathBuf> {
    let manifest = read_text(&ask.root.join("package.json"), FileKind::Bulk).unwrap_or_default();
    let is_wanted = |word: &str| names(ask.command, &[word]) || manifest.contains(word);
    let wanted = DOWNLOADS.iter().filter(|(word, _)| is_wanted(word));
    let places = wanted.map(|(_, dir)| caches.join(dir));
    places.inspect(|dir| drop(fs::create_dir_all(dir))).collect()
}

/// Returns the directories in which several pnpms agree who works, made as pnpm makes them: it does
/// not ask where temporary files go.
fn pnpm_locks() -> Vec<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let names = ["pnpm-store-operation-locks", "pnpm-dir-locks"];
    let places = names.map(|name| PathBuf::from(format!("/tmp/{name}-{user}")));
    // Anyone may put something there, so it counts only if it is a directory of our own.
    let is_ours = |place: &PathBuf| {
        // Where it cannot be made, pnpm says so itself.
        let _ = fs::DirBuilder::new().mode(0o700).create(place);
        place.symlink_metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == user)
    };
    places.into_iter().filter(is_ours).collect()
}

/// Returns whether a command has one of these words.
pub(super) fn names(command: &str, words: &[&str]) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    command.split(|c| !is_part(c)).any(|word| words.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_its_tools_wherever_they_stand() {
        assert!(names("rm -rf node_modules && npm ci", &["npm"]));
        assert!(names("/usr/bin/cargo fetch", &["cargo"]));
        assert!(!names("pnpm install", &["npm"]));
        assert!(!names("echo my-npm", &["npm"]));
    }

    #[test]
    fn a_command_keeps_the_data_of_its_own_manager_only() {
        let root = tempfile::tempdir().unwrap();
        let ask =
            |command| CacheAsk { command, root: root.path(), listed: &[], spaces: Spaces::User };
        let found = places(&ask("npm ci"));
        let ends = |all: &[PathBuf], end: &str| all.iter().any(|place| place.ends_with(end));
        assert!(ends(&found.kept, "_cacache") && !ends(&found.kept, "http-v2"), "{found:?}");
        assert!(
            found
                .thrown
                .iter()
                .any(|place| { place.join("_cacache").is_dir() && !found.kept.contains(place) })
        );
        let found = places(&ask("make"));
        assert!(!found.kept.iter().any(|place| !place.starts_with("/dev")), "{found:?}");
        let weaker = places(&CacheAsk { spaces: Spaces::None, ..ask("npm ci") });
        assert!(weaker.thrown.is_empty() && ends(&weaker.kept, "_cacache"), "{weaker:?}");
    }
}
