//! How sure Salve is of something.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A share between 0 and 1, counted in ten-thousandths so that sums are exact.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Confidence(u16);

impl Confidence {
    /// No confidence at all.
    pub const NONE: Self = Self(0);
    /// Certainty.
    pub const FULL: Self = Self(10_000);

    /// Makes a confidence of that many hundredths, at most 100.
    pub const fn percent(hundredths: u16) -> Self {
        if hundredths > 100 { Self::FULL } else { Self(hundredths * 100) }
    }

    /// Makes a confidence from a share; what lies outside 0 to 1 is taken to the nearer end.
    pub fn from_share(share: f64) -> Self {
        // `as` takes NaN to zero.
        Self((share.clamp(0.0, 1.0) * 10_000.0).round() as u16)
    }

    /// Returns `part` of `whole`; nothing of nothing is none.
    pub fn ratio(part: u64, whole: u64) -> Self {
        if whole == 0 {
            return Self::NONE;
        }
        let share = u128::from(part.min(whole)) * 10_000 / u128::from(whole);
        Self(u16::try_from(share).unwrap_or(10_000))
    }

    /// Returns the share, from 0 to 1.
    pub fn share(self) -> f64 {
        f64::from(self.0) / 10_000.0
    }

    /// Returns this less `loss`, but never below `floor`, nor raised to it.
    pub fn less(self, loss: Self, floor: Self) -> Self {
        self.min(self.0.saturating_sub(loss.0).max(floor.0).into())
    }

    /// Returns seven parts of this and three of `other`.
    pub(super) fn mix_7_3(self, other: Self) -> Self {
        let mixed = (u32::from(self.0) * 7 + u32::from(other.0) * 3) / 10;
        u16::try_from(mixed).unwrap_or(10_000).into()
    }

    /// Returns `times` this, at most certainty.
    pub(super) fn times(self, times: u64) -> Self {
        let product = u64::from(self.0).saturating_mul(times);
        u16::try_from(product).unwrap_or(10_000).into()
    }
}

impl From<u16> for Confidence {
    fn from(ten_thousandths: u16) -> Self {
        Self(ten_thousandths.min(10_000))
    }
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", (self.0 + 50) / 100)
    }
}

impl fmt::Debug for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Confidence({})", self.share())
    }
}

impl Serialize for Confidence {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.share())
    }
}

impl<'de> Deserialize<'de> for Confidence {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let share = f64::deserialize(deserializer)?;
        if !(0.0..=1.0).contains(&share) {
            let error = format!("a confidence is between 0 and 1, not {share}");
            return Err(serde::de::Error::custom(error));
        }
        Ok(Self::from_share(share))
    }
}
