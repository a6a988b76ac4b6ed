//! The question with which a job of a fleet waits: it travels with the incident that asks it, and an
//! answer counts only for whoever is to act on it.
//!
//! The worker that runs the job keeps the incident's entries with the fleet, under its claim, when the
//! run ends with a question. Everybody folds them by core's own code and sees what is asked. An answer
//! is sealed with a person's key; the worker that asked judges it ([`judge_answer`]), and whichever
//! takes the job then judges it once more, before it writes the person's word into its own journal.
//!
//! **Invariant:** an incident travels only while it asks, so nothing that was allowed on one machine
//! runs on another without a word that this one believes.

use salve_core::event::{Digest, Entry, PersonQuestion, RemedyKind};
use salve_core::gate::DEFAULT_TIMEOUT_SECONDS;
use salve_core::id::JobId;
use salve_core::job::QueueState;
use salve_core::repair::{OpenQuestion, QuestionDetail, ask, question_detail};
use salve_core::scrub::Scrubbed;
use salve_core::view::IncidentView;
use serde::{Deserialize, Serialize};

use super::FleetJobError;
use crate::heal::people::{PersonAnswer, PersonWord};
use crate::person_key::{PersonKey, PersonKeyError, is_sealed_by};
use crate::reading::open_incidents;
use crate::store::{
    ClaimToken, FleetAnswer, FleetPerson, FleetWord, JobArtifact, JobQueue, Journal, PlacedAnswer,
    QuestionBinding, Store, StoreError, parse_line, to_line,
};

/// What the question of a job is called among what the fleet keeps of it.
pub(super) const QUESTION: &str = "question.jsonl";

/// The version of its shape.
const VERSION: u32 = 1;

/// How many incidents back a question is looked for.
const LOOKED_BACK: usize = 50;

/// Who asks.
#[derive(Clone, Debug)]
pub struct Asker {
    /// What the worker is called.
    pub worker: Scrubbed,
    /// What no other worker is called.
    pub id: String,
    /// Until when what it asks may be answered, in milliseconds of the fleet's clock.
    pub expires_ms: i64,
}

/// A question with which a job waits.
#[derive(Clone, Debug)]
pub struct FleetQuestion {
    pub binding: QuestionBinding,
    /// The worker that asks.
    pub worker: Scrubbed,
    pub worker_id: String,
    /// The entries of the incident.
    pub entries: Vec<Entry>,
    /// The incident, as they make it.
    pub view: IncidentView,
    /// What is asked.
    pub open: OpenQuestion,
}

/// The first line of a question.
#[derive(Debug, Serialize, Deserialize)]
struct QuestionHead {
    version: u32,
    binding: QuestionBinding,
    worker: Scrubbed,
    worker_id: String,
}

impl FleetQuestion {
    /// Returns what a run asks, as its journal has it.
    pub(super) fn asked(
        journal: &dyn Journal,
        claim: ClaimToken,
        asker: &Asker,
    ) -> Result<Option<Self>, StoreError> {
        let views = open_incidents(journal, LOOKED_BACK)?;
        let asking = views.into_iter().find_map(|view| Some((ask(&view)?, view)));
        Ok(asking.map(|(open, view)| {
            let ClaimToken { job, epoch } = claim;
            let (incident, number, digest) = (view.id(), open.number, open.digest);
            let expires_ms = asker.expires_ms;
            let entries = view.lines().iter().map(|line| line.entry.clone()).collect();
            Self {
                binding: QuestionBinding { job, epoch, incident, number, digest, expires_ms },
                worker: asker.worker.clone(),
                worker_id: asker.id.clone(),
                entries,
                view,
                open,
            }
        }))
    }

    /// Returns it for the fleet to keep; nothing asked is kept as nothing.
    pub(super) fn artifact(question: Option<&Self>) -> JobArtifact {
        let lines = question.map(Self::to_lines).unwrap_or_default();
        JobArtifact { name: QUESTION.to_owned(), bytes: lines.into_bytes() }
    }

    fn to_lines(&self) -> String {
        let head = QuestionHead {
            version: VERSION,
            binding: self.binding,
            worker: self.worker.clone(),
            worker_id: self.worker_id.clone(),
        };
        // Every part has string keys only, so there is no failing path.
        let mut lines = serde_json::to_string(&head).unwrap_or_default();
        for entry in &self.entries {
            lines.push('\n');
            lines.push_str(&to_line(entry));
        }
        lines
    }

    /// Reads the question of a job; what does not ask exactly what it is bound to is none.
    pub(super) fn read(job: JobId, text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let head: QuestionHead = serde_json::from_str(lines.next()?).ok()?;
        let QuestionHead { version, binding, worker, worker_id } = head;
        let entries: Vec<Entry> = lines.map(parse_line).collect::<Result<_, _>>().ok()?;
        let view = IncidentView::of(entries.clone()).ok()?;
        let open = ask(&view)?;
        let is_bound = (open.number, open.digest) == (binding.number, binding.digest)
            && (binding.job, binding.incident) == (job, view.id())
            && entries.iter().all(|entry| entry.incident == Some(binding.incident));
        (version <= VERSION && is_bound).then_some(Self {
            binding,
            worker,
            worker_id,
            entries,
            view,
            open,
        })
    }

    /// Returns the question that the fleet keeps of a job, if there is one.
    pub fn of(queue: &dyn JobQueue, job: JobId) -> Result<Option<Self>, StoreError> {
        let kept = queue.artifact(job, QUESTION)?;
        Ok(kept.and_then(|bytes| Self::read(job, &String::from_utf8_lossy(&bytes))))
    }

    /// Returns it with everything that is needed to answer it.
    pub fn detail(&self) -> Option<QuestionDetail> {
        question_detail(&self.view)
    }

    /// Returns where what is asked about runs and how many seconds it may take; nothing where it is
    /// no command, or its text is not what the answer would be bound to.
    pub fn command_terms(&self) -> Option<(String, u64)> {
        let detail = self.detail()?;
        let remedy = detail.remedy.as_ref().filter(|one| one.kind == RemedyKind::Command)?;
        let text = remedy.text.as_str();
        let proposed = detail
            .proposal
            .iter()
            .flat_map(|one| [Some(&one.recovery), one.fallback.as_ref()].into_iter().flatten());
        let proposed = proposed.map(|one| (one.working_dir.to_string(), one.timeout_seconds));
        let usual = (".".to_owned(), DEFAULT_TIMEOUT_SECONDS);
        std::iter::once(usual).chain(proposed).find(|(dir, seconds)| {
            let millis = seconds.saturating_mul(1_000);
            Digest::of_command(text, dir, millis) == self.binding.digest
        })
    }

    /// Tells whether it is about a command whose text is not what a yes would allow.
    pub fn is_mislabelled(&self) -> bool {
        let is_command = self.detail().and_then(|detail| detail.remedy).is_some_and(|remedy| {
            remedy.kind == RemedyKind::Command && remedy.digest == self.binding.digest
        });
        self.open.question == PersonQuestion::Remedy && is_command && self.command_terms().is_none()
    }
}

/// Returns all questions with which jobs of a fleet wait, oldest job first.
pub fn questions_in_fleet(store: &Store) -> Result<Vec<FleetQuestion>, FleetJobError> {
    let mut found = Vec::new();
    for row in store.queue().queued(Some(QueueState::Waiting))? {
        found.extend(FleetQuestion::of(store.queue(), row.job)?);
    }
    Ok(found)
}

/// Seals a person's answer to a question with the user's key.
pub fn seal_answer(
    question: QuestionBinding,
    word: FleetWord,
    note: Option<Scrubbed>,
) -> Result<FleetAnswer, PersonKeyError> {
    seal_with(&PersonKey::of_user()?, question, word, note)
}

fn seal_with(
    key: &PersonKey,
    question: QuestionBinding,
    word: FleetWord,
    note: Option<Scrubbed>,
) -> Result<FleetAnswer, PersonKeyError> {
    let content = FleetAnswer::content(&question, word, note.as_ref().map(Scrubbed::as_str));
    let (signature, key) = (key.seal(content)?, key.public()?);
    Ok(FleetAnswer { version: VERSION, question, word, note, key, signature })
}

/// Why an answer does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerRefusal {
    /// The key is nobody's who may answer.
    #[error("the key {0} is of nobody who may answer here")]
    UnknownKey(String),
    /// The key made nothing of this.
    #[error("the seal is not of that key, or something else was sealed")]
    BadSeal,
    /// It is to another question.
    #[error("it is to another question than the one that is open")]
    OtherQuestion,
    /// The question's time was over when the fleet got it.
    #[error("it came after the question's time was over")]
    Late,
}

/// Judges an answer to a question; returns under which name it counts.
///
/// # Errors
///
/// When it does not count.
pub fn judge_answer(
    placed: &PlacedAnswer,
    question: &QuestionBinding,
    people: &[FleetPerson],
) -> Result<Scrubbed, AnswerRefusal> {
    let FleetAnswer { question: to, word, note, key, signature, .. } = &placed.answer;
    if to != question {
        return Err(AnswerRefusal::OtherQuestion);
    }
    let person = people.iter().find(|person| person.key == *key);
    let person = person.ok_or_else(|| AnswerRefusal::UnknownKey(key.chars().take(60).collect()))?;
    let content = FleetAnswer::content(to, *word, note.as_ref().map(Scrubbed::as_str));
    if !is_sealed_by(key, content, signature) {
        return Err(AnswerRefusal::BadSeal);
    }
    if placed.at_ms > to.expires_ms {
        return Err(AnswerRefusal::Late);
    }
    Ok(crate::scrub::scrubber().scrub(&person.name))
}

/// Returns what an answer says to the incident.
pub(super) fn person_word(answer: &FleetAnswer) -> PersonWord {
    let FleetAnswer { question, word, note, .. } = answer;
    let bound = PersonAnswer {
        note: note.clone(),
        question: Some(question.number),
        shown: Some(question.digest),
    };
    match word {
        FleetWord::Approve => PersonWord::Approve(bound),
        FleetWord::Reject => PersonWord::Reject(bound),
        FleetWord::Resolve => PersonWord::Resolve(note.clone()),
    }
}

#[cfg(feature = "fleet")]
#[cfg(test)]
mod tests {
    use salve_core::id::IncidentId;
    use uuid::Uuid;

    use super::*;
    use crate::store::AnswerId;

    fn question() -> QuestionBinding {
        QuestionBinding {
            job: JobId(Uuid::from_u128(1)),
            epoch: 2,
            incident: IncidentId(Uuid::from_u128(3)),
            number: 1,
            digest: Digest::of_command("npm ci", ".", 300_000),
            expires_ms: 1_000,
        }
    }

    fn placed(answer: FleetAnswer, at_ms: i64) -> PlacedAnswer {
        let id = AnswerId { job: answer.question.job, id: Uuid::from_u128(9) };
        PlacedAnswer { id, at_ms, answer }
    }

    /// **Invariant:** An answer counts for exactly the question that is open, in its time, and sealed
    /// with the key of somebody whom this worker's own settings list.
    #[test]
    fn an_answer_of_a_listed_person_to_the_open_question_counts_and_no_other_does() {
        let homes = tempfile::tempdir().unwrap();
        let key = |name: &str| PersonKey::at(&homes.path().join(name)).unwrap();
        let (ann, bea) = (key("ann"), key("bea"));
        let people = [FleetPerson { name: "ann".to_owned(), key: ann.public().unwrap() }];
        let yes =
            |of: &PersonKey, question| seal_with(of, question, FleetWord::Approve, None).unwrap();
        let judge =
            |answer: FleetAnswer, at_ms| judge_answer(&placed(answer, at_ms), &question(), &people);
        assert_eq!(judge(yes(&ann, question()), 1_000).unwrap().as_str(), "ann");
        assert_eq!(judge(yes(&ann, question()), 1_001), Err(AnswerRefusal::Late));
        let unknown = AnswerRefusal::UnknownKey(bea.public().unwrap());
        assert_eq!(judge(yes(&bea, question()), 1), Err(unknown));
        // Somebody else's seal under her name.
        let forged = FleetAnswer { key: ann.public().unwrap(), ..yes(&bea, question()) };
        assert_eq!(judge(forged, 1), Err(AnswerRefusal::BadSeal));
        // Her no, turned into a yes.
        let no = seal_with(&ann, question(), FleetWord::Reject, None).unwrap();
        let turned = FleetAnswer { word: FleetWord::Approve, ..no };
        assert_eq!(judge(turned, 1), Err(AnswerRefusal::BadSeal));
        let noted =
            FleetAnswer { note: Some(Scrubbed::literal("and more")), ..yes(&ann, question()) };
        assert_eq!(judge(noted, 1), Err(AnswerRefusal::BadSeal));
        let base = question();
        for other in [
            QuestionBinding { epoch: 3, ..base },
            QuestionBinding { number: 2, ..base },
            QuestionBinding { digest: Digest::of_command("npm ci", "web", 300_000), ..base },
            QuestionBinding { expires_ms: 9_000, ..base },
        ] {
            assert_eq!(judge(yes(&ann, other), 1), Err(AnswerRefusal::OtherQuestion));
            let turned = FleetAnswer { question: base, ..yes(&ann, other) };
            assert_eq!(judge(turned, 1), Err(AnswerRefusal::BadSeal));
        }
    }
}
