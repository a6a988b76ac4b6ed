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

/// How many files of a directory are looked at.
const MOST_FILES: usize = 1_000;

/// The fixes of this user, one file each.
#[derive(Clone, Debug)]
pub struct Flight {
    dir: PathBuf,
}

/// A fix that a call needs.
#[derive(Clone, Copy, Debug)]
pub struct WantedFix<'a> {
    /// What all calls that need it have in common.
    pub cause: &'a str,
    /// When the call began that needs it.
    pub began: Timestamp,
    /// Files and directories that it writes: once somebody else has changed them, one that did not
    /// help may help.
    pub writes: &'a [PathBuf],
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

    /// Does a fix, unless that is done since the call began.
    ///
    /// # Errors
    ///
    /// When it cannot be known who else is at it; nothing was done then.
    pub fn fix(
        &self,
        wanted: &WantedFix<'_>,
        act: impl FnOnce() -> Result<(), String>,
    ) -> io::Result<FlightOutcome> {
        fs::create_dir_all(&self.dir)?;
        let path = self.path(wanted.cause);
        let _lock = locked(&path)?;
        if let Some(record) = read(&path) {
            if record.finished >= wanted.began {
                return Ok(record.failure.map_or(FlightOutcome::Done, FlightOutcome::Failed));
            }
            let rested = Timestamp::now().duration_since(record.finished) > REST;
            let is_useless = record.helped == Some(false) && !rested;
            if is_useless && !has_changed(wanted.writes, record.finished) {
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

/// Tells whether one of these was changed after that, by somebody who is not the fix.
fn has_changed(paths: &[PathBuf], since: Timestamp) -> bool {
    let is_newer = |path: &Path| {
        let changed = fs::metadata(path).and_then(|data| data.modified()).ok();
        changed.and_then(|at| Timestamp::try_from(at).ok()).is_some_and(|at| at > since)
    };
    paths.iter().any(|path| {
        let inside = fs::read_dir(path).into_iter().flatten().flatten();
        is_newer(path) || inside.take(MOST_FILES).any(|entry| is_newer(&entry.path()))
    })
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

    fn wanted(cause: &str, began: Timestamp) -> WantedFix<'_> {
        WantedFix { cause, began, writes: &[] }
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
                    let fixed = flight.fix(&wanted("login", began), act).unwrap();
                    assert_eq!(fixed, FlightOutcome::Done);
                });
            }
        });
        assert_eq!(times.into_inner(), 1);
    }

    #[test]
    fn a_fix_that_did_not_help_is_not_tried_again_and_one_that_did_is() {
        let (_dir, flight) = flight();
        let fix = |cause: &str| flight.fix(&wanted(cause, Timestamp::now()), || Ok(())).unwrap();
        assert_eq!(fix("login"), FlightOutcome::Done);
        flight.judge("login", false).unwrap();
        assert_eq!(fix("login"), FlightOutcome::Useless);
        assert_eq!(fix("other"), FlightOutcome::Done, "another cause is another matter");
        flight.judge("other", true).unwrap();
        flight.judge("other", false).unwrap();
        assert_eq!(fix("other"), FlightOutcome::Done, "it has helped somebody");
    }

    #[test]
    fn a_fix_that_did_not_help_is_tried_again_once_what_it_writes_was_changed() {
        let (dir, flight) = flight();
        let token = dir.path().join("token");
        fs::write(&token, "stale").unwrap();
        let writes = [dir.path().join("absent"), token.clone()];
        let fix = || {
            let wanted =
                WantedFix { cause: "login", began: Timestamp::now(), writes: writes.as_slice() };
            flight.fix(&wanted, || Ok(())).unwrap()
        };
        assert_eq!(fix(), FlightOutcome::Done);
        flight.judge("login", false).unwrap();
        assert_eq!(fix(), FlightOutcome::Useless);
        let later = std::time::SystemTime::now() + std::time::Duration::from_secs(5);
        File::options().append(true).open(&token).unwrap().set_modified(later).unwrap();
        assert_eq!(fix(), FlightOutcome::Done, "somebody logged in");
    }

    #[test]
    fn a_fix_that_fails_fails_for_all_who_waited_and_is_not_tried_at_once_again() {
        let (_dir, flight) = flight();
        let before = Timestamp::now();
        let failed = FlightOutcome::Failed("no".into());
        assert_eq!(flight.fix(&wanted("vpn", before), || Err("no".into())).unwrap(), failed);
        assert_eq!(flight.fix(&wanted("vpn", before), || panic!("again")).unwrap(), failed);
        let later = flight.fix(&wanted("vpn", Timestamp::now()), || panic!("again")).unwrap();
        assert_eq!(later, FlightOutcome::Useless);
    }
}
