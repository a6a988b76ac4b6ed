//! What goes wrong around a loop: agents that are away, that hang, and Salve killed or stopped.

use crate::heal_killed::kill;
use crate::loops::{PROMISE, Rounds};
use crate::support::{has_process, wait_for};

/// An implementer that does the work.
const WORK: &str = "printf 5 > sum.txt";

#[test]
fn an_agent_that_is_not_there_needs_a_person_and_the_loop_goes_on_afterwards() {
    let rounds = Rounds::new(&[("implementer", WORK), ("reviewer", PROMISE)]);
    rounds
        .project
        .write("salve.toml", "[loop.roles.tester]\ncommand = [\"no-such-agent\", \"-p\"]\n");
    rounds.run(&[]).expect(3, &["needs you", "not installed", "salve loop run --id v1"]);
    assert_eq!(rounds.status(), "awaiting_human");
    rounds.project.write("salve.toml", "");
    rounds.go_on().expect(0, &["completed"]);
    assert_eq!(rounds.turns(), ["planner 1", "implementer 1", "tester 1", "reviewer 1"]);
}

#[test]
fn an_agent_that_asks_for_a_login_needs_a_person() {
    let login = "if [ ! -e ../in ]; then echo 'Error: not logged in, run login' >&2; exit 1; fi";
    let rounds = Rounds::new(&[("planner", login), ("implementer", WORK), ("reviewer", PROMISE)]);
    rounds.run(&[]).expect(3, &["needs you", "log the agent in"]);
    rounds.salve(&["loop", "status"]).expect(0, &["awaiting_human"]);
    rounds.project.write("../in", "");
    rounds.go_on().expect(0, &["completed"]);
}

#[test]
fn an_agent_without_quota_parks_the_loop_which_goes_on_by_itself() {
    let quota = "if [ ! -e ../paid ]; then touch ../paid; \
                 echo 'usage limit reached, try again in 0.3s' >&2; exit 1; fi";
    let rounds = Rounds::new(&[("planner", quota), ("implementer", WORK), ("reviewer", PROMISE)]);
    rounds.run(&[]).expect(0, &["parked", "until", "completed"]);
    let planner = rounds.turns().iter().filter(|turn| *turn == "planner 1").count();
    assert_eq!(planner, 2);
    assert!(rounds.events().contains(&"loop_parked".to_owned()));
    // It is not parked for ever.
    let rounds = Rounds::new(&[("planner", "echo 'quota exceeded' >&2; exit 1")]);
    let args = ["--set", "loop.park_ms=1", "--set", "loop.max_parks=2"];
    rounds.run(&args).expect(1, &["parked", "failed"]);
    assert_eq!(rounds.turns().len(), 3);
}

#[test]
fn a_role_that_hangs_is_ended_and_asked_once_more() {
    let rounds = Rounds::new(&[("tester", "sleep 600; :")]);
    rounds.project.write("salve.toml", "[loop.roles.tester]\nwall_limit_ms = 400\n");
    rounds.run(&[]).expect(1, &["fell short", "took too long", "failed"]);
    let testers = rounds.turns().iter().filter(|turn| *turn == "tester 1").count();
    assert_eq!(testers, 2);
    assert!(!has_process(&rounds.script()));
}

#[test]
fn an_agent_cannot_start_a_loop() {
    let salve = env!("CARGO_BIN_EXE_salve");
    let nested = format!(
        "{salve} loop run --id v2 --task x --tests true --agent true > ../nested 2>&1; \
         echo $? >> ../nested"
    );
    let rounds = Rounds::new(&[("implementer", &nested)]);
    rounds.run(&["--iterations", "1"]).expect(1, &["limit"]);
    let said = rounds.read("../nested");
    assert!(said.contains("an agent cannot start a loop") && said.ends_with("2\n"), "{said}");
}

#[test]
fn what_a_role_throws_away_of_the_users_work_is_left_out() {
    let discard = "git checkout -q -- . && git clean -qfd";
    let rounds = Rounds::new(&[("implementer", discard)]);
    rounds.project.write("sum.txt", "the user's own edit");
    rounds.project.write("draft.txt", "the user's own file");
    rounds.run(&["--iterations", "1"]).expect(1, &["threw away what you have not committed"]);
    assert_eq!(rounds.read("sum.txt"), "the user's own edit");
    assert_eq!(rounds.read("draft.txt"), "the user's own file");
}

/// Returns the roles that the journal says are done, each with its iteration.
fn finished(rounds: &Rounds) -> Vec<String> {
    use salve_core::event::{Event, LoopEvent, LoopTurn, RoleEnd};
    let project = salve::project::Project::at(&rounds.project.dir()).unwrap();
    let store = salve::store::Store::open(&project).unwrap();
    let entries = store.journal().read(0, &salve::store::Stream::Project, usize::MAX).unwrap();
    let done = entries.iter().filter_map(|entry| match &entry.event {
        Event::Loop(LoopEvent::Turned {
            iteration,
            what: LoopTurn::RoleEnded { role, end: RoleEnd::Done, .. },
            ..
        }) => Some(format!("{role} {iteration}")),
        _ => None,
    });
    done.collect()
}

#[test]
fn a_loop_goes_on_wherever_salve_was_killed_and_repeats_no_finished_role() {
    // A whole loop of one iteration writes some twenty entries, the settings' own among them.
    for entries in (1..=25).step_by(4) {
        let slow = "sleep 0.1";
        let rounds = Rounds::new(&[
            ("planner", slow),
            ("implementer", &format!("{slow}; {WORK}")),
            ("tester", slow),
            ("reviewer", PROMISE),
        ]);
        let args = ["--id", "v1", "--task", "make the sum 5"];
        let mut salve = rounds.command(&args).spawn().unwrap();
        wait_for("the entries", || {
            rounds.read(".salve/events.jsonl").lines().count() >= entries
                || salve.try_wait().unwrap().is_some()
        });
        kill(&mut salve);
        let before = finished(&rounds);
        let taken = rounds.turns().len();
        if rounds.salve(&["loop", "status"]).said.contains("completed") {
            continue;
        }
        rounds.run(&[]).expect(0, &["completed"]);
        let later = rounds.turns().split_off(taken);
        for role in &before {
            assert!(!later.contains(role), "{role} was repeated after {entries} entries");
        }
        assert!(!has_process(&rounds.script()), "an agent of a killed run outlived it");
        assert_eq!(rounds.status(), "completed", "killed after {entries} entries");
    }
}

#[test]
fn ctrl_c_ends_role_and_loop_which_goes_on_where_it_was() {
    let wait = "if [ ! -e ../go ]; then echo x > ../pid; sleep 600; fi";
    let rounds = Rounds::new(&[("implementer", wait), ("reviewer", PROMISE)]);
    let args = ["--id", "v1", "--task", "make the sum 5"];
    let mut salve = rounds.command(&args).spawn().unwrap();
    wait_for("the implementer", || rounds.read("../pid").ends_with('\n'));
    let kill = |name: &str| {
        let pid = salve.id().to_string();
        let _ = std::process::Command::new("kill").args(["-s", name, &pid]).status();
    };
    kill("INT");
    assert_eq!(salve.wait().unwrap().code(), Some(130));
    assert!(!has_process(&rounds.script()));
    assert_eq!(rounds.status(), "stopped");
    rounds.project.write("../go", "");
    rounds.project.write("sum.txt", "5");
    rounds.go_on().expect(0, &["completed"]);
    let turns = ["planner 1", "implementer 1", "implementer 1", "tester 1", "reviewer 1"];
    assert_eq!(rounds.turns(), turns);
    assert!(rounds.read("../told-implementer-1").contains("cut off"));
}
