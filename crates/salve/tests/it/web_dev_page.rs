//! A dev page that includes `/salve.js`: what it reports reaches people and agents, and pages
//! elsewhere reach nothing.

use salve_core::event::{Event, ProcessExit, RemedyKind, RemedyVerdict, ServerEvent};
use salve_core::scrub::Scrubbed;
use serde_json::{Value, json};

use crate::care::Care;
use crate::support::Project;
use crate::web::{Answer, Page};

const DEV_PAGE: &str = "http://localhost:5173";

/// Says in the journal that the server `web` answers at [`DEV_PAGE`].
fn serve_dev_page(care: &Care) {
    let server = || Scrubbed::literal("web");
    let (command, run) = (Scrubbed::literal("npm run dev"), Scrubbed::literal("run"));
    let process = care.me.clone();
    let url = Some(Scrubbed::literal("http://127.0.0.1:5173/"));
    care.write_beside(Event::Server(ServerEvent::Started {
        server: server(),
        process,
        command,
        run,
    }));
    care.write_beside(Event::Server(ServerEvent::Up { server: server(), url }));
}

fn report(page: &Page, origin: &str, body: &str) -> Answer {
    let (host, length) = (&page.host, body.len());
    page.raw(
        format!(
            "POST /dev-page/report HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\
             origin: {origin}\r\nsec-fetch-site: cross-site\r\nsec-fetch-mode: no-cors\r\n\
             content-type: text/plain;charset=UTF-8\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .as_bytes(),
    )
}

fn failure(message: &str) -> String {
    let place = "/src/cart.js:12:7";
    json!({ "way": "uncaught", "message": message, "place": place, "page": "/cart" }).to_string()
}

/// Returns what `canvas_get_errors` tells an agent of pages.
fn browser_errors(page: &Page, token: &str) -> Vec<Value> {
    let status = page.get("/api/status", token).json();
    status["browserErrors"].as_array().unwrap().clone()
}

#[test]
fn what_fails_in_a_dev_page_reaches_people_and_agents_without_its_secrets() {
    let project = Project::new();
    let care = Care::crashed(&project, 1 << 96);
    serve_dev_page(&care);
    let page = Page::of(&project);
    let session = page.sign_in();
    let script = page.get("/salve.js", "");
    assert_eq!(script.status, 200);
    assert!(script.head.contains("cross-origin-resource-policy: cross-origin"), "{script:?}");
    let secret = "token ghp_16C7e42F292c6912E7710c838347Ae178B4a is refused";
    for _ in 0..2 {
        assert_eq!(report(&page, DEV_PAGE, &failure(secret)).status, 204);
    }
    let told = browser_errors(&page, &session);
    assert_eq!(told.len(), 1, "equal reports are one: {told:?}");
    assert_eq!((&told[0]["server"], &told[0]["count"]), (&json!("web"), &json!(2)));
    assert_eq!(told[0]["place"], "/src/cart.js:12:7");
    assert!(!told[0].to_string().contains("ghp_16C7"), "{told:?}");
    let mut live = page.stream("/live/", &session, None);
    live.until("section", "/src/cart.js:12:7");
    let exit = ProcessExit::Code(1);
    let server = || Scrubbed::literal("web");
    care.write_beside(Event::Server(ServerEvent::Stopped { server: server(), exit }));
    serve_dev_page(&care);
    assert!(browser_errors(&page, &session).is_empty(), "the server was started again");
}

/// **Invariant:** Pages elsewhere neither report nor read.
#[test]
fn a_page_elsewhere_neither_reports_nor_hears() {
    let project = Project::new();
    let care = Care::crashed(&project, 2 << 96);
    serve_dev_page(&care);
    let page = Page::of(&project);
    let session = page.sign_in();
    for origin in ["http://evil.example", "http://localhost:5174", "null", "https://localhost:5173"]
    {
        assert_eq!(report(&page, origin, &failure("x")).status, 403, "{origin}");
        let host = &page.host;
        let heard = page.raw(
            format!("GET /dev-page/stream HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\norigin: {origin}\r\n\r\n")
                .as_bytes(),
        );
        assert_eq!(heard.status, 403, "{origin}");
        assert!(!heard.head.contains("access-control-allow-origin"), "{heard:?}");
    }
    assert!(browser_errors(&page, &session).is_empty());
    assert_eq!(report(&page, DEV_PAGE, "no JSON").status, 400);
    let odd = json!({ "way": "uncaught", "message": "x", "page": "/", "extra": 1 });
    assert_eq!(report(&page, DEV_PAGE, &odd.to_string()).status, 400);
    let taken = (0..60).filter(|n| report(&page, DEV_PAGE, &failure(&n.to_string())).status == 204);
    assert!(taken.count() <= 30, "a page that reports on and on is not listened to");
}

#[test]
fn a_dev_page_hears_how_its_own_server_is_repaired() {
    let project = Project::new();
    let care = Care::crashed(&project, 3 << 96);
    serve_dev_page(&care);
    let page = Page::of(&project);
    let mut stream = page.stream_of("/dev-page/stream", &format!("origin: {DEV_PAGE}\r\n"));
    let repairs = stream.until("repairs", "activeRepairs");
    let status: Value = serde_json::from_str(&repairs.data).unwrap();
    assert_eq!(status["activeRepairs"][0]["server"], "web");
    care.choose(RemedyKind::Command, "make clean", RemedyVerdict::Ask);
    care.act();
    stream.until("notice", "failed_requires_human");
}
