//! Pushes what changes: sections of the page as HTML, and the journal as JSON.
//!
//! A stream keeps only how far it has read; what it sends is read from the journal when the
//! client takes it, so that a slow client costs no memory. A client that comes back says in
//! `Last-Event-ID` how far it got, and goes on from there.
//!
//! **Invariant:** every entry is told once to a client that reconnects with the last id it saw.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::routing::get;
use futures_util::stream::{self, Stream, StreamExt as _};
use tokio::sync::watch;
use tokio::time::Instant;

use super::AppState;
use super::access::Visitor;
use super::live_feed::{JournalLines, SectionNews, SectionRequest, SectionText, StreamTurn};
use super::pages::{PageView, ViewQuery};
use super::problem::HttpProblem;
use super::project_handle::ProjectHandle;
use super::views::{ProjectReader, ViewError};

/// How long changes are gathered before a section is sent again.
pub(super) const GATHER: Duration = Duration::from_millis(80);

/// How long to wait when the journal is silent, or could not be read.
pub(super) const LOOK: Duration = Duration::from_secs(5);

/// How long one stream lasts; the client comes back, and shows again that it may.
pub(super) const LIFE: Duration = Duration::from_secs(30 * 60);

/// How much longer changes are gathered for each stream there is: what is sent to thousands is sent
/// less often, so that others have their turn.
const GATHER_PER_STREAM: Duration = Duration::from_micros(400);

/// The streams that are open; each holds one of these.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenStreams(Arc<()>);

impl OpenStreams {
    /// Waits until changes are gathered.
    async fn gather(&self) {
        let others = u32::try_from(Arc::strong_count(&self.0)).unwrap_or(u32::MAX);
        tokio::time::sleep(GATHER + GATHER_PER_STREAM.saturating_mul(others)).await;
    }
}

/// Returns the routes of the streams.
pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/live", get(live_home))
        .route("/live/", get(live_home))
        .route("/live/{*path}", get(live_section))
        .route("/api/events", get(journal_events))
}

async fn live_home(
    State(state): State<AppState>,
    _visitor: Visitor,
    Query(query): Query<ViewQuery>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, HttpProblem> {
    section_stream(&state, "", &query, &headers).await
}

async fn live_section(
    State(state): State<AppState>,
    _visitor: Visitor,
    Path(path): Path<String>,
    Query(query): Query<ViewQuery>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, HttpProblem> {
    section_stream(&state, &path, &query, &headers).await
}

/// Returns the id of the last event that a client saw, if it says so.
pub(super) fn last_event_id(headers: &HeaderMap) -> Option<u64> {
    headers.get("last-event-id")?.to_str().ok()?.parse().ok()
}

async fn section_stream(
    state: &AppState,
    path: &str,
    query: &ViewQuery,
    headers: &HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>> + use<>>, HttpProblem> {
    let missing = || HttpProblem::missing("there is no such section");
    let view = PageView::parse(path, query).ok_or_else(missing)?;
    let handle = state.project(query.project.as_deref())?.clone();
    let heard_to = match last_event_id(headers) {
        Some(id) => id,
        None => handle.ask(ProjectReader::last_seq).await?.map_err(ViewError::from)?,
    };
    let section = LiveSection {
        changes: handle.last_seq(),
        handle,
        view,
        heard_to,
        shown: None,
        waiting: None,
        repairs: None,
        is_behind: false,
        streams: state.streams.clone(),
        ends: Instant::now() + LIFE,
    };
    let batches = stream::unfold(section, LiveSection::next);
    let events = batches.flat_map(|batch| stream::iter(batch.into_iter().map(Ok)));
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

/// One client's section.
struct LiveSection {
    handle: ProjectHandle,
    view: PageView,
    changes: watch::Receiver<u64>,
    /// How far notices were told.
    heard_to: u64,
    /// The hash of the HTML that the client has; nothing was sent yet if absent.
    shown: Option<u64>,
    /// How many questions the client knows of.
    waiting: Option<usize>,
    /// The hash of how repairs stand, as the client knows it.
    repairs: Option<u64>,
    /// Whether the journal had more than what the client was told.
    is_behind: bool,
    streams: OpenStreams,
    ends: Instant,
}

impl LiveSection {
    /// Waits until something changed and returns what to send.
    async fn next(mut self) -> Option<(Vec<Event>, Self)> {
        loop {
            if self.shown.is_some() && !self.wait().await {
                return None;
            }
            self.changes.mark_unchanged();
            let (view, heard_to) = (self.view.clone(), self.heard_to);
            let turn = if self.shown.is_none() { StreamTurn::First } else { StreamTurn::Later };
            let news = self.handle.ask_feed(move |feed, reader, crowd| {
                feed.section_news(reader, SectionRequest { view: &view, heard_to, turn, crowd })
            });
            let Ok(Ok(news)) = news.await else {
                // The journal is busy or being mended.
                tokio::time::sleep(LOOK).await;
                continue;
            };
            let events = self.events(news);
            if !events.is_empty() {
                return Some((events, self));
            }
        }
    }

    /// Waits for a change; returns whether the stream goes on.
    async fn wait(&mut self) -> bool {
        if Instant::now() >= self.ends {
            return false;
        }
        if self.is_behind {
            self.streams.gather().await;
            return true;
        }
        tokio::select! {
            changed = self.changes.changed() => {
                if changed.is_err() {
                    return false;
                }
                self.streams.gather().await;
            }
            () = tokio::time::sleep(self.view.look()) => {}
        }
        true
    }

    fn events(&mut self, news: SectionNews) -> Vec<Event> {
        let mut events = Vec::new();
        self.is_behind = news.is_behind;
        if news.read_to > self.heard_to || self.shown.is_none() {
            self.heard_to = news.read_to;
            let name = if news.notices.is_some() { "notices" } else { "heard" };
            let notices = news.notices.as_deref().unwrap_or("[]");
            let id = news.read_to.to_string();
            events.push(Event::default().event(name).id(id).data(notices));
        }
        if self.waiting.replace(news.waiting) != Some(news.waiting) {
            events.push(Event::default().event("waiting").data(news.waiting.to_string()));
        }
        let repairs = news.repairs;
        if self.repairs.replace(repairs.hash) != Some(repairs.hash) {
            events.push(Event::default().event("repairs").data(&repairs.text));
        }
        let (name, section) = match news.section {
            SectionText::Html(html) => ("section", html),
            SectionText::Problem(problem) => ("problem", problem),
        };
        if self.shown.replace(section.hash) != Some(section.hash) {
            events.push(Event::default().event(name).data(&section.text));
        }
        events
    }
}

/// Where a client of the journal wants to begin.
#[derive(Debug, Default, serde::Deserialize)]
struct EventsQuery {
    project: Option<String>,
    after: Option<u64>,
}

async fn journal_events(
    State(state): State<AppState>,
    _visitor: Visitor,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, HttpProblem> {
    let handle = state.project(query.project.as_deref())?.clone();
    let after = match last_event_id(&headers).or(query.after) {
        Some(after) => after,
        None => handle.ask(ProjectReader::last_seq).await?.map_err(ViewError::from)?,
    };
    let changes = handle.last_seq();
    let (streams, ends) = (state.streams.clone(), Instant::now() + LIFE);
    let journal = LiveJournal { handle, changes, after, streams, ends };
    let batches = stream::unfold(journal, LiveJournal::next);
    // Many streams hold the same lines; each line is copied when its client takes it.
    let events = batches.flat_map(|lines| {
        stream::iter((0..lines.len()).filter_map(move |at| {
            let (seq, line) = lines.get(at)?;
            Some(Ok(Event::default().event("entry").id(seq.to_string()).data(line)))
        }))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

/// One client's place in the journal.
struct LiveJournal {
    handle: ProjectHandle,
    changes: watch::Receiver<u64>,
    after: u64,
    streams: OpenStreams,
    ends: Instant,
}

impl LiveJournal {
    async fn next(mut self) -> Option<(JournalLines, Self)> {
        loop {
            self.changes.mark_unchanged();
            let after = self.after;
            let read = self.handle.ask_feed(move |feed, reader, _| feed.lines_after(reader, after));
            if let Ok(Ok(lines)) = read.await
                && let Some((last, _)) = lines.last()
            {
                self.after = *last;
                return Some((lines, self));
            }
            if Instant::now() >= self.ends {
                return None;
            }
            tokio::select! {
                changed = self.changes.changed() => {
                    changed.ok()?;
                    self.streams.gather().await;
                }
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }
}
