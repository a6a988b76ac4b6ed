//! The page of a project with a fleet: everybody's jobs as they happen, workers, questions and orders.

use serde_json::json;

use crate::jobs_fleet::{Machine, Sender};
use crate::jobs_fleet_answers::{asked, key, list};
use crate::support::wait_for;
use crate::web::Page;

#[test]
fn a_page_shows_the_fleets_jobs_as_they_happen_and_steers_them() {
    let Some(sender) = Sender::new() else { return };
    let page = Page::with(&sender.works.project, &["--port", "0", "--fleet", &sender.server.url]);
    let session = page.sign_in();
    let mut live = page.stream("/live/jobs", &session, None);
    live.until("section", "No job is in the fleet");
    let machine = Machine::new();
    let id = sender.submit(&["echo 1 >> a.txt", &sender.gated("x"), "echo 3 >> a.txt"], &[]);
    live.until("section", &format!("fleet-job-{id}"));
    let worker = machine.worker(&sender.server, &[]);
    // Another machine's run is seen step by step, with who runs it.
    let shown = live.until("section", "1 of 3 steps done");
    assert!(shown.data.contains("runs on"), "{}", shown.data);
    let seen = page.get("/api/fleet", &session).json();
    assert_eq!(seen["jobs"][0]["queue"], "claimed", "{seen}");
    assert_eq!(seen["jobs"][0]["claims"], 1, "{seen}");
    wait_for("its worker", || {
        page.get("/api/fleet", &session).json()["workers"][0]["jobs"][0] == id
    });
    let pause = json!({ "action": "pause" });
    let path = format!("/api/fleet/jobs/{id}/control");
    let paused = page.post(&path, &session, &pause);
    assert_eq!(paused.status, 200, "{paused:?}");
    live.until("section", "paused");
    sender.open_gate();
    assert_eq!(page.post(&path, &session, &json!({ "action": "resume" })).status, 200);
    live.until("section", &format!("salve jobs take {id}"));
    assert_eq!(page.post(&path, &session, &pause).status, 409, "it is over");
    assert_eq!(sender.salve(&["jobs", "remove", &id]).code, Some(0));
    live.until("section", "No job is in the fleet");
    assert_eq!(worker.end(), Some(0), "{}", machine.said());
    live.until("section", "No worker is there");
}

/// **Invariant:** An answer on the page is to the very question that was shown, and counts only where
/// the worker's settings list the key of the one whose page it is.
#[test]
fn a_question_of_a_job_elsewhere_is_answered_on_the_page() {
    let Some(sender) = Sender::new() else { return };
    let machine = Machine::new();
    let page = Page::with(&sender.works.project, &["--port", "0", "--fleet", &sender.server.url]);
    let session = page.sign_in();
    let mut live = page.stream("/live/needs-you", &session, None);
    live.until("section", "Nothing waits for you");
    let id = asked(&sender, &machine);
    let shown = live.until("section", "/api/fleet/questions/");
    assert!(shown.data.contains("touch cured") && shown.data.contains(&id), "{}", shown.data);
    let seen = page.get("/api/fleet", &session).json();
    let question = &seen["questions"][0];
    assert_eq!(question["command"], "touch cured", "{seen}");
    let path = format!("/api/fleet/questions/{}/answer", question["incident"].as_str().unwrap());
    let yes = json!({
        "answer": "approve", "question": question["number"], "digest": question["digest"],
    });
    let other = json!({ "answer": "approve", "question": 1, "digest": "0".repeat(64) });
    assert_eq!(page.post(&path, &session, &other).status, 409, "it was not what was shown");
    let worker = machine.worker(&sender.server, &[]);
    // The one who asked has left, and nobody else knows the key.
    wait_for("the worker", || sender.salve(&["workers"]).said.contains("0/1 jobs"));
    assert_eq!(worker.end(), Some(0), "{}", machine.said());
    list(&machine, "ann", &key(&sender));
    let worker = machine.worker(&sender.server, &[]);
    wait_for("the worker", || sender.salve(&["workers"]).said.contains("0/1 jobs"));
    let taken = page.post(&path, &session, &yes);
    assert_eq!(taken.status, 200, "{taken:?} {}", machine.said());
    assert!(taken.body.contains("as the word of ann"), "{taken:?}");
    live.until("section", "Nothing waits for you");
    sender.wait_for(&id, "completed", &[&machine]);
    assert_eq!(page.post(&path, &session, &yes).status, 409, "an answer is used once");
    assert_eq!(worker.end(), Some(0), "{}", machine.said());
}
