//! What a healthy answer is, why there is none, and when silence counts as a hang.

use std::fmt;
use std::time::Duration;

/// The status codes that count as healthy, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusRange {
    /// The lowest.
    pub from: u16,
    /// The highest.
    pub to: u16,
}

impl Default for StatusRange {
    fn default() -> Self {
        Self { from: 200, to: 399 }
    }
}

impl StatusRange {
    /// Returns whether this status is healthy.
    pub fn contains(self, status: u16) -> bool {
        (self.from..=self.to).contains(&status)
    }

    /// Reads `200`, `200-399` or `2xx`.
    pub fn parse(text: &str) -> Option<Self> {
        let code = |text: &str| {
            let code = text.trim().parse().ok()?;
            (text.trim().len() == 3 && (100..=599).contains(&code)).then_some(code)
        };
        let class = text.trim().strip_suffix("xx").and_then(|class| class.parse::<u16>().ok());
        if let Some(class) = class.filter(|class| (1..=5).contains(class)) {
            return Some(Self { from: class * 100, to: class * 100 + 99 });
        }
        let (from, to) = match text.split_once('-') {
            Some((from, to)) => (code(from)?, code(to)?),
            None => (code(text)?, code(text)?),
        };
        (from <= to).then_some(Self { from, to })
    }
}

impl fmt::Display for StatusRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { from, to } if from == to => write!(f, "{from}"),
            Self { from, to } => write!(f, "{from}-{to}"),
        }
    }
}

/// What an answer must be to count as healthy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expect {
    /// The status codes that are healthy.
    pub status: StatusRange,
    /// Text that the body must contain.
    pub body: Option<String>,
}

/// Why a server that was asked is not healthy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nobody listens there.
    Refused,
    /// The address cannot be reached or is none.
    Unreachable(String),
    /// It takes connections but gave no complete answer in time.
    Silent {
        /// How long it was given.
        within: Duration,
    },
    /// It closed the connection without an answer.
    Closed,
    /// What came is not HTTP.
    Garbage,
    /// It wants TLS, but the address says `http`.
    SpeaksTls,
    /// It speaks no TLS, or none that can be understood, but the address says `https`.
    NoTls(String),
    /// The header of its answer has no end.
    LongHeader {
        /// The bytes that were read.
        bytes: u64,
    },
    /// It redirects again and again.
    Redirects {
        /// How many were followed.
        followed: u32,
    },
    /// Its answer does not end.
    Endless {
        /// The bytes that were read.
        bytes: u64,
    },
    /// The connection broke before the answer was complete.
    BrokeOff {
        /// The bytes that were read.
        bytes: u64,
    },
    /// The status is not a healthy one.
    Status {
        /// The status that came.
        status: u16,
        /// The healthy ones.
        wanted: StatusRange,
    },
    /// The body lacks the text that it must contain.
    Body {
        /// The text.
        lacks: String,
    },
}

impl Fault {
    /// Returns whether a server that is otherwise up would be called hung for this: it gives no
    /// answer, or answers that it is broken. A page that is missing is no hang.
    pub fn is_hang(&self) -> bool {
        match self {
            Self::Status { status, .. } => *status >= 500,
            Self::Refused | Self::Unreachable(_) | Self::Silent { .. } | Self::Closed => true,
            Self::Garbage | Self::LongHeader { .. } | Self::BrokeOff { .. } => true,
            Self::SpeaksTls | Self::NoTls(_) | Self::Redirects { .. } => false,
            Self::Endless { .. } | Self::Body { .. } => false,
        }
    }

    /// Returns what the person who set the address can do, where it is the address that is wrong.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::SpeaksTls => Some("write the address with https://"),
            Self::NoTls(_) => Some("write the address with http://"),
            Self::Redirects { .. } => Some("set a health path that answers by itself"),
            Self::Endless { .. } => Some("set a health path whose answer ends"),
            Self::Status { status: 400..=499, .. } => {
                Some("set a health path that exists, or the status that is right")
            }
            Self::Refused | Self::Unreachable(_) | Self::Silent { .. } | Self::Closed => None,
            Self::Garbage | Self::LongHeader { .. } | Self::BrokeOff { .. } => None,
            Self::Status { .. } | Self::Body { .. } => None,
        }
    }
}

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => write!(f, "nothing listens there"),
            Self::Unreachable(why) => write!(f, "cannot be reached: {why}"),
            Self::Silent { within } => {
                write!(f, "takes connections but gave no answer within {}", Seconds(*within))
            }
            Self::Closed => write!(f, "closed the connection without an answer"),
            Self::Garbage => write!(f, "answered with something that is not HTTP"),
            Self::SpeaksTls => write!(f, "speaks TLS, but its address begins with http://"),
            Self::NoTls(why) => {
                write!(f, "no TLS connection, though its address begins with https:// ({why})")
            }
            Self::LongHeader { bytes } => write!(f, "the answer's header is over {bytes} bytes"),
            Self::Redirects { followed } => write!(f, "still redirects after {followed} redirects"),
            Self::Endless { bytes } => write!(f, "the answer does not end ({bytes} bytes so far)"),
            Self::BrokeOff { bytes } => write!(f, "the answer broke off after {bytes} bytes"),
            Self::Status { status, wanted } => write!(f, "answers {status}, not {wanted}"),
            Self::Body { lacks } => write!(f, "the answer does not contain {lacks:?}"),
        }
    }
}

/// A duration for people: `5 s`, `0.2 s`.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = self.0.as_millis().div_ceil(100);
        match (tenths / 10, tenths % 10) {
            (whole, 0) => write!(f, "{whole} s"),
            (whole, part) => write!(f, "{whole}.{part} s"),
        }
    }
}

/// Tells from probe after probe whether a server that was well has hung.
///
/// Times are offsets from any fixed moment of a clock that never goes back.
#[derive(Clone, Debug)]
pub struct Liveness {
    grace: Duration,
    sick_since: Option<Duration>,
}

/// How a running server stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vital {
    /// It answers.
    Well,
    /// It does not answer as it should, but not for long enough to count.
    Doubtful,
    /// It has not answered as it should for this long, and its grace is over.
    Hung(Duration),
}

impl Liveness {
    /// Starts with a server that is well.
    pub fn new(grace: Duration) -> Self {
        Self { grace, sick_since: None }
    }

    /// Takes in one probe, which began at `at`.
    pub fn take(&mut self, at: Duration, fault: Option<&Fault>) -> Vital {
        if !fault.is_some_and(Fault::is_hang) {
            self.sick_since = None;
            return Vital::Well;
        }
        let since = *self.sick_since.get_or_insert(at);
        match at.saturating_sub(since) {
            sick if sick >= self.grace => Vital::Hung(sick),
            _ => Vital::Doubtful,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_status_are_read() {
        for (text, want) in [
            ("200", Some((200, 200))),
            ("200-399", Some((200, 399))),
            (" 200 - 204 ", Some((200, 204))),
            ("4xx", Some((400, 499))),
            ("399-200", None),
            ("20", None),
            ("600", None),
            ("0xx", None),
            ("200-", None),
            ("+200", None),
            ("", None),
        ] {
            let want = want.map(|(from, to)| StatusRange { from, to });
            assert_eq!(StatusRange::parse(text), want, "{text:?}");
        }
        assert_eq!(StatusRange::default().to_string(), "200-399");
    }

    #[test]
    fn a_server_hangs_when_it_is_sick_past_its_grace_without_a_break() {
        let second = Duration::from_secs;
        let broken = Fault::Status { status: 503, wanted: StatusRange::default() };
        let silent = Fault::Silent { within: second(5) };
        let missing = Fault::Status { status: 404, wanted: StatusRange::default() };
        let mut liveness = Liveness::new(second(30));
        for (at, fault, want) in [
            (0, None, Vital::Well),
            (10, Some(&broken), Vital::Doubtful),
            (39, Some(&silent), Vital::Doubtful),
            (40, Some(&broken), Vital::Hung(second(30))),
            (50, None, Vital::Well),
            (60, Some(&silent), Vital::Doubtful),
            (80, Some(&missing), Vital::Well),
            (95, Some(&silent), Vital::Doubtful),
            (125, Some(&silent), Vital::Hung(second(30))),
        ] {
            assert_eq!(liveness.take(second(at), fault), want, "at {at} s");
        }
    }

    #[test]
    fn faults_are_told_in_words() {
        let silent = Fault::Silent { within: Duration::from_millis(1500) };
        assert_eq!(silent.to_string(), "takes connections but gave no answer within 1.5 s");
        let status = Fault::Status { status: 500, wanted: StatusRange { from: 200, to: 200 } };
        assert_eq!(status.to_string(), "answers 500, not 200");
    }
}
