//! People look at an incident and decide about it.

use salve_core::event::{Actor, Event, Order, RemedyKind, Verdict};
use salve_core::incident::Phase;
use serde_json::Value;

use crate::care::{Care, SECRET};
use crate::support::Project;

/// Runs a command and returns its exit code, stdout and stderr.
fn run(project: &Project, args: &[&str]) -> (i32, String, String) {
    let output = project.run(args);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Opens an incident that asks whether a command may run.
fn asking(project: &Project) -> Care {
    let care = Care::crashed(project, 0x7f3a_0000 << 96);
    care.choose(RemedyKind::Command, "rm -rf dist", Verdict::Ask);
    care
}

#[test]
fn a_persons_yes_is_for_the_question_that_was_shown_and_counts_once() {
    let project = Project::new();
    let care = asking(&project);
    let (code, shown, _) = run(&project, &["show", "heal-7f3a"]);
    assert_eq!(code, 3, "{shown}");
    for want in [
        "heal-7f3a0000  web  import_error  needs you",
        "Cannot find module './app'",
        "web failed (exit 1)",
        "chose `rm -rf dist`: a person is asked (it is listed)",
        "salve approve 7f3a0000 --question 1",
        "salve reject 7f3a0000 --question 1",
    ] {
        assert!(shown.contains(want), "{want}: {shown}");
    }
    let (code, _, told) = run(&project, &["approve", "7f3a", "--question", "2"]);
    assert_eq!(code, 1);
    assert!(told.contains("question 1 is open now"), "{told}");
    let note = format!("fine, with {SECRET}");
    let (code, said, told) = run(&project, &["approve", "7f3a", &note, "--as", "kim"]);
    assert_eq!(code, 0, "{told}");
    assert!(said.contains("kim said yes to question 1") && !said.contains(SECRET), "{said}");
    let entry = care.entries().pop().unwrap();
    assert!(matches!(entry.by, Actor::Person { ref name } if *name == "kim"), "{entry:?}");
    assert!(matches!(entry.event, Event::Approved { question: 1, .. }), "{entry:?}");
    assert!(matches!(care.incident().phase(), Phase::Due { .. }));
    let (code, _, told) = run(&project, &["approve", "7f3a"]);
    assert_eq!(code, 1);
    assert!(told.contains("asks nothing") && told.contains("salve show 7f3a0000"), "{told}");
}

#[test]
fn a_no_leaves_the_remedy_out_and_settling_ends_it() {
    let project = Project::new();
    let care = asking(&project);
    let (code, _, told) = run(&project, &["reject", "7f3a", "not that"]);
    assert_eq!(code, 0, "{told}");
    assert_eq!(care.incident().phase(), Phase::Choosing);
    let (code, said, _) = run(&project, &["resolve", "7f3a", "by hand", "--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, said["said"].as_str()), (0, Some("settled it: by hand")));
    assert!(matches!(care.incident().phase(), Phase::Ending { .. }));
    let (code, _, told) = run(&project, &["abort", "7f3a"]);
    assert_eq!(code, 1);
    assert!(told.contains("the incident is over"), "{told}");
}

#[test]
fn orders_and_refills_reach_the_incident() {
    let project = Project::new();
    let care = Care::crashed(&project, 0x7f3a_0000 << 96);
    for (command, order) in [("pause", Order::Pause), ("resume", Order::Resume)] {
        assert_eq!(run(&project, &[command, "7f3a"]).0, 0);
        let last = care.entries().pop().unwrap().event;
        assert_eq!(last, Event::Ordered { order });
    }
    let (code, _, told) = run(&project, &["retry", "7f3a"]);
    assert_eq!(code, 1, "nothing is there to try again");
    assert!(told.contains("does not take this"), "{told}");
    assert_eq!(run(&project, &["refill", "7f3a"]).0, 2);
    assert_eq!(run(&project, &["refill", "7f3a", "--attempts", "2"]).0, 0);
    let story: Value = serde_json::from_str(&run(&project, &["show", "--json"]).1).unwrap();
    assert_eq!(story["repair"]["maxAttempts"], 5);
    assert_eq!(run(&project, &["abort", "7f3a"]).0, 0);
}

#[test]
fn an_agent_cannot_decide() {
    let project = Project::new();
    let care = asking(&project);
    let before = care.entries().len();
    for args in [
        &["approve", "7f3a"][..],
        &["reject", "7f3a"],
        &["resolve", "7f3a"],
        &["retry", "7f3a"],
        &["pause", "7f3a"],
        &["resume", "7f3a"],
        &["abort", "7f3a"],
        &["refill", "7f3a", "--attempts", "9"],
    ] {
        let output = project.command(args).env("SALVE_AGENT", "bot").output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{args:?}");
    }
    assert_eq!(care.entries().len(), before);
}

#[test]
fn an_id_that_fits_none_or_several_is_refused() {
    let project = Project::new();
    assert_eq!(run(&project, &["show", "7f3a", "--project", "."]).0, 1);
    let _one = Care::crashed(&project, 0x7f3a_0001 << 96);
    let _two = Care::crashed(&project, 0x7f3a_0002 << 96);
    let (code, _, told) = run(&project, &["show", "heal-7f3a"]);
    assert_eq!(code, 2);
    assert!(told.contains("7f3a0001-") && told.contains("7f3a0002-"), "{told}");
    assert_eq!(run(&project, &["approve", "zz"]).0, 2);
    assert_eq!(run(&project, &["approve", "ff"]).0, 1);
    assert_eq!(run(&project, &["show", "7f3a0002"]).0, 0);
}

#[test]
fn an_error_is_explained_by_the_rule_that_names_it() {
    let project = Project::new();
    let text = "Error: listen EADDRINUSE: address already in use :::3000";
    let (code, told, _) = run(&project, &["explain", text, "--json"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((code, told["class"].as_str()), (0, Some("port_conflict")));
    assert!(told["identity"].as_str().unwrap().starts_with(told["rule"].as_str().unwrap()));
    let (_, told, _) = run(&project, &["explain", text]);
    assert!(told.contains("why") && told.contains("the rule"), "{told}");
    let secret = format!("Error: token={SECRET} was refused");
    assert!(!run(&project, &["explain", &secret]).1.contains(SECRET));
    assert_eq!(run(&project, &["explain", " "]).0, 2);
}
