//! Mistakes in calling a tool: how sure it is that a call is one.
//!
//! The numbers are those of the tools spec: confidence grows with observations in steps, mixes with
//! how often a warning prevented the failure, falls with every warning that was wrong, and fades
//! while nothing is seen. Everything is computed from counts and two times, so nothing is ever
//! counted twice.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::Confidence;

/// From here on a pattern warns.
pub const ACTIVE: Confidence = Confidence::percent(70);
/// From here on it warns most strongly, and blocks where the user wants that.
pub const STRONGEST: Confidence = Confidence::percent(95);
/// A pattern not seen for this long is dropped, whatever its confidence.
pub const EXPIRY: SignedDuration = SignedDuration::from_hours(90 * 24);

/// Below this a pattern is hardly believed.
const LOW: Confidence = Confidence::percent(30);
/// From here on it is nearly sure.
const HIGH: Confidence = Confidence::percent(60);
const FLOOR: Confidence = Confidence::percent(30);
const FALSE_POSITIVE: Confidence = Confidence::percent(5);
const FADING: Confidence = Confidence::percent(5);
const FADING_PERIOD: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Confidence by number of observations: at least so many give so much.
const STEPS: [(u64, Confidence); 7] = [
    (100, Confidence::percent(95)),
    (45, Confidence::percent(92)),
    (20, Confidence::percent(85)),
    (10, Confidence::percent(75)),
    (5, Confidence::percent(70)),
    (3, Confidence::percent(60)),
    (0, Confidence::percent(50)),
];

/// What happened around one pattern so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageRecord {
    /// Failures seen.
    pub observations: u64,
    /// Warned calls whose end is known.
    pub warned: u64,
    /// Warned calls that were then changed and worked.
    pub preventions: u64,
    /// Warned calls that went on unchanged and worked.
    pub false_positives: u64,
    /// When the failure was last seen.
    pub last_seen: Timestamp,
}

/// How loudly a pattern speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// It only watches.
    Quiet,
    /// It warns.
    Active,
    /// It warns most strongly.
    Strongest,
}

/// Where a pattern stands in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PatternStage {
    /// Seen once.
    New,
    /// Hardly believed.
    Low,
    /// Believed a little.
    Medium,
    /// Nearly sure.
    High,
    /// Sure enough to warn.
    Active,
    /// Not seen for so long that it is dropped.
    Expired,
}

impl PatternStage {
    /// Returns its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Active => "active",
            Self::Expired => "expired",
        }
    }
}

/// How a call that was warned about came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warned {
    /// It was changed and worked.
    Prevented,
    /// It went on as it was and worked: the warning was wrong.
    FalsePositive,
    /// It failed all the same.
    FailedAnyway,
}

impl UsageRecord {
    /// Starts a pattern with its first observation.
    pub fn first(at: Timestamp) -> Self {
        Self { observations: 1, warned: 0, preventions: 0, false_positives: 0, last_seen: at }
    }

    /// Takes in one more failure of this pattern.
    pub fn observe(&mut self, at: Timestamp) {
        self.observations = self.observations.saturating_add(1);
        self.last_seen = self.last_seen.max(at);
    }

    /// Takes in how a call that was warned about came out.
    pub fn settle(&mut self, warned: Warned, at: Timestamp) {
        self.warned = self.warned.saturating_add(1);
        match warned {
            Warned::Prevented => {
                self.preventions = self.preventions.saturating_add(1);
                self.last_seen = self.last_seen.max(at);
            }
            Warned::FalsePositive => self.false_positives = self.false_positives.saturating_add(1),
            Warned::FailedAnyway => self.observe(at),
        }
    }

    /// Returns how sure the pattern is, as of `now`.
    pub fn confidence(&self, now: Timestamp) -> Confidence {
        let step = STEPS.iter().find(|(least, _)| self.observations >= *least);
        let base = step.map_or(Confidence::NONE, |(_, confidence)| *confidence);
        let mixed = match self.warned {
            // Without a warning there was nothing to prevent.
            0 => base,
            warned => base.mix_7_3(Confidence::ratio(self.preventions, warned)),
        };
        let judged = mixed.less(FALSE_POSITIVE.times(self.false_positives), FLOOR);
        judged.less(FADING.times(self.idle_periods(now)), Confidence::NONE)
    }

    /// Returns how loudly the pattern speaks, as of `now`.
    pub fn level(&self, now: Timestamp) -> Level {
        match self.confidence(now) {
            sure if sure >= STRONGEST => Level::Strongest,
            sure if sure >= ACTIVE => Level::Active,
            _ => Level::Quiet,
        }
    }

    /// Returns where the pattern stands, as of `now`.
    pub fn stage(&self, now: Timestamp) -> PatternStage {
        let sure = self.confidence(now);
        match () {
            () if self.is_expired(now) => PatternStage::Expired,
            () if sure >= ACTIVE => PatternStage::Active,
            () if sure < LOW => PatternStage::Low,
            () if self.observations <= 1 => PatternStage::New,
            () if sure < HIGH => PatternStage::Medium,
            () => PatternStage::High,
        }
    }

    /// Returns whether the pattern is so old that it is dropped.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        now.duration_since(self.last_seen) > EXPIRY
    }

    fn idle_periods(&self, now: Timestamp) -> u64 {
        let idle = now.duration_since(self.last_seen).as_secs();
        u64::try_from(idle / FADING_PERIOD.as_secs()).unwrap_or(0)
    }
}
