//! The ports of the web, and of the proxies and registries that are set up.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::files::{Links, open_regular};

/// HTTP, HTTPS, and names over TCP.
const WEB: [u16; 3] = [53, 80, 443];

/// How much of a settings file is looked at.
const MOST: u64 = 1 << 20;

/// Settings files of package managers in a project.
const PROJECT: &[&str] = &[
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    "bunfig.toml",
    "pip.conf",
    "pyproject.toml",
    "uv.toml",
    "requirements.txt",
    ".cargo/config.toml",
    ".cargo/config",
];

/// Those of the user, below the home directory.
const USER: &[&str] = &[
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".bunfig.toml",
    ".config/pip/pip.conf",
    ".pip/pip.conf",
    ".config/uv/uv.toml",
    ".cargo/config.toml",
    ".cargo/config",
];

/// Those of the machine.
const MACHINE: &[&str] = &["/etc/npmrc", "/etc/pip.conf", "/usr/etc/npmrc"];

/// Parts of the names of variables that hold addresses.
const NAMES: &[&str] = &["PROXY", "REGISTRY", "INDEX", "MIRROR", "FIND_LINKS"];

/// Returns the ports that the web takes here.
pub(super) fn web(root: &Path) -> Vec<u16> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let project = PROJECT.iter().map(|file| root.join(file));
    let user = USER.iter().filter_map(|file| Some(home.as_ref()?.join(file)));
    let files = project.chain(user).chain(MACHINE.iter().map(PathBuf::from));
    let mut ports = BTreeSet::from(WEB);
    for file in files {
        ports.extend(named(&start_of(&file)));
    }
    for (name, value) in std::env::vars() {
        let upper = name.to_ascii_uppercase();
        if NAMES.iter().any(|part| upper.contains(part)) {
            ports.extend(named(&value));
        }
    }
    ports.into_iter().collect()
}

/// Reads the beginning of a settings file, which may be a link; nothing of anything else.
fn start_of(file: &Path) -> String {
    let mut text = Vec::new();
    // What cannot be read names no port.
    if let Ok(file) = open_regular(file, Links::Follow) {
        let _ = file.take(MOST).read_to_end(&mut text);
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Returns the ports of the addresses in a text.
fn named(text: &str) -> Vec<u16> {
    let ends = |c: char| c.is_whitespace() || "/\"'?#,;)}>".contains(c);
    let addresses = text.split("://").skip(1);
    let hosts = addresses.filter_map(|rest| rest.split(ends).next());
    let port = |host: &str| host.rsplit('@').next()?.rsplit_once(':')?.1.parse().ok();
    hosts.filter_map(port).filter(|&port| port != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_huge_file_the_beginning_is_read_and_of_a_pipe_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("bunfig.toml");
        std::fs::write(&file, "registry = \"http://localhost:4873/\"\n").unwrap();
        let sparse = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
        sparse.set_len(1 << 40).unwrap();
        let pipe = dir.path().join(".npmrc");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        assert_eq!(start_of(&file).len() as u64, MOST);
        assert!(web(dir.path()).contains(&4873));
    }

    #[test]
    fn ports_are_read_from_addresses() {
        let text = "registry=http://localhost:4873/\nproxy = \"http://u:99@proxy:3128\"\n\
            index = sparse+https://crates.example:8443/index/\nplain https://a.example/x:12";
        assert_eq!(named(text), [4873, 3128, 8443]);
        assert!(
            named("http://[::1]:8080/").contains(&8080) && named("no://x:0 y://z:99999").is_empty()
        );
    }
}
