//! What a loop's files say, from stories of recoveries.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::event::{
    Attempted, Effect, EffectReport, IncidentOutcome, ProcessExit, Proof, ProposalSource, Proposed,
    RemedyKind, RemedyVerdict, Repeat, Scope,
};
use crate::gate::{Category, Confidence, Severity};
use crate::incident::testing::{TestIncident, person, policy, subject};
use crate::recovery::Escalation;
use crate::scrub::Scrubbed;

const LOOP: &str = "pinpoint-v1";

fn text(text: &'static str) -> Scrubbed {
    Scrubbed::literal(text)
}

/// Returns a story in which the tester proposed a command in iteration 6.
fn proposed(command: &'static str) -> TestIncident {
    let mut story = TestIncident::new(policy());
    story
        .salve(Event::Recovery(RecoveryEvent::Sought { iteration: 6, changed: Vec::new() }))
        .unwrap();
    story.salve(proposes(command)).unwrap();
    story
}

fn proposes(command: &'static str) -> Event {
    let attempted = |command, confidence| Attempted {
        command: text(command),
        working_dir: text("web"),
        timeout_seconds: 300,
        confidence: Some(confidence),
    };
    Event::Recovery(RecoveryEvent::Proposed {
        proposal: Box::new(Proposed {
            source: ProposalSource::Tester,
            timestamp: Timestamp::UNIX_EPOCH,
            category: Category::Dependency,
            severity: Severity::Blocking,
            error_pattern: text("Host version"),
            root_cause: text("esbuild differs"),
            evidence: vec![text("out.txt:3: Host version")],
            recovery: attempted(command, Confidence::High),
            expected_outcome: text("vitest starts"),
            fallback: Some(attempted("bun install --force", Confidence::Medium)),
        }),
    })
}

/// Returns the view of the loop that the story is of.
fn told(story: &TestIncident) -> LoopView {
    let mut view = LoopView::new(LOOP);
    for entry in &story.journal {
        let mut entry = entry.clone();
        if let Event::Incident(IncidentEvent::Opened { subject: of, .. }) = &mut entry.event {
            *of = subject(SubjectKind::Iteration, Repeat::Safe);
            of.name = Scrubbed::literal(LOOP);
        }
        view.hear(&entry);
    }
    view
}

/// Returns the lines without what every line has.
fn lines(view: &LoopView) -> Vec<Value> {
    let line = |line: &LogLine| {
        let mut value = serde_json::to_value(line).unwrap();
        let map = value.as_object_mut().unwrap();
        assert_eq!(map.remove("loop_id"), Some(json!(LOOP)));
        assert_eq!(map.remove("iteration"), Some(json!(6)));
        assert!(map.remove("timestamp").is_some() && map.remove("incident").is_some());
        assert!(map.remove("seq").is_some());
        value
    };
    view.log().iter().map(line).collect()
}

fn escalation(view: &LoopView) -> Value {
    let recovery = view.escalated().unwrap();
    serde_json::to_value(Escalation::of(recovery, LOOP, "/srv/my shop").unwrap()).unwrap()
}

fn done() -> EffectReport {
    EffectReport::Done
}

fn verified(proof: Proof) -> EffectReport {
    EffectReport::Verified { proof, symptom: None }
}

#[test]
fn an_auto_recovery_is_logged_in_the_formats_own_words() {
    let mut story = proposed("bun install");
    story.judge(RemedyKind::Command, "bun install", RemedyVerdict::Allow);
    story.finish(Effect::Snapshot, done());
    let run = story.run().unwrap();
    story.now += 4_523;
    story
        .salve(Event::Incident(IncidentEvent::Finished { effect: run.effect, report: done() }))
        .unwrap();
    story.finish(Effect::Verify, verified(Proof::Proven));
    while let Some(run) = story.run() {
        story
            .salve(Event::Incident(IncidentEvent::Finished { effect: run.effect, report: done() }))
            .unwrap();
    }
    let view = told(&story);
    let want = [
        json!({"event": "recovery_proposed", "category": "dependency", "command": "bun install", "confidence": "high"}),
        json!({"event": "recovery_approved", "source": "auto", "command": "bun install"}),
        json!({"event": "recovery_executed", "command": "bun install", "exit_code": 0, "duration_ms": 4_523}),
    ];
    assert_eq!(lines(&view), want);
    assert!(view.awaiting().is_none() && view.escalated().is_none());
    let usage = serde_json::to_value(view.usage()).unwrap();
    assert_eq!(usage[0]["outcome"], "recovered");
    assert_eq!((&usage[0]["auto_recoveries"], &usage[0]["unattended"]), (&json!(1), &json!(true)));
    let stats = view.stats();
    assert_eq!((stats.proposals, stats.auto_recoveries, stats.auto_recovered), (1, 1, 1));
    assert_eq!((stats.auto_success_rate, stats.escalations), (Some(1.0), 0));
    assert_eq!(stats.categories, BTreeMap::from([(Category::Dependency, 1)]));
}

#[test]
fn a_failed_recovery_escalates_and_both_are_logged() {
    let mut story = proposed("bun install");
    story.judge(RemedyKind::Command, "bun install", RemedyVerdict::Allow);
    story.finish(Effect::Snapshot, done());
    let failed =
        EffectReport::Failed { reason: text("no network"), exit: Some(ProcessExit::Code(1)) };
    story.finish_apply(failed);
    story.finish(Effect::RollBack(Scope::Attempt), done());
    story.salve(Event::Incident(IncidentEvent::NothingLeft {})).unwrap();
    let view = told(&story);
    let lines = lines(&view);
    assert_eq!(lines[2]["event"], "recovery_failed");
    assert_eq!((&lines[2]["exit_code"], &lines[2]["error"]), (&json!(1), &json!("no network")));
    let want = json!({"event": "recovery_escalated", "reason": "no network", "awaiting": "human"});
    assert_eq!(lines[3], want);
    let escalation = escalation(&view);
    assert_eq!(escalation["type"], "recovery_failed");
    assert_eq!(escalation["status"], "pending");
}

#[test]
fn an_escalation_has_every_field_and_follows_the_answer() {
    let mut story = proposed("rm -rf node_modules && bun install");
    story.now = 1_000;
    story.judge(RemedyKind::Command, "rm -rf node_modules && bun install", RemedyVerdict::Ask);
    let asked = escalation(&told(&story));
    for (field, want) in [
        ("timestamp", json!("1970-01-01T00:00:01Z")),
        ("loop_id", json!(LOOP)),
        ("iteration", json!(6)),
        ("type", json!("recovery_approval_required")),
        ("status", json!("pending")),
    ] {
        assert_eq!(asked[field], want, "{field}");
    }
    let recovery = &asked["recovery_proposal"]["recovery"];
    assert_eq!(recovery["command"], "rm -rf node_modules && bun install");
    assert_eq!(asked["recovery_proposal"]["source"], "tester");
    assert_eq!(asked["actions"]["approve"], "salve approve-recovery --loop pinpoint-v1");
    assert_eq!(asked["actions"]["reject"], "salve reject-recovery --loop pinpoint-v1");
    let manual = "cd '/srv/my shop/web' && rm -rf node_modules && bun install";
    assert_eq!(asked["actions"]["manual"], manual);

    let crate::incident::Phase::Asking { number, digest, .. } = story.incident.phase() else {
        panic!("it asks")
    };
    let answers = [
        (
            Event::Incident(IncidentEvent::Approved { question: number, digest, note: None }),
            "approved",
        ),
        (
            Event::Incident(IncidentEvent::Rejected { question: number, digest, note: None }),
            "rejected",
        ),
        (Event::Incident(IncidentEvent::Resolved { note: Some(text("by hand")) }), "resolved"),
    ];
    for (answer, status) in answers {
        let mut story = story.clone();
        story.now = 61_000;
        story.by(person("ada"), answer).unwrap();
        let view = told(&story);
        assert_eq!(escalation(&view)["status"], status);
        assert!(view.awaiting().is_none(), "{status}");
        assert_eq!(view.stats().median_time_to_resolution_ms, Some(60_000));
        if status == "resolved" {
            let last = json!({"event": "recovery_resolved", "by": "human", "method": "manual", "note": "by hand"});
            assert_eq!(lines(&view).last(), Some(&last));
        }
    }
    story.salve(proposes("bun install")).unwrap();
    story.salve(Event::Incident(IncidentEvent::Superseded {})).unwrap();
    assert_eq!(escalation(&told(&story))["status"], "superseded");
}

#[test]
fn what_people_answer_is_told_to_this_iteration_and_the_next() {
    let mut story = proposed("bun install");
    story.judge(RemedyKind::Command, "bun install", RemedyVerdict::Ask);
    let crate::incident::Phase::Asking { number, digest, .. } = story.incident.phase() else {
        panic!("it asks")
    };
    let note = || Some(text("wrong directory"));
    let no = Event::Incident(IncidentEvent::Rejected { question: number, digest, note: note() });
    let bare = Event::Incident(IncidentEvent::Approved { question: number, digest, note: None });
    let yes = Event::Incident(IncidentEvent::Approved { question: number, digest, note: note() });
    for (answer, want) in [
        (no, Some("ada declined the recovery `bun install`: wrong directory")),
        (bare, None),
        (yes, Some("ada approved the recovery `bun install`: wrong directory")),
        (
            Event::Incident(IncidentEvent::Resolved { note: None }),
            Some("ada settled the recovery `bun install` by hand"),
        ),
    ] {
        let mut story = story.clone();
        story.by(person("ada"), answer).unwrap();
        let view = told(&story);
        let told = |iteration: u32| -> Vec<String> {
            let news = view.answers(iteration).filter(|answer| answer.is_news());
            news.map(ToString::to_string).collect()
        };
        let want: Vec<String> = want.into_iter().map(str::to_owned).collect();
        assert_eq!((told(6), told(7)), (want.clone(), want));
        assert_eq!((told(5), told(8)), (Vec::new(), Vec::new()));
    }
}

#[test]
fn the_state_says_whether_what_was_approved_ran() {
    let mut story = proposed("bun install");
    story.judge(RemedyKind::Command, "bun install", RemedyVerdict::Ask);
    let execution = |story: &TestIncident| escalation(&told(story))["execution"].clone();
    assert_eq!(execution(&story), Value::Null);
    let crate::incident::Phase::Asking { number, digest, .. } = story.incident.phase() else {
        panic!("it asks")
    };
    let yes = Event::Incident(IncidentEvent::Approved { question: number, digest, note: None });
    story.by(person("ada"), yes).unwrap();
    assert_eq!(execution(&story), "not_run");
    story.finish(Effect::Snapshot, done());
    assert_eq!(execution(&story), "not_run");
    let exit = Some(ProcessExit::Code(7));
    for (report, want) in [
        (done(), "succeeded"),
        (EffectReport::Failed { reason: text("no"), exit }, "failed"),
        (EffectReport::TimedOut, "failed"),
        (EffectReport::failed(text("it could not be started")), "not_run"),
    ] {
        let mut story = story.clone();
        story.finish_apply(report);
        assert_eq!(execution(&story), want);
    }
    // Salve is killed while it runs, and the next one takes over.
    story.run().unwrap();
    assert_eq!(execution(&story), "running");
    story.salve(Event::Incident(IncidentEvent::Released {})).unwrap();
    story.salve(Event::Incident(IncidentEvent::Claimed { instead_of: None })).unwrap();
    assert_eq!(execution(&story), "interrupted");
    let last = lines(&told(&story)).pop().unwrap();
    assert_eq!((&last["event"], &last["exit_code"]), (&json!("recovery_failed"), &Value::Null));
    assert!(last["error"].as_str().unwrap().contains("not run again"), "{last}");
}

#[test]
fn limits_count_what_ran_unattended_since_the_run_began() {
    let mut story = proposed("bun install");
    story.now = 5_000;
    story.judge(RemedyKind::Command, "bun install", RemedyVerdict::Allow);
    story.finish(Effect::Snapshot, done());
    story.finish_apply(EffectReport::failed(text("no")));
    let view = told(&story);
    let id = story.incident.id();
    let ran = UnattendedRuns { count: 1, last: Some(crate::incident::testing::time(5_000)) };
    assert_eq!(view.unattended_runs(0, None), ran);
    // Its own fallback need not wait for the cooldown, but counts.
    assert_eq!(view.unattended_runs(0, Some(id)), UnattendedRuns { count: 1, last: None });
    assert_eq!(view.unattended_runs(view.last_seq(), None), UnattendedRuns::default());
}

#[test]
fn other_loops_and_other_subjects_are_left_out() {
    let mut story = proposed("bun install");
    story.judge(RemedyKind::Command, "bun install", RemedyVerdict::Ask);
    let mut other = LoopView::new("other");
    story.journal.iter().for_each(|entry| other.hear(entry));
    assert_eq!((other.log().len(), other.recoveries().len()), (0, 0));
    let refused = Event::Recovery(RecoveryEvent::Refused {
        name: text(LOOP),
        iteration: 6,
        reason: text("a FIFO"),
    });
    let mut view = told(&story);
    let entry = crate::event::Draft {
        at: Timestamp::UNIX_EPOCH,
        by: person("ada"),
        incident: None,
        event: refused,
    };
    let seq = view.last_seq() + 1;
    view.hear(&entry.clone().at_seq(seq));
    other.hear(&entry.at_seq(seq));
    assert_eq!(view.log().last().unwrap().event, "recovery_refused");
    assert!(other.log().is_empty());
    assert_eq!(view.recoveries()[0].outcome(), None::<IncidentOutcome>);
}
