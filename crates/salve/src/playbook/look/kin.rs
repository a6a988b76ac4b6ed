//! Whether a process runs the project's own program, as far as the process itself shows.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::super::FailedSubject;
use super::nearest;
use crate::files::{FileKind, read_bytes};
use crate::process::tree::{self, Stat};

/// Words of a command that tell nothing about what it runs.
const PLAIN: &[&str] = &[
    "bash",
    "bun",
    "bunx",
    "cargo",
    "cross-env",
    "deno",
    "dev",
    "dotenv",
    "env",
    "exec",
    "java",
    "make",
    "node",
    "npm",
    "npx",
    "php",
    "pipenv",
    "pnpm",
    "poetry",
    "pypy",
    "python",
    "python3",
    "ruby",
    "run",
    "serve",
    "server",
    "start",
    "sudo",
    "yarn",
];

/// Returns whether a process runs something of the project: its executable is inside, one of its
/// words is a file of the project, or it has the name of what the subject's command starts.
pub(super) fn is_own(ask: &FailedSubject<'_>, stat: &Stat, cwd: &Path) -> bool {
    let inside = |path: &Path| path.canonicalize().is_ok_and(|path| path.starts_with(ask.root));
    let exe = fs::read_link(format!("/proc/{}/exe", stat.pid));
    if exe.is_ok_and(|exe| exe.starts_with(ask.root)) {
        return true;
    }
    let line = tree::command_line(stat.pid).unwrap_or_default();
    let words = || line.split_whitespace().filter(|word| !word.starts_with('-'));
    let is_file = |word: &str| {
        let path = cwd.join(word);
        path.is_file() && inside(&path)
    };
    if words().any(is_file) {
        return true;
    }
    let names = names(ask);
    words().map(base).any(|word| names.iter().any(|name| is_called(word, name)))
}

/// Returns whether a process calls itself so: `next`, `next-server`, `gunicorn:`.
fn is_called(word: &str, name: &str) -> bool {
    word.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', ':']))
}

fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Returns the telling words of the subject's command, and of the script that it runs.
fn names(ask: &FailedSubject<'_>) -> BTreeSet<String> {
    let manifest = nearest(ask, "package.json").map(|dir| dir.join("package.json"));
    let manifest = manifest.and_then(|file| read_bytes(&file, FileKind::Document).ok());
    let manifest: Option<Value> = manifest.and_then(|text| serde_json::from_slice(&text).ok());
    let scripts = manifest.as_ref().and_then(|manifest| manifest.get("scripts"));
    let script = |word: &str| scripts?.get(word)?.as_str().map(str::to_owned);
    let command = ask.command.split_whitespace();
    let all = command.flat_map(|word| [Some(word.to_owned()), script(word)]).flatten();
    let words = all.flat_map(|text| {
        let words = text.split_whitespace().map(|word| base(word).to_owned());
        words.collect::<Vec<_>>()
    });
    let telling = |word: &String| {
        let plain = word.starts_with(['-', '$']) || word.contains('=');
        !plain && word.len() > 2 && word.contains(|c: char| c.is_alphabetic())
    };
    words.filter(telling).filter(|word| !PLAIN.contains(&word.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_called_by_its_name_or_a_part_of_it() {
        assert!(is_called("next", "next") && is_called("next-server", "next"));
        assert!(is_called("gunicorn:", "gunicorn") && !is_called("nextcloud", "next"));
    }

    #[test]
    fn the_words_that_tell_come_from_the_command_and_its_script() {
        let dir = tempfile::tempdir().unwrap();
        let manifest = r#"{"scripts":{"dev":"PORT=3000 node ./src/api.js --port $PORT"}}"#;
        fs::write(dir.path().join("package.json"), manifest).unwrap();
        let root = dir.path();
        let sandbox = &crate::sandbox::tests::usual();
        let ask =
            FailedSubject { root, dir: root, command: "npm run dev", env: &[], run: None, sandbox };
        assert_eq!(names(&ask), BTreeSet::from(["api.js".to_owned()]));
    }
}
