//! `salve man`: manual pages, made at run time so that packagers need no build step.

use std::path::PathBuf;

use clap::Command;

use super::{CliError, Exit, Output};

/// Arguments of `salve man`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Write one page per command into this directory instead of printing the main page
    dir: Option<PathBuf>,
}

/// Writes or prints the pages.
pub(super) fn run(args: Args, command: Command, out: &Output) -> Result<Exit, CliError> {
    match args.dir {
        None => clap_mangen::Man::new(command).render(&mut out.exact())?,
        Some(dir) => {
            let failed = |e| {
                CliError::failed(format!("cannot write manual pages to {}", dir.display()))
                    .because(e)
            };
            std::fs::create_dir_all(&dir).map_err(failed)?;
            clap_mangen::generate_to(command, &dir).map_err(failed)?;
            out.remark(format_args!("manual pages are in {}", dir.display()));
        }
    }
    Ok(Exit::Well)
}
