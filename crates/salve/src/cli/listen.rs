//! What reaches a long-running command from outside: the journal, signals, the keeper's end.

use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use salve_core::event::Entry;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::CliError;
use crate::process::keeper;
use crate::project::Project;
use crate::store::{Filter, Store};

/// How long after a first signal to end a second one is still the same.
const ONCE: Duration = Duration::from_millis(500);

/// Something that came from outside.
#[derive(Debug)]
pub(super) enum Heard {
    /// Entries that appeared in the journal.
    Journal(Vec<Entry>),
    /// It is to end, by this signal.
    Stop(i32),
    /// Another signal.
    Signal(i32),
}

/// Hands on what happens outside; `others` are signals that do not mean the end.
pub(super) fn listen<T: From<Heard> + Send + 'static>(
    project: &Project,
    store: &Store,
    post: &Sender<T>,
    others: &'static [i32],
) -> Result<(), CliError> {
    let after = store.journal().last_seq()?;
    let (project, to) = (project.clone(), post.clone());
    let follow = move || {
        let Ok(store) = Store::open(&project) else { return };
        let mut follower = store.journal().follow(after, Filter::default());
        while let Ok(entries) = follower.next(Duration::from_secs(3_600)) {
            if !entries.is_empty() && to.send(Heard::Journal(entries).into()).is_err() {
                return;
            }
        }
    };
    let known = [SIGINT, SIGTERM, SIGHUP].iter().chain(others);
    let mut signals = signal_hook::iterator::Signals::new(known)
        .map_err(|error| CliError::failed("cannot listen for signals").because(error))?;
    let to = post.clone();
    let hear = move || {
        let mut ending: Option<Instant> = None;
        for signal in signals.forever() {
            let heard = match ending {
                _ if others.contains(&signal) => Heard::Signal(signal),
                None => {
                    ending = Some(Instant::now());
                    Heard::Stop(signal)
                }
                // The keeper passes on what was sent to the whole group as well.
                Some(since) if since.elapsed() < ONCE => continue,
                // Told twice: the keeper ends whatever is left.
                Some(_) => std::process::exit(128 + signal),
            };
            let _ = to.send(heard.into());
        }
    };
    let to = post.clone();
    let watch = move || {
        if keeper::wait_for_keeper().is_ok() {
            let _ = to.send(Heard::Stop(SIGTERM).into());
        }
    };
    for (name, work) in [
        ("journal", Box::new(follow) as Box<dyn FnOnce() + Send>),
        ("signals", Box::new(hear)),
        ("keeper", Box::new(watch)),
    ] {
        let builder = std::thread::Builder::new().name(name.to_owned()).stack_size(512 << 10);
        builder
            .spawn(work)
            .map_err(|error| CliError::failed("cannot start a thread").because(error))?;
    }
    Ok(())
}
