//! Reads the kernel's table of TCP sockets, and tells which listener takes a connection.
//!
//! The table is the text of `/proc/net/tcp` or `/proc/net/tcp6`; its addresses are words in the
//! machine's own byte order.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The state of a listening socket in the table.
const LISTEN: &str = "0A";

/// The states of a socket that is connected, or is about to be.
const CONNECTED: [&str; 2] = ["01", "02"];

/// A socket that accepts connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Listener {
    /// Where it listens.
    pub address: SocketAddr,
    /// What the socket is called in `/proc/<pid>/fd`.
    pub inode: u64,
    /// The user it belongs to.
    pub uid: u32,
}

/// Returns the listening sockets of a table; lines that cannot be read are left out.
pub fn listeners(table: &str) -> impl Iterator<Item = Listener> {
    table.lines().filter_map(listener)
}

fn listener(line: &str) -> Option<Listener> {
    let mut fields = line.split_ascii_whitespace();
    let local = fields.nth(1)?;
    let state = fields.nth(1)?;
    if state != LISTEN {
        return None;
    }
    let uid = fields.nth(3)?.parse().ok()?;
    let inode = fields.nth(1)?.parse().ok()?;
    Some(Listener { address: address(local)?, inode, uid })
}

/// Returns what the connected sockets of a table are called in `/proc/<pid>/fd`.
pub fn connected(table: &str) -> impl Iterator<Item = u64> {
    table.lines().filter_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let state = fields.nth(3)?;
        CONNECTED.contains(&state).then(|| fields.nth(5)?.parse().ok()).flatten()
    })
}

/// The client's own socket of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientSocket {
    /// What it is called in `/proc/<pid>/fd`.
    pub inode: u64,
    /// The user that it belongs to.
    pub uid: u32,
}

/// Returns the client's own socket of a connection.
///
/// One that its client has closed already has no name any more.
pub fn client_socket(table: &str, client: SocketAddr, server: SocketAddr) -> Option<ClientSocket> {
    let plain = |at: SocketAddr| SocketAddr::new(at.ip().to_canonical(), at.port());
    let of_line = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let (local, remote) = (address(fields.nth(1)?)?, address(fields.next()?)?);
        let is_it = plain(local) == plain(client) && plain(remote) == plain(server);
        if !is_it {
            return None;
        }
        let uid = fields.nth(4)?.parse().ok()?;
        let inode = fields.nth(1)?.parse().ok().filter(|inode| *inode != 0)?;
        Some(ClientSocket { inode, uid })
    };
    table.lines().find_map(of_line)
}

/// Reads an address such as `0100007F:1F90`.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| {
        let digits = address.get(at..at + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let ip = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (at, part) in bytes.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(at * 8)?);
            }
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// Returns the listeners among which the kernel chooses for a connection to `to`.
///
/// The most exact address wins: the very address, then any address of its family, then, for IPv4,
/// an IPv6 socket that takes both. Several are possible where a port is shared.
pub fn takers(listeners: &[Listener], to: SocketAddr) -> Vec<Listener> {
    let rank = |listener: &Listener| {
        if listener.address.port() != to.port() {
            return None;
        }
        let (at, to) = (listener.address.ip(), to.ip());
        let mapped = |ip: IpAddr| match ip {
            IpAddr::V6(six) => six.to_ipv4_mapped().map(IpAddr::V4),
            IpAddr::V4(_) => None,
        };
        match (at, to) {
            (at, to) if at == to => Some(0),
            (at, to) if mapped(at) == Some(to) => Some(1),
            (IpAddr::V4(at), IpAddr::V4(_)) if at.is_unspecified() => Some(2),
            (IpAddr::V6(at), IpAddr::V6(_)) if at.is_unspecified() => Some(2),
            (IpAddr::V6(at), IpAddr::V4(_)) if at.is_unspecified() => Some(3),
            (IpAddr::V4(_) | IpAddr::V6(_), _) => None,
        }
    };
    let best = listeners.iter().filter_map(rank).min();
    listeners.iter().filter(|one| best.is_some() && rank(one) == best).copied().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Writes a line as the kernel does.
    fn line(address: SocketAddr, state: u8, uid: u32, inode: u64) -> String {
        let word = |bytes: &[u8]| format!("{:08X}", u32::from_ne_bytes(bytes.try_into().unwrap()));
        let bytes = match address.ip() {
            IpAddr::V4(four) => four.octets().to_vec(),
            IpAddr::V6(six) => six.octets().to_vec(),
        };
        let local: String = bytes.chunks(4).map(word).collect();
        let remote = "0".repeat(local.len());
        let port = address.port();
        format!(
            "   0: {local}:{port:04X} {remote}:0000 {state:02X} 00000000:00000000 00:00000000 \
             00000000  {uid}        0 {inode} 1 0000000000000000 100 0 0 10 0\n"
        )
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn a_table_is_read_as_the_kernel_writes_it() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0000000000000000 100 0 0 10 0\n   1: 0100007F:1F90 0100007F:C001 01 00000000:00000000 00:00000000 00000000  1000        0 4712 1 0000000000000000 20 4 30 10 -1\n";
        let got: Vec<_> = listeners(table).collect();
        let address = "127.0.0.1:8080".parse().unwrap();
        assert_eq!(got, [Listener { address, inode: 4711, uid: 1000 }]);
        assert_eq!(connected(table).collect::<Vec<_>>(), [4712]);
        let (client, server) = ("127.0.0.1:8080", "127.0.0.1:49153");
        let [client, server] = [client, server].map(|at| at.parse().unwrap());
        let socket = ClientSocket { inode: 4712, uid: 1000 };
        assert_eq!(client_socket(table, client, server), Some(socket));
        assert_eq!(client_socket(table, server, client), None, "that is the other end");
        let six = "   0: 00000000000000000000000001000000:0BB8 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 9 1 0000000000000000 100 0 0 10 0";
        let address = "[::1]:3000".parse().unwrap();
        assert_eq!(listeners(six).collect::<Vec<_>>(), [Listener { address, inode: 9, uid: 0 }]);
    }

    #[track_caller]
    fn check(listening: &[&str], to: &str, want: &[&str]) {
        let listener =
            |address: &&str| Listener { address: address.parse().unwrap(), inode: 1, uid: 0 };
        let all: Vec<_> = listening.iter().map(listener).collect();
        let got = takers(&all, to.parse().unwrap());
        let got: Vec<_> = got.iter().map(|one| one.address.to_string()).collect();
        assert_eq!(got, want, "{listening:?} asked for {to}");
    }

    #[test]
    fn the_most_exact_listener_takes_the_connection() {
        check(&["0.0.0.0:80", "127.0.0.1:80"], "127.0.0.1:80", &["127.0.0.1:80"]);
        check(&["[::]:80", "0.0.0.0:80"], "127.0.0.1:80", &["0.0.0.0:80"]);
        check(&["[::]:80"], "127.0.0.1:80", &["[::]:80"]);
        check(&["[::ffff:127.0.0.1]:80", "[::]:80"], "127.0.0.1:80", &["[::ffff:127.0.0.1]:80"]);
        check(&["[::]:80", "[::1]:80"], "[::1]:80", &["[::1]:80"]);
        check(&["0.0.0.0:80", "127.0.0.1:80"], "[::1]:80", &[]);
        check(&["127.0.0.2:80", "127.0.0.1:81"], "127.0.0.1:80", &[]);
        check(&["127.0.0.1:80", "127.0.0.1:80"], "127.0.0.1:80", &["127.0.0.1:80", "127.0.0.1:80"]);
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(address: SocketAddr, uid: u32, inode: u64, state in 1..12u8) {
            // A flow label or a zone is not in the table.
            let address = SocketAddr::new(address.ip(), address.port());
            let got: Vec<_> = listeners(&line(address, state, uid, inode)).collect();
            let want = (state == 0x0A).then_some(Listener { address, inode, uid });
            prop_assert_eq!(got, Vec::from_iter(want));
        }

        #[test]
        fn no_text_is_too_strange(text in "[ 0-9A-F:\\n\u{e9}a-z]{0,200}") {
            drop(listeners(&text).collect::<Vec<_>>());
        }
    }
}
