//! What a loop's recovery does when Salve comes back: to a question, to an answer, to a command
//! that was cut off.

use salve::project::Project;
use salve::store::{Store, Stream};
use salve_core::event::{Draft, Effect, Entry, Event, IncidentEvent};
use salve_core::incident::{Incident, Phase};
use serde_json::json;

use crate::heal::Visit;
use crate::recovery::{Site, TOUCH};

/// Returns all that the journal says.
pub(crate) fn journal(project: &crate::support::Project) -> Vec<Entry> {
    let store = Store::open(&Project::at(&project.dir()).unwrap()).unwrap();
    store.journal().read(0, &Stream::Project, usize::MAX).unwrap()
}

/// Begins a new journal with these entries, as a Salve that is gone would have left it.
pub(crate) fn rewrite(project: &crate::support::Project, entries: &[Entry]) {
    let state = project.dir().join(".salve");
    for file in std::fs::read_dir(&state).unwrap().flatten() {
        let name = file.file_name().to_string_lossy().into_owned();
        if name.starts_with("salve.db") || name == "events.jsonl" {
            std::fs::remove_file(file.path()).unwrap();
        }
    }
    // Whoever was killed then had not noted what was used later.
    let _none = std::fs::remove_file(project.home().join("data/salve/used-words.jsonl"));
    let store = Store::open(&Project::at(&project.dir()).unwrap()).unwrap();
    let draft = |entry: &Entry| {
        let Entry { at, by, incident, event, .. } = entry.clone();
        Draft { at, by, incident, event }
    };
    store.journal().append_all(entries.iter().map(draft).collect()).unwrap();
}

/// Returns how far a recovery's approved command came, and whether its incident is over.
pub(crate) fn reach(entries: &[Entry]) -> (Reach, Phase) {
    let id = entries
        .iter()
        .find(|one| matches!(one.event, Event::Incident(IncidentEvent::Approved { .. })));
    let id = id.and_then(|entry| entry.incident).unwrap();
    let its: Vec<&Entry> = entries.iter().filter(|one| one.incident == Some(id)).collect();
    let applied = its.iter().find_map(|one| match one.event {
        Event::Incident(IncidentEvent::Requested { effect, what: Effect::Apply { .. } }) => {
            Some(effect)
        }
        _ => None,
    });
    let is_back = |one: &&&Entry| match (&one.event, applied) {
        (Event::Incident(IncidentEvent::Finished { effect, .. }), Some(applied)) => {
            *effect == applied
        }
        _ => false,
    };
    let reach = match (applied, its.iter().find(is_back)) {
        (None, _) => Reach::NotBegun,
        (Some(_), None) => Reach::Begun,
        (Some(_), Some(_)) => Reach::Done,
    };
    (reach, Incident::replay(its).unwrap().phase())
}

/// How far a command came when Salve was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// It was not begun.
    NotBegun,
    /// It was begun; nobody knows how far it came.
    Begun,
    /// It has ended.
    Done,
}

impl Site {
    /// Leaves everything as it was when only these entries were written.
    fn as_after(&self, entries: &[Entry], has_run: bool) {
        rewrite(&self.project, entries);
        for name in ["started", "ran", "loop/escalation.json", "loop/events.jsonl"] {
            let _ = std::fs::remove_file(self.project.dir().join(name));
        }
        let waits = json!({"status": "awaiting_human", "status_before": "running"});
        self.project.write("loop/state.json", waits.to_string());
        if has_run {
            self.project.write("started", "");
            self.project.write("ran", "once\n");
        }
    }
}

#[test]
fn what_was_approved_while_nobody_waited_is_run_proven_and_credited() {
    let site = Site::new("");
    site.propose(&Site::proposal(TOUCH));
    site.once(&["--no-wait"]).expect(3, &["needs you"]);
    site.salve(&["approve-recovery", "--loop", "shop"]).expect(0, &["no salve cares for it now"]);
    let proven = "proven: without the repair it was sure to fail again";
    site.once(&["--no-wait"]).expect(0, &["healed", proven]);
    assert_eq!(site.ran(), 1);
    site.salve(&["show"]).expect(0, &["recovered, proven"]);
    site.salve(&["memory", "list"]).expect(0, &[TOUCH]);
    let escalation = site.json("escalation.json");
    assert_eq!(
        (&escalation["status"], &escalation["execution"]),
        (&json!("approved"), &json!("succeeded"))
    );
}

/// **Invariant:** What was approved runs at most once, and the state says which.
#[test]
fn wherever_salve_was_killed_what_was_approved_runs_once_at_most_and_the_state_says_which() {
    let site = Site::new("");
    site.propose(&Site::proposal(TOUCH));
    site.once(&["--no-wait"]).expect(3, &["needs you"]);
    site.salve(&["approve-recovery", "--loop", "shop"]).expect(0, &[]);
    site.once(&["--no-wait"]).expect(0, &["healed"]);
    let all = journal(&site.project);
    let approved = all
        .iter()
        .position(|one| matches!(one.event, Event::Incident(IncidentEvent::Approved { .. })))
        .unwrap();
    let mut seen = Vec::new();
    for entries in approved + 1..all.len() {
        let entries = &all[..entries];
        let (reach, phase) = reach(entries);
        if matches!(phase, Phase::Closed(_)) {
            break;
        }
        let worlds: &[bool] = match reach {
            Reach::NotBegun => &[false],
            Reach::Begun => &[false, true],
            Reach::Done => &[true],
        };
        for has_run in worlds {
            site.as_after(entries, *has_run);
            let visit = site.once(&["--no-wait"]);
            let told = (reach, *has_run, visit.code, site.ran());
            let escalation = site.json("escalation.json");
            let execution = escalation["execution"].as_str().unwrap_or_default().to_owned();
            let want = match (reach, has_run) {
                (Reach::NotBegun, _) => (Some(0), 1, "succeeded"),
                // It is not run again: a person has to look at it.
                (Reach::Begun, false) => (Some(3), 0, "interrupted"),
                (Reach::Begun, true) => (Some(0), 1, "interrupted"),
                (Reach::Done, _) => (Some(0), 1, "succeeded"),
            };
            if reach == Reach::Begun && !has_run {
                // Another question is open by now; the log says what became of the first.
                let lines = site.events();
                let cut = lines.iter().find(|line| line["event"] == "recovery_failed").unwrap();
                assert_eq!(cut["exit_code"], json!(null), "{cut}");
                assert!(cut["error"].as_str().unwrap().contains("is not run again"), "{cut}");
                assert_eq!(site.json("state.json")["status"], "awaiting_human");
            } else {
                assert_eq!(execution, want.2, "{told:?}: {}", visit.said);
                assert_eq!(site.json("state.json")["status"], "running", "{told:?}");
            }
            assert_eq!((visit.code, site.ran()), (want.0, want.1), "{told:?}: {}", visit.said);
            if reach == Reach::Begun && !has_run {
                // A yes to the second question has it run again, and then it is well.
                site.salve(&["approve-recovery", "--loop", "shop"]).expect(0, &[]);
                site.once(&["--no-wait"]).expect(0, &["healed"]);
                assert_eq!(site.ran(), 1, "{told:?}");
                assert_eq!(site.json("escalation.json")["execution"], "succeeded", "{told:?}");
            }
            seen.push(reach);
        }
    }
    assert!(seen.len() >= 8, "{seen:?}");
}

#[test]
fn a_changed_proposal_supersedes_an_open_question_though_nobody_waits() {
    let site = Site::new("");
    site.propose(&Site::proposal("echo harmless"));
    site.once(&["--no-wait"]).expect(3, &["needs you", "`echo harmless` may not run"]);
    let first = site.json("escalation.json");
    site.propose(&Site::proposal(TOUCH));
    let asked = ["something else is proposed by now", "`touch started && echo once >> ran` may"];
    site.once(&["--no-wait"]).expect(3, &asked);
    let second = site.json("escalation.json");
    assert_eq!((&second["status"], &second["question"]), (&json!("pending"), &json!(2)));
    assert_ne!(second["digest"], first["digest"]);
    assert_eq!(second["recovery_proposal"]["recovery"]["command"], TOUCH);
    // Whoever was shown the first question does not answer the second by it.
    let id = first["incident"].as_str().unwrap();
    site.salve(&["approve", id, "--question", "1"]).expect(1, &["is open now"]);
    // The same proposal again is the same question, and it is told with how to answer it.
    let again = site.once(&["--no-wait"]);
    again.expect(3, &["needs you", asked[1], "salve approve heal-", "salve reject heal-"]);
    assert_eq!(site.json("escalation.json")["question"], 2);
    site.salve(&["approve-recovery", "--loop", "shop"]).expect(0, &[]);
    site.once(&["--no-wait"]).expect(0, &["healed"]);
    assert_eq!(site.ran(), 1);
}

#[test]
fn an_approval_is_not_for_what_was_proposed_after_it() {
    let site = Site::new("");
    site.propose(&Site::proposal("echo harmless"));
    site.once(&["--no-wait"]).expect(3, &["needs you"]);
    site.salve(&["approve-recovery", "--loop", "shop"]).expect(0, &[]);
    site.propose(&Site::proposal(TOUCH));
    let said = ["something else is proposed by now", "`touch started && echo once >> ran` may"];
    site.once(&["--no-wait"]).expect(3, &said);
    assert_eq!(site.ran(), 0);
    assert_eq!(site.json("escalation.json")["status"], "pending");
}

#[test]
fn an_open_question_is_told_again_where_there_are_no_tests_to_run() {
    let site = Site::new("");
    site.propose(&Site::proposal(TOUCH));
    for _ in 0..2 {
        let output = site.attach(&["--once", "--no-wait"], &[]).output().unwrap();
        Visit::of(&output).expect(3, &["needs you", "salve approve heal-"]);
    }
    assert_eq!(site.ran(), 0);
}
