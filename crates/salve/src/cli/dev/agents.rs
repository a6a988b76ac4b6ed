//! How an agent is started, as the settings say.

use std::time::Duration;

use jiff::Timestamp;
use salve_core::agent::known_agents;
use salve_core::class::Class;
use salve_core::scrub::Scrubber;

use super::super::{CliError, Output};
use crate::agent::{Mcp, Profile};
use crate::config::{
    self, AgentRuntime, AgentSettings, CommandLine, Config, LiveError, LiveSettings, RoleEntry,
    Sources,
};
use crate::heal::agents::{AgentPlan, Agents, Specialist};
use crate::project::Project;
use crate::store::Store;

/// Returns what it takes to start agents, where they may repair.
pub(in crate::cli) fn all<'s>(
    project: &Project,
    store: &'s Store,
    config: &Config,
    scrubber: &Scrubber,
    out: &Output,
) -> Result<Option<Agents<'s>>, CliError> {
    let settings = &config.settings.agent;
    let (true, Some(runtime)) = (settings.repair, settings.runtime) else {
        return Ok(None);
    };
    let mcp = mcp(project)?;
    let plan = plan(runtime, settings, &mcp)?;
    let known = config.settings.specialists.values();
    let specialists = known.map(|entry| specialist(entry, runtime, settings, &mcp));
    let specialists = specialists.collect::<Result<_, _>>()?;
    let live = live(project, store, scrubber, out)?;
    Ok(Some(Agents { plan, specialists, live }))
}

/// What the help says of an agent that need not be named.
pub(in crate::cli) const DEFAULT_AGENT: &str = " [default: that of agent.runtime]";

/// Returns what the help says of an agent that is named on the command line.
pub(in crate::cli) fn agent_help(what: &str, default: &str) -> String {
    let names: Vec<&str> = known_agents().iter().map(|known| known.name.as_str()).collect();
    let (last, others) = names.split_last().unwrap_or((&"", &[]));
    let names = format!("{} or {last}", others.join(", "));
    format!("{what}: a command that gets the task on stdin, or {names}{default}")
}

/// Returns how agents reach this very Salve.
pub(in crate::cli) fn mcp(project: &Project) -> Result<Mcp, CliError> {
    let program = std::env::current_exe()
        .map_err(|error| CliError::failed("cannot tell where salve is").because(error))?;
    let root = project.root().to_string_lossy().into_owned();
    Ok(Mcp { command: program, args: vec!["--project".into(), root, "mcp".into()] })
}

/// Returns the settings, which are held while an agent runs.
pub(in crate::cli) fn live<'s>(
    project: &Project,
    store: &'s Store,
    scrubber: &Scrubber,
    out: &Output,
) -> Result<LiveSettings<'s>, CliError> {
    let sources = Sources::of_process(Some(project), &out.global().set);
    let live = LiveSettings::open(store.journal(), sources, scrubber.clone(), Timestamp::now());
    live.map_err(|error| match error {
        LiveError::Store(error) => error.into(),
        error @ (LiveError::Load(_) | LiveError::NotThat { .. } | LiveError::NothingWaits) => {
            CliError::usage("the settings are wrong").because(error)
        }
    })
}

/// Returns how the agent of a role is started; what its settings leave open is as for every other
/// agent.
pub(in crate::cli) fn for_role(
    name: &str,
    entry: &RoleEntry,
    settings: &AgentSettings,
    mcp: &Mcp,
) -> Result<AgentPlan, CliError> {
    let runtime = match (entry.runtime, &entry.command) {
        (Some(runtime), _) => runtime,
        (None, Some(_)) => AgentRuntime::Command,
        (None, None) => settings.runtime.ok_or_else(|| {
            CliError::usage(format!("there is no agent for the role `{name}`"))
                .hint("name one: salve loop run --agent claude, or set agent.runtime in salve.toml")
        })?,
    };
    let mut own = settings.clone();
    own.command = entry.command.clone().or(own.command);
    // A model of one runtime is none of another's.
    own.model = entry.model.clone().or(own.model.filter(|_| settings.runtime == Some(runtime)));
    let limit = |own: Option<u64>, usual: Duration| own.map_or(usual, Duration::from_millis);
    own.wall_limit = limit(entry.wall_limit_ms, own.wall_limit);
    own.idle_limit = limit(entry.idle_limit_ms, own.idle_limit);
    plan(runtime, &own, mcp)
}

/// Returns how an agent is started.
fn plan(runtime: AgentRuntime, settings: &AgentSettings, mcp: &Mcp) -> Result<AgentPlan, CliError> {
    Ok(AgentPlan {
        name: name(runtime, settings),
        profile: Profile {
            prices: settings.prices.get(runtime.as_str()).copied().map(Into::into),
            ..profile(runtime, settings)?
        }
        .with_state_in(&settings.state_dirs),
        mcp: mcp.clone(),
        model: settings.model.clone(),
        wall: settings.wall_limit,
        idle: settings.idle_limit,
    })
}

/// Returns a specialist; what its settings leave open is as for every other agent.
fn specialist(
    entry: &config::SpecialistEntry,
    usual: AgentRuntime,
    settings: &AgentSettings,
    mcp: &Mcp,
) -> Result<Specialist, CliError> {
    let runtime = match (entry.runtime, &entry.command) {
        (Some(runtime), _) => runtime,
        (None, Some(_)) => AgentRuntime::Command,
        (None, None) => usual,
    };
    let mut own = settings.clone();
    own.command = entry.command.clone().or(own.command);
    // A model of one runtime is none of another's.
    own.model = own.model.filter(|_| runtime == usual);
    let is_listed = |class: &&Class| entry.classes.iter().any(|name| name == class.as_str());
    Ok(Specialist {
        classes: Class::ALL.iter().filter(is_listed).copied().collect(),
        prompt: entry.prompt.clone(),
        model: entry.model.clone(),
        plan: plan(runtime, &own, mcp)?,
    })
}

/// Returns what an agent is called: a command by its program.
fn name(runtime: AgentRuntime, settings: &AgentSettings) -> String {
    let word = match (runtime, &settings.command) {
        (AgentRuntime::Command, Some(CommandLine::Words(words))) => words.first().cloned(),
        (AgentRuntime::Command, Some(CommandLine::Typed(words))) => {
            words.first().map(|word| word.to_string_lossy().into_owned())
        }
        (AgentRuntime::Command, Some(CommandLine::Line(line))) => {
            line.split_whitespace().next().map(str::to_owned)
        }
        (AgentRuntime::Command, None) | (AgentRuntime::Known(_), _) => None,
    };
    let program = word.and_then(|word| word.rsplit('/').next().map(str::to_owned));
    program.filter(|name| !name.is_empty()).unwrap_or_else(|| runtime.as_str().to_owned())
}

/// Returns how an agent is run.
fn profile(runtime: AgentRuntime, settings: &AgentSettings) -> Result<Profile, CliError> {
    match runtime {
        AgentRuntime::Known(known) => Profile::shipped(&known.name).map_err(|error| {
            CliError::failed("the shipped agent profiles are wrong").because(error)
        }),
        AgentRuntime::Command => {
            let words = settings.command.as_ref().map(|command| {
                command.argv().iter().map(|word| word.to_string_lossy().into_owned()).collect()
            });
            let words: Vec<String> = words.unwrap_or_default();
            Profile::command(&words).ok_or_else(|| CliError::usage("agent.command is missing"))
        }
    }
}
