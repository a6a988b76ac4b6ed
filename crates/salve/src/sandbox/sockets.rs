//! Which sockets a command can make, by the kernel's filter of system calls.
//!
//! Landlock knows the ports of TCP and nothing else: UDP, raw packets, TCP by another name (MPTCP,
//! SMC) and connections that come with their first data pass it by. The filter sees numbers only,
//! no addresses, so it cannot tell a look-up of a name from any other datagram: UDP is refused as a
//! whole where names can be looked up by TCP ([`Names`]), and nowhere else.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{
    BackendError, BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp,
    SeccompCondition, SeccompFilter, SeccompRule, TargetArch, apply_filter,
};
use serde::{Deserialize, Serialize};

use super::caches::names;
use super::names::Names;
use crate::config::Network;

/// The words by which a command names tools that need datagrams on this very machine: those of
/// Gradle agree by them who holds a lock.
const TALKATIVE: &[&str] = &["gradle", "gradlew"];
/// The bit by which x86-64 marks calls of its other table.
pub(super) const OTHER_TABLE: i64 = 0x4000_0000;

/// The sockets a command can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kinds {
    /// Those within this machine.
    Local,
    /// Those, and TCP.
    Tcp,
    /// Those, TCP and UDP.
    TcpAndUdp,
}

impl Kinds {
    /// Returns what a command gets that reaches so far; what may do anything is not filtered.
    pub(super) fn of(
        network: Network,
        command: &str,
        looked_up: impl FnOnce() -> Names,
    ) -> Option<Self> {
        match network {
            Network::None => Some(Self::Local),
            Network::Web if names(command, TALKATIVE) => Some(Self::TcpAndUdp),
            Network::Web => Some(match looked_up() {
                Names::ByTcp => Self::Tcp,
                Names::ByUdp => Self::TcpAndUdp,
            }),
            Network::Any => None,
        }
    }

    /// Takes all other kinds from this thread, and from all that it starts from now on.
    pub(super) fn restrict(self) -> Result<(), Error> {
        apply_filter(&self.program()?)
    }

    fn program(self) -> Result<BpfProgram, Error> {
        let mut rules = BTreeMap::from([
            (libc::SYS_socket, self.refused()?),
            // By it, calls are made that no filter sees.
            (libc::SYS_io_uring_setup, Vec::new()),
        ]);
        // A connection that comes with its first data asks Landlock nothing.
        for (call, at) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
            let flag = u64::from(libc::MSG_FASTOPEN.unsigned_abs());
            rules.insert(call, vec![rule(&[(at, SeccompCmpOp::MaskedEq(flag), flag)])?]);
        }
        if cfg!(target_arch = "x86_64") {
            let other = rules.iter().map(|(call, of)| (call | OTHER_TABLE, of.clone()));
            let other: Vec<_> = other.collect();
            rules.extend(other);
        }
        let arch = TargetArch::try_from(std::env::consts::ARCH)?;
        let refuse = SeccompAction::Errno(libc::EACCES.unsigned_abs());
        Ok(SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?.try_into()?)
    }

    /// Returns the rules on what cannot be made.
    fn refused(self) -> Result<Vec<SeccompRule>, BackendError> {
        use SeccompCmpOp::{Eq, MaskedEq, Ne};
        let number = |number: i32| u64::from(number.unsigned_abs());
        let [local, route] = [libc::AF_UNIX, libc::AF_NETLINK].map(number);
        let world = [libc::AF_INET, libc::AF_INET6].map(number);
        let mut known = vec![(0, Ne, local), (0, Ne, route)];
        let mut rules = vec![rule(&[(0, Eq, route), (2, Ne, number(libc::NETLINK_ROUTE))])?];
        let (tcp, udp) = (libc::SOCK_STREAM, libc::SOCK_DGRAM);
        let others = [libc::SOCK_RAW, libc::SOCK_RDM, libc::SOCK_SEQPACKET, SOCK_DCCP, SOCK_PACKET];
        let (protocol, refused) = match self {
            Self::Local => (&[][..], &[][..]),
            Self::Tcp => (&[(tcp, libc::IPPROTO_TCP)][..], &[udp][..]),
            Self::TcpAndUdp => (&[(tcp, libc::IPPROTO_TCP), (udp, libc::IPPROTO_UDP)][..], &[][..]),
        };
        let kind = MaskedEq(KIND);
        for family in world.into_iter().filter(|_| self != Self::Local) {
            known.push((0, Ne, family));
            for &of in refused.iter().chain(&others) {
                rules.push(rule(&[(0, Eq, family), (1, kind.clone(), number(of))])?);
            }
            for &(of, protocol) in protocol {
                let is_of = [(0, Eq, family), (1, kind.clone(), number(of))];
                let is_other = [(2, Ne, 0), (2, Ne, number(protocol))];
                rules.push(rule(&[is_of, is_other].concat())?);
            }
        }
        rules.push(rule(&known)?);
        Ok(rules)
    }
}

/// The bits of a socket's kind that are no flags.
const KIND: u64 = 0xf;
/// Kinds that the library has no name for.
const SOCK_DCCP: i32 = 6;
const SOCK_PACKET: i32 = 10;

/// Returns the rule that all of these conditions on arguments make.
pub(super) fn rule(all: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, BackendError> {
    let one = |(at, how, value): &(u8, SeccompCmpOp, u64)| {
        SeccompCondition::new(*at, SeccompCmpArgLen::Dword, how.clone(), *value)
    };
    SeccompRule::new(all.iter().map(one).collect::<Result<_, _>>()?)
}
