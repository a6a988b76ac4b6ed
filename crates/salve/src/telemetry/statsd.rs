//! Figures by StatsD: a datagram each, and nobody waits for an answer.

use std::net::{ToSocketAddrs as _, UdpSocket};
use std::time::{Duration, Instant};

use salve_core::telemetry::{Metric, statsd_line};

/// How long a name that nobody knows is not asked for again.
const AGAIN: Duration = Duration::from_secs(60);

/// Sends figures to one address.
#[derive(Debug)]
pub(super) struct StatsdSender {
    address: String,
    prefix: String,
    socket: Option<UdpSocket>,
    /// When the address was last looked up without success.
    missed: Option<Instant>,
}

impl StatsdSender {
    /// Makes a sender; the address is looked up when there is something to send.
    pub(super) fn new(address: &str, prefix: String) -> Self {
        Self { address: address.to_owned(), prefix, socket: None, missed: None }
    }

    /// Sends a figure; whoever does not listen misses it.
    pub(super) fn send(&mut self, metric: &Metric) {
        if self.socket.is_none() && self.missed.is_none_or(|at| at.elapsed() >= AGAIN) {
            self.socket = connect(&self.address);
            self.missed = self.socket.is_none().then(Instant::now);
        }
        if let Some(socket) = &self.socket {
            let _ = socket.send(statsd_line(&self.prefix, metric).as_bytes());
        }
    }
}

/// Returns a socket to an address; nothing where there is no such host.
fn connect(address: &str) -> Option<UdpSocket> {
    let to = address.to_socket_addrs().ok()?.next()?;
    let from = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(from).ok()?;
    socket.set_nonblocking(true).ok()?;
    socket.connect(to).ok()?;
    Some(socket)
}
