//! Credentials in URLs and data source names.

use std::ops::Range;

use super::line::{Find, ScrubLine, Until, rank};
use super::mark;
use super::value::{self, Makeup};

/// The longest userinfo that is looked at.
const USERINFO_MAX: usize = 1024;

/// Looks at the URL around the `://` at `hit`.
pub(super) fn look(line: &mut ScrubLine<'_>, hit: Range<usize>, finds: &mut Vec<Find<'_>>) {
    let start = hit.end;
    let run = run_end(line, start);
    let strict = scheme(&line.text[..hit.start]).starts_with(b"http");
    let Some(at) = userinfo_end(&line.text[start..run], strict).map(|len| start + len) else {
        return;
    };
    let userinfo = line.fresh(start..at);
    if userinfo.is_empty() {
        return;
    }
    let scheme = scheme(&line.text[..hit.start]);
    let Some(colon) = mark::find_outside(userinfo, b':') else {
        let makeup = Makeup::of(userinfo);
        if makeup.len >= 16 && makeup.is_random() && !value::is_placeholder(userinfo) {
            let kind = if memchr::memmem::find(&line.text[at..run], b"sentry").is_some() {
                "sentry-dsn"
            } else {
                "url-token"
            };
            finds.push(Find { place: start..at, kind, rank: rank::PLACE });
        }
        return;
    };
    let (user, password) = (start..start + colon, start + colon + 1..at);
    let secret = line.fresh(password.clone());
    if is_password(secret) && !is_default(&line.text[user.clone()], secret) {
        finds.push(Find { place: password, kind: kind_of(scheme), rank: rank::PLACE });
    }
    let makeup = Makeup::of(line.fresh(user.clone()));
    if makeup.len >= 20
        && makeup.has_digit_and_letter()
        && makeup.distinct > 8
        && !line.text[user.clone()].contains(&b'.')
    {
        finds.push(Find { place: user, kind: "url-token", rank: rank::PLACE });
    }
}

/// Returns where the URL that goes on at `start` ends, or where looking at it does.
fn run_end(line: &mut ScrubLine<'_>, start: usize) -> usize {
    line.value_end(start, Until::Url).min(start + USERINFO_MAX)
}

/// Returns the length of the userinfo that `text` begins with, if it has one.
///
/// Passwords are not always encoded as they should be: where what stands before the first slash
/// is not a host and a port, the password may go on to a later `@`.
fn userinfo_end(text: &[u8], strict: bool) -> Option<usize> {
    memchr::memchr(b'@', text)?;
    let authority = text.iter().position(|b| b"/?#".contains(b)).unwrap_or(text.len());
    let limit = memchr::memmem::find(text, b"://").unwrap_or(text.len());
    let usual = memchr::memrchr(b'@', &text[..authority.min(limit)]);
    if strict && usual.is_some() {
        return usual;
    }
    let odd = || {
        let colon = memchr::memchr(b':', &text[..authority])?;
        let port = text[colon + 1..authority].iter().all(u8::is_ascii_digit);
        let host = text[..colon].iter().any(|b| b"[.".contains(b));
        if usual.is_none() && (port || host) {
            return None;
        }
        let at = memchr::memrchr(b'@', &text[..limit])?;
        let name = |b: &&u8| b.is_ascii_alphanumeric() || b".-".contains(b);
        let len = text[at + 1..].iter().take_while(name).count();
        let ends = text.get(at + 1 + len).is_none_or(|b| b":/?#,".contains(b));
        (len > 0 && ends && !text[..at].contains(&b'=')).then_some(at)
    };
    odd().or(usual)
}

/// Returns the scheme that `text` ends with.
fn scheme(text: &[u8]) -> &[u8] {
    let part = |b: &&u8| b.is_ascii_alphanumeric() || b"+-.".contains(b);
    let len = text.iter().rev().take(24).take_while(part).count();
    &text[text.len() - len..]
}

/// Passwords of URLs that stand for no password, or say how the other half is meant.
const NO_PASSWORD: &[&str] = &["x-oauth-basic", "x-token-auth", "oauth2", "x"];

fn is_password(text: &[u8]) -> bool {
    !text.is_empty()
        && !value::is_placeholder(text)
        && !NO_PASSWORD.iter().any(|n| n.as_bytes() == text)
}

/// Returns whether these are the credentials that every message broker is delivered with.
fn is_default(user: &[u8], password: &[u8]) -> bool {
    user == b"guest" && password == b"guest"
}

fn kind_of(scheme: &[u8]) -> &'static str {
    let starts = |head: &str| scheme.to_ascii_lowercase().starts_with(head.as_bytes());
    for (head, kind) in [
        ("postgres", "postgres-password"),
        ("mysql", "mysql-password"),
        ("mariadb", "mysql-password"),
        ("mongodb", "mongodb-password"),
        ("redis", "redis-password"),
        ("rediss", "redis-password"),
        ("amqp", "amqp-password"),
        ("smtp", "smtp-password"),
        ("ftp", "ftp-password"),
        ("sftp", "ftp-password"),
        ("ldap", "ldap-password"),
    ] {
        if starts(head) {
            return kind;
        }
    }
    "url-password"
}

/// Looks at a Go data source name, `user:password@tcp(host)/db`, around the `@tcp(` at `hit`.
pub(super) fn look_dsn(line: &mut ScrubLine<'_>, hit: Range<usize>, finds: &mut Vec<Find<'_>>) {
    let stop = |b: &u8| b.is_ascii_whitespace() || b"\"'`<>=".contains(b);
    let head = &line.text[hit.start.saturating_sub(USERINFO_MAX)..hit.start];
    let start = hit.start - head.iter().rev().position(stop).unwrap_or(head.len());
    let start = memchr::memmem::find(&line.text[start..hit.start], b"://")
        .map_or(start, |at| start + at + 3);
    let Some(colon) = mark::find_outside(&line.text[start..hit.start], b':') else { return };
    let place = start + colon + 1..hit.start;
    if is_password(line.fresh(place.clone())) {
        finds.push(Find { place, kind: "mysql-password", rank: rank::PLACE });
    }
}

/// Looks at an Oracle address, `jdbc:oracle:thin:user/password@host`, after the `hit`.
pub(super) fn look_oracle(line: &mut ScrubLine<'_>, hit: Range<usize>, finds: &mut Vec<Find<'_>>) {
    let end = run_end(line, hit.end);
    let run = &line.text[hit.end..end];
    let (Some(slash), Some(at)) = (memchr::memchr(b'/', run), memchr::memrchr(b'@', run)) else {
        return;
    };
    let place = hit.end + slash + 1..hit.end + at.max(slash + 1);
    if is_password(line.fresh(place.clone())) {
        finds.push(Find { place, kind: "oracle-password", rank: rank::PLACE });
    }
}

/// Looks at a line of `.pgpass`, `host:5432:db:user:password`, around the port at `hit`.
pub(super) fn look_pgpass(line: &mut ScrubLine<'_>, hit: Range<usize>, finds: &mut Vec<Find<'_>>) {
    let rest = &line.text[hit.end..];
    let mut fields = rest.splitn(3, |&b| b == b':');
    let (Some(db), Some(user), Some(password)) = (fields.next(), fields.next(), fields.next())
    else {
        return;
    };
    let plain = |f: &[u8]| {
        !f.is_empty() && f.iter().all(|b| b.is_ascii_alphanumeric() || b"_-*".contains(b))
    };
    let len =
        password.iter().take_while(|b| !b.is_ascii_whitespace() && !b"\"'".contains(b)).count();
    let start = hit.end + db.len() + user.len() + 2;
    if plain(db) && plain(user) && len >= 3 && is_password(line.fresh(start..start + len)) {
        finds.push(Find {
            place: start..start + len,
            kind: "postgres-password",
            rank: rank::PLACE,
        });
    }
}
