//! What reaches a long-running command from outside: the journal, signals, the keeper's end.

use std::time::{Duration, Instant};

use salve_core::event::Entry;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};

use super::CliError;
use crate::process::keeper::KeeperHandle;
use crate::process::{outlives_terminal, stand_still};
use crate::project::Project;
use crate::store::{Store, Stream};

/// How long after a first signal to end a second one is still the same.
const ONCE: Duration = Duration::from_millis(500);

/// How long the journal is gathered before it is read again.
const GATHER: Duration = Duration::from_millis(5);
/// How long nothing is written before the journal's copy is brought up to date.
const SETTLED: Duration = Duration::from_millis(50);
/// How long the copy may lag behind a journal that is written without a pause.
const BEHIND: Duration = Duration::from_millis(500);
/// How long to wait for what may never come.
const LONG: Duration = Duration::from_secs(3_600);

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
///
/// `tell` returns whether anybody is left who wants to hear.
pub(super) fn listen(
    project: &Project,
    store: &Store,
    tell: impl Fn(Heard) -> bool + Clone + Send + 'static,
    others: &'static [i32],
) -> Result<(), CliError> {
    let after = store.journal().last_seq()?;
    let (own, to) = (Store::open(project)?, tell.clone());
    let follow = move || follow(&own, after, &to);
    let hangup = (!outlives_terminal()).then_some(&SIGHUP);
    let known = [SIGINT, SIGTERM, SIGQUIT, SIGTSTP].iter().chain(hangup).chain(others);
    let mut signals = signal_hook::iterator::Signals::new(known)
        .map_err(|error| CliError::failed("cannot listen for signals").because(error))?;
    let to = tell.clone();
    let hear = move || {
        let mut ending: Option<Instant> = None;
        for signal in signals.forever() {
            let heard = match ending {
                _ if others.contains(&signal) => Heard::Signal(signal),
                _ if signal == SIGTSTP => {
                    stand_still();
                    continue;
                }
                None => {
                    ending = Some(Instant::now());
                    Heard::Stop(signal)
                }
                // The keeper passes on what was sent to the whole group as well.
                Some(since) if since.elapsed() < ONCE => continue,
                // Told twice: the keeper ends whatever is left.
                Some(_) => std::process::exit(128 + signal),
            };
            to(heard);
        }
    };
    let to = tell;
    let keeper = KeeperHandle::of_this_worker();
    let watch = move || {
        if keeper.is_ok_and(|keeper| keeper.wait().is_ok()) {
            to(Heard::Stop(SIGTERM));
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

/// Hands on what is written to the journal, and keeps its copy up to date.
fn follow(store: &Store, after: u64, to: &dyn Fn(Heard) -> bool) {
    let journal = store.journal();
    let mut follower = journal.follow(after, Stream::Project);
    let mut behind: Option<Instant> = None;
    loop {
        let Ok(entries) = follower.next(if behind.is_some() { SETTLED } else { LONG }) else {
            return;
        };
        let is_quiet = entries.is_empty();
        if !is_quiet {
            behind = behind.or_else(|| Some(Instant::now()));
            if !to(Heard::Journal(entries)) {
                return;
            }
        }
        if behind.is_some_and(|since| is_quiet || since.elapsed() >= BEHIND) {
            // The next one mends what could not be written.
            let _ = store.update_copy();
            behind = None;
        }
        if !is_quiet {
            // Several entries come at once; most of them are our own.
            std::thread::sleep(GATHER);
        }
    }
}
