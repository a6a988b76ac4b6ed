//! Agents that work in a private layer.

use super::*;
use crate::event::Scope;

/// Lets an agent work in a layer, until its change is measured.
fn worked(mut story: TestIncident, files: u32) -> TestIncident {
    story.judge(Agent, "a", Allow);
    story.finish(Effect::Snapshot, EffectReport::Done);
    let run = story.run().unwrap();
    assert!(matches!(run.what, Effect::Apply { .. }));
    let laid = || Event::Incident(IncidentEvent::LayerLaid { effect: run.effect });
    story.salve(laid()).unwrap();
    assert_eq!(story.salve(laid()), Err(Ignored::NoNews));
    let report = EffectReport::Done;
    story.salve(Event::Incident(IncidentEvent::Finished { effect: run.effect, report })).unwrap();
    let change = Change { files: Some(files), lines: Some(1) };
    story.finish(Effect::Measure, EffectReport::Measured(change));
    story
}

fn red() -> EffectReport {
    let symptom = Some(Box::new(symptom(1, "other")));
    EffectReport::Verified { proof: Proof::Failed, symptom }
}

fn conflict() -> EffectReport {
    EffectReport::Conflict { paths: vec![Scrubbed::literal("a.py")] }
}

/// Returns the question that is open.
fn question(story: &TestIncident) -> Option<PersonQuestion> {
    match story.incident.phase() {
        Phase::Asking { question, .. } => Some(question),
        _ => None,
    }
}

/// **Invariant:** A change of an agent's is in the workspace of a check only after it helped in the
/// layer.
#[test]
fn a_check_shows_in_the_layer_first_and_then_where_the_user_works() {
    let mut story = worked(TestIncident::of_check(policy()), 1);
    story.finish(Effect::VerifyInLayer, EffectReport::Done);
    story.finish(Effect::TakeOver, EffectReport::Done);
    story.finish(Effect::Verify, EffectReport::Verified { proof: Proof::Proven, symptom: None });
    let credit = story.incident.credit();
    assert!(credit.is_none(), "it is not over");
    story.finish(Effect::Record, EffectReport::Done);
    assert!(story.incident.credit().is_some());
}

#[test]
fn what_does_not_help_in_the_layer_never_has_to_be_undone() {
    for report in [red(), EffectReport::TimedOut] {
        let mut story = worked(TestIncident::of_check(policy()), 1);
        story.finish(Effect::VerifyInLayer, report);
        assert_eq!(story.incident.phase(), Phase::Choosing);
    }
    let mut story = worked(TestIncident::of_check(policy()), 1);
    let masked = EffectReport::Verified { proof: Proof::Masked, symptom: None };
    story.finish(Effect::VerifyInLayer, masked);
    assert_eq!(question(&story), Some(PersonQuestion::Masked));
    // A check that is well without the change needs none, and nothing of it is credited.
    let mut story = worked(TestIncident::of_check(policy()), 1);
    let transient = EffectReport::Verified { proof: Proof::Transient, symptom: None };
    story.finish(Effect::VerifyInLayer, transient);
    story.finish(Effect::Record, EffectReport::Done);
    assert_eq!(story.incident.credit(), None);
    // Proven is only what is well where the user works.
    let mut story = worked(TestIncident::of_check(policy()), 1);
    let run = story.run().unwrap();
    let report = EffectReport::Verified { proof: Proof::Proven, symptom: None };
    let proven = IncidentEvent::Finished { effect: run.effect, report };
    assert_eq!(story.salve(Event::Incident(proven)), Err(Ignored::WrongReport));
}

#[test]
fn a_server_has_the_change_brought_in_and_taken_back_where_it_does_not_help() {
    let mut story = worked(TestIncident::new(policy()), 1);
    story.finish(Effect::TakeOver, EffectReport::Done);
    story.finish(Effect::Verify, red());
    story.finish(Effect::RollBack(Scope::Attempt), EffectReport::Done);
    assert_eq!(story.incident.phase(), Phase::Choosing);
    // What could be brought in only in part is taken back too.
    let mut story = worked(TestIncident::new(policy()), 1);
    story.finish(Effect::TakeOver, EffectReport::failed(Scrubbed::literal("no")));
    story.finish(Effect::RollBack(Scope::Attempt), EffectReport::Done);
}

#[test]
fn a_large_change_waits_in_the_layer_for_a_person() {
    for (yes, next) in [(true, Some(Effect::VerifyInLayer)), (false, None)] {
        let mut story = worked(TestIncident::of_check(policy()), 9);
        assert_eq!(question(&story), Some(PersonQuestion::ChangeTooLarge));
        attempt(&mut story, &Says(yes)).unwrap();
        assert_eq!(story.run().map(|run| run.what), next);
    }
}

#[test]
fn the_same_lines_ask_a_person_who_may_have_it_tried_again_or_left_out() {
    let asked = || {
        let mut story = worked(TestIncident::new(policy()), 1);
        story.finish(Effect::TakeOver, conflict());
        assert_eq!(question(&story), Some(PersonQuestion::Conflict));
        story
    };
    let mut story = asked();
    attempt(&mut story, &Says(true)).unwrap();
    story.finish(Effect::TakeOver, EffectReport::Done);
    let mut story = asked();
    attempt(&mut story, &Says(false)).unwrap();
    assert_eq!(story.incident.phase(), Phase::Choosing, "nothing has to be undone");
}

#[test]
fn what_was_in_a_layer_when_salve_was_killed_is_gone_unless_it_was_kept() {
    // The agent was at work: its layer is gone, and nothing of it is in the workspace.
    let mut story = TestIncident::of_check(policy());
    story.judge(Agent, "a", Allow);
    story.finish(Effect::Snapshot, EffectReport::Done);
    let run = story.run().unwrap();
    story.salve(Event::Incident(IncidentEvent::LayerLaid { effect: run.effect })).unwrap();
    attempt(&mut story, &Dies).unwrap();
    story.finish(Effect::Measure, EffectReport::failed(Scrubbed::literal("it is gone")));
    assert_eq!(story.incident.phase(), Phase::Choosing);
    // It was being tried there: that is harmless to do again.
    let mut story = worked(TestIncident::of_check(policy()), 1);
    assert_eq!(story.run().unwrap().what, Effect::VerifyInLayer);
    attempt(&mut story, &Dies).unwrap();
    story.finish(Effect::VerifyInLayer, EffectReport::Done);
    // It was being brought in: that goes on, and is taken back if it does not help.
    assert_eq!(story.run().unwrap().what, Effect::TakeOver);
    attempt(&mut story, &Dies).unwrap();
    story.finish(Effect::TakeOver, EffectReport::Done);
    story.finish(Effect::Verify, red());
    story.finish(Effect::RollBack(Scope::Attempt), EffectReport::Done);
}

#[test]
fn an_agent_of_somebody_else_works_in_no_layer() {
    let mut story = TestIncident::new(policy());
    let laid = |effect| Event::Incident(IncidentEvent::LayerLaid { effect });
    assert_eq!(story.salve(laid(1)), Err(Ignored::Stale), "nothing is applied");
    story.judge(Command, "c", Allow);
    story.finish(Effect::Snapshot, EffectReport::Done);
    let run = story.run().unwrap();
    assert_eq!(story.salve(laid(run.effect)), Err(Ignored::Stale), "it is no agent");
}
