//! Every path that a loop can take, and any entries at all.

use proptest::prelude::*;

use super::*;

/// A path so far.
#[derive(Clone)]
struct Path {
    of: Loop,
    entries: Vec<Entry>,
    /// The roles that are done in this iteration.
    done: Vec<Scrubbed>,
    /// The last tests and the last promise of this iteration.
    tested: Option<(TestsVerdict, Option<Digest>)>,
    promised: Option<Option<Digest>>,
    /// How many unusual things may still happen.
    odd: u32,
}

impl Path {
    fn begin(terms: LoopTerms, odd: u32) -> Self {
        let first = entry(1, 0, started(terms));
        let of = Loop::replay(&id(), [&first]).unwrap();
        let (entries, done, tested, promised) = (vec![first], Vec::new(), None, None);
        Self { of, entries, done, tested, promised, odd }
    }

    /// Returns the path with these turns taken, `odd` of which are unusual.
    fn with(&self, turns: &[LoopTurn], odd: u32) -> Option<Self> {
        let mut path = Self { odd: self.odd.checked_sub(odd)?, ..self.clone() };
        for turn in turns {
            let began = u32::from(matches!(turn, LoopTurn::Began { .. }));
            let number = path.of.iteration() + began;
            let entry = entry(path.of.stamps().last_seq() + 1, number, turn.clone());
            path.of.step(&entry).unwrap();
            path.entries.push(entry);
            path.note(turn);
        }
        Some(path)
    }

    fn note(&mut self, turn: &LoopTurn) {
        match turn {
            LoopTurn::Began { .. } => {
                self.done.clear();
                (self.tested, self.promised) = (None, None);
            }
            LoopTurn::TestsRan { tests } => self.tested = Some((tests.verdict, tests.tree)),
            LoopTurn::RoleEnded { role, end: RoleEnd::Done, promise, .. } => {
                self.done.push(role.clone());
                if let Promise::Made { tree } = promise {
                    self.promised = Some(*tree);
                    // What the role changed has not been tested.
                    let is_same = |tested: &Option<Digest>| tree.is_some() && tested == tree;
                    self.tested = self.tested.filter(|(_, tested)| is_same(tested));
                }
            }
            LoopTurn::RoleEnded { .. }
            | LoopTurn::RoleBegan { .. }
            | LoopTurn::Started { .. }
            | LoopTurn::Charged { .. }
            | LoopTurn::RecoveryBegan {}
            | LoopTurn::RecoveryEnded { .. }
            | LoopTurn::Stopped {}
            | LoopTurn::Ordered { .. }
            | LoopTurn::Ended { .. } => {}
        }
    }

    /// Returns every path that can follow; none when it is over.
    fn branches(&self) -> Vec<Self> {
        let ways: Vec<(Vec<LoopTurn>, u32)> = match self.of.next(time(10_000)) {
            LoopMove::Begin(_) => {
                vec![(vec![LoopTurn::Began { terms: Box::new(self.of.terms().clone()) }], 0)]
            }
            LoopMove::Role { role, .. } => {
                assert!(!self.done.contains(&role), "{role} was done: {:?}", self.entries);
                role_ways(&role, self.of.terms())
            }
            LoopMove::Tests => [Green, Red, NotExecuted]
                .into_iter()
                .map(|verdict| (vec![ran(verdict, "a")], 0))
                .collect(),
            LoopMove::Recover => {
                let ended = |how| LoopTurn::RecoveryEnded { how, took_ms: 1 };
                let begin = LoopTurn::RecoveryBegan {};
                vec![
                    (vec![begin.clone(), ran(Green, "a"), ended(RecoveryEnd::Well)], 0),
                    (vec![begin.clone(), ended(RecoveryEnd::NotInfrastructure)], 0),
                    (vec![begin, ended(RecoveryEnd::NeedsPerson)], 1),
                ]
            }
            LoopMove::Person(_) => vec![(vec![started(self.of.terms().clone())], 0)],
            LoopMove::End(why) => {
                self.judge(&why);
                vec![(vec![LoopTurn::Ended { why }], 0)]
            }
            LoopMove::Wait(until) => panic!("{until} is long past"),
            LoopMove::Hold(by) => panic!("{by} did not pause it"),
            LoopMove::Over => Vec::new(),
        };
        ways.iter().filter_map(|(turns, odd)| self.with(turns, *odd)).collect()
    }

    /// Asserts that the loop may end so.
    fn judge(&self, why: &LoopEnd) {
        if *why == Completed {
            let (verdict, tree) = self.tested.expect("the promised tree was tested");
            assert_eq!(verdict, Green, "{:?}", self.entries);
            let promised = self.promised.expect("it was promised");
            assert!(promised.is_none() || promised == tree || tree.is_some());
        }
    }

    /// Asserts what holds wherever a path is: replay equals life, and a kill loses nothing.
    fn assert_sound(&self) {
        let replayed = Loop::replay(&id(), &self.entries).unwrap();
        assert_eq!(replayed, self.of);
        let next = self.of.next(time(10_000));
        let killed = self.with(&[started(self.of.terms().clone())], 0).unwrap();
        match next {
            LoopMove::Over | LoopMove::Person(_) | LoopMove::End(_) => {}
            next => assert_eq!(killed.of.next(time(10_000)), next, "{:?}", self.entries),
        }
    }
}

fn role_ways(role: &Scrubbed, terms: &LoopTerms) -> Vec<(Vec<LoopTurn>, u32)> {
    let begin = LoopTurn::RoleBegan { role: role.clone(), attempt: 1 };
    let end = |end: RoleEnd, promise| {
        let spent = Amounts { tokens: 1, ..Amounts::default() };
        let ended = LoopTurn::RoleEnded { role: role.clone(), end, spent, promise };
        vec![begin.clone(), ended]
    };
    let reason = || text("no");
    let mut ways = vec![
        (end(RoleEnd::Done, Promise::None), 0),
        (end(RoleEnd::Short { reason: reason() }, Promise::None), 1),
        (end(RoleEnd::Away { until: time(500), reason: reason() }, Promise::None), 1),
        (end(RoleEnd::Unable { reason: reason() }, Promise::None), 1),
        (vec![begin.clone(), started(terms.clone())], 1),
    ];
    if *role == "reviewer" {
        for of in [Some(tree("a")), Some(tree("b")), None] {
            ways.push((end(RoleEnd::Done, Promise::Made { tree: of }), 0));
        }
        ways.push((end(RoleEnd::Done, Promise::Weakened), 0));
    }
    ways
}

/// Walks every path of so many iterations with so many unusual things; returns how they ended.
fn walk(iterations: u64, odd: u32) -> std::collections::BTreeMap<String, u32> {
    let limits = ResourceLimits { attempts: Some(iterations), ..ResourceLimits::default() };
    let mut open = vec![Path::begin(LoopTerms { limits, ..terms() }, odd)];
    let mut ends = std::collections::BTreeMap::new();
    while let Some(path) = open.pop() {
        path.assert_sound();
        assert!(path.entries.len() < 60, "it does not end: {:?}", path.entries);
        let next = path.branches();
        if path.of.next(time(10_000)) == LoopMove::Over {
            *ends.entry(format!("{:?}", path.of.standing())).or_default() += 1;
        }
        open.extend(next);
    }
    ends
}

/// **Invariant:** A finished role is never repeated.
#[test]
fn every_path_is_sound_and_ends() {
    for (iterations, odd, least) in [(1, 2, 200), (2, 0, 100), (2, 1, 1_000)] {
        let ends = walk(iterations, odd);
        assert!(ends.values().sum::<u32>() >= least, "{ends:?}");
        assert!(ends.keys().any(|end| end.contains("Completed")), "{ends:?}");
        assert!(ends.keys().any(|end| end.contains("Limit")), "{ends:?}");
    }
    assert!(walk(1, 2).keys().any(|end| end.contains("Failed")));
}

fn any_turn() -> impl Strategy<Value = LoopTurn> {
    let roles = prop_oneof![Just("planner"), Just("reviewer"), Just("stranger")];
    let verdicts = prop_oneof![Just(Green), Just(Red), Just(NotExecuted)];
    let ends = prop_oneof![
        Just(RoleEnd::Done),
        Just(RoleEnd::Short { reason: text("no") }),
        Just(RoleEnd::Away { until: time(50), reason: text("no") }),
        Just(RoleEnd::Unable { reason: text("no") }),
        Just(RoleEnd::Stopped),
    ];
    let made = prop_oneof![
        Just(Promise::None),
        Just(Promise::Made { tree: None }),
        Just(Promise::Weakened),
        Just(Promise::Made { tree: Some(tree("a")) }),
    ];
    let how = prop_oneof![
        Just(RecoveryEnd::Well),
        Just(RecoveryEnd::Rejected),
        Just(RecoveryEnd::NeedsPerson)
    ];
    use crate::event::PersonOrder::{Abort, Escalate, Pause, Resume, Skip};
    let orders = prop_oneof![Just(Abort), Just(Escalate), Just(Pause), Just(Resume), Just(Skip)];
    prop_oneof![
        Just(started(terms())),
        Just(began()),
        roles.clone().prop_map(begins),
        (roles, ends, made).prop_map(|(role, end, made)| self::ends(role, end, made)),
        verdicts.prop_map(|verdict| ran(verdict, "a")),
        Just(LoopTurn::RecoveryBegan {}),
        how.prop_map(|how| LoopTurn::RecoveryEnded { how, took_ms: 3 }),
        Just(LoopTurn::Stopped {}),
        Just(LoopTurn::Ended { why: Stuck }),
        orders.prop_map(|order| LoopTurn::Ordered { order }),
    ]
}

proptest! {
    #[test]
    fn anything_at_all_is_taken_in_or_changes_nothing(
        turns in prop::collection::vec((any_turn(), 0_u32..4), 0..60),
    ) {
        let mut of = fresh(terms());
        let mut entries = vec![entry(1, 0, started(terms()))];
        for (seq, (turn, number)) in (2..).zip(turns) {
            let before = of.clone();
            let mut entry = entry(seq, number, turn);
            if let Event::Loop(LoopEvent::Turned { what: LoopTurn::Ordered { .. }, .. }) = entry.event {
                entry.by = Actor::Person { name: text("ada") };
            }
            if of.step(&entry).is_err() {
                prop_assert_eq!(&of, &before);
            }
            entries.push(entry);
            prop_assert!(of.spent().tokens >= before.spent().tokens || of.iteration() == before.iteration());
        }
        prop_assert_eq!(Loop::replay(&id(), &entries), Ok(of));
    }
}
