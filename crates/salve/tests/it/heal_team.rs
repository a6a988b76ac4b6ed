//! A team around `salve heal`: issues are reported, fixes proposed, and none of them is trusted.

use serde_json::{Value, json};

use crate::care::SECRET;
use crate::heal::{Visit, Ward};
use crate::mcp::Client;

const SETTINGS: &str = "[checks.sum]\ncommand = \"sh check.sh\"\n";

/// Returns a ward whose check has a name.
fn ward() -> Ward {
    let ward = Ward::new();
    ward.project.write("salve.toml", SETTINGS);
    ward
}

/// Returns what is open.
fn open(ward: &Ward) -> Value {
    serde_json::from_str(&ward.salve(&["--json", "report"])).unwrap()
}

#[test]
fn an_issue_is_reported_listed_and_settled_by_a_person() {
    let ward = ward();
    assert!(ward.salve(&["report"]).contains("nothing is open"));
    assert!(!ward.project.dir().join(".salve").exists(), "looking leaves no traces");
    let said = ward.salve(&["report", "--check", "som", "sums are off"]);
    assert!(said.contains("there is no check `som`") && said.contains("sum"), "{said}");
    let said = ward.salve(&["report", "--file", "../x", "sums are off"]);
    assert!(said.contains("no path below"), "{said}");
    let text = format!("sums are off since {SECRET}");
    let args = ["report", "--check", "sum", "--file", "sum.txt", "--auto-fix", &text];
    let said = ward.salve(&args);
    assert!(said.contains("issue-") && said.contains("reported"), "{said}");
    assert!(ward.salve(&args).contains("known already"), "it is the same one");
    ward.salve(&["report", "the docs are odd"]);
    let open = open(&ward);
    assert_eq!(open["issues"].as_array().unwrap().len(), 2, "{open}");
    assert_eq!(open["issues"][0]["check"], "sum");
    assert_eq!(open["issues"][0]["autoFix"], true);
    assert!(!open.to_string().contains(SECRET), "{open}");
    let list = ward.salve(&["report"]);
    assert!(list.contains("`salve heal sum` heals it"), "{list}");
    assert!(list.contains("it names no check"), "{list}");

    let id = open["issues"][1]["issueId"].as_str().unwrap();
    let mut agents = ward.project.command(&["report", "--settle", id]);
    let agents = Visit::of(&agents.env("SALVE_AGENT", "bot").output().unwrap());
    agents.expect(3, &["an agent cannot settle"]);
    assert!(ward.salve(&["report", "--settle", id, "rewritten"]).contains("settled"));
    assert!(ward.salve(&["report", "--settle", id]).contains("no open issue"));
    assert!(!ward.salve(&["report"]).contains("the docs are odd"));
}

#[test]
fn agents_report_propose_and_ask_each_other() {
    let ward = ward();
    ward.heal(&["sum"]).expect(3, &["is red"]);
    let mut kim = Client::hello(&ward.project, "kim");
    let mut eve = Client::hello(&ward.project, "eve");
    let watch = json!({ "uri": "salve://issues" });
    assert!(eve.request("resources/subscribe", watch)["result"].is_object());

    let issue = json!({ "text": "sums are off", "check": "sum", "auto_fix": true });
    assert_eq!(kim.call("heal_report_issue", issue)["ok"], true);
    let updated = |message: &Value| {
        message["method"] == "notifications/resources/updated"
            && message["params"]["uri"] == "salve://issues"
    };
    eve.expect(updated);
    let found = eve.call("heal_get_open_issues", json!({}))["open"].clone();
    assert_eq!(found["issues"][0]["by"], "kim", "{found}");
    assert_eq!(found["incidents"][0]["check"], "sum");
    let incident = found["incidents"][0]["incidentId"].as_str().unwrap().to_owned();

    eve.expect(|message| message["method"] == "notifications/resources/list_changed");
    let asked = kim.call("heal_broadcast", json!({ "id": incident, "message": "who knows?" }));
    assert_eq!(asked["id"], json!(incident));
    eve.expect(|message| message["method"] == "notifications/resources/list_changed");
    eve.expect(updated);
    let fix = json!({ "id": incident, "kind": "command", "text": "echo 5", "why": "it is 5" });
    assert_eq!(eve.call("heal_propose_fix", fix.clone())["ok"], true);
    eve.call("heal_propose_fix", fix);
    let found = kim.call("heal_get_open_issues", json!({}))["open"].clone();
    assert_eq!(found["incidents"][0]["proposalsWanted"], true);
    let proposals = found["incidents"][0]["proposals"].as_array().unwrap();
    assert_eq!(proposals.len(), 1, "the same one counts once: {found}");
    assert_eq!(proposals[0]["why"], "it is 5");
}

#[test]
fn hostile_words_are_refused_with_what_to_do_instead() {
    let ward = ward();
    let mut eve = Client::hello(&ward.project, "eve");
    let issue = eve.call("heal_report_issue", json!({ "text": "odd" }))["id"].clone();
    let long = "x".repeat(9_000);
    for (tool, arguments, want) in [
        ("heal_report_issue", json!({ "text": "" }), "the text is empty"),
        ("heal_report_issue", json!({ "text": "x", "check": "rm -rf /" }), "there is no check"),
        ("heal_report_issue", json!({ "text": "x", "files": ["/etc/passwd"] }), "no path below"),
        ("heal_report_issue", json!({ "text": long }), "longer than"),
        ("heal_report_issue", json!({ "text": "a\u{1b}]0;b" }), "cannot be shown"),
        ("heal_report_issue", json!({ "text": "x", "settled": true }), "settled"),
        (
            "heal_propose_fix",
            json!({ "id": "ffffffff", "kind": "command", "text": "x" }),
            "no open",
        ),
        ("heal_propose_fix", json!({ "id": "../..", "kind": "command", "text": "x" }), "no open"),
        ("heal_propose_fix", json!({ "id": issue, "kind": "exec", "text": "x" }), "no kind"),
        ("heal_propose_fix", json!({ "id": issue, "kind": "command", "text": long }), "longer"),
        (
            "heal_propose_fix",
            json!({ "id": issue, "kind": "command", "text": format!("login {SECRET}") }),
            "there is a secret in the command",
        ),
        ("heal_broadcast", json!({ "id": "" }), "no open"),
        ("heal_get_open_issues", json!({ "all": true }), "all"),
    ] {
        let answer = eve.call(tool, arguments.clone());
        assert!(answer["error"].as_str().unwrap().contains(want), "{arguments}: {answer}");
        assert!(!answer["nextStep"].as_str().unwrap().is_empty(), "{answer}");
        assert!(!answer.to_string().contains(SECRET), "{answer}");
    }
    for n in 0..20 {
        eve.call(
            "heal_propose_fix",
            json!({ "id": issue, "kind": "command", "text": format!("echo {n}") }),
        );
    }
    let more = json!({ "id": issue, "kind": "command", "text": "echo more" });
    let answer = eve.call("heal_propose_fix", more);
    assert!(answer["error"].as_str().unwrap().contains("20 of these"), "{answer}");
    assert!(!ward.read(".salve/events.jsonl").contains(SECRET));
}

#[test]
fn where_salve_was_never_used_a_report_leaves_no_traces() {
    let ward = Ward::new();
    let mut kim = Client::hello(&ward.project, "kim");
    let answer = kim.call("heal_report_issue", json!({ "text": "odd" }));
    assert!(answer["error"].as_str().unwrap().contains("cared for nothing"), "{answer}");
    assert!(!ward.project.dir().join(".salve").exists());
    ward.project.write("salve.toml", SETTINGS);
    let answer = kim.call("heal_report_issue", json!({ "text": "odd", "check": "sum" }));
    assert_eq!(answer["ok"], true, "the settings are read as they are now: {answer}");
}
