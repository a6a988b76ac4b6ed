//! `salve heal`: runs checks and heals them until they are green, or says honestly why not.

mod summary;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use salve_core::event::{Actor, Proof, ResourceLimits, SubjectKind};
use signal_hook::consts::SIGINT;

use self::summary::{EndedCheck, summary};
use super::bare::{BareCommand, BareReason};
use super::dev::agents::agent_help;
use super::dev::keys::KeysOnceAsked;
use super::dev::locate;
use super::events::visible;
use super::foundation::{Foundation, Purpose};
use super::project::{kept, presence, speaker};
use super::terminal_reporter::{AnswerWay, Colours, TerminalReporter};
use super::{CliError, Exit, Output};
use crate::config::{AgentRuntime, CheckEntry, CommandLine, Config};
use crate::detect;
use crate::heal::inbox::InboxMessage;
use crate::heal::records::Records;
use crate::heal::right::NotGiven;
use crate::heal::run::CommandPlan;
use crate::heal::{Presence, RunBase, RunIntent};
use crate::playbook::SETS_CI;
use crate::process::{Capture, OutputStyle, RepeatableInput};
use crate::project::Project;
use crate::store::Store;
use crate::subjects::check::{CheckEnd, CheckSubject, CheckTerms};

/// Arguments of `salve heal`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Checks to run, of salve.toml or as the project's own files name them [default: all]
    #[arg(value_name = "CHECK", conflicts_with = "command")]
    checks: Vec<String>,
    #[arg(long, value_name = "AGENT", help = agent_help("Agent for this run", ""))]
    agent: Option<String>,
    /// Say what Salve would do and by which rule, but do nothing
    #[arg(long)]
    observe: bool,
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
    super::startable::check(&args.command, project.root(), &config)?;
    let plans = plans(args, &config)?;
    if args.command.is_empty() && args.checks.is_empty() {
        tell_waiting(&project, out)?;
    }
    let intent = RunIntent::observing(args.observe);
    care(project, &config, CheckRequest { wanted: &plans, intent }, out)
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
pub(super) struct RequestedCheck {
    pub(super) kind: SubjectKind,
    pub(super) name: String,
    pub(super) entry: CheckEntry,
}

/// Which checks are to be run, and whether they are healed.
pub(super) struct CheckRequest<'c> {
    pub(super) wanted: &'c [RequestedCheck],
    pub(super) intent: RunIntent,
}

/// Takes checks to their end, one after the other; the worst ending counts, unless a signal ended
/// it.
pub(super) fn care(
    project: Project,
    config: &Config,
    CheckRequest { wanted, intent }: CheckRequest<'_>,
    out: &Output,
) -> Result<ExitCode, CliError> {
    if let Err(error) = project.make_room()
        && error.leaves_no_room()
    {
        return bare(&project, wanted, &BareReason::NoRecords(&error), out);
    }
    let foundation = Foundation::lay(project, config, out)?;
    let right = match foundation.ask_for_right() {
        Ok(right) => right,
        Err(held @ NotGiven::Held { .. }) => {
            return bare(&foundation.project, wanted, &BareReason::HealedElsewhere(&held), out);
        }
        Err(NotGiven::System { .. }) => foundation.take_right()?,
    };
    let mut voice = foundation.voice(config);
    hear_keys(&mut voice, &foundation, out);
    let mut base = foundation.base(config, Purpose::Checks, &mut voice)?;
    base.intent = intent;
    let sender = base.inbox.sender();
    foundation.listen(&base.inbox, &[], move |signal| {
        // Nobody is left to tell when all checks are done.
        let _ = sender.send(InboxMessage::Stop(signal));
    })?;
    let (terms, mut records) = (check_terms(config), records(&base));
    let mut ended: Vec<EndedCheck> = Vec::new();
    let input = given_input(wanted);
    for one in wanted {
        let plan = CommandPlan { input: input.clone(), ..plan(one, &foundation, config) };
        let capture = capture(&foundation, config);
        let mut check = CheckSubject::new(plan, &terms, capture, &mut records, &base);
        let begun = Instant::now();
        let end = check.run(&mut base)?;
        ended.push(EndedCheck { name: one.name.clone(), end, took: begun.elapsed() });
        if let CheckEnd::Stopped(_) = end {
            break;
        }
    }
    drop(base);
    let mut code = code_of(&ended);
    if code == Exit::Well.code() && foundation.outlet.has_lost() {
        // Whoever needs the output does not have it, as without Salve.
        code = Exit::Failed.code();
    }
    if !out.json() {
        summary(&ended).iter().for_each(|line| voice.tell(line));
    }
    voice.conclude(code);
    // Where a signal ended it, something may still be ending.
    if !ended.iter().any(|one| matches!(one.end, CheckEnd::Stopped(_))) {
        right.give_back();
    }
    Ok(code.into())
}

/// Returns what was given to the check to read; with several checks it is none's.
fn given_input(wanted: &[RequestedCheck]) -> Option<Arc<RepeatableInput>> {
    // What cannot be looked at cannot be read either.
    let input = RepeatableInput::of_process().ok().filter(RepeatableInput::is_given);
    input.filter(|_| wanted.len() == 1).map(Arc::new)
}

/// Has what is asked answered by keys, where a person is at the terminal.
fn hear_keys(voice: &mut TerminalReporter<'_>, foundation: &Foundation<'_>, out: &Output) {
    let by = speaker(&foundation.scrubber);
    let is_person = matches!(by, Actor::Person { .. });
    if is_person && presence() == Presence::Attended && !out.json() {
        voice.answers = AnswerWay::Keys;
        voice.keys = Some(KeysOnceAsked::new(foundation, &by));
    }
}

/// Runs checks as they would run without Salve, where they cannot be healed.
fn bare(
    project: &Project,
    wanted: &[RequestedCheck],
    why: &BareReason<'_>,
    out: &Output,
) -> Result<ExitCode, CliError> {
    let checks: Vec<_> = wanted.iter().map(|one| one.bare(project)).collect();
    super::bare::run(&checks, why, out)
}

/// Returns what the endings mean to the shell: the worst counts, unless a signal ended it.
fn code_of(ended: &[EndedCheck]) -> u8 {
    let mut worst = Exit::Well;
    for one in ended {
        match exit_of(one.end) {
            Ok(Exit::Well) => {}
            // A person should hear of what needs them, whatever else is red.
            Ok(Exit::NeedsPerson) => worst = Exit::NeedsPerson,
            Ok(other) => worst = if worst == Exit::Well { other } else { worst },
            Err(stopped) => return stopped,
        }
    }
    worst.code()
}

/// Returns what takes the output of a check.
pub(super) fn capture(foundation: &Foundation<'_>, config: &Config) -> Capture {
    let lines = usize::try_from(config.settings.server.log_lines).unwrap_or(usize::MAX).max(2_000);
    Capture::new(foundation.outlet.clone(), OutputStyle::Plain).with_lines(lines)
}

/// Returns what keeps the records of heals.
pub(super) fn records(base: &RunBase<'_>) -> Records {
    Records::new(&base.project, base.terms.kept)
}

/// Returns what an ending means to the shell; a signal ends everything.
fn exit_of(ending: CheckEnd) -> Result<Exit, u8> {
    match ending {
        CheckEnd::Green | CheckEnd::Healed(Proof::Proven | Proof::Transient | Proof::Flaky) => {
            Ok(Exit::Well)
        }
        CheckEnd::Healed(Proof::Masked | Proof::Failed) | CheckEnd::CalledOff => Ok(Exit::Failed),
        CheckEnd::Watches => Ok(Exit::Usage),
        CheckEnd::NeedsPerson => Ok(Exit::NeedsPerson),
        CheckEnd::Stopped(SIGINT) => Err(Exit::Interrupted.code()),
        CheckEnd::Stopped(signal) => Err(u8::try_from(128 + signal).unwrap_or(1)),
    }
}

/// Takes the agent that was named for this run.
pub(super) fn use_agent(config: &mut Config, agent: &str) {
    let settings = &mut config.settings.agent;
    settings.repair = true;
    settings.runtime = Some(AgentRuntime::known(agent).unwrap_or_else(|| {
        settings.command = Some(CommandLine::Line(agent.to_owned()));
        AgentRuntime::Command
    }));
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
fn plans(args: &Args, config: &Config) -> Result<Vec<RequestedCheck>, CliError> {
    let check = |name: &String, entry: &CheckEntry| RequestedCheck {
        kind: SubjectKind::Check,
        name: name.clone(),
        entry: entry.clone(),
    };
    if !args.command.is_empty() {
        return Ok(vec![RequestedCheck::command(SubjectKind::Check, &args.command)]);
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

impl RequestedCheck {
    /// Returns the check as it runs where nothing can be kept.
    fn bare(&self, project: &Project) -> BareCommand<'_> {
        let env = self.entry.env.iter().map(|(name, value)| (name.into(), value.into()));
        let argv = self.entry.command.clone().unwrap_or_default().argv();
        let dir = match &self.entry.dir {
            Some(dir) => project.root().join(dir),
            None => here(project),
        };
        BareCommand { name: &self.name, argv, dir, env: env.collect() }
    }

    /// Returns a check that is known by its command.
    pub(super) fn command(kind: SubjectKind, words: &[OsString]) -> Self {
        let command = CommandLine::Typed(words.to_vec());
        let name = command.to_string();
        Self { kind, name, entry: CheckEntry { command: Some(command), ..CheckEntry::default() } }
    }
}

/// Returns the command of a check, with where and how long it runs.
pub(super) fn plan(
    wanted: &RequestedCheck,
    foundation: &Foundation<'_>,
    config: &Config,
) -> CommandPlan {
    let (project, scrubber) = (&foundation.project, &foundation.scrubber);
    let RequestedCheck { kind, name, entry } = wanted;
    let command = entry.command.clone().unwrap_or_default();
    let mut env: Vec<(OsString, OsString)> =
        entry.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    if !entry.env.contains_key("CI") && std::env::var_os("CI").is_none() {
        // Nobody answers a check: with this, tools that would watch or ask end instead. The mark
        // tells whose doing it is, should a check fail of that alone.
        env.extend([("CI".into(), "1".into()), (SETS_CI.into(), "1".into())]);
        if Colours::on(&std::io::stdout()) == Colours::Plain && !says_of_colours() {
            // Many take `CI` for a place that shows colours; what reads the output gets none.
            env.push(("NO_COLOR".into(), "1".into()));
        }
    }
    if Colours::on(&std::io::stdout()) == Colours::Shown {
        // A pipe would make it drop its colours, and what it writes is passed on untouched.
        env.extend(["FORCE_COLOR", "CLICOLOR_FORCE"].map(|name| (name.into(), "1".into())));
    }
    let limit = entry.timeout_ms.map(Duration::from_millis);
    CommandPlan {
        kind: *kind,
        name: name.clone(),
        argv: command.argv(),
        command: scrubber.scrub(&command.to_string()),
        dir: match &entry.dir {
            Some(dir) => project.root().join(dir),
            None => here(project),
        },
        env,
        limit_setting: Some(match limit {
            Some(_) => format!("checks.{name}.timeout_ms"),
            None => "heal.timeout_ms".to_owned(),
        }),
        limit: limit.unwrap_or(config.settings.heal.timeout),
        input: None,
    }
}

/// Returns whether the user's environment says whether programs use colours.
fn says_of_colours() -> bool {
    let known = ["NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"];
    known.iter().any(|name| std::env::var_os(name).is_some())
}

/// Returns where a command without a directory of its own runs: here, if that is in the project.
pub(super) fn here(project: &Project) -> std::path::PathBuf {
    let root = project.root();
    let here = std::env::current_dir().and_then(|dir| dir.canonicalize()).ok();
    here.filter(|dir| dir.starts_with(root)).unwrap_or_else(|| root.to_path_buf())
}

/// Returns what holds for the incidents of all checks.
fn check_terms(config: &Config) -> CheckTerms {
    let heal = &config.settings.heal;
    let some = |limit: u64| (limit > 0).then_some(limit);
    CheckTerms {
        limits: incident_limits(config),
        run_limits: ResourceLimits {
            tokens: some(heal.run_max_tokens),
            money_micros: some(heal.run_max_cents.saturating_mul(10_000)),
            ..ResourceLimits::default()
        },
        reruns: heal.reruns,
        proof: heal.proof,
        no_progress_limit: heal.no_progress_limit,
        rollback_after: heal.rollback_after,
    }
}

/// Returns what one incident of a check, or of a loop's tests, may spend.
pub(super) fn incident_limits(config: &Config) -> ResourceLimits {
    let (heal, agent) = (&config.settings.heal, &config.settings.agent);
    let some = |limit: u64| (limit > 0).then_some(limit);
    ResourceLimits {
        attempts: Some(u64::from(heal.max_attempts)),
        tokens: some(heal.max_tokens),
        money_micros: some(agent.max_cents.saturating_mul(10_000)),
        ..ResourceLimits::default()
    }
}
