//! A server that is reached by HTTP, behind `salve proxy --url`.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::support::{Project, wait_for};

/// A server with sessions, which answers by JSON or by a stream of events.
const SERVER: &str = r#"
import json, os, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
sessions = set()
class Handler(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def log_message(self, *_): pass
    def reply(self, code, body=b'', kind='application/json', **headers):
        self.send_response(code); self.send_header('content-type', kind); self.send_header('content-length', str(len(body)))
        for name, value in headers.items(): self.send_header(name.replace('_', '-'), value)
        self.end_headers(); self.wfile.write(body)
    def do_GET(self): self.reply(405)
    def do_DELETE(self):
        with open('log', 'a') as f: f.write('delete\n')
        self.reply(200)
    def do_POST(self):
        m = json.loads(self.rfile.read(int(self.headers['content-length'])))
        id, method, session = m.get('id'), m.get('method'), self.headers.get('mcp-session-id')
        with open('log', 'a') as f: f.write('%s %s\n' % (method, self.headers.get('mcp-protocol-version')))
        if method == 'initialize':
            session = 's%d' % (len(sessions) + 1); sessions.add(session)
            body = json.dumps({'jsonrpc': '2.0', 'id': id, 'result': {'protocolVersion': '2025-06-18', 'capabilities': {'tools': {}}}}, indent=1)
            return self.reply(200, body.encode(), mcp_session_id=session)
        if session not in sessions or os.path.exists('forget'):
            if os.path.exists('forget'): os.unlink('forget')
            sessions.discard(session); return self.reply(404)
        if id is None: return self.reply(202)
        name = m.get('params', {}).get('name')
        if name == 'orders' and not os.path.exists('token'): return self.reply(401, b'token expired', 'text/plain')
        if name == 'busy' and not os.path.exists('waited'):
            open('waited', 'w').close(); return self.reply(429, retry_after='1')
        result = {'content': [{'type': 'text', 'text': 'x' * m.get('params', {}).get('arguments', {}).get('size', 2)}]}
        answer = json.dumps({'jsonrpc': '2.0', 'id': id, 'result': result})
        if name == 'stream':
            note = json.dumps({'jsonrpc': '2.0', 'method': 'notifications/progress', 'params': {'progress': 1}})
            return self.reply(200, ('event: message\ndata: %s\n\n: still here\n\ndata: %s\n\n' % (note, answer)).encode(), 'text/event-stream')
        self.reply(200, answer.encode())
server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)
with open('port.new', 'w') as f: f.write(str(server.server_port))
os.rename('port.new', 'port')
server.serve_forever()
"#;

/// A client of a proxy in front of the server.
struct HttpClient {
    server: Child,
    proxy: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl HttpClient {
    fn new(project: &Project) -> Self {
        project.write("server.py", SERVER);
        let mut server = Command::new("python3");
        let server = server.arg("server.py").current_dir(project.dir()).stdin(Stdio::null());
        let server = server.spawn().unwrap();
        wait_for("the server", || project.dir().join("port").exists());
        let port = std::fs::read_to_string(project.dir().join("port")).unwrap();
        let url = format!("http://127.0.0.1:{port}/mcp");
        let mut proxy = project.command(&["proxy", "--url", &url]);
        proxy.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut proxy = proxy.spawn().unwrap();
        let (stdin, stdout) = (proxy.stdin.take(), proxy.stdout.take().unwrap());
        let mut client = Self { server, proxy, stdin, lines: BufReader::new(stdout).lines() };
        let hello = client.ask(0, "initialize", &json!({"protocolVersion": "2025-06-18"}));
        assert_eq!(hello["result"]["protocolVersion"], "2025-06-18");
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
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
fn a_server_that_is_not_there_is_said_so_and_its_client_lives() {
    let project = Project::new();
    let mut client = HttpClient::new(&project);
    client.server.kill().unwrap();
    client.server.wait().unwrap();
    let refused = client.ask(1, "tools/list", &json!({}));
    let said = refused["error"]["message"].as_str().unwrap();
    assert!(said.contains("connection refused") || said.contains("connection reset"), "{said}");
}
