use super::*;
use crate::check::{CheckTool, TestCounts};
use crate::event::{
    Actor, Draft, EffectReport, Entry, IncidentPolicy, PersonOrder, RemedyKind, RemedyVerdict,
    RepairMode, Repeat, ResourceLimits, Scope, Subject, SubjectKind,
};
use crate::incident::testing::{TestIncident, id, person, policy, process, symptom, time};
use crate::scrub::Scrubbed;

/// Opens an incident of a check.
fn opened() -> TestIncident {
    let limits = ResourceLimits { attempts: Some(5), ..ResourceLimits::default() };
    let policy = IncidentPolicy { mode: RepairMode::Agent, limits, cooldown_ms: 0, ..policy() };
    let mut story = TestIncident::new(policy);
    let Event::Incident(IncidentEvent::Opened { subject, .. }) = &mut story.journal[0].event else {
        panic!()
    };
    *subject =
        Subject { kind: SubjectKind::Check, name: Scrubbed::literal("sum"), repeat: Repeat::Safe };
    story
}

/// Heals an incident by a change of a file, with this proof.
fn healed(path: &'static str, proof: Proof) -> Vec<Entry> {
    let mut story = opened();
    story.judge(RemedyKind::Command, "fix", RemedyVerdict::Allow);
    story.finish(Effect::Snapshot, EffectReport::Done);
    let run = story.run().unwrap();
    let files = vec![file(path)];
    story
        .salve(Event::Incident(IncidentEvent::FilesChanged { effect: run.effect, files, more: 0 }))
        .unwrap();
    story
        .salve(Event::Incident(IncidentEvent::Finished {
            effect: run.effect,
            report: EffectReport::Done,
        }))
        .unwrap();
    story.finish(Effect::Verify, EffectReport::Verified { proof, symptom: None });
    close(&mut story);
    story.journal
}

/// Closes an incident whose outcome is clear.
fn close(story: &mut TestIncident) {
    story.finish(Effect::Record, EffectReport::Done);
    story.finish(Effect::Release, EffectReport::Done);
}

/// An incident in which one remedy did not help and nothing is left.
fn asking() -> TestIncident {
    let mut story = opened();
    story.judge(RemedyKind::Command, "fix", RemedyVerdict::Allow);
    story.finish(Effect::Snapshot, EffectReport::Done);
    let run = story.run().unwrap();
    let report = EffectReport::failed(Scrubbed::literal("no"));
    story.salve(Event::Incident(IncidentEvent::Finished { effect: run.effect, report })).unwrap();
    story.finish(Effect::RollBack(Scope::Attempt), EffectReport::Done);
    nothing_left(story)
}

fn nothing_left(mut story: TestIncident) -> TestIncident {
    story.salve(Event::Incident(IncidentEvent::NothingLeft {})).unwrap();
    story.finish(Effect::Ask, EffectReport::Done);
    story
}

fn resolved(note: Option<&'static str>) -> Vec<Entry> {
    let mut story = asking();
    let note = note.map(Scrubbed::literal);
    story.by(person("ada"), Event::Incident(IncidentEvent::Resolved { note })).unwrap();
    close(&mut story);
    story.journal
}

/// Adds the remark that the check was green after all.
fn and_green(mut entries: Vec<Entry>) -> Vec<Entry> {
    let seq = entries.len() as u64 + 1;
    let event = Event::Incident(IncidentEvent::SeenGreen {});
    let by = Actor::Salve(process(1));
    entries.push(Draft { at: time(0), by, incident: Some(id()), event }.at_seq(seq));
    entries
}

fn aborted() -> Vec<Entry> {
    let mut story = asking();
    story
        .by(person("ada"), Event::Incident(IncidentEvent::Ordered { order: PersonOrder::Abort }))
        .unwrap();
    close(&mut story);
    story.journal
}

fn file(path: &'static str) -> ChangedFile {
    ChangedFile { path: Scrubbed::literal(path), lines: Some(1) }
}

#[track_caller]
fn check(past: &[Vec<Entry>], want: usize) {
    let views: Vec<_> =
        past.iter().map(|entries| IncidentView::of(entries.clone()).unwrap()).collect();
    let known = symptom(1, "tree").signature;
    assert_eq!(unhealed(known, &views), want);
    assert_eq!(unhealed(Signature(99), &views), 0, "another failure is another matter");
}

#[test]
fn a_failure_is_counted_by_incidents_that_were_not_healed_since_it_was() {
    let open = asking().journal;
    let again = || resolved(Some(AGAIN));
    check(&[], 0);
    check(std::slice::from_ref(&open), 1);
    check(&[again(), again(), open.clone()], 3);
    check(&[again(), again(), healed("a", Proof::Proven), open.clone()], 1);
    check(&[again(), and_green(again()), open.clone()], 1);
    check(&[again(), resolved(Some("rewrote it")), open.clone()], 1);
    check(&[again(), healed("a", Proof::Transient), open.clone()], 1);
    check(&[again(), aborted(), open], 2);
    let untried = nothing_left(opened()).journal;
    check(&[untried.clone(), untried], 0);
}

#[test]
fn a_server_that_failed_alike_is_no_check() {
    check(&[TestIncident::new(policy()).journal], 0);
}

#[test]
fn a_file_is_counted_by_the_heals_whose_change_stayed() {
    let past = [healed("a", Proof::Proven), healed("a", Proof::Proven), healed("b", Proof::Proven)];
    let views: Vec<_> =
        past.iter().map(|entries| IncidentView::of(entries.clone()).unwrap()).collect();
    assert_eq!(churned(&views, &[file("a"), file("b"), file("c")], 2), ["a"]);
    assert_eq!(churned(&views, &[file("a"), file("b")], 1), ["a", "b"]);
    assert_eq!(churned(&views, &[file("a")], 3), Vec::<String>::new());
}

fn results(tool: CheckTool, failed: &[(&str, &str)], ran: Option<u32>) -> Results {
    let case = |(file, name): &(&str, &str)| FailedCase {
        file: Some((*file).into()),
        line: None,
        name: (*name).into(),
    };
    let counts = TestCounts { passed: ran.map(|_| 0), failed: ran, ..TestCounts::default() };
    Results {
        tool: Some(tool),
        failed: failed.iter().map(case).collect(),
        counts,
        ..Results::default()
    }
}

#[test]
fn new_errors_are_those_that_the_repair_made() {
    let names = |before: &Results, after: &Results| {
        new_errors(before, after).iter().map(|case| case.name.clone()).collect::<Vec<_>>()
    };
    let tests = |failed: &[(&str, &str)], ran| results(CheckTool::Pytest, failed, ran);
    let first = tests(&[("a.py", "one")], Some(5));
    assert_eq!(names(&first, &tests(&[("a.py", "one"), ("b.py", "two")], Some(5))), ["two"]);
    assert_eq!(names(&first, &tests(&[("a.py", "one")], Some(5))), Vec::<String>::new());
    // More ran than before: what fails among them was hidden.
    assert!(names(&first, &tests(&[("b.py", "two")], Some(9))).is_empty());
    assert!(names(&tests(&[("a.py", "a.py")], None), &tests(&[("b.py", "x")], Some(3))).is_empty());
    // Another finding in the same file may be the same mistake put otherwise.
    let types = |failed: &[(&str, &str)]| results(CheckTool::Tsc, failed, None);
    assert!(names(&types(&[("a.ts", "TS1")]), &types(&[("a.ts", "TS2")])).is_empty());
    assert_eq!(names(&types(&[("a.ts", "TS1")]), &types(&[("b.ts", "TS2")])), ["TS2"]);
    // A compiler that gets further finds more.
    let build = |failed: &[(&str, &str)]| results(CheckTool::Rustc, failed, None);
    assert!(names(&build(&[("a.rs", "E1")]), &build(&[("b.rs", "E2")])).is_empty());
    assert_eq!(names(&build(&[("a.rs", "E1")]), &build(&[("a.rs", "E1"), ("b.rs", "E2")])), ["E2"]);
    assert!(names(&first, &types(&[("b.ts", "TS2")])).is_empty(), "another tool");
}
