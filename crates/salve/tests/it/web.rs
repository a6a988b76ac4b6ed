//! `salve serve`: the page, its streams and its API, as a browser and a script use them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use salve_core::event::{Effect, RemedyKind, RemedyVerdict};
use serde_json::{Value, json};

use crate::care::Care;
use crate::support::{LONG, Project, wait_for};

/// A running `salve serve`.
pub(crate) struct Page {
    child: Option<Child>,
    pub(crate) host: String,
    pub(crate) code: String,
}

/// What a server answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }
}

impl Page {
    /// Starts the page of a project.
    pub(crate) fn of(project: &Project) -> Self {
        Self::at(project, "0")
    }

    /// Starts the page of a project at a port.
    pub(crate) fn at(project: &Project, port: &str) -> Self {
        Self::with(project, &["--port", port])
    }

    /// Starts the page of a project with these options, which name a port.
    pub(crate) fn with(project: &Project, options: &[&str]) -> Self {
        let args = [&["serve", ".", "--json", "--no-open"], options].concat();
        let mut command = project.command(&args);
        command.env("SALVE_USER", "ada").stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        let link = said["link"].as_str().unwrap();
        let mut page = Self::at_link(link);
        page.child = Some(child);
        page
    }

    /// Returns the page that a link opens; whoever serves it ends it.
    pub(crate) fn at_link(link: &str) -> Self {
        let (url, code) = link.trim().split_once("#code=").unwrap();
        let host = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        Self { child: None, host, code: code.to_owned() }
    }

    /// Sends a request as it stands and returns the answer.
    pub(crate) fn raw(&self, request: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.write_all(request).unwrap();
        let mut bytes = Vec::new();
        // A server that refuses may close before all was sent.
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    /// Sends a request with a token.
    pub(crate) fn ask(&self, method: &str, path: &str, token: &str, body: &str) -> Answer {
        let host = &self.host;
        let length = body.len();
        let kind = if method == "POST" { "content-type: application/json\r\n" } else { "" };
        self.raw(
            format!(
                "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{kind}\
                 authorization: Bearer {token}\r\ncontent-length: {length}\r\n\r\n{body}"
            )
            .as_bytes(),
        )
    }

    pub(crate) fn get(&self, path: &str, token: &str) -> Answer {
        self.ask("GET", path, token, "")
    }

    pub(crate) fn post(&self, path: &str, token: &str, body: &Value) -> Answer {
        self.ask("POST", path, token, &body.to_string())
    }

    /// Turns the one-time code into a session.
    pub(crate) fn sign_in(&self) -> String {
        let answer = self.post("/api/session", "", &json!({ "code": self.code }));
        answer.json()["token"].as_str().unwrap().to_owned()
    }

    /// Opens a stream.
    pub(crate) fn stream(&self, path: &str, token: &str, last_id: Option<u64>) -> EventStream {
        let last = last_id.map_or(String::new(), |id| format!("last-event-id: {id}\r\n"));
        self.stream_of(path, &format!("authorization: Bearer {token}\r\n{last}"))
    }

    /// Opens a stream by a request with these headers.
    pub(crate) fn stream_of(&self, path: &str, headers: &str) -> EventStream {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n{headers}\r\n", self.host);
        stream.write_all(head.as_bytes()).unwrap();
        EventStream { lines: BufReader::new(stream) }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // It may have ended by itself.
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// One client's stream of events.
pub(crate) struct EventStream {
    lines: BufReader<TcpStream>,
}

/// One event of a stream.
#[derive(Debug, Default)]
pub(crate) struct Told {
    name: String,
    id: Option<u64>,
    pub(crate) data: String,
}

impl EventStream {
    /// Returns the next event.
    fn next(&mut self) -> Told {
        let mut told = Told::default();
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "the stream ended");
            let line = line.trim_end();
            if let Some(name) = line.strip_prefix("event: ") {
                told.name = name.to_owned();
            } else if let Some(id) = line.strip_prefix("id: ") {
                told.id = id.parse().ok();
            } else if let Some(data) = line.strip_prefix("data: ") {
                told.data.push_str(data);
            } else if line.is_empty() && !told.name.is_empty() {
                return told;
            }
        }
    }

    /// Returns the first event of that name that holds this text.
    pub(crate) fn until(&mut self, name: &str, text: &str) -> Told {
        loop {
            let told = self.next();
            if told.name == name && told.data.contains(text) {
                return told;
            }
        }
    }
}

/// Opens an incident that asks whether a command may run.
pub(crate) fn asking(project: &Project, id: u128) -> Care {
    let care = Care::crashed(project, id);
    care.choose(RemedyKind::Command, "make \u{202e}clean", RemedyVerdict::Ask);
    assert_eq!(care.act(), Effect::Ask);
    care
}

pub(crate) fn first_question(page: &Page, token: &str) -> (String, Value) {
    let status = page.get("/api/status", token).json();
    let open = status["open"][0].clone();
    let id = open["story"]["repair"]["repairId"].as_str().unwrap().to_owned();
    (id, open["question"].clone())
}

pub(crate) fn token(project: &Project, right: &str) -> String {
    let made = project.run(&["serve", "token", "new", right, &format!("the-{right}")]);
    assert!(made.status.success(), "{made:?}");
    String::from_utf8(made.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_code_opens_the_page_once_and_without_one_nothing_is_told() {
    let project = Project::new();
    let _care = asking(&project, 1 << 96);
    let page = Page::of(&project);
    let frame = page.get("/", "");
    assert_eq!(frame.status, 200);
    assert!(!frame.body.contains("Cannot find module"), "the frame holds no data");
    assert!(frame.head.contains("content-security-policy: default-src 'none'"), "{frame:?}");
    assert!(!frame.head.contains("access-control-"), "{frame:?}");
    for path in ["/api/status", "/api/incidents", "/live/", "/api/events", "/metrics"] {
        assert_eq!(page.get(path, "").status, 401, "{path}");
        assert_eq!(page.get(path, &page.code).status, 401, "a code is no token: {path}");
    }
    let session = page.sign_in();
    assert_eq!(page.get("/api/status", &session).status, 200);
    let again = page.post("/api/session", "", &json!({ "code": page.code }));
    assert_eq!(again.status, 401, "a code is good once");
    let link = String::from_utf8(project.run(&["serve", "--link"]).stdout).unwrap();
    let code = link.trim().split_once("#code=").unwrap().1;
    let other = page.post("/api/session", "", &json!({ "code": code }));
    assert_eq!(other.status, 200, "another browser gets a link of its own");
    page.post("/api/session/end", &session, &json!({}));
    assert_eq!(page.get("/api/status", &session).status, 401);
}

/// **Invariant:** Only an operator who saw the question answers it.
#[test]
fn a_question_is_answered_by_an_operator_who_saw_it_and_by_nobody_else() {
    let project = Project::new();
    let care = asking(&project, 2 << 96);
    let page = Page::of(&project);
    let session = page.sign_in();
    let (id, question) = first_question(&page, &session);
    assert_eq!(question["remedy"]["text"], "make \u{202e}clean");
    let path = format!("/api/incidents/{id}/answer");
    let yes = json!({
        "answer": "approve", "question": question["ask"]["number"],
        "digest": question["ask"]["digest"], "note": "go on",
    });
    for right in ["viewer", "agent"] {
        let answer = page.post(&path, &token(&project, right), &yes);
        assert_eq!(answer.status, 403, "{answer:?}");
        assert!(answer.head.contains("application/problem+json"), "{answer:?}");
    }
    let mut other = yes.clone();
    other["digest"] = json!("0".repeat(64));
    assert_eq!(page.post(&path, &session, &other).status, 409, "it was not what was shown");
    let mut later = yes.clone();
    later["question"] = json!(2);
    assert_eq!(page.post(&path, &session, &later).status, 409);
    assert!(care.kind("approved").is_empty());
    assert_eq!(page.post(&path, &session, &yes).status, 200);
    let approved = care.kind("approved");
    let said = serde_json::to_value(&approved[0].by).unwrap();
    assert!(said.to_string().contains("ada"), "{said}");
    assert_eq!(page.post(&path, &session, &yes).status, 409, "an answer is used once");
}

#[test]
fn a_section_is_pushed_when_it_changes_and_shows_what_cannot_be_seen() {
    let project = Project::new();
    let page = Page::of(&project);
    let session = page.sign_in();
    let mut live = page.stream("/live/needs-you", &session, None);
    live.until("section", "Nothing waits for you");
    let care = asking(&project, 3 << 96);
    let asked = live.until("section", "data-post=\"/api/incidents/");
    assert!(asked.data.contains("\\u{202e}"), "{}", asked.data);
    assert!(!asked.data.contains('\u{202e}'), "{}", asked.data);
    let resolve = json!({ "answer": "resolve", "note": "by hand" });
    let path = format!("/api/incidents/{}/answer", care.id);
    assert_eq!(page.post(&path, &session, &resolve).status, 200);
    live.until("section", "Nothing waits for you");
}

/// **Invariant:** Who comes back is told every entry once.
#[test]
fn who_comes_back_is_told_every_entry_once() {
    let project = Project::new();
    let care = asking(&project, 4 << 96);
    let page = Page::of(&project);
    let session = page.sign_in();
    let all: Vec<u64> = care.entries().iter().map(|entry| entry.seq).collect();
    let mut seen = Vec::new();
    let mut stream = page.stream("/api/events?after=0", &session, None);
    for _ in 0..2 {
        seen.extend(stream.next().id);
    }
    drop(stream);
    // What happens while nobody listens is told later.
    care.store
        .journal()
        .append(salve_core::event::Draft {
            at: jiff::Timestamp::now(),
            by: care.entries()[0].by.clone(),
            incident: None,
            event: salve_core::event::Event::Note(salve_core::event::NoteEvent::Noted {
                text: salve_core::scrub::Scrubbed::literal("meanwhile"),
            }),
        })
        .unwrap();
    let mut stream = page.stream("/api/events", &session, seen.last().copied());
    while seen.len() < all.len() + 1 {
        seen.extend(stream.next().id);
    }
    let last = all.last().unwrap() + 1;
    assert_eq!(seen, all.iter().copied().chain([last]).collect::<Vec<_>>());
    // The page's own stream says the same of its notices.
    let mut live = page.stream("/live/", &session, Some(0));
    let told = live.until("notices", "crash");
    assert_eq!(told.id, Some(last));
}

#[test]
fn a_session_outlives_the_server_and_the_page_goes_on() {
    let project = Project::new();
    let _care = asking(&project, 5 << 96);
    let page = Page::of(&project);
    let session = page.sign_in();
    let port = page.host.rsplit(':').next().unwrap().to_owned();
    drop(page);
    let page = Page::at(&project, &port);
    let mut live = page.stream("/live/", &session, Some(0));
    live.until("section", "You are needed");
}

#[test]
fn incidents_are_listed_page_by_page_filtered_and_searched() {
    let project = Project::new();
    for id in 1..=5_u128 {
        drop(Care::crashed(&project, id << 96));
    }
    let _asking = asking(&project, 6 << 96);
    let page = Page::of(&project);
    let session = page.sign_in();
    let first = page.get("/api/incidents?limit=4", &session);
    let tag = first.head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap().to_owned();
    let first = first.json();
    assert_eq!(first["incidents"].as_array().unwrap().len(), 4);
    let before = first["nextBefore"].as_u64().unwrap();
    let second = page.get(&format!("/api/incidents?limit=4&before={before}"), &session).json();
    assert_eq!(second["incidents"].as_array().unwrap().len(), 2);
    assert_eq!(second["nextBefore"], Value::Null);
    let waiting = page.get("/api/incidents?state=needs-you", &session).json();
    assert_eq!(waiting["incidents"].as_array().unwrap().len(), 1);
    let found = page.get("/api/incidents?q=heal-00000006", &session).json();
    assert_eq!(found["incidents"][0]["state"], "needs_human");
    let none = page.get("/api/incidents?q=nothing+like+it", &session).json();
    assert_eq!(none["incidents"], json!([]));
    let host = &page.host;
    let same = page.raw(
        format!(
            "GET /api/incidents?limit=4 HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\
             authorization: Bearer {session}\r\nif-none-match: {tag}\r\n\r\n"
        )
        .as_bytes(),
    );
    assert_eq!(same.status, 304);
    let metrics = page.get("/metrics", &session).body;
    assert!(metrics.contains("salve_incidents_waiting{project=\"project\"} 1"), "{metrics}");
}

#[test]
fn what_a_server_does_is_seen_and_can_be_ordered() {
    let project = Project::new();
    let page = Page::of(&project);
    let session = page.sign_in();
    let missing = page.post("/api/servers/web/order", &session, &json!({ "order": "restart" }));
    assert_eq!(missing.status, 404, "{missing:?}");
    let script = "echo serving; while :; do sleep 0.05; done";
    let mut dev = crate::support::dev(&project, &["--", "sh", "-c", script]);
    let mut dev =
        dev.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null()).spawn().unwrap();
    let servers = || page.get("/api/status", &session).json()["servers"].clone();
    wait_for("the server is up", || servers()[0]["state"] == "up");
    let name = servers()[0]["server"].as_str().unwrap().to_owned();
    let pid = servers()[0]["pid"].as_u64().unwrap();
    let order =
        page.post(&format!("/api/servers/{name}/order"), &session, &json!({ "order": "restart" }));
    assert_eq!(order.status, 200, "{order:?}");
    wait_for("another process is up", || {
        let servers = servers();
        servers[0]["state"] == "up" && servers[0]["pid"] != pid
    });
    let log = page.get(&format!("/api/servers/{name}/log"), &session);
    assert!(log.body.contains("serving"), "{log:?}");
    assert_eq!(page.get("/api/servers/..secret/log", &session).status, 400);
    dev.kill().unwrap();
    dev.wait().unwrap();
}
