//! The `salve` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    salve::cli::main()
}
