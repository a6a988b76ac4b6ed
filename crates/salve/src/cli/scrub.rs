//! `salve scrub`: copies stdin to stdout without the secrets in it.

use std::io::{self, Read, Write};

use salve_core::scrub::Scrubber;

use super::{CliError, Exit, Output, config, foundation};

/// How much is read at once.
const CHUNK: usize = 128 * 1024;

/// Arguments of `salve scrub`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

/// Copies until stdin ends.
pub(super) fn run(_args: Args, out: &Output) -> Result<Exit, CliError> {
    let scrubber = foundation::scrubber(&config::load(out)?)?;
    // Not `out.stdout()`: colours and what is not UTF-8 pass through as they came.
    copy(&scrubber, &mut io::stdin().lock(), &mut io::stdout().lock())?;
    Ok(Exit::Well)
}

/// Copies `from` to `to`, line by line as they come.
fn copy(scrubber: &Scrubber, from: &mut impl Read, to: &mut impl Write) -> Result<(), CliError> {
    let mut chunk = vec![0; CHUNK];
    let mut ready = Vec::with_capacity(CHUNK);
    let mut stream = scrubber.stream();
    loop {
        let len = match from.read(&mut chunk) {
            Ok(0) => break,
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(CliError::failed("cannot read stdin").because(error)),
        };
        stream.push(&chunk[..len], &mut ready);
        if !ready.is_empty() {
            to.write_all(&ready)?;
            // What is ready is shown at once: someone may be watching.
            to.flush()?;
            ready.clear();
        }
    }
    stream.finish(&mut ready);
    to.write_all(&ready)?;
    to.flush()?;
    Ok(())
}
