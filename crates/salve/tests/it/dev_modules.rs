//! Packages that are deleted while a server runs: noticed without waiting for the server to fail.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::bench::signal;
use crate::servers_ill::Attended;
use crate::support::{Project, is_alive, wait_for};

/// Has loaded what it needs, and answers well whatever is deleted.
const WEB: &str = r#"
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"hello")
    def log_message(self, *args): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
open("pids.txt", "a").write(f"{os.getpid()}\n")
print(f"http://127.0.0.1:{server.server_port}/", flush=True)
server.serve_forever()
"#;

/// `salve dev` over a project that has `ms` installed, with an `npm` of its own.
struct Served {
    // It ends before its project does.
    salve: Attended,
    project: Project,
}

impl Served {
    fn start(npm: &str) -> Self {
        let project = Project::new();
        project.write("web.py", WEB);
        project.write("package.json", r#"{"name":"app","dependencies":{"ms":"2.1.3"}}"#);
        let lock = r#"{"name":"app","lockfileVersion":3,"packages":{"":{"name":"app","dependencies":{"ms":"2.1.3"}},"node_modules/ms":{"version":"2.1.3"}}}"#;
        project.write("package-lock.json", lock);
        project.write("node_modules/ms/package.json", "{}");
        project.write("bin/npm", format!("#!/bin/sh\n{npm}\n"));
        let file = project.dir().join("bin/npm");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", project.dir().join("bin").display());
        let env = [("PATH", path.as_str()), ("REPAIR_MAX_ATTEMPTS", "1")];
        let salve = Attended::start(&project, &env, &["python3", "web.py"]);
        let served = Self { salve, project };
        wait_for("a server that is up", || !served.events("server_up").is_empty());
        served
    }

    fn events(&self, kind: &str) -> Vec<Value> {
        let output = self.project.run(&["events", "--json", "--kind", kind]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn pids(&self) -> Vec<u32> {
        let text = std::fs::read_to_string(self.project.dir().join("pids.txt")).unwrap();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }

    fn delete_modules(&self) {
        std::fs::remove_dir_all(self.project.dir().join("node_modules")).unwrap();
    }
}

#[test]
fn packages_that_are_deleted_under_a_running_server_are_installed_again() {
    let install = "mkdir -p node_modules/ms; echo '{}' > node_modules/ms/package.json";
    let served = Served::start(install);
    served.delete_modules();
    wait_for("its end", || !served.events("ended").is_empty());
    let opened = served.events("opened");
    assert_eq!(opened.len(), 1, "{opened:?}");
    let told = opened[0].to_string();
    assert!(told.contains("Cannot find package 'ms': node_modules is gone"), "{told}");
    assert!(served.events("ended")[0].to_string().contains("recovered"));
    assert_eq!(served.pids().len(), 2, "it was started again once they were there");
}

#[test]
fn a_server_that_ends_while_its_packages_are_installed_is_said_to_be_repaired_already() {
    let install = "while [ ! -e go ]; do sleep 0.05; done\n\
                   mkdir -p node_modules/ms; echo '{}' > node_modules/ms/package.json";
    let served = Served::start(install);
    served.delete_modules();
    wait_for("a remedy", || served.salve.screen().contains("repairing npm"));
    signal("KILL", served.pids()[0]);
    wait_for("its end", || served.salve.screen().contains("it is being repaired already"));
    served.project.write("go", "");
    wait_for("a heal", || served.salve.screen().contains("healed"));
    let screen = served.salve.screen();
    assert!(!screen.contains("skipped or called off"), "{screen}");
    assert_eq!(served.pids().len(), 2);
}

#[test]
fn a_server_runs_on_when_its_packages_cannot_be_installed_again() {
    let served = Served::start("echo 'npm error network' >&2; exit 1");
    served.delete_modules();
    let given_up = || {
        let asked = served.events("requested").iter().any(|e| e.to_string().contains("\"ask\""));
        asked || !served.events("exhausted").is_empty()
    };
    wait_for("a give-up", given_up);
    let pids = served.pids();
    assert!(is_alive(*pids.last().unwrap()), "what it has loaded still works");
    served.project.write("node_modules/ms/package.json", "{}");
    wait_for("its end", || !served.events("came_back").is_empty());
    let back = served.events("came_back")[0].to_string();
    assert!(back.contains("its packages are there again"), "{back}");
}
