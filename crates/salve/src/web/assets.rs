//! What the browser loads once: the page's frame, its script and its style, all in the binary.
//!
//! The frame holds no data: a browser cannot show a token when it loads a page, so everybody on
//! this machine may load the frame, and the script fetches the rest with the token.

use axum::Router;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use maud::{DOCTYPE, Markup, html};

use super::AppState;

const SCRIPT: &str = include_str!("assets/page.js");
const ANSWER_SCRIPT: &str = include_str!("assets/answer.js");
/// The one style sheet.
pub(super) const STYLE: &str = include_str!("assets/page.css");

/// A small ointment jar, drawn.
const ICON: &str = include_str!("assets/icon.svg");

/// The sections, in the order of the keys that lead to them.
const SECTIONS: [(&str, &str); 8] = [
    ("/", "Now"),
    ("/needs-you", "Needs you"),
    ("/incidents", "Incidents"),
    ("/jobs", "Jobs"),
    ("/logs", "Logs"),
    ("/memory", "Memory"),
    ("/statistics", "Statistics"),
    ("/settings", "Settings"),
];

/// Returns the routes of the frame and what it loads.
pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/", get(frame))
        .route("/needs-you", get(frame))
        .route("/incidents", get(frame))
        .route("/incidents/{id}", get(frame))
        .route("/memory", get(frame))
        .route("/statistics", get(frame))
        .route("/logs", get(frame))
        .route("/jobs", get(frame))
        .route("/settings", get(frame))
        .route("/answer", get(answer_frame))
        .route("/assets/answer.js", get(answer_script))
        .route("/assets/page.js", get(script))
        .route("/assets/page.css", get(style))
        .route("/assets/icon.svg", get(icon))
}

async fn script(headers: HeaderMap) -> Response {
    asset(&headers, "text/javascript; charset=utf-8", SCRIPT)
}

async fn answer_script(headers: HeaderMap) -> Response {
    asset(&headers, "text/javascript; charset=utf-8", ANSWER_SCRIPT)
}

async fn style(headers: HeaderMap) -> Response {
    asset(&headers, "text/css; charset=utf-8", STYLE)
}

async fn icon(headers: HeaderMap) -> Response {
    asset(&headers, "image/svg+xml", ICON)
}

/// Answers with an asset, or with 304 where the browser has this version already.
fn asset(headers: &HeaderMap, kind: &'static str, text: &'static str) -> Response {
    let tag = salve_core::event::Digest::of(&[text.as_bytes()]).to_string();
    let tag = format!("\"{}\"", tag.chars().take(16).collect::<String>());
    let is_known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| *known == *tag);
    let mut response =
        if is_known { StatusCode::NOT_MODIFIED.into_response() } else { text.into_response() };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}

async fn frame() -> Response {
    html_document(page_frame())
}

async fn answer_frame() -> Response {
    html_document(answer_page())
}

fn html_document(markup: Markup) -> Response {
    let mut response = markup.into_string().into_response();
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, html);
    response
}

/// Where one question is answered by whoever holds its code; the code stays behind the `#`.
fn answer_page() -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Salve needs you" }
                link rel="icon" href="/assets/icon.svg";
                link rel="stylesheet" href="/assets/page.css";
                script type="module" src="/assets/answer.js" {}
            }
            body {
                header.top { span.brand { "Salve" } }
                main #main { p.dim { "Loading…" } }
                noscript { p { "This page needs its script." } }
            }
        }
    }
}

fn page_frame() -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Salve" }
                link rel="icon" href="/assets/icon.svg";
                link rel="stylesheet" href="/assets/page.css";
                script type="module" src="/assets/page.js" {}
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                header.top {
                    a.brand href="/" { "Salve" }
                    nav aria-label="sections" {
                        @for (path, name) in SECTIONS { a href=(path) { (name) } }
                    }
                    label.project hidden { span.sr { "Project" } select id="project" {} }
                    button #help-button type="button" aria-label="keyboard shortcuts" { "?" }
                }
                p #connection role="status" hidden {}
                main #main tabindex="-1" { p.dim { "Loading…" } }
                div #toasts role="log" aria-live="polite" aria-label="notices" {}
                (help_dialog())
                noscript { p { "This page needs its script. " code { "salve status" } " shows the same in a terminal." } }
            }
        }
    }
}

fn help_dialog() -> Markup {
    html! {
        dialog #help aria-labelledby="help-title" {
            h2 #help-title { "Keyboard" }
            dl {
                @for (key, what) in [
                    ("1 … 8", "the sections, from Now to Settings"), ("j k", "next, previous"), ("Enter", "open"),
                    ("a r s", "to Approve, Reject, Settled of the question; Enter then answers"),
                    ("/", "search"), ("?", "this help"), ("Esc", "close"),
                ] { dt { kbd { (key) } } dd { (what) } }
            }
            form method="dialog" { button { "Close" } }
        }
    }
}
