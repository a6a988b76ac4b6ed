//! `salve dev` killed at every phase, with everything that watches it, and started again.

use std::path::Path;

use salve_core::event::IncidentOutcome;
use salve_core::incident::{Incident, Phase};
use serde_json::{Value, json};

use crate::bench::{Bench, REPAIRED, Run, is_alive, wait_until};
use crate::mcp::Client;

/// Times that hold a phase for a moment, so that the kill comes in it.
const HELD: [(&str, &str); 3] = [
    ("REPAIR_QUIET_PERIOD_MS", "700"),
    ("SALVE_SERVER_HEALTH_SOAK_MS", "700"),
    ("SALVE_SERVER_FLAP_WINDOW_MS", "700"),
];

/// A mended server that writes down who it is, outside of what is measured.
const MENDED: &str = "echo $$ >> \"$HOME/pids\"\nexec sleep 300\n";

fn mark(client: &mut Client, id: &Value, phase: &str) {
    let step = json!({ "repairId": id, "phase": phase, "filesChanged": 1, "linesChanged": 4 });
    // Whether it still counts is up to the phase in which the other was killed.
    client.call("canvas_mark_repair_step", step);
}

/// Plays an agent that repairs step by step, until `phase` is told.
fn play(bench: &Bench, run: &mut Run, client: &mut Client, phase: &str) {
    let mut id = Value::Null;
    for step in REPAIRED {
        match step {
            "agent_started" => {
                id = client.call("canvas_get_repair_task", json!({}))["repairId"].clone();
            }
            "agent_wrote_files" => {
                bench.project.write("app.sh", MENDED);
                mark(client, &id, step);
            }
            "agent_reading_log" | "agent_applying_fix" => mark(client, &id, step),
            _ => {}
        }
        run.until(step);
        if step == phase {
            return;
        }
    }
    panic!("`{phase}` is no phase of a repair");
}

/// Returns how the incidents ended; nothing if one has not.
fn outcomes(bench: &Bench) -> Option<Vec<IncidentOutcome>> {
    let ids = bench.incidents();
    let outcome = |id| match Incident::replay(&bench.entries(id)).unwrap().phase() {
        Phase::Closed(outcome) => Some(outcome),
        _ => None,
    };
    ids.into_iter().map(outcome).collect()
}

fn pids(bench: &Bench) -> Vec<u32> {
    let text = std::fs::read_to_string(bench.project.home().join("pids")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

fn is_stale(lock: &Path) -> bool {
    let text = std::fs::read_to_string(lock).unwrap_or_default();
    let pid = serde_json::from_str::<Value>(&text).ok().and_then(|lock| lock["pid"].as_u64());
    pid.is_some_and(|pid| !is_alive(u32::try_from(pid).unwrap()))
}

/// Lets an agent mend whatever is still waited for, until the server is well and all is over.
fn heal(bench: &Bench, phase: &str) {
    let run = bench.dev(&[("SALVE_SERVER_FLAP_WINDOW_MS", "0")]);
    let mut client = Client::hello_of_another(&bench.project, "claude-code");
    wait_until(&format!("a good end after `{phase}`"), || {
        let task = client.call("canvas_get_repair_task", json!({}));
        if task["pending"] == true {
            bench.project.write("app.sh", MENDED);
            mark(&mut client, &task["repairId"], "agent_wrote_files");
        }
        let alive = pids(bench).iter().filter(|pid| is_alive(**pid)).count();
        outcomes(bench).is_some_and(|all| !all.is_empty()) && alive > 0
    });
    let ended = outcomes(bench).unwrap();
    assert_eq!(ended.len(), 1, "{phase}: the same incident goes on, {ended:?}");
    assert!(
        matches!(ended[0], IncidentOutcome::Recovered(_) | IncidentOutcome::Resolved),
        "{phase}: {ended:?}"
    );
    assert_eq!(bench.read("app.sh"), MENDED, "{phase}");
    wait_until("one server", || pids(bench).iter().filter(|pid| is_alive(**pid)).count() == 1);
    assert!(!bench.project.dir().join(".dev-repair.lock").exists(), "{phase}");
    run.end();
    assert!(pids(bench).iter().all(|pid| !is_alive(*pid)), "{phase}");
}

/// **Invariant:** Whoever killed Salve at whatever phase, the next run goes on rightly.
#[test]
fn a_repair_by_an_agent_goes_on_wherever_salve_was_killed() {
    for phase in REPAIRED {
        let bench = Bench::new();
        let mut run = bench.dev(&HELD);
        let mut client = Client::hello_of_another(&bench.project, "claude-code");
        play(&bench, &mut run, &mut client, phase);
        run.kill();
        let lock = bench.project.dir().join(".dev-repair.lock");
        wait_until("a lock of the dead", || is_stale(&lock));
        drop(client);
        heal(&bench, phase);
    }
}

/// Plays an agent whose every repair makes it worse, until `phase` is told; then Salve is killed.
fn worsen(bench: &Bench, attempts: u32, phase: &str) {
    let most = if phase == "exhausted" { attempts } else { attempts + 2 };
    let most = most.to_string();
    let mut run = bench.dev(&[("REPAIR_MAX_ATTEMPTS", most.as_str())]);
    let mut client = Client::hello_of_another(&bench.project, "claude-code");
    for attempt in 1..=attempts {
        run.until("awaiting_agent");
        let task = client.call("canvas_get_repair_task", json!({}));
        bench.project.write("app.sh", format!("echo 'TypeError: {attempt}' >&2\nexit 2\n"));
        mark(&mut client, &task["repairId"], "agent_wrote_files");
    }
    run.until(phase);
    run.kill();
}

#[test]
fn what_a_session_left_of_a_failed_attempt_stays_for_whoever_comes_next() {
    let bench = Bench::new();
    worsen(&bench, 1, "failed");
    let mut run = bench.dev(&[]);
    run.until("awaiting_agent");
    assert_eq!(bench.read("app.sh"), "echo 'TypeError: 1' >&2\nexit 2\n");
    run.end();
    heal(&bench, "failed");
}

#[test]
fn the_cooldown_outlives_a_kill() {
    let bench = Bench::new();
    worsen(&bench, 2, "exhausted");
    // Only what no person started is held to it.
    let (code, phases) = bench.dev(&[("SALVE_AGENT", "test")]).wait();
    assert_eq!((code, phases), (Some(3), vec!["crash_detected".into(), "aborted".into()]));
}

#[test]
fn a_question_to_a_person_outlives_salve_and_starting_it_again_is_an_answer() {
    let bench = Bench::new();
    let mut run = bench.dev(&[("REPAIR_MAX_FILES", "0")]);
    let mut client = Client::hello_of_another(&bench.project, "claude-code");
    run.until("awaiting_agent");
    let task = client.call("canvas_get_repair_task", json!({}));
    bench.project.write("app.sh", MENDED);
    mark(&mut client, &task["repairId"], "agent_wrote_files");
    run.until("failed_requires_human");
    run.kill();
    let status = client.call("canvas_get_repair_status", json!({}));
    assert!(status["activeRepairs"][0]["phase"] == "failed_requires_human", "{status}");
    drop(client);
    heal(&bench, "failed_requires_human");
}

#[test]
fn a_repair_by_restarts_goes_on_wherever_salve_was_killed() {
    let phases = ["crash-detected", "lock-acquired", "waiting", "restarting", "health-check"];
    for phase in phases.into_iter().chain(["recovered", "failed"]) {
        let bench = Bench::new();
        bench.project.write("salve.toml", "");
        let app = format!("if [ -e ok ]; then\n{MENDED}\nfi\nexit 1\n");
        bench.project.write("app.sh", &app);
        let mut run =
            bench.dev(&[("REPAIR_BASE_DELAY_MS", "700"), ("SALVE_SERVER_FLAP_WINDOW_MS", "700")]);
        run.until(if phase == "recovered" { "waiting" } else { phase });
        bench.project.write("ok", "");
        if phase == "recovered" {
            run.until(phase);
        }
        run.kill();
        let run = bench.dev(&[]);
        wait_until(&format!("a good end after `{phase}`"), || {
            outcomes(&bench).is_some_and(|all| !all.is_empty())
                && pids(&bench).iter().any(|pid| is_alive(*pid))
        });
        let ended = outcomes(&bench).unwrap();
        assert!(matches!(ended[..], [IncidentOutcome::Recovered(_)]), "{phase}: {ended:?}");
        wait_until("one server", || pids(&bench).iter().filter(|pid| is_alive(**pid)).count() == 1);
        run.end();
        assert!(pids(&bench).iter().all(|pid| !is_alive(*pid)), "{phase}");
    }
}
