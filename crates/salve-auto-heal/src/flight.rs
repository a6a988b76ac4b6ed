//! One fix at a time per cause, across calls and processes.
//!
//! Fifty calls that fail because of one expired token should log in once. Whoever comes first does
//! it under a lock; all whose call began before that was done find it done. A fix that did not help
//! is not tried again for a while.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// How long a fix that did not help is not tried again.
const REST: SignedDuration = SignedDuration::from_mins(15);

/// The fixes of this user, one file each.
#[derive(Clone, Debug)]
pub struct Flight {
    dir: PathBuf,
}

/// What came of wanting a fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlightOutcome {
    /// It is done, by us or by someone else just now.
    Done,
    /// It failed, with this to say.
    Failed(String),
    /// It was done and did not help.
    Useless,
}

/// What is known of a fix.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct FixRecord {
    version: u32,
    finished: Timestamp,
    /// What went wrong, if something did.
    failure: Option<String>,
    /// Whether calls worked afterwards, as far as that is known.
    helped: Option<bool>,
}

impl Flight {
    /// Keeps what is known of fixes in `dir`.
    pub fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Does a fix for a call that began at `began`, unless that is done since.
    ///
    /// # Errors
    ///
    /// When it cannot be known who else is at it; nothing was done then.
    pub fn fix(
        &self,
        cause: &str,
        began: Timestamp,
        act: impl FnOnce() -> Result<(), String>,
    ) -> io::Result<FlightOutcome> {
        fs::create_dir_all(&self.dir)?;
        let path = self.path(cause);
        let _lock = locked(&path)?;
        if let Some(record) = read(&path) {
            if record.finished >= began {
                return Ok(record.failure.map_or(FlightOutcome::Done, FlightOutcome::Failed));
            }
            let rested = Timestamp::now().duration_since(record.finished) > REST;
            if record.helped == Some(false) && !rested {
                return Ok(FlightOutcome::Useless);
            }
        }
        let failure = act().err();
        let (finished, helped) = (Timestamp::now(), failure.as_ref().map(|_| false));
        write(&path, &FixRecord { version: 1, finished, failure: failure.clone(), helped })?;
        Ok(failure.map_or(FlightOutcome::Done, FlightOutcome::Failed))
    }

    /// Notes whether a call worked after the fix; one that did is enough.
    ///
    /// # Errors
    ///
    /// When that cannot be written down.
    pub fn judge(&self, cause: &str, helped: bool) -> io::Result<()> {
        let path = self.path(cause);
        let _lock = locked(&path)?;
        match read(&path) {
            Some(record) if record.helped != Some(true) => {
                write(&path, &FixRecord { helped: Some(helped), ..record })
            }
            Some(_) | None => Ok(()),
        }
    }

    fn path(&self, cause: &str) -> PathBuf {
        let digest = Sha256::digest(cause.as_bytes());
        let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        self.dir.join(format!("{name}.json"))
    }
}

fn locked(path: &Path) -> io::Result<File> {
    let lock = path.with_extension("lock");
    let file = OpenOptions::new().create(true).append(true).open(lock)?;
    rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
    Ok(file)
}

/// Reads what is known; nothing if that is not legible, which costs one fix.
fn read(path: &Path) -> Option<FixRecord> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn write(path: &Path, record: &FixRecord) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    file.write_all(serde_json::to_string(record)?.as_bytes())?;
    // A record that a power cut loses costs one fix; it need not reach the disk.
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn flight() -> (tempfile::TempDir, Flight) {
        let dir = tempfile::tempdir().unwrap();
        let flight = Flight::new(dir.path().join("fixes"));
        (dir, flight)
    }

    /// **Invariant:** One cause is fixed once, however many calls wait for it.
    #[test]
    fn fifty_calls_that_fail_at_once_are_fixed_once() {
        let (_dir, flight) = flight();
        let (began, times) = (Timestamp::now(), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..50 {
                scope.spawn(|| {
                    let act = || {
                        times.fetch_add(1, Ordering::SeqCst);
                        Ok(())
                    };
                    assert_eq!(flight.fix("login", began, act).unwrap(), FlightOutcome::Done);
                });
            }
        });
        assert_eq!(times.into_inner(), 1);
    }

    #[test]
    fn a_fix_that_did_not_help_is_not_tried_again_and_one_that_did_is() {
        let (_dir, flight) = flight();
        let fix = |cause: &str| flight.fix(cause, Timestamp::now(), || Ok(())).unwrap();
        assert_eq!(fix("login"), FlightOutcome::Done);
        flight.judge("login", false).unwrap();
        assert_eq!(fix("login"), FlightOutcome::Useless);
        assert_eq!(fix("other"), FlightOutcome::Done, "another cause is another matter");
        flight.judge("other", true).unwrap();
        flight.judge("other", false).unwrap();
        assert_eq!(fix("other"), FlightOutcome::Done, "it has helped somebody");
    }

    #[test]
    fn a_fix_that_fails_fails_for_all_who_waited_and_is_not_tried_at_once_again() {
        let (_dir, flight) = flight();
        let before = Timestamp::now();
        let failed = FlightOutcome::Failed("no".into());
        assert_eq!(flight.fix("vpn", before, || Err("no".into())).unwrap(), failed);
        assert_eq!(flight.fix("vpn", before, || panic!("again")).unwrap(), failed);
        let later = flight.fix("vpn", Timestamp::now(), || panic!("again")).unwrap();
        assert_eq!(later, FlightOutcome::Useless);
    }
}
