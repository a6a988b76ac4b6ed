//! What the care of a loop's tests knows and does besides that of a check.

use std::path::Path;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use salve_core::event::{Event, Exit, IncidentEvent, Proposed, RecoveryEvent};
use salve_core::gate::Proposal;
use salve_core::incident::{Incident, Phase, Run as Effecting};
use salve_core::playbook::{Diagnosis, Nature};
use salve_core::recovery::{self, Ailment, Execution, Failure};
use salve_core::scrub::Scrubbed;

use super::checkup::Checkup;
use super::{Ending, Input, Ran};
use crate::heal::cause::{self, Evidence};
use crate::heal::files::with_causes;
use crate::heal::loop_files::LoopFiles;
use crate::heal::loops::Sought;
use crate::heal::manifests;
use crate::heal::recovery_file::{self, Found, Stamp, Turn};
use crate::store::StoreError;

/// How often it is looked whether something else is proposed while a person is asked.
const LOOK: SignedDuration = SignedDuration::from_millis(200);

/// A recovery under way.
pub(super) struct Quest {
    /// The iteration of the loop.
    pub(super) iteration: u32,
    /// The journal's entry at which the loop's run began.
    pub(super) since: u64,
    /// The loop's files.
    pub(super) files: LoopFiles,
    /// The tester's proposal.
    pub(super) proposal: Option<Box<Proposal>>,
    /// What said what is installed and changed in this run.
    pub(super) changed: Vec<Scrubbed>,
    /// How the tests came out last.
    pub(super) last: Option<Ran>,
    /// What ails them.
    pub(super) ailment: Ailment,
    /// Whether they were found to execute while somebody was asked about them.
    pub(super) is_well: bool,
    /// How long a person was waited for.
    pub(super) waited: Duration,
    first: Option<Ran>,
    /// How often they were seen to fail before this care of them.
    seen: usize,
    execution: Execution,
    pub(super) turn: Turn,
    pub(super) stamp: Stamp,
}

impl Quest {
    pub(super) fn new(sought: Sought, root: &Path, loop_id: &str) -> Self {
        let Sought { iteration, first, since, began, dir } = sought;
        Self {
            iteration,
            since,
            files: LoopFiles::new(dir, root, loop_id),
            proposal: None,
            changed: Vec::new(),
            last: None,
            ailment: Ailment::None,
            is_well: false,
            waited: Duration::ZERO,
            first,
            seen: 0,
            execution: Execution::All,
            turn: Turn { iteration, began },
            stamp: Stamp::default(),
        }
    }

    /// Returns how often the tests were seen to fail before this care of them.
    pub(super) fn seen(&self) -> usize {
        self.seen
    }
}

impl Checkup<'_, '_> {
    /// Begins with the first run: that of the loop, or one of our own.
    pub(super) fn begin(&mut self) -> Result<(), StoreError> {
        self.read_proposal()?;
        let Some(quest) = &mut self.quest else {
            self.start(None);
            return Ok(());
        };
        let Some(first) = quest.first.take() else {
            self.start(None);
            return Ok(());
        };
        let is_proposed = quest.proposal.is_some();
        if !is_proposed || self.is_well(&first) {
            return self.ran(None, first);
        }
        // Somebody else worked since: what is to be recovered from has to be seen again.
        if let Some(quest) = &mut self.quest {
            quest.seen = 1;
        }
        self.start(None);
        Ok(())
    }

    /// Tells whether the failure has to be seen once more before it is recovered from: only then is
    /// it sure that the tester's command helped.
    pub(super) fn looks_twice(&mut self) -> bool {
        let has_tests = !self.has_no_tests() && self.settled.is_none();
        match &mut self.quest {
            Some(quest) if quest.seen == 0 && quest.proposal.is_some() && has_tests => {
                quest.seen = 1;
                true
            }
            Some(_) | None => false,
        }
    }

    /// Tells whether a run came out as it should: green, or in a loop, executed.
    pub(super) fn is_well(&mut self, ran: &Ran) -> bool {
        if self.quest.is_none() {
            return ran.is_green();
        }
        let (ailment, execution) = self.ailment(ran);
        let is_tried = self.incident.is_some();
        let is_off = !self.clinic.shelf.policy.is_enabled() && !is_tried;
        let Some(quest) = &mut self.quest else { return false };
        quest.last = Some(ran.clone());
        (quest.ailment, quest.execution) = (ailment, execution);
        match ailment {
            Ailment::None | Ailment::Code => !ran.stopped,
            Ailment::Infrastructure | Ailment::Unknown if is_off => true,
            Ailment::Infrastructure => false,
            // Only the tester claims that it is the infrastructure; what was begun goes on.
            Ailment::Unknown => !(is_tried || quest.proposal.is_some()),
        }
    }

    /// Finds out what ails tests that came out so.
    fn ailment(&self, ran: &Ran) -> (Ailment, Execution) {
        let is_proposed = self.quest.as_ref().is_some_and(|quest| quest.proposal.is_some());
        match (self.has_no_tests(), ran.is_green(), is_proposed) {
            (true, true, _) => return (Ailment::None, Execution::All),
            (true, false, true) => return (Ailment::Infrastructure, Execution::Nothing),
            (true, false, false) => return (Ailment::Unknown, Execution::Nothing),
            (false, _, _) => {}
        }
        let evidence = self.examine(ran);
        let (results, class) = (self.results(&ran.output), evidence.symptom.class);
        let execution = recovery::executed(&results, class, &ran.exit);
        let nature = match execution {
            Execution::All => Nature::Unknown,
            Execution::InVain | Execution::Partly | Execution::Nothing => {
                self.found(&evidence).nature
            }
        };
        (recovery::ailment(execution, nature, class, results.tool), execution)
    }

    /// Tells whether there is nothing to run by which Salve could see for itself.
    pub(super) fn has_no_tests(&self) -> bool {
        self.quest.is_some() && self.plan.argv.is_empty()
    }

    /// Takes the tester's word for how the tests come out, where there are none to run.
    pub(super) fn take_its_word(&self, verifies: Option<Effecting>) {
        let proposal = self.quest.as_ref().and_then(|quest| quest.proposal.as_ref());
        let lines = proposal.map(|proposal| proposal.diagnosis.evidence.join("\n"));
        let (code, output) = match verifies {
            Some(_) => (0, String::new()),
            None => (1, lines.unwrap_or_default()),
        };
        let ran = Ran { exit: Exit::Code(code), output, ..Ran::nothing() };
        // Nobody is left to tell when the run of Salve is over.
        let _ = self.clinic.inbox.0.send(Input::Ran { verifies, ran });
    }

    fn found(&self, evidence: &Evidence) -> Diagnosis {
        cause::diagnose(evidence, &self.place(), &self.clinic.desk.scrubber)
    }

    /// Reads the tester's proposal, and says why what is there is none.
    fn read_proposal(&mut self) -> Result<(), StoreError> {
        let Some(quest) = &mut self.quest else { return Ok(()) };
        let (stamp, found) = recovery_file::read(&quest.files.proposal(), quest.turn);
        quest.stamp = stamp;
        match found {
            Found::Proposal(proposal) => quest.proposal = Some(proposal),
            Found::Nothing => {}
            Found::Refused(refused) => self.refuse(&with_causes(&refused))?,
        }
        Ok(())
    }

    /// Puts on record that a proposal is not taken up.
    fn refuse(&mut self, reason: &str) -> Result<(), StoreError> {
        let Some(quest) = &self.quest else { return Ok(()) };
        let scrubber = &self.clinic.desk.scrubber;
        let (name, reason) = (scrubber.scrub(&self.plan.name), scrubber.scrub(reason));
        let refused =
            Event::Recovery(RecoveryEvent::Refused { name, iteration: quest.iteration, reason });
        self.note(reason_of(&refused));
        self.clinic.desk.note(vec![refused]).map(drop)
    }

    /// Ends where there is nothing to recover from, and says what was proposed in vain.
    pub(super) fn nothing_to_recover(&mut self) -> Result<(), StoreError> {
        let Some(quest) = &self.quest else { return Ok(()) };
        let why = match quest.ailment {
            Ailment::None => "the tests execute, so nothing is recovered",
            Ailment::Code => "the code has to change, so nothing is recovered",
            Ailment::Unknown | Ailment::Infrastructure => "recovery is switched off",
        };
        let is_red = quest.last.as_ref().is_some_and(|ran| !ran.is_green());
        if quest.proposal.is_some() && is_red {
            self.refuse(&format!("recovery.json is not taken up: {why}"))?;
        }
        Ok(())
    }

    /// Puts on record what is sought, and what is proposed for it.
    pub(super) fn propose(&mut self, evidence: &Evidence) -> Result<(), StoreError> {
        let root = self.clinic.project.root().to_path_buf();
        let name = self.clinic.desk.scrubber.scrub(&self.plan.name);
        let Some(quest) = &mut self.quest else { return Ok(()) };
        quest.changed = manifests::changed(&self.clinic.desk, &root, &name, quest.since)?;
        let (iteration, changed) = (quest.iteration, quest.changed.clone());
        let mut events = vec![Event::Recovery(RecoveryEvent::Sought { iteration, changed })];
        let proposed = match &quest.proposal {
            Some(proposal) => Some(recovery::proposed(proposal, &self.clinic.desk.scrubber)),
            None => self.draft(evidence),
        };
        events.extend(
            proposed
                .map(Box::new)
                .map(|proposal| Event::Recovery(RecoveryEvent::Proposed { proposal })),
        );
        self.say(events)
    }

    /// Drafts a proposal where the tester made none.
    fn draft(&mut self, evidence: &Evidence) -> Option<Proposed> {
        let diagnosis = self.found(evidence);
        let quest = self.quest.as_ref()?;
        let failure = Failure {
            at: self.clinic.desk.now(),
            class: evidence.symptom.class,
            key_line: &evidence.symptom.key_line,
            output: &evidence.output,
            execution: quest.execution,
            diagnosis: &diagnosis,
        };
        let draft = recovery::draft(&failure, &self.clinic.desk.scrubber)?;
        let written = quest.files.write_draft(&draft);
        let stamp = recovery_file::stamp(&quest.files.proposal());
        if let Some(quest) = &mut self.quest {
            quest.stamp = stamp;
        }
        if let Err(error) = written {
            self.note(&format!("recovery.json could not be written: {}", with_causes(&error)));
        }
        Some(draft)
    }

    /// Looks whether something else is proposed by now; what was asked about is then asked anew.
    pub(super) fn look_for_proposal(&mut self) -> Result<(), StoreError> {
        let Some(quest) = &self.quest else { return Ok(()) };
        if recovery_file::stamp(&quest.files.proposal()) == quest.stamp {
            return Ok(());
        }
        let before = quest.proposal.clone();
        self.read_proposal()?;
        let Some(proposal) = self.quest.as_ref().and_then(|quest| quest.proposal.clone()) else {
            return Ok(());
        };
        let asks_the_same = before.is_some_and(|old| same_commands(&old, &proposal));
        if asks_the_same {
            return Ok(());
        }
        self.case.cures.clear();
        self.ask_anew(Box::new(recovery::proposed(&proposal, &self.clinic.desk.scrubber)))
    }

    /// Puts on record what is proposed by now; what was asked about is then asked anew.
    pub(super) fn ask_anew(&mut self, proposal: Box<Proposed>) -> Result<(), StoreError> {
        let mut events = vec![Event::Recovery(RecoveryEvent::Proposed { proposal })];
        let phase = self.incident.as_ref().map(Incident::phase);
        if let Some(Phase::Asking { .. }) = phase {
            self.note("something else is proposed by now: it is asked anew");
            events.push(Event::Incident(IncidentEvent::Superseded {}));
        }
        self.say(events)
    }

    /// Tells since when a person is waited for and nothing else, if so.
    pub(super) fn waits_for_person(&self) -> Option<Instant> {
        let incident = self.incident.as_ref().filter(|_| self.running.is_none())?;
        let asks = matches!(incident.phase(), Phase::Asking { .. });
        (asks || incident.paused_by().is_some()).then(Instant::now)
    }

    /// Takes in that a person was waited for until now.
    pub(super) fn waited(&mut self, since: Option<Instant>) {
        if let (Some(quest), Some(since)) = (&mut self.quest, since) {
            quest.waited += since.elapsed();
        }
    }

    /// Returns when to look again: sooner than otherwise while something else may be proposed.
    pub(super) fn look_at(&self, until: Option<Timestamp>) -> Option<Timestamp> {
        let is_asking = self
            .incident
            .as_ref()
            .is_some_and(|incident| matches!(incident.phase(), Phase::Asking { .. }));
        if self.quest.is_none() || !is_asking {
            return until;
        }
        let soon = self.clinic.desk.now().saturating_add(LOOK).unwrap_or(Timestamp::MAX);
        Some(until.map_or(soon, |until| until.min(soon)))
    }

    /// Ends after a person settled it, though the tests still do not execute: the person knows.
    pub(super) fn settled_in_vain(&mut self) {
        self.note("a person settled it, and the tests still do not execute");
        self.ending = Some(Ending::CalledOff);
    }

    /// Writes what the journal says into the loop's files.
    pub(super) fn tell_loop(&mut self) {
        let Some(quest) = &mut self.quest else { return };
        if let Err(error) = quest.files.refresh(self.clinic.desk.store) {
            let complaint = with_causes(&error);
            if self.case.complaint.as_ref() != Some(&complaint) {
                self.note(&format!("the loop's files could not be written: {complaint}"));
                self.case.complaint = Some(complaint);
            }
        }
    }
}

fn reason_of(event: &Event) -> &str {
    match event {
        Event::Recovery(RecoveryEvent::Refused { reason, .. }) => reason.as_str(),
        _ => "",
    }
}

/// Tells whether two proposals want the very same done.
fn same_commands(one: &Proposal, other: &Proposal) -> bool {
    use salve_core::gate::Which;
    let request = |proposal: &Proposal, which| proposal.request(which).ok().cloned();
    let same = |which| request(one, which) == request(other, which);
    same(Which::Recovery) && same(Which::Fallback)
}

/// How long ago something was.
pub(super) fn ago(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}
