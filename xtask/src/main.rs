//! Development tasks: `cargo xtask check`, `bench`, `fuzz`, `sim`, `chaos`, `page`, `conformance`,
//! `invariants`, `attack`, `agents`, `trials`.
//!
//! `check` is what CI runs, whole: nothing is checked anywhere else. It installs the cargo tools
//! it needs, so that a machine with git and a Rust toolchain is enough.

mod agents;
mod attack;
mod chaos;
mod chaos_fleet;
mod chaos_layer;
mod conformance;
mod invariants;
mod page;
mod steps;
mod trials;

use std::io::{self, Write};
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask <task>

  check           format, clippy, tests, the page in Chromium, docs, licences and bans: everything CI runs
  bench [NAME]    run the benchmarks (all, or those whose name contains NAME)
  fuzz [SECONDS]  run every fuzz target for so long (default 60)
  sim [SEEDS]     run the incident simulator over so many seeds (default 100000)
  sim fleet [N]   simulate N fleets of 10,000 workers and 50 times as many of 40 (default 20)
  chaos jobs [N]  kill jobs at N random instants (default 500) and compare them with undisturbed ones
  chaos layer [N] edit files at random instants while agents work and are killed, N rounds (default 500)
  chaos fleet [N] break workers, servers, networks, disks and clocks of a fleet N times (default 100)
  page            drive the page with Chromium (needs node; installs Chromium where it can)
  conformance     run MCP's conformance suite and stories with real servers through the proxy (needs npm)
  invariants      list what must never happen, and the test that holds it
  agents [WORD]   real coding agents against a scripted model (needs node, npm and python3)
  trials [WORD…]  walk everyday trials with real tools, which are installed below target/
  attack          try to break every promise of docs/security.md, and count those that hold
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    if let ["chaos", "jobs", rest @ ..] = words.as_slice() {
        return match chaos::jobs(rest.first().copied().unwrap_or("500")) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => print(&mut io::stderr(), &format!("xtask: {error}\n"), ExitCode::FAILURE),
        };
    }
    if let ["chaos", "fleet", rest @ ..] = words.as_slice() {
        return match chaos_fleet::fleet(rest.first().copied().unwrap_or("100")) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => print(&mut io::stderr(), &format!("xtask: {error}\n"), ExitCode::FAILURE),
        };
    }
    if let ["chaos", "layer", rest @ ..] = words.as_slice() {
        return match chaos_layer::layer(rest.first().copied().unwrap_or("500")) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => print(&mut io::stderr(), &format!("xtask: {error}\n"), ExitCode::FAILURE),
        };
    }
    let result = match words.as_slice() {
        ["check"] => steps::check(),
        ["bench"] => steps::bench(""),
        ["bench", name] => steps::bench(name),
        ["fuzz"] => steps::fuzz("60"),
        ["fuzz", seconds] => steps::fuzz(seconds),
        ["sim"] => steps::sim("100000"),
        ["sim", words @ ..] => steps::sim(&words.join(" ")),
        ["agents", words @ ..] => agents::tell_stories(words),
        ["attack"] => attack::walk(&mut io::stdout()),
        ["page"] => page::page(),
        ["trials", words @ ..] => trials::walk_trials(words),
        ["conformance"] => conformance::conformance(),
        ["invariants"] => invariants::list(&mut io::stdout()),
        [] | ["help" | "-h" | "--help"] => {
            return print(&mut io::stdout(), HELP, ExitCode::SUCCESS);
        }
        _ => return print(&mut io::stderr(), HELP, ExitCode::from(2)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => print(&mut io::stderr(), &format!("xtask: {error}\n"), ExitCode::FAILURE),
    }
}

/// Prints `text` and returns `code`; a closed terminal changes nothing about the outcome.
fn print(out: &mut dyn Write, text: &str, code: ExitCode) -> ExitCode {
    let _ = out.write_all(text.as_bytes());
    code
}
