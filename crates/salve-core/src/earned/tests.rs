//! Records that earn something, records that do not, and any order of entries.

use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::event::{Actor, Digest, Draft, MemoryEvent, RemedyVerdict};
use crate::event::{Judgement, Repeat, SubjectKind};
use crate::id::Signature;
use crate::incident::testing::{
    agent, judgement, person, policy, process, remedy, subject, symptom, time,
};
use crate::incident::{Awaited, IncidentMove};

const TERMS: EarningTerms = EarningTerms { after: 3, days: 90 };
const DAY: u64 = 86_400_000;

/// How an incident goes once its command may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Verified(Proof),
    CommandFails,
    TimesOut,
    /// It looks well and falls ill again while it is watched.
    Relapses,
    /// Salve is killed while the command runs; another takes it over and finds it well.
    Killed,
    /// Salve is killed while the command runs, and nobody comes.
    Abandoned,
}

/// A journal in the making.
#[derive(Default)]
struct Book {
    entries: Vec<Entry>,
    now: u64,
    incidents: u128,
}

impl Book {
    fn write(&mut self, by: Actor, incident: Option<IncidentId>, event: Event) {
        self.now += 1;
        let seq = self.entries.len() as u64 + 1;
        self.entries.push(Draft { at: time(self.now), by, incident, event }.at_seq(seq));
    }

    /// Plays one incident: `answer` is who says yes, if the gate asks.
    #[expect(clippy::too_many_lines, reason = "a table: one row for each case")]
    fn play(&mut self, command: &'static str, gate: Judgement, answer: Option<Actor>, fate: Fate) {
        self.incidents += 1;
        let id = IncidentId(Uuid::from_u128(self.incidents));
        let first = self.entries.len();
        let watch_ms = if fate == Fate::Relapses { 60_000 } else { 0 };
        let opened = Event::Incident(IncidentEvent::Opened {
            subject: subject(SubjectKind::Check, Repeat::Safe),
            policy: Box::new(crate::event::IncidentPolicy { watch_ms, ..policy() }),
            symptom: Box::new(symptom(1, "tree")),
        });
        self.write(Actor::Salve(process(1)), Some(id), opened);
        let mut me = 1;
        let claim = |instead_of| Event::Incident(IncidentEvent::Claimed { instead_of });
        self.write(Actor::Salve(process(me)), Some(id), claim(None));
        let mut chosen = false;
        loop {
            let own = self.entries[first..].iter().filter(|entry| entry.incident == Some(id));
            let incident = Incident::replay(own).unwrap();
            let salve = Actor::Salve(process(me));
            match incident.next(&process(me), time(self.now)) {
                IncidentMove::Choose if chosen => {
                    self.write(salve, Some(id), Event::Incident(IncidentEvent::NothingLeft {}))
                }
                IncidentMove::Choose => {
                    chosen = true;
                    let remedy = Box::new(remedy(RemedyKind::Command, command));
                    let event =
                        Event::Incident(IncidentEvent::Judged { remedy, judgement: gate.clone() });
                    self.write(salve, Some(id), event);
                }
                IncidentMove::Write(event) => self.write(salve, Some(id), event),
                IncidentMove::Wait { on: Awaited::Time, until } => match fate {
                    Fate::Relapses if matches!(incident.phase(), Phase::Ending { .. }) => {
                        let symptom = Box::new(symptom(1, "tree"));
                        self.write(
                            salve,
                            Some(id),
                            Event::Incident(IncidentEvent::Sickened { symptom }),
                        );
                    }
                    _ => self.now = u64::try_from(until.unwrap().as_millisecond()).unwrap(),
                },
                IncidentMove::Wait { on: Awaited::Effect(effect), .. } => {
                    let Phase::Doing { what, .. } = incident.phase() else { panic!() };
                    let applies = matches!(what, Effect::Apply { .. });
                    match fate {
                        Fate::Abandoned if applies => return,
                        Fate::Killed if applies && me == 1 => {
                            me = 2;
                            let gone = Some(process(1));
                            self.write(Actor::Salve(process(2)), Some(id), claim(gone));
                        }
                        _ => {
                            let report = report(what, fate);
                            self.write(
                                salve,
                                Some(id),
                                Event::Incident(IncidentEvent::Finished { effect, report }),
                            );
                        }
                    }
                }
                IncidentMove::Wait { on: Awaited::Person(_), .. } => {
                    if !self.answers(id, &incident, answer.as_ref()) {
                        return;
                    }
                }
                IncidentMove::NotMine | IncidentMove::Over => return,
            }
        }
    }

    /// Lets somebody say yes to the command in question; returns whether that counts.
    fn answers(&mut self, id: IncidentId, incident: &Incident, by: Option<&Actor>) -> bool {
        let (Phase::Asking { number, question: PersonQuestion::Remedy, digest, .. }, Some(by)) =
            (incident.phase(), by)
        else {
            return false;
        };
        let yes = Event::Incident(IncidentEvent::Approved { question: number, digest, note: None });
        self.write(by.clone(), Some(id), yes);
        let own = self.entries.iter().filter(|one| one.incident == Some(id));
        Incident::replay(own).unwrap().phase() != incident.phase()
    }

    /// Plays an incident in which Ada is asked and says yes.
    fn approved(&mut self, fate: Fate) {
        self.play("npm ci", judgement(RemedyVerdict::Ask), Some(person("ada")), fate);
    }

    /// Plays an incident in which the earned rule allows it.
    fn unattended(&mut self, fate: Fate) {
        let rule = scrubbed(&key("npm ci").to_string());
        let gate = Judgement { rule, ..judgement(RemedyVerdict::Allow) };
        self.play("npm ci", gate, None, fate);
    }

    fn accept(&mut self, by: Actor) {
        self.write(by, None, Event::Rule(RuleEvent::Accepted(key("npm ci"))));
    }

    fn earned(&self) -> Earned {
        Earned::of(&self.entries)
    }

    #[track_caller]
    fn stands(&self) -> RuleStanding {
        let earned = self.earned();
        let rule = earned.rule(key("npm ci")).expect("there is a rule");
        rule.standing(TERMS, time(self.now))
    }
}

fn scrubbed(text: &str) -> Scrubbed {
    crate::scrub::Scrubber::new(crate::scrub::ScrubKey::new([1; 32])).scrub(text)
}

fn key(command: &str) -> RuleKey {
    let remedy = Digest::of_command(command, ".", 1_000);
    RuleKey { signature: Signature(1), remedy }
}

fn report(what: Effect, fate: Fate) -> EffectReport {
    match (what, fate) {
        (Effect::Apply { .. }, Fate::CommandFails) => {
            EffectReport::failed(Scrubbed::literal("exit 1"))
        }
        (Effect::Apply { .. }, Fate::TimesOut) => EffectReport::TimedOut,
        (Effect::Verify, Fate::Verified(proof)) => {
            let symptom = (proof == Proof::Failed).then(|| Box::new(symptom(1, "tree")));
            EffectReport::Verified { proof, symptom }
        }
        (Effect::Verify, Fate::CommandFails | Fate::TimesOut) => {
            let symptom = Some(Box::new(symptom(1, "tree")));
            EffectReport::Verified { proof: Proof::Failed, symptom }
        }
        (Effect::Verify, Fate::Relapses | Fate::Killed | Fate::Abandoned) => {
            EffectReport::Verified { proof: Proof::Proven, symptom: None }
        }
        (Effect::Measure, _) => EffectReport::Measured(crate::event::Change::default()),
        (
            Effect::Snapshot
            | Effect::Apply { .. }
            | Effect::VerifyInLayer
            | Effect::TakeOver
            | Effect::RollBack(_)
            | Effect::Ask
            | Effect::Record
            | Effect::Release,
            _,
        ) => EffectReport::Done,
    }
}

const PROVEN: Fate = Fate::Verified(Proof::Proven);

/// Returns a book in which the rule was earned and accepted.
fn accepted() -> Book {
    let mut book = Book::default();
    (0..3).for_each(|_| book.approved(PROVEN));
    book.accept(person("ada"));
    book
}

#[test]
fn what_was_accepted_before_words_were_sealed_has_to_be_accepted_once_more() {
    let mut book = Book::default();
    (0..3).for_each(|_| book.approved(PROVEN));
    for entry in &mut book.entries {
        if let Actor::Person { name } = &entry.by {
            entry.by = Actor::Unproven { name: name.clone() };
        }
    }
    book.accept(Actor::Unproven { name: Scrubbed::literal("ada") });
    assert_eq!(book.stands(), RuleStanding::Proposed);
    assert!(!book.earned().allows(key("npm ci"), TERMS, time(book.now)));
    let earned = book.earned();
    let before = &earned.rule(key("npm ci")).unwrap().accepted_before_seals;
    assert_eq!(before.as_ref().map(|word| word.by.as_str()), Some("ada"));
    book.accept(person("ada"));
    assert!(book.earned().allows(key("npm ci"), TERMS, time(book.now)));
    // One that a forger accepted is not even proposed as such.
    let mut book = Book::default();
    (0..3).for_each(|_| book.approved(PROVEN));
    book.accept(Actor::Forged { name: Scrubbed::literal("ada") });
    assert_eq!(book.earned().rule(key("npm ci")).unwrap().accepted_before_seals, None);
}

#[test]
fn what_was_earned_holds_under_the_failures_new_signature_and_is_lost_there() {
    let rekeyed =
        |from, to| Event::Memory(MemoryEvent::Rekeyed { from: Signature(from), to: Signature(to) });
    let key = |signature| RuleKey { signature: Signature(signature), ..key("npm ci") };
    let mut book = Book::default();
    (0..3).for_each(|_| book.approved(PROVEN));
    book.accept(person("ada"));
    book.write(Actor::Salve(process(1)), None, rekeyed(1, 2));
    let earned = book.earned();
    assert_eq!(earned.rule(key(1)), None);
    assert!(earned.allows(key(2), TERMS, time(book.now)));
    assert_eq!(earned.rule(key(2)).unwrap().key, key(2));
    book.write(Actor::Salve(process(1)), None, rekeyed(2, 3));
    assert!(book.earned().allows(key(3), TERMS, time(book.now)));
    // A process that still has the old tables lets it run, and it fails.
    book.unattended(Fate::Verified(Proof::Failed));
    assert!(!book.earned().allows(key(3), TERMS, time(book.now)));
}

#[test]
fn three_proven_uses_make_a_proposal_and_a_person_makes_it_a_rule() {
    let mut book = Book::default();
    for _ in 0..2 {
        book.approved(PROVEN);
        assert_eq!(book.stands(), RuleStanding::Gathering);
    }
    book.approved(PROVEN);
    assert_eq!(book.stands(), RuleStanding::Proposed);
    book.accept(person("kim"));
    assert!(matches!(book.stands(), RuleStanding::Allowed { .. }));
    let earned = book.earned();
    let rule = earned.rule(key("npm ci")).unwrap();
    assert_eq!((rule.approvals.len(), rule.uses.len(), rule.streak()), (3, 3, 3));
    assert_eq!(rule.accepted.as_ref().unwrap().by, "kim");
    assert_eq!(earned.rules().count(), 1);
    for other in ["npm  ci", "npm ci --force"] {
        assert!(!earned.allows(key(other), TERMS, time(book.now)), "{other}");
    }
    let elsewhere = RuleKey { signature: Signature(2), ..key("npm ci") };
    assert!(!earned.allows(elsewhere, TERMS, time(book.now)), "another failure");
    let longer = Digest::of_command("npm ci", ".", 2_000);
    let longer = RuleKey { remedy: longer, ..key("npm ci") };
    assert!(!earned.allows(longer, TERMS, time(book.now)), "another time-out");
}

#[test]
fn only_a_person_approves_and_accepts() {
    let mut book = Book::default();
    for by in [agent(), Actor::Salve(process(1)), person(" ")] {
        (0..4).for_each(|_| {
            book.play("npm ci", judgement(RemedyVerdict::Ask), Some(by.clone()), PROVEN);
        });
    }
    assert_eq!(book.earned().rules().count(), 0, "nobody approved anything");
    (0..3).for_each(|_| book.approved(PROVEN));
    for by in [agent(), Actor::Salve(process(1)), person(" ")] {
        book.accept(by);
        assert_eq!(book.stands(), RuleStanding::Proposed);
    }
}

#[test]
fn one_use_that_is_not_proven_takes_it_all_back_at_once() {
    let unproven = [Proof::Transient, Proof::Flaky, Proof::Masked, Proof::Failed];
    let fates = unproven.map(Fate::Verified).into_iter();
    for fate in fates.chain([Fate::CommandFails, Fate::TimesOut, Fate::Relapses, Fate::Killed]) {
        for another in [false, true] {
            let mut book = accepted();
            if another {
                book.play("npm ci", judgement(RemedyVerdict::Allow), None, fate)
            } else {
                book.unattended(fate)
            }
            assert_eq!(book.stands(), RuleStanding::Lost, "{fate:?}");
            assert!(!book.earned().allows(key("npm ci"), TERMS, time(book.now)), "{fate:?}");
            (0..2).for_each(|_| book.approved(PROVEN));
            assert_eq!(book.stands(), RuleStanding::Lost, "{fate:?}: it starts over");
            book.approved(PROVEN);
            assert_eq!(book.stands(), RuleStanding::Proposed, "{fate:?}");
        }
    }
}

#[test]
fn uses_of_the_rule_go_on_proving_it_and_those_of_other_rules_do_not() {
    let mut book = accepted();
    book.unattended(PROVEN);
    assert!(matches!(book.stands(), RuleStanding::Allowed { .. }));
    let earned = book.earned();
    let rule = earned.rule(key("npm ci")).unwrap();
    assert_eq!((rule.streak(), rule.uses.last().unwrap().on), (4, On::Rule));
    let mut book = Book::default();
    book.approved(PROVEN);
    (0..5).for_each(|_| book.play("npm ci", judgement(RemedyVerdict::Allow), None, PROVEN));
    assert_eq!(book.stands(), RuleStanding::Gathering);
    book.approved(Fate::Abandoned);
    assert_eq!(book.stands(), RuleStanding::Gathering, "what has not come out says nothing");
}

#[test]
fn a_rule_ends_with_its_time_and_with_a_persons_word() {
    let mut book = accepted();
    book.now += 90 * DAY;
    assert_eq!(book.stands(), RuleStanding::Expired);
    let mut book = accepted();
    book.now += 80 * DAY;
    book.unattended(PROVEN);
    book.now += 20 * DAY;
    assert_eq!(book.stands(), RuleStanding::Proposed, "its record is fresh, its acceptance is not");
    let mut book = accepted();
    book.write(agent(), None, Event::Rule(RuleEvent::Withdrawn(key("npm ci"))));
    assert!(matches!(book.stands(), RuleStanding::Allowed { .. }));
    book.write(person("kim"), None, Event::Rule(RuleEvent::Withdrawn(key("npm ci"))));
    assert_eq!(book.stands(), RuleStanding::Lost);
    let never = EarningTerms { after: 0, ..TERMS };
    let stricter = EarningTerms { after: 4, ..TERMS };
    let book = accepted();
    for terms in [never, stricter] {
        assert!(!book.earned().allows(key("npm ci"), terms, time(book.now)), "{terms:?}");
    }
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        6 => Just(PROVEN),
        1 => Just(Fate::Verified(Proof::Transient)),
        1 => Just(Fate::Verified(Proof::Masked)),
        1 => Just(Fate::Verified(Proof::Failed)),
        1 => Just(Fate::CommandFails),
        1 => Just(Fate::Relapses),
        1 => Just(Fate::Killed),
        1 => Just(Fate::Abandoned),
    ]
}

/// Something that happens to a book.
#[derive(Clone, Copy, Debug)]
enum Turn {
    Approved(Fate),
    Unattended(Fate),
    Another(Fate),
    ByAgent,
    Accepted,
    AcceptedByAgent,
    Withdrawn,
    Days(u64),
}

fn turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        6 => fate().prop_map(Turn::Approved),
        3 => fate().prop_map(Turn::Unattended),
        1 => fate().prop_map(Turn::Another),
        1 => Just(Turn::ByAgent),
        4 => Just(Turn::Accepted),
        1 => Just(Turn::AcceptedByAgent),
        1 => Just(Turn::Withdrawn),
        1 => (1..120_u64).prop_map(Turn::Days),
    ]
}

impl Book {
    fn turn(&mut self, turn: Turn) {
        let allowed = judgement(RemedyVerdict::Allow);
        match turn {
            Turn::Approved(fate) => self.approved(fate),
            Turn::Unattended(fate) => self.unattended(fate),
            Turn::Another(fate) => self.play("npm ci", allowed, None, fate),
            Turn::ByAgent => {
                self.play("npm ci", judgement(RemedyVerdict::Ask), Some(agent()), PROVEN);
            }
            Turn::Accepted => self.accept(person("ada")),
            Turn::AcceptedByAgent => self.accept(agent()),
            Turn::Withdrawn => {
                self.write(person("ada"), None, Event::Rule(RuleEvent::Withdrawn(key("npm ci"))));
            }
            Turn::Days(days) => self.now += days * DAY,
        }
    }
}

/// What the record amounts to, counted by hand.
#[derive(Default)]
struct Count {
    approved: bool,
    streak: u32,
    accepted: Option<u64>,
}

impl Count {
    fn turn(&mut self, turn: Turn, now: u64) {
        match turn {
            Turn::Approved(fate) => {
                self.approved = true;
                self.came(fate, 1);
            }
            Turn::Unattended(fate) => self.came(fate, 1),
            Turn::Another(fate) => self.came(fate, 0),
            Turn::Accepted if self.approved => self.accepted = Some(now),
            Turn::Withdrawn => (self.streak, self.accepted) = (0, None),
            Turn::ByAgent | Turn::AcceptedByAgent | Turn::Accepted | Turn::Days(_) => {}
        }
    }

    fn came(&mut self, fate: Fate, counts: u32) {
        match fate {
            _ if !self.approved => {}
            PROVEN => self.streak += counts,
            Fate::Abandoned => {}
            _ => (self.streak, self.accepted) = (0, None),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_rule_allows_exactly_what_its_record_and_a_person_do(
        turns in prop::collection::vec(turn(), 1..24),
    ) {
        let (mut book, mut count) = (Book::default(), Count::default());
        for turn in turns {
            book.turn(turn);
            count.turn(turn, book.now);
            let fresh = count.accepted.is_some_and(|at| book.now < at + 90 * DAY);
            let allows = book.earned().allows(key("npm ci"), TERMS, time(book.now));
            prop_assert_eq!(allows, fresh && count.streak >= 3, "{:?}", turn);
        }
    }

    /// **Invariant:** An earned rule is never wider than what a person approved, and one failure
    /// ends it.
    #[test]
    fn in_any_order_nothing_is_wider_than_what_a_person_approved_and_accepted(
        turns in prop::collection::vec(turn(), 1..12),
        order in any::<[u64; 32]>(),
    ) {
        let mut book = Book::default();
        turns.into_iter().for_each(|turn| book.turn(turn));
        let place = |seq: u64| order[seq as usize % 32].rotate_left(seq as u32);
        book.entries.sort_by_key(|entry| place(entry.seq));
        let earned = book.earned();
        let people = |entry: &&Entry| entry.by.person().is_some();
        let said: Vec<&Event> = book.entries.iter().filter(people).map(|one| &one.event).collect();
        for rule in earned.rules() {
            let is_its = |event: &&&Event| matches!(
                event, Event::Incident(IncidentEvent::Approved { digest, .. }) if *digest == rule.key.remedy
            );
            prop_assert!(said.iter().any(|event| is_its(&event)), "nobody approved it");
            prop_assert_eq!(rule.key, key(rule.command.as_str()), "only these bytes");
            if earned.allows(rule.key, TERMS, time(book.now)) {
                prop_assert!(said.contains(&&Event::Rule(RuleEvent::Accepted(rule.key))), "nobody accepted it");
            }
        }
    }
}
