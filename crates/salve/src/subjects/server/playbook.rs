//! What the playbook makes of a server's failure, and what it prescribes.
//!
//! Looking at the project takes a while, so it happens on a thread of its own and the answer comes
//! by the inbox; until then nothing is chosen. A failure of which no rule speaks is not looked
//! into, and its restart does not wait.

use std::path::Path;

use salve_core::event::{Authority, Event, IncidentEvent};
use salve_core::incident::{Incident, Phase, Run as Effecting};
use salve_core::playbook::{Action, Diagnosis};
use salve_core::scrub::Scrubbed;

use super::fleet::Fleet;
use super::{Input, ServerPlan};
use crate::heal::cause::{self, Place};
use crate::heal::{Wrote, spawn_thread};
use crate::playbook;
use crate::sandbox::Sandbox;
use crate::store::StoreError;

/// What is known of the cause of the present failure.
#[derive(Debug, Default)]
pub(super) enum Insight {
    /// Nobody has looked.
    #[default]
    None,
    /// The look of this number goes on.
    Looking(u64),
    /// This came of it, and the journal does not know yet.
    Found(Box<Diagnosis>),
    /// This came of it, and the journal knows.
    Told(Box<Diagnosis>),
}

impl Fleet<'_> {
    /// Returns what is known of the cause of the present failure; nothing while that is being
    /// looked into.
    pub(super) fn insight(&mut self, at: usize) -> Option<&Diagnosis> {
        if let Insight::None = self.servers[at].case.insight {
            self.look_into(at);
        }
        match &self.servers[at].case.insight {
            Insight::Found(diagnosis) | Insight::Told(diagnosis) => Some(diagnosis),
            Insight::None | Insight::Looking(_) => None,
        }
    }

    fn look_into(&mut self, at: usize) {
        let server = &mut self.servers[at];
        let told =
            server.case.seen.as_ref().filter(|seen| !seen.found.output.as_str().trim().is_empty());
        let Some(evidence) = told.map(|seen| seen.found.clone()) else {
            server.case.insight = Insight::Told(Box::new(Diagnosis::unknown()));
            return;
        };
        self.looks += 1;
        let look = self.looks;
        server.case.insight = Insight::Looking(look);
        let place = place(&self.root, &server.plan, &self.run, &self.shelf.sandbox);
        let (post, scrubber) = (self.post.clone(), self.desk.scrubber.clone());
        spawn_thread("diagnosis", move || {
            let diagnosis = Box::new(cause::diagnose(&evidence, &place, &scrubber));
            // Nobody is left to tell when the fleet is gone.
            let _ = post.send(Input::Diagnosed { server: at, look, diagnosis });
        });
    }

    /// Takes in that what was tried did not help, so that it is not tried again, and that the
    /// cause has to be looked into anew.
    pub(super) fn in_vain(&mut self, at: usize) {
        let server = &mut self.servers[at];
        server.case.insight = Insight::None;
        let trial = server.incident.as_ref().and_then(Incident::trial);
        server.case.failed.extend(trial.map(|trial| trial.remedy.digest));
    }

    /// Takes in what a look found, unless it is about a failure of the past.
    pub(super) fn diagnosed(&mut self, at: usize, look: u64, diagnosis: Box<Diagnosis>) {
        let Some(server) = self.servers.get_mut(at) else { return };
        if !matches!(server.case.insight, Insight::Looking(number) if number == look) {
            return;
        }
        let findings = diagnosis.findings.clone();
        server.case.insight = Insight::Found(diagnosis);
        if let Some(seen) = &mut server.case.seen
            && !findings.is_empty()
        {
            seen.findings = findings;
            self.log_crash(at);
        }
    }

    /// Tells the journal what was found out about the cause, however often others write meanwhile.
    pub(super) fn tell_insight(&mut self, at: usize) -> Result<(), StoreError> {
        let server = &mut self.servers[at];
        let (Insight::Found(found), Some(incident)) = (&server.case.insight, &mut server.incident)
        else {
            return Ok(());
        };
        let found = found.clone();
        if let Some(rule) = &found.rule {
            let rule = self.desk.scrubber.scrub(rule);
            let (nature, findings) = (found.nature, found.findings.clone());
            let event = Event::Incident(IncidentEvent::Diagnosed { nature, rule, findings });
            let (face, name, by) = (&mut self.face, &server.plan.name, self.desk.salve());
            let mut show = |incident: &Incident, entry: &_| face.entry(name, incident, entry);
            while incident.phase() == Phase::Choosing {
                match self.desk.write(incident, &by, vec![event.clone()], &mut show)? {
                    Wrote::Done(_) => break,
                    Wrote::Overtaken => {}
                }
            }
        }
        server.case.insight = Insight::Told(found);
        Ok(())
    }

    /// Carries out what the playbook prescribed.
    pub(super) fn carry_out(
        &mut self,
        at: usize,
        effect: Effecting,
        (action, on): (Action, Authority),
    ) {
        let place = place(&self.root, &self.servers[at].plan, &self.run, &self.shelf.sandbox);
        let (care, scrubber) = (self.care.clone(), self.desk.scrubber.clone());
        self.aside(at, effect, move || cause::carry_out((&action, on), &place, &care, &scrubber));
    }

    /// Gives back what an interrupted remedy of an earlier run had set aside.
    pub(super) fn give_back(&mut self) {
        for path in playbook::give_back(&self.root, &self.desk.scrubber) {
            self.note(0, &format!("gave back {path}, which an interrupted repair had moved away"));
        }
    }
}

/// Returns where a server runs, for a thread of its own.
pub(super) fn place(root: &Path, plan: &ServerPlan, run: &Scrubbed, sandbox: &Sandbox) -> Place {
    let place = Place::new(root, &plan.dir, (&plan.argv, &plan.env), sandbox);
    Place { run: run.as_str().parse().ok(), ..place }
}
