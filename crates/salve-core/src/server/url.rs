//! Addresses of servers on this machine.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The longest path that is kept.
const LONGEST_PATH: usize = 512;

/// How a server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Plain HTTP.
    Http,
    /// HTTP over TLS.
    Https,
}

impl Scheme {
    /// Returns the port that is meant when none is written.
    pub fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }

    /// Returns the word before `://`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// An HTTP address that names this machine, such as `http://localhost:5173/`.
///
/// Query and fragment are not kept: they may carry a token, and no health probe needs them. An
/// unspecified address (`0.0.0.0`, `[::]`) is where a server listens, not where one can ask, so it
/// is kept as `localhost`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LocalUrl {
    /// How the server is spoken to.
    pub scheme: Scheme,
    /// The name or address as it stands in a URL; IPv6 in brackets.
    pub host: String,
    /// The TCP port.
    pub port: u16,
    /// The path, with its leading slash.
    pub path: String,
}

impl LocalUrl {
    /// Returns the plain address of a port on this machine.
    pub fn of_port(scheme: Scheme, port: u16) -> Self {
        Self { scheme, host: "localhost".to_owned(), port, path: "/".to_owned() }
    }

    /// Reads the URL at the beginning of `text`, if it names this machine.
    pub fn at_start(text: &str) -> Option<Self> {
        let (scheme, rest) = scheme(text)?;
        let (host, rest) = host(rest)?;
        let (port, rest) = match rest.strip_prefix(':') {
            None => (scheme.port(), rest),
            Some(digits) => port_at_start(digits)?,
        };
        // What goes on as a name, a port or a user was no host: `http://localhost:x@y`.
        if rest.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '@' | ':' | '-' | '_')) {
            return None;
        }
        Some(Self { scheme, host, port, path: path(rest) })
    }

    /// Returns the same server with another path.
    pub fn with_path(&self, path: &str) -> Self {
        let slash = if path.starts_with('/') { "" } else { "/" };
        Self { path: format!("{slash}{path}"), ..self.clone() }
    }

    /// Returns the host as an address, where it is one.
    pub fn address(&self) -> Option<IpAddr> {
        self.host.trim_matches(['[', ']']).parse().ok()
    }
}

impl fmt::Display for LocalUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, host, port, path } = self;
        if *port == scheme.port() {
            return write!(f, "{}://{host}{path}", scheme.as_str());
        }
        write!(f, "{}://{host}:{port}{path}", scheme.as_str())
    }
}

/// Returns whether a host, as it stands in a URL, names this machine.
pub fn is_local(host: &str) -> bool {
    if let Ok(address) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
        return address.is_loopback() || address.is_unspecified();
    }
    let host = host.to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost") || host.ends_with(".local")
}

/// Reads `http://` or `https://`.
fn scheme(text: &str) -> Option<(Scheme, &str)> {
    let after = |word: &str| {
        let (start, rest) = text.split_at_checked(word.len())?;
        start.eq_ignore_ascii_case(word).then_some(rest)
    };
    let plain = after("http://").map(|rest| (Scheme::Http, rest));
    plain.or_else(|| after("https://").map(|rest| (Scheme::Https, rest)))
}

/// Reads a local host, and returns it as it is asked for.
pub(super) fn host(text: &str) -> Option<(String, &str)> {
    let end = match text.strip_prefix('[') {
        Some(rest) => rest.find(']')? + 2,
        None => text.find(|c: char| !is_host_char(c)).unwrap_or(text.len()),
    };
    let (host, rest) = text.split_at(end);
    if host.len() > 253 || !is_local(host) {
        return None;
    }
    let unspecified = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    match address {
        Ok(address) if unspecified.contains(&address) => Some(("localhost".to_owned(), rest)),
        Ok(_) | Err(_) => Some((host.to_ascii_lowercase(), rest)),
    }
}

fn is_host_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '-')
}

/// Reads a port number that is not part of a longer word.
pub(super) fn port_at_start(text: &str) -> Option<(u16, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let port = digits.parse::<u16>().ok().filter(|port| *port > 0)?;
    (digits.len() <= 5).then_some((port, rest))
}

/// Returns the path at the beginning of `rest`, without what the sentence around it added.
fn path(rest: &str) -> String {
    if !rest.starts_with('/') {
        return "/".to_owned();
    }
    let stops = |c: char| {
        c.is_whitespace() || c.is_control() || !c.is_ascii() || "\"'`<>()[]{}|\\^?#,;*".contains(c)
    };
    let end = rest.find(stops).unwrap_or(rest.len());
    let path = rest[..end].trim_end_matches(['.', ':', '!']);
    if path.len() > LONGEST_PATH || path.is_empty() {
        return "/".to_owned();
    }
    path.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: Option<&str>) {
        let got = LocalUrl::at_start(text).map(|url| url.to_string());
        assert_eq!(got.as_deref(), want, "{text:?}");
    }

    #[test]
    fn urls_that_name_this_machine_are_read() {
        check("http://localhost:5173/", Some("http://localhost:5173/"));
        check("http://localhost:3000", Some("http://localhost:3000/"));
        check("HTTP://LocalHost:3000", Some("http://localhost:3000/"));
        check("https://127.0.0.1:8443/app/", Some("https://127.0.0.1:8443/app/"));
        check("http://0.0.0.0:8000/", Some("http://localhost:8000/"));
        check("http://[::]:8000", Some("http://localhost:8000/"));
        check("http://[::1]:8000/x.", Some("http://[::1]:8000/x"));
        check("http://ada-mbp.local:4000/", Some("http://ada-mbp.local:4000/"));
        check("http://shop.localhost:4000/", Some("http://shop.localhost:4000/"));
        check("http://localhost/", Some("http://localhost/"));
        check("http://localhost:8888/tree?token=deadbeef", Some("http://localhost:8888/tree"));
        check("http://localhost:3000).", Some("http://localhost:3000/"));
        check("http://localhost:3000/docs\".", Some("http://localhost:3000/docs"));
        check("http://localhost:3000.", Some("http://localhost:3000/"));
    }

    #[test]
    fn everything_else_is_not() {
        for text in [
            "http://example.com:3000/",
            "http://localhost.example.com/",
            "http://192.168.1.20:5173/",
            "ws://localhost:5173/",
            "http://localhost:0/",
            "http://localhost:65536/",
            "http://localhost:123456/",
            "http://localhost:3000x",
            "http://localhost:x@evil.example/",
            "http://localhost:3000@evil.example/",
            "http://localhost@evil.example/",
            "http://[::1",
            "http://",
            "",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn a_path_is_put_on_with_one_slash() {
        let url = LocalUrl::of_port(Scheme::Http, 3000);
        assert_eq!(url.with_path("health").to_string(), "http://localhost:3000/health");
        assert_eq!(url.with_path("/health").to_string(), "http://localhost:3000/health");
    }
}
