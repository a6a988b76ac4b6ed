//! What a fleet can carry: three servers on this machine, everything on all three, and every answer
//! only once the disk has it.
//!
//! `cargo xtask bench fleet`. Celery on Redis is measured beside it where `SALVE_BENCH_CELERY` names
//! an interpreter that has it and `redis-server` is installed. `SALVE_BENCH_JOBS` says how many jobs
//! are queued at once (100,000 unless it does).

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a bench prints and may stop")]

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use salve::project::Project;
use salve::store::{ClaimStanding, FleetOrder, FleetTerms, Store};
use salve_core::event::JobOrder;
use salve_core::id::JobId;
use salve_core::job::{ClaimEnd, QueueState, RetryTerms};
use salve_core::scrub::Scrubbed;
use tempfile::TempDir;
use uuid::Uuid;

/// How long a claim counts.
const LEASE: Duration = Duration::from_secs(30);
/// How many jobs are claimed by one worker, and by many.
const ONE: usize = 400;
const MANY: usize = 4_000;
/// How many workers there are at once.
const WORKERS: usize = 32;
const CROWD: usize = 1_000;

type Bench = fn(&mut Cluster);

fn main() {
    // The runner of tests only wants to see that it starts.
    if std::env::args().any(|arg| arg == "--test" || arg == "--list") {
        return;
    }
    let Some(program) = nats_server() else {
        println!("fleet: skipped: there is no nats-server (cargo xtask bench fleet installs one)");
        return;
    };
    let chosen = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let benches: [(&str, Bench); 7] = [
        ("enqueue", enqueue),
        ("claim", claim),
        ("crowd", crowd),
        ("takeover", takeover),
        ("leader", leader),
        ("order", order),
        ("celery", celery),
    ];
    for (name, bench) in benches {
        if chosen.as_ref().is_none_or(|wanted| name.contains(wanted.as_str())) {
            bench(&mut Cluster::start(&program));
        }
    }
}

fn nats_server() -> Option<PathBuf> {
    let said = std::env::var_os("SALVE_NATS_SERVER").map(PathBuf::from);
    let exe = std::env::current_exe().ok();
    let target = exe.as_deref().and_then(|exe| exe.ancestors().nth(3));
    let installed = target.map(|target| target.join("nats-server/bin/nats-server"));
    said.into_iter().chain(installed).find(|path| path.is_file())
}

/// Three servers that are one cluster.
struct Cluster {
    program: PathBuf,
    ports: Vec<u16>,
    children: Vec<Option<Child>>,
    home: TempDir,
}

impl Cluster {
    fn start(program: &Path) -> Self {
        let held: Vec<TcpListener> =
            (0..6).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let ports = held.iter().map(|one| one.local_addr().unwrap().port()).collect();
        drop(held);
        let children = vec![None, None, None];
        let home = tempfile::tempdir().unwrap();
        let mut cluster = Self { program: program.to_owned(), ports, children, home };
        for number in 0..3 {
            cluster.run(number);
        }
        cluster
    }

    fn run(&mut self, number: usize) {
        let at = self.home.path().join(number.to_string());
        fs::create_dir_all(&at).unwrap();
        let (clients, routes) = self.ports.split_at(3);
        let all: Vec<String> =
            routes.iter().map(|port| format!("\"nats://127.0.0.1:{port}\"")).collect();
        let config = format!(
            "server_name: s{number}\nlisten: \"127.0.0.1:{}\"\n\
             jetstream {{ store_dir: \"{}/js\", sync_interval: always, max_file_store: 16G }}\n\
             cluster {{ name: bench, listen: \"127.0.0.1:{}\", routes: [{}] }}\n",
            clients[number],
            at.display(),
            routes[number],
            all.join(", ")
        );
        fs::write(at.join("server.conf"), config).unwrap();
        let mut command = Command::new(&self.program);
        command.arg("--config").arg(at.join("server.conf"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.children[number] = Some(command.spawn().unwrap());
    }

    fn kill(&mut self, number: usize) {
        if let Some(mut child) = self.children[number].take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Returns how the fleet is reached.
    fn way(&self) -> Way {
        let urls: Vec<String> =
            self.ports[..3].iter().map(|port| format!("nats://127.0.0.1:{port}")).collect();
        let terms = FleetTerms {
            url: urls.join(","),
            name: "bench".parse().unwrap(),
            credentials: None,
            requires_tls: false,
            tls_ca: None,
            replicas: 3,
            storage_mb: 8_192,
        };
        Way { home: self.home.path().to_owned(), terms }
    }
}

/// How a fleet is reached.
#[derive(Clone)]
struct Way {
    home: PathBuf,
    terms: FleetTerms,
}

impl Way {
    /// Joins the fleet with a connection of its own.
    fn join(&self) -> Store {
        let project = Project::at(&self.home).unwrap();
        let until = Instant::now() + Duration::from_secs(120);
        loop {
            match Store::open_in_fleet(&project, &self.terms) {
                Ok(store) => return store,
                // They choose a leader first.
                Err(error) => assert!(Instant::now() < until, "{error}"),
            }
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// Has so many hands do something until it is done so often, each with a connection of its own;
    /// returns how often a second, and how long they took to join.
    fn all(
        &self,
        hands: usize,
        times: usize,
        act: impl Fn(&Store) -> bool + Sync,
    ) -> (f64, Duration) {
        let (done, ready) = (AtomicUsize::new(0), Barrier::new(hands + 1));
        let begun = Instant::now();
        let (mut joined, mut since) = (Duration::ZERO, begun);
        thread::scope(|scope| {
            for _ in 0..hands {
                scope.spawn(|| {
                    let store = self.join();
                    ready.wait();
                    while done.load(Ordering::SeqCst) < times {
                        done.fetch_add(usize::from(act(&store)), Ordering::SeqCst);
                    }
                });
            }
            ready.wait();
            (joined, since) = (begun.elapsed(), Instant::now());
        });
        (done.load(Ordering::SeqCst) as f64 / since.elapsed().as_secs_f64(), joined)
    }

    /// Queues so many jobs; returns how many a second.
    fn fill(&self, jobs: usize, hands: usize) -> f64 {
        self.all(hands, jobs, submit).0
    }

    /// Claims and finishes so many jobs by so many workers.
    fn work(&self, jobs: usize, workers: usize) -> (f64, Duration) {
        self.all(workers, jobs, |store| {
            let Some(claim) = store.queue().claim(&worker(), LEASE).unwrap() else { return false };
            let end = store.queue().finish(claim.token, ClaimEnd::Done).unwrap();
            assert_eq!(end, ClaimStanding::Held);
            true
        })
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for number in 0..3 {
            self.kill(number);
        }
    }
}

fn terms() -> RetryTerms {
    RetryTerms { max_tries: 3, max_losses: 10, backoff_ms: 0 }
}

fn submit(store: &Store) -> bool {
    store.queue().submit(JobId(Uuid::now_v7()), "{}", terms()).unwrap();
    true
}

fn worker() -> Scrubbed {
    Scrubbed::literal("bench")
}

/// How many jobs a second are queued.
fn enqueue(cluster: &mut Cluster) {
    let way = cluster.way();
    let (one, many) = (way.fill(500, 1), way.fill(5_000, 64));
    let more = way.fill(20_000, 256);
    println!(
        "enqueue: {one:.0} a second by one, {many:.0} by 64, {more:.0} by 256 at once (aim 5,000)"
    );
}

/// How many jobs a second are claimed and finished.
fn claim(cluster: &mut Cluster) {
    let way = cluster.way();
    way.fill(ONE + MANY + 2 * WORKERS, 64);
    let (one, many) = (way.work(ONE, 1).0, way.work(MANY, WORKERS).0);
    println!(
        "claim: {one:.0} claims and finishes a second by one worker (aim 200), {many:.0} by \
         {WORKERS} (aim 1,000)"
    );
}

/// A thousand workers and a hundred thousand jobs.
fn crowd(cluster: &mut Cluster) {
    let way = cluster.way();
    let jobs = std::env::var("SALVE_BENCH_JOBS").ok().and_then(|text| text.parse().ok());
    let jobs: usize = jobs.unwrap_or(100_000);
    let filled = way.fill(jobs, 128);
    let since = Instant::now();
    let queued = way.join().queue().queued(Some(QueueState::Queued)).unwrap().len();
    assert!(queued >= jobs);
    println!(
        "crowd: {queued} jobs queued, {filled:.0} a second, listed in {:.1?}",
        since.elapsed()
    );
    let wanted = (jobs / 2).min(20_000);
    let (rate, joined) = way.work(wanted, CROWD);
    println!(
        "crowd: {CROWD} workers joined in {joined:.1?} and finished {wanted} of {queued} jobs, \
         {rate:.0} a second"
    );
}

/// How long a job whose worker has gone waits for another one.
fn takeover(cluster: &mut Cluster) {
    let lease = Duration::from_secs(3);
    let (one, other) = (cluster.way().join(), cluster.way().join());
    let mut worst = Duration::ZERO;
    for _ in 0..10 {
        submit(&one);
        let claim = loop {
            if let Some(claim) = one.queue().claim(&worker(), lease).unwrap() {
                break claim;
            }
        };
        let since = Instant::now();
        let heir = loop {
            if let Some(heir) = other.queue().claim(&worker(), lease).unwrap() {
                break heir;
            }
        };
        worst = worst.max(since.elapsed());
        assert_eq!(heir.token.job, claim.token.job);
        other.queue().finish(heir.token, ClaimEnd::Done).unwrap();
    }
    let more = worst.saturating_sub(lease);
    println!("takeover: at most the lease and {more:.2?} (10 times; aim 5 s)");
}

/// How long nobody gets a job when a server is killed.
fn leader(cluster: &mut Cluster) {
    let way = cluster.way();
    way.fill(20_000, 128);
    let (is_over, claims) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let mut kills = Vec::new();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let store = way.join();
                while !is_over.load(Ordering::SeqCst) {
                    // A claim of which nothing is heard comes again.
                    let Ok(Some(claim)) = store.queue().claim(&worker(), LEASE) else { continue };
                    claims.lock().unwrap().push(Instant::now());
                    let _late = store.queue().finish(claim.token, ClaimEnd::Done);
                }
            });
        }
        thread::sleep(Duration::from_secs(2));
        // One of them leads the records.
        for number in 0..3 {
            cluster.kill(number);
            kills.push(Instant::now());
            thread::sleep(Duration::from_secs(15));
            cluster.run(number);
            thread::sleep(Duration::from_secs(6));
        }
        is_over.store(true, Ordering::SeqCst);
    });
    let mut claims = claims.into_inner().unwrap();
    claims.sort();
    let gap = |from: &Instant| {
        let near = claims.windows(2).filter(|pair| pair[1] > *from);
        let near = near.take_while(|pair| pair[0] < *from + Duration::from_secs(15));
        near.map(|pair| pair[1] - pair[0]).max().unwrap_or(Duration::MAX)
    };
    let gaps: Vec<String> = kills.iter().map(|from| format!("{:.1?}", gap(from))).collect();
    println!(
        "leader: the longest times without a claim, as each of three servers was killed: {} (aim \
         10 s); {} claims",
        gaps.join(", "),
        claims.len()
    );
}

/// How soon a command is seen.
fn order(cluster: &mut Cluster) {
    let (one, other) = (cluster.way().join(), cluster.way().join());
    let heard = other.fleet().unwrap().hear_orders().unwrap();
    thread::sleep(Duration::from_secs(2));
    let job = JobId(Uuid::now_v7());
    let mut times: Vec<Duration> = (0..500)
        .map(|_| {
            let since = Instant::now();
            let order = FleetOrder {
                version: 1,
                job,
                order: JobOrder::RetryStep,
                by: worker(),
                at: Timestamp::now(),
            };
            one.fleet().unwrap().order(&order).unwrap();
            heard.recv_timeout(Duration::from_secs(10)).unwrap();
            since.elapsed()
        })
        .collect();
    times.sort();
    println!(
        "order: given and seen in {:.1?}, p99 {:.1?} (500 times; aim 100 ms)",
        times[times.len() / 2],
        times[times.len() * 99 / 100]
    );
}

/// Celery on Redis, which keeps what it acknowledges if it is told to, on one server.
fn celery(_cluster: &mut Cluster) {
    let Some(python) = std::env::var_os("SALVE_BENCH_CELERY") else {
        return println!("celery: skipped: SALVE_BENCH_CELERY names no interpreter that has it");
    };
    let home = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let mut redis = Command::new("redis-server");
    redis.args(["--port", &port, "--appendonly", "yes", "--appendfsync", "always", "--save", ""]);
    redis.arg("--dir").arg(home.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut redis) = redis.spawn() else {
        return println!("celery: skipped: there is no redis-server");
    };
    let script = home.path().join("bench.py");
    fs::write(&script, CELERY.replace("PORT", &port)).unwrap();
    let output = Command::new(&python).arg(&script).current_dir(home.path()).output();
    redis.kill().unwrap();
    redis.wait().unwrap();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if said.trim().is_empty() {
        println!("celery: failed: {}", String::from_utf8_lossy(&output.stderr));
    } else {
        print!("{said}");
    }
}

/// Queues jobs that do nothing, has them done by one worker and by 32, and asks how long it took.
const CELERY: &str = r#"
import os, signal, subprocess, sys, threading, time
from celery import Celery
import redis
url = "redis://127.0.0.1:PORT/0"
app = Celery("bench", broker=url)
app.conf.update(task_acks_late=True, worker_prefetch_multiplier=1, task_ignore_result=True)
store = redis.Redis.from_url(url)
@app.task
def nothing():
    store.incr("done")
if __name__ == "__main__" and len(sys.argv) == 1:
    for _ in range(100):
        try:
            store.ping(); break
        except Exception:
            time.sleep(0.1)
    def queue(jobs, hands):
        def hand():
            with app.producer_pool.acquire(block=True) as producer:
                for _ in range(jobs // hands):
                    nothing.apply_async(producer=producer)
        since = time.time()
        threads = [threading.Thread(target=hand) for _ in range(hands)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        return jobs / (time.time() - since)
    one, many = queue(1000, 1), queue(6400, 8)
    rates = []
    for workers, jobs in ((1, 1000), (32, 4000)):
        base = int(store.get("done") or 0)
        worker = subprocess.Popen([sys.executable, "-m", "celery", "-A", "bench", "worker", "-c", str(workers), "-l", "error", "--without-gossip", "--without-mingle"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while int(store.get("done") or 0) < base + 50: time.sleep(0.02)
        since, start = time.time(), int(store.get("done"))
        while int(store.get("done")) < start + jobs: time.sleep(0.02)
        rates.append((int(store.get("done")) - start) / (time.time() - since))
        worker.send_signal(signal.SIGTERM); worker.wait()
    print("celery: %.0f a second queued by one, %.0f by 8 threads; %.0f done a second by one worker, %.0f by 32 (one Redis, appendfsync always, acks late)" % (one, many, *rates))
"#;
