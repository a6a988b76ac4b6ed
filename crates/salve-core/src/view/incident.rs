//! One incident with all that was said about it.

use jiff::Timestamp;

use super::question::{AskedQuestion, GivenAnswer, QuestionSettled, SettledQuestion, short_reason};
use super::remedy::RemedyTried;
use crate::event::{
    Actor, AgentMark, Change, Effect, EffectReport, Entry, Event, IncidentEvent, IncidentOutcome,
    PersonQuestion, Proof, Proposed, RecoveryEvent, RepairMode, Resource, Subject,
};
use crate::id::IncidentId;
use crate::incident::{Ignored, Incident, NotOpened, Phase, RepairPhase};
use crate::repair::{Notice, notices};
use crate::scrub::Scrubbed;

/// One incident, folded from its entries.
#[derive(Clone, Debug)]
pub struct IncidentView {
    incident: Incident,
    lines: Vec<IncidentViewLine>,
    works: Vec<AgentWork>,
    remedies: Vec<RemedyTried>,
    questions: Vec<AskedQuestion>,
    answers: Vec<GivenAnswer>,
    /// What went wrong last with a remedy that was applied.
    trouble: Option<Scrubbed>,
    /// The files in which the last change that could not be brought in conflicts with others' edits.
    conflicts: Vec<Scrubbed>,
    closed_at: Option<Timestamp>,
}

/// One entry and what came of it.
#[derive(Clone, Debug)]
pub struct IncidentViewLine {
    pub entry: Entry,
    /// The attempt it belongs to, from 1.
    pub attempt: u32,
    /// The spec's phases it brought about, in their order.
    pub notices: Vec<Notice>,
    /// Why it changed nothing, if it did not.
    pub ignored: Option<Ignored>,
}

/// An agent's part in one attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentWork {
    /// The attempt, from 1.
    pub attempt: u32,
    /// The agent's name, if one took part.
    pub agent: Option<Scrubbed>,
    /// How far it said it is.
    pub mark: Option<AgentMark>,
    /// When it said so.
    pub at: Option<Timestamp>,
    /// What it said it changed.
    pub reported: Change,
    /// What was found changed.
    pub measured: Option<Change>,
    /// Whether waiting for it ended without its having finished.
    pub overdue: bool,
    /// Whether Salve started it, and knows when it ended.
    pub was_started: bool,
}

impl AgentWork {
    /// Tells whether files were found changed.
    pub fn changed(&self) -> bool {
        self.measured.is_some_and(|change| change.files != Some(0))
    }
}

impl IncidentView {
    /// Makes the view of the incident whose entries these are.
    ///
    /// # Errors
    ///
    /// When they do not begin with its opening.
    pub fn of(entries: impl IntoIterator<Item = Entry>) -> Result<Self, NotOpened> {
        let mut entries = entries.into_iter();
        let mut view = Self::begin(entries.next().ok_or(NotOpened::NoOpening)?)?;
        entries.for_each(|entry| view.hear(entry));
        Ok(view)
    }

    /// Begins with the entry that opens an incident.
    ///
    /// # Errors
    ///
    /// When it opens none.
    pub fn begin(first: Entry) -> Result<Self, NotOpened> {
        let incident = Incident::replay([&first])?;
        let mut view = Self {
            incident,
            lines: Vec::new(),
            works: Vec::new(),
            remedies: Vec::new(),
            questions: Vec::new(),
            answers: Vec::new(),
            trouble: None,
            conflicts: Vec::new(),
            closed_at: None,
        };
        view.add(first, 1, None);
        Ok(view)
    }

    /// Goes on with the next entry.
    pub fn hear(&mut self, entry: Entry) {
        // What an entry brings about belongs to the attempt that was under way before it.
        let attempt = self.incident.attempt();
        let ignored = self.incident.step(&entry).err();
        self.add(entry, attempt, ignored);
    }

    fn add(&mut self, entry: Entry, attempt: u32, ignored: Option<Ignored>) {
        let attempt = attempt.clamp(1, self.max_attempts().max(1));
        let notices = match ignored {
            Some(_) => Vec::new(),
            None => {
                self.learn_work(&entry, attempt);
                self.learn_remedy(&entry, attempt);
                self.learn_question(&entry);
                if let Phase::Closed(_) = self.incident.phase() {
                    self.closed_at.get_or_insert(entry.at);
                }
                notices(self, &entry.event, attempt)
            }
        };
        self.lines.push(IncidentViewLine { entry, attempt, notices, ignored });
    }

    /// Takes in what an entry says about an agent's part.
    fn learn_work(&mut self, entry: &Entry, attempt: u32) {
        let Event::Incident(event) = &entry.event else { return };
        match event {
            IncidentEvent::Marked { attempt, mark, reported, .. } => {
                let work = self.work_mut(*attempt);
                if let Actor::Agent { name } = &entry.by {
                    work.agent = Some(name.clone());
                }
                work.mark = Some(*mark);
                work.at = Some(entry.at);
                work.reported = Change {
                    files: work.reported.files.max(reported.files),
                    lines: work.reported.lines.max(reported.lines),
                };
            }
            IncidentEvent::AgentLaunched { agent, .. } => {
                let work = self.work_mut(attempt);
                (work.agent, work.was_started) = (Some(agent.clone()), true);
            }
            IncidentEvent::Finished { report: EffectReport::NoAgent, .. } => {
                self.work_mut(attempt).overdue = true;
            }
            IncidentEvent::Finished { report: EffectReport::Measured(change), .. } => {
                self.work_mut(attempt).measured = Some(*change);
            }
            IncidentEvent::Finished { report: EffectReport::Conflict { paths }, .. } => {
                self.conflicts.clone_from(paths);
            }
            _ => {}
        }
    }

    fn work_mut(&mut self, attempt: u32) -> &mut AgentWork {
        let at = match self.works.iter().position(|work| work.attempt == attempt) {
            Some(at) => at,
            None => {
                self.works.push(AgentWork { attempt, ..AgentWork::default() });
                self.works.len() - 1
            }
        };
        &mut self.works[at]
    }

    /// Takes in what an entry says about the remedies.
    fn learn_remedy(&mut self, entry: &Entry, attempt: u32) {
        let Event::Incident(event) = &entry.event else { return };
        if let IncidentEvent::Judged { remedy, judgement } = event {
            self.remedies.push(RemedyTried::chosen(remedy, judgement, attempt, entry.at));
            return;
        }
        if let Some(last) = self.remedies.last_mut() {
            last.hear(event, entry);
            let ended = last.applied.as_ref().and_then(|applied| applied.end.as_ref());
            let error = ended.filter(|end| end.seq == entry.seq).and_then(|end| end.error.clone());
            self.trouble = error.or(self.trouble.take());
        }
        if let IncidentEvent::Finished {
            report: EffectReport::Verified { proof: Proof::Failed, symptom },
            ..
        } = event
            && self.last_applied().is_some()
        {
            let seen = symptom.as_ref().map(|symptom| symptom.key_line.clone());
            self.trouble = seen.or(Some(Scrubbed::literal("the tests still cannot execute")));
        }
    }

    /// Takes in which question an entry settled, and which it led to.
    fn learn_question(&mut self, entry: &Entry) {
        let asked = match self.incident.phase() {
            Phase::Asking { number, question, digest, .. } => Some((number, question, digest)),
            Phase::Choosing
            | Phase::Due { .. }
            | Phase::Doing { .. }
            | Phase::CoolingDown { .. }
            | Phase::Ending { .. }
            | Phase::Closed(_) => None,
        };
        let how = match &entry.event {
            Event::Incident(IncidentEvent::Approved { note, .. }) => {
                Some(self.answered(QuestionSettled::Approved, entry, note.as_ref()))
            }
            Event::Incident(IncidentEvent::Rejected { note, .. }) => {
                Some(self.answered(QuestionSettled::Rejected, entry, note.as_ref()))
            }
            Event::Incident(IncidentEvent::Resolved { note, .. }) => {
                Some(self.answered(QuestionSettled::Resolved, entry, note.as_ref()))
            }
            Event::Incident(IncidentEvent::Superseded {} | IncidentEvent::CameBack { .. }) => {
                Some(QuestionSettled::Superseded)
            }
            // Whatever else ended the wait, an order for example, a person did it.
            _ => asked.is_none().then_some(QuestionSettled::Resolved),
        };
        if let (Some(how), Some(open)) = (how, self.questions.last_mut())
            && open.settled.is_none()
        {
            let took = entry.at.duration_since(open.at).as_millis();
            let took_ms = u64::try_from(took).unwrap_or(0);
            open.settled = Some(SettledQuestion { how, seq: entry.seq, took_ms });
        }
        let Some((number, question, digest)) = asked else { return };
        if self.questions.last().is_some_and(|known| known.number == number) {
            return;
        }
        let reason = short_reason(self, question);
        let trial = self.incident.trial().filter(|_| question == PersonQuestion::Remedy);
        let command = trial.map(|trial| trial.remedy.text.clone());
        let (at, seq) = (entry.at, entry.seq);
        let settled = None;
        self.questions.push(AskedQuestion {
            number,
            question,
            digest,
            at,
            seq,
            reason,
            command,
            settled,
        });
    }

    /// Keeps what a person answered.
    fn answered(
        &mut self,
        how: QuestionSettled,
        entry: &Entry,
        note: Option<&Scrubbed>,
    ) -> QuestionSettled {
        let command = self.open_question().and_then(|asked| asked.command.clone());
        let who = entry.by.person_in_history().cloned();
        self.answers.push(GivenAnswer { who, how, command, note: note.cloned() });
        how
    }

    /// Returns the incident as it stands.
    pub fn incident(&self) -> &Incident {
        &self.incident
    }

    /// Returns the incident's id.
    pub fn id(&self) -> IncidentId {
        self.incident.id()
    }

    /// Returns what is under care.
    pub fn subject(&self) -> &Subject {
        self.incident.subject()
    }

    /// Returns who repairs.
    pub fn mode(&self) -> RepairMode {
        self.incident.policy().mode
    }

    /// Returns the entries with what each brought about, in their order.
    pub fn lines(&self) -> &[IncidentViewLine] {
        &self.lines
    }

    /// Returns an agent's part in an attempt, if there was any.
    pub fn work(&self, attempt: u32) -> Option<&AgentWork> {
        self.works.iter().find(|work| work.attempt == attempt)
    }

    /// Returns an agent's part in each attempt that had one.
    pub fn works(&self) -> &[AgentWork] {
        &self.works
    }

    /// Returns the remedies, in the order in which they were chosen.
    pub fn remedies(&self) -> &[RemedyTried] {
        &self.remedies
    }

    /// Returns the remedy that was applied last.
    pub fn last_applied(&self) -> Option<&RemedyTried> {
        self.remedies.iter().rev().find(|remedy| remedy.applied.is_some())
    }

    /// Returns the files in which the last change that could not be brought in conflicts with others' edits.
    pub fn conflicts(&self) -> &[Scrubbed] {
        &self.conflicts
    }

    /// Returns what went wrong last with a remedy that was applied.
    pub fn trouble(&self) -> Option<&Scrubbed> {
        self.trouble.as_ref()
    }

    /// Returns every question that was asked, the oldest first.
    pub fn questions(&self) -> &[AskedQuestion] {
        &self.questions
    }

    /// Returns the question that a person has to answer now, if any.
    pub fn open_question(&self) -> Option<&AskedQuestion> {
        self.questions.last().filter(|asked| asked.settled.is_none())
    }

    /// Returns what people answered, the oldest first.
    pub fn answers(&self) -> &[GivenAnswer] {
        &self.answers
    }

    /// Returns what was proposed for a loop's tests, the oldest first.
    pub fn proposals(&self) -> impl DoubleEndedIterator<Item = &Proposed> {
        self.lines.iter().filter_map(|line| match &line.entry.event {
            Event::Recovery(RecoveryEvent::Proposed { proposal }) if line.ignored.is_none() => {
                Some(&**proposal)
            }
            _ => None,
        })
    }

    /// Returns the iteration of the loop whose tests are recovered, from 1; 0 if there is none.
    pub fn iteration(&self) -> u32 {
        let sought = self.lines.iter().rev().find_map(|line| match line.entry.event {
            Event::Recovery(RecoveryEvent::Sought { iteration, .. }) if line.ignored.is_none() => {
                Some(iteration)
            }
            _ => None,
        });
        sought.unwrap_or(0)
    }

    /// Returns when the incident opened.
    pub fn opened_at(&self) -> Timestamp {
        self.lines.first().map_or(self.incident.clock(), |line| line.entry.at)
    }

    /// Returns how it came out, if it is over.
    pub fn outcome(&self) -> Option<IncidentOutcome> {
        match self.incident.phase() {
            Phase::Closed(outcome) => Some(outcome),
            Phase::Choosing
            | Phase::Due { .. }
            | Phase::Doing { .. }
            | Phase::Asking { .. }
            | Phase::CoolingDown { .. }
            | Phase::Ending { .. } => None,
        }
    }

    /// Returns when it was over, if it is.
    pub fn closed_at(&self) -> Option<Timestamp> {
        self.closed_at
    }

    /// Tells whether the subject ended of its own accord, as it should, when it was last verified.
    pub fn ended_by_itself(&self) -> bool {
        let mut events = self.lines.iter().rev().map(|line| &line.entry.event);
        let Some(verify) = events.find_map(|event| match event {
            Event::Incident(IncidentEvent::Requested { effect, what: Effect::Verify }) => {
                Some(*effect)
            }
            _ => None,
        }) else {
            return false;
        };
        let ended =
            Event::Incident(IncidentEvent::Finished { effect: verify, report: EffectReport::Done });
        self.lines.iter().rev().any(|line| line.entry.event == ended)
    }

    /// Returns the number of the present attempt, never more than there may be.
    pub fn attempt(&self) -> u32 {
        self.incident.attempt().clamp(1, self.max_attempts().max(1))
    }

    /// Returns how many attempts there may be, refills included.
    pub fn max_attempts(&self) -> u32 {
        let ledger = self.incident.ledger();
        let spent = ledger.spent().attempts;
        let all = spent.saturating_add(ledger.left(Resource::Attempts).unwrap_or(0));
        u32::try_from(all).unwrap_or(u32::MAX)
    }

    /// Returns how long the effect that is due still waits.
    pub fn wait_ms(&self) -> u64 {
        let wait = match self.incident.phase() {
            Phase::Due { from, .. } => from.duration_since(self.incident.clock()).as_millis(),
            Phase::Choosing
            | Phase::Doing { .. }
            | Phase::Asking { .. }
            | Phase::CoolingDown { .. }
            | Phase::Ending { .. }
            | Phase::Closed(_) => 0,
        };
        u64::try_from(wait).unwrap_or(0)
    }

    /// Returns every phase so far with the entry that brought it about.
    pub fn notices(&self) -> impl DoubleEndedIterator<Item = (&IncidentViewLine, &Notice)> {
        self.lines.iter().flat_map(|line| line.notices.iter().map(move |notice| (line, notice)))
    }

    /// Returns the last phase.
    pub fn phase(&self) -> RepairPhase {
        // Opening an incident is a phase itself, so there is always one.
        self.notices().next_back().map_or(RepairPhase::CrashDetected, |(_, notice)| notice.phase)
    }
}
