//! `salve ps`: the servers under care, of this project or of all of the user's.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;
use salve_core::event::{Entry, Event, ServerEvent};
use salve_core::repair::{Server, ServerState, servers};
use serde::Serialize;

use super::events::visible;
use super::output::counted;
use super::project::{locate, scrubber};
use super::status::ago;
use super::{CliError, Exit, Output};
use crate::process;
use crate::process::tree::{self, RUN_MARK};
use crate::project::Project;
use crate::store::{Store, Stream};
use crate::subjects::server::cared_for;

/// How far back the journal is looked at for how a server is.
const RECENT: usize = 400;

/// How often `--watch` looks again.
const AGAIN: Duration = Duration::from_secs(1);

/// Arguments of `salve ps`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// List the servers of every project and worktree of yours that runs some
    #[arg(long, short)]
    all: bool,
    /// Show it again every second until stopped with Ctrl-C
    #[arg(long, short)]
    watch: bool,
}

/// One server in a few words.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ServerLine {
    name: String,
    state: LineState,
    url: Option<String>,
    pid: Option<u32>,
    since: Timestamp,
    /// How often it was started again in the run of Salve that cares for it.
    restarts: u64,
    /// How it ended, if it did.
    exit: Option<String>,
    /// The last incident it had.
    last_incident: Option<String>,
}

/// How a server is, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum LineState {
    Up,
    Starting,
    /// Its process ended, and a run of Salve still cares for it.
    Down,
    /// Nobody cares for it any more.
    Off,
}

/// A project and its servers, for `--json`.
#[derive(Debug, Serialize)]
struct OfProject {
    version: u32,
    project: String,
    servers: Vec<ServerLine>,
}

/// Lists the servers.
pub(super) fn run(args: &Args, out: &Output) -> Result<Exit, CliError> {
    if args.watch {
        super::interrupt::end_with_130()?;
        again(out, |out| show(args, out))?;
    }
    show(args, out)?;
    Ok(Exit::Well)
}

/// Shows something again and again, each time in place of what was there.
pub(super) fn again(
    out: &Output,
    show: impl Fn(&Output) -> Result<(), CliError>,
) -> Result<(), CliError> {
    loop {
        if !out.json() {
            // Only where a terminal obeys: elsewhere the screens follow one another.
            write!(out.exact(), "\x1b[H\x1b[2J")?;
        }
        show(out)?;
        std::thread::sleep(AGAIN);
    }
}

fn show(args: &Args, out: &Output) -> Result<(), CliError> {
    let projects = if args.all { projects() } else { vec![locate(out)?] };
    let mut found = 0;
    for project in &projects {
        let servers = match servers_of(project) {
            Ok(servers) => servers,
            // Of many projects one may end, or be a newer Salve's, while it is looked at.
            Err(error) if args.all => {
                let root = visible(&project.root().to_string_lossy());
                out.remark(format!("{root}: {}", error));
                continue;
            }
            Err(error) => return Err(error),
        };
        if servers.is_empty() {
            continue;
        }
        found += servers.len();
        let root = project.root().display().to_string();
        if out.json() {
            out.fact(&OfProject { version: 1, project: root, servers })?;
        } else {
            let mut to = out.fitted();
            if args.all {
                let bold = Style::new().bold();
                writeln!(to, "{bold}{}{bold:#}", visible(&root))?;
            }
            print(&mut to, &servers)?;
        }
    }
    if found == 0 && !out.json() {
        out.remark("no server runs here; start one: salve dev");
    }
    Ok(())
}

/// Returns the servers of a project; none where Salve keeps nothing yet.
fn servers_of(project: &Project) -> Result<Vec<ServerLine>, CliError> {
    match Store::open_existing(project)? {
        Some(store) => of_project(project, &store),
        None => Ok(Vec::new()),
    }
}

/// Returns the projects in which processes of this user run under Salve, in order.
///
/// Whatever Salve starts carries the mark of its run, so the processes themselves tell; a list of
/// projects would have to be kept true.
fn projects() -> Vec<Project> {
    let marked =
        tree::all().into_iter().filter(|stat| tree::variable(stat.pid, RUN_MARK).is_some());
    let dirs: BTreeSet<PathBuf> = marked.filter_map(|stat| tree::cwd(stat.pid)).collect();
    let mut roots = BTreeSet::new();
    let mut found = Vec::new();
    for dir in dirs {
        let Ok(project) = Project::find(&dir) else { continue };
        if roots.insert(project.root().to_path_buf()) {
            found.push(project);
        }
    }
    found
}

/// Returns the servers of a project, those that somebody cares for first.
pub(super) fn of_project(project: &Project, store: &Store) -> Result<Vec<ServerLine>, CliError> {
    let scrubber = scrubber();
    let running = cared_for(project, &scrubber)
        .map_err(|error| CliError::failed("cannot tell which servers run").because(error))?;
    let entries = store.journal().tail(&Stream::Servers, RECENT)?;
    let mut lines = Vec::new();
    for server in servers(&entries) {
        let cared = running.contains(&server.server);
        let gone = server.process.as_ref().is_none_or(|one| process::is_gone(one, &scrubber));
        let state = match server.state {
            _ if !cared => LineState::Off,
            ServerState::Up if !gone => LineState::Up,
            ServerState::Starting if !gone => LineState::Starting,
            ServerState::Up | ServerState::Starting | ServerState::Stopped => LineState::Down,
        };
        lines.push(line(server, state, &entries, store)?);
    }
    lines.sort_by_key(|line| (line.state == LineState::Off, line.name.clone()));
    // Those of another day are the journal's to tell about.
    if lines.iter().any(|line| line.state != LineState::Off) {
        lines.retain(|line| line.state != LineState::Off);
    }
    Ok(lines)
}

fn line(
    server: Server,
    state: LineState,
    entries: &[Entry],
    store: &Store,
) -> Result<ServerLine, CliError> {
    let runs = |entry: &Entry| match &entry.event {
        Event::Server(ServerEvent::Started { server: name, run, .. })
            if *name == *server.server =>
        {
            Some(run.clone())
        }
        _ => None,
    };
    let all: Vec<_> = entries.iter().filter_map(runs).collect();
    let starts = all.iter().filter(|run| Some(*run) == all.last()).count() as u64;
    let alive = matches!(state, LineState::Up | LineState::Starting);
    Ok(ServerLine {
        last_incident: last_incident(store, &server.server)?,
        name: server.server,
        state,
        url: server.url.filter(|_| alive),
        pid: server.pid.filter(|_| alive),
        since: server.since,
        restarts: starts.saturating_sub(1),
        exit: server.exit,
    })
}

/// How many incidents back one looks for a server's last one.
const INCIDENTS: usize = 50;

fn last_incident(store: &Store, server: &str) -> Result<Option<String>, CliError> {
    use salve_core::event::{IncidentEvent, SubjectKind};
    let opened = store.journal().tail(&Stream::Incidents, INCIDENTS)?;
    let its = |entry: &&Entry| match &entry.event {
        Event::Incident(IncidentEvent::Opened { subject, .. }) => {
            subject.kind == SubjectKind::Server && subject.name == server
        }
        _ => false,
    };
    Ok(opened.iter().rev().find(its).and_then(|entry| entry.incident).map(|id| id.short()))
}

/// Prints one line for each server.
pub(super) fn print(to: &mut impl Write, lines: &[ServerLine]) -> std::io::Result<()> {
    let widest = lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0);
    for line in lines {
        let (word, colour) = match line.state {
            LineState::Up => ("up", AnsiColor::Green),
            LineState::Starting => ("starting", AnsiColor::Yellow),
            LineState::Down => ("down", AnsiColor::Red),
            LineState::Off => ("off", AnsiColor::White),
        };
        let style = Style::new().fg_color(Some(colour.into()));
        let name = visible(&line.name);
        let mut parts = Vec::new();
        parts.extend(line.url.as_deref().map(visible));
        parts.extend(line.pid.map(|pid| format!("pid {pid}")));
        parts.push(format!("for {}", ago(line.since).trim_end_matches(" ago")));
        if line.restarts > 0 {
            parts.push(counted(line.restarts, "restart", "restarts"));
        }
        let ended = line.exit.as_deref().filter(|_| line.pid.is_none());
        parts.extend(ended.map(visible));
        parts.extend(line.last_incident.as_ref().map(|id| format!("last heal-{id}")));
        writeln!(to, "    {name:<widest$}  {style}{word:<8}{style:#}  {}", parts.join(" · "))?;
    }
    Ok(())
}
