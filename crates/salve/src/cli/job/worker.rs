//! `salve worker`: runs the jobs of the queue, each in a process of its own.
//!
//! The worker claims jobs, prolongs its claims and lets go of them; it is the keeper of the processes
//! that run them. One that is killed takes those along, and its jobs are claimed by another worker
//! once their leases have run out.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process};
use salve_core::event::Process;
use salve_core::id::JobId;
use salve_core::job::{
    ClaimCare, ClaimEnd, Job, ProlongAnswer, WorkEnd, care_for_claim, claim_end, is_to_be_prolonged,
};
use salve_core::scrub::Scrubbed;
use salve_core::steps::StepsStanding;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use uuid::Uuid;

use super::super::dev::locate;
use super::super::events::visible;
use super::super::project::user_name;
use super::super::{CliError, Exit, Output, foundation};
use super::fleet::FleetArgs;
use super::fleet_worker::{FleetPreparation, FleetSide, JoiningWorker};
use super::run::{run_claimed, starter};
use super::wanted;
use crate::fleet_memory::FleetMemory;
use crate::heal::right::{RunLock, RunRight};
use crate::heal::{millis, spawn_thread};
use crate::process::{keeper, strays};
use crate::project::Project;
use crate::store::{ClaimStanding, ClaimToken, JobClaim, Store, StoreError};
use crate::subjects::job::LocalRun;

/// How often the processes are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// How often it is looked whether a job is free.
const CLAIM: Duration = Duration::from_millis(250);

/// How long what a killed process left may take to end by itself.
const STRAYS: Duration = Duration::from_millis(500);

/// Arguments of `salve worker`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 it was told to end, or with --until-empty no job is left that could \
    be run, 1 it could not go on, 2 usage or config."
)]
pub(in crate::cli) struct Args {
    /// Jobs to run at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// End when no job is left that could be run now
    #[arg(long)]
    until_empty: bool,
    #[command(flatten)]
    fleet: FleetArgs,
    /// What this worker offers to a fleet's jobs; may be given several times
    #[arg(long, value_name = "LABEL")]
    label: Vec<String>,
    /// Claim to run: the job and the number of the claim
    #[arg(long, value_name = "JOB:EPOCH", hide = true, value_parser = parse_claim)]
    claimed: Option<ClaimToken>,
}

fn parse_claim(text: &str) -> Result<ClaimToken, String> {
    let parse = || {
        let (job, epoch) = text.split_once(':')?;
        Some(ClaimToken { job: JobId(job.parse().ok()?), epoch: epoch.parse().ok()? })
    };
    parse().ok_or_else(|| "a claim is JOB:EPOCH".to_owned())
}

/// Works until it is told to end.
pub(in crate::cli) fn run(args: &Args, out: &Output) -> Result<ExitCode, CliError> {
    if let Some(claim) = args.claimed {
        return run_claimed(claim, &args.fleet, out);
    }
    let config = super::super::config::in_force(out)?;
    let scrubber = foundation::scrubber(&config)?;
    starter(&scrubber)?;
    let me = crate::process::this(&scrubber);
    // What a process that is killed had started falls to us.
    let subreaper = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    subreaper.map_err(|error| CliError::failed("cannot keep processes").because(error))?;
    let (name, slots) =
        (scrubber.scrub(&format!("process {} on {}", me.pid, me.host)), usize::from(args.jobs));
    let joining = JoiningWorker { name: &name, slots, labels: &args.label };
    let (store, fleet) = match args.fleet.terms(&config)? {
        Some(terms) => {
            let memory =
                FleetMemory::in_fleet(&config.settings, terms.clone(), &user_name(), &scrubber);
            let (store, side) = FleetSide::join(terms, &config, joining, out)?;
            (store, Some(side.sharing(memory)))
        }
        None => (Store::open(&locate(out)?)?, None),
    };
    let mut worker = Worker {
        store,
        fleet,
        out,
        name,
        lease: Duration::from_secs(config.settings.job.queue_lease_seconds),
        slots,
        running: Vec::new(),
        signals: listen()?,
        is_ending: false,
    };
    worker.work(args.until_empty)?;
    if let Some(fleet) = &worker.fleet {
        fleet.leave(&worker.store);
    }
    Ok(Exit::Well.into())
}

/// Returns what becomes of a job that a worker lets go of.
fn end_in_words(end: &ClaimEnd) -> String {
    match end {
        ClaimEnd::Done => "is done".to_owned(),
        ClaimEnd::Retry(reason) => {
            format!("failed and may be tried again: {}", visible(reason.head(200).as_str()))
        }
        ClaimEnd::Dead(_) => "failed for good: salve jobs dead".to_owned(),
        ClaimEnd::Waiting(_) => "waits for you: salve show RUN".to_owned(),
        ClaimEnd::Later(ms) => format!("goes on by itself in {} s", ms.div_ceil(1_000)),
        ClaimEnd::Back => "is given back to the queue".to_owned(),
        ClaimEnd::Lost => "lost its process and goes back to the queue".to_owned(),
        ClaimEnd::Withdrawn => "was called off".to_owned(),
    }
}

/// Tells whether another process of this machine than the worker's own runs a job; of one elsewhere
/// nobody knows whether it is still there.
fn is_run_elsewhere(of: &Job, ours: u32) -> bool {
    let scrubber = super::super::project::scrubber();
    let here = crate::process::this(&scrubber).host;
    let is_other =
        |by: &Process| by.host == here && by.pid != ours && !crate::process::is_gone(by, &scrubber);
    *of.standing() == StepsStanding::Running && of.stamps().driver().is_some_and(is_other)
}

fn listen() -> Result<Receiver<i32>, CliError> {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|error| CliError::failed("cannot listen for signals").because(error))?;
    let (tell, hear) = mpsc::channel();
    spawn_thread("signals", move || {
        for signal in signals.forever() {
            if tell.send(signal).is_err() {
                return;
            }
        }
    });
    Ok(hear)
}

/// A worker, and the jobs that it runs.
struct Worker<'o> {
    store: Store,
    /// What belongs to a worker of a fleet.
    fleet: Option<FleetSide>,
    out: &'o Output,
    name: Scrubbed,
    lease: Duration,
    slots: usize,
    running: Vec<RunningJob>,
    signals: Receiver<i32>,
    is_ending: bool,
}

/// A job that this worker has.
pub(super) struct RunningJob {
    pub(super) claim: ClaimToken,
    work: JobWork,
    /// When the claim was last known to count.
    held_at: Instant,
    /// When this worker got it.
    pub(super) since: Timestamp,
}

/// How far a job is.
enum JobWork {
    /// Its files are being fetched from the fleet.
    Preparing(FleetPreparation),
    /// A process runs it.
    Running { child: Child, local: Option<Box<LocalRun>> },
    /// It could not be prepared.
    Failed(Scrubbed),
}

/// What a look at a job found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Looked {
    /// It goes on.
    GoesOn,
    /// It has ended, and this is how.
    Ended(Option<ExitStatus>),
}

impl RunningJob {
    /// Returns what a fleet's job has on this machine, once it is there.
    pub(super) fn local(&mut self) -> Option<&mut LocalRun> {
        match &mut self.work {
            JobWork::Running { local, .. } => local.as_deref_mut(),
            JobWork::Preparing(_) | JobWork::Failed(_) => None,
        }
    }

    fn pid(&self) -> Option<Pid> {
        match &self.work {
            JobWork::Running { child, .. } => {
                i32::try_from(child.id()).ok().and_then(Pid::from_raw)
            }
            JobWork::Preparing(_) | JobWork::Failed(_) => None,
        }
    }
}

/// What came of asking for jobs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// All slots are taken.
    Full,
    /// There was no free job.
    Empty,
}

impl Worker<'_> {
    fn work(&mut self, until_empty: bool) -> Result<(), CliError> {
        self.say(&format!("waits for jobs, at most {} at once", self.slots));
        let mut ask_at = Instant::now();
        loop {
            self.look_after();
            if let Some(fleet) = &mut self.fleet {
                fleet.look_after(&self.store, &mut self.running);
            }
            if self.is_ending && self.running.is_empty() {
                return Ok(());
            }
            if !self.is_ending && self.running.len() < self.slots && Instant::now() >= ask_at {
                let asked = self.ask()?;
                if asked == Asked::Empty && until_empty && self.running.is_empty() {
                    return Ok(());
                }
                ask_at = Instant::now() + CLAIM;
            }
            match self.signals.recv_timeout(LOOK) {
                Ok(_) if self.is_ending => self.send(Signal::KILL),
                Ok(_) => {
                    self.is_ending = true;
                    self.send(Signal::TERM);
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
        }
    }

    /// Claims jobs while there are free slots.
    fn ask(&mut self) -> Result<Asked, CliError> {
        while self.running.len() < self.slots {
            let claimed = match self.store.queue().claim(&self.name, self.lease) {
                Ok(claimed) => claimed,
                // Another one has it just now; it is asked again in a moment.
                Err(StoreError::Locked { .. }) => return Ok(Asked::Full),
                Err(StoreError::Fleet(error)) if error.is_transient() => {
                    self.say(&format!("waits for the fleet: {error}"));
                    return Ok(Asked::Full);
                }
                Err(error) => return Err(error.into()),
            };
            let Some(claimed) = claimed else { return Ok(Asked::Empty) };
            self.start(claimed)?;
        }
        Ok(Asked::Full)
    }

    fn start(&mut self, claim: JobClaim) -> Result<(), CliError> {
        let token = claim.token;
        let work = match &self.fleet {
            Some(fleet) => JobWork::Preparing(fleet.prepare(claim)),
            None => {
                let own = ["--claimed".into(), format!("{}:{}", token.job.0, token.epoch).into()];
                let args = std::env::args_os().skip(1).chain(own);
                let started = keeper::worker_command(args)
                    .and_then(|mut command| command.stdin(Stdio::null()).spawn());
                match started {
                    Ok(child) => JobWork::Running { child, local: None },
                    Err(error) => {
                        self.store.queue().finish(token, ClaimEnd::Back)?;
                        let id = token.job.short();
                        return Err(
                            CliError::failed(format!("cannot run the job {id}")).because(error)
                        );
                    }
                }
            }
        };
        self.say(&format!("runs {}", token.job.short()));
        let (held_at, since) = (Instant::now(), Timestamp::now());
        self.running.push(RunningJob { claim: token, work, held_at, since });
        Ok(())
    }

    /// Prolongs claims, and lets go of jobs whose processes have ended.
    fn look_after(&mut self) {
        for mut job in std::mem::take(&mut self.running) {
            match self.look_at(&mut job) {
                Looked::GoesOn => {
                    self.hold(&mut job);
                    self.running.push(job);
                }
                Looked::Ended(status) => {
                    let id = job.claim.job.short();
                    if let Err(error) = self.let_go(job, status) {
                        self.out.remark(format!("job {id}: {error}"));
                    }
                }
            }
        }
    }

    /// Starts a job whose files are there.
    fn begin(&self, prepared: Result<Box<LocalRun>, String>) -> Result<JobWork, String> {
        let local = prepared?;
        let fleet = self.fleet.as_ref().ok_or("this worker is of no fleet")?;
        match fleet.start(&local) {
            Ok(child) => Ok(JobWork::Running { child, local: Some(local) }),
            Err(why) => {
                local.remove();
                Err(why)
            }
        }
    }

    /// Looks at a job; one whose files are there is started.
    fn look_at(&self, job: &mut RunningJob) -> Looked {
        match &mut job.work {
            JobWork::Preparing(preparation) => {
                let Some(prepared) = preparation.take() else { return Looked::GoesOn };
                job.work = self.begin(prepared).unwrap_or_else(|why| {
                    self.say(&format!("cannot prepare {}: {why}", job.claim.job.short()));
                    JobWork::Failed(super::super::project::scrubber().scrub(&why))
                });
                Looked::GoesOn
            }
            JobWork::Running { child, .. } => match child.try_wait() {
                Ok(None) => Looked::GoesOn,
                Ok(Some(status)) => Looked::Ended(Some(status)),
                Err(_) => Looked::Ended(None),
            },
            JobWork::Failed(_) => Looked::Ended(None),
        }
    }

    /// Prolongs a claim; a process whose claim counts no longer is ended.
    fn hold(&self, job: &mut RunningJob) {
        let (since, lease) = (millis(job.held_at.elapsed()), millis(self.lease));
        if !is_to_be_prolonged(since, lease) {
            return;
        }
        let asked_at = Instant::now();
        let answer = match self.store.queue().heartbeat(job.claim, self.lease) {
            Ok(ClaimStanding::Held) => ProlongAnswer::Held,
            Ok(ClaimStanding::Fenced) => ProlongAnswer::Fenced,
            Err(_) => ProlongAnswer::Nothing,
        };
        match care_for_claim(answer, since, lease) {
            ClaimCare::Keep => {}
            ClaimCare::Renew => job.held_at = asked_at,
            ClaimCare::Fenced => self.give_up(job, "another worker took it over"),
            ClaimCare::Expired => self.give_up(job, "its claim could not be renewed"),
        }
    }

    fn give_up(&self, job: &mut RunningJob, why: &str) {
        self.say(&format!("gives {} up: {why}", job.claim.job.short()));
        match &mut job.work {
            // It has ended if it cannot be killed.
            JobWork::Running { child, .. } => drop(child.kill()),
            // What was made for it is removed by the next claim of it.
            JobWork::Preparing(_) => job.work = JobWork::Failed(Scrubbed::literal("it was lost")),
            JobWork::Failed(_) => {}
        }
    }

    /// Lets go of a job, as it stands by now.
    fn let_go(&self, mut job: RunningJob, status: Option<ExitStatus>) -> Result<(), CliError> {
        let claim = job.claim;
        let end = match (&mut job.work, status) {
            (JobWork::Failed(why), _) => ClaimEnd::Retry(why.clone()),
            (JobWork::Preparing(_), _) | (_, None) => ClaimEnd::Back,
            (JobWork::Running { local, child }, Some(status)) => {
                let how = work_end(status);
                let project = local.as_ref().map_or(self.store.project(), |local| &local.project);
                if how == WorkEnd::Killed {
                    clear_away(project, claim);
                }
                let of = match (local.as_deref_mut(), &self.fleet) {
                    (Some(local), Some(fleet)) => {
                        fleet.tell(&self.store, local)?;
                        local.job()?
                    }
                    (Some(_), None) | (None, _) => {
                        wanted(&self.store, &claim.job.0.simple().to_string())?
                    }
                };
                if how == WorkEnd::Ended && is_run_elsewhere(&of, child.id()) {
                    // Somebody resumed it by hand; it has not failed.
                    ClaimEnd::Later(millis(self.lease))
                } else {
                    claim_end(&of, how, Timestamp::now())
                }
            }
        };
        let told = end_in_words(&end);
        let standing = self.store.queue().finish(claim, end)?;
        match standing {
            ClaimStanding::Held => self.say(&format!("{} {told}", claim.job.short())),
            ClaimStanding::Fenced => {
                self.say(&format!("another worker has {} by now", claim.job.short()));
            }
        }
        if let JobWork::Running { local: Some(local), .. } = job.work {
            local.remove();
        }
        Ok(())
    }

    fn send(&self, signal: Signal) {
        for pid in self.running.iter().filter_map(RunningJob::pid) {
            // It may have ended just now.
            let _ = kill_process(pid, signal);
        }
    }

    fn say(&self, text: &str) {
        if !self.out.json() {
            self.out.remark(format!("worker: {text}"));
        }
    }
}

/// Returns how the process of a job ended.
fn work_end(status: ExitStatus) -> WorkEnd {
    match (status.signal(), status.code()) {
        (Some(_), _) => WorkEnd::Killed,
        (None, Some(128..)) => WorkEnd::Stopped,
        (None, _) => WorkEnd::Ended,
    }
}

/// Ends what a process that was killed had started.
fn clear_away(project: &Project, claim: ClaimToken) {
    let me = crate::process::this(&super::super::project::scrubber());
    let right = RunRight::Job(&claim.job.short());
    if let Ok(lock) = RunLock::take_for(project, right, &me, Uuid::new_v4()) {
        if let Some(before) = lock.run_before() {
            strays::end(&[before], &[], STRAYS);
        }
        lock.give_back();
    }
}
