//! Which processes install packages, by what runs.

/// Package managers, and the words with which they change what is installed; an empty word stands
/// for no word at all.
const MANAGERS: [(&str, &[&str]); 10] = [
    ("npm", NODE_WORDS),
    ("pnpm", NODE_WORDS),
    ("yarn", YARN_WORDS),
    ("yarnpkg", YARN_WORDS),
    ("bun", NODE_WORDS),
    ("pip", &["install", "uninstall"]),
    ("pip3", &["install", "uninstall"]),
    ("uv", &["sync", "add", "remove", "pip", "venv"]),
    ("poetry", &["install", "update", "add", "remove", "sync"]),
    ("pipenv", &["install", "update", "sync", "uninstall"]),
];

const NODE_WORDS: &[&str] = &[
    "install",
    "i",
    "ci",
    "clean-install",
    "add",
    "remove",
    "rm",
    "uninstall",
    "update",
    "up",
    "upgrade",
    "dedupe",
    "prune",
    "rebuild",
    "link",
    "import",
    "fetch",
];

const YARN_WORDS: &[&str] =
    &["", "install", "add", "remove", "up", "upgrade", "dedupe", "link", "workspaces"];

/// How many words may stand before the manager's own: an interpreter and its options.
const BEFORE: usize = 4;

/// Tells whether a process changes what is installed, from its command line.
pub fn installs_packages(command: &str) -> bool {
    let words: Vec<&str> = command.split_whitespace().collect();
    words.iter().take(BEFORE).enumerate().any(|(at, word)| {
        let file = word.rsplit('/').next().unwrap_or(word);
        let stem = file.split_once('.').map_or(file, |(stem, _)| stem);
        let name = stem.strip_suffix("-cli").unwrap_or(stem);
        let said = words.iter().skip(at + 1).find(|word| !word.starts_with('-')).unwrap_or(&"");
        MANAGERS.iter().any(|(manager, verbs)| *manager == name && verbs.contains(said))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_install_is_told_from_a_script_that_a_manager_runs() {
        for (command, installs) in [
            ("npm ci", true),
            ("npm install --no-audit", true),
            ("node /usr/lib/node_modules/npm/bin/npm-cli.js ci", true),
            ("node /usr/bin/pnpm i --frozen-lockfile", true),
            ("node /usr/share/yarn/yarn.js", true),
            ("yarn", true),
            ("/srv/shop/.venv/bin/python -m pip install -r requirements.txt", true),
            ("uv sync", true),
            ("npm run dev", false),
            ("npm exec vite", false),
            ("yarn dev", false),
            ("node server.js install", false),
            ("uv run uvicorn app:app", false),
            ("node /srv/shop/node_modules/.bin/vite", false),
            ("", false),
        ] {
            assert_eq!(installs_packages(command), installs, "{command}");
        }
    }
}
