//! What `salve proxy` adds to a call, to throughput and to a server's start.
//!
//! Direct and proxied by turns in one run, over the same pipes: the server is this very program,
//! which parses each message and answers it as a small server in a compiled language does.
//! A million calls are made only where `SALVE_BENCH_MILLION` is set.

#![expect(clippy::print_stdout, reason = "a benchmark reports on stdout")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot set its stage should stop")]

use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The variable that makes this program the server.
const SERVE: &str = "SALVE_BENCH_SERVE";
/// How many calls are measured one by one, in each of the rounds.
const CALLS: usize = 2_000;
const ROUNDS: usize = 5;
/// How many calls are in flight when throughput is measured.
const IN_FLIGHT: usize = 32;
/// How many are measured of the proxies of others, in each round.
const OTHERS: usize = 200;
const FLOOD: usize = 20_000;
const STARTS: usize = 20;
const MILLION: usize = 1_000_000;

fn main() {
    if std::env::var_os(SERVE).is_some() {
        return serve();
    }
    let home = tempfile::tempdir().unwrap();
    let proxied = Way { name: "salve proxy", command: behind_salve(), home: home.path() };
    let direct = Way { name: "direct", command: vec![own()], home: home.path() };
    latency(&direct, &proxied, CALLS);
    throughput(&direct, &proxied);
    starts(&direct, &proxied);
    big_results(&direct, &proxied);
    others(&direct);
    if std::env::var_os("SALVE_BENCH_MILLION").is_some() {
        growth(&proxied);
    }
}

fn behind_salve() -> Vec<String> {
    let words = [env!("CARGO_BIN_EXE_salve"), "proxy", "--"];
    words.iter().map(|word| (*word).to_owned()).chain([own()]).collect()
}

fn own() -> String {
    std::env::current_exe().unwrap().to_string_lossy().into_owned()
}

/// Measures the proxies of others where they are installed: an interpreter that has FastMCP is in
/// `SALVE_BENCH_FASTMCP`, the program `mcp-proxy` in `SALVE_BENCH_MCP_PROXY`.
fn others(direct: &Way<'_>) {
    let home = direct.home;
    if let Ok(python) = std::env::var("SALVE_BENCH_FASTMCP") {
        let script = home.join("fastmcp_proxy.py");
        std::fs::write(&script, FASTMCP).unwrap();
        let command = vec![python, script.to_string_lossy().into_owned(), own()];
        let way = Way { name: "FastMCP's proxy", command, home };
        latency(direct, &way, OTHERS);
        starts(direct, &way);
    }
    if let Ok(program) = std::env::var("SALVE_BENCH_MCP_PROXY") {
        // It only goes between a wire and an address, so two of them are one proxy.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        drop(listener);
        let words = ["--host", "127.0.0.1", "--port", &port, "--pass-environment", "--"];
        let mut command = Command::new(&program);
        command.args(words).arg(own()).env(SERVE, "1").env("HOME", home);
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = quiet.spawn().unwrap();
        while std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_err() {
            assert!(server.try_wait().unwrap().is_none(), "mcp-proxy has ended");
            std::thread::sleep(Duration::from_millis(50));
        }
        let url = format!("http://127.0.0.1:{port}/mcp");
        let command = [&*program, "--transport", "streamablehttp", &url].map(str::to_owned);
        let way = Way { name: "mcp-proxy, twice", command: command.to_vec(), home };
        latency(direct, &way, OTHERS);
        server.kill().unwrap();
        server.wait().unwrap();
    }
}

/// A proxy as FastMCP's documents make one.
const FASTMCP: &str = "import os, sys
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy
server = StdioTransport(command=sys.argv[1], args=sys.argv[2:], env=dict(os.environ))
create_proxy(server, name='proxy').run(show_banner=False, log_level='ERROR')
";

/// Answers calls with a short text, or with as much as is asked for.
fn serve() {
    let stdin = std::io::stdin().lock();
    let mut stdout = std::io::stdout().lock();
    for line in stdin.lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line.unwrap()) else { continue };
        let Some(id) = message.get("id") else { continue };
        let size = message["params"]["arguments"]["size"].as_u64().unwrap_or(64);
        let text = "x".repeat(usize::try_from(size).unwrap());
        let result = match message["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "bench", "version": "1"},
            }),
            Some("tools/list") => {
                json!({"tools": [{"name": "look", "inputSchema": {"type": "object"}}]})
            }
            _ => json!({"content": [{"type": "text", "text": text}]}),
        };
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
        stdout.write_all(format!("{answer}\n").as_bytes()).unwrap();
        stdout.flush().unwrap();
    }
}

/// A way to reach the server.
struct Way<'a> {
    name: &'static str,
    /// The whole command.
    command: Vec<String>,
    home: &'a Path,
}

/// A client that speaks with the server by some way.
struct Client {
    child: Child,
    stdin: BufWriter<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    line: String,
}

impl Client {
    fn start(way: &Way<'_>) -> Client {
        let mut command = Command::new(&way.command[0]);
        command.args(&way.command[1..]).env(SERVE, "1").current_dir(way.home);
        command.env("HOME", way.home).stderr(Stdio::null());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdin = BufWriter::new(child.stdin.take().unwrap());
        let stdout = BufReader::with_capacity(1 << 20, child.stdout.take().unwrap());
        let mut client = Client { child, stdin, stdout, line: String::new() };
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo":
            {"name": "bench", "version": "1"}});
        client
            .send(&json!({"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": params}));
        client.answer();
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin, "{message}").unwrap();
        self.stdin.flush().unwrap();
    }

    fn call(&mut self, id: usize, size: usize) {
        let params = json!({"name": "look", "arguments": {"size": size}});
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
    }

    fn answer(&mut self) -> usize {
        self.line.clear();
        self.stdout.read_line(&mut self.line).unwrap()
    }

    fn end(mut self) {
        drop(self.stdin);
        self.child.wait().unwrap();
    }
}

fn missed(holds: bool) -> &'static str {
    if holds { "" } else { "  MISSED" }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Measures calls one by one.
fn latency(direct: &Way<'_>, proxied: &Way<'_>, calls: usize) {
    let mut times: [Vec<Duration>; 2] = Default::default();
    let mut clients = [Client::start(direct), Client::start(proxied)];
    for round in 0..=ROUNDS {
        for (client, times) in clients.iter_mut().zip(&mut times) {
            for id in 0..calls {
                let start = Instant::now();
                client.call(id, 64);
                client.answer();
                // The first round warms everything up.
                if round > 0 {
                    times.push(start.elapsed());
                }
            }
        }
    }
    clients.into_iter().for_each(Client::end);
    times.iter_mut().for_each(|times| times.sort_unstable());
    let at = |way: usize, part: usize| times[way][times[way].len() * part / 1000];
    println!("one call at a time, {} calls each", calls * ROUNDS);
    for (part, name, limit) in [(500, "p50", 120.0), (990, "p99", 300.0)] {
        let (bare, over) = (at(0, part), at(1, part));
        let added = micros(over) - micros(bare);
        println!(
            "{:<24} {name} {:>7.1} µs, {:>7.1} µs direct: {added:>6.1} µs added, limit {limit} µs{}",
            proxied.name,
            micros(over),
            micros(bare),
            missed(added <= limit)
        );
    }
}

/// Measures many calls at once.
fn throughput(direct: &Way<'_>, proxied: &Way<'_>) {
    let mut best = [0.0_f64; 2];
    for _ in 0..ROUNDS {
        for (way, best) in [direct, proxied].into_iter().zip(&mut best) {
            let mut client = Client::start(way);
            let start = Instant::now();
            for id in 0..FLOOD + IN_FLIGHT {
                if id >= IN_FLIGHT {
                    client.answer();
                }
                if id < FLOOD {
                    client.call(id, 64);
                }
            }
            *best = best.max(FLOOD as f64 / start.elapsed().as_secs_f64());
            client.end();
        }
    }
    let ratio = best[1] / best[0];
    println!(
        "{IN_FLIGHT} in flight: {:.0} calls/s, {:.0} direct: {:.0} %, limit 85 %{}",
        best[1],
        best[0],
        ratio * 100.0,
        missed(ratio >= 0.85)
    );
}

/// Measures from the start to the first answer.
fn starts(direct: &Way<'_>, proxied: &Way<'_>) {
    let mut times: [Vec<Duration>; 2] = Default::default();
    for _ in 0..STARTS {
        for (way, times) in [direct, proxied].into_iter().zip(&mut times) {
            let start = Instant::now();
            let client = Client::start(way);
            times.push(start.elapsed());
            client.end();
        }
    }
    times.iter_mut().for_each(|times| times.sort_unstable());
    let [bare, over] = times.map(|times| times[STARTS / 2].as_secs_f64() * 1e3);
    let added = over - bare;
    println!(
        "{}: start to first answer: {over:.1} ms, {bare:.1} ms direct: {added:.1} ms added, limit 15 ms{}",
        proxied.name,
        missed(added <= 15.0)
    );
}

/// Measures a result of fifty megabytes.
fn big_results(direct: &Way<'_>, proxied: &Way<'_>) {
    let [bare, over] = [direct, proxied].map(|way| {
        let mut client = Client::start(way);
        client.call(1, 50_000_000);
        client.answer();
        let start = Instant::now();
        client.call(2, 50_000_000);
        assert!(client.answer() > 50_000_000);
        let time = start.elapsed();
        client.end();
        time.as_secs_f64() * 1e3
    });
    println!("a result of 50 MB: {over:.0} ms, {bare:.0} ms direct");
}

/// Measures what the proxy holds after a million calls.
fn growth(proxied: &Way<'_>) {
    let mut client = Client::start(proxied);
    let children = format!("/proc/{0}/task/{0}/children", client.child.id());
    let worker = std::fs::read_to_string(children).unwrap().trim().to_owned();
    let held = || {
        let status = std::fs::read_to_string(format!("/proc/{worker}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    let mut before = 0;
    for id in 0..MILLION + IN_FLIGHT {
        if id >= IN_FLIGHT {
            client.answer();
        }
        if id < MILLION {
            client.call(id, 64);
        }
        if id == MILLION / 100 {
            before = held();
        }
    }
    let after = held();
    println!(
        "held after {MILLION} calls: {after} kB, {before} kB after {}{}",
        MILLION / 100,
        missed(after < before + 1024)
    );
    client.end();
}
