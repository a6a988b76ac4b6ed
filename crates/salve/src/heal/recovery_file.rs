//! Reads `recovery.json`, which an agent wrote: safely, and only this iteration's.
//!
//! Only a small regular file is read, never through a link, and only a text that stayed the same
//! while it was read. Everything else is refused with a reason that a person can act on, and no
//! part of it is repeated.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use jiff::{SignedDuration, Timestamp};
use salve_core::gate::{BadProposal, RecoveryProposal, strict};
use serde_json::Value;

use crate::files::{FileError, FileKind, read_text};

/// How long a file that is being written is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long to wait before looking at it again.
const PAUSE: Duration = Duration::from_millis(20);
/// How far an agent's notion of time may lag behind.
const SKEW: SignedDuration = SignedDuration::from_hours(1);

/// What a file was when it was looked at: another one has another stamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProposalStamp {
    inode: u64,
    size: u64,
    modified: Option<SystemTime>,
}

impl ProposalStamp {
    /// Tells whether the file was written after `began`.
    pub fn is_after(self, began: Timestamp) -> bool {
        // File systems keep times less exactly than clocks tell them.
        let slack = SignedDuration::from_millis(20);
        let written = self.modified.and_then(|at| Timestamp::try_from(at).ok());
        written.is_none_or(|at| at.saturating_add(slack).unwrap_or(at) >= began)
    }
}

/// What was found in the place of a proposal.
#[derive(Debug)]
pub enum FoundProposal {
    /// Nothing, or Salve's own draft.
    Nothing,
    /// A proposal of the loop's tester.
    Proposal(Box<RecoveryProposal>),
    /// Something that is not taken for one.
    Refused(RecoveryFileRefused),
}

/// Why a file is not taken for a proposal.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryFileRefused {
    #[error("recovery.json is a symbolic link, which is not followed")]
    Link,
    /// It cannot be read.
    #[error("recovery.json {0}")]
    File(#[from] FileError),
    /// It is no proposal.
    #[error("recovery.json is not a proposal: {0}")]
    Bad(#[from] BadProposal),
    /// It kept changing.
    #[error("recovery.json kept changing while it was read")]
    Restless,
    /// It was written before this iteration.
    #[error("recovery.json was written at {0}, before this iteration began")]
    Old(Timestamp),
    /// It speaks of a diagnosis from before this iteration.
    #[error("recovery.json has a diagnosis of {0}, from before this iteration")]
    OldDiagnosis(Timestamp),
    /// It says that it is another iteration's.
    #[error("recovery.json is of iteration {0}, not of this one")]
    OtherIteration(u64),
}

/// Which proposals count.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    pub iteration: u32,
    /// When it began: what is older is another's.
    pub began: Timestamp,
}

/// Returns what the file at `path` is now.
pub fn stamp(path: &Path) -> ProposalStamp {
    match fs::symlink_metadata(path) {
        Ok(meta) => {
            ProposalStamp { inode: meta.ino(), size: meta.len(), modified: meta.modified().ok() }
        }
        Err(_) => ProposalStamp::default(),
    }
}

/// Reads the proposal at `path`, and returns what the file was.
///
/// What is half-written, or is being replaced, is waited for, but not for long.
pub fn read(path: &Path, turn: Turn) -> (ProposalStamp, FoundProposal) {
    let since = Instant::now();
    loop {
        let before = stamp(path);
        let found = look(path, before, turn);
        let is_same = stamp(path) == before;
        let is_patient = since.elapsed() < PATIENCE;
        let may_be_whole_later = match &found {
            FoundProposal::Refused(RecoveryFileRefused::Bad(BadProposal::Json(_))) => {
                is_young(before)
            }
            FoundProposal::Refused(RecoveryFileRefused::Restless) => true,
            FoundProposal::Nothing | FoundProposal::Proposal(_) | FoundProposal::Refused(_) => {
                false
            }
        };
        match (is_same && !may_be_whole_later, is_patient) {
            (true, _) => return (before, found),
            (false, true) => std::thread::sleep(PAUSE),
            (false, false) if is_same => return (before, found),
            (false, false) => {
                return (before, FoundProposal::Refused(RecoveryFileRefused::Restless));
            }
        }
    }
}

/// Tells whether somebody may still be writing the file.
fn is_young(stamp: ProposalStamp) -> bool {
    let age = stamp.modified.and_then(|at| SystemTime::now().duration_since(at).ok());
    age.is_none_or(|age| age < PATIENCE)
}

fn look(path: &Path, stamp: ProposalStamp, turn: Turn) -> FoundProposal {
    if fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink()) {
        return FoundProposal::Refused(RecoveryFileRefused::Link);
    }
    let text = match read_text(path, FileKind::Proposal) {
        Ok(text) => text,
        Err(FileError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
            return FoundProposal::Nothing;
        }
        Err(error) => return FoundProposal::Refused(error.into()),
    };
    match parse(&text, stamp, turn) {
        Ok(Some(proposal)) => FoundProposal::Proposal(Box::new(proposal)),
        Ok(None) => FoundProposal::Nothing,
        Err(refused) => FoundProposal::Refused(refused),
    }
}

fn parse(
    text: &str,
    stamp: ProposalStamp,
    turn: Turn,
) -> Result<Option<RecoveryProposal>, RecoveryFileRefused> {
    let value = strict::parse(text).map_err(BadProposal::from)?;
    if value.get("source").and_then(Value::as_str) == Some("salve") {
        return Ok(None);
    }
    if !stamp.is_after(turn.began) {
        let written = stamp.modified.and_then(|at| Timestamp::try_from(at).ok());
        return Err(RecoveryFileRefused::Old(written.unwrap_or(turn.began)));
    }
    if let Some(iteration) = value.get("iteration").and_then(Value::as_u64)
        && iteration != u64::from(turn.iteration)
    {
        return Err(RecoveryFileRefused::OtherIteration(iteration));
    }
    let proposal = RecoveryProposal::read(&value)?;
    let diagnosed = proposal.timestamp;
    if diagnosed.saturating_add(SKEW).unwrap_or(diagnosed) < turn.began {
        return Err(RecoveryFileRefused::OldDiagnosis(diagnosed));
    }
    Ok(Some(proposal))
}

#[cfg(test)]
mod tests;
