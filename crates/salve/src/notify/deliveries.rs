//! The one who carries messages: takes them up, sends them, tries again, and keeps book.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use salve_core::event::{
    Actor, Channel, Delivery, Draft, Entry, Event, NoteEvent, Notified, Process,
};
use salve_core::notify::{
    After, NoticeMessage, NoticeMoment, TargetAnswer, after, banner, is_worth_telling, message_id,
};
use salve_core::scrub::Scrubber;
use salve_core::view::IncidentView;

use super::desktop::Desktop;
use super::http::{self, Letter, Sent};
use super::{LONG, NoticePlan, name_of};
use crate::process;
use crate::process::spawn_thread;
use crate::store::{Store, Stream};

/// How long what is under way may take when the run ends.
const GRACE: Duration = Duration::from_secs(2);
/// How many messages are sent at once; others wait for their turn.
const AT_ONCE: usize = 4;
/// How many messages wait at most.
const MOST: usize = 100;
/// How long what was shown on the desktop is not shown again.
const SHOWN_FOR: SignedDuration = SignedDuration::from_mins(10);
/// How old something is that no later run tells any more.
const OLDEST: SignedDuration = SignedDuration::from_hours(24);

/// Something that reached the postman.
#[derive(Debug)]
pub(super) enum DeliveryInput {
    /// Entries that appeared in the journal.
    Entries(Vec<Entry>),
    /// The settings say something else from now on.
    Plan(NoticePlan),
    /// A message was sent.
    Sent {
        /// The entry it is about.
        entry: u64,
        /// Where it was sent to.
        url: String,
        /// What came of it.
        sent: Sent,
    },
    /// A notice was shown on the desktop, or could not be.
    Shown,
    /// The run ends.
    Finish,
}

/// A message on its way.
#[derive(Debug)]
struct PendingDelivery {
    id: String,
    /// What it tells of; where that goes is the plan's business, which may change.
    moment: NoticeMoment,
    /// The question that it is about, if it is about one.
    question: Option<u32>,
    message: Arc<NoticeMessage>,
    attempt: u32,
    state: DeliveryState,
    /// Why it was not taken so far.
    why: String,
}

/// How a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeliveryState {
    /// It is sent at this time.
    Due(Instant),
    /// It is being sent.
    Out,
}

/// Both ends of what a carrier is told by.
#[derive(Debug)]
pub(super) struct DeliveryLine {
    pub(super) post: Sender<DeliveryInput>,
    pub(super) inbox: Receiver<DeliveryInput>,
}

/// Carries messages.
#[derive(Debug)]
pub(super) struct Deliveries {
    store: Store,
    me: Process,
    plan: Arc<NoticePlan>,
    scrubber: Scrubber,
    post: Sender<DeliveryInput>,
    inbox: Receiver<DeliveryInput>,
    /// How far the journal was read.
    seen: u64,
    /// By the number of the entry that each is about.
    jobs: BTreeMap<u64, PendingDelivery>,
    /// Addresses that are gone for good.
    gone: Vec<String>,
    /// How many notices are being shown on the desktop.
    showing: usize,
}

impl Deliveries {
    pub(super) fn new(
        store: Store,
        plan: NoticePlan,
        scrubber: Scrubber,
        line: DeliveryLine,
        seen: u64,
    ) -> Self {
        let DeliveryLine { post, inbox } = line;
        let (me, plan) = (process::this(&scrubber), Arc::new(plan));
        let (jobs, gone) = (BTreeMap::new(), Vec::new());
        Self { store, me, plan, scrubber, post, inbox, seen, jobs, gone, showing: 0 }
    }

    /// Works until the run ends.
    pub(super) fn work(mut self) {
        self.take_up_what_was_left();
        loop {
            self.send_due();
            match self.inbox.recv_timeout(self.pause()) {
                Ok(DeliveryInput::Entries(entries)) => self.hear(&entries),
                Ok(DeliveryInput::Plan(plan)) => self.take_over(plan),
                Ok(DeliveryInput::Sent { entry, url, sent }) => self.sent(entry, url, sent),
                Ok(DeliveryInput::Shown) => self.showing = self.showing.saturating_sub(1),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(DeliveryInput::Finish) | Err(RecvTimeoutError::Disconnected) => {
                    return self.finish();
                }
            }
        }
    }

    /// Takes up what earlier runs could not deliver, and what they were killed over.
    fn take_up_what_was_left(&mut self) {
        let since = Timestamp::now().checked_sub(OLDEST).unwrap_or(Timestamp::MIN);
        let Ok(records) = self.store.journal().read_since(since, &Stream::Notices) else { return };
        let mut last = BTreeMap::new();
        for record in &records {
            if let Event::Note(NoteEvent::Notified(Notified {
                entry,
                via: Channel::Webhook,
                state,
            })) = &record.event
            {
                last.insert(*entry, (state, &record.by));
            }
        }
        for (number, (state, by)) in last {
            let is_left = match state {
                Delivery::Undelivered { .. } => true,
                Delivery::Due => {
                    by.process().is_some_and(|by| process::is_gone(by, &self.scrubber))
                }
                Delivery::Delivered | Delivery::Dropped { .. } => false,
            };
            if is_left && let Ok(Some(entry)) = self.store.journal().entry(number) {
                self.take_up(&entry);
            }
        }
    }

    /// Goes by another plan; what was written until now is still told by the old one.
    fn take_over(&mut self, plan: NoticePlan) {
        self.catch_up();
        self.plan = Arc::new(plan);
        let is_orphan = |job: &PendingDelivery| self.plan.hook(job.moment).is_none();
        let orphans: Vec<u64> =
            self.jobs.iter().filter(|(_, job)| is_orphan(job)).map(|(&entry, _)| entry).collect();
        for entry in orphans {
            self.jobs.remove(&entry);
            self.note(
                entry,
                dropped("the settings have no address for it any more", &self.scrubber),
            );
        }
    }

    /// Takes in what the journal has by now.
    fn catch_up(&mut self) {
        if let Ok(entries) = self.store.journal().read(self.seen, &Stream::Project, usize::MAX) {
            self.hear(&entries);
        }
    }

    /// Takes in what this process wrote to the journal.
    fn hear(&mut self, entries: &[Entry]) {
        let me = Actor::Salve(self.me.clone());
        for entry in entries.iter().filter(|entry| entry.by == me) {
            if entry.seq > self.seen && NoticeMoment::of(&entry.event).is_some() {
                let plan = Arc::clone(&self.plan);
                plan.channels().iter().for_each(|channel| channel.tell(entry, self));
            }
        }
        self.seen = entries.last().map_or(self.seen, |last| self.seen.max(last.seq));
    }

    /// Makes a message of an entry, if somebody wants to be told.
    pub(super) fn take_up(&mut self, entry: &Entry) {
        let Some(moment) = NoticeMoment::of(&entry.event) else { return };
        let Some(url) = self.plan.hook(moment) else { return };
        let all = self.incident_of(entry);
        let told = all.iter().filter(|one| one.seq <= entry.seq).cloned().collect::<Vec<_>>();
        let (now, then) = (IncidentView::of(all).ok(), IncidentView::of(told).ok());
        if moment == NoticeMoment::Escalation && number(now.as_ref()) != number(then.as_ref()) {
            // Whoever was to be told has answered, or something else is asked by now.
            return self.note(entry.seq, dropped("it was answered meanwhile", &self.scrubber));
        }
        let name = name_of(self.store.project());
        let quiet = self.plan.quiet_now();
        if quiet.is_some() && matches!(moment, NoticeMoment::Recovered | NoticeMoment::Exhausted) {
            return self.note(entry.seq, dropped("it is a quiet hour", &self.scrubber));
        }
        let is_minor = then.as_ref().is_some_and(|then| !is_worth_telling(then));
        if moment == NoticeMoment::Recovered && is_minor {
            return self.note(entry.seq, dropped("it healed at once", &self.scrubber));
        }
        let links = self.plan.links(entry, then.as_ref(), self.store.project());
        let Some(message) = NoticeMessage::of(entry, then.as_ref(), &links, &name) else { return };
        if self.gone.iter().any(|gone| gone == url) {
            return self.note(entry.seq, dropped("its address is gone for good", &self.scrubber));
        }
        if self.jobs.len() >= MOST {
            let reason = self.scrubber.scrub("too many messages wait");
            return self.note(entry.seq, Delivery::Undelivered { reason });
        }
        self.note(entry.seq, Delivery::Due);
        let job = PendingDelivery {
            id: message_id(entry),
            moment,
            question: number(then.as_ref()).filter(|_| moment == NoticeMoment::Escalation),
            message: Arc::new(message),
            attempt: 0,
            state: DeliveryState::Due(Instant::now() + quiet.unwrap_or_default()),
            why: if quiet.is_some() { "it is a quiet hour" } else { "it was not sent yet" }
                .to_owned(),
        };
        self.jobs.insert(entry.seq, job);
    }

    /// Shows an entry on the desktop, if it deserves it.
    pub(super) fn show(&mut self, entry: &Entry, desktop: &Desktop) {
        let is_wanted =
            NoticeMoment::of(&entry.event).is_some_and(|moment| self.plan.pops_up(moment));
        if !is_wanted || self.plan.quiet_now().is_some() {
            return;
        }
        let all = self.incident_of(entry);
        let told = all.into_iter().filter(|one| one.seq <= entry.seq);
        let Ok(view) = IncidentView::of(told) else { return };
        let Some(banner) = banner(entry, &view) else { return };
        if self.was_shown(entry, &view) {
            return;
        }
        self.write(entry.seq, Channel::Desktop, Delivery::Delivered);
        let (desktop, post) = (desktop.clone(), self.post.clone());
        self.showing += 1;
        spawn_thread("desktop", move || {
            // Who is not at the desktop sees it in the terminal.
            let _ = desktop.show(&banner);
            // Nobody is left to tell when the run is over.
            let _ = post.send(DeliveryInput::Shown);
        });
    }

    /// Returns whether the same was shown a while ago, about another incident of the same failure.
    fn was_shown(&self, entry: &Entry, view: &IncidentView) -> bool {
        let since = Timestamp::now().checked_sub(SHOWN_FOR).unwrap_or(Timestamp::MIN);
        let journal = self.store.journal();
        let records = journal.read_since(since, &Stream::Notices).unwrap_or_default();
        let shown = records.iter().filter_map(|record| match &record.event {
            Event::Note(NoteEvent::Notified(Notified { entry, via: Channel::Desktop, .. })) => {
                Some(*entry)
            }
            _ => None,
        });
        let is_like = |number: u64| {
            let one = journal.entry(number).ok()??;
            let other = IncidentView::of(self.incident_of(&one)).ok()?;
            let is_same = NoticeMoment::of(&one.event) == NoticeMoment::of(&entry.event)
                && other.subject() == view.subject()
                && other.incident().symptom().signature == view.incident().symptom().signature;
            Some(is_same)
        };
        shown.filter_map(is_like).any(|is_same| is_same)
    }

    fn incident_of(&self, entry: &Entry) -> Vec<Entry> {
        let Some(id) = entry.incident else { return Vec::new() };
        // What cannot be read is not told; the journal's owner says so.
        self.store.journal().read(0, &Stream::Incident(id), usize::MAX).unwrap_or_default()
    }

    /// Lets go of questions that were answered while their messages waited.
    fn drop_answered(&mut self) {
        let now = Instant::now();
        let is_due =
            |job: &PendingDelivery| matches!(job.state, DeliveryState::Due(at) if at <= now);
        let due = self.jobs.iter().filter(|(_, job)| is_due(job) && job.question.is_some());
        let answered: Vec<u64> = due
            .filter(|(entry, job)| {
                let entry = self.store.journal().entry(**entry).ok().flatten();
                let view = entry.and_then(|entry| IncidentView::of(self.incident_of(&entry)).ok());
                view.is_some_and(|view| number(Some(&view)) != job.question)
            })
            .map(|(&entry, _)| entry)
            .collect();
        for entry in answered {
            self.jobs.remove(&entry);
            self.note(entry, dropped("it was answered meanwhile", &self.scrubber));
        }
    }

    /// Sends what is due, some at once.
    fn send_due(&mut self) {
        self.drop_answered();
        let now = Instant::now();
        let out = self.jobs.values().filter(|job| job.state == DeliveryState::Out).count();
        let is_due =
            |job: &PendingDelivery| matches!(job.state, DeliveryState::Due(at) if at <= now);
        let due = self.jobs.iter_mut().filter(|(_, job)| is_due(job));
        for (&entry, job) in due.take(AT_ONCE.saturating_sub(out)) {
            // Whatever has no address any more was dropped when the plan changed.
            let Some(url) = self.plan.hook(job.moment).map(str::to_owned) else { continue };
            job.attempt += 1;
            job.state = DeliveryState::Out;
            let (id, message) = (job.id.clone(), Arc::clone(&job.message));
            let (plan, post) = (Arc::clone(&self.plan), self.post.clone());
            let scrubber = self.scrubber.clone();
            spawn_thread("webhook", move || {
                let letter = Letter { id: &id, at: Timestamp::now(), url: &url, message: &message };
                let sent = http::send(&letter, &plan, &scrubber);
                // Nobody is left to tell when the run is over.
                let _ = post.send(DeliveryInput::Sent { entry, url, sent });
            });
        }
    }

    /// Takes in what came of sending a message.
    fn sent(&mut self, entry: u64, url: String, sent: Sent) {
        let Some(mut job) = self.jobs.remove(&entry) else { return };
        let luck = uuid::Uuid::new_v4().into_bytes()[0];
        if let TargetAnswer::Status { code: 410, .. } = sent.answer {
            self.gone.push(url);
        }
        let reason = self.scrubber.scrub(&sent.why);
        match after(job.attempt, sent.answer, luck) {
            After::Delivered => self.note(entry, Delivery::Delivered),
            After::Hopeless => self.note(entry, Delivery::Dropped { reason }),
            After::Enough => self.note(entry, Delivery::Undelivered { reason }),
            After::Again(wait) => {
                job.state = DeliveryState::Due(Instant::now() + wait);
                job.why = sent.why;
                self.jobs.insert(entry, job);
            }
        }
    }

    /// Returns how long nothing is to be done.
    fn pause(&self) -> Duration {
        let now = Instant::now();
        let waits = self.jobs.values().filter_map(|job| match job.state {
            DeliveryState::Due(at) => Some(at.saturating_duration_since(now)),
            DeliveryState::Out => None,
        });
        let free =
            self.jobs.values().filter(|job| job.state == DeliveryState::Out).count() < AT_ONCE;
        waits.min().filter(|_| free).unwrap_or(LONG)
    }

    /// Gives what is under way a moment, and leaves the rest to the next run.
    fn finish(mut self) {
        self.catch_up();
        let end = Instant::now() + GRACE;
        loop {
            self.send_due();
            let is_near = |job: &PendingDelivery| match job.state {
                DeliveryState::Due(at) => at < end,
                DeliveryState::Out => true,
            };
            let left = end.saturating_duration_since(Instant::now());
            // A notice for which the run does not wait may never appear.
            let is_done = self.showing == 0 && !self.jobs.values().any(is_near);
            if left.is_zero() || is_done {
                break;
            }
            match self.inbox.recv_timeout(left.min(self.pause())) {
                Ok(DeliveryInput::Sent { entry, url, sent }) => self.sent(entry, url, sent),
                Ok(DeliveryInput::Shown) => self.showing = self.showing.saturating_sub(1),
                Ok(DeliveryInput::Entries(_) | DeliveryInput::Plan(_) | DeliveryInput::Finish)
                | Err(_) => {}
            }
        }
        for (entry, job) in std::mem::take(&mut self.jobs) {
            let why = match job.state {
                DeliveryState::Due(_) => job.why,
                DeliveryState::Out => "it had not answered when the run ended".to_owned(),
            };
            let reason = self.scrubber.scrub(&why);
            self.note(entry, Delivery::Undelivered { reason });
        }
    }

    /// Keeps book about a message.
    fn note(&self, entry: u64, state: Delivery) {
        self.write(entry, Channel::Webhook, state);
    }

    fn write(&self, entry: u64, via: Channel, state: Delivery) {
        let event = Event::Note(NoteEvent::Notified(Notified { entry, via, state }));
        let by = Actor::Salve(self.me.clone());
        let draft = Draft { at: Timestamp::now(), by, incident: None, event };
        // What cannot be kept is at worst told twice, under the same id.
        let _ = self.store.journal().append(draft);
    }
}

fn dropped(why: &str, scrubber: &Scrubber) -> Delivery {
    Delivery::Dropped { reason: scrubber.scrub(why) }
}

/// Returns the number of the question that is open.
fn number(view: Option<&IncidentView>) -> Option<u32> {
    view.and_then(IncidentView::open_question).map(|asked| asked.number)
}
