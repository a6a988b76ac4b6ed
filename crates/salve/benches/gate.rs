//! One decision of the gate, directory and all, against its limit of 1 ms at the 99th percentile.
//!
//! Commands have 4 kB, the longest for which the limit is given, and the policy has long lists. A
//! stat of the same directory is measured in the same run: no decision that looks at the file
//! system can be faster. Time is that of the thread, so that other work on the machine does not
//! count.

#![expect(clippy::print_stdout, reason = "a benchmark reports on stdout")]
#![expect(
    clippy::unwrap_used,
    reason = "a benchmark that cannot set its stage should stop at once"
)]

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use salve::gate::judge;
use salve_core::gate::{GateCounters, GatePolicy, OnUnknown, RawPolicy, Request};
use salve_core::scrub::{ScrubKey, Scrubber};

const LIMIT: Duration = Duration::from_millis(1);
const ROUNDS: usize = 1_000;
const LENGTH: usize = 4096;

/// Returns `unit` repeated to the length of the longest command, with `end` after it.
fn fill(unit: &str, end: &str) -> String {
    let mut text = unit.repeat((LENGTH - end.len()) / unit.len());
    text.push_str(end);
    text
}

/// Returns `unit` for one number after the other, almost to the length of the longest command.
fn others(unit: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for part in (0..).map(unit) {
        if text.len() + part.len() > LENGTH - 512 {
            return text;
        }
        text.push_str(&part);
    }
    text
}

/// Returns arguments that hold a part of every pattern and match none.
fn named() -> String {
    (0..43).fold("echo".to_owned(), |text, i| text + &format!(" deploy-{i}"))
}

fn commands() -> Vec<(&'static str, String)> {
    vec![
        ("approved, short", "rm -rf node_modules && npm install".into()),
        ("unknown, short", "npm run build -- --mode production".into()),
        ("one long word", fill("a", "")),
        ("many words", fill("npm ", "ci")),
        ("many commands", fill("npm ci && npm test; ", "true")),
        ("many pipes", fill("cat file.txt | sort | uniq -c | ", "head")),
        ("quotes", fill("echo 'a b' \"c d\" e\\ f ", "")),
        ("substitutions", fill("echo $(date) \"$(pwd)\" ", "")),
        ("holes", fill("cp $from/* $to; ", "true")),
        ("nested", format!("{}ls{}", "(".repeat(12), ")".repeat(12))),
        ("wrapped", fill("sudo env A=b nice ", "npm ci")),
        ("script", format!("bash -c '{}'", fill("npm ci; ", "true"))),
        ("here-document", format!("cat <<E > x\n{}\nE", fill("some text $x\n", ""))),
        ("unreadable", fill("$(echo \"`", "")),
        ("quoted commands", fill("echo 'a b' \"c d\"; ", "true")),
        ("options", format!("git {}", fill("-a ", "b"))),
        ("options, holes", format!("git {}", fill("-$a ", "b"))),
        ("assignments", fill("A=b ", "npm ci")),
        ("nested script", format!("echo $({} c)", "b 'aaaaaaaaaa';".repeat(255))),
        ("wrapped script", format!("sh -c \"{} c\"", "b 'aaaaaaaaaa';".repeat(255))),
        ("nested over", format!("a $(a $(a $(a {})))", fill("'a b' ", ""))),
        ("other commands", others(|i| format!("b{i} 'aaaaaa'; "))),
        ("longer commands", others(|i| format!("b{i} 'aaaaaaaaa' \"c d\" --e; "))),
        ("other holes", others(|i| format!("b{i} $a; "))),
        ("named commands", others(|i| format!("b{i} --now; ")) + &named()),
        ("other blocks", others(|i| format!("A={i} b{i} 'a'; "))),
        ("redirections", fill("ls > a 2>&1 < b; ", "true")),
    ]
}

fn policy() -> GatePolicy {
    let mut auto: Vec<String> = (0..200).map(|i| format!("npm run fix-{i}")).collect();
    auto.push("rm -rf node_modules && npm install".into());
    let mut human: Vec<String> =
        ["rm -rf *", "git reset --hard", "git push", "curl *", "wget *", "*sudo*", "*--force*"]
            .map(String::from)
            .into();
    human.extend((0..43).map(|i| format!("deploy-{i} * --now")));
    GatePolicy::new(&RawPolicy {
        auto_approve: auto,
        require_human: human,
        on_unknown: OnUnknown::Allow,
        ..RawPolicy::default()
    })
    .unwrap()
}

fn thread_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

/// Returns the median and the 99th percentile of one run of `act`.
fn measure(mut act: impl FnMut()) -> (Duration, Duration) {
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let start = thread_time();
            act();
            thread_time() - start
        })
        .collect();
    times.sort_unstable();
    (times[ROUNDS / 2], times[ROUNDS * 99 / 100])
}

fn main() {
    let dir = tempfile::tempdir().unwrap();
    let root: &Path = dir.path();
    std::fs::create_dir_all(root.join("web/app")).unwrap();
    let (policy, state) = (policy(), GateCounters::default());
    let scrubber = Scrubber::new(ScrubKey::new([0; 32]));
    let below = root.join("web/app");
    let (floor, _) = measure(|| drop(black_box(std::fs::metadata(&below))));
    println!("{:<18} {:>10} {:>10} {:>10}  answer", "command", "median", "p99", "of 1 ms");
    println!("{:<18} {floor:>10.1?}", "stat alone");
    let mut worst = Duration::ZERO;
    for (name, command) in commands() {
        let request = Request::new(&command, "web/app", 60).unwrap();
        let mut answer = "";
        let (median, p99) = measure(|| {
            let judged = judge(root, &policy, &request, &state, &scrubber);
            answer = black_box(judged).verdict.decision();
        });
        let ratio = p99.as_secs_f64() / LIMIT.as_secs_f64();
        println!("{name:<18} {median:>10.1?} {p99:>10.1?} {ratio:>9.2}×  {answer}");
        worst = worst.max(p99);
    }
    let verdict = if worst <= LIMIT { "within" } else { "BEYOND" };
    println!("worst p99 {worst:.1?}: {verdict} the limit of {LIMIT:.0?}");
}
