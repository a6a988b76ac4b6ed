//! What has run unattended so far in this run.

use serde_json::Value;

/// The counters that limits and cooldown go by.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GateCounters {
    /// How many commands have run unattended.
    pub auto_recoveries_this_run: u64,
    /// How long ago the last one started, if one has.
    pub seconds_since_last_auto: Option<f64>,
}

/// Counters that cannot be counted with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadState {
    /// The counters are no object.
    #[error("the state should be an object")]
    NotAnObject,
    /// A counter is no count.
    #[error("`{0}` should be a number, zero or more")]
    NotACount(&'static str),
}

impl GateCounters {
    /// Reads the counters; those that are missing have not begun to count.
    ///
    /// # Errors
    ///
    /// Returns [`BadState`] for anything but an object of plain counts.
    pub fn read(value: &Value) -> Result<Self, BadState> {
        const COUNT: &str = "auto_recoveries_this_run";
        const SINCE: &str = "seconds_since_last_auto";
        let map = value.as_object().ok_or(BadState::NotAnObject)?;
        let auto_recoveries_this_run = match map.get(COUNT) {
            None => 0,
            Some(value) => value.as_u64().ok_or(BadState::NotACount(COUNT))?,
        };
        let seconds_since_last_auto = match map.get(SINCE) {
            None | Some(Value::Null) => None,
            Some(value) => {
                let seconds = value.as_f64().filter(|seconds| *seconds >= 0.0);
                Some(seconds.ok_or(BadState::NotACount(SINCE))?)
            }
        };
        Ok(Self { auto_recoveries_this_run, seconds_since_last_auto })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counters_are_plain_counts_or_nothing() {
        for (value, count, since) in [
            (json!({}), 0, None),
            (json!({"auto_recoveries_this_run": 2}), 2, None),
            (json!({"seconds_since_last_auto": null}), 0, None),
            (json!({"seconds_since_last_auto": 59.5, "else": 1}), 0, Some(59.5)),
        ] {
            let want =
                GateCounters { auto_recoveries_this_run: count, seconds_since_last_auto: since };
            assert_eq!(GateCounters::read(&value), Ok(want), "{value}");
        }
        for value in [
            json!(null),
            json!([]),
            json!(3),
            json!({"auto_recoveries_this_run": -1}),
            json!({"auto_recoveries_this_run": 1.5}),
            json!({"auto_recoveries_this_run": "1"}),
            json!({"auto_recoveries_this_run": null}),
            json!({"seconds_since_last_auto": -0.5}),
            json!({"seconds_since_last_auto": "60"}),
            json!({"seconds_since_last_auto": true}),
        ] {
            assert!(GateCounters::read(&value).is_err(), "{value}");
        }
    }
}
