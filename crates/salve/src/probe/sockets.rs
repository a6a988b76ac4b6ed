//! Who listens where, from `/proc`.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use salve_core::server::socket::{self, ClientSocket, Listener};

/// A process that holds a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortHolder {
    /// Its process id.
    pub pid: u32,
    /// When it started, in the kernel's ticks since boot: with the pid it names one process.
    pub started: u64,
    /// Its command line, as a person would type it.
    pub command: String,
    /// The directory it works in, where that can be read.
    pub cwd: Option<PathBuf>,
}

/// Whose a listening socket is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// One of the processes asked about.
    Ours {
        /// Its process id.
        pid: u32,
    },
    /// Another process.
    Other(PortHolder),
    /// Somebody's, but not to be found out: a process of another user, or one in another network
    /// namespace for whom the kernel or a container's proxy listens.
    Unknown {
        /// The user that the socket belongs to.
        uid: u32,
    },
    /// Nobody listens there.
    Nobody,
}

/// Returns where any process of each of these families listens.
pub fn listeners(families: &[Vec<u32>]) -> Vec<Vec<SocketAddr>> {
    let inodes: Vec<BTreeSet<u64>> =
        families.iter().map(|pids| pids.iter().flat_map(|pid| sockets(*pid)).collect()).collect();
    // The system takes its time to tell of all sockets; mostly there are none of ours.
    let table = if inodes.iter().all(BTreeSet::is_empty) { Vec::new() } else { table() };
    let places = |inodes: &BTreeSet<u64>| {
        let ours = table.iter().filter(|listener| inodes.contains(&listener.inode));
        let addresses: BTreeSet<SocketAddr> = ours.map(|listener| listener.address).collect();
        addresses.into_iter().collect()
    };
    inodes.iter().map(places).collect()
}

/// Returns who takes connections to an address on this machine, where `family` are our processes.
pub fn owner(address: SocketAddr, family: &[u32]) -> Owner {
    let takers = socket::takers(&table(), address);
    let Some(first) = takers.first() else { return Owner::Nobody };
    // Where a port is shared, the kernel may choose any: it is ours only if all of it is.
    let whose = |taker: &Listener| find(taker, family.iter().copied());
    let ours: Option<Vec<u32>> = takers.iter().map(whose).collect();
    if let Some(&pid) = ours.as_deref().and_then(<[u32]>::first) {
        return Owner::Ours { pid };
    }
    let others = || {
        let all: Vec<u32> = processes().filter(|pid| !family.contains(pid)).collect();
        let pid = takers.iter().find_map(|taker| find(taker, all.iter().copied()))?;
        describe(pid)
    };
    others().map_or(Owner::Unknown { uid: first.uid }, Owner::Other)
}

/// Who has a connection open from its client's side, as far as the system tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionClients {
    /// These processes.
    Seen(Vec<u32>),
    /// Nobody whose files can be read.
    Unseen {
        /// The user that the connection belongs to.
        uid: u32,
    },
    /// Nobody any more.
    Gone,
}

/// Returns who connected from `client` to `server`, both on this machine.
pub fn connection_clients(client: SocketAddr, server: SocketAddr) -> ConnectionClients {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"].map(read);
    let socket = tables.iter().find_map(|table| socket::client_socket(table, client, server));
    let Some(ClientSocket { inode, uid }) = socket else { return ConnectionClients::Gone };
    let has = |pid: &u32| sockets_of_threads(*pid).any(|socket| socket == inode);
    match processes().filter(has).collect::<Vec<_>>() {
        seen if seen.is_empty() => ConnectionClients::Unseen { uid },
        seen => ConnectionClients::Seen(seen),
    }
}

/// Returns whether any of these processes has a connection open, or opens one.
pub fn is_connected(pids: &[u32]) -> bool {
    let ours: BTreeSet<u64> = pids.iter().flat_map(|pid| sockets(*pid)).collect();
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    // The system takes its time to tell of all sockets; mostly there are none of ours.
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
    !ours.is_empty()
        && tables.into_iter().map(read).any(|table| {
            let mut connected = socket::connected(&table);
            connected.any(|inode| ours.contains(&inode))
        })
}

/// Returns a process that listens at this port on any address, where it can be found out.
pub fn holder(port: u16) -> Option<PortHolder> {
    let held = table().into_iter().filter(|listener| listener.address.port() == port);
    let inodes: Vec<Listener> = held.collect();
    let holds = |pid: &u32| {
        let sockets: BTreeSet<u64> = sockets(*pid).collect();
        inodes.iter().any(|listener| sockets.contains(&listener.inode))
    };
    if inodes.is_empty() {
        return None;
    }
    processes().find(holds).and_then(describe)
}

/// Returns every listening socket of this network namespace.
fn table() -> Vec<Listener> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let (four, six) = (read("/proc/self/net/tcp"), read("/proc/self/net/tcp6"));
    socket::listeners(&four).chain(socket::listeners(&six)).collect()
}

/// Returns the first of these processes that has the socket open.
fn find(listener: &Listener, mut pids: impl Iterator<Item = u32>) -> Option<u32> {
    pids.find(|pid| sockets(*pid).any(|inode| inode == listener.inode))
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Returns the sockets that a process has open; none where that cannot be read.
fn sockets(pid: u32) -> impl Iterator<Item = u64> {
    sockets_in(format!("/proc/{pid}/fd"))
}

/// Returns the sockets that any thread of a process has open: one may have files of its own, and the
/// first may have ended.
fn sockets_of_threads(pid: u32) -> impl Iterator<Item = u64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let dirs = threads.map(|thread| thread.path().join("fd"));
    dirs.flat_map(sockets_in)
}

fn sockets_in(dir: impl AsRef<Path>) -> impl Iterator<Item = u64> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let link = fs::read_link(entry.path()).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    })
}

fn describe(pid: u32) -> Option<PortHolder> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name may hold anything, so the fields count from the parenthesis after it.
    let (name, fields) = stat.rsplit_once(')')?;
    let started = fields.split_whitespace().nth(19)?.parse().ok()?;
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    let words: Vec<_> = words.map(String::from_utf8_lossy).collect();
    let command = if words.is_empty() {
        name.split_once('(').map_or(name, |(_, name)| name).to_owned()
    } else {
        words.join(" ")
    };
    let cwd = fs::read_link(format!("/proc/{pid}/cwd")).ok();
    Some(PortHolder { pid, started, command, cwd })
}
