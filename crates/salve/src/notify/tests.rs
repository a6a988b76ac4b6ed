//! What is connected to, and what is not.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use salve_core::notify::{NoticeMessage, TargetAnswer};

use super::http::{Letter, Sent, send};
use super::*;

fn plan(allow_private: bool) -> NoticePlan {
    NoticePlan {
        hooks: Vec::new(),
        secrets: Vec::new(),
        allow_private,
        desktop: None,
        pop_ups: Vec::new(),
        quiet: None,
        page: None,
    }
}

/// Sends a message that says nothing else to `url`.
fn send_test(url: &str, plan: &NoticePlan) -> Sent {
    let message = NoticeMessage::test(Timestamp::UNIX_EPOCH, "shop");
    let letter = Letter { id: "msg_1", at: Timestamp::UNIX_EPOCH, url, message: &message };
    send(&letter, plan, &crate::scrub::scrubber())
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
        let sent = send_test(&url, &plan(false));
        // Some of them are not even names to this system's resolver.
        let refused = sent.answer == TargetAnswer::Forbidden || sent.why == "there is no such host";
        assert!(refused || sent.why.starts_with("it could not be reached"), "{host}: {sent:?}");
        let told = listener.accept().map(drop).unwrap_err();
        assert_eq!(told.kind(), std::io::ErrorKind::WouldBlock, "{host} was connected to");
    }
    let sent = send_test(&format!("http://127.0.0.1:{port}/"), &plan(false));
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
        while !is_whole(&asked) {
            let read = stream.read(&mut chunk).unwrap();
            assert!(read > 0, "the request breaks off");
            asked.extend_from_slice(&chunk[..read]);
        }
        stream.write_all(answer.as_bytes()).unwrap();
        String::from_utf8(asked).unwrap()
    };
    (url, std::thread::spawn(serve))
}

/// Tells whether a request has all of the body that it announces.
fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length
        .and_then(|length| length.trim().parse().ok())
        .is_some_and(|length: usize| body.len() >= length)
}

#[test]
fn an_ntfy_topic_gets_a_text_and_no_json() {
    let (url, asked) = target("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let sent = send_test(&format!("ntfy+{url}"), &plan(true));
    assert_eq!(sent.answer, TargetAnswer::Status { code: 200, retry_after: None });
    let asked = asked.join().unwrap();
    assert!(asked.to_lowercase().contains("title: shop\r\n"), "{asked}");
    assert!(asked.ends_with("\r\n\r\nSalve's notices arrive here."), "{asked}");
}

#[test]
fn a_letter_has_its_headers_and_an_answer_is_understood() {
    let (url, asked) = target("HTTP/1.1 204 No Content\r\n\r\n");
    let secret: Secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3".parse().unwrap();
    let signed = NoticePlan { secrets: vec![secret], ..plan(true) };
    let sent = send_test(&url, &signed);
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
        let sent = send_test(&url, &plan(true));
        let retry_after = seconds.map(Duration::from_secs);
        assert_eq!(sent.answer, TargetAnswer::Status { code, retry_after }, "{answer}");
        let asked = asked.join().unwrap();
        assert!(!asked.contains("webhook-signature"), "there is no secret to sign with");
    }
}

/// A way of telling people is one of the plan's channels, each with its own word.
#[test]
fn every_way_of_telling_is_a_channel_of_the_plan() {
    assert!(plan(false).channels().is_empty(), "nobody is told");
    let hooks = vec![(NoticeMoment::Escalation, "http://127.0.0.1:9/".to_owned())];
    let desktop = Some(Desktop::NotifySend("/no/such/program".into()));
    let full = NoticePlan { hooks, desktop, ..plan(false) };
    let ways: Vec<Channel> = full.channels().iter().map(|channel| channel.via()).collect();
    assert_eq!(ways, [Channel::Webhook, Channel::Desktop]);
    for channel in full.channels() {
        let tried = channel.try_out("shop", Timestamp::now());
        assert!(!tried.is_empty() && tried.iter().all(|one| one.via == channel.via()));
        assert!(tried.iter().all(|one| one.failed.is_some()), "{tried:?}");
    }
}
