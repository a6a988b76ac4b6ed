//! `cargo xtask chaos fleet`: jobs of a fleet whose workers, servers, networks, disks and clocks fail,
//! one after the other and at the same time.
//!
//! Three servers keep everything, each on a disk of its own; every machine has a cable of its own.
//! Jobs of several steps are queued all the time. Each step writes its number into a file of the
//! job's own, so that the file tells which steps count, how often and in which order, whatever was
//! run in vain. Every write of a job's record goes through a gate that puts it down with what was
//! heard of it ([`gate`]). In the end every job has to be done, every file has to hold each number
//! once, and the history of all writes has to be one that a fleet which keeps its promises can have
//! ([`history`]).

mod gate;
mod history;
mod machine;
mod network;
mod servers;
mod story;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::chaos::{ChaosResult, Luck, built_with};
use crate::steps::{nats_server, say};
use gate::{FLEET, Gate, Point};
use history::History;
use machine::{Machine, Shift};
use network::Network;
use servers::{Broker, cut_power};

/// How many steps a job has.
const STEPS: usize = 3;

/// How many workers there are, and how many jobs each runs at once.
const WORKERS: usize = 5;

/// How many jobs are queued or run at any time, and how many hands submit them.
const JOBS: usize = 9;
const SUBMITTERS: usize = 3;

/// What every process of the soak is set to.
const SETTINGS: [&str; 5] = [
    "job.queue_lease_seconds=4",
    "job.queue_max_tries=50",
    "job.queue_backoff_seconds=1",
    "fleet.replicas=3",
    "fleet.storage_mb=1200",
];

/// How long all jobs may take once nobody disturbs them any more.
const LONG: Duration = Duration::from_secs(600);

/// What is done to a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    /// A worker is killed at a named point of its work.
    KilledAtPoint,
    /// A worker is killed at any instant.
    Killed,
    /// A worker is suspended, until after its claims have run out or before.
    Suspended,
    /// The cable of a worker is pulled.
    WorkerCut,
    /// A worker's disk is full.
    WorkerFull,
    /// A worker's clock is an hour off from its start on.
    ClockShifted,
    /// One server is killed, or two, or all.
    OneServer,
    TwoServers,
    AllServers,
    /// The cable of a server is pulled.
    ServerCut,
    /// A server's disk is full.
    ServerFull,
    /// The power of all servers is cut at once.
    PowerCut,
}

impl Fault {
    /// Chooses one; some are more frequent than others.
    fn any(luck: &mut Luck) -> Self {
        match luck.below(200) {
            0..84 => Self::KilledAtPoint,
            84..110 => Self::Killed,
            110..138 => Self::Suspended,
            138..154 => Self::WorkerCut,
            154..160 => Self::WorkerFull,
            160..174 => Self::OneServer,
            174..179 => Self::TwoServers,
            179..184 => Self::AllServers,
            184..192 => Self::ServerCut,
            192..195 => Self::ServerFull,
            195..197 => Self::PowerCut,
            _ => Self::ClockShifted,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::KilledAtPoint => "workers killed at a point of their work",
            Self::Killed => "workers killed at any instant",
            Self::Suspended => "workers suspended",
            Self::WorkerCut => "workers cut off",
            Self::WorkerFull => "workers' disks full",
            Self::ClockShifted => "workers started an hour off",
            Self::OneServer => "times one server killed",
            Self::TwoServers => "times two servers killed",
            Self::AllServers => "times all servers killed",
            Self::ServerCut => "servers cut off",
            Self::ServerFull => "servers' disks full",
            Self::PowerCut => "power cuts of all servers",
        }
    }
}

/// What is put right again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mend {
    Wake(usize),
    JoinWorker(usize),
    EmptyWorker(usize),
    StartServer(usize),
    JoinServer(usize),
    EmptyServer(usize),
}

/// Disturbs a fleet so many times.
pub(crate) fn fleet(faults: &str) -> ChaosResult {
    let faults: u32 = faults.parse().map_err(|_| format!("`{faults}` is no number"))?;
    let server = nats_server().ok_or("there is no nats-server, and none can be installed")?;
    let home = std::env::temp_dir().join(format!("salve-chaos-{}", std::process::id()));
    let salve = built_with(&home, &["--features", "fleet"])?;
    let result = FleetSoak::new(&salve, &server, &home).and_then(|mut soak| soak.run(faults));
    if result.is_ok() {
        fs::remove_dir_all(&home)?;
    }
    result
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whoever submits jobs, and asks for them again where that is needed.
#[derive(Clone)]
struct Person {
    salve: PathBuf,
    home: PathBuf,
    /// The way through the gate, and the one to the servers themselves.
    url: String,
    page_url: String,
    servers: Vec<SocketAddr>,
    history: Arc<Mutex<History>>,
    /// The runs that were acknowledged.
    submitted: Arc<Mutex<BTreeSet<String>>>,
    is_over: Arc<AtomicBool>,
}

impl Person {
    fn project(&self) -> PathBuf {
        self.home.join("project")
    }

    fn make_project(&self) -> ChaosResult {
        let project = self.project();
        fs::create_dir_all(&project)?;
        fs::write(project.join("log.txt"), "begin\n")?;
        // It works in small pieces, so that a fault falls between them.
        let step = |step: usize| {
            format!(
                "{{\"command\": \"echo {step} >> log.txt; for i in 1 2 3; do sleep 0.1; done\"}}"
            )
        };
        let steps: Vec<String> = (0..STEPS).map(step).collect();
        fs::write(project.join("job.json"), format!("{{\"steps\": [{}]}}", steps.join(", ")))?;
        for args in [&["init", "-q"][..], &["add", "-A"], &["commit", "-qm", "first"]] {
            let settings = ["-c", "user.name=a", "-c", "user.email=a@b"];
            Command::new("git").args(settings).args(args).current_dir(&project).status()?;
        }
        Ok(())
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.salve);
        machine::at_home(&mut command, &self.home.join("person"), &self.url);
        command.args(SETTINGS.iter().flat_map(|set| ["--set", set])).args(args);
        command.stdin(Stdio::null());
        command
    }

    /// Runs a command, again while the servers are away; returns what it printed.
    fn ask(&self, dir: &Path, args: &[&str]) -> Result<String, String> {
        let until = Instant::now() + LONG;
        loop {
            let output = self.command(args).current_dir(dir).output();
            let output = output.map_err(|error| error.to_string())?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            if output.status.success() {
                return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
            }
            if Instant::now() > until || !said.contains("fleet") {
                return Err(format!("{args:?}: {said}"));
            }
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    /// Returns the runs of which this is known, by how they stand.
    fn standing(&self) -> BTreeMap<String, String> {
        locked(&self.history).standing()
    }

    /// Submits jobs while there are not enough, and has those tried again that lost too many
    /// workers.
    fn submit(&self, number: usize) -> Result<(), String> {
        fs::create_dir_all(self.home.join("person")).map_err(|error| error.to_string())?;
        while !self.is_over.load(Ordering::SeqCst) {
            let standing = self.standing();
            let is_open = |state: &&String| !matches!(state.as_str(), "done" | "withdrawn");
            if standing.values().filter(is_open).count() < JOBS {
                let run = self.ask(&self.project(), &["submit", "job.json"])?;
                locked(&self.submitted).insert(run.trim().to_owned());
            } else {
                std::thread::sleep(Duration::from_millis(200));
            }
            if number == 0 {
                self.look_at_open();
                self.requeue_dead()?;
            }
        }
        Ok(())
    }

    /// Looks at the jobs that are not known to be done: what ended them may not have been heard.
    fn look_at_open(&self) {
        let standing = self.standing();
        for job in standing.iter().filter(|(_, state)| *state != "done").map(|(job, _)| job) {
            if let Some(Some((revision, record))) = self.look(job) {
                locked(&self.history).saw(job, revision, record);
            }
        }
    }

    /// Returns the record that the servers have of a job, with its revision; nothing at all where
    /// none of them answers.
    fn look(&self, job: &str) -> Option<Option<(u64, Value)>> {
        let subject = format!("$JS.API.STREAM.MSG.GET.KV_salve-{FLEET}-jobs");
        let wanted = format!("{{\"last_by_subj\":\"$KV.salve-{FLEET}-jobs.{job}\"}}");
        for server in &self.servers {
            let Some(said) = wire::ask(server, &subject, &wanted) else { continue };
            if said["error"]["err_code"] == 10_037 {
                return Some(None);
            }
            let message = &said["message"];
            if let (Some(seq), Some(data)) = (message["seq"].as_u64(), message["data"].as_str()) {
                let record = serde_json::from_slice(&BASE64_STANDARD.decode(data).ok()?).ok()?;
                return Some(Some((seq, record)));
            }
        }
        None
    }

    fn requeue_dead(&self) -> Result<(), String> {
        for (job, state) in self.standing() {
            if matches!(state.as_str(), "dead" | "waiting") {
                self.ask(&self.project(), &["jobs", "requeue", &job])?;
            }
        }
        Ok(())
    }
}

/// A fleet that is disturbed.
struct FleetSoak {
    person: Person,
    machines: Vec<Machine>,
    brokers: Vec<Broker>,
    sprung: Arc<Mutex<[u32; Point::ALL.len()]>>,
    luck: Luck,
    counts: BTreeMap<Fault, u32>,
    skipped: BTreeMap<Fault, u32>,
    to_mend: Vec<(Instant, Mend)>,
    /// Goes last: all that uses it has ended by then.
    network: Network,
}

impl FleetSoak {
    fn new(salve: &Path, server: &Path, home: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        let mut network = Network::make();
        if !network.is_own() {
            say("no network of its own can be made here: no cable is pulled");
        }
        let nets: Vec<_> = (0..3).map(|number| network.add(number)).collect::<Result<_, _>>()?;
        let mut brokers = Broker::three(server, home, &nets)?;
        if !brokers.iter().all(Broker::has_disk) {
            say(
                "no disk of its own can be made here: no power is cut, and no server's disk filled",
            );
        }
        for broker in &mut brokers {
            broker.start()?;
        }
        let servers: Vec<SocketAddr> =
            brokers.iter().map(Broker::address).collect::<Result<_, _>>()?;
        let history: Arc<Mutex<History>> = Arc::default();
        let sprung = Arc::default();
        let own = network.own_address();
        let gate = Gate::open(0, "127.0.0.1", &servers, &history, &sprung)?;
        let person = Person {
            salve: salve.to_path_buf(),
            home: home.to_path_buf(),
            url: format!("nats://{}", gate.address),
            page_url: servers.iter().map(|at| format!("nats://{at}")).collect::<Vec<_>>().join(","),
            servers: servers.clone(),
            history: Arc::clone(&history),
            submitted: Arc::default(),
            is_over: Arc::default(),
        };
        person.make_project()?;
        let mut machines = Vec::new();
        for number in 0..WORKERS {
            let gate = Gate::open(number + 1, &own, &servers, &history, &sprung)?;
            let net = network.add(number + 3)?;
            machines.push(Machine::new(&person, number, net, gate)?);
        }
        let (luck, counts, skipped) = (Luck::new(), BTreeMap::new(), BTreeMap::new());
        let to_mend = Vec::new();
        Ok(Self { person, machines, brokers, sprung, luck, counts, skipped, to_mend, network })
    }

    fn run(&mut self, faults: u32) -> ChaosResult {
        let since = Instant::now();
        // It makes the streams, too, before anything is disturbed.
        let net = self.network.add(WORKERS + 3)?;
        story::tell(&self.person, &mut self.machines, &net)?;
        let mut submitting = Vec::new();
        for number in 0..SUBMITTERS {
            let person = self.person.clone();
            submitting.push(std::thread::spawn(move || person.submit(number)));
        }
        let mut told = 0;
        while self.faults() < faults {
            let pause = 300 + self.luck.below(900);
            self.tend_for(Duration::from_millis(pause))?;
            self.disturb()?;
            if submitting.iter().any(std::thread::JoinHandle::is_finished) {
                break;
            }
            if self.faults() >= told + 25 {
                told = self.faults();
                self.tell_progress(told, since);
            }
        }
        self.person.is_over.store(true, Ordering::SeqCst);
        self.calm()?;
        for one in submitting {
            match one.join() {
                Ok(done) => done?,
                Err(_) => return Err("whoever submits has panicked".into()),
            }
        }
        self.settle()?;
        self.judge(since)
    }

    /// Returns how many faults there were.
    fn faults(&self) -> u32 {
        self.counts.values().sum::<u32>() + locked(&self.sprung).iter().sum::<u32>()
    }

    fn tell_progress(&self, faults: u32, since: Instant) {
        let standing = self.person.standing();
        let done = standing.values().filter(|state| *state == "done").count();
        let (all, seconds) = (standing.len(), since.elapsed().as_secs());
        say(&format!("{faults} faults in {seconds} s; {done} of {all} jobs are done"));
    }

    /// Puts right what is due, and starts what has died, for so long.
    fn tend_for(&mut self, long: Duration) -> ChaosResult {
        let until = Instant::now() + long;
        while Instant::now() < until {
            self.tend(Instant::now())?;
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn tend(&mut self, now: Instant) -> ChaosResult {
        let (due, later): (Vec<_>, Vec<_>) = self.to_mend.drain(..).partition(|(at, _)| *at <= now);
        self.to_mend = later;
        for (_, mend) in due {
            self.mend(mend)?;
        }
        for machine in &mut self.machines {
            if machine.has_ended()? {
                let shift = Shift::any(&mut self.luck);
                if shift != Shift::None {
                    *self.counts.entry(Fault::ClockShifted).or_default() += 1;
                }
                machine.start(shift)?;
            }
        }
        let is_expected = |number: usize, later: &[(Instant, Mend)]| {
            later.iter().any(|(_, mend)| {
                matches!(mend, Mend::StartServer(of) | Mend::EmptyServer(of) if *of == number)
            })
        };
        for number in 0..self.brokers.len() {
            if self.brokers[number].has_died() && !is_expected(number, &self.to_mend) {
                self.brokers[number].kill();
                self.brokers[number].start()?;
            }
        }
        Ok(())
    }

    fn mend(&mut self, mend: Mend) -> ChaosResult {
        match mend {
            Mend::Wake(number) => self.machines[number].wake(),
            Mend::JoinWorker(number) => self.machines[number].net.mend(),
            Mend::EmptyWorker(number) => self.machines[number].make_room(),
            Mend::StartServer(number) => self.brokers[number].start()?,
            Mend::JoinServer(number) => self.brokers[number].net.mend(),
            Mend::EmptyServer(number) => {
                // One whose disk was full keeps nothing before it starts again.
                self.brokers[number].make_room();
                self.brokers[number].kill();
                self.brokers[number].start()?;
            }
        }
        Ok(())
    }

    fn later(&mut self, least: u64, most: u64, mend: Mend) {
        let ms = least + self.luck.below(most - least);
        self.to_mend.push((Instant::now() + Duration::from_millis(ms), mend));
    }

    fn is_disturbed(&self, number: usize) -> bool {
        self.to_mend.iter().any(|(_, mend)| {
            matches!(mend, Mend::StartServer(_) | Mend::JoinServer(_) | Mend::EmptyServer(_))
                || *mend == Mend::EmptyWorker(number)
        })
    }

    /// Chooses what is done now, to this worker if it is done to one.
    fn choose(&mut self, number: usize) -> Fault {
        let mut fault = Fault::any(&mut self.luck);
        let is_servers = fault >= Fault::OneServer;
        // Of three servers one may be lost at a time, but for those faults that say more.
        if is_servers && self.is_disturbed(number) {
            fault = Fault::KilledAtPoint;
        }
        if !self.can(fault) {
            *self.skipped.entry(fault).or_default() += 1;
            fault = Fault::Killed;
        }
        // One who is told to die at a point may never come there.
        if fault != Fault::KilledAtPoint {
            *self.counts.entry(fault).or_default() += 1;
        }
        fault
    }

    fn disturb(&mut self) -> ChaosResult {
        let number = usize::try_from(self.luck.below(WORKERS as u64))?;
        let server = usize::try_from(self.luck.below(3))?;
        let fault = self.choose(number);
        match fault {
            Fault::KilledAtPoint => {
                let point = Point::ALL[usize::try_from(self.luck.below(8))?];
                self.machines[number].gate.set_trap(point);
            }
            Fault::Killed => self.machines[number].kill(),
            Fault::ClockShifted => {
                self.machines[number].kill();
                let shift = if self.luck.below(2) == 0 { Shift::Ahead } else { Shift::Behind };
                self.machines[number].start(shift)?;
            }
            Fault::Suspended => {
                let with_jobs = self.luck.below(2) == 0;
                self.machines[number].suspend(with_jobs);
                self.later(500, 9_000, Mend::Wake(number));
            }
            Fault::WorkerCut => {
                self.machines[number].net.cut();
                self.later(500, 9_000, Mend::JoinWorker(number));
            }
            Fault::WorkerFull => {
                self.machines[number].fill();
                self.later(1_000, 4_000, Mend::EmptyWorker(number));
            }
            Fault::OneServer | Fault::TwoServers | Fault::AllServers => {
                let count = fault as usize - Fault::OneServer as usize + 1;
                for of in (0..count).map(|of| (server + of) % 3) {
                    self.brokers[of].kill();
                    self.later(100, 3_000, Mend::StartServer(of));
                }
            }
            Fault::ServerCut => {
                self.brokers[server].net.cut();
                self.later(500, 9_000, Mend::JoinServer(server));
            }
            Fault::ServerFull => {
                self.brokers[server].fill();
                self.later(2_000, 6_000, Mend::EmptyServer(server));
            }
            Fault::PowerCut => {
                cut_power(&mut self.brokers)?;
                for of in 0..3 {
                    self.later(100, 1_000, Mend::StartServer(of));
                }
            }
        }
        Ok(())
    }

    /// Tells whether this machine lets us do it.
    fn can(&self, fault: Fault) -> bool {
        match fault {
            Fault::WorkerCut | Fault::ServerCut => self.network.is_own(),
            Fault::ServerFull | Fault::PowerCut => self.brokers.iter().all(Broker::has_disk),
            Fault::WorkerFull => self.machines.iter().all(Machine::has_disk),
            Fault::ClockShifted => Shift::library().is_some(),
            Fault::KilledAtPoint
            | Fault::Killed
            | Fault::Suspended
            | Fault::OneServer
            | Fault::TwoServers
            | Fault::AllServers => true,
        }
    }

    /// Puts everything right.
    fn calm(&mut self) -> ChaosResult {
        let far = Instant::now() + Duration::from_secs(3_600);
        self.tend(far)
    }

    /// Waits until every job is done.
    fn settle(&mut self) -> ChaosResult {
        let until = Instant::now() + LONG;
        loop {
            self.tend(Instant::now())?;
            self.person.look_at_open();
            let standing = self.person.standing();
            if standing.values().all(|state| state == "done") {
                return Ok(());
            }
            self.person.requeue_dead()?;
            if Instant::now() > until {
                let left: Vec<_> = standing.iter().filter(|(_, state)| *state != "done").collect();
                return Err(format!("not done: {left:?}").into());
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// Looks at the whole history, and at what every job made.
    fn judge(&mut self, since: Instant) -> ChaosResult {
        let mut found = BTreeMap::new();
        for job in self.person.standing().into_keys() {
            let until = Instant::now() + LONG;
            let seen = loop {
                match self.person.look(&job) {
                    Some(seen) => break seen,
                    None if Instant::now() > until => {
                        return Err(format!("no server says what it has of {job}").into());
                    }
                    None => std::thread::sleep(Duration::from_millis(500)),
                }
            };
            found.extend(seen.map(|record| (job, record)));
        }
        let submitted = locked(&self.person.submitted).clone();
        for run in &submitted {
            if !found.keys().any(|job| job.ends_with(run.as_str())) {
                return Err(format!("{run} was acknowledged, and is gone").into());
            }
        }
        let judged = locked(&self.person.history).judge(&found)?;
        let told: usize = self.machines.iter().map(Machine::zombies).sum();
        for job in found.keys() {
            self.judge_result(job)?;
        }
        let mut text = String::new();
        for (fault, count) in &self.counts {
            text.push_str(&format!("  {count} {}\n", fault.as_str()));
        }
        for (fault, count) in &self.skipped {
            text.push_str(&format!("  skipped here: {count} {}\n", fault.as_str()));
        }
        for (point, count) in Point::ALL.iter().zip(*locked(&self.sprung)) {
            text.push_str(&format!("  {count} killed at {point:?}\n"));
        }
        let faults = self.faults();
        let (jobs, seconds) = (found.len(), since.elapsed().as_secs());
        text.push_str(&format!(
            "{faults} faults over {jobs} jobs of {STEPS} steps in {seconds} s, {} of them \
             acknowledged: {} writes kept, {} refused, {} unheard; {} take-overs; {} writes of \
             workers that had lost their job refused, {told} jobs given up by them. Nothing \
             acknowledged is lost, each step counts once.\n",
            submitted.len(),
            judged.kept,
            judged.refused,
            judged.unheard,
            judged.takeovers,
            judged.fenced,
        ));
        io::stdout().write_all(text.as_bytes())?;
        Ok(())
    }

    /// Looks at what a job made: each step counts once.
    fn judge_result(&self, job: &str) -> ChaosResult {
        let dir = self.person.home.join("taken");
        if !dir.exists() {
            let cloned = Command::new("git")
                .args(["clone", "-q"])
                .arg(self.person.project())
                .arg(&dir)
                .status()?;
            if !cloned.success() {
                return Err("the project cannot be cloned".into());
            }
        }
        self.person.ask(&dir, &["jobs", "take", job])?;
        let found = fs::read_to_string(dir.join("log.txt"))?;
        let steps: Vec<String> = (0..STEPS).map(|step| format!("{step}\n")).collect();
        if found != format!("begin\n{}", steps.concat()) {
            return Err(format!("{job}: {found:?}").into());
        }
        let back = ["checkout", "-q", "--", "."];
        Command::new("git").args(back).current_dir(&dir).status()?;
        Ok(())
    }
}
