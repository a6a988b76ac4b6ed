//! Finds the address that a dev server says it listens at, in its output.
//!
//! Output comes in chunks of any size and is looked at line by line, without what a terminal would
//! not show. A line that announces an address settles the matter; an address in another line is a
//! guess until a better one comes. Lines about other servers (a proxy's target, a port that is in
//! use, a debugger) count for nothing.
//!
//! **Invariant:** what is found does not depend on how the output is cut into chunks, and no more
//! than [`MOST_BYTES`] of output are looked at.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use super::url::{LocalUrl, Scheme, host, port_at_start};
use crate::fingerprint::clean;

/// How much output is looked at; a server that has said nothing until then says it elsewhere.
pub const MOST_BYTES: usize = 4 << 20;
/// The longest beginning of a line that is looked at.
const LONGEST_LINE: usize = 4096;

/// Looks for the first local address in a stream of output.
#[derive(Clone, Debug, Default)]
pub struct UrlFinder {
    /// The beginning of a line whose end has not come yet.
    line: Vec<u8>,
    seen: usize,
    found: FoundUrl,
}

/// What is known so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum FoundUrl {
    #[default]
    Nothing,
    /// An address that nothing announced.
    Guess(LocalUrl),
    /// An address that the server announced.
    Announced(LocalUrl),
}

impl UrlFinder {
    /// Takes in the next piece of output.
    pub fn push(&mut self, mut bytes: &[u8]) {
        bytes = &bytes[..bytes.len().min(MOST_BYTES - self.seen)];
        while !bytes.is_empty() && !matches!(self.found, FoundUrl::Announced(_)) {
            let end = memchr::memchr2(b'\n', b'\r', bytes);
            let (line, rest) = match end {
                Some(end) => (&bytes[..end], &bytes[end + 1..]),
                None => (bytes, &[][..]),
            };
            self.seen += bytes.len() - rest.len();
            match end {
                Some(_) if self.line.is_empty() => self.take(&line[..line.len().min(LONGEST_LINE)]),
                Some(_) => {
                    self.keep(line);
                    let whole = std::mem::take(&mut self.line);
                    self.take(&whole);
                    self.line = whole;
                    self.line.clear();
                }
                None => self.keep(line),
            }
            bytes = rest;
        }
        if self.is_done() {
            self.line = Vec::new();
        }
    }

    /// Returns whether further output changes nothing any more.
    pub fn is_done(&self) -> bool {
        self.seen >= MOST_BYTES || matches!(self.found, FoundUrl::Announced(_))
    }

    /// Returns the address, as far as it is known.
    pub fn url(&self) -> Option<&LocalUrl> {
        match &self.found {
            FoundUrl::Nothing => None,
            FoundUrl::Guess(url) | FoundUrl::Announced(url) => Some(url),
        }
    }

    /// Returns the address, counting a last line that was not ended.
    ///
    /// Call it when the output has been quiet for a while: the end of an address that is still
    /// being written would be missing.
    pub fn url_when_quiet(&self) -> Option<LocalUrl> {
        let mut quiet = self.clone();
        quiet.push(b"\n");
        quiet.url().cloned()
    }

    fn keep(&mut self, piece: &[u8]) {
        let room = LONGEST_LINE - self.line.len();
        self.line.extend_from_slice(&piece[..piece.len().min(room)]);
    }

    fn take(&mut self, line: &[u8]) {
        // Most lines have none of the words; a coloured one may have them in pieces.
        if memchr::memchr(0x1b, line).is_none() && !HINTS.is_match(line) {
            return;
        }
        let line = String::from_utf8_lossy(line);
        match (&self.found, look(&clean(&line))) {
            (FoundUrl::Announced(_), _) | (_, FoundUrl::Nothing) => {}
            (FoundUrl::Nothing, found) => self.found = found,
            (FoundUrl::Guess(_), found @ FoundUrl::Announced(_)) => self.found = found,
            (FoundUrl::Guess(_), FoundUrl::Guess(_)) => {}
        }
    }
}

/// What stands in every line that could be of interest.
static HINTS: LazyLock<AhoCorasick> = LazyLock::new(|| {
    let built = AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .build(["http", "listen", "running", "start", "serving", "ready", "launched", "tcp:"]);
    #[expect(clippy::expect_used, reason = "eight short words; a test builds them")]
    built.expect("a few words can be searched for")
});

/// Words in lines about something else than the server's own address.
const ELSEWHERE: [&str; 44] = [
    "already",
    "eaddrinuse",
    "econnrefused",
    "econnreset",
    "enotfound",
    "etimedout",
    "refused",
    "proxy",
    "proxied",
    "proxying",
    "proxies",
    "hpm",
    "upstream",
    "forwarding",
    "forwarded",
    "target",
    "inspector",
    "debugger",
    "dt_socket",
    "wait",
    "waiting",
    "failed",
    "failure",
    "error",
    "unable",
    "cannot",
    "timeout",
    "denied",
    "cors",
    "origin",
    "origins",
    "callback",
    "redirect",
    "redirecting",
    "fetch",
    "fetching",
    "database",
    "connecting",
    "connected",
    "connection",
    "stopped",
    "stopping",
    "closed",
    "killed",
];
/// The same, in several words.
const ELSEWHERE_PHRASES: [&str; 10] = [
    "in use",
    "is taken",
    "not running",
    "could not",
    "can't ",
    "shutting down",
    "another ",
    "no longer",
    "didn't ",
    "allocated",
];
/// Words of servers that are not what a browser opens.
const DOUBTFUL: [&str; 38] = [
    "metrics",
    "prometheus",
    "grpc",
    "websocket",
    "ws",
    "livereload",
    "hmr",
    "devtools",
    "admin",
    "studio",
    "backend",
    "database",
    "db",
    "mongo",
    "mongodb",
    "redis",
    "postgres",
    "postgresql",
    "mysql",
    "mariadb",
    "kafka",
    "rabbitmq",
    "amqp",
    "memcached",
    "elasticsearch",
    "smtp",
    "mail",
    "udp",
    "ssh",
    "dns",
    "ipc",
    "socket",
    "telemetry",
    "otlp",
    "jaeger",
    "pprof",
    "minio",
    "nats",
];
/// Words that announce an address.
const ANNOUNCING: [&str; 30] = [
    "listening",
    "listens",
    "listen",
    "running",
    "runs",
    "ready",
    "local",
    "loopback",
    "started",
    "starting",
    "starts",
    "serving",
    "serves",
    "served",
    "server",
    "available",
    "open",
    "opening",
    "launched",
    "access",
    "visit",
    "view",
    "preview",
    "browse",
    "browser",
    "up",
    "live",
    "url",
    "address",
    "➜",
];
/// Words that announce even a bare port.
const ANNOUNCING_PORT: [&str; 10] = [
    "listening",
    "listens",
    "running",
    "runs",
    "ready",
    "started",
    "serving",
    "launched",
    "up",
    "available",
];
/// Words before an address that is only spoken to.
const REQUESTS: [&str; 8] = ["get", "post", "put", "delete", "patch", "head", "options", "curl"];

/// Looks at one line.
fn look(line: &str) -> FoundUrl {
    let (url, rest) = split_urls(line);
    let lower = rest.to_lowercase();
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '➜');
    let words: Vec<&str> = lower.split(|c| !is_word(c)).filter(|word| !word.is_empty()).collect();
    let has = |known: &[&str]| words.iter().any(|word| known.contains(word));
    if has(&ELSEWHERE) || ELSEWHERE_PHRASES.iter().any(|phrase| lower.contains(phrase)) {
        return FoundUrl::Nothing;
    }
    let Some((url, before)) = url else {
        let bare = has(&ANNOUNCING_PORT) && !has(&DOUBTFUL);
        return bare
            .then(|| bare_port(&lower))
            .flatten()
            .map_or(FoundUrl::Nothing, FoundUrl::Announced);
    };
    let before = before.trim_end();
    let asked = before.rsplit(|c| !is_word(c)).next().map(str::to_lowercase);
    let announced = has(&ANNOUNCING) && !has(&DOUBTFUL);
    if asked.is_some_and(|word| REQUESTS.contains(&&*word)) || (before.ends_with('=') && !announced)
    {
        return FoundUrl::Nothing;
    }
    // A shell's or npm's echo of a command may name addresses of any kind.
    let echo = ["> ", "$ ", "+ "].iter().any(|mark| line.trim_start().starts_with(mark));
    let alone = words.len() <= 1 && !has(&DOUBTFUL);
    if announced || (alone && !echo) {
        FoundUrl::Announced(url)
    } else if echo {
        FoundUrl::Nothing
    } else {
        FoundUrl::Guess(url)
    }
}

/// Returns the first local URL of a line with what stands before it, and the line without any URL.
fn split_urls(line: &str) -> (Option<(LocalUrl, &str)>, String) {
    let (mut first, mut rest, mut from) = (None, String::with_capacity(line.len()), 0);
    while let Some(colon) = line[from..].find("://").map(|at| from + at) {
        let scheme = line[from..colon].rfind(|c: char| !c.is_ascii_alphanumeric() && c != '+');
        let start = scheme.map_or(from, |at| {
            from + at + line[from + at..].chars().next().map_or(1, char::len_utf8)
        });
        let stops = |c: char| c.is_whitespace() || "\"'`<>)".contains(c);
        let end = line[colon..].find(stops).map_or(line.len(), |at| colon + at);
        rest.push_str(&line[from..start]);
        rest.push(' ');
        // Puma used to name its sockets by their transport.
        let http = line[start..end].strip_prefix("tcp://").map(|rest| format!("http://{rest}"));
        if first.is_none() {
            let url = LocalUrl::at_start(http.as_deref().unwrap_or(&line[start..end]));
            first = url.map(|url| (url, &line[..start]));
        }
        from = end;
    }
    rest.push_str(&line[from..]);
    (first, rest)
}

/// Returns the address that a line such as `listening on port 3000` means.
fn bare_port(lower: &str) -> Option<LocalUrl> {
    let after =
        ANNOUNCING_PORT.iter().filter_map(|word| Some(lower.find(word)? + word.len())).min()?;
    let said = &lower[after..];
    let port = socket_in(said).or_else(|| named_port(lower)).or_else(|| plain_port(said))?;
    let secure = lower.split(|c: char| !c.is_alphanumeric()).any(|word| word == "https");
    Some(LocalUrl::of_port(if secure { Scheme::Https } else { Scheme::Http }, port))
}

/// Finds `127.0.0.1:3000`, `[::]:3000`, `*:3000` or `:3000`.
fn socket_in(text: &str) -> Option<u16> {
    let edges = |c: char| c.is_whitespace() || "\"'`(),;=<>".contains(c);
    text.split(edges).find_map(|word| {
        let word = word.trim_end_matches(['.', '!', '/']);
        let digits = match word.strip_prefix("*:").or_else(|| word.strip_prefix(":::")) {
            Some(digits) => digits,
            None => match word.strip_prefix(':') {
                Some(digits) => digits,
                None => host(word)?.1.strip_prefix(':')?,
            },
        };
        let (port, rest) = port_at_start(digits)?;
        rest.is_empty().then_some(port)
    })
}

/// Finds `port 3000`, `port: 3000`, `port(s): 8080` or `"port":3000`.
fn named_port(text: &str) -> Option<u16> {
    text.match_indices("port").find_map(|(at, word)| {
        let rest = &text[at + word.len()..];
        let rest = rest.strip_prefix("(s)").or_else(|| rest.strip_prefix('s')).unwrap_or(rest);
        let number = rest.trim_start_matches([' ', ':', '=', '"', '\'', '`', '#']);
        if number.len() == rest.len() || text[..at].ends_with(char::is_alphanumeric) {
            return None;
        }
        whole_number(number)
    })
}

/// Finds `on 3000` or `at 3000` where nothing is counted: `running on 4000 threads` is no port.
fn plain_port(said: &str) -> Option<u16> {
    let rest = said.trim_start();
    let rest = rest.strip_prefix("on ").or_else(|| rest.strip_prefix("at "))?.trim_start();
    let port = whole_number(rest)?;
    let after = rest.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    let counts = after.starts_with(char::is_alphabetic);
    (!counts && (port >= 1024 || [80, 443].contains(&port))).then_some(port)
}

/// Reads a port that is a word of its own.
fn whole_number(text: &str) -> Option<u16> {
    let (port, rest) = port_at_start(text)?;
    let mut rest = rest.chars();
    match (rest.next(), rest.next()) {
        (Some('.' | ':'), Some(next)) if next.is_alphanumeric() => None,
        (Some(next), _) if next.is_alphanumeric() || next == '_' => None,
        (_, _) => Some(port),
    }
}

#[cfg(test)]
mod tests;
