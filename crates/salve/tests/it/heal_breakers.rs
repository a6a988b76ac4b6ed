//! When healing stops by itself, and asks a person.

use crate::heal::Ward;

/// A check that says what failed as pytest does: the tests that `sum.txt` names.
const TESTS: &str = r#"
failed=$(cat sum.txt)
[ "$failed" = none ] && { echo "3 passed in 0.01s"; exit 0; }
echo "============ short test summary info ============"
n=0
for test in $failed; do n=$((n+1)); echo "FAILED test_$test.py::test_$test - AssertionError: no"; done
echo "========= $n failed, $((3-n)) passed in 0.01s ========="
exit 1
"#;

#[test]
fn the_same_failure_in_three_incidents_halts_healing() {
    // Where nothing was tried, nothing is held against it.
    let ward = Ward::new();
    ward.heal(&[]).expect(3, &["needs you"]);
    let ward = ward.agent("true");
    let once = ["--set", "heal.max_attempts=1", "--", "sh", "check.sh"];
    ward.heal(&once).expect(3, &["the agent changed nothing"]);
    ward.heal(&once).expect(3, &["the agent changed nothing"]);
    let ward = ward.agent("touch ../called; printf 5 > sum.txt");
    let systemic = "The same failure came up in several incidents";
    ward.heal(&[]).expect(3, &["not healed in 3 incidents", systemic]);
    assert!(!ward.project.dir().join("../called").exists(), "an agent was called all the same");
    // A person may have it tried all the same; once it is healed, nothing is held against it.
    let id = ward.salve(&["show"]).split_whitespace().next().unwrap().to_owned();
    ward.salve(&["approve", &id]);
    ward.heal(&[]).expect(0, &["healed"]);
    ward.project.write("sum.txt", "4");
    ward.heal(&[]).expect(0, &["healed"]);
    assert!(ward.read(".salve/decisions.log").contains("BREAKER same error: HALT"));
}

#[test]
fn what_a_person_mended_by_hand_does_not_count() {
    let ward = Ward::new();
    for _ in 0..3 {
        ward.project.write("sum.txt", "4");
        ward.heal(&[]).expect(3, &["needs you"]);
        ward.project.write("sum.txt", "5");
        ward.heal(&[]).expect(0, &["green"]);
    }
}

#[test]
fn a_heal_that_used_up_its_tokens_goes_on_when_a_person_grants_more() {
    let ward = Ward::new().agent(
        "echo x >> ../turns; echo '{\"type\":\"spent\",\"tokens\":400,\"cost_usd\":0.01}'; \
         if [ -e ../mend ]; then printf 5 > sum.txt; else printf \"$(date +%N)\" > sum.txt; fi",
    );
    let few = ["--set", "heal.max_tokens=300", "--", "sh", "check.sh"];
    let said = ["tokens are used up", "the tokens of this heal are spent: heal.max_tokens"];
    ward.heal(&few).expect(3, &said);
    assert_eq!(ward.read("../turns").lines().count(), 1);
    ward.assert_users_work_is_intact();
    ward.project.write("../mend", "");
    let id = ward.salve(&["show"]).split_whitespace().next().unwrap().to_owned();
    ward.salve(&["refill", &id, "--tokens", "1000"]);
    ward.heal(&[]).expect(0, &["healed"]);
    assert_eq!(ward.salve(&["show"]).split_whitespace().next(), Some(id.as_str()), "the same one");
}

#[test]
fn the_tokens_of_a_run_count_over_all_its_heals() {
    let ward = Ward::new().agent(
        "task=$(cat); for n in a b c; do case \"$task\" in *\"$n.sh\"*) echo $n >> ../turns; \
         touch $n.ok;; esac; done; echo '{\"type\":\"spent\",\"tokens\":3000,\"cost_usd\":0.01}'",
    );
    let mut settings = String::new();
    for name in ["a", "b", "c"] {
        let script =
            format!("test -e {name}.ok || {{ echo 'AssertionError: no {name}'; exit 1; }}\n");
        ward.project.write(&format!("{name}.sh"), script);
        settings.push_str(&format!("[checks.{name}]\ncommand = \"sh {name}.sh\"\n"));
    }
    ward.project.write("salve.toml", settings);
    let visit = ward.heal(&["--set", "heal.run_max_tokens=5000", "a", "b", "c"]);
    visit.expect(3, &["healed", "heal.run_max_tokens", "salve refill"]);
    let turns = ward.read("../turns");
    assert_eq!(turns, "a\nb\n", "nothing was left for the third: {}", visit.said);
    ward.assert_users_work_is_intact();
}

#[test]
fn a_file_that_heals_change_again_and_again_is_flagged() {
    let ward = Ward::new().agent("printf 5 > sum.txt");
    let twice = ["--set", "heal.breakers.file_changes=2", "--", "sh", "check.sh"];
    for wrong in ["1", "2"] {
        ward.project.write("sum.txt", wrong);
        ward.heal(&twice).expect(0, &["healed"]);
    }
    ward.project.write("sum.txt", "3");
    let flagged = "One file was changed again and again";
    ward.heal(&twice).expect(3, &["more than 2 heals changed sum.txt", flagged]);
    assert_eq!(ward.read("sum.txt"), "3", "the change waits for a person");
    ward.assert_users_work_is_intact();
}

#[test]
fn a_repair_that_breaks_other_tests_is_undone_and_flagged() {
    let ward = Ward::new().agent("echo x >> ../turns; echo 'a b' > sum.txt");
    ward.project.write("check.sh", TESTS);
    ward.project.write("sum.txt", "a");
    let undone = "Healing caused new failures; Salve undid what it had changed";
    ward.heal(&[]).expect(3, &["1 new, with the repair: test_b", undone]);
    assert_eq!(ward.read("sum.txt"), "a");
    assert_eq!(ward.read("../turns").lines().count(), 1, "nothing further was tried");
    assert!(ward.read(".salve/decisions.log").contains("ROLLBACK of everything"));
    ward.assert_users_work_is_intact();
}

#[test]
fn processes_that_are_left_behind_pause_all_healing() {
    // What an agent leaves behind ends with its layer; what the check leaves does not.
    let ward = Ward::new().agent("printf 6 > sum.txt");
    let check =
        "for i in 1 2 3; do setsid sleep 300 > /dev/null 2>&1 & done; sleep 0.3; sh check.sh";
    ward.heal(&["--", "sh", "-c", check])
        .expect(3, &["3 processes were left behind", "Processes were left behind."]);
    let control = ward.read(".salve/CONTROL.md");
    assert!(control.starts_with("PAUSE\n> written by Salve: 3 processes"), "{control}");
    ward.assert_users_work_is_intact();
}

#[test]
fn an_agent_whose_turn_is_too_short_for_it_is_told_by_which_setting() {
    let ward = Ward::new()
        .agent("echo '{\"type\":\"spent\",\"tokens\":18000,\"cost_usd\":0.01}'; exec sleep 1000");
    let once = ["--set", "heal.max_attempts=1", "--", "sh", "check.sh"];
    let said = ["used up its tokens", "may take 5000 tokens", "heal.tiers.simple.max_tokens"];
    ward.heal(&once).expect(3, &said);
    ward.assert_users_work_is_intact();
}
