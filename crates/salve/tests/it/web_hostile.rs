//! Requests that no page of ours and no honest script would send are refused by the real server.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::support::Project;
use crate::web::Page;

/// **Invariant:** Hostile requests are refused.
#[test]
#[expect(clippy::too_many_lines, reason = "a table: one row for each hostile request")]
fn hostile_requests_are_refused() {
    let project = Project::new();
    let page = Page::of(&project);
    let session = page.sign_in();
    let host = page.host.clone();
    let port = host.rsplit(':').next().unwrap().to_owned();
    let good = format!("host: {host}\r\nauthorization: Bearer {session}\r\n");
    let large = "a".repeat(70_000);
    let rows: Vec<(&str, String, &[u16])> = vec![
        ("another name", format!("GET / HTTP/1.1\r\nhost: evil.example:{port}\r\n"), &[421]),
        ("a name without port", "GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n".into(), &[421]),
        ("no name", "GET / HTTP/1.1\r\n".into(), &[400, 421]),
        (
            "two names",
            format!("GET / HTTP/1.1\r\nhost: {host}\r\nhost: evil.example\r\n"),
            &[400, 421],
        ),
        (
            "another authority",
            format!("GET http://evil.example/ HTTP/1.1\r\nhost: {host}\r\n"),
            &[400, 421],
        ),
        (
            "another origin",
            format!("GET /api/status HTTP/1.1\r\n{good}origin: http://evil.example\r\n"),
            &[403],
        ),
        ("no origin at all", format!("GET /api/status HTTP/1.1\r\n{good}origin: null\r\n"), &[403]),
        (
            "another port's page",
            format!("GET /api/status HTTP/1.1\r\n{good}origin: http://127.0.0.1:1\r\n"),
            &[403],
        ),
        (
            "a page elsewhere",
            format!("GET /api/status HTTP/1.1\r\n{good}sec-fetch-site: cross-site\r\n"),
            &[403],
        ),
        (
            "a frame elsewhere",
            format!(
                "GET / HTTP/1.1\r\n{good}sec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\nsec-fetch-dest: iframe\r\n"
            ),
            &[403],
        ),
        (
            "a preflight",
            format!(
                "OPTIONS /api/status HTTP/1.1\r\n{good}origin: http://evil.example\r\naccess-control-request-method: POST\r\n"
            ),
            &[403, 405],
        ),
        ("a method", format!("DELETE /api/status HTTP/1.1\r\n{good}"), &[405]),
        ("a trace", format!("TRACE / HTTP/1.1\r\n{good}"), &[405]),
        ("a tunnel", format!("CONNECT evil.example:80 HTTP/1.1\r\n{good}"), &[400, 405, 421]),
        (
            "a form",
            format!(
                "POST /api/session HTTP/1.1\r\n{good}content-type: application/x-www-form-urlencoded\r\ncontent-length: 0\r\n"
            ),
            &[415],
        ),
        (
            "plain text",
            format!(
                "POST /api/session HTTP/1.1\r\n{good}content-type: text/plain\r\ncontent-length: 0\r\n"
            ),
            &[415],
        ),
        (
            "a large body",
            format!(
                "POST /api/session HTTP/1.1\r\n{good}content-type: application/json\r\ncontent-length: 70000\r\n\r\n{large}"
            ),
            &[413],
        ),
        (
            "a large body in chunks",
            format!(
                "POST /api/session HTTP/1.1\r\n{good}content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n11170\r\n{large}\r\n0\r\n"
            ),
            &[413],
        ),
        ("a long address", format!("GET /{} HTTP/1.1\r\n{good}", "a".repeat(6000)), &[414]),
        ("a long head", format!("GET / HTTP/1.1\r\n{good}x: {}\r\n", "a".repeat(60_000)), &[431]),
        ("a way up", format!("GET /assets/../../etc/passwd HTTP/1.1\r\n{good}"), &[400]),
        ("a hidden way up", format!("GET /assets/%2e%2e%2fetc/passwd HTTP/1.1\r\n{good}"), &[400]),
        (
            "two lengths",
            format!(
                "POST /api/session HTTP/1.1\r\n{good}content-type: application/json\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd"
            ),
            &[400],
        ),
        (
            "a length and chunks",
            format!(
                "POST /api/session HTTP/1.1\r\n{good}content-type: application/json\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n"
            ),
            &[400, 401],
        ),
        ("no HTTP", "hello\r\n".into(), &[0, 400]),
        (
            "a wrong token",
            format!(
                "GET /api/status HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {}\r\n",
                "0".repeat(64)
            ),
            &[401],
        ),
        (
            "a token in the address",
            format!("GET /api/status?token={session} HTTP/1.1\r\nhost: {host}\r\n"),
            &[401],
        ),
        (
            "a token as a cookie",
            format!("GET /api/status HTTP/1.1\r\nhost: {host}\r\ncookie: token={session}\r\n"),
            &[401],
        ),
        (
            "a project elsewhere",
            format!("GET /api/status?project=../../etc HTTP/1.1\r\n{good}"),
            &[404],
        ),
        ("a stream from nowhere", format!("GET /live/../../etc HTTP/1.1\r\n{good}"), &[400]),
        ("a section that is none", format!("GET /live/etc HTTP/1.1\r\n{good}"), &[404]),
    ];
    for (what, head, want) in rows {
        let answer = page.raw(format!("{head}connection: close\r\n\r\n").as_bytes());
        assert!(want.contains(&answer.status), "{what}: {answer:?}");
        assert!(!answer.head.contains("access-control-"), "{what}: {answer:?}");
        assert!(!answer.body.contains("root:"), "{what}: {answer:?}");
    }
    assert_eq!(page.get("/healthz", "").status, 200, "it still answers");
}

#[test]
fn a_smuggled_request_is_not_answered() {
    let project = Project::new();
    let page = Page::of(&project);
    let host = &page.host;
    let inner = format!("GET /healthz HTTP/1.1\r\nhost: {host}\r\n\r\n");
    let request = format!(
        "POST /api/session HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n\
         connection: close\r\ncontent-length: {}\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{inner}",
        inner.len() + 5
    );
    let answer = page.raw(request.as_bytes());
    assert!(!answer.body.contains("ok\n"), "{answer:?}");
    assert!(!answer.body.contains("HTTP/1.1 200"), "{answer:?}");
}

#[test]
fn clients_that_say_nothing_do_not_keep_others_waiting() {
    let project = Project::new();
    let page = Page::of(&project);
    let session = page.sign_in();
    let idle: Vec<TcpStream> = (0..200)
        .map(|at| {
            let mut stream = TcpStream::connect(&page.host).unwrap();
            if at % 2 == 0 {
                stream.write_all(b"GET / HT").unwrap();
            }
            stream
        })
        .collect();
    assert_eq!(page.get("/api/status", &session).status, 200);
    let mut first = &idle[0];
    first.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut rest = Vec::new();
    // It is dropped after a while, with or without a word.
    let _ = first.read_to_end(&mut rest);
    assert_eq!(page.get("/api/status", &session).status, 200);
}
