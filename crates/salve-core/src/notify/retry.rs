//! What follows from an answer to a message.

use std::time::Duration;

/// The waits between attempts; each is lengthened by up to a quarter.
const WAITS: [u64; 8] = [1, 5, 30, 120, 300, 600, 1_800, 3_600];
/// The longest that a target may make us wait.
const LONGEST: Duration = Duration::from_secs(3_600);

/// How a target answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetAnswer {
    /// With a status, and a wish how long to wait, if it has one.
    Status {
        /// The status.
        code: u16,
        /// The wait that it asks for.
        retry_after: Option<Duration>,
    },
    /// Not at all, or not in time.
    None,
    /// It was never asked: its address is not one to send to.
    Forbidden,
}

/// What follows from an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// It was taken.
    Delivered,
    /// It is tried again after this time.
    Again(Duration),
    /// It was tried often enough for now.
    Enough,
    /// Trying again would not help.
    Hopeless,
}

/// Returns what follows when the `attempt`th attempt, from 1, was answered so; `luck`, from 0 to
/// 255, spreads those who failed together.
pub fn after(attempt: u32, answer: TargetAnswer, luck: u8) -> After {
    let again = |least: Duration| {
        let place = usize::try_from(attempt.saturating_sub(1)).unwrap_or(usize::MAX);
        let Some(&seconds) = WAITS.get(place) else { return After::Enough };
        let wait = Duration::from_millis(seconds * 1_000 + seconds * 250 * u64::from(luck) / 255);
        After::Again(wait.max(least.min(LONGEST)))
    };
    match answer {
        TargetAnswer::Status { code: 200..=299, .. } => After::Delivered,
        TargetAnswer::Status { code: 408 | 425 | 429 | 500..=599, retry_after } => {
            again(retry_after.unwrap_or_default())
        }
        // Elsewhere is not followed; gone is for good; other refusals stay the same.
        TargetAnswer::Status { .. } | TargetAnswer::Forbidden => After::Hopeless,
        TargetAnswer::None => again(Duration::ZERO),
    }
}
