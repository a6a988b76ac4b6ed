//! `cargo xtask chaos fleet`: jobs of a fleet whose workers are killed and suspended, and whose server
//! is killed, at random instants.
//!
//! Jobs of several steps are queued all the time. Each step writes its number into a file of the job's
//! own, so that the file tells which steps count, how often and in which order, whatever was run in
//! vain. In the end every job has to be done, and every file has to hold each number once.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::chaos::{ChaosResult, Luck, built_with};
use crate::steps::nats_server;

/// How many steps a job has.
const STEPS: usize = 5;

/// How many workers there are.
const WORKERS: usize = 3;

/// How many jobs are queued or run at any time.
const JOBS: usize = 4;

/// How long a claim counts without a sign of its worker.
const LEASE: &str = "job.queue_lease_seconds=2";

/// How long all jobs may take once nobody disturbs them any more.
const LONG: Duration = Duration::from_secs(180);

/// What is done to a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// A worker is killed, and another one starts on the same machine.
    WorkerKilled,
    /// A worker is suspended until its claims have run out, and wakes up.
    WorkerSuspended,
    /// The server is killed, and starts again.
    ServerKilled,
}

/// Disturbs a fleet so many times.
pub(crate) fn fleet(faults: &str) -> ChaosResult {
    let faults: u32 = faults.parse().map_err(|_| format!("`{faults}` is no number"))?;
    let server = nats_server().ok_or("there is no nats-server, and none can be installed")?;
    let home = std::env::temp_dir().join(format!("salve-chaos-{}", std::process::id()));
    let salve = built_with(&home, &["--features", "fleet"])?;
    let result = disturb(&FleetBench::new(&salve, &server, &home)?, faults);
    if result.is_ok() {
        fs::remove_dir_all(&home)?;
    }
    result
}

fn disturb(bench: &FleetBench, faults: u32) -> ChaosResult {
    let mut luck = Luck::new();
    let mut server = bench.start_server()?;
    let mut workers = Vec::new();
    for number in 0..WORKERS {
        workers.push(bench.start_worker(number)?);
    }
    let (mut submitted, mut counts) = (BTreeSet::new(), [0_u32; 3]);
    let since = Instant::now();
    for _ in 0..faults {
        while submitted.len() < bench.done()?.len() + JOBS {
            submitted.insert(bench.submit()?);
        }
        std::thread::sleep(Duration::from_millis(200 + luck.below(1_200)));
        let number = usize::try_from(luck.below(WORKERS as u64))?;
        let fault = match luck.below(10) {
            0..6 => Fault::WorkerKilled,
            6..8 => Fault::WorkerSuspended,
            _ => Fault::ServerKilled,
        };
        match fault {
            Fault::WorkerKilled => {
                workers[number].end()?;
                workers[number] = bench.start_worker(number)?;
            }
            Fault::WorkerSuspended => {
                workers[number].signal("STOP")?;
                std::thread::sleep(Duration::from_millis(luck.below(5_000)));
                workers[number].signal("CONT")?;
            }
            Fault::ServerKilled => {
                server.end()?;
                std::thread::sleep(Duration::from_millis(luck.below(1_000)));
                server = bench.start_server()?;
            }
        }
        counts[fault as usize] += 1;
        for (number, worker) in workers.iter_mut().enumerate() {
            if worker.child.try_wait()?.is_some() {
                return Err(
                    format!("worker {number} ended by itself: {}", bench.said(number)).into()
                );
            }
        }
    }
    bench.settle(&submitted)?;
    for run in &submitted {
        bench.judge(run)?;
    }
    let (jobs, seconds) = (submitted.len(), since.elapsed().as_secs());
    let text = format!(
        "{} workers killed, {} suspended, {} servers killed over {jobs} jobs of {STEPS} steps in \
         {seconds} s: each step counts once\n",
        counts[0], counts[1], counts[2]
    );
    io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// A process that ends with the soak.
struct Ended {
    child: Child,
}

impl Ended {
    fn end(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    fn signal(&self, name: &str) -> ChaosResult {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args([&format!("-{name}"), &id]).status()?;
        if status.success() { Ok(()) } else { Err(format!("cannot send {name}").into()) }
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.end();
    }
}

/// A project, some machines, and a server between them.
struct FleetBench {
    salve: PathBuf,
    server: PathBuf,
    home: PathBuf,
    url: String,
}

impl FleetBench {
    fn new(salve: &Path, server: &Path, home: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        let project = home.join("project");
        fs::create_dir_all(&project)?;
        fs::write(project.join("log.txt"), "begin\n")?;
        // It works in small pieces, so that a fault falls between them.
        let step = |step: usize| {
            format!(
                "{{\"command\": \"echo {step} >> log.txt; for i in 1 2 3 4 5; do sleep 0.1; done\"}}"
            )
        };
        let steps: Vec<String> = (0..STEPS).map(step).collect();
        fs::write(project.join("job.json"), format!("{{\"steps\": [{}]}}", steps.join(", ")))?;
        for args in [&["init", "-q"][..], &["add", "-A"], &["commit", "-qm", "first"]] {
            let settings = ["-c", "user.name=a", "-c", "user.email=a@b"];
            Command::new("git").args(settings).args(args).current_dir(&project).status()?;
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let at = home.display();
        let config = format!(
            "listen: \"127.0.0.1:{port}\"\n\
             jetstream {{ store_dir: \"{at}/js\", sync_interval: always, max_file_store: 8G }}\n"
        );
        fs::write(home.join("server.conf"), config)?;
        Ok(Self {
            salve: salve.to_path_buf(),
            server: server.to_path_buf(),
            home: home.to_path_buf(),
            url: format!("nats://127.0.0.1:{port}"),
        })
    }

    fn start_server(&self) -> io::Result<Ended> {
        let mut command = Command::new(&self.server);
        command.arg("--config").arg(self.home.join("server.conf"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Ended { child: command.spawn()? })
    }

    /// Returns a command of Salve's with a home of its own.
    fn command(&self, home: &Path) -> io::Result<Command> {
        fs::create_dir_all(home)?;
        let mut command = Command::new(&self.salve);
        command.env("HOME", home).env("SALVE_USER", "chaos").env("SALVE_FLEET_URL", &self.url);
        for name in ["XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"] {
            command.env_remove(name);
        }
        command.stdin(Stdio::null());
        Ok(command)
    }

    fn log(&self, number: usize) -> PathBuf {
        self.home.join(format!("worker-{number}.log"))
    }

    fn said(&self, number: usize) -> String {
        fs::read_to_string(self.log(number)).unwrap_or_default()
    }

    fn start_worker(&self, number: usize) -> io::Result<Ended> {
        let log = fs::File::create(self.log(number))?;
        let place = self.home.join(format!("machine-{number}"));
        let mut command = self.command(&place)?;
        command.args(["--set", LEASE, "worker"]).current_dir(&place);
        command.stdout(log.try_clone()?).stderr(log);
        Ok(Ended { child: command.spawn()? })
    }

    /// Runs a command in the project, again while the server is away; returns what it printed.
    fn ask(&self, dir: &Path, args: &[&str]) -> Result<String, Box<dyn std::error::Error>> {
        let until = Instant::now() + LONG;
        loop {
            let mut command = self.command(&self.home.join("person"))?;
            let output = command.args(args).current_dir(dir).output()?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            if output.status.success() {
                return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
            }
            if Instant::now() > until || !said.contains("fleet") {
                return Err(format!("{args:?}: {said}").into());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn project(&self) -> PathBuf {
        self.home.join("project")
    }

    fn submit(&self) -> Result<String, Box<dyn std::error::Error>> {
        Ok(self.ask(&self.project(), &["submit", "job.json"])?.trim().to_owned())
    }

    /// Returns the runs that stand so.
    fn listed(&self, word: &str) -> Result<Vec<String>, Box<dyn std::error::Error>> {
        let listed = self.ask(&self.project(), &["jobs"])?;
        let words = listed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let is_meant = |words: &Vec<&str>| words.get(1) == Some(&word);
        Ok(words.filter(is_meant).map(|words| words[0].to_owned()).collect())
    }

    fn done(&self) -> Result<Vec<String>, Box<dyn std::error::Error>> {
        self.listed("completed")
    }

    /// Waits until every job is done; one that lost too many workers is queued again.
    fn settle(&self, submitted: &BTreeSet<String>) -> ChaosResult {
        let until = Instant::now() + LONG;
        loop {
            let done = self.done()?;
            if submitted.iter().all(|run| done.contains(run)) {
                return Ok(());
            }
            for run in self.listed("dead")? {
                self.ask(&self.project(), &["jobs", "requeue", &run])?;
            }
            if Instant::now() > until {
                let left = submitted.iter().find(|run| !done.contains(run));
                let run = left.map(String::as_str).unwrap_or_default();
                let shown = self.ask(&self.project(), &["show", run]).unwrap_or_default();
                return Err(format!("{run} is not done: {shown}").into());
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// Looks at what a job made: each step counts once.
    fn judge(&self, run: &str) -> ChaosResult {
        let dir = self.home.join(format!("taken-{run}"));
        let cloned =
            Command::new("git").args(["clone", "-q"]).arg(self.project()).arg(&dir).status()?;
        if !cloned.success() {
            return Err("the project cannot be cloned".into());
        }
        self.ask(&dir, &["jobs", "take", run])?;
        let found = fs::read_to_string(dir.join("log.txt"))?;
        let steps: Vec<String> = (0..STEPS).map(|step| format!("{step}\n")).collect();
        if found != format!("begin\n{}", steps.concat()) {
            return Err(format!("{run}: {found:?}").into());
        }
        fs::remove_dir_all(&dir)?;
        Ok(())
    }
}
