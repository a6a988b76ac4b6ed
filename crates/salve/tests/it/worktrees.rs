//! Several worktrees of one repository at once: each with its own servers, one memory for all.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::bench::signal;
use crate::support::{Project, dev, wait_for};

/// Listens on `PORT`, else on the port that is written in `port.txt`.
const WEB: &str = r#"
import http.server, os, sys
port = int(os.environ.get("PORT") or open("port.txt").read())
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"hello")
    def log_message(self, *args): pass
try:
    server = http.server.HTTPServer(("127.0.0.1", port), Handler)
except OSError:
    sys.exit(f"Error: listen EADDRINUSE: address already in use 127.0.0.1:{port}")
print(f"http://127.0.0.1:{port}/", flush=True)
server.serve_forever()
"#;

/// A repository with a second worktree beside it.
struct Repository {
    project: Project,
    beside: PathBuf,
}

impl Repository {
    fn new(files: &[(&str, &str)]) -> Self {
        let project = Project::new();
        for (path, text) in files {
            project.write(path, text);
        }
        let git = |args: &[&str]| {
            let mut git = Command::new("git");
            let who = ["-c", "user.name=kim", "-c", "user.email=kim@example.org"];
            let done = git.args(who).args(args).current_dir(project.dir()).output().unwrap();
            assert!(done.status.success(), "{done:?}");
        };
        git(&["init", "-q"]);
        git(&["add", "."]);
        git(&["commit", "-q", "-m", "begin"]);
        git(&["worktree", "add", "-q", "../beside"]);
        let beside = project.dir().parent().unwrap().join("beside");
        Self { project, beside }
    }

    fn run(&self, dir: &Path, args: &[&str]) -> Output {
        self.project.command(args).current_dir(dir).stdin(Stdio::null()).output().unwrap()
    }

    /// Returns where the server of a worktree answers.
    fn url(&self, dir: &Path) -> Option<String> {
        let up = self.events(dir, "server_up");
        up.iter().find_map(|entry| entry["data"]["url"].as_str().map(str::to_owned))
    }

    fn events(&self, dir: &Path, kind: &str) -> Vec<Value> {
        let output = self.run(dir, &["events", "--json", "--kind", kind]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// `salve dev` in one worktree, until it is dropped.
struct Serving(Child);

impl Serving {
    fn start(repository: &Repository, dir: &Path) -> Self {
        let mut salve = dev(&repository.project, &["--", "python3", "web.py"]);
        salve.current_dir(dir).stdin(Stdio::null()).stdout(Stdio::null());
        let log = std::fs::File::create(dir.join("said.log")).unwrap();
        let serving = Self(salve.stderr(log).spawn().unwrap());
        wait_for("a server that answers", || repository.url(dir).is_some());
        serving
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        signal("TERM", self.0.id());
        let _ = self.0.wait();
    }
}

#[test]
fn a_port_that_a_sibling_worktree_holds_is_no_question() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let wanted = port.to_string();
    let repository = Repository::new(&[("web.py", WEB), ("port.txt", &wanted)]);
    let (main, beside) = (repository.project.dir(), repository.beside.clone());
    let _first = Serving::start(&repository, &main);
    let _second = Serving::start(&repository, &beside);
    assert!(repository.events(&beside, "opened").is_empty(), "it is no incident");
    let url = repository.url(&beside).unwrap();
    assert!(!url.contains(&port.to_string()) && url.contains("127.0.0.1:"), "{url}");
    let said = std::fs::read_to_string(beside.join("said.log")).unwrap();
    assert!(said.contains(&format!("port {port} belongs to another worktree")), "{said}");
    assert!(said.contains("PORT="), "{said}");
    // Both are seen from anywhere, each with its address.
    let all = repository.run(&beside, &["--json", "ps", "--all"]);
    let all = String::from_utf8_lossy(&all.stdout).into_owned();
    for (root, answers) in [(&main, format!(":{port}/")), (&beside, url)] {
        let root = root.canonicalize().unwrap().display().to_string();
        let line = all.lines().find(|line| line.contains(&root)).unwrap_or_default();
        assert!(line.contains(&answers), "{all}");
    }
}

#[test]
fn a_stranger_on_the_port_is_still_a_persons_matter() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let repository = Repository::new(&[("web.py", WEB), ("port.txt", &port)]);
    let dir = repository.beside.clone();
    let mut salve = dev(&repository.project, &["--", "python3", "web.py"]);
    salve.current_dir(&dir).env("REPAIR_MAX_ATTEMPTS", "1").stdin(Stdio::null());
    let output = salve.output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains("another worktree"), "{said}");
}

#[test]
fn what_one_worktree_learns_all_of_them_know() {
    let app = "[ -e cured ] || { echo 'Error: the index is stale' >&2; exit 1; }; exec sleep 300";
    let settings = "[recovery]\nauto_approve = [\"touch cured\"]\n[memory]\nuser = false\n";
    let repository = Repository::new(&[("app.sh", app), ("salve.toml", settings)]);
    let (main, beside) = (repository.project.dir(), repository.beside.clone());
    let taught = ["memory", "learn", "--command", "touch cured", "Error: the index is stale"];
    assert!(repository.run(&main, &taught).status.success());
    let mut salve = dev(&repository.project, &["--", "sh", "app.sh"]);
    salve.current_dir(&beside).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let serving = Serving(salve.spawn().unwrap());
    wait_for("its end", || !repository.events(&beside, "ended").is_empty());
    assert!(beside.join("cured").exists() && !main.join("cured").exists());
    drop(serving);
    let known = repository.run(&main, &["memory", "list", "--json"]);
    let known: Value = serde_json::from_slice(&known.stdout).unwrap();
    let record = &known["knowledge"]["remedies"][0]["record"];
    assert_eq!(record["proven"], 1, "the lesson reached the main worktree: {record}");
}
