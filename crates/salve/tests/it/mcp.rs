//! Agents reach the repair tools over the Model Context Protocol.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};

use salve_core::event::{Actor, AgentMark, Event, IncidentEvent};
use serde_json::{Value, json};

use crate::care::{Care, SECRET};
use crate::support::{LONG, Project, wait_for};

/// A client of `salve mcp`, speaking by hand.
pub(crate) struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    aside: Vec<Value>,
    last: u64,
}

impl Client {
    fn start(project: &Project) -> Self {
        Self::of(project.command(&["mcp"]))
    }

    /// Returns `salve mcp` as the child of a process that is not these tests, so that the person in
    /// them is not the agent.
    fn of_another(project: &Project) -> Command {
        let salve = project.command(&["mcp"]);
        let mut agent = Command::new("timeout");
        agent.arg("600").arg(salve.get_program()).args(salve.get_args());
        agent.current_dir(project.dir());
        let envs = salve.get_envs().filter_map(|(name, value)| Some((name, value?)));
        agent.env_clear().envs(envs);
        agent
    }

    /// Starts a client of an agent that did not start what these tests start, and shakes hands.
    pub(crate) fn hello_of_another(project: &Project, name: &str) -> Self {
        Self::of(Self::of_another(project)).greet(name)
    }

    fn of(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (to, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).unwrap();
                if to.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, stdin, lines, aside: Vec::new(), last: 0 }
    }

    /// Starts a client and shakes hands.
    pub(crate) fn hello(project: &Project, name: &str) -> Self {
        Self::start(project).greet(name)
    }

    fn greet(self, name: &str) -> Self {
        let mut client = self;
        let params = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": { "name": name, "version": "1" },
        });
        let answer = client.request("initialize", params);
        assert_eq!(answer["result"]["serverInfo"]["name"], "salve", "{answer}");
        client
            .send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string());
        client
    }

    fn send(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(line.as_bytes()).unwrap();
        stdin.write_all(b"\n").unwrap();
        stdin.flush().unwrap();
    }

    /// Returns the first message that `fits`, keeping the others.
    pub(crate) fn expect(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.aside.iter().position(&fits) {
            return self.aside.remove(at);
        }
        loop {
            let message = self.lines.recv_timeout(LONG).unwrap();
            if fits(&message) {
                return message;
            }
            self.aside.push(message);
        }
    }

    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let id = self.last;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(&request.to_string());
        self.expect(|message| message["id"] == id)
    }

    /// Calls a tool and returns its answer, which is the same as text and as data.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        let result = &answer["result"];
        let data = result["structuredContent"].clone();
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), data);
        assert_eq!(result["isError"] == true, data.get("error").is_some(), "{answer}");
        data
    }

    /// Dies without a word.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Leaves as clients do, and waits for the end.
    fn leave(mut self) {
        drop(self.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn marks(care: &Care) -> Vec<(AgentMark, String)> {
    let marks = care.entries().into_iter().filter_map(|entry| match (entry.event, entry.by) {
        (Event::Incident(IncidentEvent::Marked { mark, .. }), Actor::Agent { name }) => {
            Some((mark, name.to_string()))
        }
        _ => None,
    });
    marks.collect()
}

#[test]
fn an_agent_takes_up_a_repair_and_what_it_reports_reaches_the_journal() {
    let project = Project::new();
    let care = Care::crashed(&project, 0xa1b2_c3d4 << 96);
    care.await_agent();
    let mut client = Client::hello(&project, "claude-code");
    let tools = client.request("tools/list", json!({}));
    let tools: Vec<_> = tools["result"]["tools"].as_array().unwrap().clone();
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let want = [
        "canvas_get_repair_task",
        "canvas_mark_repair_step",
        "canvas_get_repair_status",
        "canvas_get_errors",
        "heal_report_issue",
        "heal_get_open_issues",
        "heal_propose_fix",
        "heal_broadcast",
        "check_known_issues",
        "learn_tool_fix",
        "memory_stats",
        "debug_tool",
        "debug_apply",
        "skill_run",
    ];
    assert_eq!(names, want);
    assert_eq!(tools[1]["inputSchema"]["required"], json!(["repairId", "phase"]));

    let id = care.id.to_string();
    let errors = client.call("canvas_get_errors", json!({}));
    assert_eq!(errors["errors"][0]["repairId"], json!(id));
    assert_eq!(errors["errors"][0]["logPath"], ".dev-crash.a1b2c3d4.log");
    assert!(marks(&care).is_empty(), "looking is not taking up");

    let task = client.call("canvas_get_repair_task", json!({}));
    assert_eq!(task["pending"], true);
    assert_eq!(task["phase"], "awaiting_agent");
    assert_eq!(task["repairId"], json!(id));
    client.call("canvas_get_repair_task", json!({ "server": "web" }));
    assert_eq!(marks(&care), [(AgentMark::Started, "claude-code".into())]);

    for phase in ["agent_reading_log", "agent_applying_fix"] {
        let step = json!({ "repairId": id, "phase": phase });
        assert_eq!(client.call("canvas_mark_repair_step", step)["ok"], true);
    }
    let step = json!({
        "repairId": id, "phase": "agent_wrote_files", "message": "Fixed the import",
        "filesChanged": 1, "linesChanged": 3,
    });
    let answer = client.call("canvas_mark_repair_step", step);
    assert_eq!(answer["phase"], "agent_wrote_files");
    let next = "Server will restart automatically after a brief quiet period.";
    assert_eq!(answer["nextStep"], next);
    let status = client.call("canvas_get_repair_status", json!({}));
    assert_eq!(status["phase"], "agent_wrote_files");
    assert_eq!(status["activeRepairs"][0]["agent"][0]["reported"]["linesChanged"], 3);
    let again = client.call("canvas_get_repair_task", json!({}));
    assert_eq!(again["pending"], false);
    assert!(again["nextStep"].as_str().unwrap().contains("canvas_get_repair_status"));

    assert_eq!(care.kind("agent_attached").len(), 1);
    client.leave();
    assert_eq!(care.kind("agent_detached").len(), 1);
}

#[test]
fn a_wrong_call_says_what_is_wrong_and_the_session_goes_on() {
    let project = Project::new();
    let care = Care::crashed(&project, 0xa1b2_c3d4 << 96);
    care.await_agent();
    let id = care.id.to_string();
    let mut client = Client::hello(&project, "bot");
    for noise in ["{", "not json", "[]", "{\"jsonrpc\":\"2.0\",\"id\":true}", "\u{0}\u{1}"] {
        client.send(noise);
    }
    let unknown = client.request("tools/call", json!({ "name": "rm", "arguments": {} }));
    assert!(unknown["error"]["message"].as_str().unwrap().contains("canvas_get_errors"));
    let method = client.request("no/such/method", json!({}));
    assert!(method["error"].is_object(), "{method}");

    for (arguments, want) in [
        (json!({}), "repairId"),
        (json!({ "repairId": id, "phase": "done" }), "not a phase"),
        (json!({ "repairId": id, "phase": "agent_started" }), "not a phase"),
        (json!({ "repairId": "ffffffff", "phase": "agent_wrote_files" }), "no repair has the id"),
        (json!({ "repairId": "../..", "phase": "agent_wrote_files" }), "no repair has the id"),
        (json!({ "repairId": id, "phase": "agent_wrote_files", "filesChanged": -1 }), "-1"),
        (json!({ "repairId": id, "phase": "agent_wrote_files", "attempt": 9 }), "has not begun"),
    ] {
        let answer = client.call("canvas_mark_repair_step", arguments.clone());
        assert!(answer["error"].as_str().unwrap().contains(want), "{arguments}: {answer}");
        assert!(!answer["nextStep"].as_str().unwrap().is_empty(), "{answer}");
    }
    let missing = client.call(
        "canvas_mark_repair_step",
        json!({ "repairId": "ffff", "phase": "agent_wrote_files" }),
    );
    assert!(missing["nextStep"].as_str().unwrap().contains(&id), "{missing}");
    assert!(marks(&care).is_empty());
    // Models add fields of their own; they do no harm.
    let step = json!({ "repairId": id, "phase": "agent_reading_log", "thoughts": ["x"] });
    let answer = client.call("canvas_mark_repair_step", step);
    assert!(answer["error"].is_null(), "{answer}");
    assert_eq!(marks(&care).len(), 1);
    client.leave();
}

#[test]
fn what_an_agent_says_is_scrubbed_and_cut() {
    let project = Project::new();
    let care = Care::crashed(&project, 7 << 96);
    care.await_agent();
    let mut client = Client::hello(&project, &format!("bot {SECRET}"));
    let message = format!("token={SECRET} {}", "long ".repeat(400_000));
    let step = json!({
        "repairId": care.id.to_string(), "phase": "agent_reading_log", "message": message,
    });
    assert_eq!(client.call("canvas_mark_repair_step", step)["ok"], true);
    let wrong = client.call("canvas_get_errors", json!({ "server": [SECRET] }));
    assert!(!wrong.to_string().contains(SECRET), "{wrong}");
    let entry = care.kind("marked").pop().unwrap();
    let Event::Incident(IncidentEvent::Marked { message: Some(said), .. }) = entry.event else {
        panic!()
    };
    assert!(said.as_str().len() <= 2_000);
    client.leave();
    let journal = std::fs::read_to_string(project.dir().join(".salve/events.jsonl")).unwrap();
    assert!(journal.contains("agent_attached") && !journal.contains(SECRET));
}

#[test]
fn crash_logs_and_stories_are_resources_that_tell_when_they_change() {
    let project = Project::new();
    let care = Care::crashed(&project, 0xa1b2_c3d4 << 96);
    project.write(".dev-crash.a1b2c3d4.log", format!("API_TOKEN={SECRET}\nCannot find module\n"));
    let id = care.id;
    let (log, story) = (format!("salve://crash-log/{id}"), format!("salve://incident/{id}"));
    let mut client = Client::hello(&project, "bot");
    let list = client.request("resources/list", json!({}));
    let list = list["result"]["resources"].as_array().unwrap().clone();
    let uris: Vec<_> = list.iter().map(|resource| resource["uri"].as_str().unwrap()).collect();
    assert_eq!(uris, ["salve://issues", &story, &log]);
    let text = client.request("resources/read", json!({ "uri": log }));
    let text = text["result"]["contents"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains("Cannot find module") && !text.contains(SECRET), "{text}");
    let told = client.request("resources/read", json!({ "uri": story }));
    let told = told["result"]["contents"][0]["text"].as_str().unwrap().to_owned();
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["repair"]["phase"], "repair_started");
    for uri in ["salve://crash-log/x", "file:///etc/passwd", "salve://incident/ffffffff"] {
        let missing = client.request("resources/read", json!({ "uri": uri }));
        assert!(missing["error"]["message"].as_str().unwrap().contains(uri), "{missing}");
    }

    let subscribed = client.request("resources/subscribe", json!({ "uri": story }));
    assert!(subscribed["result"].is_object(), "{subscribed}");
    care.await_agent();
    let updated = "notifications/resources/updated";
    let news = client.expect(|message| message["method"] == updated);
    assert_eq!(news["params"]["uri"], json!(story));
    let _other = Care::crashed(&project, 0xb << 120);
    client.expect(|message| message["method"] == "notifications/resources/list_changed");
    client.leave();
}

#[test]
fn a_crash_log_that_is_a_link_is_not_followed() {
    let project = Project::new();
    let care = Care::crashed(&project, 0xa1b2_c3d4 << 96);
    project.write("elsewhere", "private");
    let link = project.dir().join(".dev-crash.a1b2c3d4.log");
    std::os::unix::fs::symlink(project.dir().join("elsewhere"), link).unwrap();
    let mut client = Client::hello(&project, "bot");
    let uri = format!("salve://crash-log/{}", care.id);
    let answer = client.request("resources/read", json!({ "uri": uri }));
    assert!(answer["error"].is_object() && !answer.to_string().contains("private"), "{answer}");
}

#[test]
fn a_project_without_a_store_stays_without_until_there_is_one() {
    let project = Project::new();
    let mut client = Client::hello(&project, "bot");
    let task = client.call("canvas_get_repair_task", json!({}));
    assert_eq!(task["pending"], false);
    assert!(task["nextStep"].as_str().unwrap().contains("salve dev"), "{task}");
    assert_eq!(client.call("canvas_get_errors", json!({}))["errors"], json!([]));
    assert_eq!(client.call("canvas_get_repair_status", json!({}))["active"], false);
    assert!(!project.dir().join(".salve").exists());
    let care = Care::crashed(&project, 1 << 96);
    wait_for("attaching", || care.kind("agent_attached").len() == 1);
    care.await_agent();
    assert_eq!(client.call("canvas_get_repair_task", json!({}))["pending"], true);
    client.leave();
}

#[test]
fn of_many_sessions_one_takes_the_repair_up_and_a_killed_one_leaves_nothing_behind() {
    let project = Project::new();
    let care = Care::crashed(&project, 1 << 96);
    care.await_agent();
    let mut clients: Vec<_> =
        (0..4).map(|n| Client::hello(&project, &format!("bot {n}"))).collect();
    std::thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(|| {
                let task = client.call("canvas_get_repair_task", json!({}));
                assert_eq!(task["pending"], true, "{task}");
            });
        }
    });
    assert_eq!(marks(&care).len(), 1, "it is taken up once");
    let mut killed = clients.remove(0);
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    let step = json!({ "repairId": care.id.to_string(), "phase": "agent_wrote_files" });
    assert_eq!(clients[0].call("canvas_mark_repair_step", step.clone())["ok"], true);
    let late = clients[1].call("canvas_mark_repair_step", step);
    assert!(late["error"].as_str().unwrap().contains("out of order"), "{late}");
    assert_eq!(care.kind("agent_attached").len(), 4);
    clients.into_iter().for_each(Client::leave);
    assert_eq!(care.kind("agent_detached").len(), 3, "the killed one could not say so");
}

/// **Invariant:** A report of an agent counts only for its own attempt.
#[test]
fn a_report_is_bound_to_the_attempt_whose_task_the_session_got() {
    let project = Project::new();
    let care = Care::crashed(&project, 1 << 96);
    care.await_agent();
    let id = care.id.to_string();
    let mut slow = Client::hello(&project, "slow");
    assert_eq!(slow.call("canvas_get_repair_task", json!({}))["attempt"], 1);
    let reason = salve_core::scrub::Scrubbed::literal("the agent was stopped");
    let report = salve_core::event::EffectReport::failed(reason);
    care.write(Event::Incident(IncidentEvent::Finished { effect: 2, report }));
    care.await_agent();
    let step = json!({ "repairId": id, "phase": "agent_wrote_files" });
    let late = slow.call("canvas_mark_repair_step", step.clone());
    assert!(late["error"].as_str().unwrap().contains("attempt 1 is over"), "{late}");
    assert_eq!(slow.call("canvas_get_repair_task", json!({}))["attempt"], 2);
    assert_eq!(slow.call("canvas_mark_repair_step", step)["ok"], true);
    slow.leave();
}

/// Sends one proper HTTP request and returns the whole answer.
fn post(address: &str, headers: &str, body: &str) -> String {
    let json = "Content-Type: application/json\r\n";
    post_as(address, &format!("Host: {address}\r\n{json}{headers}"), body)
}

/// Sends one HTTP request with these headers and returns the whole answer.
fn post_as(address: &str, headers: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let accept = "application/json, text/event-stream";
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nConnection: close\r\nAccept: {accept}\r\n\
         Content-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

/// The tools, served over HTTP.
struct Served {
    child: Child,
    address: String,
    bearer: String,
}

impl Served {
    fn start(project: &Project) -> Self {
        let mut command = project.command(&["--json", "mcp", "--http", "127.0.0.1:0"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        let url = ready["url"].as_str().unwrap();
        let address = url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
        let token = std::fs::read_to_string(ready["tokenFile"].as_str().unwrap()).unwrap();
        Self { child, address, bearer: format!("Authorization: Bearer {}\r\n", token.trim()) }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn hello() -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": { "name": "bot", "version": "1" },
    }})
    .to_string()
}

#[test]
fn over_http_only_those_on_this_machine_who_show_the_token_are_served() {
    let project = Project::new();
    let away = project.run(&["mcp", "--http", "0.0.0.0:0"]);
    assert_eq!(away.status.code(), Some(2));
    let served = Served::start(&project);
    let (address, bearer) = (&*served.address, &*served.bearer);
    let hello = hello();
    let answer = post(address, "", &hello);
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    let answer = post(address, "Authorization: Bearer wrong\r\n", &hello);
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    let evil = format!("{bearer}Origin: https://evil.example\r\n");
    let answer = post(address, &evil, &hello);
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    let answer = post(address, bearer, &hello);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"salve\""), "{answer}");
}

#[test]
fn over_http_only_what_a_client_on_this_machine_would_send_is_served() {
    let project = Project::new();
    let served = Served::start(&project);
    let (address, bearer) = (&*served.address, &*served.bearer);
    let port = address.rsplit(':').next().unwrap();
    let host = |host: &str| format!("Host: {host}\r\n");
    let json = "Content-Type: application/json\r\n";
    let own = host(address);
    let rows = [
        ("200", format!("{own}{json}")),
        ("200", format!("{}{json}", host(&format!("localhost:{port}")))),
        ("200", format!("{own}{json}Origin: http://{address}\r\n")),
        ("200", format!("{own}Content-Type: application/json; charset=utf-8\r\n")),
        ("403", format!("{}{json}", host("127.0.0.1"))),
        ("403", format!("{}{json}", host("localhost"))),
        ("403", format!("{}{json}", host("localhost:1"))),
        ("403", format!("{}{json}", host("evil.example"))),
        ("403", format!("{}{json}", host(&format!("evil.example:{port}")))),
        ("403", format!("{}{json}", host(&format!("localhost.evil.example:{port}")))),
        ("4", format!("{own}{}{json}", host("evil.example"))),
        ("4", json.to_owned()),
        ("403", format!("{own}{json}Origin: http://localhost\r\n")),
        ("403", format!("{own}{json}Origin: https://localhost:{port}\r\n")),
        ("403", format!("{own}{json}Origin: null\r\n")),
        ("403", format!("{own}{json}Origin: http://{address}\r\nOrigin: http://evil\r\n")),
        ("415", own.clone()),
        ("415", format!("{own}Content-Type: text/plain\r\n")),
        ("415", format!("{own}Content-Type: application/jsonx\r\n")),
        ("415", format!("{own}Content-Type: text/plain; application/json\r\n")),
        ("415", format!("{own}{json}Content-Type: text/plain\r\n")),
    ];
    for (want, headers) in rows {
        let answer = post_as(address, &format!("{bearer}{headers}"), &hello());
        assert!(answer.starts_with(&format!("HTTP/1.1 {want}")), "{headers}: {answer}");
    }
}

#[test]
fn over_http_nobody_holds_a_place_without_asking_and_sessions_are_bounded() {
    let project = Project::new();
    let served = Served::start(&project);
    let (address, bearer) = (&*served.address, &*served.bearer);
    let mut slow: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            write!(stream, "POST /mcp HTTP/1.1\r\nHost: ").unwrap();
            stream
        })
        .collect();
    let answers = (0..40).map(|_| post(address, bearer, &hello())).collect::<Vec<_>>();
    assert!(answers[0].starts_with("HTTP/1.1 200"), "{}", answers[0]);
    assert!(answers[39].starts_with("HTTP/1.1 503"), "{}", answers[39]);
    // Who only began to ask is sent away.
    let mut rest = String::new();
    slow[0].set_read_timeout(Some(LONG)).unwrap();
    let ended = slow[0].read_to_string(&mut rest).map_err(|error| error.kind());
    // One who is still waited for would only be told by our own time-out.
    let is_sent_away = matches!(ended, Ok(_) | Err(std::io::ErrorKind::ConnectionReset));
    assert!(is_sent_away && !rest.contains("200"), "{ended:?}: {rest}");
}
