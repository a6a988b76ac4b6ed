//! Checks what the settings say about loops.

use super::loops::{RECOVERY, RoleEntry, TESTS, shipped_prompt};
use super::problem::{ConfigProblem, nearest, shown};
use super::procfile::is_name;
use super::runtime::AgentRuntime;
use super::settings::Settings;
use super::tree::SettingNode;

/// The files of a loop that are not a role's to write.
const OWN: [&str; 7] = [
    "state.json",
    "escalation.json",
    "events.jsonl",
    "usage.jsonl",
    "task.md",
    "test-output.txt",
    "test-results.json",
];

/// Returns what is wrong with the loop and its roles.
pub(super) fn problems(settings: &Settings, tree: &SettingNode) -> Vec<ConfigProblem> {
    let mut problems = Vec::new();
    let mut add = |key: String, message: String| {
        let origin = tree.get(&key).map(|node| node.origin.clone());
        problems.push(ConfigProblem { origin, key: Some(key), message });
    };
    let known = &settings.r#loop;
    if known.tests.as_ref().is_some_and(|command| command.is_empty()) {
        add("loop.tests".into(), "there is nothing to run".into());
    }
    if known.promise.trim().is_empty() || known.promise.contains(['<', '>', '\n']) {
        add("loop.promise".into(), "expected some words on one line, without < and >".into());
    }
    for message in order(&known.order, known.roles.keys().map(String::as_str)) {
        add("loop.order".into(), message);
    }
    for (name, entry) in &known.roles {
        let at = |field: &str| format!("loop.roles.{name}{field}");
        if !is_name(name) || name == TESTS || name == RECOVERY {
            add(at(""), format!("`{}` cannot be the name of a role", shown(name)));
        }
        if entry.runtime == Some(AgentRuntime::Command) && entry.command.is_none() {
            add(at(".runtime"), "\"command\" needs `command` to be set".into());
        }
        if entry.command.as_ref().is_some_and(|command| command.is_empty()) {
            add(at(".command"), "there is nothing to run".into());
        }
        if entry.prompt.is_none() && shipped_prompt(name).is_none() {
            add(at(""), "`prompt` is missing: a file with what the role is told".into());
        }
        if entry.prompt.as_deref().is_some_and(is_outside) {
            add(at(".prompt"), "expected a file below the project's directory".into());
        }
        for file in wrong_files(entry) {
            let message = format!("`{}` cannot be a file that a role writes", shown(file));
            add(at(".writes"), message);
        }
    }
    problems
}

/// Returns what is wrong with the order of an iteration.
fn order<'n>(order: &'n [String], roles: impl Iterator<Item = &'n str> + Clone) -> Vec<String> {
    let mut wrong = Vec::new();
    let places = |word: &str| {
        let at = order.iter().enumerate().filter(|(_, step)| *step == word);
        at.map(|(at, _)| at).collect::<Vec<_>>()
    };
    let (tests, recovery) = (places(TESTS), places(RECOVERY));
    if tests.len() != 1 {
        wrong.push("\"tests\" has to stand in it once".to_owned());
    }
    if recovery.len() > 1 || recovery.first() < tests.first() && !recovery.is_empty() {
        wrong.push("\"recovery\" may stand in it once, after \"tests\"".to_owned());
    }
    let is_step = |step: &str| step == TESTS || step == RECOVERY;
    for (at, step) in order.iter().enumerate().filter(|(_, step)| !is_step(step)) {
        if order[..at].contains(step) {
            wrong.push(format!("`{}` stands in it twice", shown(step)));
        } else if !roles.clone().any(|role| role == step) {
            let what = format!("there is no role `{}`", shown(step));
            wrong.push(match nearest(step, roles.clone()) {
                Some(near) => format!("{what}; did you mean `{near}`?"),
                None => what,
            });
        }
    }
    wrong
}

fn is_outside(path: &str) -> bool {
    path.is_empty() || path.starts_with('/') || path.split('/').any(|part| part == "..")
}

fn wrong_files(entry: &RoleEntry) -> impl Iterator<Item = &str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let files = entry.writes.iter().map(String::as_str);
    files.filter(move |file| {
        file.is_empty()
            || file.starts_with('.')
            || !file.chars().all(is_plain)
            || OWN.contains(file)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::check_file as check;

    #[test]
    fn a_loop_that_cannot_run_is_told_with_its_place() {
        check("[loop]\norder = [\"planner\", \"tests\", \"reviewer\"]", &[]);
        check(
            "[loop]\norder = [\"recovery\", \"tests\", \"planer\", \"tests\"]",
            &[
                "salve.toml:2:9: loop.order: \"tests\" has to stand in it once",
                "salve.toml:2:9: loop.order: \"recovery\" may stand in it once, after \"tests\"",
                "salve.toml:2:9: loop.order: there is no role `planer`; did you mean `planner`?",
            ],
        );
        check(
            "[loop]\npromise = \"<x>\"",
            &["salve.toml:2:11: loop.promise: expected some words on one line, without < and >"],
        );
        check(
            "[loop.roles.scribe]\nwrites = [\"notes.md\"]",
            &["salve.toml:1:1: loop.roles.scribe: `prompt` is missing: a file with what the role \
               is told"],
        );
        check(
            "[loop.roles.planner]\nwrites = [\"../x\", \"state.json\"]\nprompt = \"../p.md\"",
            &[
                "salve.toml:3:10: loop.roles.planner.prompt: expected a file below the project's \
                 directory",
                "salve.toml:2:10: loop.roles.planner.writes: `../x` cannot be a file that a role \
                 writes",
                "salve.toml:2:10: loop.roles.planner.writes: `state.json` cannot be a file that a \
                 role writes",
            ],
        );
    }
}
