//! `salve events`: the journal for people and scripts.

mod since;
mod text;

pub(super) use text::visible;

use std::io::Write;
use std::time::Duration;

use jiff::{Timestamp, tz::TimeZone};
use salve_core::event::{Draft, Entry, Event, NoteEvent};
use salve_core::hidden_char::revealed_json;
use salve_core::id::IncidentId;

use super::{CliError, Exit, Output, project};
use crate::reading::{IncidentNotFound, find_incident};
use crate::store::{Journal, Store, StoreError, Stream, to_line};
use since::Since;

/// How many entries `--follow` shows before it waits, unless told otherwise.
const RECENT: usize = 10;

/// How many entries are read at once.
const BATCH: usize = 1000;

/// Arguments of `salve events`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Option<EventsCommand>,
    #[command(flatten)]
    show: Show,
}

#[derive(Debug, clap::Args)]
struct Show {
    /// Wait for new events until stopped with Ctrl-C
    #[arg(long, short)]
    follow: bool,
    /// Show events since a duration ago (10m), a time (2026-01-31 14:00) or after a number (42)
    #[arg(long, value_name = "WHEN")]
    since: Option<Since>,
    /// Show only this incident's events; the first digits of its id will do
    #[arg(long, value_name = "ID")]
    incident: Option<String>,
    /// Show only events of this kind; may be given more than once
    #[arg(long, value_name = "KIND", value_parser = known_kind)]
    kind: Vec<String>,
    /// Show only the last N events [default: all, with --follow 10]
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<usize>,
}

#[derive(Debug, clap::Subcommand)]
enum EventsCommand {
    /// Add a remark of yours to the journal
    Note {
        /// What to remark
        text: String,
        /// The incident it is about; the first digits of its id will do
        #[arg(long, value_name = "ID")]
        incident: Option<String>,
    },
}

/// Runs the command.
pub(super) fn run(args: Args, out: &Output) -> Result<Exit, CliError> {
    match args.command {
        Some(EventsCommand::Note { text, incident }) => note(&text, incident.as_deref(), out),
        None => show(&args.show, out),
    }
}

fn note(text: &str, incident: Option<&str>, out: &Output) -> Result<Exit, CliError> {
    if text.trim().is_empty() {
        return Err(CliError::usage("the remark is empty"));
    }
    let store = project::open_store(out)?;
    let journal = store.journal();
    let incident = incident.map(|prefix| find(journal, prefix)).transpose()?;
    let scrubber = project::scrubber();
    let by = project::speaker(&scrubber);
    let event = Event::Note(NoteEvent::Noted { text: scrubber.scrub(text) });
    let entry = journal.append(Draft { at: Timestamp::now(), by, incident, event })?;
    print(&[entry], out)?;
    Ok(Exit::Well)
}

fn show(args: &Show, out: &Output) -> Result<Exit, CliError> {
    let project = project::locate(out)?;
    let store = match Store::open_existing(&project)? {
        Some(store) => store,
        None if args.follow => project::open_store(out)?,
        None => {
            out.remark("no events yet");
            return Ok(Exit::Well);
        }
    };
    project::tell_mended(&store, out);
    let journal = store.journal();
    if let Err(error) = store.update_copy() {
        out.remark(format_args!("events.jsonl is not up to date: {error}"));
    }
    let (after, since) = args.since.map_or((0, None), Since::parts);
    let incident = args.incident.as_deref().map(|prefix| find(journal, prefix)).transpose()?;
    let stream = incident.map_or(Stream::Project, Stream::Incident);
    let wanted = EventFilter { stream, kinds: &args.kind, since };
    let limit = match (args.limit, &args.since) {
        (None, None) if args.follow => Some(RECENT),
        (limit, _) => limit,
    };
    let after = show_past(journal, after, limit, &wanted, out)?;
    if args.follow {
        super::interrupt::end_with_130()?;
        let mut follower = journal.follow(after, wanted.stream.clone());
        loop {
            print(&wanted.of(follower.next(Duration::MAX)?), out)?;
        }
    }
    Ok(Exit::Well)
}

/// What a person wants to see.
struct EventFilter<'a> {
    stream: Stream,
    /// Only these kinds; none means any.
    kinds: &'a [String],
    since: Option<Timestamp>,
}

impl EventFilter<'_> {
    /// Returns those of the entries that are wanted.
    fn of(&self, mut entries: Vec<Entry>) -> Vec<Entry> {
        entries.retain(|entry| {
            let is_kind =
                self.kinds.is_empty() || self.kinds.iter().any(|kind| kind == entry.event.kind());
            is_kind && self.since.is_none_or(|since| entry.at >= since)
        });
        entries
    }

    /// Returns the last `count` wanted entries with numbers above `after`, in order.
    fn last(
        &self,
        journal: &dyn Journal,
        after: u64,
        count: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let (mut found, mut before) = (Vec::new(), u64::MAX);
        while found.len() < count && before > after.saturating_add(1) {
            let portion = journal.read_back(before, &self.stream, BATCH)?;
            let Some(first) = portion.first() else { break };
            before = first.seq;
            let wanted = self.of(portion).into_iter().rev();
            found.extend(wanted.filter(|entry| entry.seq > after));
        }
        found.truncate(count);
        found.reverse();
        Ok(found)
    }
}

/// Shows what is on record and returns how far it went.
fn show_past(
    journal: &dyn Journal,
    mut after: u64,
    limit: Option<usize>,
    wanted: &EventFilter<'_>,
    out: &Output,
) -> Result<u64, CliError> {
    if let Some(limit) = limit {
        let last = journal.last_seq()?;
        let entries = wanted.last(journal, after, limit)?;
        print(&entries, out)?;
        return Ok(entries.last().map_or(last, |entry| entry.seq.max(last)));
    }
    loop {
        let entries = journal.read(after, &wanted.stream, BATCH)?;
        let Some(last) = entries.last() else { return Ok(after) };
        after = last.seq;
        print(&wanted.of(entries), out)?;
    }
}

fn print(entries: &[Entry], out: &Output) -> Result<(), CliError> {
    let zone = TimeZone::system();
    if out.json() {
        let mut stdout = out.exact();
        for entry in entries {
            writeln!(stdout, "{}", revealed_json(&to_line(entry)))?;
        }
        return Ok(stdout.flush()?);
    }
    let mut stdout = out.fitted();
    for entry in entries {
        writeln!(stdout, "{}", text::line(entry, &zone))?;
    }
    Ok(stdout.flush()?)
}

/// Finds the one incident whose id begins with `prefix`, with or without `heal-` before it.
pub(super) fn find(journal: &dyn Journal, prefix: &str) -> Result<IncidentId, CliError> {
    find_incident(journal, prefix).map_err(|error| {
        let text = error.to_string();
        match error {
            IncidentNotFound::Store(error) => error.into(),
            IncidentNotFound::Malformed(_) => CliError::usage(text)
                .hint("ids are made of the digits 0-9 and a-f; `salve events` shows them"),
            IncidentNotFound::Unknown(_) => {
                CliError::failed(text).hint("`salve events` shows the incidents' ids")
            }
            IncidentNotFound::Ambiguous { ids, .. } => {
                let ids: Vec<_> = ids.iter().take(5).map(ToString::to_string).collect();
                CliError::usage(text).hint(format!("give more digits: {}", ids.join(", ")))
            }
        }
    })
}

fn known_kind(kind: &str) -> Result<String, String> {
    if Event::KINDS.contains(&kind) {
        return Ok(kind.to_owned());
    }
    let near = Event::KINDS
        .iter()
        .map(|known| (strsim::damerau_levenshtein(kind, known), known))
        .min()
        .filter(|(distance, _)| *distance <= 3);
    Err(match near {
        Some((_, near)) => format!("there is no such kind; did you mean `{near}`?"),
        None => format!("there is no such kind; the kinds are {}", Event::KINDS.join(", ")),
    })
}
