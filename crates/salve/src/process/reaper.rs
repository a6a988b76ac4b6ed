//! Waits for every child that is ours to wait for, without ever polling.
//!
//! Children that other code starts and waits for by itself stay in our session, so they are told
//! from orphans, which left it with their server.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitIdStatus};
use salve_core::event::ProcessExit;
use signal_hook::consts::SIGCHLD;

use super::supervisor::{ChildrenShare, ProcessEnd};
use super::tree::{self, Stat};
use super::{lock, thread};

/// The key of the event that some child changed.
const CHILD: u64 = u64::MAX;

/// The main processes that have not been reaped, whoever in this process takes care of them.
///
/// Whoever starts one holds the lock from before the start until it is listed, so that no reaper
/// takes a process that ends at once for an orphan.
static MAIN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Returns the list of main processes, to be held while one is started.
pub(super) fn mains() -> MutexGuard<'static, BTreeSet<u32>> {
    lock(&MAIN)
}

/// Starts the thread that hands out how processes ended.
pub(super) fn start(shared: &Arc<ChildrenShare>) -> io::Result<()> {
    let (changes, notify) = UnixStream::pair()?;
    changes.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(SIGCHLD, notify)?;
    let key = epoll::EventData::new_u64(CHILD);
    epoll::add(&shared.epoll, &changes, key, epoll::EventFlags::IN)?;
    let epoll = shared.epoll.try_clone()?;
    let shared = Arc::downgrade(shared);
    thread("salve-reaper", move || run(&epoll, &changes, &shared))
}

fn run(epoll: &impl AsFd, changes: &UnixStream, shared: &Weak<ChildrenShare>) {
    let mut events = Vec::with_capacity(64);
    loop {
        events.clear();
        match epoll::wait(epoll, spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        let Some(shared) = shared.upgrade() else { return };
        let mut has_changed = false;
        for event in &events {
            match event.data.u64() {
                CHILD => has_changed = true,
                pid => hand_out(&shared, u32::try_from(pid).unwrap_or_default()),
            }
        }
        if has_changed {
            while matches!(rustix::io::read(changes, &mut [0u8; 64]), Ok(1..)) {}
            reap_orphans();
        }
    }
}

/// Reaps a process that we started and tells who asked for it.
fn hand_out(shared: &ChildrenShare, pid: u32) {
    let mut table = lock(&shared.table);
    let Some(alive) = table.alive.get(&pid) else { return };
    let id = WaitId::PidFd(alive.life.pidfd.as_fd());
    let exit = match rustix::process::waitid(id, WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {
        Ok(Some(status)) => exit_of(&status),
        Ok(None) | Err(Errno::INTR) => return,
        // Someone else has taken its status: it has ended, and more cannot be known.
        Err(_) => ProcessExit::Code(-1),
    };
    let Some(alive) = table.alive.remove(&pid) else { return };
    drop(table);
    mains().remove(&pid);
    let uptime = alive.life.since.elapsed();
    // Removed by hand because the descriptor lives on in `Running`.
    let _ = epoll::delete(&shared.epoll, &alive.life.pidfd);
    for stream in &alive.streams {
        stream.drain();
    }
    shared.pump.wake();
    lock(&alive.life.input).take();
    let ended = ProcessEnd { exit, uptime };
    *lock(&alive.life.ended) = Some(ended.clone());
    alive.life.has_ended.notify_all();
    if let Some(then) = alive.then {
        then(ended);
    }
}

fn exit_of(status: &WaitIdStatus) -> ProcessExit {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => ProcessExit::Code(code),
        (None, Some(signal)) => ProcessExit::Signal(signal),
        (None, None) => ProcessExit::Code(-1),
    }
}

/// Reaps what fell to us and has ended.
pub(super) fn reap_orphans() {
    if !is_any_dead() {
        return;
    }
    let Some(me) = tree::own() else { return };
    let mains = mains();
    for stat in tree::children(me.pid) {
        if stat.is_dead && is_orphan(&mains, &me, &stat) {
            reap(&stat);
        }
    }
}

/// Returns whether a child of ours is neither a main process nor another's business.
pub(super) fn is_orphan(mains: &BTreeSet<u32>, me: &Stat, child: &Stat) -> bool {
    child.session != me.session && !mains.contains(&child.pid)
}

/// Reaps one child that has ended.
pub(super) fn reap(stat: &Stat) {
    let pid = i32::try_from(stat.pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        // Another thread may have been faster.
        let _ = rustix::process::waitid(WaitId::Pid(pid), options);
    }
}

/// Returns whether some child has ended and waits to be reaped.
fn is_any_dead() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(rustix::process::waitid(WaitId::All, options), Ok(Some(_)))
}

/// Returns whether there is any child at all.
pub(super) fn has_children() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(rustix::process::waitid(WaitId::All, options), Err(Errno::CHILD))
}
