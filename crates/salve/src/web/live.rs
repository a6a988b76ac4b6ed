//! Pushes what changes: sections of the page as HTML, and the journal as JSON.
//!
//! A stream keeps only how far it has read; what it sends is read from the journal when the
//! client takes it, so that a slow client costs no memory. A client that comes back says in
//! `Last-Event-ID` how far it got, and goes on from there.
//!
//! **Invariant:** every entry is told once to a client that reconnects with the last id it saw.

use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::routing::get;
use futures_util::stream::{self, Stream, StreamExt as _};
use salve_core::event::Entry;
use tokio::sync::watch;
use tokio::time::Instant;

use super::AppState;
use super::access::Visitor;
use super::pages::{PageView, ViewQuery};
use super::problem::HttpProblem;
use super::project_handle::ProjectHandle;
use super::views::{ProjectReader, ViewError};
use crate::store::to_line;

/// How long changes are gathered before a section is sent again.
pub(super) const GATHER: Duration = Duration::from_millis(80);

/// How long to wait when the journal is silent, or could not be read.
pub(super) const LOOK: Duration = Duration::from_secs(5);

/// How long one stream lasts; the client comes back, and shows again that it may.
pub(super) const LIFE: Duration = Duration::from_secs(30 * 60);

/// How many entries are sent at once.
const BATCH: usize = 500;

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
    ends: Instant,
}

/// What is new for one client.
struct SectionNews {
    notices: String,
    has_notices: bool,
    read_to: u64,
    waiting: usize,
    repairs: String,
    html: Result<String, ViewError>,
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
            let Ok(Ok(news)) =
                self.handle.ask(move |reader| section_news(reader, &view, heard_to)).await
            else {
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
        tokio::select! {
            changed = self.changes.changed() => {
                if changed.is_err() {
                    return false;
                }
                tokio::time::sleep(GATHER).await;
            }
            () = tokio::time::sleep(self.view.look()) => {}
        }
        true
    }

    fn events(&mut self, news: SectionNews) -> Vec<Event> {
        let mut events = Vec::new();
        if news.read_to > self.heard_to || self.shown.is_none() {
            self.heard_to = news.read_to;
            let name = if news.has_notices { "notices" } else { "heard" };
            let id = news.read_to.to_string();
            events.push(Event::default().event(name).id(id).data(news.notices));
        }
        if self.waiting.replace(news.waiting) != Some(news.waiting) {
            events.push(Event::default().event("waiting").data(news.waiting.to_string()));
        }
        let repairs = hash_of(&news.repairs);
        if self.repairs.replace(repairs) != Some(repairs) {
            events.push(Event::default().event("repairs").data(news.repairs));
        }
        let (name, data) = match news.html {
            Ok(html) => ("section", html),
            Err(error) => ("problem", error.to_string()),
        };
        let hash = hash_of(&(name, &data));
        if self.shown != Some(hash) {
            self.shown = Some(hash);
            events.push(Event::default().event(name).data(data));
        }
        events
    }
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn section_news(
    reader: &mut ProjectReader,
    view: &PageView,
    heard_to: u64,
) -> Result<SectionNews, ViewError> {
    let (notices, read_to) = reader.notices_after(heard_to)?;
    Ok(SectionNews {
        has_notices: !notices.is_empty(),
        notices: serde_json::to_string(&notices).unwrap_or_default(),
        read_to,
        waiting: reader.waiting()?,
        repairs: reader.repair_status()?,
        html: view.render(reader).map(|html| html.into_string()),
    })
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
    let journal = LiveJournal { handle, changes, after, ends: Instant::now() + LIFE };
    let batches = stream::unfold(journal, LiveJournal::next);
    let events = batches.flat_map(|batch| stream::iter(batch.into_iter().map(Ok)));
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

/// One client's place in the journal.
struct LiveJournal {
    handle: ProjectHandle,
    changes: watch::Receiver<u64>,
    after: u64,
    ends: Instant,
}

impl LiveJournal {
    async fn next(mut self) -> Option<(Vec<Event>, Self)> {
        loop {
            self.changes.mark_unchanged();
            let after = self.after;
            let read = self.handle.ask(move |reader| reader.entries_after(after, BATCH)).await;
            if let Ok(Ok(entries)) = read
                && let Some(last) = entries.last()
            {
                self.after = last.seq;
                let event = |entry: &Entry| {
                    let seq = entry.seq.to_string();
                    Event::default().event("entry").id(seq).data(to_line(entry))
                };
                return Some((entries.iter().map(event).collect(), self));
            }
            if Instant::now() >= self.ends {
                return None;
            }
            tokio::select! {
                changed = self.changes.changed() => changed.ok()?,
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }
}
