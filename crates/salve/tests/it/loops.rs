//! `salve loop run`: roles that work on a task until it is done, get stuck, or reach a limit.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::heal::{Visit, git};
use crate::support::Project;

/// Tests that pass when `sum.txt` says 5.
const TESTS: &str = "if [ \"$(cat sum.txt)\" = 5 ]; then echo '=== 1 passed in 0.01s ==='; else\n\
                     echo '=== short test summary info ==='\n\
                     echo \"FAILED test_sum.py::test_sum - AssertionError: $(cat sum.txt)\"\n\
                     echo '=== 1 failed in 0.01s ==='; exit 1; fi";

/// What every scripted role does first: it keeps what it was told, and says that it was there.
const HEAD: &str = "cat > \"../told-$SALVE_ROLE-$SALVE_ITERATION\"\n\
                    echo \"$SALVE_ROLE $SALVE_ITERATION\" >> ../turns\n\
                    cd_to=\"$SALVE_LOOP_DIR\"\n";

/// What the roles do unless a story says otherwise: each writes what it must, and that is all.
const PARTS: [(&str, &str); 4] = [
    ("planner", "echo plan > \"$cd_to/plan.md\""),
    ("implementer", "echo done > \"$cd_to/implementation.md\""),
    ("tester", "echo report > \"$cd_to/test-report.md\""),
    ("reviewer", "echo 'not yet' > \"$cd_to/review.md\""),
];

/// What makes a reviewer promise.
pub(crate) const PROMISE: &str =
    "echo '<promise>THE TASK IS DONE</promise>' >> \"$cd_to/review.md\"";

/// A project with red tests and roles that are scripts.
pub(crate) struct Rounds {
    pub(crate) project: Project,
}

impl Rounds {
    /// Makes the project; each part is added to what the role of that name does.
    pub(crate) fn new(parts: &[(&str, &str)]) -> Self {
        let project = Project::new();
        project.write("check.sh", TESTS);
        project.write("sum.txt", "4");
        for args in [&["init", "-q"][..], &["add", "-A"], &["commit", "-qm", "first"]] {
            git(&project, args);
        }
        let rounds = Self { project };
        rounds.roles(parts);
        rounds
    }

    /// Writes what the roles do.
    pub(crate) fn roles(&self, parts: &[(&str, &str)]) {
        let mut script = HEAD.to_owned();
        script.push_str("case $SALVE_ROLE in\n");
        for (role, usual) in PARTS {
            let own = parts.iter().filter(|(name, _)| *name == role).map(|(_, part)| *part);
            let all: Vec<&str> = std::iter::once(usual).chain(own).collect();
            script.push_str(&format!("{role})\n{}\n;;\n", all.join("\n")));
        }
        script.push_str("esac\n");
        self.project.write("../roles.sh", script);
    }

    /// Returns the path of the script that plays the roles.
    pub(crate) fn script(&self) -> String {
        let roles = self.project.dir().join("../roles.sh").canonicalize().unwrap();
        roles.to_string_lossy().into_owned()
    }

    /// Returns `salve loop run` with the scripted roles.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let agent = format!("sh '{}'", self.script());
        let mut all = vec!["loop", "run", "--agent", &agent, "--tests", "sh check.sh"];
        all.extend(args);
        let mut command = self.project.command(&all);
        command.stdin(Stdio::null()).env("SALVE_USER", "ada");
        command
    }

    /// Starts the loop `v1` and runs it to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Visit {
        let args = [&["--id", "v1", "--task", "make the sum 5"], args].concat();
        Visit::of(&self.output(&args))
    }

    /// Has the loop `v1` go on.
    pub(crate) fn go_on(&self) -> Visit {
        Visit::of(&self.output(&["--id", "v1"]))
    }

    fn output(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs another `salve` and returns what it said.
    pub(crate) fn salve(&self, args: &[&str]) -> Visit {
        let mut command = self.project.command(args);
        Visit::of(&command.env("SALVE_USER", "ada").stdin(Stdio::null()).output().unwrap())
    }

    /// Returns what a file in the project says, or nothing.
    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.project.dir().join(path)).unwrap_or_default()
    }

    /// Returns what a file of the loop says, or nothing.
    pub(crate) fn file(&self, name: &str) -> String {
        self.read(&format!(".salve/loops/v1/{name}"))
    }

    /// Returns how the loop stands, as its file says.
    pub(crate) fn status(&self) -> String {
        let state: Value = serde_json::from_str(&self.file("state.json")).unwrap_or_default();
        state["status"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns the turns that the roles took.
    pub(crate) fn turns(&self) -> Vec<String> {
        self.read("../turns").lines().map(str::to_owned).collect()
    }

    /// Returns the names of the events in the loop's own log.
    pub(crate) fn events(&self) -> Vec<String> {
        let name = |line: &str| {
            let line: Value = serde_json::from_str(line).unwrap();
            assert_eq!(line["loop_id"], "v1", "{line}");
            line["event"].as_str().unwrap().to_owned()
        };
        self.file("events.jsonl").lines().map(name).collect()
    }
}

/// An implementer that does the work in the second iteration.
const LATE: &str = "if [ $SALVE_ITERATION = 2 ]; then printf 5 > sum.txt; fi";

#[test]
fn a_loop_runs_to_its_promise_and_a_false_one_is_refused() {
    let rounds = Rounds::new(&[("implementer", LATE), ("reviewer", PROMISE)]);
    rounds.run(&[]).expect(0, &["iteration 1", "red", "refused", "green", "completed"]);
    let iteration = |number: u32| {
        ["planner", "implementer", "tester", "reviewer"].map(|role| format!("{role} {number}"))
    };
    assert_eq!(rounds.turns(), [iteration(1), iteration(2)].concat());
    let told = rounds.read("../told-planner-2");
    assert!(told.contains("promise of the last iteration was refused"), "{told}");
    assert!(told.contains("make the sum 5") && told.contains("test_sum.py::test_sum"), "{told}");
    let told = rounds.read("../told-tester-1");
    assert!(told.contains("Infrastructure Analysis") && told.contains("recovery.json"), "{told}");
    assert!(rounds.read("../told-reviewer-1").contains("<promise>THE TASK IS DONE</promise>"));
    assert_eq!(rounds.status(), "completed");
    assert!(rounds.file("test-output.txt").contains("1 passed"));
    let results: Value = serde_json::from_str(&rounds.file("test-results.json")).unwrap();
    assert_eq!(results["results"]["verdict"], "green");
    let first: Value =
        serde_json::from_str(&rounds.file("iterations/0001/test-results.json")).unwrap();
    assert_eq!((&first["results"]["verdict"], &first["iteration"]), (&"red".into(), &1.into()));
    assert!(rounds.file("iterations/0002/review.md").contains("<promise>"));
    let events = rounds.events();
    for event in ["loop_started", "iteration_began", "role_began", "tests_ran", "loop_ended"] {
        assert!(events.iter().any(|name| name == event), "{event} in {events:?}");
    }
    rounds.salve(&["loop", "status"]).expect(0, &["v1", "completed", "iteration 2"]);
    // Nothing of it is left to do.
    rounds.go_on().expect(2, &["is completed", "--task"]);
}

#[test]
fn a_promise_for_other_files_than_were_tested_is_tested_first() {
    let undo = "printf 4 > sum.txt";
    let rounds = Rounds::new(&[
        ("implementer", "printf 5 > sum.txt"),
        ("reviewer", &format!("{PROMISE}\n{undo}")),
    ]);
    rounds.run(&["--iterations", "1"]).expect(1, &["green", "promises", "red", "limit"]);
}

#[test]
fn a_loop_that_changes_nothing_is_stopped_with_a_report() {
    let rounds = Rounds::new(&[]);
    rounds.run(&[]).expect(1, &["stuck", "report.md", "salve loop run --id v1"]);
    assert_eq!(rounds.status(), "stuck");
    assert!(!rounds.read("../told-planner-2").contains("Warning"));
    let told = rounds.read("../told-planner-3");
    assert!(told.contains("Warning: 2 iterations left the same files"), "{told}");
    assert!(!rounds.turns().contains(&"planner 4".to_owned()));
    let report = rounds.file("report.md");
    assert!(report.contains("iterations that left the same: 3"), "{report}");
    assert!(report.contains("make the sum 5") && report.contains("test_sum.py"), "{report}");
}

#[test]
fn limits_end_a_loop_and_it_goes_on_when_it_is_run_again() {
    let rounds = Rounds::new(&[("implementer", LATE), ("reviewer", PROMISE)]);
    rounds.run(&["--iterations", "1"]).expect(1, &["limit on iterations"]);
    assert_eq!(rounds.status(), "limit_reached");
    rounds.go_on().expect(0, &["iteration 2", "completed"]);
    assert!(!rounds.turns().contains(&"planner 3".to_owned()));
    let spends = "echo '{\"type\":\"spent\",\"tokens\":400}'";
    let rounds = Rounds::new(&[("planner", spends)]);
    let args = ["--set", "loop.max_tokens=1000"];
    rounds.run(&args).expect(1, &["limit on tokens", "400 tokens"]);
    assert_eq!(rounds.turns().iter().filter(|turn| turn.starts_with("planner")).count(), 3);
    let rounds = Rounds::new(&[("planner", "echo '{\"type\":\"spent\",\"cost_usd\":0.4}'")]);
    rounds.run(&["--set", "loop.max_cents=75"]).expect(1, &["limit on money", "$0.80"]);
    let rounds = Rounds::new(&[("planner", "sleep 1")]);
    rounds.run(&["--set", "loop.max_wall_ms=300"]).expect(1, &["limit on time"]);
    assert_eq!(rounds.turns(), ["planner 1"]);
}

#[test]
fn a_role_that_does_not_write_what_it_must_is_asked_once_more() {
    let once = "if [ -e ../asked ]; then echo plan > \"$cd_to/plan.md\"; else rm -f \
                \"$cd_to/plan.md\"; fi; touch ../asked";
    let rounds = Rounds::new(&[
        ("planner", once),
        ("implementer", "printf 5 > sum.txt"),
        ("reviewer", PROMISE),
    ]);
    let said = "the planner did not write .salve/loops/v1/plan.md";
    rounds.run(&[]).expect(0, &["fell short", said, "planner, attempt 2", "completed"]);
    let told = rounds.read("../told-planner-1");
    assert!(told.contains("does not count") && told.contains(said), "{told}");

    let rounds = Rounds::new(&[("planner", "rm \"$cd_to/plan.md\"")]);
    rounds.run(&[]).expect(1, &["failed", said]);
    assert_eq!((rounds.turns().len(), rounds.status()), (2, "failed".to_owned()));
}

#[test]
fn facts_are_printed_one_a_line_and_nothing_else() {
    let rounds = Rounds::new(&[("implementer", "printf 5 > sum.txt"), ("reviewer", PROMISE)]);
    let output = rounds.output(&["--json", "--task", "make the sum 5"]);
    assert_eq!(output.status.code(), Some(0));
    let lines = String::from_utf8(output.stdout).unwrap();
    let facts: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(facts[0]["loop_id"], "project", "it is named after its directory");
    assert!(facts[0]["what"]["started"].is_object(), "{}", facts[0]);
    assert_eq!(facts.last().unwrap()["what"]["ended"]["why"], "completed");
}

#[test]
fn what_cannot_start_says_what_is_missing() {
    let rounds = Rounds::new(&[]);
    Visit::of(&rounds.output(&[])).expect(2, &["there is nothing to do", "--task"]);
    Visit::of(&rounds.output(&["--id", "../x"])).expect(2, &["a loop's name has only a-z"]);
    let none = rounds.salve(&["loop", "run", "--task", "x", "--tests", "true"]);
    none.expect(2, &["there is no agent for the role `planner`", "--agent"]);
    let none = rounds.salve(&["loop", "run", "--task", "x", "--agent", "true"]);
    none.expect(2, &["no command that runs the tests", "--tests"]);
    rounds.salve(&["loop", "status"]).expect(0, &["no loop yet"]);
    rounds.salve(&["loop", "status", "v9"]).expect(1, &["there is no loop `v9`"]);
}

/// **Invariant:** A promise that rests on weakened tests does not count.
#[test]
fn a_promise_that_rests_on_weakened_tests_does_not_count() {
    let weakens = ("implementer", "echo 'exit 0' > check.sh");
    let rounds = Rounds::new(&[weakens, ("reviewer", PROMISE)]);
    let refused = rounds.run(&["--iterations", "2"]);
    refused.expect(1, &["green", "the promise does not count", "weakened"]);
    let told = rounds.read("../told-planner-2");
    assert!(told.contains("judge less than when the loop began"), "{told}");
    assert!(told.contains("check.sh"), "{told}");
    rounds.project.write("salve.toml", "[loop]\nweakened_tests = \"allow\"\n");
    rounds.go_on().expect(0, &["green"]);
}

#[test]
fn a_turn_of_a_loop_may_cost_what_a_loop_may() {
    let rounds = Rounds::new(&[]);
    // More than the first tier of a repair has; whoever is over is ended before it writes.
    let spent = "echo '{\"type\":\"spent\",\"tokens\":60000}'; sleep 1; printf 5 > sum.txt";
    rounds.project.write("../agent.sh", spent);
    let agent = format!("sh '{}'", rounds.project.dir().join("../agent.sh").display());
    let turns = ["loop", "--agent", &agent, "--", "sh", "check.sh"];
    let limited = [&["--set", "loop.max_tokens=5000"], &turns[..]].concat();
    rounds.salve(&limited).expect(3, &["used up its tokens"]);
    rounds.salve(&["resolve"]).expect(0, &[]);
    rounds.salve(&turns).expect(0, &["healed", "60000 tokens"]);
}
