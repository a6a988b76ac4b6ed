//! What the playbook makes of a server's failure, and what it prescribes.
//!
//! Looking at the project takes a while, so it happens on a thread of its own and the answer comes
//! by the inbox; until then nothing is chosen. A failure of which no rule speaks is not looked
//! into, and its restart does not wait.

use std::ffi::OsString;
use std::path::PathBuf;

use salve_core::event::{Event, Exit, Judgement, Mode, Report, Verdict};
use salve_core::fingerprint::{Hints, Rules};
use salve_core::incident::{Candidate, Incident, Phase, Run as Effecting};
use salve_core::playbook::{Action, Diagnosis, Nature, Playbook, Prescription, Seen};
use salve_core::scrub::{Scrubbed, Scrubber};
use uuid::Uuid;

use super::fleet::Fleet;
use super::life::spawn_thread;
use super::remedies::{Offer, What};
use super::{Evidence, Input, ServerPlan};
use crate::config::PlaybookAuto;
use crate::heal::Wrote;
use crate::playbook::{self, ApplyError, Ask};
use crate::process::Care;
use crate::store::StoreError;

/// How sure the first of several prescriptions is, in thousandths; each next one is less so.
const SURE: u16 = 999;

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

/// The server that failed, for a thread of its own.
#[derive(Clone, Debug)]
pub(super) struct Place {
    root: PathBuf,
    dir: PathBuf,
    command: String,
    env: Vec<(OsString, OsString)>,
    run: Option<Uuid>,
}

impl Place {
    pub(super) fn of(root: &std::path::Path, plan: &ServerPlan, run: &Scrubbed) -> Self {
        let words: Vec<_> = plan.argv.iter().map(|word| word.to_string_lossy()).collect();
        Self {
            root: root.to_path_buf(),
            dir: plan.dir.clone(),
            command: words.join(" "),
            env: plan.env.clone(),
            run: run.as_str().parse().ok(),
        }
    }

    pub(super) fn ask(&self) -> Ask<'_> {
        let Self { root, dir, command, env, run } = self;
        Ask { root, dir, command, env, run: *run }
    }
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
        let told = server.case.seen.as_ref().filter(|seen| !seen.output.as_str().trim().is_empty());
        let Some(evidence) = told.cloned() else {
            server.case.insight = Insight::Told(Box::new(Diagnosis::unknown()));
            return;
        };
        self.looks += 1;
        let look = self.looks;
        server.case.insight = Insight::Looking(look);
        let place = Place::of(&self.root, &server.plan, &self.run);
        let (post, scrubber) = (self.post.clone(), self.desk.scrubber.clone());
        spawn_thread("diagnosis", move || {
            let diagnosis = Box::new(diagnose(&evidence, &place, &scrubber));
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
            let event = Event::Diagnosed { nature, rule, findings };
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

    /// Returns what the playbook prescribes and has not been tried in vain.
    pub(super) fn prescribed(&self, at: usize, diagnosis: &Diagnosis) -> Vec<Offer> {
        if (diagnosis.nature, self.repair.mode) == (Nature::Code, Mode::Agent) {
            // An agent reads it before it is only run again.
            return Vec::new();
        }
        let failed = &self.servers[at].case.failed;
        let passes = diagnosis.nature == Nature::Transient;
        let open = diagnosis.remedies.iter().enumerate().filter(|(_, prescription)| {
            let again = passes && prescription.action.is_restart();
            again || !failed.contains(&prescription.remedy.digest)
        });
        open.map(|(place, one)| self.offer(one, place)).collect()
    }

    /// Returns a prescription with what the settings say about it.
    fn offer(&self, prescription: &Prescription, place: usize) -> Offer {
        let Prescription { rule, action, remedy, why, .. } = prescription;
        let verdict = match (self.repair.playbook, prescription.is_safe()) {
            // Running it again changes nothing, so nobody has to be asked.
            _ if action.is_restart() => Verdict::Allow,
            (PlaybookAuto::Safe, true) => Verdict::Allow,
            (PlaybookAuto::Safe, false) | (PlaybookAuto::None, _) => Verdict::Ask,
        };
        let rule = self.desk.scrubber.scrub(rule);
        let judgement = Judgement { verdict, rule, reason: why.clone() };
        let what = match action.is_restart() {
            true => What::Restart,
            false => What::Playbook(action.clone()),
        };
        let confidence = SURE.saturating_sub(u16::try_from(place).unwrap_or(SURE));
        Offer { candidate: Candidate { remedy: remedy.clone(), confidence }, judgement, what }
    }

    /// Carries out what the playbook prescribed.
    pub(super) fn carry_out(&self, at: usize, effect: Effecting, action: Action) {
        let place = Place::of(&self.root, &self.servers[at].plan, &self.run);
        let (care, scrubber) = (self.care.clone(), self.desk.scrubber.clone());
        self.aside(at, effect, move || report(&action, &place, &care, &scrubber));
    }

    /// Gives back what an interrupted remedy of an earlier run had set aside.
    pub(super) fn give_back(&mut self) {
        for path in playbook::give_back(&self.root, &self.desk.scrubber) {
            self.note(0, &format!("gave back {path}, which an interrupted repair had moved away"));
        }
    }
}

/// Returns which of Salve's own resorts make sense, given the cause.
pub(super) fn resort(diagnosis: &Diagnosis, mode: Mode) -> Option<What> {
    let by_mode = match mode {
        Mode::Agent => What::Agent,
        Mode::Legacy => What::Restart,
    };
    match (diagnosis.nature, mode) {
        (Nature::Unknown, _) => Some(by_mode),
        // It may pass; the playbook's own restart is all that is tried.
        (Nature::Transient, _) => None,
        (Nature::Code, Mode::Agent) => Some(What::Agent),
        // The rule says whether running it again can help; a person reads what was found.
        (Nature::Code, Mode::Legacy) => None,
        // What was prescribed did not help: an agent may find out why.
        (Nature::Infrastructure, Mode::Agent) if has_safe(diagnosis) => Some(What::Agent),
        (Nature::Infrastructure, _) => None,
    }
}

fn has_safe(diagnosis: &Diagnosis) -> bool {
    diagnosis.remedies.iter().any(Prescription::is_safe)
}

fn diagnose(evidence: &Evidence, place: &Place, scrubber: &Scrubber) -> Diagnosis {
    let exit = evidence.symptom.exit.clone().unwrap_or(Exit::Hung);
    let seen =
        Seen { fingerprint: &evidence.fingerprint, exit: &exit, output: evidence.output.as_str() };
    match Playbook::built_in().may_know(&seen) {
        true => playbook::diagnose(&place.ask(), &seen, scrubber),
        false => Diagnosis::unknown(),
    }
}

/// Carries an action out and returns what came of it.
fn report(action: &Action, place: &Place, care: &Care, scrubber: &Scrubber) -> Report {
    match playbook::apply(action, &place.ask(), care) {
        Ok(_) => Report::Done,
        Err(ApplyError::Failed { exit: Exit::TimedOut, .. }) => Report::TimedOut,
        Err(ApplyError::Failed { command, exit, output }) => {
            let how = salve_core::repair::exit_text(&exit);
            let key = Rules::built_in().fingerprint(&output, &Hints::default()).key_line;
            let text = format!("`{command}` failed ({how}): {key}");
            Report::Failed { reason: scrubber.scrub(&text) }
        }
        Err(error) => super::effects::failed(scrubber, &error),
    }
}
