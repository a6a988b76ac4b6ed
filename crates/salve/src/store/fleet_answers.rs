//! What people answer to the questions of a fleet's jobs, and what the workers say to that.

use std::fmt;
use std::str::FromStr;
use std::sync::mpsc::Receiver;

use salve_core::event::Digest;
use salve_core::id::{IncidentId, JobId};
use salve_core::scrub::Scrubbed;
use serde::{Deserialize, Serialize};

use super::StoreError;

/// What a fleet keeps of questions and answers.
pub trait FleetAnswers {
    /// Returns the time of the fleet's clock, in milliseconds.
    fn now_ms(&self) -> Result<i64, StoreError>;

    /// Keeps an answer for whoever has to judge it.
    fn answer(&self, answer: &FleetAnswer) -> Result<AnswerId, StoreError>;

    /// Returns the answers to the questions of a job, in order.
    fn answers(&self, job: JobId) -> Result<Vec<PlacedAnswer>, StoreError>;

    /// Returns where every answer is heard, those first that are kept already.
    fn hear_answers(&self) -> Result<Receiver<PlacedAnswer>, StoreError>;

    /// Says what came of an answer, unless somebody said so before; tells whether nobody had.
    fn say_verdict(&self, of: AnswerId, verdict: &AnswerVerdict) -> Result<bool, StoreError>;

    /// Returns what came of an answer, once somebody said so.
    fn verdict(&self, of: AnswerId) -> Result<Option<AnswerVerdict>, StoreError>;
}

/// The one question that an answer is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionBinding {
    pub job: JobId,
    /// The claim under which it was asked.
    pub epoch: u64,
    pub incident: IncidentId,
    /// The question's number within the incident.
    pub number: u32,
    /// The hash of exactly what is asked about: of a command, its text, directory and time-out.
    pub digest: Digest,
    /// Until when it may be answered, in milliseconds of the fleet's clock.
    pub expires_ms: i64,
}

/// What a person answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FleetWord {
    Approve,
    Reject,
    Resolve,
}

/// An answer to a question of a fleet's job, sealed with a person's key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetAnswer {
    pub version: u32,
    pub question: QuestionBinding,
    pub word: FleetWord,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Scrubbed>,
    /// The person's public key.
    pub key: String,
    /// What the key makes of all this.
    pub signature: String,
}

impl FleetWord {
    /// Returns the word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
            Self::Resolve => "resolve",
        }
    }
}

impl FleetAnswer {
    /// Returns what the person's key seals: everything that is said.
    pub fn content(question: &QuestionBinding, word: FleetWord, note: Option<&str>) -> Digest {
        let QuestionBinding { job, epoch, incident, number, digest, expires_ms } = question;
        Digest::of(&[
            b"salve fleet answer 1",
            job.0.as_bytes(),
            &epoch.to_le_bytes(),
            incident.0.as_bytes(),
            &number.to_le_bytes(),
            &digest.0,
            &expires_ms.to_le_bytes(),
            word.as_str().as_bytes(),
            if note.is_some() { b"note" } else { b"" },
            note.unwrap_or_default().as_bytes(),
        ])
    }
}

/// Which answer is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AnswerId {
    pub job: JobId,
    pub id: uuid::Uuid,
}

/// An answer as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedAnswer {
    pub id: AnswerId,
    /// When the fleet got it, in milliseconds of its own clock.
    pub at_ms: i64,
    pub answer: FleetAnswer,
}

/// What came of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerVerdict {
    pub version: u32,
    /// The worker that judged it.
    pub by: Scrubbed,
    /// Under which name it counts, if it is taken.
    pub person: Option<Scrubbed>,
    /// Why it is not taken.
    pub why: Option<Scrubbed>,
}

/// A person whose answers count: how a worker calls them, and their public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetPerson {
    pub name: String,
    pub key: String,
}

/// Text that names no person and key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not NAME:KEY, with the key that `salve fleet key` prints")]
pub struct BadFleetPerson(String);

impl FromStr for FleetPerson {
    type Err = BadFleetPerson;

    fn from_str(text: &str) -> Result<Self, BadFleetPerson> {
        let is_base32 = |c: char| c.is_ascii_uppercase() || ('2'..='7').contains(&c);
        match text.rsplit_once(':') {
            Some((name, key))
                if !name.trim().is_empty()
                    && key.len() == 56
                    && key.starts_with('U')
                    && key.chars().all(is_base32) =>
            {
                Ok(Self { name: name.trim().to_owned(), key: key.to_owned() })
            }
            Some(_) | None => Err(BadFleetPerson(text.chars().take(80).collect())),
        }
    }
}

impl fmt::Display for FleetPerson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.key)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn question() -> QuestionBinding {
        QuestionBinding {
            job: JobId(Uuid::from_u128(1)),
            epoch: 2,
            incident: IncidentId(Uuid::from_u128(3)),
            number: 4,
            digest: Digest::of_command("npm ci", ".", 300_000),
            expires_ms: 5,
        }
    }

    /// **Invariant:** A person's seal is on one word to one question and nothing else.
    #[test]
    fn whatever_is_said_otherwise_is_another_content() {
        let of =
            |question: &QuestionBinding| FleetAnswer::content(question, FleetWord::Approve, None);
        let base = question();
        let other = JobId(Uuid::from_u128(9));
        let others = [
            QuestionBinding { job: other, ..base },
            QuestionBinding { epoch: 3, ..base },
            QuestionBinding { incident: IncidentId(Uuid::from_u128(9)), ..base },
            QuestionBinding { number: 5, ..base },
            QuestionBinding { digest: Digest::of_command("npm ci", "web", 300_000), ..base },
            QuestionBinding { digest: Digest::of_command("npm ci", ".", 300_001), ..base },
            QuestionBinding { expires_ms: 6, ..base },
        ];
        let mut seen = vec![of(&base)];
        seen.extend(others.iter().map(of));
        for word in [FleetWord::Reject, FleetWord::Resolve] {
            seen.push(FleetAnswer::content(&base, word, None));
        }
        for note in ["", "x"] {
            seen.push(FleetAnswer::content(&base, FleetWord::Approve, Some(note)));
        }
        for (at, one) in seen.iter().enumerate() {
            assert!(!seen[..at].contains(one), "{at}");
        }
        assert_eq!(of(&base), seen[0]);
    }

    #[test]
    fn a_person_is_a_name_and_a_public_key() {
        let key = format!("U{}", "A".repeat(55));
        let read = |text: &str| text.parse::<FleetPerson>();
        let ann = read(&format!("Ann: the first:{key}")).unwrap();
        assert_eq!((ann.name.as_str(), ann.key.as_str()), ("Ann: the first", key.as_str()));
        assert_eq!(read(&ann.to_string()), Ok(ann));
        let seed = format!("ann:SU{}", "A".repeat(56));
        for text in ["", "ann", &key, &format!(":{key}"), &format!("ann:{key}A"), &seed] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
