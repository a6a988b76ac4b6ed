//! Several failures of one server, and a repair that changes hands.

use std::collections::HashMap;
use std::fs::File;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::bench::signal;
use crate::servers_ill::Attended;
use crate::support::{Project, dev, is_alive, wait_for};

fn events(project: &Project, kind: &str) -> Vec<Value> {
    let output = project.run(&["events", "--json", "--kind", kind]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn pids(project: &Project) -> Vec<u32> {
    let text = std::fs::read_to_string(project.dir().join("pids.txt")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Runs until it is killed, then until `go` is there, then for good.
const THRICE: &str = "echo $$ >> pids.txt; case $(wc -l < pids.txt) in \
    1) exec sleep 300;; \
    2) while [ ! -e go ]; do sleep 0.05; done; echo 'TypeError: x is null' >&2; exit 2;; \
    3) while [ ! -e on ]; do sleep 0.05; done; echo 'KeyError: total' >&2; exit 1;; \
    *) exec sleep 300;; esac";

#[test]
fn three_different_failures_within_minutes_are_three_incidents_that_stay_recovered() {
    let project = Project::new();
    let mut salve = dev(&project, &["--json", "--", "sh", "-c", THRICE]);
    // Whatever comes within this time may be the same failure again.
    salve.env("SALVE_SERVER_FLAP_WINDOW_MS", "600000");
    let told = project.dir().join("told.jsonl");
    let out = File::create(&told).unwrap();
    let mut salve = salve.stdin(Stdio::null()).stdout(out).stderr(Stdio::null()).spawn().unwrap();
    let facts = || -> Vec<Value> {
        let text = std::fs::read_to_string(&told).unwrap();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    let recovered = || facts().iter().filter(|fact| fact["phase"] == "recovered").count();
    wait_for("a server", || pids(&project).len() == 1);
    signal("KILL", pids(&project)[0]);
    wait_for("the first heal", || recovered() == 1);
    project.write("go", "");
    wait_for("the second heal", || recovered() == 2);
    project.write("on", "");
    wait_for("the third heal", || recovered() == 3);
    signal("INT", salve.id());
    salve.wait().unwrap();
    let mut last: HashMap<String, String> = HashMap::new();
    for fact in facts().iter().filter(|fact| fact["kind"] == "phase") {
        let id = fact["repairId"].as_str().unwrap().to_owned();
        let before = last.insert(id, fact["phase"].as_str().unwrap().to_owned());
        assert_ne!(before.as_deref(), Some("recovered"), "it is terminal: {fact}");
    }
    assert_eq!(last.len(), 3, "{last:?}");
    assert!(last.values().all(|phase| phase == "recovered"), "{last:?}");
    let logs = std::fs::read_dir(project.dir()).unwrap().flatten();
    let names = logs.map(|file| file.file_name().to_string_lossy().into_owned());
    let own = names.filter(|name| name.starts_with(".dev-crash.") && name != ".dev-crash.log");
    assert_eq!(own.count(), 3, "each has its own log");
}

#[test]
fn a_missing_env_file_that_appears_starts_the_server() {
    let project = Project::new();
    project.write(".gitignore", ".env\n");
    let script = "echo $$ >> pids.txt; [ -e .env ] || { echo \"Error: ENOENT: no such file or \
                  directory, open '.env'\" >&2; exit 1; }; exec sleep 300";
    let env = [("REPAIR_MAX_ATTEMPTS", "1")];
    let _salve = Attended::start(&project, &env, &["sh", "-c", script]);
    let is_asked =
        || events(&project, "requested").iter().any(|e| e.to_string().contains("\"ask\""));
    wait_for("a give-up", || is_asked() || !events(&project, "exhausted").is_empty());
    // git ignores it, so no edit starts the server: only that it was missing does.
    project.write(".env", "PORT=1\n");
    wait_for("its end", || !events(&project, "came_back").is_empty());
    let back = events(&project, "came_back")[0].to_string();
    assert!(back.contains(".env is there"), "{back}");
}

/// Kills both of Salve's processes at once, so that nobody is left to clean up.
fn kill(salve: &mut Child) {
    signal("STOP", salve.id());
    let children = format!("/proc/{0}/task/{0}/children", salve.id());
    let workers = std::fs::read_to_string(children).unwrap();
    let workers: Vec<u32> = workers.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    workers.iter().for_each(|worker| signal("KILL", *worker));
    salve.kill().unwrap();
    salve.wait().unwrap();
    wait_for("the worker's end", || !workers.iter().any(|worker| is_alive(*worker)));
}

#[test]
fn a_repair_that_a_new_salve_takes_over_has_its_lock() {
    let project = Project::new();
    let lock = project.dir().join(".dev-repair.lock");
    let holder =
        || -> Option<Value> { serde_json::from_str(&std::fs::read_to_string(&lock).ok()?).ok() };
    let start = |log: &str| {
        let mut salve = dev(&project, &["--", "sh", "-c", "echo 'Error: no luck' >&2; exit 1"]);
        // Nothing is tried for as long as this test runs.
        salve.env("REPAIR_BASE_DELAY_MS", "600000");
        let log = File::create(project.dir().join(log)).unwrap();
        salve.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap()
    };
    let mut first = start("first.log");
    wait_for("a lock", || holder().is_some());
    let before = holder().unwrap();
    kill(&mut first);
    assert_eq!(holder().as_ref(), Some(&before), "it outlives Salve");
    let mut second = start("second.log");
    wait_for("a lock of its own", || holder().is_some_and(|now| now["pid"] != before["pid"]));
    let now = holder().unwrap();
    let pid = |lock: &Value| u32::try_from(lock["pid"].as_u64().unwrap()).unwrap();
    assert!(is_alive(pid(&now)) && !is_alive(pid(&before)));
    assert!(now["repairId"].is_string(), "{now}");
    let said = std::fs::read_to_string(project.dir().join("second.log")).unwrap();
    assert!(said.contains("removed a stale repair lock"), "{said}");
    signal("INT", second.id());
    second.wait().unwrap();
    assert!(!lock.exists(), "it left in order");
}
