use serde_json::{Value, json};

use super::*;
use crate::event::{Change, IncidentPolicy, RemedyVerdict, RepairMode, ResourceLimits};
use crate::incident::testing::{TestIncident, person, policy, symptom};
use crate::scrub::Scrubbed;

/// Opens an incident that everything is undone in after three failures in a row.
fn story() -> TestIncident {
    let limits = ResourceLimits { attempts: Some(5), ..ResourceLimits::default() };
    TestIncident::new(IncidentPolicy {
        mode: RepairMode::Agent,
        catastrophe_after: Some(3),
        limits,
        ..policy()
    })
}

/// Lets an agent change a file, up to where the check runs again.
fn agent_works(story: &mut TestIncident, tokens: u64) {
    story.judge(RemedyKind::Agent, "agent", RemedyVerdict::Allow);
    story.finish(Effect::Snapshot, EffectReport::Done);
    let apply = story.run().unwrap().effect;
    let launched = Event::Incident(IncidentEvent::AgentLaunched {
        effect: apply,
        process: crate::incident::testing::process(9),
        agent: Scrubbed::literal("claude"),
        model: Some(Scrubbed::literal("haiku")),
        limit_ms: 1_000,
    });
    let laid = Event::Incident(IncidentEvent::LayerLaid { effect: apply });
    story.salve(laid).unwrap();
    story.salve(launched).unwrap();
    for so_far in [tokens / 2, tokens] {
        let spent = Amounts { tokens: so_far, money_micros: so_far * 10, ..Amounts::default() };
        // What says nothing new is refused.
        let _ = story.salve(Event::Incident(IncidentEvent::Charged { effect: apply, spent }));
    }
    story
        .salve(Event::Incident(IncidentEvent::Finished {
            effect: apply,
            report: EffectReport::Done,
        }))
        .unwrap();
    let measure = story.run().unwrap().effect;
    let files = vec![ChangedFile { path: Scrubbed::literal("src/a.rs"), lines: Some(3) }];
    story
        .salve(Event::Incident(IncidentEvent::FilesChanged { effect: measure, files, more: 0 }))
        .unwrap();
    let small = EffectReport::Measured(Change { files: Some(1), lines: Some(3) });
    story
        .salve(Event::Incident(IncidentEvent::Finished { effect: measure, report: small }))
        .unwrap();
    story.finish(Effect::TakeOver, EffectReport::Done);
}

fn verified(story: &mut TestIncident, proof: Proof, signature: u64) {
    let seen = (proof == Proof::Failed).then(|| Box::new(symptom(signature, "other")));
    story.finish(Effect::Verify, EffectReport::Verified { proof, symptom: seen });
}

fn read(story: &TestIncident) -> Vec<Attempt> {
    attempts(&IncidentView::of(story.journal.clone()).unwrap())
}

#[test]
fn an_attempt_says_what_was_tried_what_it_cost_and_what_came_of_it() {
    let mut story = story();
    agent_works(&mut story, 500);
    verified(&mut story, Proof::Failed, 2);
    story.finish(Effect::RollBack(Scope::Attempt), EffectReport::Done);
    agent_works(&mut story, 70);
    verified(&mut story, Proof::Proven, 0);
    let kept = serde_json::to_value(read(&story)).unwrap();
    let want = json!({
        "version": 1, "incident": crate::incident::testing::id(), "check": "web", "attempt": 1,
        "tier": "simple", "remedy": "agent", "kind": "agent", "origin": "playbook",
        "rule": "rule", "agent": "claude", "model": "haiku",
        "error_signature": "0000000000000001", "error_type": "build_error",
        "normalized_error": "it broke", "started": kept[0]["started"], "ended": kept[0]["ended"],
        "files_changed": 1, "lines_changed": 3, "files": [{"path": "src/a.rs", "lines": 3}],
        "tokens": 500, "cost_micros": 5000, "result": "failed", "reason": "it broke",
        "proof": "failed", "rolled_back": "attempt",
    });
    assert_eq!(kept[0], want);
    let second = |name: &str| kept[1][name].clone();
    assert_eq!([second("attempt"), second("tokens")], [json!(2), json!(70)]);
    assert_eq!(second("error_signature"), json!("0000000000000002"), "what it was tried against");
    assert_eq!([second("result"), second("proof")], [json!("success"), json!("proven")]);
    assert_eq!(second("rolled_back"), Value::Null);
}

#[test]
fn what_is_only_denied_is_no_attempt_and_a_retry_is_one() {
    let mut story = story();
    story.judge(RemedyKind::Command, "rm -rf /", RemedyVerdict::Deny);
    assert_eq!(read(&story), []);
    story.judge(RemedyKind::Retry, "run it again", RemedyVerdict::Allow);
    verified(&mut story, Proof::Failed, 1);
    let kept = read(&story);
    assert_eq!(kept.len(), 1);
    assert_eq!((kept[0].result, kept[0].rolled_back), (HealAttemptOutcome::Failed, None));
    assert_eq!((kept[0].attempt, kept[0].remedy.as_str()), (1, "run it again"));
}

#[test]
fn a_catastrophe_undoes_all_attempts_and_an_order_stops_the_present_one() {
    let mut story = story();
    for signature in [2, 3, 4] {
        assert_eq!(story.incident.attempt() as usize, read(&story).len() + 1);
        agent_works(&mut story, 1);
        verified(&mut story, Proof::Failed, signature);
        let scope = if signature == 4 { Scope::Incident } else { Scope::Attempt };
        story.finish(Effect::RollBack(scope), EffectReport::Done);
    }
    let back: Vec<_> = read(&story).iter().map(|attempt| attempt.rolled_back).collect();
    assert_eq!(back, [Some(Scope::Incident); 3]);
    agent_works(&mut story, 1);
    assert_eq!(read(&story)[3].result, HealAttemptOutcome::Running);
    story
        .by(person("ada"), Event::Incident(IncidentEvent::Ordered { order: PersonOrder::Skip }))
        .unwrap();
    assert_eq!(read(&story)[3].result, HealAttemptOutcome::Stopped);
}
