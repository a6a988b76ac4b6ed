//! A scratch project and the `salve` binary to run in it.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use salve::seal_keys::SealKeys;
use salve_core::event::{AtALoss, IncidentPolicy, OnFailure, RepairMode, ResourceLimits};
use salve_core::scrub::Scrubbed;
use tempfile::TempDir;

/// Longer than anything here takes, on however busy a machine.
pub(crate) const LONG: Duration = Duration::from_secs(90);

/// Waits until `is_so`, looking now and then.
#[track_caller]
pub(crate) fn wait_until(is_so: impl FnMut() -> bool) {
    wait_for("it", is_so);
}

/// Waits until `is_so`, and says what did not come to pass otherwise.
#[track_caller]
pub(crate) fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Tells whether a process lives; one that only waits to be reaped does not.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !matches!(rest.split_whitespace().next(), Some("Z" | "X") | None))
}

/// Tells whether a process lives whose command line has these words; a number says nothing of one in
/// a namespace of its own.
pub(crate) fn has_process(words: &str) -> bool {
    !processes(|line, _| line.contains(words)).is_empty()
}

/// Returns the processes that are chosen by their command line and their directory in `/proc`.
pub(crate) fn processes(is_meant: impl Fn(&str, &Path) -> bool) -> Vec<u32> {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let place = Path::new("/proc").join(pid.to_string());
        let line = std::fs::read(place.join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        // Salve itself names the agent too.
        let is_salve = line.split('\0').next().is_some_and(|program| program.ends_with("/salve"));
        !is_salve && is_meant(&line, &place)
    })
    .collect()
}

/// Returns terms under which nothing waits and three attempts are made.
pub(crate) fn policy(mode: RepairMode) -> IncidentPolicy {
    IncidentPolicy {
        person: Scrubbed::literal("ada"),
        mode,
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
    }
}

/// A temporary project with its own home, so that no test sees another's files or the user's.
pub(crate) struct Project {
    root: TempDir,
}

impl Project {
    /// Makes an empty project.
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("project")).unwrap();
        let data = root.path().join("home/data/salve");
        std::fs::create_dir_all(&data).unwrap();
        // The test reads journals as the same person who speaks in it.
        SealKeys::of_user().unwrap();
        std::fs::copy(SealKeys::path().unwrap(), data.join("seal.keys")).unwrap();
        Self { root }
    }

    /// Returns the project's directory.
    pub(crate) fn dir(&self) -> std::path::PathBuf {
        self.root.path().join("project")
    }

    /// Returns the private home directory.
    pub(crate) fn home(&self) -> std::path::PathBuf {
        self.root.path().join("home")
    }

    /// Returns the directories around the project to which a script of an agent may write.
    fn traces(&self) -> String {
        format!("[\"{}\"]", self.root.path().canonicalize().unwrap().display())
    }

    /// Writes a file below the project, making its directories.
    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.dir().join(path);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Returns a `salve` command that runs in the project with a clean environment.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_salve"));
        command.args(args).current_dir(self.dir()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.home()).env("XDG_DATA_HOME", self.home().join("data"));
        command.env("XDG_CONFIG_HOME", self.home().join("config")).env("NO_COLOR", "1");
        // Scripts that stand in for agents leave their traces around the project.
        command.env("SALVE_AGENT_STATE_DIRS", self.traces());
        command
    }

    /// Runs `salve` to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.run_with_input(args, b"")
    }

    /// Runs `salve` to its end with `input` on stdin.
    pub(crate) fn run_with_input(&self, args: &[&str], input: &[u8]) -> Output {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let writer = std::thread::spawn(move || {
            // The program may stop reading early; that is its right.
            let _ = stdin.write_all(&input);
        });
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        output
    }
}

/// Returns `salve dev` with times short enough for tests.
pub(crate) fn dev(project: &Project, args: &[&str]) -> Command {
    let mut command = project.command(&[&["dev"], args].concat());
    for (name, value) in [
        ("REPAIR_BASE_DELAY_MS", "1"),
        ("REPAIR_HEALTH_RETRY_DELAY_MS", "20"),
        ("SALVE_SERVER_HEALTH_SOAK_MS", "20"),
        ("SALVE_SERVER_FLAP_WINDOW_MS", "0"),
        ("REPAIR_COOLDOWN_MS", "600000"),
    ] {
        command.env(name, value);
    }
    command
}

/// Runs a script in `dir` that may mount file systems which only it sees, with the words of `salve`
/// as its arguments.
///
/// Returns `None` where the system does not let us mount any.
pub(crate) fn with_own_mounts(salve: &Command, dir: &Path, script: &str) -> Option<Output> {
    let unshared = |flags: &str, script: &str| {
        let mut command = Command::new("unshare");
        command.args([flags, "sh", "-ec", script, "sh"]).arg(salve.get_program());
        command.args(salve.get_args()).current_dir(dir).stdin(Stdio::null());
        let envs = salve.get_envs().filter_map(|(name, value)| Some((name, value?)));
        command.env_clear().envs(envs).output()
    };
    let may = |flags: &&str| {
        let tried = unshared(flags, "mount -t tmpfs -o size=64k none .");
        tried.is_ok_and(|out| out.status.success())
    };
    // Who is the system's administrator already needs no more than the space.
    let flags = ["-rm", "-m"].into_iter().find(may)?;
    Some(unshared(flags, script).unwrap())
}

/// Returns a tool as an MCP server lists it.
pub(crate) fn tool(name: &str) -> serde_json::Value {
    serde_json::json!({ "name": name, "inputSchema": { "type": "object" } })
}

/// Returns a tool that says what it is for.
pub(crate) fn described_tool(name: &str, description: &str) -> serde_json::Value {
    let mut described = tool(name);
    described["description"] = description.into();
    described
}

/// Returns an MCP server in Python: what it lists, and what it does when a tool is called, which sees
/// the message as `m`, its line as `line` and answers by `send(id, …)`.
pub(crate) fn mcp_server(tools: &serde_json::Value, call: &str) -> String {
    format!(
        r#"
import json, os, sys
def send(id, result):
    sys.stdout.write(json.dumps({{'jsonrpc': '2.0', 'id': id, 'result': result}}) + '\n'); sys.stdout.flush()
for line in sys.stdin:
    m = json.loads(line)
    method, id = m.get('method'), m.get('id')
    if method == 'initialize':
        send(id, {{'protocolVersion': '2025-06-18', 'capabilities': {{'tools': {{}}}}, 'serverInfo': {{'name': 'x', 'version': '1'}}}})
    elif method == 'tools/list':
        send(id, {{'tools': {tools}}})
    elif method == 'tools/call':
{call}
"#,
        call = call.trim_matches('\n')
    )
}
