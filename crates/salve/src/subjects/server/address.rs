//! Where servers answer: from what they wrote, or from where they listen.
//!
//! Finding out who listens means looking at every process, so one look serves all servers.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use salve_core::server::LocalUrl;
use salve_core::server::url::Scheme;
use salve_core::watch::Seen;

use super::fleet::Fleet;
use super::{Source, State};
use crate::heal::millis;
use crate::probe;
use crate::process::Running;
use crate::store::StoreError;

/// How long a server is left alone at first: it cannot answer yet, and may crash at once.
pub(super) const FIRST_LOOK: Duration = Duration::from_millis(50);

/// How often a server that has not said where it answers is looked at.
const LOOK: Duration = Duration::from_millis(250);

impl Fleet<'_> {
    /// Finds out where those servers answer that have not said so, if it is time.
    pub(super) fn look_for_addresses(&mut self) -> Result<(), StoreError> {
        let now = Instant::now();
        let is_due = |state: &State| match state {
            State::Up(life) => life.look_at.is_some_and(|look| look <= now),
            State::Down | State::Clearing(_) => false,
        };
        if !self.servers.iter().any(|server| is_due(&server.state)) {
            return Ok(());
        }
        let mut silent: Vec<(usize, Running)> = Vec::new();
        for at in 0..self.servers.len() {
            let server = &self.servers[at];
            let State::Up(life) = &server.state else { continue };
            match (life.look_at, server.capture.url()) {
                (None, _) => {}
                (Some(_), Some(url)) => self.found(at, &url, Source::Told)?,
                (Some(_), None) => silent.push((at, life.running.clone())),
            }
        }
        let (places, running): (Vec<usize>, Vec<Running>) = silent.into_iter().unzip();
        if places.is_empty() {
            return Ok(());
        }
        let listens = probe::listeners(&self.care.families(&running));
        for (at, addresses) in places.into_iter().zip(listens) {
            match addresses.iter().map(SocketAddr::port).min() {
                Some(port) => {
                    self.found(at, &LocalUrl::of_port(Scheme::Http, port), Source::Seen)?
                }
                None => {
                    if let State::Up(life) = &mut self.servers[at].state {
                        life.look_at = (!life.watch.is_well()).then(|| now + LOOK);
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes in where a server answers.
    fn found(&mut self, at: usize, url: &LocalUrl, source: Source) -> Result<(), StoreError> {
        let server = &mut self.servers[at];
        let State::Up(life) = &mut server.state else { return Ok(()) };
        let path = server.plan.path.as_deref();
        let url = path.map_or_else(|| url.clone(), |path| url.with_path(path));
        life.look_at = None;
        life.address = Some(url.to_string());
        life.source = source;
        let turn = life.watch.hear(millis(life.since.elapsed()), Seen::Address);
        self.turned(at, turn)
    }
}
