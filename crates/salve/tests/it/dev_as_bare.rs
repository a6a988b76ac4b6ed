//! What the bare command does, `salve dev` does too.

use std::fs::File;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::bench::signal;
use crate::heal::git;
use crate::support::{Project, dev, is_alive, wait_for};

/// `salve dev` without a terminal, and what it says.
struct Unattended<'p> {
    project: &'p Project,
    salve: Child,
}

impl<'p> Unattended<'p> {
    fn start(project: &'p Project, env: &[(&str, &str)], command: &[&str]) -> Self {
        let mut salve = dev(project, &[&["--"], command].concat());
        salve.envs(env.iter().copied());
        let said = File::create(project.home().join("said.log")).unwrap();
        let salve = salve.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said).spawn().unwrap();
        Self { project, salve }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.project.home().join("said.log")).unwrap()
    }

    #[track_caller]
    fn until(&self, words: &str) {
        wait_for(words, || self.said().contains(words));
    }
}

impl Drop for Unattended<'_> {
    fn drop(&mut self) {
        signal("TERM", self.salve.id());
        let _ = self.salve.wait();
    }
}

fn events(project: &Project, kind: &str) -> Vec<Value> {
    let output = project.run(&["events", "--json", "--kind", kind]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Answers, and stands still while it reads from its input.
const STOPS: &str = r#"
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if os.path.exists("stop"): sys.stdin.readline()
        self.send_response(200); self.end_headers(); self.wfile.write(b"hello")
    def log_message(self, *args): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
open("pids.txt", "a").write(f"{os.getpid()}\n")
print(f"http://127.0.0.1:{server.server_port}/", flush=True)
server.serve_forever()
"#;

/// **Invariant:** A server that stands still in a debugger is neither ended nor called ill.
#[test]
fn a_server_that_stands_in_a_debugger_is_left_alone() {
    let project = Project::new();
    project.write("web.py", STOPS);
    let env = [
        ("SALVE_SERVER_LIVENESS_INTERVAL_MS", "50"),
        ("SALVE_SERVER_LIVENESS_GRACE_MS", "100"),
        ("REPAIR_HEALTH_TIMEOUT_MS", "300"),
    ];
    let salve = Unattended::start(&project, &env, &["python3", "web.py"]);
    salve.until("answers");
    project.write("stop", "");
    salve.until("a debugger may hold it");
    let pids = std::fs::read_to_string(project.dir().join("pids.txt")).unwrap();
    assert_eq!(pids.lines().count(), 1, "it was started again");
    assert!(is_alive(pids.trim().parse().unwrap()));
    assert!(events(&project, "opened").is_empty());
}

/// Listens at one port, says so as a debugger does, then answers at another.
const DEBUGGED: &str = r#"
import http.server, os, socket, sys, time
debugger = socket.create_server(("127.0.0.1", 0))
print(f"Debugger listening on ws://127.0.0.1:{debugger.getsockname()[1]}/0f2c", file=sys.stderr, flush=True)
open("debugger.txt", "w").write(str(debugger.getsockname()[1]))
while not os.path.exists("go"): time.sleep(0.02)
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
open("port.txt", "w").write(str(server.server_port))
server.serve_forever()
"#;

#[test]
fn a_debuggers_port_is_not_the_servers() {
    let project = Project::new();
    project.write("web.py", DEBUGGED);
    let salve = Unattended::start(&project, &[], &["python3", "web.py"]);
    wait_for("a server that is up", || !events(&project, "server_up").is_empty());
    project.write("go", "");
    salve.until("http://");
    let url = |file: &str| {
        let port = std::fs::read_to_string(project.dir().join(file)).unwrap();
        format!("http://localhost:{port}/")
    };
    assert!(salve.said().contains(&url("port.txt")), "{}", salve.said());
    assert!(!salve.said().contains(&url("debugger.txt")), "{}", salve.said());
}

/// Listens at one port, and says later that it answers at another.
const LATE: &str = r#"
import http.server, os, time
beside = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
import threading; threading.Thread(target=beside.serve_forever, daemon=True).start()
while not os.path.exists("go"): time.sleep(0.02)
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
open("port.txt", "w").write(str(server.server_port))
print(f"ready at http://127.0.0.1:{server.server_port}/", flush=True)
server.serve_forever()
"#;

#[test]
fn the_address_that_a_server_says_counts_more_than_where_it_was_seen_first() {
    let project = Project::new();
    project.write("web.py", LATE);
    let salve = Unattended::start(&project, &[], &["python3", "web.py"]);
    salve.until("http://localhost:");
    project.write("go", "");
    wait_for("its own word", || project.dir().join("port.txt").exists());
    let port = || std::fs::read_to_string(project.dir().join("port.txt")).unwrap();
    wait_for("the address it said", || salve.said().contains(&format!("127.0.0.1:{}/", port())));
}

/// Reloads by itself, and after a slip of the hand listens no more.
const SLIPPED: &str = r#"
import http.server, os, sys, time
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
print(f"http://127.0.0.1:{server.server_port}/", flush=True)
while not os.path.exists("slip"): server.timeout = 0.02; server.handle_request()
server.server_close()
print('  File "app.py", line 7\n    def (\n        ^\nSyntaxError: invalid syntax', file=sys.stderr, flush=True)
time.sleep(300)
"#;

#[test]
fn a_slip_of_the_hand_is_told_with_its_place_while_the_server_waits_for_the_next_edit() {
    let project = Project::new();
    project.write("web.py", SLIPPED);
    let env =
        [("SALVE_SERVER_LIVENESS_INTERVAL_MS", "50"), ("SALVE_SERVER_LIVENESS_GRACE_MS", "100")];
    let salve = Unattended::start(&project, &env, &["python3", "web.py", "--reload"]);
    salve.until("answers");
    project.write("slip", "");
    salve.until("needs you");
    salve.until("The source does not parse: SyntaxError: invalid syntax");
    salve.until("app.py:7");
    assert!(!salve.said().contains("never began to listen"), "{}", salve.said());
}

#[test]
fn where_nothing_can_be_kept_a_server_runs_as_it_would_without_salve() {
    let project = Project::new();
    // Nobody can make a directory there.
    let mut salve = dev(&project, &["--", "sh", "-c", "echo it ran; exit 7"]);
    let output = salve.current_dir("/sys/kernel").stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "it ran\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("nothing is healed"), "{output:?}");
}

#[test]
fn git_sees_nothing_of_a_server_that_ran() {
    let project = Project::new();
    git(&project, &["init", "-q"]);
    let output = dev(&project, &["--", "true"]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(git(&project, &["status", "--porcelain"]), "");
}

#[test]
fn who_quits_has_the_servers_own_answer_and_no_repair() {
    let project = Project::new();
    let goes_on =
        "trap 'echo all threads >> dump.txt' QUIT; echo > ready; while :; do sleep 0.05; done";
    let salve = Unattended::start(&project, &[], &["sh", "-c", goes_on]);
    wait_for("a server", || project.dir().join("ready").exists());
    signal("QUIT", salve.salve.id());
    wait_for("what it writes down", || project.dir().join("dump.txt").exists());
    drop(salve);
    assert!(events(&project, "opened").is_empty());
    let mut salve = Unattended::start(&project, &[], &["sh", "-c", "echo > again; exec sleep 300"]);
    wait_for("a server", || project.dir().join("again").exists());
    signal("QUIT", salve.salve.id());
    assert!(salve.salve.wait().unwrap().success());
    assert!(events(&project, "opened").is_empty(), "{}", salve.said());
}

#[test]
fn a_command_runs_where_it_is_typed_and_those_of_two_packages_side_by_side() {
    let project = Project::new();
    git(&project, &["init", "-q"]);
    for package in ["api", "Web UI"] {
        project.write(&format!("{package}/run.sh"), "pwd > here.txt; exec sleep 300\n");
    }
    let mut running = Vec::new();
    for package in ["api", "Web UI"] {
        let dir = project.dir().join(package);
        let mut salve = dev(&project, &["--", "sh", "./run.sh"]);
        salve.current_dir(&dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        running.push(salve.spawn().unwrap());
        let here = || std::fs::read_to_string(dir.join("here.txt")).unwrap_or_default();
        wait_for("its directory", || here().ends_with('\n'));
        assert_eq!(here().trim(), dir.canonicalize().unwrap().to_str().unwrap());
    }
    wait_for("two servers", || {
        let listed = project.run(&["ps"]);
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        listed.contains("api ") && listed.contains("web-ui ")
    });
    for mut salve in running {
        signal("TERM", salve.id());
        salve.wait().unwrap();
    }
}

#[test]
fn a_server_that_fails_while_another_salve_repairs_has_its_turn_after_it() {
    let project = Project::new();
    let script = "echo x >> one; [ $(wc -l < one) -gt 1 ] && exec sleep 300; exit 7";
    let mut first = dev(&project, &["--json", "--name", "one", "--", "sh", "-c", script]);
    // The watch for a relapse holds the repair lock.
    first.env("SALVE_SERVER_FLAP_WINDOW_MS", "600000");
    let mut first = first.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    wait_for("the lock", || project.dir().join(".dev-repair.lock").exists());
    let script = script.replace("one", "two");
    let said = File::create(project.home().join("said.log")).unwrap();
    let mut salve = dev(&project, &["--name", "two", "--", "sh", "-c", &script]);
    let salve = salve.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said).spawn().unwrap();
    let second = Unattended { project: &project, salve };
    second.until("this server has its turn");
    let starts = || std::fs::read_to_string(project.dir().join("two")).unwrap().lines().count();
    assert_eq!(starts(), 1, "{}", second.said());
    signal("TERM", first.id());
    first.wait().unwrap();
    wait_for("the second start", || starts() == 2);
    second.until("starts again");
}

#[test]
fn the_last_lines_of_a_server_that_ends_are_passed_on_to_a_slow_reader() {
    let project = Project::new();
    // More than our own pipe holds, and less than it and the server's together.
    let mut salve = dev(&project, &["--", "seq", "1", "25000"]);
    let said = File::create(project.home().join("said.log")).unwrap();
    let salve = salve.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(said).spawn().unwrap();
    wait_for("the server's end", || !events(&project, "server_stopped").is_empty());
    let output = salve.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!((text.lines().count(), text.lines().last()), (25_000, Some("25000")));
}

/// Works for a while after it said where it answers, then listens and takes its time for each answer.
const SLOW: &str = r#"
import http.server, socket, sys, time
port = socket.create_server(("127.0.0.1", 0)).getsockname()[1]
print(f"http://127.0.0.1:{port}/", flush=True)
open("starts", "a").write("x\n")
late, slow = float(sys.argv[1]), float(sys.argv[2])
until = time.time() + late
while time.time() < until: pass
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(slow)
        self.send_response(200); self.end_headers(); self.wfile.write(b"hello")
    def log_message(self, *args): pass
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"#;

#[test]
fn a_server_that_is_slow_or_listens_late_is_left_alone() {
    for (late, slow) in [("0", "3"), ("4", "0")] {
        let project = Project::new();
        project.write("slow.py", SLOW);
        let times =
            [("REPAIR_HEALTH_TIMEOUT_MS", "300"), ("SALVE_SERVER_STARTUP_TIMEOUT_MS", "1000")];
        let server = Unattended::start(&project, &times, &["python3", "slow.py", late, slow]);
        server.until(if late == "0" { "up" } else { "it works on something" });
        wait_for("its answer", || !events(&project, "server_up").is_empty());
        assert!(events(&project, "opened").is_empty(), "{}", server.said());
        let starts = std::fs::read_to_string(project.dir().join("starts")).unwrap();
        assert_eq!(starts.lines().count(), 1, "{}", server.said());
    }
}

#[test]
fn a_server_that_answers_nothing_and_does_nothing_hangs() {
    let project = Project::new();
    project.write("slow.py", SLOW);
    let times = [
        ("REPAIR_HEALTH_TIMEOUT_MS", "300"),
        ("SALVE_SERVER_STARTUP_TIMEOUT_MS", "1000"),
        ("SALVE_SERVER_LIVENESS_GRACE_MS", "1000"),
    ];
    let server = Unattended::start(&project, &times, &["python3", "slow.py", "0", "300"]);
    wait_for("the incident", || !events(&project, "opened").is_empty());
    server.until("does not answer");
}
