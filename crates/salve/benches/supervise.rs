//! How fast a crashed server runs again, how fast its output passes, and what Salve needs itself.
//!
//! Everything is measured beside its limit in the same run: respawning beside a loop that only
//! starts and waits, output beside a loop that only splices a pipe into a file. pm2 and
//! supervisord are measured the same way where they are installed.

#![expect(clippy::print_stdout, reason = "a benchmark reports on stdout")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot set its stage should stop")]

use std::fs::{self, File, OpenOptions};
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How many restarts are measured.
const RESTARTS: usize = 90;
/// How many bytes a server writes.
const FLOOD: u64 = 500_000_000;
/// How long after its servers are up a salve has settled.
const SETTLED: Duration = Duration::from_secs(10);
/// How long an idle salve is watched.
const IDLE: Duration = Duration::from_secs(5);

fn main() {
    let stage = Stage::new();
    respawns(&stage);
    floods(&stage);
    memory(&stage);
}

/// A place of our own, with a FIFO that servers ring.
struct Stage {
    root: tempfile::TempDir,
}

impl Stage {
    fn new() -> Self {
        let stage = Self { root: tempfile::tempdir().unwrap() };
        fs::create_dir(stage.path("home")).unwrap();
        for project in ["crashing", "flooding", "idle"] {
            fs::create_dir(stage.path(project)).unwrap();
        }
        let made = Command::new("mkfifo").arg(stage.path("bell")).status().unwrap();
        assert!(made.success());
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Returns a script that rings and fails.
    fn crashing(&self) -> String {
        format!("echo >{}; exit 1", self.path("bell").display())
    }

    fn salve(&self, project: &str, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_salve"));
        command.args(args).current_dir(self.path(project)).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.path("home")).env("NO_COLOR", "1");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Returns the time between two rings, in the middle and almost at worst.
    fn rings(&self, mut start: impl FnMut()) -> (Duration, Duration) {
        // Open for both, so that it never ends and nobody waits for the other side.
        let mut bell = OpenOptions::new().read(true).write(true).open(self.path("bell")).unwrap();
        start();
        let mut times = Vec::new();
        let mut last = None;
        while times.len() < RESTARTS {
            bell.read_exact(&mut [0]).unwrap();
            let now = Instant::now();
            times.extend(last.map(|last| now - last));
            last = Some(now);
        }
        times.sort_unstable();
        (times[RESTARTS / 2], times[RESTARTS * 95 / 100])
    }
}

/// Measures how soon a crashed server rings again.
fn respawns(stage: &Stage) {
    println!(
        "crash to the next crash of `sh -c 'echo >fifo; exit 1'`, median and p95 of {RESTARTS}"
    );
    let bare = {
        let script = stage.crashing();
        let (median, p95) = stage.rings(|| {
            std::thread::spawn({
                let script = script.clone();
                move || {
                    for _ in 0..=RESTARTS {
                        Command::new("sh").args(["-c", &script]).status().unwrap();
                    }
                }
            });
        });
        tell("spawn and wait alone", median, p95, median);
        median
    };
    let mut running: Option<Child> = None;
    let (median, p95) = stage.rings(|| {
        let mut salve = stage.salve("crashing", &["dev", "--", "sh", "-c", &stage.crashing()]);
        salve.env("REPAIR_BASE_DELAY_MS", "0").env("REPAIR_MAX_ATTEMPTS", "100");
        running = Some(salve.spawn().unwrap());
    });
    running.into_iter().for_each(end);
    tell("salve dev", median, p95, bare);
    let ratio = median.as_secs_f64() / bare.as_secs_f64();
    println!(
        "{:<34} {ratio:>6.2} x, limit 2 x{}",
        "salve dev over the bare loop",
        missed(ratio < 2.0)
    );
    if let Some((median, p95)) = supervisord(stage) {
        tell("supervisord", median, p95, bare);
    }
    if let Some((median, p95)) = pm2(stage) {
        tell("pm2", median, p95, bare);
    }
}

fn tell(name: &str, median: Duration, p95: Duration, bare: Duration) {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let over = median.saturating_sub(bare);
    println!("{name:<34} {:>6.2} ms {:>6.2} ms, {:>6.2} ms over", ms(median), ms(p95), ms(over));
}

fn missed(holds: bool) -> &'static str {
    if holds { "" } else { "  MISSED" }
}

/// Ends a process of ours, and waits for it.
fn end(mut child: Child) {
    let pid = child.id().to_string();
    let _ = Command::new("kill").args(["-TERM", &pid]).status();
    child.wait().unwrap();
}

fn installed(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|dir| dir.join(program).is_file())
}

fn supervisord(stage: &Stage) -> Option<(Duration, Duration)> {
    if !installed("supervisord") {
        return None;
    }
    let script = stage.path("crash.sh");
    fs::write(&script, stage.crashing()).unwrap();
    let settings = format!(
        "[supervisord]\nnodaemon=true\nlogfile=/dev/null\nlogfile_maxbytes=0\npidfile={}\n\
         [program:web]\ncommand=sh {}\nautorestart=true\nstartsecs=0\nstartretries=100000\n",
        stage.path("supervisord.pid").display(),
        script.display(),
    );
    fs::write(stage.path("supervisord.conf"), settings).unwrap();
    let mut running = None;
    let times = stage.rings(|| {
        let mut command = Command::new("supervisord");
        command.arg("-c").arg(stage.path("supervisord.conf"));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        running = Some(command.spawn().unwrap());
    });
    running.into_iter().for_each(end);
    Some(times)
}

fn pm2(stage: &Stage) -> Option<(Duration, Duration)> {
    if !installed("pm2") {
        return None;
    }
    let script = stage.path("crash.sh");
    fs::write(&script, stage.crashing()).unwrap();
    let pm2 = |args: &[&str]| {
        let mut command = Command::new("pm2");
        command.args(args).env("PM2_HOME", stage.path("pm2")).env("HOME", stage.path("home"));
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    };
    let times = stage.rings(|| {
        pm2(&[
            "start",
            &script.display().to_string(),
            "--interpreter",
            "sh",
            "--max-restarts",
            "100000",
        ]);
    });
    pm2(&["kill"]);
    Some(times)
}

/// Measures how fast output passes into a file.
fn floods(stage: &Stage) {
    let line = "x".repeat(99);
    let lines = FLOOD / 100;
    let script = format!("yes {line} | head -n {lines}");
    let spliced = {
        let (reader, writer) = std::io::pipe().unwrap();
        let file = File::create(stage.path("spliced")).unwrap();
        let start = Instant::now();
        let mut child = Command::new("sh").args(["-c", &script]).stdout(writer).spawn().unwrap();
        splice(&OwnedFd::from(reader), &file);
        child.wait().unwrap();
        start.elapsed()
    };
    let mut salve = stage.salve("flooding", &["dev", "--", "sh", "-c", &script]);
    salve.stdout(File::create(stage.path("passed")).unwrap());
    let start = Instant::now();
    let mut salve = salve.spawn().unwrap();
    let mut most = 0;
    let status = loop {
        most = most.max(of_tree(salve.id(), "Rss:"));
        match salve.try_wait().unwrap() {
            Some(status) => break status,
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let passed = start.elapsed();
    assert!(status.success());
    let size = |name| fs::metadata(stage.path(name)).unwrap().len();
    assert_eq!((size("spliced"), size("passed")), (FLOOD, FLOOD));
    let ratio = passed.as_secs_f64() / spliced.as_secs_f64();
    println!("500 MB of 100-byte lines into a file");
    println!("{:<34} {:>6.2} s", "splice alone", spliced.as_secs_f64());
    println!(
        "{:<34} {:>6.2} s, {ratio:.2} x, limit 1.5 x{}",
        "salve dev",
        passed.as_secs_f64(),
        missed(ratio < 1.5)
    );
    println!("{:<34} {:>6.1} MB", "most memory meanwhile, both (RSS)", mb(most));
    for name in ["spliced", "passed"] {
        fs::remove_file(stage.path(name)).unwrap();
    }
}

fn splice(from: &OwnedFd, to: &File) {
    use rustix::pipe::{SpliceFlags, fcntl_setpipe_size, splice};
    fcntl_setpipe_size(from, 256 << 10).unwrap();
    while splice(from, None, to, None, 1 << 20, SpliceFlags::MOVE).unwrap() > 0 {}
}

/// Measures what Salve needs for itself.
fn memory(stage: &Stage) {
    println!("salve's own memory, both its processes, idle: held, PSS, RSS");
    for (servers, limit) in [(1, 12.0), (50, 25.0)] {
        let dir = stage.path("idle");
        let _ = fs::remove_dir_all(dir.join(".salve"));
        let mut settings = String::from("[repair]\nhealth_retry_delay_ms = 20\n");
        for number in 0..servers {
            settings += &format!("[servers.s{number}]\ncommand = [\"sleep\", \"600\"]\n");
        }
        fs::write(dir.join("salve.toml"), settings).unwrap();
        let salve = stage.salve("idle", &["dev"]).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while count_up(&dir) < servers {
            assert!(Instant::now() < deadline, "the servers do not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        // What they did at last is done by then, and what only starting needed is given back.
        std::thread::sleep(SETTLED);
        let [held, used, resident] =
            ["Pss_Anon:", "Pss:", "Rss:"].map(|what| mb(of_tree(salve.id(), what)));
        let before = cpu(salve.id());
        std::thread::sleep(IDLE);
        let busy = (cpu(salve.id()) - before).as_secs_f64() / IDLE.as_secs_f64() * 100.0;
        let name = format!("{servers} server{}", if servers == 1 { "" } else { "s" });
        println!(
            "{name:<34} {held:>6.1}, {used:.1}, {resident:.1} MB, limit {limit} MB{}; \
             {busy:.2} % of a core",
            missed(resident < limit)
        );
        end(salve);
    }
}

fn mb(kib: u64) -> f64 {
    kib as f64 * 1024.0 / 1e6
}

fn children(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Returns the keeper and its worker.
fn own(keeper: u32) -> Vec<u32> {
    [vec![keeper], children(keeper)].concat()
}

/// Returns how many servers were found well.
fn count_up(project: &Path) -> usize {
    let events = fs::read_to_string(project.join(".salve/events.jsonl")).unwrap_or_default();
    events.matches("\"server_up\"").count()
}

/// Returns how many KiB the keeper and its worker need.
fn of_tree(keeper: u32, what: &str) -> u64 {
    let need = |pid: u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(what)).map(str::to_owned);
        line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    own(keeper).into_iter().map(need).sum()
}

fn cpu(keeper: u32) -> Duration {
    let ticks = |pid: u32| {
        let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
        let stat = stat.unwrap_or_default();
        let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let of = |at: usize| rest.split_whitespace().nth(at).and_then(|n| n.parse::<u64>().ok());
        of(11).unwrap_or(0) + of(12).unwrap_or(0)
    };
    let total: u64 = own(keeper).into_iter().map(ticks).sum();
    // The kernel tells user time in hundredths of a second.
    Duration::from_millis(total * 10)
}
