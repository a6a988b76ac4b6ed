//! What reaches `salve dev` from outside: the journal, signals, keys, the keeper's end.

use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};

use super::CliError;
use crate::process::keeper;
use crate::project::Project;
use crate::store::{Copying, Filter, Store};
use crate::subjects::server::Input;

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

/// Hands on what happens outside.
pub(super) fn listen(
    project: &Project,
    store: &Store,
    post: &Sender<Input>,
) -> Result<(), CliError> {
    let after = store.journal().last_seq()?;
    let (own, to) = (Store::open(project)?, post.clone());
    let follow = move || follow(&own, after, &to);
    let known = [SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH];
    let mut signals = signal_hook::iterator::Signals::new(known)
        .map_err(|error| CliError::failed("cannot listen for signals").because(error))?;
    let to = post.clone();
    let hear = move || {
        let mut ending: Option<Instant> = None;
        for signal in signals.forever() {
            let input = match signal {
                SIGWINCH => {
                    let (rows, cols) = size();
                    Input::Resized { rows, cols }
                }
                SIGUSR1 | SIGUSR2 => Input::Signal(signal),
                _ => match ending {
                    None => {
                        ending = Some(Instant::now());
                        Input::Stop(signal)
                    }
                    // The keeper passes on what was sent to the whole group as well.
                    Some(since) if since.elapsed() < ONCE => continue,
                    // Told twice: the keeper ends whatever is left.
                    Some(_) => std::process::exit(128 + signal),
                },
            };
            let _ = to.send(input);
        }
    };
    let to = post.clone();
    let watch = move || {
        if keeper::wait_for_keeper().is_ok() {
            let _ = to.send(Input::Stop(SIGTERM));
        }
    };
    for (name, work) in [
        ("journal", Box::new(follow) as Box<dyn FnOnce() + Send>),
        ("signals", Box::new(hear)),
        ("keeper", Box::new(watch)),
    ] {
        spawn(name, work)
            .map_err(|error| CliError::failed("cannot start a thread").because(error))?;
    }
    // Who waits for an append waits for a server that is down; whoever follows has the time.
    store.set_copying(Copying::Later);
    Ok(())
}

/// Hands on what is written to the journal, and keeps its copy up to date.
fn follow(store: &Store, after: u64, to: &Sender<Input>) {
    let journal = store.journal();
    let mut follower = journal.follow(after, Filter::default());
    let mut behind: Option<Instant> = None;
    loop {
        let Ok(entries) = follower.next(if behind.is_some() { SETTLED } else { LONG }) else {
            return;
        };
        let is_quiet = entries.is_empty();
        if !is_quiet {
            behind = behind.or_else(|| Some(Instant::now()));
            if to.send(Input::Journal(entries)).is_err() {
                return;
            }
        }
        if behind.is_some_and(|since| is_quiet || since.elapsed() >= BEHIND) {
            // The next one mends what could not be written.
            let _ = journal.export();
            behind = None;
        }
        if !is_quiet {
            // Several entries come at once; most of them are our own.
            std::thread::sleep(GATHER);
        }
    }
}

fn spawn(name: &str, work: Box<dyn FnOnce() + Send>) -> std::io::Result<()> {
    let builder = std::thread::Builder::new().name(name.to_owned()).stack_size(512 << 10);
    builder.spawn(work).map(drop)
}

/// Returns how large our terminal is.
pub(super) fn size() -> (u16, u16) {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    size.map_or((24, 80), |size| (size.ws_row.max(1), size.ws_col.max(1)))
}

/// Passes on what is typed, key by key; the server's own terminal shows it, not ours.
pub(super) fn pass_keys(post: &Sender<Input>) {
    let post = post.clone();
    each_key(move |keys| {
        // Nobody is left to type for when the fleet is gone.
        let _ = post.send(Input::Typed(keys.to_vec()));
    });
}

/// Calls `on` with what is typed, key by key, on a thread of its own.
///
/// The keeper gives the terminal back as it was, however this ends.
pub(super) fn each_key(mut on: impl FnMut(&[u8]) + Send + 'static) {
    let stdin = rustix::stdio::stdin();
    // In the background, reading would stop us.
    let ours =
        rustix::termios::tcgetpgrp(stdin).is_ok_and(|group| group == rustix::process::getpgrp());
    let Ok(mut modes) = rustix::termios::tcgetattr(stdin) else { return };
    if !ours {
        return;
    }
    modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
    modes.special_codes[SpecialCodeIndex::VMIN] = 1;
    modes.special_codes[SpecialCodeIndex::VTIME] = 0;
    if rustix::termios::tcsetattr(stdin, OptionalActions::Now, &modes).is_err() {
        return;
    }
    let hear = move || {
        let mut keys = [0; 1024];
        while let Ok(read @ 1..) = rustix::io::read(rustix::stdio::stdin(), &mut keys) {
            on(&keys[..read]);
        }
    };
    // Without a thread there are no keys; the server runs all the same.
    let _ = spawn("keys", Box::new(hear));
}
