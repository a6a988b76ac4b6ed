//! Asks servers whether they are well, and looks up who listens where.
//!
//! **Invariant:** [`ask`] returns within its time limit whatever the other side does.

mod http;
mod sockets;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use salve_core::server::health::{Expect, Fault};

pub use sockets::{
    ConnectionClients, Owner, PortHolder, connection_clients, holder, is_connected, listeners,
    owner,
};

/// How many redirects on the same server are followed.
const MOST_REDIRECTS: u32 = 10;

/// Whom to ask, and what a healthy answer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthProbe {
    /// The address, with the path that is asked for.
    pub url: String,
    /// What the answer must be.
    pub expect: Expect,
    /// How long the whole probe may take.
    pub limit: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthyAnswer {
    /// Its status code.
    pub status: u16,
    /// The address that answered, where it is on this machine.
    pub peer: Option<SocketAddr>,
    /// How long it took.
    pub took: Duration,
}

/// Asks once.
///
/// Redirects are followed as long as they stay on the same server; one that leads elsewhere is
/// the answer itself. A server on this machine may have any certificate.
pub fn ask(health: &HealthProbe) -> Result<HealthyAnswer, Fault> {
    let clock = http::Clock { end: Instant::now() + health.limit, limit: health.limit };
    let mut target = http::ProbeTarget::parse(&health.url)?;
    // A status that is wanted instead of a page is the answer even if it redirects.
    let follows = health.expect.status.contains(200);
    let mut followed = 0;
    loop {
        let reply = http::get(&target, health.expect.body.as_deref(), &clock)?;
        match target.follow(&reply) {
            Some(next) if follows && followed < MOST_REDIRECTS => {
                followed += 1;
                target = next;
            }
            Some(_) if follows => return Err(Fault::Redirects { followed }),
            Some(_) | None => return judge(reply, &health.expect, &clock),
        }
    }
}

fn judge(reply: http::Reply, expect: &Expect, clock: &http::Clock) -> Result<HealthyAnswer, Fault> {
    let (status, wanted) = (reply.status, expect.status);
    if !wanted.contains(status) {
        return Err(Fault::Status { status, wanted });
    }
    match (reply.body, &expect.body) {
        (http::AnswerBody::Whole { has: false }, Some(lacks)) => {
            Err(Fault::Body { lacks: lacks.clone() })
        }
        (http::AnswerBody::Whole { .. }, _) => {
            Ok(HealthyAnswer { status, peer: reply.peer, took: clock.took() })
        }
        (http::AnswerBody::Endless { bytes }, _) => Err(Fault::Endless { bytes }),
        (http::AnswerBody::BrokeOff { bytes }, _) => Err(Fault::BrokeOff { bytes }),
    }
}
