//! What a response says.

use std::io::{self, Read as _};

use serde_json::Value;
use ureq::http::Response;
use ureq::{Body, Error};

use super::events::{EventReader, StreamPlace};

/// How much of an answer that is no message is told.
const TOLD: usize = 300;
/// How much of an answer that refuses is read.
const LONGEST_REFUSAL: u64 = 64 << 10;
/// What is said of a server that is not there.
pub(super) const REFUSED: &str = "connection refused";

pub(super) fn header(response: &Response<Body>, name: &str) -> Option<String> {
    response.headers().get(name)?.to_str().ok().map(str::to_owned)
}

/// Returns whether a request was taken and is answered by a stream of events.
pub(super) fn is_stream(response: &Response<Body>) -> bool {
    let kind = header(response, "content-type");
    response.status().is_success() && kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
}

/// Returns the first answer in a response, whatever it answers.
pub(super) fn answer_in(response: Response<Body>) -> Option<Value> {
    let has_events = is_stream(&response);
    let mut body = response.into_body().into_reader();
    if !has_events {
        let mut text = Vec::new();
        body.read_to_end(&mut text).ok()?;
        return serde_json::from_slice(&text).ok();
    }
    let (mut events, mut place) = (EventReader::new(body), StreamPlace::default());
    while let Ok(Some(said)) = events.next(&mut place) {
        let said: Option<Value> = serde_json::from_slice(&said).ok();
        let is_answer = |said: &Value| said.get("result").or_else(|| said.get("error")).is_some();
        if let Some(said) = said.filter(is_answer) {
            return Some(said);
        }
    }
    None
}

pub(super) fn is_error(error: &Value) -> bool {
    error.get("code").is_some_and(Value::is_i64)
        && error.get("message").is_some_and(Value::is_string)
}

/// Says what an answer says that is no message.
pub(super) fn complaint(response: Response<Body>) -> String {
    let (code, later) = (response.status().to_string(), header(&response, "retry-after"));
    told_refusal(code, later.as_deref(), &refused_text(response))
}

pub(super) fn told_refusal(code: String, later: Option<&str>, text: &str) -> String {
    let mut why = format!("HTTP {code}");
    if let Some(wait) = later {
        why.push_str(&format!("; Retry-After: {wait}"));
    }
    if !text.trim().is_empty() {
        let said: String = text.trim().chars().take(TOLD).collect();
        why.push_str(&format!(": {said}"));
    }
    why
}

/// Returns what an answer says that refuses.
pub(super) fn refused_text(response: Response<Body>) -> String {
    let mut text = Vec::new();
    // What was read before a connection broke says as much.
    let _ = response.into_body().into_reader().take(LONGEST_REFUSAL).read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Says why a server was not reached, in the words by which failures are told apart.
pub(super) fn unreached(error: &Error) -> String {
    match error {
        Error::HostNotFound => "no such host".to_owned(),
        Error::Timeout(ureq::Timeout::Connect) => "network unreachable: no connection".to_owned(),
        Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => REFUSED.to_owned(),
        Error::Io(error) => format!("connection reset: {error}"),
        error => format!("the server cannot be reached: {error}"),
    }
}
