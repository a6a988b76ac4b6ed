//! A store without a disk, for tests: the second engine, held to the same contract as the first.
//!
//! A clone is another process's view of the same content, so a test can let one "process" die and
//! another open what it left.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use salve_core::event::{Draft, Entry, LoopId};
use salve_core::id::{IncidentId, JobId, Signature};
use salve_core::job::{ClaimEnd, ClaimGrant, QueueState, QueuedJob, RetryTerms};
use salve_core::memory::{Knowledge, KnowledgeEdit, RecordStanding, Rekeying, join, merge};
use salve_core::near::NearIndex;
use salve_core::scrub::Scrubbed;

use super::memory::item_added_to;
use super::stream::{LOOP_KINDS, loop_named};
use super::{
    Appended, ClaimStanding, ClaimToken, Engine, FailurePortion, FileBase, FileEdit, Follower,
    ItemChange, JobArtifact, JobClaim, JobQueue, Journal, KeyedItem, Memory, MemorySize, Page,
    Portion, StoreError, Stream, StreamPosition,
};

/// A journal and a memory that live as long as their clones.
#[derive(Clone, Debug, Default)]
pub(crate) struct InMemory {
    shared: Arc<SharedContent>,
}

#[derive(Debug, Default)]
struct SharedContent {
    content: Mutex<Content>,
    written: Condvar,
}

#[derive(Debug, Default)]
struct Content {
    entries: Vec<Entry>,
    /// What is known, with the number under which it became known.
    known: BTreeMap<u64, KnownFailure>,
    numbers: u64,
    items: BTreeMap<String, Vec<KeyedItem>>,
    bases: BTreeMap<String, FileBase>,
    tables: Option<String>,
    jobs: Vec<QueuedJob>,
    artifacts: BTreeMap<(JobId, String), Vec<u8>>,
}

#[derive(Clone, Debug)]
struct KnownFailure {
    knowledge: Knowledge,
    is_withdrawn: bool,
}

impl Engine for InMemory {
    fn journal(&self) -> &dyn Journal {
        self
    }

    fn memory(&self) -> &dyn Memory {
        self
    }

    fn queue(&self) -> &dyn JobQueue {
        self
    }
}

impl InMemory {
    fn content(&self) -> MutexGuard<'_, Content> {
        self.shared.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Content {
    fn write(&mut self, drafts: Vec<Draft>) -> Vec<Entry> {
        let first = self.entries.len() as u64 + 1;
        let number = |(seq, draft): (u64, Draft)| {
            let mut entry = draft.at_seq(seq);
            // As the other engine does, so that no test comes to rely on more.
            let micros = entry.at.as_microsecond();
            entry.at = Timestamp::from_microsecond(micros).unwrap_or(entry.at);
            entry
        };
        let written: Vec<Entry> = (first..).zip(drafts).map(number).collect();
        self.entries.extend(written.iter().cloned());
        written
    }

    fn find(&self, signature: Signature) -> Option<u64> {
        let is_it = |known: &KnownFailure| known.knowledge.failure.signature == signature;
        self.known.iter().find(|(_, known)| is_it(known)).map(|(number, _)| *number)
    }

    fn in_force(&self) -> impl Iterator<Item = (u64, &Knowledge)> {
        let known = self.known.iter().filter(|(_, known)| !known.is_withdrawn);
        known.map(|(number, known)| (*number, &known.knowledge))
    }

    fn get(&self, signature: Signature) -> Option<Knowledge> {
        self.find(signature).map(|number| self.known[&number].knowledge.clone())
    }

    fn save(&mut self, knowledge: Knowledge) {
        let number = self.find(knowledge.failure.signature).unwrap_or_else(|| {
            self.numbers += 1;
            self.numbers
        });
        let mut knowledge = knowledge;
        let order =
            |tried: &salve_core::memory::TriedRemedy| (tried.since, tried.remedy.digest().0);
        knowledge.remedies.sort_by_key(order);
        self.known.insert(number, KnownFailure { knowledge, is_withdrawn: false });
    }

    fn move_failure(&mut self, Rekeying { from, to }: &Rekeying) {
        let Some(old) = self.find(*from).and_then(|number| self.known.remove(&number)) else {
            return;
        };
        let there = self.find(to.signature).and_then(|number| self.known.get(&number).cloned());
        let is_withdrawn =
            old.is_withdrawn && there.as_ref().is_none_or(|there| there.is_withdrawn);
        let mut knowledge = old.knowledge;
        match there {
            Some(there) => {
                knowledge.failure = there.knowledge.failure.clone();
                join(&mut knowledge, &there.knowledge);
            }
            None => knowledge.failure = to.clone(),
        }
        self.save(knowledge);
        if let Some(number) = self.find(to.signature)
            && let Some(known) = self.known.get_mut(&number)
        {
            known.is_withdrawn = is_withdrawn;
        }
        let items = self.items.entry("healing-patterns.json".to_owned()).or_default();
        let (from, to) = (from.to_string(), to.signature.to_string());
        if let Some(at) = items.iter().position(|item| item.key == from) {
            let mut moved = items.remove(at).item;
            match items.iter_mut().find(|item| item.key == to) {
                Some(there) => {
                    moved.extend(there.item.clone());
                    there.item = moved;
                }
                None => items.push(KeyedItem { key: to, item: moved }),
            }
        }
    }

    fn apply(&mut self, edit: &KnowledgeEdit) {
        let known = self.get(edit.failure.signature);
        self.save(edit.apply(known));
    }

    fn change(&mut self, file: &str, change: &ItemChange) {
        let items = self.items.entry(file.to_owned()).or_default();
        let place = |key: &str| items.iter().position(|known| known.key == key);
        let new = match change {
            ItemChange::Put(keyed) => keyed.clone(),
            ItemChange::Update { keyed, own_keys } => {
                let old = place(&keyed.key).map(|at| items[at].item.clone());
                let mut item = old.unwrap_or_default();
                item.retain(|name, _| !own_keys.contains(&name.as_str()));
                item.extend(keyed.item.clone());
                KeyedItem { key: keyed.key.clone(), item }
            }
            ItemChange::Add { keyed, counts, latest, unknown } => {
                let old = place(&keyed.key).map(|at| items[at].item.clone());
                match item_added_to(old, &keyed.item, counts, latest, *unknown) {
                    Some(item) => KeyedItem { key: keyed.key.clone(), item },
                    None => return,
                }
            }
            ItemChange::Drop { key } => {
                items.retain(|known| known.key != *key);
                return;
            }
        };
        match place(&new.key) {
            Some(at) => items[at] = new,
            None => items.push(new),
        }
    }
}

impl Journal for InMemory {
    fn append_all(&self, drafts: Vec<Draft>) -> Result<Vec<Entry>, StoreError> {
        let written = self.content().write(drafts);
        self.shared.written.notify_all();
        Ok(written)
    }

    fn append_after(
        &self,
        position: &StreamPosition,
        drafts: Vec<Draft>,
    ) -> Result<Appended, StoreError> {
        let mut content = self.content();
        let is_new = |entry: &&Entry| entry.seq > position.after && position.stream.holds(entry);
        if let Some(obstacle) = content.entries.iter().find(is_new) {
            return Ok(Appended::Refused(Box::new(obstacle.clone())));
        }
        let written = content.write(drafts);
        self.shared.written.notify_all();
        Ok(Appended::Written(written))
    }

    fn read(&self, after: u64, stream: &Stream, limit: usize) -> Result<Vec<Entry>, StoreError> {
        let content = self.content();
        let found = content.entries.iter().filter(|entry| entry.seq > after && stream.holds(entry));
        Ok(found.take(limit).cloned().collect())
    }

    fn read_back(
        &self,
        before: u64,
        stream: &Stream,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let content = self.content();
        let is_it = |entry: &&Entry| entry.seq < before && stream.holds(entry);
        let found = content.entries.iter().rev().filter(is_it).take(limit);
        let mut found: Vec<Entry> = found.cloned().collect();
        found.reverse();
        Ok(found)
    }

    fn last_seq(&self) -> Result<u64, StoreError> {
        Ok(self.content().entries.len() as u64)
    }

    fn incidents_like(&self, prefix: &str) -> Result<Vec<IncidentId>, StoreError> {
        let plain = |text: &str| text.replace('-', "").to_ascii_lowercase();
        let content = self.content();
        let ids = content.entries.iter().filter_map(|entry| entry.incident);
        let mut found: Vec<IncidentId> =
            ids.filter(|id| plain(&id.to_string()).starts_with(&plain(prefix))).collect();
        found.sort();
        found.dedup();
        Ok(found)
    }

    fn loops(&self) -> Result<Vec<LoopId>, StoreError> {
        let content = self.content();
        let names = content.entries.iter().filter_map(|entry| {
            let event = entry.event.encode();
            LOOP_KINDS.contains(&event.kind.as_str()).then(|| loop_named(&event)?.parse().ok())?
        });
        let mut found: Vec<LoopId> = names.collect();
        found.sort();
        found.dedup();
        Ok(found)
    }

    fn follow(&self, after: u64, stream: Stream) -> Box<dyn Follower + '_> {
        Box::new(InMemoryFollower { engine: self, stream, after })
    }
}

#[derive(Debug)]
struct InMemoryFollower<'e> {
    engine: &'e InMemory,
    stream: Stream,
    after: u64,
}

impl Follower for InMemoryFollower<'_> {
    fn next(&mut self, timeout: Duration) -> Result<Vec<Entry>, StoreError> {
        let deadline = Instant::now().checked_add(timeout);
        let mut content = self.engine.content();
        loop {
            let is_new = |entry: &&Entry| entry.seq > self.after && self.stream.holds(entry);
            let found: Vec<Entry> = content.entries.iter().filter(is_new).cloned().collect();
            self.after = self.after.max(content.entries.len() as u64);
            let left = deadline.map_or(Duration::from_secs(1), |end| {
                end.saturating_duration_since(Instant::now())
            });
            if !found.is_empty() || left.is_zero() {
                return Ok(found);
            }
            let waited = self.engine.shared.written.wait_timeout(content, left);
            content = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn after(&self) -> u64 {
        self.after
    }
}

impl Memory for InMemory {
    fn recall(&self, signature: Signature) -> Result<Option<Knowledge>, StoreError> {
        let content = self.content();
        let found = content.in_force().find(|(_, known)| known.failure.signature == signature);
        Ok(found.map(|(_, known)| known.clone()))
    }

    fn edit(&self, edits: &[KnowledgeEdit]) -> Result<(), StoreError> {
        let mut content = self.content();
        edits.iter().for_each(|edit| content.apply(edit));
        Ok(())
    }

    fn merge(&self, others: &[Knowledge]) -> Result<u64, StoreError> {
        let mut content = self.content();
        let mut news = 0;
        for other in others {
            let old = content.get(other.failure.signature);
            let mut merged = old.clone().unwrap_or_else(|| other.clone());
            merge(&mut merged, other);
            news += u64::from(old.as_ref() != Some(&merged));
            content.save(merged);
        }
        Ok(news)
    }

    fn forget(&self, signature: Signature) -> Result<bool, StoreError> {
        let mut content = self.content();
        let file = "healing-patterns.json";
        content.change(file, &ItemChange::Drop { key: signature.to_string() });
        let number = content.find(signature);
        Ok(number.is_some_and(|number| content.known.remove(&number).is_some()))
    }

    fn list(&self, page: Page) -> Result<Vec<Knowledge>, StoreError> {
        let content = self.content();
        let mut all: Vec<&Knowledge> = content.in_force().map(|(_, known)| known).collect();
        all.sort_by_key(|known| std::cmp::Reverse(known.last_seen));
        let [skip, limit] =
            [page.skip, page.limit].map(|count| usize::try_from(count).unwrap_or(usize::MAX));
        Ok(all.into_iter().skip(skip).take(limit).cloned().collect())
    }

    fn portion(&self, after: u64, limit: u64) -> Result<Portion, StoreError> {
        let content = self.content();
        let behind = content.in_force().filter(|(number, _)| *number > after);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut portion = Portion::default();
        for (number, known) in behind.take(limit) {
            portion.known.push(known.clone());
            portion.next = Some(number);
        }
        Ok(portion)
    }

    fn with_remedies(&self, most: u64) -> Result<Vec<Knowledge>, StoreError> {
        let mut found = self.list(Page { skip: 0, limit: u64::MAX })?;
        found.retain(|known| !known.remedies.is_empty());
        found.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        found.sort_by_key(|known| known.first_seen);
        Ok(found)
    }

    fn counts(&self) -> Result<MemorySize, StoreError> {
        let content = self.content();
        let mut counts = MemorySize::default();
        for (_, known) in content.in_force() {
            counts.failures += 1;
            for tried in &known.remedies {
                counts.remedies += 1;
                counts.proven += u64::from(tried.record.proven > 0);
                counts.failed += u64::from(tried.record.standing() == RecordStanding::Failed);
            }
        }
        Ok(counts)
    }

    fn signatures_like(&self, prefix: &str) -> Result<Vec<Signature>, StoreError> {
        let content = self.content();
        let all = content.in_force().map(|(_, known)| known.failure.signature);
        Ok(all.filter(|one| one.to_string().starts_with(prefix)).take(10).collect())
    }

    fn near_index(&self) -> Result<NearIndex, StoreError> {
        let mut index = NearIndex::new();
        for known in self.content().known.values() {
            let failure = &known.knowledge.failure;
            index.add(failure.signature, failure.normalized.as_str());
        }
        Ok(index)
    }

    fn tables_digest(&self) -> Result<Option<String>, StoreError> {
        Ok(self.content().tables.clone())
    }

    fn failures(&self, after: u64, limit: u64) -> Result<FailurePortion, StoreError> {
        let content = self.content();
        let behind = content.known.iter().filter(|(number, _)| **number > after);
        let mut portion = FailurePortion::default();
        for (number, known) in behind.take(usize::try_from(limit).unwrap_or(usize::MAX)) {
            portion.failures.push(known.knowledge.failure.clone());
            portion.next = Some(*number);
        }
        Ok(portion)
    }

    fn rekey(&self, tables: &str, rekeyings: &[Rekeying]) -> Result<(), StoreError> {
        let mut content = self.content();
        if content.tables.as_deref() == Some(tables) {
            return Ok(());
        }
        rekeyings.iter().for_each(|rekeying| content.move_failure(rekeying));
        content.tables = Some(tables.to_owned());
        Ok(())
    }

    fn file_items(&self, file: &str, most: u64) -> Result<Vec<KeyedItem>, StoreError> {
        let content = self.content();
        let items = content.items.get(file).map_or(&[][..], Vec::as_slice);
        let over = items.len().saturating_sub(usize::try_from(most).unwrap_or(usize::MAX));
        Ok(items[over..].to_vec())
    }

    fn file_base(&self, file: &str) -> Result<Option<FileBase>, StoreError> {
        Ok(self.content().bases.get(file).cloned())
    }

    fn edit_file(&self, edit: &FileEdit) -> Result<(), StoreError> {
        let mut content = self.content();
        for signature in &edit.withdrawn {
            if let Some(number) = content.find(*signature)
                && let Some(known) = content.known.get_mut(&number)
            {
                known.is_withdrawn = true;
            }
        }
        edit.knowledge.iter().for_each(|edit| content.apply(edit));
        edit.items.iter().for_each(|change| content.change(edit.file, change));
        if let Some(base) = &edit.base {
            content.bases.insert(edit.file.to_owned(), base.clone());
        }
        Ok(())
    }
}

impl InMemory {
    /// Changes a job, where it may be.
    fn change_job<T>(
        &self,
        job: JobId,
        change: impl FnOnce(&mut QueuedJob) -> Option<T>,
    ) -> Option<T> {
        let mut content = self.content();
        content.jobs.iter_mut().find(|row| row.job == job).and_then(change)
    }

    fn while_held(&self, claim: ClaimToken, change: impl FnOnce(&mut QueuedJob)) -> ClaimStanding {
        let held =
            self.change_job(claim.job, |row| row.is_held_by(claim.epoch).then(|| change(row)));
        if held.is_some() { ClaimStanding::Held } else { ClaimStanding::Fenced }
    }
}

fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

fn millis(lease: Duration) -> u64 {
    u64::try_from(lease.as_millis()).unwrap_or(u64::MAX)
}

impl JobQueue for InMemory {
    fn submit(&self, job: JobId, payload: &str, terms: RetryTerms) -> Result<(), StoreError> {
        let row = QueuedJob::submitted(job, payload.to_owned(), terms, now_ms());
        let jobs = &mut self.content().jobs;
        if jobs.iter().all(|known| known.job != job) {
            jobs.push(row);
        }
        Ok(())
    }

    fn claim(&self, worker: &Scrubbed, lease: Duration) -> Result<Option<JobClaim>, StoreError> {
        let now = now_ms();
        let jobs = &mut self.content().jobs;
        loop {
            let free = jobs.iter_mut().filter(|row| row.free_at_ms.is_some_and(|at| at <= now));
            let Some(row) = free.min_by_key(|row| row.free_at_ms) else { return Ok(None) };
            if let ClaimGrant::Granted(epoch) = row.claim(worker.clone(), millis(lease), now) {
                let token = ClaimToken { job: row.job, epoch };
                return Ok(Some(JobClaim { token, payload: row.payload.clone() }));
            }
        }
    }

    fn heartbeat(&self, claim: ClaimToken, lease: Duration) -> Result<ClaimStanding, StoreError> {
        Ok(self.while_held(claim, |row| row.extend_lease(millis(lease), now_ms())))
    }

    fn checkpoint(
        &self,
        claim: ClaimToken,
        artifacts: &[JobArtifact],
    ) -> Result<ClaimStanding, StoreError> {
        let standing = self.while_held(claim, |_| {});
        if standing == ClaimStanding::Held {
            let kept = &mut self.content().artifacts;
            for artifact in artifacts {
                kept.insert((claim.job, artifact.name.clone()), artifact.bytes.clone());
            }
        }
        Ok(standing)
    }

    fn artifact(&self, job: JobId, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.content().artifacts.get(&(job, name.to_owned())).cloned())
    }

    fn finish(&self, claim: ClaimToken, end: ClaimEnd) -> Result<ClaimStanding, StoreError> {
        Ok(self.while_held(claim, |row| row.finish(end, now_ms())))
    }

    fn queued(&self, state: Option<QueueState>) -> Result<Vec<QueuedJob>, StoreError> {
        let is_meant = |row: &&QueuedJob| state.is_none_or(|state| state == row.state);
        Ok(self.content().jobs.iter().filter(is_meant).cloned().collect())
    }

    fn requeue(&self, job: JobId) -> Result<bool, StoreError> {
        Ok(self.change_job(job, |row| row.requeue(now_ms()).then_some(())).is_some())
    }

    fn withdraw(&self, job: JobId) -> Result<bool, StoreError> {
        Ok(self.change_job(job, |row| row.withdraw().then_some(())).is_some())
    }

    fn forget(&self, job: JobId) -> Result<bool, StoreError> {
        let mut content = self.content();
        let is_held = |row: &QueuedJob| row.job == job && row.state == QueueState::Claimed;
        if content.jobs.iter().any(is_held) {
            return Ok(false);
        }
        content.jobs.retain(|row| row.job != job);
        content.artifacts.retain(|(of, _), _| *of != job);
        Ok(true)
    }
}
