//! How fast failures are fingerprinted, beside one `memchr` pass over the same bytes.
//!
//! Times are the processor's own, so that other work on the machine does not count.

#![expect(clippy::print_stdout, reason = "a benchmark reports on stdout")]

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use salve_core::fingerprint::{FingerprintRules, Hints, Window};

const MIB: usize = 1024 * 1024;

/// Returns the processor time this process has used.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Returns the fastest of `rounds` runs: what the code costs when nothing else runs.
fn fastest(rounds: usize, mut run: impl FnMut()) -> Duration {
    let timed = (0..rounds).map(|_| {
        let start = cpu_time();
        run();
        cpu_time() - start
    });
    timed.min().unwrap_or_default()
}

/// Makes a log as a web server under load writes it: requests, jobs, a few warnings and errors.
fn ordinary_log(size: usize) -> String {
    let mut log = String::with_capacity(size + 256);
    let mut n = 0_usize;
    while log.len() < size {
        n += 1;
        let (second, user) = (n % 60, n * 7919 % 10_007);
        match n % 100 {
            7 => log.push_str(&format!("2024-05-01T10:00:{second:02}Z WARN slow query took {n}ms for user {user}\n")),
            42 => log.push_str(&format!("2024-05-01T10:00:{second:02}Z ERROR job {n} failed, retrying\n")),
            k if k % 3 == 0 => log.push_str(&format!("10.0.{}.{} - - [01/May/2024:10:00:{second:02} +0000] \"GET /basket/{user} HTTP/1.1\" 200 {n} \"-\" \"curl/8.0\"\n", n % 256, user % 256)),
            k if k % 3 == 1 => log.push_str(&format!("2024-05-01T10:00:{second:02}.{:03}Z INFO  shop::basket: added item {user} to basket {n}\n", n % 1000)),
            _ => log.push_str(&format!("[worker-{}] processed order {n} for customer {user} in {second} ms\n", n % 16)),
        }
    }
    log
}

/// Makes a failure of about 4 KiB: a dev server's start, an exception with frames, an epilogue.
fn failure() -> String {
    let mut text = String::from("> shop@1.0.0 dev\n> vite --port 5173\n\n");
    for n in 0..20 {
        text.push_str(&format!("  transformed src/components/Item{n}.tsx in {n}ms\n"));
    }
    text.push_str("node:internal/modules/cjs/loader:1080\n  throw err;\n  ^\n\nError: Cannot find module 'left-pads'\nRequire stack:\n- /srv/shop/src/index.js\n");
    for n in 0..24 {
        text.push_str(&format!(
            "    at Module._load{n} (node:internal/modules/cjs/loader:{n}:27)\n"
        ));
    }
    text.push_str("  code: 'MODULE_NOT_FOUND',\n  requireStack: [ '/srv/shop/src/index.js' ]\n}\n\nNode.js v20.10.0\n");
    while text.len() < 4096 - 200 {
        text.push_str("npm info lifecycle still waiting for the rest of the workspace\n");
    }
    text.push_str("npm ERR! Lifecycle script `dev` failed with error:\nnpm ERR! Error: command failed\nnpm ERR!   in workspace: shop@1.0.0\n");
    text
}

fn throughput(rules: &FingerprintRules) {
    let log = ordinary_log(64 * MIB);
    let limit = fastest(5, || {
        black_box(memchr::memchr_iter(b'\n', log.as_bytes()).count());
    });
    let ours = fastest(3, || {
        let mut window = Window::new(rules);
        window.push(log.as_bytes());
        black_box(rules.fingerprint(&window.finish(), &Hints::default()));
    });
    let rate = |time: Duration| log.len() as f64 / 1e6 / time.as_secs_f64();
    println!(
        "ordinary log, 64 MiB    {:>8.0} MB/s   (limit memchr {:.0} MB/s, ratio {:.2}; target 300 MB/s)",
        rate(ours),
        rate(limit),
        ours.as_secs_f64() / limit.as_secs_f64()
    );
}

fn latency(rules: &FingerprintRules) {
    let text = failure();
    let limit = fastest(1000, || {
        black_box(memchr::memchr_iter(b'\n', text.as_bytes()).count());
    });
    let ours = fastest(5000, || {
        black_box(rules.fingerprint(&text, &Hints::default()));
    });
    println!(
        "failure, {} bytes      {:>8.1} µs     (limit memchr {:.2} µs; target 20 µs)",
        text.len(),
        ours.as_secs_f64() * 1e6,
        limit.as_secs_f64() * 1e6
    );
}

fn hostile(rules: &FingerprintRules) {
    let size = 10_000_000;
    let repeat = |text: &str| text.repeat(size / text.len());
    // Lines that all differ, of failures that only other words in the output make certain.
    let numbered = |front: &str, back: &str| {
        let lines = (0..size / (front.len() + back.len() + 6)).map(|n| format!("{front}{n}{back}"));
        lines.collect::<String>()
    };
    for (name, text) in [
        ("one letter", repeat("a")),
        ("escapes", repeat("\x1b")),
        ("open escapes", repeat("\x1b]0;")),
        ("nested quotes", repeat("\"'`(")),
        ("errors", repeat("error: cannot find module 'a' ")),
        ("error lines", repeat("error: cannot find module 'a'\n")),
        ("line ends", repeat("\n")),
        ("short lines", repeat("a\n")),
        ("backspaces", repeat("ab\x08\r")),
        ("replacement", repeat("\u{fffd}")),
        ("near misses", repeat("listen EADDRINUSE: address already in use Cannot find module ' ")),
        ("words wanted", numbered("[Errno 2] No such file or directory: 'zz", "'\n")),
        ("words wanted too", numbered("KeyError: 'zz", "'\n")),
    ] {
        let time = fastest(2, || {
            black_box(rules.fingerprint(&text, &Hints::default()));
        });
        println!(
            "hostile {name:<15} {:>8.1} ms     (10 MB; target 100 ms)",
            time.as_secs_f64() * 1e3
        );
    }
}

/// One part of the benchmark.
type Part = fn(&FingerprintRules);

fn main() {
    let rules = FingerprintRules::built_in();
    let text = failure();
    let start = cpu_time();
    black_box(rules.fingerprint(&text, &Hints::default()));
    println!(
        "the first failure       {:>8.1} µs     (rows are compiled when they are needed)",
        (cpu_time() - start).as_secs_f64() * 1e6
    );
    // A name on the command line runs that part alone.
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let parts: [(&str, Part); 3] =
        [("latency", latency), ("throughput", throughput), ("hostile", hostile)];
    for (name, part) in parts {
        if wanted.is_empty() || wanted.iter().any(|want| want == name) {
            part(rules);
        }
    }
}
