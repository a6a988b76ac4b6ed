//! How fast the journal is written, how soon another process sees it, what waiting costs.
//!
//! `cargo bench -p salve --bench journal`

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a bench prints and may stop")]

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use divan::{Bencher, counter::ItemsCount};
use jiff::Timestamp;
use salve::project::Project;
use salve::store::{Store, Stream, to_line};
use salve_core::event::{Actor, Draft, Event, IncidentEvent, NoteEvent};
use salve_core::scrub::Scrubbed;
use tempfile::TempDir;

/// What another process may take to see an event.
const SEEN_WITHIN: Duration = Duration::from_millis(50);

/// What a waiting follower may use of a core.
const IDLE_SHARE: f64 = 0.002;

const WATCHED: Duration = Duration::from_secs(10);

/// Tells a child process which project to use and whether to write or to wait.
const CHILD: &str = "SALVE_BENCH_CHILD";

fn main() {
    if let Some(role) = std::env::var_os(CHILD) {
        let store = Store::open(&Project::at(Path::new(".")).unwrap()).unwrap();
        return if role == "writer" { write(&store) } else { wait(&store) };
    }
    // The runner of tests only wants to see that it starts.
    if !std::env::args().any(|arg| arg == "--test" || arg == "--list") {
        seen();
        idle();
    }
    divan::main();
}

fn project() -> (TempDir, Project) {
    let dir = tempfile::tempdir().unwrap();
    let project = Project::at(dir.path()).unwrap();
    (dir, project)
}

fn note() -> Draft {
    let by = Actor::Agent { name: Scrubbed::literal("ann") };
    let text = Scrubbed::literal("the server answered 200 three times in a row and stayed up");
    Draft {
        at: Timestamp::now(),
        by,
        incident: None,
        event: Event::Note(NoteEvent::Noted { text }),
    }
}

fn child(project: &Project, role: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.current_dir(project.root()).env(CHILD, role);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Appends an event for each line on stdin.
fn write(store: &Store) {
    for _ in io::stdin().lines() {
        store.journal().append(note()).unwrap();
    }
}

/// Follows the journal until killed.
fn wait(store: &Store) {
    let mut follower = store.journal().follow(0, Stream::Project);
    println!("waiting");
    loop {
        follower.next(Duration::MAX).unwrap();
    }
}

/// Measures from the moment an event is stamped in one process to when another has read it.
fn seen() {
    let (_dir, project) = project();
    let store = Store::open(&project).unwrap();
    let mut writer = child(&project, "writer");
    let mut stdin = writer.stdin.take().unwrap();
    let mut follower = store.journal().follow(0, Stream::Project);
    let mut delays = Vec::new();
    for n in 0..500 {
        // Out of step with anything that ticks.
        thread::sleep(Duration::from_micros(7_000 + n * 37 % 5_000));
        writeln!(stdin).unwrap();
        let entry = follower.next(Duration::from_secs(10)).unwrap().pop().unwrap();
        let delay = Timestamp::now().duration_since(entry.at);
        delays.push(Duration::try_from(delay).unwrap_or_default());
    }
    drop(stdin);
    writer.wait().unwrap();
    delays.sort_unstable();
    let at = |share: usize| delays[(delays.len() - 1) * share / 100];
    for (name, delay) in [("median", at(50)), ("p99", at(99)), ("worst", at(100))] {
        let ratio = delay.as_secs_f64() / SEEN_WITHIN.as_secs_f64();
        println!("seen by another process, {name}: {delay:?} = {ratio:.4} of {SEEN_WITHIN:?}");
    }
}

/// Measures the time on a core of a follower that has nothing to do.
fn idle() {
    let (_dir, project) = project();
    Store::open(&project).unwrap().journal().append(note()).unwrap();
    let mut waiter = child(&project, "waiter");
    let mut lines = BufReader::new(waiter.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "waiting");
    let used = |pid: u32| -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
        text.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or_default()
    };
    thread::sleep(Duration::from_millis(100));
    let (start, before) = (Instant::now(), used(waiter.id()));
    thread::sleep(WATCHED);
    let share = (used(waiter.id()) - before) as f64 / start.elapsed().as_nanos() as f64;
    waiter.kill().unwrap();
    waiter.wait().unwrap();
    let (percent, ratio) = (share * 100.0, share / IDLE_SHARE);
    println!("waiting follower: {percent:.4} % of a core = {ratio:.4} of {} %", IDLE_SHARE * 100.0);
}

#[divan::bench]
fn append(bencher: Bencher<'_, '_>) {
    let (_dir, project) = project();
    let store = Store::open(&project).unwrap();
    bencher.bench_local(|| store.journal().append(note()).unwrap());
}

/// An append that survives a power cut.
#[divan::bench]
fn append_durable(bencher: Bencher<'_, '_>) {
    let (_dir, project) = project();
    let store = Store::open(&project).unwrap();
    let durable =
        || Draft { event: Event::Incident(IncidentEvent::Resolved { note: None }), ..note() };
    bencher.bench_local(|| store.journal().append(durable()).unwrap());
}

/// The limit of a durable append: the same line written to a file and synced.
#[divan::bench]
fn limit_write_and_sync(bencher: Bencher<'_, '_>) {
    let dir = tempfile::tempdir().unwrap();
    let mut file = File::create(dir.path().join("limit")).unwrap();
    let line = to_line(&note().at_seq(1));
    bencher.bench_local(|| {
        writeln!(file, "{line}").unwrap();
        file.sync_data().unwrap();
    });
}

#[divan::bench]
fn append_a_hundred_at_once(bencher: Bencher<'_, '_>) {
    let (_dir, project) = project();
    let store = Store::open(&project).unwrap();
    let drafts = || (0..100).map(|_| note()).collect();
    bencher
        .counter(ItemsCount::new(100_u32))
        .with_inputs(drafts)
        .bench_local_values(|drafts| store.journal().append_all(drafts).unwrap());
}

#[divan::bench]
fn read_a_thousand(bencher: Bencher<'_, '_>) {
    let (_dir, project) = project();
    let store = Store::open(&project).unwrap();
    store.journal().append_all((0..1000).map(|_| note()).collect()).unwrap();
    bencher
        .counter(ItemsCount::new(1000_u32))
        .bench_local(|| store.journal().read(0, &Stream::Project, 1000).unwrap());
}

#[divan::bench]
fn open(bencher: Bencher<'_, '_>) {
    let (_dir, project) = project();
    let store = Store::open(&project).unwrap();
    store.journal().append(note()).unwrap();
    bencher.bench_local(|| Store::open(&project).unwrap());
}
