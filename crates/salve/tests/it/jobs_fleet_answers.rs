//! Questions of a fleet's jobs: seen by everybody, answered by a person with a key of their own, judged
//! by the workers.

use serde_json::{Value, json};

use crate::heal::Visit;
use crate::jobs_fleet::{Machine, Sender};
use crate::support::wait_for;
use crate::web::Page;

/// A failure that cannot pass by itself.
const FAILURE: &str = "Error: Cannot find module 'left-pad'";

/// Has the user of a machine know a cure of [`FAILURE`] in all their projects.
fn teach(machine: &Machine) {
    machine.place.write("salve.toml", "");
    let taught = machine.place.run(&["memory", "learn", "--command", "touch cured", FAILURE]);
    assert!(taught.status.success(), "{taught:?}");
    let page = Page::of(&machine.place);
    let session = page.sign_in();
    let known = page.get("/api/memory", &session).json();
    let signature = known["failures"][0]["knowledge"]["failure"]["signature"].as_str().unwrap();
    let promoted = page.post(&format!("/api/memory/{signature}/promote"), &session, &json!({}));
    assert_eq!(promoted.status, 200, "{promoted:?}");
}

/// Returns the public key of a user.
fn key_of(machine: &dyn Fn(&[&str]) -> std::process::Command) -> String {
    let output = machine(&["fleet", "key"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

pub(crate) fn key(sender: &Sender) -> String {
    key_of(&|args| sender.works.command(args))
}

/// Has a machine's workers take the answers of the one with this key.
pub(crate) fn list(machine: &Machine, name: &str, key: &str) {
    machine.place.write("salve.toml", format!("[fleet]\npeople = [\"{name}:{key}\"]\n"));
}

/// Submits a job that fails until it is cured, and has a worker run it until it asks.
pub(crate) fn asked(sender: &Sender, machine: &Machine) -> String {
    teach(machine);
    let step = format!(
        "{}; test -e cured || {{ echo \"{FAILURE}\" >&2; exit 1; }}; echo 2 >> a.txt",
        sender.works.trace("x")
    );
    let id = sender.submit(&["echo 1 >> a.txt", &step], &[]);
    let visit = machine.command(&sender.server, &["--until-empty"]).output().unwrap();
    assert_eq!(visit.status.code(), Some(0), "{}", String::from_utf8_lossy(&visit.stderr));
    assert_eq!(sender.listed(&id), "awaiting_human", "{}", sender.salve(&["show", &id]).said);
    id
}

/// Returns the incident with which a run waits.
fn question(sender: &Sender, run: &str) -> Value {
    let args = ["status", "--json", "--fleet", &sender.server.url];
    let output = sender.works.command(&args).output().unwrap();
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    let asked = status["fleet_questions"].as_array().unwrap();
    assert_eq!((output.status.code(), asked.len()), (Some(3), 1), "{status}");
    assert_eq!(asked[0]["run"], run, "{status}");
    asked[0].clone()
}

#[test]
fn a_question_is_seen_with_all_that_it_takes_to_answer_it() {
    let Some(sender) = Sender::new() else { return };
    let machine = Machine::new();
    let id = asked(&sender, &machine);
    let question = question(&sender, &id);
    assert_eq!(question["command"], "touch cured", "{question}");
    assert_eq!((&question["directory"], &question["timeout_seconds"]), (&".".into(), &120.into()));
    for fact in ["rule", "reason", "worker", "asked_at", "expires_at", "digest"] {
        assert!(question[fact].as_str().is_some_and(|fact| !fact.is_empty()), "{fact}: {question}");
    }
    assert!(question["evidence"].as_str().unwrap().contains("left-pad"), "{question}");
    let incident = question["id"].as_str().unwrap();
    let listed = sender.salve(&["jobs"]).said;
    assert!(listed.contains(&format!("salve approve {incident}")), "{listed}");
    let shown = sender.salve(&["show", &id]);
    assert_eq!(shown.code, Some(3), "{}", shown.said);
    for words in ["command    touch cured", "runs in    the project's directory", "rule ", "until "]
    {
        assert!(shown.said.contains(words), "{words}: {}", shown.said);
    }
    // What an agent says is no answer, whatever key lies there.
    let mut agent = sender.works.command(&["approve", incident, "--fleet", &sender.server.url]);
    let agent = Visit::of(&agent.env("SALVE_AGENT", "stub").output().unwrap());
    assert_eq!(agent.code, Some(3), "{}", agent.said);
    assert!(agent.said.contains("an agent cannot"), "{}", agent.said);
}

/// **Invariant:** A worker of a fleet acts on nobody's word but of those whom its own settings list.
#[test]
fn an_answer_counts_where_the_workers_settings_list_the_persons_key() {
    let Some(sender) = Sender::new() else { return };
    let (machine, stranger) = (Machine::new(), Machine::new());
    let id = asked(&sender, &machine);
    list(&machine, "ann", &key(&sender));
    let worker = machine.worker(&sender.server, &[]);
    // Whoever may reach the server may say what they like.
    let url = &sender.server.url;
    stranger.place.write("salve.toml", "");
    let mut said = stranger.place.command(&["approve", &id, "--fleet", url]);
    let refused = Visit::of(&said.env("SALVE_USER", "ann").output().unwrap());
    assert_eq!(refused.code, Some(1), "{}\n{}", refused.said, machine.said());
    assert!(refused.said.contains("does not take the answer"), "{}", refused.said);
    assert!(refused.said.contains("of nobody who may answer here"), "{}", refused.said);
    assert_eq!(sender.listed(&id), "awaiting_human");
    let taken = sender.salve(&["approve", &id]);
    assert_eq!(taken.code, Some(0), "{}\n{}", taken.said, machine.said());
    assert!(taken.said.contains("ann approved it"), "{}", taken.said);
    sender.wait_for(&id, "completed", &[&machine]);
    assert_eq!(sender.works.traces().len(), 2, "one failed attempt and one that verified the cure");
    let again = sender.salve(&["approve", &id]);
    assert_eq!(again.code, Some(1), "an answer is used once: {}", again.said);
    assert_eq!(worker.end(), Some(0), "{}", machine.said());
    assert_eq!(sender.salve(&["jobs", "take", &id]).code, Some(0));
    assert_eq!(sender.file("a.txt"), "one\n1\n2\n");
    assert!(sender.works.project.dir().join("cured").exists());
}

#[test]
fn a_job_goes_on_with_its_answer_on_another_machine_than_the_one_that_asked() {
    let Some(sender) = Sender::new() else { return };
    let (one, other) = (Machine::new(), Machine::new());
    let id = asked(&sender, &one);
    list(&other, "ann", &key(&sender));
    let worker = other.worker(&sender.server, &[]);
    wait_for("the worker", || sender.salve(&["workers"]).said.contains("0/1 jobs"));
    let taken = sender.salve(&["approve", &id]);
    assert_eq!(taken.code, Some(0), "{}\n{}", taken.said, other.said());
    sender.wait_for(&id, "completed", &[&other]);
    assert_eq!(sender.works.traces().len(), 2, "it went on with the incident, not anew");
    assert_eq!(worker.end(), Some(0), "{}", other.said());
}

#[test]
fn a_no_is_taken_and_a_job_that_is_queued_by_hand_asks_again() {
    let Some(sender) = Sender::new() else { return };
    let machine = Machine::new();
    let id = asked(&sender, &machine);
    let first = question(&sender, &id);
    let queued = sender.salve(&["jobs", "requeue", &id]);
    assert_eq!(queued.code, Some(0), "{}", queued.said);
    list(&machine, "ann", &key(&sender));
    let worker = machine.worker(&sender.server, &[]);
    wait_for("its question", || {
        let claims = sender.salve(&["show", &id]).said;
        sender.works.traces().len() == 1
            && claims.contains("asks ")
            && machine.said().contains("waits for you")
    });
    let second = question(&sender, &id);
    assert_eq!((&first["id"], &first["digest"]), (&second["id"], &second["digest"]));
    assert_eq!(sender.works.traces().len(), 1, "nothing ran but the question");
    let said = sender.salve(&["reject", &id, "not this way"]);
    assert_eq!(said.code, Some(0), "{}\n{}", said.said, machine.said());
    wait_for("its end", || {
        sender.listed(&id) != "awaiting_human" || {
            // What is left to try may be asked about, too; it is another question then.
            let now = sender.salve(&["show", &id]).said;
            !now.contains("touch cured` may not run")
        }
    });
    assert!(!sender.works.project.dir().join("cured").exists());
    assert_eq!(worker.end(), Some(0), "{}", machine.said());
}
