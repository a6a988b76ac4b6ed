//! Where tools keep what they download.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// A tool's caches, below the home directory.
struct Tool {
    /// The words by which a command names it.
    words: &'static [&'static str],
    /// Its directories; made before a command that names the tool, as the tool itself would.
    dirs: &'static [&'static str],
}

/// The words by which a command names pnpm.
const PNPM: &[&str] = &["pnpm", "pnpx"];

/// The words by which a command names yarn.
const YARN: &[&str] = &["yarn", "yarnpkg"];

/// Where the first yarn keeps what it downloads for root.
const ROOTS_YARN: &str = "/usr/local/share/.cache/yarn";

const TOOLS: &[Tool] = &[
    Tool { words: &["npm", "npx"], dirs: &[".npm"] },
    Tool { words: PNPM, dirs: &[".local/share/pnpm/store", ".local/state/pnpm", ".cache/pnpm"] },
    Tool { words: YARN, dirs: &[".yarn/berry", ".cache/yarn"] },
    Tool { words: &["bun", "bunx"], dirs: &[".bun/install/cache"] },
    Tool { words: &["corepack"], dirs: &[".cache/node"] },
    Tool { words: &["deno"], dirs: &[".cache/deno"] },
    Tool { words: &["pip", "pip3", "python", "python3"], dirs: &[".cache/pip"] },
    Tool { words: &["uv", "uvx"], dirs: &[".cache/uv", ".local/share/uv"] },
    Tool { words: &["poetry"], dirs: &[".cache/pypoetry"] },
    Tool { words: &["pipenv"], dirs: &[".cache/pipenv", ".local/share/virtualenvs"] },
    Tool { words: &["cargo"], dirs: &[".cargo/registry", ".cargo/git"] },
    Tool { words: &["go"], dirs: &["go/pkg", ".cache/go-build"] },
    Tool { words: &["bundle", "bundler", "gem"], dirs: &[".bundle", ".gem"] },
    Tool { words: &["composer"], dirs: &[".composer/cache", ".cache/composer"] },
    Tool { words: &["gradle", "gradlew"], dirs: &[".gradle"] },
    Tool { words: &["mvn", "mvnw"], dirs: &[".m2"] },
];

/// Further caches, if they are there.
const OTHERS: &[&str] =
    &[".pnpm-store", ".node-gyp", ".local/share/virtualenv", ".local/share/pnpm/.tools"];

/// The files by which several cargos agree who works.
const CARGO_FILES: [&str; 3] = [".package-cache", ".package-cache-mutate", ".global-cache"];

/// Variables that say where such a cache is instead.
const VARIABLES: &[&str] = &[
    "npm_config_cache",
    "NPM_CONFIG_CACHE",
    "PIP_CACHE_DIR",
    "UV_CACHE_DIR",
    "POETRY_CACHE_DIR",
    "YARN_CACHE_FOLDER",
    "YARN_GLOBAL_FOLDER",
    "GOCACHE",
    "GOMODCACHE",
    "BUN_INSTALL_CACHE_DIR",
    "COREPACK_HOME",
    "CARGO_TARGET_DIR",
    "DENO_DIR",
    "COMPOSER_CACHE_DIR",
];

/// Devices that any program may need.
const DEVICES: &[&str] =
    &["null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm"];

/// Returns where `command` may write outside of the project, making the caches of the tools that it
/// names; `own` is where Salve itself keeps things among the caches.
pub(super) fn places(command: &str, listed: &[String], own: Option<&Path>) -> Vec<PathBuf> {
    let absolute =
        |name: &&str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let mut places: Vec<PathBuf> =
        DEVICES.iter().map(|name| Path::new("/dev").join(name)).collect();
    places.extend(VARIABLES.iter().filter_map(absolute));
    places.extend(absolute(&"PNPM_HOME").map(|home| home.join("store")));
    if names(command, PNPM) {
        places.extend(pnpm_locks());
    }
    if names(command, YARN) && rustix::process::geteuid().is_root() {
        // Where it cannot be made, yarn says so itself.
        let _ = fs::create_dir_all(ROOTS_YARN);
        places.push(ROOTS_YARN.into());
    }
    let home = absolute(&"HOME");
    let xdg = absolute(&"XDG_CACHE_HOME");
    let caches = xdg.or_else(|| home.as_ref().map(|home| home.join(".cache")));
    if let Some(home) = &home {
        make(home, command);
        let tools = TOOLS.iter().flat_map(|tool| tool.dirs).chain(OTHERS);
        places.extend(tools.map(|dir| home.join(dir)));
        let cargo = absolute(&"CARGO_HOME").unwrap_or_else(|| home.join(".cargo"));
        places.extend(["registry", "git"].map(|dir| cargo.join(dir)));
        for file in CARGO_FILES.map(|file| cargo.join(file)) {
            if names(command, &["cargo"]) && cargo.is_dir() {
                // Where it cannot be made, cargo says so itself.
                let _ = OpenOptions::new().append(true).create(true).open(&file);
            }
            places.push(file);
        }
        places.extend(listed.iter().filter_map(|cache| Some(home.join(cache.strip_prefix("~/")?))));
    }
    places.extend(listed.iter().filter(|cache| cache.starts_with('/')).map(PathBuf::from));
    if let Some(caches) = caches {
        match own {
            // The kernel's rules only allow: what is Salve's stays shut by allowing the others.
            Some(own) => places.extend(entries(&caches).into_iter().filter(|entry| entry != own)),
            None => places.push(caches),
        }
    }
    places
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

/// Makes the caches of the tools that a command names.
fn make(home: &Path, command: &str) {
    if !home.is_dir() {
        return;
    }
    for tool in TOOLS.iter().filter(|tool| names(command, tool.words)) {
        for dir in tool.dirs {
            // Where it cannot be made, the tool says so itself.
            let _ = fs::create_dir_all(home.join(dir));
        }
    }
}

/// Returns whether a command has one of these words.
pub(super) fn names(command: &str, words: &[&str]) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    command.split(|c| !is_part(c)).any(|word| words.contains(&word))
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
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
}
