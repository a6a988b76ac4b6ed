//! Servers that are ill or wait for a person: never worse than the bare command.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use pty_process::blocking::Pty;
use serde_json::Value;

use crate::bench::signal;
use crate::support::{Project, dev, is_alive, wait_for};

/// Answers with what `answer.txt` says, and notes each request and each start.
const WEB: &str = r#"
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        open("asked.txt", "a").write("x\n")
        status = int(open("answer.txt").read())
        if status == 500: print("ZeroDivisionError: division by zero", file=sys.stderr, flush=True)
        self.send_response(status); self.end_headers(); self.wfile.write(b"hello")
    def log_message(self, *args): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
open("pids.txt", "a").write(f"{os.getpid()}\n")
print(f"http://127.0.0.1:{server.server_port}/", flush=True)
server.serve_forever()
"#;

/// `salve dev` with a terminal, so that somebody could answer.
pub(crate) struct Attended {
    salve: Child,
    _pty: Pty,
    screen: Arc<Mutex<String>>,
}

impl Attended {
    pub(crate) fn start(project: &Project, env: &[(&str, &str)], command: &[&str]) -> Self {
        let (pty, pts) = pty_process::blocking::open().unwrap();
        let mut salve = dev(project, &[&["--"], command].concat());
        salve.envs(env.iter().copied());
        let salve = pty_process::blocking::Command::from(salve).spawn(pts).unwrap();
        let reader = std::os::fd::AsFd::as_fd(&pty).try_clone_to_owned().unwrap();
        let screen = Arc::new(Mutex::new(String::new()));
        let seen = Arc::clone(&screen);
        std::thread::spawn(move || {
            use std::io::Read as _;
            let (mut reader, mut bytes) = (std::fs::File::from(reader), [0; 4096]);
            while let Ok(read @ 1..) = reader.read(&mut bytes) {
                seen.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..read]));
            }
        });
        Self { salve, _pty: pty, screen }
    }

    /// Returns what was written to the terminal so far.
    pub(crate) fn screen(&self) -> String {
        self.screen.lock().unwrap().clone()
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        if let Ok(None) = self.salve.try_wait() {
            signal("TERM", self.salve.id());
            let _ = self.salve.wait();
        }
    }
}

fn events(project: &Project, kind: &str) -> Vec<Value> {
    let output = project.run(&["events", "--json", "--kind", kind]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn lines(project: &Project, file: &str) -> usize {
    std::fs::read_to_string(project.dir().join(file)).unwrap_or_default().lines().count()
}

/// Has the server answer with this status from now on; it never finds half a file.
fn answer(project: &Project, status: &str) {
    project.write("answer.new", status);
    let dir = project.dir();
    std::fs::rename(dir.join("answer.new"), dir.join("answer.txt")).unwrap();
}

fn asks(project: &Project) -> bool {
    let asked = events(project, "requested");
    asked.iter().any(|entry| entry.to_string().contains("\"ask\""))
}

/// Tells whether a server was found to answer at its address.
fn answers(project: &Project) -> bool {
    events(project, "server_up").iter().any(|entry| entry.to_string().contains("http://"))
}

/// Times after which an ill server is told of at once.
const QUICK: [(&str, &str); 2] =
    [("SALVE_SERVER_LIVENESS_INTERVAL_MS", "50"), ("SALVE_SERVER_LIVENESS_GRACE_MS", "100")];

#[test]
fn a_server_that_reloads_by_itself_is_left_running_told_of_once_and_seen_to_be_mended() {
    let project = Project::new();
    project.write("web.py", WEB);
    answer(&project, "200");
    // The word says that it reloads, and it does.
    let _salve = Attended::start(&project, &QUICK, &["python3", "web.py", "--reload"]);
    wait_for("a server that is up", || answers(&project));
    answer(&project, "500");
    wait_for("a question", || asks(&project));
    assert_eq!(lines(&project, "pids.txt"), 1, "it is not restarted");
    let pid = std::fs::read_to_string(project.dir().join("pids.txt")).unwrap();
    assert!(is_alive(pid.trim().parse().unwrap()), "it is left running");
    let opened = events(&project, "opened");
    assert_eq!(opened.len(), 1, "{opened:?}");
    let told = opened[0].to_string();
    assert!(told.contains("ZeroDivisionError: division by zero"), "{told}");
    answer(&project, "200");
    wait_for("its end", || !events(&project, "came_back").is_empty());
    wait_for("the end of the incident", || !events(&project, "ended").is_empty());
    assert_eq!((lines(&project, "pids.txt"), events(&project, "opened").len()), (1, 1));
}

#[test]
fn a_server_that_is_mended_while_it_is_looked_into_is_not_restarted() {
    let project = Project::new();
    project.write("web.py", WEB);
    answer(&project, "200");
    let _salve = Attended::start(&project, &QUICK, &["python3", "web.py", "--reload"]);
    wait_for("a server that is up", || answers(&project));
    answer(&project, "500");
    wait_for("an incident", || !events(&project, "opened").is_empty());
    // At once, so that it may be well before anything is chosen.
    answer(&project, "200");
    wait_for("its end", || !events(&project, "ended").is_empty());
    assert!(!events(&project, "came_back").is_empty());
    assert_eq!(lines(&project, "pids.txt"), 1, "it is not restarted");
}

#[test]
fn an_ill_server_that_does_not_reload_is_restarted_once_and_then_left_running() {
    let project = Project::new();
    project.write("web.py", WEB);
    answer(&project, "200");
    let _salve = Attended::start(&project, &QUICK, &["python3", "web.py"]);
    wait_for("a server that is up", || answers(&project));
    answer(&project, "500");
    wait_for("a question", || asks(&project));
    assert_eq!(lines(&project, "pids.txt"), 2, "it is restarted once");
    let pids = std::fs::read_to_string(project.dir().join("pids.txt")).unwrap();
    assert!(is_alive(pids.lines().last().unwrap().parse().unwrap()), "it is left running");
}

/// A server that needs `app.txt` to say `good`, and notes its starts.
const NEEDS_GOOD: &str = "echo x >> starts.log; grep -q good app.txt || { \
    echo \"SyntaxError: invalid syntax (app.txt, line $(wc -l < app.txt))\" >&2; exit 1; }; \
    exec sleep 300";

#[test]
fn a_changed_file_starts_a_server_again_that_waits_for_a_person() {
    let project = Project::new();
    project.write(".gitignore", "ignored.txt\n");
    project.write("app.txt", "bad\n");
    let env = [("REPAIR_MAX_ATTEMPTS", "1")];
    let _salve = Attended::start(&project, &env, &["sh", "-c", NEEDS_GOOD]);
    let waits = || {
        let exhausted = !events(&project, "exhausted").is_empty();
        exhausted || asks(&project)
    };
    wait_for("a give-up", waits);
    let before = lines(&project, "starts.log");
    project.write("ignored.txt", "x");
    // The watch begins on a thread of its own.
    wait_for("a start", || {
        project.write("app.txt", "bad\n");
        lines(&project, "starts.log") > before
    });
    assert!(!events(&project, "tried_again").is_empty());
    assert!(events(&project, "came_back").is_empty());
    let finished = events(&project, "exhausted").len();
    wait_for("its end", || {
        project.write("app.txt", "good\n");
        !events(&project, "came_back").is_empty()
    });
    let back = events(&project, "came_back")[0].to_string();
    assert!(back.contains("app.txt changed"), "{back}");
    assert_eq!(events(&project, "exhausted").len(), finished, "no attempt was used up");
    assert_eq!(events(&project, "opened").len(), 1, "it is one incident");
}

#[test]
fn a_service_that_begins_to_answer_starts_the_server_that_needs_it() {
    let project = Project::new();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let script = format!(
        "import socket, time\n\
         try: socket.create_connection(('127.0.0.1', {port}))\n\
         except OSError: raise SystemExit('Error: connect ECONNREFUSED 127.0.0.1:{port}')\n\
         time.sleep(300)\n"
    );
    project.write("app.py", script);
    let _salve = Attended::start(&project, &[], &["python3", "app.py"]);
    wait_for("a question", || asks(&project));
    assert_eq!(events(&project, "server_started").len(), 1, "starting it again cannot help");
    let _service = TcpListener::bind(("127.0.0.1", port)).unwrap();
    wait_for("its end", || !events(&project, "came_back").is_empty());
    let back = events(&project, "came_back")[0].to_string();
    assert!(back.contains(&format!("127.0.0.1:{port} answers")), "{back}");
}

#[test]
fn every_word_that_says_start_starts_it() {
    for word in ["approve", "retry", "start", "restart", "resolve"] {
        let project = Project::new();
        project.write("app.txt", "bad\n");
        let env = [("REPAIR_MAX_ATTEMPTS", "1")];
        let _salve = Attended::start(&project, &env, &["sh", "-c", NEEDS_GOOD]);
        wait_for("a give-up", || !events(&project, "exhausted").is_empty() || asks(&project));
        let before = lines(&project, "starts.log");
        let said = project.run(&[word]);
        assert_eq!(said.status.code(), Some(0), "{word}: {said:?}");
        wait_for(word, || lines(&project, "starts.log") > before);
    }
}

#[test]
fn without_a_terminal_a_person_is_called_at_once() {
    let project = Project::new();
    let mut salve = dev(&project, &["--", "sh", "-c", "echo 'Error: no luck' >&2; exit 1"]);
    salve.env("SALVE_AGENT_REPAIR", "true").env("REPAIR_MAX_ATTEMPTS", "1");
    salve.env("SALVE_AGENT_ENGAGE_TIMEOUT_MS", "1").env("SALVE_AGENT_WRITE_TIMEOUT_MS", "1");
    salve.env("REPAIR_QUIET_PERIOD_MS", "1");
    let output = salve.stdin(Stdio::null()).output().unwrap();
    // The cooldown of ten minutes is not waited for.
    assert_eq!(output.status.code(), Some(3), "{output:?}");
}

#[test]
fn ready_is_the_first_good_answer_and_a_missing_page_is_said() {
    let project = Project::new();
    project.write("web.py", WEB);
    answer(&project, "404");
    let mut salve = dev(&project, &["--", "python3", "web.py"]);
    // Nothing is proven here, so nothing soaks.
    salve.env("SALVE_SERVER_HEALTH_SOAK_MS", "600000");
    let stderr = std::fs::File::create(project.dir().join("said.log")).unwrap();
    let salve = salve.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).spawn().unwrap();
    let said = || std::fs::read_to_string(project.dir().join("said.log")).unwrap();
    wait_for("a server that is up", || said().contains("answers 404, "));
    end(salve);
    // Where a path is set, a page that is not there is no health.
    let mut salve = dev(&project, &["--", "python3", "web.py"]);
    salve.env("SALVE_SERVER_HEALTH_PATH", "/health").env("SALVE_SERVER_STARTUP_TIMEOUT_MS", "100");
    let salve =
        salve.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("an incident", || !events(&project, "opened").is_empty());
    end(salve);
}

#[test]
fn a_server_that_says_late_where_it_answers_is_looked_at_there() {
    let project = Project::new();
    // It says so only when it has been up for longer than its start-up may take.
    let late = WEB.replace("import http.server", "import time; time.sleep(4)\nimport http.server");
    project.write("web.py", late);
    answer(&project, "200");
    let mut salve = dev(&project, &["--", "python3", "web.py"]);
    salve.env("SALVE_SERVER_STARTUP_TIMEOUT_MS", "100");
    let salve =
        salve.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("an answer to a look", || lines(&project, "asked.txt") > 0);
    end(salve);
}

fn end(mut salve: Child) {
    let _ = Command::new("kill").args(["-INT", &salve.id().to_string()]).status();
    salve.wait().unwrap();
}

/// Roles of a loop whose tester proposes a command for tests that cannot be run.
const ROLES: &str = r#"
cat > /dev/null; cd "$SALVE_LOOP_DIR"; now=$(date -u +%FT%TZ)
case $SALVE_ROLE in
planner) echo plan > plan.md;;
implementer) echo done > implementation.md;;
tester) echo report > test-report.md
cat > recovery.json <<END
{"version":1,"timestamp":"$now","category":"dependency","severity":"blocking",
"diagnosis":{"error_pattern":"gone","root_cause":"it is gone","evidence":["test-output.txt:1"]},
"recovery":{"command":"touch cured","working_dir":".","timeout_seconds":60,
"expected_outcome":"it is there","confidence":"high"}}
END
;;
reviewer) echo 'not yet' > review.md;;
esac
"#;

#[test]
fn observing_tells_what_would_be_done_and_does_nothing() {
    let project = Project::new();
    project.write("salve.toml", "[recovery]\nauto_approve = [\"touch cured\"]\n");
    let fails =
        ["--observe", "--", "sh", "-c", "echo x >> starts.log; echo 'Error: no' >&2; exit 1"];
    let output = dev(&project, &fails).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("observing: would try `restart`"), "{said}");
    assert_eq!(lines(&project, "starts.log"), 1, "nothing was done");
    let fails =
        ["heal", "--observe", "--", "sh", "-c", "echo x >> starts.log; echo one >&2; exit 1"];
    let checked = project.run(&fails);
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(said.contains("observing: would try"), "{said}");
    assert_eq!(lines(&project, "starts.log"), 2, "nothing was done");
    let roles =
        ["--task", "mend it", "--tests", "sh check.sh", "--agent", "sh roles.sh", "--no-wait"];
    project.write("check.sh", "echo \"Error: Cannot find module './gone'\" >&2; exit 1\n");
    project.write("roles.sh", ROLES);
    let observed = project.run(&[&["loop", "run", "--id", "v1", "--observe"][..], &roles].concat());
    let said = String::from_utf8_lossy(&observed.stderr).into_owned();
    assert!(said.contains("observing: would try `touch cured`"), "{said}");
    assert!(!project.dir().join("cured").exists(), "nothing was done");
}
