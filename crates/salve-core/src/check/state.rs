//! The counters of healing, kept in a file with a checksum.
//!
//! They are for people and scripts; no budget hangs on them. A state that cannot be trusted is
//! never used: [`validate_state`] says so, and the last valid checkpoint takes its place.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::attempt::attempts;
use crate::event::{Digest, EffectReport, Event, IncidentEvent, IncidentOutcome, Proof};
use crate::incident::Phase;
use crate::view::IncidentView;

/// The version of the state's shape.
pub const VERSION: u32 = 1;

/// The most failures that are counted by name.
const MOST_ERRORS: usize = 1_000;

/// The largest text that is looked at.
const LARGEST: usize = 4 << 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HealingCounters {
    /// The version of this shape.
    pub version: u32,
    /// Attempts since everything was last undone.
    pub heal_attempts: u64,
    /// How often each failure was seen since then, by its signature.
    pub error_counts: BTreeMap<String, u64>,
    /// Tokens that all healing took.
    pub healing_tokens: u64,
    /// Money that all healing took, in millionths of the currency unit.
    pub healing_cost_micros: u64,
    /// Checks that were healed, and proven to be.
    pub healed: u64,
    pub catastrophic_rollbacks: u64,
    /// What was counted of incidents that are not over.
    pub open: BTreeMap<String, Counted>,
    /// When it was last changed.
    pub updated: Option<Timestamp>,
    /// The hash of all the rest.
    pub checksum: String,
}

/// What was counted of one incident.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counted {
    attempts: u64,
    errors: u64,
    tokens: u64,
    cost_micros: u64,
}

/// Why a text is no state that could be trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// It is not of the state's shape.
    #[error("it is not of its shape: {0}")]
    Malformed(String),
    /// A newer Salve wrote it.
    #[error("a newer Salve wrote it, in version {0}")]
    Newer(u64),
    /// It is not what was written.
    #[error("its checksum is wrong")]
    Checksum,
}

impl Default for HealingCounters {
    fn default() -> Self {
        Self {
            version: VERSION,
            heal_attempts: 0,
            error_counts: BTreeMap::new(),
            healing_tokens: 0,
            healing_cost_micros: 0,
            healed: 0,
            catastrophic_rollbacks: 0,
            open: BTreeMap::new(),
            updated: None,
            checksum: String::new(),
        }
    }
}

/// Reads a state, if it is valid.
///
/// # Errors
///
/// When it is cut short, altered, of a newer version, or no state at all.
pub fn validate_state(text: &[u8]) -> Result<HealingCounters, Invalid> {
    if text.len() > LARGEST {
        return Err(Invalid::Malformed("it is too large".into()));
    }
    let malformed = |error: serde_json::Error| Invalid::Malformed(error.to_string());
    let value: serde_json::Value = serde_json::from_slice(text).map_err(malformed)?;
    match value.get("version").and_then(serde_json::Value::as_u64) {
        Some(version) if version > u64::from(VERSION) => return Err(Invalid::Newer(version)),
        Some(_) | None => {}
    }
    let state: HealingCounters = serde_json::from_value(value).map_err(malformed)?;
    if state.version == VERSION && state.checksum == state.checksum() {
        Ok(state)
    } else {
        Err(Invalid::Checksum)
    }
}

impl HealingCounters {
    /// Returns the text that [`validate_state`] takes.
    pub fn to_text(&self) -> String {
        let sealed = Self { checksum: self.checksum(), ..self.clone() };
        let text = serde_json::to_string_pretty(&sealed).unwrap_or_default();
        text + "\n"
    }

    fn checksum(&self) -> String {
        let open = Self { checksum: String::new(), ..self.clone() };
        let text = serde_json::to_vec(&open).unwrap_or_default();
        Digest::of(&[b"salve heal state", &text]).to_string()
    }

    /// Takes in what happened in an incident since it was last taken in.
    pub fn take_in(&mut self, view: &IncidentView) {
        let id = view.id().to_string();
        let seen = errors(view);
        let attempts = attempts(view);
        let now = Counted {
            attempts: attempts.len() as u64,
            errors: seen.len() as u64,
            tokens: attempts.iter().map(|attempt| attempt.tokens).sum(),
            cost_micros: attempts.iter().map(|attempt| attempt.cost_micros).sum(),
        };
        let phase = view.incident().phase();
        let before = match (self.open.get(&id), phase) {
            (Some(before), _) => *before,
            // It was over before, and all of it was counted.
            (None, Phase::Closed(_)) => return,
            (None, _) => Counted::default(),
        };
        let more = |now: u64, before: u64| now.saturating_sub(before);
        self.heal_attempts += more(now.attempts, before.attempts);
        self.healing_tokens += more(now.tokens, before.tokens);
        self.healing_cost_micros += more(now.cost_micros, before.cost_micros);
        for signature in seen.into_iter().skip(usize::try_from(before.errors).unwrap_or(0)) {
            self.count_error(signature);
        }
        match phase {
            Phase::Closed(outcome) => {
                self.healed += u64::from(outcome == IncidentOutcome::Recovered(Proof::Proven));
                self.open.remove(&id);
            }
            Phase::Choosing
            | Phase::Due { .. }
            | Phase::Doing { .. }
            | Phase::Asking { .. }
            | Phase::CoolingDown { .. }
            | Phase::Ending { .. } => {
                self.open.insert(id, now);
            }
        }
        self.updated = Some(view.incident().clock());
    }

    fn count_error(&mut self, signature: String) {
        if self.error_counts.len() >= MOST_ERRORS && !self.error_counts.contains_key(&signature) {
            let rarest = self.error_counts.iter().min_by_key(|(_, count)| **count);
            if let Some(rarest) = rarest.map(|(signature, _)| signature.clone()) {
                self.error_counts.remove(&rarest);
            }
        }
        *self.error_counts.entry(signature).or_default() += 1;
    }

    /// Returns the state after a catastrophic rollback: the checkpoint's, with its counters of
    /// attempts and errors cleared. What healing has cost is never forgotten.
    pub fn rolled_back(&self, checkpoint: Option<HealingCounters>) -> HealingCounters {
        let base = checkpoint.unwrap_or_default();
        HealingCounters {
            version: VERSION,
            heal_attempts: 0,
            error_counts: BTreeMap::new(),
            healing_tokens: base.healing_tokens.max(self.healing_tokens),
            healing_cost_micros: base.healing_cost_micros.max(self.healing_cost_micros),
            healed: base.healed.max(self.healed),
            catastrophic_rollbacks: base
                .catastrophic_rollbacks
                .max(self.catastrophic_rollbacks)
                .saturating_add(1),
            open: self.open.clone(),
            updated: self.updated,
            checksum: String::new(),
        }
    }
}

/// Returns the failures that an incident saw, in their order.
fn errors(view: &IncidentView) -> Vec<String> {
    let heard = view.lines().iter().filter(|line| line.ignored.is_none());
    let seen = heard.filter_map(|line| match &line.entry.event {
        Event::Incident(IncidentEvent::Opened { symptom, .. })
        | Event::Incident(IncidentEvent::Sickened { symptom }) => Some(symptom),
        Event::Incident(IncidentEvent::Finished {
            report: EffectReport::Verified { symptom: Some(symptom), .. },
            ..
        }) => Some(symptom),
        _ => None,
    });
    seen.map(|symptom| symptom.signature.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::event::{
        Amounts, Effect, IncidentPolicy, RemedyKind, RemedyVerdict, RepairMode, ResourceLimits,
    };
    use crate::incident::testing::{TestIncident, policy, symptom};

    fn story() -> TestIncident {
        let limits = ResourceLimits { attempts: Some(9), ..ResourceLimits::default() };
        TestIncident::new(IncidentPolicy { mode: RepairMode::Agent, limits, ..policy() })
    }

    fn fail(story: &mut TestIncident, name: &'static str, tokens: u64) {
        story.judge(RemedyKind::Command, name, RemedyVerdict::Allow);
        story.finish(Effect::Snapshot, EffectReport::Done);
        let apply = story.run().unwrap().effect;
        let spent = Amounts { tokens, money_micros: tokens * 2, ..Amounts::default() };
        story.salve(Event::Incident(IncidentEvent::Charged { effect: apply, spent })).unwrap();
        story
            .salve(Event::Incident(IncidentEvent::Finished {
                effect: apply,
                report: EffectReport::Done,
            }))
            .unwrap();
        let symptom = Some(Box::new(symptom(2, "other")));
        story.finish(Effect::Verify, EffectReport::Verified { proof: Proof::Failed, symptom });
        story.finish(Effect::RollBack(crate::event::Scope::Attempt), EffectReport::Done);
    }

    fn told(story: &TestIncident, mut state: HealingCounters) -> HealingCounters {
        state.take_in(&IncidentView::of(story.journal.clone()).unwrap());
        state
    }

    #[test]
    fn each_thing_is_counted_once_however_often_it_is_told() {
        let mut story = story();
        let mut state = told(&story, HealingCounters::default());
        fail(&mut story, "one", 10);
        for _ in 0..3 {
            state = told(&story, state);
        }
        fail(&mut story, "two", 5);
        state = told(&story, state);
        assert_eq!(
            (state.heal_attempts, state.healing_tokens, state.healing_cost_micros),
            (2, 15, 30)
        );
        let counts: Vec<_> = state.error_counts.iter().map(|(s, n)| (s.as_str(), *n)).collect();
        assert_eq!(counts, [("0000000000000001", 1), ("0000000000000002", 2)]);
    }

    #[test]
    fn a_catastrophe_clears_counters_and_keeps_costs() {
        let mut story = story();
        fail(&mut story, "one", 10);
        let checkpoint =
            HealingCounters { healed: 4, heal_attempts: 7, ..HealingCounters::default() };
        let state = told(&story, HealingCounters::default()).rolled_back(Some(checkpoint));
        assert_eq!((state.heal_attempts, state.error_counts.len()), (0, 0));
        assert_eq!((state.healing_tokens, state.healed, state.catastrophic_rollbacks), (10, 4, 1));
        // What was counted before is not counted again.
        fail(&mut story, "two", 1);
        let state = told(&story, state);
        assert_eq!((state.heal_attempts, state.healing_tokens), (1, 11));
        assert_eq!(HealingCounters::default().rolled_back(None).heal_attempts, 0);
    }

    #[test]
    fn a_state_that_cannot_be_trusted_is_not_valid() {
        let state = told(&story(), HealingCounters::default());
        let text = state.to_text();
        let back = validate_state(text.as_bytes()).unwrap();
        assert_eq!(HealingCounters { checksum: String::new(), ..back }, state);
        let checksum = Err(Invalid::Checksum);
        let altered = text.replace("\"heal_attempts\": 0", "\"heal_attempts\": 9");
        assert_eq!(validate_state(altered.as_bytes()), checksum);
        let newer = text.replace("\"version\": 1", "\"version\": 2");
        assert_eq!(validate_state(newer.as_bytes()), Err(Invalid::Newer(2)));
        let older = text.replace("\"version\": 1", "\"version\": 0");
        assert_eq!(validate_state(older.as_bytes()), checksum);
        for bad in ["", "null", "{}", "[1]", "{\"version\": 1}", "\u{0}"] {
            let result = validate_state(bad.as_bytes());
            assert!(matches!(result, Err(Invalid::Malformed(_))), "{bad}: {result:?}");
        }
        for cut in 0..text.len() - 1 {
            assert!(validate_state(&text.as_bytes()[..cut]).is_err(), "cut at {cut}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_read_there_is_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(validate_state(&bytes).is_err());
        }

        #[test]
        fn a_single_altered_byte_is_noticed(at in 0_usize..300, byte in any::<u8>()) {
            let text = told(&story(), HealingCounters::default()).to_text();
            let mut bytes = text.clone().into_bytes();
            let at = at % bytes.len();
            bytes[at] = byte;
            if let Ok(read) = validate_state(&bytes) {
                // Only what means the same may pass: white space.
                prop_assert_eq!(read, validate_state(text.as_bytes()).unwrap());
            }
        }
    }
}
