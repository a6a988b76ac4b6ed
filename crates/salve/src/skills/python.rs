//! Conditions and computations: Python that can only compute.
//!
//! The code runs in a `python3` of its own that has given up, before it sees a line of the code,
//! every system call but those for its memory, its pipes and its end. So it reads and writes no
//! file, reaches no network and starts nothing, whatever it finds in the interpreter. Its memory and
//! time are limited by the kernel, too.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::libc;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::process::program_outside;

/// How long one piece of code may take.
const LIMIT: Duration = Duration::from_secs(5);
/// How much memory it may have.
const MEMORY: u64 = 512 << 20;
/// How long an answer may be.
const LONGEST: u64 = 1 << 20;
/// How often it is looked whether it is done.
const LOOK: Duration = Duration::from_millis(2);

/// Takes the code in, gives up all calls, runs it and answers.
const BOOT: &str = r#"
import sys, json, re, math, datetime, collections, itertools, functools, string, resource, ctypes, os
asked = json.load(sys.stdin)
os.closerange(3, 256)
resource.setrlimit(resource.RLIMIT_AS, (asked["memory"], asked["memory"]))
resource.setrlimit(resource.RLIMIT_CPU, (asked["seconds"], asked["seconds"]))
class Filter(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint)]
class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.POINTER(Filter))]
rows = [Filter(*row) for row in asked["filter"]]
table = (Filter * len(rows))(*rows)
program = Program(len(rows), table)
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, ctypes.byref(program), 0, 0) != 0:
    sys.exit(97)
scope = dict(asked["names"])
answer = {}
try:
    if asked["is_condition"]:
        answer["value"] = bool(eval(compile(asked["code"], "condition", "eval"), scope))
    else:
        exec(compile(asked["code"], "compute", "exec"), scope)
        answer["value"] = scope.get("result")
except BaseException as error:
    answer = {"error": "%s: %s" % (type(error).__name__, error)}
try:
    text = json.dumps(answer, default=str)
except BaseException as error:
    text = json.dumps({"error": "%s: %s" % (type(error).__name__, error)})
sys.stdout.write(text)
sys.stdout.flush()
"#;

/// The one way to run Python.
#[derive(Clone, Debug)]
pub struct Python {
    program: PathBuf,
    limit: Duration,
}

/// Why code gave no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PythonError {
    /// There is no interpreter.
    #[error("skills with conditions need python3, which is not installed")]
    NotFound,
    /// It cannot be confined or started.
    #[error("Python cannot be confined here: {0}")]
    Unconfined(String),
    /// The code took too long.
    #[error("it was not done after {0:?}")]
    TooLong(Duration),
    /// The code needed too much memory, or called something that ended it.
    #[error("it was ended: too much memory or time, or a call that is not allowed")]
    Ended,
    /// The code failed.
    #[error("{0}")]
    Raised(String),
}

/// What a piece of code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PythonCode {
    /// An expression that is true or false.
    Condition,
    /// Statements that set `result`.
    Computation,
}

impl Python {
    /// Finds the interpreter.
    pub fn find() -> Result<Self, PythonError> {
        let program = program_outside("python3").ok_or(PythonError::NotFound)?;
        Ok(Self { program, limit: LIMIT })
    }

    /// Returns the same interpreter with another limit on time.
    #[cfg(test)]
    pub(super) fn within(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// Returns whether a condition holds.
    pub fn condition(
        &self,
        code: &str,
        names: &BTreeMap<String, Value>,
    ) -> Result<bool, PythonError> {
        // A folded line in YAML may begin with white space, which means something in Python.
        let value = self.run(PythonCode::Condition, code.trim(), names)?;
        Ok(value == Value::Bool(true))
    }

    /// Returns what a computation leaves in `result`.
    pub fn compute(
        &self,
        code: &str,
        names: &BTreeMap<String, Value>,
    ) -> Result<Value, PythonError> {
        self.run(PythonCode::Computation, code, names)
    }

    fn run(
        &self,
        kind: PythonCode,
        code: &str,
        names: &BTreeMap<String, Value>,
    ) -> Result<Value, PythonError> {
        #[derive(Deserialize)]
        struct PythonAnswer {
            #[serde(default)]
            value: Value,
            error: Option<String>,
        }
        let filter = filter().map_err(|error| PythonError::Unconfined(error.to_string()))?;
        let filter: Vec<_> =
            filter.iter().map(|row| json!([row.code, row.jt, row.jf, row.k])).collect();
        let names: Map<String, Value> =
            names.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let asked = json!({
            "code": code,
            "is_condition": kind == PythonCode::Condition,
            "names": names,
            "filter": filter,
            "memory": MEMORY,
            "seconds": self.limit.as_secs(),
        });
        let unconfined = |error: std::io::Error| PythonError::Unconfined(error.to_string());
        let mut child = Command::new(&self.program)
            .args(["-I", "-S", "-c", BOOT])
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(unconfined)?;
        let answer = child.stdout.take().map(|stdout| {
            std::thread::spawn(move || {
                let mut text = Vec::new();
                // What cannot be read is no answer.
                let _ = stdout.take(LONGEST).read_to_end(&mut text);
                text
            })
        });
        if let Some(mut stdin) = child.stdin.take() {
            // One that has ended already says so by its exit code.
            let _ = stdin.write_all(asked.to_string().as_bytes());
        }
        let code = self.wait(&mut child).ok_or(PythonError::TooLong(self.limit))?;
        let text = answer.and_then(|answer| answer.join().ok()).unwrap_or_default();
        if code == Some(97) {
            return Err(PythonError::Unconfined("the kernel refused the filter".to_owned()));
        }
        let answer: PythonAnswer = serde_json::from_slice(&text).map_err(|_| PythonError::Ended)?;
        match answer.error {
            Some(error) => Err(PythonError::Raised(error)),
            None => Ok(answer.value),
        }
    }

    /// Waits for the end within the limit; returns the exit code, if it had one.
    fn wait(&self, child: &mut Child) -> Option<Option<i32>> {
        let begun = Instant::now();
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return Some(status.code()),
                // Starting an interpreter on a busy machine is not the code's fault.
                Ok(None) if begun.elapsed() < self.limit * 4 => std::thread::sleep(LOOK),
                Ok(None) | Err(_) => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return None;
                }
            }
        }
    }
}

/// Returns the program that refuses every call but those a computation needs.
fn filter() -> Result<BpfProgram, seccompiler::Error> {
    let calls = [
        libc::SYS_read,
        libc::SYS_write,
        libc::SYS_close,
        libc::SYS_fstat,
        libc::SYS_lseek,
        libc::SYS_brk,
        libc::SYS_mmap,
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_mprotect,
        libc::SYS_madvise,
        libc::SYS_futex,
        libc::SYS_sched_yield,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_sigaltstack,
        libc::SYS_clock_gettime,
        libc::SYS_getrandom,
        libc::SYS_exit,
        libc::SYS_exit_group,
    ];
    let rules = calls.into_iter().map(|call| (call, Vec::new())).collect();
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    Ok(SeccompFilter::new(rules, refuse, SeccompAction::Allow, arch)?.try_into()?)
}
