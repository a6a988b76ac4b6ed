use super::*;
use crate::event::{IncidentPolicy, RemedyKind, RepairMode, ResourceLimits};
use crate::incident::testing::{TestIncident, id, person, policy, symptom};
use crate::scrub::Scrubbed;

fn story(catastrophe_after: u32) -> TestIncident {
    let limits = ResourceLimits { attempts: Some(5), ..ResourceLimits::default() };
    let catastrophe_after = Some(catastrophe_after);
    TestIncident::new(IncidentPolicy {
        mode: RepairMode::Agent,
        catastrophe_after,
        limits,
        ..policy()
    })
}

fn fail(story: &mut TestIncident, name: &'static str) {
    story.judge(RemedyKind::Command, name, RemedyVerdict::Allow);
    story.finish(Effect::Snapshot, EffectReport::Done);
    story.finish_apply(EffectReport::Done);
    let symptom = Some(Box::new(symptom(1, "other")));
    story.finish(Effect::Verify, EffectReport::Verified { proof: Proof::Failed, symptom });
}

fn texts(story: &TestIncident) -> Vec<String> {
    let told = decisions(&IncidentView::of(story.journal.clone()).unwrap());
    told.into_iter().map(|one| one.text).collect()
}

#[test]
fn each_decision_is_told_with_its_reason() {
    let mut story = story(2);
    story.judge(RemedyKind::Command, "rm -rf /", RemedyVerdict::Deny);
    fail(&mut story, "one");
    story.finish(Effect::RollBack(Scope::Attempt), EffectReport::Done);
    fail(&mut story, "two");
    let reason = Scrubbed::literal("disk full");
    story.finish(Effect::RollBack(Scope::Incident), EffectReport::failed(reason));
    story.finish(Effect::Ask, EffectReport::Done);
    story.by(person("kim"), Event::Incident(IncidentEvent::Resolved { note: None })).unwrap();
    story.run();
    let want = [
        "OPENED web: it broke (0000000000000001, build_error)",
        "DENIED `rm -rf /`: rule rule: because",
        "CHOSE `one`: rule rule: because",
        "ROLLBACK of the attempt: still red: it broke",
        "CHOSE `two`: rule rule: because",
        "CATASTROPHIC ROLLBACK after 2 failures in a row: still red: it broke",
        "the roll-back failed: disk full",
        "RESOLVED by kim",
        "OUTCOME: settled by a person",
    ];
    let told: Vec<_> = texts(&story).into_iter().filter(|t| !t.starts_with("ESCALATED")).collect();
    assert_eq!(told, want);
    assert!(
        texts(&story).iter().any(|text| text.starts_with("ESCALATED to ada: Salve could not undo"))
    );
}

#[test]
fn a_breaker_that_undoes_everything_is_no_catastrophe() {
    let mut story = story(9);
    story.judge(RemedyKind::Command, "one", RemedyVerdict::Allow);
    story.finish(Effect::Snapshot, EffectReport::Done);
    story.finish_apply(EffectReport::Done);
    let verify = story.run().unwrap().effect;
    story.salve(Event::Incident(IncidentEvent::Tripped { breaker: Breaker::NewErrors })).unwrap();
    let symptom = Some(Box::new(symptom(2, "other")));
    let report = EffectReport::Verified { proof: Proof::Failed, symptom };
    story.salve(Event::Incident(IncidentEvent::Finished { effect: verify, report })).unwrap();
    story.finish(Effect::RollBack(Scope::Incident), EffectReport::Done);
    let told = texts(&story);
    let breaker = "BREAKER new errors: everything is rolled back and flagged";
    assert!(told.iter().any(|text| text == breaker), "{told:?}");
    assert!(told.iter().any(|text| text == "ROLLBACK of everything: breaker new errors"));
}

#[test]
fn a_line_names_its_entry_and_is_one_line() {
    let at = crate::incident::testing::time(1_500);
    let one = Decision {
        seq: 7,
        at,
        incident: id(),
        is_catastrophe: false,
        text: "a\nb\u{1b}[31m".into(),
    };
    let line = one.to_string();
    assert_eq!(line, "1970-01-01T00:00:01Z heal-00000000 #7 a b [31m");
    let log = format!("{line}\nnonsense heal-00000000 #x y\n{line}\n");
    assert_eq!((last_told(&log, id()), last_told("", id())), (7, 0));
}
