//! What is kept of a heal below `.salve`, so that a person can follow it later.

use serde_json::{Value, json};

use crate::heal::Ward;

/// A check that is red with a secret in its output until `sum.txt` says 5.
const LEAKY: &str = "if [ \"$(cat sum.txt)\" = 5 ]; then exit 0; fi; \
                     echo 'token ghp_0123456789abcdefghijABCDEFGHIJ012345'; \
                     echo \"AssertionError: expected 5, found $(cat sum.txt)\"; exit 1";

impl Ward {
    /// Returns the names of the files that are kept of heals.
    fn kept(&self) -> Vec<String> {
        let dir = self.project.dir().join(".salve/healing-attempts");
        let files = std::fs::read_dir(dir).unwrap();
        let mut names: Vec<_> =
            files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Returns what the file of an attempt says.
    fn attempt(&self, number: usize) -> Value {
        let end = format!("-{number}.json");
        let is_it = |name: &&String| name.starts_with("attempt-") && name.ends_with(&end);
        let names = self.kept();
        let name = names.iter().find(is_it).unwrap();
        serde_json::from_str(&self.read(&format!(".salve/healing-attempts/{name}"))).unwrap()
    }
}

#[test]
fn a_heal_leaves_its_evidence_its_attempts_and_its_decisions() {
    // The agent reads the evidence it was told of; the first attempt does not help.
    let ward = Ward::new().agent(
        "cat > ../task; cat .salve/healing-attempts/*.log >> ../read; \
         if [ -e ../again ]; then printf 5 > sum.txt; else touch ../again; printf 6 > sum.txt; fi",
    );
    ward.project.write("check.sh", LEAKY);
    ward.heal(&[]).expect(0, &["healed"]);
    let read = ward.read("../read");
    for words in ["Check:       sh check.sh", "expected 5, found 4", "expected 5, found 6"] {
        assert!(read.contains(words), "not in the evidence: {words}\n{read}");
    }
    let first = ward.attempt(1);
    let never_there = json!(null);
    assert_eq!([&first["result"], &first["rolled_back"]], [&json!("failed"), &never_there]);
    assert_eq!(first["files"][0]["path"], json!("sum.txt"));
    let second = ward.attempt(2);
    assert_eq!([&second["result"], &second["proof"]], [&json!("success"), &json!("proven")]);
    assert_eq!(second["agent"], json!("sh"));
    let decided = ward.read(".salve/decisions.log");
    let mut rest = decided.as_str();
    for words in ["OPENED", "CHOSE", "CHOSE", "OUTCOME: green, proven"] {
        rest = rest.split_once(words).unwrap_or_else(|| panic!("no {words}:\n{decided}")).1;
    }
    for file in ward.kept() {
        let text = ward.read(&format!(".salve/healing-attempts/{file}"));
        assert!(!text.contains("ghp_0123"), "a secret is in {file}");
    }
    assert!(!decided.contains("ghp_0123"));
}

#[test]
fn what_was_lost_of_the_records_is_written_again() {
    let ward = Ward::new().agent("printf 6 > sum.txt");
    ward.heal(&["--set", "heal.max_attempts=1", "--", "sh", "check.sh"]).expect(3, &["exhausted"]);
    let lines = ward.read(".salve/decisions.log").lines().count();
    let kept = ward.kept();
    for file in &kept {
        std::fs::remove_file(ward.project.dir().join(".salve/healing-attempts").join(file))
            .unwrap();
    }
    // The incident goes on, and with it what is kept of it.
    ward.heal(&[]).expect(3, &["is red"]);
    let attempts = kept.iter().filter(|name| name.starts_with("attempt-"));
    for name in attempts {
        assert!(ward.kept().contains(name), "{name} is missing among {:?}", ward.kept());
    }
    let decided = ward.read(".salve/decisions.log");
    assert!(decided.lines().count() > lines);
    let mut all: Vec<_> = decided.lines().collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), decided.lines().count(), "something was told twice:\n{decided}");
}

/// **Invariant:** A catastrophe resets counters, never the budget.
#[test]
fn three_failures_in_a_row_undo_everything_and_reset_the_counters_but_not_the_budget() {
    let ward = Ward::new().agent(
        "echo x >> ../turns; \
         if [ -e ../lost ]; then echo \"1$(wc -l < ../turns)\" > sum.txt; echo no > made.txt; \
         else printf 5 > sum.txt; fi",
    );
    ward.heal(&[]).expect(0, &["healed"]);
    let checkpoints =
        |names: &[String]| names.iter().filter(|name| name.starts_with("checkpoint-")).count();
    assert_eq!(checkpoints(&ward.kept()), 1);
    ward.project.write("../lost", "");
    ward.project.write("../turns", "six\nseven\neight\n");
    ward.project.write("sum.txt", "9");
    ward.heal(&[]).expect(3, &["exhausted"]);
    assert_eq!(ward.read("../turns").lines().count(), 3 + 5, "the budget is not reset");
    assert_eq!(ward.read("sum.txt"), "9");
    assert!(!ward.project.dir().join("made.txt").exists());
    ward.assert_users_work_is_intact();
    let decided = ward.read(".salve/decisions.log");
    assert!(decided.contains("CATASTROPHIC ROLLBACK after 3 failures in a row"), "{decided}");
    assert!(decided.contains("CATASTROPHIC ROLLBACK: the state was kept in corrupted-state-"));
    let names = ward.kept();
    let aside = names.iter().find(|name| name.starts_with("corrupted-state-")).unwrap();
    let read = |name: &str| -> Value {
        serde_json::from_str(&ward.read(&format!(".salve/healing-attempts/{name}"))).unwrap()
    };
    assert_eq!(read(aside)["heal_attempts"], json!(4), "one heal and three failures");
    let state = read("state.json");
    assert_eq!(state["heal_attempts"], json!(2), "those since the roll-back");
    assert_eq!(state["catastrophic_rollbacks"], json!(1));
}

#[test]
fn a_state_that_was_altered_is_set_aside_and_the_checkpoint_holds() {
    let ward = Ward::new().agent("printf 5 > sum.txt");
    ward.heal(&[]).expect(0, &["healed"]);
    let path = ".salve/healing-attempts/state.json";
    let altered = ward.read(path).replace("\"heal_attempts\": 1", "\"heal_attempts\": 99");
    ward.project.write(path, altered);
    ward.heal(&[]).expect(0, &["green"]);
    let state: Value = serde_json::from_str(&ward.read(path)).unwrap();
    assert_eq!(state["heal_attempts"], json!(1));
    assert!(ward.kept().iter().any(|name| name.starts_with("corrupted-state-")));
}

#[test]
fn incidents_are_listed_and_one_is_shown_with_what_it_changed() {
    let ward = Ward::new().agent(
        "echo '{\"type\":\"spent\",\"tokens\":40,\"cost_usd\":0.01}'; \
         echo 'key = ghp_0123456789abcdefghijABCDEFGHIJ012345' > made.txt; printf 5 > sum.txt",
    );
    assert!(ward.salve(&["incidents"]).contains("no incidents"));
    ward.heal(&[]).expect(0, &["healed"]);
    let listed = ward.salve(&["incidents"]);
    for words in ["check sh check.sh", "proven", "AssertionError", "1 attempt, 40 tokens, $0.01"] {
        assert!(listed.contains(words), "not listed: {words}\n{listed}");
    }
    for (args, is_there) in [
        (&["incidents", "check"][..], true),
        (&["incidents", "sh check.sh", "--state", "recovered"], true),
        (&["incidents", "server"], false),
        (&["incidents", "--state", "open"], false),
    ] {
        assert_eq!(ward.salve(args).contains("heal-"), is_there, "{args:?}");
    }
    let facts: Value = serde_json::from_str(&ward.salve(&["--json", "incidents"])).unwrap();
    let fact = &facts["incidents"][0];
    assert_eq!([&fact["proof"], &fact["tokens"]], [&json!("proven"), &json!(40)]);
    let story = ward.salve(&["show", "--diff"]);
    for words in ["found changed: made.txt, sum.txt", "40 tokens, $0.01", "+5", "-4", "+key = "] {
        assert!(story.contains(words), "not shown: {words}\n{story}");
    }
    assert!(!story.contains("ghp_0123"), "a secret is shown");
    assert!(!story.contains("server"), "a check is no server:\n{story}");
}

/// **Invariant:** A command after which another failure shows is not remembered as one that failed.
#[test]
fn of_two_things_that_are_broken_both_are_mended_and_both_remedies_stay_known() {
    let ward = Ward::new();
    let failures = [
        ("mkdir -p cache; touch cache/one", "Error: boom in module one"),
        ("mkdir -p cache; touch cache/two", "Error: bang in module two"),
    ];
    let mut check = String::new();
    let mut allowed = String::from(
        "[recovery]\nmax_auto_recoveries_per_run = 9\ncooldown_seconds = 0\nauto_approve = [",
    );
    for (cure, failure) in failures {
        let learned = ward
            .project
            .run_with_input(&["memory", "learn", "--command", cure], failure.as_bytes());
        assert!(learned.status.success(), "{learned:?}");
        let made = cure.rsplit(' ').next().unwrap();
        check += &format!("test -e {made} || {{ echo '{failure}'; exit 1; }}\n");
        allowed += &format!("\"{cure}\", ");
    }
    ward.project.write("check.sh", check);
    ward.project.write("salve.toml", allowed + "]\n");
    ward.heal(&[]).expect(0, &["touch cache/one", "touch cache/two", "healed"]);
    // The first is broken again: what mended it is tried, for nobody called it a failed approach.
    std::fs::remove_file(ward.project.dir().join("cache/one")).unwrap();
    ward.heal(&[]).expect(0, &["touch cache/one", "healed"]);
}
