//! What reaches `salve dev` from outside: the journal, signals, keys, the keeper's end.

use std::sync::mpsc::Sender;

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex};
use signal_hook::consts::{SIGUSR1, SIGUSR2, SIGWINCH};

use super::CliError;
use crate::cli::listen::{self, Heard};
use crate::project::Project;
use crate::store::{Copying, Store};
use crate::subjects::server::Input;

/// Hands on what happens outside.
pub(super) fn listen(
    project: &Project,
    store: &Store,
    post: &Sender<Input>,
) -> Result<(), CliError> {
    listen::listen(project, store, post, &[SIGUSR1, SIGUSR2, SIGWINCH])?;
    // Who waits for an append waits for a server that is down; whoever follows has the time.
    store.set_copying(Copying::Later);
    Ok(())
}

impl From<Heard> for Input {
    fn from(heard: Heard) -> Self {
        match heard {
            Heard::Journal(entries) => Input::Journal(entries),
            Heard::Stop(signal) => Input::Stop(signal),
            Heard::Signal(SIGWINCH) => {
                let (rows, cols) = size();
                Input::Resized { rows, cols }
            }
            Heard::Signal(signal) => Input::Signal(signal),
        }
    }
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
    let thread = std::thread::Builder::new().name("keys".to_owned()).stack_size(512 << 10);
    // Without a thread there are no keys; the server runs all the same.
    let _ = thread.spawn(hear);
}
