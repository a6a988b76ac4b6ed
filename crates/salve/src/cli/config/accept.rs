//! `salve config accept`: a person's word for a change that waits.

use std::io::{BufRead, IsTerminal, Write, stdin};

use jiff::Timestamp;
use salve_core::event::Digest;
use salve_core::scrub::Scrubbed;
use serde::Serialize;

use super::{project, stuck};
use crate::cli::project::{expect_person, scrubber, user_name};
use crate::cli::{CliError, Exit, Output};
use crate::config::{LiveSettings, Reload, Sources};
use crate::notify::{NoticePlan, Notifier};
use crate::process;
use crate::store::Store;

/// The fewest digits by which a waiting change may be named.
const FEWEST_DIGITS: usize = 8;

/// Arguments of `salve config accept`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The change to accept, as `salve config accept` shows it; asked for on a terminal
    change: Option<String>,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Accepted<'a> {
    version: u32,
    accepted: bool,
    digest: Option<Digest>,
    changes: &'a [Scrubbed],
}

/// Shows what waits and accepts it if the person says so.
pub(super) fn run(args: Args, out: &Output) -> Result<Exit, CliError> {
    if process::is_agents() {
        return Err(CliError::needs_person("an agent cannot accept a change of the settings")
            .hint("ask the person you work for to run `salve config accept`"));
    }
    let Some(project) = project(out)?.filter(|project| project.database().exists()) else {
        return nothing(out);
    };
    expect_person(&project)?;
    let store = Store::open(&project)?;
    let sources = Sources::of_process(Some(&project), &out.global().set);
    let now = Timestamp::now();
    let mut live = LiveSettings::open(store.journal(), sources, scrubber(), now).map_err(stuck)?;
    let Reload::Waiting { digest, changes } = live.reload(now)? else {
        return nothing(out);
    };
    if out.json() && args.change.is_none() {
        out.fact(&Accepted {
            version: 1,
            accepted: false,
            digest: Some(digest),
            changes: &changes,
        })?;
        return Ok(Exit::NeedsPerson);
    }
    if !out.json() {
        let mut to = out.stdout();
        writeln!(to, "Change {} would widen what runs unattended:", short(digest))?;
        for line in &changes {
            writeln!(to, "  {line}")?;
        }
    }
    if !is_meant(args.change.as_deref(), digest, out)? {
        return Ok(Exit::NeedsPerson);
    }
    let person = scrubber().scrub(&user_name());
    let plan = NoticePlan::new(&live.current().settings);
    let _notices = Notifier::start(&project, plan, &scrubber())?;
    live.accept(digest, person, Timestamp::now()).map_err(stuck)?;
    if out.json() {
        out.fact(&Accepted {
            version: 1,
            accepted: true,
            digest: Some(digest),
            changes: &changes,
        })?;
    } else {
        writeln!(out.stdout(), "accepted; it holds from the next safe point on")?;
    }
    Ok(Exit::Well)
}

/// Returns whether the person means exactly this change.
fn is_meant(named: Option<&str>, digest: Digest, out: &Output) -> Result<bool, CliError> {
    let how = format!("salve config accept {}", short(digest));
    match named {
        Some(name) if name.len() >= FEWEST_DIGITS && digest.to_string().starts_with(name) => {
            Ok(true)
        }
        Some(_) => Err(CliError::needs_person("that is not the change that waits now").hint(how)),
        None if stdin().is_terminal() => {
            let mut to = out.stdout();
            write!(to, "Accept it? [y/N] ")?;
            to.flush()?;
            drop(to);
            let mut answer = String::new();
            stdin().lock().read_line(&mut answer)?;
            Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
        }
        None => Err(CliError::needs_person("a person has to name the change").hint(how)),
    }
}

fn nothing(out: &Output) -> Result<Exit, CliError> {
    if out.json() {
        out.fact(&Accepted { version: 1, accepted: false, digest: None, changes: &[] })?;
    } else {
        writeln!(out.stdout(), "no change of the settings waits for a person")?;
    }
    Ok(Exit::Well)
}

/// Returns enough of the hash to name the change by.
pub(super) fn short(digest: Digest) -> String {
    digest.to_string().chars().take(12).collect()
}
