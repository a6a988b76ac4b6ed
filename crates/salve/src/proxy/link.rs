//! The two wires and what lies between them, shared by those who pump and the one who supervises.
//!
//! **Lock order:** server, then session, then client. Whoever writes to the server holds its lock
//! from before a request is noted until it is written, so that the supervisor never sees half.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use salve_core::tool::batch::GatheredAnswer;
use salve_core::tool::envelope::MessageId;
use salve_core::tool::session::{ProxySession, RefusedRequest};

use super::watching::CallWatch;
use super::wire::write_all;
use super::words;

/// Something that the supervisor has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Happened {
    /// The server's main process has ended.
    ServerEnded {
        /// Which of the servers that were started one after the other.
        generation: u64,
    },
    /// The server writes no more.
    OutputClosed {
        /// Which server.
        generation: u64,
    },
    /// The server has answered the greeting.
    Greeted {
        /// Which server.
        generation: u64,
    },
    /// A failed call needs a new server.
    Restart,
    /// The client asks for something while the server is down.
    Wanted,
    /// The client sends no more.
    ClientEnded,
    /// The client reads no more.
    ClientLost,
    /// Salve is to end, by this signal.
    Stop(i32),
}

/// Whether the server takes messages.
#[derive(Debug)]
pub(super) enum ServerWire {
    /// It does, here.
    Up(OwnedFd),
    /// It will soon; requests wait.
    Awaited,
    /// It failed too often and is started again when it is wanted.
    Down,
    /// Nothing more is sent.
    Closed,
}

/// What the pumps and the supervisor share.
#[derive(Debug)]
pub(super) struct Link {
    server: Mutex<ServerWire>,
    session: Mutex<ProxySession>,
    client: Mutex<OwnedFd>,
    post: Mutex<Sender<Happened>>,
    began: Instant,
    heard_ms: AtomicU64,
    watch: Arc<CallWatch>,
}

impl Link {
    /// Returns a link to a client that reads from `client`, with no server yet.
    pub(super) fn new(client: OwnedFd, post: Sender<Happened>) -> Self {
        Self {
            server: Mutex::new(ServerWire::Awaited),
            session: Mutex::default(),
            client: Mutex::new(client),
            post: Mutex::new(post),
            began: Instant::now(),
            heard_ms: AtomicU64::new(0),
            watch: Arc::new(CallWatch::new()),
        }
    }

    /// Returns what watches calls for mistakes.
    pub(super) fn watch(&self) -> &Arc<CallWatch> {
        &self.watch
    }

    pub(super) fn server(&self) -> MutexGuard<'_, ServerWire> {
        lock(&self.server)
    }

    /// Returns the server's wire, unless somebody is writing to it.
    pub(super) fn idle_server(&self) -> Option<MutexGuard<'_, ServerWire>> {
        self.server.try_lock().ok()
    }

    pub(super) fn session(&self) -> MutexGuard<'_, ProxySession> {
        lock(&self.session)
    }

    pub(super) fn client(&self) -> MutexGuard<'_, OwnedFd> {
        lock(&self.client)
    }

    /// Tells the supervisor something; one that has ended needs to know nothing.
    pub(super) fn tell(&self, happened: Happened) {
        let _ = lock(&self.post).send(happened);
    }

    /// Writes to the client.
    pub(super) fn to_client(&self, bytes: &[u8]) {
        if write_all(&self.client(), bytes).is_err() {
            self.tell(Happened::ClientLost);
        }
    }

    /// Gives the client an answer, or keeps it until the rest of its batch is answered.
    pub(super) fn answer(&self, id: &MessageId, line: &[u8]) {
        let gathered = self.session().gather(id, line);
        match gathered {
            GatheredAnswer::Single => self.to_client(line),
            GatheredAnswer::Kept => {}
            GatheredAnswer::Whole(answers) => self.to_client(&answers),
        }
    }

    /// Gives the client the answers of batches that wait for nothing any more.
    pub(super) fn finish_batches(&self) {
        let finished = self.session().finished_batches();
        finished.iter().for_each(|answers| self.to_client(answers));
    }

    /// Sends the server all that it has not had yet; where it is down, it is wanted.
    pub(super) fn deliver(&self) {
        let wire = self.server();
        match &*wire {
            ServerWire::Up(fd) => self.deliver_by(fd),
            ServerWire::Down => self.tell(Happened::Wanted),
            ServerWire::Awaited | ServerWire::Closed => {}
        }
    }

    /// Sends all that the server has not had yet by a wire that the caller holds.
    pub(super) fn deliver_by(&self, fd: &OwnedFd) {
        let mut session = self.session();
        for (id, line) in session.undelivered() {
            if write_all(fd, &line).is_err() {
                return;
            }
            session.delivered(&id);
        }
    }

    /// Answers requests in the server's place.
    pub(super) fn refuse(&self, refused: &[RefusedRequest], reason: &str) {
        for request in refused {
            self.answer(&request.id, &words::refusal(request, reason));
        }
    }

    /// Returns the milliseconds since the proxy began.
    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Notes that the server wrote something.
    pub(super) fn hear(&self) {
        self.heard_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    /// Returns for how long the server has owed an answer and written nothing at all.
    pub(super) fn silence(&self) -> Option<Duration> {
        let since = self.session().waits_since()?.max(self.heard_ms.load(Ordering::Relaxed));
        Some(Duration::from_millis(self.now_ms().saturating_sub(since)))
    }
}

/// Locks; a thread that died while it held the lock left nothing half done that matters more than
/// the messages of all the others.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
