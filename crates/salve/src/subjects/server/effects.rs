//! What an incident asks for, done in the world.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use salve_core::event::{
    Effect, Event, Exit, Outcome as Ends, Proof, RemedyKind, Report, Scope, Undo,
};
use salve_core::incident::{Phase, Run as Effecting};
use salve_core::memory::{Failure, Kind, Outcome, Remedy};
use salve_core::repair::exit_text;
use salve_core::scrub::{Scrubbed, Scrubber};

use super::agents::{Minder, has_changed, see_off};
use super::fleet::Fleet;
use super::life::spawn_thread;
use super::remedies::What;
use super::{Input, State, Then, lock};
use crate::process::{Capture, Care, Look, Outlet, Spec, Terminal, run_command};
use crate::project::Project;
use crate::store::StoreError;
use crate::workspace::{Again, Give, Moment, Name, Snapshot, Workspace, WorkspaceError};

impl Fleet<'_> {
    /// Does what an incident asks for.
    pub(super) fn run(&mut self, at: usize, effect: Effecting) -> Result<(), StoreError> {
        self.servers[at].case.running = Some(effect);
        match effect.what {
            Effect::Snapshot => self.snapshot(at, effect),
            Effect::Apply { remedy, .. } => return self.apply(at, effect, remedy),
            Effect::Measure => self.measure(at, effect),
            Effect::Verify => return self.verify(at, effect),
            Effect::RollBack(scope) => self.roll_back(at, effect, scope),
            Effect::Ask => return self.finish(at, effect, Report::Done),
            Effect::Record => {
                let report = match self.record(at) {
                    Ok(()) => Report::Done,
                    Err(error) => failed(&self.desk.scrubber, &error),
                };
                return self.finish(at, effect, report);
            }
            Effect::Release => {
                let others = self.servers.iter().enumerate();
                let last = others.filter(|(other, _)| *other != at).all(|(_, server)| {
                    server.incident.as_ref().is_none_or(|incident| {
                        !matches!(incident.phase(), Phase::Due { .. } | Phase::Doing { .. })
                    })
                });
                let report = match lock::let_go(&self.root, &self.desk.me, &self.desk.scrubber) {
                    Err(error) if last => failed(&self.desk.scrubber, &error),
                    Ok(()) | Err(_) => Report::Done,
                };
                return self.finish(at, effect, report);
            }
        }
        Ok(())
    }

    /// Runs something that takes time on a thread of its own, and reports by the inbox.
    pub(super) fn aside(
        &self,
        at: usize,
        effect: Effecting,
        work: impl FnOnce() -> Report + Send + 'static,
    ) {
        let (post, project) = (self.post.clone(), self.project.clone());
        let changes = self.changes(at, effect);
        spawn_thread("effect", move || {
            let report = work();
            if let Some(name) = changes {
                // With the state it left kept, undoing it spares what others edit from here on;
                // without, all goes back.
                let _unkept = has_changed(&project, name);
            }
            // Nobody is left to tell when the fleet is gone; the journal says what was begun.
            let _ = post.send(Input::Done { server: at, effect, report });
        });
    }

    /// Returns the snapshot from before a remedy that changes files and is not measured later.
    fn changes(&self, at: usize, effect: Effecting) -> Option<Name> {
        let trial = self.servers[at].incident.as_ref()?.trial()?;
        let applies = matches!(effect.what, Effect::Apply { .. });
        let is_command = trial.remedy.kind == RemedyKind::Command;
        let is_kept = trial.remedy.undo == Undo::Snapshot;
        (applies && is_command && is_kept).then(|| self.name(at, Scope::Attempt))?
    }

    /// Returns the name of the snapshot that is taken before the present attempt.
    pub(super) fn name(&self, at: usize, scope: Scope) -> Option<Name> {
        let incident = self.servers[at].incident.as_ref()?;
        let attempt = match scope {
            Scope::Attempt => incident.attempt(),
            Scope::Incident => 1,
        };
        Some(Name::before(incident.id(), attempt))
    }

    fn snapshot(&self, at: usize, effect: Effecting) {
        let (project, scrubber) = (self.project.clone(), self.desk.scrubber.clone());
        let name = self.name(at, Scope::Attempt);
        let (now, kept) = (self.desk.now(), self.repair.logs_kept);
        self.aside(at, effect, move || {
            let take = |name: Name| {
                let workspace = Workspace::open(&project)?;
                let taken = workspace.snapshot(name);
                // Old ones go when new ones come; what fails now is done the next time.
                let _later = workspace.prune(now, kept);
                taken
            };
            match name.map(take) {
                Some(Ok(_)) => Report::Done,
                Some(Err(error)) => failed(&scrubber, &error),
                None => nothing_there(),
            }
        });
    }

    fn measure(&self, at: usize, effect: Effecting) {
        let (project, scrubber) = (self.project.clone(), self.desk.scrubber.clone());
        let name = self.name(at, Scope::Attempt);
        let agent = self.servers[at].minder.as_ref().map(Minder::agent);
        self.aside(at, effect, move || {
            let Some(name) = name else { return nothing_there() };
            if let Some(agent) = agent {
                // It said that it has finished, and may still be writing.
                see_off(&agent);
            }
            let measured = Workspace::open(&project).and_then(|workspace| {
                let before = workspace.load(name)?;
                before.map(|before| workspace.measure(&before)).transpose()
            });
            match measured {
                Ok(Some(measured)) => Report::Measured(measured.change),
                Ok(None) => nothing_there(),
                Err(error) => failed(&scrubber, &error),
            }
        });
    }

    fn roll_back(&self, at: usize, effect: Effecting, scope: Scope) {
        let (project, scrubber) = (self.project.clone(), self.desk.scrubber.clone());
        let name = self.name(at, scope);
        self.aside(at, effect, move || {
            let Some(name) = name else { return nothing_there() };
            restore(&project, name, &scrubber)
        });
    }

    fn verify(&mut self, at: usize, effect: Effecting) -> Result<(), StoreError> {
        match &self.servers[at].state {
            State::Down => self.start(at, Some(effect)),
            State::Up(_) => {
                self.clear(at, Then::Verify(effect));
                Ok(())
            }
            State::Clearing(_) => {
                self.servers[at].state = State::Clearing(Then::Verify(effect));
                Ok(())
            }
        }
    }

    /// Applies the remedy that hashes to `digest`.
    fn apply(
        &mut self,
        at: usize,
        effect: Effecting,
        digest: salve_core::event::Digest,
    ) -> Result<(), StoreError> {
        if !self.servers[at].case.cures.iter().any(|cure| cure.digest == digest) {
            // An earlier run of Salve chose it: choosing again finds out what it would do.
            self.choose(at)?;
        }
        let cures = &self.servers[at].case.cures;
        let cure = cures.iter().find(|cure| cure.digest == digest).cloned();
        match cure.map(|cure| cure.what) {
            // An agent that listens is waited for, its marks come by the journal; where there is
            // none, one is started.
            Some(What::Agent) => self.tend_agent(at).map(drop),
            Some(What::Known { command, seconds }) => {
                self.auto.count += 1;
                self.auto.last = Some(Instant::now());
                let (care, scrubber) = (self.care.clone(), self.desk.scrubber.clone());
                let dir = self.root.clone();
                let name = self.servers[at].plan.name.clone();
                self.aside(at, effect, move || {
                    let limit = Duration::from_secs(seconds);
                    run_known(&care, &Known { command, dir, name, limit }, &scrubber)
                });
                Ok(())
            }
            Some(What::Playbook(action)) => {
                self.carry_out(at, effect, action);
                Ok(())
            }
            Some(What::Restart) => self.finish(at, effect, Report::Done),
            None => {
                let reason = Scrubbed::literal("what it would do is no longer known");
                self.finish(at, effect, Report::Failed { reason })
            }
        }
    }

    /// Tells memory how the incident came out.
    fn record(&mut self, at: usize) -> Result<(), StoreError> {
        let server = &self.servers[at];
        let (Some(incident), Some(seen)) = (&server.incident, &server.case.seen) else {
            return Ok(());
        };
        let Some((remedy, signature)) = incident.credit() else { return Ok(()) };
        let recovered = matches!(
            incident.phase(),
            Phase::Doing { .. } | Phase::Ending { outcome: Ends::Recovered(_), .. }
        );
        let cure = server.case.cures.iter().find(|cure| cure.digest == remedy.digest);
        let lasting = cure.is_none_or(|cure| match &cure.what {
            What::Known { .. } => true,
            // A process or a lock that was in the way once is no remedy for another day.
            What::Playbook(action) => action.is_lasting(),
            What::Restart | What::Agent => false,
        });
        if !recovered || !lasting || remedy.kind != RemedyKind::Command {
            return Ok(());
        }
        let failure = Failure::new(&seen.fingerprint, &self.desk.scrubber);
        if failure.signature != signature {
            return Ok(());
        }
        let name = self.root.file_name().unwrap_or_default().to_string_lossy();
        let outcome = Outcome {
            at: self.desk.now(),
            by: Scrubbed::literal("salve"),
            incident: Some(incident.id()),
            project: self.desk.scrubber.scrub(&name),
            proof: Proof::Proven,
        };
        let known = Remedy { kind: Kind::Command, text: remedy.text.clone() };
        self.desk.store.memory().learn(&failure, &known, &outcome)?;
        let learned = Event::Learned { signature, remedy: remedy.digest, proof: Proof::Proven };
        self.desk.note(vec![learned])?;
        Ok(())
    }
}

/// A command that memory knows.
struct Known {
    command: String,
    dir: std::path::PathBuf,
    name: String,
    limit: Duration,
}

/// Runs a command by the shell and returns what came of it.
fn run_known(care: &Care, known: &Known, scrubber: &Scrubber) -> Report {
    let spec = Spec {
        argv: ["sh", "-c", &known.command].map(OsString::from).to_vec(),
        dir: known.dir.clone(),
        env: Vec::new(),
        server: format!("{} remedy", known.name),
        terminal: Terminal::Pipes,
        output: Arc::new(Capture::new(Arc::new(Outlet::none()), Look::Plain)),
    };
    match run_command(care, &spec, known.limit) {
        Ok(end) => match end.exit {
            Exit::Code(0) => Report::Done,
            Exit::TimedOut | Exit::Hung => Report::TimedOut,
            exit @ (Exit::Code(_) | Exit::Signal(_)) => {
                let last = end.output.trim_end().lines().last().unwrap_or_default().to_owned();
                let how = exit_text(&exit);
                Report::Failed { reason: scrubber.scrub(&format!("{how}: {last}")) }
            }
        },
        Err(error) => failed(scrubber, &error),
    }
}

fn restore(project: &Project, name: Name, scrubber: &Scrubber) -> Report {
    let workspace = match Workspace::open(project) {
        Ok(workspace) => workspace,
        Err(error) => return failed(scrubber, &error),
    };
    match workspace.load(name) {
        Ok(Some(before)) => {
            // Only what the repair changed is given back, where that is known: what a person
            // edited since stays, and is a person's decision where both edited one file.
            let after = match latest_after(&workspace, name) {
                Ok(after) => after,
                Err(error) => return failed(scrubber, &error),
            };
            let give = match &after {
                Some(left) => Give::Repair { left, again: Again::Refuse },
                None => Give::All,
            };
            match workspace.restore(&before, give) {
                Ok(_) => Report::Done,
                Err(error) => failed(scrubber, &error),
            }
        }
        // Nothing was kept, so nothing was changed.
        Ok(None) => Report::Done,
        Err(error) => failed(scrubber, &error),
    }
}

/// Returns the last state that was measured from that attempt on.
fn latest_after(workspace: &Workspace, name: Name) -> Result<Option<Snapshot>, WorkspaceError> {
    let names = workspace.names(name.incident)?;
    let is_after = |one: &&Name| one.moment == Moment::After && one.attempt >= name.attempt;
    match names.iter().filter(is_after).max() {
        Some(after) => workspace.load(*after),
        None => Ok(None),
    }
}

fn nothing_there() -> Report {
    Report::Failed { reason: Scrubbed::literal("there is no snapshot") }
}

/// Returns the report of a failure with its causes.
pub(super) fn failed(scrubber: &Scrubber, error: &dyn std::error::Error) -> Report {
    Report::Failed { reason: scrubber.scrub(&with_causes(error)) }
}

/// Returns what went wrong, and because of what.
pub(super) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text = format!("{text}: {source}");
        cause = source.source();
    }
    text
}
