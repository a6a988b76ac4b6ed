//! Where servers answer: from what they wrote, or from where they listen.
//!
//! Finding out who listens means looking at every process, so one look serves all servers.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use salve_core::server::url::Scheme;
use salve_core::server::{LocalUrl, debugger_ports};
use salve_core::watch::ServerSight;

use super::life::ServerCare;
use super::servers::Servers;
use super::{CaredServer, ProcessState, ServerRun, Source};
use crate::heal::{SubjectContext, millis};
use crate::probe;
use crate::process::Running;
use crate::store::StoreError;

/// How long a server is left alone at first: it cannot answer yet, and may crash at once.
pub(super) const FIRST_LOOK: Duration = Duration::from_millis(50);

/// How often a server that has not said where it answers is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// How often one that has stayed up without saying so is looked at, until it should have started.
const LATER_LOOK: Duration = Duration::from_secs(1);

/// How often one that should have started long ago is looked at: most never listen, and some say
/// where they do after minutes of compiling.
const LATE_LOOK: Duration = Duration::from_secs(5);

/// Finds out where those servers answer that have not said so, if it is time.
pub(super) fn look_for_addresses(
    servers: &mut Servers,
    context: &mut SubjectContext<'_, '_>,
) -> Result<(), StoreError> {
    let now = Instant::now();
    let is_due = |state: &ProcessState| match state {
        ProcessState::Up(life) => life.look_at.is_some_and(|look| look <= now),
        ProcessState::Down | ProcessState::Clearing(_) => false,
    };
    if !servers.all.iter().any(|server| is_due(&server.state)) {
        return Ok(());
    }
    let mut silent: Vec<(usize, Running)> = Vec::new();
    for at in 0..servers.all.len() {
        let server = &servers.all[at];
        let ProcessState::Up(life) = &server.state else { continue };
        match (life.look_at, server.capture.url()) {
            (None, _) => {}
            (Some(_), Some(url)) => found(&mut servers.one(at, context), &url, Source::Told)?,
            // It was seen to listen somewhere, and may yet say where it answers.
            (Some(_), None) if life.address.is_some() => look_later(&mut servers.all[at], now),
            (Some(_), None) if is_idle(server, life) => look_again(&mut servers.all[at], now),
            (Some(_), None) => silent.push((at, life.running.clone())),
        }
    }
    let (places, running): (Vec<usize>, Vec<Running>) = silent.into_iter().unzip();
    if places.is_empty() {
        return Ok(());
    }
    let listens = probe::listeners(&context.base.care.families(&running));
    for (at, addresses) in places.into_iter().zip(listens) {
        let debuggers = match addresses[..] {
            [] => Vec::new(),
            [..] => debugger_ports(&servers.all[at].capture.tail()),
        };
        let ports = addresses.iter().map(SocketAddr::port).filter(|port| !debuggers.contains(port));
        match ports.min() {
            Some(port) => {
                let url = LocalUrl::of_port(Scheme::Http, port);
                found(&mut servers.one(at, context), &url, Source::Seen)?;
            }
            None => look_again(&mut servers.all[at], now),
        }
    }
    Ok(())
}

/// Returns whether a server that should have started has written nothing since it was looked at: one
/// that never listens costs nothing.
fn is_idle(server: &CaredServer, life: &ServerRun) -> bool {
    let is_late = life.since.elapsed() >= server.plan.timing.startup && life.watch.is_well();
    is_late && life.looked_after == server.capture.written()
}

/// Says when a server that answers nowhere yet is looked at next.
fn look_again(server: &mut CaredServer, now: Instant) {
    let written = server.capture.written();
    let ProcessState::Up(life) = &mut server.state else { return };
    let is_starting = life.since.elapsed() < server.plan.timing.startup;
    let pause = match (life.watch.is_well(), is_starting) {
        (false, _) => LOOK,
        (true, true) => LATER_LOOK,
        (true, false) => LATE_LOOK,
    };
    life.look_at = Some(now + pause);
    life.looked_after = written;
}

/// Says when a server that was seen to listen is looked at next.
fn look_later(server: &mut CaredServer, now: Instant) {
    if let ProcessState::Up(life) = &mut server.state {
        life.look_at = later(life, now);
    }
}

/// Returns when to look again whether a server that was seen to listen says where it answers: until
/// it should have started.
fn later(life: &ServerRun, now: Instant) -> Option<Instant> {
    (life.since.elapsed() < life.startup).then(|| now + LATER_LOOK)
}

/// Takes in where a server answers.
fn found(
    of: &mut ServerCare<'_, '_, '_>,
    url: &LocalUrl,
    source: Source,
) -> Result<(), StoreError> {
    let ProcessState::Up(life) = &mut of.server.state else { return Ok(()) };
    let path = of.server.plan.path.as_deref();
    let url = path.map_or_else(|| url.clone(), |path| url.with_path(path));
    let known = life.address.as_deref().and_then(LocalUrl::at_start);
    let sight = match known {
        Some(known) if !is_same_place(&known, &url) => {
            let families = of.context.base.care.families(std::slice::from_ref(&life.running));
            let listens = probe::listeners(&families).concat();
            // It may speak of another server, and the answer that is awaited is of the old address.
            if life.watch.awaits_answer() || listens.iter().all(|at| at.port() != url.port) {
                life.look_at = later(life, Instant::now());
                return Ok(());
            }
            ServerSight::Moved
        }
        Some(_) | None => ServerSight::Address,
    };
    life.look_at = match source {
        Source::Seen => later(life, Instant::now()),
        Source::Set | Source::Told => None,
    };
    life.address = Some(url.to_string());
    life.source = source;
    let turn = life.watch.hear(millis(life.since.elapsed()), sight);
    of.turned(turn)
}

/// Tells whether two addresses are one, whatever name the host has.
fn is_same_place(one: &LocalUrl, other: &LocalUrl) -> bool {
    (one.scheme, one.port, &one.path) == (other.scheme, other.port, &other.path)
}
