//! Runs a command that helps, apart from the tool's own input and output.

use std::io::{Read as _, Seek as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use process_wrap::std::{CommandWrap, ProcessSession};

/// How long a command that helps may take.
const LIMIT: Duration = Duration::from_secs(120);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(10);
/// How much of what it said is told.
const TOLD: usize = 300;

/// Runs a command with the shell; its output goes to neither of the tool's streams, because an MCP
/// server speaks its protocol there.
pub(crate) fn run(command: &str, kubeconfig: Option<&str>) -> Result<(), String> {
    let said = |error: std::io::Error| format!("`{command}` could not be run: {error}");
    let mut output = tempfile::tempfile().map_err(said)?;
    let (stdout, stderr) = (output.try_clone().map_err(said)?, output.try_clone().map_err(said)?);
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    if let Some(file) = kubeconfig {
        shell.env("KUBECONFIG", home(file));
    }
    let mut child = CommandWrap::from(shell).wrap(ProcessSession).spawn().map_err(said)?;
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(said)? {
            break status;
        }
        if begun.elapsed() >= LIMIT {
            // One that is gone already needs no end.
            let _ = child.kill();
            return Err(format!("`{command}` was not done after {} s", LIMIT.as_secs()));
        }
        std::thread::sleep(LOOK);
    };
    if status.success() {
        return Ok(());
    }
    let mut text = String::new();
    let _ = output.rewind().and_then(|()| output.read_to_string(&mut text));
    let last = text.trim_end().lines().next_back().unwrap_or_default();
    let last: String = last.chars().take(TOLD).collect();
    Err(format!("`{command}` failed ({status}): {last}"))
}

/// Returns a path with the home directory for `~/`.
pub(crate) fn home(path: &str) -> String {
    match (path.strip_prefix("~/"), std::env::var("HOME")) {
        (Some(rest), Ok(home)) => format!("{home}/{rest}"),
        _ => path.to_owned(),
    }
}
