//! Agents that listen through `salve mcp` repair servers under the care of `salve dev`.

use salve_core::event::{Event, IncidentEvent, IncidentOutcome, PersonQuestion, Proof};
use salve_core::incident::Phase;
use serde_json::{Value, json};

use crate::bench::{BROKEN, Bench, MENDED, REPAIRED, Run, wait_until};
use crate::mcp::Client;

/// Reports a step for the present attempt and returns the answer.
fn mark(client: &mut Client, id: &Value, phase: &str, size: Option<(u32, u32)>) -> Value {
    // What a newer client sends besides is no mistake.
    let mut step = json!({ "repairId": id, "phase": phase, "mood": "good" });
    if let Some((files, lines)) = size {
        step["filesChanged"] = files.into();
        step["linesChanged"] = lines.into();
    }
    client.call("canvas_mark_repair_step", step)
}

/// Takes up the repair that waits, and returns its task.
fn take_up(client: &mut Client) -> Value {
    let task = client.call("canvas_get_repair_task", json!({}));
    assert_eq!(task["pending"], true, "{task}");
    task
}

/// Takes up the repair that waits, mends the server and reports every step.
fn repair(bench: &Bench, client: &mut Client) -> Value {
    let task = take_up(client);
    let id = task["repairId"].clone();
    mark(client, &id, "agent_reading_log", None);
    mark(client, &id, "agent_applying_fix", None);
    bench.mend();
    mark(client, &id, "agent_wrote_files", Some((1, 3)));
    task
}

#[test]
fn an_agent_repairs_the_server_and_every_phase_is_told_in_order() {
    let bench = Bench::new();
    let mut run = bench.dev(&[]);
    run.until("awaiting_agent");
    let lock = bench.project.dir().join(".dev-repair.lock");
    assert!(lock.exists());
    let mut client = Client::hello(&bench.project, "claude-code");
    let errors = client.call("canvas_get_errors", json!({}));
    let id = errors["errors"][0]["repairId"].clone();
    let story = format!("salve://incident/{}", id.as_str().unwrap());
    client.request("resources/subscribe", json!({ "uri": story }));

    let task = repair(&bench, &mut client);
    assert_eq!(task["repairId"], id);
    assert_eq!((&task["exitCode"], &task["attempt"]), (&json!(1), &json!(1)));
    assert_eq!(task["healthUrl"], Value::Null, "the server never said where it answers");
    let log = task["crashLogPath"].as_str().unwrap();
    assert!(bench.read(log).contains("ReferenceError: total is not defined"), "{log}");
    run.until("recovered");
    let updated = |message: &Value| message["method"] == "notifications/resources/updated";
    assert_eq!(client.expect(updated)["params"]["uri"], json!(story));
    wait_until("the end", || matches!(bench.incident().phase(), Phase::Closed(_)));
    assert_eq!(bench.incident().phase(), Phase::Closed(IncidentOutcome::Recovered(Proof::Proven)));
    assert!(!lock.exists());
    let told = bench.told(bench.incidents()[0]);
    let message = |phase: &str| told.iter().find(|(name, _)| *name == phase).unwrap().1.as_str();
    assert_eq!(message("crash_detected"), "Dev server crashed (exit 1)");
    assert_eq!(message("repair_started"), "Repair session started — waiting for an agent");
    assert_eq!(message("agent_started"), "Claude Code engaged — reading crash details");
    let wrote = "File writes complete — waiting for watchers to settle...";
    assert_eq!(message("agent_wrote_files"), wrote);
    assert!(message("ready_to_restart").contains("1 file, 3 lines changed"), "{told:?}");
    assert_eq!(message("restarting"), "Restart attempt 1/3...");
    assert_eq!(message("recovered"), "Dev server recovered after agent repair!");
    let shown = bench.project.run(&["show", id.as_str().unwrap()]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let part = "attempt 1: claude-code, reported 1 file, 3 lines, measured 1 file, 3 lines";
    assert!(shown.contains(part), "{shown}");
    let (code, phases) = run.end();
    assert_eq!((code, phases), (Some(130), REPAIRED.map(str::to_owned).to_vec()));
}

#[test]
fn without_an_agent_the_server_is_restarted_and_nothing_is_credited() {
    let bench = Bench::new();
    bench.project.write("app.sh", "[ -e been ] && exec sleep 300\n: > been\nexit 1\n");
    let mut run = bench.dev(&[("AGENT_ENGAGE_TIMEOUT_MS", "1")]);
    run.until("recovered");
    let told = bench.told(bench.incidents()[0]);
    let ready = &told.iter().find(|(name, _)| *name == "ready_to_restart").unwrap().1;
    assert!(ready.starts_with("No agent activity"), "{ready}");
    assert_eq!(told.last().unwrap().1, "Dev server recovered!");
    wait_until("the end", || matches!(bench.incident().phase(), Phase::Closed(_)));
    let closed = Phase::Closed(IncidentOutcome::Recovered(Proof::Transient));
    assert_eq!(bench.incident().phase(), closed);
    let want: Vec<_> = REPAIRED.into_iter().filter(|name| !name.starts_with("agent_")).collect();
    assert_eq!(run.end().1, want);
}

/// **Invariant:** What changed while somebody's own agent repaired stays until a person takes it back: nobody
/// can tell whose edits they are.
#[test]
fn what_changed_while_a_session_repaired_stays_and_is_told_with_the_way_back() {
    let bench = Bench::new();
    bench.project.write("notes.txt", "first\n");
    let mut run = bench.dev(&[]);
    run.until("awaiting_agent");
    let mut client = Client::hello_of_another(&bench.project, "claude-code");
    let task = take_up(&mut client);
    let worse = "echo 'TypeError: worse' >&2\necho x >> ran\nexit 2\n";
    bench.project.write("app.sh", worse);
    bench.project.write("notes.txt", "typed meanwhile\n");
    mark(&mut client, &task["repairId"], "agent_wrote_files", Some((2, 3)));
    run.until("failed");
    run.until("awaiting_agent");
    assert_eq!(bench.read("app.sh"), worse, "it is not undone in the person's back");
    assert_eq!(bench.read("notes.txt"), "typed meanwhile\n");
    let noted = format!("{:?}", bench.kind("noted"));
    let words = "these files changed while it was repaired: app.sh, notes.txt; they stay";
    assert!(noted.contains(words) && noted.contains("`salve undo heal-"), "{noted}");
    let task = repair(&bench, &mut client);
    assert_eq!(task["attempt"], 2);
    assert!(task["keyLine"].as_str().unwrap().contains("worse"), "{task}");
    run.until("recovered");
    assert_eq!((bench.read("app.sh").as_str(), run.end().0), (MENDED, Some(130)));
    bench.project.write("later.txt", "typed later\n");
    let id = bench.incidents()[0].to_string();
    let undone = bench.project.run(&["undo", &id]);
    assert!(undone.status.success(), "{undone:?}");
    assert_eq!(
        (bench.read("app.sh").as_str(), bench.read("notes.txt").as_str()),
        (BROKEN, "first\n")
    );
    assert_eq!(bench.read("later.txt"), "typed later\n");
}

#[test]
fn all_attempts_fail_then_cooldown_then_a_person() {
    let bench = Bench::new();
    let run = bench.dev(&[("AGENT_ENGAGE_TIMEOUT_MS", "1"), ("REPAIR_COOLDOWN_MS", "0")]);
    let (code, phases) = run.wait();
    assert_eq!(code, Some(3), "nobody is at the terminal");
    let attempt = ["awaiting_agent", "ready_to_restart", "restarting", "health-check", "failed"];
    let ends = ["exhausted", "failed_requires_human"];
    let begins = ["crash_detected", "repair_started"];
    assert_eq!(phases, [&begins[..], &attempt, &attempt, &attempt, &ends].concat());
    let told = bench.told(bench.incidents()[0]);
    let message = |phase: &str| told.iter().find(|(name, _)| *name == phase).unwrap().1.as_str();
    assert_eq!(message("exhausted"), "All 3 repair attempts failed.");
    let wants = "All repair attempts exhausted. Manual intervention required.";
    assert_eq!(message("failed_requires_human"), wants);
    assert!(message("failed").starts_with("Restart failed: "), "{told:?}");
}

#[test]
fn a_crash_during_the_cooldown_is_skipped_also_after_a_restart_of_salve() {
    let bench = Bench::new();
    let (code, phases) = bench.dev(&[("AGENT_ENGAGE_TIMEOUT_MS", "1")]).wait();
    assert_eq!((code, phases.last().map(String::as_str)), (Some(3), Some("failed_requires_human")));
    let told = bench.told(bench.incidents()[0]);
    let cooldown = told.iter().find(|(name, _)| *name == "cooldown").unwrap().1.as_str();
    assert!(cooldown.starts_with("Entering ") && cooldown.ends_with(" cooldown period..."));
    let mut client = Client::hello(&bench.project, "claude-code");
    let task = client.call("canvas_get_repair_task", json!({}));
    assert_eq!(task["pending"], false, "{task}");
    // Only what no person started is held to it.
    let (code, phases) = bench.dev(&[("SALVE_AGENT", "test")]).wait();
    assert_eq!((code, phases), (Some(3), vec!["crash_detected".into(), "aborted".into()]));
    assert_eq!(bench.incidents().len(), 2);
}

#[test]
fn a_change_above_the_limits_is_a_persons_decision_whoever_counts() {
    for (said, files) in [(Some((20, 500)), 0), (None, 9)] {
        let bench = Bench::new();
        let mut run = bench.dev(&[]);
        run.until("awaiting_agent");
        let mut client = Client::hello(&bench.project, "claude-code");
        let id = take_up(&mut client)["repairId"].clone();
        bench.mend();
        (0..files).for_each(|n| bench.project.write(&format!("new-{n}.js"), "x\n"));
        let answer = mark(&mut client, &id, "agent_wrote_files", said);
        assert_eq!(answer["ok"], true);
        run.until("failed_requires_human");
        let Phase::Asking { question, .. } = bench.incident().phase() else { panic!() };
        assert_eq!(question, PersonQuestion::ChangeTooLarge);
        let told = bench.told(bench.incidents()[0]).pop().unwrap().1;
        assert!(told.contains("8 files") && told.contains("300 lines"), "{told}");
        drop(run);
    }
}

#[test]
fn each_crash_has_its_own_log_and_the_first_is_not_told_again() {
    let bench = Bench::new();
    bench.project.write("app.sh", "echo 'ReferenceError: first' >&2\nexit 1\n");
    let mut run = bench.dev(&[]);
    run.until("awaiting_agent");
    let mut client = Client::hello(&bench.project, "claude-code");
    let task = take_up(&mut client);
    bench.project.write(
        "app.sh",
        "echo $$ >> pids\nwhile ! [ -e crash ]; do sleep 0.05; done\nrm crash\n\
         echo 'ReferenceError: second' >&2\nexit 4\n",
    );
    mark(&mut client, &task["repairId"], "agent_wrote_files", Some((1, 5)));
    run.until("recovered");
    wait_until("the end", || matches!(bench.incident().phase(), Phase::Closed(_)));
    bench.project.write("crash", "");
    run.until("awaiting_agent");
    let again = take_up(&mut client);
    assert_ne!(again["repairId"], task["repairId"]);
    assert_eq!((&again["exitCode"], &again["attempt"]), (&json!(4), &json!(1)));
    let log = |task: &Value| bench.read(task["crashLogPath"].as_str().unwrap());
    assert!(log(&task).contains("first") && !log(&task).contains("second"), "{}", log(&task));
    assert!(log(&again).contains("second") && !log(&again).contains("first"), "{}", log(&again));
    assert_eq!(bench.read(".dev-crash.log"), log(&again));
    let errors = client.call("canvas_get_errors", json!({}));
    let errors = errors["errors"].as_array().unwrap().iter();
    let open: Vec<_> = errors.filter(|error| error["resolved"] == false).collect();
    assert_eq!(open.len(), 1, "{open:?}");
    assert_eq!(open[0]["repairId"], again["repairId"]);
}

#[test]
fn an_agent_is_told_where_the_server_should_answer_and_what_was_tried() {
    let bench = Bench::new();
    let url = "http://127.0.0.1:9/";
    bench.project.write(
        "salve.toml",
        format!(
            "[agent]\nrepair = true\n[servers.web]\ncommand = \"sh app.sh\"\nurl = \"{url}\"\n"
        ),
    );
    let mut run = bench.dev_all(&[]);
    run.until("awaiting_agent");
    let mut client = Client::hello(&bench.project, "claude-code");
    let task = take_up(&mut client);
    assert_eq!((&task["server"], &task["healthUrl"]), (&json!("web"), &json!(url)));
    assert_eq!(task["earlier"], json!([]));
    bench.project.write("app.sh", "echo 'TypeError: worse' >&2\nexit 2\n");
    mark(&mut client, &task["repairId"], "agent_wrote_files", Some((1, 2)));
    run.until("failed");
    run.until("awaiting_agent");
    let task = take_up(&mut client);
    let earlier = task["earlier"][0].as_str().unwrap();
    assert!(earlier.starts_with("attempt 1: ") && earlier.ends_with("TypeError: worse"), "{task}");
}

/// Starts two sessions, of which the first takes up the repair and is killed.
fn first_dies(bench: &Bench, run: &mut Run) -> (Value, Client) {
    run.until("awaiting_agent");
    let mut first = Client::hello(&bench.project, "claude-code");
    let mut second = Client::hello(&bench.project, "codex");
    let id = take_up(&mut first)["repairId"].clone();
    assert_eq!(take_up(&mut second)["takenBy"], "claude-code");
    mark(&mut first, &id, "agent_applying_fix", None);
    first.kill();
    (id, second)
}

#[test]
fn of_two_sessions_the_second_may_finish_what_the_first_began() {
    let bench = Bench::new();
    let mut run = bench.dev(&[]);
    let (id, mut second) = first_dies(&bench, &mut run);
    bench.mend();
    let answer = mark(&mut second, &id, "agent_wrote_files", Some((1, 3)));
    assert_eq!(answer["ok"], true, "{answer}");
    run.until("recovered");
}

#[test]
fn a_session_that_dies_after_it_edited_is_judged_at_once() {
    let bench = Bench::new();
    let mut run = bench.dev(&[]);
    run.until("awaiting_agent");
    let mut client = Client::hello(&bench.project, "claude-code");
    let id = take_up(&mut client)["repairId"].clone();
    bench.mend();
    mark(&mut client, &id, "agent_applying_fix", None);
    client.kill();
    run.until("recovered");
    let told = bench.told(bench.incidents()[0]);
    let ready = &told.iter().find(|(name, _)| *name == "ready_to_restart").unwrap().1;
    assert!(ready.contains("(1 file, 3 lines changed)"), "{ready}");
    wait_until("the end", || matches!(bench.incident().phase(), Phase::Closed(_)));
    let proven = Phase::Closed(IncidentOutcome::Recovered(Proof::Proven));
    assert_eq!(bench.incident().phase(), proven, "what it had written helped, and was measured");
}

#[test]
fn a_repair_of_another_process_is_left_to_it() {
    let bench = Bench::new();
    // A lock of another machine is never known to be stale.
    let lock = json!({
        "version": 1, "repairId": "00000000-0000-4000-8000-000000000001",
        "pid": 4711, "started": 1, "host": "elsewhere",
    });
    bench.project.write(".dev-repair.lock", lock.to_string());
    let mut run = bench.dev(&[]);
    let said = run.until_said("4711");
    assert!(said.contains("elsewhere") && said.contains(".dev-repair.lock"), "{said}");
    let (code, phases) = run.wait();
    assert_eq!((code, phases), (Some(3), vec!["crash_detected".into(), "aborted".into()]));
    assert!(bench.read(".dev-repair.lock").contains("4711"), "it is not ours to remove");
}

#[test]
fn a_person_calls_a_repair_off_while_an_agent_is_waited_for() {
    let bench = Bench::new();
    let mut run = bench.dev(&[]);
    run.until("awaiting_agent");
    let mut client = Client::hello_of_another(&bench.project, "claude-code");
    take_up(&mut client);
    bench.project.write("app.sh", "half done");
    let id = bench.incidents()[0].to_string();
    let aborted = bench.project.run(&["abort", &id]);
    assert!(aborted.status.success(), "{aborted:?}");
    run.until("aborted");
    assert_eq!(bench.read("app.sh"), "half done", "whose work it is nobody can tell");
    let ordered = bench.kind("ordered");
    assert!(matches!(ordered[0].event, Event::Incident(IncidentEvent::Ordered { .. })));
}

#[test]
fn a_command_that_did_not_help_is_undone_and_what_others_wrote_meanwhile_stays() {
    let bench = Bench::new();
    let command = "sh fix.sh";
    bench.project.write("salve.toml", format!("[recovery]\nauto_approve = [\"{command}\"]\n"));
    let server = "echo second > notes.txt; echo 'TypeError: worse' >&2; exit 2";
    bench.project.write("fix.sh", format!("echo \"{server}\" > app.sh\necho made > made.txt\n"));
    bench.project.write("notes.txt", "first\n");
    let learnt = ["memory", "learn", "--command", command];
    let learnt = bench.project.run_with_input(&learnt, b"ReferenceError: total is not defined\n");
    assert!(learnt.status.success(), "{learnt:?}");
    let run = bench.dev(&[("REPAIR_MAX_ATTEMPTS", "1")]);
    let (code, phases) = run.wait();
    assert_eq!(code, Some(3), "{phases:?}");
    assert!(phases.contains(&"failed".to_owned()), "{phases:?}");
    assert_eq!(bench.kind("judged").len(), 1, "it was the command that was tried");
    assert_eq!(bench.read("app.sh"), BROKEN);
    assert_eq!(bench.read("notes.txt"), "second\n");
    assert!(!bench.project.dir().join("made.txt").exists());
}
