//! Which remedies fit a failure, and what the gate says about each.
//!
//! What memory knows comes first where the gate allows it, then the playbook, then Salve's own
//! resorts. What would need a person is offered last, when nothing else is left to try.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use salve_core::earned::EarningTerms;
use salve_core::event::{
    Authority, Digest, Effect, Event, IncidentEvent, Judgement, Remedy, RemedyKind, RemedyOrigin,
    RemedyVerdict, RepairMode, Repeat, SubjectKind, Undo,
};
use salve_core::gate::{
    self, DEFAULT_TIMEOUT_SECONDS, GateCounters, GatePolicy, GateRule, Request,
};
use salve_core::id::Signature;
use salve_core::incident::{Candidate, Incident, Phase, choose};
use salve_core::memory::{Choice, Ranked, RememberedKind, merge, rank};
use salve_core::playbook::{Action, Diagnosis, Nature, Prescription};
use salve_core::scrub::{Scrubbed, Scrubber};

use super::patches;
use crate::config::{PatchReach, PlaybookAuto};
use crate::fleet_memory::FleetMemory;
use crate::gate::WorkingDir;
use crate::project::{Project, Worktree};
use crate::sandbox::Sandbox;
use crate::store::{Store, StoreError};

/// How sure the first of several prescriptions is, in thousandths; each next one is less so.
pub(super) const SURE: u16 = 999;

/// What a remedy would do.
#[derive(Clone, Debug)]
pub struct CarriedRemedy {
    /// The remedy's hash.
    pub digest: Digest,
    /// What it would do.
    pub what: RemedyWay,
}

/// The ways in which a remedy acts.
#[derive(Clone, Debug)]
pub enum RemedyWay {
    /// It only runs the subject again.
    Again,
    /// It runs a step again in the same workspace.
    SoftReset,
    /// It sets the workspace of a step back to its checkpoints.
    HardReset,
    /// A command that memory knows.
    Known {
        /// The command, as the gate approved it.
        command: String,
        /// How long it may take.
        seconds: u64,
        /// Where it runs, held open since the gate judged it; without one, the project's root.
        dir: Option<Arc<WorkingDir>>,
    },
    /// A patch that memory knows.
    Patch(Vec<u8>),
    /// What the playbook prescribes.
    Playbook(Action),
    /// An agent's turn.
    Agent,
    /// An agent's turn, with what somebody wants it to do.
    Instruction(Scrubbed),
    /// Something that only the subject can do, known to it by the remedy's hash.
    BySubject,
}

impl RemedyWay {
    /// Returns whether it is a remedy for another day too: a process or a lock that was in the way
    /// once is none.
    pub fn is_lasting(&self) -> bool {
        match self {
            RemedyWay::Known { .. } | RemedyWay::Patch(_) => true,
            RemedyWay::Playbook(action) => action.is_lasting(),
            RemedyWay::Again
            | RemedyWay::SoftReset
            | RemedyWay::HardReset
            | RemedyWay::Agent
            | RemedyWay::Instruction(_)
            | RemedyWay::BySubject => false,
        }
    }
}

/// Where an offer comes from, and how sure it is to help.
#[derive(Clone, Copy, Debug)]
pub struct OfferTrust {
    /// Who or what it is from.
    pub origin: RemedyOrigin,
    /// How sure it is, in thousandths.
    pub confidence: u16,
}

/// What is asked of the fleet's memory.
#[derive(Clone, Copy, Debug)]
pub struct FleetQuestion {
    pub signature: Signature,
    /// What failed.
    pub subject: SubjectKind,
}

/// A remedy with what the gate says about it.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The remedy.
    pub candidate: Candidate,
    /// What the gate says.
    pub judgement: Judgement,
    /// What it would do.
    pub what: RemedyWay,
}

/// What has run unattended so far.
#[derive(Debug, Default)]
pub struct Auto {
    count: u64,
    last: Option<Instant>,
}

/// Where remedies are taken from.
#[derive(Debug)]
pub struct Remedies<'a> {
    /// The project's root.
    pub root: PathBuf,
    /// What may run unattended.
    pub policy: Cow<'a, GatePolicy>,
    /// Which shipped remedies run without asking.
    pub playbook: PlaybookAuto,
    /// What keeps commands within bounds.
    pub sandbox: Sandbox,
    /// How commands earn their approval.
    pub terms: EarningTerms,
    /// Where patches that healed are used again.
    pub patches: PatchReach,
    /// What other machines of the fleet told, where that is used.
    pub fleet: Option<FleetMemory>,
    /// The user's own memory, where it is used and there is one.
    user: OnceCell<Option<Store>>,
    /// Where that is, or would be.
    user_dir: Option<PathBuf>,
    /// The same project in the repository's main worktree, if this is another one.
    main: Option<Project>,
    /// Its memory, where there is one.
    main_store: OnceCell<Option<Store>>,
    auto: Auto,
    /// When memory's files were last changed, as far as they were read.
    files_read: Option<SystemTime>,
}

/// Returns the same project in the repository's main worktree, if this is another one.
fn in_main_worktree(root: &Path) -> Option<Project> {
    let tree = Worktree::of(root)?;
    let below = root.strip_prefix(&tree.root).ok()?;
    Project::at(&tree.main_root()?.join(below)).ok()
}

impl<'a> Remedies<'a> {
    /// Sets up remedies of which nothing ran yet.
    pub fn new(
        root: PathBuf,
        policy: Cow<'a, GatePolicy>,
        playbook: PlaybookAuto,
        sandbox: Sandbox,
        user_dir: Option<PathBuf>,
    ) -> Self {
        // Nothing is earned unless the settings say how.
        let (terms, auto) = (EarningTerms { after: 0, days: 0 }, Auto::default());
        let (user, files_read) = (OnceCell::new(), None);
        let (main, main_store) = (in_main_worktree(&root), OnceCell::new());
        Self {
            root,
            policy,
            playbook,
            sandbox,
            terms,
            patches: PatchReach::User,
            fleet: None,
            user,
            user_dir,
            main,
            main_store,
            auto,
            files_read,
        }
    }

    /// Tells whether memory's files may say something else than when they were last read.
    pub fn have_files_changed(&mut self, dir: &Path) -> bool {
        let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let changed = files.filter_map(|file| file.metadata().ok()?.modified().ok()).max();
        let is_new = changed.is_some() && changed != self.files_read;
        self.files_read = changed;
        is_new
    }

    /// Returns the user's own memory, opened when it is first asked.
    fn user(&self) -> Option<&Store> {
        let open = || {
            let there = Project::of_user(self.user_dir.clone()?);
            Store::open_existing(&there).ok().flatten()
        };
        self.user.get_or_init(open).as_ref()
    }

    /// Returns the memory of the project in the repository's main worktree, if this is another one.
    fn main_store(&self) -> Option<&Store> {
        let open = || Store::open_existing(self.main.as_ref()?).ok().flatten();
        self.main_store.get_or_init(open).as_ref()
    }

    /// Opens the memory of the repository's main worktree to tell it something, making it if there
    /// is none.
    pub fn main_to_tell(&self) -> Option<Store> {
        // Without it, the worktree's own still serves.
        Store::open(self.main.as_ref()?).ok()
    }

    /// Opens the user's own memory to tell it something, making it if there is none.
    pub fn user_to_tell(&self, kind: RememberedKind) -> Option<Store> {
        if kind == RememberedKind::Patch && self.patches == PatchReach::Project {
            return None;
        }
        // Without it, the project's own still serves.
        Store::open(&Project::of_user(self.user_dir.clone()?)).ok()
    }

    /// Takes in that a known command runs unattended now.
    pub fn count_auto(&mut self) {
        self.auto.count += 1;
        self.auto.last = Some(Instant::now());
    }

    /// Takes in what has run unattended so far, as the journal has it.
    pub fn set_auto(&mut self, state: &GateCounters) {
        let ago =
            state.seconds_since_last_auto.and_then(|ago| Duration::try_from_secs_f64(ago).ok());
        let last = ago.and_then(|ago| Instant::now().checked_sub(ago));
        self.auto = Auto { count: state.auto_recoveries_this_run, last };
    }

    /// Returns what has run unattended so far, for the gate.
    pub(super) fn auto_state(&self) -> GateCounters {
        GateCounters {
            auto_recoveries_this_run: self.auto.count,
            seconds_since_last_auto: self.auto.last.map(|last| last.elapsed().as_secs_f64()),
        }
    }

    /// Returns what memory knows about a failure.
    pub fn recall(&self, store: &Store, signature: Signature) -> Result<Choice, StoreError> {
        let mut here = store.memory().recall(signature)?;
        let main = self.main_store().map(|main| main.memory().recall(signature)).transpose()?;
        match (&mut here, main.flatten()) {
            (Some(here), Some(main)) => merge(here, &main),
            (None, main) => here = main,
            (Some(_), None) => {}
        }
        let elsewhere = match self.user() {
            Some(user) => user.memory().recall(signature)?,
            None => None,
        };
        Ok(rank(here.as_ref(), elsewhere.as_ref(), Timestamp::now()))
    }

    /// Returns what memory knows to help against a failure: commands, and patches that fit.
    pub fn known(
        &self,
        project: &Project,
        store: &Store,
        signature: Signature,
        scrubber: &Scrubber,
    ) -> Result<Vec<Offer>, StoreError> {
        let mut known = self.recall(store, signature)?.remedies;
        known.retain(|known| self.serves_here(known));
        let commands = known.iter().filter(|known| known.remedy.kind == RememberedKind::Command);
        let mut offers: Vec<Offer> =
            commands.filter_map(|known| self.offer_known(known, scrubber)).collect();
        offers.extend(patches::offers(project, &known, scrubber));
        Ok(offers)
    }

    /// Returns what other machines of the fleet saw to heal and nobody here knows, as far as it is used
    /// against a failure of such a subject.
    pub fn known_in_fleet(
        &self,
        project: &Project,
        store: &Store,
        FleetQuestion { signature, subject }: FleetQuestion,
        scrubber: &Scrubber,
    ) -> Result<Vec<Offer>, StoreError> {
        // What others told is not worth a failure of its own.
        let told = self.fleet.as_ref().and_then(|fleet| fleet.recall(signature).ok().flatten());
        let (Some(fleet), Some(told)) = (&self.fleet, told) else { return Ok(Vec::new()) };
        let mut choice = self.recall(store, signature)?;
        choice.add_from_fleet(&told, Timestamp::now());
        let is_used = |known: &Ranked| {
            known.origin == RemedyOrigin::Fleet && fleet.serves(known.remedy.kind, subject)
        };
        let known: Vec<Ranked> = choice.remedies.into_iter().filter(is_used).collect();
        let commands = known.iter().filter(|known| known.remedy.kind == RememberedKind::Command);
        let mut offers: Vec<Offer> =
            commands.filter_map(|known| self.offer_known(known, scrubber)).collect();
        for offer in &mut offers {
            offer.judgement = unless_unnamed(offer.judgement.clone());
        }
        offers.extend(patches::offers(project, &known, scrubber));
        Ok(offers)
    }

    /// Tells whether a remedy that memory knows is used in this project.
    fn serves_here(&self, known: &Ranked) -> bool {
        let is_from_elsewhere = known.origin == RemedyOrigin::User;
        let stays_there = self.patches == PatchReach::Project;
        !(is_from_elsewhere && stays_there && known.remedy.kind == RememberedKind::Patch)
    }

    fn offer_known(&self, known: &Ranked, scrubber: &Scrubber) -> Option<Offer> {
        let confidence = (known.confidence.share() * 1_000.0).round() as u16;
        let trust = OfferTrust { origin: known.origin, confidence };
        self.offer_command(&known.remedy.text, trust, scrubber)
    }

    /// Returns a command with what the gate says about it; one that cannot even be asked about is
    /// none.
    pub fn offer_command(
        &self,
        text: &Scrubbed,
        trust: OfferTrust,
        scrubber: &Scrubber,
    ) -> Option<Offer> {
        let request = Request::new(text.as_str(), ".", DEFAULT_TIMEOUT_SECONDS).ok()?;
        let state = self.auto_state();
        let mut offer = self.offer_request(&request, trust, &state, scrubber);
        offer.candidate.remedy.text = text.clone();
        Some(offer)
    }

    /// Returns a command, with its directory and time-out, and what the gate says about it.
    pub fn offer_request(
        &self,
        request: &Request,
        trust: OfferTrust,
        state: &GateCounters,
        scrubber: &Scrubber,
    ) -> Offer {
        let judged = crate::gate::judge(&self.root, &self.policy, request, state, scrubber);
        let (seconds, asked) = (request.timeout_seconds(), request.working_dir());
        let (verdict, command) = match &judged.verdict {
            gate::GateVerdict::Auto(approval) => {
                (RemedyVerdict::Allow, approval.command().to_owned())
            }
            gate::GateVerdict::Human { .. } => (RemedyVerdict::Ask, request.command().to_owned()),
            gate::GateVerdict::Deny { .. } => (RemedyVerdict::Deny, request.command().to_owned()),
        };
        let remedy = Remedy {
            kind: RemedyKind::Command,
            origin: trust.origin,
            text: scrubber.scrub(request.command()),
            digest: Digest::of_command(&command, asked, seconds.saturating_mul(1_000)),
            undo: Undo::Snapshot,
            repeat: Repeat::Unsafe,
        };
        let judgement = Judgement {
            verdict,
            rule: scrubber.scrub(&judged.verdict.rule().to_string()),
            reason: scrubber.scrub(judged.verdict.reason()),
        };
        let judgement = self.unless_held(judgement, [command.as_str()]);
        let what = RemedyWay::Known { command, seconds, dir: judged.dir.map(Arc::new) };
        Offer { candidate: Candidate { remedy, confidence: trust.confidence }, judgement, what }
    }

    /// Returns what the playbook prescribes and has not been tried without success.
    pub fn prescribed(
        &self,
        diagnosis: &Diagnosis,
        failed: &[Digest],
        mode: RepairMode,
        scrubber: &Scrubber,
    ) -> Vec<Offer> {
        if (diagnosis.nature, mode) == (Nature::Code, RepairMode::Agent) {
            // An agent reads it before it is only run again.
            return Vec::new();
        }
        let passes = diagnosis.nature == Nature::Transient;
        let open = diagnosis.remedies.iter().enumerate().filter(|(_, prescription)| {
            let again = passes && prescription.action.is_restart();
            again || !failed.contains(&prescription.remedy.digest)
        });
        open.map(|(place, one)| self.offer(one, place, scrubber)).collect()
    }

    /// Returns a prescription with what the settings say about it.
    fn offer(&self, prescription: &Prescription, place: usize, scrubber: &Scrubber) -> Offer {
        let Prescription { rule, action, remedy, why, .. } = prescription;
        let verdict = match (self.playbook, prescription.is_safe()) {
            // Running it again changes nothing, so nobody has to be asked.
            _ if action.is_restart() => RemedyVerdict::Allow,
            (PlaybookAuto::Safe, true) => RemedyVerdict::Allow,
            (PlaybookAuto::Safe, false) | (PlaybookAuto::None, _) => RemedyVerdict::Ask,
        };
        let judgement = Judgement { verdict, rule: scrubber.scrub(rule), reason: why.clone() };
        let commands: Vec<String> = action.commands().collect();
        let judgement = self.unless_held(judgement, commands.iter().map(String::as_str));
        let what = if action.is_restart() {
            RemedyWay::Again
        } else {
            RemedyWay::Playbook(action.clone())
        };
        let confidence = SURE.saturating_sub(u16::try_from(place).unwrap_or(SURE));
        Offer { candidate: Candidate { remedy: remedy.clone(), confidence }, judgement, what }
    }

    /// Returns the judgement that takes an allowed remedy back, which is due: where nothing can
    /// hold its commands any more, a person is asked after all.
    ///
    /// What is not known by its `cure`, an earlier run of Salve chose, maybe on another machine.
    pub fn taken_back(&self, incident: &Incident, cure: Option<&CarriedRemedy>) -> Option<Event> {
        let Phase::Due { what: Effect::Snapshot | Effect::Apply { .. }, .. } = incident.phase()
        else {
            return None;
        };
        let trial = incident.trial().filter(|trial| trial.authority == Some(Authority::Gate))?;
        let remedy = &trial.remedy;
        let commands = match cure.map(|cure| &cure.what) {
            Some(RemedyWay::Known { command, .. }) => vec![command.clone()],
            Some(RemedyWay::Playbook(action)) => action.commands().collect(),
            None if remedy.kind == RemedyKind::Command => vec![remedy.text.to_string()],
            Some(
                RemedyWay::Again
                | RemedyWay::SoftReset
                | RemedyWay::HardReset
                | RemedyWay::Patch(_)
                | RemedyWay::Agent
                | RemedyWay::Instruction(_)
                | RemedyWay::BySubject,
            )
            | None => {
                return None;
            }
        };
        let allowed = Judgement {
            verdict: RemedyVerdict::Allow,
            rule: Scrubbed::literal(""),
            reason: Scrubbed::literal(""),
        };
        let judgement = self.unless_held(allowed, commands.iter().map(String::as_str));
        let is_back = judgement.verdict != RemedyVerdict::Allow;
        is_back.then(|| {
            Event::Incident(IncidentEvent::Judged { remedy: Box::new(remedy.clone()), judgement })
        })
    }

    /// Returns a judgement as it is where the sandbox can hold these commands; where it cannot, a
    /// person is asked.
    fn unless_held<'c>(
        &self,
        judgement: Judgement,
        commands: impl IntoIterator<Item = &'c str>,
    ) -> Judgement {
        let lack = || commands.into_iter().find_map(|command| self.sandbox.lack(command));
        match judgement.verdict {
            RemedyVerdict::Ask | RemedyVerdict::Deny => judgement,
            RemedyVerdict::Allow => match lack() {
                None => judgement,
                Some(lack) => Judgement {
                    verdict: RemedyVerdict::Ask,
                    rule: Scrubbed::literal("recovery.sandbox.mode"),
                    reason: Scrubbed::literal(lack.as_str()),
                },
            },
        }
    }
}

/// Returns the judgement of a command that only others told: settings that let pass what no rule
/// knows do not mean what a stranger wrote.
fn unless_unnamed(judgement: Judgement) -> Judgement {
    let is_unnamed = judgement.rule.as_str() == GateRule::OnUnknown.to_string();
    match judgement.verdict {
        RemedyVerdict::Allow if is_unnamed => Judgement {
            verdict: RemedyVerdict::Ask,
            rule: Scrubbed::literal("memory.fleet"),
            reason: Scrubbed::literal("another machine of the fleet told it, and no rule names it"),
        },
        RemedyVerdict::Allow | RemedyVerdict::Ask | RemedyVerdict::Deny => judgement,
    }
}

/// Returns the offer to put to the incident next: what needs a person comes last.
pub fn pick<'o>(incident: &Incident, offers: &'o [Offer]) -> Option<&'o Offer> {
    [RemedyVerdict::Allow, RemedyVerdict::Ask].into_iter().find_map(|verdict| {
        let fitting = offers.iter().filter(|offer| offer.judgement.verdict == verdict);
        let chosen = choose(incident, fitting.map(|offer| offer.candidate.clone()).collect())?;
        offers.iter().find(|offer| offer.candidate == chosen)
    })
}

/// Returns what memory knows and the playbook does not prescribe in the same words: what the
/// playbook prescribes runs with the state it was judged in, so it goes first.
pub fn beside(known: Vec<Offer>, diagnosis: &Diagnosis) -> impl Iterator<Item = Offer> {
    let is_new = |known: &Offer| {
        let text = &known.candidate.remedy.text;
        !diagnosis.remedies.iter().any(|one| one.remedy.text == *text)
    };
    known.into_iter().filter(is_new)
}

/// Returns one of Salve's own resorts; `again` is what running the subject again is called.
pub fn resort(what: RemedyWay, again: &'static str) -> Offer {
    let (kind, text, rule, reason, undo) = match what {
        RemedyWay::Agent | RemedyWay::Instruction(_) => (
            RemedyKind::Agent,
            "repair by an agent",
            "agent.repair",
            "an agent may repair this project",
            Undo::Snapshot,
        ),
        RemedyWay::SoftReset => (
            RemedyKind::SoftReset,
            "run the step again in its workspace",
            "job.step_max_attempts",
            "the step has attempts left",
            Undo::Nothing,
        ),
        RemedyWay::HardReset => (
            RemedyKind::HardReset,
            "set the workspace back to its checkpoints and run the step again",
            "job.job_self_heal_max_resets",
            "the job has resets left",
            Undo::Nothing,
        ),
        RemedyWay::Again
        | RemedyWay::Known { .. }
        | RemedyWay::Patch(_)
        | RemedyWay::Playbook(_)
        | RemedyWay::BySubject => {
            (RemedyKind::Retry, again, again, "running it again changes nothing", Undo::Nothing)
        }
    };
    let remedy = Remedy {
        kind,
        origin: RemedyOrigin::Builtin,
        text: Scrubbed::literal(text),
        digest: Digest::of(&[text.as_bytes()]),
        undo,
        repeat: Repeat::Safe,
    };
    let judgement = Judgement {
        verdict: RemedyVerdict::Allow,
        rule: Scrubbed::literal(rule),
        reason: Scrubbed::literal(reason),
    };
    Offer { candidate: Candidate { remedy, confidence: 0 }, judgement, what }
}
