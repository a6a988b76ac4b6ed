//! A scratch project and the `salve` binary to run in it.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use salve::seal_keys::SealKeys;
use salve_core::event::{AtALoss, IncidentPolicy, Limits, Mode, OnFailure};
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
        assert!(Instant::now() < deadline, "{what} did not come to pass");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Tells whether a process lives; one that only waits to be reaped does not.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !matches!(rest.split_whitespace().next(), Some("Z" | "X") | None))
}

/// Returns terms under which nothing waits and three attempts are made.
pub(crate) fn policy(mode: Mode) -> IncidentPolicy {
    IncidentPolicy {
        person: Scrubbed::literal("ada"),
        mode,
        limits: Limits { attempts: Some(3), ..Limits::default() },
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
    let unshared = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-ec", script, "sh"]).arg(salve.get_program());
        command.args(salve.get_args()).current_dir(dir).stdin(Stdio::null());
        let envs = salve.get_envs().filter_map(|(name, value)| Some((name, value?)));
        command.env_clear().envs(envs).output()
    };
    let may = unshared("mount -t tmpfs -o size=64k none .").is_ok_and(|out| out.status.success());
    may.then(|| unshared(script).unwrap())
}
