//! The journal's entries as JSON lines.
//!
//! `{"seq":7,"at":"2026-01-02T03:04:05Z","by":…,"incident":…,"event":"noted","version":1,"data":…}`
//!
//! A reader ignores fields it does not know; an event of an unknown kind or version is kept as it
//! is. Anything else out of shape is an error that says what is wrong.

use jiff::Timestamp;
use salve_core::event::{Actor, DecodeError, Encoded, Entry, Event, Seal};
use salve_core::id::IncidentId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The highest number an entry can have: what every reader of JSON holds exactly.
pub(super) const MAX_SEQ: u64 = (1 << 53) - 1;

/// Why a line is not an entry.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// It is not JSON of the right shape.
    #[error("not a line of a journal")]
    Shape(#[source] serde_json::Error),
    /// Its number is none that an entry can have.
    #[error("{0} is not an entry's number")]
    Seq(u64),
    /// What happened is malformed.
    #[error("not an event")]
    Event(#[source] DecodeError),
}

#[derive(Debug, Serialize, Deserialize)]
struct JournalLine {
    seq: u64,
    at: Timestamp,
    by: Actor,
    incident: Option<IncidentId>,
    event: String,
    version: u32,
    data: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seal: Option<Seal>,
}

/// Returns the entry as one line of JSON, without the line's end.
pub fn to_line(entry: &Entry) -> String {
    let Encoded { kind, version, data } = entry.event.encode();
    let Entry { seq, at, ref by, incident, event: _, ref seal } = *entry;
    let (by, seal) = (by.clone(), seal.clone());
    let line = JournalLine { seq, at, by, incident, event: kind, version, data, seal };
    // Every part has string keys only, so there is no failing path.
    serde_json::to_string(&line).unwrap_or_default()
}

/// Reads an entry from one line of JSON.
pub fn parse_line(line: &str) -> Result<Entry, LineError> {
    let line: JournalLine = serde_json::from_str(line).map_err(LineError::Shape)?;
    let JournalLine { seq, at, by, incident, event: kind, version, data, seal } = line;
    if seq == 0 || seq > MAX_SEQ {
        return Err(LineError::Seq(seq));
    }
    let event = Event::decode(Encoded { kind, version, data }).map_err(LineError::Event)?;
    Ok(Entry { seq, at, by, incident, event, seal })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_is_read_back_as_it_was_also_of_an_unknown_kind() {
        for line in [
            r#"{"seq":1,"at":"2026-01-02T03:04:05.000006Z","by":{"person":{"name":"ann"}},"incident":null,"event":"noted","version":1,"data":{"text":"hi"}}"#,
            r#"{"seq":9007199254740991,"at":"2026-01-02T03:04:05Z","by":{"agent":{"name":"a"}},"incident":"0192f0c1-7d1e-7cc3-8a4e-5f6a7b8c9d0e","event":"dreamed","version":7,"data":[1,{"x":null}]}"#,
        ] {
            assert_eq!(to_line(&parse_line(line).unwrap()), line);
        }
    }

    #[test]
    fn what_is_not_an_entry_is_refused() {
        let line = |seq: &str, event: &str, version: &str, data: &str| {
            format!(
                r#"{{"seq":{seq},"at":"2026-01-02T03:04:05Z","by":{{"agent":{{"name":"a"}}}},"incident":null,"event":{event},"version":{version},"data":{data}}}"#
            )
        };
        let good = line("1", r#""noted""#, "1", r#"{"text":"hi"}"#);
        parse_line(&good).unwrap();
        for bad in [
            String::new(),
            "null".into(),
            good[..good.len() - 1].into(),
            format!("{good}{good}"),
            good.replace(r#""seq":1,"#, r#""seq":1,"seq":2,"#),
            line("0", r#""noted""#, "1", r#"{"text":"hi"}"#),
            line("9007199254740992", r#""noted""#, "1", r#"{"text":"hi"}"#),
            line("-1", r#""noted""#, "1", r#"{"text":"hi"}"#),
            line("1", r#""noted""#, "0", r#"{"text":"hi"}"#),
            line("1", r#""noted""#, "1", r#"{"text":7}"#),
            line("1", "null", "1", "{}"),
            line("1", r#""x""#, "1", &format!("{}{}", "[".repeat(999), "]".repeat(999))),
        ] {
            assert!(parse_line(&bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn nothing_makes_the_reader_stumble_and_what_it_reads_it_writes(
            text in r#"\PC{0,60}"#,
            cut in 0_usize..200,
            with in any::<u8>(),
        ) {
            let quoted = serde_json::to_string(&text).unwrap();
            let line = format!(
                r#"{{"seq":7,"at":"2026-01-02T03:04:05Z","by":{{"agent":{{"name":{quoted}}}}},"incident":null,"event":{quoted},"version":2,"data":{quoted}}}"#
            );
            let entry = parse_line(&line).unwrap();
            prop_assert_eq!(&to_line(&entry), &line);
            let mut bytes = line.into_bytes();
            let at = cut % bytes.len();
            bytes[at] = with;
            if let Ok(entry) = parse_line(&String::from_utf8_lossy(&bytes)) {
                prop_assert_eq!(parse_line(&to_line(&entry)).unwrap(), entry);
            }
            let _ = parse_line(&text);
        }
    }
}
