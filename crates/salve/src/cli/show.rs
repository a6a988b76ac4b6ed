//! `salve show`: one incident's story, from the first symptom to what to do next.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use salve_core::event::SubjectKind;
use salve_core::id::IncidentId;
use salve_core::repair::{
    AgentPart, IncidentStory, OpenQuestion, RepairScene, RepairStanding, RepairState, Size,
    TimelineEntry, incident_uri,
};
use salve_core::view::IncidentView;

use super::events::{find, visible};
use super::output::counted;
use super::{CliError, Exit, Output, job, project};
use crate::reading::deserted;
use crate::store::{Store, Stream};
use crate::workspace::{AttemptChange, Moment, Workspace};

/// Arguments of `salve show`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The incident's id; its first digits will do, with or without `heal-` [default: the latest]
    id: Option<String>,
    /// Show what each attempt changed, without the secrets in it
    #[arg(long)]
    diff: bool,
    #[command(flatten)]
    fleet: job::fleet::FleetArgs,
}

/// Shows the story; exit code 3 if a person is needed.
pub(super) fn run(args: Args, out: &Output) -> Result<Exit, CliError> {
    if let Some(digits) = args.id.as_deref()
        && let Some(store) = args.fleet.open(out)?
        && let Some(found) = job::fleet::find_in_fleet(&store, digits)?
    {
        return job::list::show_in_fleet(&found, &store, out);
    }
    let none = || CliError::failed("there is no incident here").hint("`salve status` shows all");
    let store = Store::open_existing(&project::locate(out)?)?.ok_or_else(none)?;
    project::tell_mended(&store, out);
    if let Some(job) = args.id.as_deref().map(|id| job::find(&store, id)).transpose()?.flatten() {
        return job::list::show(&job, &store, out);
    }
    let journal = store.journal();
    let id = match &args.id {
        Some(id) => find(journal, id)?,
        None => {
            let last = journal.tail(&Stream::Incidents, 1)?;
            last.first().and_then(|entry| entry.incident).ok_or_else(none)?
        }
    };
    let entries = journal.read(0, &Stream::Incident(id), usize::MAX)?;
    let view = IncidentView::of(entries).map_err(|error| {
        CliError::failed(format!("incident {} cannot be read", id.short())).because(error)
    })?;
    let deserted = deserted(&view, &project::scrubber());
    let scene = RepairScene { deserted: deserted.as_slice(), ..RepairScene::default() };
    let story = IncidentStory::of(&view, &scene);
    if out.json() {
        out.fact(&story)?;
    } else {
        print(&mut out.fitted(), &story, &TimeZone::system())?;
    }
    if args.diff && !out.json() {
        print_diffs(&mut out.stdout(), &store, id)?;
    }
    Ok(if story.repair.state == RepairStanding::NeedsHuman {
        Exit::NeedsPerson
    } else {
        Exit::Well
    })
}

fn print(to: &mut impl Write, story: &IncidentStory, zone: &TimeZone) -> io::Result<()> {
    let repair = &story.repair;
    let (bold, dim) = (Style::new().bold(), Style::new().dimmed());
    let (word, colour) = state(repair.state);
    let style = Style::new().bold().fg_color(Some(colour.into()));
    let short = repair.repair_id.0.simple().to_string();
    let short = &short[..8];
    let server = visible(&repair.server);
    writeln!(to, "{bold}heal-{short}{bold:#}  {server}  {}  {style}{word}{style:#}", repair.class)?;
    writeln!(to, "  {}", visible(&repair.key_line))?;
    let (attempt, most) = (repair.attempt, repair.max_attempts);
    let signature = repair.signature;
    writeln!(to, "  {dim}attempt {attempt} of {most} · signature {signature}{dim:#}")?;
    writeln!(
        to,
        "  {dim}evidence {} · {}{dim:#}",
        repair.crash_log_path,
        incident_uri(repair.repair_id)
    )?;
    writeln!(to)?;
    for moment in &story.timeline {
        print_moment(to, moment, zone)?;
    }
    writeln!(to)?;
    for part in &repair.agent {
        print_agent(to, part)?;
    }
    for finding in &repair.findings {
        writeln!(to, "  found      {}", visible(finding.what.as_str()))?;
        writeln!(to, "             {}", visible(finding.next.as_str()))?;
    }
    for tried in &repair.tried {
        writeln!(to, "  tried      {}", visible(tried))?;
    }
    if let Some(cost) = story.spent.cost_in_words() {
        writeln!(to, "  cost       {cost}")?;
    }
    print_next(to, story.subject, repair, short)
}

pub(super) fn state(state: RepairStanding) -> (&'static str, AnsiColor) {
    match state {
        RepairStanding::Healing => ("healing", AnsiColor::Yellow),
        RepairStanding::AwaitingAgent => ("waits for an agent", AnsiColor::Yellow),
        RepairStanding::NeedsHuman => ("needs you", AnsiColor::Red),
        RepairStanding::Cooldown => ("cooling down", AnsiColor::Yellow),
        RepairStanding::Deserted => ("left alone", AnsiColor::Red),
        RepairStanding::Recovered => ("recovered", AnsiColor::Green),
        RepairStanding::Resolved => ("settled", AnsiColor::Green),
        RepairStanding::GivenUp => ("given up", AnsiColor::Red),
        RepairStanding::Unhealed => ("unhealed", AnsiColor::Red),
        RepairStanding::Aborted => ("called off", AnsiColor::Yellow),
    }
}

fn print_moment(to: &mut impl Write, moment: &TimelineEntry, zone: &TimeZone) -> io::Result<()> {
    let dim = Style::new().dimmed();
    let time = moment.at.to_zoned(zone.clone()).strftime("%H:%M:%S").to_string();
    let (by, text) = (visible(&moment.by), visible(&moment.text));
    write!(to, "  {dim}{time}{dim:#}  {by:<12} {text}")?;
    let phases: Vec<_> = moment.phases.iter().map(|notice| notice.phase.as_str()).collect();
    if !phases.is_empty() {
        write!(to, "  {dim}{}{dim:#}", phases.join(" "))?;
    }
    if let Some(why) = &moment.ignored {
        write!(to, "  {dim}(changed nothing: {why}){dim:#}")?;
    }
    writeln!(to)
}

/// Prints what each attempt changed, from the snapshots around it.
fn print_diffs(to: &mut impl Write, store: &Store, id: IncidentId) -> Result<(), CliError> {
    let scrubber = project::scrubber();
    let kept = Workspace::open(store.project())?;
    let mut shown = false;
    for AttemptChange { before, after } in kept.attempts().changes(id)? {
        let (Some(before), Some(after)) = (kept.load(before)?, kept.load(after)?) else { continue };
        let patch = kept.diff(&before, &after)?;
        let attempt = before.name().attempt;
        match after.name().moment {
            Moment::InLayer => {
                writeln!(to, "\n  attempt {attempt} changed, of which nothing is in your files\n")?
            }
            Moment::Before | Moment::After | Moment::Undone(_) => {
                writeln!(to, "\n  attempt {attempt} changed\n")?
            }
        }
        for line in scrubber.scrub(&patch).as_str().lines() {
            writeln!(to, "{}", visible(line))?;
        }
        shown = true;
    }
    if !shown {
        writeln!(to, "\n  no change is kept: snapshots go after a while")?;
    }
    Ok(())
}

fn print_agent(to: &mut impl Write, part: &AgentPart) -> io::Result<()> {
    let size = |size: Size| {
        let number = |n: Option<u32>, one: &str, many: &str| match n {
            Some(n) => counted(u64::from(n), one, many),
            None => format!("? {many}"),
        };
        let files = number(size.files_changed, "file", "files");
        format!("{files}, {}", number(size.lines_changed, "line", "lines"))
    };
    let is_known = |size: Size| size.files_changed.is_some() || size.lines_changed.is_some();
    let name = part.name.as_deref().map_or_else(|| "no agent took part".to_owned(), visible);
    write!(to, "  agent      attempt {}: {name}", part.attempt)?;
    if is_known(part.reported) {
        write!(to, ", reported {}", size(part.reported))?;
    }
    if is_known(part.measured) {
        write!(to, ", measured {}", size(part.measured))?;
    }
    writeln!(to)
}

/// Says what can be done now, each as a command that can be pasted.
fn print_next(
    to: &mut impl Write,
    subject: SubjectKind,
    repair: &RepairState,
    id: &str,
) -> io::Result<()> {
    if let Some(ask) = &repair.question {
        return print_question(to, ask, id);
    }
    match repair.state {
        RepairStanding::Deserted => {
            let command = match subject {
                SubjectKind::Server => "salve dev",
                SubjectKind::Check => "salve heal",
                SubjectKind::Tool => "salve proxy",
                SubjectKind::Step => "salve run",
                SubjectKind::Iteration => "salve loop",
            };
            writeln!(to, "  next       {command}    takes it up again")
        }
        RepairStanding::Cooldown => {
            if let Some(cooldown) = &repair.cooldown {
                let left = cooldown.left(Timestamp::now());
                writeln!(to, "  cooldown   no repair for {left}: {}", cooldown.reason)?;
                writeln!(to, "             ended by {}", cooldown.ended_by)?;
            }
            writeln!(to, "  next       salve refill {id} --attempts 1")
        }
        RepairStanding::Healing | RepairStanding::AwaitingAgent => {
            writeln!(to, "  next       salve pause {id}    salve abort {id}")
        }
        RepairStanding::NeedsHuman
        | RepairStanding::Recovered
        | RepairStanding::Resolved
        | RepairStanding::GivenUp
        | RepairStanding::Unhealed
        | RepairStanding::Aborted => Ok(()),
    }
}

fn print_question(to: &mut impl Write, ask: &OpenQuestion, id: &str) -> io::Result<()> {
    let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
    let number = ask.number;
    writeln!(to, "  {red}needs you{red:#}  question {number}: {}", visible(&ask.why))?;
    match &ask.yes {
        Some(yes) => {
            writeln!(
                to,
                "    yes      salve approve {id} --question {number}    {}",
                visible(yes)
            )?;
        }
        None => writeln!(to, "    more     salve refill {id} --attempts 1    it is tried again")?,
    }
    writeln!(to, "    no       salve reject {id} --question {number}    {}", visible(&ask.no))?;
    writeln!(to, "    settled  salve resolve {id} \"how\"")
}
