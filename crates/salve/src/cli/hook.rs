//! `salve hook`: what an agent's own hooks ask before and after each tool call.
//!
//! It must be quick: nothing is opened unless a call failed, and what cannot be read is not judged.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use salve_core::tool::hook::{HookInput, HookOutput, KillTarget, kill_targets};
use salve_core::tool::rule::{HealChoice, ToolFix};
use salve_core::tool::session::ToolHints;
use uuid::Uuid;

use super::{CliError, Exit, Output, foundation};
use crate::learned::Learned;
use crate::process::tree;
use crate::project::Project;
use crate::store::Store;
use crate::tools::{HealMeans, Healed};

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
    let said =
        if input.hook_event_name == "PreToolUse" { before(&input) } else { after(&input, out) };
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
        HealChoice::Fixes(fixes) if means.may_retry(0) && !fixes.is_empty() => {
            Some(fixed(&means, &fixes[0], began))
        }
        HealChoice::MayHaveActed { .. } => {
            Some("The call may have taken effect. Look before you repeat it.".to_owned())
        }
        HealChoice::Person(why) => Some(format!("Salve did nothing about it: {why}.")),
        HealChoice::Fixes(_) | HealChoice::Nothing => known_fix(&means, input.called(), &text),
    };
    means.record(&Healed { call: &call, resolution: None, is_healed: false });
    Some(HookOutput::tell(input, means.scrub(&said?)))
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
