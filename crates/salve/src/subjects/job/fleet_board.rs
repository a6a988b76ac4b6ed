//! All jobs of a fleet as they stand, kept up to date by what is heard of them.
//!
//! What is told of a history counts only where it goes on from what is known, under the claim that is
//! known; else, and where nothing is told of a record that changed, the history is read. So nothing is
//! missed, nothing counts twice, and nothing counts that a worker wrote after it lost its job.

use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use salve_core::id::JobId;
use salve_core::job::{Job, QueueState};

use super::fleet::{FleetJobError, HISTORY, JobHistory};
use super::fleet_question::{FleetQuestion, QUESTION};
use crate::store::{
    Fleet, FleetFile, FleetJobRow, FleetNews, JobEvents, Store, StoreError, parse_line,
};

/// How many jobs are followed: those that wait for a person, and otherwise the last.
const MOST: usize = 100;

/// How long after a record what it names may still be told.
const PATIENCE: Duration = Duration::from_millis(400);

/// A job of a fleet, as everybody sees it.
#[derive(Clone, Debug)]
pub struct JobOnBoard {
    pub row: FleetJobRow,
    pub job: Job,
    /// What it waits for, if it waits for an answer.
    pub question: Option<FleetQuestion>,
    epoch: u64,
    count: u64,
    /// The SHA-256 of the history from which it was made.
    history: String,
    asked: Option<FleetFile>,
    /// Since when its record names another history.
    behind_since: Option<Instant>,
}

/// The jobs of a fleet.
#[derive(Debug)]
pub struct FleetBoard {
    news: Receiver<FleetNews>,
    jobs: BTreeMap<JobId, JobOnBoard>,
    /// The jobs that are to be read, because what was heard of them does not go on from what is known.
    unread: BTreeMap<JobId, Option<Box<FleetJobRow>>>,
}

impl FleetBoard {
    /// Reads all jobs and begins to follow them.
    pub fn open(store: &Store) -> Result<Self, FleetJobError> {
        let fleet = fleet_of(store)?;
        // First, so that nothing is missed between the two.
        let news = fleet.hear_jobs()?;
        let mut board = Self { news, jobs: BTreeMap::new(), unread: BTreeMap::new() };
        let rows = fleet.job_rows()?;
        let (waiting, others): (Vec<_>, Vec<_>) =
            rows.into_iter().rev().partition(|row| row.row.state == QueueState::Waiting);
        for row in waiting.into_iter().chain(others).take(MOST) {
            board.read(fleet, row)?;
        }
        Ok(board)
    }

    /// Returns the jobs, the latest first.
    pub fn jobs(&self) -> impl Iterator<Item = &JobOnBoard> {
        let mut jobs: Vec<&JobOnBoard> = self.jobs.values().collect();
        jobs.sort_by_key(|one| std::cmp::Reverse((one.row.submitted_ms, one.job.id())));
        jobs.into_iter()
    }

    /// Takes in what happens within `patience`; tells whether anything did.
    pub fn follow(&mut self, store: &Store, patience: Duration) -> Result<bool, FleetJobError> {
        let fleet = fleet_of(store)?;
        let mut has_changed = false;
        let mut news = self.news.recv_timeout(patience).ok();
        while let Some(one) = news {
            has_changed |= self.take(one);
            news = self.news.try_recv().ok();
        }
        let is_late = |since: Instant| since.elapsed() >= PATIENCE;
        let late = self.jobs.values().filter(|one| one.behind_since.is_some_and(is_late));
        let late: Vec<JobId> = late.map(|one| one.job.id()).collect();
        for id in late {
            self.unread.entry(id).or_default();
        }
        for (id, row) in std::mem::take(&mut self.unread) {
            let row = match row {
                Some(row) => Some(*row),
                None => fleet.job_row(id)?,
            };
            match row {
                Some(row) => self.read(fleet, row)?,
                None => drop(self.jobs.remove(&id)),
            }
            has_changed = true;
        }
        Ok(has_changed)
    }

    /// Takes in one thing that was heard; tells whether that changed anything.
    fn take(&mut self, news: FleetNews) -> bool {
        match news {
            FleetNews::Gone(id) => self.jobs.remove(&id).is_some(),
            FleetNews::Stands(row) => self.stands(row),
            FleetNews::Events(events) => self.add(&events),
        }
    }

    fn stands(&mut self, row: Box<FleetJobRow>) -> bool {
        let Some(known) = self.jobs.get_mut(&row.row.job) else {
            self.unread.insert(row.row.job, Some(row));
            return true;
        };
        let has_changed = known.row.row != row.row;
        let is_behind = history_of(&row).is_some_and(|file| file.digest != known.history);
        if is_behind {
            known.behind_since.get_or_insert_with(Instant::now);
        } else {
            known.behind_since = None;
        }
        if row.files.get(QUESTION) != known.asked.as_ref() {
            self.unread.insert(row.row.job, Some(row.clone()));
        }
        known.row = *row;
        has_changed
    }

    /// Takes in what a history has more, if it goes on from what is known under the same claim.
    fn add(&mut self, events: &JobEvents) -> bool {
        let Some(known) = self.jobs.get_mut(&events.job) else {
            self.unread.entry(events.job).or_default();
            return false;
        };
        // What its record says of the claim is known before its history is read.
        let epoch = known.row.row.epoch.max(known.epoch);
        if known.history == events.history || events.epoch < epoch {
            return false;
        }
        let is_told = !events.lines.is_empty()
            && events.epoch == known.epoch
            && events.after <= known.count
            && events.after + events.lines.len() as u64 == events.count;
        let new = known.count.saturating_sub(events.after);
        let lines = events.lines.iter().skip(usize::try_from(new).unwrap_or(usize::MAX));
        let entries: Result<Vec<_>, _> = lines.map(|line| parse_line(line)).collect();
        match entries {
            Ok(entries) if is_told => {
                for entry in &entries {
                    // What is refused stands in the history and changes nothing.
                    let _refused = known.job.step(entry);
                }
                known.count = known.count.max(events.count);
                known.history.clone_from(&events.history);
                let is_last = |file: &FleetFile| file.digest == events.history;
                if history_of(&known.row).is_none_or(is_last) {
                    known.behind_since = None;
                }
                !entries.is_empty()
            }
            Ok(_) | Err(_) => {
                self.unread.entry(events.job).or_default();
                false
            }
        }
    }

    /// Reads a job; one that a later Salve submitted is not shown, and hides none of the others.
    fn read(&mut self, fleet: &dyn Fleet, row: FleetJobRow) -> Result<(), FleetJobError> {
        let id = row.row.job;
        let Some(file) = history_of(&row) else { return Ok(()) };
        let text = match text_of(fleet, id, file) {
            Ok(text) => text,
            // It was replaced or removed meanwhile, which is heard of.
            Err(StoreError::Fleet(error)) if !error.is_transient() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let Ok(history) = JobHistory::read(&text) else { return Ok(()) };
        let Some(job) = history.job(id) else { return Ok(()) };
        let asked = row.files.get(QUESTION).cloned();
        let question = match &asked {
            Some(file) if file.size > 0 => FleetQuestion::read(id, &text_of(fleet, id, file)?),
            Some(_) | None => None,
        };
        let (epoch, count) = (history.epoch, history.entries.len() as u64);
        let history = file.digest.clone();
        let behind_since = None;
        let made = JobOnBoard { row, job, question, epoch, count, history, asked, behind_since };
        self.jobs.insert(id, made);
        self.drop_oldest();
        Ok(())
    }

    fn drop_oldest(&mut self) {
        while self.jobs.len() > 2 * MOST {
            let waits = |one: &&JobOnBoard| one.row.row.state == QueueState::Waiting;
            let oldest = self.jobs.values().filter(|one| !waits(one));
            let oldest = oldest.min_by_key(|one| (one.row.submitted_ms, one.job.id()));
            let Some(id) = oldest.map(|one| one.job.id()) else { return };
            self.jobs.remove(&id);
        }
    }
}

impl JobOnBoard {
    /// Returns what it asks a person now.
    pub fn open_question(&self) -> Option<&FleetQuestion> {
        self.question.as_ref().filter(|_| self.row.row.state == QueueState::Waiting)
    }
}

fn history_of(row: &FleetJobRow) -> Option<&FleetFile> {
    row.files.get(HISTORY)
}

fn text_of(fleet: &dyn Fleet, job: JobId, file: &FleetFile) -> Result<String, StoreError> {
    Ok(String::from_utf8_lossy(&fleet.file(job, file)?).into_owned())
}

fn fleet_of(store: &Store) -> Result<&dyn Fleet, StoreError> {
    store.fleet().ok_or(StoreError::Fleet(crate::store::FleetError::NotBuilt))
}

#[cfg(feature = "fleet")]
#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use salve_core::event::{Actor, Draft, JobEvent, JobOrder, JobTurn};
    use salve_core::job::{JobStatus, RetryTerms, job_state};
    use salve_core::scrub::Scrubbed;
    use uuid::Uuid;

    use super::*;
    use crate::config;
    use crate::project::Project;
    use crate::store::{ClaimStanding, ClaimToken, FleetTerms, TestServers, to_line};
    use crate::subjects::job::{JobFile, StepLimits};

    const LONG: Duration = Duration::from_secs(60);
    const LEASE: Duration = Duration::from_secs(600);

    /// What one worker knows of a job, and tells.
    struct Told<'s> {
        store: &'s Store,
        claim: ClaimToken,
        history: JobHistory,
    }

    impl Told<'_> {
        fn order(&mut self, order: JobOrder) {
            let by = Actor::Person { name: Scrubbed::literal("ann") };
            let event = JobEvent::Advanced { id: self.claim.job, what: JobTurn::Ordered { order } };
            let draft =
                Draft { at: Timestamp::UNIX_EPOCH, by, incident: None, event: event.into() };
            let seq = self.history.entries.last().map_or(1, |entry| entry.seq + 1);
            self.history.entries.push(draft.at_seq(seq));
        }

        /// Keeps the history, and tells its last entry if it is to be told.
        fn tell(&self, is_told: bool) -> ClaimStanding {
            let artifact = self.history.artifact();
            let digest = super::super::digest(&artifact.bytes).to_string();
            let standing = self.store.queue().checkpoint(self.claim, &[artifact]).unwrap();
            let count = self.history.entries.len() as u64;
            if is_told {
                let last = self.history.entries.last().map(to_line);
                let (job, epoch) = (self.claim.job, self.claim.epoch);
                let lines = last.into_iter().collect();
                let events = JobEvents {
                    version: 1,
                    job,
                    epoch,
                    after: count - 1,
                    lines,
                    count,
                    history: digest,
                };
                self.store.fleet().unwrap().tell_events(&events).unwrap();
            }
            standing
        }
    }

    fn open(dir: &std::path::Path, terms: &FleetTerms) -> Store {
        Store::open_in_fleet(&Project::at(dir).unwrap(), terms).unwrap()
    }

    fn started(job: JobId) -> JobHistory {
        let steps = vec![config::CommandLine::Line("true".to_owned())];
        let file = JobFile::of_commands(steps, StepLimits::default());
        let config = config::load(&config::Sources::default()).unwrap();
        let spec = file.validate(&config.settings.job, &crate::scrub::scrubber()).unwrap();
        let what = JobTurn::Started { terms: Box::new(spec.terms) };
        let by = Actor::Person { name: Scrubbed::literal("ann") };
        let event = JobEvent::Advanced { id: job, what }.into();
        let draft = Draft { at: Timestamp::UNIX_EPOCH, by, incident: None, event };
        JobHistory { epoch: 0, orders: 0, entries: vec![draft.at_seq(1)] }
    }

    fn follow(board: &mut FleetBoard, store: &Store, is_there: impl Fn(&JobOnBoard) -> bool) {
        let since = Instant::now();
        while !board.jobs().any(&is_there) {
            assert!(since.elapsed() < LONG, "{:?}", board.jobs().collect::<Vec<_>>());
            board.follow(store, Duration::from_millis(50)).unwrap();
        }
    }

    fn claimed(store: &Store, worker: &'static str) -> ClaimToken {
        let (worker, since) = (Scrubbed::literal(worker), Instant::now());
        loop {
            if let Some(claim) = store.queue().claim(&worker, LEASE).unwrap() {
                return claim.token;
            }
            assert!(since.elapsed() < LONG, "nobody was woken");
        }
    }

    fn is_paused(one: &JobOnBoard) -> bool {
        job_state(&one.job).status == JobStatus::Paused
    }

    /// **Invariant:** Whoever follows a fleet sees each entry of a job's history once, whether it was
    /// told or not, and none of a worker that had lost the job.
    #[test]
    fn a_board_shows_what_histories_say_and_nothing_of_a_worker_that_lost_its_job() {
        let Some(servers) = TestServers::one() else { return };
        let (terms, dir) = (servers.new_fleet(), tempfile::tempdir().unwrap());
        let (store, other) = (open(dir.path(), &terms), open(dir.path(), &terms));
        let job = JobId(Uuid::from_u128(7));
        let mut board = FleetBoard::open(&other).unwrap();
        assert_eq!(board.jobs().count(), 0);
        let (fleet, history) = (store.fleet().unwrap(), started(job));
        let retry = RetryTerms { max_tries: 3, max_losses: 3, backoff_ms: 1 };
        let artifacts = [history.artifact()];
        fleet
            .submit(crate::store::FleetJob {
                job,
                payload: "x",
                terms: retry,
                needs: &[],
                artifacts: &artifacts,
            })
            .unwrap();
        follow(&mut board, &other, |one| one.row.row.state == QueueState::Queued);
        let claim = claimed(&store, "one");
        let mut zombie = Told { store: &store, claim, history };
        zombie.history.epoch = claim.epoch;
        // The first news of a claim is read, the next is told, the last is missed and read.
        zombie.tell(false);
        follow(&mut board, &other, |one| one.epoch == 1 && one.count == 1);
        zombie.order(JobOrder::Pause);
        assert_eq!(zombie.tell(true), ClaimStanding::Held);
        follow(&mut board, &other, |one| one.count == 2 && is_paused(one));
        zombie.order(JobOrder::Resume);
        assert_eq!(zombie.tell(false), ClaimStanding::Held);
        follow(&mut board, &other, |one| one.count == 3 && !is_paused(one));
        // Another worker has it now; what the first one tells is nobody's history.
        store.queue().finish(claim, salve_core::job::ClaimEnd::Back).unwrap();
        let claim = claimed(&other, "two");
        let mut heir = Told { store: &other, claim, history: zombie.history.clone() };
        heir.history.epoch = claim.epoch;
        heir.tell(false);
        zombie.order(JobOrder::Pause);
        assert_eq!(zombie.tell(true), ClaimStanding::Fenced);
        follow(&mut board, &other, |one| one.epoch == 2);
        heir.order(JobOrder::Cancel);
        assert_eq!(heir.tell(true), ClaimStanding::Held);
        follow(&mut board, &other, |one| one.count == 4);
        let seen = board.jobs().next().unwrap();
        assert!(!is_paused(seen) && seen.job.is_cancelled(), "{seen:?}");
        assert_eq!(seen.row.row.worker.as_ref().unwrap().as_str(), "two");
        let fresh = FleetBoard::open(&store).unwrap();
        assert_eq!(fresh.jobs().next().unwrap().count, 4);
    }
}
