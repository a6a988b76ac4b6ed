//! Where everything that happens during a run arrives, one thing after the other.
//!
//! What takes time runs on a thread of its own and answers here. What only one kind of subject
//! understands lies in a [`NewsQueue`] of that subject; the inbox then carries no more than the
//! word that something lies there, so the order in which things happened is kept.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SendError, Sender};
use std::time::Instant;

use salve_core::event::{Actor, Digest, EffectReport, Entry};
use salve_core::id::IncidentId;
use salve_core::incident::DueEffect;
use salve_core::playbook::Diagnosis;

use crate::agent::AgentEvent;
use crate::process::page_trimmer::PageTrimmer;
use crate::workspace::FileChange;

/// Something that reached a run.
#[derive(Debug)]
pub enum InboxMessage {
    /// An effect on a thread of its own came back.
    Done {
        /// The incident that asked for it.
        incident: IncidentId,
        effect: DueEffect,
        report: EffectReport,
        /// The state that it left, where that was measured.
        left: Option<StateLeft>,
    },
    /// An agent of ours did something.
    Agent {
        /// The incident that it works for.
        incident: IncidentId,
        /// The effect that it was started for.
        effect: DueEffect,
        /// What it did.
        event: AgentEvent,
    },
    /// A look into the cause of a failure came back.
    Diagnosed {
        /// The incident of that failure.
        incident: IncidentId,
        look: u64,
        /// What it found.
        diagnosis: Box<Diagnosis>,
    },
    /// The subjects have news in a queue of their own.
    Woken,
    /// Entries that appeared in the journal.
    Journal(Vec<Entry>),
    /// Something that a person should know about one of the subjects.
    Note {
        subject: usize,
        /// What.
        text: String,
    },
    /// Somebody wants healing to pause, or to go on after a pause.
    Pause(Actor),
    /// The user wants it to end, by this signal.
    Stop(i32),
}

/// The state of the project's files that a repair left.
#[derive(Clone, Debug)]
pub struct StateLeft {
    /// Its hash.
    pub tree: Digest,
    /// The files that changed.
    pub files: Vec<FileChange>,
    /// What a person should know about it.
    pub notes: Vec<String>,
}

/// The one place where everything arrives, and the way to it.
#[derive(Debug)]
pub struct Inbox {
    sender: Sender<InboxMessage>,
    receiver: Receiver<InboxMessage>,
    trimmer: PageTrimmer,
}

impl Default for Inbox {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel();
        Self { sender, receiver, trimmer: PageTrimmer::default() }
    }
}

impl Inbox {
    /// Returns a way to the inbox.
    pub fn sender(&self) -> Sender<InboxMessage> {
        self.sender.clone()
    }

    /// Waits for what comes next; returns nothing when it is time to look again.
    pub fn wait(&mut self, until: Option<Instant>) -> Option<InboxMessage> {
        let now = Instant::now();
        let until = until.into_iter().chain(self.trimmer.due()).min();
        let received = match until {
            Some(time) => self.receiver.recv_timeout(time.saturating_duration_since(now)),
            None => self.receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match received {
            Ok(message) => {
                self.trimmer.stir(Instant::now());
                Some(message)
            }
            // We hold a way in ourselves, so nobody else can close it.
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                self.trimmer.wake(Instant::now());
                None
            }
        }
    }

    /// Returns what has arrived already, if anything has.
    pub fn try_next(&self) -> Option<InboxMessage> {
        self.receiver.try_recv().ok()
    }
}

/// What only one kind of subject understands, in the order in which it came.
#[derive(Debug)]
pub struct NewsQueue<T> {
    sender: NewsSender<T>,
    receiver: Receiver<T>,
}

/// A way to a [`NewsQueue`], which wakes the run that serves it.
#[derive(Debug)]
pub struct NewsSender<T> {
    queue: Sender<T>,
    wake: Sender<InboxMessage>,
}

impl<T> Clone for NewsSender<T> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), wake: self.wake.clone() }
    }
}

impl<T> NewsQueue<T> {
    /// Makes a queue whose news wake the run of this inbox.
    pub fn new(wake: Sender<InboxMessage>) -> Self {
        let (queue, receiver) = mpsc::channel();
        Self { sender: NewsSender { queue, wake }, receiver }
    }

    /// Returns a way to the queue.
    pub fn sender(&self) -> NewsSender<T> {
        self.sender.clone()
    }

    /// Returns the next piece of news, if there is one.
    pub fn next(&self) -> Option<T> {
        self.receiver.try_recv().ok()
    }
}

impl<T> NewsSender<T> {
    /// Hands news over and wakes whoever takes them.
    ///
    /// # Errors
    ///
    /// When the run is over and nobody takes them any more.
    pub fn send(&self, news: T) -> Result<(), SendError<T>> {
        self.queue.send(news)?;
        // A run that is over need not be woken.
        let _ = self.wake.send(InboxMessage::Woken);
        Ok(())
    }
}
