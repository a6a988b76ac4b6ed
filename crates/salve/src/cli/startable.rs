//! Whether a command that somebody typed can be started at all.
//!
//! A word that no program has is a slip of the hand: it is told at once and is no incident. One
//! that a declared package or an environment of the project would bring is another matter, since
//! that can be healed.

use std::ffi::OsString;
use std::path::Path;

use salve_core::event::ProcessExit;
use salve_core::fingerprint::{FingerprintRules, Hints};
use salve_core::playbook::ObservedFailure;

use super::CliError;
use crate::config::Config;
use crate::playbook::{FailedSubject, diagnose};
use crate::process::find_program;
use crate::sandbox::Sandbox;

/// Programs that people mean when they mistype.
const USUAL: &[&str] = &[
    "npm", "npx", "pnpm", "yarn", "bun", "node", "deno", "python", "python3", "uv", "poetry",
    "pytest", "flask", "cargo", "go", "make", "just", "ruby", "bundle", "php", "composer",
    "docker", "sh", "bash",
];

/// How far a slip of the hand may be from the word that was meant.
const SLIP: usize = 2;

/// The rule of the playbook that knows only that there is no such program.
const NO_SUCH_PROGRAM: &str = "program.missing";

/// Refuses a command whose program is nowhere and would come from nothing that the project
/// declares.
pub(super) fn check(words: &[OsString], root: &Path, config: &Config) -> Result<(), CliError> {
    let Some(program) = words.first().and_then(|word| word.to_str()) else { return Ok(()) };
    let is_there = if program.contains('/') {
        // A server is started at the root, a check where its user is.
        root.join(program).exists() || Path::new(program).exists()
    } else {
        find_program(program).is_some()
    };
    if is_there {
        return Ok(());
    }
    let texts: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let (command, output) = (texts.join(" "), format!("`{program}` was not found"));
    let hints = Hints { exit_code: Some(127), ..Hints::default() };
    let fingerprint = FingerprintRules::built_in().fingerprint(&output, &hints);
    let exit = ProcessExit::Code(127);
    let seen = ObservedFailure { fingerprint: &fingerprint, exit: &exit, output: &output };
    let sandbox = Sandbox::new(&config.settings.recovery.sandbox);
    let ask = FailedSubject {
        root,
        dir: root,
        command: &command,
        env: &[],
        run: None,
        sandbox: &sandbox,
    };
    let found = diagnose(&ask, &seen, &super::project::scrubber());
    if found.rule.as_deref().is_some_and(|rule| rule != NO_SUCH_PROGRAM) {
        return Ok(());
    }
    let error = CliError::usage(format!("cannot start `{program}`")).because(match program {
        path if path.contains('/') => "there is no such file".to_owned(),
        _ => "no program of that name is on the PATH".to_owned(),
    });
    let slip =
        |known: &&&str| strsim::damerau_levenshtein(program, known) <= SLIP.min(known.len() - 1);
    let meant = USUAL.iter().filter(slip).filter(|known| find_program(known).is_some());
    let meant = meant.min_by_key(|known| strsim::damerau_levenshtein(program, known));
    Err(match meant {
        Some(meant) => error.hint(format!("did you mean `{meant}`?")),
        None => error.hint("correct the command, or install the program"),
    })
}
