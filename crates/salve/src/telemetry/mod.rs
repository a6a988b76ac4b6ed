//! Figures for whoever watches many runs: the journal, folded to what the spec counts, sent by StatsD.
//!
//! Nothing waits for it: a datagram that cannot be sent is lost, and a host that is gone costs
//! nothing.

use std::net::{ToSocketAddrs as _, UdpSocket};

use salve_core::event::Entry;
use salve_core::job::{MetricsFold, statsd_line};

use crate::config::TelemetrySettings;

/// Sends the figures of the entries that it is shown.
#[derive(Debug)]
pub struct Telemetry {
    fold: MetricsFold,
    prefix: String,
    socket: Option<UdpSocket>,
}

impl Telemetry {
    /// Begins after `known`, which were told when they were written.
    pub fn after<'e>(
        settings: &TelemetrySettings,
        known: impl IntoIterator<Item = &'e Entry>,
    ) -> Self {
        let mut fold = MetricsFold::default();
        for entry in known {
            let _told = fold.take(entry);
        }
        let socket = settings.statsd.as_deref().and_then(connect);
        Self { fold, prefix: settings.prefix.clone(), socket }
    }

    /// Sends what an entry adds.
    pub fn take(&mut self, entry: &Entry) {
        let metrics = self.fold.take(entry);
        let Some(socket) = &self.socket else { return };
        for metric in &metrics {
            // Whoever does not listen misses it.
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
