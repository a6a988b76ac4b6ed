//! A team around `salve heal`: issues are reported, fixes proposed, and none of them is trusted.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::care::SECRET;
use crate::heal::{Visit, Ward};
use crate::mcp::Client;
use crate::support::{LONG, wait_for};

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

/// Proposes a fix for what is open, as an agent.
fn propose(ward: &Ward, kind: &str, text: &str) {
    let id = open(ward)["incidents"][0]["incidentId"].clone();
    let mut kim = Client::hello_of_another(&ward.project, "kim");
    let answer = kim.call("heal_propose_fix", json!({ "id": id, "kind": kind, "text": text }));
    assert_eq!(answer["ok"], true, "{answer}");
}

/// Reports an issue of the check as an agent, and returns its id.
fn report(ward: &Ward, text: &str) -> String {
    let mut kim = Client::hello_of_another(&ward.project, "kim");
    let issue = json!({ "text": text, "check": "sum", "files": ["sum.txt"], "auto_fix": true });
    kim.call("heal_report_issue", issue)["id"].as_str().unwrap().to_owned()
}

/// Proposes a fix for an issue, as an agent.
fn propose_for(ward: &Ward, issue: &str, kind: &str, text: &str) {
    let mut kim = Client::hello_of_another(&ward.project, "kim");
    let fix = json!({ "id": issue, "kind": kind, "text": text });
    assert_eq!(kim.call("heal_propose_fix", fix)["ok"], true);
}

const PATCH: &str = "--- a/sum.txt\n+++ b/sum.txt\n@@ -1 +1 @@\n-4\n\\ No newline at end of file\n\
                     +5\n\\ No newline at end of file\n";

#[test]
fn a_reported_issue_is_told_to_the_agent_and_settled_by_the_green_check() {
    let ward = ward().agent("cat > ../task; printf 5 > sum.txt");
    let issue = report(&ward, "the sum is wrong since the refactoring");
    ward.salve(&["report", "--auto-fix", "the docs are odd"]);
    let settled = format!("issue-{} is settled", &issue[..8]);
    let mut heal = ward.project.command(&["heal", "--agent", "sh ../agent.sh"]);
    let visit = Visit::of(&heal.stdin(Stdio::null()).output().unwrap());
    visit.expect(0, &["the docs are odd", "it names no check", "proven", &settled]);
    let task = ward.read("../task");
    assert!(task.contains("the sum is wrong since the refactoring (about sum.txt)"), "{task}");
    let left = open(&ward)["issues"].clone();
    assert_eq!(left.as_array().unwrap().len(), 1, "the other one is nobody's to settle: {left}");
    ward.assert_users_work_is_intact();
}

#[test]
fn an_issue_of_a_green_check_is_settled_and_one_of_a_red_check_is_not() {
    let ward = ward();
    report(&ward, "the sum is wrong");
    ward.heal(&["sum"]).expect(3, &["is red"]);
    assert_eq!(open(&ward)["issues"].as_array().unwrap().len(), 1);
    ward.project.write("sum.txt", "5");
    ward.heal(&["sum"]).expect(0, &["is settled: the check is green"]);
    assert_eq!(open(&ward)["issues"], json!([]));
}

/// A person is asked, and an agent does not settle that; it still has to hear how the check is.
#[test]
fn an_agent_that_runs_a_check_again_is_told_how_it_is_now() {
    let ward = ward();
    let _tools = Client::hello(&ward.project, "kim");
    ward.heal(&["sum"]).expect(3, &["is red"]);
    ward.heal(&["sum"]).expect(3, &["expected 5, found 4"]);
    ward.project.write("sum.txt", "5");
    ward.heal(&["sum"]).expect(0, &["ok"]);
}

#[test]
fn a_proposed_patch_is_tried_before_an_agent_and_proven_like_any_other() {
    let ward = ward().agent("echo x >> ../turns");
    let issue = report(&ward, "the sum is wrong");
    propose_for(&ward, &issue, "patch", PATCH);
    propose_for(&ward, &issue, "patch", "this is no patch");
    propose_for(&ward, &issue, "patch", &PATCH.replace("sum.txt", "../sum.txt"));
    ward.heal(&["sum"]).expect(0, &["patch of sum.txt by kim", "proven"]);
    assert_eq!(ward.read("sum.txt"), "5");
    assert!(!ward.project.dir().join("../turns").exists(), "no agent was needed");
    ward.assert_users_work_is_intact();
}

#[test]
fn a_proposed_patch_that_weakens_the_check_or_widens_the_settings_is_seen_through() {
    let ward = ward().agent("true");
    ward.project.write("salve.toml", SETTINGS);
    let issue = report(&ward, "the sum is wrong");
    let check = ward.read("check.sh");
    let weak = format!(
        "--- a/check.sh\n+++ b/check.sh\n@@ -1 +1 @@\n-{check}\n\\ No newline at end of file\n+exit 0\n"
    );
    propose_for(&ward, &issue, "patch", &weak);
    let first = SETTINGS.lines().next().unwrap();
    let wide = format!(
        "--- a/salve.toml\n+++ b/salve.toml\n@@ -1,2 +1,3 @@\n+recovery.on_unknown = \"allow\"\n {first}\n {}\n",
        SETTINGS.lines().nth(1).unwrap()
    );
    propose_for(&ward, &issue, "patch", &wide);
    ward.heal(&["sum"]).expect(3, &["masked", "denied", "salve.toml belongs to Salve"]);
    assert_eq!(ward.read("check.sh"), check, "it was undone");
    assert_eq!(ward.read("salve.toml"), SETTINGS);
    assert_eq!(open(&ward)["issues"].as_array().unwrap().len(), 1, "it is not settled");
    ward.assert_users_work_is_intact();
}

#[test]
fn a_proposed_command_passes_the_gate_or_waits_for_a_person() {
    let ward = ward();
    ward.project.write("fixed.txt", "5");
    ward.heal(&["sum"]).expect(3, &["is red"]);
    propose(&ward, "command", "cp fixed.txt sum.txt");
    let off = ["--set", "recovery.enabled=false", "sum"];
    ward.heal(&off).expect(3, &["proposed and denied: `cp fixed.txt sum.txt`"]);
    // The third incident with it would be halted as a systemic issue.
    let patient = ["--set", "heal.breakers.same_error=9", "sum"];
    ward.heal(&patient).expect(3, &["cp fixed.txt sum.txt"]);
    assert_eq!(ward.read("sum.txt"), "4", "nobody said yes");
    let id = open(&ward)["incidents"][0]["incidentId"].as_str().unwrap().to_owned();
    ward.salve(&["approve", &id]);
    ward.heal(&["sum"]).expect(0, &["cp fixed.txt sum.txt", "healed"]);
    assert_eq!(ward.read("sum.txt"), "5");

    let allowed = Ward::new();
    let gate = "[recovery]\nauto_approve = [\"cp fixed.txt sum.txt\"]\nrequire_human = []\n";
    allowed.project.write("salve.toml", format!("{gate}{SETTINGS}"));
    allowed.project.write("fixed.txt", "5");
    let issue = report(&allowed, "the sum is wrong");
    propose_for(&allowed, &issue, "command", "cp fixed.txt sum.txt");
    allowed.heal(&["sum"]).expect(0, &["cp fixed.txt sum.txt", "proven"]);
}

#[test]
fn a_proposed_instruction_is_an_agents_turn() {
    let ward = ward().agent(
        "echo x >> ../turns; cat > ../task; if grep -q 'write five' ../task; then printf 5 > sum.txt; fi",
    );
    let issue = report(&ward, "the sum is wrong");
    propose_for(&ward, &issue, "instruction", "write five into sum.txt");
    ward.heal(&["sum"]).expect(0, &["proven"]);
    let story = ward.salve(&["show"]);
    assert!(story.contains("repair by an agent as kim says"), "{story}");
    assert_eq!(ward.read("../turns").lines().count(), 1, "it came before a turn without");
}

/// Attaches agents of these names, and returns once all of them listen.
fn attached<const N: usize>(ward: &Ward, names: [&str; N]) -> [Client; N] {
    ward.salve(&["events", "note", "the first entry of the journal"]);
    let clients = names.map(|name| Client::hello_of_another(&ward.project, name));
    let listening = || ward.read(".salve/events.jsonl").matches("agent_attached").count() == N;
    wait_for("all listening", listening);
    clients
}

#[test]
fn attached_agents_are_asked_before_an_agent_is_started() {
    let ward = ward().agent("echo x >> ../turns");
    let [mut kim, mut eve] = attached(&ward, ["kim", "eve"]);
    let issue = json!({ "text": "the sum is wrong", "check": "sum", "auto_fix": true });
    kim.call("heal_report_issue", issue);
    // Long enough for both: whoever was asked has answered before it is over.
    let limit = format!("heal.broadcast_ms={}", LONG.as_millis());
    let heal = ward.command(&["--set", &limit, "sum"]).stdout(Stdio::piped()).spawn().unwrap();
    let asked = || {
        let open = open(&ward);
        open["incidents"][0]["proposalsWanted"] == true
    };
    wait_for("being asked", asked);
    let id = open(&ward)["incidents"][0]["incidentId"].clone();
    let wrong = PATCH.replace("+5", "+6");
    let patch = |text: &str| json!({ "id": id, "kind": "patch", "text": text });
    assert_eq!(eve.call("heal_propose_fix", patch(&wrong))["ok"], true);
    assert_eq!(kim.call("heal_propose_fix", patch(PATCH))["ok"], true);
    let visit = Visit::of(&heal.wait_with_output().unwrap());
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    assert_eq!(ward.read("sum.txt"), "5", "the reporter's came first");
    assert!(!ward.project.dir().join("../turns").exists(), "no agent was needed");
    let story = ward.salve(&["show"]);
    assert!(story.contains("asks everybody for proposals"), "{story}");
    assert!(!story.contains("patch of sum.txt by eve"), "{story}");
}

#[test]
fn who_does_not_answer_is_not_waited_for_longer_than_the_limit() {
    let ward = ward().agent("printf 5 > sum.txt");
    let _silent = attached(&ward, ["silent"]);
    let visit = ward.heal(&["--set", "heal.broadcast_ms=50", "sum"]);
    visit.expect(0, &["asked those who listen (1)", "proven"]);
    let off = self::ward().agent("printf 5 > sum.txt");
    let _silent = attached(&off, ["silent"]);
    let visit = off.heal(&["--set", "heal.broadcast_ms=0", "sum"]);
    visit.expect(0, &["proven"]);
    assert!(!visit.said.contains("asked those who listen"), "{}", visit.said);
}

#[test]
fn an_agent_that_heals_does_not_wait_for_itself() {
    let ward = ward().agent("printf 5 > sum.txt");
    ward.salve(&["events", "note", "the first entry of the journal"]);
    // What started this session starts the heal as well, and waits for it.
    let _own = Client::hello(&ward.project, "own");
    let listens = || ward.read(".salve/events.jsonl").contains("agent_attached");
    wait_for("the session", listens);
    let limit = format!("heal.broadcast_ms={}", 10 * LONG.as_millis());
    let visit = ward.heal(&["--set", &limit, "sum"]);
    visit.expect(0, &["proven"]);
    assert!(!visit.said.contains("asked those who listen"), "{}", visit.said);
}

#[test]
fn a_failure_of_a_specialists_kind_is_the_specialists() {
    let of = |class: &str| {
        let ward = Ward::new().agent("cat > ../task");
        ward.project.write("../expert.sh", "cat > ../expert-task; printf 5 > sum.txt");
        let expert = "command = \"sh ../expert.sh\"\nprompt = \"You know sums by heart.\"";
        let specialist = format!("[specialists.expert]\n{expert}\nclasses = [\"{class}\"]\n");
        ward.project.write("salve.toml", format!("{SETTINGS}{specialist}"));
        ward
    };
    let ward = of("port_conflict");
    ward.heal(&["sum"]).expect(3, &["needs you"]);
    assert!(!ward.project.dir().join("../expert-task").exists(), "it was not its kind");
    let ward = of("runtime_error");
    ward.heal(&["sum"]).expect(0, &["proven"]);
    assert!(ward.read("../expert-task").contains("You know sums by heart."));
    assert!(!ward.project.dir().join("../task").exists(), "the other was not called");
}

/// Adds, and does so wrongly below zero, which no test shows.
const WRONG: &str = "def add(a, b):\n    return a + b if a >= 0 else a - b\n";
const RIGHT: &str = "def add(a, b):\n    return a + b\n";
const SHOWN: &str = "import unittest\nfrom calc import add\n\n\nclass Below(unittest.TestCase):\n    \
                     def test_below(self):\n        self.assertEqual(add(-1, 2), 1)\n";

/// Returns a ward with a green check of Python, of which something was reported.
fn green_ward(agent: &str) -> (Ward, String) {
    let ward = Ward::new();
    ward.project.write("salve.toml", "[checks.sum]\ncommand = \"python3 -B -m unittest -q\"\n");
    ward.project.write("calc.py", WRONG);
    ward.project
        .write("test_calc.py", SHOWN.replace("Below", "Above").replace("-1, 2), 1", "1, 2), 3"));
    ward.project.write("../right.py", RIGHT);
    ward.project.write("../test_below.py", SHOWN);
    let ward = ward.agent(agent);
    let issue = report(&ward, "adds wrongly below zero");
    (ward, format!("issue-{}", &issue[..8]))
}

#[test]
fn what_was_reported_of_a_green_check_is_mended_with_a_test_that_shows_it() {
    let (ward, issue) =
        green_ward("cat > ../task; cp ../right.py calc.py; cp ../test_below.py test_below.py");
    let visit = ward.heal(&["sum"]);
    let settled = format!("{issue} is settled");
    visit.expect(0, &["is worked on", "fail without the rest of it", "proven", &settled]);
    assert!(ward.read("../task").contains("adds wrongly below zero"), "{}", ward.read("../task"));
    assert_eq!((ward.read("calc.py"), ward.read("test_below.py")), (RIGHT.into(), SHOWN.into()));
    assert_eq!(open(&ward)["issues"], json!([]));
    ward.assert_users_work_is_intact();
}

#[test]
fn a_change_that_no_test_shows_settles_nothing_and_is_undone() {
    let (ward, issue) = green_ward("cat > /dev/null; cp ../right.py calc.py");
    let visit = ward.heal(&["sum"]);
    let open_still = format!("{issue} stays open");
    visit.expect(0, &["nothing shows what was reported", &open_still]);
    assert_eq!(ward.read("calc.py"), WRONG);
    assert_eq!(open(&ward)["issues"].as_array().unwrap().len(), 1);
    ward.assert_users_work_is_intact();
}

#[test]
fn a_green_check_alone_settles_nothing() {
    let (ward, issue) = green_ward("");
    let mut heal = ward.project.command(&["heal", "sum"]);
    let visit = Visit::of(&heal.stdin(Stdio::null()).output().unwrap());
    visit.expect(0, &["green", &format!("{issue} stays open")]);
    assert_eq!(open(&ward)["issues"].as_array().unwrap().len(), 1);
}
