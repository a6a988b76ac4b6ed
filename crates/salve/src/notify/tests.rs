//! What is connected to, and what is not.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use salve_core::notify::TargetAnswer;

use super::http::{Letter, send};
use super::*;

fn plan(allow_private: bool) -> NoticePlan {
    NoticePlan { hooks: Vec::new(), secrets: Vec::new(), allow_private, desktop: None }
}

fn letter(url: &str) -> Letter<'_> {
    Letter { id: "msg_1", at: Timestamp::UNIX_EPOCH, url, body: "{}" }
}

/// **Invariant:** No own address is connected to, and no target does harm.
#[test]
fn no_way_to_write_an_own_address_is_connected_to() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0.0.0.0",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
    ] {
        let url = format!("http://{host}:{port}/hook");
        let sent = send(&letter(&url), &plan(false));
        // Some of them are not even names to this system's resolver.
        let refused = sent.answer == TargetAnswer::Forbidden || sent.why == "there is no such host";
        assert!(refused || sent.why.starts_with("it could not be reached"), "{host}: {sent:?}");
        let told = listener.accept().map(drop).unwrap_err();
        assert_eq!(told.kind(), std::io::ErrorKind::WouldBlock, "{host} was connected to");
    }
    let sent = send(&letter(&format!("http://127.0.0.1:{port}/")), &plan(false));
    assert_eq!(sent.answer, TargetAnswer::Forbidden);
    assert!(sent.why.contains("webhooks.allow_private"), "{}", sent.why);
}

/// Answers one request with `answer` and returns what was asked.
fn target(answer: &'static str) -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook?a=b", listener.local_addr().unwrap());
    let serve = move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut asked, mut chunk) = (Vec::new(), [0; 4096]);
        while !asked.ends_with(b"{}") {
            let read = stream.read(&mut chunk).unwrap();
            assert!(read > 0, "the request breaks off");
            asked.extend_from_slice(&chunk[..read]);
        }
        stream.write_all(answer.as_bytes()).unwrap();
        String::from_utf8(asked).unwrap()
    };
    (url, std::thread::spawn(serve))
}

#[test]
fn a_letter_has_its_headers_and_an_answer_is_understood() {
    let (url, asked) = target("HTTP/1.1 204 No Content\r\n\r\n");
    let secret: Secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3".parse().unwrap();
    let signed = NoticePlan { secrets: vec![secret], ..plan(true) };
    let sent = send(&letter(&url), &signed);
    assert_eq!(sent.answer, TargetAnswer::Status { code: 204, retry_after: None });
    let asked = asked.join().unwrap().to_lowercase();
    for want in [
        "post /hook?a=b http/1.1",
        "webhook-id: msg_1",
        "webhook-timestamp: 0\r\n",
        "webhook-signature: v1,",
        "content-type: application/json",
    ] {
        assert!(asked.contains(want), "{want}: {asked}");
    }
    for (answer, code, seconds) in [
        ("HTTP/1.1 503 Busy\r\nRetry-After: 7\r\ncontent-length: 0\r\n\r\n", 503, Some(7)),
        ("HTTP/1.1 429 Slow\r\nRetry-After: Thu, 01 Jan 1970 00:02:00 GMT\r\n\r\n", 429, Some(120)),
        ("HTTP/1.1 302 There\r\nLocation: http://127.0.0.1:1/\r\n\r\n", 302, None),
        ("HTTP/1.1 410 Gone\r\n\r\n", 410, None),
    ] {
        let (url, asked) = target(answer);
        let sent = send(&letter(&url), &plan(true));
        let retry_after = seconds.map(Duration::from_secs);
        assert_eq!(sent.answer, TargetAnswer::Status { code, retry_after }, "{answer}");
        let asked = asked.join().unwrap();
        assert!(!asked.contains("webhook-signature"), "there is no secret to sign with");
    }
}
