//! Checks what the settings say about checks and specialists.

use salve_core::class::Class;

use super::problem::{ConfigProblem, nearest, shown};
use super::procfile::is_name;
use super::runtime::AgentRuntime;
use super::settings::Settings;
use super::tree::{SettingNode, Value};

/// Returns what is wrong with the checks and the specialists.
pub(super) fn problems(settings: &Settings, tree: &SettingNode) -> Vec<ConfigProblem> {
    let mut problems = names(tree, "checks", "a check");
    problems.extend(names(tree, "specialists", "a specialist"));
    let mut add = |key: String, message: String| {
        let origin = tree.get(&key).map(|node| node.origin.clone());
        problems.push(ConfigProblem { origin, key: Some(key), message });
    };
    for (name, entry) in &settings.checks {
        match &entry.command {
            None => add(format!("checks.{name}"), "`command` is missing".into()),
            Some(command) if command.is_empty() => {
                add(format!("checks.{name}.command"), "there is nothing to run".into());
            }
            Some(_) => {}
        }
    }
    for (name, entry) in &settings.specialists {
        if entry.runtime == Some(AgentRuntime::Command) && entry.command.is_none() {
            let message = "\"command\" needs `command` to be set".to_owned();
            add(format!("specialists.{name}.runtime"), message);
        }
        let known: Vec<&str> = Class::ALL.iter().map(|class| class.as_str()).collect();
        for class in entry.classes.iter().filter(|class| !known.contains(&class.as_str())) {
            let what = format!("there is no class `{}`", shown(class));
            let message = match nearest(class, known.iter().copied()) {
                Some(near) => format!("{what}; did you mean `{near}`?"),
                None => what,
            };
            add(format!("specialists.{name}.classes"), message);
        }
    }
    problems
}

/// Returns the names in a table that cannot be names.
fn names(tree: &SettingNode, table: &str, whose: &str) -> Vec<ConfigProblem> {
    let Some(SettingNode { value: Value::Table(entries), .. }) = tree.get(table) else {
        return Vec::new();
    };
    let wrong = entries.iter().filter(|(name, _)| !is_name(name));
    let problem = |(name, entry): (&String, &super::tree::SettingEntry)| {
        let message =
            format!("{whose}'s name has only a-z, 0-9, - and _, unlike `{}`", shown(name));
        ConfigProblem::at(&entry.key, table, message)
    };
    wrong.map(problem).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::check_file as check;

    #[test]
    fn checks_and_specialists_that_cannot_work_are_told_with_their_place() {
        check("[checks.test]\ncommand = \"npm test\"", &[]);
        check("[checks.test]\ndir = \"x\"", &["salve.toml:1:1: checks.test: `command` is missing"]);
        check(
            "checks.Test.command = \"x\"",
            &["salve.toml:1:8: checks: a check's name has only a-z, 0-9, - and _, unlike `Test`"],
        );
        check(
            "[specialists.debugger]\nclasses = [\"test_failur\"]",
            &["salve.toml:2:11: specialists.debugger.classes: there is no class `test_failur`; \
               did you mean `test_failure`?"],
        );
        check(
            "[specialists.debugger]\nruntime = \"command\"",
            &[
                "salve.toml:2:11: specialists.debugger.runtime: \"command\" needs `command` to be set",
            ],
        );
    }
}
