//! Others are told what happens, and no target can do harm.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::Value;

use crate::heal::{Visit, Ward, git};
use crate::support::{Project, dev, is_alive, wait_for};

/// A secret of a made-up receiver.
const KEY: &[u8] = b"a receiver's own 32 byte secret.";

/// What was posted.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Post {
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(one, _)| one == name);
        found.map_or("", |(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Returns whether it was signed with this secret.
    pub(crate) fn is_signed_with(&self, secret: &[u8]) -> bool {
        let (id, at) = (self.header("webhook-id"), self.header("webhook-timestamp"));
        let mut mac = Hmac::<sha2::Sha256>::new_from_slice(secret).unwrap();
        mac.update(format!("{id}.{at}.{}", self.body).as_bytes());
        let signature = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
        self.header("webhook-signature") == signature
    }
}

/// What a target does with the nth request, from 0.
type Script = fn(usize) -> Option<&'static str>;

/// A target on this machine.
pub(crate) struct Target {
    pub(crate) url: String,
    posts: Arc<Mutex<Vec<Post>>>,
}

impl Target {
    /// Answers as the script says; without an answer, it hangs.
    fn new(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let posts: Arc<Mutex<Vec<Post>>> = Arc::default();
        let (seen, mut open) = (posts.clone(), Vec::new());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let number = seen.lock().unwrap().len();
                let post = read(&stream);
                seen.lock().unwrap().push(post);
                match script(number) {
                    Some(answer) => drop((&stream).write_all(answer.as_bytes())),
                    None => open.push(stream),
                }
            }
        });
        Self { url, posts }
    }

    pub(crate) fn well() -> Self {
        Self::new(|_| Some("HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n"))
    }

    pub(crate) fn posts(&self) -> Vec<Post> {
        self.posts.lock().unwrap().clone()
    }
}

fn read(stream: &TcpStream) -> Post {
    let mut reader = BufReader::new(stream);
    let (mut headers, mut length) = (Vec::new(), 0);
    for line in reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty()) {
        let Some((name, value)) = line.split_once(':') else { continue };
        let (name, value) = (name.to_ascii_lowercase(), value.trim().to_owned());
        if name == "content-length" {
            length = value.parse().unwrap();
        }
        headers.push((name, value));
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    Post { headers, body: String::from_utf8(body).unwrap() }
}

/// Returns a project with a red check whose moments are told to `url`.
fn told(url: &str, more: &str) -> Ward {
    let ward = Ward::new();
    let hooks = ["escalation", "recovered", "exhausted", "config_change"]
        .map(|moment| format!("on_{moment} = \"{url}\"\n"))
        .concat();
    ward.project.write("salve.toml", format!("[webhooks]\n{hooks}{more}"));
    ward
}

/// Returns what the journal says about telling others.
fn record(project: &Project) -> String {
    let output = project.run(&["events", "--kind", "notified", "--json"]);
    String::from_utf8(output.stdout).unwrap()
}

/// A loop of somebody else's whose tests cannot start, and what its tester proposes.
pub(crate) struct Stuck {
    pub(crate) project: Project,
}

impl Stuck {
    /// What lets the tests start.
    pub(crate) const CURE: &str = "touch started && echo once >> ran";

    pub(crate) fn new(settings: &str) -> Self {
        let project = Project::new();
        project
            .write("tests.sh", "[ -f started ] || { echo 'cannot start: stale cache'; exit 1; }");
        project.write(".gitignore", "loop/\nstarted\nran\n");
        project.write("salve.toml", settings);
        git(&project, &["init", "-q"]);
        git(&project, &["add", "-A"]);
        git(&project, &["commit", "-qm", "first"]);
        Self { project }
    }

    /// Proposes the cure, and returns the service that recovers by it or asks.
    pub(crate) fn attach(&self, args: &[&str]) -> Command {
        let proposal = serde_json::json!({
            "version": 1, "timestamp": jiff::Timestamp::now(),
            "category": "dependency", "severity": "blocking",
            "diagnosis": {
                "error_pattern": "cannot start", "root_cause": "a stale cache",
                "evidence": ["test-output.txt:1"],
            },
            "recovery": {
                "command": Self::CURE, "expected_outcome": "they start", "confidence": "high",
            },
        });
        self.project.write("loop/.next", proposal.to_string());
        let dir = self.project.dir().join("loop");
        std::fs::rename(dir.join(".next"), dir.join("recovery.json")).unwrap();
        let all = [&["loop", "attach", "loop", "--loop", "pinpoint-v1", "--once"], args].concat();
        let mut command = self.project.command(&all);
        command.args(["--", "sh", "tests.sh"]).stdin(Stdio::null()).env("SALVE_USER", "ada");
        command
    }
}

#[test]
fn ac_9_webhook_fires_on_escalation() {
    let target = Target::well();
    let hooks = ["escalation", "recovered"].map(|on| format!("on_{on} = \"{}\"\n", target.url));
    let stuck = Stuck::new(&format!("[webhooks]\nallow_private = true\n{}", hooks.concat()));
    let mut command = stuck.attach(&[]);
    let mut service = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // It is told while the loop waits.
    wait_for("a post", || !target.posts().is_empty());
    let json = target.posts()[0].json();
    assert_eq!(json["type"], "salve.escalation", "{json}");
    let incident = &json["data"]["incident"];
    let subject = (incident["subject"].as_str(), incident["name"].as_str());
    assert_eq!(subject, (Some("iteration"), Some("pinpoint-v1")));
    assert!(json["text"].as_str().unwrap().contains(Stuck::CURE), "what is asked: {json}");
    assert!(!json.to_string().contains("stale cache"), "no line of any log: {json}");
    let approved = stuck.project.run(&["approve-recovery", "--loop", "pinpoint-v1"]);
    assert_eq!(approved.status.code(), Some(0));
    assert_eq!(service.wait().unwrap().code(), Some(0));
    let types: Vec<_> = target.posts().iter().map(|post| post.json()["type"].clone()).collect();
    assert_eq!(types, ["salve.escalation", "salve.recovered"]);
}

#[test]
fn a_message_is_signed_and_says_how_to_answer() {
    let target = Target::well();
    let ward = told(&target.url, "allow_private = true\n");
    let fail = b"AssertionError: expected 5, found 4\n";
    let cure = "printf 5 > sum.txt";
    ward.project.run_with_input(&["memory", "learn", "--command", cure], fail);
    let secrets = format!("[\"whsec_{}\"]", STANDARD.encode(KEY));
    let heal = || {
        let mut command = ward.command(&[]);
        Visit::of(&command.env("SALVE_WEBHOOKS_SECRETS", &secrets).output().unwrap())
    };
    heal().expect(3, &["needs you"]);
    let [post] = target.posts().try_into().unwrap();
    let json = post.json();
    assert_eq!(json["type"], "salve.escalation", "{json}");
    assert_eq!(json["text"], json["content"], "Slack and Discord each have their field");
    assert!(!post.body.contains("expected 5"), "no line of any log: {}", post.body);
    assert!(post.is_signed_with(KEY), "{:?}", post.headers);
    assert!(record(&ward.project).contains("delivered"), "{}", record(&ward.project));
    // What it says can be pasted.
    let commands = json["data"]["commands"].as_array().unwrap();
    let approve = commands[0]["command"].as_str().unwrap();
    let words: Vec<&str> = approve.split(' ').skip(1).collect();
    assert!(ward.salve(&words).contains("said yes to question 1"), "{approve}");
    heal().expect(0, &["healed"]);
    let posts = target.posts();
    assert_eq!(posts.len(), 2, "each is told once: {posts:?}");
    assert_eq!(posts[1].json()["type"], "salve.recovered");
    assert_eq!(posts[1].json()["data"]["incident"]["proof"], "proven");
    assert_ne!(posts[1].header("webhook-id"), post.header("webhook-id"));
}

/// **Invariant:** What was not taken is told again under the same id.
#[test]
fn what_a_target_does_not_take_is_told_by_the_next_run_under_the_same_id() {
    let target = Target::new(|number| (number > 0).then_some("HTTP/1.1 200 OK\r\n\r\n"));
    let ward = told(&target.url, "allow_private = true\n");
    ward.heal(&[]).expect(3, &["needs you"]);
    let record = || record(&ward.project);
    assert!(record().contains("it had not answered when the run ended"), "{}", record());
    // The same question is still open.
    ward.heal(&[]).expect(3, &[]);
    let posts = target.posts();
    let first = posts[0].header("webhook-id").to_owned();
    let again: Vec<_> = posts.iter().filter(|one| one.header("webhook-id") == first).collect();
    assert_eq!(again.len(), 2, "{posts:?}");
    assert_eq!(again[0].body, again[1].body);
    assert_eq!(record().matches("\"delivered\"").count(), posts.len() - 1, "{}", record());
}

#[test]
fn what_salve_was_killed_over_is_told_by_the_next_run() {
    let target = Target::new(|number| (number > 0).then_some("HTTP/1.1 200 OK\r\n\r\n"));
    let ward = told(&target.url, "allow_private = true\n");
    let mut command = ward.command(&[]);
    let mut keeper = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("a post", || !target.posts().is_empty());
    keeper.kill().unwrap();
    keeper.wait().unwrap();
    let due: Value = serde_json::from_str(record(&ward.project).lines().next().unwrap()).unwrap();
    let worker = u32::try_from(due["by"]["salve"]["pid"].as_u64().unwrap()).unwrap();
    // It sees its keeper's end, and what it still writes down does not matter.
    wait_for("the worker's end", || !is_alive(worker));
    ward.heal(&[]).expect(3, &[]);
    let posts = target.posts();
    let first = posts[0].header("webhook-id");
    let again = posts.iter().filter(|one| one.header("webhook-id") == first).count();
    assert_eq!(again, 2, "{posts:?}");
}

#[test]
fn what_was_answered_meanwhile_is_not_told_late() {
    let target = Target::new(|_| None);
    let ward = told(&target.url, "allow_private = true\n");
    ward.heal(&[]).expect(3, &["needs you"]);
    ward.salve(&["resolve", "--note", "by hand"]);
    ward.project.write("sum.txt", "5");
    ward.heal(&[]).expect(0, &["green"]);
    assert_eq!(target.posts().len(), 1);
    assert!(record(&ward.project).contains("answered meanwhile"), "{}", record(&ward.project));
}

#[test]
fn a_target_that_always_fails_leads_elsewhere_or_is_gone_does_no_harm() {
    let elsewhere = Target::well();
    let there = format!("HTTP/1.1 307 There\r\nlocation: {}\r\n\r\n", elsewhere.url).leak();
    static THERE: Mutex<&str> = Mutex::new("");
    *THERE.lock().unwrap() = there;
    for (script, said, again) in [
        ((|_| Some("HTTP/1.1 500 No\r\n\r\n")) as Script, "it answered 500", true),
        (|_| Some(*THERE.lock().unwrap()), "redirects are not followed", false),
        (|_| Some("HTTP/1.1 410 Gone\r\n\r\n"), "gone for good", false),
        (|_| Some("nonsense\r\n\r\n"), "could not be reached", true),
    ] {
        let target = Target::new(script);
        let ward = told(&target.url, "allow_private = true\n");
        ward.heal(&[]).expect(3, &["needs you"]);
        let record = record(&ward.project);
        assert!(record.contains(said), "{said}: {record}");
        assert_eq!(record.contains("undelivered"), again, "{record}");
        assert!(again || target.posts().len() == 1, "{said}");
        let ids: Vec<_> =
            target.posts().iter().map(|p| p.header("webhook-id").to_owned()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] == pair[1]), "{ids:?}");
    }
    assert_eq!(elsewhere.posts().len(), 0);
}

#[test]
fn a_private_address_is_not_sent_to_unless_the_settings_say_so() {
    let target = Target::well();
    let ward = told(&target.url, "");
    ward.heal(&[]).expect(3, &["needs you"]);
    assert!(record(&ward.project).contains("its address is private"), "{}", record(&ward.project));
    let (code, said) = test(&ward.project);
    assert_eq!(code, Some(1));
    assert!(said.contains("webhooks.on_escalation") && said.contains("allow_private"), "{said}");
    assert_eq!(target.posts().len(), 0);
    let set = ["notify", "test", "--json", "--set", "webhooks.allow_private=true"];
    let output = ward.project.run(&set);
    assert_eq!(output.status.code(), Some(0));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["channels"][3]["delivered"], true, "{report}");
    assert_eq!(target.posts().len(), 4);
    assert_eq!(target.posts()[0].json()["type"], "salve.test");
}

fn test(project: &Project) -> (Option<i32>, String) {
    let visit = Visit::of(&project.run(&["notify", "test"]));
    (visit.code, visit.said)
}

#[test]
fn a_secret_that_is_none_is_an_error_that_does_not_show_it() {
    let project = Project::new();
    project.write("salve.toml", "[webhooks]\nsecrets = [\"whsec_tooshort\"]\n");
    let visit = Visit::of(&project.run(&["config", "check"]));
    visit.expect(2, &["salve.toml:2", "webhooks.secrets", "24 to 64 bytes"]);
    assert!(!visit.said.contains("tooshort"), "{}", visit.said);
    project.write("salve.toml", "");
    let (code, said) = test(&project);
    assert_eq!(code, Some(0));
    assert!(said.contains("nobody is told"), "{said}");
}

#[test]
fn the_desktop_shows_what_needs_a_person_once() {
    let ward = Ward::new();
    // A desktop that takes its time: the run ends when the notice is there, and not before.
    let slow = "#!/bin/sh\nsleep 0.3\necho \"$*\" >> \"$0.log\"\n";
    ward.project.write("../bin/notify-send", slow);
    let program = ward.project.dir().join("../bin/notify-send");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let bin = ward.project.dir().join("../bin");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let heal = |display: &str| {
        let mut command = ward.command(&[]);
        command.env("PATH", &path).env("DISPLAY", display).stdout(Stdio::null());
        assert_eq!(command.status().unwrap().code(), Some(3));
    };
    heal("");
    assert!(!bin.join("notify-send.log").exists(), "there is no desktop");
    ward.salve(&["resolve"]);
    heal(":0");
    assert!(bin.join("notify-send.log").exists(), "the run waits for its notice");
    heal(":0");
    let shown = ward.read("../bin/notify-send.log");
    assert_eq!(shown.matches("needs you").count(), 1, "{shown}");
    assert!(shown.contains("--app-name=Salve") && !shown.contains("expected 5"), "{shown}");
}

#[test]
fn a_server_that_is_given_up_is_told_of() {
    let target = Target::well();
    let project = Project::new();
    let hooks = format!("on_exhausted = \"{}\"\nallow_private = true\n", target.url);
    project.write("salve.toml", format!("[webhooks]\n{hooks}"));
    let mut command = dev(&project, &["--", "sh", "-c", "echo Error: boom >&2; exit 1"]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let [post] = target.posts().try_into().unwrap();
    let json = post.json();
    assert_eq!(json["type"], "salve.exhausted", "{json}");
    assert_eq!(json["data"]["incident"]["attempts"], 3);
    assert!(!post.body.contains("boom"), "{}", post.body);
}

#[test]
fn an_accepted_change_of_the_settings_is_told_of() {
    let target = Target::well();
    let ward = told(&target.url, "allow_private = true\n");
    let settings = ward.read("salve.toml");
    let wider = format!("recovery.auto_approve = [\"make\"]\n{settings}");
    let digest = crate::config::agent_edits(&ward.project, &wider);
    let accepted = ward.project.run(&["config", "accept", &digest]);
    assert_eq!(accepted.status.code(), Some(0));
    let posts = target.posts();
    let last = posts.last().unwrap().json();
    assert_eq!(last["type"], "salve.config_change", "{last}");
    assert!(last["data"]["changes"][0].as_str().unwrap().contains("make"), "{last}");
}

/// Returns what the doctor found about one thing: how it is, and what to do.
fn doctor(project: &Project, check: &str, env: &[(&str, &str)]) -> (String, String) {
    let mut command = project.command(&["doctor", "--json", "--project", "."]);
    let output = command.envs(env.iter().copied()).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let finding = findings.iter().find(|finding| finding["check"] == check).unwrap();
    (finding["state"].as_str().unwrap().to_owned(), finding.to_string())
}

#[test]
fn the_doctor_looks_at_who_would_be_told_and_tells_nobody() {
    let target = Target::well();
    let project = Project::new();
    let webhooks = |env: &[(&str, &str)]| doctor(&project, "webhooks", env);
    project.write("salve.toml", "");
    assert_eq!(webhooks(&[]).0, "ok");
    let settings = |more: &str| {
        let url = format!("{}?token=very-private", target.url);
        let hooks = format!("on_escalation = \"{url}\"\non_exhausted = \"{url}\"\n");
        project.write("salve.toml", format!("[webhooks]\n{hooks}{more}"));
    };
    settings("");
    let (state, said) = webhooks(&[]);
    assert_eq!(state, "warn", "{said}");
    let both = "webhooks.on_escalation, webhooks.on_exhausted: 127.0.0.1 is a private address";
    assert!(said.contains(both) && said.contains("webhooks.allow_private"), "{said}");
    assert!(!said.contains("very-private"), "an address may be a secret: {said}");
    settings("allow_private = true\n");
    let (state, said) = webhooks(&[]);
    assert_eq!(state, "warn", "{said}");
    assert!(said.contains("not signed") && said.contains("SALVE_WEBHOOKS_SECRETS"), "{said}");
    let secrets = format!("[\"whsec_{}\"]", STANDARD.encode(KEY));
    let (state, said) = webhooks(&[("SALVE_WEBHOOKS_SECRETS", &secrets)]);
    assert_eq!(state, "ok", "{said}");
    assert_eq!(target.posts().len(), 0);

    let none = [("DISPLAY", ""), ("WAYLAND_DISPLAY", ""), ("TERM", "dumb")];
    assert_eq!(doctor(&project, "desktop", &none).0, "ok");
    let mute = [("DISPLAY", ":0"), ("PATH", "/nowhere"), ("TERM", "dumb")];
    let (state, said) = doctor(&project, "desktop", &mute);
    assert!(state == "warn" && said.contains("notify-send"), "{said}");
}

/// **Invariant:** A link in a message answers its own question, once, and does nothing else.
#[test]
fn a_link_in_a_message_shows_its_question_and_answers_it_once() {
    let target = Target::well();
    let stuck = Stuck::new(&format!(
        "[page]\nurl = \"https://box.example\"\n[webhooks]\nallow_private = true\non_escalation = \"{}\"\n",
        target.url
    ));
    let page = crate::web::Page::of(&stuck.project);
    let mut command = stuck.attach(&[]);
    let mut service = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("a post", || !target.posts().is_empty());
    let links = target.posts()[0].json()["data"]["links"].clone();
    assert!(links["page"].as_str().unwrap().starts_with("https://box.example/incidents/"));
    let link = links["answer"].as_str().unwrap();
    let code = link.strip_prefix("https://box.example/answer#").unwrap();
    assert_eq!(page.get("/answer", "").status, 200);
    assert_eq!(page.get("/api/status", code).status, 401, "the code is no token");
    let session = page.post("/api/session", "", &serde_json::json!({ "code": code }));
    assert_eq!(session.status, 401, "it opens no session");
    for _ in 0..2 {
        let shown = page.post("/api/answer-link", "", &serde_json::json!({ "code": code }));
        assert_eq!(shown.status, 200, "looking uses nothing up: {shown:?}");
        assert!(shown.body.contains("touch started"), "the exact command: {}", shown.body);
    }
    let yes = serde_json::json!({ "code": code, "answer": "approve" });
    assert_eq!(page.post("/api/answer-link/answer", "", &yes).status, 200);
    assert_eq!(service.wait().unwrap().code(), Some(0));
    assert_eq!(page.post("/api/answer-link/answer", "", &yes).status, 404, "it is used up");
}

#[test]
fn in_quiet_hours_a_question_waits_and_the_rest_is_not_told() {
    let target = Target::well();
    let hour = |from_now: i64| {
        let at = jiff::Zoned::now().saturating_add(jiff::SignedDuration::from_hours(from_now));
        at.strftime("%H:%M").to_string()
    };
    let quiet =
        format!("allow_private = true\n[notify]\nquiet_hours = \"{}-{}\"\n", hour(-1), hour(1));
    let ward = told(&target.url, &quiet);
    ward.heal(&[]).expect(3, &["needs you"]);
    assert!(target.posts().is_empty(), "{:?}", target.posts());
    assert!(record(&ward.project).contains("it is a quiet hour"), "{}", record(&ward.project));
    let settings = std::fs::read_to_string(ward.project.dir().join("salve.toml")).unwrap();
    let over = settings.split("[notify]").next().unwrap().to_owned();
    ward.project.write("salve.toml", over);
    ward.heal(&[]).expect(3, &[]);
    assert!(!target.posts().is_empty(), "it is told once the quiet is over");
}
