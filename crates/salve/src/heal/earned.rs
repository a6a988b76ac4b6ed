//! Approvals that commands earned, read from the project's journal and put to use.
//!
//! **Invariant:** what an earned rule allows passes the gate like an entry of `auto_approve`: where
//! such an entry would not let it run, neither does the rule.

use std::collections::BTreeSet;

use jiff::Timestamp;
use salve_core::earned::{Earned, EarnedRule, EarningTerms, RuleStanding};
use salve_core::event::{
    Digest, Entry, Event, IncidentEvent, MemoryEvent, RemedyKind, RemedyVerdict, RuleKey,
};
use salve_core::gate::{self, CommandPlace, DEFAULT_TIMEOUT_SECONDS, GateCase, Request};
use salve_core::id::{IncidentId, Signature};
use salve_core::scrub::{Scrubbed, Scrubber};

use super::remedies::{Offer, Remedies, RemedyWay};
use crate::store::{Journal, Store, StoreError, Stream};

/// How many entries are read at once.
const PORTION: usize = 4_000;

/// Of how many incidents all entries are read one incident after the other, and kept for sorting;
/// of more than that, the whole journal is read in its order.
const FEW: usize = 256;

/// Reads what was earned in a project.
pub fn load(journal: &dyn Journal) -> Result<Earned, StoreError> {
    Ok(EarnedHistory::read(journal, journal.last_seq()?)?.earned)
}

/// What was earned in a project, read once and kept up to date.
///
/// A page that shows a long history cannot read all of it again whenever something is written.
#[derive(Debug, Default)]
pub struct EarnedHistory {
    earned: Earned,
    /// The incidents in which people approved something, and those in which the same commands ran:
    /// wherever else they ran, how they did counts too.
    incidents: BTreeSet<IncidentId>,
    /// The commands of the incidents in which people approved something.
    commands: BTreeSet<Digest>,
    read_to: u64,
}

impl EarnedHistory {
    /// Takes in what the journal has more, and returns what was earned.
    pub fn catch_up(&mut self, journal: &dyn Journal) -> Result<&Earned, StoreError> {
        let last = journal.last_seq()?;
        let is_another = last < self.read_to;
        if is_another || self.has_news_of_people(journal)? {
            *self = Self::read(journal, last)?;
        } else if self.incidents.is_empty() {
            self.read_to = last;
        }
        while self.read_to < last {
            let entries = journal.read(self.read_to, &Stream::Project, PORTION)?;
            if entries.is_empty() {
                break;
            }
            // What came meanwhile may be a person's word, and is looked at the next time.
            for entry in entries.iter().take_while(|entry| entry.seq <= last) {
                self.hear(journal, entry)?;
                self.read_to = entry.seq;
            }
        }
        Ok(&self.earned)
    }

    /// Tells whether people approved something since, or a failure has another name by now: then it
    /// is others' commands and incidents that count.
    fn has_news_of_people(&self, journal: &dyn Journal) -> Result<bool, StoreError> {
        let approved = journal.read(self.read_to, &Stream::ApprovedRemedies, 1)?;
        let rules = journal.read(self.read_to, &Stream::EarnedRules, usize::MAX)?;
        let is_name =
            |entry: &Entry| matches!(&entry.event, Event::Memory(MemoryEvent::Rekeyed { .. }));
        Ok(!approved.is_empty() || rules.iter().any(is_name))
    }

    fn hear(&mut self, journal: &dyn Journal, entry: &Entry) -> Result<(), StoreError> {
        if let Some((id, digest)) = command(entry)
            && self.commands.contains(&digest)
            && self.incidents.insert(id)
        {
            let course = journal.read(0, &Stream::Incident(id), usize::MAX)?;
            let before = course.iter().take_while(|earlier| earlier.seq < entry.seq);
            before.for_each(|earlier| self.earned.take(earlier));
        }
        self.take(entry);
        Ok(())
    }

    fn take(&mut self, entry: &Entry) {
        let is_rule = matches!(&entry.event, Event::Rule(_));
        if is_rule || entry.incident.is_some_and(|id| self.incidents.contains(&id)) {
            self.earned.take(entry);
        }
    }

    /// Reads everything up to an entry.
    fn read(journal: &dyn Journal, upto: u64) -> Result<Self, StoreError> {
        let approved = journal.read(0, &Stream::ApprovedRemedies, usize::MAX)?;
        let mut incidents: BTreeSet<IncidentId> =
            approved.iter().filter_map(|entry| entry.incident).collect();
        if incidents.is_empty() {
            return Ok(Self { read_to: upto, ..Self::default() });
        }
        let mut all = Vec::new();
        in_portions(journal, &Stream::Approvals, upto, |entry| all.extend(command(entry)))?;
        let ours = all.iter().filter(|(id, _)| incidents.contains(id));
        let commands: BTreeSet<Digest> = ours.map(|(_, digest)| *digest).collect();
        incidents.extend(all.iter().filter(|(_, of)| commands.contains(of)).map(|(id, _)| id));
        let rules = journal.read(0, &Stream::EarnedRules, usize::MAX)?;
        let earned = Earned::under_names_of(&rules);
        let mut history = Self { earned, incidents, commands, read_to: upto };
        if history.incidents.len() > FEW {
            in_portions(journal, &Stream::Project, upto, |entry| history.take(entry))?;
            return Ok(history);
        }
        let mut entries = rules;
        for id in &history.incidents {
            entries.extend(journal.read(0, &Stream::Incident(*id), usize::MAX)?);
        }
        entries.retain(|entry| entry.seq <= upto);
        entries.sort_by_key(|entry| entry.seq);
        entries.iter().for_each(|entry| history.take(entry));
        Ok(history)
    }
}

/// Reads a stream up to an entry without keeping it.
fn in_portions(
    journal: &dyn Journal,
    stream: &Stream,
    upto: u64,
    mut each: impl FnMut(&Entry),
) -> Result<(), StoreError> {
    let mut after = 0;
    while after < upto {
        let entries = journal.read(after, stream, PORTION)?;
        entries.iter().filter(|entry| entry.seq <= upto).for_each(&mut each);
        match entries.last().filter(|_| entries.len() >= PORTION) {
            Some(last) => after = last.seq,
            None => break,
        }
    }
    Ok(())
}

/// Returns the command that an entry is about, with its incident.
fn command(entry: &Entry) -> Option<(IncidentId, Digest)> {
    match &entry.event {
        Event::Incident(IncidentEvent::Judged { remedy, .. })
            if remedy.kind == RemedyKind::Command =>
        {
            Some((entry.incident?, remedy.digest))
        }
        _ => None,
    }
}

/// Returns the rule for a failure and a command if it could be accepted now.
pub fn proposed(
    store: &Store,
    key: RuleKey,
    terms: EarningTerms,
    now: Timestamp,
) -> Result<Option<EarnedRule>, StoreError> {
    if terms.after == 0 {
        return Ok(None);
    }
    let earned = load(store.journal())?;
    let rule = earned.rule(key).filter(|rule| rule.standing(terms, now) == RuleStanding::Proposed);
    Ok(rule.cloned())
}

impl Remedies<'_> {
    /// Allows what people let run again and again, it helped, and a person accepted that.
    pub fn earn(
        &self,
        mut offers: Vec<Offer>,
        store: &Store,
        signature: Option<Signature>,
        scrubber: &Scrubber,
    ) -> Result<Vec<Offer>, StoreError> {
        let asks = |offer: &&mut Offer| offer.judgement.verdict == RemedyVerdict::Ask;
        let (Some(signature), journal) = (signature, store.journal()) else { return Ok(offers) };
        let is_any = !journal.tail(&Stream::EarnedRules, 1)?.is_empty();
        if self.terms.after == 0 || !is_any || !offers.iter_mut().any(|offer| asks(&offer)) {
            return Ok(offers);
        }
        let (earned, now) = (load(journal)?, Timestamp::now());
        for offer in offers.iter_mut().filter(asks) {
            let key = RuleKey { signature, remedy: offer.candidate.remedy.digest };
            if earned.allows(key, self.terms, now) && self.would_allow(offer, scrubber) {
                offer.judgement.verdict = RemedyVerdict::Allow;
                offer.judgement.rule = scrubber.scrub(&key.to_string());
                offer.judgement.reason =
                    Scrubbed::literal("people approved it, it helped, and a person accepted that");
            } else if let Some(word) = earned.rule(key).and_then(EarnedRule::word_before_seals) {
                let again = format!(
                    "{} let it run unattended before Salve sealed such words; \
                     `salve rules accept {}` lets it again",
                    word.by,
                    key.short()
                );
                offer.judgement.rule = scrubber.scrub(&key.to_string());
                offer.judgement.reason = scrubber.scrub(&again);
            }
        }
        Ok(offers)
    }

    /// Returns whether the gate would let a command run if it stood in `auto_approve`.
    fn would_allow(&self, offer: &Offer, scrubber: &Scrubber) -> bool {
        let (command, seconds) = match &offer.what {
            RemedyWay::Known { command, seconds, .. } => (command.as_str(), *seconds),
            RemedyWay::Playbook(_) => {
                (offer.candidate.remedy.text.as_str(), DEFAULT_TIMEOUT_SECONDS)
            }
            RemedyWay::Again
            | RemedyWay::SoftReset
            | RemedyWay::HardReset
            | RemedyWay::Patch(_)
            | RemedyWay::Agent
            | RemedyWay::Instruction(_)
            | RemedyWay::BySubject => return false,
        };
        let Ok(request) = Request::new(command, ".", seconds) else { return false };
        let policy = self.policy.also_approving(request.command());
        // Where it runs was resolved, judged and is held since.
        let (place, state) = (CommandPlace::Inside, self.auto_state());
        let case = GateCase { policy: &policy, request: &request, place: &place, state: &state };
        match gate::decide(case, scrubber) {
            gate::GateVerdict::Auto(approval) => approval.command() == command,
            gate::GateVerdict::Human { .. } | gate::GateVerdict::Deny { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use salve_core::event::{
        Actor, Draft, Effect, EffectReport, Judgement, Process, Proof, Remedy, RemedyOrigin,
        Repeat, Undo,
    };
    use salve_core::incident::{Incident, IncidentMove};
    use uuid::Uuid;

    use super::*;
    use crate::project::Project;

    fn me() -> Process {
        Process { pid: 1, started: 1, host: Scrubbed::literal("here") }
    }

    fn opened() -> Event {
        let data = r#"{
            "subject": {"kind": "check", "name": "test", "repeat": "safe"},
            "policy": {"person": "ada", "mode": "legacy", "limits": {"attempts": 3},
                "backoff_ms": 0, "engage_ms": 0, "write_ms": 0, "quiet_ms": 0, "watch_ms": 0,
                "cooldown_ms": 0, "max_files": 8, "max_lines": 300, "on_failure": "undo", "at_a_loss": "ask"},
            "symptom": {"signature": "0000000000000001", "class": "import_error",
                "key_line": "Cannot find module './orders'", "acted": "no"}
        }"#;
        Event::of_text("opened", 1, data).unwrap()
    }

    fn judged(command: &'static str, verdict: RemedyVerdict) -> Event {
        let remedy = Remedy {
            kind: RemedyKind::Command,
            origin: RemedyOrigin::Playbook,
            text: Scrubbed::literal(command),
            digest: Digest::of_command(command, ".", 60_000),
            undo: Undo::Nothing,
            repeat: Repeat::Safe,
        };
        let (rule, reason) = (Scrubbed::literal("a rule"), Scrubbed::literal("it says so"));
        let judgement = Judgement { verdict, rule, reason };
        Event::Incident(IncidentEvent::Judged { remedy: Box::new(remedy), judgement })
    }

    /// Writes an incident that a command heals, and calls `told` after each entry.
    fn heal(
        journal: &dyn Journal,
        number: u128,
        judgement: &Event,
        told: &mut dyn FnMut(&dyn Journal),
    ) {
        let id = IncidentId(Uuid::from_u128(number));
        let mut write = |by: Actor, event: Event| {
            let draft = Draft { at: Timestamp::now(), by, incident: Some(id), event };
            journal.append(draft).unwrap();
            told(journal);
        };
        write(Actor::Salve(me()), opened());
        let claimed = IncidentEvent::Claimed { instead_of: None };
        write(Actor::Salve(me()), Event::Incident(claimed));
        loop {
            let entries = journal.read(0, &Stream::Incident(id), usize::MAX).unwrap();
            let incident = Incident::replay(&entries).unwrap();
            match incident.next(&me(), Timestamp::now()) {
                IncidentMove::Choose => write(Actor::Salve(me()), judgement.clone()),
                IncidentMove::Over => return,
                IncidentMove::Write(event) => {
                    write(Actor::Salve(me()), event.clone());
                    let Event::Incident(IncidentEvent::Requested { effect, what }) = event else {
                        continue;
                    };
                    let Event::Incident(IncidentEvent::Judged { remedy, .. }) = judgement else {
                        panic!("{judgement:?}")
                    };
                    let (by, event) = match what {
                        Effect::Ask => (
                            Actor::Person { name: Scrubbed::literal("ada") },
                            IncidentEvent::Approved {
                                question: 1,
                                digest: remedy.digest,
                                note: None,
                            },
                        ),
                        Effect::Verify => {
                            let report =
                                EffectReport::Verified { proof: Proof::Proven, symptom: None };
                            (Actor::Salve(me()), IncidentEvent::Finished { effect, report })
                        }
                        _ => {
                            let report = EffectReport::Done;
                            (Actor::Salve(me()), IncidentEvent::Finished { effect, report })
                        }
                    };
                    write(by, Event::Incident(event));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// **Invariant:** What is kept up to date entry by entry is what reading everything says.
    #[test]
    fn a_history_that_is_kept_says_what_one_that_is_read_says() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&Project::at(dir.path()).unwrap()).unwrap();
        let mut kept = EarnedHistory::default();
        let mut most = 0;
        let mut same = |journal: &dyn Journal| {
            let now: Vec<EarnedRule> = kept.catch_up(journal).unwrap().rules().cloned().collect();
            assert_eq!(now, load(journal).unwrap().rules().cloned().collect::<Vec<_>>());
            most = most.max(now.iter().map(|rule| rule.uses.len()).max().unwrap_or(0));
        };
        let (ask, allow) = (RemedyVerdict::Ask, RemedyVerdict::Allow);
        for (number, command, verdict) in [
            (1, "npm ci", allow),
            (2, "npm ci", ask),
            (3, "npm ci", allow),
            (4, "make", ask),
            (5, "npm ci", ask),
            (6, "make", allow),
        ] {
            heal(store.journal(), number, &judged(command, verdict), &mut same);
        }
        assert!(most >= 3, "{most} uses at most");
    }
}
