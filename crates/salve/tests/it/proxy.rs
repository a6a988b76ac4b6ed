//! A server of the Model Context Protocol behind `salve proxy`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver};

use serde_json::{Value, json};

use crate::support::{LONG, Project, is_alive, wait_for};

/// A server with tools that act, look, die, hang and chatter; each start and each act leaves a line
/// in a file.
pub(crate) const SERVER: &str = r#"
import json, os, sys, time
def note(text):
    with open('log', 'a') as f: f.write(text + '\n')
def send(message):
    sys.stdout.write(json.dumps(message) + '\n'); sys.stdout.flush()
def tool(name, **hints):
    return {'name': name, 'inputSchema': {'type': 'object'}, 'annotations': hints}
if os.path.exists('refuse'):
    sys.stderr.write('no licence: password=hunter2secret\n'); sys.exit(3)
note('start %d' % os.getpid())
sys.stderr.write('ready\n'); sys.stderr.flush()
for line in sys.stdin:
    m = json.loads(line)
    method, id = m.get('method'), m.get('id')
    if method == 'initialize':
        note('initialize')
        if os.path.exists('mute'): time.sleep(3600)
        send({'jsonrpc': '2.0', 'id': id, 'result': {'protocolVersion': '2024-11-05' if os.path.exists('older') else m['params']['protocolVersion'], 'capabilities': {'tools': {}}, 'serverInfo': {'name': 'fixture', 'version': '1'}, 'x-future': [1, {'a': None}]}})
    elif method == 'notifications/initialized': note('initialized')
    elif method == 'logging/setLevel':
        note('level ' + m['params']['level']); send({'jsonrpc': '2.0', 'id': id, 'result': {}})
    elif method == 'ping': send({'jsonrpc': '2.0', 'id': id, 'result': {}})
    elif method == 'tools/list':
        send({'jsonrpc': '2.0', 'id': id, 'result': {'tools': [tool('pay'), tool('look', readOnlyHint=True), tool('die', readOnlyHint=True), tool('refused', readOnlyHint=True)]}})
    elif method == 'tools/call':
        name, args = m['params']['name'], m['params'].get('arguments', {})
        note(name)
        if name == 'pay' and args.get('then') == 'die':
            sys.stderr.write('out of memory, token=ghp_16C7e42F292c6912E7710c838347Ae178B4a\n'); sys.stderr.flush(); os._exit(7)
        if name == 'die' and not os.path.exists('survive'): os._exit(8)
        if name == 'look' and os.path.exists('die-once'):
            os.unlink('die-once'); os._exit(9)
        if name == 'hang':
            note('hang'); time.sleep(3600)
        if name == 'chatter':
            print('Listening on stdio'); print('{"level":"info","msg":"x"}'); print('{"id": %s, "result": {' % json.dumps(id)); sys.stdout.flush(); continue
        if name == 'stray':
            send({'jsonrpc': '2.0', 'id': 'x%s' % id, 'result': {'content': []}}); send({'jsonrpc': '2.0', 'id': 4711, 'result': {'content': []}})
        if name == 'twice':
            send({'jsonrpc': '2.0', 'id': id, 'result': {'content': [{'type': 'text', 'text': 'first'}]}})
        if name == 'refused' and not os.path.exists('token'):
            send({'jsonrpc': '2.0', 'id': id, 'result': {'isError': True, 'content': [{'type': 'text', 'text': 'HTTP 401: token expired'}]}}); continue
        if name == 'half':
            sys.stdout.write('{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"' % json.dumps(id)); sys.stdout.write('x' * args.get('size', 10)); sys.stdout.flush(); os._exit(6)
        if name == 'ask':
            send({'jsonrpc': '2.0', 'id': 0, 'method': 'roots/list'}); time.sleep(0.05); os._exit(5)
        text = 'x' * args.get('size', 2)
        send({'result': {'content': [{'type': 'text', 'text': text}]}, 'jsonrpc': '2.0', 'id': id})
    else:
        send({'jsonrpc': '2.0', 'id': id, 'result': {'echo': m}} if id is not None else {'jsonrpc': '2.0', 'method': 'x/heard', 'params': m})
"#;

/// A client with a proxy in front of the fixture.
pub(crate) struct Client {
    pub(crate) child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Client {
    pub(crate) fn new(project: &Project) -> Self {
        Self::with(project, |_| {})
    }

    pub(crate) fn with(project: &Project, set: impl FnOnce(&mut Command)) -> Self {
        project.write("server.py", SERVER);
        Self::behind(project, set)
    }

    /// Starts with the server that the test has written.
    pub(crate) fn behind(project: &Project, set: impl FnOnce(&mut Command)) -> Self {
        let mut command = project.command(&["proxy", "--", "python3", "server.py"]);
        command.env("SALVE_PROXY_RESTART_DELAY_MS", "1");
        set(&mut command);
        Self::of(command)
    }

    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let lines = read_lines(child.stdout.take().unwrap());
        Self { child, stdin, lines }
    }

    /// Starts and greets, as every client does.
    pub(crate) fn greeted(project: &Project) -> Self {
        let mut client = Self::new(project);
        client.greet();
        client
    }

    pub(crate) fn greet(&mut self) {
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {}});
        self.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
        assert_eq!(self.next()["result"]["x-future"], json!([1, {"a": null}]));
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        self.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
        assert_eq!(self.next()["id"], 1);
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.send_line(&message.to_string());
    }

    pub(crate) fn send_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    pub(crate) fn call(&mut self, id: u32, tool: &str, arguments: Value) {
        let params = json!({"name": tool, "arguments": arguments});
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
    }

    pub(crate) fn next_line(&self) -> String {
        self.lines.recv_timeout(LONG).unwrap()
    }

    pub(crate) fn next(&self) -> Value {
        serde_json::from_str(&self.next_line()).unwrap()
    }

    /// Returns the answer with this id, past notifications.
    pub(crate) fn answer(&self, id: u32) -> Value {
        loop {
            let message = self.next();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// Returns the answers that come in one line, past notifications.
    pub(crate) fn next_batch(&self) -> Vec<Value> {
        loop {
            match self.next() {
                Value::Array(answers) => return answers,
                other => assert!(other.get("method").is_some(), "{other}"),
            }
        }
    }

    /// Ends as a client does, and returns the exit code and what came on standard error.
    pub(crate) fn leave(mut self) -> (Option<i32>, String) {
        drop(self.stdin.take());
        let output = self.child.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }
}

fn read_lines(stdout: ChildStdout) -> Receiver<String> {
    let (tell, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines() {
            let Ok(line) = line else { return };
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

pub(crate) fn log(project: &Project) -> String {
    std::fs::read_to_string(project.dir().join("log")).unwrap_or_default()
}

pub(crate) fn count(project: &Project, what: &str) -> usize {
    log(project)
        .lines()
        .filter(|line| *line == what || line.starts_with(&format!("{what} ")))
        .count()
}

pub(crate) fn text_of(answer: &Value) -> String {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// **Invariant:** What a proxy does not know passes byte for byte.
#[test]
fn what_a_proxy_does_not_know_passes_byte_for_byte_both_ways() {
    let project = Project::new();
    let mut client = Client::greeted(&project);
    let odd = r#"{ "zeta":1,"jsonrpc":"2.0", "id":"a\u00e9/7",  "method":"future\/thing","params":{"big":12345678901234567890,"f":1.50}}"#;
    client.send_line(odd);
    let echoed = client.next();
    assert_eq!(echoed["id"], "aé/7");
    assert_eq!(echoed["result"]["echo"]["params"]["big"].to_string(), "12345678901234567890");
    client.send_line(r#"{"jsonrpc":"2.0","method":"x/tell","params":{"n":[1]}}"#);
    assert_eq!(client.next()["params"]["params"]["n"], json!([1]));
    // Many at once come back in order, under their own ids.
    let many: String = (10..200)
        .map(|id| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}{}"#, '\n'))
        .collect();
    client.stdin.as_mut().unwrap().write_all(many.as_bytes()).unwrap();
    for id in 10..200 {
        assert_eq!(client.next()["id"], id);
    }
    let (code, errors) = client.leave();
    assert_eq!((code, &*errors), (Some(0), "ready\n"));
    assert_eq!(count(&project, "start"), 1);
    assert!(!project.dir().join(".salve").exists(), "no store is touched");
}

#[test]
fn a_result_of_fifty_megabytes_streams_through() {
    let project = Project::new();
    let mut client = Client::greeted(&project);
    client.call(5, "look", json!({"size": 50_000_000}));
    client.call(6, "look", json!({"then": "x".repeat(3_000_000)}));
    let line = client.next_line();
    assert!(line.len() > 50_000_000 && line.ends_with(r#""jsonrpc": "2.0", "id": 5}"#));
    assert_eq!(client.next()["id"], 6);
    let worker = worker_of(client.child.id());
    let peak = std::fs::read_to_string(format!("/proc/{worker}/status")).unwrap();
    let peak = peak.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 60_000, "{peak} kB");
    assert_eq!(client.leave().0, Some(0));
}

pub(crate) fn worker_of(keeper: u32) -> u32 {
    let children = format!("/proc/{keeper}/task/{keeper}/children");
    let text = std::fs::read_to_string(children).unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn a_server_that_dies_is_greeted_again_and_what_may_have_acted_is_not_repeated() {
    let project = Project::new();
    let mut client = Client::greeted(&project);
    client.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "logging/setLevel", "params": {"level": "debug"}}));
    assert_eq!(client.next()["id"], 2);
    client.call(7, "pay", json!({"then": "die"}));
    let answer = client.answer(7);
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert_eq!(answer["result"]["resultType"], "complete", "as the newest protocol wants it");
    let text = text_of(&answer);
    assert!(text.contains("exit code 7") && text.contains("may have taken effect"), "{text}");
    assert!(text.contains("out of memory") && !text.contains("ghp_16C7"), "scrubbed: {text}");
    assert_eq!(client.next()["method"], "notifications/tools/list_changed");
    client.call(8, "look", json!({}));
    assert_eq!(text_of(&client.answer(8)), "xx");
    assert_eq!(count(&project, "pay"), 1, "{}", log(&project));
    for (what, times) in [("start", 2), ("initialize", 2), ("initialized", 2), ("level debug", 2)] {
        assert_eq!(count(&project, what), times, "{what}: {}", log(&project));
    }
    let kept = project.home().join("data/salve/logs/mcp-server.log");
    let kept = std::fs::read_to_string(kept).unwrap();
    assert!(kept.contains("out of memory") && !kept.contains("ghp_16C7"), "{kept}");
    assert_eq!(client.leave().0, Some(0));
}

#[test]
fn what_only_looks_is_repeated_once_and_no_more_if_it_kills() {
    let project = Project::new();
    project.write("die-once", "");
    let mut client = Client::greeted(&project);
    client.call(7, "look", json!({}));
    assert_eq!(text_of(&client.answer(7)), "xx");
    assert_eq!(count(&project, "look"), 2);
    client.call(8, "die", json!({}));
    let text = text_of(&client.answer(8));
    assert!(text.contains("exit code 8") && text.contains("has not taken effect"), "{text}");
    assert_eq!(count(&project, "die"), 2);
    assert_eq!(client.leave().0, Some(0));
}

#[test]
fn a_server_that_dies_again_and_again_is_left_alone_until_it_is_wanted() {
    let project = Project::new();
    let mut client = Client::with(&project, |command| {
        command.env("SALVE_PROXY_LONGEST_RESTART_DELAY_MS", "1");
    });
    client.greet();
    project.write("refuse", "");
    client.call(7, "pay", json!({"then": "die"}));
    client.answer(7);
    // Calls that come while it cannot start are answered with the reason and never hang.
    let mut id = 8;
    let text = loop {
        client.call(id, "pay", json!({}));
        let answer = client.answer(id);
        id += 1;
        let text = text_of(&answer);
        if text.contains("no licence") {
            break text;
        }
    };
    assert!(text.contains("exit code 3") && text.contains("has not taken effect"), "{text}");
    assert!(!text.contains("hunter2secret"), "{text}");
    std::fs::remove_file(project.dir().join("refuse")).unwrap();
    wait_for("a working call", || {
        client.call(id, "pay", json!({}));
        let answer = client.answer(id);
        id += 1;
        answer["result"].get("isError").is_none()
    });
    assert_eq!(client.leave().0, Some(0));
}

#[test]
fn a_server_that_never_answers_at_all_ends_the_proxy_with_its_code_and_reason() {
    let project = Project::new();
    project.write("refuse", "");
    let mut client = Client::new(&project);
    client.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}));
    let answer = client.next();
    let text = answer["error"]["message"].as_str().unwrap();
    assert!(text.contains("exit code 3") && text.contains("no licence"), "{text}");
    let (code, errors) = client.leave();
    assert_eq!(code, Some(3));
    assert!(errors.contains("never answered"), "{errors}");
    let missing = project.run(&["proxy", "--", "/nowhere/server"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("was not found"));
}

#[test]
fn a_hung_server_is_replaced_and_a_busy_one_is_not() {
    let project = Project::new();
    let mut client = Client::with(&project, |command| {
        command.env("SALVE_PROXY_HANG_TIMEOUT_MS", "1600");
    });
    client.greet();
    client.call(7, "hang", json!({}));
    let text = text_of(&client.answer(7));
    assert!(text.contains("hung") && text.contains("may have taken effect"), "{text}");
    client.call(8, "look", json!({}));
    assert_eq!(text_of(&client.answer(8)), "xx");
    assert_eq!(client.leave().0, Some(0));
    let busy = Project::new();
    busy.write("busy.py", BUSY);
    let mut command = busy.command(&["proxy", "--", "python3", "busy.py"]);
    command.env("SALVE_PROXY_HANG_TIMEOUT_MS", "800").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"{\"id\":1,\"method\":\"tools/call\"}\n").unwrap();
    let lines = read_lines(child.stdout.take().unwrap());
    let answer: Value = serde_json::from_str(&lines.recv_timeout(LONG).unwrap()).unwrap();
    assert_eq!(answer["result"], "late", "it computed all the while");
    drop(stdin);
    child.wait().unwrap();
}

/// Computes for longer than a hang takes, and answers no ping meanwhile.
const BUSY: &str = "import json, sys, time
m = json.loads(sys.stdin.readline())
end = time.time() + 2.5
while time.time() < end: pass
print(json.dumps({'jsonrpc': '2.0', 'id': m['id'], 'result': 'late'}), flush=True)
sys.stdin.read()
";

#[test]
fn logs_and_broken_lines_on_stdout_do_not_reach_the_client() {
    let project = Project::new();
    let mut client = Client::greeted(&project);
    client.call(7, "chatter", json!({}));
    let text = text_of(&client.next());
    assert!(text.contains("not valid JSON"), "{text}");
    client.call(8, "look", json!({}));
    assert_eq!(client.next()["id"], 8, "nothing of the chatter came between");
    let (code, errors) = client.leave();
    assert_eq!(code, Some(0));
    assert!(errors.contains("Listening on stdio") && errors.contains(r#""msg":"x""#), "{errors}");
}

#[test]
fn a_server_that_dies_in_the_midst_of_an_answer_leaves_no_half_line() {
    for size in [10, 3_000_000] {
        let project = Project::new();
        let mut client = Client::greeted(&project);
        client.call(7, "half", json!({"size": size}));
        let mut line = client.next_line();
        if size > 10 {
            assert!(
                serde_json::from_str::<Value>(&line).is_err(),
                "what was sent cannot be unsent"
            );
            line = client.next_line();
        }
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["id"], 7);
        client.call(8, "look", json!({}));
        assert_eq!(text_of(&client.answer(8)), "xx");
        assert_eq!(client.leave().0, Some(0));
    }
}

#[test]
fn questions_of_a_dead_server_are_withdrawn() {
    let project = Project::new();
    let mut client = Client::greeted(&project);
    client.call(7, "ask", json!({}));
    assert_eq!(client.next()["method"], "roots/list");
    let withdrawn = client.next();
    assert_eq!(withdrawn["method"], "notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], 0);
    client.answer(7);
    assert_eq!(client.leave().0, Some(0));
}

/// **Invariant:** Nothing survives the client of a proxy.
#[test]
fn nothing_survives_the_client_or_either_process_of_the_proxy() {
    for who in ["client", "keeper", "worker"] {
        let project = Project::new();
        let mut client = Client::greeted(&project);
        client.call(7, "hang", json!({}));
        wait_for("the call", || count(&project, "hang") > 0);
        let pid =
            log(&project).lines().next().unwrap().strip_prefix("start ").unwrap().parse().unwrap();
        let keeper = client.child.id();
        let worker = worker_of(keeper);
        let killed = match who {
            "client" => None,
            "keeper" => Some(keeper),
            _ => Some(worker),
        };
        match killed {
            Some(pid) => {
                Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
            }
            None => {
                Command::new("kill").args(["-TERM", &keeper.to_string()]).status().unwrap();
            }
        }
        wait_for(who, || !is_alive(pid) && !is_alive(worker));
        client.child.wait().unwrap();
    }
}

#[test]
fn what_was_asked_before_the_client_left_is_still_answered() {
    let project = Project::new();
    project.write("server.py", SERVER);
    let input = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}";
    let output = project.run_with_input(&["proxy", "--", "python3", "server.py"], input);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 2);
}
