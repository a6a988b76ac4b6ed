//! Asks a program for a word about itself, with a time limit.

use std::ffi::OsStr;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::process::find_program;

/// Why a program gave no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProbeError {
    /// It is not on the `PATH`.
    #[error("not found")]
    NotFound,
    /// It could not be started.
    #[error("cannot be started: {0}")]
    Start(#[source] std::io::Error),
    /// It took too long and was ended.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// It ended with an error.
    #[error("{0}")]
    Failed(String),
}

/// Runs `program` and returns the first line it prints.
pub(super) fn ask(program: &str, args: &[&str], limit: Duration) -> Result<String, ProbeError> {
    let path = find_program(program).ok_or(ProbeError::NotFound)?;
    run(path.as_os_str(), args, limit)
}

fn run(program: &OsStr, args: &[&str], limit: Duration) -> Result<String, ProbeError> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(ProbeError::Start)?;
    if !ends_within(child.id(), limit) {
        // It may have ended this very moment; either way it is waited for.
        let _ = child.kill();
        let _ = child.wait();
        return Err(ProbeError::Timeout(limit));
    }
    let status = child.wait().map_err(ProbeError::Start)?;
    let out = first_line(child.stdout.take());
    if status.success() {
        return Ok(out);
    }
    let err = first_line(child.stderr.take());
    Err(ProbeError::Failed(if err.is_empty() { status.to_string() } else { err }))
}

/// Waits for the process by handle; where the system has none, trusts the program to end.
fn ends_within(pid: u32, limit: Duration) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return true };
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return true };
    let timeout = Timespec::try_from(limit).ok();
    poll(&mut [PollFd::new(&handle, PollFlags::IN)], timeout.as_ref()).is_ok_and(|ready| ready > 0)
}

/// Reads at most one pipe buffer, so that a grandchild holding the pipe cannot keep us.
fn first_line(pipe: Option<impl Read>) -> String {
    let mut buffer = [0; 4096];
    let read = pipe.and_then(|mut pipe| pipe.read(&mut buffer).ok()).unwrap_or(0);
    let text = String::from_utf8_lossy(&buffer[..read]);
    let line: String = text.lines().next().unwrap_or_default().chars().take(120).collect();
    line.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_program_answers_with_its_first_line() {
        assert_eq!(ask("sh", &["-c", "echo one; echo two"], LONG).unwrap(), "one");
    }

    #[test]
    fn a_failing_program_is_quoted() {
        let error = ask("sh", &["-c", "echo no luck >&2; exit 4"], LONG).unwrap_err();
        assert_eq!(error.to_string(), "no luck");
    }

    #[test]
    fn a_program_that_does_not_exist_is_not_found() {
        let error = ask("no-such-program-anywhere", &[], LONG).unwrap_err();
        assert!(matches!(error, ProbeError::NotFound));
    }

    #[test]
    fn a_program_that_never_ends_is_ended() {
        let error = ask("sh", &["-c", "exec sleep 1000"], Duration::from_millis(20)).unwrap_err();
        assert!(matches!(error, ProbeError::Timeout(_)));
    }
}
