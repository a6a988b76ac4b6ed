//! Who holds a port, a lock or a pid file, and whether anybody looks after them.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use salve_core::event::Process;
use salve_core::playbook::{LivingProcess, LockHold, PortState, SalveMark};

use super::super::FailedSubject;
use super::{kin, name_of};
use crate::files::{FileKind, read_text};
use crate::probe;
use crate::process::keeper;
use crate::process::tree::{self, RUN_MARK, SERVER_MARK, Stat};
use crate::project::Worktree;

/// Ticks per second in `/proc`, on every Linux there is.
const TICKS: u64 = 100;

/// Programs that keep data: never an orphan to be ended, whoever started them.
const STORES: &[&str] = &[
    "postgres",
    "mysqld",
    "mariadbd",
    "redis-server",
    "valkey-server",
    "mongod",
    "memcached",
    "docker-proxy",
    "dockerd",
    "containerd",
    "beam.smp",
    "etcd",
    "clickhouse",
    "minio",
];

/// Programs that only take over what others left behind.
const REAPERS: &[&str] = &[
    "init",
    "systemd",
    "tini",
    "dumb-init",
    "docker-init",
    "catatonit",
    "s6-svscan",
    "conmon",
    "containerd-shim-runc-v2",
];

/// How long somebody who holds a port may take to let go, and how often that is looked at.
const LETTING_GO: (u32, Duration) = (15, Duration::from_millis(100));

/// Returns who holds a port; one that is no orphan is given a moment, for it may be about to end.
pub(super) fn port(ask: &FailedSubject<'_>, port: u16) -> PortState {
    let (times, pause) = LETTING_GO;
    for _ in 0..times {
        match state(ask, port) {
            PortState::Held(holder) if !holder.is_orphan() => std::thread::sleep(pause),
            state @ (PortState::Held(_) | PortState::Hidden { .. } | PortState::Free) => {
                return state;
            }
        }
    }
    state(ask, port)
}

fn state(ask: &FailedSubject<'_>, port: u16) -> PortState {
    if let Some(found) = probe::holder(port) {
        return holder(ask, found.pid).map_or(PortState::Free, PortState::Held);
    }
    let addresses = ["127.0.0.1", "[::1]"].map(|host| format!("{host}:{port}").parse());
    for address in addresses.into_iter().flatten() {
        if let probe::Owner::Unknown { uid } = probe::owner(address, &[]) {
            return PortState::Hidden { owner: name_of(uid) };
        }
    }
    PortState::Free
}

/// Returns what is known of a living process.
pub(in super::super) fn holder(ask: &FailedSubject<'_>, pid: u32) -> Option<LivingProcess> {
    let stat = tree::stat(pid).filter(|stat| !stat.is_dead)?;
    let found = tree::found(&stat)?;
    let inside = is_inside(ask.root, &found.cwd);
    let owner = fs::metadata(format!("/proc/{pid}")).ok().map(|meta| meta.uid());
    let family = family(ask, &stat);
    let attended = attended(&stat, &family).or_else(|| {
        let own = kin::is_own(ask, &stat, &found.cwd);
        (!own).then(|| "nothing shows that it is this project's own server".to_owned())
    });
    let told = |stat: &Stat| tree::found(stat).map(|found| found.process);
    Some(LivingProcess {
        mark: mark(ask, pid),
        family: family.iter().filter_map(told).collect(),
        process: found.process,
        command: found.command,
        cwd: found.cwd.display().to_string(),
        inside,
        same_user: owner == Some(rustix::process::geteuid().as_raw()),
        attended,
    })
}

/// Tells whether a directory belongs to the project: another worktree that lies in it does not.
fn is_inside(root: &Path, dir: &Path) -> bool {
    let is_siblings = || {
        let trees = Worktree::of(root).zip(Worktree::of(dir));
        trees.is_some_and(|(own, theirs)| own.is_sibling_of(&theirs))
    };
    dir.starts_with(root) && !is_siblings()
}

fn mark(ask: &FailedSubject<'_>, pid: u32) -> SalveMark {
    let text = |name| tree::variable(pid, name).and_then(|value| String::from_utf8(value).ok());
    let Some(run) = text(RUN_MARK) else { return SalveMark::None };
    let server = text(SERVER_MARK).unwrap_or_default();
    if ask.run.is_some_and(|own| own.to_string() == run) {
        return SalveMark::Ours(server);
    }
    // The run is there as long as a process that it did not start itself carries on with it: the
    // one that began it is an ancestor without the mark.
    let mut parent = tree::stat(pid).map(|stat| stat.parent);
    while let Some(stat) = parent.filter(|&pid| pid > 1).and_then(tree::stat) {
        let named = || tree::command_line(stat.pid).is_some_and(|line| is_named(&line, "salve"));
        if keeper::is_a_worker(&stat) || named() {
            return SalveMark::Living(server);
        }
        parent = Some(stat.parent);
    }
    SalveMark::Dead(server)
}

/// Returns the process with its elders of the same session that work in the project, the eldest
/// first, and with all that descends from them.
fn family(ask: &FailedSubject<'_>, stat: &Stat) -> Vec<Stat> {
    let ours = ancestors(std::process::id());
    let mut eldest = *stat;
    while let Some(parent) = tree::stat(eldest.parent).filter(|parent| parent.pid > 1) {
        let inside = tree::cwd(parent.pid).is_some_and(|cwd| cwd.starts_with(ask.root));
        let shell = parent.pid == parent.session && terminal(parent.pid) != 0;
        if parent.session != stat.session || !inside || shell || ours.contains(&parent.pid) {
            break;
        }
        eldest = parent;
    }
    let mut family = vec![eldest];
    family.extend(tree::descendants(eldest.pid));
    family.retain(|one| !one.is_dead && !ours.contains(&one.pid));
    family
}

fn ancestors(pid: u32) -> Vec<u32> {
    let mut list = vec![pid];
    while let Some(stat) = list.last().and_then(|pid| tree::stat(*pid)).filter(|s| s.parent > 0) {
        list.push(stat.parent);
    }
    list
}

/// Returns who may still look after a process: a terminal, its session, its parent, the system.
fn attended(stat: &Stat, family: &[Stat]) -> Option<String> {
    let eldest = family.first().unwrap_or(stat);
    let command = tree::command_line(stat.pid).unwrap_or_default();
    if STORES.iter().any(|store| is_named(&command, store)) {
        return Some("it keeps data".to_owned());
    }
    let ours = ancestors(std::process::id());
    if ours.contains(&stat.pid) {
        return Some("it is this very session".to_owned());
    }
    let told = |pid: u32| {
        let command = tree::command_line(pid).unwrap_or_default();
        Some(format!("pid {pid} `{command}` still looks after it"))
    };
    let leader = tree::stat(stat.session).filter(|leader| !leader.is_dead);
    let own = |leader: &Stat| family.iter().any(|one| one.pid == leader.pid);
    if let Some(leader) = leader.filter(|leader| !own(leader)) {
        return told(leader.pid);
    }
    if terminal(stat.pid) != 0 && tree::stat(stat.session).is_some() {
        return Some("a terminal still looks after it".to_owned());
    }
    if let Some(service) = service(stat.pid) {
        return Some(format!("it is the system's service {service}"));
    }
    let parent = tree::stat(eldest.parent).filter(|parent| parent.pid > 1)?;
    let line = tree::command_line(parent.pid).unwrap_or_default();
    // What lost its parent falls to a reaper, or to this very process.
    let taken_over =
        parent.pid == std::process::id() || REAPERS.iter().any(|reaper| is_named(&line, reaper));
    if taken_over { None } else { told(parent.pid) }
}

/// Returns the system's service that a process belongs to, unless we are of the same.
fn service(pid: u32) -> Option<String> {
    let group = |pid: &str| fs::read_to_string(format!("/proc/{pid}/cgroup")).ok();
    let (theirs, ours) = (group(&pid.to_string())?, group("self")?);
    let name = theirs.trim_end().rsplit('/').next()?.strip_suffix(".service")?;
    (theirs != ours && !name.starts_with("user@")).then(|| name.to_owned())
}

/// Returns the number of the controlling terminal; 0 for none.
fn terminal(pid: u32) -> i64 {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = line.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
    fields.split_whitespace().nth(4).and_then(|field| field.parse().ok()).unwrap_or(0)
}

/// Returns whether one of the first words of a command line is the program.
fn is_named(line: &str, program: &str) -> bool {
    line.split(' ').take(2).any(|word| {
        let name = word.rsplit('/').next().unwrap_or(word);
        name == program || name.strip_suffix(':') == Some(program)
    })
}

/// Returns what is known of a file that serves as a lock or holds a process id.
pub(in super::super) fn hold(ask: &FailedSubject<'_>, path: &Path) -> LockHold {
    let Ok(meta) = fs::symlink_metadata(path) else { return LockHold::default() };
    let written = u64::try_from(meta.mtime()).unwrap_or(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let pid = written_pid(path);
    let lives = |pid: &u32| tree::stat(*pid).is_some_and(|stat| !stat.is_dead);
    let writer = pid.filter(|pid| is_writer(*pid, written) && !is_another(ask, *pid, path));
    let other = pid.filter(|pid| writer.is_none() && lives(pid));
    let other = other.map(|pid| tree::command_line(pid).unwrap_or_else(|| format!("pid {pid}")));
    let mut pids: Vec<u32> = writer.into_iter().collect();
    pids.extend(lockers(&meta));
    pids.extend(openers(&meta));
    pids.retain(|pid| *pid != std::process::id());
    pids.sort_unstable();
    pids.dedup();
    let holders = pids.into_iter().filter_map(|pid| holder(ask, pid)).collect();
    let in_git = path.components().any(|part| part.as_os_str() == ".git");
    let busy = if meta.file_type().is_socket() {
        is_bound(path)
    } else {
        in_git && tree::all().iter().any(|stat| is_git_at(stat, ask.root))
    };
    LockHold { written, age: now.saturating_sub(written), pid, holders, other, busy }
}

/// Returns the process id that a pid file holds or a lock's link names.
fn written_pid(path: &Path) -> Option<u32> {
    if let Ok(target) = fs::read_link(path) {
        return target.to_str()?.rsplit('-').next()?.parse().ok();
    }
    let text = read_text(path, FileKind::Note).ok()?;
    let mut words = text.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty());
    words.next()?.parse().ok().filter(|pid| *pid > 1)
}

/// Returns whether a living process can have written a file then: it was there before.
fn is_writer(pid: u32, written: u64) -> bool {
    let Some(stat) = tree::stat(pid).filter(|stat| !stat.is_dead) else { return false };
    let boot = fs::read_to_string("/proc/stat").unwrap_or_default();
    let boot = boot.lines().find_map(|line| line.strip_prefix("btime ")?.parse::<u64>().ok());
    // Two seconds, since both clocks are rounded.
    boot.is_none_or(|boot| boot + stat.started / TICKS <= written + 2)
}

/// Returns whether the process that a pid file names is plainly another program than the one that
/// wrote it: ids are given out again, and a copied file keeps an old one.
///
/// A daemon may work in `/` and call itself anything, so only one that works elsewhere, runs
/// nothing of the project and is not called like the file is taken for another.
fn is_another(ask: &FailedSubject<'_>, pid: u32, path: &Path) -> bool {
    let Some(stat) = tree::stat(pid) else { return false };
    let Some(cwd) = tree::cwd(pid) else { return false };
    if cwd.starts_with(ask.root) || cwd == Path::new("/") || kin::is_own(ask, &stat, &cwd) {
        return false;
    }
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().to_ascii_lowercase());
    let line = tree::command_line(pid).unwrap_or_default().to_ascii_lowercase();
    let named = stem.filter(|stem| stem.len() > 2 && stem != "server");
    !named.is_some_and(|stem| line.contains(&stem))
}

/// Returns the processes that have a kernel lock on the file.
fn lockers(meta: &fs::Metadata) -> Vec<u32> {
    let suffix = format!(":{}", meta.ino());
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let mut found = Vec::new();
    for line in locks.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let place = words.iter().position(|word| word.ends_with(&suffix));
        found.extend(place.and_then(|at| words.get(at.checked_sub(1)?)?.parse::<u32>().ok()));
    }
    found
}

/// Returns the processes that have the file open.
fn openers(meta: &fs::Metadata) -> Vec<u32> {
    let is_open = |stat: &Stat| {
        let fds = fs::read_dir(format!("/proc/{}/fd", stat.pid)).into_iter().flatten().flatten();
        fds.filter_map(|fd| fs::metadata(fd.path()).ok())
            .any(|open| open.ino() == meta.ino() && open.dev() == meta.dev())
    };
    tree::all().iter().filter(|stat| is_open(stat)).map(|stat| stat.pid).collect()
}

/// Returns whether somebody listens at a socket's path.
fn is_bound(path: &Path) -> bool {
    let Some(path) = path.to_str() else { return true };
    let sockets = fs::read("/proc/net/unix").unwrap_or_default();
    let sockets = String::from_utf8_lossy(&sockets);
    let name = path.rsplit('/').next().unwrap_or(path);
    // A socket may have been bound by a relative path.
    let told = sockets.lines().filter_map(|line| line.split_whitespace().nth(7));
    told.into_iter().any(|bound| bound == path || !bound.starts_with('/') && bound.ends_with(name))
}

/// Returns whether a process is a git that works in the project, or may be.
fn is_git_at(stat: &Stat, root: &Path) -> bool {
    let name = fs::read_to_string(format!("/proc/{}/comm", stat.pid)).unwrap_or_default();
    let is_git = name.trim() == "git" || name.starts_with("git-");
    is_git && !stat.is_dead && tree::cwd(stat.pid).is_none_or(|cwd| cwd.starts_with(root))
}

/// Returns whether this very process is still there.
pub(in super::super) fn is_there(process: &Process) -> bool {
    tree::stat(process.pid).is_some_and(|now| now.started == process.started && !now.is_dead)
}
