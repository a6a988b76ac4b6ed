//! Failures of what is around a server, healed by the playbook with no settings at all.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::Project;

/// Longer than anything here takes, on however busy a machine.
const LONG: Duration = Duration::from_secs(120);

/// Returns `salve dev` with times short enough for tests.
fn dev(project: &Project, args: &[&str]) -> Command {
    let mut command = project.command(&[&["dev", "--json"], args].concat());
    for (name, value) in [
        ("REPAIR_BASE_DELAY_MS", "1"),
        ("REPAIR_HEALTH_RETRY_DELAY_MS", "20"),
        ("SALVE_SERVER_HEALTH_SOAK_MS", "20"),
        ("SALVE_SERVER_FLAP_WINDOW_MS", "0"),
    ] {
        command.env(name, value);
    }
    command.stdin(Stdio::null()).stderr(Stdio::null());
    command
}

/// Returns the phases that `--json` told, and all that was said.
fn told(output: &Output) -> (Vec<String>, String) {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let facts: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let phases = facts.iter().filter_map(|fact| Some(fact["phase"].as_str()?.to_owned())).collect();
    let story = facts.iter().map(|fact| fact["message"].as_str().unwrap_or_default());
    (phases, story.collect::<Vec<_>>().join("\n"))
}

/// Waits until `is_so`, looking now and then.
#[track_caller]
fn wait_until(mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < deadline, "it did not come to pass");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// Returns the incidents' events of that kind, as they stand in the journal.
fn events(project: &Project, kind: &str) -> Vec<Value> {
    let output = project.run(&["events", "--json", "--kind", kind]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !matches!(rest.split_whitespace().next(), Some("Z" | "X") | None))
}

fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args([name, &pid.to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Starts a process that nobody looks after, as one that a closed terminal left; returns its pid.
fn orphan(dir: &Path, command: &str) -> u32 {
    let file = dir.join("orphan.pid.txt");
    let script = format!("setsid sh -c 'echo $$ > orphan.pid.txt; exec {command}' &");
    let quiet = [Stdio::null(), Stdio::null(), Stdio::null()];
    let [stdin, stdout, stderr] = quiet;
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).current_dir(dir).stdin(stdin).stdout(stdout).stderr(stderr);
    assert!(shell.status().unwrap().success());
    let pid = || std::fs::read_to_string(&file).ok()?.trim().parse().ok();
    wait_until(|| pid().is_some());
    pid().unwrap()
}

/// Serves on a port that it is told, and notes that it does.
const SERVER: &str = r#"
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(str(os.getpid()).encode())
    def log_message(self, *args): pass
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
open("serving.txt", "a").write(f"{os.getpid()}\n")
server.serve_forever()
"#;

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Ends a `salve dev` as a person would.
fn interrupt(mut salve: Child) -> Output {
    signal(salve.id(), "-INT");
    salve.wait().unwrap();
    salve.wait_with_output().unwrap()
}

#[test]
fn missing_packages_are_installed_as_the_lockfile_says() {
    if Command::new("npm").arg("--version").output().is_err() {
        return; // There is no npm here that could install anything.
    }
    let project = Project::new();
    let manifest = r#"{"name":"app","scripts":{"dev":"node server.js"},"dependencies":{"greet":"file:greet"}}"#;
    let lock = r#"{"name":"app","lockfileVersion":3,"requires":true,"packages":{"":{"name":"app","dependencies":{"greet":"file:greet"}},"greet":{"version":"1.0.0"},"node_modules/greet":{"resolved":"greet","link":true}}}"#;
    project.write("package.json", manifest);
    project.write("package-lock.json", lock);
    project.write("greet/package.json", r#"{"name":"greet","version":"1.0.0"}"#);
    project.write("greet/index.js", "module.exports = 'hello'");
    let server =
        "require('fs').writeFileSync('said.txt', require('greet')); setInterval(() => 0, 1000)";
    project.write("server.js", server);
    let salve = dev(&project, &["--", "npm", "run", "dev"]).stdout(Stdio::piped()).spawn().unwrap();
    wait_until(|| !events(&project, "ended").is_empty());
    let output = interrupt(salve);
    assert!(told(&output).0.contains(&"recovered".to_owned()), "{output:?}");
    assert_eq!(std::fs::read_to_string(project.dir().join("said.txt")).unwrap(), "hello");
    assert_eq!(std::fs::read_to_string(project.dir().join("package-lock.json")).unwrap(), lock);
    let chosen = events(&project, "judged");
    assert_eq!(chosen[0]["data"]["judgement"]["rule"], "node.modules-missing", "{chosen:?}");
}

/// A server that refuses to start while its pid file is there.
const PID_FILE: &str = "if [ -e server.pid ]; then \
     echo \"Error: already running, see server.pid\" >&2; exit 1; fi; exec sleep 1";

/// Writes a pid file of a process that ended long ago.
fn leave_pid_file(project: &Project) {
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    project.write("server.pid", gone.id().to_string());
    let mut past = Command::new("touch");
    past.args(["-d", "1 hour ago", "server.pid"]).current_dir(project.dir());
    assert!(past.status().unwrap().success());
}

#[test]
fn a_stale_pid_file_is_removed_and_only_without_being_told_to_ask() {
    let project = Project::new();
    leave_pid_file(&project);
    let output = dev(&project, &["--", "sh", "-c", PID_FILE]).output().unwrap();
    let (phases, story) = told(&output);
    let want = ["crash-detected", "lock-acquired", "restarting", "health-check", "recovered"];
    assert_eq!((phases.as_slice(), output.status.code()), (&want.map(str::to_owned)[..], Some(0)));
    assert!(!project.dir().join("server.pid").exists(), "{story}");
    let known = project.run(&["memory", "list", "--json"]);
    let known = String::from_utf8_lossy(&known.stdout).into_owned();
    assert!(!known.contains("server.pid"), "it is no remedy for another day: {known}");

    let project = Project::new();
    project.write("salve.toml", "[playbook]\nauto = \"none\"\n");
    leave_pid_file(&project);
    let mut asked = project.command(&["dev", "--", "sh", "-c", PID_FILE]);
    let output = asked.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(project.dir().join("server.pid").exists());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("`rm server.pid` may not run") && said.contains("salve approve"),
        "{said}"
    );
}

#[test]
fn an_orphan_that_holds_the_port_is_ended_and_the_new_server_is_the_one_that_answers() {
    let project = Project::new();
    project.write("server.py", SERVER);
    let port = free_port().to_string();
    let orphan = orphan(&project.dir(), &format!("python3 server.py {port}"));
    let serving = || {
        let text = std::fs::read_to_string(project.dir().join("serving.txt")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect::<Vec<u32>>()
    };
    wait_until(|| serving().len() == 1);
    let mut salve = dev(&project, &["--", "python3", "server.py", &port]);
    let salve = salve.stdout(Stdio::piped()).spawn().unwrap();
    wait_until(|| serving().len() == 2 && !events(&project, "ended").is_empty());
    assert!(!is_alive(orphan));
    let output = interrupt(salve);
    assert!(told(&output).0.contains(&"recovered".to_owned()), "{output:?}");
    assert!(serving().iter().all(|pid| !is_alive(*pid)));
}

/// **Invariant:** A stranger's process is never ended, nor a server that a living Salve cares for.
#[test]
fn a_stranger_who_holds_the_port_is_named_and_left_alone() {
    let (project, other) = (Project::new(), Project::new());
    project.write("server.py", SERVER);
    other.write("server.py", SERVER);
    let port = free_port().to_string();
    let stranger = orphan(&other.dir(), &format!("python3 server.py {port}"));
    wait_until(|| other.dir().join("serving.txt").exists());
    let output = dev(&project, &["--", "python3", "server.py", &port]).output().unwrap();
    let alive = is_alive(stranger);
    signal(stranger, "-KILL");
    let (phases, story) = told(&output);
    assert!(alive, "{story}");
    assert_eq!(phases, ["crash-detected", "lock-acquired", "failed_requires_human"]);
    assert_eq!(output.status.code(), Some(3));
    let found = events(&project, "diagnosed")[0]["data"]["findings"].to_string();
    assert!(found.contains(&format!("pid {stranger}")) && found.contains(&port), "{found}");
    let facts = String::from_utf8_lossy(&output.stdout).into_owned();
    let asks = facts.lines().rfind(|line| line.contains("findings")).unwrap();
    let last: Value = serde_json::from_str(asks).unwrap();
    let told = last["findings"][0]["what"].as_str().unwrap();
    assert!(told.contains(&format!("pid {stranger}")), "{last}");
}

#[test]
fn a_server_that_a_living_salve_cares_for_is_left_alone_whatever_that_one_is_called() {
    let project = Project::new();
    project.write("server.py", SERVER);
    let port = free_port().to_string();
    let medic = project.home().join("medic");
    let salve = env!("CARGO_BIN_EXE_salve");
    std::fs::create_dir_all(project.home()).unwrap();
    std::fs::hard_link(salve, &medic).or_else(|_| std::fs::copy(salve, &medic).map(drop)).unwrap();
    let usual = dev(&project, &["--", "python3", "server.py", &port]);
    let envs = usual.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let mut medic = Command::new(medic);
    medic.args(usual.get_args()).envs(envs).current_dir(project.dir());
    let mut medic = medic.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let serving = || std::fs::read_to_string(project.dir().join("serving.txt")).unwrap_or_default();
    wait_until(|| serving().ends_with('\n'));
    let wants = format!("import socket; socket.create_server(('127.0.0.1', {port}))");
    let check = ["heal", "--", "python3", "-c", &wants];
    let output = project.command(&check).stdin(Stdio::null()).output().unwrap();
    let alive = is_alive(serving().trim().parse().unwrap());
    signal(medic.id(), "-INT");
    medic.wait().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(alive, "{said}");
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains(&format!("Port {port} is held by")), "{said}");
}

#[test]
fn a_mistake_in_the_source_goes_to_a_person_with_the_place() {
    let project = Project::new();
    project.write("app.py", "import os\n\ndef broken(:\n    pass\n");
    let output = dev(&project, &["--", "python3", "app.py"]).output().unwrap();
    let (phases, story) = told(&output);
    assert_eq!(phases, ["crash-detected", "lock-acquired", "failed_requires_human"], "{story}");
    assert_eq!(output.status.code(), Some(3));
    let log = std::fs::read_to_string(project.dir().join(".dev-crash.log")).unwrap();
    assert!(log.contains("Found:") && log.contains("app.py:3"), "{log}");
    let shown = project.run(&["show"]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("app.py:3"), "{shown:?}");
}

/// **Invariant:** What may pass by itself is given no heavier remedy than a restart.
#[test]
fn what_may_pass_is_only_run_again() {
    let project = Project::new();
    let script = "echo >> starts; [ $(wc -l < starts) -gt 2 ] && exec sleep 1; \
                  echo 'Error: connect ECONNREFUSED 127.0.0.1:5432' >&2; exit 1";
    let output = dev(&project, &["--", "sh", "-c", script]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let kinds = events(&project, "judged");
    let kinds: Vec<&Value> = kinds.iter().map(|event| &event["data"]["remedy"]["kind"]).collect();
    assert_eq!(kinds, ["retry", "retry"]);
}

/// A project that declares `ms`, and an `npm` of its own that does what the script says.
fn with_npm(project: &Project, script: &str) -> String {
    project.write("package.json", r#"{"name":"app","dependencies":{"ms":"2.1.3"}}"#);
    let lock = r#"{"name":"app","lockfileVersion":3,"packages":{"":{"name":"app","dependencies":{"ms":"2.1.3"}},"node_modules/ms":{"version":"2.1.3"}}}"#;
    project.write("package-lock.json", lock);
    project.write("node_modules/other/index.js", "the user's own");
    project.write("bin/npm", format!("#!/bin/sh\n{script}\n"));
    let npm = project.dir().join("bin/npm");
    std::fs::set_permissions(&npm, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    format!("{}:{path}", project.dir().join("bin").display())
}

#[test]
fn a_server_that_runs_and_tells_what_it_lacks_is_helped() {
    let project = Project::new();
    let npm = "mkdir -p node_modules/ms; echo '{}' > node_modules/ms/package.json";
    let path = with_npm(&project, npm);
    let script = "[ -d node_modules/ms ] || \
        echo 'Failed to resolve import \"ms\" from \"src/main.js\". Does the file exist?'; \
        exec sleep 300";
    let mut salve = dev(&project, &["--", "sh", "-c", script]);
    let salve = salve.env("PATH", &path).stdout(Stdio::piped()).spawn().unwrap();
    wait_until(|| !events(&project, "ended").is_empty());
    let output = interrupt(salve);
    assert!(told(&output).0.contains(&"recovered".to_owned()), "{output:?}");
    assert_eq!(events(&project, "judged")[0]["data"]["judgement"]["rule"], "node.package-missing");
}

/// Returns the `sleep` that a command in the sandbox became, by the number that it has out here.
fn sleeping_in(project: &Project) -> Option<u32> {
    let dir = project.dir().canonicalize().unwrap();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let mut pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.find(|pid: &u32| {
        let at = |name: &str| format!("/proc/{pid}/{name}");
        let is_here = std::fs::read_link(at("cwd")).is_ok_and(|cwd| cwd == dir);
        let words = std::fs::read(at("cmdline")).unwrap_or_default();
        is_here && words.starts_with(b"sleep\x00300")
    })
}

/// **Invariant:** What a remedy moved away comes back if Salve is killed.
#[test]
fn what_was_moved_away_comes_back_when_salve_is_killed_in_the_midst() {
    let project = Project::new();
    let npm = "mkdir -p node_modules/half; echo $$ > npm.pid.txt; exec sleep 300";
    let path = with_npm(&project, npm);
    let script =
        "[ -e npm.pid.txt ] && exec sleep 1; echo \"Error: Cannot find module 'ms'\" >&2; exit 1";
    let mut salve = dev(&project, &["--", "sh", "-c", script]);
    let mut salve = salve.env("PATH", &path).stdout(Stdio::null()).spawn().unwrap();
    let pid = || sleeping_in(&project);
    wait_until(|| pid().is_some());
    let npm = pid().unwrap();
    let own = project.dir().join("node_modules/other/index.js");
    assert!(!own.exists(), "it was moved away");
    let children = format!("/proc/{0}/task/{0}/children", salve.id());
    let worker = std::fs::read_to_string(children).unwrap();
    signal(worker.split_whitespace().next().unwrap().parse().unwrap(), "-KILL");
    salve.wait().unwrap();
    wait_until(|| !is_alive(npm));
    let output = dev(&project, &["--", "sh", "-c", script]).env("PATH", &path).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(std::fs::read_to_string(own).unwrap(), "the user's own");
    assert!(!project.dir().join("node_modules/half").exists());
}

#[test]
fn what_was_moved_away_comes_back_at_once_when_salve_is_told_to_end() {
    let project = Project::new();
    let npm = "mkdir -p node_modules/half; echo $$ > npm.pid.txt; exec sleep 300";
    let path = with_npm(&project, npm);
    let script = "echo \"Error: Cannot find module 'ms'\" >&2; exit 1";
    let mut salve = dev(&project, &["--", "sh", "-c", script]);
    let mut salve = salve.env("PATH", &path).stdout(Stdio::null()).spawn().unwrap();
    let pid = || sleeping_in(&project);
    wait_until(|| pid().is_some());
    let npm = pid().unwrap();
    let own = project.dir().join("node_modules/other/index.js");
    assert!(!own.exists(), "it was moved away");
    signal(salve.id(), "-INT");
    assert_eq!(salve.wait().unwrap().code(), Some(130));
    assert!(!is_alive(npm));
    assert_eq!(std::fs::read_to_string(own).unwrap(), "the user's own");
    assert!(!project.dir().join("node_modules/half").exists());
}

/// Fills more of Node's heap than a small one holds, and then goes on.
const HUNGRY: &str = "const kept = []; for (let i = 0; i < 700000; i++) kept.push({ i, t: 'x' + i, l: [i, i] }); \
                      setTimeout(() => process.exit(kept.length ? 0 : 1), 1500);";

#[test]
fn a_server_whose_heap_was_full_gets_a_larger_one_for_the_run() {
    let project = Project::new();
    project.write("hungry.js", HUNGRY);
    let mut salve = dev(&project, &["--", "node", "hungry.js"]);
    let output = salve.env("NODE_OPTIONS", "--max-old-space-size=48").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{:?}", told(&output));
    let set = events(&project, "environment_set");
    assert_eq!(set[0]["data"]["variables"][0]["name"], "NODE_OPTIONS", "{set:?}");
    assert!(!project.dir().join("salve.toml").exists());
}
