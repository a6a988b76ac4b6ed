//! Jobs of a fleet: what travels with a job, and how a worker makes it run on its own machine.
//!
//! A job is submitted with the files from which it starts ([`fleet_start`]). A worker that gets it makes
//! a directory of its own for this one claim, with a repository, a journal and a workspace, and takes in
//! what the job has behind it: its history and its checkpoints. Whatever the worker's run adds to the
//! history goes back to the fleet under the claim, so that the next worker can go on from there.
//!
//! **Invariant:** a history names no checkpoint that the fleet does not have: a checkpoint is kept
//! there before the run writes that its step is done.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use salve_core::event::{
    Actor, Authority, Digest, Draft, Effect, Entry, Event, IncidentEvent, JobEvent, JobTurn,
};
use salve_core::id::JobId;
use salve_core::job::{Job, QueuedJob};
use serde::{Deserialize, Serialize};

use super::fleet_question::{Asker, FleetQuestion, judge_answer, person_word};
use super::fleet_start::{self, FleetStart, GitRemote};
use super::{JobFolder, digest, files::BadCheckpoint};
use crate::atomic::WriteError;
use crate::files::{make_directories, remove_tree};
use crate::heal::people::{PersonError, speak};
use crate::process::quiet_git;
use crate::project::{Project, ProjectError};
use crate::store::{
    ClaimToken, Fleet, FleetFile, FleetPerson, JobArtifact, JobClaim, JobEvents, JobQueue,
    LineError, PlacedAnswer, PlacedOrder, Store, StoreError, Stream, parse_line, to_line,
};
use crate::workspace::{ReplayError, StartFrom, StepStore, WorkspaceError};

/// What the history of a job is called among what the fleet keeps of it.
pub(super) const HISTORY: &str = "history.jsonl";

/// What a completed job changed is called there.
pub const RESULT: &str = "result.patch";

/// The version of what travels with a bundle, and with histories.
const VERSION: u32 = 1;

/// The version of what travels where the files are with a git remote.
const WITH_REMOTE: u32 = 2;

/// Why a job of a fleet cannot be run or shown here.
#[derive(Debug, thiserror::Error)]
pub enum FleetJobError {
    /// The fleet or the local journal could not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What travels with the job makes no sense to this program.
    #[error("what came with the job cannot be read")]
    Payload(#[source] serde_json::Error),
    /// A later Salve submitted it.
    #[error("the job is of version {0}; update Salve here")]
    Newer(u32),
    /// The project would not be among the job's files.
    #[error("the job names a place outside of its files: {0}")]
    Outside(String),
    /// Its history makes no sense to this program.
    #[error("the job's history cannot be read")]
    History(#[source] LineError),
    /// Its history does not begin with its start.
    #[error("the job's history does not begin with its start")]
    NoStart,
    /// A file could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A directory could not be made or removed.
    #[error("cannot use {}", path.display())]
    Directory {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The files could not be had from where they are.
    #[error("cannot fetch from {url}, so submit it with --bundle: {said}")]
    Remote { url: String, said: String },
    /// The remote is not known to have what the job starts from.
    #[error("the remote `origin` is not known to have {0}")]
    NotPushed(String),
    /// Git did not take the bundle.
    #[error("git does not take what came with the job: {0}")]
    Git(String),
    /// There is no place for the job.
    #[error(transparent)]
    Project(#[from] ProjectError),
    /// The workspace could not be made.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// A checkpoint is not what the history says.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The claim counts no longer.
    #[error("another worker has taken the job over")]
    Fenced,
    /// A checkpoint is missing or altered.
    #[error("a checkpoint of the job is not what its history says: {0}")]
    Checkpoint(String),
}

impl From<BadCheckpoint> for FleetJobError {
    fn from(error: BadCheckpoint) -> Self {
        Self::Checkpoint(error.to_string())
    }
}

/// What travels with a job from the one who submits it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetPayload {
    /// The job's own file.
    pub spec: String,
    /// The files from which it starts.
    pub start: FleetStart,
    /// Where in those files the project is.
    pub prefix: String,
}

/// What travels, as it is written: one with a bundle is read by every Salve that knows fleets.
#[derive(Debug, Serialize, Deserialize)]
struct WrittenPayload<S> {
    version: u32,
    spec: String,
    start: S,
    prefix: String,
}

#[derive(Debug, Deserialize)]
struct PayloadVersion {
    version: u32,
}

impl FleetPayload {
    /// Puts together what travels with a job.
    pub fn new(spec: String, start: FleetStart, prefix: &Path) -> Self {
        Self { spec, start, prefix: prefix.to_string_lossy().into_owned() }
    }

    /// Returns it as text.
    pub fn to_text(&self) -> String {
        let (spec, prefix) = (self.spec.clone(), self.prefix.clone());
        let written = match &self.start {
            FleetStart::Bundle(start) => {
                serde_json::to_string(&WrittenPayload { version: VERSION, spec, start, prefix })
            }
            FleetStart::Remote(start) => {
                serde_json::to_string(&WrittenPayload { version: WITH_REMOTE, spec, start, prefix })
            }
        };
        // Every part has string keys only, so there is no failing path.
        written.unwrap_or_default()
    }

    /// Reads what came with a job.
    pub fn read(text: &str) -> Result<Self, FleetJobError> {
        let read = |error| FleetJobError::Payload(error);
        let PayloadVersion { version } = serde_json::from_str(text).map_err(read)?;
        let payload = match version {
            0..=VERSION => {
                let written: WrittenPayload<FleetFile> =
                    serde_json::from_str(text).map_err(read)?;
                let WrittenPayload { version: _, spec, start, prefix } = written;
                Self { spec, start: FleetStart::Bundle(start), prefix }
            }
            WITH_REMOTE => {
                let written: WrittenPayload<GitRemote> =
                    serde_json::from_str(text).map_err(read)?;
                let WrittenPayload { version: _, spec, start, prefix } = written;
                Self { spec, start: FleetStart::Remote(start), prefix }
            }
            newer => return Err(FleetJobError::Newer(newer)),
        };
        let is_below = |part: Component<'_>| matches!(part, Component::Normal(_));
        if !Path::new(&payload.prefix).components().all(is_below) {
            return Err(FleetJobError::Outside(payload.prefix));
        }
        Ok(payload)
    }
}

/// The files from which a job starts.
#[derive(Clone, Debug)]
pub struct StartBundle {
    /// A bundle of git's.
    pub bytes: Vec<u8>,
    /// Where in them the project is.
    pub prefix: PathBuf,
}

/// Makes the bundle of the files from which a job starts.
pub fn make_bundle(
    project: &Project,
    scratch: &Path,
    start: &StartFrom,
) -> Result<StartBundle, FleetJobError> {
    let dir = scratch.join("job");
    let made = StepStore::make(project.root(), &dir, start)?;
    let path = scratch.join("start.bundle");
    let bundled = made.bundle_start(&path);
    let prefix = made.prefix().to_path_buf();
    StepStore::forget(project.root(), &dir);
    bundled?;
    let bytes = fs::read(&path);
    let bytes = bytes.map_err(|source| FleetJobError::Directory { path, source })?;
    Ok(StartBundle { bytes, prefix })
}

/// What has happened to a job, as it travels: its entries, and how far people's orders are in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobHistory {
    /// The claim whose run wrote it; 0 before the first. Each numbers its entries anew.
    pub epoch: u64,
    /// The place of the last order that is among the entries.
    pub orders: u64,
    pub entries: Vec<Entry>,
}

/// The first line of a history.
#[derive(Debug, Serialize, Deserialize)]
struct HistoryHead {
    version: u32,
    orders: u64,
    #[serde(default)]
    epoch: u64,
}

impl JobHistory {
    /// Returns it as lines of JSON.
    pub fn to_lines(&self) -> String {
        let head = HistoryHead { version: VERSION, orders: self.orders, epoch: self.epoch };
        // Every part has string keys only, so there is no failing path.
        let mut lines = serde_json::to_string(&head).unwrap_or_default();
        for entry in &self.entries {
            lines.push('\n');
            lines.push_str(&to_line(entry));
        }
        lines
    }

    /// Reads it from lines of JSON.
    pub fn read(text: &str) -> Result<Self, FleetJobError> {
        let mut lines = text.lines();
        let head = lines.next().unwrap_or_default();
        let head: HistoryHead = serde_json::from_str(head).map_err(FleetJobError::Payload)?;
        if head.version > VERSION {
            return Err(FleetJobError::Newer(head.version));
        }
        let entries: Result<Vec<Entry>, LineError> = lines.map(parse_line).collect();
        let entries = entries.map_err(FleetJobError::History)?;
        Ok(Self { epoch: head.epoch, orders: head.orders, entries })
    }

    /// Returns it for the fleet to keep.
    pub fn artifact(&self) -> JobArtifact {
        JobArtifact { name: HISTORY.to_owned(), bytes: self.to_lines().into_bytes() }
    }

    /// Returns the history of a job as the fleet has it.
    pub fn of(queue: &dyn JobQueue, job: JobId) -> Result<Self, FleetJobError> {
        let bytes = queue.artifact(job, HISTORY)?.ok_or(FleetJobError::NoStart)?;
        Self::read(&String::from_utf8_lossy(&bytes))
    }

    /// Returns what is to be written to another journal, where the numbers of entries are others: the
    /// history, and the incident with whose question the job waits.
    fn drafts_from(&self, first: u64, asked: &[Entry]) -> Vec<Draft> {
        let mut entries: Vec<&Entry> = self.entries.iter().chain(asked).collect();
        entries.sort_by_key(|entry| entry.seq);
        let places: BTreeMap<u64, u64> =
            entries.iter().map(|entry| entry.seq).zip(first..).collect();
        let place = |seq: &mut u64| *seq = places.get(seq).copied().unwrap_or(*seq);
        let draft = |entry: &&Entry| {
            let mut event = entry.event.clone();
            match &mut event {
                Event::Job(JobEvent::Advanced { what: JobTurn::Honored { order }, .. }) => {
                    place(order);
                }
                Event::Incident(IncidentEvent::Requested {
                    what: Effect::Apply { on: Authority::Approval(seq), .. },
                    ..
                }) => place(seq),
                _ => {}
            }
            Draft { at: entry.at, by: entry.by.clone(), incident: entry.incident, event }
        };
        entries.iter().map(draft).collect()
    }

    /// Returns the job that it makes.
    pub fn job(&self, id: JobId) -> Option<Job> {
        Job::replay(id, &self.entries)
    }
}

/// Returns an order as an entry of a journal.
fn order_draft(PlacedOrder { order, .. }: &PlacedOrder) -> Draft {
    let what = JobTurn::Ordered { order: order.order };
    Draft {
        at: order.at,
        by: Actor::Person { name: order.by.clone() },
        incident: None,
        event: JobEvent::Advanced { id: order.job, what }.into(),
    }
}

/// A job of a fleet with how it stands in the queue.
#[derive(Clone, Debug)]
pub struct JobInFleet {
    pub row: QueuedJob,
    pub job: Job,
}

/// Returns the jobs of a fleet that are queued or were, oldest first, as far as they can be read here.
pub fn jobs_in_fleet(store: &Store) -> Result<Vec<JobInFleet>, FleetJobError> {
    let mut found = Vec::new();
    for row in store.queue().queued(None)? {
        // One that a later Salve submitted is not shown, and hides none of the others.
        let Ok(history) = JobHistory::of(store.queue(), row.job) else { continue };
        if let Some(job) = history.job(row.job) {
            found.push(JobInFleet { row, job });
        }
    }
    Ok(found)
}

/// Returns the jobs of a fleet whose id begins with these digits.
pub fn fleet_jobs(store: &Store, digits: &str) -> Result<Vec<JobInFleet>, FleetJobError> {
    let wanted = digits.replace('-', "").to_ascii_lowercase();
    let is_meant = |found: &JobInFleet| {
        let id = found.job.id();
        id.short().starts_with(&wanted) || id.0.simple().to_string() == wanted
    };
    let is_enough = wanted.len() >= 4 && wanted.chars().all(|c| c.is_ascii_hexdigit());
    let all = if is_enough { jobs_in_fleet(store)? } else { Vec::new() };
    Ok(all.into_iter().filter(is_meant).collect())
}

/// The directory of one claim on this machine, and how far its history is with the fleet.
#[derive(Debug)]
pub struct LocalRun {
    claim: JobClaim,
    home: PathBuf,
    /// The files of the job, with a journal of their own.
    pub project: Project,
    /// Its journal.
    pub store: Store,
    /// The place of the last order that is in it.
    orders: u64,
    /// The journal's last entry that the fleet has.
    told: u64,
    /// How many entries of the history the fleet has from this claim.
    told_entries: usize,
}

impl LocalRun {
    /// Makes a directory for a claim below `homes`, with all that the job has behind it.
    pub fn prepare(
        claim: JobClaim,
        homes: &Path,
        fleet: &dyn Fleet,
        queue: &dyn JobQueue,
        people: &[FleetPerson],
    ) -> Result<Self, FleetJobError> {
        let id = claim.token.job;
        let payload = FleetPayload::read(&claim.payload)?;
        let history = JobHistory::of(queue, id)?;
        let question = FleetQuestion::of(queue, id)?;
        // Numbers of entries mean something in one journal only.
        let question = question.filter(|question| question.binding.epoch == history.epoch);
        sweep(homes, id, &payload.prefix);
        let home = homes.join(format!("{}.{}", id.short(), claim.token.epoch));
        let tree = home.join("tree");
        make(&tree)?;
        lay_start(&home, &tree, fleet, id, &payload.start)?;
        let project = Project::at(&tree.join(&payload.prefix))?;
        let folder = JobFolder::of(&project, id);
        folder.keep_spec(&payload.spec)?;
        let start = StartFrom::Ref("refs/heads/start".to_owned());
        let workspace = StepStore::make(project.root(), folder.dir(), &start)?;
        let store = Store::open(&project)?;
        let asked = question.as_ref().map_or(&[][..], |question| &question.entries);
        store.journal().append_all(history.drafts_from(store.journal().last_seq()? + 1, asked))?;
        if let Some(question) = &question {
            free(&store, question)?;
        }
        let job = job_of(&store, id)?;
        folder.give_back_missing(&job, queue)?;
        take_in(&job, &folder, &workspace)?;
        let (orders, told, told_entries) = (history.orders, 0, 0);
        let mut made = Self { claim, home, project, store, orders, told, told_entries };
        made.heed_all(fleet)?;
        if let Some(question) = question {
            made.take_answer(&question, &fleet.answers(id)?, people)?;
        }
        Ok(made)
    }

    /// Returns the claim.
    pub fn claim(&self) -> &JobClaim {
        &self.claim
    }

    /// Returns the job as this machine's journal has it.
    pub fn job(&self) -> Result<Job, FleetJobError> {
        job_of(&self.store, self.claim.token.job)
    }

    /// Hands an order on to whoever runs the job here, unless it was handed on before.
    pub fn heed(&mut self, order: &PlacedOrder) -> Result<(), StoreError> {
        if order.order.job == self.claim.token.job && order.place > self.orders {
            self.store.journal().append(order_draft(order))?;
            self.orders = order.place;
        }
        Ok(())
    }

    /// Hands on all orders that were not handed on before.
    pub fn heed_all(&mut self, fleet: &dyn Fleet) -> Result<(), StoreError> {
        let orders = fleet.orders(self.claim.token.job, self.orders)?;
        orders.iter().try_for_each(|order| self.heed(order))
    }

    /// Takes the first answer in that is one to the question and of somebody who may give it, as a
    /// person's word in this machine's own journal.
    fn take_answer(
        &self,
        question: &FleetQuestion,
        answers: &[PlacedAnswer],
        people: &[FleetPerson],
    ) -> Result<(), FleetJobError> {
        let taken = answers.iter().find_map(|placed| {
            let person = judge_answer(placed, &question.binding, people).ok()?;
            Some((person, &placed.answer))
        });
        let Some((name, answer)) = taken else { return Ok(()) };
        let (journal, incident) = (self.store.journal(), question.binding.incident);
        match speak(journal, incident, &Actor::Person { name }, person_word(answer)) {
            Err(PersonError::Store(error)) => Err(error.into()),
            // What it is about is no longer asked: it is asked again.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Returns what the fleet does not have yet of the history, of the question with which the job
    /// waits, and of the result once there is one.
    pub fn untold(&self, asker: &Asker) -> Result<Option<Untold>, FleetJobError> {
        let journal = self.store.journal();
        let last = journal.last_seq()?;
        if last == self.told {
            return Ok(None);
        }
        let (entries, claim) = (journal.read(0, &Stream::Jobs, usize::MAX)?, self.claim.token);
        let history = JobHistory { epoch: claim.epoch, orders: self.orders, entries };
        let question = FleetQuestion::asked(journal, claim, asker)?;
        let artifact = history.artifact();
        let events = events(&history, claim, self.told_entries, &artifact);
        let mut artifacts = vec![artifact, FleetQuestion::artifact(question.as_ref())];
        let result = JobFolder::of(&self.project, self.claim.token.job).result();
        if let Ok(bytes) = fs::read(result) {
            artifacts.push(JobArtifact { name: RESULT.to_owned(), bytes });
        }
        Ok(Some(Untold { artifacts, events, last }))
    }

    /// Takes in that the fleet has it.
    pub fn was_told(&mut self, untold: &Untold) {
        self.told = untold.last;
        self.told_entries = usize::try_from(untold.events.count).unwrap_or(usize::MAX);
    }

    /// Removes all that was made here for the claim.
    pub fn remove(self) {
        let folder = JobFolder::of(&self.project, self.claim.token.job);
        StepStore::forget(self.project.root(), folder.dir());
        drop(self.store);
        // What cannot be removed goes with the next claim of the job.
        let _: io::Result<()> = remove_tree(&self.home);
    }
}

/// What a fleet does not have yet.
#[derive(Clone, Debug)]
pub struct Untold {
    pub artifacts: Vec<JobArtifact>,
    /// What those who follow the job are told once the fleet has it.
    pub events: JobEvents,
    last: u64,
}

/// The most bytes of entries that are told at once; whoever wants more reads the history.
const MOST_TOLD: usize = 256 * 1024;

/// Returns what is told of a history from which so many entries are known.
fn events(
    history: &JobHistory,
    claim: ClaimToken,
    told: usize,
    artifact: &JobArtifact,
) -> JobEvents {
    let lines: Vec<String> = history.entries.iter().skip(told).map(to_line).collect();
    let is_short = lines.iter().map(String::len).sum::<usize>() <= MOST_TOLD;
    // Whoever follows reads the history of a new claim whole.
    let lines = if told > 0 && is_short { lines } else { Vec::new() };
    JobEvents {
        version: VERSION,
        job: claim.job,
        epoch: claim.epoch,
        after: told as u64,
        lines,
        count: history.entries.len() as u64,
        history: digest(&artifact.bytes).to_string(),
    }
}

fn job_of(store: &Store, id: JobId) -> Result<Job, FleetJobError> {
    let entries = store.journal().read(0, &Stream::Jobs, usize::MAX)?;
    Job::replay(id, &entries).ok_or(FleetJobError::NoStart)
}

/// Lets go of an incident in the name of a process that was killed before it could: it has lost the
/// job, which is all that is known of it here.
fn free(store: &Store, question: &FleetQuestion) -> Result<(), StoreError> {
    let incident = question.view.incident();
    let Some(owner) = incident.owner() else { return Ok(()) };
    let event = Event::Incident(IncidentEvent::Released {});
    let (at, by) = (incident.clock(), Actor::Salve(owner.clone()));
    store.journal().append(Draft { at, by, incident: Some(incident.id()), event })?;
    Ok(())
}

fn make(dir: &Path) -> Result<(), FleetJobError> {
    let failed = |source| FleetJobError::Directory { path: dir.to_path_buf(), source };
    make_directories(dir).map_err(failed)
}

/// Removes what earlier claims of a job left here; whoever still works there is fenced.
fn sweep(homes: &Path, id: JobId, prefix: &str) {
    let of_job = format!("{}.", id.short());
    for entry in fs::read_dir(homes).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(&of_job) {
            continue;
        }
        if let Ok(project) = Project::at(&entry.path().join("tree").join(prefix)) {
            StepStore::forget(project.root(), JobFolder::of(&project, id).dir());
        }
        // What cannot be removed is in nobody's way.
        let _: io::Result<()> = remove_tree(&entry.path());
    }
}

/// Makes a repository of the files from which a job starts, wherever they are.
pub(super) fn lay_start(
    home: &Path,
    tree: &Path,
    fleet: &dyn Fleet,
    job: JobId,
    start: &FleetStart,
) -> Result<(), FleetJobError> {
    match start {
        FleetStart::Bundle(file) => unpack(home, tree, &fleet.file(job, file)?),
        FleetStart::Remote(remote) => fleet_start::fetch(home, tree, remote),
    }
}

/// Makes a repository of a bundle.
fn unpack(home: &Path, tree: &Path, bundle: &[u8]) -> Result<(), FleetJobError> {
    let path = home.join("start.bundle");
    let failed = |source| FleetJobError::Directory { path: path.clone(), source };
    fs::write(&path, bundle).map_err(failed)?;
    let head = String::from_utf8_lossy(bundle.get(..256).unwrap_or(bundle)).into_owned();
    let is_sha256 = head.lines().any(|line| line == "@object-format=sha256");
    let format = if is_sha256 { "--object-format=sha256" } else { "--object-format=sha1" };
    let bundle = path.to_string_lossy().into_owned();
    let calls: [&[&str]; 3] = [
        &["init", "--quiet", format],
        &["fetch", "--quiet", "--no-tags", &bundle, "+refs/heads/start:refs/heads/start"],
        &["checkout", "--quiet", "start", "--"],
    ];
    for args in calls {
        let output = quiet_git(tree).args(args).output();
        let output = output.map_err(|error| FleetJobError::Git(error.to_string()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(FleetJobError::Git(said));
        }
    }
    Ok(())
}

/// Gives a fresh workspace the checkpoints of a job; each has to lead to the very tree that the
/// history says.
pub(super) fn take_in(
    of: &Job,
    folder: &JobFolder,
    workspace: &StepStore,
) -> Result<(), FleetJobError> {
    let known = of.checkpoints();
    if known.is_empty() {
        return Ok(());
    }
    let trees = workspace.take_in(&folder.checkpoints(known)?)?;
    let found = trees.iter().map(|tree| digest(tree.as_bytes()));
    let wanted: Vec<Digest> = known.iter().map(|checkpoint| checkpoint.tree).collect();
    if found.eq(wanted.iter().copied()) {
        return Ok(());
    }
    Err(FleetJobError::Checkpoint("its patches lead to other files".to_owned()))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use salve_core::event::JobOrder;
    use salve_core::scrub::Scrubbed;
    use uuid::Uuid;

    use super::*;

    fn entry(seq: u64, what: JobTurn) -> Entry {
        let by = Actor::Person { name: Scrubbed::literal("ann") };
        let event = JobEvent::Advanced { id: JobId(Uuid::from_u128(7)), what }.into();
        Entry { seq, at: Timestamp::UNIX_EPOCH, by, incident: None, event, seal: None }
    }

    /// **Invariant:** A job that is submitted names no place on a worker outside of its own files.
    #[test]
    fn what_came_with_a_job_leads_nowhere_else() {
        let start = FleetStart::Bundle(FleetFile { digest: "0".to_owned(), size: 0 });
        let read = |prefix: &str| {
            let payload = FleetPayload::new("{}".to_owned(), start.clone(), Path::new(prefix));
            FleetPayload::read(&payload.to_text())
        };
        assert!(read("").is_ok() && read("packages/web").is_ok());
        for prefix in ["..", "a/../..", "/etc", "./a/.."] {
            assert!(matches!(read(prefix), Err(FleetJobError::Outside(_))), "{prefix}");
        }
    }

    #[test]
    fn what_travels_is_read_back_whichever_way_the_files_go() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        let bundle = FleetStart::Bundle(FleetFile { digest: "0".to_owned(), size: 7 });
        let remote = GitRemote::new("https://example.com/a.git", commit).unwrap();
        for start in [bundle, FleetStart::Remote(remote)] {
            let payload = FleetPayload::new("{}".to_owned(), start, Path::new("web"));
            assert_eq!(FleetPayload::read(&payload.to_text()).unwrap(), payload);
        }
        // As Salve wrote it before it knew remotes.
        let before = r#"{"version":1,"spec":"{}","start":{"digest":"0","size":7},"prefix":""}"#;
        assert!(FleetPayload::read(before).is_ok());
        let newer = before.replace("\"version\":1", "\"version\":3");
        assert!(matches!(FleetPayload::read(&newer), Err(FleetJobError::Newer(3))));
    }

    #[test]
    fn a_history_is_read_back_as_it_was_and_its_orders_keep_their_answers() {
        let order = JobTurn::Ordered { order: JobOrder::RetryStep };
        let entries = vec![
            entry(3, JobTurn::Stopped {}),
            entry(8, order),
            entry(11, JobTurn::Honored { order: 8 }),
        ];
        let history = JobHistory { epoch: 2, orders: 5, entries };
        assert_eq!(JobHistory::read(&history.to_lines()).unwrap(), history);
        let drafts = history.drafts_from(1, &[]);
        let Event::Job(JobEvent::Advanced { what, .. }) = &drafts[2].event else { panic!() };
        assert_eq!(*what, JobTurn::Honored { order: 2 }, "the second entry of the new journal");
        assert!(JobHistory::read("{\"version\":9,\"orders\":0}").is_err());
    }
}
