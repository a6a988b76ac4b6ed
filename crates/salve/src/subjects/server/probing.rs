//! Asks a server whether it is well.

use std::net::ToSocketAddrs as _;

use salve_core::server::health::Fault;
use salve_core::server::{Expect, LocalUrl, StatusRange};
use salve_core::watch::ProbeAnswer;

use super::life::ServerCare;
use super::{LifeNews, ProcessState, Source};
use crate::heal::spawn_thread;
use crate::probe::{self, HealthProbe, Owner};

/// Asks a server whether it is well, on a thread of its own.
pub(super) fn probe(of: &ServerCare<'_, '_, '_>) {
    let server = &*of.server;
    let ProcessState::Up(life) = &server.state else { return };
    let care = of.context.base.care.clone();
    let news = of.shared.news_of(of.at, server.generation);
    let is_set = server.plan.url.is_some() || server.plan.path.is_some();
    let expect = server.plan.expect.clone().unwrap_or_else(|| {
        if is_set {
            Expect::default()
        } else {
            // A page that is not there is an answer all the same, only a broken server is none.
            Expect { status: StatusRange { from: 100, to: 499 }, body: None }
        }
    });
    let health = HealthProbe {
        url: life.address.clone().unwrap_or_default(),
        expect,
        limit: server.plan.timing.timeout,
    };
    let running = life.running.clone();
    let is_web = match life.source {
        Source::Set => true,
        Source::Told => server.speaks_http || says_http(&server.capture.tail()),
        Source::Seen => server.speaks_http,
    };
    let ask = move || {
        let mut status = None;
        let (answer, fault) = match probe::ask(&health) {
            Ok(good) => {
                status = Some(good.status);
                let peer = good.peer.or_else(|| peer_of(&health.url));
                let mut family = care.families(std::slice::from_ref(&running)).concat();
                family.push(running.process().pid);
                match peer.map(|peer| probe::owner(peer, &family)) {
                    Some(Owner::Other(holder)) => {
                        let text = format!(
                            "{} is answered by another process: pid {}, `{}`",
                            health.url, holder.pid, holder.command
                        );
                        (ProbeAnswer::Stranger, Some(text))
                    }
                    Some(Owner::Ours { .. } | Owner::Unknown { .. } | Owner::Nobody) | None => {
                        (ProbeAnswer::Good, None)
                    }
                }
            }
            // It takes connections, and nobody said that it is a web server.
            Err(fault) if !is_web && is_foreign(&fault) => (ProbeAnswer::Good, None),
            Err(fault) => (answer_of(&fault), Some(format!("{}: {fault}", health.url))),
        };
        news(LifeNews::Probed { answer, fault, status });
    };
    spawn_thread("probe", ask);
}

/// Returns the address that a URL leads to.
fn peer_of(url: &str) -> Option<std::net::SocketAddr> {
    let url = LocalUrl::at_start(url)?;
    (url.host.trim_matches(['[', ']']), url.port).to_socket_addrs().ok()?.next()
}

/// Returns whether what a server wrote says that it speaks HTTP; `listening on 127.0.0.1:6000` does not.
fn says_http(told: &str) -> bool {
    told.to_ascii_lowercase().contains("http")
}

/// Returns whether a fault may mean that something other than plain HTTP is spoken there. A server that
/// waits for the rest of a message in its own protocol gives no answer at all.
fn is_foreign(fault: &Fault) -> bool {
    match fault {
        Fault::Closed
        | Fault::Silent { .. }
        | Fault::Garbage
        | Fault::SpeaksTls
        | Fault::LongHeader { .. }
        | Fault::BrokeOff { .. } => true,
        Fault::Refused
        | Fault::Unreachable(_)
        | Fault::NoTls(_)
        | Fault::Redirects { .. }
        | Fault::Endless { .. }
        | Fault::Status { .. }
        | Fault::Body { .. } => false,
    }
}

/// Returns what a probe's fault means to the watch.
fn answer_of(fault: &Fault) -> ProbeAnswer {
    match fault {
        Fault::Refused | Fault::Unreachable(_) => ProbeAnswer::Nobody,
        Fault::Silent { .. } => ProbeAnswer::Silent,
        Fault::Closed
        | Fault::Garbage
        | Fault::SpeaksTls
        | Fault::NoTls(_)
        | Fault::LongHeader { .. }
        | Fault::Redirects { .. }
        | Fault::Endless { .. }
        | Fault::BrokeOff { .. }
        | Fault::Status { .. }
        | Fault::Body { .. } => ProbeAnswer::Bad,
    }
}
