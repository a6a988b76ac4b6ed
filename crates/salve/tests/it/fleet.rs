//! Several servers at once, and what another terminal does with them.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use crate::support::{Project, wait_until};

/// Two servers: `web` waits until `api` is well, and both tell of signals.
const SETTINGS: &str = r#"
[server]
health.soak_ms = 20
[repair]
health_retry_delay_ms = 20
[servers.api]
command = "trap 'echo api got USR1' USR1; echo api starts; while :; do sleep 0.05; done"
[servers.web]
command = "echo web starts with PASSWORD=hunter2-Zq81; while :; do sleep 0.05; done"
depends_on = ["api"]
"#;

/// Starts the servers and waits until both run.
fn start(project: &Project) -> Child {
    project.write("salve.toml", SETTINGS);
    let mut salve = project.command(&["dev"]);
    let salve = salve.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let salve = salve.spawn().unwrap();
    wait_until(|| log(project, "web").contains("web starts"));
    salve
}

fn log(project: &Project, server: &str) -> String {
    let path = project.dir().join(format!(".salve/logs/{server}.log"));
    std::fs::read_to_string(path).unwrap_or_default()
}

fn stop(mut salve: Child) -> Vec<String> {
    let pid = salve.id().to_string();
    std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap();
    let lines = BufReader::new(salve.stdout.take().unwrap()).lines();
    let lines = lines.map(Result::unwrap).collect();
    salve.wait().unwrap();
    lines
}

#[test]
fn servers_start_in_their_order_and_share_a_terminal() {
    let project = Project::new();
    let salve = start(&project);
    let lines = stop(salve);
    assert_eq!(
        lines,
        ["api | api starts", "web | web starts with PASSWORD=hunter2-Zq81"],
        "what is shown is what they wrote, behind their names"
    );
    let kept = log(&project, "web");
    assert!(kept.contains("web starts with PASSWORD=[secret:"), "{kept}");
    assert!(!kept.contains("hunter2"), "{kept}");
}

#[test]
fn one_server_is_stopped_started_and_restarted_from_another_terminal() {
    let project = Project::new();
    let salve = start(&project);
    let starts = |text: &str| text.matches("web starts").count();
    let said = |args: &[&str]| {
        let output = project.run(args);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).trim().to_owned())
    };
    assert_eq!(said(&["stop", "web"]), (Some(0), "web stopped".into()));
    assert_eq!(said(&["stop", "web"]), (Some(0), "web is down already".into()));
    assert_eq!(said(&["start", "web"]), (Some(0), "web started".into()));
    assert_eq!(said(&["start", "web"]), (Some(0), "web runs already".into()));
    wait_until(|| starts(&log(&project, "web")) == 2);
    assert_eq!(said(&["restart", "web"]), (Some(0), "web restarted".into()));
    wait_until(|| starts(&log(&project, "web")) == 3);
    assert_eq!(log(&project, "api").matches("api starts").count(), 1, "api was left alone");
    let (code, which) = said(&["restart"]);
    assert_eq!(code, Some(2));
    assert!(which.contains("api, web"), "{which}");
    let (code, unknown) = said(&["stop", "nobody"]);
    assert_eq!(code, Some(2));
    assert!(unknown.contains("running here: api, web"), "{unknown}");
    let logs = project.run(&["logs", "web", "-n", "1"]);
    assert!(String::from_utf8_lossy(&logs.stdout).starts_with("web starts with PASSWORD=[secret:"));
    stop(salve);
    let (code, nobody) = said(&["stop", "web"]);
    assert_eq!(code, Some(1));
    assert!(nobody.contains("salve dev"), "{nobody}");
}

#[test]
fn a_server_that_was_stopped_by_order_may_start_again() {
    let project = Project::new();
    let script = "echo ready; while :; do sleep 0.05; done";
    let mut salve = project.command(&["dev", "--", "sh", "-c", script]);
    let salve = salve.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let salve = salve.spawn().unwrap();
    wait_until(|| log(&project, "dev").contains("ready"));
    assert!(project.run(&["stop"]).status.success());
    assert!(project.run(&["start"]).status.success(), "salve stays while nothing runs");
    stop(salve);
}

#[test]
fn signals_for_the_servers_reach_them() {
    let project = Project::new();
    let salve = start(&project);
    wait_until(|| log(&project, "api").contains("api starts"));
    let pid = salve.id().to_string();
    std::process::Command::new("kill").args(["-USR1", &pid]).status().unwrap();
    wait_until(|| log(&project, "api").contains("api got USR1"));
    stop(salve);
}
