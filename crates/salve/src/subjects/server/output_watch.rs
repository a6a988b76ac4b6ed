//! Looks at what is broken around a server that runs and answers: by what it writes, and by its
//! packages that are gone.
//!
//! **Invariant:** a server is disturbed only for something that a safe remedy puts right and that
//! the project's state confirms, twice with a pause between, and for each remedy once; never while
//! somebody installs packages in the project. One whose packages are gone runs on meanwhile: what
//! it has loaded still works.

use std::path::Path;
use std::time::{Duration, Instant};

use salve_core::event::ProcessExit;
use salve_core::fingerprint::{FingerprintRules, Hints};
use salve_core::playbook::{ObservedFailure, Playbook, Prescription};
use salve_core::scrub::Scrubber;
use salve_core::server::installs_packages;
use salve_core::watch::ServerTrouble;

use super::installed::InstalledPackages;
use super::life::{ServerCare, place};
use super::{AfterEnd, Ailing, Failing, Impairment, LifeNews, ProcessState};
use crate::config::PlaybookAuto;
use crate::heal::cause::FailurePlace;
use crate::heal::{RunIntent, spawn_thread};
use crate::playbook;
use crate::process::{Capture, tree};

/// The pause before a server's words are read for the first time; it doubles from there.
const FIRST: Duration = Duration::from_secs(1);

/// The longest pause.
const LONGEST: Duration = Duration::from_secs(5);

/// The pause before what was found is looked for a second time.
const SECOND: Duration = Duration::from_secs(3);

/// When a server's words are read next, and how far they have been.
#[derive(Clone, Debug)]
pub(super) struct OutputWatch {
    at: Instant,
    pause: Duration,
    read: u64,
    /// What was found once.
    found: Option<Impairment>,
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
    let before = life.output.clone();
    let pause = (before.pause * 2).min(LONGEST);
    let is_new = before.read != written || before.found.is_some();
    life.output = OutputWatch { at: now + before.pause, pause, read: written, ..before };
    let next = life.output.at;
    let gone = life.installed.as_ref().and_then(InstalledPackages::gone);
    if gone.is_none() && std::mem::replace(&mut life.gone_told, false) {
        of.are_back();
        return Some(next);
    }
    if is_new || gone.is_some() {
        let place = place(&of.server.plan, of.shared, base);
        let (capture, scrubber) = (of.server.capture.clone(), base.writer.scrubber.clone());
        let news = of.shared.news_of(of.at, of.server.generation);
        spawn_thread("reading", move || {
            let found = impairment(&capture, gone, &place, &scrubber);
            news(LifeNews::Read { found });
        });
    }
    Some(next)
}

/// Takes in what a server that runs could be helped with.
pub(super) fn found(of: &mut ServerCare<'_, '_, '_>, broken: Option<Impairment>) {
    let server = &mut *of.server;
    let ProcessState::Up(life) = &mut server.state else { return };
    let before = std::mem::replace(&mut life.output.found, broken.clone());
    let Some(broken) = broken else { return };
    let is_known = match broken.gone {
        Some(_) => life.gone_told || life.verifies.is_some(),
        None => server.disturbed.contains(&broken.remedy),
    };
    if is_known {
        return;
    }
    if before.as_ref() != Some(&broken) {
        life.output.at = Instant::now() + SECOND;
        return;
    }
    let (uptime, verifies) = (life.since.elapsed(), life.verifies);
    let ailing = Ailing { ailment: ServerTrouble::Impaired, fault: broken.gone.clone() };
    if broken.gone.is_some() {
        life.gone_told = true;
        let (exit, unstarted, tree) = (None, None, None);
        let ailing = Some(ailing);
        of.is_ill(&Failing { exit, uptime, ailing, unstarted, tree, verifies });
    } else {
        // What it told has a safe remedy, which needs it out of the way; its incident begins once
        // it has ended.
        server.disturbed.push(broken.remedy);
        of.clear(AfterEnd::Unwell { ailing, uptime, verifies });
    }
}

/// Returns what is broken around a server that runs: packages that are gone, or what its last
/// words tell, if there is a remedy for it.
fn impairment(
    capture: &Capture,
    gone: Option<String>,
    place: &FailurePlace,
    scrubber: &Scrubber,
) -> Option<Impairment> {
    let output = gone.clone().unwrap_or_else(|| capture.tail());
    if output.is_empty() || !Playbook::built_in().may_ail(&output) {
        return None;
    }
    let ask = place.ask();
    if is_being_installed(ask.root) {
        return None;
    }
    let output = scrubber.scrub(&output);
    let fingerprint = FingerprintRules::built_in().fingerprint(output.as_str(), &Hints::default());
    let seen = ObservedFailure {
        fingerprint: &fingerprint,
        exit: &ProcessExit::Hung,
        output: output.as_str(),
    };
    let found = playbook::ails(&ask, &seen, scrubber);
    let safe = found.remedies.iter().find(|one| Prescription::is_safe(one));
    safe.map(|one| Impairment { remedy: one.remedy.digest, gone })
}

/// Tells whether somebody installs packages in the project right now.
fn is_being_installed(root: &Path) -> bool {
    tree::all().iter().any(|stat| {
        let is_inside = || tree::cwd(stat.pid).is_some_and(|cwd| cwd.starts_with(root));
        let command = tree::command_line(stat.pid).filter(|_| !stat.is_dead);
        command.is_some_and(|command| installs_packages(&command)) && is_inside()
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;
    use std::sync::Arc;

    use salve_core::scrub::ScrubKey;

    use super::*;
    use crate::process::{Outlet, OutputStyle};

    #[test]
    fn nothing_is_broken_while_somebody_installs_packages_in_the_project() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let manifest = r#"{"name":"app","dependencies":{"ms":"2.1.3"}}"#;
        let lock = r#"{"name":"app","lockfileVersion":3,"packages":{"":{"name":"app","dependencies":{"ms":"2.1.3"}},"node_modules/ms":{"version":"2.1.3"}}}"#;
        fs::write(root.join("package.json"), manifest).unwrap();
        fs::write(root.join("package-lock.json"), lock).unwrap();
        let capture = Capture::new(Arc::new(Outlet::none()), OutputStyle::Plain);
        let sandbox = crate::sandbox::tests::usual();
        let place = FailurePlace::new(&root, &root, &[], &[], &sandbox);
        let scrubber = Scrubber::new(ScrubKey::new([5; 32]));
        let is_broken = || {
            let gone = "Error: Cannot find package 'ms': node_modules is gone".to_owned();
            impairment(&capture, Some(gone), &place, &scrubber).is_some()
        };
        assert!(is_broken());
        // A process that calls itself as an install does, once the shell has become it.
        let mut install = Command::new("bash");
        install.args(["-c", "exec -a 'npm ci' sleep 300"]).current_dir(&root);
        let mut install = install.spawn().unwrap();
        while !is_being_installed(&root) {
            assert!(install.try_wait().unwrap().is_none(), "it ended");
            std::thread::yield_now();
        }
        assert!(!is_broken());
        install.kill().unwrap();
        install.wait().unwrap();
        assert!(is_broken());
    }
}
