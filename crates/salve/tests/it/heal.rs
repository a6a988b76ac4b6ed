//! `salve heal`: checks that are red are healed, or it is said honestly why not.

use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::support::Project;

/// A check that passes when `sum.txt` says 5.
const CHECK: &str = "if [ \"$(cat sum.txt)\" = 5 ]; then echo ok; else \
                     echo \"AssertionError: expected 5, found $(cat sum.txt)\"; exit 1; fi";

/// A project with a red check and files that only the user has.
pub(crate) struct Ward {
    pub(crate) project: Project,
}

/// What a run of `salve heal` said and how it ended.
pub(crate) struct Visit {
    pub(crate) code: Option<i32>,
    pub(crate) said: String,
}

impl Ward {
    pub(crate) fn new() -> Self {
        let project = Project::new();
        project.write("check.sh", CHECK);
        project.write("sum.txt", "4");
        project.write("notes.txt", "committed\n");
        project.write(".gitignore", "cache/\n.env\n");
        for args in [&["init", "-q"][..], &["add", "-A"], &["commit", "-qm", "first"]] {
            git(&project, args);
        }
        project.write("notes.txt", "the user's own edit\n");
        project.write("draft.txt", "the user's own file\n");
        Self { project }
    }

    /// Writes an agent's script; it works in the project.
    pub(crate) fn agent(self, script: &str) -> Self {
        self.project.write("../agent.sh", script);
        self
    }

    /// Returns `salve heal` on the project's check.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let agent = self.project.dir().join("../agent.sh");
        let agent = format!("sh '{}'", agent.canonicalize().unwrap_or(agent).display());
        let has_agent = self.project.dir().join("../agent.sh").exists();
        let mut all = vec!["heal"];
        if has_agent {
            all.extend(["--agent", &agent]);
        }
        all.extend(args);
        if args.is_empty() {
            all.extend(["--", "sh", "check.sh"]);
        }
        let mut command = self.project.command(&all);
        command.stdin(Stdio::null()).env("SALVE_USER", "ada");
        command
    }

    /// Runs `salve heal` to its end.
    pub(crate) fn heal(&self, args: &[&str]) -> Visit {
        Visit::of(&self.command(args).output().unwrap())
    }

    /// Returns what a file says.
    #[track_caller]
    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.project.dir().join(path)).unwrap()
    }

    /// Runs another `salve` and returns what it said.
    pub(crate) fn salve(&self, args: &[&str]) -> String {
        let mut command = self.project.command(args);
        let output = command.env("SALVE_USER", "ada").stdin(Stdio::null()).output().unwrap();
        Visit::of(&output).said
    }

    /// Asserts that nothing of the user's was touched.
    #[track_caller]
    pub(crate) fn assert_users_work_is_intact(&self) {
        assert_eq!(self.read("notes.txt"), "the user's own edit\n");
        assert_eq!(self.read("draft.txt"), "the user's own file\n");
        let stash = git(&self.project, &["stash", "list"]);
        assert_eq!(stash, "", "the stash is the user's");
        assert_eq!(git(&self.project, &["log", "--format=%s"]), "first\n");
        assert_eq!(git(&self.project, &["diff", "--cached", "--name-only"]), "");
    }
}

impl Visit {
    pub(crate) fn of(output: &Output) -> Self {
        let (out, err) = (&output.stdout, &output.stderr);
        let said = [out, err].map(|bytes| String::from_utf8_lossy(bytes)).join("");
        Self { code: output.status.code(), said }
    }

    /// Asserts the exit code and that all of these were said.
    #[track_caller]
    pub(crate) fn expect(&self, code: i32, said: &[&str]) {
        assert_eq!(self.code, Some(code), "{}", self.said);
        for words in said {
            assert!(self.said.contains(words), "not said: {words}\n{}", self.said);
        }
    }
}

/// Runs git in the project as somebody.
pub(crate) fn git(project: &Project, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=ada", "-c", "user.email=ada@example.com"]).args(args);
    command.current_dir(project.dir()).env("HOME", project.home());
    String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned()
}

#[test]
fn a_green_check_is_left_alone() {
    let ward = Ward::new();
    ward.project.write("sum.txt", "5");
    ward.heal(&[]).expect(0, &["ok\n", "green"]);
    assert!(ward.salve(&["show"]).contains("no incident"), "nothing was opened");
}

#[test]
fn a_red_check_that_nobody_can_heal_ends_with_a_person() {
    let ward = Ward::new();
    ward.heal(&[])
        .expect(3, &["is red (exit 1)", "expected 5, found 4", "needs you", "salve show"]);
    assert_eq!(ward.read("sum.txt"), "4");
    ward.assert_users_work_is_intact();
    // Once a person has mended it, running it again settles the question.
    ward.project.write("sum.txt", "5");
    ward.heal(&[]).expect(0, &["green"]);
    assert!(ward.salve(&["show"]).contains("settled"), "{}", ward.salve(&["show"]));
}

#[test]
fn an_agent_heals_and_can_be_undone() {
    let ward = Ward::new().agent("cat > ../task; printf 5 > sum.txt; echo fixed");
    let proven = "proven: the state before the repair still fails the same way";
    ward.heal(&[]).expect(0, &["healed", proven, "undo: salve undo heal-"]);
    assert_eq!(ward.read("sum.txt"), "5");
    ward.assert_users_work_is_intact();
    let story = ward.salve(&["show"]);
    assert!(story.contains("recovered, proven"), "{story}");
    let id = story.split_whitespace().next().unwrap();
    ward.salve(&["undo", id]);
    assert_eq!(ward.read("sum.txt"), "4", "it was undone");
    ward.assert_users_work_is_intact();
}

/// **Invariant:** The same patch is not paid for until the budget ends.
#[test]
fn an_agent_that_writes_the_same_patch_again_is_stopped() {
    let ward = Ward::new().agent("echo x >> ../turns; printf 6 > sum.txt; echo 'I fixed it'");
    ward.heal(&[]).expect(3, &["The same failure keeps coming back", "AssertionError"]);
    assert_eq!(ward.read("../turns").lines().count(), 2, "not the whole budget");
    assert_eq!(ward.read("sum.txt"), "4", "what did not help is undone");
    ward.assert_users_work_is_intact();
}

/// **Invariant:** An agent that changes nothing or cannot work is not called again and again.
#[test]
fn an_agent_that_changes_nothing_is_not_believed() {
    let ward = Ward::new().agent("echo x >> ../turns; echo 'I fixed it'");
    ward.heal(&[]).expect(3, &["Nothing further is known to try: the agent changed nothing"]);
    assert_eq!(ward.read("../turns").lines().count(), 2, "the same agent would do the same");
    ward.assert_users_work_is_intact();
}

#[test]
fn an_agent_that_cannot_work_is_not_called_again() {
    let says = |text: &str| format!("echo x >> ../turns; echo '{text}' >&2; exit 1");
    for (text, told) in [
        ("Invalid API key. Please run /login", "the agent is not logged in"),
        ("You have reached your usage limit", "the agent's account has reached its limit"),
    ] {
        let ward = Ward::new().agent(&says(text));
        ward.heal(&[]).expect(3, &[told, text]);
        assert_eq!(ward.read("../turns").lines().count(), 1);
    }
}

#[test]
fn a_question_says_what_a_no_does() {
    let many = "for n in 1 2 3 4 5 6 7 8 9; do echo $n > file$n.txt; done; printf 5 > sum.txt";
    let ward = Ward::new().agent(many);
    ward.heal(&[]).expect(3, &["the change stays", "salve reject", "the change is undone"]);
}

/// **Invariant:** What an agent throws away of the user's work is no part of its change.
#[test]
fn what_an_agent_threw_away_of_the_users_work_is_left_out() {
    for away in ["git stash -q -u", "git reset -q --hard; git clean -fdqx"] {
        let ward = Ward::new().agent(&format!("{away}; printf 5 > sum.txt"));
        ward.project.write(".env", "TOKEN=local\n");
        let healed = ward.heal(&[]);
        healed.expect(0, &["draft.txt", "left out", "proven"]);
        ward.assert_users_work_is_intact();
        assert_eq!(ward.read(".env"), "TOKEN=local\n");
        assert_eq!(ward.read("sum.txt"), "5", "the repair itself stays");
    }
}

#[test]
fn a_check_that_is_not_there_or_hangs_is_told_and_ends() {
    let ward = Ward::new();
    ward.heal(&["--", "no-such-program"]).expect(2, &["no-such-program"]);
    let hang = ["--set", "heal.timeout_ms=300", "--", "sh", "-c", "sleep 1000"];
    ward.heal(&hang).expect(3, &["timed out"]);
}

#[test]
fn a_check_that_changes_files_itself_is_healed_and_keeps_what_it_wrote() {
    let ward = Ward::new().agent("printf 5 > sum.txt");
    let check = "echo run >> runs.log; sort .gitignore > report.txt; exec sh check.sh";
    ward.heal(&["--", "sh", "-c", check]).expect(0, &["healed", "proven"]);
    assert_eq!(ward.read("sum.txt"), "5");
    assert!(ward.read("runs.log").lines().count() >= 2);
    assert_eq!(ward.read("report.txt"), ".env\ncache/\n");
    ward.assert_users_work_is_intact();
}

#[test]
fn checks_are_known_by_name_and_the_worst_counts() {
    let ward = Ward::new();
    let settings = "[checks.good]\ncommand = \"true\"\n[checks.sum]\ncommand = \"sh check.sh\"\n";
    ward.project.write("salve.toml", settings);
    ward.heal(&["good"]).expect(0, &["`good`"]);
    ward.heal(&["nope"]).expect(2, &["there is no check `nope`", "good, sum"]);
    let all = Visit::of(&ward.project.command(&["heal"]).stdin(Stdio::null()).output().unwrap());
    all.expect(3, &["`good`", "`sum` is red"]);
}

/// **Invariant:** A repair of what would have passed by itself is not credited.
#[test]
fn a_repair_of_what_would_have_passed_by_itself_is_not_credited() {
    // It fails once and never again, whatever the agent does.
    let check = "if [ -e \"$HOME/ran\" ]; then echo ok; else touch \"$HOME/ran\"; echo 'Error: odd'; exit 1; fi";
    let ward = Ward::new().agent("printf 5 > sum.txt");
    ward.project.write("check.sh", check);
    let transient = "transient: the state before the repair passes as well";
    ward.heal(&[]).expect(0, &["healed", transient, "was not needed, and is left out"]);
    assert_eq!(ward.read("sum.txt"), "4", "what was not needed does not stay");
    ward.assert_users_work_is_intact();
    assert!(ward.salve(&["show"]).contains("nothing shows that a remedy did it"));
    let memory = ward.salve(&["--json", "memory", "list"]);
    assert!(!memory.contains("success"), "{memory}");
}

#[test]
fn what_passes_anywhere_else_is_proven_where_the_user_works() {
    // Elsewhere than in the project's own place it is green whatever the files say.
    let ward = Ward::new().agent("printf 5 > sum.txt");
    let real = ward.project.dir().canonicalize().unwrap();
    let check = format!("[ \"$(pwd -P)\" = '{}' ] || exit 0\n{CHECK}", real.display());
    ward.project.write("check.sh", check);
    ward.heal(&[]).expect(0, &["healed", "proven"]);
    assert_eq!(ward.read("sum.txt"), "5");
    ward.assert_users_work_is_intact();
}

#[test]
fn proof_can_be_switched_off() {
    let ward = Ward::new().agent("printf 5 > sum.txt");
    let off = ["--set", "heal.proof=false", "--", "sh", "check.sh"];
    ward.heal(&off).expect(0, &["transient: the failure was seen only once"]);
}

#[test]
fn what_an_agent_changed_heals_the_next_project_without_one() {
    let ward = Ward::new().agent("printf 5 > sum.txt");
    ward.heal(&[]).expect(0, &["proven"]);
    // Another project of the same user, with no agent at all.
    let other = Ward::new();
    let mut heal = other.command(&[]);
    heal.env("XDG_DATA_HOME", ward.project.home().join("data"));
    let told = "known patch of sum.txt from the project project";
    Visit::of(&heal.output().unwrap()).expect(0, &[told, "healed", "proven"]);
    assert_eq!(other.read("sum.txt"), "5");
    other.assert_users_work_is_intact();
}

#[test]
fn a_patch_stays_in_its_project_where_the_settings_say_so() {
    let ward = Ward::new().agent("printf 5 > sum.txt");
    let beside = |own: &Ward, patches: &str| {
        let mut heal = own.command(&[]);
        heal.env("XDG_DATA_HOME", ward.project.home().join("data"));
        heal.env("SALVE_MEMORY_PATCHES", patches);
        Visit::of(&heal.output().unwrap())
    };
    // What was made under that word is told to no other project.
    beside(&ward, "project").expect(0, &["proven"]);
    beside(&Ward::new(), "user").expect(3, &["needs you"]);
    ward.project.write("sum.txt", "4");
    let again = beside(&ward, "project");
    again.expect(0, &["known patch of sum.txt (memory.patch)", "proven"]);
    // What other projects know is not used under it either.
    ward.project.write("sum.txt", "4");
    beside(&ward, "user").expect(0, &["proven"]);
    let other = Ward::new();
    beside(&other, "project").expect(3, &["needs you"]);
    assert_eq!(other.read("sum.txt"), "4");
    beside(&other, "user").expect(0, &["from the project project", "proven"]);
}

#[test]
fn a_known_patch_that_does_not_fit_is_not_tried() {
    let ward = Ward::new().agent("printf 5 > sum.txt");
    ward.heal(&[]).expect(0, &["proven"]);
    let other = Ward::new();
    other.project.write("sum.txt", "7");
    let mut heal = other.command(&[]);
    heal.env("XDG_DATA_HOME", ward.project.home().join("data"));
    Visit::of(&heal.output().unwrap()).expect(3, &["needs you"]);
    assert_eq!(other.read("sum.txt"), "7");
}

/// **Invariant:** what only the repository says to help is asked about.
#[test]
fn a_patch_that_came_with_the_repository_is_asked_about_and_serves_once_it_was_approved() {
    let first = Ward::new();
    first.heal(&[]).expect(3, &["needs you"]);
    let listed: Value = serde_json::from_str(&first.salve(&["--json", "incidents"])).unwrap();
    let ward = Ward::new();
    let signature = listed["incidents"][0]["signature"].as_str().unwrap().to_owned();
    let patch = "patch: --- a/sum.txt\n+++ b/sum.txt\n@@ -1 +1 @@\n-4\n\\ No newline at end of file\n\
                 +5\n\\ No newline at end of file\n";
    let day = "2026-01-01T00:00:00Z";
    let tried = json!([{"description": patch, "result": "success"}]);
    let pattern = json!({"error_signature": signature, "normalized_error": "x",
        "fixes_attempted": tried, "successful_fix": patch, "first_seen": day, "last_seen": day});
    let file = json!({"version": 1, "patterns": [pattern]}).to_string();
    ward.project.write(".salve/learned/healing-patterns.json", file);
    git(&ward.project, &["add", "-f", ".salve/learned/healing-patterns.json"]);
    ward.heal(&[]).expect(3, &["`known patch of sum.txt` may not run without a person's word"]);
    assert_eq!(ward.read("sum.txt"), "4");
    ward.salve(&["approve"]);
    ward.heal(&[]).expect(0, &["known patch of sum.txt", "healed", "proven"]);
    assert_eq!(ward.read("sum.txt"), "5");
    // Now it was seen to heal.
    ward.project.write("sum.txt", "4");
    ward.heal(&[]).expect(0, &["known patch of sum.txt (memory.patch)", "healed"]);
}

#[test]
fn a_patch_from_another_project_that_makes_new_files_is_asked_about() {
    let check = "if [ -e made.txt ]; then echo ok; else echo 'AssertionError: made'; exit 1; fi";
    let ward = Ward::new().agent("printf 5 > made.txt");
    ward.project.write("check.sh", check);
    ward.heal(&[]).expect(0, &["proven"]);
    let other = Ward::new();
    other.project.write("check.sh", check);
    let mut heal = other.command(&[]);
    heal.env("XDG_DATA_HOME", ward.project.home().join("data"));
    let visit = Visit::of(&heal.output().unwrap());
    visit.expect(3, &["`known patch of made.txt from the project project` may not run without"]);
    assert!(!other.project.dir().join("made.txt").exists());
}

#[test]
fn without_settings_the_projects_own_checks_are_run() {
    let ward = Ward::new();
    let none = |visit: &Visit| visit.expect(2, &["there is no check to run", "salve heal -- "]);
    let bare =
        || Visit::of(&ward.project.command(&["heal"]).stdin(Stdio::null()).output().unwrap());
    none(&bare());
    ward.project.write("package.json", r#"{"scripts":{"test":"sh check.sh"}}"#);
    ward.project.write("sum.txt", "5");
    bare().expect(0, &["green", "`test`"]);
    let init = ward.salve(&["init", "--dry-run"]);
    assert!(init.contains("[checks.test]") && init.contains("npm test"), "{init}");
}

#[test]
fn a_loop_ends_when_it_is_green_and_when_it_gets_nowhere() {
    let ward = Ward::new();
    ward.project.write("../agent.sh", "echo x >> ../turns; printf 6 > sum.txt");
    let agent = format!("sh '{}'", ward.project.dir().join("../agent.sh").display());
    let turns = ["loop", "--agent", &agent, "--", "sh", "check.sh"];
    let run = |args: &[&str]| {
        let mut command = ward.project.command(args);
        Visit::of(&command.stdin(Stdio::null()).output().unwrap())
    };
    run(&turns).expect(3, &["The same failure keeps coming back"]);
    assert_eq!(ward.read("../turns").lines().count(), 2);
    ward.project.write("../agent.sh", "printf 5 > sum.txt");
    run(&turns).expect(0, &["healed"]);
    run(&["loop", "--", "sh", "check.sh"]).expect(2, &["no agent"]);
}

#[test]
fn what_an_agent_is_told_grows_with_the_attempt() {
    // Each turn writes another wrong number, so that it is never the same patch.
    let ward = Ward::new().agent(
        "echo x >> ../turns; n=$(wc -l < ../turns); cat > ../task-$n; printf %d $((n + 10)) > sum.txt",
    );
    ward.project.write("ARCHITECTURE.md", "It adds numbers.");
    ward.heal(&[]).expect(3, &["All 5 repair attempts failed"]);
    let told = |turn: u32, words: &str| ward.read(&format!("../task-{turn}")).contains(words);
    for (words, first) in [
        ("AssertionError: expected 5, found", 1),
        ("Simple fix", 1),
        ("These attempts failed", 2),
        ("Known not to help", 3),
        ("the user's own edit", 3),
        ("own notes", 5),
    ] {
        let tasks: Vec<bool> = (1..=5).map(|turn| told(turn, words)).collect();
        assert_eq!(tasks.iter().position(|told| *told), Some(first - 1), "{words}: {tasks:?}");
    }
    assert_eq!(ward.read("sum.txt"), "4");
    ward.assert_users_work_is_intact();
}

#[test]
fn the_example_heals_three_projects_with_known_fixes() {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !["python3", "npm", "cargo"].into_iter().all(has) {
        return;
    }
    let project = Project::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/checks/run.sh");
    let mut run = Command::new(script);
    run.arg(env!("CARGO_BIN_EXE_salve")).env("TMPDIR", project.home()).stdin(Stdio::null());
    let visit = Visit::of(&run.output().unwrap());
    visit.expect(0, &["known patch of calc.py", "npm run build", "cargo metadata", "All three"]);
    assert_eq!(visit.said.matches("proven: ").count(), 3, "{}", visit.said);
}

#[test]
fn an_agent_that_breaks_the_repository_or_leaves_a_hook_does_no_lasting_harm() {
    for harm in ["rm -rf .git", "printf x > .git/HEAD; rm -rf .git/refs .git/objects"] {
        let ward = Ward::new().agent(&format!("{harm}; printf 6 > sum.txt"));
        ward.heal(&[]).expect(3, &["needs you"]);
        assert_eq!(ward.read("sum.txt"), "4", "{harm}");
        ward.assert_users_work_is_intact();
    }
    let hook = "printf '#!/bin/sh\\ntouch ../pwned\\n' > .git/hooks/post-checkout; \
                chmod +x .git/hooks/post-checkout; git config core.fsmonitor 'touch ../pwned'";
    let ward = Ward::new().agent(&format!("{hook}; printf 5 > sum.txt"));
    ward.heal(&[]).expect(0, &["the agent also wanted to change .git/config"]);
    assert_eq!(git(&ward.project, &["config", "core.fsmonitor"]), "");
    assert!(!ward.project.dir().join(".git/hooks/post-checkout").exists());
    assert!(!ward.project.dir().join("../pwned").exists(), "nothing of it ran");
}
