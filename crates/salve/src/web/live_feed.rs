//! What streams are told, made once for all that are told the same.
//!
//! Two thousand browsers that show one section are not two thousand sections: the first that asks
//! has it made, the others take what was made for it, for as long as it took to make several times
//! over. A stream that gets what is a moment old is told so and asks again.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::live::GATHER;
use super::pages::PageView;
use super::project_handle::StreamCrowd;
use super::views::{NoticeLine, ProjectReader, ViewError};
use crate::store::to_line;

/// How much longer than making it took something is shown, so that requests have their turn.
const SHOWN_FOR: u32 = 4;

/// How long something is shown at most though the journal has more.
const LONGEST_SHOWN: Duration = Duration::from_secs(2);

/// How many sections are kept.
const MOST_SECTIONS: usize = 64;

/// How many notices are kept, and how many entries before the first stream they come from.
const MOST_NOTICES: usize = 1000;

/// How many entries are sent at once.
const BATCH: usize = 500;

/// What all streams of a project share.
#[derive(Debug, Default)]
pub(super) struct LiveFeed {
    moment: Option<FeedMoment>,
    notices: NoticeFeed,
    lines: Option<SharedLines>,
}

/// What was made of one moment.
#[derive(Debug)]
struct FeedMoment {
    made_at: Instant,
    /// The journal's last entry then.
    seq: u64,
    /// How often the fleet had changed then.
    fleet: u64,
    /// How long the thread worked for it.
    cost: Duration,
    waiting: usize,
    repairs: SharedText,
    sections: Vec<(PageView, SectionText)>,
}

impl FeedMoment {
    /// Tells whether it is too old for a section, now that the journal's last entry is `last` and the
    /// fleet has changed so often.
    fn is_outdated(&self, view: &PageView, last: u64, fleet: u64) -> bool {
        let age = self.made_at.elapsed();
        let shown_for = (self.cost * SHOWN_FOR).clamp(GATHER, LONGEST_SHOWN);
        age >= shown_for && (self.seq != last || self.fleet != fleet || age >= view.look() / 2)
    }

    /// Returns the section of that moment, made when it is wanted first.
    fn section(&mut self, reader: &mut ProjectReader, view: &PageView) -> SectionText {
        if let Some((_, made)) = self.sections.iter().find(|(of, _)| of == view) {
            return made.clone();
        }
        let since = Instant::now();
        let made = match view.render(reader) {
            Ok(html) => SectionText::Html(html.into_string().into()),
            Err(error) => SectionText::Problem(error.to_string().into()),
        };
        self.cost += since.elapsed();
        if self.sections.len() < MOST_SECTIONS {
            self.sections.push((view.clone(), made.clone()));
        }
        made
    }
}

/// A text that many streams send, and its hash.
#[derive(Clone, Debug)]
pub(super) struct SharedText {
    pub(super) text: Arc<str>,
    pub(super) hash: u64,
}

impl From<String> for SharedText {
    fn from(text: String) -> Self {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        Self { text: text.into(), hash: hasher.finish() }
    }
}

/// A section as HTML, or why there is none.
#[derive(Clone, Debug)]
pub(super) enum SectionText {
    Html(SharedText),
    Problem(SharedText),
}

/// What a stream that shows a section is told.
#[derive(Debug)]
pub(super) struct SectionNews {
    /// What was said since, as JSON; nothing if absent.
    pub(super) notices: Option<String>,
    /// How far notices were read.
    pub(super) read_to: u64,
    /// How much waits for a person.
    pub(super) waiting: usize,
    /// How repairs stand, as JSON.
    pub(super) repairs: SharedText,
    pub(super) section: SectionText,
    /// Whether the journal has more than what is told.
    pub(super) is_behind: bool,
}

/// What a stream of the journal is told: each entry's number and line.
pub(super) type JournalLines = Arc<[(u64, String)]>;

/// The lines after an entry, as they were read when the journal's last entry was `last`.
#[derive(Debug)]
struct SharedLines {
    after: u64,
    last: u64,
    lines: JournalLines,
}

/// Which stream asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamTurn {
    /// It shows nothing yet, and what it is shown first is right now.
    First,
    /// It shows something.
    Later,
}

/// What a stream asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct SectionRequest<'v> {
    /// What it shows.
    pub(super) view: &'v PageView,
    /// The last entry of which it heard the notices.
    pub(super) heard_to: u64,
    pub(super) turn: StreamTurn,
    pub(super) crowd: StreamCrowd,
}

impl LiveFeed {
    /// Returns what is new for a stream.
    pub(super) fn section_news(
        &mut self,
        reader: &mut ProjectReader,
        SectionRequest { view, heard_to, turn, crowd }: SectionRequest<'_>,
    ) -> Result<SectionNews, ViewError> {
        let (last, fleet) = (reader.last_seq()?, reader.fleet_changes());
        let wants_own = (turn, crowd) == (StreamTurn::First, StreamCrowd::Few);
        let is_kept = |kept: &FeedMoment| !wants_own && !kept.is_outdated(view, last, fleet);
        let kept = self.moment.take().filter(is_kept);
        let mut moment = match kept {
            Some(kept) => kept,
            None => self.new_moment(reader, last)?,
        };
        let section = moment.section(reader, view);
        let news = SectionNews {
            waiting: moment.waiting,
            repairs: moment.repairs.clone(),
            section,
            is_behind: moment.seq != last || moment.fleet != fleet,
            notices: None,
            read_to: heard_to,
        };
        self.moment = Some(moment);
        let (said, read_to) = self.notices.after(reader, heard_to)?;
        let notices = (!said.is_empty()).then(|| serde_json::to_string(&said).unwrap_or_default());
        Ok(SectionNews { notices, read_to, ..news })
    }

    fn new_moment(
        &mut self,
        reader: &mut ProjectReader,
        seq: u64,
    ) -> Result<FeedMoment, ViewError> {
        let (made_at, fleet) = (Instant::now(), reader.fleet_changes());
        self.notices.catch_up(reader)?;
        let (waiting, repairs) =
            (reader.needs().count()?, reader.servers().repair_status()?.into());
        let cost = made_at.elapsed();
        Ok(FeedMoment { made_at, seq, fleet, cost, waiting, repairs, sections: Vec::new() })
    }

    /// Returns the journal's next lines after an entry.
    pub(super) fn lines_after(
        &mut self,
        reader: &mut ProjectReader,
        after: u64,
    ) -> Result<JournalLines, ViewError> {
        let last = reader.last_seq()?;
        if let Some(shared) = &self.lines
            && (shared.after, shared.last) == (after, last)
        {
            return Ok(shared.lines.clone());
        }
        let entries = reader.entries_after(after, BATCH)?;
        let lines: JournalLines = entries.iter().map(|entry| (entry.seq, to_line(entry))).collect();
        self.lines = Some(SharedLines { after, last, lines: lines.clone() });
        Ok(lines)
    }
}

/// What was said lately, each entry read once for all streams.
#[derive(Debug, Default)]
struct NoticeFeed {
    /// From which entry to which it was read; from nothing yet if absent.
    read: Option<ReadEntries>,
    lines: Vec<NoticeLine>,
}

#[derive(Clone, Copy, Debug)]
struct ReadEntries {
    after: u64,
    to: u64,
}

impl NoticeFeed {
    fn catch_up(&mut self, reader: &mut ProjectReader) -> Result<(), ViewError> {
        let last = reader.last_seq()?;
        let begin = last.saturating_sub(MOST_NOTICES as u64);
        // A journal that is shorter by now is another one.
        let mut read = match self.read {
            Some(read) if read.to <= last => read,
            Some(_) | None => {
                self.lines.clear();
                ReadEntries { after: begin, to: begin }
            }
        };
        while read.to < last {
            let (said, to) = reader.notices().after(read.to)?;
            if to == read.to {
                break;
            }
            self.lines.extend(said);
            read.to = to;
        }
        let excess = self.lines.len().saturating_sub(MOST_NOTICES);
        let dropped = self.lines.drain(..excess).next_back();
        if let Some(dropped) = dropped {
            read.after = dropped.seq;
            // What else was said in the same entry went with it.
            self.lines.retain(|line| line.seq > read.after);
        }
        self.read = Some(read);
        Ok(())
    }

    /// Returns what was said after an entry, and how far that goes.
    fn after(
        &self,
        reader: &mut ProjectReader,
        after: u64,
    ) -> Result<(Vec<NoticeLine>, u64), ViewError> {
        match self.read {
            Some(read) if read.after <= after => {
                let begin = self.lines.partition_point(|line| line.seq <= after);
                Ok((self.lines[begin..].to_vec(), read.to.max(after)))
            }
            // It was away for long.
            Some(_) | None => reader.notices().after(after),
        }
    }
}
