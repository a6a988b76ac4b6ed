//! Settings that change while a loop runs: taken over with the next iteration, or refused.

use crate::loops::{PROMISE, Rounds};
use crate::recovery::{Site, TOUCH};
use crate::support::wait_for;

/// Tests that need `ready.txt`, and wait in each iteration until the story lets them go on.
const GATED: &str = "n=$(cat ../runs 2>/dev/null || echo 0); n=$((n+1)); echo $n > ../runs\n\
                     while [ ! -e ../go-$n ]; do sleep 0.02; done\n\
                     if [ \"$(cat sum.txt)\" = 5 ]; then echo ok; else\n\
                     echo '=== short test summary info ==='\n\
                     echo \"FAILED test_sum.py::test_sum - AssertionError: $(cat sum.txt)\"\n\
                     echo '=== 1 failed in 0.01s ==='; exit 1; fi";

/// An implementer that does the work in the third iteration, and something before.
const WORK: &str = "if [ $SALVE_ITERATION = 3 ]; then printf 5 > sum.txt; \
                    else printf 0$SALVE_ITERATION > sum.txt; fi";

/// Starts a loop of which each run of the tests waits for a word.
fn gated() -> (Rounds, std::process::Child) {
    gated_with(WORK)
}

/// Starts such a loop with what its implementer does.
pub(crate) fn gated_with(work: &str) -> (Rounds, std::process::Child) {
    let rounds = Rounds::new(&[("implementer", work), ("reviewer", PROMISE)]);
    rounds.project.write("check.sh", GATED);
    let args = ["--id", "v1", "--task", "make the sum 5"];
    let mut command = rounds.command(&args);
    command.stderr(std::fs::File::create(rounds.project.dir().join("../said")).unwrap());
    let salve = command.spawn().unwrap();
    (rounds, salve)
}

/// Waits until the tests run for the `number`th time.
pub(crate) fn await_run(rounds: &Rounds, number: u32) {
    wait_for("the tests", || rounds.read("../runs").trim() == number.to_string());
}

/// Lets the tests go on.
pub(crate) fn let_go(rounds: &Rounds, number: u32) {
    rounds.project.write(&format!("../go-{number}"), "");
}

#[test]
fn ac_11_an_invalid_change_is_refused_with_a_clear_error_and_the_loop_goes_on() {
    let (rounds, mut salve) = gated();
    await_run(&rounds, 1);
    rounds.project.write("salve.toml", "[recovery]\ncooldown = 5\n");
    let_go(&rounds, 1);
    await_run(&rounds, 2);
    let said = rounds.read("../said");
    assert!(said.contains("the settings were refused"), "{said}");
    assert!(said.contains("salve.toml:2:1: unknown key `cooldown` in `recovery`"), "{said}");
    // Right by themselves, but the loop could not go on with them.
    rounds.project.write("salve.toml", "[loop]\norder = [\"planner\", \"tests\", \"reviewer\"]\n");
    let_go(&rounds, 2);
    await_run(&rounds, 3);
    let said = rounds.read("../said");
    let why = "salve.toml:2:9: loop.order: the loop that is running needs the role `implementer`";
    assert!(said.contains(why), "{said}");
    let_go(&rounds, 3);
    assert_eq!(salve.wait().unwrap().code(), Some(0), "{}", rounds.read("../said"));
    let events = rounds.events();
    let refused = events.iter().filter(|event| *event == "config_rejected").count();
    assert_eq!(refused, 2, "{events:?}");
}

#[test]
fn ac_12_a_reload_is_logged() {
    let (rounds, mut salve) = gated();
    await_run(&rounds, 1);
    rounds.project.write("salve.toml", "[loop]\nstuck_after = 2\n");
    let_go(&rounds, 1);
    await_run(&rounds, 2);
    assert!(rounds.events().contains(&"config_reloaded".to_owned()), "{:?}", rounds.events());
    let log = rounds.file("events.jsonl");
    assert!(log.contains("loop.stuck_after: 3 → 2"), "{log}");
    let_go(&rounds, 2);
    await_run(&rounds, 3);
    let_go(&rounds, 3);
    assert_eq!(salve.wait().unwrap().code(), Some(0));
}

/// A tester that diagnoses what keeps the tests from running.
const DIAGNOSIS: &str = r#"cat > "$cd_to/recovery.json" <<END
{"version": 1, "timestamp": "$(date -u +%Y-%m-%dT%H:%M:%SZ)", "category": "dependency",
 "severity": "blocking",
 "diagnosis": {"error_pattern": "Cannot find module", "root_cause": "it is not installed",
               "evidence": ["test-output.txt:1: Cannot find module"]},
 "recovery": {"command": "touch ready.txt", "working_dir": ".", "timeout_seconds": 60,
              "expected_outcome": "the tests start", "confidence": "high"}}
END"#;

/// Tests that cannot start without `ready.txt`.
const NEEDY: &str = "if [ ! -e ready.txt ]; then\n\
                     echo \"Error: Cannot find module 'left-pad'\"; exit 1; fi; echo ok";

#[test]
fn ac_10_a_command_that_is_added_to_auto_approve_runs_in_the_next_iteration() {
    let rounds = Rounds::new(&[("tester", DIAGNOSIS), ("reviewer", PROMISE)]);
    rounds.project.write("check.sh", NEEDY);
    rounds.project.write("package.json", r#"{"dependencies": {"left-pad": "1.3.0"}}"#);
    rounds.project.write("salve.toml", "[playbook]\nauto = \"none\"\n");
    let args = ["--id", "v1", "--task", "make it work"];
    let mut command = rounds.command(&args);
    command.stderr(std::fs::File::create(rounds.project.dir().join("../said")).unwrap());
    let mut salve = command.spawn().unwrap();
    // By the settings of the first iteration a person has to decide.
    wait_for("the question", || rounds.status() == "awaiting_human");
    assert!(!rounds.project.dir().join("ready.txt").exists());
    rounds.project.write(
        "salve.toml",
        "[playbook]\nauto = \"none\"\n[recovery]\nauto_approve = [\"touch ready.txt\"]\n",
    );
    rounds.salve(&["reject-recovery", "--loop", "v1"]).expect(0, &[]);
    assert_eq!(salve.wait().unwrap().code(), Some(0), "{}", rounds.read("../said"));
    let turns = rounds.turns();
    assert_eq!(turns.last().map(String::as_str), Some("reviewer 2"), "{turns:?}");
    let events = rounds.events();
    for event in ["recovery_escalated", "config_reloaded", "recovery_executed"] {
        assert!(events.contains(&event.to_owned()), "{event} in {events:?}");
    }
}

#[test]
fn ac_10_settings_hold_from_the_next_proposal_on_where_the_loop_is_somebody_elses() {
    let site = Site::new("");
    let _service = site.serve(&[]);
    site.propose(&Site::proposal(TOUCH));
    site.await_human();
    let allowed = format!("version = 1\n[recovery]\nauto_approve = [{TOUCH:?}]\n");
    site.project.write("salve.toml", format!("{allowed}cooldown_seconds = 0\n"));
    site.salve(&["reject-recovery", "--loop", "shop"]).expect(0, &[]);
    // What is proposed while the answer is still being taken in is not lost.
    wait_for("the answer", || site.json("escalation.json")["status"] == "rejected");
    site.propose(&Site::proposal(TOUCH));
    wait_for("the command", || site.ran() == 1);
    // What is wrong is refused, and what held before holds still.
    wait_for("the end", || {
        site.salve(&["incidents"]).said.lines().all(|line| !line.contains("healing"))
    });
    site.project.write("salve.toml", "[recovery]\ncooldown = 5\n");
    std::fs::remove_file(site.project.dir().join("started")).unwrap();
    site.propose(&Site::proposal(TOUCH));
    wait_for("the command", || site.ran() == 2);
    let has = |name: &str| site.events().iter().any(|line| line["event"] == name);
    wait_for("the log", || has("config_reloaded") && has("config_rejected"));
}
