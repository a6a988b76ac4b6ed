//! How long a command takes as a whole process, against its limit of 10 ms.
//!
//! Each runs in a small project with a store, 30 times, and the fastest counts: what the command
//! costs when nothing else runs. `true` is measured in the same way: no process is faster.
//! Commands that start other programs (`doctor`) or wait for the world are not among them.

#![expect(clippy::print_stdout, reason = "a benchmark reports on stdout")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot set its stage should stop")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 30;
const LIMIT: Duration = Duration::from_millis(10);
/// What caring for a check may add to a green one.
const GREEN: Duration = Duration::from_millis(30);

/// A failure that a built-in row knows.
const KNOWN: &str = "Error: Cannot find module 'left-pads'\n";
/// A failure that only the class rules can say something about.
const UNKNOWN: &str = "Error: the frobnicator of basket 7 was turned away by its peer\n";
/// A call that a hook has nothing to say about.
const CALL: &str =
    r#"{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"npm test"}}"#;
/// A user's own row.
const OWN: &str = "[[fingerprint.anchors]]\nid = \"my.own\"\nclass = \"build_error\"\n\
    shapes = [\"frobnicator broke on {what:word}\"]\nidentify = [\"what\"]\n\
    examples = [{ text = \"frobnicator broke on x\", holes = [\"x\"] }]\n";

/// A project and a home of its own.
struct Stage {
    root: tempfile::TempDir,
}

impl Stage {
    /// Sets up a project in which one failure is remembered.
    fn new() -> Self {
        let stage = Self { root: tempfile::tempdir().unwrap() };
        for dir in ["home", "plain", "own"] {
            std::fs::create_dir(stage.dir(dir)).unwrap();
        }
        std::fs::write(stage.dir("plain").join("salve.toml"), "").unwrap();
        std::fs::write(stage.dir("own").join("salve.toml"), OWN).unwrap();
        let learn = ["memory", "learn", "--command", "npm install left-pads", KNOWN];
        stage.run(&mut stage.salve("plain", &learn), "");
        stage
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Returns a command with nothing of the user's own around it.
    fn salve(&self, project: &str, args: &[&str]) -> Command {
        let mut command = Command::new(Path::new(env!("CARGO_BIN_EXE_salve")));
        command.args(args).current_dir(self.dir(project)).env_clear();
        command.env("HOME", self.dir("home")).env("NO_COLOR", "1");
        command
    }

    /// Runs a command to its end and returns how long it took.
    fn run(&self, command: &mut Command, input: &str) -> Duration {
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let start = Instant::now();
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A program that reads nothing may be gone before it gets its input.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        let status = child.wait().unwrap();
        let time = start.elapsed();
        // 1 and 3 are answers; anything else would measure an error.
        assert!(matches!(status.code(), Some(0 | 1 | 3)), "{command:?}: {status}");
        time
    }

    /// Prints the fastest of many runs.
    fn measure(&self, name: &str, input: &str, command: impl Fn() -> Command) {
        self.measure_within(LIMIT, name, input, command);
    }

    fn measure_within(
        &self,
        limit: Duration,
        name: &str,
        input: &str,
        command: impl Fn() -> Command,
    ) {
        let times = (0..ROUNDS).map(|_| self.run(&mut command(), input));
        let best = times.min().unwrap_or_default();
        let verdict = if best < limit { "" } else { "  MISSED" };
        println!("{name:<30} {:>6.1} ms{verdict}", best.as_secs_f64() * 1e3);
    }
}

fn main() {
    let stage = Stage::new();
    println!("whole processes, minimum of {ROUNDS} runs, limit {} ms", LIMIT.as_millis());
    stage.measure("true", "", || Command::new("true"));
    for (name, input, args) in [
        ("--version", "", &["--version"] as &[&str]),
        ("--help", "", &["--help"]),
        ("fingerprint, known", KNOWN, &["fingerprint"]),
        ("fingerprint, unknown", UNKNOWN, &["fingerprint"]),
        ("scrub", KNOWN, &["scrub"]),
        ("gate", "", &["gate", "--command", "npm ci", "--working-dir", ".", "--json"]),
        ("events", "", &["events"]),
        ("memory check, known", KNOWN, &["memory", "check"]),
        ("memory check, unknown", UNKNOWN, &["memory", "check"]),
        ("memory list", "", &["memory", "list"]),
        ("memory stats", "", &["memory", "stats"]),
        ("memory export", "", &["memory", "export"]),
        ("config show", "", &["config", "show"]),
        ("config check", "", &["config", "check"]),
        ("config schema", "", &["config", "schema"]),
        ("hook, nothing to say", CALL, &["hook", "claude"]),
        ("status", "", &["status"]),
        ("completions", "", &["completions", "bash"]),
    ] {
        stage.measure(name, input, || stage.salve("plain", args));
    }
    stage.measure_within(GREEN, "heal of a green check (30 ms)", "", || {
        let mut heal = stage.salve("plain", &["heal", "--", "true"]);
        heal.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        heal
    });
    stage.measure("fingerprint with own rows", KNOWN, || stage.salve("own", &["fingerprint"]));
}
