//! What befalls jobs: files that lag behind, agents that misbehave, refs that go away.

use std::fs;

use jiff::{SignedDuration, Timestamp};
use salve_core::event::{AttemptEnd, Entry, Event, JobEvent, JobTurn};

use crate::heal::{Visit, git};
use crate::jobs::{Works, kill};
use crate::recovery_resumed::{journal, rewrite};
use crate::support::{wait_for, with_own_mounts};

#[test]
fn a_log_that_a_kill_cut_off_is_whole_again_after_the_next_run() {
    let works = Works::new();
    let gate = works.project.dir().canonicalize().unwrap().join("../open");
    let wait = format!("test -e '{}'", gate.display());
    let visit =
        works.salve(&["run", "--attempts", "1", "--step", "echo 1 >> a.txt", "--step", &wait]);
    assert_eq!(visit.code, Some(1), "{}", visit.said);
    let (id, dir) = works.run();
    let whole = works.file("events.jsonl");
    assert!(whole.starts_with("{") && whole.contains("task.started"), "{whole}");
    fs::write(&gate, "").unwrap();
    // In the midst of a line, as a full disk cuts it; and after an order that nobody was there to log.
    fs::write(dir.join("events.jsonl"), &whole[..whole.len() / 2]).unwrap();
    assert_eq!(works.salve(&["control", &id, "retry_step"]).code, Some(0));
    let visit = works.salve(&["resume", &id]);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    let after = works.file("events.jsonl");
    assert!(after.starts_with(&whole), "{after}");
    assert!(works.events().contains(&"task.control.recovery.requested".to_owned()), "{after}");
    // Of a job that is over, too.
    fs::remove_file(dir.join("events.jsonl")).unwrap();
    fs::remove_file(dir.join("state.json")).unwrap();
    assert_eq!(works.salve(&["resume", &id]).code, Some(2), "it is done");
    assert_eq!(works.file("events.jsonl"), after);
    assert_eq!(works.json("state.json")["status"], "completed");
}

#[test]
fn what_was_killed_before_it_began_goes_with_the_next_job() {
    let works = Works::new();
    let jobs = works.project.dir().join(".salve/jobs");
    assert_eq!(works.salve(&["run", "--", "true"]).code, Some(0));
    let holder = r#"{"version":1,"pid":1,"started":1,"host":"elsewhere"}"#;
    for (name, file) in [("aaaaaaaaaaaa", "job.json"), ("bbbbbbbbbbbb", "state.json")] {
        fs::create_dir_all(jobs.join(name).join("workspace")).unwrap();
        fs::write(jobs.join(name).join("run.lock"), holder).unwrap();
        fs::write(jobs.join(name).join(file), "{}").unwrap();
    }
    // One whose lock was never held may be just about to be.
    fs::create_dir_all(jobs.join("cccccccccccc")).unwrap();
    assert_eq!(works.salve(&["run", "--", "true"]).code, Some(0));
    assert!(!jobs.join("aaaaaaaaaaaa").exists(), "nothing was begun");
    assert!(jobs.join("bbbbbbbbbbbb").exists(), "something was told about it");
    assert!(jobs.join("cccccccccccc").exists());
    assert_eq!(works.runs().len(), 4);
}

#[test]
fn a_truncated_patch_stops_a_reset_and_the_record_of_a_step_too() {
    for file in ["artifacts/patches/steps/step-0000.patch", "state/steps/step-0000.json"] {
        let works = Works::new();
        let visit = works.salve(&["run", "--step", "echo 1 >> a.txt", "--step", "exit 126"]);
        assert_eq!(visit.code, Some(3), "{}", visit.said);
        let (id, dir) = works.run();
        let half = fs::read(dir.join(file)).unwrap();
        fs::write(dir.join(file), &half[..half.len() / 2]).unwrap();
        assert_eq!(works.salve(&["control", &id, "hard_reset_step"]).code, Some(0));
        let visit = works.salve(&["resume", &id]);
        assert_eq!(visit.code, Some(1), "{}", visit.said);
        let name = file.rsplit('/').next().unwrap();
        assert!(visit.said.contains(name), "{name}: {}", visit.said);
        assert!(dir.join("artifacts/patches/steps/step-0000.patch").exists(), "nothing is lost");
    }
}

#[test]
fn a_starting_ref_that_was_pushed_away_changes_no_reset() {
    let works = Works::new();
    git(&works.project, &["branch", "base"]);
    works.project.write("job.toml", "[job]\nstart = \"base\"\n[[steps]]\nid = \"one\"\ncommand = \"echo 1 >> a.txt\"\n[[steps]]\nid = \"two\"\ncommand = \"test -e $OUT/open || exit 126\"\n");
    assert_eq!(works.salve(&["run", "job.toml"]).code, Some(3));
    // The branch leads elsewhere now, and what it led to is garbage.
    git(&works.project, &["checkout", "-q", "--orphan", "other"]);
    git(&works.project, &["rm", "-rq", "--cached", "."]);
    works.project.write("a.txt", "another history\n");
    git(&works.project, &["add", "a.txt"]);
    git(&works.project, &["commit", "-qm", "other"]);
    git(&works.project, &["branch", "-f", "base", "other"]);
    let branches = git(&works.project, &["branch", "--format=%(refname:short)"]);
    for branch in branches.lines().filter(|name| !["base", "other"].contains(name)) {
        git(&works.project, &["branch", "-qD", branch]);
    }
    let (id, _) = works.run();
    works.project.write("../open", "");
    assert_eq!(works.salve(&["control", &id, "hard_reset_step"]).code, Some(0));
    let visit = works.salve(&["resume", &id]);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    assert_eq!(fs::read_to_string(works.workspace().join("a.txt")).unwrap(), "one\n1\n");
}

/// **Invariant:** Whatever a step puts in the place of its workspace, nobody else's files change.
#[test]
fn a_workspace_that_is_a_link_leads_no_reset_to_other_files() {
    let works = Works::new();
    let victim = works.project.dir().join("../victim");
    fs::create_dir_all(victim.join(".git")).unwrap();
    fs::write(victim.join("work.txt"), "mine").unwrap();
    fs::write(victim.join(".git/HEAD"), "theirs").unwrap();
    let swap =
        format!("me=$PWD; cd ..; mv \"$me\" away; ln -s '{}' \"$me\"; exit 126", victim.display());
    let visit = works.salve(&["run", "--step", "echo 1 >> a.txt", "--step", &swap]);
    assert_eq!(visit.code, Some(3), "{}", visit.said);
    let (id, _) = works.run();
    let workspace = works.workspace();
    assert!(!workspace.is_symlink(), "the workspace is the job's own again");
    // Somebody does it while nothing runs.
    fs::rename(&workspace, workspace.with_file_name("away again")).unwrap();
    std::os::unix::fs::symlink(&victim, &workspace).unwrap();
    assert_eq!(works.salve(&["control", &id, "hard_reset_step"]).code, Some(0));
    let visit = works.salve(&["resume", &id]);
    assert_eq!(visit.code, Some(3), "{}", visit.said);
    assert_eq!(fs::read_to_string(works.workspace().join("a.txt")).unwrap(), "one\n1\n");
    assert_eq!(fs::read_to_string(victim.join("work.txt")).unwrap(), "mine");
    assert_eq!(fs::read_to_string(victim.join(".git/HEAD")).unwrap(), "theirs");
    assert!(!victim.join("a.txt").exists());
}

#[test]
fn a_step_that_edits_git_or_deletes_the_workspace_costs_nothing_that_was_done() {
    let works = Works::new();
    let once = |word: &str, harm: &str| {
        format!("test -e $OUT/{word} || {{ touch $OUT/{word}; {harm}; exit 1; }}")
    };
    let steps = [
        "echo 1 >> a.txt".to_owned(),
        once(
            "git",
            "rm -rf .git/objects .git/refs; echo junk > .git/HEAD; echo junk > .git/config",
        ),
        once("gone", "dir=$PWD; cd /; rm -rf \"$dir\""),
        "git log -1 --format=%s && cat a.txt && echo 2 >> a.txt".to_owned(),
    ];
    let mut args = vec!["run"];
    args.extend(steps.iter().flat_map(|step| ["--step", step.as_str()]));
    let visit = works.salve(&args);
    assert_eq!(visit.code, Some(1), "{}", visit.said);
    assert!(visit.said.contains("the step deleted its workspace"), "{}", visit.said);
    let (id, _) = works.run();
    let left = || fs::read_to_string(works.workspace().join("a.txt")).unwrap();
    assert_eq!(left(), "one\n1\n", "what was done is there again");
    let visit = works.salve(&["resume", &id]);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    assert_eq!(left(), "one\n1\n2\n");
    assert!(visit.said.contains("first"), "the steps see the history again: {}", visit.said);
    let mine = fs::read_to_string(works.project.dir().join("draft.txt")).unwrap();
    assert_eq!(mine, "the user's own\n");
}

#[test]
fn what_a_failed_attempt_cloned_is_gone_in_a_fresh_workspace() {
    let works = Works::new();
    git(&works.project, &["clone", "-q", ".", "../other"]);
    // The second attempt meets what the first one left, which says nothing about the step.
    let step = format!(
        "{}; git clone -q $OUT/other sub && test $(wc -l < $OUT/trace) -gt 2",
        works.trace("x")
    );
    let visit = works.salve(&["run", "--step", "echo 1 >> a.txt", "--step", &step]);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    assert!(visit.said.contains("in a fresh workspace"), "{}", visit.said);
    assert_eq!(works.traces().len(), 3);
    assert_eq!(fs::read_to_string(works.workspace().join("a.txt")).unwrap(), "one\n1\n");
}

/// **Invariant:** No step is done whose files no checkpoint can keep.
#[test]
fn a_repository_without_a_commit_fails_its_step_in_words_and_spoils_no_job() {
    let works = Works::new();
    let step = format!(
        "{}; git init -q sub; echo x > sub/b.txt; test ! -e $OUT/open || rm -rf sub/.git",
        works.trace("x")
    );
    let visit = works.salve(&["run", "--step", "git init -q empty", "--step", &step]);
    assert_eq!(visit.code, Some(1), "{}", visit.said);
    let told = "sub/ is a git repository without a commit";
    assert!(visit.said.contains(told) && visit.said.contains("remove sub/.git"), "{}", visit.said);
    works.project.write("../open", "");
    let (id, _) = works.run();
    let visit = works.salve(&["resume", &id]);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    assert!(works.file("artifacts/result.patch").contains("sub/b.txt"));
    // What is not committed comes along whole, or not at all.
    works.project.write("nested/b.txt", "x");
    git(&works.project, &["init", "-q", "nested"]);
    let visit = works.salve(&["run", "--here", "--", "true"]);
    assert_eq!(visit.code, Some(2), "{}", visit.said);
    assert!(visit.said.contains("commit something in nested/"), "{}", visit.said);
}

#[test]
fn two_failures_by_turns_are_no_progress() {
    let works = Works::new();
    let step = format!(
        "{}; n=$(wc -l < $OUT/trace); if [ $((n % 2)) = 1 ]; then echo 'the alpha is not there yet' >&2; \
         echo alpha > f; else echo 'nobody heard of a beta' >&2; echo beta > f; fi; exit 1",
        works.trace("x")
    );
    let visit = works.salve(&["run", "--attempts", "8", "--", "sh", "-c", &step]);
    assert_eq!(visit.code, Some(1), "{}", visit.said);
    let stuck = works.events().iter().filter(|name| *name == "task.self_heal.escalated").count();
    assert!(stuck >= 1, "{:?}", works.events());
    assert!(works.traces().len() < 8, "it was noticed before the attempts were used up");
}

#[test]
fn a_workspace_that_somebody_left_dirty_is_set_back_before_the_step_that_was_cut_off() {
    let works = Works::new();
    let wait = format!("{}; test -e $OUT/open || sleep 600; echo 2 >> a.txt", works.trace("x"));
    let mut child = works.start(&["run", "--step", "echo 1 >> a.txt", "--step", &wait]);
    wait_for("the second step", || works.traces().len() == 1);
    kill(&works, &mut child);
    let (id, _) = works.run();
    fs::write(works.workspace().join("a.txt"), "something else\n").unwrap();
    fs::write(works.workspace().join("litter"), "x").unwrap();
    works.project.write("../open", "");
    let visit = works.salve(&["resume", &id]);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    assert_eq!(fs::read_to_string(works.workspace().join("a.txt")).unwrap(), "one\n1\n2\n");
    assert!(!works.workspace().join("litter").exists());
}

#[test]
fn a_job_that_is_tried_again_begins_at_its_last_checkpoint() {
    let works = Works::new();
    let step = format!(
        "{}; test -e $OUT/ok && test -e a.txt || {{ rm -f a.txt; exit 3; }}",
        works.trace("x")
    );
    let visit = works.salve(&["run", "--step", "echo 1 >> a.txt", "--step", &step]);
    assert_eq!(visit.code, Some(1), "{}", visit.said);
    assert!(visit.said.contains("try it again from its last checkpoint"), "{}", visit.said);
    let (id, _) = works.run();
    works.project.write("../ok", "");
    let visit = works.salve(&["resume", &id]);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    assert!(visit.said.contains("set back"), "{}", visit.said);
    assert_eq!(fs::read_to_string(works.workspace().join("a.txt")).unwrap(), "one\n1\n");
}

/// **Invariant:** A full disk loses nothing that was done.
#[test]
fn a_disk_that_is_full_at_any_write_loses_nothing_that_was_done() {
    let works = Works::new();
    works.project.write(".salve/.gitignore", "*\n");
    let temporary = works.out().join("tmp");
    fs::create_dir_all(&temporary).unwrap();
    // A step whose own write failed for good goes on in the workspace as it is.
    let step = |n: u32| {
        format!("grep -qx {n} a.txt || echo {n} >> a.txt; head -c 40000 /dev/urandom > big-{n}")
    };
    let (one, two) = (step(1), step(2));
    let mut salve = works.command(&["run", "--step", &one, "--step", &two]);
    salve.env("TMPDIR", &temporary);
    // Each size is full at another write: of the journal, a patch, a record; of the workspace.
    let script = r#"
        try() {
            full=$1; shift
            "$@" > said 2>&1 && echo "$what $size: at once" || cat said
            mount -o remount,size=64m "$full"
            run=$(basename "$(ls -d .salve/jobs/*/ 2>/dev/null | head -1)" 2>/dev/null || true)
            if ! "$1" jobs --json | grep -q "$run" || [ -z "$run" ]; then
                "$@" > said 2>&1 || { cat said; echo "$what $size: LOST"; }
            elif ! grep -q '"completed"' .salve/jobs/$run/state.json; then
                "$1" resume "$run" > said 2>&1 || grep -q 'is done' said || { cat said; echo "$what $size: LOST"; }
            fi
            run=$(basename "$(ls -d .salve/jobs/*/ | tail -1)")
            at=$("$1" show "$run" | sed -n 's/^  workspace: //p')
            [ "$(cat "$at/a.txt" | tr '\n' ' ')" = "one 1 2 " ] || echo "$what $size: WRONG $(cat "$at/a.txt" | tr '\n' ' ')"
        }
        mkdir -p "$HOME/.local/state"
        what=files
        for size in 240 300 360 420 480 540 600 660 720 780 840 960; do
            mount -t tmpfs -o size=${size}k none .salve
            try .salve "$@"
            umount .salve
        done
        what=workspace
        for size in 24 40 64 88 112 140 180 240 400; do
            mount -t tmpfs -o size=64m none .salve
            mount -t tmpfs -o size=${size}k none "$HOME/.local/state"
            try "$HOME/.local/state" "$@"
            umount .salve "$HOME/.local/state"
        done
        cat draft.txt"#;
    let Some(output) = with_own_mounts(&salve, &works.project.dir(), script) else { return };
    let visit = Visit::of(&output);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    assert!(!visit.said.contains("LOST") && !visit.said.contains("WRONG"), "{}", visit.said);
    for largest in ["files 960: at once", "workspace 400: at once"] {
        assert!(visit.said.contains(largest), "{}", visit.said);
    }
    for smallest in ["files 240: at once", "workspace 24: at once"] {
        assert!(!visit.said.contains(smallest), "{}", visit.said);
    }
    assert!(visit.said.contains("space"), "{}", visit.said);
    assert!(visit.said.contains("the user's own"), "{}", visit.said);
}

#[test]
fn a_reset_that_found_the_disk_full_is_done_once_there_is_room() {
    let works = Works::new();
    works.project.write(".salve/.gitignore", "*\n");
    works.project.write("data", "x".repeat(300_000));
    git(&works.project, &["add", "data"]);
    git(&works.project, &["commit", "-qm", "data"]);
    // What git ignores stays, and takes the room of what has to come back.
    let fill = "mkdir cache; head -c 9000000 /dev/zero 2>/dev/null > cache/full";
    let step = format!(
        "{}; test -e $OUT/open || {{ rm data; echo half >> a.txt; {fill}; exit 126; }}",
        works.trace("x")
    );
    let salve = works.command(&["run", "--step", "echo 1 >> a.txt", "--step", &step]);
    let script = r#"
        mkdir -p "$HOME/.local/state"
        mount -t tmpfs -o size=2m none "$HOME/.local/state"
        "$@" || echo "first: $?"
        run=$(basename .salve/jobs/*/)
        "$1" control "$run" hard_reset_step
        "$1" resume "$run" || echo "full: $?"
        cat .salve/jobs/$run/state.json
        at=$("$1" show "$run" | sed -n 's/^  workspace: //p')
        rm "$at/cache/full"; touch "$OUT/open"
        "$1" resume "$run" && echo "room: 0"
        cat "$at/a.txt"; wc -c < "$at/data""#;
    let Some(output) = with_own_mounts(&salve, &works.project.dir(), script) else { return };
    let said = Visit::of(&output).said;
    let room = "room: 0\none\n1\n300000";
    for words in ["first: 3", "full: 1", "free some disk space", "\"status\": \"running\"", room] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(!works.events().contains(&"task.self_heal.exhausted".to_owned()), "{said}");
}

/// Returns entries as a clock that was ahead by so much would have written them.
fn ahead(entries: &[Entry], by: SignedDuration) -> Vec<Entry> {
    let later = |at: Timestamp| at.saturating_add(by).unwrap();
    let moved = |entry: &Entry| {
        let mut entry = Entry { at: later(entry.at), ..entry.clone() };
        if let Event::Job(JobEvent::Advanced {
            what: JobTurn::StepEnded { end: AttemptEnd::Away { until, .. }, .. },
            ..
        }) = &mut entry.event
        {
            *until = later(*until);
        }
        entry
    };
    entries.iter().map(moved).collect()
}

#[test]
fn a_job_that_was_parked_by_a_clock_that_jumped_goes_on_in_its_time() {
    for years in [30, -30] {
        let works = Works::new();
        let out = works.project.dir().canonicalize().unwrap().join("..");
        works.project.write(
            "../agent.sh",
            format!(
                "cat > /dev/null; test -e '{}/quota' || {{ touch '{}/asked'\n\
                 echo '{{\"type\":\"error\",\"text\":\"rate limit, try again in 3 seconds\"}}'; exit 1; }}\n\
                 echo x > made\n",
                out.display(),
                out.display()
            ),
        );
        works.project.write(
            "job.toml",
            format!(
                "[[steps]]\nid = \"one\"\ninstruction = \"Do it.\"\nruntime = \"sh '{}/agent.sh'\"\n",
                out.display()
            ),
        );
        let mut child = works.start(&["run", "job.toml"]);
        wait_for("the parking", || {
            works.runs().len() == 1 && works.json("state.json")["status"] == "parked"
        });
        kill(&works, &mut child);
        fs::write(out.join("quota"), "").unwrap();
        let entries = journal(&works.project);
        rewrite(&works.project, &ahead(&entries, SignedDuration::from_hours(24 * 365 * years)));
        let (id, _) = works.run();
        let visit = works.salve(&["resume", &id]);
        assert_eq!(visit.code, Some(0), "{years}: {}", visit.said);
        let times: Vec<Timestamp> = journal(&works.project)
            .iter()
            .filter(|entry| matches!(entry.event, Event::Job(_)))
            .map(|entry| entry.at)
            .collect();
        assert!(times.is_sorted(), "time never ran backwards in it: {times:?}");
    }
}

/// **Invariant:** A secret that a step printed leaves in no event, record or figure.
#[test]
fn a_secret_that_a_failing_step_prints_is_in_no_event_record_or_figure() {
    let works = Works::new();
    let step = "echo 'nobody heard of PASSWORD=hunter2-Zq81'; exit 3";
    let visit = works.salve(&["--json", "run", "--attempts", "2", "--", "sh", "-c", step]);
    assert_eq!(visit.code, Some(1));
    let (_, dir) = works.run();
    let mut read = 0;
    for name in ["events.jsonl", "state.json", "state/self_heal", "logs", "../../events.jsonl"] {
        let path = dir.join(name);
        let files = if path.is_dir() {
            fs::read_dir(path).unwrap().map(|file| file.unwrap().path()).collect()
        } else {
            vec![path]
        };
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            assert!(!text.contains("hunter2"), "{}: {text}", file.display());
            read += 1;
        }
    }
    assert!(read >= 6, "{read} files were read");
    assert!(!works.salve(&["metrics"]).said.contains("hunter2"));
}
