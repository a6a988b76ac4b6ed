//! `salve memory learn`: teaches what helps.

use std::io::Read;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use salve_core::event::{Actor, Draft, Event, MemoryEvent, NoteEvent, Proof};
use salve_core::id::Signature;
use salve_core::memory::{RemedyTrial, RememberedFailure, RememberedKind, RememberedRemedy};
use salve_core::scrub::Scrubbed;
use serde::Serialize;

use super::super::{CliError, Exit, project};
use super::{MemoryCommandContext, Whose};
use crate::learned::{Sureness, ToolFixItem, When};
use crate::store::Store;

/// The largest patch that is remembered.
const LARGEST_PATCH: u64 = 1 << 20;

/// Arguments of `salve memory learn`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true)
    .args(["command", "patch", "instruction", "fix"]))]
pub(super) struct Args {
    /// The failure's signature, if it is known already
    #[arg(long, value_name = "HEX", conflicts_with = "text")]
    signature: Option<String>,
    /// A command that helps
    #[arg(long, value_name = "COMMAND")]
    command: Option<String>,
    /// A file with a patch that helps
    #[arg(long, value_name = "FILE")]
    patch: Option<PathBuf>,
    /// What to tell an agent
    #[arg(long, value_name = "TEXT")]
    instruction: Option<String>,
    /// Remember that it was tried and does not help
    #[arg(long, conflicts_with = "fix")]
    failed: bool,
    /// What fixes a tool's error; goes to tool_fixes.yaml
    #[arg(long, value_name = "TEXT", requires = "tool", requires = "pattern")]
    fix: Option<String>,
    /// The tool that failed
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Text that the tool's error contains
    #[arg(long, value_name = "TEXT", requires = "fix")]
    pattern: Option<String>,
    /// Why the tool's error happens
    #[arg(long, value_name = "TEXT", requires = "fix")]
    root_cause: Option<String>,
    #[command(flatten)]
    whose: Whose,
    /// The failure's output [default: stdin]
    text: Option<String>,
}

/// What was learned.
#[derive(Debug, Serialize)]
#[serde(tag = "learned", rename_all = "snake_case")]
enum LearnedFact {
    Remedy { version: u32, signature: Signature, remedy: RememberedRemedy, failed: bool },
    ToolFix { version: u32, fix: ToolFixItem },
}

/// Learns.
pub(super) fn run(args: Args, desk: &MemoryCommandContext<'_>) -> Result<Exit, CliError> {
    let fact = match &args.fix {
        Some(fix) => learn_fix(fix, &args, desk)?,
        None => learn_remedy(&args, desk)?,
    };
    match &fact {
        _ if desk.out.json() => desk.out.fact(&fact)?,
        LearnedFact::Remedy { signature, remedy, failed: false, .. } => {
            desk.out.remark(format_args!("learned for {signature}: {}", remedy.description()));
        }
        LearnedFact::Remedy { signature, remedy, failed: true, .. } => {
            let what = remedy.description();
            desk.out.remark(format_args!("will not try again for {signature}: {what}"));
        }
        LearnedFact::ToolFix { fix, .. } => {
            let (tool, pattern) = (&fix.tool_name, &fix.error_pattern);
            desk.out.remark(format_args!("learned for {tool} when it says `{pattern}`"));
        }
    }
    Ok(Exit::Well)
}

fn learn_fix(
    fix: &str,
    args: &Args,
    desk: &MemoryCommandContext<'_>,
) -> Result<LearnedFact, CliError> {
    if args.whose.user {
        return Err(CliError::usage("fixes for tools belong to a project")
            .hint("leave out --user; tool_fixes.yaml can be shared in git"));
    }
    let text = |text: Option<&str>| text.unwrap_or_default().trim().to_owned();
    let fix = ToolFixItem {
        tool_name: text(args.tool.as_deref()),
        error_pattern: text(args.pattern.as_deref()),
        root_cause: text(args.root_cause.as_deref()),
        fix_description: text(Some(fix)),
        discovered_at: Some(When(Timestamp::now())),
        // What an agent says about its own work is not the last word.
        confidence: match project::speaker(&desk.scrubber) {
            Actor::Person { .. } => Sureness::High,
            Actor::Agent { .. }
            | Actor::Salve(_)
            | Actor::Unproven { .. }
            | Actor::Forged { .. } => Sureness::Medium,
        },
    };
    if fix.error_pattern.is_empty() || fix.fix_description.is_empty() {
        return Err(CliError::usage("--pattern and --fix must not be empty"));
    }
    let store = desk.open(args.whose)?;
    desk.learned(&store).put_fix(&fix)?;
    desk.sync(&store, args.whose)?;
    Ok(LearnedFact::ToolFix { version: 1, fix })
}

fn learn_remedy(args: &Args, desk: &MemoryCommandContext<'_>) -> Result<LearnedFact, CliError> {
    let remedy = remedy(args, desk)?;
    let store = desk.open(args.whose)?;
    desk.expect_person(&store, "teach what helps")?;
    let failure = match &args.signature {
        Some(signature) => known_failure(signature, &store)?,
        None => {
            let (print, _) = desk.fingerprint(args.text.as_deref(), args.tool.as_deref())?;
            RememberedFailure::new(&print, &desk.scrubber)
        }
    };
    let at = Timestamp::now();
    let speaker = project::speaker(&desk.scrubber);
    let by = match &speaker {
        Actor::Person { name } | Actor::Unproven { name } | Actor::Forged { name } => name.clone(),
        Actor::Agent { name } => desk.scrubber.scrub(&format!("agent {name}")),
        Actor::Salve(_) => Scrubbed::literal("salve"),
    };
    let signature = failure.signature;
    if args.failed {
        let root = store.project().root().file_name().unwrap_or_default().to_string_lossy();
        let project = desk.scrubber.scrub(if args.whose.user { "" } else { &root });
        let proof = Proof::Failed;
        let outcome = RemedyTrial { at, by, incident: None, project, proof };
        store.memory().learn(&failure, &remedy, &outcome)?;
    } else {
        store.memory().teach(&failure, &remedy, at, &by)?;
    }
    if !args.whose.user {
        let event = if args.failed {
            Event::Memory(MemoryEvent::Learned {
                signature,
                remedy: remedy.digest(),
                proof: Proof::Failed,
            })
        } else {
            let text = format!("taught for {signature}: {}", remedy.description());
            Event::Note(NoteEvent::Noted { text: desk.scrubber.scrub(&text) })
        };
        store.journal().append(Draft { at, by: speaker, incident: None, event })?;
    }
    desk.sync(&store, args.whose)?;
    Ok(LearnedFact::Remedy { version: 1, signature, remedy, failed: args.failed })
}

fn known_failure(signature: &str, store: &Store) -> Result<RememberedFailure, CliError> {
    let signature = super::list::resolve(signature, store)?;
    match store.memory().recall(signature)? {
        Some(known) => Ok(known.failure),
        None => Err(CliError::failed(format!("nothing is known about {signature}"))
            .hint("give the failure's own text instead of --signature")),
    }
}

fn remedy(args: &Args, desk: &MemoryCommandContext<'_>) -> Result<RememberedRemedy, CliError> {
    let (kind, text) = match (&args.command, &args.patch, &args.instruction) {
        (Some(command), ..) => (RememberedKind::Command, command.trim().to_owned()),
        (None, Some(path), _) => (RememberedKind::Patch, read_patch(path)?),
        (None, None, Some(words)) => (RememberedKind::Instruction, words.trim().to_owned()),
        (None, None, None) => (RememberedKind::Command, String::new()),
    };
    if text.trim().is_empty() {
        return Err(CliError::usage(format!("the {kind} is empty")));
    }
    let clean: Scrubbed = desk.scrubber.scrub(&text);
    if clean != text.as_str() {
        return Err(CliError::usage(format!("there is a secret in the {kind}"))
            .hint("write it so that the secret comes from the environment"));
    }
    Ok(RememberedRemedy { kind, text: clean })
}

fn read_patch(path: &Path) -> Result<String, CliError> {
    let name = path.display();
    let failed = |error| CliError::failed(format!("cannot read the patch {name}")).because(error);
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(LARGEST_PATCH + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > LARGEST_PATCH {
        return Err(CliError::usage(format!("the patch {name} is larger than 1 MiB")));
    }
    Ok(text)
}
