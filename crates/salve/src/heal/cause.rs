//! What the playbook makes of a failure, and doing what it or memory prescribes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use salve_core::event::{Acted, Authority, EffectReport, ProcessExit, Symptom};
use salve_core::fingerprint::{Fingerprint, FingerprintRules, Hints, undecorated};
use salve_core::playbook::{Action, Diagnosis, ObservedFailure, Playbook, Prescription};
use salve_core::repair::{exit_text, signal_name};
use salve_core::scrub::{Scrubbed, Scrubber};
use uuid::Uuid;

use super::files::failed;
use crate::gate::{self, WorkingDir};
use crate::playbook::{self, ApplyError, FailedSubject};
use crate::process::Supervisor;
use crate::sandbox::{self, REMEDY, Sandbox, SandboxedCommand};

/// The subject that failed, for a thread of its own.
#[derive(Clone, Debug)]
pub struct FailurePlace {
    /// The project's root, absolute.
    pub root: PathBuf,
    /// The directory the subject runs in, absolute.
    pub dir: PathBuf,
    /// Its command, in words.
    pub command: String,
    /// What its environment has beside our own.
    pub env: Vec<(OsString, OsString)>,
    /// This run of Salve.
    pub run: Option<Uuid>,
    /// What keeps commands within bounds.
    pub sandbox: Sandbox,
}

impl FailurePlace {
    /// Returns where a command runs.
    pub fn new(
        root: &Path,
        dir: &Path,
        argv: &[OsString],
        env: &[(OsString, OsString)],
        sandbox: &Sandbox,
    ) -> Self {
        let words: Vec<_> = argv.iter().map(|word| word.to_string_lossy()).collect();
        Self {
            root: root.to_path_buf(),
            dir: dir.to_path_buf(),
            command: words.join(" "),
            env: env.to_vec(),
            run: None,
            sandbox: sandbox.clone(),
        }
    }

    /// Returns it as the playbook asks.
    pub fn ask(&self) -> FailedSubject<'_> {
        let Self { root, dir, command, env, run, sandbox } = self;
        FailedSubject { root, dir, command, env, run: *run, sandbox }
    }
}

/// What a failure left behind.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// What was seen, as the journal has it.
    pub symptom: Symptom,
    /// The failure's identity.
    pub fingerprint: Fingerprint,
    /// The last lines that were written.
    pub output: Scrubbed,
    /// How it ended, for the playbook; what runs on and told of a failure counts as failed.
    pub judged_as: ProcessExit,
}

impl Evidence {
    /// Finds out what a failure is, from how it ended and what it wrote.
    pub fn of(
        output: &str,
        exit: Option<&ProcessExit>,
        rules: &FingerprintRules,
        scrubber: &Scrubber,
    ) -> Self {
        let output = scrubber.scrub(output);
        let (exit_code, signal) = match exit {
            Some(ProcessExit::Code(code)) => (Some(*code), None),
            Some(ProcessExit::Signal(signal)) => (None, Some(signal_name(*signal))),
            Some(ProcessExit::TimedOut | ProcessExit::Hung) | None => (None, None),
        };
        let hints = Hints { exit_code, signal, tool: None };
        let fingerprint = rules.fingerprint(output.as_str(), &hints);
        let symptom = Symptom {
            signature: fingerprint.signature,
            class: fingerprint.class,
            key_line: scrubber.scrub(undecorated(&fingerprint.key_line)),
            exit: exit.cloned(),
            tree: None,
            acted: Acted::No,
        };
        let judged_as = exit.cloned().unwrap_or(ProcessExit::Hung);
        Self { symptom, fingerprint, output, judged_as }
    }
}

/// Tells whether any rule of the playbook may speak of a failure; asking is cheap.
pub fn may_be_known(evidence: &Evidence) -> bool {
    let seen = ObservedFailure {
        fingerprint: &evidence.fingerprint,
        exit: &evidence.judged_as,
        output: evidence.output.as_str(),
    };
    Playbook::built_in().may_know(&seen)
}

/// Looks into the cause of a failure.
pub fn diagnose(evidence: &Evidence, place: &FailurePlace, scrubber: &Scrubber) -> Diagnosis {
    let seen = ObservedFailure {
        fingerprint: &evidence.fingerprint,
        exit: &evidence.judged_as,
        output: evidence.output.as_str(),
    };
    if Playbook::built_in().may_know(&seen) {
        playbook::diagnose(&place.ask(), &seen, scrubber)
    } else {
        Diagnosis::unknown()
    }
}

/// Returns whether something may be done about a failure without asking.
pub fn has_safe(diagnosis: &Diagnosis) -> bool {
    diagnosis.remedies.iter().any(Prescription::is_safe)
}

/// Carries an action out on somebody's word and returns what came of it.
pub fn carry_out(
    action: &Action,
    on: Authority,
    place: &FailurePlace,
    care: &Supervisor,
    scrubber: &Scrubber,
) -> EffectReport {
    match playbook::apply(action, on, &place.ask(), care) {
        Ok(_) => EffectReport::Done,
        Err(ApplyError::Failed { exit: ProcessExit::TimedOut, .. }) => EffectReport::TimedOut,
        Err(ApplyError::Failed { command, exit, output }) => {
            let how = exit_text(&exit);
            let key = FingerprintRules::built_in().fingerprint(&output, &Hints::default()).key_line;
            let text = format!("`{command}` failed ({how}): {key}");
            EffectReport::Failed { reason: scrubber.scrub(&text), exit: Some(exit) }
        }
        Err(error) => failed(scrubber, &error),
    }
}

/// Returns whether a process of this name carries out a remedy.
pub fn is_remedy(name: &str) -> bool {
    name.rsplit(' ').next() == Some(REMEDY)
}

/// A command that memory knows, or that somebody proposed.
#[derive(Clone, Debug)]
pub struct KnownCommand {
    /// The command, for the shell.
    pub command: String,
    /// The project's root, absolute.
    pub root: PathBuf,
    /// Where it runs, held open since the gate judged it; without one, the root.
    pub dir: Option<Arc<WorkingDir>>,
    /// The subject it is to help.
    pub name: String,
    /// How long it may take.
    pub limit: Duration,
    /// What keeps it within bounds.
    pub sandbox: Sandbox,
    /// On whose word it runs.
    pub on: Authority,
}

/// Runs a command by the shell, in the sandbox, and returns what came of it.
pub fn run_known(care: &Supervisor, known: &KnownCommand, scrubber: &Scrubber) -> EffectReport {
    let root;
    let dir = match &known.dir {
        Some(dir) => dir,
        None => match gate::resolve(&known.root, ".") {
            Ok(dir) => {
                root = dir;
                &root
            }
            Err(error) => return failed(scrubber, &error),
        },
    };
    let job = SandboxedCommand {
        command: &known.command,
        argv: sandbox::shell(&known.command),
        root: &known.root,
        dir,
        env: Vec::new(),
        name: format!("{} {REMEDY}", known.name),
        limit: known.limit,
        on: known.on,
    };
    let ran = match known.sandbox.run(care, &job) {
        Ok(ran) => ran,
        Err(error) => return failed(scrubber, &error),
    };
    match (ran.breach, ran.exit) {
        (Some(breach), _) => failed(scrubber, &breach),
        (None, ProcessExit::Code(0)) => EffectReport::Done,
        (None, ProcessExit::TimedOut | ProcessExit::Hung) => EffectReport::TimedOut,
        (None, exit @ (ProcessExit::Code(_) | ProcessExit::Signal(_))) => {
            let last = ran.output.trim_end().lines().last().unwrap_or_default().to_owned();
            let reason = scrubber.scrub(&format!("{}: {last}", exit_text(&exit)));
            EffectReport::Failed { reason, exit: Some(exit) }
        }
    }
}
