//! Each attempt at healing, as it is kept in a file of its own.
//!
//! All of it is read from the journal, so the files can be written again at any time.

use jiff::Timestamp;
use serde::Serialize;

use crate::event::{
    Amounts, ChangedFile, Effect, EffectReport, Event, IncidentEvent, Judgement, PersonOrder,
    Proof, Remedy, RemedyKind, RemedyOrigin, Scope, Symptom,
};
use crate::fingerprint::{FingerprintRules, Hints};
use crate::id::{IncidentId, Signature};
use crate::incident::Tier;
use crate::view::{IncidentView, IncidentViewLine};

/// The version of an attempt's shape.
pub const VERSION: u32 = 1;

/// What came of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HealAttemptOutcome {
    /// It is under way, or was when its Salve was killed.
    Running,
    /// The check is green.
    Success,
    /// The check is still red, or the remedy could not be applied.
    Failed,
    /// The check was green only because what judges it was weakened.
    Masked,
    /// Somebody wanted it to end.
    Stopped,
}

/// One attempt at healing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Attempt {
    /// The version of this shape.
    pub version: u32,
    pub incident: IncidentId,
    pub check: String,
    /// The attempt's number within the incident, from 1.
    pub attempt: u32,
    /// How much thought it deserved.
    pub tier: Tier,
    /// What was tried.
    pub remedy: String,
    /// What sort of thing that is.
    pub kind: Option<RemedyKind>,
    /// Who came up with it.
    pub origin: Option<RemedyOrigin>,
    /// The rule that allowed it.
    pub rule: Option<String>,
    /// The agent, if one took part.
    pub agent: Option<String>,
    /// The model that it was asked to use.
    pub model: Option<String>,
    /// The failure's identity.
    pub error_signature: Signature,
    /// Its kind, as in `healing-patterns.json`.
    pub error_type: String,
    /// The failure without what varies.
    pub normalized_error: String,
    /// When it began.
    pub started: Timestamp,
    /// When it was clear what came of it.
    pub ended: Option<Timestamp>,
    /// How many files were found changed, if that was measured.
    pub files_changed: Option<u32>,
    /// How many lines were found changed, if that was measured.
    pub lines_changed: Option<u32>,
    pub files: Vec<ChangedFile>,
    /// Tokens of models.
    pub tokens: u64,
    /// Money, in millionths of the currency unit.
    pub cost_micros: u64,
    /// What came of it.
    pub result: HealAttemptOutcome,
    /// Why it failed, or what was seen afterwards.
    pub reason: Option<String>,
    /// What verification found.
    pub proof: Option<Proof>,
    /// How far back the files were given back, if they were.
    pub rolled_back: Option<Scope>,
}

/// Returns an incident's attempts, in their order.
pub fn attempts(view: &IncidentView) -> Vec<Attempt> {
    let mut reading = AttemptReading::default();
    for line in view.lines().iter().filter(|line| line.ignored.is_none()) {
        reading.hear(view, line);
    }
    let charges = std::mem::take(&mut reading.charges);
    for (effect, spent) in charges {
        let owner = reading.effects.iter().find(|(known, _)| *known == effect);
        if let Some(attempt) = owner.and_then(|(_, at)| reading.attempts.get_mut(*at)) {
            attempt.tokens = attempt.tokens.saturating_add(spent.tokens);
            attempt.cost_micros = attempt.cost_micros.saturating_add(spent.money_micros);
        }
    }
    reading.attempts
}

/// Returns the name of an attempt's file.
pub fn file_name(incident: IncidentId, attempt: u32) -> String {
    format!("attempt-{}-{attempt}.json", incident.short())
}

/// What is known so far while an incident's entries are read.
#[derive(Default)]
struct AttemptReading {
    attempts: Vec<Attempt>,
    /// What was chosen last, and what the gate said.
    chosen: Option<(Remedy, Judgement)>,
    /// The failure at the moment.
    symptom: Option<Symptom>,
    /// The effects, each with the place of its attempt and what it is.
    effects: Vec<(u32, usize)>,
    undoing: Option<(u32, Scope)>,
    /// What each effect has cost; the larger of two statements counts.
    charges: Vec<(u32, Amounts)>,
}

impl AttemptReading {
    fn hear(&mut self, view: &IncidentView, line: &IncidentViewLine) {
        match &line.entry.event {
            Event::Incident(IncidentEvent::Opened { symptom, .. })
            | Event::Incident(IncidentEvent::Sickened { symptom }) => {
                self.symptom = Some((**symptom).clone());
            }
            Event::Incident(IncidentEvent::Judged { remedy, judgement }) => {
                self.chosen = Some(((**remedy).clone(), judgement.clone()));
            }
            Event::Incident(IncidentEvent::Requested { effect, what }) => {
                self.requested(view, line, *effect, *what)
            }
            Event::Incident(IncidentEvent::AgentLaunched { agent, model, .. }) => {
                if let Some(last) = self.attempts.last_mut() {
                    last.agent = Some(agent.to_string());
                    last.model = model.as_ref().map(ToString::to_string);
                }
            }
            Event::Incident(IncidentEvent::FilesChanged { files, more, .. }) => {
                if let Some(last) = self.attempts.last_mut() {
                    let named = u32::try_from(files.len()).unwrap_or(u32::MAX);
                    last.files_changed = Some(named.saturating_add(*more));
                    last.files = files.clone();
                }
            }
            Event::Incident(IncidentEvent::Charged { effect, spent }) => {
                self.charged(*effect, *spent)
            }
            Event::Incident(IncidentEvent::ProofExplained { taken_back: true, .. }) => {
                if let Some(last) = self.attempts.last_mut() {
                    last.rolled_back = Some(Scope::Attempt);
                }
            }
            Event::Incident(IncidentEvent::Finished { effect, report }) => {
                self.finished(line.entry.at, *effect, report)
            }
            Event::Incident(IncidentEvent::Ordered {
                order: PersonOrder::Skip | PersonOrder::Abort | PersonOrder::Escalate,
            })
            | Event::Incident(IncidentEvent::Resolved { .. })
            | Event::Incident(IncidentEvent::Rejected { .. }) => {
                self.end(line.entry.at, HealAttemptOutcome::Stopped, None)
            }
            _ => {}
        }
    }

    fn requested(
        &mut self,
        view: &IncidentView,
        line: &IncidentViewLine,
        effect: u32,
        what: Effect,
    ) {
        let is_retry = self.chosen.as_ref().is_some_and(|(r, _)| r.kind == RemedyKind::Retry);
        match what {
            Effect::Apply { .. } => self.begin(view, line.entry.at),
            Effect::Verify if is_retry => self.begin(view, line.entry.at),
            Effect::RollBack(scope) => self.undoing = Some((effect, scope)),
            Effect::Snapshot
            | Effect::Measure
            | Effect::VerifyInLayer
            | Effect::TakeOver
            | Effect::Verify
            | Effect::Ask
            | Effect::Record
            | Effect::Release => {}
        }
        if let Some(last) = self.attempts.len().checked_sub(1) {
            self.effects.push((effect, last));
        }
    }

    fn begin(&mut self, view: &IncidentView, at: Timestamp) {
        let number = u32::try_from(self.attempts.len() + 1).unwrap_or(u32::MAX);
        let symptom = self.symptom.as_ref().unwrap_or(view.incident().symptom());
        let known =
            FingerprintRules::built_in().fingerprint(symptom.key_line.as_str(), &Hints::default());
        let (remedy, rule) = match &self.chosen {
            Some((remedy, judgement)) => (Some(remedy), Some(judgement.rule.to_string())),
            None => (None, None),
        };
        self.attempts.push(Attempt {
            version: VERSION,
            incident: view.id(),
            check: view.subject().name.to_string(),
            attempt: number,
            tier: Tier::of_attempt(number),
            remedy: remedy.map(|remedy| remedy.text.to_string()).unwrap_or_default(),
            kind: remedy.map(|remedy| remedy.kind),
            origin: remedy.map(|remedy| remedy.origin),
            rule,
            agent: None,
            model: None,
            error_signature: symptom.signature,
            error_type: symptom.class.to_string(),
            normalized_error: known.normalized,
            started: at,
            ended: None,
            files_changed: None,
            lines_changed: None,
            files: Vec::new(),
            tokens: 0,
            cost_micros: 0,
            result: HealAttemptOutcome::Running,
            reason: None,
            proof: None,
            rolled_back: None,
        });
    }

    fn finished(&mut self, at: Timestamp, effect: u32, report: &EffectReport) {
        if let Some((_, scope)) = self.undoing.take_if(|(undoing, _)| *undoing == effect) {
            self.undone(at, scope, report);
            return;
        }
        match report {
            EffectReport::Measured(change) => {
                if let Some(last) = self.attempts.last_mut() {
                    last.files_changed = change.files;
                    last.lines_changed = change.lines;
                }
            }
            EffectReport::Verified { proof, symptom } => {
                let result = match proof {
                    Proof::Proven | Proof::Transient | Proof::Flaky => HealAttemptOutcome::Success,
                    Proof::Masked => HealAttemptOutcome::Masked,
                    Proof::Failed => HealAttemptOutcome::Failed,
                };
                let seen = symptom.as_ref().map(|symptom| symptom.key_line.to_string());
                self.end(at, result, seen);
                if let Some(last) = self.attempts.last_mut() {
                    last.proof = Some(*proof);
                }
                if let Some(symptom) = symptom {
                    self.symptom = Some((**symptom).clone());
                }
            }
            EffectReport::Failed { reason, .. } => {
                self.end(at, HealAttemptOutcome::Failed, Some(reason.to_string()))
            }
            EffectReport::TimedOut => {
                self.end(at, HealAttemptOutcome::Failed, Some("it took too long".into()))
            }
            EffectReport::Done | EffectReport::NoAgent | EffectReport::Conflict { .. } => {}
        }
    }

    /// Takes in that files were given back: those of the last attempt, or of all.
    fn undone(&mut self, at: Timestamp, scope: Scope, report: &EffectReport) {
        let count = self.attempts.len();
        let first = match scope {
            Scope::Attempt => count.saturating_sub(1),
            Scope::Incident => 0,
        };
        for attempt in self.attempts.iter_mut().skip(first) {
            if *report == EffectReport::Done {
                attempt.rolled_back = Some(scope);
                if attempt.result == HealAttemptOutcome::Success {
                    // It looked well once, and was undone all the same.
                    attempt.result = HealAttemptOutcome::Failed;
                }
            } else {
                attempt.reason = Some("it could not be undone".into());
            }
        }
        if let Some(last) = self.attempts.last_mut() {
            last.ended = Some(at);
        }
    }

    fn charged(&mut self, effect: u32, spent: Amounts) {
        match self.charges.iter_mut().find(|(known, _)| *known == effect) {
            Some((_, known)) => *known = known.max(spent),
            None => self.charges.push((effect, spent)),
        }
    }

    /// Ends the attempt that is under way; what came of it first counts.
    fn end(&mut self, at: Timestamp, result: HealAttemptOutcome, reason: Option<String>) {
        let Some(last) = self.attempts.last_mut() else { return };
        if last.result == HealAttemptOutcome::Running {
            (last.result, last.ended, last.reason) = (result, Some(at), reason);
        }
    }
}

#[cfg(test)]
mod tests;
