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
use salve_core::job::{ClaimEnd, Job, WorkEnd, claim_end};
use salve_core::scrub::Scrubbed;
use salve_core::steps::StepsStanding;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use uuid::Uuid;

use super::super::dev::locate;
use super::super::events::visible;
use super::super::{CliError, Exit, Output, foundation};
use super::run::{run_claimed, starter};
use super::wanted;
use crate::heal::right::{RunLock, RunRight};
use crate::heal::{millis, spawn_thread};
use crate::process::{keeper, strays};
use crate::project::Project;
use crate::store::{ClaimStanding, ClaimToken, Store, StoreError};

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
        return run_claimed(claim, out);
    }
    let project = locate(out)?;
    let config = super::super::config::in_force(out)?;
    let scrubber = foundation::scrubber(&config)?;
    starter(&scrubber)?;
    let me = crate::process::this(&scrubber);
    // What a process that is killed had started falls to us.
    let subreaper = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    subreaper.map_err(|error| CliError::failed("cannot keep processes").because(error))?;
    let mut worker = Worker {
        store: Store::open(&project)?,
        project,
        out,
        name: scrubber.scrub(&format!("process {} on {}", me.pid, me.host)),
        lease: Duration::from_secs(config.settings.job.queue_lease_seconds),
        slots: usize::from(args.jobs),
        running: Vec::new(),
        signals: listen()?,
        is_ending: false,
    };
    worker.work(args.until_empty)?;
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
    project: Project,
    out: &'o Output,
    name: Scrubbed,
    lease: Duration,
    slots: usize,
    running: Vec<RunningJob>,
    signals: Receiver<i32>,
    is_ending: bool,
}

/// A job that a process runs.
struct RunningJob {
    claim: ClaimToken,
    child: Child,
    /// When the claim was last known to count.
    held_at: Instant,
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
            self.look_after()?;
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
                Err(error) => return Err(error.into()),
            };
            let Some(claimed) = claimed else { return Ok(Asked::Empty) };
            self.start(claimed.token)?;
        }
        Ok(Asked::Full)
    }

    fn start(&mut self, claim: ClaimToken) -> Result<(), CliError> {
        let id = claim.job.short();
        let own = ["--claimed".into(), format!("{}:{}", claim.job.0, claim.epoch).into()];
        let args = std::env::args_os().skip(1).chain(own);
        let started = keeper::worker_command(args)
            .and_then(|mut command| command.stdin(Stdio::null()).spawn());
        match started {
            Ok(child) => {
                self.say(&format!("runs {id}"));
                self.running.push(RunningJob { claim, child, held_at: Instant::now() });
                Ok(())
            }
            Err(error) => {
                self.store.queue().finish(claim, ClaimEnd::Back)?;
                Err(CliError::failed(format!("cannot run the job {id}")).because(error))
            }
        }
    }

    /// Prolongs claims, and lets go of jobs whose processes have ended.
    fn look_after(&mut self) -> Result<(), CliError> {
        let mut running = std::mem::take(&mut self.running);
        running.retain_mut(|job| match job.child.try_wait() {
            Ok(None) => {
                self.hold(job);
                true
            }
            Ok(Some(status)) => {
                if let Err(error) = self.let_go(job, status) {
                    self.out.remark(format!("job {}: {error}", job.claim.job.short()));
                }
                false
            }
            Err(_) => false,
        });
        self.running = running;
        Ok(())
    }

    /// Prolongs a claim; a process whose claim counts no longer is ended.
    fn hold(&self, job: &mut RunningJob) {
        let since = job.held_at.elapsed();
        if since < self.lease / 3 {
            return;
        }
        let asked_at = Instant::now();
        match self.store.queue().heartbeat(job.claim, self.lease) {
            Ok(ClaimStanding::Held) => job.held_at = asked_at,
            Ok(ClaimStanding::Fenced) => self.give_up(job, "another worker took it over"),
            Err(_) if since < self.lease => {}
            Err(_) => self.give_up(job, "its claim could not be renewed"),
        }
    }

    fn give_up(&self, job: &mut RunningJob, why: &str) {
        self.say(&format!("gives {} up: {why}", job.claim.job.short()));
        // It has ended if it cannot be killed.
        let _ = job.child.kill();
    }

    /// Lets go of a job, as it stands by now.
    fn let_go(&self, job: &RunningJob, status: ExitStatus) -> Result<(), CliError> {
        let claim = job.claim;
        let how = match (status.signal(), status.code()) {
            (Some(_), _) => WorkEnd::Killed,
            (None, Some(128..)) => WorkEnd::Stopped,
            (None, _) => WorkEnd::Ended,
        };
        if how == WorkEnd::Killed {
            self.clear_away(claim);
        }
        let of = wanted(&self.store, &claim.job.0.simple().to_string())?;
        let end = if how == WorkEnd::Ended && is_run_elsewhere(&of, job.child.id()) {
            // Somebody resumed it by hand; it has not failed.
            ClaimEnd::Later(millis(self.lease))
        } else {
            claim_end(&of, how, Timestamp::now())
        };
        let told = end_in_words(&end);
        let standing = self.store.queue().finish(claim, end)?;
        if standing == ClaimStanding::Held {
            self.say(&format!("{} {told}", claim.job.short()));
        }
        Ok(())
    }

    /// Ends what a process that was killed had started.
    fn clear_away(&self, claim: ClaimToken) {
        let me = crate::process::this(&super::super::project::scrubber());
        let right = RunRight::Job(&claim.job.short());
        if let Ok(lock) = RunLock::take_for(&self.project, right, &me, Uuid::new_v4()) {
            if let Some(before) = lock.run_before() {
                strays::end(&[before], &[], STRAYS);
            }
            lock.give_back();
        }
    }

    fn send(&self, signal: Signal) {
        for job in &self.running {
            if let Some(pid) = i32::try_from(job.child.id()).ok().and_then(Pid::from_raw) {
                // It may have ended just now.
                let _ = kill_process(pid, signal);
            }
        }
    }

    fn say(&self, text: &str) {
        if !self.out.json() {
            self.out.remark(format!("worker: {text}"));
        }
    }
}
