//! `salve status`: the project on one screen.

use std::io::Write;

use anstyle::{AnsiColor, Style};
use jiff::{SignedDuration, Timestamp};
use salve_core::earned::{EarnedRule, EarningTerms, RuleStanding};
use salve_core::event::SubjectKind;
use salve_core::incident::{Incident, Phase};
use salve_core::iteration::StepsStanding as LoopStanding;
use salve_core::repair::{CooldownNotice, who};
use serde::Serialize;

use super::events::visible;
use super::job::fleet::FleetArgs;
use super::job::fleet_questions::FleetQuestionLine;
use super::job::list::OpenJobLine;
use super::output::counted;
use super::project::{locate, tell_mended};
use super::ps::{self, ServerLine};
use super::{CliError, Exit, Output};
use crate::config::{self, Sources};
use crate::heal::{control, earned};
use crate::process;
use crate::project::Project;
use crate::reading::known_loops;
use crate::store::{MemorySize, Store, Stream};

/// How many incidents are looked at, newest first.
const RECENT: usize = 50;
/// How many finished incidents are shown.
const SHOWN: usize = 5;

/// Arguments of `salve status`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Show it again every second until stopped with Ctrl-C
    #[arg(long, short)]
    watch: bool,
    #[command(flatten)]
    fleet: FleetArgs,
}

/// What `--json` prints.
#[derive(Serialize)]
struct StatusReport {
    version: u32,
    project: String,
    config: SettingsSummary,
    events: u64,
    last_event: Option<Timestamp>,
    memory: MemorySize,
    /// Who paused all healing, if it is paused.
    paused_by: Option<String>,
    servers: Vec<ServerLine>,
    loops: Vec<LoopStatusLine>,
    jobs: Vec<OpenJobLine>,
    incidents: Vec<IncidentLine>,
    /// Commands that have earned to be accepted by a person.
    proposed: Vec<String>,
    /// What jobs of the fleet ask, if one is meant.
    fleet_questions: Vec<FleetQuestionLine>,
}

/// One loop in a few words.
#[derive(Serialize)]
struct LoopStatusLine {
    id: String,
    state: String,
}

/// The settings in a few words.
#[derive(Serialize)]
struct SettingsSummary {
    valid: bool,
    warnings: usize,
    error: Option<String>,
}

/// One incident in a few words.
#[derive(Serialize)]
struct IncidentLine {
    id: String,
    state: IncidentStanding,
    subject: SubjectKind,
    name: String,
    class: String,
    key_line: String,
    since: Timestamp,
    /// Why nothing is tried for a while, and what ends that.
    cooldown: Option<CooldownNotice>,
}

/// How an incident stands, in one word.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum IncidentStanding {
    NeedsYou,
    Paused,
    Healing,
    /// Nobody cares for it any more.
    Left,
    CoolingDown,
    Over,
}

/// Shows the project; exit code 3 if a person is needed.
pub(super) fn run(args: Args, out: &Output) -> Result<Exit, CliError> {
    let project = locate(out)?;
    if args.watch {
        super::interrupt::end_with_130()?;
        ps::again(out, |out| show(&project, &args.fleet, out).map(drop))?;
    }
    show(&project, &args.fleet, out)
}

fn show(project: &Project, fleet: &FleetArgs, out: &Output) -> Result<Exit, CliError> {
    let mut report = look(project, out)?;
    report.fleet_questions = FleetQuestionLine::of_fleet(fleet, out);
    let is_asking = |line: &IncidentLine| line.state == IncidentStanding::NeedsYou;
    let needed = report.incidents.iter().any(is_asking) || !report.fleet_questions.is_empty();
    if out.json() {
        out.fact(&report)?;
    } else {
        print(&mut out.fitted(), &report)?;
    }
    Ok(if needed { Exit::NeedsPerson } else { Exit::Well })
}

/// Gathers the facts; a project without `.salve` stays without it.
fn look(project: &Project, out: &Output) -> Result<StatusReport, CliError> {
    let sources = Sources::of_process(Some(project), &out.global().set);
    let mut terms = EarningTerms { after: 0, days: 0 };
    let config = match config::load(&sources) {
        Ok(config) => {
            terms = EarningTerms::from(&config.settings.earned);
            SettingsSummary { valid: true, warnings: config.warnings().len(), error: None }
        }
        Err(error) => SettingsSummary { valid: false, warnings: 0, error: Some(error.to_string()) },
    };
    let mut report = StatusReport {
        version: 1,
        project: project.root().display().to_string(),
        config,
        events: 0,
        last_event: None,
        memory: MemorySize::default(),
        paused_by: None,
        servers: Vec::new(),
        loops: Vec::new(),
        jobs: Vec::new(),
        incidents: Vec::new(),
        proposed: Vec::new(),
        fleet_questions: Vec::new(),
    };
    if project.has_state_dir()? {
        let store = Store::open(project)?;
        tell_mended(&store, out);
        report.events = store.journal().last_seq()?;
        report.last_event = store.journal().tail(&Stream::Project, 1)?.first().map(|e| e.at);
        report.memory = store.memory().counts()?;
        report.paused_by = control::pause(&store)?.map(|by| who(&by));
        report.servers = ps::of_project(project, &store)?;
        report.loops = loops(&store)?;
        report.jobs = OpenJobLine::of(&store)?;
        report.incidents = incidents(&store)?;
        report.proposed = proposed(&store, terms)?;
    }
    Ok(report)
}

/// Returns the commands whose approval is proposed, each with how to accept it.
fn proposed(store: &Store, terms: EarningTerms) -> Result<Vec<String>, CliError> {
    let (earned, now) = (earned::load(store.journal())?, Timestamp::now());
    let rules = earned.rules().filter(|rule| rule.standing(terms, now) == RuleStanding::Proposed);
    let line = |rule: &EarnedRule| {
        let (command, times) = (visible(rule.command.as_str()), rule.streak());
        format!("`{command}` helped {times} times: salve rules accept {}", rule.key.short())
    };
    Ok(rules.map(line).collect())
}

/// Returns the loops that are not over, each with how it stands.
fn loops(store: &Store) -> Result<Vec<LoopStatusLine>, CliError> {
    let known = known_loops(store.journal())?;
    let open = known.iter().filter_map(|one| {
        let iteration = one.iteration();
        let state = match one.standing() {
            LoopStanding::Running => format!("iteration {iteration}"),
            LoopStanding::Parked { reason, .. } => format!("parked: {}", visible(reason.as_str())),
            LoopStanding::Waits { reason } => {
                format!("waits for you: {}", visible(reason.as_str()))
            }
            LoopStanding::Stopped => format!("stopped in iteration {iteration}; salve loop run"),
            LoopStanding::Ended(_) => return None,
        };
        Some(LoopStatusLine { id: one.id().to_string(), state })
    });
    Ok(open.collect())
}

/// Returns the latest incidents: those that need somebody first, then by time.
fn incidents(store: &Store) -> Result<Vec<IncidentLine>, CliError> {
    let (journal, scrubber) = (store.journal(), super::project::scrubber());
    let is_left = |incident: &Incident| {
        incident.owner().is_none_or(|owner| process::is_gone(owner, &scrubber))
    };
    let mut lines = Vec::new();
    for opened in journal.tail(&Stream::Incidents, RECENT)?.iter().rev() {
        let Some(id) = opened.incident else { continue };
        let entries = journal.read(0, &Stream::Incident(id), usize::MAX)?;
        // An incident that a newer Salve opened is that Salve's to tell about.
        let Ok(incident) = Incident::replay(&entries) else { continue };
        let mut line = line(&incident, opened.at);
        if line.state == IncidentStanding::Healing && is_left(&incident) {
            line.state = IncidentStanding::Left;
        }
        lines.push(line);
    }
    lines.sort_by_key(|line| line.state as u8);
    let over =
        lines.iter().position(|line| line.state == IncidentStanding::Over).unwrap_or(lines.len());
    lines.truncate(over + SHOWN);
    Ok(lines)
}

fn line(incident: &Incident, since: Timestamp) -> IncidentLine {
    let state = match incident.phase() {
        Phase::Asking { .. } => IncidentStanding::NeedsYou,
        _ if incident.paused_by().is_some() => IncidentStanding::Paused,
        Phase::Choosing | Phase::Due { .. } | Phase::Doing { .. } | Phase::Ending { .. } => {
            IncidentStanding::Healing
        }
        Phase::CoolingDown { .. } => IncidentStanding::CoolingDown,
        Phase::Closed(_) => IncidentStanding::Over,
    };
    let subject = incident.subject();
    IncidentLine {
        id: incident.id().short(),
        state,
        subject: subject.kind,
        name: subject.name.to_string(),
        class: incident.symptom().class.to_string(),
        key_line: incident.symptom().key_line.to_string(),
        since,
        cooldown: CooldownNotice::of(incident),
    }
}

fn print(to: &mut impl Write, report: &StatusReport) -> std::io::Result<()> {
    let bold = Style::new().bold();
    writeln!(to, "{bold}Salve{bold:#}  {}", report.project)?;
    let config = match &report.config {
        SettingsSummary { valid: false, .. } => "wrong; `salve config check` says where".to_owned(),
        SettingsSummary { warnings: 0, .. } => "valid".to_owned(),
        SettingsSummary { warnings, .. } => {
            let warnings = counted(*warnings as u64, "warning", "warnings");
            format!("valid, {warnings}: `salve config check`")
        }
    };
    writeln!(to, "  config     {config}")?;
    match report.last_event {
        None => writeln!(to, "  journal    empty")?,
        Some(at) => {
            let events = counted(report.events, "event", "events");
            writeln!(to, "  journal    {events}, last {}", ago(at))?
        }
    }
    let MemorySize { failures, remedies, proven, .. } = report.memory;
    match failures {
        0 => writeln!(to, "  memory     empty; `salve memory learn` teaches it")?,
        _ => {
            let failures = counted(failures, "failure", "failures");
            let remedies = counted(remedies, "remedy", "remedies");
            writeln!(to, "  memory     {failures}, {remedies}, {proven} proven")?
        }
    }
    for (place, line) in report.proposed.iter().enumerate() {
        let word = if place == 0 { "proposed" } else { "" };
        writeln!(to, "  {word:<9}  {line}")?;
    }
    if let Some(by) = &report.paused_by {
        writeln!(to, "  healing    paused by {by}; RESUME in .salve/CONTROL.md lets it go on")?;
    }
    if !report.servers.is_empty() {
        writeln!(to, "  servers")?;
        ps::print(to, &report.servers)?;
    }
    for (place, line) in report.loops.iter().enumerate() {
        let word = if place == 0 { "loops" } else { "" };
        writeln!(to, "  {word:<9}  {}  {}", line.id, line.state)?;
    }
    for (place, job) in report.jobs.iter().enumerate() {
        let word = if place == 0 { "jobs" } else { "" };
        writeln!(to, "  {word:<9}  {}", job.in_words())?;
    }
    for (place, question) in report.fleet_questions.iter().enumerate() {
        let word = if place == 0 { "fleet" } else { "" };
        writeln!(to, "  {word:<9}  needs you: {}", question.in_words())?;
    }
    if report.incidents.is_empty() {
        return writeln!(to, "  incidents  none");
    }
    writeln!(to, "  incidents")?;
    for line in &report.incidents {
        print_line(to, line)?;
    }
    Ok(())
}

fn print_line(to: &mut impl Write, line: &IncidentLine) -> std::io::Result<()> {
    let (word, colour) = match line.state {
        IncidentStanding::NeedsYou => ("needs you", AnsiColor::Red),
        IncidentStanding::Paused => ("paused", AnsiColor::Yellow),
        IncidentStanding::Healing => ("healing", AnsiColor::Yellow),
        IncidentStanding::Left => ("left", AnsiColor::Yellow),
        IncidentStanding::CoolingDown => ("cooling", AnsiColor::Yellow),
        IncidentStanding::Over => ("over", AnsiColor::Green),
    };
    let style = Style::new().fg_color(Some(colour.into()));
    let text: String = line.key_line.chars().take(60).collect();
    let since = ago(line.since);
    writeln!(
        to,
        "    {}  {style}{word:<9}{style:#}  {}  {} · {text} ({since})",
        line.id, line.name, line.class
    )?;
    if let Some(next) = next(line) {
        writeln!(to, "              {next}")?;
    }
    let Some(cooldown) = &line.cooldown else { return Ok(()) };
    let left = cooldown.left(Timestamp::now());
    writeln!(to, "              no repair for {left}: {}", cooldown.reason)?;
    writeln!(to, "              ended by {}", cooldown.ended_by)
}

/// Returns what a person can do about an incident that does not go on by itself.
fn next(line: &IncidentLine) -> Option<String> {
    let goes_on = match line.subject {
        SubjectKind::Server => "salve dev",
        SubjectKind::Check => "salve heal",
        SubjectKind::Iteration => "salve loop run",
        SubjectKind::Tool | SubjectKind::Step => "the next run",
    };
    match line.state {
        IncidentStanding::NeedsYou => Some(format!("salve show {}", line.id)),
        IncidentStanding::Left => Some(format!("nobody works on it; {goes_on} goes on with it")),
        IncidentStanding::Paused
        | IncidentStanding::Healing
        | IncidentStanding::CoolingDown
        | IncidentStanding::Over => None,
    }
}

/// Says how long ago something was, roughly.
pub(super) fn ago(at: Timestamp) -> String {
    let passed = Timestamp::now().duration_since(at).max(SignedDuration::ZERO).as_secs();
    match passed {
        0..60 => format!("{passed} s ago"),
        60..3600 => format!("{} min ago", passed / 60),
        3600..172_800 => format!("{} h ago", passed / 3600),
        _ => format!("{} days ago", passed / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan;
    use salve_core::class::Class;
    use salve_core::event::{
        Acted, Actor, AtALoss, Draft, Event, IncidentEvent, IncidentPolicy, OnFailure, Process,
        RepairMode, Repeat, ResourceLimits, Subject, Symptom,
    };
    use salve_core::id::{IncidentId, Signature};
    use salve_core::incident::{Awaited, IncidentMove};
    use salve_core::scrub::Scrubbed;
    use uuid::Uuid;

    use super::*;

    fn opening() -> Event {
        let subject = Subject {
            kind: SubjectKind::Server,
            name: Scrubbed::literal("web"),
            repeat: Repeat::Safe,
        };
        let policy = IncidentPolicy {
            person: Scrubbed::literal("kim"),
            mode: RepairMode::Legacy,
            listener: None,
            starts: None,
            limits: ResourceLimits { attempts: Some(3), ..ResourceLimits::default() },
            backoff_ms: 0,
            engage_ms: 0,
            write_ms: 0,
            quiet_ms: 0,
            watch_ms: 0,
            cooldown_ms: 0,
            max_files: 8,
            max_lines: 300,
            no_progress_limit: Some(3),
            catastrophe_after: None,
            on_failure: OnFailure::Undo,
            at_a_loss: AtALoss::Ask,
        };
        let symptom = Symptom {
            signature: Signature(7),
            class: Class::PortConflict,
            key_line: Scrubbed::literal("port 3000 is in use"),
            exit: None,
            tree: None,
            acted: Acted::No,
        };
        Event::Incident(IncidentEvent::Opened {
            subject,
            policy: Box::new(policy),
            symptom: Box::new(symptom),
        })
    }

    /// Opens an incident and lets its owner run until a person is waited for.
    fn ask_a_person(store: &Store, at: Timestamp) -> IncidentId {
        let id = IncidentId(Uuid::from_u128(0x7f3a_0000 << 96));
        let me = Process { pid: 1, started: 1, host: Scrubbed::literal("here") };
        let write = |event| {
            let by = Actor::Salve(me.clone());
            store.journal().append(Draft { at, by, incident: Some(id), event }).unwrap();
        };
        write(opening());
        write(Event::Incident(IncidentEvent::Claimed { instead_of: None }));
        loop {
            let entries = store.journal().read(0, &Stream::Incident(id), usize::MAX).unwrap();
            match Incident::replay(&entries).unwrap().next(&me, at + 1.hour()) {
                IncidentMove::Write(event) => write(event),
                IncidentMove::Choose => write(Event::Incident(IncidentEvent::NothingLeft {})),
                IncidentMove::Wait { on: Awaited::Effect(effect), .. } => {
                    write(Event::Incident(IncidentEvent::Finished {
                        effect,
                        report: salve_core::event::EffectReport::Done,
                    }));
                }
                IncidentMove::Wait { on: Awaited::Person(_), .. } => return id,
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn an_incident_that_waits_for_a_person_comes_first() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&Project::at(dir.path()).unwrap()).unwrap();
        let at = Timestamp::UNIX_EPOCH;
        let id = ask_a_person(&store, at);
        let lines = incidents(&store).unwrap();
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].id, id.short());
        assert!(lines[0].state == IncidentStanding::NeedsYou);
        let mut text = Vec::new();
        print_line(&mut text, &lines[0]).unwrap();
        let text = anstream::adapter::strip_str(std::str::from_utf8(&text).unwrap()).to_string();
        assert!(
            text.starts_with("    7f3a0000  needs you  web  port_conflict · port 3000"),
            "{text}"
        );
    }
}
