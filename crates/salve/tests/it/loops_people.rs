//! People steer a loop: by `CONTROL.md`, from another terminal, and by what they answer.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use salve_core::event::{Entry, Event, IncidentEvent, LoopEvent, LoopTurn, RecoveryEnd};
use serde_json::Value;

use crate::heal::Visit;
use crate::heal_killed::kill;
use crate::loops::{PROMISE, Rounds};
use crate::recovery_resumed::{Reach, journal, reach, rewrite};
use crate::support::{has_process, wait_for};

/// An implementer that says that it began, and waits until it may go on.
const SLOW: &str = "touch ../began; while [ ! -e ../go ]; do sleep 0.05; done; \
                    printf 5 > sum.txt";

/// Tests that cannot start without `part.txt`.
const BROKEN: &str = "if [ ! -e part.txt ]; then echo \"Error: Cannot find module 'part'\"; exit 1; \
                      fi; echo '=== 1 passed in 0.01s ==='";

/// Returns a tester that proposes a command where something is missing.
fn proposes(command: &str) -> String {
    format!(
        r#"if grep -q 'Cannot find module' "$cd_to/test-output.txt"; then
cat > "$cd_to/recovery.json" <<END
{{"version": 1, "timestamp": "$(date -u +%Y-%m-%dT%H:%M:%SZ)", "category": "dependency",
 "severity": "blocking",
 "diagnosis": {{"error_pattern": "Cannot find module", "root_cause": "it is not installed",
               "evidence": ["test-output.txt:1: Cannot find module"]}},
 "recovery": {{"command": "{command}", "timeout_seconds": 60,
              "expected_outcome": "the tests start", "confidence": "high"}}}}
END
fi"#
    )
}

/// A loop under way, which does not outlive its test.
struct Running(Option<Child>);

impl Running {
    fn end(mut self) -> Visit {
        Visit::of(&self.0.take().unwrap().wait_with_output().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            kill(child);
        }
    }
}

impl Rounds {
    fn start(&self, args: &[&str]) -> Running {
        let args = [&["--id", "v1", "--task", "make the sum 5"], args].concat();
        let mut command = self.command(&args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(Some(command.spawn().unwrap()))
    }

    fn control(&self, text: &str) {
        self.project.write(".salve/CONTROL.md", text);
    }

    #[track_caller]
    fn await_began(&self) {
        wait_for("the implementer", || self.project.dir().join("../began").exists());
    }

    fn state(&self) -> Value {
        serde_json::from_str(&self.file("state.json")).unwrap_or_default()
    }

    /// Waits until the loop stands still because somebody paused it.
    #[track_caller]
    fn await_pause(&self) {
        wait_for("the pause", || {
            let state = self.state();
            state["status"] == "awaiting_human" && state["paused_by"].is_string()
        });
    }

    #[track_caller]
    fn assert_agent_ended(&self) {
        assert!(!has_process(&self.script()));
    }

    /// Returns how often a role took its turn.
    fn took(&self, turn: &str) -> usize {
        self.turns().iter().filter(|taken| *taken == turn).count()
    }
}

#[test]
fn a_pause_lets_the_role_end_and_holds_the_loop_until_it_is_resumed() {
    let rounds = Rounds::new(&[("implementer", SLOW), ("reviewer", PROMISE)]);
    let running = rounds.start(&[]);
    rounds.await_began();
    rounds.control("PAUSE\nSTATUS\n");
    wait_for("the answer", || rounds.read(".salve/CONTROL.md").contains("> loop v1: running"));
    rounds.project.write("../go", "");
    rounds.await_pause();
    assert_eq!(rounds.took("implementer 1"), 1);
    assert_eq!(rounds.took("tester 1"), 0, "nothing begins in a pause");
    let shown = rounds.salve(&["loop", "status"]);
    shown.expect(0, &["awaiting_human", "paused by", "salve resume --loop v1"]);
    wait_for("the person's word", || {
        // What is written while an agent works is not taken.
        rounds.control("RESUME\n\n");
        rounds.events().iter().any(|name| name == "loop_resumed")
    });
    running.end().expect(0, &["paused", "salve resume --loop v1", "resumed", "completed"]);
    assert_eq!(rounds.took("implementer 1"), 1);
    let events = rounds.events();
    assert!(events.contains(&"loop_paused".to_owned()), "{events:?}");
}

#[test]
fn a_pause_from_before_holds_a_loop_and_ends_it_where_nobody_is_there() {
    let rounds = Rounds::new(&[("implementer", "printf 5 > sum.txt"), ("reviewer", PROMISE)]);
    rounds.control("PAUSE\n");
    let held = ["the loop is paused by ada", "write RESUME to .salve/CONTROL.md"];
    rounds.run(&["--no-wait"]).expect(3, &held);
    rounds.run(&["--no-wait"]).expect(3, &held);
    assert_eq!(rounds.turns(), Vec::<String>::new());
    rounds.control("RESUME\n");
    rounds.run(&["--no-wait"]).expect(0, &["completed"]);
    assert_eq!(rounds.turns().len(), 4);
}

#[test]
fn an_abort_ends_role_and_loop_and_an_old_word_does_not_act_again() {
    let rounds = Rounds::new(&[("implementer", SLOW), ("reviewer", PROMISE)]);
    let running = rounds.start(&[]);
    rounds.await_began();
    rounds.control("ABORT\n");
    running.end().expect(1, &["stopped", "salve loop run --id v1"]);
    rounds.assert_agent_ended();
    assert_eq!(rounds.status(), "stopped");
    rounds.project.write("../go", "");
    rounds.go_on().expect(0, &["completed"]);
    assert_eq!((rounds.took("planner 1"), rounds.took("implementer 1")), (1, 2));
}

#[test]
fn escalate_ends_the_role_and_waits_for_a_person() {
    let rounds = Rounds::new(&[("implementer", SLOW), ("reviewer", PROMISE)]);
    let running = rounds.start(&[]);
    rounds.await_began();
    rounds.control("STOP\nESCALATE\n");
    let said = ["CONTROL.md:1: `STOP` is none of its words", "needs you", "wanted to be asked"];
    running.end().expect(3, &said);
    rounds.assert_agent_ended();
    assert_eq!(rounds.status(), "awaiting_human");
}

#[test]
fn another_terminal_pauses_resumes_and_stops_a_loop_and_an_agent_does_not() {
    let salve = env!("CARGO_BIN_EXE_salve");
    let tries = format!("'{salve}' abort --loop v1 > ../tried 2>&1; echo $? >> ../tried");
    let rounds = Rounds::new(&[
        ("implementer", &format!("{tries}\n{SLOW}")),
        ("reviewer", "touch ../reviewing; sleep 600"),
    ]);
    let running = rounds.start(&[]);
    rounds.await_began();
    let tried = rounds.read("../tried");
    assert!(tried.contains("an agent cannot steer a loop") && tried.ends_with("3\n"), "{tried}");
    rounds.salve(&["pause", "--loop", "v1"]).expect(0, &["loop v1", "ada paused it"]);
    rounds.project.write("../go", "");
    rounds.await_pause();
    assert_eq!(rounds.state()["paused_by"], "ada");
    rounds.salve(&["resume", "--loop", "v1"]).expect(0, &["ada resumed it"]);
    wait_for("the reviewer", || rounds.project.dir().join("../reviewing").exists());
    rounds.salve(&["resume", "--loop", "v1"]).expect(1, &["does not take this"]);
    rounds.salve(&["abort", "--loop", "v1"]).expect(0, &["ada stopped it"]);
    running.end().expect(1, &["stopped"]);
    rounds.salve(&["pause", "--loop", "v9"]).expect(1, &["there is no loop `v9`"]);
    assert_eq!(rounds.salve(&["pause"]).code, Some(2));
    assert_eq!(rounds.status(), "stopped");
}

/// Returns a loop whose tests cannot start, and whose tester proposes what needs a person.
fn asking() -> Rounds {
    let rounds = Rounds::new(&[("tester", &proposes("touch part.txt")), ("reviewer", PROMISE)]);
    rounds.project.write("check.sh", BROKEN);
    rounds.project.write("salve.toml", "[playbook]\nauto = \"none\"\n");
    rounds
}

#[test]
fn what_a_person_answered_reaches_the_next_planner_through_the_journal() {
    let rounds = asking();
    rounds.run(&["--no-wait"]).expect(3, &["needs you", "salve approve-recovery --loop v1"]);
    let note = "it lives in vendor/ by now";
    let reject = ["reject-recovery", "--loop", "v1", "--note", note];
    rounds.salve(&reject).expect(0, &["salve loop run --id v1"]);
    let escalation: Value = serde_json::from_str(&rounds.file("escalation.json")).unwrap();
    assert_eq!(escalation["status"], "rejected", "the files say so before anybody runs it");
    rounds.run(&["--no-wait", "--iterations", "2"]).expect(3, &["declined", "needs you"]);
    let told = format!("Note: ada declined the recovery `touch part.txt`: {note}");
    for role in ["reviewer-1", "planner-2"] {
        let brief = rounds.read(&format!("../told-{role}"));
        assert!(brief.contains(&told), "{role}: {brief}");
    }
    assert!(!rounds.read("../told-planner-1").contains("declined"));
    // A person did it by hand, and says so.
    rounds.project.write("part.txt", "");
    let resolve = ["resolve-recovery", "--loop", "v1", "--note", "installed it"];
    rounds.salve(&resolve).expect(0, &[]);
    rounds.go_on().expect(0, &["completed"]);
    let brief = rounds.read("../told-reviewer-2");
    assert!(
        brief.contains("settled the recovery `touch part.txt` by hand: installed it"),
        "{brief}"
    );
}

#[test]
fn a_question_is_told_again_by_whoever_goes_on_with_the_loop() {
    let rounds = asking();
    rounds.run(&["--no-wait"]).expect(3, &["needs you"]);
    rounds.run(&["--no-wait"]).expect(3, &["`touch part.txt` may not run", "salve approve heal-"]);
    rounds.salve(&["approve-recovery", "--loop", "v1"]).expect(0, &["salve loop run --id v1"]);
    let proven = "proven: without the repair it was sure to fail again";
    rounds.run(&["--no-wait"]).expect(0, &["healed", proven, "completed"]);
    let turns = ["planner 1", "implementer 1", "tester 1", "reviewer 1"];
    assert_eq!(rounds.turns(), turns);
}

/// **Invariant:** A recovery that is called off can be continued.
#[test]
fn a_recovery_that_is_called_off_with_its_loop_is_gone_on_with() {
    let rounds = asking();
    let running = rounds.start(&[]);
    wait_for("the question", || rounds.status() == "awaiting_human");
    rounds.salve(&["abort", "--loop", "v1"]).expect(0, &["ada stopped it"]);
    let visit = running.end();
    visit.expect(1, &["stopped", "salve loop run --id v1"]);
    assert!(!visit.said.contains("the loop goes on without"), "{}", visit.said);
    assert_eq!(rounds.status(), "stopped");
    rounds.run(&["--no-wait"]).expect(3, &["needs you", "`touch part.txt` may not run"]);
    assert_eq!(rounds.took("reviewer 1"), 0);
    rounds.salve(&["approve-recovery", "--loop", "v1"]).expect(0, &[]);
    rounds.run(&["--no-wait"]).expect(0, &["healed", "completed"]);
    assert_eq!((rounds.took("tester 1"), rounds.took("reviewer 1")), (1, 1));
}

#[test]
fn wherever_salve_was_killed_a_loops_approved_command_runs_once_at_most() {
    let command = "touch part.txt && echo once >> ran";
    let rounds = Rounds::new(&[("tester", &proposes(command)), ("reviewer", PROMISE)]);
    rounds.project.write("check.sh", BROKEN);
    rounds.project.write(".gitignore", "part.txt\nran\n");
    rounds.project.write("salve.toml", "[playbook]\nauto = \"none\"\n");
    rounds.run(&["--no-wait"]).expect(3, &["needs you"]);
    let proposal = rounds.file("recovery.json");
    rounds.salve(&["approve-recovery", "--loop", "v1"]).expect(0, &[]);
    rounds.run(&["--no-wait"]).expect(0, &["completed"]);
    let all = journal(&rounds.project);
    let approved = all
        .iter()
        .position(|one| matches!(one.event, Event::Incident(IncidentEvent::Approved { .. })))
        .unwrap();
    let is_over = |entry: &Entry| {
        matches!(&entry.event, Event::Loop(LoopEvent::Turned { what: LoopTurn::RecoveryEnded { how, .. }, .. })
            if *how == RecoveryEnd::Well)
    };
    let over = all.iter().position(is_over).unwrap();
    for entries in approved + 1..=over {
        let entries = &all[..entries];
        let reach = reach(entries).0;
        for has_run in [false, true] {
            let is_possible = match reach {
                Reach::NotBegun => !has_run,
                Reach::Begun => true,
                Reach::Done => has_run,
            };
            if !is_possible {
                continue;
            }
            rewrite(&rounds.project, entries);
            rounds.project.write(".salve/loops/v1/recovery.json", &proposal);
            for name in ["part.txt", "ran", "../turns"] {
                let _ = std::fs::remove_file(rounds.project.dir().join(name));
            }
            if has_run {
                rounds.project.write("part.txt", "");
                rounds.project.write("ran", "once\n");
            }
            let visit = rounds.run(&["--no-wait"]);
            let (code, ran) = match (reach, has_run) {
                // It is not run again: a person has to look at it.
                (Reach::Begun, false) => (3, 0),
                (Reach::NotBegun, _) | (Reach::Begun, true) | (Reach::Done, _) => (0, 1),
            };
            let told = format!("{reach:?} {has_run}, {} entries: {}", entries.len(), visit.said);
            assert_eq!(visit.code, Some(code), "{told}");
            assert_eq!(rounds.read("ran").lines().count(), ran, "{told}");
            let turns: &[&str] = if code == 0 { &["reviewer 1"] } else { &[] };
            assert_eq!(rounds.turns(), turns, "{told}");
        }
    }
}

#[test]
fn the_status_says_who_is_gone_what_is_asked_and_how_to_go_on() {
    let rounds = asking();
    let running = rounds.start(&[]);
    wait_for("the question", || rounds.status() == "awaiting_human");
    let shown = rounds.salve(&["loop", "status"]);
    let answer = "salve approve-recovery --loop v1";
    let asked = ["awaiting_human", "may `touch part.txt` run?", answer, "reject-", "resolve-"];
    shown.expect(0, &asked);
    assert!(!shown.said.contains("salve loop run"), "it runs: {}", shown.said);
    drop(running);
    let gone = ["awaiting_human", "its process is gone", answer, "salve loop run --id v1"];
    rounds.salve(&["loop", "status", "v1"]).expect(0, &gone);
    let output = rounds.salve(&["loop", "status", "--json"]).said;
    let fact: Value = serde_json::from_str(output.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&fact["runner"], &fact["state"]["status"]),
        (&"gone".into(), &"awaiting_human".into())
    );
    assert_eq!(fact["question"]["command"], "touch part.txt");

    let quota = "echo 'usage limit reached, try again in 2h' >&2; exit 1";
    let rounds = Rounds::new(&[("planner", quota)]);
    let running = rounds.start(&[]);
    wait_for("the parking", || rounds.status() == "parked");
    rounds.salve(&["loop", "status"]).expect(0, &["parked until", "in 1 h 59 min"]);
    drop(running);
    rounds.salve(&["loop", "status"]).expect(0, &["parked until", "its process is gone"]);
}

#[test]
fn the_time_of_a_recovery_counts_and_a_persons_does_not() {
    let slow = "sleep 1 && touch part.txt";
    let rounds = Rounds::new(&[("tester", &proposes(slow)), ("reviewer", PROMISE)]);
    rounds.project.write("check.sh", BROKEN);
    rounds.project.write("salve.toml", "[playbook]\nauto = \"none\"\n");
    let begun = Instant::now();
    let running = rounds.start(&[]);
    wait_for("the question", || rounds.status() == "awaiting_human");
    let asked = Instant::now();
    wait_for("a person's time", || asked.elapsed() > Duration::from_millis(1_500));
    rounds.salve(&["approve-recovery", "--loop", "v1"]).expect(0, &[]);
    running.end().expect(0, &["completed"]);
    let spent = Duration::from_millis(rounds.state()["spent"]["wall_ms"].as_u64().unwrap());
    assert!(spent >= Duration::from_secs(1), "the command alone took as long: {spent:?}");
    let most = begun.elapsed() - Duration::from_millis(1_500);
    assert!(spent <= most, "a person's time was counted: {spent:?} of {most:?}");

    // The limit is reached by a recovery, too.
    let rounds = Rounds::new(&[("tester", &proposes(slow)), ("reviewer", PROMISE)]);
    rounds.project.write("check.sh", BROKEN);
    let recovery = format!("[playbook]\nauto = \"none\"\n[recovery]\nauto_approve = [{slow:?}]\n");
    rounds.project.write("salve.toml", recovery);
    rounds.run(&["--set", "loop.max_wall_ms=1000"]).expect(1, &["limit on time"]);
    assert_eq!((rounds.took("reviewer 1"), rounds.took("planner 2")), (0, 0));
}

#[test]
fn tests_that_all_fail_by_what_is_around_them_are_recovered_on_the_testers_word() {
    let tests = r#"if [ -e part.txt ]; then echo '=== 1 passed in 0.01s ==='; exit 0; fi
cat <<'END'
TAP version 13
# Subtest: adds
not ok 1 - adds
  ---
  duration_ms: 1.2
  failureType: 'testCodeFailure'
  error: "Cannot find module 'part'"
  code: 'MODULE_NOT_FOUND'
  ...
1..1
# tests 1
# suites 0
# pass 0
# fail 1
# cancelled 0
# skipped 0
# todo 0
END
exit 1
"#;
    for (tester, code, is_recovered) in
        [(proposes("touch part.txt"), 0, true), (String::new(), 1, false)]
    {
        let rounds = Rounds::new(&[("tester", &tester), ("reviewer", PROMISE)]);
        rounds.project.write("check.sh", tests);
        rounds.project.write(
            "salve.toml",
            "[playbook]\nauto = \"none\"\n[recovery]\nauto_approve = [\"touch part.txt\"]\n",
        );
        let visit = rounds.run(&["--no-wait", "--iterations", "1"]);
        visit.expect(code, &[]);
        assert_eq!(rounds.project.dir().join("part.txt").exists(), is_recovered, "{}", visit.said);
    }
}
