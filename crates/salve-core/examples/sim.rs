//! Runs the simulators over many seeds: `cargo xtask sim [SEEDS]`, `cargo xtask sim fleet [SEEDS]`.

use std::error::Error;
use std::fmt::Debug;
use std::io::Write;

use salve_core::incident::sim as incidents;
use salve_core::job::sim as fleets;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["fleet", rest @ ..] => {
            let seeds = rest.first().map_or(Ok(20), |text| text.parse())?;
            // Fifty small fleets, in which everybody is in everybody's way, for each large one.
            tell(fleets::run(fleets::FleetSimPlan::SMALL, 0..seeds * 50))?;
            tell(fleets::run(fleets::FleetSimPlan::LARGE, 0..seeds))
        }
        rest => {
            let seeds = rest.first().map_or(Ok(100_000), |text| text.parse())?;
            let lived = incidents::run(0..seeds);
            tell(lived.map_err(|failure| format!("{failure}: {}", failure.broken)))
        }
    }
}

fn tell(came: Result<impl Debug, impl ToString>) -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout();
    match came {
        Ok(summary) => writeln!(out, "every invariant holds: {summary:#?}")?,
        Err(broken) => {
            writeln!(out, "{}", broken.to_string())?;
            std::process::exit(1);
        }
    }
    Ok(())
}
