//! People look at an incident and decide about it.

use std::process::Stdio;

use salve_core::event::{
    Actor, Event, IncidentEvent, PersonOrder, RemedyKind, RemedyVerdict, SubjectKind,
};
use salve_core::incident::Phase;
use serde_json::Value;

use crate::care::{Care, SECRET};
use crate::heal::Ward;
use crate::mcp::Client;
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
    care.choose(RemedyKind::Command, "rm -rf dist", RemedyVerdict::Ask);
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
    assert!(
        matches!(entry.event, Event::Incident(IncidentEvent::Approved { question: 1, .. })),
        "{entry:?}"
    );
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
    for (command, order) in [("pause", PersonOrder::Pause), ("resume", PersonOrder::Resume)] {
        assert_eq!(run(&project, &[command, "7f3a"]).0, 0);
        let last = care.entries().pop().unwrap().event;
        assert_eq!(last, Event::Incident(IncidentEvent::Ordered { order }));
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

#[test]
fn without_an_id_the_one_that_asks_is_meant_and_several_are_listed() {
    let project = Project::new();
    project.write("salve.toml", "");
    let (code, _, told) = run(&project, &["approve"]);
    assert_eq!(code, 1, "{told}");
    assert!(told.contains("no incident asks anything"), "{told}");
    let _quiet = Care::crashed(&project, 0x1111_0000 << 96);
    let one = asking(&project);
    let (code, said, told) = run(&project, &["approve", "--note", "go on", "--as", "kim"]);
    assert_eq!(code, 0, "{told}");
    assert!(said.contains("kim said yes to question 1: go on"), "{said}");
    assert!(matches!(one.incident().phase(), Phase::Due { .. }));
    for id in [0xaaaa_0000, 0xbbbb_0000] {
        Care::crashed(&project, id << 96).choose(RemedyKind::Command, "make", RemedyVerdict::Ask);
    }
    let (code, _, told) = run(&project, &["reject"]);
    assert_eq!(code, 2);
    for want in ["several incidents ask", "salve reject bbbb0000    web: `make`", "aaaa0000"] {
        assert!(told.contains(want), "{want}: {told}");
    }
    assert_eq!(run(&project, &["approve", "aaaa", "x", "--note", "y"]).0, 2, "one remark only");
}

#[test]
fn the_specs_spellings_answer_for_a_loop() {
    let project = Project::new();
    let asking = |id: u128, name| {
        let care = Care::of(&project, id << 96, SubjectKind::Iteration, name);
        care.choose(RemedyKind::Command, "make", RemedyVerdict::Ask);
        care
    };
    let (one, other) = (asking(0xaaaa_0000, "pinpoint-v1"), asking(0xbbbb_0000, "other"));
    let recovery = |word: &str, args: &[&str]| {
        let word = format!("{word}-recovery");
        run(&project, &[&[&*word, "--loop", "pinpoint-v1"], args].concat())
    };
    assert_eq!(recovery("approve", &["--note", "fine"]).0, 0);
    assert!(matches!(
        one.entries().pop().unwrap().event,
        Event::Incident(IncidentEvent::Approved { .. })
    ));
    let (code, _, told) = recovery("reject", &[]);
    assert_eq!(code, 1, "it asks nothing any more: {told}");
    assert!(told.contains("loop `pinpoint-v1` asks nothing"), "{told}");
    assert_eq!(recovery("resolve", &["--note", "Fixed manually"]).0, 0);
    assert!(matches!(
        one.entries().pop().unwrap().event,
        Event::Incident(IncidentEvent::Resolved { note: Some(_) })
    ));
    let last = other.entries().pop().unwrap().event;
    assert!(
        matches!(last, Event::Incident(IncidentEvent::Judged { .. })),
        "another loop's question stays: {last:?}"
    );
}

/// Returns a project whose red check waits for a person's word about a command.
fn waiting() -> Ward {
    let ward = Ward::new();
    let fail = b"AssertionError: expected 5, found 4\n";
    let cure = "echo once >> ran; printf 5 > sum.txt";
    let learned = ward.project.run_with_input(&["memory", "learn", "--command", cure], fail);
    assert!(learned.status.success(), "{}", String::from_utf8_lossy(&learned.stderr));
    ward.heal(&[]).expect(3, &["needs you", "salve approve"]);
    ward
}

#[test]
fn of_a_hundred_approvals_at_once_one_counts_and_the_command_runs_once() {
    let ward = waiting();
    let approve = || {
        let mut command = ward.project.command(&["approve"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    };
    let mut all: Vec<_> = (0..100).map(|_| approve()).collect();
    let codes = all.iter_mut().map(|child| child.wait().unwrap().code());
    let yes = codes.filter(|code| *code == Some(0)).count();
    assert_eq!(yes, 1, "one is the answer, the others are told that nothing is asked");
    ward.heal(&[]).expect(0, &["healed"]);
    assert_eq!(ward.read("ran"), "once\n");
    ward.heal(&[]).expect(0, &["green"]);
    assert_eq!(ward.read("ran"), "once\n");
}

/// **Invariant:** No agent approves, however it hides.
#[test]
fn an_agent_that_salve_started_cannot_approve_however_it_hides() {
    let ward = waiting();
    let salve = env!("CARGO_BIN_EXE_salve");
    // As it is, with its environment washed, and after a double fork out of its own family.
    let script = format!(
        "cat > /dev/null\n\
         '{salve}' approve 2> ../plain; echo $? >> ../plain\n\
         env -i PATH=\"$PATH\" '{salve}' approve 2> ../washed; echo $? >> ../washed\n\
         env -i PATH=\"$PATH\" setsid sh -c \"(env -i '{salve}' approve 2> ../t; \
         echo \\$? >> ../t; mv ../t ../forked) &\"\n\
         while ! test -e ../forked; do sleep 0.01; done\n"
    );
    let ward = ward.agent(&script);
    ward.project.write("other.sh", "echo 'Error: boom'; exit 1");
    ward.heal(&["--", "sh", "other.sh"]);
    for name in ["plain", "washed", "forked"] {
        let told = ward.read(&format!("../{name}"));
        assert!(told.contains("an agent cannot decide") && told.ends_with("3\n"), "{name}: {told}");
    }
    assert!(ward.salve(&["show"]).contains("heal-"), "it is there");
    assert!(!ward.salve(&["events", "--kind", "approved"]).contains("approved"));
    let mut client = Client::hello(&ward.project, "bot");
    let tools = client.request("tools/list", serde_json::json!({})).to_string();
    for word in ["approve", "accept", "reject", "resolve"] {
        assert!(!tools.contains(&format!("\"name\":\"{word}")), "{tools}");
        let asked = client.request("tools/call", serde_json::json!({ "name": word }));
        assert!(asked.get("error").is_some(), "{asked}");
    }
}
