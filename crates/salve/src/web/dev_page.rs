//! What a page of a server under care may do that includes `/salve.js`: report its own failures,
//! and hear how its server is repaired.
//!
//! Such a page is of another origin and has no token. What counts is where the browser says that
//! it comes from: only the very address at which a server under care answers is let in, and it
//! reaches nothing but these routes. A page that does not include the script is untouched.
//!
//! **Invariant:** a page elsewhere neither writes a report nor reads a line.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use futures_util::stream::{self, StreamExt as _};
use salve_core::event::{PageFailure, PageFailureWay};
use salve_core::scrub::{Scrubbed, Scrubber};
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::Instant;

use super::live::{GATHER, LIFE, LOOK, last_event_id};
use super::problem::HttpProblem;
use super::project_handle::ProjectHandle;
use super::views::{NoticeLine, ViewError};
use super::{AppState, security};

pub(super) const SCRIPT_PATH: &str = "/salve.js";

/// What the paths begin with that only the script asks for.
pub(super) const PREFIX: &str = "/dev-page/";

const SCRIPT: &str = include_str!("assets/salve.js");

/// How many reports a server's pages may make in [`REPORT_SPAN`].
const MOST_REPORTS: u32 = 30;

/// How long reports are counted together.
const REPORT_SPAN: Duration = Duration::from_secs(60);

/// How much of each text of a report is kept, in characters.
const KEPT: usize = 600;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route(SCRIPT_PATH, get(script))
        .route("/dev-page/report", post(report))
        .route("/dev-page/stream", get(notices))
        .layer(security::body_limit())
}

/// How many reports came lately, by the address of the pages that sent them.
///
/// Only addresses of servers under care come in, so there are few.
#[derive(Debug, Default)]
pub(super) struct ReportBudget(Mutex<BTreeMap<String, ReportCount>>);

#[derive(Debug)]
struct ReportCount {
    since: Instant,
    count: u32,
}

impl ReportBudget {
    /// Counts one more report and tells whether it is taken.
    fn takes(&self, origin: &str, now: Instant) -> bool {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = ReportCount { since: now, count: 0 };
        let counted = counts.entry(origin.to_owned()).or_insert(fresh);
        if now.duration_since(counted.since) >= REPORT_SPAN {
            *counted = ReportCount { since: now, count: 0 };
        }
        counted.count = counted.count.saturating_add(1);
        counted.count <= MOST_REPORTS
    }
}

async fn script() -> Response {
    let mut response = SCRIPT.into_response();
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("text/javascript; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, kind);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // It holds no data, and any page may load a script.
    let policy = HeaderName::from_static("cross-origin-resource-policy");
    headers.insert(policy, HeaderValue::from_static("cross-origin"));
    response
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PageReport {
    way: PageFailureWay,
    message: String,
    place: Option<String>,
    page: String,
}

impl PageReport {
    fn into_failure(self, server: &str, scrubber: &Scrubber) -> PageFailure {
        let keep = |text: &str| -> Scrubbed {
            let text: String = text.chars().take(KEPT).collect();
            scrubber.scrub(text.trim())
        };
        PageFailure {
            server: scrubber.scrub(server),
            way: self.way,
            message: keep(&self.message),
            place: self.place.as_deref().map(keep),
            page: keep(&self.page),
        }
    }
}

async fn report(
    State(state): State<AppState>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<StatusCode, HttpProblem> {
    let page = DevPage::of(&state, &headers).await?;
    if !state.reports.takes(&page.origin, Instant::now()) {
        let detail = "this page has reported enough for now";
        return Err(HttpProblem::new(StatusCode::TOO_MANY_REQUESTS, detail));
    }
    let report: PageReport = serde_json::from_slice(&body)
        .map_err(|error| HttpProblem::bad_request(error.to_string()))?;
    let DevPage { handle, server, .. } = page;
    let kept = handle.ask(move |reader| {
        let failure = report.into_failure(&server, reader.scrubber());
        reader.servers().keep_page_failure(failure)
    });
    kept.await??;
    Ok(StatusCode::NO_CONTENT)
}

/// A page of a server under care.
#[derive(Debug)]
struct DevPage {
    origin: String,
    handle: ProjectHandle,
    server: String,
}

impl DevPage {
    /// Returns the page that a request comes from, if its origin is a server under care.
    async fn of(state: &AppState, headers: &HeaderMap) -> Result<Self, HttpProblem> {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let origin = match (origins.next(), origins.next()) {
            (Some(only), None) => only.to_str().unwrap_or_default().to_owned(),
            _ => String::new(),
        };
        for handle in &*state.projects {
            let servers = handle.ask(|reader| reader.servers().list()).await??;
            let mut addresses =
                servers.iter().filter_map(|server| Some((server, server.url.as_deref()?)));
            if let Some((server, _)) = addresses.find(|(_, url)| is_page_of(&origin, url)) {
                let server = server.server.clone();
                return Ok(Self { origin, handle: handle.clone(), server });
            }
        }
        let detail = "only pages of servers under care may ask for this";
        Err(HttpProblem::new(StatusCode::FORBIDDEN, detail))
    }
}

/// Tells whether pages of an origin are those that a server gives at an address; the names of this
/// machine mean the same.
fn is_page_of(origin: &str, url: &str) -> bool {
    let place = |text: &str| -> Option<String> {
        let (scheme, rest) = text.split_once("://")?;
        let authority = rest.split(['/', '?', '#']).next()?;
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => (host, port),
            _ => (authority, if scheme == "https" { "443" } else { "80" }),
        };
        let host = match host {
            "localhost" | "127.0.0.1" | "[::1]" | "0.0.0.0" | "[::]" => "localhost",
            other => other,
        };
        Some(format!("{scheme}://{host}:{port}").to_ascii_lowercase())
    };
    let is_bare = !origin.contains(['@', ' ']) && origin.matches('/').count() == 2;
    is_bare && place(origin).is_some_and(|origin| place(url).as_ref() == Some(&origin))
}

async fn notices(
    State(state): State<AppState>,
    headers: HeaderMap,
) -> Result<Response, HttpProblem> {
    let page = DevPage::of(&state, &headers).await?;
    let heard_to = match last_event_id(&headers) {
        Some(id) => id,
        None => page
            .handle
            .ask(super::views::ProjectReader::last_seq)
            .await?
            .map_err(ViewError::from)?,
    };
    let allowed = HeaderValue::from_str(&page.origin);
    let changes = page.handle.last_seq();
    let ears = DevPageEars { page, changes, heard_to, told: None, ends: Instant::now() + LIFE };
    let batches = stream::unfold(ears, DevPageEars::next);
    let events = batches.flat_map(|batch| stream::iter(batch.into_iter().map(Ok::<_, Infallible>)));
    let mut response = Sse::new(events).keep_alive(KeepAlive::default()).into_response();
    if let Ok(allowed) = allowed {
        // The one answer that another origin may read: that of the server it is about.
        response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
        response.headers_mut().insert(header::VARY, HeaderValue::from_static("origin"));
        let policy = HeaderName::from_static("cross-origin-resource-policy");
        response.headers_mut().insert(policy, HeaderValue::from_static("cross-origin"));
    }
    Ok(response)
}

/// How far one dev page has heard.
struct DevPageEars {
    page: DevPage,
    changes: watch::Receiver<u64>,
    heard_to: u64,
    /// How repairs stood when the page was told last.
    told: Option<String>,
    ends: Instant,
}

impl DevPageEars {
    /// Waits until there is something to tell.
    async fn next(mut self) -> Option<(Vec<Event>, Self)> {
        loop {
            self.changes.mark_unchanged();
            let after = self.heard_to;
            let read = self.page.handle.ask(move |reader| {
                let (notices, read_to) = reader.notices().after(after)?;
                Ok::<_, ViewError>((notices, read_to, reader.servers().repair_status()?))
            });
            if let Ok(Ok((notices, read_to, repairs))) = read.await {
                let events = self.events(&notices, read_to, repairs);
                if !events.is_empty() {
                    return Some((events, self));
                }
            }
            if Instant::now() >= self.ends {
                return None;
            }
            tokio::select! {
                changed = self.changes.changed() => {
                    changed.ok()?;
                    tokio::time::sleep(GATHER).await;
                }
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    fn events(&mut self, notices: &[NoticeLine], read_to: u64, repairs: String) -> Vec<Event> {
        let mut events = Vec::new();
        self.heard_to = read_to;
        for notice in notices.iter().filter(|notice| notice.name == self.page.server) {
            let told = serde_json::json!({ "phase": notice.phase, "message": notice.message });
            let id = notice.seq.to_string();
            events.push(Event::default().event("notice").id(id).data(told.to_string()));
        }
        if self.told.as_ref() != Some(&repairs) {
            events.push(Event::default().event("repairs").data(&repairs));
            self.told = Some(repairs);
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_address_of_a_server_is_its_pages_origin() {
        for (origin, url, want) in [
            ("http://localhost:5173", "http://localhost:5173/", true),
            ("http://127.0.0.1:5173", "http://localhost:5173/app", true),
            ("http://[::1]:5173", "http://127.0.0.1:5173/", true),
            ("http://LOCALHOST:5173", "http://localhost:5173", true),
            ("https://shop.test", "https://shop.test:443/", true),
            ("http://localhost:5174", "http://localhost:5173/", false),
            ("https://localhost:5173", "http://localhost:5173/", false),
            ("http://localhost:5173.evil.example", "http://localhost:5173/", false),
            ("http://evil.example:5173", "http://localhost:5173/", false),
            ("http://evil@localhost:5173", "http://localhost:5173/", false),
            ("http://localhost:5173/", "http://localhost:5173/", false),
            ("null", "http://localhost:5173/", false),
            ("", "http://localhost:5173/", false),
        ] {
            assert_eq!(is_page_of(origin, url), want, "{origin} {url}");
        }
    }

    #[test]
    fn a_page_that_reports_on_and_on_is_not_listened_to_for_a_while() {
        let (budget, now) = (ReportBudget::default(), Instant::now());
        let taken = (0..100).filter(|_| budget.takes("http://localhost:1", now)).count();
        assert_eq!(taken, MOST_REPORTS as usize);
        assert!(budget.takes("http://localhost:2", now), "another page's reports count apart");
        assert!(budget.takes("http://localhost:1", now + REPORT_SPAN));
    }
}
