//! The page's further sections: memory, statistics, logs, settings, jobs.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use salve_core::event::{RemedyKind, RemedyVerdict};
use serde_json::{Value, json};

use crate::care::Care;
use crate::config::agent_edits;
use crate::heal::Ward;
use crate::jobs::Works;
use crate::support::{Project, wait_for};
use crate::web::{Page, first_question, token};

/// Returns a section as the browser gets it.
fn section(page: &Page, session: &str, path: &str) -> String {
    page.stream(&format!("/live{path}"), session, None).until("section", "<h1>").data
}

#[test]
fn memory_is_shown_asked_edited_promoted_and_forgotten_by_people_only() {
    let project = Project::new();
    project.write("salve.toml", "");
    let failure = "Error: Cannot find module 'left-pad'";
    let taught = project.run(&["memory", "learn", "--command", "npm install left-pad", failure]);
    assert!(taught.status.success(), "{taught:?}");
    let page = Page::of(&project);
    let session = page.sign_in();
    let known = page.get("/api/memory", &session).json();
    let signature = known["failures"][0]["knowledge"]["failure"]["signature"].as_str().unwrap();
    assert!(section(&page, &session, "/memory").contains("npm install left-pad"));
    let answer = page.post("/api/memory/check", &session, &json!({ "text": failure })).json();
    assert_eq!(answer["known"], true, "{answer}");
    let html = page.post("/fragment/memory/check", &session, &json!({ "text": failure }));
    assert!(html.body.contains("npm install left-pad"), "{html:?}");
    let edit = json!({ "old": "npm install left-pad", "new": "npm ci" });
    let path = format!("/api/memory/{signature}/edit");
    assert_eq!(page.post(&path, &token(&project, "agent"), &edit).status, 403);
    assert_eq!(page.post(&path, &session, &edit).status, 200);
    assert_eq!(page.post(&path, &session, &edit).status, 409, "the old one is gone");
    let known = page.get("/api/memory", &session).json();
    assert_eq!(known["failures"][0]["knowledge"]["remedies"][0]["remedy"]["text"], "npm ci");
    let promoted = page.post(&format!("/api/memory/{signature}/promote"), &session, &json!({}));
    assert_eq!(promoted.status, 200, "{promoted:?}");
    let own = page.get("/api/memory?whose=user", &session).json();
    assert_eq!(own["failures"][0]["knowledge"]["remedies"][0]["remedy"]["text"], "npm ci");
    let forget = format!("/api/memory/{signature}/forget");
    assert_eq!(page.post(&forget, &session, &json!({})).status, 200);
    assert_eq!(page.post(&forget, &session, &json!({})).status, 404);
    assert_eq!(page.get("/api/memory", &session).json()["failures"], json!([]));
}

#[test]
fn statistics_are_charts_with_tables_and_csv() {
    let project = Project::new();
    let page = Page::of(&project);
    let session = page.sign_in();
    assert!(section(&page, &session, "/statistics").contains("Nothing has failed"));
    let _care = Care::crashed(&project, 9 << 96);
    let shown = section(&page, &session, "/statistics?days=7");
    assert!(shown.contains("<svg") && shown.contains("<table"), "{shown}");
    let csv = page.get("/api/statistics.csv?table=classes&days=7", &session);
    assert!(csv.body.starts_with("class,incidents,recovered,median_heal_ms\r\n"), "{csv:?}");
    assert!(csv.body.contains(",1,0,"), "{csv:?}");
    assert_eq!(page.get("/api/statistics.csv?table=passwords", &session).status, 404);
    assert_eq!(page.get("/api/statistics", &session).json()["incidents"], 1);
}

#[test]
fn a_log_is_searched_and_its_failures_are_marked_and_secrets_stay_out() {
    let project = Project::new();
    let page = Page::of(&project);
    let session = page.sign_in();
    assert!(section(&page, &session, "/logs").contains("No server has written"));
    project.write(
        ".salve/logs/web.log",
        "ready\n\u{1b}[31mError: no such table <users>\u{1b}[0m\n    at db.js:3\nGET / 200\n\
         token ghp_abcdefghijklmnopqrstuvwxyz0123456789\n",
    );
    let all = section(&page, &session, "/logs");
    assert!(
        all.contains("no such table &lt;users&gt;") && all.contains("class=\"ansi-1\""),
        "{all}"
    );
    assert!(!all.contains("ghp_abcdefgh"), "{all}");
    let lines = |query: &str| -> Vec<String> {
        let view = page.get(&format!("/api/logs?{query}"), &session).json();
        let text = |line: &Value| line["text"].as_str().unwrap().to_owned();
        view["lines"].as_array().unwrap().iter().map(text).collect()
    };
    assert_eq!(lines("server=web&show=failures").len(), 2, "the error and its trace");
    assert_eq!(lines("q=get").len(), 1);
    assert_eq!(lines("server=../secrets"), Vec::<String>::new());
}

#[test]
fn settings_tell_where_they_come_from_and_a_widening_waits_for_a_person() {
    let project = Project::new();
    project.write("salve.toml", "[recovery]\nauto_approve = []\n");
    assert!(project.run(&["config", "accept"]).status.success());
    let page = Page::of(&project);
    let session = page.sign_in();
    let rows = page.get("/api/settings", &session).json()["settings"].clone();
    let row = rows.as_array().unwrap().iter().find(|row| row["key"] == "recovery.auto_approve");
    assert_eq!(row.unwrap()["line"], 2, "{row:?}");
    assert!(section(&page, &session, "/settings").contains("salve.toml:2"));
    agent_edits(&project, "[recovery]\nauto_approve = [\"npm ci\"]\n");
    let waiting = section(&page, &session, "/needs-you");
    assert!(waiting.contains("Changed settings wait") && waiting.contains("npm ci"), "{waiting}");
    let digest = page.get("/api/settings", &session).json()["waiting"]["digest"].clone();
    let path = "/api/settings/accept";
    let accept = json!({ "digest": digest });
    assert_eq!(page.post(path, &token(&project, "agent"), &accept).status, 403);
    let other = json!({ "digest": "0".repeat(64) });
    assert_eq!(page.post(path, &session, &other).status, 409, "not what was shown");
    let accepted = page.post(path, &session, &accept);
    assert_eq!(accepted.status, 200, "{accepted:?}");
    assert_eq!(page.get("/api/settings", &session).json()["waiting"], Value::Null);
    let tested = page.post("/api/notices/test", &session, &json!({}));
    assert_eq!(tested.status, 200, "{tested:?}");
}

#[test]
fn a_job_is_seen_and_controlled_as_the_spec_says() {
    let works = Works::new();
    works.salve(&[
        "run",
        "--step",
        "echo one > one.txt",
        "--step",
        "test -f never.txt",
        "--set",
        "job.step_max_attempts=1",
    ]);
    let (id, _) = works.run();
    let page = Page::of(&works.project);
    let session = page.sign_in();
    let shown = section(&page, &session, "/jobs");
    assert!(shown.contains("Resume from here") && shown.contains("checkpoint"), "{shown}");
    let now = section(&page, &session, "/");
    assert!(now.contains("id=\"work-job-") && now.contains("1 of 2 steps done"), "{now}");
    assert!(!now.contains("All is well"), "a job that failed is not well: {now}");
    let path = format!("/api/task-runs/{id}/control");
    let retry = json!({ "action": "retry_step" });
    assert_eq!(page.post(&path, &token(&works.project, "viewer"), &retry).status, 403);
    let unknown = json!({ "action": "resume_from_step", "stepId": "no such step" });
    let refused = page.post(&path, &session, &unknown);
    assert_eq!(refused.status, 400);
    assert!(format!("{refused:?}").contains("0 step-1, 1 step-2"), "{refused:?}");
    let beyond = json!({ "action": "pause", "stepIndex": 1 });
    assert_eq!(page.post(&path, &session, &beyond).status, 400, "only one order names a step");
    let back = page.post(&path, &session, &json!({ "action": "resume_from_step", "stepIndex": 0 }));
    assert_eq!(back.status, 200, "{back:?}");
    let recovery = back.json()["liveControl"]["recovery"].clone();
    assert_eq!(recovery["action"], "resume_from_step", "{recovery}");
    assert_eq!(recovery["requestedBy"], "ada");
    assert_eq!(page.post("/api/task-runs/ffffffff/control", &session, &retry).status, 404);
}

#[test]
fn a_log_that_grows_is_pushed() {
    let project = Project::new();
    let page = Page::of(&project);
    let session = page.sign_in();
    let script = "echo first; while ! test -f go; do sleep 0.05; done; echo second; sleep 600";
    let mut dev = crate::support::dev(&project, &["--", "sh", "-c", script]);
    let mut dev =
        dev.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null()).spawn().unwrap();
    wait_for("a log", || section(&page, &session, "/logs").contains("first"));
    let mut live = page.stream("/live/logs", &session, None);
    live.until("section", "first");
    project.write("go", "");
    live.until("section", "second");
    dev.kill().unwrap();
    dev.wait().unwrap();
}

#[test]
fn an_incident_is_exported_whole_and_replayed_under_other_settings() {
    let project = Project::new();
    let care = Care::crashed(&project, 11 << 96);
    care.choose(RemedyKind::Command, "make <clean>", RemedyVerdict::Ask);
    care.act();
    let page = Page::of(&project);
    let session = page.sign_in();
    let file = page.get(&format!("/api/incidents/{}/export.html", care.id), &session);
    assert!(file.body.starts_with("<!DOCTYPE html>"), "{file:?}");
    assert!(file.body.contains("make &lt;clean&gt;") && file.body.contains("<style>"));
    for needed in ["<script", "<link", "src=", "<form", "<button"] {
        assert!(!file.body.contains(needed), "a file of its own has no {needed}");
    }
    let json = page.get(&format!("/api/incidents/{}/export.json", care.id), &session).json();
    assert_eq!(json["version"], 1);
    let path = format!("/api/incidents/{}/what-if", care.id);
    let same = page.post(&path, &session, &json!({})).json();
    assert_eq!(same["difference"], Value::Null, "{same}");
    let other = page.post(&path, &session, &json!({ "attempts": 0 })).json();
    assert!(other["difference"]["instead"].as_str().unwrap().contains("used up"), "{other}");
    let html = page.post(&format!("/fragment{}", &path[4..]), &session, &json!({ "attempts": 0 }));
    assert!(html.body.contains("exact up to here"), "{html:?}");
    let wrong = page.post(&path, &session, &json!({ "settings": "no.such.key=1" }));
    assert_eq!(wrong.status, 409, "{wrong:?}");
}

#[test]
fn a_run_shows_the_page_beside_it_but_not_to_an_agent() {
    let project = Project::new();
    let mut dev = crate::support::dev(&project, &["--ui", "--", "sh", "-c", "sleep 600"]);
    let mut dev =
        dev.stdout(Stdio::null()).stderr(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(dev.stderr.take().unwrap()).lines();
    let told =
        lines.find_map(|line| Some(line.unwrap().split_once("open it once with ")?.1.to_owned()));
    let page = Page::at_link(&told.unwrap());
    let session = page.sign_in();
    wait_for("the server is shown", || {
        page.get("/api/status", &session).json()["servers"][0]["state"] == "up"
    });
    dev.kill().unwrap();
    dev.wait().unwrap();
    let mut agents = crate::support::dev(&project, &["--ui", "--", "sh", "-c", "sleep 600"]);
    let refused = agents.env("SALVE_AGENT", "1").stdin(Stdio::null()).output().unwrap();
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
}

#[test]
fn the_first_page_says_how_it_all_stands_and_nothing_better_than_that() {
    let ward = Ward::new().agent("sed -i 's/-eq 5/-eq 4/' test.sh");
    let page = Page::of(&ward.project);
    let session = page.sign_in();
    assert!(section(&page, &session, "/").contains("Nothing is under care yet"));
    ward.heal(&[]).expect(3, &["needs you", "salve show"]);
    let now = section(&page, &session, "/");
    assert!(now.contains("You are needed") && now.contains("Checks and tools"), "{now}");
    let asked = section(&page, &session, "/needs-you");
    let unheard = "No salve cares for this now: what you answer takes effect when one does again";
    assert!(asked.contains(unheard) && asked.contains("salve heal -- "), "{asked}");
    let (id, question) = first_question(&page, &session);
    let no = json!({
        "answer": "reject", "question": question["ask"]["number"],
        "digest": question["ask"]["digest"],
    });
    let said = page.post(&format!("/api/incidents/{id}/answer"), &session, &no).json();
    let said = said["said"].as_str().unwrap().to_owned();
    assert!(said.starts_with("Rejected. No salve cares for it now"), "{said}");
    ward.heal(&[]);
    let now = section(&page, &session, "/");
    assert!(now.contains("Something is not well") && now.contains("left alone"), "{now}");
    assert!(!now.contains("Being healed"), "nobody is at it: {now}");
}

#[test]
fn what_an_agent_said_is_kept_with_its_incident_without_secrets() {
    let secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
    let said = format!("echo 'the sum is <wrong>'; echo 'token {secret}'; printf 5 > sum.txt");
    let ward = Ward::new().agent(&said);
    ward.heal(&[]).expect(0, &["healed"]);
    let page = Page::of(&ward.project);
    let session = page.sign_in();
    let row = page.get("/api/incidents", &session).json()["incidents"][0].clone();
    let id = row["id"].as_str().unwrap().to_owned();
    let shown = section(&page, &session, &format!("/incidents/{id}"));
    let words = "said: the sum is &lt;wrong&gt;";
    assert!(shown.contains("What the agent said and did") && shown.contains(words), "{shown}");
    assert!(shown.contains("in your files"), "where its change is now: {shown}");
    let kept = page.get(&format!("/api/incidents/{id}/transcript"), &session);
    assert!(kept.body.contains("attempt 1") && kept.body.contains("ended: "), "{kept:?}");
    let file = page.get(&format!("/api/incidents/{id}/export.html"), &session);
    assert!(file.body.contains(words), "{file:?}");
    for text in [&shown, &kept.body, &file.body] {
        assert!(!text.contains("16C7e42F"), "{text}");
    }
    ward.salve(&["undo"]);
    let shown = section(&page, &session, &format!("/incidents/{id}"));
    assert!(shown.contains("you took it back") && shown.contains("Take the undoing back"));
    assert!(!shown.contains("Undo the repair"), "{shown}");
}
