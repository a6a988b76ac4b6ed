//! The value of `--since`: a duration, a time or an entry's number.

use std::str::FromStr;

use jiff::civil::{Date, DateTime, Time};
use jiff::{Span, Timestamp, Zoned};

/// Where to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Since {
    /// After the entry of this number.
    After(u64),
    Time(Timestamp),
}

impl Since {
    /// Returns the number to begin after and the time to begin at.
    pub(super) fn parts(self) -> (u64, Option<Timestamp>) {
        match self {
            Since::After(seq) => (seq, None),
            Since::Time(time) => (0, Some(time)),
        }
    }

    fn parse(text: &str, now: &Zoned) -> Option<Self> {
        let text = text.trim();
        if let Ok(seq) = text.parse() {
            return Some(Since::After(seq));
        }
        if let Ok(time) = text.parse() {
            return Some(Since::Time(time));
        }
        if let Ok(span) = text.parse::<Span>() {
            // "10m" and "10m ago" both mean the past.
            let time = now.checked_sub(span.abs()).ok()?;
            return Some(Since::Time(time.timestamp()));
        }
        let local = text
            .parse::<DateTime>()
            .or_else(|_| text.parse::<Date>().map(|day| day.to_datetime(Time::midnight())))
            .or_else(|_| text.parse::<Time>().map(|time| now.date().to_datetime(time)))
            .ok()?;
        let time = local.to_zoned(now.time_zone().clone()).ok()?;
        Some(Since::Time(time.timestamp()))
    }
}

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text, &Zoned::now()).ok_or_else(|| {
            "give a duration (10m, 2h, 3d), a time (14:00, 2026-01-31, 2026-01-31T14:00:00Z) \
             or an entry's number"
                .to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_a_duration_and_a_time_are_told_apart() {
        let now: Zoned = "2026-03-10T15:00:00+02:00[+02:00]".parse().unwrap();
        let at = |text: &str| Some(Since::Time(text.parse().unwrap()));
        for (text, want) in [
            ("42", Some(Since::After(42))),
            ("10m", at("2026-03-10T12:50:00Z")),
            ("10m ago", at("2026-03-10T12:50:00Z")),
            ("1h 30m", at("2026-03-10T11:30:00Z")),
            ("3d", at("2026-03-07T13:00:00Z")),
            ("14:00", at("2026-03-10T12:00:00Z")),
            ("2026-03-01", at("2026-02-28T22:00:00Z")),
            ("2026-03-01 10:00", at("2026-03-01T08:00:00Z")),
            ("2026-03-01T10:00:00Z", at("2026-03-01T10:00:00Z")),
            ("yesterday", None),
            ("-1", None),
            ("", None),
            ("99999999y", None),
        ] {
            assert_eq!(Since::parse(text, &now), want, "{text}");
        }
    }
}
