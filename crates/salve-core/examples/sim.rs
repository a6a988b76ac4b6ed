//! Runs the incident simulator over many seeds: `cargo xtask sim [SEEDS]`.

use std::error::Error;
use std::io::Write;

use salve_core::incident::sim;

fn main() -> Result<(), Box<dyn Error>> {
    let seeds = std::env::args().nth(1).map_or(Ok(100_000), |text| text.parse())?;
    let mut out = std::io::stdout();
    match sim::run(0..seeds) {
        Ok(summary) => writeln!(out, "every invariant holds: {summary:#?}")?,
        Err(failure) => {
            writeln!(out, "{failure}: {}", failure.broken)?;
            std::process::exit(1);
        }
    }
    Ok(())
}
