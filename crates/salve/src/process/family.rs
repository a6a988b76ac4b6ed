//! Who belongs to a server, and the end of them all.
//!
//! Everything a server starts descends from us: while its parents live it hangs below the main
//! process, and when they die it falls to us. An orphan is told by its session, its group, its
//! brand or its marks. One that shows none of them is its server's if only one could have been
//! its origin, and is ended with the last server otherwise.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

use super::supervisor::{ChildTable, ChildrenShare, EndReport, ProcessLife, ServerOrigin};
use super::tree::{self, Stat};
use super::{launch, lock, reaper};

/// How long the system may take to carry out a kill.
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// What one look at the system saw: this process and all that descends from it.
pub(super) struct Sight {
    me: Stat,
    all: Vec<Stat>,
}

impl Sight {
    /// Looks; nothing if there is nobody.
    pub(super) fn take() -> Option<Sight> {
        if !reaper::has_children() {
            return None;
        }
        let me = tree::own()?;
        Some(Sight { me, all: tree::descendants(me.pid) })
    }
}

/// Returns the living processes of the server that `life` is of, its main process included.
pub(super) fn members(shared: &ChildrenShare, life: &ProcessLife) -> Vec<Stat> {
    Sight::take().map(|sight| members_in(&sight, shared, life)).unwrap_or_default()
}

/// Returns those of the processes that were seen that are of the server that `life` is of.
pub(super) fn members_in(
    Sight { me, all }: &Sight,
    shared: &ChildrenShare,
    life: &ProcessLife,
) -> Vec<Stat> {
    let mut roots = Vec::new();
    let mains = reaper::mains();
    for child in all.iter().filter(|stat| stat.parent == me.pid) {
        if child.is_dead && reaper::is_orphan(&mains, me, child) {
            reaper::reap(child);
        } else if mains.contains(&child.pid) {
            if child.pid == life.process.pid {
                roots.push(*child);
            }
        } else if belongs(shared, me, child, life) {
            roots.push(*child);
        }
    }
    drop(mains);
    let mut family = Vec::new();
    for root in roots {
        family.push(root);
        family.extend(tree::below(root.pid, all));
    }
    family.retain(|stat| !stat.is_dead);
    family
}

/// Returns whether a child of ours that is no main process is of the server that `life` is of.
fn belongs(shared: &ChildrenShare, me: &Stat, child: &Stat, life: &ProcessLife) -> bool {
    let table = lock(&shared.table);
    if child.session == me.session {
        return false;
    }
    match origin(&table, child) {
        Some(origin) => origin == life.origin,
        // It carries the brand of a run that is not this one.
        None if launch::brand_of(child.pid).is_some() => false,
        None => {
            table.origins.len() == 1
                || table.alive.values().all(|alive| alive.life.origin == life.origin)
        }
    }
}

/// Returns the place of the server that an orphan came from, as far as it shows.
fn origin(table: &ChildTable, orphan: &Stat) -> Option<usize> {
    let place = |is_it: &dyn Fn(&ServerOrigin) -> bool| table.origins.iter().position(is_it);
    let leads = |origin: &ServerOrigin| {
        origin.sessions.contains(&orphan.session) || origin.sessions.contains(&orphan.group)
    };
    let branded = || {
        let brand = launch::brand_of(orphan.pid)?;
        place(&|origin| origin.brand == brand)
    };
    let marked = |origin: &ServerOrigin| tree::is_marked(orphan.pid, origin.run, &origin.server);
    place(&leads).or_else(branded).or_else(|| place(&marked))
}

/// Ends the whole family; returns when nothing of it is left.
pub(super) fn end(shared: &ChildrenShare, life: &ProcessLife, grace: Duration) -> EndReport {
    let mut report = EndReport::default();
    if !grace.is_zero() {
        ask(shared, life, Instant::now() + grace, &mut report);
    }
    kill(shared, life, &mut report);
    if report.left.is_empty() {
        // Nothing of it lives, so its exit is being handed out.
        life.wait(KILL_LIMIT);
    }
    report
}

/// Sends a signal to the main process's group, as a terminal does.
pub(super) fn signal_group(shared: &ChildrenShare, life: &ProcessLife, signal: Signal) {
    // Until it is reaped, which takes this lock, the group's number is nobody else's.
    let table = lock(&shared.table);
    if table.alive.contains_key(&life.process.pid) {
        // All of it may have ended just now.
        let _ = rustix::process::kill_process_group(life.pid, signal);
        // Someone who was stopped acts on nothing before being continued.
        let _ = rustix::process::kill_process_group(life.pid, Signal::CONT);
    }
}

/// Sends a signal to all that lives of a server.
pub(super) fn signal_members(shared: &ChildrenShare, life: &ProcessLife, signal: Signal) {
    let members = members(shared, life);
    signal_all(shared, life, &members, signal);
}

/// Returns whether a group still handles a signal that was sent to it: its main process lives, or
/// one that outlived it and catches the signal.
pub(super) fn handles(shared: &ChildrenShare, life: &ProcessLife, signal: Signal) -> bool {
    let main = life.process.pid;
    let is_handling = |stat: &Stat| stat.group == main && tree::catches(stat.pid, signal);
    lock(&life.ended).is_none() || members(shared, life).iter().any(is_handling)
}

/// Asks everyone to end and waits for it; those who come later are asked when they are orphans.
fn ask(shared: &ChildrenShare, life: &ProcessLife, deadline: Instant, report: &mut EndReport) {
    let mut asked: Vec<Stat> = Vec::new();
    loop {
        let family = members(shared, life);
        if family.is_empty() {
            return;
        }
        let is_new = |stat: &&Stat| !asked.iter().any(|old| is_same(old, stat));
        let new: Vec<Stat> = family.iter().filter(is_new).copied().collect();
        signal_all(shared, life, &new, Signal::TERM);
        // Someone who was stopped acts on nothing before being continued.
        signal_all(shared, life, &new, Signal::CONT);
        report.asked += new.len();
        asked.extend(new);
        for stat in &family {
            if !wait_for(stat, deadline) {
                return;
            }
        }
    }
}

/// Kills everyone, stopping them all first so that none can start another meanwhile.
fn kill(shared: &ChildrenShare, life: &ProcessLife, report: &mut EndReport) {
    let deadline = Instant::now() + KILL_LIMIT;
    loop {
        let mut stopped: Vec<Stat> = Vec::new();
        loop {
            let mut new = members(shared, life);
            new.retain(|stat| !stopped.iter().any(|old| is_same(old, stat)));
            if new.is_empty() {
                break;
            }
            signal_all(shared, life, &new, Signal::STOP);
            stopped.extend(new);
        }
        if stopped.is_empty() {
            return;
        }
        signal_all(shared, life, &stopped, Signal::KILL);
        report.killed += stopped.len();
        let are_gone = stopped.iter().all(|stat| wait_for(stat, deadline));
        if !are_gone {
            report.left = members(shared, life).iter().filter_map(tree::found).collect();
            return;
        }
    }
}

fn is_same(one: &Stat, other: &Stat) -> bool {
    one.pid == other.pid && one.started == other.started
}

/// Sends a signal to each of `stats`, and to the main process's whole group at once.
fn signal_all(shared: &ChildrenShare, life: &ProcessLife, stats: &[Stat], signal: Signal) {
    let main = life.process.pid;
    let mut is_sent = false;
    if stats.iter().any(|stat| stat.group == main) {
        // Until it is reaped, which takes this lock, the group's number is nobody else's.
        let table = lock(&shared.table);
        if table.alive.contains_key(&main) {
            is_sent = rustix::process::kill_process_group(life.pid, signal).is_ok();
        }
    }
    for stat in stats.iter().filter(|stat| !(is_sent && stat.group == main)) {
        if let Some(pidfd) = open(stat) {
            // It may end in this very moment.
            let _ = rustix::process::pidfd_send_signal(&pidfd, signal);
        }
    }
}

/// Returns a descriptor of this very process, unless it has ended.
pub(super) fn open(stat: &Stat) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(stat.pid).ok()?)?;
    let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
    tree::is_still(stat).then_some(pidfd)
}

/// Waits until a process has ended; returns whether it has by `deadline`.
pub(super) fn wait_for(stat: &Stat, deadline: Instant) -> bool {
    open(stat).is_none_or(|pidfd| wait_until(&pidfd, deadline))
}

/// Waits until a descriptor is readable, as a process's is when it has ended.
fn wait_until(fd: impl AsFd, deadline: Instant) -> bool {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
        let mut ready = [PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)];
        match rustix::event::poll(&mut ready, Some(&left)) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(Errno::INTR) => {}
            Err(_) => return true,
        }
    }
}
