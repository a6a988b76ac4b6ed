//! `salve dev`: runs dev servers and heals them.

pub(super) mod agents;
mod ears;
mod key_filter;
pub(super) mod keys;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use salve_core::event::ResourceLimits;
use salve_core::scrub::Scrubber;
use signal_hook::consts::SIGINT;
use uuid::Uuid;

use self::keys::{Asked, Keys};
use super::bare::{BareCommand, BareReason};
use super::foundation::{Foundation, Purpose};
use super::heal::here;
use super::project::{kept, presence};
use super::serve::{self, PageArgs};
use super::terminal_reporter::{AnswerWay, Colours};
use super::{CliError, Exit, Output};
use crate::config::{self, CommandLine, Config, ServerEntry, ServerSettings};
use crate::heal::inbox::InboxMessage;
use crate::heal::right::NotGiven;
use crate::heal::{Presence, RunBase, RunIntent};
use crate::process::{Capture, Logs, OutputStyle, Terminal, strays};
use crate::project::{Project, ProjectError};
use crate::store::{Copying, Store, Stream};
use crate::subjects::server::{ServerPlan, ServerTerms, Servers, ServersEnd, Timing};

/// The colours that tell several servers apart; red and yellow are for trouble.
const COLOURS: [AnsiColor; 4] =
    [AnsiColor::Cyan, AnsiColor::Magenta, AnsiColor::Blue, AnsiColor::Green];

/// Arguments of `salve dev`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Give the server a terminal of its own
    #[arg(long)]
    pty: bool,
    /// Address that is probed [default: the first local one that the server prints]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Servers of salve.toml or the Procfile to run [default: all]
    #[arg(long, short = 'n', value_name = "NAME", value_parser = server_name)]
    name: Vec<String>,
    /// Say what Salve would do and by which rule, but do nothing
    #[arg(long)]
    observe: bool,
    #[command(flatten)]
    page: PageArgs,
    /// Command that starts the server
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the servers, in two processes: one that works and one that keeps.
pub(super) fn run(args: &Args, out: &Output) -> Result<ExitCode, CliError> {
    kept(|| work(args, out))
}

fn work(args: &Args, out: &Output) -> Result<ExitCode, CliError> {
    let project = locate(out)?;
    let config = super::config::in_force(out)?;
    super::startable::check(&args.command, &here(&project), &config)?;
    let wanted = wanted(args, &project, &config)?;
    if let (Err(error), [server]) = (project.make_room(), &wanted[..])
        && error.leaves_no_room()
    {
        let why = BareReason::NoRecords(&error);
        return super::bare::run(&[bare(server, &project)], &why, out);
    }
    let foundation = Foundation::lay(project, &config, out)?;
    end_strays(&foundation.store)?;
    serve::beside(&args.page, &foundation.project, out)?;
    let mut voice = foundation.voice(&config);
    voice.several = wanted.len() > 1;
    let has_keys = presence() == Presence::Attended && !out.json();
    if has_keys && !wanted.iter().any(|server| server.pty) {
        voice.answers = AnswerWay::Keys;
    }
    let mut base = foundation.base(&config, Purpose::Servers, &mut voice)?;
    base.intent = RunIntent::observing(args.observe);
    let run = foundation.scrubber.scrub(&foundation.run.to_string());
    let mut servers = Servers::new(run, server_terms(&config), &base.inbox);
    let news = servers.news();
    let signal = move |signal| ears::pass_signal(&news, signal);
    foundation.listen(&base.inbox, &ears::SIGNALS, signal)?;
    // Who waits for an append waits for a server that is down; whoever follows has the time.
    foundation.store.set_copying(Copying::Later);
    hear_keys(&wanted, &foundation, &base, &servers, out);
    let mut captured = captured(wanted, &foundation, &config);
    if let [(plan, _)] = &mut captured[..]
        && has_keys
        && plan.terminal == Terminal::Pipes
    {
        let (rows, cols) = ears::size();
        plan.terminal = Terminal::Keyboard { rows, cols };
    }
    let logs = logs(&foundation, &captured, base.inbox.sender());
    for (plan, capture) in captured {
        servers.add(plan, capture, &base)?;
    }
    let ending = servers.run(&mut base);
    // The journal has it all; whoever writes next mends its copy.
    let _ = foundation.store.update_copy();
    let ending = ending?;
    drop(logs);
    drop(base);
    let code = code_of(ending);
    voice.conclude(code);
    Ok(code.into())
}

/// Returns the server as it runs where nothing can be kept.
fn bare<'s>(server: &'s ServerSettings, project: &Project) -> BareCommand<'s> {
    let dir =
        server.dir.as_ref().map_or_else(|| project.root().into(), |dir| project.root().join(dir));
    let env = server.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    BareCommand { name: &server.name, argv: server.command.argv(), dir, env }
}

/// Returns the exit code that tells how it ended.
fn code_of(ending: ServersEnd) -> u8 {
    match ending {
        ServersEnd::Clean => Exit::Well.code(),
        ServersEnd::NeedsPerson => Exit::NeedsPerson.code(),
        ServersEnd::Stopped(SIGINT) => Exit::Interrupted.code(),
        ServersEnd::Stopped(signal) => u8::try_from(128 + signal).unwrap_or(1),
    }
}

/// Hands on what is typed: to the servers that have a terminal, or as a person's wishes.
fn hear_keys(
    wanted: &[ServerSettings],
    foundation: &Foundation<'_>,
    base: &RunBase<'_>,
    servers: &Servers,
    out: &Output,
) {
    match (&base.by, wanted.iter().any(|server| server.pty)) {
        (_, true) => ears::pass_keys(&servers.news()),
        (Some(by), false) if base.presence == Presence::Attended && !out.json() => {
            let inbox = base.inbox.sender();
            let keys = Keys::new(foundation, by, Asked::LatestOfServers).pausing(inbox);
            if wanted.len() == 1 {
                keys.hear_the_rest(&servers.news());
            } else {
                keys.hear();
            }
        }
        (_, false) => {}
    }
}

pub(super) fn locate(out: &Output) -> Result<Project, CliError> {
    match Project::locate(out.global().project.as_deref()) {
        // A server needs no project file: where it is started is the project.
        Err(ProjectError::NotFound { .. }) => {
            let here = std::env::current_dir().map_err(|error| {
                CliError::failed("cannot find out the present directory").because(error)
            })?;
            Ok(Project::at(&here)?)
        }
        located => Ok(located?),
    }
}

/// Returns the name of a server that is started in a directory below the project's root, so that
/// those of several packages can run side by side.
fn name_of_dir(below: &str) -> String {
    let last = below.rsplit('/').next().unwrap_or(below).to_lowercase();
    let name: String = last
        .chars()
        .map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' { c } else { '-' })
        .collect();
    if config::is_server_name(&name) { name } else { "dev".to_owned() }
}

fn server_name(name: &str) -> Result<String, &'static str> {
    if config::is_server_name(name) {
        Ok(name.to_owned())
    } else {
        Err("a server's name has only a-z, 0-9, - and _")
    }
}

/// Returns each server with what takes its output.
fn captured(
    servers: Vec<ServerSettings>,
    foundation: &Foundation<'_>,
    config: &Config,
) -> Vec<(ServerPlan, Arc<Capture>)> {
    let widest = servers.iter().map(|server| server.name.len()).max().unwrap_or_default();
    let several = servers.len() > 1;
    let lines = usize::try_from(config.settings.server.log_lines).unwrap_or(usize::MAX);
    let colours = Colours::on(&std::io::stdout());
    let capture = |(at, server): (usize, ServerSettings)| {
        let style = if colours == Colours::Shown {
            Style::new().fg_color(Some(COLOURS[at % COLOURS.len()].into()))
        } else {
            Style::new()
        };
        let look = if several {
            OutputStyle::Prefixed(format!("{style}{:<widest$} |{style:#} ", server.name))
        } else {
            OutputStyle::Plain
        };
        let capture = Capture::new(foundation.outlet.clone(), look).with_lines(lines);
        (server_plan(server, &foundation.project, config, &foundation.scrubber), Arc::new(capture))
    };
    servers.into_iter().enumerate().map(capture).collect()
}

/// Begins to keep on disk what the servers write; they run without it too.
fn logs(
    foundation: &Foundation<'_>,
    captured: &[(ServerPlan, Arc<Capture>)],
    inbox: Sender<InboxMessage>,
) -> Option<Logs> {
    let names: Vec<String> = captured.iter().map(|(plan, _)| plan.name.clone()).collect();
    let captures = captured.iter().map(|(_, capture)| capture.clone());
    let servers = names.iter().cloned().zip(captures).collect();
    let dir = foundation.project.log("any").parent()?.to_owned();
    let complain = move |name: &str, error: std::io::Error| {
        let subject = names.iter().position(|one| one == name).unwrap_or_default();
        let text = format!("the log cannot be written any more: {error}");
        let _ = inbox.send(InboxMessage::Note { subject, text });
    };
    Logs::start(dir, servers, foundation.scrubber.clone(), complain).ok()
}

/// Returns the servers that are to run.
fn wanted(
    args: &Args,
    project: &Project,
    config: &Config,
) -> Result<Vec<ServerSettings>, CliError> {
    let settings = &config.settings;
    if !args.command.is_empty() {
        let here = here(project);
        let below = here.strip_prefix(project.root()).ok().and_then(Path::to_str);
        let below = below.filter(|below| !below.is_empty());
        let entry = ServerEntry {
            command: Some(CommandLine::Typed(args.command.clone())),
            dir: below.map(str::to_owned),
            url: args.url.clone(),
            pty: args.pty.then_some(true),
            ..ServerEntry::default()
        };
        let own = below.map_or_else(|| "dev".to_owned(), name_of_dir);
        let name = args.name.first().unwrap_or(&own);
        return Ok(vec![settings.server_with(name, &entry)]);
    }
    let mut found = settings.servers_in_order();
    if found.is_empty() {
        let path = project.root().join("Procfile");
        let text = config::read(&path, Some(project.root()))
            .map_err(|error| CliError::usage(error.to_string()))?;
        if let Some(text) = text {
            let entries = config::procfile(&text).map_err(|error| {
                CliError::usage(format!("{}:{}: not a process", path.display(), error.line))
                    .hint("write each line as `name: command`")
            })?;
            found = entries.iter().map(|(name, entry)| settings.server_with(name, entry)).collect();
        }
    }
    if let Some(unknown) = args.name.iter().find(|name| found.iter().all(|one| one.name != **name))
    {
        return Err(CliError::usage(format!("there is no server `{unknown}`")));
    }
    if !args.name.is_empty() {
        found.retain(|server| args.name.contains(&server.name));
    }
    if found.is_empty() {
        Err(CliError::usage("there is no server to run")
            .hint("say what starts it: salve dev -- npm run dev"))
    } else {
        Ok(found)
    }
}

fn server_plan(
    server: ServerSettings,
    project: &Project,
    config: &Config,
    scrubber: &Scrubber,
) -> ServerPlan {
    let (all, repair) = (&config.settings.server, &config.settings.repair);
    let argv = server.command.argv();
    let text = server.command.to_string();
    let mut env: Vec<(OsString, OsString)> =
        server.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let colours = Colours::on(&std::io::stdout());
    if colours == Colours::Shown && !server.pty {
        // A pipe would make it drop its colours, and what it writes is passed on untouched.
        env.extend(["FORCE_COLOR", "CLICOLOR_FORCE"].map(|name| (name.into(), "1".into())));
    }
    ServerPlan {
        argv,
        command: scrubber.scrub(&text),
        dir: server
            .dir
            .as_ref()
            .map_or_else(|| project.root().into(), |dir| project.root().join(dir)),
        env,
        terminal: if server.pty {
            let (rows, cols) = ears::size();
            Terminal::Pty { rows, cols }
        } else {
            Terminal::Pipes
        },
        url: server.url.as_ref().map(ToString::to_string),
        path: server.path,
        expect: server.expect,
        depends_on: server.depends_on,
        timing: Timing {
            retries: repair.health_retries,
            timeout: repair.health_timeout,
            delay: repair.health_retry_delay,
            soak: server.soak,
            startup: server.startup_timeout,
            liveness: if server.liveness { all.liveness_interval } else { Duration::ZERO },
            grace: all.liveness_grace,
            stop: server.stop_grace,
        },
        name: server.name,
    }
}

/// Returns what holds for the incidents of all servers.
fn server_terms(config: &Config) -> ServerTerms {
    let (repair, agent) = (&config.settings.repair, &config.settings.agent);
    let some = |limit: u64| (limit > 0).then_some(limit);
    ServerTerms {
        limits: ResourceLimits {
            attempts: Some(u64::from(repair.max_attempts)),
            tokens: some(agent.max_tokens),
            money_micros: some(agent.max_cents.saturating_mul(10_000)),
            ..ResourceLimits::default()
        },
        backoff: repair.base_delay,
        quiet: repair.quiet_period,
        watch: config.settings.server.flap_window,
        cooldown: repair.cooldown,
    }
}

/// Ends what an earlier run left when it was killed with its keeper.
fn end_strays(store: &Store) -> Result<(), CliError> {
    let started = store.journal().tail(&Stream::Servers, 800)?;
    let mut runs = Vec::new();
    let mut processes = Vec::new();
    for entry in &started {
        let salve_core::event::Event::Server(salve_core::event::ServerEvent::Started {
            process,
            run,
            ..
        }) = &entry.event
        else {
            continue;
        };
        let owner_lives = entry
            .by
            .process()
            .is_some_and(|owner| !crate::process::is_gone(owner, &crate::scrub::scrubber()));
        if owner_lives {
            continue;
        }
        processes.push(process.clone());
        runs.extend(run.as_str().parse::<Uuid>().ok());
    }
    runs.dedup();
    strays::end(&runs, &processes, Duration::from_secs(2));
    Ok(())
}

impl From<NotGiven> for CliError {
    fn from(error: NotGiven) -> Self {
        Self::failed("cannot look after this server")
            .because(error)
            .hint("stop the other salve, or give this server another name: --name NAME")
    }
}
