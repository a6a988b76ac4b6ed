//! What the machines of a fleet tell one another about remedies, and what one of them makes of it.
//!
//! Each outcome of a remedy is one message, and so is that a failure is to be forgotten. Whoever
//! reads them in their order gets the same memory, however often a message comes. Two machines that
//! saw the same remedy come out differently both stand there ([`Disagreement`]); nobody is overruled.
//!
//! **Invariants:** the same message twice changes nothing. What names a sealed path, or is told to an
//! agent, is never taken from another machine.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    KnowledgeChange, KnowledgeEdit, RemedyTrial, RememberedFailure, RememberedKind,
    RememberedRemedy, TriedRemedy,
};
use crate::event::{Digest, Proof};
use crate::id::{IncidentId, Signature};
use crate::scrub::{Scrubbed, Scrubber};
use crate::sealed_path::SealedPath;

/// The version of what is told.
const VERSION: u32 = 1;

/// The longest message that is read.
const LONGEST: usize = 128 << 10;

/// How many outcomes of one remedy a fleet keeps that came out alike in one project of one machine.
const SLOTS: u8 = 8;

/// Something that a fleet is told about a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FixNews {
    pub version: u32,
    pub source: FixSource,
    pub told: FixTold,
}

/// Who tells it, as they say of themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FixSource {
    pub person: Scrubbed,
    pub machine: Scrubbed,
    /// The project's name; empty where it is about no project.
    pub project: Scrubbed,
}

/// What is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FixTold {
    /// A remedy was tried and verified.
    Tried {
        failure: RememberedFailure,
        remedy: RememberedRemedy,
        at: Timestamp,
        incident: IncidentId,
        proof: Proof,
    },
    /// What was told of a failure so far is to be forgotten.
    Forgotten { signature: Signature, at: Timestamp },
}

/// Why a message is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnusableFix {
    /// It is longer than any that Salve writes.
    #[error("it is longer than {} KiB", LONGEST >> 10)]
    TooLong,
    /// It makes no sense.
    #[error("it cannot be read: {0}")]
    Malformed(String),
    /// A later Salve wrote it.
    #[error("it is of version {0}")]
    Newer(u32),
    /// It would change what decides what runs unattended.
    #[error("its patch names the sealed path {0}")]
    Sealed(String),
    /// It is what an agent would be told.
    #[error("words for an agent are not taken from others")]
    Instruction,
}

impl FixNews {
    /// Makes news of this version.
    pub fn new(source: FixSource, told: FixTold) -> Self {
        Self { version: VERSION, source, told }
    }

    /// Returns it as it travels.
    pub fn to_text(&self) -> String {
        // Every part has string keys only, so there is no failing path.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads what somebody sent: without secrets, and with nothing that is not taken from others.
    ///
    /// # Errors
    ///
    /// Why it is not used.
    pub fn read(text: &str, scrubber: &Scrubber) -> Result<Self, UnusableFix> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        if text.len() > LONGEST {
            return Err(UnusableFix::TooLong);
        }
        let malformed = |error: serde_json::Error| UnusableFix::Malformed(error.to_string());
        let Versioned { version } = serde_json::from_str(text).map_err(malformed)?;
        if version > VERSION {
            return Err(UnusableFix::Newer(version));
        }
        let news: Self = serde_json::from_str(text).map_err(malformed)?;
        news.is_usable()?;
        Ok(news.cleaned(scrubber))
    }

    /// Tells whether it is something to send or to use.
    ///
    /// # Errors
    ///
    /// Why it is not.
    pub fn is_usable(&self) -> Result<(), UnusableFix> {
        let FixTold::Tried { remedy, .. } = &self.told else { return Ok(()) };
        match remedy.kind {
            RememberedKind::Command => Ok(()),
            RememberedKind::Instruction => Err(UnusableFix::Instruction),
            RememberedKind::Patch => match SealedPath::in_patch(remedy.text.as_str()).pop() {
                Some(path) => Err(UnusableFix::Sealed(path)),
                None => Ok(()),
            },
        }
    }

    /// Scrubs all text of what somebody sent.
    fn cleaned(self, scrubber: &Scrubber) -> Self {
        let scrub = |text: Scrubbed| scrubber.scrub(text.as_str());
        let source = FixSource {
            person: scrub(self.source.person),
            machine: scrub(self.source.machine),
            project: scrub(self.source.project),
        };
        let told = match self.told {
            FixTold::Tried { failure, remedy, at, incident, proof } => FixTold::Tried {
                failure: RememberedFailure {
                    error_type: scrub(failure.error_type),
                    normalized: scrub(failure.normalized),
                    identity: failure.identity.map(scrub),
                    key_line: scrub(failure.key_line),
                    ..failure
                },
                remedy: RememberedRemedy { kind: remedy.kind, text: scrub(remedy.text) },
                at,
                incident,
                proof,
            },
            forgotten @ FixTold::Forgotten { .. } => forgotten,
        };
        Self { version: self.version, source, told }
    }

    /// Returns what tells it from all others; it is made of what is told and of nothing else.
    pub fn id(&self) -> Digest {
        match &self.told {
            FixTold::Tried { failure, remedy, at, incident, proof } => Digest::of(&[
                b"tried",
                failure.signature.to_string().as_bytes(),
                &remedy.digest().0,
                incident.0.as_bytes(),
                &at.as_microsecond().to_le_bytes(),
                proof_name(*proof).as_bytes(),
            ]),
            FixTold::Forgotten { signature, at } => Digest::of(&[
                b"forgotten",
                signature.to_string().as_bytes(),
                &at.as_microsecond().to_le_bytes(),
            ]),
        }
    }

    /// Returns the place where the fleet keeps it; what is written to the same place replaces what
    /// was there, so that a remedy which heals every day does not fill the fleet.
    pub fn place(&self) -> String {
        let FixSource { person, machine, project } = &self.source;
        let texts = [person, machine, project].map(|text| text.as_str().as_bytes());
        let source = short(Digest::of(&texts));
        match &self.told {
            FixTold::Tried { failure, remedy, proof, .. } => {
                let (signature, remedy) = (failure.signature, short(remedy.digest()));
                let slot = self.id().0.first().copied().unwrap_or_default() % SLOTS;
                format!("{signature}.{remedy}.{source}.{}.{slot}", proof_name(*proof))
            }
            FixTold::Forgotten { signature, .. } => format!("{signature}.forgotten.{source}"),
        }
    }
}

fn short(digest: Digest) -> String {
    digest.to_string().chars().take(16).collect()
}

const fn proof_name(proof: Proof) -> &'static str {
    match proof {
        Proof::Proven => "proven",
        Proof::Transient => "transient",
        Proof::Flaky => "flaky",
        Proof::Masked => "masked",
        Proof::Failed => "failed",
    }
}

/// What a memory has read of a fleet's news.
#[derive(Clone, Debug, Default)]
pub struct FixFold {
    taken: BTreeSet<Digest>,
    forgotten: BTreeMap<Signature, Timestamp>,
}

/// What becomes of one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FixStep {
    /// Memory learns this.
    Learn(Box<KnowledgeEdit>),
    /// Memory forgets all that it knows of a failure.
    Forget { signature: Signature, at: Timestamp },
    /// It is known already, or was forgotten since.
    Known,
}

impl FixFold {
    /// Goes on from what was taken in before.
    pub fn new(
        taken: impl IntoIterator<Item = Digest>,
        forgotten: impl IntoIterator<Item = (Signature, Timestamp)>,
    ) -> Self {
        Self { taken: taken.into_iter().collect(), forgotten: forgotten.into_iter().collect() }
    }

    /// Takes in one message; `by` is who told it, in words, and `now` the latest time that is
    /// believed.
    pub fn take(&mut self, news: &FixNews, by: &Scrubbed, now: Timestamp) -> FixStep {
        if !self.taken.insert(news.id()) {
            return FixStep::Known;
        }
        match &news.told {
            FixTold::Tried { failure, remedy, at, incident, proof } => {
                let at = (*at).min(now);
                if self.forgotten.get(&failure.signature).is_some_and(|since| at <= *since) {
                    return FixStep::Known;
                }
                let outcome = RemedyTrial {
                    at,
                    by: by.clone(),
                    incident: Some(*incident),
                    project: news.source.project.clone(),
                    proof: *proof,
                };
                let learned = KnowledgeChange::Learned { remedy: remedy.clone(), outcome };
                FixStep::Learn(Box::new(KnowledgeEdit {
                    failure: failure.clone(),
                    at,
                    changes: vec![KnowledgeChange::Seen, learned],
                }))
            }
            FixTold::Forgotten { signature, at } => {
                // One that says to be of next year must not silence a year.
                let at = (*at).min(now);
                let since = self.forgotten.entry(*signature).or_insert(at);
                *since = at.max(*since);
                FixStep::Forget { signature: *signature, at: *since }
            }
        }
    }
}

/// Where a remedy healed, and where it did not, if both is so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Disagreement {
    pub healed: Vec<Scrubbed>,
    pub failed: Vec<Scrubbed>,
}

impl Disagreement {
    /// Returns who saw a remedy heal and who saw it fail, if they are not of one mind.
    pub fn about(tried: &TriedRemedy) -> Option<Self> {
        let who = |is_meant: fn(Proof) -> bool| {
            let outcomes = tried.outcomes.iter().filter(|outcome| is_meant(outcome.proof));
            let named: BTreeMap<&str, &Scrubbed> =
                outcomes.map(|outcome| (outcome.by.as_str(), &outcome.by)).collect();
            named.into_values().cloned().collect::<Vec<_>>()
        };
        let healed = who(|proof| proof == Proof::Proven);
        let failed = who(|proof| matches!(proof, Proof::Failed | Proof::Masked));
        (!healed.is_empty() && !failed.is_empty()).then_some(Self { healed, failed })
    }
}

#[cfg(test)]
#[path = "fleet_tests.rs"]
mod tests;
