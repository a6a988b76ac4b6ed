//! How much a family of processes has received over TCP.
//!
//! `/proc` does not tell: what a program takes from a socket by `recv` is in none of its counts, and the
//! tables of connections have only what is still in a queue. The kernel's socket diagnosis counts every
//! byte, for any user. Where it does not answer (an old kernel, a filter of system calls), nothing is
//! known to be received.

use std::collections::HashSet;
use std::fs;
use std::os::fd::OwnedFd;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

/// The kernel's names for what is asked and answered.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const NLMSG_DONE: u16 = 3;
const NLMSG_ERROR: u16 = 2;
const IPPROTO_TCP: u8 = 6;
const INET_DIAG_INFO: u16 = 2;
/// Connections that are established or half closed.
const OPEN_STATES: u32 = (1 << 1) | (1 << 4) | (1 << 5) | (1 << 8);
/// Where things stand: the message behind its header, the socket's inode, the attributes, and the count of
/// bytes in the attribute with the connection's figures.
const HEADER: usize = 16;
const INODE: usize = HEADER + 68;
const ATTRIBUTES: usize = HEADER + 72;
const RECEIVED: usize = 128;

/// Returns the bytes that open connections of these processes have received.
pub(super) fn bytes_received(pids: impl Iterator<Item = u32>) -> u64 {
    let inodes: HashSet<u32> = pids.flat_map(socket_inodes).collect();
    if inodes.is_empty() {
        return 0;
    }
    let families = [AddressFamily::INET, AddressFamily::INET6];
    families.into_iter().filter_map(|family| of_family(family, &inodes)).sum()
}

/// Returns the sockets that a process has open.
fn socket_inodes(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let inode = |entry: fs::DirEntry| {
        let link = fs::read_link(entry.path()).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    entries.filter_map(inode).collect()
}

fn of_family(family: AddressFamily, inodes: &HashSet<u32>) -> Option<u64> {
    let kind = SocketType::DGRAM;
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, kind, flags, Some(netlink::SOCK_DIAG)).ok()?;
    send(&socket, &request(family), SendFlags::empty()).ok()?;
    let (mut sum, mut buffer) = (0, vec![0; 1 << 15]);
    while let Some(part) = answer(&socket, &mut buffer) {
        let (received, is_last) = read_messages(part, inodes);
        sum += received;
        if is_last {
            return Some(sum);
        }
    }
    None
}

/// Asks for all TCP connections of a family, with their figures.
fn request(family: AddressFamily) -> Vec<u8> {
    let mut message = Vec::with_capacity(72);
    message.extend(72_u32.to_ne_bytes());
    message.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message.extend(NLM_F_REQUEST_DUMP.to_ne_bytes());
    message.extend([0; 8]);
    let family = u8::try_from(family.as_raw()).unwrap_or_default();
    message.extend([family, IPPROTO_TCP, 1 << (INET_DIAG_INFO - 1), 0]);
    message.extend(OPEN_STATES.to_ne_bytes());
    message.resize(72, 0);
    message
}

/// Returns the next part of the answer; the kernel has it ready, so that nothing is waited for.
fn answer<'b>(socket: &OwnedFd, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    let (read, _) = recv(socket, &mut *buffer, RecvFlags::DONTWAIT).ok()?;
    buffer.get(..read).filter(|part| !part.is_empty())
}

/// Adds up what connections on these sockets received, and tells whether that was the last part.
fn read_messages(mut part: &[u8], inodes: &HashSet<u32>) -> (u64, bool) {
    let mut sum = 0;
    while let (Some(length), Some(kind)) = (number(part, 0, 4), number(part, 4, 2)) {
        if [NLMSG_DONE, NLMSG_ERROR].map(u64::from).contains(&kind) {
            return (sum, true);
        }
        let length = usize::try_from(length).unwrap_or(0).max(HEADER);
        let message = part.get(..length).unwrap_or(part);
        let inode = number(message, INODE, 4).and_then(|inode| u32::try_from(inode).ok());
        if inode.is_some_and(|inode| inodes.contains(&inode)) {
            sum += figures(message).and_then(|info| number(info, RECEIVED, 8)).unwrap_or(0);
        }
        part = part.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    (sum, false)
}

/// Returns the attribute with the connection's figures.
fn figures(message: &[u8]) -> Option<&[u8]> {
    let mut rest = message.get(ATTRIBUTES..)?;
    while let (Some(length), Some(kind)) = (number(rest, 0, 2), number(rest, 2, 2)) {
        let length = usize::try_from(length).unwrap_or(0).max(4);
        if kind == u64::from(INET_DIAG_INFO) {
            return rest.get(4..length);
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
    None
}

/// Reads a number of 2, 4 or 8 bytes in the machine's own order.
fn number(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(width)?)?;
    Some(match *bytes {
        [a, b] => u16::from_ne_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).into(),
        _ => u64::from_ne_bytes(bytes.try_into().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn what_is_received_is_counted_whether_or_not_it_was_read() {
        let me = std::process::id();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut there = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut here, _) = listener.accept().unwrap();
        let before = bytes_received([me].into_iter());
        there.write_all(&[7; 3000]).unwrap();
        here.read_exact(&mut [0; 3000]).unwrap();
        // Other tests of this process may receive something too.
        let after = bytes_received([me].into_iter());
        assert!(after >= before + 3000, "{before} {after}");
        assert_eq!(bytes_received([u32::MAX].into_iter()), 0, "there is no such process");
    }

    #[test]
    fn an_answer_that_is_cut_short_is_read_as_far_as_it_goes() {
        let request = request(AddressFamily::INET);
        assert_eq!(request.len(), 72);
        let inodes = HashSet::from([0]);
        for end in 0..request.len() {
            let (sum, _) = read_messages(&request[..end], &inodes);
            assert_eq!(sum, 0, "{end}");
        }
        let done = [16_u32.to_ne_bytes(), [3, 0, 2, 0], [0; 4], [0; 4]].concat();
        assert_eq!(read_messages(&done, &inodes), (0, true));
    }
}
