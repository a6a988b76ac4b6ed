//! The command line: arguments in, text or JSON out, exit codes.
//!
//! One file per command, each with its `Args` and a `run`. Erased errors and printing live only
//! here; everything below returns typed errors.

mod answer;
mod bare;
mod call;
mod completions;
mod config;
mod debug;
mod demo;
mod dev;
mod doctor;
mod error;
mod events;
mod explain;
mod fingerprint;
mod fleet;
mod foundation;
mod gate;
mod hanging;
mod heal;
mod help_groups;
mod hook;
mod incidents;
mod init;
mod interrupt;
mod iterate;
mod job;
mod listen;
mod logs;
mod man;
mod mcp;
mod memory;
mod notify;
mod output;
mod patterns;
mod project;
mod proxy;
mod ps;
mod report;
mod rules;
mod scrub;
mod serve;
mod servers;
mod show;
mod skill;
mod startable;
mod status;
mod terminal_reporter;
mod tool_calls;
mod undo;

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches as _, Parser, Subcommand};
use salve_core::event::{PersonOrder, ServerOrder};

pub use error::{CliError, Exit};
pub use output::Output;

use self::answer::AnswerKind;
use crate::process::answerer::{bear_name, command_word};
use crate::process::find_program;
use crate::process::keeper;
use crate::sandbox;
use crate::workspace;

/// Keeps dev servers, checks, tool calls and agent loops alive.
#[derive(Debug, Parser)]
#[command(name = "salve", version, about, max_term_width = 100, propagate_version = true)]
#[command(after_help = "Exit codes: 0 well, 1 failed, 2 usage or config, 3 a person is needed, \
    130 interrupted.")]
pub struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Options that every command takes.
#[derive(Clone, Debug, clap::Args)]
pub struct Global {
    /// Print facts as JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Print only what you asked for, what needs you, and errors
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Project directory [default: the nearest parent with salve.toml, salve.json, .salve or .git]
    #[arg(long, global = true, value_name = "DIR", env = "SALVE_PROJECT")]
    pub project: Option<PathBuf>,
    /// Set one setting for this run, over all files and the environment
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// The commands that have a keeper: whatever they started ends with them, however they end. Their
/// exit code may be that of what they ran.
#[derive(Debug, Subcommand)]
enum KeptCommand {
    /// Run dev servers and heal them
    Dev(dev::Args),
    /// Run checks (tests, types, lint, build) and heal them
    Heal(heal::Args),
    /// Let agents work turn by turn until a check or a task is done
    Loop(iterate::Args),
    /// Run the steps of a job in a workspace of their own, and heal them
    Run(job::run::Args),
    /// Run an MCP server behind a proxy that keeps it alive
    Proxy(proxy::Args),
    /// Run one command, heal what stops it, repeat it if that is safe
    Call(call::Args),
    /// Run or check a skill: steps in YAML that call tools
    Skill(skill::Args),
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Watch Salve heal real failures in a scratch project
    Demo(demo::Args),
    #[command(flatten)]
    Kept(KeptCommand),
    /// Put a job into the queue for a worker
    Submit(job::submit::Args),
    /// Run the jobs of the queue
    Worker(job::worker::Args),
    /// List the workers of a fleet, and what each does
    Workers(job::workers::Args),
    /// Start a server for a fleet, or print the configuration of one
    Fleet(fleet::Args),
    /// List the runs of jobs, and the jobs that failed for good
    Jobs(job::list::Args),
    /// Pause, resume, cancel, retry, reset or rewind a job
    Control(job::control::Args),
    /// Print figures of jobs and incidents for Prometheus
    Metrics(job::metrics::Args),
    /// Say why a tool fails and where it is written, and patch it
    Debug(debug::Args),
    /// Start a server of a running `salve dev`
    Start(servers::Args),
    /// Stop a server of a running `salve dev`
    Stop(servers::Args),
    /// Restart a server of a running `salve dev`
    Restart(servers::Args),
    /// Show what servers wrote, without their secrets
    Logs(logs::Args),
    /// Identify a failure: its signature, class and key line
    Fingerprint(fingerprint::Args),
    /// Copy stdin to stdout without the secrets in it
    Scrub(scrub::Args),
    /// Say whether a command may run unattended, and by which rule
    Gate(gate::Args),
    /// Show the journal's events
    Events(events::Args),
    /// Look up, teach and manage known remedies
    Memory(memory::Args),
    /// List, show, test and forget learned mistakes in tool calls
    Patterns(patterns::Args),
    /// Show, check and accept settings
    Config(config::Args),
    /// Check this machine and say how to fix what is wrong
    Doctor(doctor::Args),
    /// Find dev servers and write salve.toml, or set up an agent
    Init(init::Args),
    /// Show projects on a page in the browser
    Serve(serve::Args),
    /// Show the state of this project on one screen
    Status(status::Args),
    /// List the servers of this project, or of all your projects
    Ps(ps::Args),
    /// List the incidents of this project
    Incidents(incidents::Args),
    /// Show the story of an incident or of a job's run
    Show(show::Args),
    /// Say yes to what an incident asks
    Approve(answer::AnswerArgs),
    /// Say no to what an incident asks
    Reject(answer::RejectArgs),
    /// Say that you settled what an incident is about
    Resolve(answer::ResolveArgs),
    /// Say yes to what the recovery of a loop asks
    #[command(hide = true)]
    ApproveRecovery(answer::RecoveryAnswerArgs),
    /// Say no to what the recovery of a loop asks
    #[command(hide = true)]
    RejectRecovery(answer::RecoveryAnswerArgs),
    /// Say that what a loop had to recover from is settled
    #[command(hide = true)]
    ResolveRecovery(answer::RecoveryAnswerArgs),
    /// Try an incident again, within its budget
    Retry(answer::To),
    /// Let an incident or a loop begin nothing new until you resume it
    Pause(answer::Steer),
    /// Continue a paused incident or loop, or a job
    Resume(answer::ResumeArgs),
    /// Call off an incident and undo what is unproven, or stop a loop
    Abort(answer::Steer),
    /// Grant an incident more attempts, tokens or time
    Refill(answer::RefillArgs),
    /// List what runs unattended and what asks; accept earned rules
    Rules(rules::Args),
    /// Test webhooks and desktop notices
    Notify(notify::Args),
    /// Tell Salve about an issue, or list the open ones
    Report(report::Args),
    /// Say what an error is, and which rule says so
    Explain(explain::Args),
    /// Answer an agent's hooks: explain failures, refuse harmful calls
    Hook(hook::Args),
    /// Serve the repair tools to an agent over MCP
    Mcp(mcp::Args),
    /// Restore the files to how they were before a repair
    Undo(undo::Args),
    /// Print a shell completion script
    Completions(completions::Args),
    /// Write the manual pages
    Man(man::Args),
}

/// How long a worker whose keeper is gone may take to end in order.
const LAST_GRACE: Duration = Duration::from_secs(30);

/// Runs the program with the process's own arguments.
pub fn main() -> ExitCode {
    let args = || std::env::args_os().skip(1);
    if let Some(code) = sandbox::enter(args()).or_else(|| workspace::enter_layer(args())) {
        return code;
    }
    bear_name();
    // The keeper lives as long as the servers do and should be small: it does not even parse.
    if is_kept(std::env::args_os().skip(1))
        && !keeper::is_worker()
        && let Ok(code) = keeper::keep(std::env::args_os().skip(1))
    {
        return code;
    }
    if keeper::is_worker() {
        // Where there can be no thread for it, nothing else can work either.
        let _ = keeper::end_with_keeper(LAST_GRACE);
    }
    run_from(std::env::args_os())
}

/// Returns whether the arguments name a command with a keeper, whatever options stand before it.
fn is_kept(args: impl Iterator<Item = OsString>) -> bool {
    let args: Vec<OsString> = args.collect();
    let name = command_word(args.iter().map(OsString::as_os_str)).and_then(OsStr::to_str);
    name.is_some_and(KeptCommand::has_subcommand)
}

fn run_from(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let parsed = help_groups::grouped(Cli::command()).try_get_matches_from(args);
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(mut error) => {
            suggest_nearest(&mut error);
            // Nothing is left to do when even the message cannot be written.
            let _ = error.print();
            tell_of_programs(&error);
            return if error.use_stderr() { Exit::Usage.into() } else { Exit::Well.into() };
        }
    };
    let out = Output::new(&cli.global);
    obey(cli.command, &out).unwrap_or_else(|error| {
        out.error(&error);
        error.exit().into()
    })
}

/// Names the command that was most likely meant: clap's own measure takes no letters that changed
/// places for a slip, and proposes `demo` for `dve`.
fn suggest_nearest(error: &mut clap::Error) {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    let all = Cli::command();
    let names = all.get_subcommands().filter(|one| !one.is_hide_set()).map(clap::Command::get_name);
    let near = |name: &&str| strsim::damerau_levenshtein(word, name) <= 1 + word.len() / 4;
    let nearest = names.filter(near).min_by_key(|name| strsim::damerau_levenshtein(word, name));
    if let Some(name) = nearest.map(str::to_owned) {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![name]));
    }
}

/// Says how a program is run under Salve to whoever gave it as a command of Salve's.
fn tell_of_programs(error: &clap::Error) {
    let word = error.get(ContextKind::InvalidSubcommand);
    let Some(ContextValue::String(word)) = word else { return };
    if error.kind() != ErrorKind::InvalidSubcommand || find_program(word).is_none() {
        return;
    }
    let mut err = anstream::stderr().lock();
    let line =
        format!("as a dev server: salve dev -- {word} …    as a check: salve heal -- {word} …");
    let _ = writeln!(err, "\n  {line}");
}

/// Does what one command says.
fn obey_kept(command: KeptCommand, out: &Output) -> Result<ExitCode, CliError> {
    match command {
        KeptCommand::Dev(args) => dev::run(&args, out),
        KeptCommand::Heal(args) => heal::run(&args, out),
        KeptCommand::Loop(args) => iterate::run(&args, out),
        KeptCommand::Run(args) => job::run::run(&args, out),
        KeptCommand::Proxy(args) => proxy::run(&args, out),
        KeptCommand::Call(args) => call::run(&args, out),
        KeptCommand::Skill(args) => skill::run(&args, out).map(Into::into),
    }
}

fn obey(command: Command, out: &Output) -> Result<ExitCode, CliError> {
    let exit = match command {
        Command::Kept(command) => return obey_kept(command, out),
        Command::Submit(args) => job::submit::run(&args, out)?,
        Command::Worker(args) => return job::worker::run(&args, out),
        Command::Workers(args) => job::workers::run(&args, out)?,
        Command::Fleet(args) => fleet::run(&args, out)?,
        Command::Jobs(args) => job::list::run(&args, out)?,
        Command::Metrics(args) => job::metrics::run(&args, out)?,
        Command::Control(args) => job::control::run(&args, out)?,
        Command::Debug(args) => return debug::run(&args, out),
        Command::Demo(args) => demo::run(args, out)?,
        Command::Start(args) => servers::run(&args, ServerOrder::Start, out)?,
        Command::Stop(args) => servers::run(&args, ServerOrder::Stop, out)?,
        Command::Restart(args) => servers::run(&args, ServerOrder::Restart, out)?,
        Command::Logs(args) => logs::run(&args, out)?,
        Command::Fingerprint(args) => fingerprint::run(args, out)?,
        Command::Scrub(args) => scrub::run(args, out)?,
        Command::Gate(args) => gate::run(args, out)?,
        Command::Events(args) => events::run(args, out)?,
        Command::Memory(args) => memory::run(args, out)?,
        Command::Patterns(args) => patterns::run(&args, out)?,
        Command::Config(args) => config::run(args, out)?,
        Command::Doctor(args) => doctor::run(args, out)?,
        Command::Init(args) => init::run(args, out)?,
        Command::Serve(args) => serve::run(args, out)?,
        Command::Status(args) => status::run(args, out)?,
        Command::Ps(args) => ps::run(&args, out)?,
        Command::Incidents(args) => incidents::run(&args, out)?,
        Command::Show(args) => show::run(args, out)?,
        Command::Approve(args) => answer::answer(AnswerKind::Approve, &args, out)?,
        Command::Reject(args) => answer::reject(&args, out)?,
        Command::Resolve(args) => answer::resolve(&args, out)?,
        Command::ApproveRecovery(args) => answer::recovery(AnswerKind::Approve, &args, out)?,
        Command::RejectRecovery(args) => answer::recovery(AnswerKind::Reject, &args, out)?,
        Command::ResolveRecovery(args) => answer::recovery(AnswerKind::Resolve, &args, out)?,
        Command::Retry(to) => answer::order(to, PersonOrder::Retry, out)?,
        Command::Pause(args) => answer::steer(&args, PersonOrder::Pause, out)?,
        Command::Resume(args) => match answer::resume_job(&args, out)? {
            Some(code) => return Ok(code),
            None => answer::steer(&args.to, PersonOrder::Resume, out)?,
        },
        Command::Abort(args) => answer::steer(&args, PersonOrder::Abort, out)?,
        Command::Refill(args) => answer::refill(args, out)?,
        Command::Rules(args) => rules::run(args, out)?,
        Command::Notify(args) => notify::run(&args, out)?,
        Command::Report(args) => report::run(args, out)?,
        Command::Explain(args) => explain::run(args, out)?,
        Command::Hook(args) => hook::run(&args, out)?,
        Command::Mcp(args) => mcp::run(args, out)?,
        Command::Undo(args) => undo::run(args, out)?,
        Command::Completions(args) => completions::run(args, &mut Cli::command(), out)?,
        Command::Man(args) => man::run(args, Cli::command(), out)?,
    };
    Ok(exit.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keeper_knows_its_commands_wherever_options_stand() {
        for (args, is) in [
            (&["dev"][..], true),
            (&["--json", "dev", "--", "x"], true),
            (&["--project", "a", "-q", "dev"], true),
            (&["--project=a", "--set", "a=b", "dev"], true),
            (&["--json", "heal"], true),
            (&["--project", "dev"], false),
            (&["explain", "dev"], false),
            (&[], false),
        ] {
            assert_eq!(is_kept(args.iter().map(OsString::from)), is, "{args:?}");
        }
    }

    /// Who started a process is known by its words, so those who look know all such options.
    #[test]
    fn options_that_have_a_value_are_known_to_who_judges_processes() {
        use crate::process::answerer::OPTIONS_WITH_VALUES;
        let command = Cli::command();
        let valued = command.get_arguments().filter(|arg| arg.get_action().takes_values());
        let names: Vec<String> =
            valued.filter_map(|arg| Some(format!("--{}", arg.get_long()?))).collect();
        assert_eq!(names, OPTIONS_WITH_VALUES);
        let has_short =
            |arg: &clap::Arg| arg.get_action().takes_values() && arg.get_short().is_some();
        assert!(!command.get_arguments().any(has_short));
    }

    /// A long-running command is added in one place: whatever is a `KeptCommand` has a keeper.
    #[test]
    fn every_kept_command_has_a_keeper_and_no_other() {
        let kept = KeptCommand::augment_subcommands(clap::Command::new("salve"));
        let is_listed = |name: &str| kept.get_subcommands().any(|one| one.get_name() == name);
        let all = Cli::command();
        assert!(kept.get_subcommands().count() > 3);
        for name in all.get_subcommands().map(clap::Command::get_name) {
            assert_eq!(is_kept([OsString::from(name)].into_iter()), is_listed(name), "{name}");
        }
    }
}
