//! `salve hook`: what an agent's own hooks ask before and after each tool call.
//!
//! It must be quick: before a call nothing is opened where nothing was learned, and what cannot be
//! read is not judged.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use salve_core::event::{Event, MemoryEvent};
use salve_core::memory::usage::Level;
use salve_core::prevention::index::{PatternIndex, UsageWarning, WorkedBefore};
use salve_core::prevention::mistake::CallMistake;
use salve_core::scrub::Scrubbed;
use salve_core::tool::failure::FailedCall;
use salve_core::tool::hook::{HookInput, HookOutput, KillTarget, kill_targets};
use salve_core::tool::rule::{HealChoice, ToolFix};
use salve_core::tool::session::ToolHints;
use serde_json::Value;
use uuid::Uuid;

use super::{CliError, Exit, Output, foundation};
use crate::learned::{Learned, ToolFailure, UsagePattern};
use crate::process::tree;
use crate::project::Project;
use crate::store::{Store, Stream};
use crate::tools::{HealMeans, Healed, entry_of};

/// From so many failures of the very same command on, it is warned about.
const REPEATED: usize = 3;
/// How far back failures count for that.
const RECENT_MINUTES: i64 = 30;
/// How many failures are looked at for one that a proxy has written down.
const JUST_FAILED: usize = 8;
/// How long ago that was at most.
const JUST_NOW: SignedDuration = SignedDuration::from_secs(5);
/// The largest input that is read; a result beyond it is no error message.
const LARGEST: u64 = 4 << 20;

/// Arguments of `salve hook`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Whose hooks these are
    agent: HookAgent,
}

/// An agent with hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum HookAgent {
    /// Claude Code
    Claude,
}

/// Reads one event from stdin and answers it on stdout, if there is something to say.
pub(super) fn run(args: &Args, out: &Output) -> Result<Exit, CliError> {
    let HookAgent::Claude = args.agent;
    let mut text = Vec::new();
    std::io::stdin()
        .take(LARGEST)
        .read_to_end(&mut text)
        .map_err(|error| CliError::failed("cannot read the event").because(error))?;
    // An event that is not understood is none of our business.
    let Ok(input) = serde_json::from_slice::<HookInput>(&text) else { return Ok(Exit::Well) };
    let said = if input.hook_event_name == "PreToolUse" {
        before(&input).or_else(|| known_to_fail(&input, out))
    } else {
        after(&input, out)
    };
    if let Some(said) = said {
        out.fact(&said)?;
    }
    Ok(Exit::Well)
}

/// Refuses a command that would end somebody else's processes.
fn before(input: &HookInput) -> Option<HookOutput> {
    let cwd = input.cwd.as_ref().map(PathBuf::from).or_else(|| std::env::current_dir().ok())?;
    let root = Project::find(&cwd).map_or(cwd, |project| project.root().to_owned());
    let harm =
        kill_targets(input.command()?).into_iter().find_map(|target| harm(&target, &root))?;
    Some(HookOutput::refuse(input, harm))
}

/// Warns about a call that fits a known mistake, or that has failed again and again just now.
///
/// Nothing is opened in a project where nothing was learned.
fn known_to_fail(input: &HookInput, out: &Output) -> Option<HookOutput> {
    let cwd = input.cwd.as_ref().map(PathBuf::from).or_else(|| std::env::current_dir().ok())?;
    let project = Project::find(&cwd).ok()?;
    if !project.database().exists() && !project.learned().is_dir() {
        return None;
    }
    let config = super::config::load(out).ok()?;
    let terms = config.settings.prevention;
    let scrubber = foundation::scrubber(&config).ok().filter(|_| terms.enabled)?;
    let store = Store::open(&project).ok()?;
    let learned = Learned::new(&store, &scrubber, config.fingerprint_rules());
    // A file that cannot be read leaves the last good state in force.
    let _ = learned.pull();
    let mut patterns = learned.usage_patterns().ok()?;
    patterns.retain(|pattern| pattern.tool == input.called());
    let warnings = warnings(input, &patterns);
    if warnings.is_empty() {
        let (command, failures) = (input.command()?, learned.failures().ok()?);
        let said = repeated(&scrubber.scrub(command), &failures, Timestamp::now())?;
        return Some(HookOutput::tell(input, said));
    }
    let texts: Vec<&str> = warnings.iter().map(|warning| warning.text.as_str()).collect();
    let text = texts.join(" ");
    let is_sure = warnings.iter().any(|warning| warning.level == Level::Strongest);
    Some(if terms.block && is_sure {
        HookOutput::refuse(input, format!("Salve did not let this call run. {text}"))
    } else {
        HookOutput::tell(input, text)
    })
}

/// Returns what the patterns say about a call. What has to come before it is not known here.
fn warnings(input: &HookInput, patterns: &[UsagePattern]) -> Vec<UsageWarning> {
    let Some(arguments) = input.tool_input.as_object() else { return Vec::new() };
    let index = PatternIndex::new(patterns.iter().filter_map(entry_of).collect());
    let worked = WorkedBefore::default();
    let mut found = index.check(input.called(), arguments, &worked, Timestamp::now());
    let is_unprepared = |warning: &UsageWarning| {
        let pattern = index.find(&warning.id).map(|pattern| &pattern.mistake);
        matches!(pattern, Some(CallMistake::Unprepared { .. }))
    };
    found.retain(|warning| !is_unprepared(warning));
    found
}

/// Says that the very same command failed several times a short while ago.
fn repeated(command: &Scrubbed, failures: &[ToolFailure], now: Timestamp) -> Option<String> {
    let since = now.checked_sub(SignedDuration::from_mins(RECENT_MINUTES)).ok()?;
    let same: Vec<&ToolFailure> = failures
        .iter()
        .filter(|failed| failed.tool == command.as_str() && failed.timestamp.0 >= since)
        .collect();
    let last = same.last().filter(|last| same.len() >= REPEATED && !last.auto_healed)?;
    let error = last.error.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    Some(format!(
        "This very command failed {} times in the last {RECENT_MINUTES} minutes, last with: {error}\n\
         Do not repeat it unchanged unless something else has changed since.",
        same.len()
    ))
}

/// Returns why ending these processes is refused, and what to do instead.
fn harm(target: &KillTarget, root: &Path) -> Option<String> {
    let instead = "End the process of this project by its id (`kill PID`), or a server that Salve \
                   cares for with `salve stop NAME`.";
    match target {
        KillTarget::Named { program, words } => Some(format!(
            "`{words}` was refused: {program} ends every process of that name, also those of other \
             projects and programs. {instead}"
        )),
        KillTarget::Everyone => {
            Some(format!("This was refused: it ends every process of the user. {instead}"))
        }
        KillTarget::Process(pid) | KillTarget::Group(pid) => {
            let is_ours = |pid: u32| {
                let lives_here = tree::cwd(pid).is_some_and(|cwd| cwd.starts_with(root));
                let ancestors = crate::process::lineage();
                let is_sibling =
                    |stat: tree::Stat| ancestors.iter().take(2).any(|above| stat.parent == *above);
                lives_here || tree::stat(pid).is_some_and(is_sibling)
            };
            let is_there = tree::stat(*pid).is_some_and(|stat| !stat.is_dead);
            (is_there && !is_ours(*pid)).then(|| {
                let scrubber = super::project::scrubber();
                let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                let command = String::from_utf8_lossy(&command).replace('\0', " ");
                let command = scrubber.scrub(command.trim());
                format!(
                    "This was refused: process {pid} (`{}`) does not belong to this project. Ask \
                     the user before you end it.",
                    command.as_str()
                )
            })
        }
    }
}

/// Heals what made a call fail, or says what is known about it.
fn after(input: &HookInput, out: &Output) -> Option<HookOutput> {
    let text = input.failure()?;
    let began = Timestamp::now();
    let care = foundation::care(Uuid::new_v4()).ok()?;
    let means = super::call::means(care, out)?;
    let call = means.judge_failure(input.called(), &text);
    let said = match means.choose(&call, ToolHints::default(), &|_| false) {
        HealChoice::Fixes(fixes) if means.may_retry(0) && fixes.iter().any(can_be_done_here) => {
            fixes.iter().find(|fix| can_be_done_here(fix)).map(|fix| fixed(&means, fix, began))
        }
        HealChoice::Fixes(fixes) if fixes.iter().any(|fix| matches!(fix, ToolFix::Wait { .. })) => {
            let seconds = call.retry_after().unwrap_or(1);
            Some(format!("The other side asks to wait {seconds} s. Call it again after that."))
        }
        HealChoice::MayHaveActed { .. } => {
            Some("The call may have taken effect. Look before you repeat it.".to_owned())
        }
        HealChoice::Person(why) => Some(format!("Salve did nothing about it: {why}.")),
        HealChoice::Fixes(_) | HealChoice::Nothing => known_fix(&means, input.called(), &text),
    };
    let arguments = if input.command().is_some() { &Value::Null } else { &input.tool_input };
    if input.command().is_some() || !is_on_record(&means, &call, began) {
        means.record(&Healed { call: &call, arguments, resolution: None, is_healed: false });
    }
    Some(HookOutput::tell(input, means.scrub(&said?)))
}

/// Tells whether a proxy has just written this very failure down, to which it added a word.
fn is_on_record(means: &HealMeans, call: &FailedCall, now: Timestamp) -> bool {
    let known = means.project().filter(|project| project.database().exists());
    let Some(store) = known.and_then(|project| Store::open(project).ok()) else { return false };
    let last = store.journal().tail(&Stream::ToolFailures, JUST_FAILED).unwrap_or_default();
    last.iter().any(|entry| {
        let Event::Memory(MemoryEvent::ToolFailed { tool, error, .. }) = &entry.event else {
            return false;
        };
        let is_recent = now.duration_since(entry.at) < JUST_NOW;
        is_recent
            && tool.as_str() == call.tool
            && !error.as_str().is_empty()
            && means.scrub(&call.text).starts_with(error.as_str())
    })
}

/// Tells whether a hook can do it: what needs the tool's server only a proxy can do.
fn can_be_done_here(fix: &ToolFix) -> bool {
    match fix {
        ToolFix::Run { .. } | ToolFix::ConnectVpn { .. } => true,
        // An agent waits better than a hook, which it would give up.
        ToolFix::Call { .. } | ToolFix::Restart | ToolFix::Wait { .. } => false,
    }
}

fn fixed(means: &HealMeans, fix: &ToolFix, began: Timestamp) -> String {
    let by_caller = &mut |_: &ToolFix| Err("only a proxy can do that".to_owned());
    match means.fix(fix, began, by_caller) {
        Ok(()) => format!("Salve {}. Call it again; it should work now.", fix.describe()),
        Err(error) => format!("Salve tried to fix this: {error}. Ask the user."),
    }
}

/// Returns what somebody taught about this very error of this tool.
fn known_fix(means: &HealMeans, tool: &str, text: &str) -> Option<String> {
    let project = means.project().filter(|project| project.database().exists())?;
    let store = Store::open(project).ok()?;
    let scrubber = super::project::scrubber();
    let learned = Learned::new(&store, &scrubber, means.fingerprint_rules());
    let known = learned.known_issues(Some(tool), text).ok()?;
    let fix = known.fixes.first()?;
    let cause =
        if fix.root_cause.is_empty() { String::new() } else { format!(" ({})", fix.root_cause) };
    Some(format!("This error is known{cause}. What fixed it before: {}", fix.fix_description))
}
