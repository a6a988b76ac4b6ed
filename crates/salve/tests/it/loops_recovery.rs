//! A loop whose tests cannot execute again and again: recovered by a rule, by a person's word, and
//! left as it is.

use crate::heal::Visit;
use crate::loops::{PROMISE, Rounds};
use crate::support::wait_for;

/// Tests that in stage N cannot start without `N.txt`, and are green in the fourth.
const TESTS: &str = "stage=$(cat stage.txt)\n\
                     if [ $stage -lt 4 ] && [ ! -e $stage.txt ]; then\n\
                     echo \"Error: Cannot find module 'part-$stage'\"; exit 1; fi\n\
                     if [ $stage = 4 ]; then echo '=== 1 passed in 0.01s ==='; exit 0; fi\n\
                     echo '=== short test summary info ==='\n\
                     echo \"FAILED test_stage.py::test_stage - AssertionError: $stage\"\n\
                     echo '=== 1 failed in 0.01s ==='; exit 1";

/// A tester that proposes what is missing, where something is.
const DIAGNOSIS: &str = r#"if grep -q 'Cannot find module' "$cd_to/test-output.txt"; then
cat > "$cd_to/recovery.json" <<END
{"version": 1, "timestamp": "$(date -u +%Y-%m-%dT%H:%M:%SZ)", "category": "dependency",
 "severity": "blocking",
 "diagnosis": {"error_pattern": "Cannot find module", "root_cause": "it is not installed",
               "evidence": ["test-output.txt:1: Cannot find module"]},
 "recovery": {"command": "touch $(cat stage.txt).txt", "working_dir": ".", "timeout_seconds": 60,
              "expected_outcome": "the tests start", "confidence": "high"}}
END
fi"#;

#[test]
fn a_loop_runs_to_its_promise_through_a_recovery_an_approval_and_a_rejection() {
    let rounds = Rounds::new(&[
        ("implementer", "echo $SALVE_ITERATION > stage.txt"),
        ("tester", DIAGNOSIS),
        ("reviewer", PROMISE),
    ]);
    rounds.project.write("check.sh", TESTS);
    let parts = r#"{"dependencies": {"part-1": "1", "part-2": "1", "part-3": "1"}}"#;
    rounds.project.write("package.json", parts);
    rounds.project.write(
        "salve.toml",
        "[playbook]\nauto = \"none\"\n[recovery]\nauto_approve = [\"touch 1.txt\"]\n",
    );
    let mut command = rounds.command(&["--id", "v1", "--task", "reach the fourth stage"]);
    command.stderr(std::fs::File::create(rounds.project.dir().join("../said")).unwrap());
    let mut salve = command.spawn().unwrap();
    let is_there = |name: &str| rounds.project.dir().join(name).exists();
    let asks = |number: u32| {
        let state: serde_json::Value =
            serde_json::from_str(&rounds.file("state.json")).unwrap_or_default();
        state["status"] == "awaiting_human" && state["iteration"] == number
    };
    wait_for("the second iteration's question", || asks(2));
    assert!(is_there("1.txt") && !is_there("2.txt"), "{}", rounds.read("../said"));
    let escalation: serde_json::Value =
        serde_json::from_str(&rounds.file("escalation.json")).unwrap();
    assert_eq!(escalation["recovery_proposal"]["recovery"]["command"], "touch 2.txt");
    rounds.salve(&["approve-recovery", "--loop", "v1"]).expect(0, &[]);
    wait_for("the third iteration's question", || asks(3));
    assert!(is_there("2.txt"), "{}", rounds.read("../said"));
    rounds.salve(&["reject-recovery", "--loop", "v1", "--note", "not this one"]).expect(0, &[]);
    assert_eq!(salve.wait().unwrap().code(), Some(0), "{}", rounds.read("../said"));
    assert!(!is_there("3.txt"));
    assert_eq!(rounds.status(), "completed");
    assert_eq!(rounds.turns().last().map(String::as_str), Some("reviewer 4"));
    let events = rounds.events();
    let count = |name: &str| events.iter().filter(|event| *event == name).count();
    assert_eq!(count("recovery_proposed"), 3, "{events:?}");
    assert_eq!((count("recovery_escalated"), count("recovery_executed")), (2, 2), "{events:?}");
    assert_eq!(count("iteration_began"), 4, "{events:?}");
}

/// **Invariant:** What a role changed of what says what is installed, or of the scripts that an
/// install runs, is asked about even in the first recovery.
#[test]
fn a_script_that_a_role_planted_before_the_first_recovery_is_asked_about() {
    for planted in [
        r#"echo '{"scripts": {"postinstall": "sh evil.sh"}, "dependencies": {"part-1": "1"}}' > package.json"#,
        "echo evil > hook.sh",
    ] {
        let work = format!("echo 1 > stage.txt\n{planted}");
        let rounds = Rounds::new(&[("implementer", &work), ("tester", DIAGNOSIS)]);
        rounds.project.write("check.sh", TESTS);
        rounds.project.write("hook.sh", "true");
        let package =
            r#"{"scripts": {"postinstall": "sh hook.sh"}, "dependencies": {"part-1": "1"}}"#;
        rounds.project.write("package.json", package);
        rounds.project.write(
            "salve.toml",
            "[playbook]\nauto = \"none\"\n[recovery]\nauto_approve = [\"touch 1.txt\"]\n",
        );
        let words = ["--id", "v1", "--task", "reach the fourth stage", "--no-wait"];
        let said = Visit::of(&rounds.command(&words).output().unwrap());
        said.expect(3, &[]);
        let told = rounds.salve(&["events", "--json"]).said;
        assert!(told.contains("changed in this run of the loop"), "{planted}: {told}");
        assert!(!rounds.project.dir().join("1.txt").exists(), "{planted}");
    }
}
