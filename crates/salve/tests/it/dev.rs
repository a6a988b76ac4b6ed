//! Dev servers that crash, heal, give up and are stopped.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::support::{Project, dev, is_alive, wait_until};

fn run(mut command: Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}

/// Returns the phases that `--json` told, in their order.
fn phases(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let phase = |line: &str| {
        let fact: Value = serde_json::from_str(line).unwrap();
        fact["phase"].as_str().map(str::to_owned)
    };
    text.lines().filter_map(phase).collect()
}

/// Starts a server that tells the pids of itself and of a child that left it, and waits for them.
fn start(project: &Project) -> (Child, u32, Vec<u32>) {
    let script = "setsid env -i sh -c 'echo $$ >> pids; exec sleep 300' & \
                  while ! [ -s pids ]; do :; done; echo $$ >> pids; exec sleep 300";
    let mut salve = dev(project, &["--", "sh", "-c", script]);
    let salve = salve.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let pids = || {
        let text = std::fs::read_to_string(project.dir().join("pids")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect::<Vec<u32>>()
    };
    wait_until(|| pids().len() == 2);
    let children = format!("/proc/{0}/task/{0}/children", salve.id());
    let worker = std::fs::read_to_string(children).unwrap();
    let worker = worker.split_whitespace().next().unwrap().parse().unwrap();
    (salve, worker, pids())
}

#[test]
fn a_server_that_fails_once_heals_by_a_restart() {
    let project = Project::new();
    let script =
        "if [ -e been ]; then exec sleep 1; fi; touch been; echo 'Error: no luck' >&2; exit 7";
    let mut command = dev(&project, &["--json", "--", "sh", "-c", script]);
    // What ended by itself is not watched for a relapse.
    command.env("SALVE_SERVER_FLAP_WINDOW_MS", "600000");
    let output = run(command);
    let want =
        ["crash-detected", "lock-acquired", "waiting", "restarting", "health-check", "recovered"];
    assert_eq!(phases(&output), want, "{output:?}");
    assert_eq!(output.status.code(), Some(0), "it ended by itself in the end");
    let log = std::fs::read_to_string(project.dir().join(".dev-crash.log")).unwrap();
    assert!(log.contains("exit 7") && log.contains("Error: no luck"), "{log}");
    assert!(!project.dir().join(".dev-repair.lock").exists());
}

/// **Invariant:** The cooldown outlives Salve, and crashes meanwhile are not repaired.
#[test]
fn a_server_that_never_heals_is_given_up_and_its_cooldown_outlives_salve() {
    let project = Project::new();
    let broken = ["--json", "--", "sh", "-c", "echo 'Error: broken' >&2; exit 1"];
    let output = run(dev(&project, &broken));
    let attempt = ["waiting", "restarting", "health-check", "failed"];
    let want =
        [&["crash-detected", "lock-acquired"][..], &attempt, &attempt, &attempt, &["exhausted"]];
    assert_eq!(phases(&output), want.concat(), "{output:?}");
    assert_eq!(output.status.code(), Some(3));

    // What no person started is not repaired meanwhile.
    let mut again = dev(&project, &broken);
    again.env("SALVE_AGENT", "1");
    let output = run(again);
    assert_eq!(phases(&output), ["crash-detected", "aborted"], "{output:?}");
    assert_eq!(output.status.code(), Some(3));
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let result: serde_json::Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
    let states: Vec<&str> = result["incidents"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one["state"].as_str())
        .collect();
    assert_eq!(states, ["aborted", "cooldown"], "each is told once, as it ended: {result}");
    // Whoever starts it by hand ends the cooldown.
    let output = run(dev(&project, &broken));
    assert_eq!(phases(&output), want.concat(), "{output:?}");
    let output = run(dev(&project, &["--", "true"]));
    assert_eq!(output.status.code(), Some(0), "what ends by itself needs nobody");
    let logs = std::fs::read_dir(project.dir()).unwrap();
    let own = |name: &str| {
        name.starts_with(".dev-crash.") && name.len() == ".dev-crash.01234567.log".len()
    };
    let own = logs.filter(|log| own(&log.as_ref().unwrap().file_name().to_string_lossy())).count();
    assert_eq!(own, 3, "each incident has a log of its own");
}

/// **Invariant:** Exit 0 is no crash.
#[test]
fn an_exit_without_error_is_no_crash() {
    let project = Project::new();
    let output = run(dev(&project, &["--", "sh", "-c", "echo bye"]));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(output.stdout, b"bye\n");
    let events = project.run(&["events", "--json"]);
    assert!(!String::from_utf8_lossy(&events.stdout).contains("\"opened\""), "{events:?}");
}

#[test]
fn a_command_that_goes_to_the_background_is_told_what_becomes_of_it() {
    let project = Project::new();
    let output = run(dev(&project, &["--", "sh", "-c", "setsid sleep 300 & exit 0"]));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("stays in the foreground"), "{said}");
}

#[test]
fn a_clean_stop_while_it_is_verified_is_no_failure_and_no_heal() {
    let project = Project::new();
    let script = "echo run >> runs; if [ -e been ]; then exit 0; fi; touch been; exit 7";
    let mut command = dev(&project, &["--json", "--", "sh", "-c", script]);
    // It ends long before it could be proven well.
    command.env("SALVE_SERVER_HEALTH_SOAK_MS", "600000");
    let output = run(command);
    let want =
        ["crash-detected", "lock-acquired", "waiting", "restarting", "health-check", "aborted"];
    assert_eq!(phases(&output), want, "{output:?}");
    assert_eq!(output.status.code(), Some(0), "it ended by itself in the end");
    let runs = std::fs::read_to_string(project.dir().join("runs")).unwrap();
    assert_eq!(runs.lines().count(), 2, "it is not run again");
    assert!(!project.dir().join(".dev-repair.lock").exists());
    let output = run(dev(&project, &["--json", "--", "sh", "-c", "exit 3"]));
    assert_eq!(phases(&output)[0], "crash-detected", "the first incident is over: {output:?}");
}

/// **Invariant:** Nothing survives the keeper or the worker.
#[test]
fn nothing_survives_the_keeper_or_the_worker() {
    for victim in ["keeper", "worker"] {
        let project = Project::new();
        let (mut salve, worker, pids) = start(&project);
        match victim {
            "keeper" => salve.kill().unwrap(),
            _ => {
                let kill = Command::new("kill").args(["-9", &worker.to_string()]).status();
                assert!(kill.unwrap().success());
            }
        }
        salve.wait().unwrap();
        wait_until(|| pids.iter().chain([&worker]).all(|pid| !is_alive(*pid)));
    }
}

#[test]
fn ctrl_c_ends_the_server_and_salve() {
    let project = Project::new();
    let (mut salve, _, pids) = start(&project);
    let kill = Command::new("kill").args(["-INT", &salve.id().to_string()]).status();
    assert!(kill.unwrap().success());
    assert_eq!(salve.wait().unwrap().code(), Some(130));
    assert!(pids.iter().all(|pid| !is_alive(*pid)));
}

#[test]
fn a_second_salve_is_told_who_cares_for_the_server() {
    let project = Project::new();
    let (mut salve, worker, _) = start(&project);
    let output = run(dev(&project, &["--", "true"]));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(&format!("process {worker}")), "{said}");
    salve.kill().unwrap();
    salve.wait().unwrap();
}

#[test]
fn output_passes_untouched() {
    let project = Project::new();
    let script = r"printf '\033[31mred\033[0m\r50%%\377\n'; printf 'to stderr' >&2";
    let mut command = dev(&project, &["--quiet", "--", "sh", "-c", script]);
    let mut salve = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = Vec::new();
    BufReader::new(salve.stdout.take().unwrap()).read_until(b'\n', &mut line).unwrap();
    assert_eq!(line, b"\x1b[31mred\x1b[0m\r50%\xff\n");
    salve.wait().unwrap();
}

/// Starts a server that crashes once and is healed, and waits until it is.
fn healed(project: &Project) -> Child {
    let script = "if [ -e been ]; then exec sleep 300; fi; touch been; exit 7";
    let mut salve = dev(project, &["--json", "--", "sh", "-c", script]);
    // The watch for a relapse goes on for longer than this takes.
    salve.env("SALVE_SERVER_FLAP_WINDOW_MS", "600000");
    let mut salve = salve.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(salve.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("recovered")));
    salve
}

#[test]
fn what_runs_under_the_name_of_a_healed_server_is_not_its_relapse() {
    for ending in ["-INT", "-KILL"] {
        let project = Project::new();
        let mut salve = healed(&project);
        Command::new("kill").args([ending, &salve.id().to_string()]).status().unwrap();
        salve.wait().unwrap();
        let again = || run(dev(&project, &["--json", "--", "sh", "-c", "exit 5"]));
        // The worker of one that was killed takes a moment to end in order.
        wait_until(|| again().status.code() == Some(3));
        let events = project.run(&["events", "--json"]);
        let events = String::from_utf8_lossy(&events.stdout).into_owned();
        let kinds = |kind: &str| events.matches(&format!("\"event\":\"{kind}\"")).count();
        assert_eq!((kinds("sickened"), kinds("opened")), (0, 2), "{ending}: {events}");
        let shown = project.run(&["status", "--json"]);
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(!shown.contains("recovered"), "the first is over: {shown}");
    }
}

#[test]
fn another_failure_of_a_healed_server_is_another_incident() {
    let project = Project::new();
    let script = "echo run >> runs; case $(wc -l < runs) in \
                  1) echo 'Error: the first' >&2; exit 1;; \
                  2) while [ ! -e go ]; do sleep 0.05; done; echo 'TypeError: x is null' >&2; exit 2;; \
                  *) exec sleep 300;; esac";
    let mut salve = dev(&project, &["--json", "--", "sh", "-c", script]);
    salve.env("SALVE_SERVER_FLAP_WINDOW_MS", "600000");
    let mut salve = salve.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(salve.stdout.take().unwrap()).lines();
    let mut recovered = || lines.any(|line| line.unwrap().contains("recovered"));
    assert!(recovered());
    project.write("go", "");
    assert!(recovered());
    let events = project.run(&["events", "--json"]);
    let events = String::from_utf8_lossy(&events.stdout).into_owned();
    let kinds = |kind: &str| events.matches(&format!("\"event\":\"{kind}\"")).count();
    assert_eq!((kinds("sickened"), kinds("opened")), (0, 2), "{events}");
    let logs = || std::fs::read_dir(project.dir()).unwrap().flatten();
    let is_own = |name: &str| name.starts_with(".dev-crash.") && name != ".dev-crash.log";
    let own = || logs().filter(|file| is_own(&file.file_name().to_string_lossy())).count();
    wait_until(|| own() == 2);
    salve.kill().unwrap();
    salve.wait().unwrap();
}

#[test]
fn a_signal_to_the_whole_group_ends_it_once_and_in_order() {
    let project = Project::new();
    let script = "if [ -e been ]; then exec sleep 300; fi; touch been; exit 7";
    let mut salve = dev(&project, &["--json", "--", "sh", "-c", script]);
    // The watch for a relapse holds the repair lock.
    salve.env("SALVE_SERVER_FLAP_WINDOW_MS", "600000").process_group(0);
    let mut salve = salve.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(salve.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("recovered")));
    assert!(project.dir().join(".dev-repair.lock").exists());
    let group = format!("-{}", salve.id());
    Command::new("kill").args(["-TERM", "--", &group]).status().unwrap();
    assert_eq!(salve.wait().unwrap().code(), Some(128 + 15));
    assert!(!project.dir().join(".dev-repair.lock").exists(), "it left in order");
}

/// Hangs up after its own greeting.
const GREETER: &str = "\
import socket
s = socket.create_server(('127.0.0.1', 0))
while True:
    c, _ = s.accept()
    c.sendall(b'220 mail\\r\\n')
    c.close()
";

/// Waits for the rest of a long message, since it reads a request of HTTP as its length.
const WAITER: &str = "\
import socket
s = socket.create_server(('127.0.0.1', 0))
print('listening on 127.0.0.1:%d' % s.getsockname()[1], flush=True)
kept = []
while True:
    kept.append(s.accept())
";

#[test]
fn a_server_that_speaks_no_http_is_not_taken_for_an_ill_one() {
    for script in [GREETER, WAITER] {
        let project = Project::new();
        project.write("server.py", script);
        let mut salve = dev(&project, &["--json", "--", "python3", "server.py"]);
        salve.env("SALVE_SERVER_STARTUP_TIMEOUT_MS", "2000");
        salve.env("REPAIR_HEALTH_TIMEOUT_MS", "300");
        let mut salve = salve.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let events =
            || String::from_utf8_lossy(&project.run(&["events", "--json"]).stdout).into_owned();
        wait_until(|| events().contains("\"server_up\"") || events().contains("\"opened\""));
        let events = events();
        salve.kill().unwrap();
        salve.wait().unwrap();
        assert!(!events.contains("\"opened\""), "{events}");
    }
}
