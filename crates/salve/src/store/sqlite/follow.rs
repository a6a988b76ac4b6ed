//! Waiting for news of the journal.
//!
//! Writers ring (see [`super::lock`]); a follower sleeps until then and looks by itself
//! only now and then, in case a ring was lost.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use salve_core::event::Entry;

use super::journal::SqliteJournal;
use crate::store::{Follower, StoreError, Stream};

/// How many entries a follower takes at once.
const BATCH: usize = 512;

/// How often a follower looks without being rung for.
const SAFETY: Duration = Duration::from_secs(1);

/// How often a follower looks where nothing rings.
const POLL: Duration = Duration::from_millis(25);

/// Reads the journal as it grows.
#[derive(Debug)]
pub(super) struct SqliteFollower<'e> {
    journal: &'e SqliteJournal,
    stream: Stream,
    after: u64,
    openings: u32,
    bell: Option<LockFileWaker>,
}

impl Follower for SqliteFollower<'_> {
    fn next(&mut self, timeout: Duration) -> Result<Vec<Entry>, StoreError> {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            // First listen, then look: what is written in between rings.
            let armed = self.bell.as_ref().is_some_and(|bell| bell.arm(&self.journal.lock_file()));
            let entries = self.look()?;
            let left = deadline.map_or(SAFETY, |end| end.saturating_duration_since(Instant::now()));
            if !entries.is_empty() || left.is_zero() {
                return Ok(entries);
            }
            match &self.bell {
                Some(bell) if armed => bell.wait(left.min(SAFETY)),
                Some(_) | None => thread::sleep(left.min(POLL)),
            }
        }
    }

    fn after(&self) -> u64 {
        self.after
    }
}

impl<'e> SqliteFollower<'e> {
    pub(super) fn new(journal: &'e SqliteJournal, after: u64, stream: Stream) -> Self {
        let openings = journal.openings();
        Self { journal, stream, after, openings, bell: LockFileWaker::new() }
    }

    fn look(&mut self) -> Result<Vec<Entry>, StoreError> {
        let (mut entries, mut read_to) = self.journal.read_on(self.after, &self.stream, BATCH)?;
        if self.openings != self.journal.openings() {
            // The file was replaced: whatever its first own entry is, we have not seen it.
            self.openings = self.journal.openings();
            self.after = self.after.min(self.journal.bounds()?.0.saturating_sub(1));
            (entries, read_to) = self.journal.read_on(self.after, &self.stream, BATCH)?;
        }
        self.after = read_to;
        Ok(entries)
    }
}

/// Wakes a sleeper when the lock file is rung.
#[derive(Debug)]
struct LockFileWaker {
    #[cfg(target_os = "linux")]
    inotify: std::os::fd::OwnedFd,
}

#[cfg(target_os = "linux")]
impl LockFileWaker {
    fn new() -> Option<Self> {
        use rustix::fs::inotify::{CreateFlags, init};
        let inotify = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
        Some(Self { inotify })
    }

    /// Listens to the lock file that is there now and forgets earlier rings.
    fn arm(&self, path: &Path) -> bool {
        use rustix::fs::inotify::{WatchFlags, add_watch};
        let flags = WatchFlags::ATTRIB | WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
        let armed = add_watch(&self.inotify, path, flags).is_ok();
        let mut rings = [0; 4096];
        while rustix::io::read(&self.inotify, &mut rings).is_ok_and(|read| read > 0) {}
        armed
    }

    fn wait(&self, timeout: Duration) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let timeout = Timespec::try_from(timeout).ok();
        // A signal ends the wait early, which does no harm.
        let _ = poll(&mut [PollFd::new(&self.inotify, PollFlags::IN)], timeout.as_ref());
    }
}

#[cfg(not(target_os = "linux"))]
impl LockFileWaker {
    fn new() -> Option<Self> {
        None
    }

    fn arm(&self, _path: &Path) -> bool {
        false
    }

    fn wait(&self, timeout: Duration) {
        thread::sleep(timeout);
    }
}
