//! What a team has to do with a check: issues that it shows, and proposals how to heal it.

use jiff::{SignedDuration, Timestamp};
use salve_core::event::{Actor, Digest, Event, IncidentEvent, Proof, Settled, TeamEvent, Verdict};
use salve_core::id::{IncidentId, IssueId};
use salve_core::incident::Incident;
use salve_core::repair::who;
use salve_core::scrub::Scrubbed;

use super::checkup::Checkup;
use super::{Clinic, Ending, Remark};
use crate::heal::agents::others;
use crate::heal::proposals::{self, Bench};
use crate::heal::shelf::{Cure, Offer, What};
use crate::store::{StoreError, Stream};
use crate::team;

/// How many incidents back one looks.
const REMEMBERED: usize = 50;

/// Who of those who were asked has proposed something.
enum Answers {
    /// Everybody.
    All,
    /// Who reported the issue, whose word comes first.
    Reporter,
    /// Some others, or nobody.
    Some,
}

impl Clinic<'_> {
    /// Returns the issues that a check shows and that Salve acts on.
    pub(super) fn issues(&self, check: &str) -> Result<Vec<IssueId>, StoreError> {
        let team = team::read(self.desk.store)?;
        Ok(team.of_check(check).map(|issue| issue.id).collect())
    }

    /// Settles the issues that were open before a check ran, where it is green now.
    pub(super) fn settle(
        &mut self,
        check: &str,
        issues: &[IssueId],
        (ending, healed): (Ending, Option<IncidentId>),
    ) -> Result<(), StoreError> {
        let incident = match ending {
            Ending::Green => None,
            Ending::Healed(Proof::Proven | Proof::Transient) => healed,
            // Green and red by turns says nothing about an issue.
            Ending::Healed(Proof::Flaky | Proof::Masked | Proof::Failed)
            | Ending::NeedsPerson
            | Ending::CalledOff
            | Ending::Stopped(_) => return Ok(()),
        };
        for &issue in issues {
            let how = Settled::Green { check: self.desk.scrubber.scrub(check), incident };
            self.desk.note(vec![Event::Team(TeamEvent::IssueSettled { issue, how })])?;
            let text = format!("issue-{} is settled: the check is green", issue.short());
            let text = self.desk.scrubber.scrub(&text);
            self.face.remark(check, &Remark::Note(text));
        }
        Ok(())
    }
}

impl Checkup<'_, '_> {
    /// Returns what was reported about this check, for an agent.
    pub(super) fn reports(&self) -> Result<Vec<Scrubbed>, StoreError> {
        let team = team::read(self.clinic.desk.store)?;
        let told = team.of_check(&self.plan.name).map(|issue| {
            let files: Vec<_> = issue.files.iter().map(Scrubbed::as_str).collect();
            let about = match files.as_slice() {
                [] => String::new(),
                files => format!(" (about {})", files.join(", ")),
            };
            let text = format!("{}: {}{about}", who(&issue.by), issue.text);
            self.clinic.desk.scrubber.scrub(&text)
        });
        Ok(told.collect())
    }

    /// Returns what is proposed for the present incident and was not tried in vain.
    pub(super) fn proposed(&mut self) -> Result<Vec<Offer>, StoreError> {
        let Some(seen) = &self.case.seen else { return Ok(Vec::new()) };
        let clinic = &*self.clinic;
        let team = team::read(clinic.desk.store)?;
        let proposals = team.ranked(&self.alike()?, &self.plan.name);
        if proposals.is_empty() {
            return Ok(Vec::new());
        }
        let known = clinic.shelf.recall(clinic.desk.store, seen.symptom.signature)?;
        let bench = Bench {
            project: &clinic.project,
            mode: clinic.heal.mode,
            failed: &known.failed,
            scrubber: &clinic.desk.scrubber,
        };
        let offers = proposals::offers(&proposals, &clinic.shelf, &bench);
        self.tell_denied(&offers);
        Ok(offers)
    }

    /// Finds out what a remedy that an earlier run of Salve chose would do, if that is not known.
    pub(super) fn recall_cure(&mut self, digest: Digest) -> Result<(), StoreError> {
        let trial = self.incident.as_ref().and_then(Incident::trial);
        let Some(remedy) = trial.map(|trial| &trial.remedy).filter(|one| one.digest == digest)
        else {
            return Ok(());
        };
        if !self.case.cures.iter().any(|cure| cure.digest == digest) {
            let team = team::read(self.clinic.desk.store)?;
            let what = proposals::recall(remedy, &team.proposals);
            self.case.cures.extend(what.map(|what| Cure { digest, what }));
        }
        Ok(())
    }

    /// Returns until when proposals are waited for before anything dearer is tried.
    ///
    /// Attached agents are asked once an incident, when only an agent's turn is left or nothing.
    pub(super) fn await_team(&mut self) -> Result<Option<Timestamp>, StoreError> {
        if self.clinic.heal.broadcast.is_zero() {
            return Ok(None);
        }
        let now = self.clinic.desk.now();
        let Some((since, until)) = self.case.called else {
            return if self.has_cheap()? { Ok(None) } else { self.call_team(now) };
        };
        if now >= until {
            return Ok(None);
        }
        let is_over = match self.answers(since)? {
            Answers::All => true,
            Answers::Reporter => self.has_cheap()?,
            Answers::Some => false,
        };
        Ok((!is_over).then_some(until))
    }

    /// Returns whether something other than an agent's turn is left to try.
    fn has_cheap(&mut self) -> Result<bool, StoreError> {
        let next = self.next_offer()?;
        Ok(next.is_some_and(|offer| !matches!(offer.what, What::Agent)))
    }

    /// Asks those who listen for proposals, and returns until when they are waited for.
    fn call_team(&mut self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        let desk = &self.clinic.desk;
        let listening = others(desk.store, &desk.scrubber)?.len();
        let (Some(id), true) = (self.incident.as_ref().map(Incident::id), listening > 0) else {
            return Ok(None);
        };
        let limit = SignedDuration::try_from(self.clinic.heal.broadcast);
        let limit = limit.unwrap_or(SignedDuration::MAX);
        let until = now.saturating_add(limit).unwrap_or(Timestamp::MAX);
        self.append(id, Event::Team(TeamEvent::FixWanted { issue: None, note: None }))?;
        let since = self.incident.as_ref().map_or(0, Incident::last_seq);
        self.case.called = Some((since, until));
        let seconds = self.clinic.heal.broadcast.as_secs_f64();
        self.note(&format!(
            "asked those who listen ({listening}) for proposals; waiting {seconds:.1} s at most"
        ));
        Ok(Some(until))
    }

    /// Returns who of those who listen has proposed something since an entry.
    fn answers(&self, since: u64) -> Result<Answers, StoreError> {
        let desk = &self.clinic.desk;
        let team = team::read(desk.store)?;
        let meant = team.ranked(&self.alike()?, &self.plan.name);
        let has_answered = |who: &Actor| meant.iter().any(|one| one.seq > since && one.by == *who);
        if others(desk.store, &desk.scrubber)?.iter().all(has_answered) {
            return Ok(Answers::All);
        }
        let mut reporters = team.of_check(&self.plan.name).map(|issue| &issue.by);
        Ok(if reporters.any(has_answered) { Answers::Reporter } else { Answers::Some })
    }

    /// Returns the incidents of this check with the present failure: what was proposed for one of
    /// them is for all.
    fn alike(&self) -> Result<Vec<IncidentId>, StoreError> {
        let (Some(incident), Some(seen)) = (&self.incident, &self.case.seen) else {
            return Ok(Vec::new());
        };
        let journal = self.clinic.desk.store.journal();
        let openings = journal.tail(&Stream::Incidents, REMEMBERED)?;
        let alike = openings.iter().filter(|entry| {
            matches!(&entry.event, Event::Incident(IncidentEvent::Opened { subject, symptom, .. })
                if subject == incident.subject() && symptom.signature == seen.symptom.signature)
        });
        Ok(alike.filter_map(|entry| entry.incident).chain([incident.id()]).collect())
    }

    /// Says once of each proposal that must not run why it does not.
    fn tell_denied(&mut self, offers: &[Offer]) {
        let denied = offers.iter().filter(|offer| offer.judgement.verdict == Verdict::Deny);
        for Offer { candidate, judgement, .. } in denied {
            let remedy = &candidate.remedy;
            if !self.case.denied.contains(&remedy.digest) {
                self.case.denied.push(remedy.digest);
                let line = remedy.text.lines().next().unwrap_or_default().head(120);
                self.note(&format!("proposed and denied: `{line}` ({})", judgement.reason));
            }
        }
    }
}
