//! Moves the servers' output: one thread for standard output, one for standard error.
//!
//! Only a pump writes to the outlet, so it alone waits for a slow reader. When a process ends,
//! whoever noticed reads what is left in its pipes at once, so that the evidence is complete
//! even while the pump waits; the pump passes that on when it can.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::Errno;

use super::Capture;
use super::tail::OutputSide;
use crate::process::{lock, thread};

/// How much is read at once.
const CHUNK: usize = 256 << 10;
/// How much an ended process may have left in a pipe.
const LEFT: usize = 4 << 20;
/// The key of the event that wakes a pump.
const WAKE: u64 = u64::MAX;

/// The read end of one output of one process.
pub(in crate::process) struct OutputPipe {
    fd: OwnedFd,
    side: OutputSide,
    capture: Arc<Capture>,
    /// What was read and kept but not passed on yet; held while reading, so that the order stays.
    waiting: Mutex<Vec<u8>>,
    /// A prefixed line that has not ended; only the pump uses it.
    open: Mutex<Vec<u8>>,
    passed: Arc<Passed>,
}

/// Whether all that a stream brought has been passed on.
///
/// It holds nothing of the stream: whoever waits for the end must not keep it open.
#[derive(Debug, Default)]
pub(in crate::process) struct Passed {
    is_over: Mutex<bool>,
    over: Condvar,
}

impl Passed {
    /// Waits until it has, at most for `limit`; returns whether it has.
    pub(in crate::process) fn wait(&self, limit: Duration) -> bool {
        let is_over = lock(&self.is_over);
        let waited = self.over.wait_timeout_while(is_over, limit, |is_over| !*is_over);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn set(&self) {
        *lock(&self.is_over) = true;
        self.over.notify_all();
    }
}

/// What a look at a stream brought.
enum Pulled {
    /// Bytes, now in the buffer.
    Some,
    /// Nothing for now.
    Nothing,
    /// Nothing any more.
    End,
}

impl OutputPipe {
    /// Returns a stream of `fd`, which must not block.
    pub(in crate::process) fn new(
        fd: OwnedFd,
        side: OutputSide,
        capture: Arc<Capture>,
    ) -> Arc<OutputPipe> {
        let (waiting, open, passed) = Default::default();
        Arc::new(OutputPipe { fd, side, capture, waiting, open, passed })
    }

    /// Returns what tells when all of it has been passed on.
    pub(in crate::process) fn passed(&self) -> Arc<Passed> {
        Arc::clone(&self.passed)
    }

    /// Reads and keeps what is there by now; a pump passes it on.
    pub(in crate::process) fn drain(&self) {
        let mut waiting = lock(&self.waiting);
        while waiting.len() < LEFT {
            let before = waiting.len();
            waiting.reserve(16 << 10);
            match self.read(&mut waiting) {
                Pulled::Some => self.capture.keep(self.side, &waiting[before..]),
                Pulled::Nothing | Pulled::End => break,
            }
        }
    }

    /// Moves into `buffer` what is to be passed on next.
    fn pull(&self, buffer: &mut Vec<u8>) -> Pulled {
        let mut waiting = lock(&self.waiting);
        if !waiting.is_empty() {
            // Swapping would leave a large buffer with every stream.
            buffer.append(&mut waiting);
            *waiting = Vec::new();
            return Pulled::Some;
        }
        let pulled = self.read(buffer);
        self.capture.keep(self.side, buffer);
        pulled
    }

    fn read(&self, buffer: &mut Vec<u8>) -> Pulled {
        loop {
            return match rustix::io::read(&self.fd, spare_capacity(buffer)) {
                Ok(0) => Pulled::End,
                Ok(_) => Pulled::Some,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => Pulled::Nothing,
                // A terminal whose last process has gone answers with an error.
                Err(_) => Pulled::End,
            };
        }
    }
}

impl fmt::Debug for OutputPipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("side", &self.side).finish_non_exhaustive()
    }
}

/// The threads that move output.
#[derive(Debug)]
pub(in crate::process) struct Pump {
    sides: [Arc<Half>; 2],
}

#[derive(Debug)]
struct Half {
    epoll: OwnedFd,
    wake: OwnedFd,
    streams: Mutex<Streams>,
}

#[derive(Debug, Default)]
struct Streams {
    next: u64,
    by_key: HashMap<u64, Arc<OutputPipe>>,
    is_over: bool,
}

impl Pump {
    /// Starts the threads.
    pub(in crate::process) fn start() -> io::Result<Pump> {
        let half = |name| -> io::Result<Arc<Half>> {
            let half = Arc::new(Half::new()?);
            let own = Arc::clone(&half);
            thread(name, move || own.run())?;
            Ok(half)
        };
        Ok(Pump { sides: [half("salve-out")?, half("salve-err")?] })
    }

    /// Begins to move what comes out of `stream`.
    pub(in crate::process) fn add(&self, stream: &Arc<OutputPipe>) -> io::Result<()> {
        let half = &self.sides[stream.side as usize];
        let mut streams = lock(&half.streams);
        let key = streams.next;
        streams.next += 1;
        streams.by_key.insert(key, Arc::clone(stream));
        Ok(epoll::add(
            &half.epoll,
            &stream.fd,
            epoll::EventData::new_u64(key),
            epoll::EventFlags::IN,
        )?)
    }

    /// Has what was drained passed on.
    pub(in crate::process) fn wake(&self) {
        for half in &self.sides {
            // The counter cannot overflow before it is read.
            let _ = rustix::io::write(&half.wake, &1u64.to_ne_bytes());
        }
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        for half in &self.sides {
            lock(&half.streams).is_over = true;
        }
        self.wake();
    }
}

impl Half {
    fn new() -> io::Result<Half> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &wake, epoll::EventData::new_u64(WAKE), epoll::EventFlags::IN)?;
        Ok(Half { epoll, wake, streams: Mutex::default() })
    }

    fn run(&self) {
        let mut events = Vec::with_capacity(64);
        let mut buffer = Vec::with_capacity(CHUNK);
        loop {
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            for event in &events {
                let key = event.data.u64();
                if key == WAKE {
                    let _ = rustix::io::read(&self.wake, &mut [0; 8]);
                    if !self.pass_all(&mut buffer) {
                        return;
                    }
                } else {
                    self.serve(key, &mut buffer);
                }
            }
        }
    }

    /// Passes on what was drained from any stream; returns whether to go on.
    fn pass_all(&self, buffer: &mut Vec<u8>) -> bool {
        let (keys, is_over) = {
            let streams = lock(&self.streams);
            (streams.by_key.keys().copied().collect::<Vec<_>>(), streams.is_over)
        };
        for key in keys {
            self.serve(key, buffer);
        }
        !is_over
    }

    /// Takes one chunk from a stream and passes it on.
    fn serve(&self, key: u64, buffer: &mut Vec<u8>) {
        let Some(stream) = lock(&self.streams).by_key.get(&key).cloned() else { return };
        if buffer.capacity() > 2 * CHUNK {
            *buffer = Vec::new();
        }
        buffer.clear();
        buffer.reserve(CHUNK);
        let pulled = stream.pull(buffer);
        let mut open = lock(&stream.open);
        match pulled {
            Pulled::Some => stream.capture.pass(stream.side, buffer, &mut open),
            Pulled::Nothing => {}
            Pulled::End => {
                stream.capture.pass_rest(stream.side, &mut open);
                lock(&self.streams).by_key.remove(&key);
                // It may be gone already if the descriptor was closed.
                let _ = epoll::delete(&self.epoll, &stream.fd);
                stream.passed.set();
            }
        }
    }
}
