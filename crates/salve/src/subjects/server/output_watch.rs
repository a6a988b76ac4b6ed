//! Reads what a server that runs writes: some tell what is broken around them and go on, and answer
//! all the same.
//!
//! **Invariant:** a server is disturbed only for something that a safe remedy puts right and that
//! the project's state confirms, twice with a pause between, and for each remedy once. Somebody may
//! be putting it right at this very moment.

use std::time::{Duration, Instant};

use salve_core::event::{Digest, Exit};
use salve_core::fingerprint::{FingerprintRules, Hints};
use salve_core::playbook::{ObservedFailure, Playbook, Prescription};
use salve_core::scrub::Scrubber;
use salve_core::watch::ServerTrouble;

use super::life::{ServerCare, place};
use super::{AfterEnd, Ailing, LifeNews, ProcessState};
use crate::config::PlaybookAuto;
use crate::heal::cause::FailurePlace;
use crate::heal::{RunIntent, spawn_thread};
use crate::playbook;
use crate::process::Capture;

/// The pause before a server's words are read for the first time; it doubles from there.
const FIRST: Duration = Duration::from_secs(1);

/// The longest pause.
const LONGEST: Duration = Duration::from_secs(10);

/// The pause before what was found is looked for a second time.
const SECOND: Duration = Duration::from_secs(3);

/// When a server's words are read next, and how far they have been.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutputWatch {
    at: Instant,
    pause: Duration,
    read: u64,
    /// What would put right what was found once.
    found: Option<Digest>,
}

impl OutputWatch {
    /// Returns the beginning of a run.
    pub(super) fn new(since: Instant) -> Self {
        Self { at: since + FIRST, pause: FIRST, read: 0, found: None }
    }
}

/// Reads what a server wrote, if it is time and there is something new; returns when next.
pub(super) fn read(of: &mut ServerCare<'_, '_, '_>) -> Option<Instant> {
    let server = &mut *of.server;
    let ProcessState::Up(life) = &mut server.state else { return None };
    let base = &*of.context.base;
    match (base.remedies.playbook, base.intent) {
        (PlaybookAuto::Safe, RunIntent::Heal) => {}
        (PlaybookAuto::None, _) | (_, RunIntent::Observe) => return None,
    }
    let now = Instant::now();
    if now < life.output.at {
        return Some(life.output.at);
    }
    let written = server.capture.written();
    let before = life.output;
    let pause = (before.pause * 2).min(LONGEST);
    life.output = OutputWatch { at: now + before.pause, pause, read: written, ..before };
    let next = life.output.at;
    if before.read != written || before.found.is_some() {
        let place = place(&server.plan, of.shared, base);
        let (capture, scrubber) = (server.capture.clone(), base.writer.scrubber.clone());
        let news = of.shared.news_of(of.at, server.generation);
        spawn_thread("reading", move || {
            let remedy = remedy_for(&capture, &place, &scrubber);
            news(LifeNews::Read { remedy });
        });
    }
    Some(next)
}

/// Takes in what a server that runs could be helped with; its incident begins once it has ended.
pub(super) fn found(of: &mut ServerCare<'_, '_, '_>, remedy: Option<Digest>) {
    let server = &mut *of.server;
    let ProcessState::Up(life) = &mut server.state else { return };
    let before = std::mem::replace(&mut life.output.found, remedy);
    let Some(remedy) = remedy.filter(|remedy| !server.disturbed.contains(remedy)) else {
        return;
    };
    if before != Some(remedy) {
        life.output.at = Instant::now() + SECOND;
        return;
    }
    server.disturbed.push(remedy);
    let ailing = Ailing { ailment: ServerTrouble::Impaired, fault: None };
    let (uptime, verifies) = (life.since.elapsed(), life.verifies);
    of.clear(AfterEnd::Unwell { ailing, uptime, verifies });
}

/// Returns the remedy for what a server's last words tell, if there is one.
fn remedy_for(capture: &Capture, place: &FailurePlace, scrubber: &Scrubber) -> Option<Digest> {
    let output = capture.tail();
    if output.is_empty() || !Playbook::built_in().may_ail(&output) {
        return None;
    }
    let output = scrubber.scrub(&output);
    let fingerprint = FingerprintRules::built_in().fingerprint(output.as_str(), &Hints::default());
    let seen =
        ObservedFailure { fingerprint: &fingerprint, exit: &Exit::Hung, output: output.as_str() };
    let found = playbook::ails(&place.ask(), &seen, scrubber);
    found.remedies.iter().find(|one| Prescription::is_safe(one)).map(|one| one.remedy.digest)
}
