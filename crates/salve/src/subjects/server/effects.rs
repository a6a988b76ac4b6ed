//! What an incident asks for, done in the world.

use std::time::Duration;

use salve_core::event::{
    Authority, Digest, Effect, Outcome as Ends, Proof, RemedyKind, Report, Scope, Undo,
};
use salve_core::incident::{Phase, Run as Effecting};
use salve_core::memory::Kind;
use salve_core::scrub::Scrubbed;

use super::fleet::Fleet;
use super::{Input, State, Then, lock};
use crate::heal::agents::{Minder, see_off};
use crate::heal::cause::{Known, run_known};
use crate::heal::files::{self, failed, has_changed};
use crate::heal::patches;
use crate::heal::shelf::What;
use crate::heal::{Lesson, spawn_thread};
use crate::store::StoreError;
use crate::workspace::Name;

impl Fleet<'_> {
    /// Does what an incident asks for.
    pub(super) fn run(&mut self, at: usize, effect: Effecting) -> Result<(), StoreError> {
        self.servers[at].case.running = Some(effect);
        match effect.what {
            Effect::Snapshot => self.snapshot(at, effect),
            Effect::Apply { remedy, on } => return self.apply(at, effect, (remedy, on)),
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
        &mut self,
        at: usize,
        effect: Effecting,
        work: impl FnOnce() -> Report + Send + 'static,
    ) {
        let (post, project) = (self.post.clone(), self.project.clone());
        let changes = self.changes(at, effect);
        self.servers[at].busy = Some(effect);
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

    /// Takes in what an effect on a thread of its own reports.
    pub(super) fn done(
        &mut self,
        at: usize,
        effect: Effecting,
        report: Report,
    ) -> Result<(), StoreError> {
        let server = &mut self.servers[at];
        server.busy = server.busy.filter(|busy| *busy != effect);
        let undoes = matches!(effect.what, Effect::RollBack(_))
            || matches!(report, Report::Failed { .. } | Report::TimedOut);
        // When everything ends nothing new is begun, only undone.
        if !self.is_effect(at, effect) || (self.stopping.is_some() && !undoes) {
            return Ok(());
        }
        self.finish(at, effect, report)
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

    fn snapshot(&mut self, at: usize, effect: Effecting) {
        let (project, scrubber) = (self.project.clone(), self.desk.scrubber.clone());
        let name = self.name(at, Scope::Attempt);
        let (now, kept) = (self.desk.now(), self.repair.logs_kept);
        self.aside(at, effect, move || match name {
            Some(name) => files::keep(&project, name, (now, kept), &scrubber),
            None => files::nothing_there(),
        });
    }

    fn measure(&mut self, at: usize, effect: Effecting) {
        let (project, scrubber) = (self.project.clone(), self.desk.scrubber.clone());
        let name = self.name(at, Scope::Attempt);
        let agent = self.servers[at].minder.as_ref().map(Minder::agent);
        self.aside(at, effect, move || {
            let Some(name) = name else { return files::nothing_there() };
            if let Some(agent) = agent {
                // It said that it has finished, and may still be writing.
                see_off(&agent);
            }
            files::measure(&project, name, &scrubber)
        });
    }

    fn roll_back(&mut self, at: usize, effect: Effecting, scope: Scope) {
        let (project, scrubber) = (self.project.clone(), self.desk.scrubber.clone());
        let name = self.name(at, scope);
        self.aside(at, effect, move || {
            let Some(name) = name else { return files::nothing_there() };
            files::restore(&project, name, &scrubber)
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

    /// Applies the remedy that hashes to `digest`, on somebody's word.
    fn apply(
        &mut self,
        at: usize,
        effect: Effecting,
        (digest, on): (Digest, Authority),
    ) -> Result<(), StoreError> {
        if !self.servers[at].case.cures.iter().any(|cure| cure.digest == digest) {
            // An earlier run of Salve chose it: choosing again finds out what it would do.
            if let Some(incident) = self.servers[at].incident.clone() {
                self.choose(at, &incident)?;
            }
        }
        let cures = &self.servers[at].case.cures;
        let cure = cures.iter().find(|cure| cure.digest == digest).cloned();
        match cure.map(|cure| cure.what) {
            // An agent that listens is waited for, its marks come by the journal; where there is
            // none, one is started.
            Some(What::Agent | What::Instruction(_)) => self.tend_agent(at).map(drop),
            Some(What::Known { command, seconds, dir }) => {
                self.shelf.count_auto();
                let (care, scrubber) = (self.care.clone(), self.desk.scrubber.clone());
                let (root, name) = (self.root.clone(), self.servers[at].plan.name.clone());
                let (limit, sandbox) = (Duration::from_secs(seconds), self.shelf.sandbox.clone());
                let known = Known { command, root, dir, name, limit, sandbox, on };
                self.aside(at, effect, move || run_known(&care, &known, &scrubber).report);
                Ok(())
            }
            Some(What::Playbook(action)) => {
                self.carry_out(at, effect, (action, on));
                Ok(())
            }
            Some(What::Patch(patch)) => {
                let (project, scrubber) = (self.project.clone(), self.desk.scrubber.clone());
                self.aside(at, effect, move || patches::apply(&project, &patch, &scrubber));
                Ok(())
            }
            Some(What::Again) => self.finish(at, effect, Report::Done),
            None => {
                let reason = Scrubbed::literal("what it would do is no longer known");
                self.finish(at, effect, Report::failed(reason))
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
        let lasting = cure.is_none_or(|cure| cure.what.is_lasting());
        let fingerprint = &seen.found.fingerprint;
        let is_it = seen.found.symptom.signature == signature;
        if !recovered || !lasting || !is_it || remedy.kind != RemedyKind::Command {
            return Ok(());
        }
        let (text, digest) = (remedy.text.clone(), remedy.digest);
        let lesson =
            Lesson { fingerprint, kind: Kind::Command, text, digest, proof: Proof::Proven };
        let user = self.shelf.user_to_tell();
        self.desk.learn(incident.id(), &lesson, &self.root, user.as_ref())
    }
}
