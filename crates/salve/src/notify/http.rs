//! One POST to one target.
//!
//! **Invariant:** the address that is connected to is the very one that was looked up and found to
//! be the world's, unless the settings allow others; and no redirect leads anywhere else.

use std::fmt;
use std::io;
use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use salve_core::notify::{NTFY_MARK, NoticeMessage, TargetAnswer, is_public};
use salve_core::scrub::Scrubber;
use ureq::config::Config;
use ureq::http::{Response, Uri};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, Body, Error};

use super::NoticePlan;
use crate::webhook_secret::sign;

/// How long one attempt may take.
const LIMIT: Duration = Duration::from_secs(10);
/// The longest header that is read; the body is not read at all.
const LONGEST_HEADER: usize = 16 << 10;

/// What is sent where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Letter<'a> {
    pub(super) id: &'a str,
    pub(super) at: Timestamp,
    pub(super) url: &'a str,
    pub(super) message: &'a NoticeMessage,
}

/// How it was answered, and that in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) answer: TargetAnswer,
    pub(super) why: String,
}

/// Sends a letter, once.
pub(super) fn send(letter: &Letter<'_>, plan: &NoticePlan, scrubber: &Scrubber) -> Sent {
    let config = Agent::config_builder()
        .timeout_global(Some(LIMIT))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .max_response_header_size(LONGEST_HEADER)
        .max_idle_connections(0)
        .user_agent(concat!("salve/", env!("CARGO_PKG_VERSION")));
    // What a proxy connects to cannot be checked from here.
    let config = if plan.allow_private { config } else { config.proxy(None) };
    let checked = CheckedResolver { allow_private: plan.allow_private };
    let agent = Agent::with_parts(config.build(), DefaultConnector::default(), checked);
    let asked = match ntfy_address(letter.url) {
        Some(address) => {
            let text = letter.message.ntfy();
            let mut request = agent.post(address).header("title", header_text(&text.title));
            request = request.header("priority", text.priority.to_string());
            if let Some(click) = &text.click {
                request = request.header("click", header_text(click));
            }
            request.send(scrubber.scrub(&text.text).as_str())
        }
        None => {
            let body = scrubber.scrub(&letter.message.body());
            let seconds = letter.at.as_second();
            let mut request = agent
                .post(letter.url)
                .header("content-type", "application/json")
                .header("webhook-id", letter.id)
                .header("webhook-timestamp", seconds.to_string());
            if let Some(signature) = sign(&plan.secrets, letter.id, seconds, body.as_str()) {
                request = request.header("webhook-signature", signature);
            }
            request.send(body.as_str())
        }
    };
    match asked {
        Ok(response) => answered(&response, letter.at),
        Err(error) => failed(&error),
    }
}

/// Returns where a text is posted, if the target is an ntfy topic: marked as one, or at ntfy.sh.
fn ntfy_address(url: &str) -> Option<&str> {
    let is_known = |url: &&str| url.starts_with("https://ntfy.sh/");
    url.strip_prefix(NTFY_MARK).or_else(|| Some(url).filter(is_known))
}

/// Returns a text as a header can carry it.
fn header_text(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect()
}

fn answered(response: &Response<Body>, now: Timestamp) -> Sent {
    let code = response.status().as_u16();
    let wish = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
    let retry_after = wish.and_then(|wish| wait(wish, now));
    let why = match code {
        300..=399 => format!("it answered {code}, and redirects are not followed"),
        410 => "it answered 410: it is gone for good".to_owned(),
        _ => format!("it answered {code}"),
    };
    Sent { answer: TargetAnswer::Status { code, retry_after }, why }
}

/// Returns how long a target wants us to wait: so many seconds, or until a date.
fn wait(wish: &str, now: Timestamp) -> Option<Duration> {
    if let Ok(seconds) = wish.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = DateTimeParser::new().parse_timestamp(wish).ok()?;
    Duration::try_from(until.duration_since(now)).ok()
}

/// Says why a target was not reached, without a word of its address.
fn failed(error: &Error) -> Sent {
    let none = |why: &str| Sent { answer: TargetAnswer::None, why: why.to_owned() };
    match error {
        Error::Timeout(_) => none("it did not answer in time"),
        Error::HostNotFound => none("there is no such host"),
        Error::Io(error) if error.get_ref().is_some_and(|inner| inner.is::<Private>()) => {
            Sent { answer: TargetAnswer::Forbidden, why: Private.to_string() }
        }
        Error::Io(error) => none(&format!("it could not be reached: {}", error.kind())),
        Error::Rustls(error) => none(&format!("no TLS: {error}")),
        Error::BadUri(_) | Error::Http(_) => {
            Sent { answer: TargetAnswer::Forbidden, why: "its address cannot be used".to_owned() }
        }
        _ => none("it could not be reached"),
    }
}

/// Looks names up and keeps only the addresses that may be connected to.
#[derive(Debug)]
struct CheckedResolver {
    allow_private: bool,
}

impl Resolver for CheckedResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let found = DefaultResolver::default().resolve(uri, config, timeout)?;
        let mut kept = self.empty();
        for address in found.iter().filter(|one| self.allow_private || is_public(one.ip())) {
            kept.push(*address);
        }
        if kept.is_empty() {
            Err(Error::Io(io::Error::new(io::ErrorKind::PermissionDenied, Private)))
        } else {
            Ok(kept)
        }
    }
}

/// That a host has no address that may be connected to.
#[derive(Debug)]
struct Private;

impl fmt::Display for Private {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "its address is private; `webhooks.allow_private = true` lets Salve send to such",
        )
    }
}

impl std::error::Error for Private {}
