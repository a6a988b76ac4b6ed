//! Asks a server whether it is well.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use salve_core::server::health::Fault;
use salve_core::server::{Expect, LocalUrl, StatusRange};
use salve_core::watch::ProbeAnswer;

use super::life::ServerCare;
use super::{CaredServer, LifeNews, ProcessState, Source};
use crate::agent::vitals::Vitals;
use crate::heal::spawn_thread;
use crate::probe::{self, HealthProbe, Owner};
use crate::process::{Running, Supervisor};

/// How often at least it is looked whether a server does anything while its answer is waited for.
const LOOKS: u32 = 12;

/// How long one looks at most whether a server does anything.
const LONGEST_LOOK: Duration = Duration::from_secs(1);

/// Asks a server whether it is well, on a thread of its own.
pub(super) fn probe(of: &ServerCare<'_, '_, '_>) {
    let server = &*of.server;
    let ProcessState::Up(life) = &server.state else { return };
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
    let timing = server.plan.timing;
    // Where a path is named, its answer has to come in time: that is what it is named for.
    let may_be_slow = !has_health_path(server);
    let is_patient = may_be_slow && life.is_slow;
    let look = ServerLook {
        care: of.context.base.care.clone(),
        running: life.running.clone(),
        health: HealthProbe {
            url: life.address.clone().unwrap_or_default(),
            expect,
            limit: if is_patient { timing.patience(life.slowest) } else { timing.timeout },
        },
        is_web: match life.source {
            Source::Set => true,
            Source::Told => server.speaks_http || says_http(&server.capture.tail()),
            Source::Seen => server.speaks_http,
        },
        may_be_slow,
        is_patient,
        given_up_at: life.silent_since.filter(|_| life.slowest.is_some()).map(|since| {
            // It has answered in that time before, and now computes without an end.
            since + timing.patience(life.slowest).saturating_mul(2)
        }),
        may_bind_late: !server.has_answered && life.since.elapsed() >= timing.startup,
    };
    spawn_thread("probe", move || news(look.take()));
}

/// One look at a server, for a thread of its own.
struct ServerLook {
    care: Supervisor,
    running: Running,
    health: HealthProbe,
    /// Whether somebody said that it speaks HTTP.
    is_web: bool,
    /// Whether nobody said that it has to answer soon.
    may_be_slow: bool,
    /// Whether it was slow before, so that its answer is waited for.
    is_patient: bool,
    /// From when on it hangs that does not answer, whatever it does.
    given_up_at: Option<Instant>,
    /// Whether it should have begun to listen and never has.
    may_bind_late: bool,
}

impl ServerLook {
    /// Asks the server, and returns what came of it.
    fn take(&self) -> LifeNews {
        let (begun, main) = (Instant::now(), self.running.process().pid);
        let (asked, does) = if self.is_patient {
            watched(main, self.health.limit, || probe::ask(&self.health))
        } else {
            (probe::ask(&self.health), Doing::Unknown)
        };
        let status = asked.as_ref().ok().map(|good| good.status);
        let (answer, fault) = match asked {
            Ok(good) => match self.stranger(good.peer.or_else(|| peer_of(&self.health.url))) {
                Some(text) => (ProbeAnswer::Stranger, Some(text)),
                None => (ProbeAnswer::Good, None),
            },
            // It takes connections, and nobody said that it is a web server.
            Err(fault) if !self.is_web && is_foreign(&fault) => (ProbeAnswer::Good, None),
            Err(fault) => {
                let answer = match (answer_of(&fault), does) {
                    (ProbeAnswer::Silent, Doing::Nothing) => ProbeAnswer::Still,
                    (ProbeAnswer::Silent, _)
                        if self.given_up_at.is_some_and(|end| end <= Instant::now()) =>
                    {
                        ProbeAnswer::Still
                    }
                    (ProbeAnswer::Silent, _) if self.may_be_slow => ProbeAnswer::Slow,
                    (ProbeAnswer::Nobody, _) if self.may_bind_late && works(main) => {
                        ProbeAnswer::Slow
                    }
                    (answer, _) => answer,
                };
                (answer, Some(format!("{}: {fault}", self.health.url)))
            }
        };
        LifeNews::Probed { answer, fault, status, took: begun.elapsed() }
    }

    /// Returns who answers there in the server's place, if another process does.
    fn stranger(&self, peer: Option<SocketAddr>) -> Option<String> {
        let mut family = self.care.families(std::slice::from_ref(&self.running)).concat();
        family.push(self.running.process().pid);
        match probe::owner(peer?, &family) {
            Owner::Other(holder) => Some(format!(
                "{} is answered by another process: pid {}, `{}`",
                self.health.url, holder.pid, holder.command
            )),
            Owner::Ours { .. } | Owner::Unknown { .. } | Owner::Nobody => None,
        }
    }
}

/// What a server did while an answer was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// Nobody looked.
    Unknown,
    /// It computed, read, wrote, or started something.
    Something,
    Nothing,
}

/// Asks a server, and looks meanwhile whether it does anything.
fn watched<T>(main: u32, limit: Duration, ask: impl FnOnce() -> T) -> (T, Doing) {
    let pause = (limit / LOOKS).min(LONGEST_LOOK);
    let (tell, told) = mpsc::channel::<()>();
    let look = move || {
        // That it takes the request is no work yet.
        let is_over = told.recv_timeout(pause) != Err(RecvTimeoutError::Timeout);
        let mut vitals = Vitals::new(main, Instant::now());
        while !is_over && told.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            vitals.look(Instant::now());
        }
        vitals.look(Instant::now())
    };
    std::thread::scope(|scope| {
        let looking = scope.spawn(look);
        let asked = ask();
        drop(tell);
        let does = match looking.join() {
            Ok(still) if still >= limit / 2 => Doing::Nothing,
            Ok(_) => Doing::Something,
            Err(_) => Doing::Unknown,
        };
        (asked, does)
    })
}

/// Returns whether a server does something just now.
fn works(main: u32) -> bool {
    let mut vitals = Vitals::new(main, Instant::now());
    std::thread::sleep(LONGEST_LOOK);
    vitals.look(Instant::now()) < LONGEST_LOOK
}

/// Returns whether somebody named the path at which the server says that it is well.
fn has_health_path(server: &CaredServer) -> bool {
    let url = server.plan.url.as_deref().and_then(LocalUrl::at_start);
    server.plan.path.is_some() || url.is_some_and(|url| url.path != "/")
}

/// Returns the address that a URL leads to.
fn peer_of(url: &str) -> Option<SocketAddr> {
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
