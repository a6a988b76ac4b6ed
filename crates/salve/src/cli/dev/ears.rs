//! What reaches the servers of `salve dev` from outside: signals and keys.

use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex};
use signal_hook::consts::{SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};

use crate::heal::inbox::NewsSender;
use crate::subjects::server::ServerNews;

/// The signals that are meant for the servers. Some write down what they are doing when somebody
/// quits, and go on; the others end.
pub(super) const SIGNALS: [i32; 4] = [SIGUSR1, SIGUSR2, SIGWINCH, SIGQUIT];

/// How often it is looked in the background whether the terminal is ours again.
const BACKGROUND_LOOK: Duration = Duration::from_millis(250);

/// Hands a signal on to the servers.
pub(super) fn pass_signal(news: &NewsSender<ServerNews>, signal: i32) {
    let told = match signal {
        SIGWINCH => {
            let (rows, cols) = size();
            ServerNews::Resized { rows, cols }
        }
        other => ServerNews::Signal(other),
    };
    // Nobody is left to tell when the servers are gone.
    let _ = news.send(told);
}

/// Returns how large our terminal is.
pub(super) fn size() -> (u16, u16) {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    size.map_or((24, 80), |size| (size.ws_row.max(1), size.ws_col.max(1)))
}

/// Passes on what is typed, key by key; the server's own terminal shows it, not ours.
pub(super) fn pass_keys(news: &NewsSender<ServerNews>) {
    let news = news.clone();
    each_key(move |keys| {
        // Nobody is left to type for when the servers are gone.
        let _ = news.send(ServerNews::Typed(keys.to_vec()));
    });
}

/// Calls `on` with what is typed, key by key, on a thread of its own.
///
/// The keeper gives the terminal back as it was, however this ends.
pub(super) fn each_key(mut on: impl FnMut(&[u8]) + Send + 'static) {
    let stdin = rustix::stdio::stdin();
    let ours =
        rustix::termios::tcgetpgrp(stdin).is_ok_and(|group| group == rustix::process::getpgrp());
    if !ours || take_keys().is_none() {
        return;
    }
    let hear = move || {
        // So that reading in the background fails, which else would stop us.
        let _ = SigSet::from(Signal::SIGTTIN).thread_block();
        let mut keys = [0; 1024];
        loop {
            match rustix::io::read(rustix::stdio::stdin(), &mut keys) {
                Ok(0) => return,
                Ok(read) => on(&keys[..read]),
                Err(Errno::INTR) => {}
                Err(Errno::IO) if is_in_background() => {
                    while is_in_background() {
                        std::thread::sleep(BACKGROUND_LOOK);
                    }
                    // The shell had the terminal meanwhile.
                    if take_keys().is_none() {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    };
    let thread = std::thread::Builder::new().name("keys".to_owned()).stack_size(512 << 10);
    // Without a thread there are no keys; the server runs all the same.
    let _ = thread.spawn(hear);
}

/// Has what is typed come key by key, unless that cannot be.
fn take_keys() -> Option<()> {
    let stdin = rustix::stdio::stdin();
    let mut modes = rustix::termios::tcgetattr(stdin).ok()?;
    modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
    modes.special_codes[SpecialCodeIndex::VMIN] = 1;
    modes.special_codes[SpecialCodeIndex::VTIME] = 0;
    rustix::termios::tcsetattr(stdin, OptionalActions::Now, &modes).ok()
}

/// Returns whether the terminal is another job's just now.
fn is_in_background() -> bool {
    let group = rustix::termios::tcgetpgrp(rustix::stdio::stdin());
    group.is_ok_and(|group| group != rustix::process::getpgrp())
}
