//! Whether a tool's answer is a failure, of which kind, and whether the call may have acted.
//!
//! A protocol error and a result with `isError` say so themselves. A plain text is a failure only if
//! it begins like one: data that merely mentions an error, or a number that looks like a status, is
//! none.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use regex_automata::meta::Regex;
use serde::Deserialize;

use crate::class::Class;

/// What the beginning of a text says that is a failure; the second is how some libraries escape the
/// first.
const MARKS: [&str; 11] = [
    "❌",
    "\\u274c",
    "✗",
    "\\u2717",
    "Error",
    "ERROR",
    "error:",
    "Failed to ",
    "fatal:",
    "Traceback (",
    "Exception",
];
/// How much of a plain text is looked at, as in the spec.
const LOOKED_AT: usize = 300;
/// The longest pause that an error may ask for.
const LONGEST_PAUSE: u64 = 600;

/// The kinds of failure that something can be done about without knowing the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureCategory {
    /// The other side cannot be reached.
    Network,
    /// The other side does not accept who asks.
    Auth,
    /// The other side wants to be asked later.
    Busy,
    /// Anything else.
    Other,
}

impl FailureCategory {
    /// Returns its name in settings and statistics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Auth => "auth",
            Self::Busy => "busy",
            Self::Other => "unknown",
        }
    }
}

/// Whether a failed call may have done something before it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallReach {
    /// It was not let in, or never got there.
    NotReached,
    /// Nobody knows.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedCall {
    /// The tool, or the command.
    pub tool: String,
    /// What it said, not scrubbed.
    pub text: String,
    /// What the fingerprint says it is.
    pub class: Class,
    /// What kind of failure it is.
    pub category: FailureCategory,
    /// Whether it may have acted.
    pub reach: CallReach,
}

impl FailedCall {
    /// Judges what a tool said, with what the fingerprint says about it.
    pub fn new(tool: &str, text: &str, class: Class) -> Self {
        let words = &*WORDS;
        let said = |regex: &Regex| regex.is_match(text);
        let by_class = class.categories().tool;
        let category = if said(&words.busy) {
            FailureCategory::Busy
        } else if by_class == "auth" || said(&words.refused) {
            FailureCategory::Auth
        } else if by_class == "network" || said(&words.unreached) || said(&words.lost) {
            FailureCategory::Network
        } else {
            FailureCategory::Other
        };
        let reach = match category {
            FailureCategory::Auth | FailureCategory::Busy => CallReach::NotReached,
            FailureCategory::Network if said(&words.unreached) && !said(&words.lost) => {
                CallReach::NotReached
            }
            FailureCategory::Network | FailureCategory::Other => CallReach::Unknown,
        };
        Self { tool: tool.to_owned(), text: text.to_owned(), class, category, reach }
    }

    /// Returns for how many seconds the error asks to wait.
    pub fn retry_after(&self) -> Option<u64> {
        let mut caught = WORDS.later.create_captures();
        WORDS.later.captures(&self.text, &mut caught);
        let span = caught.get_group(1)?;
        self.text[span.range()].parse::<u64>().ok().map(|seconds| seconds.min(LONGEST_PAUSE))
    }
}

/// The spec's words and what other programs say instead.
struct FailureWords {
    /// It never got there.
    unreached: Regex,
    /// It may have got there.
    lost: Regex,
    refused: Regex,
    busy: Regex,
    later: Regex,
}

static WORDS: LazyLock<FailureWords> = LazyLock::new(words);

#[expect(clippy::expect_used, reason = "five constant expressions; tests run every one")]
fn words() -> FailureWords {
    let regex = |text: &str| Regex::new(text).expect("a constant expression");
    // A number is a status only in the company of a word that says so.
    let status = |codes: &str| {
        format!(
            r"\b(?:https?(?:/[\d.]+)?|status|code|error|response|returned|got)\b[\s:=(\[]{{0,3}}(?:code|status|error)?[\s:=(\[]{{0,3}}(?:{codes})\b|^\W*(?:{codes})\b|\b(?:{codes})\W{{1,3}}(?:unauthori[sz]ed|forbidden|client error|too many)"
        )
    };
    FailureWords {
        unreached: regex(
            r"(?i)\bno route to host\b|\bconnection refused\b|\bnetwork (?:is )?unreachable\b|\bdial tcp\b|\bECONNREFUSED\b|\bEHOSTUNREACH\b|\bENETUNREACH\b|\bENOTFOUND\b|\bno such host\b|could not resolve host|name or service not known|temporary failure in name resolution",
        ),
        lost: regex(
            r"(?i)\btimed? ?out\b|\btimeout\b|\bdeadline exceeded\b|\bETIMEDOUT\b|\bconnection reset\b|\bECONNRESET\b|\bsocket hang up\b",
        ),
        refused: regex(&format!(
            r"(?i)\bunauthori[sz]ed\b|\bforbidden\b|\b(?:token|session|credentials?) (?:has |have |is |are )?expired\b|\bexpired (?:token|credentials?|session)\b|\bpermission denied\b|\bnot logged in\b|\bauthentication (?:required|failed)\b|{}",
            status("401|403")
        )),
        busy: regex(&format!(
            r"(?i)\btoo many requests\b|\brate[- ]limit(?:ed| exceeded)\b|{}",
            status("429")
        )),
        later: regex(
            r"(?i)\b(?:retry[-_ ]after|try again in|retry in)\W{0,4}(\d{1,6})\b(?:\s*s\b|\s*sec|\s*$|\W)",
        ),
    }
}

/// Returns whether a line may hold a failed result, without parsing it; `false` is certain.
pub fn may_be_failure(line: &[u8]) -> bool {
    static IS_ERROR: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"isError\""));
    static TEXT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"text\""));
    if let Some(at) = IS_ERROR.find(line) {
        let rest = line[at + "\"isError\"".len()..].trim_ascii_start();
        let value = rest.strip_prefix(b":").unwrap_or(rest).trim_ascii_start();
        if !value.starts_with(b"false") {
            return true;
        }
    }
    TEXT.find_iter(line).any(|at| {
        let rest = line[at + "\"text\"".len()..].trim_ascii_start();
        let Some(value) = rest.strip_prefix(b":") else { return false };
        let Some(text) = value.trim_ascii_start().strip_prefix(b"\"") else { return false };
        begins_like_a_failure(text)
    })
}

fn begins_like_a_failure(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    MARKS.iter().any(|mark| text.starts_with(mark.as_bytes()))
}

/// Returns what a failed answer says; nothing if it did not fail.
pub fn failure_in(line: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct FailedAnswer {
        error: Option<ProtocolError>,
        result: Option<ToolResult>,
    }
    #[derive(Deserialize)]
    struct ProtocolError {
        message: Option<String>,
    }
    #[derive(Deserialize)]
    struct ToolResult {
        #[serde(rename = "isError")]
        is_error: Option<bool>,
        content: Option<Vec<Content>>,
    }
    #[derive(Deserialize)]
    struct Content {
        text: Option<String>,
    }
    let answered: FailedAnswer = serde_json::from_slice(line).ok()?;
    if let Some(error) = answered.error {
        return Some(error.message.unwrap_or_default());
    }
    let result = answered.result?;
    let texts = result.content.unwrap_or_default().into_iter().filter_map(|content| content.text);
    let text = texts.collect::<Vec<_>>().join("\n");
    if result.is_error == Some(true) {
        return Some(text);
    }
    // Without the flag, the beginning has to say that it failed and why.
    let looked = text.char_indices().nth(LOOKED_AT).map_or(text.len(), |(at, _)| at);
    let beginning = &text[..looked];
    let category = FailedCall::new("", beginning, Class::Unknown).category;
    let is_known = category != FailureCategory::Other || beginning.trim_start().starts_with('❌');
    (begins_like_a_failure(text.as_bytes()) && is_known).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn category(text: &str) -> FailureCategory {
        FailedCall::new("tool", text, Class::Unknown).category
    }

    #[test]
    fn every_word_of_the_spec_is_known_in_its_place() {
        for (text, want) in [
            ("dial tcp 10.0.0.1:443: i/o timeout", FailureCategory::Network),
            ("connect: no route to host", FailureCategory::Network),
            ("Connection refused", FailureCategory::Network),
            ("network unreachable", FailureCategory::Network),
            ("request timeout", FailureCategory::Network),
            ("error: You must be logged in (Unauthorized)", FailureCategory::Auth),
            ("HTTP 401", FailureCategory::Auth),
            ("status code: 403", FailureCategory::Auth),
            ("401 Unauthorized", FailureCategory::Auth),
            ("401", FailureCategory::Auth),
            ("Forbidden", FailureCategory::Auth),
            ("token expired", FailureCategory::Auth),
            ("permission denied", FailureCategory::Auth),
            ("HTTP/1.1 429 Too Many Requests", FailureCategory::Busy),
            ("row 401 not found", FailureCategory::Other),
            ("order 14013 is empty", FailureCategory::Other),
            ("403 rows were read", FailureCategory::Auth),
            ("read 403 rows", FailureCategory::Other),
            ("manifest unknown: quay.io/org/app:abc123", FailureCategory::Other),
        ] {
            assert_eq!(category(text), want, "{text}");
        }
    }

    #[test]
    fn only_what_was_not_let_in_has_certainly_not_acted() {
        for (text, want) in [
            ("connection refused", CallReach::NotReached),
            ("dial tcp 1.2.3.4:443: connect: no route to host", CallReach::NotReached),
            ("401 Unauthorized", CallReach::NotReached),
            ("429 Too Many Requests", CallReach::NotReached),
            ("dial tcp: i/o timeout", CallReach::Unknown),
            ("connection reset by peer", CallReach::Unknown),
            ("disk full", CallReach::Unknown),
        ] {
            assert_eq!(FailedCall::new("tool", text, Class::Unknown).reach, want, "{text}");
        }
    }

    #[test]
    fn an_error_may_say_when_to_come_back() {
        for (text, want) in [
            ("429 Too Many Requests\nRetry-After: 30", Some(30)),
            ("rate limited, try again in 5 seconds", Some(5)),
            ("retry_after=12", Some(12)),
            ("Retry-After: 999999", Some(600)),
            ("try again later", None),
        ] {
            assert_eq!(FailedCall::new("t", text, Class::Unknown).retry_after(), want, "{text}");
        }
    }

    #[test]
    fn a_failure_is_found_where_it_is_said_and_not_where_it_is_mentioned() {
        let text = |text: &str| serde_json::json!({"id": 1, "result": {"content": [{"type": "text", "text": text}]}});
        let flagged = |flag: bool| serde_json::json!({"id": 1, "result": {"isError": flag, "content": [{"text": "boom"}]}});
        for (line, want) in [
            (flagged(true), Some("boom")),
            (flagged(false), None),
            (
                serde_json::json!({"id": 1, "error": {"code": -32000, "message": "gone"}}),
                Some("gone"),
            ),
            (text("❌ no route to host"), Some("❌ no route to host")),
            (text("Error: 401 Unauthorized"), Some("Error: 401 Unauthorized")),
            (text("❌ Deploy failed"), Some("❌ Deploy failed")),
            (text("Error handling in Rust is by values"), None),
            (text("The log says: connection refused"), None),
            (text("401 results"), None),
        ] {
            let line = line.to_string();
            let found = failure_in(line.as_bytes());
            assert_eq!(found.as_deref(), want, "{line}");
            let is_protocol = line.contains("\"error\"");
            assert!(want.is_none() || is_protocol || may_be_failure(line.as_bytes()), "{line}");
        }
        let ascii = br#"{"result":{"content":[{"text":"\u274c unauthorized"}]},"id":1}"#;
        assert!(may_be_failure(ascii) && failure_in(ascii).is_some());
        assert!(!may_be_failure(br#"{"result":{"isError": false,"content":[{"text":"fine"}]}}"#));
    }
}
