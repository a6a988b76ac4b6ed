//! What is written in passing: crash logs that nobody waits for, by a thread of their own.

use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::crash_log::CrashLog;
use crate::heal::inbox::InboxMessage;
use crate::heal::spawn_thread;

/// How long a log lies before it is written: what crashed is started again first, and of one that
/// crashes again meanwhile only the last is worth a disk's while.
const PAUSE: Duration = Duration::from_millis(30);

/// Writes logs one after the other, in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(super) struct CrashLogWriter(Arc<(Mutex<Pile>, Condvar)>);

/// What is to be written.
#[derive(Debug, Default)]
struct Pile {
    waiting: Vec<PendingCrashLog>,
    state: CrashLogWork,
    /// Whether everything ends, so that nothing waits.
    last: bool,
}

/// What the thread that writes does.
#[derive(Debug, Default, PartialEq, Eq)]
enum CrashLogWork {
    /// There is none yet.
    #[default]
    None,
    /// It waits for something to write.
    Idle,
    /// It writes.
    Busy,
}

/// One log that is to be written.
#[derive(Debug)]
pub(super) struct PendingCrashLog {
    pub(super) server: usize,
    pub(super) root: PathBuf,
    pub(super) log: CrashLog,
    /// Where it is told that it could not be.
    pub(super) inbox: Sender<InboxMessage>,
}

impl CrashLogWriter {
    fn pile(&self) -> MutexGuard<'_, Pile> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a log written, in place of an earlier one of the same failure.
    pub(super) fn add(&self, job: PendingCrashLog) {
        let mut pile = self.pile();
        pile.waiting.retain(|old| !old.log.is_of_same_failure(&job.log));
        pile.waiting.push(job);
        if pile.state == CrashLogWork::None {
            pile.state = CrashLogWork::Idle;
            let writer = self.clone();
            spawn_thread("crash logs", move || writer.write_all());
        }
        self.0.1.notify_all();
    }

    /// Writes whatever comes, for as long as this process lives.
    fn write_all(&self) {
        let (_, news) = &*self.0;
        loop {
            let pile = self.pile();
            let pile = news.wait_while(pile, |pile| pile.waiting.is_empty());
            let pile = pile.unwrap_or_else(PoisonError::into_inner);
            let pile = news.wait_timeout_while(pile, PAUSE, |pile| !pile.last);
            let mut pile = pile.unwrap_or_else(PoisonError::into_inner).0;
            let jobs = std::mem::take(&mut pile.waiting);
            pile.state = CrashLogWork::Busy;
            drop(pile);
            for PendingCrashLog { server, root, log, inbox } in jobs {
                if let Err(error) = log.write(&root) {
                    let text = format!("cannot write the crash log: {error}");
                    // Nobody is left to tell when the run is over.
                    let _ = inbox.send(InboxMessage::Note { subject: server, text });
                }
            }
            self.pile().state = CrashLogWork::Idle;
            news.notify_all();
        }
    }

    /// Waits until all is written, at most for `limit`.
    pub(super) fn wait(&self, limit: Duration) {
        self.pile().last = true;
        self.0.1.notify_all();
        let goes_on =
            |pile: &mut Pile| !pile.waiting.is_empty() || pile.state == CrashLogWork::Busy;
        // What is not written by then is not waited for.
        drop(self.0.1.wait_timeout_while(self.pile(), limit, goes_on));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::super::crash_log::testing;
    use super::*;

    #[test]
    fn the_last_of_each_incident_is_written_in_the_order_in_which_they_came() {
        let dir = tempfile::tempdir().unwrap();
        let (inbox, told) = mpsc::channel();
        let writer = CrashLogWriter::default();
        for (incident, code) in [(1, 1), (2, 2), (1, 3)] {
            let (root, log) = (dir.path().to_path_buf(), testing::log(incident, code));
            writer.add(PendingCrashLog { server: 0, root, log, inbox: inbox.clone() });
        }
        writer.wait(Duration::from_secs(60));
        let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        assert!(read(".dev-crash.00000001.log").contains("exit 3"));
        assert!(read(".dev-crash.00000002.log").contains("exit 2"));
        assert!(read(".dev-crash.log").contains("exit 3"), "the last one is the latest");
        assert!(told.try_recv().is_err());

        let (root, log) = (dir.path().join("none"), testing::log(1, 1));
        writer.add(PendingCrashLog { server: 7, root, log, inbox });
        writer.wait(Duration::from_secs(60));
        assert!(matches!(told.try_recv(), Ok(InboxMessage::Note { subject: 7, .. })));
    }
}
