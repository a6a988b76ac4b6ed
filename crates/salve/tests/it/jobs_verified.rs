//! How Salve itself verifies that a step is done, and what a step may be: an agent's work, a command, a
//! skill.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::heal::{Visit, git};
use crate::jobs::Works;

/// Writes a script beside the project and returns the command that runs it.
fn agent(works: &Works, name: &str, script: &str) -> String {
    works.project.write(&format!("../{name}"), script);
    let path = works.project.dir().canonicalize().unwrap().join("..").join(name);
    format!("sh '{}'", path.display())
}

/// **Invariant:** A step's agent writes to its workspace and to nothing else.
#[test]
fn what_a_steps_agent_writes_outside_of_its_workspace_goes_nowhere() {
    let works = Works::new();
    let runtime = agent(
        &works,
        "agent.sh",
        &format!(
            "cat > /dev/null; echo x > \"$HOME/other.txt\"; echo x > /var/tmp/salve-step-$$-x\n\
             for file in '{0}'/a.txt '{0}'/.salve/salve.db '{0}'/.salve/jobs/*/state.json \
             '{0}'/.salve/jobs/*/store.git/HEAD; do echo x >> \"$file\"; done; kill -9 {1}\n\
             git -c user.name=a -c user.email=a@b commit -qam own --allow-empty; echo made > made.txt\n",
            works.project.dir().canonicalize().unwrap().display(),
            std::process::id()
        ),
    );
    let step =
        format!("[[steps]]\nid = \"one\"\ninstruction = \"Do it.\"\nruntime = \"{runtime}\"\n");
    works.project.write("job.toml", step);
    let before = fs::read_dir("/var/tmp").unwrap().count();
    let mut command = works.command(&["run", "job.toml"]);
    let visit = Visit::of(&command.env_remove("SALVE_AGENT_STATE_DIRS").output().unwrap());
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    assert_eq!(fs::read_to_string(works.workspace().join("made.txt")).unwrap(), "made\n");
    assert_eq!(fs::read_to_string(works.project.dir().join("a.txt")).unwrap(), "one\n");
    assert!(!works.project.home().join("other.txt").exists());
    assert_eq!(fs::read_dir("/var/tmp").unwrap().count(), before);
    assert!(works.json("state.json").is_object(), "nothing is appended to it");
    assert!(!works.file("store.git/HEAD").contains('x'));
    assert_eq!(works.salve(&["jobs"]).code, Some(0), "the journal can be read");
}

/// **Invariant:** What decides about commands is no part of what an agent's step changes: it neither
/// reaches the user's files with the job's result nor the steps that follow.
#[test]
fn sealed_paths_are_no_part_of_what_a_steps_agent_changes() {
    let works = Works::new();
    works.project.write(".claude/settings.json", "{}\n");
    works.project.write(".vscode/tasks.json", "{}\n");
    git(&works.project, &["add", "-A"]);
    git(&works.project, &["commit", "-qm", "settings"]);
    let runtime = agent(
        &works,
        "agent.sh",
        "cat > /dev/null; echo evil > .claude/settings.json; echo evil > .mcp.json\n\
         mkdir -p web/.husky conf; echo evil > web/.husky/pre-commit\n\
         echo evil > conf/tasks.json; rm -r .vscode; ln -s conf .vscode\n\
         echo salve.toml >> .gitignore; printf '[skills.commands]\\nx = \"touch ../x\"\\n' > salve.toml\n\
         echo made > made.txt\n",
    );
    let steps = format!(
        "[[steps]]\nid = \"one\"\ninstruction = \"Do it.\"\nruntime = \"{runtime}\"\n\
         [[steps]]\nid = \"two\"\ncommand = \"ls -a . .vscode > $OUT/seen; cat .claude/settings.json >> $OUT/seen\"\n"
    );
    works.project.write("job.toml", steps);
    let visit = works.salve(&["run", "job.toml"]);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    let told = "the agent also wanted to change";
    assert!(visit.said.contains(told) && visit.said.contains("salve.toml"), "{}", visit.said);
    let seen = fs::read_to_string(works.out().join("seen")).unwrap();
    assert!(seen.contains("made.txt") && seen.contains("tasks.json"), "{seen}");
    assert!(!seen.contains("evil") && !seen.contains("salve.toml"), "{seen}");
    let result = works.file("artifacts/result.patch");
    assert!(result.contains("b/made.txt") && result.contains("b/conf/tasks.json"), "{result}");
    for name in [".claude", ".mcp.json", ".husky", ".vscode", "b/salve.toml"] {
        assert!(!result.contains(name), "{name}: {result}");
    }
    // A step that is a command was written by a person.
    let works = Works::new();
    let command = "mkdir .husky; echo mine > .husky/pre-commit";
    assert_eq!(works.salve(&["run", "--step", command]).code, Some(0));
    assert!(works.file("artifacts/result.patch").contains(".husky/pre-commit"));
}

/// **Invariant:** In the result of a job's step, what a link in a sealed place leads to is as it was, and
/// so is where git finds programs.
#[test]
fn what_links_in_sealed_places_lead_to_is_no_part_of_what_a_steps_agent_changes() {
    let works = Works::new();
    for path in ["b/c/settings.json", "conf/words", "tools/hooks/pre-commit"] {
        works.project.write(path, "old\n");
    }
    for (link, target) in [("a", "b"), (".claude", "a/c"), (".vscode", "conf")] {
        std::os::unix::fs::symlink(target, works.project.dir().join(link)).unwrap();
    }
    git(&works.project, &["config", "core.hooksPath", "tools/hooks"]);
    git(&works.project, &["add", "-A"]);
    git(&works.project, &["commit", "-qnm", "links"]);
    let runtime = agent(
        &works,
        "agent.sh",
        "cat > /dev/null; echo evil > b/c/settings.json; echo evil > conf/tasks.json\n\
         mkdir -p evil/c; echo evil > evil/c/settings.json; ln -sfn evil a\n\
         echo evil > tools/hooks/pre-commit; echo made > made.txt\n",
    );
    let step =
        format!("[[steps]]\nid = \"one\"\ninstruction = \"Do it.\"\nruntime = \"{runtime}\"\n");
    works.project.write("job.toml", step);
    let visit = works.salve(&["run", "job.toml"]);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    assert!(visit.said.contains("the agent also wanted to change"), "{}", visit.said);
    let result = works.file("artifacts/result.patch");
    assert!(result.contains("b/made.txt") && result.contains("b/evil/c/settings.json"), "{result}");
    for name in ["b/b/c/settings.json", "b/conf/tasks.json", "b/tools/hooks", "b/a\n"] {
        assert!(!result.contains(name), "{name}: {result}");
    }
}

/// Returns what a reviewer has to write to approve, found in what it was told.
const APPROVE: &str = "sed -n 's/.*`\\(approved [0-9a-f]*\\)`.*/\\1/p'";

/// Runs a job of one agent's step with this verification.
fn run(works: &Works, does: &str, verify: &str) -> Visit {
    let agent = agent(works, "agent.sh", does);
    works.project.write(
        "job.toml",
        format!(
            "[job]\nobjective = \"Add search\"\n[[steps]]\nid = \"plan\"\n\
             instruction = \"Write the plan.\"\nruntime = \"{agent}\"\nverify = {{ {verify} }}\n"
        ),
    );
    works.salve(&["run", "--attempts", "2", "job.toml"])
}

#[test]
fn a_reviewer_sees_the_change_rejects_it_and_approves_the_next_one() {
    let works = Works::new();
    let told = works.project.dir().canonicalize().unwrap().join("../told");
    // It rejects what has no second line; what it writes itself is thrown away.
    let reviewer = agent(
        &works,
        "reviewer.sh",
        &format!(
            "cat > '{told}'; echo mine > scribble.txt; echo more >> plan.md\n\
             if grep -q '^+two' '{told}'; then {APPROVE} '{told}'\n\
             else sed -n 's/.*`\\(rejected [0-9a-f]*:\\)`.*/\\1 it lacks the second line/p' '{told}'; fi\n\
             echo '{{\"type\":\"spent\",\"tokens\":40}}'\n",
            told = told.display()
        ),
    );
    let does = "cat > /dev/null; echo '{\"type\":\"spent\",\"tokens\":100}'\n\
                if [ -e plan.md ]; then echo two >> plan.md; else echo one > plan.md; fi\n";
    let verify =
        format!("reviewer = {{ runtime = \"{reviewer}\", instruction = \"Is it complete?\" }}");
    let visit = run(&works, does, &verify);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    assert!(visit.said.contains("the reviewer rejected it: it lacks the second line"));
    let asked = fs::read_to_string(&told).unwrap();
    for words in ["Add search", "Write the plan.", "Is it complete?", "+++ b/plan.md", "+two"] {
        assert!(asked.contains(words), "{words}: {asked}");
    }
    let left = works.workspace();
    assert_eq!(fs::read_to_string(left.join("plan.md")).unwrap(), "one\ntwo\n");
    assert!(!left.join("scribble.txt").exists());
    let spent = |n: u32| {
        works.json(&format!("state/self_heal/attempt-0000-000{n}.json"))["spent"]["tokens"].clone()
    };
    assert_eq!((spent(1), spent(2)), (140.into(), 140.into()), "the review costs, too");
}

/// **Invariant:** Only a reviewer's own verdict approves a step.
#[test]
fn a_reviewer_that_repeats_what_it_was_told_or_says_nothing_has_approved_nothing() {
    for reviews in ["cat", "true", "echo approved", "cat; echo 'approved 1234'"] {
        let works = Works::new();
        let reviewer = agent(&works, "reviewer.sh", reviews);
        let verify = format!("reviewer = {{ runtime = \"{reviewer}\" }}");
        let visit = run(&works, "echo 'approved' > plan.md", &verify);
        assert_eq!(visit.code, Some(1), "{reviews}: {}", visit.said);
        assert!(visit.said.contains("the reviewer gave no verdict"), "{reviews}: {}", visit.said);
    }
    let works = Works::new();
    let verify = "reviewer = { runtime = \"no-such-reviewer\" }";
    let visit = run(&works, "echo x > plan.md", verify);
    assert_eq!(visit.code, Some(3), "a person is needed: {}", visit.said);
    assert!(visit.said.contains("no-such-reviewer: not found"), "{}", visit.said);
}

#[test]
fn a_step_that_claims_success_without_evidence_has_failed() {
    for (does, verify, word) in [
        ("echo done", "", "no file changed, and nothing else shows that it is done"),
        ("echo x > plan.md", "files = [\"other.md\"]", "other.md is missing"),
        ("echo x > plan.md", "changed = [\"a.txt\"]", "a.txt was not changed"),
        ("echo x > extra.txt; mkdir d; echo x > d/a.txt", "changed = [\"a.txt\"]", "a.txt was not"),
        ("echo x > b; echo x > c", "max_files = 1", "2 files changed, at most 1 may"),
        ("seq 9 > plan.md", "max_lines = 8", "9 lines changed, at most 8 may"),
        ("printf '\\0' > plan.md", "max_lines = 8", "a binary file changed"),
        ("echo x > plan.md", "command = \"grep y plan.md\"", "failed"),
    ] {
        let works = Works::new();
        let visit = run(&works, does, verify);
        assert_eq!(visit.code, Some(1), "{does}: {}", visit.said);
        assert!(visit.said.contains(word), "{does}: {}", visit.said);
    }
    for (does, verify) in [
        ("echo done", "may_change_nothing = true"),
        ("echo done", "command = \"test -e a.txt\""),
        ("seq 8 > plan.md", "max_lines = 8, max_files = 1, changed = [\"plan.md\"]"),
    ] {
        let works = Works::new();
        let visit = run(&works, does, verify);
        assert_eq!(visit.code, Some(0), "{does}: {}", visit.said);
    }
}

#[test]
fn a_step_for_which_nobody_is_named_says_where_an_agent_is_named() {
    let works = Works::new();
    works.project.write("job.toml", "[[steps]]\nid = \"one\"\ninstruction = \"Do it.\"\n");
    let visit = works.salve(&["run", "job.toml"]);
    assert_eq!(visit.code, Some(3), "{}", visit.said);
    assert!(visit.said.contains("set agent.runtime in salve.toml"), "{}", visit.said);
    assert!(!visit.said.contains("loop"), "it is no loop: {}", visit.said);
    let runtime = agent(&works, "agent.sh", "echo x > made.txt\n");
    works
        .project
        .write("salve.toml", format!("[agent]\nruntime = \"command\"\ncommand = \"{runtime}\"\n"));
    let (id, _) = works.run();
    let visit = works.salve(&["resume", &id]);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
}

#[test]
fn a_skill_is_a_step() {
    let works = Works::new();
    works.project.write(
        "salve.toml",
        "[skills.commands]\nwrite = \"printf '%s\\\\n' \\\"$ARG_TEXT\\\" > made.txt\"\n",
    );
    works.project.write(
        "skills/write.yaml",
        "inputs:\n  - name: text\n    required: true\nsteps:\n  - id: write\n    tool: write\n    \
         args:\n      text: \"{{ text }}\"\n",
    );
    for args in [&["add", "-A"][..], &["commit", "-qm", "skills"]] {
        crate::heal::git(&works.project, args);
    }
    works.project.write(
        "job.toml",
        "[[steps]]\nid = \"write\"\nskill = \"skills/write.yaml\"\ninputs = { text = \"hello\" }\n\
         verify = { files = [\"made.txt\"] }\n",
    );
    let visit = works.salve(&["run", "job.toml"]);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    let made = works.workspace().join("made.txt");
    assert_eq!(fs::read_to_string(made).unwrap(), "hello\n");
    works.project.write("bad.toml", "[[steps]]\nskill = \"a.yaml\"\ncommand = \"true\"\n");
    let visit = works.salve(&["run", "bad.toml"]);
    assert_eq!(visit.code, Some(2), "{}", visit.said);
    works.project.write("gone.toml", "[[steps]]\nskill = \"skills/gone.yaml\"\n");
    let visit = works.salve(&["run", "--attempts", "1", "gone.toml"]);
    assert_eq!(visit.code, Some(1), "{}", visit.said);
    assert!(visit.said.contains("cannot read skills/gone.yaml"), "{}", visit.said);
}

#[test]
fn the_jobs_agent_and_model_are_those_of_its_steps() {
    let works = Works::new();
    let bin = works.project.dir().join("../bin");
    let trace = works.project.dir().canonicalize().unwrap().join("../trace");
    for name in ["claude", "codex"] {
        let claude =
            "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"ok\"}";
        let codex = "{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"ok\"}}\n\
                     {\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}";
        let says = if name == "claude" { claude } else { codex };
        let script = format!(
            "#!/bin/sh\necho \"{name} $SALVE_STEP $*\" | tr '\\n' ' ' >> '{0}'; echo >> '{0}'\necho x >> made-$SALVE_STEP\n\
             cat <<'END'\n{says}\nEND\n",
            trace.display()
        );
        works.project.write(&format!("../bin/{name}"), script);
        let path = bin.join(name);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let step = |id: &str, more: &str| {
        format!("[[steps]]\nid = \"{id}\"\ninstruction = \"Do it.\"\n{more}\n")
    };
    let steps = [
        step("usual", ""),
        step("model", "model = \"small-9\""),
        step("other", "runtime = \"codex\""),
    ];
    let job = "[job]\nruntime = \"claude\"\nmodel = \"large-7\"\n".to_owned() + &steps.concat();
    works.project.write("job.toml", job);
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", bin.canonicalize().unwrap().display());
    let output = works.command(&["run", "job.toml"]).env("PATH", path).output().unwrap();
    let visit = Visit::of(&output);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    let traces = works.traces();
    let of = |words: &str| traces.iter().find(|line| line.starts_with(words)).unwrap();
    assert!(of("claude usual").contains("large-7"), "{traces:?}");
    assert!(of("claude model").contains("small-9"), "{traces:?}");
    assert!(!of("codex other").contains("large-7"), "a model is one runtime's: {traces:?}");
}
