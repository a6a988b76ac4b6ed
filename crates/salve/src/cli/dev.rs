//! `salve dev`: runs dev servers and heals them.

pub(super) mod agents;
mod ears;
mod keys;

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use salve_core::earned::Terms;
use salve_core::event::{Actor, Limits, Mode};
use salve_core::scrub::Scrubber;
use signal_hook::consts::SIGINT;
use uuid::Uuid;

use self::keys::Keys;
use super::ground;
use super::project::{kept, presence, speaker, tell_mended, user_name};
use super::voice::Voice;
use super::{CliError, Exit, Output};
use crate::config::{self, CommandLine, Config, ServerEntry, ServerSettings};
use crate::heal::{Desk, control};
use crate::notify::{Notifier, Plan};
use crate::process::{Capture, Logs, Look, Outlet, Terminal, strays};
use crate::project::{Project, ProjectError};
use crate::store::{Store, Stream};
use crate::subjects::server::{
    Ending, Fleet, FleetError, Input, Parts, RepairPlan, ServerPlan, Timing,
};

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
    super::heal::mend_git(&project, out)?;
    let config = super::config::in_force(out)?;
    let store = Store::open(&project)?;
    tell_mended(&store, out);
    let scrubber = ground::scrubber(&config)?;
    let servers = servers(args, &project, &config)?;
    let _notices = Notifier::start(&project, Plan::new(&config.settings), &scrubber)?;
    let run = Uuid::new_v4();
    end_strays(&store)?;
    let care = ground::care(run)?;
    let outlet = ground::outlet(out);
    let mut voice = Voice {
        outlet: outlet.clone(),
        out,
        store: &store,
        several: servers.len() > 1,
        terms: Terms::from(&config.settings.earned),
        tales: HashMap::new(),
        checked: HashMap::new(),
    };
    let (post, inbox) = mpsc::channel();
    ears::listen(&project, &store, &post)?;
    let by = Some(speaker(&scrubber)).filter(|by| matches!(by, Actor::Person { .. }));
    hear_keys(&servers, by.as_ref(), |by| Keys::new(&project, &outlet, &post, by), (&post, out));
    heed_control(&store, &scrubber, &post);
    let complaints = post.clone();
    let repair = repair_plan(&config, &scrubber);
    let desk = Desk::new(&store, scrubber.clone());
    let mut fleet = Fleet::new(Parts {
        project: project.clone(),
        desk,
        care: care.clone(),
        rules: config.fingerprint_rules(),
        shelf: ground::shelf(&project, &config),
        repair,
        agents: agents::agents((&project, &store), &config, &scrubber, out)?,
        run: scrubber.scrub(&run.to_string()),
        inbox: (post, inbox),
        face: &mut voice,
        presence: presence(),
    });
    let captured = captured(servers, &outlet, &config, (&project, &scrubber));
    let logs = logs(&project, &captured, &scrubber, complaints);
    for (plan, capture) in captured {
        fleet.add(plan, capture, by.clone())?;
    }
    let ending = fleet.live();
    // The journal has it all; whoever writes next mends its copy.
    let _ = store.update_copy();
    let ending = ending?;
    drop(logs);
    Ok(code_of(ending))
}

/// Returns the exit code that tells how it ended.
fn code_of(ending: Ending) -> ExitCode {
    match ending {
        Ending::Clean => Exit::Well.into(),
        Ending::NeedsPerson => Exit::NeedsPerson.into(),
        Ending::Stopped(SIGINT) => Exit::Interrupted.into(),
        Ending::Stopped(signal) => ExitCode::from(u8::try_from(128 + signal).unwrap_or(1)),
    }
}

/// Hands on what is typed: to the servers that have a terminal, or as a person's wishes.
fn hear_keys(
    servers: &[ServerSettings],
    by: Option<&Actor>,
    keys: impl FnOnce(&Actor) -> Keys,
    (post, out): (&Sender<Input>, &Output),
) {
    match (by, servers.iter().any(|server| server.pty)) {
        (_, true) => ears::pass_keys(post),
        (Some(by), false) if presence() == crate::heal::Presence::Attended && !out.json() => {
            keys(by).hear()
        }
        (_, false) => {}
    }
}

/// Begins to heed what a person writes to CONTROL.md; what is there already counts at once.
fn heed_control(store: &Store, scrubber: &Scrubber, post: &Sender<Input>) {
    let person = scrubber.scrub(&user_name());
    let mut watch = control::Watch::new(store.project(), person, scrubber);
    let post = post.clone();
    // Nobody is left to tell when the fleet is gone.
    let tell = move |text| drop(post.send(Input::Note { server: 0, text }));
    watch.look(store).into_iter().for_each(&tell);
    watch.go_on(tell);
}

pub(super) fn locate(out: &Output) -> Result<Project, CliError> {
    match Project::locate(out.global().project.as_deref()) {
        // A server needs no project file: where it is started is the project.
        Err(ProjectError::NotFound { .. }) => {
            let here = std::env::current_dir()
                .map_err(|error| CliError::failed("cannot tell where this is").because(error))?;
            Ok(Project::at(&here)?)
        }
        located => Ok(located?),
    }
}

fn server_name(name: &str) -> Result<String, &'static str> {
    match config::is_server_name(name) {
        true => Ok(name.to_owned()),
        false => Err("a server's name has only a-z, 0-9, - and _"),
    }
}

/// Returns each server with what takes its output.
fn captured(
    servers: Vec<ServerSettings>,
    outlet: &Arc<Outlet>,
    config: &Config,
    (project, scrubber): (&Project, &Scrubber),
) -> Vec<(ServerPlan, Arc<Capture>)> {
    let widest = servers.iter().map(|server| server.name.len()).max().unwrap_or_default();
    let several = servers.len() > 1;
    let lines = usize::try_from(config.settings.server.log_lines).unwrap_or(usize::MAX);
    let coloured = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let capture = |(at, server): (usize, ServerSettings)| {
        let style = match coloured {
            true => Style::new().fg_color(Some(COLOURS[at % COLOURS.len()].into())),
            false => Style::new(),
        };
        let look = match several {
            true => Look::Prefixed(format!("{style}{:<widest$} |{style:#} ", server.name)),
            false => Look::Plain,
        };
        let capture = Capture::new(outlet.clone(), look).with_lines(lines);
        (server_plan(server, project, config, scrubber), Arc::new(capture))
    };
    servers.into_iter().enumerate().map(capture).collect()
}

/// Begins to keep on disk what the servers write; they run without it too.
fn logs(
    project: &Project,
    captured: &[(ServerPlan, Arc<Capture>)],
    scrubber: &Scrubber,
    post: Sender<Input>,
) -> Option<Logs> {
    let names: Vec<String> = captured.iter().map(|(plan, _)| plan.name.clone()).collect();
    let captures = captured.iter().map(|(_, capture)| capture.clone());
    let servers = names.iter().cloned().zip(captures).collect();
    let dir = project.log("any").parent()?.to_owned();
    let complain = move |name: &str, error: std::io::Error| {
        let server = names.iter().position(|one| one == name).unwrap_or_default();
        let text = format!("the log cannot be written any more: {error}");
        let _ = post.send(Input::Note { server, text });
    };
    Logs::start(dir, servers, scrubber.clone(), complain).ok()
}

/// Returns the servers that are to run.
fn servers(
    args: &Args,
    project: &Project,
    config: &Config,
) -> Result<Vec<ServerSettings>, CliError> {
    let settings = &config.settings;
    if !args.command.is_empty() {
        let words = args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let entry = ServerEntry {
            command: Some(CommandLine::Words(words)),
            url: args.url.clone(),
            pty: args.pty.then_some(true),
            ..ServerEntry::default()
        };
        let name = args.name.first().map_or("dev", String::as_str);
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
    match found.is_empty() {
        true => Err(CliError::usage("there is no server to run")
            .hint("say what starts it: salve dev -- npm run dev")),
        false => Ok(found),
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
    let words: Vec<_> = argv.iter().map(|word| word.to_string_lossy()).collect();
    let text = match &server.command {
        CommandLine::Line(line) => line.clone(),
        CommandLine::Words(_) => words.join(" "),
    };
    let mut env: Vec<(OsString, OsString)> =
        server.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let coloured = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    if coloured && !server.pty {
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
        terminal: match server.pty {
            true => {
                let (rows, cols) = ears::size();
                Terminal::Pty { rows, cols }
            }
            false => Terminal::Pipes,
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

fn repair_plan(config: &Config, scrubber: &Scrubber) -> RepairPlan {
    let (repair, agent) = (&config.settings.repair, &config.settings.agent);
    let some = |limit: u64| (limit > 0).then_some(limit);
    RepairPlan {
        person: scrubber.scrub(&user_name()),
        mode: if agent.repair { Mode::Agent } else { Mode::Legacy },
        limits: Limits {
            attempts: Some(u64::from(repair.max_attempts)),
            tokens: some(agent.max_tokens),
            money_micros: some(agent.max_cents.saturating_mul(10_000)),
            ..Limits::default()
        },
        backoff: repair.base_delay,
        engage: agent.engage_timeout,
        write: agent.write_timeout,
        quiet: repair.quiet_period,
        watch: config.settings.server.flap_window,
        cooldown: repair.cooldown,
        max_files: repair.max_files,
        max_lines: repair.max_loc,
        on_failure: agent.on_failure.into(),
        logs_kept: Duration::from_secs(u64::from(config.settings.server.crash_log_days) * 86_400),
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

impl From<FleetError> for CliError {
    fn from(error: FleetError) -> Self {
        match error {
            FleetError::NotGiven(error) => Self::failed("cannot care for this server")
                .because(error)
                .hint("stop the other salve, or give this server another name: --name NAME"),
            FleetError::Store(error) => error.into(),
        }
    }
}
