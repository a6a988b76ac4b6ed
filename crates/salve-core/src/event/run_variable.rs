//! A variable that a subject gets for the rest of a run, and nowhere else.

use serde::{Deserialize, Serialize};

use super::{EffectReport, Event, IncidentEvent, Proof};
use crate::id::Signature;
use crate::scrub::Scrubbed;

/// A variable that a remedy set for a subject; see [`crate::playbook::SetVariable`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunVariable {
    pub name: Scrubbed,
    pub value: Scrubbed,
}

/// Returns the variables that are in force after an incident's events.
///
/// Those of a remedy that failed, or that changed nothing about the failure, are not. Where another
/// failure came in the place of the first, the variables got past that one and stay.
pub fn variables_in_force<'e>(events: impl IntoIterator<Item = &'e Event>) -> Vec<RunVariable> {
    let mut fold = VariableFold::default();
    for event in events {
        if let Event::Incident(event) = event {
            fold.hear(event);
        }
    }
    fold.in_force
}

#[derive(Default)]
struct VariableFold {
    in_force: Vec<RunVariable>,
    /// The names of those that the present remedy set.
    fresh: Vec<Scrubbed>,
    /// The failure that is seen.
    failing: Option<Signature>,
}

impl VariableFold {
    fn hear(&mut self, event: &IncidentEvent) {
        match event {
            IncidentEvent::Opened { symptom, .. } | IncidentEvent::Sickened { symptom } => {
                self.failing = Some(symptom.signature);
            }
            IncidentEvent::Judged { .. } => self.fresh.clear(),
            IncidentEvent::EnvironmentSet { variables, .. } => {
                self.fresh = variables.iter().map(|one| one.name.clone()).collect();
                self.in_force.retain(|old| !self.fresh.contains(&old.name));
                self.in_force.extend_from_slice(variables);
            }
            IncidentEvent::Finished { report, .. } => match report {
                EffectReport::Failed { .. } | EffectReport::TimedOut => self.drop_fresh(),
                EffectReport::Verified { proof: Proof::Failed | Proof::Masked, symptom } => {
                    let now = symptom.as_ref().map(|symptom| symptom.signature);
                    if now.is_none() || now == self.failing {
                        self.drop_fresh();
                    }
                    self.failing = now.or(self.failing);
                }
                EffectReport::Verified { .. }
                | EffectReport::Done
                | EffectReport::NoAgent
                | EffectReport::Conflict { .. }
                | EffectReport::Measured(_) => {}
            },
            _ => {}
        }
    }

    fn drop_fresh(&mut self) {
        self.in_force.retain(|one| !self.fresh.contains(&one.name));
        self.fresh.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::Class;
    use crate::event::{Acted, Symptom};

    fn variable(name: &'static str, value: &'static str) -> RunVariable {
        RunVariable { name: Scrubbed::literal(name), value: Scrubbed::literal(value) }
    }

    #[test]
    fn what_a_remedy_set_is_in_force_while_it_helps_or_gets_past_a_failure() {
        let symptom = |digit: char| {
            Box::new(Symptom {
                signature: digit.to_string().repeat(16).parse().unwrap(),
                class: Class::Unknown,
                key_line: Scrubbed::literal("x"),
                exit: None,
                tree: None,
                acted: Acted::No,
            })
        };
        let set = |name, value| {
            let variables = vec![variable(name, value)];
            Event::Incident(IncidentEvent::EnvironmentSet { effect: 2, variables })
        };
        let report = |report| Event::Incident(IncidentEvent::Finished { effect: 2, report });
        let verified = |proof, symptom| report(EffectReport::Verified { proof, symptom });
        let sick = Event::Incident(IncidentEvent::Sickened { symptom: symptom('a') });
        let same = verified(Proof::Failed, Some(symptom('a')));
        let other = verified(Proof::Failed, Some(symptom('b')));
        let green = verified(Proof::Proven, None);
        let (a, b) = (set("A", "1"), set("B", "2"));
        let rows = [
            (vec![sick.clone()], ""),
            (vec![sick.clone(), a.clone(), report(EffectReport::Done)], "A=1"),
            (vec![sick.clone(), a.clone(), green], "A=1"),
            (vec![sick.clone(), a.clone(), same.clone()], ""),
            (vec![sick.clone(), a.clone(), other.clone()], "A=1"),
            (vec![sick.clone(), a.clone(), other.clone(), b.clone(), other], "A=1"),
            (vec![sick.clone(), a.clone(), same, b.clone()], "B=2"),
            (vec![sick.clone(), a.clone(), report(EffectReport::TimedOut)], ""),
            (vec![sick, a, b], "A=1 B=2"),
        ];
        for (events, want) in rows {
            let found = variables_in_force(&events);
            let told: Vec<_> =
                found.iter().map(|one| format!("{}={}", one.name, one.value)).collect();
            assert_eq!(told.join(" "), want, "{events:?}");
        }
    }
}
