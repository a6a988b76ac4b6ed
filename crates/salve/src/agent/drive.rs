//! One run from its first line to its end.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use salve_core::agent::{AgentStream, AgentVerdict, Dialect, Sign, Trouble};
use salve_core::event::{Amounts, ProcessExit, Resource, StepTimer};
use salve_core::scrub::Scrubber;

use super::host::{Family, Started};
use super::outlets::{read_complaints, read_lines};
use super::timers::{TimerNews, WorkTimers};
use super::transcript::Transcript;
use super::vitals::Vitals;
use super::{Activity, AgentBounds, AgentEvent, End, Ending, Profile};
use crate::process::AgentWords;

/// How many lines may wait to be read; an agent that prints faster has to wait.
pub(super) const INBOX: usize = 64;
/// How long an agent may take to end by itself.
const GRACE: Duration = Duration::from_secs(3);
/// How long the rest of the output is waited for once the process has ended.
const REST: Duration = Duration::from_secs(1);
/// The shortest time between two activities that are told.
const PACE: Duration = Duration::from_millis(100);
/// The longest time between two looks at the processes.
const LOOK: Duration = Duration::from_secs(1);

/// What happens to a run.
pub(super) enum AgentRunMessage {
    /// It printed a line; nothing if the line was too long.
    Line(Option<String>),
    /// It complained on stderr.
    Complaint(String),
    /// It has closed its output.
    Closed,
    /// Somebody wants it to stop.
    Stop,
}

/// Whether more can be printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OutputState {
    Open,
    Closed,
}

/// What is known of a run.
pub(super) struct Drive {
    stream: AgentStream,
    dialect: Dialect,
    bounds: AgentBounds,
    scrubber: Scrubber,
    on: Box<dyn FnMut(AgentEvent) + Send>,
    /// Where all that it says is found while it works.
    words: AgentWords,
    told: Option<Instant>,
    charged: Amounts,
    too_long: u64,
    trouble: Option<(Trouble, String)>,
    /// The kind of trouble that was told last: one that goes on is told once.
    told_trouble: Option<Trouble>,
    /// What it waits for before it asks its service again, if that was its last word.
    waited_for: Option<Trouble>,
    result: Option<(AgentVerdict, String)>,
    output: OutputState,
    transcript: Transcript,
}

impl Drive {
    pub(super) fn new(
        profile: &Profile,
        bounds: AgentBounds,
        scrubber: Scrubber,
        words: AgentWords,
        on: Box<dyn FnMut(AgentEvent) + Send>,
    ) -> Self {
        Self {
            stream: AgentStream::new(profile.dialect).with_prices(profile.prices),
            dialect: profile.dialect,
            bounds,
            scrubber,
            on,
            words,
            told: None,
            charged: Amounts::default(),
            too_long: 0,
            trouble: None,
            told_trouble: None,
            waited_for: None,
            result: None,
            output: OutputState::Open,
            transcript: Transcript::default(),
        }
    }

    /// Keeps what the agent says there.
    pub(super) fn with_transcript(self, transcript: Transcript) -> Self {
        Self { transcript, ..self }
    }

    /// Follows the run to its end.
    pub(super) fn run(
        mut self,
        started: Started,
        outbox: &SyncSender<AgentRunMessage>,
        inbox: &Receiver<AgentRunMessage>,
    ) -> Ending {
        let begun = Instant::now();
        let Started { family, output, errors } = started;
        let complaints = Arc::new(Mutex::new(String::new()));
        read_lines(output, outbox.clone());
        let complained = read_complaints(errors, Arc::clone(&complaints), outbox.clone());
        let cut = self.follow(&family, inbox, begun);
        let left = if cut.is_some() { 0 } else { family.orphans() };
        // Whatever it left behind ends with it.
        family.end(if cut.is_some() { GRACE } else { Duration::ZERO });
        self.drain(inbox);
        let exit = family.wait(Duration::ZERO).unwrap_or(ProcessExit::TimedOut);
        // Why it gave up may be its last words, which on a busy machine are read later than the
        // process is seen to end. Nobody sends anything: the end of the reader is the news.
        let _ended = complained.recv_timeout(REST);
        let said = complaints.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (end, text) = self.judge(cut, &exit, &said);
        self.charge();
        let ending = Ending {
            end,
            text: self.scrubber.scrub(&text),
            spent: self.charged,
            exit,
            took: begun.elapsed(),
            unknown: self.stream.unknown() + self.too_long,
            left,
        };
        self.transcript.end(&ending, &self.scrubber);
        (self.on)(AgentEvent::Ended(Box::new(ending.clone())));
        ending
    }

    /// Takes messages in until the run is over; returns why it has to be ended, if it has.
    fn follow(
        &mut self,
        family: &Family,
        inbox: &Receiver<AgentRunMessage>,
        begun: Instant,
    ) -> Option<End> {
        let mut vitals = Vitals::new(family.process().pid, begun);
        let mut timers = WorkTimers::new(self.bounds.wall, self.bounds.idle);
        let look = (self.bounds.idle / 4).clamp(Duration::from_millis(20), LOOK);
        let (mut next_look, mut ended) = (begun + look, None);
        loop {
            let now = Instant::now();
            let spent = now.duration_since(begun);
            if spent >= self.bounds.wall {
                let news = timers.look(spent, Duration::ZERO);
                return self.heed(&news).or(Some(End::TimedOut));
            }
            if now >= next_look {
                if ended.is_none() && family.wait(Duration::ZERO).is_some() {
                    ended = Some(now);
                }
                if ended.is_some_and(|at: Instant| now.duration_since(at) >= REST) {
                    return None;
                }
                if ended.is_none() {
                    let news = timers.look(spent, vitals.look(now));
                    if let Some(end) = self.heed(&news) {
                        return Some(end);
                    }
                }
                next_look = now + look;
            }
            let pause = next_look.saturating_duration_since(now);
            if self.output == OutputState::Closed && family.wait(pause).is_some() {
                return None;
            }
            let pause = if self.output == OutputState::Closed { Duration::ZERO } else { pause };
            match inbox.recv_timeout(pause) {
                Ok(AgentRunMessage::Line(line)) => {
                    let end = self.take(line.as_deref());
                    self.note_life(&mut vitals);
                    if let Some(end) = end {
                        return Some(end);
                    }
                }
                Ok(AgentRunMessage::Complaint(line)) => {
                    self.words.say(self.scrubber.scrub(&line).as_str());
                    if let Some(sign) = self.stream.complaint(&line) {
                        let end = self.take_sign(&sign);
                        self.note_life(&mut vitals);
                        if let Some(end) = end {
                            return Some(end);
                        }
                    }
                }
                Ok(AgentRunMessage::Stop) => return Some(End::Stopped),
                Ok(AgentRunMessage::Closed) | Err(RecvTimeoutError::Disconnected) => {
                    self.output = OutputState::Closed;
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Passes on which timers will run out; returns why the run has to be ended, if one has.
    fn heed(&mut self, news: &[TimerNews]) -> Option<End> {
        for one in news {
            match *one {
                TimerNews::Over(StepTimer::Wall) => return Some(End::TimedOut),
                TimerNews::Over(StepTimer::Idle) => {
                    return Some(self.waited_for.map_or(End::Idle, End::Failed));
                }
                TimerNews::Near(timer, left) => {
                    (self.on)(AgentEvent::Activity(Activity::Expires(timer, left)));
                }
            }
        }
        None
    }

    /// Takes in that it said something: that it sleeps, or anything else.
    fn note_life(&self, vitals: &mut Vitals) {
        match self.waited_for {
            Some(_) => vitals.fell_asleep(Instant::now()),
            None => vitals.heard(Instant::now()),
        }
    }

    /// Takes in what was printed before the end.
    fn drain(&mut self, inbox: &Receiver<AgentRunMessage>) {
        let until = Instant::now() + REST;
        while self.output == OutputState::Open {
            match inbox.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(AgentRunMessage::Line(line)) => _ = self.take(line.as_deref()),
                Ok(AgentRunMessage::Stop | AgentRunMessage::Complaint(_)) => {}
                Ok(AgentRunMessage::Closed) | Err(_) => self.output = OutputState::Closed,
            }
        }
    }

    /// Takes one line in; returns why the run has to be ended, if it has.
    fn take(&mut self, line: Option<&str>) -> Option<End> {
        let Some(line) = line else {
            self.too_long += 1;
            return None;
        };
        // Whatever it says now, it no longer sleeps, unless it says just that.
        self.waited_for = None;
        let mut refused = None;
        for sign in self.stream.line(line) {
            refused = refused.or(self.take_sign(&sign));
        }
        match self.result {
            // It has done its work: stopping it now would save nothing.
            Some(_) => None,
            None => refused.or_else(|| self.over().map(End::OverBudget)),
        }
    }

    /// Takes one sign in; returns why the run has to be ended, if its service leaves no hope.
    fn take_sign(&mut self, sign: &Sign) -> Option<End> {
        self.transcript.hear(sign, &self.scrubber);
        let mut refused = None;
        match sign {
            Sign::Retry { kind, text, pause } => {
                self.trouble = Some((*kind, text.clone()));
                self.waited_for = Some(*kind);
                let is_too_long = pause.is_some_and(|pause| pause >= self.bounds.idle);
                refused = Some(*kind).filter(|kind| kind.is_refusal() || is_too_long);
            }
            Sign::Result { verdict, text } => self.result = Some((*verdict, text.clone())),
            Sign::Trouble { kind, text } => self.trouble = Some((*kind, text.clone())),
            Sign::Session { .. } | Sign::Said(_) | Sign::Used { .. } | Sign::Spent(_) => {}
        }
        self.keep_words(sign);
        // Of one that is ended for it, the ending tells.
        if refused.is_none() {
            self.tell(sign);
        }
        refused.map(End::Failed)
    }

    /// Keeps what it says for whoever wants to read all of it.
    fn keep_words(&self, sign: &Sign) {
        let text = match sign {
            Sign::Said(text) | Sign::Trouble { text, .. } | Sign::Retry { text, .. } => {
                self.scrubber.scrub(text).to_string()
            }
            Sign::Used { tool } => format!("uses {}", self.scrubber.scrub(tool)),
            // Its last word is told where it ends.
            Sign::Session { .. } | Sign::Spent(_) | Sign::Result { .. } => return,
        };
        self.words.say(&text);
    }

    /// Passes on what the agent does, but not faster than anybody can read.
    fn tell(&mut self, sign: &Sign) {
        let now = Instant::now();
        let Some(activity) = self.activity(sign) else { return };
        if let Activity::Trouble(kind, _) = &activity {
            // What it waits for is told however much was told just before.
            if self.told_trouble.replace(*kind) == Some(*kind) {
                return;
            }
        } else if self.told.is_some_and(|at| now.duration_since(at) < PACE) {
            return;
        }
        self.told = Some(now);
        (self.on)(AgentEvent::Activity(activity));
        self.charge();
    }

    /// Returns what a sign tells of the agent's work, if it does.
    fn activity(&self, sign: &Sign) -> Option<Activity> {
        let scrub = |text: &str| self.scrubber.scrub(text);
        Some(match sign {
            Sign::Session { id } => Activity::Session(scrub(id)),
            Sign::Said(text) => Activity::Said(scrub(text)),
            Sign::Used { tool } => Activity::Used(scrub(tool)),
            Sign::Retry { kind, text, .. } => Activity::Trouble(*kind, scrub(text)),
            // What it does not try again ends it soon, and the ending tells why.
            Sign::Trouble { .. } | Sign::Spent(_) | Sign::Result { .. } => return None,
        })
    }

    /// Passes on what the run has cost, if that has changed.
    fn charge(&mut self) {
        let spent = self.stream.spent().amounts();
        if spent != self.charged {
            self.charged = spent;
            (self.on)(AgentEvent::Spent(spent));
        }
    }

    /// Returns what is used up.
    fn over(&self) -> Option<Resource> {
        let spent = self.stream.spent().amounts();
        let is_over = |limit: Option<u64>, spent: u64| limit.is_some_and(|limit| spent > limit);
        let is_worn = is_over(self.bounds.work, self.stream.worked());
        if is_worn || is_over(self.bounds.tokens, spent.tokens) {
            Some(Resource::Tokens)
        } else if is_over(self.bounds.money_micros, spent.money_micros) {
            Some(Resource::MoneyMicros)
        } else {
            None
        }
    }

    /// Says how it ended, and what its last word is.
    fn judge(&self, cut: Option<End>, exit: &ProcessExit, complaints: &str) -> (End, String) {
        let last = complaints.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("");
        if let (Some(End::Failed(kind)), Some((_, text))) = (cut, &self.trouble) {
            return (End::Failed(kind), text.clone());
        }
        if let Some(end) = cut {
            // What stands last on its stderr is not why it was ended.
            return (end, self.result.as_ref().map(|(_, text)| text.clone()).unwrap_or_default());
        }
        let said = self.result.as_ref().map_or(last, |(_, text)| text).to_owned();
        let failed = || match &self.trouble {
            Some((kind, text)) => (End::Failed(*kind), text.clone()),
            None => (End::Failed(Trouble::of(complaints)), said.clone()),
        };
        match (&self.result, exit) {
            (Some((AgentVerdict::Finished, _)), ProcessExit::Code(0)) => (End::Finished, said),
            (Some((AgentVerdict::Finished, _)), _) => failed(),
            (Some((AgentVerdict::Failed, _)), _) => failed(),
            (None, ProcessExit::Code(0)) if self.dialect.names_result() => (End::NoResult, said),
            (None, ProcessExit::Code(0)) => (End::Finished, said),
            (None, _) => failed(),
        }
    }
}
