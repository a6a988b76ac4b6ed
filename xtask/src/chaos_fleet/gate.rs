//! The gates between the processes of a soak and the servers: every write of a job's record is put
//! down with what was heard of it, and a worker is killed at the very point of its work that is asked
//! for.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::history::{History, Outcome, RecordedWrite};
use super::wire::{Frame, Message, Passing, pass};

/// What the fleet of a soak is called.
pub(super) const FLEET: &str = "chaos";

/// Where in its work a worker is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Point {
    /// It claims a job, and nobody hears of it.
    ClaimUnsent,
    /// Its claim counts, and it does not hear of it.
    ClaimUnheard,
    /// A step is done, and its patch is not with the fleet.
    PatchUnsent,
    /// The patch is with the fleet, and the record does not name it.
    CheckpointUnsent,
    /// The record names the patch, and the worker does not hear of it.
    CheckpointUnheard,
    /// The job is over, and the record does not say so.
    EndUnsent,
    /// The record says so, and the worker does not hear of it.
    EndUnheard,
    /// The worker knows it, and the wake-up is still there.
    EndUnsettled,
}

impl Point {
    pub(super) const ALL: [Self; 8] = [
        Self::ClaimUnsent,
        Self::ClaimUnheard,
        Self::PatchUnsent,
        Self::CheckpointUnsent,
        Self::CheckpointUnheard,
        Self::EndUnsent,
        Self::EndUnheard,
        Self::EndUnsettled,
    ];
}

/// What a message of a worker's is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Claim,
    Patch,
    Checkpoint,
    End,
    Settle,
    Other,
}

/// What a trap does with a message.
enum Sprung {
    No,
    Now,
    /// Once it is answered.
    WithItsAnswer,
}

/// The way of one process to the servers.
pub(super) struct Gate {
    /// Which process it is, and which of its lives.
    client: usize,
    life: AtomicU64,
    /// The worker's process; 0 where there is none.
    pid: AtomicU32,
    trap: Mutex<Option<Point>>,
    servers: Vec<SocketAddr>,
    next: AtomicUsize,
    history: Arc<Mutex<History>>,
    sprung: Arc<Mutex<[u32; Point::ALL.len()]>>,
    pub(super) address: SocketAddr,
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gate {
    /// Opens a gate that listens at an address.
    pub(super) fn open(
        client: usize,
        host: &str,
        servers: &[SocketAddr],
        history: &Arc<Mutex<History>>,
        sprung: &Arc<Mutex<[u32; Point::ALL.len()]>>,
    ) -> io::Result<Arc<Self>> {
        let listener = TcpListener::bind((host, 0))?;
        let gate = Arc::new(Self {
            client,
            life: AtomicU64::new(0),
            pid: AtomicU32::new(0),
            trap: Mutex::new(None),
            servers: servers.to_vec(),
            next: AtomicUsize::new(client),
            history: Arc::clone(history),
            sprung: Arc::clone(sprung),
            address: listener.local_addr()?,
        });
        let opened = Arc::clone(&gate);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let gate = Arc::clone(&opened);
                thread::spawn(move || gate.join(&stream));
            }
        });
        Ok(gate)
    }

    /// Takes in that the process was started.
    pub(super) fn is_of(&self, pid: u32) {
        self.life.fetch_add(1, Ordering::SeqCst);
        self.pid.store(pid, Ordering::SeqCst);
        *locked(&self.trap) = None;
    }

    /// Has the worker die at a point of its work.
    pub(super) fn set_trap(&self, point: Point) {
        *locked(&self.trap) = Some(point);
    }

    fn join(self: &Arc<Self>, client: &TcpStream) {
        let life = self.life.load(Ordering::SeqCst);
        let Some(server) = self.reach() else { return };
        let pending: Arc<Mutex<HashMap<String, Pending>>> = Arc::default();
        let (Ok(from), Ok(to)) = (client.try_clone(), server.try_clone()) else { return };
        let (Ok(back), Ok(answers)) = (client.try_clone(), server.try_clone()) else { return };
        for stream in [client, &server] {
            // It is only slower without.
            let _ = stream.set_nodelay(true);
        }
        let (gate, asked) = (Arc::clone(self), Arc::clone(&pending));
        thread::spawn(move || {
            pass(answers, back, |frame| gate.on_answer(frame, &asked));
        });
        pass(from, to, |frame| self.on_sent(frame, life, &pending));
    }

    /// Connects to a server, to another one each time.
    fn reach(&self) -> Option<TcpStream> {
        for _ in 0..self.servers.len() {
            let number = self.next.fetch_add(1, Ordering::SeqCst) % self.servers.len();
            let wait = Duration::from_millis(700);
            if let Ok(stream) = TcpStream::connect_timeout(&self.servers[number], wait) {
                return Some(stream);
            }
        }
        None
    }

    fn on_sent(
        &self,
        frame: &Frame,
        life: u64,
        pending: &Mutex<HashMap<String, Pending>>,
    ) -> Passing {
        let Some(message) = frame.sent() else { return Passing::On };
        let record = record_of(&message);
        let act = self.act(&message, record.as_ref());
        let sprung = self.springs(act);
        if matches!(sprung, Sprung::Now) {
            self.kill();
            return Passing::Kept;
        }
        let write = record.and_then(|(job, record)| {
            let expected = message.expected()?;
            let write = RecordedWrite::sent(self.client, life, job, expected, record);
            Some(locked(&self.history).put_down(write))
        });
        let kills = matches!(sprung, Sprung::WithItsAnswer);
        if write.is_some() || kills {
            locked(pending).insert(message.reply.to_owned(), Pending { write, kills });
        }
        Passing::On
    }

    fn on_answer(&self, frame: &Frame, pending: &Mutex<HashMap<String, Pending>>) -> Passing {
        let Some(message) = frame.received() else { return Passing::On };
        let Some(of) = locked(pending).remove(message.subject) else { return Passing::On };
        if of.kills {
            // The servers keep it; the worker does not hear of it.
            self.kill();
            return Passing::Kept;
        }
        let said = message.json().unwrap_or_default();
        let outcome = match (said["seq"].as_u64(), said["error"].is_object()) {
            (Some(seq), false) if seq > 0 => Outcome::Kept(seq),
            (_, true) => Outcome::Refused,
            (_, false) => Outcome::Unheard,
        };
        if let Some(write) = of.write {
            locked(&self.history).heard(write, outcome);
        }
        Passing::On
    }

    fn act(&self, message: &Message<'_>, record: Option<&(String, Value)>) -> Act {
        let subject = message.subject;
        if subject.starts_with(&format!("salve.{FLEET}.blob.")) {
            let is_patch = message.payload.starts_with(b"diff --git");
            return if is_patch { Act::Patch } else { Act::Other };
        }
        let is_settled = message.payload.is_empty() || message.payload.starts_with(b"+ACK");
        if subject.starts_with("$JS.ACK.") && is_settled {
            return Act::Settle;
        }
        let Some((job, record)) = record else { return Act::Other };
        let history = locked(&self.history);
        let last = history.last(job);
        let (epoch, state) = (&record["job"]["epoch"], record["job"]["state"].as_str());
        match state {
            Some("claimed") if last.is_none_or(|last| last["job"]["epoch"] != *epoch) => Act::Claim,
            Some("claimed") if patches(record) > last.map_or(0, patches) => Act::Checkpoint,
            Some("claimed") => Act::Other,
            _ => Act::End,
        }
    }

    fn springs(&self, act: Act) -> Sprung {
        let mut trap = locked(&self.trap);
        let Some(point) = *trap else { return Sprung::No };
        let (wanted, sprung) = match point {
            Point::ClaimUnsent => (Act::Claim, Sprung::Now),
            Point::ClaimUnheard => (Act::Claim, Sprung::WithItsAnswer),
            Point::PatchUnsent => (Act::Patch, Sprung::Now),
            Point::CheckpointUnsent => (Act::Checkpoint, Sprung::Now),
            Point::CheckpointUnheard => (Act::Checkpoint, Sprung::WithItsAnswer),
            Point::EndUnsent => (Act::End, Sprung::Now),
            Point::EndUnheard => (Act::End, Sprung::WithItsAnswer),
            Point::EndUnsettled => (Act::Settle, Sprung::Now),
        };
        if act != wanted {
            return Sprung::No;
        }
        *trap = None;
        locked(&self.sprung)[point as usize] += 1;
        sprung
    }

    fn kill(&self) {
        let pid = self.pid.load(Ordering::SeqCst);
        if pid != 0 {
            let mut kill = Command::new("kill");
            // It may have ended by itself.
            let _ = kill.args(["-9", &pid.to_string()]).stderr(Stdio::null()).status();
        }
    }
}

/// A message that is not answered yet.
struct Pending {
    /// Where in the history it stands.
    write: Option<usize>,
    /// Whether its answer is the end of the worker.
    kills: bool,
}

/// Returns the record of a job that a message writes.
fn record_of(message: &Message<'_>) -> Option<(String, Value)> {
    let job = message.subject.strip_prefix(&format!("$KV.salve-{FLEET}-jobs."))?;
    Some((job.to_owned(), message.json()?))
}

/// Returns how many patches of steps a record names.
fn patches(record: &Value) -> usize {
    let files = record["artifacts"].as_object();
    files.map_or(0, |files| files.keys().filter(|name| name.ends_with(".patch")).count())
}
