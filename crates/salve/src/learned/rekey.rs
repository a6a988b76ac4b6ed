//! Memory outlives its tables: on new tables, all that is known moves to the signatures in force.
//!
//! A row that a user or a release adds gives another signature to a failure that was unknown
//! before. What was learned, failed, earned and approved under the old one would silently be lost.
//! So memory keeps which tables gave its signatures; where others are in force, every known failure
//! is looked at once more by the line that named it.
//!
//! The journal never changes: what it says under old signatures is read with the entries written
//! here (`rekeyed`), which is how earned approvals move along.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use salve_core::event::{Actor, Draft, Event, IncidentEvent, MemoryEvent, Symptom};
use salve_core::fingerprint::sign_unnamed;
use salve_core::id::{IncidentId, Signature};
use salve_core::memory::{Rekeying, RememberedFailure, rekeyed};
use salve_core::scrub::Scrubbed;

use super::{Learned, LearnedError};
use crate::process;
use crate::store::{StoreError, Stream};

/// How many failures are looked at at once.
const PORTION: u64 = 1_000;

impl Learned<'_> {
    /// Moves what is known to the signatures that the tables in force give, once for new tables.
    ///
    /// Returns how many failures have another signature now.
    pub fn rekey(&self) -> Result<usize, LearnedError> {
        let tables = self.rules.tables_digest();
        if self.store.memory().tables_digest()?.as_deref() == Some(&tables) {
            return Ok(0);
        }
        // What people changed in the files is about the old signatures.
        let has_files = self.store.project().learned().is_dir();
        if has_files {
            self.pull()?;
        }
        let told = self.told_symptoms()?;
        let rekeyings = self.rekeyings(&told)?;
        let mut moves: BTreeMap<Signature, Signature> =
            rekeyings.iter().map(|one| (one.from, one.to.signature)).collect();
        moves.extend(self.moves_of_journal(&told));
        self.tell(&moves)?;
        self.store.memory().rekey(&tables, &rekeyings)?;
        if has_files && !rekeyings.is_empty() {
            self.sync()?;
        }
        Ok(moves.len())
    }

    /// Returns the failures that memory knows by a signature that is no longer theirs.
    fn rekeyings(&self, told: &BTreeMap<Signature, Symptom>) -> Result<Vec<Rekeying>, StoreError> {
        let (mut found, mut after) = (Vec::new(), Some(0));
        while let Some(from) = after {
            let portion = self.store.memory().failures(from, PORTION)?;
            after = portion.next;
            for failure in portion.failures {
                let Some(line) = line_of(&failure, told) else { continue };
                let to = rekeyed(&failure, line.as_str(), self.rules, self.scrubber);
                found.extend(to.map(|to| Rekeying { from: failure.signature, to }));
            }
        }
        Ok(found)
    }

    /// Returns what the journal tells of failures that memory may have forgotten or never learned.
    ///
    /// Only a failure that was known by its line alone can be told from there.
    fn moves_of_journal(&self, told: &BTreeMap<Signature, Symptom>) -> Vec<(Signature, Signature)> {
        let unnamed = told
            .values()
            .filter(|symptom| sign_unnamed(symptom.key_line.as_str()) == symptom.signature);
        let found = unnamed.filter_map(|symptom| {
            let line = symptom.key_line.as_str();
            let now = self.rules.fingerprint(line, &Default::default());
            let is_other = now.identity.is_some() && now.signature != symptom.signature;
            is_other.then_some((symptom.signature, now.signature))
        });
        found.collect()
    }

    /// Reads the failures of which the journal has the line that named them.
    fn told_symptoms(&self) -> Result<BTreeMap<Signature, Symptom>, StoreError> {
        let journal = self.store.journal();
        let mut entries = journal.read(0, &Stream::Incidents, usize::MAX)?;
        // What is approved in an incident may be about a failure that came later than its first.
        let approved = journal.read(0, &Stream::Approvals, usize::MAX)?;
        let approved = approved.iter().filter(|entry| entry.event.kind() == "approved");
        let incidents: BTreeSet<IncidentId> = approved.filter_map(|entry| entry.incident).collect();
        for id in incidents {
            entries.extend(journal.read(0, &Stream::Incident(id), usize::MAX)?);
        }
        let symptoms = entries.into_iter().filter_map(|entry| match entry.event {
            Event::Incident(
                IncidentEvent::Opened { symptom, .. } | IncidentEvent::Sickened { symptom },
            ) => Some((symptom.signature, *symptom)),
            _ => None,
        });
        Ok(symptoms.collect())
    }

    /// Writes to the journal which failures have another signature now.
    fn tell(&self, moves: &BTreeMap<Signature, Signature>) -> Result<(), StoreError> {
        if moves.is_empty() {
            return Ok(());
        }
        let by = Actor::Salve(process::this(self.scrubber));
        let draft = |(from, to): (&Signature, &Signature)| Draft {
            at: Timestamp::now(),
            by: by.clone(),
            incident: None,
            event: Event::Memory(MemoryEvent::Rekeyed { from: *from, to: *to }),
        };
        self.store.journal().append_all(moves.iter().map(draft).collect()).map(drop)
    }
}

/// Returns the line by which a failure is looked at once more.
///
/// Releases before this one kept none; then the journal has it, or what was hashed has to do.
fn line_of(failure: &RememberedFailure, told: &BTreeMap<Signature, Symptom>) -> Option<Scrubbed> {
    let kept = Some(&failure.key_line).filter(|line| !line.as_str().is_empty());
    let told = || told.get(&failure.signature).map(|symptom| &symptom.key_line);
    let hashed = || Some(&failure.normalized).filter(|_| failure.identity.is_none());
    kept.or_else(told).or_else(hashed).cloned()
}

#[cfg(test)]
#[path = "rekey_tests.rs"]
mod tests;
