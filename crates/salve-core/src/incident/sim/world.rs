//! The world of one simulated life: processes, a journal, results on their way.

use super::super::{Awaited, DueEffect, Incident, IncidentMove, OwnerState, Phase, TrialReach};
use super::fault::{next, step};
use super::judge::{Broken, Invariant, Judge, hold};
use super::rng::Rng;
use super::{Instant, SimulatedFault, Summary, luck, parts};
use crate::event::{
    Actor, Draft, Effect, EffectReport, Entry, Event, IncidentEvent, Process, RemedyKind, Repeat,
    SubjectKind, Undo,
};

/// A process of Salve and what it knows.
struct Salve {
    process: Process,
    alive: bool,
    view: Incident,
}

/// A result on its way to the process that ran the effect.
#[derive(Clone)]
struct SimulatedMessage {
    to: usize,
    effect: u32,
    report: EffectReport,
}

/// One simulated life.
pub(super) struct World {
    pub(super) rng: Rng,
    fault: Option<SimulatedFault>,
    chaos: bool,
    pub(super) now: u64,
    journal: Vec<Entry>,
    /// The state as the journal has it.
    pub(super) truth: Incident,
    processes: Vec<Salve>,
    messages: Vec<SimulatedMessage>,
    judge: Judge,
    counts: Summary,
}

impl World {
    pub(super) fn new(seed: u64, fault: Option<SimulatedFault>) -> Self {
        let mut rng = Rng::new(seed);
        let repeat = rng.pick([Repeat::Safe, Repeat::Safe, Repeat::Unsafe]);
        let kind = rng.pick([SubjectKind::Check, SubjectKind::Server]);
        let subject = parts::subject(kind, repeat);
        let (policy, symptom) =
            (Box::new(luck::policy(&mut rng)), Box::new(luck::symptom(&mut rng)));
        let event = Event::Incident(IncidentEvent::Opened { subject, policy, symptom });
        let by = Actor::Salve(parts::process(1));
        let at = parts::time(0);
        let opened = Draft { at, by, incident: Some(parts::id()), event }.at_seq(1);
        let truth = match Incident::open(&opened) {
            Ok(truth) => truth,
            Err(error) => unreachable!("the opening is sound: {error}"),
        };
        let mut world = Self {
            rng,
            fault,
            chaos: true,
            now: 0,
            journal: vec![opened],
            truth,
            processes: Vec::new(),
            messages: Vec::new(),
            judge: Judge::of(kind),
            counts: Summary { seeds: 1, entries: 1, ..Summary::default() },
        };
        (0..3).for_each(|_| world.start());
        world
    }

    pub(super) fn entries(&self) -> u64 {
        self.journal.len() as u64
    }

    pub(super) fn add_to(&self, sum: &mut Summary) {
        let Summary { seeds, entries, refused, lost, effects, kills, killed_at, takeovers, ends } =
            &self.counts;
        sum.lost += lost;
        sum.seeds += seeds;
        sum.entries += entries;
        sum.refused += refused;
        sum.effects += effects;
        sum.kills += kills;
        sum.takeovers += takeovers;
        for (at, count) in killed_at {
            *sum.killed_at.entry(*at).or_default() += count;
        }
        for (end, count) in ends {
            *sum.ends.entry(end.clone()).or_default() += count;
        }
    }

    /// Lives through chaos, then lets it come to rest.
    pub(super) fn live(&mut self) -> Result<(), Broken> {
        for _ in 0..120 {
            self.happen()?;
        }
        self.chaos = false;
        self.rest()?;
        let replayed = self.replay();
        hold(Invariant::ReplayIsLive, replayed == self.truth, "replayed from the journal")?;
        let end = match self.truth.phase() {
            Phase::Asking { question, .. } => format!("waits: {question:?}"),
            Phase::Closed(outcome) => format!("{outcome:?}"),
            phase => format!("paused: {phase:?}").split(" {").next().unwrap_or_default().to_owned(),
        };
        self.counts.ends.insert(end, 1);
        Ok(())
    }

    fn replay(&self) -> Incident {
        let mut entries = self.journal.iter();
        let opened = entries.next().and_then(|entry| Incident::open(entry).ok());
        let mut incident = opened.unwrap_or_else(|| self.truth.clone());
        for entry in entries {
            let _refused = step(self.fault, &mut incident, entry);
        }
        incident
    }

    /// Lets one thing happen.
    fn happen(&mut self) -> Result<(), Broken> {
        match self.rng.below(100) {
            0..=54 => {
                let who = self.rng.index(self.processes.len());
                self.drive(who)
            }
            55..=74 => self.deliver(),
            75..=78 => {
                let who = self.rng.index(self.processes.len());
                self.kill(who);
                Ok(())
            }
            79..=81 => {
                self.start();
                Ok(())
            }
            82..=87 => {
                self.now += self.rng.pick([1, 500, 5_000, 200_000]);
                Ok(())
            }
            88..=89 => self.noise(),
            90 if self.rng.chance(50) => self.lose_power(),
            _ => self.speak(),
        }
    }

    /// Lets one process go on without disturbance until nothing happens by itself.
    fn rest(&mut self) -> Result<(), Broken> {
        self.start();
        let who = self.processes.len() - 1;
        for _ in 0..2_000 {
            while !self.messages.is_empty() {
                self.deliver()?;
            }
            self.catch_up(who)?;
            let me = self.processes[who].process.clone();
            match next(self.fault, &self.processes[who].view, &me, parts::time(self.now)) {
                IncidentMove::Over => return Ok(()),
                IncidentMove::Wait { on: Awaited::Person(name), .. } => {
                    let named = !name.as_str().is_empty();
                    return hold(Invariant::EndsOrWaits, named, "waits for nobody");
                }
                IncidentMove::Wait { until: Some(until), .. } => {
                    let until = u64::try_from(until.as_millisecond()).unwrap_or(0);
                    self.now = self.now.max(until);
                }
                IncidentMove::Wait { until: None, .. } if self.messages.is_empty() => {
                    return hold(Invariant::EndsOrWaits, false, "waits for nothing");
                }
                IncidentMove::NotMine => {
                    // Nobody else lives: whoever owned it is gone.
                    (0..who).for_each(|other| self.kill(other));
                }
                IncidentMove::Wait { until: None, .. }
                | IncidentMove::Write(_)
                | IncidentMove::Choose => {}
            }
            self.drive(who)?;
        }
        hold(Invariant::EndsOrWaits, false, "goes on for ever")
    }

    fn start(&mut self) {
        let pid = u32::try_from(self.processes.len()).unwrap_or(u32::MAX) + 1;
        let view = self.replay();
        self.processes.push(Salve { process: parts::process(pid), alive: true, view });
    }

    fn kill(&mut self, who: usize) {
        if std::mem::replace(&mut self.processes[who].alive, false) {
            self.counts.kills += 1;
        }
    }

    /// Kills every process and forgets what was not yet safe from that.
    fn lose_power(&mut self) -> Result<(), Broken> {
        (0..self.processes.len()).for_each(|who| self.kill(who));
        self.messages.clear();
        let durable = |entry: &Entry| match self.fault {
            Some(fault) => fault.is_durable(&entry.event),
            None => entry.event.is_durable(),
        };
        let safe = self.journal.iter().rposition(durable).map_or(1, |last| last + 1);
        let left = safe + self.rng.index(self.journal.len() - safe + 1);
        self.counts.lost += (self.journal.len() - left) as u64;
        self.journal.truncate(left);
        self.truth = self.replay();
        self.judge.lost_power(&self.journal)?;
        self.start();
        Ok(())
    }

    /// Perhaps kills a process at this instant, and tells whether it did.
    fn dies(&mut self, who: usize, at: Instant) -> bool {
        let dies = self.chaos && self.rng.chance(4);
        if dies {
            *self.counts.killed_at.entry(at).or_default() += 1;
            self.kill(who);
        }
        dies
    }

    /// Appends an entry and lets the judge look at it.
    pub(super) fn append(&mut self, by: Actor, event: Event) -> Result<(), Broken> {
        let seq = self.entries() + 1;
        let at = parts::time(self.now);
        let entry = Draft { at, by, incident: Some(parts::id()), event }.at_seq(seq);
        let before = self.truth.clone();
        let gone = |process: &Process| {
            self.processes.iter().all(|other| other.process != *process || !other.alive)
        };
        self.judge.wrote(&entry, gone)?;
        let taken = step(self.fault, &mut self.truth, &entry);
        self.counts.entries += 1;
        match taken {
            Ok(_) => {
                if let Event::Incident(IncidentEvent::Claimed { instead_of: Some(_) }) = entry.event
                {
                    self.counts.takeovers += 1;
                }
                self.judge.took(&entry, &before, &self.truth)?;
            }
            Err(_) => {
                self.counts.refused += 1;
                let mut same = before;
                (same.last_seq, same.repair.clock) = (self.truth.last_seq, self.truth.clock());
                let unchanged = same == self.truth;
                hold(Invariant::ReplayIsLive, unchanged, "a refused entry changed something")?;
            }
        }
        self.journal.push(entry);
        Ok(())
    }

    /// Takes in what a process has not read yet; what it wrote itself may ask for an effect.
    fn catch_up(&mut self, who: usize) -> Result<Option<DueEffect>, Broken> {
        let salve = &mut self.processes[who];
        let read = usize::try_from(salve.view.last_seq()).unwrap_or(0);
        let mut due = None;
        for entry in &self.journal[read..] {
            let taken = step(self.fault, &mut salve.view, entry);
            let mine = entry.by.process() == Some(&salve.process);
            due = taken.ok().flatten().filter(|_| mine);
        }
        let same = salve.view == self.truth;
        hold(Invariant::ReplayIsLive, same, "two readers of one journal disagree")?;
        Ok(due)
    }

    /// Lets a process do what is next for it.
    fn drive(&mut self, who: usize) -> Result<(), Broken> {
        if !self.processes[who].alive {
            return Ok(());
        }
        // Sometimes it has not read what others wrote; then its append must be refused.
        if !self.chaos || !self.rng.chance(20) {
            self.catch_up(who)?;
        }
        let me = self.processes[who].process.clone();
        let now = parts::time(self.now);
        let event = match next(self.fault, &self.processes[who].view, &me, now) {
            IncidentMove::Write(event) => event,
            IncidentMove::Choose => luck::choice(&mut self.rng, &self.processes[who].view),
            IncidentMove::NotMine => match self.claim(who) {
                Some(event) => event,
                None => return Ok(()),
            },
            IncidentMove::Wait { .. } if self.chaos && self.rng.chance(3) => {
                Event::Incident(IncidentEvent::Released {})
            }
            IncidentMove::Wait { .. } | IncidentMove::Over => return Ok(()),
        };
        if let Some(fault) = self.fault {
            fault.meddle(&mut self.processes[who].view);
        }
        if self.dies(who, Instant::BeforeWriting) {
            return Ok(());
        }
        self.write(who, event)
    }

    /// Compares and appends, then runs what has to run.
    fn write(&mut self, who: usize, event: Event) -> Result<(), Broken> {
        let me = self.processes[who].process.clone();
        if self.processes[who].view.last_seq() != self.entries() {
            return Ok(());
        }
        if let (
            Some(SimulatedFault::ActsFirst),
            Event::Incident(IncidentEvent::Requested { effect, what }),
        ) = (self.fault, &event)
        {
            self.act(who, DueEffect { effect: *effect, what: *what })?;
        }
        self.append(Actor::Salve(me), event)?;
        if self.dies(who, Instant::AfterWriting) {
            return Ok(());
        }
        let Some(run) = self.catch_up(who)? else { return Ok(()) };
        if self.dies(who, Instant::BeforeActing) {
            return Ok(());
        }
        self.act(who, run)?;
        if self.fault == Some(SimulatedFault::ActsTwice) && self.rng.chance(5) {
            self.act(who, run)?;
        }
        Ok(())
    }

    /// Runs an effect in the world.
    fn act(&mut self, who: usize, run: DueEffect) -> Result<(), Broken> {
        let me = self.processes[who].process.clone();
        if self.lays_a_layer(run) {
            let laid = Event::Incident(IncidentEvent::LayerLaid { effect: run.effect });
            self.append(Actor::Salve(me.clone()), laid)?;
            if self.dies(who, Instant::AfterWriting) {
                return Ok(());
            }
        }
        let attempts = self.truth.policy().limits.attempts.unwrap_or(0);
        self.judge.acts(&me, run, &self.journal, attempts)?;
        self.counts.effects += 1;
        let report = luck::report(&mut self.rng, run.what);
        let edits = self.truth.trial().is_some_and(|trial| {
            let is_there = trial.reach != TrialReach::InLayer && trial.is_attributable();
            trial.remedy.undo == Undo::Snapshot && is_there
        });
        self.judge.did(run, &report, edits)?;
        if self.dies(who, Instant::AfterActing) {
            return Ok(());
        }
        // An agent's turn may be over without anyone telling; the deadline ends the wait.
        let agent = self.truth.trial().is_some_and(|t| t.remedy.kind == RemedyKind::Agent);
        let silent = agent && matches!(run.what, Effect::Apply { .. }) && self.rng.chance(60);
        if !silent {
            self.messages.push(SimulatedMessage { to: who, effect: run.effect, report });
        }
        Ok(())
    }

    /// Tells whether the agent or the patch that is about to work does so in a private layer.
    fn lays_a_layer(&mut self, run: DueEffect) -> bool {
        let edits = self.truth.trial().is_some_and(|trial| trial.remedy.kind.edits());
        edits && matches!(run.what, Effect::Apply { .. }) && self.rng.chance(60)
    }

    /// Brings a result home: perhaps twice, perhaps after its process is gone.
    fn deliver(&mut self) -> Result<(), Broken> {
        if self.messages.is_empty() {
            return Ok(());
        }
        let place = self.rng.index(self.messages.len());
        let again = self.chaos && self.rng.chance(15);
        let message =
            if again { self.messages[place].clone() } else { self.messages.swap_remove(place) };
        let SimulatedMessage { to, effect, report } = message;
        // What a process wrote in its last breath may still arrive.
        let arrives = self.processes[to].alive || self.chaos && self.rng.chance(20);
        if !arrives {
            return Ok(());
        }
        let by = Actor::Salve(self.processes[to].process.clone());
        self.append(by, Event::Incident(IncidentEvent::Finished { effect, report }))
    }

    fn claim(&mut self, who: usize) -> Option<Event> {
        let view = &self.processes[who].view;
        let owner = view.owner();
        let alive = self.processes.iter().any(|p| p.alive && Some(&p.process) == owner);
        let holder = if alive { OwnerState::Alive } else { OwnerState::Gone };
        let claim = view.claim(&self.processes[who].process, holder).ok();
        claim.or_else(|| self.fault?.claim(view).filter(|_| self.rng.chance(5)))
    }

    /// Returns an entry written before, for saying it again.
    pub(super) fn old_entry(&mut self) -> Option<Entry> {
        let place = self.rng.index(self.journal.len());
        self.journal.get(place).cloned()
    }

    pub(super) fn effects(&self) -> u32 {
        self.truth.repair.effects
    }
}
