//! The page under load: a long history, thousands of streams, streams that take nothing.
//!
//! `cargo bench -p salve --bench page [history|load|browser]`. The journal is written through the
//! store as `salve dev` writes it; clients are plain connections of this program, so that the
//! figures are those of the server. `browser` needs node and Chromium and is skipped, and says so,
//! without them.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a bench prints and may stop")]

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use salve::project::Project;
use salve::store::{Copying, Store};
use salve_core::class::Class;
use salve_core::event::{
    Acted, Actor, AtALoss, Digest, Draft, Effect, EffectReport, Entry, Event, IncidentEvent,
    IncidentPolicy, Judgement, OnFailure, Process, ProcessExit, Proof, Remedy, RemedyKind,
    RemedyOrigin, RemedyVerdict, RepairMode, Repeat, ResourceLimits, Subject, SubjectKind, Symptom,
    Undo,
};
use salve_core::id::{IncidentId, Signature};
use salve_core::incident::{Incident, IncidentMove};
use salve_core::scrub::Scrubbed;
use serde_json::Value;
use uuid::Uuid;

/// How many incidents a long history has.
const INCIDENTS: u128 = 100_000;
/// How many streams show a section.
const STREAMS: usize = 2_000;
/// How many more take nothing of what they are sent.
const SLOW: usize = 500;
/// How many entries a second are written meanwhile.
const RATE: usize = 1_000;
/// How long is measured.
const MEASURED: Duration = Duration::from_secs(30);

fn main() {
    // The runner of tests only wants to see that it starts.
    if std::env::args().any(|arg| arg == "--test" || arg == "--list") {
        return;
    }
    let chosen = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let benches: [(&str, fn()); 3] = [("history", history), ("load", load), ("browser", browser)];
    for (name, bench) in benches {
        if chosen.as_ref().is_none_or(|wanted| name.contains(wanted.as_str())) {
            bench();
        }
    }
}

/// A project whose page is served.
struct Stage {
    root: tempfile::TempDir,
}

impl Stage {
    fn new(incidents: u128) -> Self {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("shop");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::create_dir_all(root.path().join("home")).unwrap();
        let stage = Self { root };
        let store = stage.store();
        let course = healed_course();
        let mut drafts = Vec::new();
        for number in 1..=incidents {
            drafts.extend(drafts_of(&course, IncidentId(Uuid::from_u128(number << 64))));
            if drafts.len() >= 5_000 || number == incidents {
                store.journal().append_all(std::mem::take(&mut drafts)).unwrap();
            }
        }
        stage
    }

    fn store(&self) -> Store {
        let project = Project::at(&self.root.path().join("shop")).unwrap();
        let store = Store::open(&project).unwrap();
        // The copy for people is not what is measured.
        store.set_copying(Copying::Later);
        store
    }

    fn serve(&self) -> Served {
        let home = self.root.path().join("home");
        let mut command = Command::new(env!("CARGO_BIN_EXE_salve"));
        command.args(["serve", ".", "--json", "--no-open", "--port", "0"]);
        command.current_dir(self.root.path().join("shop")).env("SALVE_USER", "bench");
        command.env("HOME", &home).env("XDG_DATA_HOME", home.join("data"));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        let link = said["link"].as_str().unwrap().to_owned();
        let (url, code) = link.split_once("#code=").unwrap();
        let host = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let mut served = Served { child, host, link: link.clone(), token: String::new() };
        let opened = served.ask("POST", "/api/session", &format!("{{\"code\":\"{code}\"}}"));
        let opened: Value = serde_json::from_str(&opened).unwrap();
        served.token = opened["token"].as_str().unwrap().to_owned();
        served
    }

    /// Writes [`RATE`] entries a second until told to end; returns how many it wrote.
    fn write_until(&self, is_over: &AtomicBool) -> usize {
        let (course, store) = (healed_course(), self.store());
        let (since, mut written) = (Instant::now(), 0);
        while !is_over.load(Ordering::Relaxed) {
            let drafts = drafts_of(&course, IncidentId(Uuid::new_v4()));
            let due = Duration::from_secs_f64(written as f64 / RATE as f64);
            thread::sleep(due.saturating_sub(since.elapsed()));
            written += store.journal().append_all(drafts).unwrap().len();
        }
        written
    }
}

fn me() -> Process {
    Process { pid: 1, started: 1, host: Scrubbed::literal("elsewhere") }
}

/// Returns the events of an incident that one command heals.
fn healed_course() -> Vec<Event> {
    let at = Timestamp::now();
    let by = Actor::Salve(me());
    let mut entries: Vec<Entry> = Vec::new();
    let write = |entries: &mut Vec<Entry>, event: Event| {
        let incident = Some(IncidentId(Uuid::from_u128(1)));
        let draft = Draft { at, by: by.clone(), incident, event };
        entries.push(draft.at_seq(entries.len() as u64 + 1));
    };
    write(&mut entries, opening());
    write(&mut entries, Event::Incident(IncidentEvent::Claimed { instead_of: None }));
    loop {
        match Incident::replay(&entries).unwrap().next(&me(), at) {
            IncidentMove::Write(event) => {
                let finished = match &event {
                    Event::Incident(IncidentEvent::Requested { effect, what }) => {
                        Some((*effect, *what))
                    }
                    _ => None,
                };
                write(&mut entries, event);
                if let Some((effect, what)) = finished {
                    let report = match what {
                        Effect::Verify => {
                            EffectReport::Verified { proof: Proof::Proven, symptom: None }
                        }
                        _ => EffectReport::Done,
                    };
                    let event = IncidentEvent::Finished { effect, report };
                    write(&mut entries, Event::Incident(event));
                }
            }
            IncidentMove::Choose => write(&mut entries, chosen()),
            IncidentMove::Over => return entries.into_iter().map(|entry| entry.event).collect(),
            other => panic!("{other:?} after {} entries", entries.len()),
        }
    }
}

fn opening() -> Event {
    let name = Scrubbed::literal("web");
    let policy = IncidentPolicy {
        person: Scrubbed::literal("ada"),
        mode: RepairMode::Legacy,
        listener: None,
        starts: None,
        limits: ResourceLimits { attempts: Some(3), ..ResourceLimits::default() },
        backoff_ms: 0,
        engage_ms: 0,
        write_ms: 0,
        quiet_ms: 0,
        watch_ms: 0,
        cooldown_ms: 0,
        max_files: 8,
        max_lines: 300,
        no_progress_limit: None,
        catastrophe_after: None,
        on_failure: OnFailure::Undo,
        at_a_loss: AtALoss::Ask,
    };
    let symptom = Symptom {
        signature: Signature(1),
        class: Class::ImportError,
        key_line: Scrubbed::literal("Error: Cannot find module './orders' from src/server.js"),
        exit: Some(ProcessExit::Code(1)),
        tree: None,
        acted: Acted::No,
    };
    Event::Incident(IncidentEvent::Opened {
        subject: Subject { kind: SubjectKind::Server, name, repeat: Repeat::Safe },
        policy: Box::new(policy),
        symptom: Box::new(symptom),
    })
}

fn chosen() -> Event {
    let remedy = Remedy {
        kind: RemedyKind::Command,
        origin: RemedyOrigin::Playbook,
        text: Scrubbed::literal("npm ci"),
        digest: Digest::of_command("npm ci", ".", 60_000),
        undo: Undo::Snapshot,
        repeat: Repeat::Safe,
    };
    let (rule, reason) = (Scrubbed::literal("auto_approve[0]"), Scrubbed::literal("it is listed"));
    let judgement = Judgement { verdict: RemedyVerdict::Allow, rule, reason };
    Event::Incident(IncidentEvent::Judged { remedy: Box::new(remedy), judgement })
}

fn drafts_of(course: &[Event], id: IncidentId) -> Vec<Draft> {
    let draft = |event: &Event| Draft {
        at: Timestamp::now(),
        by: Actor::Salve(me()),
        incident: Some(id),
        event: event.clone(),
    };
    course.iter().map(draft).collect()
}

/// A running `salve serve`.
struct Served {
    child: Child,
    host: String,
    link: String,
    token: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Served {
    fn head(&self, method: &str, path: &str) -> String {
        format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n",
            self.host, self.token
        )
    }

    /// Sends a request and returns the body of the answer.
    fn ask(&self, method: &str, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        let head = self.head(method, path);
        let length = body.len();
        write!(
            stream,
            "{head}connection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        body.to_owned()
    }

    fn stream(&self, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        write!(stream, "{}\r\n", self.head("GET", path)).unwrap();
        stream
    }

    /// Returns how long the process has worked: what the other work of a machine does not change.
    fn processor_seconds(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let (_, after_name) = stat.rsplit_once(") ").unwrap();
        let fields: Vec<&str> = after_name.split(' ').collect();
        let ticks = |at: usize| fields[at].parse::<f64>().unwrap();
        // Linux counts hundredths of a second.
        (ticks(11) + ticks(12)) / 100.0
    }

    /// Returns a figure of the process in MB: `VmRSS` or `VmHWM`.
    fn megabytes(&self, name: &str) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1e3
    }
}

fn milliseconds(work: impl FnOnce()) -> f64 {
    let since = Instant::now();
    work();
    since.elapsed().as_secs_f64() * 1e3
}

/// Prints the middle, the 99th of a hundred, and the worst.
fn tell(what: &str, mut times: Vec<f64>, limit: &str) {
    times.sort_by(f64::total_cmp);
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    let (count, median, p99, worst) = (times.len(), at(50), at(99), at(100));
    println!(
        "{what}: {count} times, median {median:.1}, p99 {p99:.1}, worst {worst:.1} ms ({limit})"
    );
}

/// A history of 100,000 incidents: the first answer, then each list.
fn history() {
    let mut stage = None;
    let took = milliseconds(|| stage = Some(Stage::new(INCIDENTS)));
    let stage = stage.unwrap();
    let entries = stage.store().journal().last_seq().unwrap();
    println!("history: {INCIDENTS} incidents, {entries} entries, written in {:.1} s", took / 1e3);
    let served = stage.serve();
    let first = milliseconds(|| drop(served.ask("GET", "/api/incidents?limit=50", "")));
    println!("history: the first answer after the start {first:.0} ms");
    let all = milliseconds(|| drop(served.ask("GET", "/api/status", "")));
    println!("history: the first answer that needs all of them {all:.0} ms after that");
    println!("history: {:.1} s of the processor by then", served.processor_seconds());
    for path in [
        "/api/status",
        "/api/incidents?limit=50",
        "/api/incidents?q=nothing-like-it",
        "/api/incidents?state=not-healed",
        "/api/statistics",
        "/api/statistics?days=7",
    ] {
        let times = (0..50).map(|_| milliseconds(|| drop(served.ask("GET", path, "")))).collect();
        tell(&format!("history: {path}"), times, "no limit of its own");
    }
    println!(
        "history: {:.0} MB resident, at most {:.0}",
        served.megabytes("VmRSS"),
        served.megabytes("VmHWM")
    );
}

/// 2,000 streams and 500 that take nothing, while the journal grows by 1,000 entries a second.
fn load() {
    let stage = Stage::new(500);
    let served = stage.serve();
    println!("load: {:.0} MB resident before", served.megabytes("VmRSS"));
    let paths = ["/live/", "/live/incidents", "/live/needs-you", "/api/events"];
    let mut streams: Vec<TcpStream> =
        (0..STREAMS).map(|at| served.stream(paths[at % paths.len()])).collect();
    let slow: Vec<TcpStream> = (0..SLOW).map(|at| served.stream(paths[at % paths.len()])).collect();
    streams.iter().for_each(|stream| stream.set_nonblocking(true).unwrap());
    println!("load: {:.0} MB resident with all streams open", served.megabytes("VmRSS"));
    let opened = Instant::now();
    let is_over = Arc::new(AtomicBool::new(false));
    let reading = thread::spawn({
        let is_over = is_over.clone();
        move || read_all(&mut streams, &is_over)
    });
    let mut times = Vec::new();
    let mut peak: f64 = 0.0;
    let mut written = 0;
    thread::scope(|scope| {
        let writer = scope.spawn(|| stage.write_until(&is_over));
        while opened.elapsed() < MEASURED {
            for path in ["/api/status", "/api/incidents?limit=50"] {
                times.push(milliseconds(|| drop(served.ask("GET", path, ""))));
            }
            peak = peak.max(served.megabytes("VmRSS"));
            thread::sleep(Duration::from_millis(20));
        }
        is_over.store(true, Ordering::Relaxed);
        written = writer.join().unwrap();
    });
    let Received { bytes, first_at, silent, ended } = reading.join().unwrap();
    drop(slow);
    let rate = written as f64 / opened.elapsed().as_secs_f64();
    println!("load: {STREAMS} streams and {SLOW} that take nothing, {rate:.0} entries a second");
    tell("load: an answer of the API meanwhile", times, "p99 1,000 ms");
    println!("load: {peak:.0} MB resident at most (limit 200)");
    println!(
        "load: {} MB received; all streams had something after {:.1} s, {silent} never, {ended} ended",
        bytes / 1_000_000,
        first_at.as_secs_f64()
    );
}

/// What all streams received.
struct Received {
    bytes: usize,
    /// When the last one got its first bytes.
    first_at: Duration,
    silent: usize,
    ended: usize,
}

fn read_all(streams: &mut [TcpStream], is_over: &AtomicBool) -> Received {
    let since = Instant::now();
    let mut heard = vec![false; streams.len()];
    let mut received = Received { bytes: 0, first_at: Duration::ZERO, silent: 0, ended: 0 };
    let mut buffer = vec![0; 256 * 1024];
    while !is_over.load(Ordering::Relaxed) {
        received.ended = 0;
        for (at, stream) in streams.iter_mut().enumerate() {
            match stream.read(&mut buffer) {
                Ok(0) => received.ended += 1,
                Ok(count) => {
                    received.bytes += count;
                    if !std::mem::replace(&mut heard[at], true) {
                        received.first_at = since.elapsed();
                    }
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
    received.silent = heard.iter().filter(|heard| !**heard).count();
    received
}

/// What a person at a browser sees: how soon it is painted, how much is loaded, whether it stays
/// smooth while the journal grows by 1,000 entries a second.
fn browser() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../xtask/page");
    let Some(chromium) = chromium() else {
        return println!("browser: SKIPPED, there is no Chromium; `cargo xtask page` installs it");
    };
    if !dir.join("node_modules").exists() {
        return println!("browser: SKIPPED, `cargo xtask page` installs what drives Chromium");
    }
    let stage = Stage::new(500);
    let served = stage.serve();
    let mut node = Command::new("node");
    node.arg("figures.mjs")
        .current_dir(&dir)
        .env("CHROMIUM", chromium)
        .env("LINK", fresh_link(&stage, &served));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| stage.write_until(&is_over));
        let since = Instant::now();
        let status = node.status();
        is_over.store(true, Ordering::Relaxed);
        let rate = writer.join().unwrap() as f64 / since.elapsed().as_secs_f64();
        println!("browser: {rate:.0} entries a second were written meanwhile");
        assert!(status.unwrap().success());
    });
}

/// Returns a link that opens the page in another browser.
fn fresh_link(stage: &Stage, served: &Served) -> String {
    let port = served.link.split_once("/#").unwrap().0.rsplit(':').next().unwrap().to_owned();
    let home = stage.root.path().join("home");
    let mut command = Command::new(env!("CARGO_BIN_EXE_salve"));
    command.args(["serve", "--link", "--port", &port]).current_dir(stage.root.path().join("shop"));
    let output = command.env("HOME", &home).env("XDG_DATA_HOME", home.join("data")).output();
    String::from_utf8(output.unwrap().stdout).unwrap().trim().to_owned()
}

fn chromium() -> Option<PathBuf> {
    let named = std::env::var_os("CHROMIUM").map(PathBuf::from);
    let usual = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
    named.into_iter().chain(usual.map(PathBuf::from)).find(|path| path.is_file())
}
