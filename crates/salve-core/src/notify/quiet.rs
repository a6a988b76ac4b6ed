//! The hours in which nobody wants to be told.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The minutes of a day.
const DAY: u16 = 24 * 60;

/// A span of every day, by the clock on the wall; it may pass midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuietHours {
    from: u16,
    until: u16,
}

/// That a text names no span of a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected two times of a day, such as 22:00-07:00")]
pub struct BadQuietHours;

impl QuietHours {
    /// Returns how long they last from this minute of the day on; nothing if it is not quiet.
    pub fn left(&self, minute: u16) -> Option<Duration> {
        let since_start = (minute + DAY - self.from) % DAY;
        let span = (self.until + DAY - self.from) % DAY;
        let left = (since_start < span).then(|| span - since_start)?;
        Some(Duration::from_secs(u64::from(left) * 60))
    }
}

impl FromStr for QuietHours {
    type Err = BadQuietHours;

    fn from_str(text: &str) -> Result<Self, BadQuietHours> {
        let (from, until) = text.split_once('-').ok_or(BadQuietHours)?;
        let hours = Self { from: minute_of_day(from)?, until: minute_of_day(until)? };
        // The same time twice could mean never or always.
        if hours.from == hours.until { Err(BadQuietHours) } else { Ok(hours) }
    }
}

fn minute_of_day(text: &str) -> Result<u16, BadQuietHours> {
    let (hour, minute) = text.trim().split_once(':').ok_or(BadQuietHours)?;
    let number = |digits: &str, end: u16| -> Result<u16, BadQuietHours> {
        let is_plain =
            (1..=2).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        let value = digits.parse().ok().filter(|value| is_plain && *value < end);
        value.ok_or(BadQuietHours)
    };
    Ok(number(hour, 24)? * 60 + number(minute, 60)?)
}

impl fmt::Display for QuietHours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, until) = (self.from, self.until);
        write!(f, "{:02}:{:02}-{:02}:{:02}", from / 60, from % 60, until / 60, until % 60)
    }
}
