//! How the care of a check begins where an earlier one stopped, and how it ends.

use jiff::{SignedDuration, Timestamp};
use salve_core::check::breaker;
use salve_core::check::proof::Colour;
use salve_core::event::{Event, IncidentEvent, Outcome, Report, Symptom};
use salve_core::id::IncidentId;
use salve_core::incident::{Holder, Incident, Phase, Told};
use salve_core::repair::evidence_path;
use salve_core::scrub::Scrubbed;

use super::case::Case;
use super::checkup::Checkup;
use super::{Ending, Ran};
use crate::files::{FileKind, read_text};
use crate::heal::cause::Evidence;
use crate::heal::{Presence, failure_log};
use crate::store::{StoreError, Stream};

/// How long a pause in the midst of healing is waited out where nobody is there.
const PAUSE: SignedDuration = SignedDuration::from_mins(5);

impl Checkup<'_, '_> {
    /// Takes over an incident that an earlier run of Salve left.
    pub(super) fn resume(&mut self) -> Result<(), StoreError> {
        let subject = self.plan.subject(&self.clinic.desk.scrubber);
        let Some(mut incident) = self.clinic.desk.unfinished(&subject)?.pop() else {
            return Ok(());
        };
        let holder = match incident.owner() {
            Some(owner) if !crate::process::is_gone(owner, &self.clinic.desk.scrubber) => {
                Holder::Unknown
            }
            Some(_) | None => Holder::Gone,
        };
        let claim = match incident.claim(&self.clinic.desk.me, holder) {
            Ok(claim) => claim,
            Err(error) => {
                self.note(&format!("incident {} is left alone: {error}", incident.id().short()));
                return Ok(());
            }
        };
        self.clinic.desk.catch_up(&mut incident, &mut |_, _| {})?;
        self.clinic.desk.go_on_from(incident.clock());
        let asks = matches!(incident.phase(), Phase::Asking { .. });
        self.incident = Some(incident);
        self.recall_first()?;
        if self.quest.is_some() {
            return self.resume_quest(claim);
        }
        self.say(vec![claim])?;
        match self.clinic.by.clone().filter(|_| asks) {
            // What a person was asked about may be settled: the check itself tells.
            Some(person) => {
                let note = Some(Scrubbed::literal(breaker::AGAIN));
                self.say_as(&person, vec![Event::Incident(IncidentEvent::Resolved { note })])
                    .map(drop)
            }
            None => Ok(()),
        }
    }

    /// Finds out what an earlier run of Salve saw first, from the journal and the evidence it kept.
    fn recall_first(&mut self) -> Result<(), StoreError> {
        let Some(id) = self.incident.as_ref().map(Incident::id) else { return Ok(()) };
        let journal = self.clinic.desk.store.journal();
        let told = journal.read(0, &Stream::Incident(id), usize::MAX)?;
        let Some(Event::Incident(IncidentEvent::Opened { symptom, .. })) =
            told.first().map(|one| &one.event)
        else {
            return Ok(());
        };
        self.case.first = Some(self.recalled(id, symptom));
        self.case.earlier = vec![Colour::Red];
        // What the present remedy is tried against may be a later failure.
        let trial = self.incident.as_ref().and_then(Incident::trial);
        let signature = trial.map(|trial| trial.signature);
        let seen = told.iter().rev().find_map(|entry| match &entry.event {
            Event::Incident(IncidentEvent::Finished {
                report: Report::Verified { symptom: Some(symptom), .. },
                ..
            })
            | Event::Incident(IncidentEvent::Sickened { symptom })
                if Some(symptom.signature) == signature =>
            {
                Some(symptom)
            }
            _ => None,
        });
        self.case.tried = seen.map(|symptom| self.recalled(id, symptom));
        Ok(())
    }

    /// Finds out what a failure of an earlier run was.
    fn recalled(&self, id: IncidentId, symptom: &Symptom) -> Evidence {
        let root = self.clinic.project.root();
        let kept = read_text(&root.join(evidence_path(self.plan.kind, id)), FileKind::Document);
        let output = kept.as_deref().map(failure_log::evidence).unwrap_or_default();
        let (rules, scrubber) = (self.clinic.rules, &self.clinic.desk.scrubber);
        let of = |output: &str| Evidence::of(output, symptom.exit.as_ref(), rules, scrubber);
        let mut evidence = of(output);
        if evidence.symptom.signature != symptom.signature {
            // What was kept is of a later failure, or was touched since: only the journal tells.
            evidence = of(symptom.key_line.as_str());
        }
        evidence.symptom = symptom.clone();
        evidence
    }

    /// Takes in how the check came out when an incident of an earlier run was to go on.
    pub(super) fn shown_again(&mut self, ran: &Ran, is_well: bool) -> Result<(), StoreError> {
        if !is_well || self.quest.is_some() {
            let evidence = self.examine(ran);
            self.case.took = ran.took;
            self.case.first.get_or_insert_with(|| evidence.clone());
            self.case.earlier.push(if is_well { Colour::Green } else { Colour::Red });
            self.case.seen = Some(evidence);
            if is_well {
                return self.executes_again();
            }
            if !self.has_no_tests() {
                self.ask_on();
            }
            return Ok(());
        }
        match self.clinic.by.clone() {
            Some(person) => {
                let note = Some(Scrubbed::literal(breaker::AGAIN));
                self.say_as(&person, vec![Event::Incident(IncidentEvent::Resolved { note })])
                    .map(drop)
            }
            // Only a person settles an incident; it is left to one.
            None => {
                self.ending = Some(Ending::Green);
                Ok(())
            }
        }
    }

    /// Adds to an incident that a person settled that the check is green indeed.
    pub(super) fn tell_settled(&mut self) -> Result<(), StoreError> {
        match self.settled.take() {
            Some(id) => self.append(id, Event::Incident(IncidentEvent::SeenGreen {})),
            None => Ok(()),
        }
    }

    /// Lets an incident that is over go.
    pub(super) fn closed(&mut self) {
        let Some(incident) = self.incident.take() else { return };
        let Phase::Closed(outcome) = incident.phase() else { return };
        self.healed = Some(incident.id());
        self.clinic.spent = self.clinic.spent.plus(incident.ledger().spent());
        self.case = Case::default();
        match outcome {
            Outcome::Recovered(proof) => {
                self.keep_checkpoint();
                match self.is_unseen() {
                    // An earlier run of Salve saw them execute: they are to show it again.
                    true => self.start(None),
                    false => self.ending = Some(Ending::Healed(proof)),
                }
            }
            // What a person settled is shown by the check itself.
            Outcome::Resolved => {
                self.settled = Some(incident.id());
                self.start(None);
            }
            Outcome::Unhealed => self.ending = Some(Ending::NeedsPerson),
            Outcome::GivenUp | Outcome::Aborted => self.ending = Some(Ending::CalledOff),
        }
    }

    /// Returns how it ended, if it has and nothing of it is left.
    pub(super) fn is_over(&self) -> Option<Ending> {
        if self.running.is_some() || self.minder.is_some() {
            return None;
        }
        if let Some(signal) = self.stopping {
            return Some(Ending::Stopped(signal));
        }
        let asks = self.incident.as_ref().is_some_and(|incident| {
            matches!(incident.phase(), Phase::Asking { told: Told::Yes, .. })
        });
        match (asks, self.clinic.presence) {
            (true, Presence::Unattended) => Some(Ending::NeedsPerson),
            (true, Presence::Attended) => None,
            (false, _) => self.ending,
        }
    }

    /// Returns until when a pause is waited out where nobody is there; nothing if there is none.
    ///
    /// What was not begun is not waited for; what was may be about to be resumed.
    pub(super) fn wait_out_pause(&mut self) -> Option<Timestamp> {
        let paused = self.incident.as_ref().is_some_and(|one| one.paused_by().is_some());
        if !paused || self.clinic.presence == Presence::Attended {
            self.case.paused = None;
            return None;
        }
        let now = self.clinic.desk.now();
        let since = *self.case.paused.get_or_insert(now);
        let patience = match self.case.cures.is_empty() {
            true => SignedDuration::ZERO,
            false => PAUSE,
        };
        since.saturating_add(patience).ok()
    }

    /// Ends in a pause that has lasted too long, and says what holds.
    pub(super) fn end_in_pause(&mut self) {
        let incident = self.incident.as_ref();
        let by = incident.and_then(|one| Some((one.id().short(), one.paused_by()?.clone())));
        let Some((id, by)) = by else { return };
        self.note(&format!(
            "healing is paused by {by}, and nobody is here to wait for: write RESUME to \
             .salve/CONTROL.md, or `salve resume heal-{id}`, and run it again"
        ));
        self.ending = Some(Ending::NeedsPerson);
    }

    /// Lets go of what is held, so that others may go on.
    pub(super) fn leave(&mut self) -> Result<(), StoreError> {
        let me = &self.clinic.desk.me;
        if self.incident.as_ref().is_some_and(|incident| incident.owner() == Some(me)) {
            self.say(vec![Event::Incident(IncidentEvent::Released {})])?;
        }
        Ok(())
    }
}
