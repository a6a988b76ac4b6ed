//! One recovery of a loop, told from its incident's entries.

use jiff::Timestamp;

use super::answer::{Fulfilment, QuestionSettled, RecoveryAnswer};
use super::log::LogLine;
use crate::event::{
    Authority, Digest, Effect, EffectReport, Entry, Event, Exit, IncidentEvent, IncidentOutcome,
    Judgement, PersonQuestion, Proof, Proposed, RecoveryEvent, Remedy, RemedyKind, RemedyVerdict,
    SubjectKind,
};
use crate::id::IncidentId;
use crate::incident::{Incident, Phase};
use crate::scrub::Scrubbed;

/// One recovery, as far as it got.
#[derive(Clone, Debug)]
pub struct Course {
    incident: Incident,
    /// The iteration of the loop, from 1; 0 until that is known.
    pub iteration: u32,
    /// When it was opened.
    pub opened: Timestamp,
    /// When it was over, if it is.
    pub closed: Option<Timestamp>,
    /// What was proposed last.
    pub proposal: Option<Proposed>,
    /// How often something was proposed.
    pub proposals: u32,
    /// What was asked last.
    pub asked: Option<Asked>,
    /// Every question that was settled: how, and how long that took.
    pub settled: Vec<(QuestionSettled, u64)>,
    /// The commands that were run.
    pub commands: Vec<Ran>,
    /// What people answered, for whoever plans the next iteration.
    pub answers: Vec<RecoveryAnswer>,
    judgement: Option<Judgement>,
    running: Option<(u32, Ran)>,
    trouble: Option<Scrubbed>,
}

/// A command that was run to recover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// The command.
    pub command: Scrubbed,
    /// On whose word.
    pub on: Authority,
    /// When it was started.
    pub at: Timestamp,
    /// The journal's entry that says so.
    pub seq: u64,
    /// Whether the tests executed afterwards.
    pub helped: bool,
}

/// A question to a person about a recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Its number within the incident, from 1.
    pub number: u32,
    /// What is asked.
    pub question: PersonQuestion,
    /// What an answer is bound to.
    pub digest: Digest,
    /// When it was first asked.
    pub at: Timestamp,
    /// Why a person is needed.
    pub reason: Scrubbed,
    /// The command it is about, if it is about one.
    pub command: Option<Scrubbed>,
    /// How it was settled, if it is.
    pub settled: Option<QuestionSettled>,
    /// What became of what was approved, if it was.
    pub execution: Option<Fulfilment>,
}

impl Course {
    /// Begins with the entry that opens a loop's incident.
    pub fn begin(entry: &Entry) -> Option<Self> {
        let incident = Incident::replay([entry]).ok()?;
        if incident.subject().kind != SubjectKind::Iteration {
            return None;
        }
        Some(Self {
            incident,
            iteration: 0,
            opened: entry.at,
            closed: None,
            proposal: None,
            proposals: 0,
            asked: None,
            settled: Vec::new(),
            commands: Vec::new(),
            answers: Vec::new(),
            judgement: None,
            running: None,
            trouble: None,
        })
    }

    /// Returns the incident as it stands.
    pub fn incident(&self) -> &Incident {
        &self.incident
    }

    /// Returns the incident's id.
    pub fn id(&self) -> IncidentId {
        self.incident.id()
    }

    /// Returns the question that a person has to answer now, if any.
    pub fn pending(&self) -> Option<&Asked> {
        self.asked.as_ref().filter(|asked| asked.settled.is_none())
    }

    /// Returns how it came out, if it has.
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

    /// Takes the next entry of the incident in and returns the lines that it brings about.
    pub fn take(&mut self, entry: &Entry) -> Vec<LogLine> {
        let before = self.incident.clone();
        if self.incident.step(entry).is_err() {
            // What was refused changed nothing.
            return Vec::new();
        }
        let mut lines = self.said(entry, &before);
        lines.extend(self.came_to(entry, &before));
        if self.outcome().is_some() && self.closed.is_none() {
            self.closed = Some(entry.at);
        }
        let (iteration, incident) = (Some(self.iteration).filter(|n| *n > 0), Some(self.id()));
        for line in &mut lines {
            (line.iteration, line.incident) = (iteration, incident);
            (line.timestamp, line.seq) = (entry.at, entry.seq);
        }
        lines
    }

    /// Returns what follows from the entry itself.
    fn said(&mut self, entry: &Entry, before: &Incident) -> Vec<LogLine> {
        let line = |event| LogLine { event, ..LogLine::default() };
        match &entry.event {
            Event::Recovery(RecoveryEvent::Sought { iteration, .. }) => {
                self.iteration = *iteration;
                Vec::new()
            }
            Event::Recovery(RecoveryEvent::Proposed { proposal }) => vec![self.proposed(proposal)],
            Event::Incident(IncidentEvent::Judged { remedy, judgement }) => {
                self.judged(remedy, judgement).into_iter().collect()
            }
            Event::Incident(IncidentEvent::Approved { note, .. }) => {
                self.answer(QuestionSettled::Approved, entry, note.as_ref());
                self.execution(Fulfilment::NotRun);
                let command = before.trial().map(|trial| trial.remedy.text.clone());
                let (source, note) = (Some("human"), note.clone());
                vec![LogLine { source, command, note, ..line("recovery_approved") }]
            }
            Event::Incident(IncidentEvent::Rejected { note, .. }) => {
                self.answer(QuestionSettled::Rejected, entry, note.as_ref());
                let (by, method, note) = (Some("human"), Some("reject"), note.clone());
                vec![LogLine { by, method, note, ..line("recovery_resolved") }]
            }
            Event::Incident(IncidentEvent::Resolved { note }) => {
                self.answer(QuestionSettled::Resolved, entry, note.as_ref());
                let (by, method, note) = (Some("human"), Some("manual"), note.clone());
                vec![LogLine { by, method, note, ..line("recovery_resolved") }]
            }
            Event::Incident(IncidentEvent::Superseded {}) => {
                self.settle(QuestionSettled::Superseded, entry.at);
                Vec::new()
            }
            Event::Incident(IncidentEvent::Requested {
                effect,
                what: Effect::Apply { on, .. },
            }) => {
                let Some(trial) = before.trial() else { return Vec::new() };
                let (command, on) = (trial.remedy.text.clone(), *on);
                let ran = Ran { command, on, at: entry.at, seq: entry.seq, helped: false };
                if let Authority::Approval(_) = on {
                    self.execution(Fulfilment::Running);
                }
                self.commands.push(ran.clone());
                self.running = Some((*effect, ran));
                Vec::new()
            }
            Event::Incident(IncidentEvent::Claimed { .. }) => self.interrupted(),
            Event::Incident(IncidentEvent::Finished { effect, report }) => {
                self.finished(*effect, report, entry.at)
            }
            _ => Vec::new(),
        }
    }

    /// Takes in what the gate said, and returns what is said of it.
    fn judged(&mut self, remedy: &Remedy, judgement: &Judgement) -> Option<LogLine> {
        self.judgement = Some(judgement.clone());
        let command = Some(remedy.text.clone());
        let line = |event| LogLine { event, ..LogLine::default() };
        match judgement.verdict {
            RemedyVerdict::Allow if remedy.kind == RemedyKind::Command => {
                let source = Some("auto");
                Some(LogLine { source, command, ..line("recovery_approved") })
            }
            RemedyVerdict::Deny => {
                let reason = Some(judgement.reason.clone());
                Some(LogLine { command, reason, ..line("recovery_refused") })
            }
            RemedyVerdict::Allow | RemedyVerdict::Ask => None,
        }
    }

    /// Takes a proposal in and returns what is said of it.
    fn proposed(&mut self, proposal: &Proposed) -> LogLine {
        self.proposals += 1;
        self.proposal = Some(proposal.clone());
        LogLine {
            event: "recovery_proposed",
            category: Some(proposal.category),
            command: Some(proposal.recovery.command.clone()),
            confidence: proposal.recovery.confidence,
            ..LogLine::default()
        }
    }

    /// Takes in that somebody else took over: a command that ran was cut off.
    fn interrupted(&mut self) -> Vec<LogLine> {
        let Some((_, ran)) = self.running.take() else { return Vec::new() };
        let error = Scrubbed::literal(
            "Salve ended while it ran: how far it came is not known, and it is not run again",
        );
        if let Authority::Approval(_) = ran.on {
            self.execution(Fulfilment::Interrupted);
        }
        self.trouble = Some(error.clone());
        let (command, exit_code, error) = (Some(ran.command), Some(None), Some(error));
        vec![LogLine { event: "recovery_failed", command, exit_code, error, ..LogLine::default() }]
    }

    /// Remembers what became of what was approved.
    fn execution(&mut self, execution: Fulfilment) {
        let is_approved = |asked: &&mut Asked| {
            asked.question == PersonQuestion::Remedy
                && asked.settled == Some(QuestionSettled::Approved)
        };
        if let Some(asked) = self.asked.as_mut().filter(is_approved) {
            asked.execution = Some(execution);
        }
    }

    /// Remembers what a person answered.
    fn answer(&mut self, how: QuestionSettled, entry: &Entry, note: Option<&Scrubbed>) {
        let command = self.pending().and_then(|asked| asked.command.clone());
        self.settle(how, entry.at);
        let who = entry.by.person().cloned();
        self.answers.push(RecoveryAnswer { who, how, command, note: note.cloned() });
    }

    /// Returns what follows when an effect comes back.
    fn finished(&mut self, effect: u32, report: &EffectReport, at: Timestamp) -> Vec<LogLine> {
        let line = |event| LogLine { event, ..LogLine::default() };
        if let Some((_, ran)) = self.running.take_if(|(running, _)| *running == effect) {
            if let Authority::Approval(_) = ran.on {
                self.execution(Fulfilment::of(report));
            }
            let took = at.duration_since(ran.at).as_millis();
            let duration_ms = Some(u64::try_from(took).unwrap_or(0));
            let command = Some(ran.command);
            let (exit_code, error) = match report {
                EffectReport::Done => {
                    let exit_code = Some(Some(0));
                    return vec![LogLine {
                        command,
                        exit_code,
                        duration_ms,
                        ..line("recovery_executed")
                    }];
                }
                EffectReport::Failed { reason, exit } => (code(exit.as_ref()), reason.clone()),
                EffectReport::TimedOut => (None, Scrubbed::literal("it outlived its time-out")),
                EffectReport::NoAgent
                | EffectReport::Measured(_)
                | EffectReport::Verified { .. } => (None, Scrubbed::literal("nobody ran it")),
            };
            self.trouble = Some(error.clone());
            let failed = line("recovery_failed");
            let (exit_code, error) = (Some(exit_code), Some(error));
            return vec![LogLine { command, exit_code, duration_ms, error, ..failed }];
        }
        match report {
            EffectReport::Verified { proof: Proof::Failed, symptom } => {
                let Some(ran) = self.commands.last() else { return Vec::new() };
                let error = symptom.as_ref().map(|symptom| symptom.key_line.clone());
                let error = error.or(Some(Scrubbed::literal("the tests still cannot execute")));
                self.trouble = error.clone();
                let (command, exit_code) = (Some(ran.command.clone()), Some(Some(0)));
                vec![LogLine { command, exit_code, error, ..line("recovery_failed") }]
            }
            EffectReport::Verified {
                proof: Proof::Proven | Proof::Transient | Proof::Flaky,
                ..
            } => {
                if let Some(ran) = self.commands.last_mut() {
                    ran.helped = true;
                }
                Vec::new()
            }
            EffectReport::Verified { proof: Proof::Masked, .. }
            | EffectReport::Done
            | EffectReport::Failed { .. }
            | EffectReport::TimedOut
            | EffectReport::NoAgent
            | EffectReport::Measured(_) => Vec::new(),
        }
    }

    /// Returns what follows from where the entry led.
    fn came_to(&mut self, entry: &Entry, before: &Incident) -> Vec<LogLine> {
        let line = |event| LogLine { event, ..LogLine::default() };
        let mut lines = Vec::new();
        if let Phase::Asking { number, question, digest, .. } = self.incident.phase()
            && self.asked.as_ref().is_none_or(|asked| asked.number != number)
        {
            let reason = self.reason(question);
            let trial = self.incident.trial().filter(|_| question == PersonQuestion::Remedy);
            self.asked = Some(Asked {
                number,
                question,
                digest,
                at: entry.at,
                reason: reason.clone(),
                command: trial.map(|trial| trial.remedy.text.clone()),
                settled: None,
                execution: None,
            });
            let awaiting = Some("human");
            lines.push(LogLine { reason: Some(reason), awaiting, ..line("recovery_escalated") });
        }
        let was_asking = matches!(before.phase(), Phase::Asking { .. });
        let is_asking = matches!(self.incident.phase(), Phase::Asking { .. });
        if was_asking && !is_asking {
            // Whatever else ended the wait, an order for example, a person did it.
            self.settle(QuestionSettled::Resolved, entry.at);
        }
        if let Event::Incident(IncidentEvent::Ended { outcome: IncidentOutcome::Recovered(_) }) =
            entry.event
            && self.settled.iter().any(|(how, _)| *how == QuestionSettled::Approved)
        {
            let (by, method) = (Some("human"), Some("approve"));
            lines.push(LogLine { by, method, ..line("recovery_resolved") });
        }
        lines
    }

    fn settle(&mut self, how: QuestionSettled, at: Timestamp) {
        if let Some(asked) = self.asked.as_mut().filter(|asked| asked.settled.is_none()) {
            asked.settled = Some(how);
            let took = u64::try_from(at.duration_since(asked.at).as_millis()).unwrap_or(0);
            self.settled.push((how, took));
        }
    }

    /// Returns why a person is needed.
    fn reason(&self, question: PersonQuestion) -> Scrubbed {
        let literal = match question {
            PersonQuestion::Remedy => return self.gate_says(),
            PersonQuestion::NothingLeft => {
                let finding = self.incident.findings().first().map(|finding| &finding.what);
                let denied =
                    self.judgement.as_ref().filter(|one| one.verdict == RemedyVerdict::Deny);
                match (&self.trouble, denied.map(|one| &one.reason).or(finding)) {
                    (Some(trouble), _) => return trouble.clone(),
                    (None, Some(finding)) => return finding.clone(),
                    (None, None) => "nothing is known to try",
                }
            }
            PersonQuestion::ChangeTooLarge => "the change is larger than may stay without a person",
            PersonQuestion::Exhausted(_) => "the recovery's budget is used up",
            PersonQuestion::NoProgress => "the same failure keeps coming back",
            PersonQuestion::RollBackFailed => "a change that did not help could not be undone",
            PersonQuestion::SnapshotFailed => "the files could not be kept safe before the command",
            PersonQuestion::Masked => "the tests only looked well",
            PersonQuestion::Flaky => "the tests execute and do not by turns",
            PersonQuestion::MayHaveActed => "a command may or may not have acted",
            PersonQuestion::Tripped(_) => "a breaker stopped recovery",
            PersonQuestion::Ordered => "a person wanted to be asked",
        };
        Scrubbed::literal(literal)
    }

    fn gate_says(&self) -> Scrubbed {
        match &self.judgement {
            Some(judgement) => judgement.reason.clone(),
            None => Scrubbed::literal("the command is not in auto_approve"),
        }
    }
}

/// Returns the exit code, where there is one.
fn code(exit: Option<&Exit>) -> Option<i32> {
    match exit {
        Some(Exit::Code(code)) => Some(*code),
        Some(Exit::Signal(_) | Exit::TimedOut | Exit::Hung) | None => None,
    }
}
