//! When an agent that has no quota can work again.

use jiff::{SignedDuration, Timestamp};

/// The longest time that an agent's own word is taken for.
const LONGEST: SignedDuration = SignedDuration::from_hours(8 * 24);

/// The longest pause where the agent says nothing.
const LONGEST_GUESS: SignedDuration = SignedDuration::from_hours(6);

/// The times that stand in agents' messages, in seconds.
const UNITS: [(&str, f64); 5] =
    [("d", 86_400.0), ("h", 3_600.0), ("ms", 0.001), ("m", 60.0), ("s", 1.0)];

/// Words after which agents say how long it takes.
const BEFORE: [&str; 4] = ["try again in", "retry in", "retry after", "resets in"];

/// Returns when to try again: when the agent says so, else after `pause`, which doubles with each
/// time in a row.
pub fn until(said: &str, now: Timestamp, pause: SignedDuration, times: u32) -> Timestamp {
    let told = moment(said, now).or_else(|| wait(said).and_then(|wait| later(now, wait)));
    let latest = later(now, LONGEST).unwrap_or(Timestamp::MAX);
    match told.filter(|at| *at > now && *at <= latest) {
        Some(at) => at,
        None => {
            let doubled = pause.checked_mul(1 << times.min(16)).unwrap_or(SignedDuration::MAX);
            later(now, doubled.min(LONGEST_GUESS.max(pause))).unwrap_or(Timestamp::MAX)
        }
    }
}

fn later(now: Timestamp, wait: SignedDuration) -> Option<Timestamp> {
    now.checked_add(wait).ok()
}

/// Returns the moment that a text names: seconds since 1970 after a `|`, or date and time.
fn moment(said: &str, now: Timestamp) -> Option<Timestamp> {
    let is_near = |at: &Timestamp| *at > now;
    let numbers = said.split('|').skip(1).filter_map(|rest| {
        let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
        Timestamp::from_second(digits.parse().ok()?).ok()
    });
    let words = said.split(|c: char| c.is_whitespace() || matches!(c, '"' | ',' | '(' | ')'));
    let dates = words.filter_map(|word| word.trim_end_matches('.').parse().ok());
    numbers.chain(dates).find(is_near)
}

/// Returns how long a text says it takes, as in `try again in 1h 5m` or `retry after 20 seconds`.
fn wait(said: &str) -> Option<SignedDuration> {
    let said = said.to_lowercase();
    let rest = BEFORE.iter().find_map(|words| said.split_once(words).map(|(_, rest)| rest))?;
    let (mut seconds, mut rest) = (0.0, rest.trim_start_matches([' ', ':']));
    while rest.starts_with(|c: char| c.is_ascii_digit()) {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let number: f64 = number.trim_end_matches('.').parse().ok()?;
        let after = after.trim_start();
        let unit = UNITS.iter().find(|(unit, _)| after.starts_with(unit));
        seconds += number * unit.map_or(1.0, |(_, seconds)| *seconds);
        rest = after.trim_start_matches(char::is_alphabetic).trim_start_matches([' ', ',']);
        rest = rest.strip_prefix("and ").unwrap_or(rest);
    }
    (seconds > 0.0).then(|| SignedDuration::try_from_secs_f64(seconds).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(said: &str, times: u32, want: &str) {
        let now: Timestamp = "2026-01-23T05:00:00Z".parse().unwrap();
        let got = until(said, now, SignedDuration::from_mins(15), times);
        assert_eq!(got.to_string(), want, "{said}");
    }

    #[test]
    fn the_agents_own_word_counts_within_reason() {
        check("Claude AI usage limit reached|1769151600", 0, "2026-01-23T07:00:00Z");
        check("limit reached, resets at 2026-01-23T06:30:00Z.", 3, "2026-01-23T06:30:00Z");
        check("Rate limit: try again in 1.5s", 0, "2026-01-23T05:00:01.5Z");
        check("usage limit. Try again in 2 days 3 hours 20 minutes.", 0, "2026-01-25T08:20:00Z");
        check("429, retry after 20", 0, "2026-01-23T05:00:20Z");
        check("retry in 500ms", 0, "2026-01-23T05:00:00.5Z");
    }

    #[test]
    fn without_a_word_to_go_by_the_pause_doubles_up_to_a_bound() {
        check("quota exceeded", 0, "2026-01-23T05:15:00Z");
        check("quota exceeded", 1, "2026-01-23T05:30:00Z");
        check("quota exceeded", 40, "2026-01-23T11:00:00Z");
        check("usage limit reached|1000", 0, "2026-01-23T05:15:00Z");
        check("try again in 400 days", 0, "2026-01-23T05:15:00Z");
        check("try again in 99999999999999999999999999999999 days", 0, "2026-01-23T05:15:00Z");
        check("resets at 2199-01-01T00:00:00Z", 0, "2026-01-23T05:15:00Z");
    }
}
