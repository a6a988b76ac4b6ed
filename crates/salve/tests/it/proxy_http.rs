//! A server that is reached by HTTP, behind `salve proxy --url`.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::support::{Project, mcp_server, tool, wait_for};

/// What all servers here begin with.
const BEGIN: &str = r#"
import base64, json, os, socket, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
sessions = set()
def note(text):
    with open('log', 'a') as f: f.write(text + '\n')
class Base(BaseHTTPRequestHandler):
    def log_message(self, *_): pass
    def reply(self, code, body=b'', kind='application/json', **headers):
        self.send_response(code); self.send_header('content-type', kind)
        if self.protocol_version == 'HTTP/1.1' or kind == 'application/json': self.send_header('content-length', str(len(body)))
        for name, value in headers.items(): self.send_header(name.replace('_', '-'), value)
        self.end_headers(); self.wfile.write(body); self.wfile.flush()
    def do_GET(self): self.reply(405)
    def do_DELETE(self):
        note('delete')
        self.reply(200)
    def message(self):
        m = json.loads(self.rfile.read(int(self.headers['content-length'])))
        return m, m.get('id'), m.get('method'), self.headers.get('mcp-session-id')
    def begun(self, session, version, **capabilities):
        sessions.add(session)
        answer = {'jsonrpc': '2.0', 'id': self.id, 'result': {'protocolVersion': version, 'capabilities': {'tools': {}, **capabilities}}}
        self.reply(200, json.dumps(answer, indent=1).encode(), mcp_session_id=session)
    def has_forgotten(self, session):
        if session in sessions and not os.path.exists('forget'): return False
        if os.path.exists('forget'): os.unlink('forget')
        sessions.discard(session)
        return True
"#;

/// What all end with: each answers at the port at which it did before.
const END: &str = r#"
port = int(open('port').read()) if os.path.exists('port') else 0
open('starting', 'w').close()
while os.path.exists('closed'): time.sleep(0.01)
server = ThreadingHTTPServer(('127.0.0.1', port), Handler)
with open('port.new', 'w') as f: f.write(str(server.server_port))
os.rename('port.new', 'port')
server.serve_forever()
"#;

/// A server with sessions, which answers by JSON or by a stream of events.
const SERVER: &str = r#"
class Handler(Base):
    protocol_version = 'HTTP/1.1'
    def do_POST(self):
        m, self.id, method, session = self.message()
        note('%s %s' % (method, self.headers.get('mcp-protocol-version')))
        if method == 'initialize': return self.begun('s%d' % (len(sessions) + 1), '2025-06-18')
        if self.has_forgotten(session): return self.reply(404)
        if self.id is None: return self.reply(202)
        name = m.get('params', {}).get('name')
        if name == 'orders' and not os.path.exists('token'): return self.reply(401, b'token expired', 'text/plain')
        if name == 'busy' and not os.path.exists('waited'):
            open('waited', 'w').close(); return self.reply(429, retry_after='1')
        result = {'content': [{'type': 'text', 'text': 'x' * m.get('params', {}).get('arguments', {}).get('size', 2)}]}
        answer = json.dumps({'jsonrpc': '2.0', 'id': self.id, 'result': result})
        if name == 'stream':
            told = json.dumps({'jsonrpc': '2.0', 'method': 'notifications/progress', 'params': {'progress': 1}})
            return self.reply(200, ('event: message\ndata: %s\n\n: still here\n\ndata: %s\n\n' % (told, answer)).encode(), 'text/event-stream')
        self.reply(200, answer.encode())
"#;

fn write_server(project: &Project, handler: &str) {
    project.write("server.py", [BEGIN, handler, END].concat());
}

fn address(project: &Project) -> String {
    let port = std::fs::read_to_string(project.dir().join("port")).unwrap();
    format!("http://127.0.0.1:{port}/mcp")
}

/// A client of a proxy in front of the server.
struct HttpClient {
    server: Child,
    proxy: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl HttpClient {
    fn new(project: &Project) -> Self {
        let mut client = Self::before(project, SERVER);
        let hello = client.ask(0, "initialize", &json!({"protocolVersion": "2025-06-18"}));
        assert_eq!(hello["result"]["protocolVersion"], "2025-06-18");
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    /// Starts in front of a server, and does not greet it.
    fn before(project: &Project, script: &str) -> Self {
        write_server(project, script);
        let server = Self::serve(project);
        wait_for("the server", || project.dir().join("port").exists());
        let url = address(project);
        Self::of(server, project.command(&["proxy", "--url", &url]))
    }

    fn of(server: Child, mut proxy: Command) -> Self {
        proxy.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut proxy = proxy.spawn().unwrap();
        let (stdin, stdout) = (proxy.stdin.take(), proxy.stdout.take().unwrap());
        Self { server, proxy, stdin, lines: BufReader::new(stdout).lines() }
    }

    fn serve(project: &Project) -> Child {
        let mut server = Command::new("python3");
        server.arg("server.py").current_dir(project.dir()).stdin(Stdio::null()).spawn().unwrap()
    }

    fn send(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{message}\n").as_bytes()).unwrap();
    }

    fn next(&mut self) -> Value {
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }

    fn ask(&mut self, id: u32, method: &str, params: &Value) -> Value {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let message = self.next();
            if message["id"] == id {
                return message;
            }
        }
    }

    fn call(&mut self, id: u32, tool: &str, arguments: &Value) -> Value {
        self.ask(id, "tools/call", &json!({"name": tool, "arguments": arguments}))
    }
}

impl Drop for HttpClient {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.proxy.wait();
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn a_server_behind_an_address_is_one_like_any_other() {
    let project = Project::new();
    project.write(
        "salve.toml",
        "[[auto_heal.rules]]\nmatch = \"401|token expired\"\nrun = \"touch token\"\n",
    );
    let mut client = HttpClient::new(&project);
    let streamed = json!({"name": "stream", "arguments": {}});
    client.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": streamed}));
    assert_eq!(client.next()["method"], "notifications/progress");
    assert_eq!(client.next()["result"]["content"][0]["text"], "xx");
    // A session that the server forgot is started over, and the call gets its answer.
    project.write("forget", "");
    assert_eq!(client.call(2, "look", &json!({}))["result"]["content"][0]["text"], "xx");
    // What fails is healed as with any other server.
    assert_eq!(client.call(3, "orders", &json!({}))["result"]["content"][0]["text"], "xx");
    assert_eq!(client.call(4, "busy", &json!({}))["result"]["content"][0]["text"], "xx");
    let large = client.call(5, "look", &json!({"size": 50_000_000}));
    assert_eq!(large["result"]["content"][0]["text"].as_str().unwrap().len(), 50_000_000);
    drop(client);
    let log = std::fs::read_to_string(project.dir().join("log")).unwrap();
    assert_eq!(log.lines().filter(|line| line.starts_with("initialize ")).count(), 2, "{log}");
    assert!(log.contains("notifications/initialized 2025-06-18"), "{log}");
    assert!(log.ends_with("delete\n"), "the server is told that the session is over: {log}");
}

#[test]
fn one_of_several_servers_may_be_behind_an_address() {
    let project = Project::new();
    let near = mcp_server(
        &json!([tool("near")]),
        "\n        send(id, {'content': [{'type': 'text', 'text': 'near'}]})\n",
    );
    project.write("near.py", near);
    write_server(&project, MODERN);
    let server = HttpClient::serve(&project);
    wait_for("the server", || project.dir().join("port").exists());
    let far = format!("far={}", address(&project));
    let near = ["proxy", "--server", "near=python3 near.py", "--server", &far];
    let mut client = HttpClient::of(server, project.command(&near));
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
    let listed = client.ask(1, "tools/list", &json!({"_meta": meta}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["near", "look", "deploy"], "{listed}");
    let answer = client.ask(2, "tools/call", &json!({"name": "look", "_meta": meta}));
    assert_eq!(answer["result"]["about"], "look", "{answer}");
}

#[test]
fn a_server_that_is_not_there_is_said_so_and_its_client_lives() {
    let project = Project::new();
    let mut client = HttpClient::new(&project);
    client.server.kill().unwrap();
    client.server.wait().unwrap();
    let refused = client.ask(1, "tools/list", &json!({}));
    let said = refused["error"]["message"].as_str().unwrap();
    assert!(said.contains("connection refused") || said.contains("connection reset"), "{said}");
}

#[test]
fn a_server_that_is_started_again_is_waited_for_and_gets_what_it_never_had() {
    let project = Project::new();
    let mut client = HttpClient::new(&project);
    assert_eq!(client.call(1, "look", &json!({}))["result"]["content"][0]["text"], "xx");
    std::fs::remove_file(project.dir().join("starting")).unwrap();
    project.write("closed", "");
    let next = HttpClient::serve(&project);
    wait_for("the next server", || project.dir().join("starting").exists());
    client.server.kill().unwrap();
    client.server.wait().unwrap();
    client.server = next;
    let look = json!({"name": "look", "arguments": {}});
    client.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": look}));
    std::fs::remove_file(project.dir().join("closed")).unwrap();
    // Its session is another one, which is begun as the first was.
    let answer = loop {
        let message = client.next();
        if message["id"] == 2 {
            break message;
        }
    };
    assert_eq!(answer["result"]["content"][0]["text"], "xx", "{answer}");
    let log = std::fs::read_to_string(project.dir().join("log")).unwrap();
    assert_eq!(log.lines().filter(|line| line.starts_with("initialize ")).count(), 2, "{log}");
}

/// A server with sessions whose streams break off and can be taken up, which speaks unasked, and
/// which says by 400 that it does not know a session.
const RESUMABLE: &str = r#"
def event(id, message, retry=''): return ('%sid: %s\ndata: %s\n\n' % (retry, id, json.dumps(message) if message else '')).encode()
class Handler(Base):
    def do_DELETE(self): self.reply(200)
    def do_GET(self):
        last = self.headers.get('last-event-id')
        note('GET %s %s' % (self.headers.get('mcp-session-id'), last))
        if last is None:
            return self.reply(200, event('u1', {'jsonrpc': '2.0', 'method': 'notifications/message', 'params': {'n': 1}}, 'retry: 100\n'), 'text/event-stream')
        if last == 'u1':
            self.reply(200, event('u2', {'jsonrpc': '2.0', 'method': 'notifications/message', 'params': {'n': 2}}), 'text/event-stream')
            return threading.Event().wait(600)
        if last == 'a1': return self.reply(200, event('a2', None), 'text/event-stream')
        if last == 'a2': return self.reply(200, event('a3', {'jsonrpc': '2.0', 'id': 7, 'result': {'content': [{'type': 'text', 'text': 'late'}]}}), 'text/event-stream')
        self.reply(400, b'{}')
    def do_POST(self):
        m, self.id, method, session = self.message()
        note('%s %s' % (method, m.get('params', {}).get('level', '')))
        if method == 'initialize':
            return self.begun('s%d' % (len(open('log').read().split('initialize')) - 1), '2025-11-25', logging={})
        if self.has_forgotten(session):
            return self.reply(400, json.dumps({'jsonrpc': '2.0', 'id': None, 'error': {'code': -32000, 'message': 'Bad Request: No valid session ID provided'}}).encode())
        if self.id is None: return self.reply(202)
        if method == 'tools/call': return self.reply(200, event('a1', None, 'retry: 100\n'), 'text/event-stream')
        self.reply(200, json.dumps({'jsonrpc': '2.0', 'id': self.id, 'result': {}}).encode())
"#;

#[test]
fn a_stream_that_is_cut_off_is_taken_up_where_it_was() {
    let project = Project::new();
    let mut client = HttpClient::before(&project, RESUMABLE);
    client.ask(0, "initialize", &json!({"protocolVersion": "2025-11-25"}));
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    // What is said unasked comes on after its stream broke.
    assert_eq!(client.next()["params"]["n"], 1);
    assert_eq!(client.next()["params"]["n"], 2);
    // The server hangs up twice in the midst of a call, and answers who asks it to go on.
    let answer = client.call(7, "order", &json!({}));
    assert_eq!(answer["result"]["content"][0]["text"], "late", "{answer}");
    let log = || std::fs::read_to_string(project.dir().join("log")).unwrap();
    assert_eq!(log().matches("tools/call").count(), 1, "it is not called again: {}", log());
    // What the client had set holds in the session that is started over, and it reads lists again.
    client.ask(8, "logging/setLevel", &json!({"level": "debug"}));
    project.write("forget", "");
    client.send(&json!({"jsonrpc": "2.0", "id": 9, "method": "ping"}));
    let mut got = [client.next(), client.next()];
    got.sort_by_key(|message| message["id"].as_u64());
    assert_eq!(got[0]["method"], "notifications/tools/list_changed");
    assert_eq!((&got[1]["id"], &got[1]["result"]), (&json!(9), &json!({})));
    drop(client);
    let log = log();
    let again: Vec<&str> = log.lines().skip_while(|line| !line.starts_with("ping")).collect();
    let posts: Vec<&str> = again.iter().filter(|line| !line.starts_with("GET")).copied().collect();
    let want =
        ["ping ", "initialize ", "notifications/initialized ", "logging/setLevel debug", "ping "];
    assert_eq!(posts, want, "{log}");
}

/// A server of the newer protocol, which has no sessions and refuses what its headers do not say.
const MODERN: &str = r#"
def plain(text):
    return base64.b64decode(text[9:-2]).decode() if text and text.startswith('=?base64?') else text
class Handler(Base):
    protocol_version = 'HTTP/1.1'
    def do_DELETE(self): self.reply(405)
    def do_POST(self):
        m, id, method, _ = self.message()
        params = m.get('params', {})
        note(method)
        def refuse(code, error, status=400): self.reply(status, json.dumps({'jsonrpc': '2.0', 'id': id, 'error': {'code': code, 'message': error, 'data': {'said': method}}}).encode())
        def answer(result): self.reply(200, json.dumps({'jsonrpc': '2.0', 'id': id, 'result': result}).encode())
        if id is None: return self.reply(202)
        if self.headers.get('mcp-session-id'): return refuse(-32600, 'no sessions here')
        if self.headers.get('mcp-protocol-version') != params['_meta']['io.modelcontextprotocol/protocolVersion']: return refuse(-32020, 'version')
        if self.headers.get('mcp-method') != method: return refuse(-32020, 'method')
        about = params.get('uri') if method == 'resources/read' else params.get('name')
        if plain(self.headers.get('mcp-name')) != about: return refuse(-32020, 'name')
        if plain(self.headers.get('mcp-param-Region')) != params.get('arguments', {}).get('region'): return refuse(-32020, 'region')
        if method == 'tools/list':
            if not params.get('cursor'): return answer({'tools': [{'name': 'look', 'inputSchema': {}}], 'nextCursor': 'more'})
            return answer({'tools': [{'name': 'deploy', 'inputSchema': {'properties': {'region': {'type': 'string', 'x-mcp-header': 'Region'}}}}]})
        if method == 'future/thing': return refuse(-32601, 'Method not found', 404)
        if about == 'linger':
            self.send_response(200); self.send_header('content-type', 'text/event-stream'); self.send_header('connection', 'close'); self.end_headers()
            told = {'jsonrpc': '2.0', 'method': 'notifications/progress', 'params': {}}
            self.wfile.write(('data: %s\n\n' % json.dumps(told)).encode()); self.wfile.flush()
            if self.connection.recv(1) == b'':
                with open('cut', 'w') as f: f.write('off')
            return
        answer({'about': about})
"#;

#[test]
fn the_newer_protocol_says_by_headers_what_it_asks_and_by_hanging_up_that_it_wants_no_answer() {
    let project = Project::new();
    let mut client = HttpClient::before(&project, MODERN);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
    let with_meta = |mut params: Value| {
        params["_meta"] = meta.clone();
        params
    };
    for (id, method, params, about) in [
        (1, "server/discover", json!({}), Value::Null),
        (2, "resources/read", json!({"uri": "file:///grüße"}), json!("file:///grüße")),
        (3, "prompts/get", json!({"name": "p"}), json!("p")),
        (4, "tools/call", json!({"name": "look", "arguments": {}}), json!("look")),
    ] {
        let answer = client.ask(id, method, &with_meta(params));
        assert_eq!(answer["result"]["about"], about, "{answer}");
    }
    // A server that misses a header has not looked at the call: its tools say which one it is.
    let deploy = with_meta(json!({"name": "deploy", "arguments": {"region": "Zürich"}}));
    let answer = client.ask(5, "tools/call", &deploy);
    assert_eq!(answer["result"]["about"], "deploy", "{answer}");
    let log = || std::fs::read_to_string(project.dir().join("log")).unwrap();
    assert_eq!(log().matches("tools/list").count(), 2, "{}", log());
    client.ask(6, "tools/call", &deploy);
    assert_eq!(log().matches("tools/list").count(), 2, "it is known by now: {}", log());
    // What the server refuses is the client's to read as the server said it.
    let answer = client.ask(7, "future/thing", &with_meta(json!({})));
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    assert_eq!(answer["error"]["data"]["said"], "future/thing", "{answer}");
    let lingering = with_meta(json!({"name": "linger", "arguments": {}}));
    client.send(&json!({"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": lingering}));
    assert_eq!(client.next()["method"], "notifications/progress");
    let cancel = json!({"requestId": 8});
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel}));
    wait_for("the server to hear of it", || project.dir().join("cut").exists());
    let answer = client.ask(9, "server/discover", &with_meta(json!({})));
    assert_eq!(answer["id"], 9, "nothing came of the call that was cancelled");
    assert!(!log().contains("notifications/cancelled"), "{}", log());
}
