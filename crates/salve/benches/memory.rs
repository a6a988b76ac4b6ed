//! Exact and near recall through the store with 1,000,000 fingerprints, against the limits.
//!
//! Warm is a process that has the store open and the index read, as a running `salve` has. Cold is
//! what a process pays that has just started: opening the store, and reading the index's file.

#![expect(clippy::print_stdout, reason = "a benchmark reports on stdout")]
#![expect(clippy::expect_used, reason = "a benchmark that cannot set its stage should stop")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use salve::project::Project;
use salve::store::Store;
use salve_core::class::Class;
use salve_core::event::Proof;
use salve_core::fingerprint::sign;
use salve_core::memory::{
    Knowledge, RemedyTrial, RememberedFailure, RememberedKind, RememberedRemedy,
};
use salve_core::scrub::{ScrubKey, Scrubbed, Scrubber};

const FAILURES: u64 = 1_000_000;
const PORTION: u64 = 20_000;
const QUESTIONS: u64 = 4_000;

fn name(seed: u64) -> String {
    let mut rank = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44;
    let mut name = String::new();
    while rank > 0 {
        name.push(b"bcdfghklmnprstvz"[(rank % 16) as usize].into());
        name.push(b"aeiou"[(rank / 16 % 5) as usize].into());
        rank /= 80;
    }
    name
}

fn text(number: u64) -> String {
    let [a, b, c] = [1, 2, 3].map(|part| name(number.wrapping_mul(4) + part));
    match number % 4 {
        0 => format!("ModuleNotFoundError: No module named '{a}' in {b}.py at {c}"),
        1 => format!("error TS2339: Property '{a}' does not exist on type '{b}' in {c}.ts"),
        2 => format!("AssertionError: expected {a} to equal {b} in test {c}"),
        _ => format!("relation \"{a}\" does not exist in migration {b} of {c}"),
    }
}

fn known(number: u64, scrubber: &Scrubber) -> Knowledge {
    let normalized = scrubber.scrub(&text(number));
    let failure = RememberedFailure {
        signature: sign(normalized.as_str()),
        class: Class::RuntimeError,
        error_type: Scrubbed::literal("Error"),
        key_line: normalized.clone(),
        normalized,
        identity: None,
    };
    let at = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(number as i64);
    let mut known = Knowledge::new(failure, at);
    if number.is_multiple_of(4) {
        let remedy =
            RememberedRemedy { kind: RememberedKind::Command, text: Scrubbed::literal("npm ci") };
        let by = Scrubbed::literal("salve");
        let project = Scrubbed::literal("shop");
        known.learn(remedy, RemedyTrial { at, by, incident: None, project, proof: Proof::Proven });
    }
    known
}

/// Times `answer` for many questions and prints how it compares with the limit.
fn report<T>(what: &str, limit: Duration, question: impl Fn(u64) -> T, mut answer: impl FnMut(&T)) {
    let mut times: Vec<Duration> = (0..QUESTIONS)
        .filter_map(|number| {
            let question = question(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % FAILURES);
            // The best of three: another program's turn on the core is not ours.
            let once = |_| {
                let start = Instant::now();
                answer(black_box(&question));
                start.elapsed()
            };
            (0..3).map(once).min()
        })
        .collect();
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let ratio = at(0.99).as_secs_f64() / limit.as_secs_f64();
    println!("  {what:<22} p50 {:>9.1?}  p99 {:>9.1?}  {ratio:.2} of {limit:?}", at(0.5), at(0.99));
}

fn main() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let project = Project::at(dir.path()).expect("a project");
    let scrubber = Scrubber::new(ScrubKey::new([0; 32]));
    let store = Store::open(&project).expect("a store");
    let start = Instant::now();
    for from in (0..FAILURES).step_by(PORTION as usize) {
        let portion: Vec<Knowledge> =
            (from..from + PORTION).map(|number| known(number, &scrubber)).collect();
        store.memory().merge(&portion).expect("merged");
    }
    let filled = start.elapsed();
    let start = Instant::now();
    store.memory().near().expect("an index");
    let indexed = start.elapsed();
    drop(store);

    let start = Instant::now();
    let store = Store::open(&project).expect("a store");
    let opened = start.elapsed();
    let start = Instant::now();
    let near = store.memory().near().expect("an index");
    let read = start.elapsed();
    let start = Instant::now();
    let found = near.find(&text(77), 3).expect("near matches");
    let first = start.elapsed();
    assert_eq!(found[0].1.failure.normalized, text(77).as_str());

    println!("memory: {FAILURES} fingerprints, filled in {filled:.1?}, indexed in {indexed:.1?}");
    println!(
        "  a new process pays: store {opened:.1?}, index {read:.1?}, first question {first:.1?}"
    );
    let exact = |number| sign(&text(number));
    report("exact recall", Duration::from_micros(50), exact, |signature| {
        black_box(store.memory().recall(*signature).expect("an answer"));
    });
    let altered = |number| text(number).replace(" in ", " somewhere else in ");
    report("near recall", Duration::from_millis(1), altered, |question| {
        black_box(near.find(question, 3).expect("an answer"));
    });
    println!("  index in memory        {:.1} MiB", near.memory() as f64 / (1 << 20) as f64);
}
