//! The part of `salve worker` that belongs to a fleet: being seen, preparing jobs on this machine,
//! handing on orders, and telling the fleet what happens to the jobs.

use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use salve_core::scrub::Scrubbed;
use uuid::Uuid;

use super::super::{CliError, Output};
use super::answer_desk::{AnswerDesk, AskingTerms};
use super::fleet::fleet_of;
use super::worker::RunningJob;
use crate::config::Config;
use crate::dirs;
use crate::files::make_directories;
use crate::fleet_memory::FleetMemory;
use crate::heal::spawn_thread;
use crate::process::keeper;
use crate::project::Project;
use crate::store::{
    ClaimStanding, FleetTerms, JobClaim, JobSeen, PlacedOrder, Store, StoreError, WorkerSeen,
};
use crate::subjects::job::{Asker, FleetJobError, LocalRun};

/// How often a worker says that it is there.
const SEEN: Duration = Duration::from_secs(4);

/// How often a worker looks whether something was left undone.
const RECONCILED: Duration = Duration::from_secs(20);

/// How often a worker exchanges with the fleet what is known of remedies.
const EXCHANGED: Duration = Duration::from_secs(30);

/// How often the fleet is told what happened to a job.
const TOLD: Duration = Duration::from_millis(250);

/// How often the orders to a job are read again, should one have been missed.
const REREAD: Duration = Duration::from_secs(10);

/// The version of what a worker says of itself.
const VERSION: u32 = 1;

/// What belongs to a worker of a fleet.
pub(super) struct FleetSide {
    me: WorkerSeen,
    terms: FleetTerms,
    /// The settings of the command line, which hold for its jobs, too.
    set: Vec<String>,
    homes: PathBuf,
    orders: Receiver<PlacedOrder>,
    /// What people answer to the questions of jobs, and is to be judged.
    answers: AnswerDesk,
    seen_at: Option<Instant>,
    reconciled_at: Option<Instant>,
    told_at: Instant,
    reread_at: Instant,
    /// What the machines know of remedies, where that is used.
    memory: Option<FleetMemory>,
    exchanged_at: Option<Instant>,
}

/// A worker that joins a fleet, as it says of itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct JoiningWorker<'w> {
    pub(super) name: &'w Scrubbed,
    /// How many jobs it runs at most.
    pub(super) slots: usize,
    /// What it offers.
    pub(super) labels: &'w [String],
}

/// A job that is being prepared on a thread of its own.
pub(super) struct FleetPreparation {
    done: Receiver<Result<Box<LocalRun>, String>>,
}

impl FleetPreparation {
    /// Returns what came of it, once something has.
    pub(super) fn take(&mut self) -> Option<Result<Box<LocalRun>, String>> {
        match self.done.try_recv() {
            Ok(done) => Some(done),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err("it was not prepared".to_owned())),
        }
    }
}

impl FleetSide {
    /// Joins a fleet; no project is needed for it.
    pub(super) fn join(
        terms: FleetTerms,
        config: &Config,
        worker: JoiningWorker<'_>,
        out: &Output,
    ) -> Result<(Store, Self), CliError> {
        let JoiningWorker { name, slots, labels } = worker;
        let people = config.settings.fleet.people();
        let people =
            people.map_err(|error| CliError::usage("`fleet.people` is wrong").because(error))?;
        let state = dirs::state().ok_or_else(|| {
            CliError::failed("there is no place for the fleet's jobs").hint("set HOME")
        })?;
        let homes = state.join("fleet").join(terms.name.to_string());
        make_directories(&homes).map_err(|error| {
            CliError::failed(format!("cannot use {}", homes.display())).because(error)
        })?;
        let store = Store::open_in_fleet(&Project::at(&homes)?, &terms)?;
        let fleet = fleet_of(&store)?;
        fleet.offer(labels.to_vec());
        let orders = fleet.hear_orders()?;
        let id = Uuid::new_v4().simple().to_string();
        let asker = Asker { worker: name.clone(), id: id.clone(), expires_ms: 0 };
        let hours = config.settings.fleet.answer_hours;
        let answers = AnswerDesk::open(fleet, asker, people, hours)?;
        let me = WorkerSeen {
            version: VERSION,
            id,
            name: name.clone(),
            since: Timestamp::now(),
            labels: labels.to_vec(),
            slots,
            jobs: Vec::new(),
        };
        let set = out.global().set.iter().filter(|set| !set.starts_with("fleet.")).cloned();
        let (set, now) = (set.collect(), Instant::now());
        let (seen_at, reconciled_at) = (None, None);
        let side = Self {
            me,
            terms,
            set,
            homes,
            orders,
            answers,
            seen_at,
            reconciled_at,
            told_at: now,
            reread_at: now,
            memory: None,
            exchanged_at: None,
        };
        Ok((store, side))
    }

    /// Shares what is known of remedies, too, where the settings say so.
    pub(super) fn sharing(self, memory: Option<FleetMemory>) -> Self {
        Self { memory, ..self }
    }

    /// Says that this worker has left.
    pub(super) fn leave(&self, store: &Store) {
        // It would be forgotten soon.
        let _left = store.fleet().map(|fleet| fleet.leave(&self.me.id));
    }

    /// Begins to fetch what a job needs.
    pub(super) fn prepare(&self, claim: JobClaim) -> FleetPreparation {
        let (terms, homes) = (self.terms.clone(), self.homes.clone());
        let asker = self.answers.clone_terms();
        let (tell, done) = mpsc::channel();
        spawn_thread("preparation", move || {
            let made = prepare(claim, &homes, &terms, &asker).map(Box::new);
            // Whoever lost the job meanwhile does not ask for it.
            let _gone = tell.send(made.map_err(|error| in_words(&error)));
        });
        FleetPreparation { done }
    }

    /// Starts the process that runs a job which is prepared.
    pub(super) fn start(&self, local: &LocalRun) -> Result<Child, String> {
        let claim = local.claim().token;
        let mut args = vec!["worker".to_owned(), "--claimed".to_owned()];
        args.push(format!("{}:{}", claim.job.0, claim.epoch));
        args.extend(["--project".to_owned(), local.project.root().display().to_string()]);
        let FleetTerms { url, name, credentials, requires_tls, tls_ca, .. } = &self.terms;
        let mut set = self.set.clone();
        set.push(format!("fleet.url={url}"));
        set.push(format!("fleet.name={name}"));
        set.push(format!("fleet.tls={requires_tls}"));
        for (key, path) in [("credentials", credentials), ("tls_ca", tls_ca)] {
            set.extend(path.as_ref().map(|path| format!("fleet.{key}={}", path.display())));
        }
        args.extend(set.into_iter().flat_map(|set| ["--set".to_owned(), set]));
        let started = keeper::worker_command(args)
            .and_then(|mut command| command.stdin(Stdio::null()).spawn());
        started.map_err(|error| error.to_string())
    }

    /// Tells the fleet of this worker and of its jobs, and its jobs of orders. What fails now is done
    /// at the next look: whether a claim still counts is for its heartbeat to say.
    pub(super) fn look_after(&mut self, store: &Store, running: &mut [RunningJob]) {
        let Ok(fleet) = fleet_of(store) else { return };
        while let Ok(order) = self.orders.try_recv() {
            for local in running.iter_mut().filter_map(RunningJob::local) {
                let _later = local.heed(&order);
            }
        }
        if self.reread_at.elapsed() >= REREAD {
            self.reread_at = Instant::now();
            for local in running.iter_mut().filter_map(RunningJob::local) {
                let _later = local.heed_all(fleet);
            }
        }
        if self.told_at.elapsed() >= TOLD {
            self.told_at = Instant::now();
            for local in running.iter_mut().filter_map(RunningJob::local) {
                let _later = self.answers.tell(store, local);
            }
        }
        self.answers.look_after(store);
        let seen = |job: &RunningJob| JobSeen { job: job.claim.job, since: job.since };
        let jobs: Vec<JobSeen> = running.iter().map(seen).collect();
        if jobs != self.me.jobs || self.seen_at.is_none_or(|at| at.elapsed() >= SEEN) {
            self.me.jobs = jobs;
            self.seen_at = Some(Instant::now());
            let _later = fleet.be_seen(&self.me);
        }
        if self.exchanged_at.is_none_or(|at| at.elapsed() >= EXCHANGED) {
            self.exchanged_at = Some(Instant::now());
            if let Some(memory) = &self.memory {
                memory.sync_aside();
            }
        }
        if self.reconciled_at.is_none_or(|at| at.elapsed() >= RECONCILED) {
            self.reconciled_at = Some(Instant::now());
            let _later = fleet.reconcile();
        }
    }

    /// Tells the fleet what it does not know yet of a job.
    pub(super) fn tell(&self, store: &Store, local: &mut LocalRun) -> Result<(), FleetJobError> {
        self.answers.tell(store, local)
    }
}

fn prepare(
    claim: JobClaim,
    homes: &std::path::Path,
    terms: &FleetTerms,
    asking: &AskingTerms,
) -> Result<LocalRun, FleetJobError> {
    let store = Store::open_in_fleet(&Project::at(homes)?, terms)?;
    let fleet = store.fleet().ok_or(StoreError::Fleet(crate::store::FleetError::NotBuilt))?;
    let mut local = LocalRun::prepare(claim, homes, fleet, store.queue(), &asking.people)?;
    // An answer that was taken in is used up before anything is done about it.
    match asking.tell(&store, &mut local)? {
        ClaimStanding::Held => Ok(local),
        ClaimStanding::Fenced => {
            local.remove();
            Err(FleetJobError::Fenced)
        }
    }
}

fn in_words(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        words = format!("{words}: {cause}");
        source = cause.source();
    }
    words
}
