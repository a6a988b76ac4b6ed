//! Asks a program for a word about itself, with a time limit.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::process::{asking_command, program_outside};

/// Why a program gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProbeError {
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
    let path = program_outside(program).ok_or(ProbeError::NotFound)?;
    run(&path, args, limit)
}

/// Runs `program` in a directory and returns all that it prints, as far as a pipe holds it.
pub(crate) fn answer_of(
    program: &str,
    args: &[&str],
    dir: &Path,
    limit: Duration,
) -> Result<String, ProbeError> {
    let path = program_outside(program).ok_or(ProbeError::NotFound)?;
    let mut command = asking_command(&path);
    command.args(args).current_dir(dir).env("NO_COLOR", "1");
    let mut ended = run_to_end(command, limit)?;
    // Some list on stderr.
    let (out, err) = (beginning(ended.child.stdout.take()), beginning(ended.child.stderr.take()));
    Ok(format!("{out}\n{err}"))
}

fn run(program: &Path, args: &[&str], limit: Duration) -> Result<String, ProbeError> {
    let mut command = asking_command(program);
    command.args(args);
    let mut ended = run_to_end(command, limit)?;
    let out = first_line(ended.child.stdout.take());
    if ended.status.success() {
        return Ok(out);
    }
    let err = first_line(ended.child.stderr.take());
    Err(ProbeError::Failed(if err.is_empty() { ended.status.to_string() } else { err }))
}

/// A program that has ended, with all that it started.
struct EndedProbe {
    child: Child,
    status: ExitStatus,
}

fn run_to_end(mut command: Command, limit: Duration) -> Result<EndedProbe, ProbeError> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().map_err(ProbeError::Start)?;
    let has_ended = ends_within(child.id(), limit);
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    // Some are a program that starts the real one, which would outlive it. As long as nobody has waited for
    // the first, its group is no other's.
    if let (Some(_), Some(group)) = (has_ended, group) {
        let _nobody_is_left = kill_process_group(group, Signal::KILL);
    }
    let status = child.wait().map_err(ProbeError::Start)?;
    match has_ended {
        Some(false) => Err(ProbeError::Timeout(limit)),
        Some(true) | None => Ok(EndedProbe { child, status }),
    }
}

/// Waits for the process by handle; where the system has none, nothing is told, and the program is trusted
/// to end.
fn ends_within(pid: u32, limit: Duration) -> Option<bool> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
    let handle = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    Some(is_ready(&handle, limit))
}

fn is_ready(handle: &impl AsFd, limit: Duration) -> bool {
    let timeout = Timespec::try_from(limit).ok();
    poll(&mut [PollFd::new(handle, PollFlags::IN)], timeout.as_ref()).is_ok_and(|ready| ready > 0)
}

/// Reads at most what is in the pipe by now, so that a grandchild holding it cannot keep us.
fn beginning(pipe: Option<impl Read + AsFd>) -> String {
    let mut buffer = vec![0; 1 << 16];
    let pipe = pipe.filter(|pipe| is_ready(pipe, Duration::ZERO));
    let read = pipe.and_then(|mut pipe| pipe.read(&mut buffer).ok()).unwrap_or(0);
    String::from_utf8_lossy(&buffer[..read]).into_owned()
}

fn first_line(pipe: Option<impl Read + AsFd>) -> String {
    let text = beginning(pipe);
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
    fn nothing_that_a_program_started_outlives_it() {
        for (script, limit) in [
            ("sleep 1000 & echo $!", LONG),
            ("sleep 1000 & echo $! > pid; exec sleep 1000", Duration::from_millis(300)),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let said = answer_of("sh", &["-c", script], dir.path(), limit);
            let pid = said.unwrap_or_else(|_| {
                std::fs::read_to_string(dir.path().join("pid")).unwrap_or_default()
            });
            let stat = format!("/proc/{}/stat", pid.trim());
            let is_alive = || {
                let text = std::fs::read_to_string(&stat).unwrap_or_default();
                !text.is_empty() && !text.contains(") Z ")
            };
            let begun = std::time::Instant::now();
            while is_alive() {
                assert!(begun.elapsed() < LONG, "{script}");
                std::thread::yield_now();
            }
        }
    }

    #[test]
    fn what_is_said_on_stderr_is_an_answer_too() {
        let dir = tempfile::tempdir().unwrap();
        let said = answer_of("sh", &["-c", "echo one; echo two >&2"], dir.path(), LONG).unwrap();
        assert_eq!(said.lines().collect::<Vec<_>>(), ["one", "", "two"]);
    }

    #[test]
    fn a_program_that_never_ends_is_ended() {
        let error = ask("sh", &["-c", "exec sleep 1000"], Duration::from_millis(20)).unwrap_err();
        assert!(matches!(error, ProbeError::Timeout(_)));
    }
}
