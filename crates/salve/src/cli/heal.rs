//! `salve heal`: runs checks and heals them until they are green, or says honestly why not.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use salve_core::earned::Terms;
use salve_core::event::{Actor, Limits, Mode, Proof, SubjectKind};
use salve_core::scrub::{Scrubbed, Scrubber};
use signal_hook::consts::SIGINT;
use uuid::Uuid;

use super::dev::{agents, locate};
use super::events::visible;
use super::ground::{self, shelf};
use super::listen::{Heard, listen};
use super::project::{kept, presence, speaker, tell_mended, user_name};
use super::voice::Voice;
use super::{CliError, Exit, Output};
use crate::config::{AgentRuntime, CheckEntry, CommandLine, Config};
use crate::detect;
use crate::heal::right::{Right, RunLock};
use crate::heal::{Desk, control};
use crate::notify::{Notifier, Plan};
use crate::process::{Capture, Look, strays};
use crate::project::Project;
use crate::store::Store;
use crate::subjects::check::{CheckPlan, Clinic, Ending, HealPlan, Input, Records};

/// How long what a killed run left may take to end by itself.
const STRAYS: Duration = Duration::from_secs(2);

/// Arguments of `salve heal`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Checks to run, of salve.toml or as the project's own files name them [default: all]
    #[arg(value_name = "CHECK", conflicts_with = "command")]
    checks: Vec<String>,
    /// Agent for this run: a command that gets the task on stdin, or claude, codex or gemini
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Command of the check
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the checks, in two processes: one that works and one that keeps.
pub(super) fn run(args: &Args, out: &Output) -> Result<ExitCode, CliError> {
    kept(|| work(args, out))
}

fn work(args: &Args, out: &Output) -> Result<ExitCode, CliError> {
    let project = locate(out)?;
    let mut config = super::config::in_force(out)?;
    if let Some(agent) = &args.agent {
        use_agent(&mut config, agent);
    }
    if args.command.is_empty() && config.settings.checks.is_empty() {
        config.settings.checks = found(&project);
    }
    let plans = plans(args, &config)?;
    if args.command.is_empty() && args.checks.is_empty() {
        tell_waiting(&project, out)?;
    }
    care(project, &config, plans, out)
}

/// Says which reported issues no check heals.
fn tell_waiting(project: &Project, out: &Output) -> Result<(), CliError> {
    let Some(store) = Store::open_existing(project)? else { return Ok(()) };
    for issue in crate::team::open(&store)?.issues {
        if issue.check.is_none() || !issue.auto_fix {
            let (id, text) = (issue.issue_id.short(), visible(issue.text.head(200).as_str()));
            out.remark(format_args!("issue-{id}  {text}\n  {}", issue.standing));
        }
    }
    Ok(())
}

/// A check as it is asked for.
pub(super) struct Wanted {
    pub(super) kind: SubjectKind,
    pub(super) name: String,
    pub(super) entry: CheckEntry,
}

/// Takes checks to their end, one after the other.
pub(super) fn care(
    project: Project,
    config: &Config,
    wanted: Vec<Wanted>,
    out: &Output,
) -> Result<ExitCode, CliError> {
    in_clinic(project, config, out, |clinic, capture| {
        let plan = |one| plan(one, (&clinic.project, config), &clinic.desk.scrubber);
        let plans = wanted.iter().map(plan).collect();
        all(clinic, plans, capture)
    })
}

/// Does something with all that it takes to heal.
///
/// It ends by itself, or a signal ended it.
pub(super) fn in_clinic(
    project: Project,
    config: &Config,
    out: &Output,
    work: impl FnOnce(&mut Clinic<'_>, &dyn Fn() -> Capture) -> Result<Result<Exit, ExitCode>, CliError>,
) -> Result<ExitCode, CliError> {
    let scrubber = ground::scrubber(config)?;
    mend_git(&project, out)?;
    let store = Store::open(&project)?;
    tell_mended(&store, out);
    let _notices = Notifier::start(&project, Plan::new(&config.settings), &scrubber)?;
    let desk = Desk::new(&store, scrubber.clone());
    let run = Uuid::new_v4();
    let right = begin(&project, &desk, run, out)?;
    let care = ground::care(run)?;
    let outlet = ground::outlet(out);
    let mut voice = Voice {
        outlet: outlet.clone(),
        out,
        store: &store,
        several: false,
        terms: Terms::from(&config.settings.earned),
        tales: HashMap::new(),
        checked: HashMap::new(),
    };
    let (post, inbox) = mpsc::channel();
    listen(&project, &store, &post, &[])?;
    let agents = agents::for_checks((&project, &store), config, &scrubber, out)?;
    let heal = heal_plan(config, agents.is_some(), &scrubber);
    let mut clinic = Clinic {
        shelf: shelf(&project, config),
        records: Records::new(&project, heal.kept),
        heal,
        project,
        by: Some(speaker(&scrubber)).filter(|by| matches!(by, Actor::Person { .. })),
        desk,
        care,
        rules: config.fingerprint_rules(),
        agents,
        inbox: (post, inbox),
        face: &mut voice,
        presence: presence(),
        spent: Default::default(),
        orphans: 0,
    };
    let post = clinic.inbox.0.clone();
    // Nobody is left to tell when all checks are done.
    let tell = move |text| drop(post.send(Input::Note(text)));
    heed_control(&clinic.project, &clinic.desk, clinic.heal.person.clone(), tell);
    let lines = usize::try_from(config.settings.server.log_lines).unwrap_or(usize::MAX).max(2_000);
    let capture = || Capture::new(outlet.clone(), Look::Plain).with_lines(lines);
    let ended = work(&mut clinic, &capture)?;
    Ok(match ended {
        Ok(exit) => {
            right.give_back();
            exit.into()
        }
        // Something may still be ending.
        Err(stopped) => stopped,
    })
}

/// Takes each check to its end; the worst ending counts, unless a signal ended it.
fn all(
    clinic: &mut Clinic<'_>,
    plans: Vec<CheckPlan>,
    capture: &dyn Fn() -> Capture,
) -> Result<Result<Exit, ExitCode>, CliError> {
    let mut worst = Exit::Well;
    for plan in plans {
        match exit_of(clinic.heal(plan, Arc::new(capture()))?) {
            Ok(Exit::Well) => {}
            // A person should hear of what needs them, whatever else is red.
            Ok(Exit::NeedsPerson) => worst = Exit::NeedsPerson,
            Ok(other) => worst = if worst == Exit::Well { other } else { worst },
            Err(stopped) => return Ok(Err(stopped)),
        }
    }
    Ok(Ok(worst))
}

/// Takes the right to heal, and clears away what a run that was killed left.
pub(super) fn begin(
    project: &Project,
    desk: &Desk<'_>,
    run: Uuid,
    out: &Output,
) -> Result<RunLock, CliError> {
    let right = RunLock::take_for(project, Right::Checks, &desk.me, run).map_err(|error| {
        CliError::failed("the checks of this project are being healed")
            .because(error)
            .hint("wait until it is done: salve status")
    })?;
    if let Some(before) = right.run_before() {
        // It must not go on writing while this one heals.
        strays::end(&[before], &[], STRAYS);
    }
    for path in crate::playbook::give_back(project.root(), &desk.scrubber) {
        out.remark(format!("gave back {path}, which an interrupted repair had moved away"));
    }
    Ok(right)
}

/// Gives back what an agent of a killed run broke in the repository.
pub(super) fn mend_git(project: &Project, out: &Output) -> Result<(), CliError> {
    for text in crate::workspace::mend_git(project)? {
        out.remark(text);
    }
    Ok(())
}

/// Begins to heed what a person writes to CONTROL.md; what is there already counts at once.
pub(super) fn heed_control(
    project: &Project,
    desk: &Desk<'_>,
    person: Scrubbed,
    tell: impl Fn(String) + Send + 'static,
) {
    let mut watch = control::Watch::new(project, person, &desk.scrubber);
    watch.look(desk.store).into_iter().for_each(&tell);
    watch.go_on(tell);
}

/// Returns what an ending means to the shell; a signal ends everything.
fn exit_of(ending: Ending) -> Result<Exit, ExitCode> {
    match ending {
        Ending::Green | Ending::Healed(Proof::Proven | Proof::Transient | Proof::Flaky) => {
            Ok(Exit::Well)
        }
        Ending::Healed(Proof::Masked | Proof::Failed) | Ending::CalledOff => Ok(Exit::Failed),
        Ending::NeedsPerson => Ok(Exit::NeedsPerson),
        Ending::Stopped(SIGINT) => Err(Exit::Interrupted.into()),
        Ending::Stopped(signal) => Err(ExitCode::from(u8::try_from(128 + signal).unwrap_or(1))),
    }
}

/// Takes the agent that was named for this run.
pub(super) fn use_agent(config: &mut Config, agent: &str) {
    let settings = &mut config.settings.agent;
    settings.repair = true;
    let known = [AgentRuntime::Claude, AgentRuntime::Codex, AgentRuntime::Gemini];
    settings.runtime = Some(match known.into_iter().find(|known| known.as_str() == agent) {
        Some(runtime) => runtime,
        None => {
            settings.command = Some(CommandLine::Line(agent.to_owned()));
            AgentRuntime::Command
        }
    });
}

/// Returns the checks that the project's own files name.
fn found(project: &Project) -> BTreeMap<String, CheckEntry> {
    let entry = |found: detect::Detected| {
        let command = Some(CommandLine::Line(found.command));
        (found.name, CheckEntry { command, ..CheckEntry::default() })
    };
    detect::checks(project.root()).into_iter().map(entry).collect()
}

/// Returns the checks that are to run.
fn plans(args: &Args, config: &Config) -> Result<Vec<Wanted>, CliError> {
    let check = |name: &String, entry: &CheckEntry| Wanted {
        kind: SubjectKind::Check,
        name: name.clone(),
        entry: entry.clone(),
    };
    if !args.command.is_empty() {
        return Ok(vec![Wanted::command(SubjectKind::Check, &args.command)]);
    }
    let checks = &config.settings.checks;
    if checks.is_empty() {
        return Err(CliError::usage("there is no check to run")
            .hint("say what to run: salve heal -- npm test; or name checks in salve.toml"));
    }
    if args.checks.is_empty() {
        return Ok(checks.iter().map(|(name, entry)| check(name, entry)).collect());
    }
    let named = args.checks.iter().map(|name| match checks.get(name) {
        Some(entry) => Ok(check(name, entry)),
        None => {
            let known: Vec<_> = checks.keys().map(String::as_str).collect();
            Err(CliError::usage(format!("there is no check `{name}`"))
                .hint(format!("the checks are: {}", known.join(", "))))
        }
    });
    named.collect()
}

impl Wanted {
    /// Returns a check that is known by its command.
    pub(super) fn command(kind: SubjectKind, words: &[OsString]) -> Self {
        let words: Vec<String> =
            words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let name = words.join(" ");
        let command = Some(CommandLine::Words(words));
        Self { kind, name, entry: CheckEntry { command, ..CheckEntry::default() } }
    }
}

pub(super) fn plan(
    wanted: &Wanted,
    (project, config): (&Project, &Config),
    scrubber: &Scrubber,
) -> CheckPlan {
    let Wanted { kind, name, entry } = wanted;
    let command = entry.command.clone().unwrap_or_default();
    let mut env: Vec<(OsString, OsString)> =
        entry.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    if std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        // A pipe would make it drop its colours, and what it writes is passed on untouched.
        env.extend(["FORCE_COLOR", "CLICOLOR_FORCE"].map(|name| (name.into(), "1".into())));
    }
    let limit = entry.timeout_ms.map(Duration::from_millis);
    CheckPlan {
        kind: *kind,
        name: name.clone(),
        argv: command.argv(),
        command: scrubber.scrub(&command.to_string()),
        dir: match &entry.dir {
            Some(dir) => project.root().join(dir),
            None => here(project),
        },
        env,
        limit: limit.unwrap_or(config.settings.heal.timeout),
    }
}

/// Returns where a command without a directory of its own runs: here, if that is in the project.
fn here(project: &Project) -> std::path::PathBuf {
    let root = project.root();
    let here = std::env::current_dir().and_then(|dir| dir.canonicalize()).ok();
    here.filter(|dir| dir.starts_with(root)).unwrap_or_else(|| root.to_path_buf())
}

pub(super) fn heal_plan(config: &Config, has_agent: bool, scrubber: &Scrubber) -> HealPlan {
    let (heal, agent, repair) =
        (&config.settings.heal, &config.settings.agent, &config.settings.repair);
    let some = |limit: u64| (limit > 0).then_some(limit);
    let micros = |cents: u64| some(cents.saturating_mul(10_000));
    HealPlan {
        person: scrubber.scrub(&user_name()),
        mode: if has_agent { Mode::Agent } else { Mode::Legacy },
        limits: Limits {
            attempts: Some(u64::from(heal.max_attempts)),
            tokens: some(heal.max_tokens),
            money_micros: micros(agent.max_cents),
            ..Limits::default()
        },
        run_limits: Limits {
            tokens: some(heal.run_max_tokens),
            money_micros: micros(heal.run_max_cents),
            ..Limits::default()
        },
        reruns: heal.reruns,
        proof: heal.proof,
        no_progress_limit: heal.no_progress_limit,
        rollback_after: heal.rollback_after,
        agent_time: (agent.engage_timeout, agent.write_timeout),
        max_files: repair.max_files,
        max_lines: repair.max_loc,
        on_failure: agent.on_failure.into(),
        breakers: heal.breakers.clone(),
        tiers: heal.tiers.clone(),
        broadcast: heal.broadcast,
        changed_manifest: config.settings.recovery.changed_manifest,
        kept: Duration::from_secs(u64::from(heal.attempt_days) * 86_400),
    }
}

impl From<Heard> for Input {
    fn from(heard: Heard) -> Self {
        match heard {
            Heard::Journal(entries) => Input::Journal(entries),
            Heard::Stop(signal) | Heard::Signal(signal) => Input::Stop(signal),
        }
    }
}
