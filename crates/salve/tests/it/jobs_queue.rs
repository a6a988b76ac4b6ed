//! `salve submit` and `salve worker`: jobs that whichever worker is free runs, and takes over.

use std::fs;
use std::path::PathBuf;
use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::jobs::Works;
use crate::support::{is_alive, wait_for};

/// Writes a job file and submits it; returns the run's id.
fn submit(works: &Works, steps: &[&str]) -> String {
    let steps: Vec<Value> =
        steps.iter().map(|step| serde_json::json!({ "command": step })).collect();
    works.project.write("job.json", serde_json::json!({ "steps": steps }).to_string());
    let output = works.command(&["submit", "job.json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Returns how a run stands.
fn status(works: &Works, id: &str) -> String {
    let text = fs::read_to_string(dir(works, id).join("state.json")).unwrap_or_default();
    let state: Value = serde_json::from_str(&text).unwrap_or_default();
    state["status"].as_str().unwrap_or_default().to_owned()
}

fn dir(works: &Works, id: &str) -> PathBuf {
    works.project.dir().join(".salve/jobs").join(id)
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap()
}

/// Returns the process that runs a job.
fn runner(works: &Works, id: &str) -> u32 {
    let lock = fs::read_to_string(dir(works, id).join("run.lock")).unwrap();
    let lock: Value = serde_json::from_str(&lock).unwrap();
    u32::try_from(lock["pid"].as_u64().unwrap()).unwrap()
}

/// Returns a step that leaves a trace and then waits until the gate is open.
fn gated(works: &Works, word: &str) -> String {
    let gate = works.project.dir().canonicalize().unwrap().join("../open");
    format!("{}; while ! test -e '{}'; do sleep 0.05; done", works.trace(word), gate.display())
}

fn open_gate(works: &Works) {
    fs::write(works.project.dir().join("../open"), "").unwrap();
}

#[test]
fn workers_run_what_was_submitted_and_end_when_nothing_is_left() {
    let works = Works::new();
    let first = submit(&works, &["echo 1 >> a.txt", "echo 2 >> a.txt"]);
    let second = submit(&works, &["echo x > b.txt"]);
    let listed = works.salve(&["jobs"]).said;
    assert_eq!(listed.matches("queued").count(), 2, "{listed}");
    let visit = works.salve(&["worker", "--jobs", "2", "--until-empty"]);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    for id in [&first, &second] {
        assert_eq!(status(&works, id), "completed", "{}", visit.said);
    }
    let left = fs::read_to_string(works.workspace_of(&first).join("a.txt")).unwrap();
    assert_eq!(left, "one\n1\n2\n");
    assert_eq!(works.salve(&["worker", "--until-empty"]).code, Some(0), "nothing is left to do");
    assert_eq!(works.salve(&["jobs", "dead"]).code, Some(0));
}

#[test]
fn what_may_pass_is_tried_again_and_then_lies_with_the_dead_until_a_person_requeues_it() {
    let works = Works::new();
    let mended = works.project.dir().canonicalize().unwrap().join("../mended");
    let step = format!("{}; test -e '{}' || exit 3", works.trace("x"), mended.display());
    let id = submit(&works, &["echo 1 >> a.txt", &step]);
    let set = ["--set", "job.queue_backoff_seconds=0", "--set", "job.queue_max_tries=2"];
    let args = ["worker", "--until-empty"];
    // The terms are those of the submission.
    let requeued = works.salve(&[&set[..], &["submit", "job.json"]].concat());
    assert_eq!(requeued.code, Some(0));
    assert_eq!(works.salve(&["control", &id, "cancel"]).code, Some(0));
    let visit = works.salve(&args);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    // Three attempts, then two: the job may be reset once, however often it is tried.
    assert_eq!(works.traces().len(), 5, "{}", visit.said);
    let dead = works.salve(&["jobs", "dead"]);
    assert_eq!(dead.code, Some(3), "{}", dead.said);
    assert!(dead.said.contains("2 tries") && !dead.said.contains(&id), "{}", dead.said);
    let run = dead.said.split_whitespace().next().unwrap().to_owned();
    fs::write(&mended, "").unwrap();
    assert_eq!(works.salve(&["jobs", "requeue", &run]).code, Some(0));
    assert_eq!(works.salve(&["jobs", "requeue", &run]).code, Some(1), "it is queued");
    assert_eq!(works.salve(&args).code, Some(0));
    assert_eq!(status(&works, &run), "completed");
    let left = fs::read_to_string(works.workspace_of(&run).join("a.txt")).unwrap();
    assert_eq!(left, "one\n1\n", "the first step ran once");
    assert_eq!(status(&works, &id), "", "what was called off was never run");
}

#[test]
fn a_job_of_the_queue_that_a_person_runs_by_hand_is_not_taken_for_a_failed_one() {
    let works = Works::new();
    let id = submit(&works, &[&gated(&works, "x"), "echo 2 >> a.txt"]);
    let mut by_hand = works.start(&["resume", &id]);
    wait_for("the step", || works.traces().len() == 1);
    let visit = works.salve(&["worker", "--until-empty"]);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    assert!(visit.said.contains("goes on by itself"), "no try is counted: {}", visit.said);
    open_gate(&works);
    assert_eq!(by_hand.wait().unwrap().code(), Some(0));
    assert_eq!(works.traces().len(), 1);
    assert!(works.salve(&["jobs"]).said.contains("completed"));
    assert_eq!(works.salve(&["jobs", "requeue", &id]).code, Some(0));
    assert_eq!(works.salve(&["worker", "--until-empty"]).code, Some(0));
    assert_eq!((works.salve(&["jobs", "dead"]).code, works.traces().len()), (Some(0), 1));
}

/// Submits a job that fails until it is mended, and has it fail once; it waits for an hour then.
fn failed_once(works: &Works) -> String {
    let mended = works.out().join("mended");
    let step = format!("{}; test -e '{}' || exit 3", works.trace("x"), mended.display());
    works.project.write("salve.toml", "[job]\nqueue_backoff_seconds = 3600\n");
    let id = submit(works, &["echo 1 >> a.txt", &step]);
    assert_eq!(works.salve(&["worker", "--until-empty"]).code, Some(0));
    assert_eq!((status(works, &id).as_str(), works.traces().len()), ("failed", 3));
    fs::write(mended, "").unwrap();
    id
}

#[test]
fn a_persons_word_ends_the_wait_for_the_next_try() {
    for order in [&["control", "RUN", "retry_step"][..], &["jobs", "requeue", "RUN"]] {
        let works = Works::new();
        let id = failed_once(&works);
        let words: Vec<&str> = order.iter().map(|w| if *w == "RUN" { &id } else { *w }).collect();
        let visit = works.salve(&words);
        assert_eq!(visit.code, Some(0), "{}", visit.said);
        assert!(!visit.said.contains("salve resume"), "it is in the queue: {}", visit.said);
        assert_eq!(works.salve(&["worker", "--until-empty"]).code, Some(0));
        assert_eq!(status(&works, &id), "completed", "{order:?}");
        let left = fs::read_to_string(works.workspace_of(&id).join("a.txt")).unwrap();
        assert_eq!(left, "one\n1\n", "the first step ran once");
    }
}

/// **Invariant:** What a person called off is run by nobody before a person takes that back.
#[test]
fn a_job_that_is_called_off_between_two_tries_is_not_tried_again() {
    let works = Works::new();
    let id = failed_once(&works);
    let visit = works.salve(&["control", &id, "cancel"]);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    assert_eq!(works.salve(&["control", &id, "cancel"]).code, Some(1), "it is already");
    assert!(!works.salve(&["jobs"]).said.contains("queued"));
    let shown = works.salve(&["show", &id]).said;
    assert!(shown.contains(&format!("salve jobs requeue {id}")), "{shown}");
    assert_eq!(works.salve(&["worker", "--until-empty"]).code, Some(0));
    assert_eq!(works.traces().len(), 3, "nobody ran it");
    let visit = works.salve(&["jobs", "requeue", &id]);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    assert_eq!(works.salve(&["worker", "--until-empty"]).code, Some(0));
    assert_eq!(status(&works, &id), "completed");
}

#[test]
fn a_job_that_a_worker_gave_back_can_be_called_off() {
    let works = Works::new();
    let id = submit(&works, &["echo 1 >> a.txt", &gated(&works, "x")]);
    let mut worker = works.start(&["worker"]);
    wait_for("the second step", || works.traces().len() == 1);
    kill_process(pid(&worker), Signal::TERM).unwrap();
    assert_eq!(worker.wait().unwrap().code(), Some(0));
    open_gate(&works);
    let visit = works.salve(&["control", &id, "cancel"]);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    assert_eq!(works.salve(&["worker", "--until-empty"]).code, Some(0));
    assert_eq!((status(&works, &id).as_str(), works.traces().len()), ("stopped", 1));
}

#[test]
fn a_killed_workers_job_is_taken_over_from_its_last_checkpoint() {
    let works = Works::new();
    let first = format!("{}; echo 1 >> a.txt", works.trace("first"));
    let second = format!("echo half >> a.txt; {}; echo 2 >> a.txt", gated(&works, "second"));
    let id = submit(&works, &[&first, &second]);
    let lease = ["--set", "job.queue_lease_seconds=2"];
    let mut worker = works.start(&[&lease[..], &["worker"]].concat());
    wait_for("the second step", || works.traces() == ["first", "second"]);
    let runner = runner(&works, &id);
    kill_process(pid(&worker), Signal::KILL).unwrap();
    worker.wait().unwrap();
    // It goes with its worker, and would else be done with the step first.
    wait_for("the end of what it ran", || !is_alive(runner));
    open_gate(&works);
    let mut heir = works.start(&[&lease[..], &["worker"]].concat());
    wait_for("the end of the job", || status(&works, &id) == "completed");
    kill_process(pid(&heir), Signal::TERM).unwrap();
    assert_eq!(heir.wait().unwrap().code(), Some(0), "a worker that is told to end ends");
    assert_eq!(works.traces(), ["first", "second", "second"], "what was done is not done again");
    let left = fs::read_to_string(works.workspace_of(&id).join("a.txt")).unwrap();
    assert_eq!(left, "one\n1\nhalf\n2\n");
}

#[test]
fn a_claim_by_a_clock_that_jumped_since_is_taken_over() {
    for years in [30, -30] {
        let works = Works::new();
        let id = submit(&works, &["echo 1 >> a.txt", &gated(&works, "x")]);
        let mut worker = works.start(&["worker"]);
        wait_for("the second step", || works.traces().len() == 1);
        let runner = runner(&works, &id);
        kill_process(pid(&worker), Signal::KILL).unwrap();
        worker.wait().unwrap();
        wait_for("the end of what it ran", || !is_alive(runner));
        // As the clock of that time would have written it.
        let db = rusqlite::Connection::open(works.project.dir().join(".salve/salve.db")).unwrap();
        let jump = "UPDATE job_queue SET stamped_at = stamped_at + ?1, free_at = free_at + ?1";
        assert_eq!(db.execute(jump, [years * 31_536_000_000_i64]).unwrap(), 1);
        drop(db);
        open_gate(&works);
        assert_eq!(works.salve(&["worker", "--until-empty"]).code, Some(0));
        assert_eq!((status(&works, &id).as_str(), works.traces().len()), ("completed", 2));
    }
}

/// **Invariant:** A worker that lost a job to another changes nothing of it when it wakes up.
#[test]
fn a_worker_that_wakes_up_after_its_job_was_taken_over_is_fenced() {
    let works = Works::new();
    let step = format!("{}; echo 1 >> a.txt", gated(&works, "x"));
    let id = submit(&works, &[&step, "echo 2 >> a.txt"]);
    let lease = ["--set", "job.queue_lease_seconds=2"];
    let mut zombie = works.start(&[&lease[..], &["worker"]].concat());
    wait_for("the step", || works.traces().len() == 1);
    let runner = runner(&works, &id);
    kill_process(pid(&zombie), Signal::STOP).unwrap();
    let mut heir = works.start(&[&lease[..], &["worker"]].concat());
    wait_for("the take-over", || works.traces().len() == 2);
    // One that is killed is there for a moment still.
    wait_for("the end of the old one", || !is_alive(runner));
    kill_process(pid(&zombie), Signal::CONT).unwrap();
    open_gate(&works);
    wait_for("the end of the job", || status(&works, &id) == "completed");
    let left = fs::read_to_string(works.workspace_of(&id).join("a.txt")).unwrap();
    assert_eq!(left, "one\n1\n2\n");
    for worker in [&mut zombie, &mut heir] {
        kill_process(pid(worker), Signal::TERM).unwrap();
        assert_eq!(worker.wait().unwrap().code(), Some(0));
    }
    let shown = works.salve(&["--json", "jobs"]).said;
    assert_eq!(shown.matches("completed").count(), 1, "{shown}");
}

#[test]
fn a_worker_that_is_told_to_end_gives_its_job_back_and_a_person_steers_what_nobody_runs() {
    let works = Works::new();
    let id = submit(&works, &["echo 1 >> a.txt", &gated(&works, "x"), "exit 126"]);
    let mut worker = works.start(&["worker"]);
    wait_for("the second step", || works.traces().len() == 1);
    kill_process(pid(&worker), Signal::TERM).unwrap();
    assert_eq!(worker.wait().unwrap().code(), Some(0));
    assert!(works.salve(&["jobs"]).said.contains("queued"), "another may have it at once");
    open_gate(&works);
    let visit = works.salve(&["worker", "--until-empty"]);
    assert_eq!(status(&works, &id), "awaiting_human", "{}", visit.said);
    // What a person orders while nobody runs it is done by the next worker.
    let ordered = works.salve(&["control", &id, "resume_from_step", "step-1"]);
    assert_eq!(ordered.code, Some(0), "{}", ordered.said);
    let visit = works.salve(&["worker", "--until-empty"]);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    let log = fs::read_to_string(dir(&works, &id).join("events.jsonl")).unwrap();
    assert!(log.contains("task.control.recovery.honored"), "{log}");
    assert!(dir(&works, &id).join("artifacts/branches/0001/step-0000.patch").exists());
    assert_eq!(works.traces().len(), 3, "the branch ran the second step once more");
}
