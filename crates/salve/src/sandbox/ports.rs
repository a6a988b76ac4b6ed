//! The ports of the web, and of the proxies and registries that are set up.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// HTTP, HTTPS, and names over TCP.
const WEB: [u16; 3] = [53, 80, 443];

/// How much of a settings file is looked at.
const MOST: usize = 1 << 20;

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
    for file in files.filter(|file| file.is_file()) {
        let text = fs::read(file).unwrap_or_default();
        ports.extend(named(&String::from_utf8_lossy(&text[..text.len().min(MOST)])));
    }
    for (name, value) in std::env::vars() {
        let upper = name.to_ascii_uppercase();
        if NAMES.iter().any(|part| upper.contains(part)) {
            ports.extend(named(&value));
        }
    }
    ports.into_iter().collect()
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
    fn ports_are_read_from_addresses() {
        let text = "registry=http://localhost:4873/\nproxy = \"http://u:99@proxy:3128\"\n\
            index = sparse+https://crates.example:8443/index/\nplain https://a.example/x:12";
        assert_eq!(named(text), [4873, 3128, 8443]);
        assert!(
            named("http://[::1]:8080/").contains(&8080) && named("no://x:0 y://z:99999").is_empty()
        );
    }
}
