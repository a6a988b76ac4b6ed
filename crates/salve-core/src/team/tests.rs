//! What is taken and refused, who settles what, and which proposal comes first.

use uuid::Uuid;

use super::accept::{self, LONGEST_PATCH, LONGEST_TEXT, LONGEST_WORDS, MOST_FILES};
use super::*;
use crate::event::{Draft, Process};
use crate::scrub::{ScrubKey, Scrubber};

const SECRET: &str = concat!("ghp_", "a8Kd02LmQx71ZbVt93NcPw64RyHs58Jf", "UeG1");

fn scrubber() -> Scrubber {
    Scrubber::new(ScrubKey::new([1; 32]))
}

fn issue_id(id: u128) -> IssueId {
    IssueId(Uuid::from_u128(id))
}

fn incident(id: u128) -> IncidentId {
    IncidentId(Uuid::from_u128(id))
}

fn raw(text: &str) -> RawIssue {
    RawIssue { text: text.into(), ..RawIssue::default() }
}

#[track_caller]
fn check_issue(raw: &RawIssue, want: Result<(), &str>) {
    let got = accept::issue(issue_id(1), raw, &["test".to_owned()], &scrubber());
    match (got, want) {
        (Ok(_), Ok(())) => {}
        (Err(refused), Err(want)) => {
            let said = refused.to_string();
            assert!(said.contains(want), "{said}, not {want}");
            assert!(!said.contains(SECRET), "{said}");
            assert!(!refused.advice().is_empty());
        }
        (got, want) => panic!("{raw:?}: {got:?}, not {want:?}"),
    }
}

#[test]
fn an_issue_is_taken_only_if_it_can_be_read_and_kept() {
    check_issue(&raw("login is broken"), Ok(()));
    check_issue(&raw("two\nlines\tof it"), Ok(()));
    check_issue(&raw(" \n "), Err("the text is empty"));
    check_issue(&raw(&"x".repeat(LONGEST_TEXT)), Ok(()));
    check_issue(&raw(&"x".repeat(LONGEST_TEXT + 1)), Err("longer than 4000 bytes"));
    check_issue(&raw("a\u{1b}[2Jb"), Err("cannot be shown"));
    check_issue(&raw("a\u{202e}b"), Err("cannot be shown"));
    check_issue(&raw("a\0b"), Err("cannot be shown"));
    let of = |check: &str| RawIssue { check: Some(check.into()), ..raw("x") };
    check_issue(&of("test"), Ok(()));
    check_issue(&of("tets"), Err("there is no check `tets`"));
    check_issue(&of(SECRET), Err("there is no check"));
    check_issue(&of(""), Err("there is no check"));
    let about = |file: &str| RawIssue { files: vec![file.into()], ..raw("x") };
    for fine in ["src/a.rs", "./a", "a b/ü.ts", "..a/b.."] {
        check_issue(&about(fine), Ok(()));
    }
    for outside in ["/etc/passwd", "../x", "a/../../x", "~/.ssh/id", "..\\x", "\\\\host\\x", ".."] {
        check_issue(&about(outside), Err("no path below"));
    }
    check_issue(&about(""), Err("the path is empty"));
    check_issue(&about("a\nb"), Err("cannot be shown"));
    check_issue(&about(&"x/".repeat(300)), Err("longer than 400 bytes"));
    let many = RawIssue { files: vec!["a".into(); MOST_FILES + 1], ..raw("x") };
    check_issue(&many, Err("more than 50 files"));
}

#[test]
fn an_issue_is_kept_without_its_secrets() {
    let given = RawIssue { text: format!("the token {SECRET} fails"), ..RawIssue::default() };
    let event = accept::issue(issue_id(1), &given, &[], &scrubber()).unwrap();
    let Event::Team(TeamEvent::IssueReported { text, .. }) = event else { panic!() };
    assert!(text.as_str().contains("fails") && !text.as_str().contains(SECRET), "{text}");
}

#[track_caller]
fn check_fix(kind: &str, text: &str, want: Result<FixKind, &str>) {
    let raw = RawFix { kind: kind.into(), text: text.into(), why: None };
    match (accept::fix(&raw, &scrubber()), want) {
        (Ok((fix, None)), Ok(want)) => assert_eq!(fix.kind, want),
        (Err(refused), Err(want)) => {
            let said = format!("{refused} {}", refused.advice());
            assert!(said.contains(want) && !said.contains(SECRET), "{said}, not {want}");
        }
        (got, want) => panic!("{kind} {text:?}: {got:?}, not {want:?}"),
    }
}

/// **Invariant:** A proposal is written as it came or not at all.
#[test]
fn a_proposal_is_taken_as_it_is_or_not_at_all() {
    check_fix("command", "npm ci", Ok(FixKind::Command));
    check_fix("instruction", "look at the cache", Ok(FixKind::Instruction));
    check_fix("patch", "--- a/x\n+++ b/x\n\u{c}", Ok(FixKind::Patch));
    check_fix("sudo", "x", Err("command, patch, instruction"));
    check_fix(SECRET, "x", Err("no kind of fix"));
    check_fix("command", " ", Err("the command is empty"));
    check_fix("command", "rm \u{1b}[1A", Err("cannot be shown"));
    check_fix("command", &"x".repeat(LONGEST_WORDS + 1), Err("longer than 8000 bytes"));
    check_fix("patch", "", Err("the patch is empty"));
    check_fix("patch", "a\0", Err("cannot be shown"));
    check_fix("patch", &"+\n".repeat(LONGEST_PATCH / 2 + 1), Err("longer than 65536 bytes"));
    check_fix(
        "command",
        &format!("curl -H 'X: {SECRET}'"),
        Err("there is a secret in the command"),
    );
    check_fix("patch", &format!("+token = \"{SECRET}\"\n"), Err("there is a secret in the patch"));
    check_fix("instruction", &format!("use {SECRET}"), Err("there is a secret"));
}

#[test]
fn a_patch_keeps_the_white_space_at_its_ends() {
    let text = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n ";
    let raw = RawFix { kind: "patch".into(), text: text.into(), why: Some(" it fits ".into()) };
    let (fix, why) = accept::fix(&raw, &scrubber()).unwrap();
    assert_eq!(fix.text.as_str(), text);
    assert_eq!(why.unwrap().as_str(), "it fits");
}

/// A journal of what a team said.
#[derive(Default)]
struct Journal(Vec<Entry>);

impl Journal {
    fn say(&mut self, by: &Actor, incident: Option<IncidentId>, event: Event) {
        let seq = self.0.len() as u64 + 1;
        let draft = Draft { at: Timestamp::UNIX_EPOCH, by: by.clone(), incident, event };
        self.0.push(draft.at_seq(seq));
    }

    fn issue(&mut self, by: &Actor, id: u128, check: Option<&'static str>, auto_fix: bool) {
        let (text, check) = (Scrubbed::literal("broken"), check.map(Scrubbed::literal));
        let (issue, files) = (issue_id(id), Vec::new());
        self.say(
            by,
            None,
            Event::Team(TeamEvent::IssueReported { issue, text, check, files, auto_fix }),
        );
    }

    fn fix(&mut self, by: &Actor, about: About, kind: FixKind, text: &'static str) {
        let fix = Fix { kind, text: Scrubbed::literal(text) };
        let (issue, incident) = match about {
            About::Incident(id) => (None, Some(id)),
            About::Issue(id) => (Some(id), None),
        };
        self.say(by, incident, Event::Team(TeamEvent::FixProposed { issue, fix, why: None }));
    }

    fn settle(&mut self, by: &Actor, id: u128, how: IssueSettled) {
        self.say(by, None, Event::Team(TeamEvent::IssueSettled { issue: issue_id(id), how }));
    }
}

fn agent(name: &'static str) -> Actor {
    Actor::Agent { name: Scrubbed::literal(name) }
}

fn salve() -> Actor {
    Actor::Salve(Process { pid: 1, started: 1, host: Scrubbed::literal("box") })
}

fn person() -> Actor {
    Actor::Person { name: Scrubbed::literal("ada") }
}

#[test]
fn the_reporters_proposal_comes_first_then_the_cheapest_then_the_oldest() {
    use FixKind::{Command, Instruction, Patch};
    let (here, other) = (About::Incident(incident(1)), About::Incident(incident(2)));
    let issue = About::Issue(issue_id(7));
    let mut journal = Journal::default();
    journal.issue(&agent("kim"), 7, Some("test"), true);
    journal.fix(&agent("bob"), here, Instruction, "bob's words");
    journal.fix(&agent("bob"), here, Patch, "bob's patch");
    journal.fix(&agent("eve"), here, Command, "eve's command");
    journal.fix(&agent("bob"), issue, Command, "bob's command");
    journal.fix(&agent("kim"), issue, Instruction, "kim's words");
    journal.fix(&agent("kim"), here, Patch, "kim's patch");
    journal.fix(&agent("kim"), other, Command, "for another incident");
    let team = Team::of(&journal.0);
    let order = |check| -> Vec<String> {
        team.ranked(&[incident(1)], check).iter().map(|one| one.fix.text.to_string()).collect()
    };
    let want = ["kim's patch", "kim's words", "eve's command", "bob's command", "bob's patch"];
    assert_eq!(order("test"), [&want[..], &["bob's words"]].concat());
    let of_incident = ["eve's command", "bob's patch", "kim's patch", "bob's words"];
    assert_eq!(order("lint"), of_incident, "an issue of another check says nothing here");
}

#[test]
fn salve_settles_by_a_green_check_and_a_person_by_a_word_and_nobody_else() {
    let green = || IssueSettled::Green { check: Scrubbed::literal("test"), incident: None };
    for (by, how, is_settled) in [
        (salve(), green(), true),
        (person(), IssueSettled::Said { note: None }, true),
        (agent("kim"), green(), false),
        (agent("kim"), IssueSettled::Said { note: None }, false),
        (person(), green(), false),
        (salve(), IssueSettled::Said { note: None }, false),
    ] {
        let mut journal = Journal::default();
        journal.issue(&agent("kim"), 1, Some("test"), true);
        journal.settle(&by, 1, how.clone());
        let team = Team::of(&journal.0);
        assert_eq!(team.open().count() == 0, is_settled, "{by:?} {how:?}");
        assert_eq!(team.of_check("test").count() == 0, is_settled);
    }
}

#[test]
fn only_an_open_issue_that_salve_may_act_on_counts_for_its_check() {
    let mut journal = Journal::default();
    journal.issue(&agent("kim"), 1, Some("test"), true);
    journal.issue(&agent("kim"), 2, Some("test"), false);
    journal.issue(&agent("kim"), 3, None, true);
    journal.issue(&agent("eve"), 1, Some("lint"), true);
    let team = Team::of(&journal.0);
    let ids = |check| -> Vec<u128> { team.of_check(check).map(|one| one.id.0.as_u128()).collect() };
    assert_eq!((ids("test"), ids("lint")), (vec![1], vec![]), "an id is given once");
    assert_eq!(team.open().count(), 3);
}
