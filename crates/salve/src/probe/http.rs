//! One bounded GET.

use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use salve_core::server::health::Fault;
use salve_core::server::url::is_local;
use ureq::http::{Response, Uri, header};
use ureq::tls::TlsConfig;
use ureq::{Agent, Error, Timeout};

/// The longest header that is read.
const LONGEST_HEADER: usize = 64 << 10;
/// The most of a body that is read.
const MOST_BODY: u64 = 8 << 20;

/// The time that a probe has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub(super) end: Instant,
    pub(super) limit: Duration,
}

impl Clock {
    /// Returns how long the probe has taken so far.
    pub(super) fn took(&self) -> Duration {
        self.limit.saturating_sub(self.left())
    }

    fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    fn silent(&self) -> Fault {
        Fault::Silent { within: self.limit }
    }
}

/// A server and the page that is asked for.
#[derive(Clone, Debug)]
pub(super) struct ProbeTarget {
    uri: Uri,
    host: String,
    port: u16,
}

/// What came back.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    location: Option<String>,
    pub(super) peer: Option<SocketAddr>,
    pub(super) body: AnswerBody,
}

/// What is known about the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerBody {
    /// It ended or is known to end; tells whether it has the text that was looked for.
    Whole { has: bool },
    /// It did not end within the limits.
    Endless { bytes: u64 },
    /// The connection broke before its end.
    BrokeOff { bytes: u64 },
}

impl ProbeTarget {
    /// Reads an address.
    pub(super) fn parse(url: &str) -> Result<Self, Fault> {
        let wrong = |why: &str| Fault::Unreachable(format!("{why}: {url:?}"));
        let uri: Uri = url.parse().map_err(|_| wrong("not an address"))?;
        let default = match uri.scheme_str() {
            Some("http") => 80,
            Some("https") => 443,
            Some(_) | None => return Err(wrong("not an http:// or https:// address")),
        };
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| wrong("no host"))?;
        let (host, port) = (host.to_owned(), uri.port_u16().unwrap_or(default));
        Ok(Self { uri, host, port })
    }

    /// Returns where a reply redirects to, if that is on the same server.
    pub(super) fn follow(&self, reply: &Reply) -> Option<Self> {
        let location = match reply.status {
            301 | 302 | 303 | 307 | 308 => reply.location.as_deref()?,
            _ => return None,
        };
        let (scheme, path) = (self.uri.scheme_str()?, self.uri.path());
        let authority = self.uri.authority()?;
        let next = if location.contains("://") {
            location.to_owned()
        } else if location.starts_with("//") {
            format!("{scheme}:{location}")
        } else if location.starts_with('/') {
            format!("{scheme}://{authority}{location}")
        } else {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{scheme}://{authority}{folder}/{location}")
        };
        let next = next.split('#').next().unwrap_or_default();
        let next = Self::parse(next).ok()?;
        let local = is_local(&self.host) && is_local(&next.host);
        let same = next.host.eq_ignore_ascii_case(&self.host) || local;
        (same && next.port == self.port && next.uri.scheme() == self.uri.scheme()).then_some(next)
    }

    /// Returns the addresses on this machine that the host stands for, best first.
    ///
    /// A server that says `localhost` may listen on either kind of loopback address.
    fn addresses(&self) -> Vec<SocketAddr> {
        let (four, six) = (IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST));
        let name = self.host.to_ascii_lowercase();
        let found = match self.host.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(ip) if ip.is_unspecified() && ip.is_ipv6() => vec![six, four],
            Ok(ip) if ip.is_unspecified() => vec![four, six],
            Ok(ip) if ip.is_loopback() => vec![ip],
            Ok(_) => vec![],
            Err(_) if name == "localhost" || name.ends_with(".localhost") => vec![four, six],
            Err(_) => vec![],
        };
        found.into_iter().map(|ip| SocketAddr::new(ip, self.port)).collect()
    }

    /// Returns the same page with the host replaced by an address.
    fn at(&self, address: SocketAddr, scheme: &str) -> String {
        let path = self.uri.path_and_query().map_or("/", |path| path.as_str());
        format!("{scheme}://{address}{path}")
    }

    /// Returns what the server is called by those who ask for it.
    fn name(&self) -> String {
        let unspecified = self.host.trim_matches(['[', ']']).parse::<IpAddr>();
        let host = match unspecified {
            Ok(ip) if ip.is_unspecified() => "localhost",
            Ok(_) | Err(_) => &self.host,
        };
        format!("{host}:{}", self.port)
    }
}

/// Asks for a page, and looks for `text` in it.
pub(super) fn get(target: &ProbeTarget, text: Option<&str>, clock: &Clock) -> Result<Reply, Fault> {
    let scheme = target.uri.scheme_str().unwrap_or("http");
    let addresses = target.addresses();
    if addresses.is_empty() {
        let url = target.uri.to_string();
        return once(ProbeRequest { url: &url, name: None, peer: None, text }, clock)
            .map_err(fault(clock));
    }
    let name = target.name();
    let mut last = Fault::Refused;
    for address in addresses {
        let asked = |scheme| {
            let (url, name, peer) = (target.at(address, scheme), Some(&*name), Some(address));
            once(ProbeRequest { url: &url, name, peer, text }, clock)
        };
        match asked(scheme).map_err(fault(clock)) {
            Err(Fault::Refused) => {}
            // Where a machine lacks one kind of address, the other is asked.
            Err(fault @ Fault::Unreachable(_)) => last = fault,
            // A server that wants TLS sends an alert or hangs up when it is greeted in plain text.
            Err(Fault::Garbage | Fault::Closed) if scheme == "http" && asked("https").is_ok() => {
                return Err(Fault::SpeaksTls);
            }
            done => return done,
        }
    }
    Err(last)
}

pub(super) struct ProbeRequest<'a> {
    pub(super) url: &'a str,
    /// What the server is called, where the URL has its address.
    pub(super) name: Option<&'a str>,
    /// The address on this machine.
    pub(super) peer: Option<SocketAddr>,
    /// What to look for in the body.
    pub(super) text: Option<&'a str>,
}

pub(super) fn once(asked: ProbeRequest<'_>, clock: &Clock) -> Result<Reply, Error> {
    let left = clock.left();
    if left.is_zero() {
        return Err(Error::Timeout(Timeout::Global));
    }
    let local = asked.peer.is_some();
    let tls = TlsConfig::builder().disable_verification(local).build();
    let config = Agent::config_builder()
        .timeout_global(Some(left))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .max_response_header_size(LONGEST_HEADER)
        .max_idle_connections(0)
        .user_agent(concat!("salve/", env!("CARGO_PKG_VERSION")))
        .accept("text/html,*/*;q=0.8")
        .tls_config(tls);
    // No proxy stands between a server on this machine and those who ask it.
    let config = if local { config.proxy(None) } else { config };
    let agent = config.build().new_agent();
    let mut request = agent.get(asked.url).header(header::CONNECTION, "close");
    if let Some(name) = asked.name {
        request = request.header(header::HOST, name);
    }
    let mut response = request.call()?;
    let text_of = |name| {
        let value = response.headers().get(name)?;
        value.to_str().ok().map(str::to_owned)
    };
    let location = text_of(header::LOCATION);
    let events = text_of(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.to_ascii_lowercase().starts_with("text/event-stream"));
    let status = response.status().as_u16();
    let body = match asked.text {
        // A stream of events has no end by nature: its beginning is the answer.
        None if events => AnswerBody::Whole { has: true },
        text => read(&mut response, text.unwrap_or_default().as_bytes()),
    };
    Ok(Reply { status, location, peer: asked.peer, body })
}

/// Reads a body to its end, to the text that is looked for, or to the limits.
fn read(response: &mut Response<ureq::Body>, text: &[u8]) -> AnswerBody {
    let length = response.body().content_length();
    let (mut bytes, mut has) = (0, text.is_empty());
    let mut window: Vec<u8> = Vec::new();
    let mut buffer = vec![0; 16 << 10];
    let mut reader = response.body_mut().with_config().limit(u64::MAX).reader();
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return AnswerBody::Whole { has },
            Ok(read) => {
                bytes += read as u64;
                if !has {
                    window.extend_from_slice(&buffer[..read]);
                    has = memchr::memmem::find(&window, text).is_some();
                    window.drain(..window.len().saturating_sub(text.len() - 1));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return cut(error, bytes),
        }
        // The text was what we came for; and a long page with a known end will end.
        let found = has && !text.is_empty();
        if found || (bytes >= MOST_BODY && length.is_some()) {
            return AnswerBody::Whole { has };
        }
        if bytes >= MOST_BODY {
            return AnswerBody::Endless { bytes };
        }
    }
}

fn cut(error: io::Error, bytes: u64) -> AnswerBody {
    match Error::from(error) {
        Error::Timeout(_) => AnswerBody::Endless { bytes },
        _ => AnswerBody::BrokeOff { bytes },
    }
}

/// Returns what an error means to someone who waits for an answer.
fn fault(clock: &Clock) -> impl Fn(Error) -> Fault {
    let clock = *clock;
    move |error| match error {
        Error::Timeout(_) => clock.silent(),
        Error::Io(error) => match error.kind() {
            io::ErrorKind::ConnectionRefused => Fault::Refused,
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => clock.silent(),
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe => Fault::Closed,
            // Rustls reports through the stream what it cannot read.
            io::ErrorKind::InvalidData => Fault::NoTls(error.to_string()),
            _ => Fault::Unreachable(error.to_string()),
        },
        Error::Rustls(error) => Fault::NoTls(error.to_string()),
        Error::Tls(why) => Fault::NoTls(why.to_owned()),
        Error::LargeResponseHeader(_, most) => Fault::LongHeader { bytes: most as u64 },
        Error::HostNotFound => Fault::Unreachable("no such host".to_owned()),
        // A header of thousands of fields has no kind of its own in what ureq shows.
        Error::Protocol(error) if error.to_string().contains("too many headers") => {
            Fault::LongHeader { bytes: LONGEST_HEADER as u64 }
        }
        Error::Protocol(_) | Error::Http(_) => Fault::Garbage,
        error => Fault::Unreachable(error.to_string()),
    }
}
