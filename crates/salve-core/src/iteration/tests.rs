//! Loops from their first entry to their end, on every path.

mod orders;
mod paths;

use jiff::SignedDuration;

use super::*;
use crate::event::{
    Actor, Amounts, Digest, Event, LoopEvent, LoopTurn, Process, ProcessExit, RecoveryEnd,
    RemedyKind, RemedyVerdict, Resource, ResourceLimits, RoleEnd,
};
use crate::incident::testing::{TestIncident, policy};
use crate::steps::NotTaken;
use crate::view::IncidentView;

/// Whether a reviewer promises.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Made {
    /// It does, for the tree that was tested.
    Yes,
    /// It does not.
    No,
}

fn text(text: &'static str) -> Scrubbed {
    Scrubbed::literal(text)
}

fn id() -> LoopId {
    "v1".parse().unwrap()
}

pub(super) fn terms() -> LoopTerms {
    LoopTerms {
        steps: vec![
            LoopStep::Role(text("planner")),
            LoopStep::Tests,
            LoopStep::Recovery,
            LoopStep::Role(text("reviewer")),
        ],
        limits: ResourceLimits { attempts: Some(5), ..ResourceLimits::default() },
        retries: 1,
        stuck_after: 3,
        parks: 1,
    }
}

pub(super) fn began() -> LoopTurn {
    LoopTurn::Began { terms: Box::new(terms()) }
}

fn started(terms: LoopTerms) -> LoopTurn {
    LoopTurn::Started { terms: Box::new(terms), task: text("make it fast") }
}

fn tree(name: &str) -> Digest {
    Digest::of(&[name.as_bytes()])
}

/// Returns a run of the tests; what failed goes by the verdict.
fn ran(verdict: TestsVerdict, of: &str) -> LoopTurn {
    let tests = TestsSeen {
        verdict,
        exit: ProcessExit::Code(1),
        key_line: text("2 failed"),
        failed: vec![text("a.test.js: adds")],
        count: None,
        failing: Digest::of(&[format!("{verdict:?}").as_bytes()]),
        tree: Some(tree(of)),
        took_ms: 10,
    };
    LoopTurn::TestsRan { tests: Box::new(tests) }
}

fn begins(role: &'static str) -> LoopTurn {
    LoopTurn::RoleBegan { role: text(role), attempt: 1 }
}

fn ends(role: &'static str, end: RoleEnd, promise: Promise) -> LoopTurn {
    let spent = Amounts { tokens: 100, wall_ms: 1_000, ..Amounts::default() };
    LoopTurn::RoleEnded { role: text(role), end, spent, promise }
}

fn done(role: &'static str) -> Vec<LoopTurn> {
    vec![begins(role), ends(role, RoleEnd::Done, Promise::None)]
}

pub(super) fn short(role: &'static str, reason: &'static str) -> Vec<LoopTurn> {
    vec![begins(role), ends(role, RoleEnd::Short { reason: text(reason) }, Promise::None)]
}

fn promises(of: &str) -> Vec<LoopTurn> {
    let promise = Promise::Made { tree: Some(tree(of)) };
    vec![begins("reviewer"), ends("reviewer", RoleEnd::Done, promise)]
}

/// Returns a whole iteration.
pub(super) fn iteration(verdict: TestsVerdict, of: &'static str, made: Made) -> Vec<LoopTurn> {
    let mut turns = vec![began()];
    turns.extend(done("planner"));
    turns.push(ran(verdict, of));
    if verdict == TestsVerdict::NotExecuted {
        turns.push(LoopTurn::RecoveryBegan {});
        turns.push(LoopTurn::RecoveryEnded { how: RecoveryEnd::Rejected, took_ms: 1 });
    }
    turns.extend(match made {
        Made::Yes => promises(of),
        Made::No => done("reviewer"),
    });
    turns
}

fn salve() -> Actor {
    Actor::Salve(Process { pid: 7, started: 1, host: text("box") })
}

fn time(seq: u64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(i64::try_from(seq).unwrap())
}

/// Returns the entry of a turn.
fn entry(seq: u64, iteration: u32, what: LoopTurn) -> Entry {
    let event = LoopEvent::Turned { id: id(), iteration, what }.into();
    Entry { seq, at: time(seq), by: salve(), incident: None, event, seal: None }
}

/// Returns a loop that has just been started under these terms.
fn fresh(terms: LoopTerms) -> Loop {
    Loop::replay(&id(), &[entry(1, 0, started(terms))]).unwrap()
}

/// Takes one turn in, in the iteration that the loop is in or that it begins.
fn take(of: &mut Loop, turn: LoopTurn) -> Result<(), NotTaken> {
    let next = of.iteration() + u32::from(matches!(turn, LoopTurn::Began { .. }));
    of.step(&entry(of.stamps().last_seq() + 1, next, turn))
}

/// Plays turns that all follow.
#[track_caller]
pub(super) fn play(turns: &[LoopTurn]) -> Loop {
    let mut of = fresh(terms());
    go(&mut of, turns);
    of
}

#[track_caller]
fn go(of: &mut Loop, turns: &[LoopTurn]) {
    for turn in turns {
        assert_eq!(take(of, turn.clone()), Ok(()), "{turn:?} in {of:?}");
    }
}

/// Plays turns and compares what is next.
#[track_caller]
fn check(turns: &[&[LoopTurn]], want: LoopMove) {
    let of = play(&turns.concat());
    assert_eq!(of.next(time(of.stamps().last_seq())), want, "{turns:?}");
}

fn role(role: &'static str, attempt: u32) -> LoopMove {
    LoopMove::Role { role: text(role), attempt }
}

use LoopEnd::{Completed, Failed, Limit, Stuck};
use TestsVerdict::{Green, NotExecuted, Red};

#[test]
fn an_iteration_does_its_steps_in_order() {
    let planner = done("planner");
    check(&[], LoopMove::Begin(1));
    check(&[&[began()]], role("planner", 1));
    check(&[&[began()], &planner], LoopMove::Tests);
    check(&[&[began()], &planner, &[ran(Red, "a")]], role("reviewer", 1));
    check(&[&[began()], &planner, &[ran(NotExecuted, "a")]], LoopMove::Recover);
    check(&[&iteration(Red, "a", Made::No)], LoopMove::Begin(2));
    check(&[&iteration(Green, "a", Made::No)], LoopMove::Begin(2));
    check(&[&iteration(Green, "a", Made::Yes)], LoopMove::End(Completed));
}

#[test]
fn after_a_recovery_the_tests_count_as_they_are_then() {
    let mut turns = vec![began()];
    turns.extend(done("planner"));
    turns.extend([ran(NotExecuted, "a"), LoopTurn::RecoveryBegan {}, ran(Green, "a")]);
    check(&[&turns], LoopMove::Recover);
    turns.push(LoopTurn::RecoveryEnded { how: RecoveryEnd::Well, took_ms: 5 });
    check(&[&turns], role("reviewer", 1));
    check(&[&turns, &promises("a")], LoopMove::End(Completed));
}

#[test]
fn tests_that_execute_before_any_recovery_began_need_none() {
    let mut turns = vec![began()];
    turns.extend(done("planner"));
    turns.extend([ran(NotExecuted, "a"), ran(Red, "a")]);
    check(&[&turns], role("reviewer", 1));
}

/// **Invariant:** A promise counts only for the very tree that Salve's tests found green.
#[test]
fn a_promise_counts_only_for_the_tree_that_was_green() {
    let until_review = |verdict| {
        let mut turns = vec![began()];
        turns.extend(done("planner"));
        turns.push(ran(verdict, "a"));
        turns
    };
    let green = until_review(Green);
    check(&[&green, &promises("a")], LoopMove::End(Completed));
    // The reviewer changed something, or nobody knows: the tests decide.
    check(&[&green, &promises("b")], LoopMove::Tests);
    let unknown = ends("reviewer", RoleEnd::Done, Promise::Made { tree: None });
    check(&[&green, &[begins("reviewer"), unknown]], LoopMove::Tests);
    check(&[&green, &promises("b"), &[ran(Green, "b")]], LoopMove::End(Completed));
    check(&[&green, &promises("b"), &[ran(Red, "b")]], LoopMove::Begin(2));
    check(&[&until_review(Red), &promises("a")], LoopMove::Begin(2));
    let weakened = ends("reviewer", RoleEnd::Done, Promise::Weakened);
    check(&[&green, &[begins("reviewer"), weakened]], LoopMove::Begin(2));
}

#[test]
fn a_false_promise_is_refused_and_remembered_for_one_iteration() {
    let red = iteration(Red, "a", Made::Yes);
    assert_eq!(play(&red).refused(), Some(PromiseRefusal::Red));
    let dead = iteration(NotExecuted, "a", Made::Yes);
    assert_eq!(play(&dead).refused(), Some(PromiseRefusal::NotExecuted));
    let next = iteration(Red, "b", Made::No);
    assert_eq!(play(&[red, next].concat()).refused(), None);
}

#[test]
fn a_role_that_fell_short_is_asked_once_more() {
    let one = short("planner", "plan.md is missing");
    check(&[&[began()], &one], role("planner", 2));
    let failed = Failed { reason: text("plan.md is missing") };
    check(&[&[began()], &one, &one], LoopMove::End(failed));
    check(&[&[began()], &one, &done("planner")], LoopMove::Tests);
    let of = play(&[vec![began()], one].concat());
    assert_eq!(of.complaint().map(Scrubbed::as_str), Some("plan.md is missing"));
}

#[test]
fn a_loop_that_changes_nothing_is_stopped() {
    let same = iteration(Red, "a", Made::No);
    let other = iteration(Red, "b", Made::No);
    check(&[&same, &same], LoopMove::Begin(3));
    assert_eq!(play(&[same.clone(), same.clone()].concat()).unchanged(), WARN_AT);
    check(&[&same, &same, &same], LoopMove::End(Stuck));
    check(&[&same, &other, &same, &other], LoopMove::Begin(5));
    // To and fro is no progress either.
    check(&[&same, &other, &same, &other, &same], LoopMove::End(Stuck));
    // The same tree with other failures is some.
    check(&[&same, &same, &iteration(NotExecuted, "a", Made::No)], LoopMove::Begin(4));
}

#[test]
fn what_cannot_be_measured_is_not_called_stuck() {
    let mut turns = iteration(Red, "a", Made::No);
    for turn in &mut turns {
        if let LoopTurn::TestsRan { tests } = turn {
            tests.tree = None;
        }
    }
    check(&[&turns, &turns, &turns], LoopMove::Begin(4));
}

#[test]
fn limits_end_a_loop() {
    recovering_uses_time_up();
    let limited = |limits: ResourceLimits, turns: &[LoopTurn]| {
        let terms = LoopTerms { limits, ..terms() };
        let mut of = fresh(terms.clone());
        for turn in turns {
            let turn = match turn {
                LoopTurn::Began { .. } => LoopTurn::Began { terms: Box::new(terms.clone()) },
                other => other.clone(),
            };
            take(&mut of, turn).unwrap();
        }
        of.next(time(of.stamps().last_seq()))
    };
    let none = ResourceLimits::default();
    let [a, b] = ["a", "b"].map(|tree| iteration(Red, tree, Made::No));
    let two = ResourceLimits { attempts: Some(2), ..none };
    assert_eq!(limited(two, &a), LoopMove::Begin(2));
    assert_eq!(limited(two, &[a.clone(), b].concat()), LoopMove::End(Limit(Resource::Attempts)));
    for (limits, resource) in [
        (ResourceLimits { tokens: Some(100), ..none }, Resource::Tokens),
        (ResourceLimits { wall_ms: Some(1_000), ..none }, Resource::WallMs),
    ] {
        assert_eq!(limited(limits, &[began()]), role("planner", 1));
        let turns = [vec![began()], done("planner")].concat();
        assert_eq!(limited(limits, &turns), LoopMove::End(Limit(resource)));
        let charged = Amounts { tokens: 100, wall_ms: 1_000, ..Amounts::default() };
        let charged = LoopTurn::Charged { role: text("planner"), spent: charged };
        let turns = vec![began(), begins("planner"), charged];
        assert_eq!(limited(limits, &turns), LoopMove::End(Limit(resource)), "even before its end");
    }
    let money = ResourceLimits { money_micros: Some(50), ..none };
    let spent = Amounts { money_micros: 50, ..Amounts::default() };
    let charged = LoopTurn::Charged { role: text("planner"), spent };
    let turns = vec![began(), begins("planner"), charged];
    assert_eq!(limited(money, &turns), LoopMove::End(Limit(Resource::MoneyMicros)));
    // What was promised and green is done, whatever it cost.
    let all = ResourceLimits { tokens: Some(200), ..none };
    let kept = iteration(Green, "a", Made::Yes);
    assert_eq!(limited(all, &kept), LoopMove::End(Completed));
}

/// Asserts that the time of a recovery counts towards the limit.
fn recovering_uses_time_up() {
    let limits = ResourceLimits { wall_ms: Some(1_500), ..ResourceLimits::default() };
    let terms = LoopTerms { limits, ..terms() };
    let mut of = fresh(terms.clone());
    go(&mut of, &[LoopTurn::Began { terms: Box::new(terms) }]);
    go(&mut of, &done("planner"));
    go(&mut of, &[ran(NotExecuted, "a"), LoopTurn::RecoveryBegan {}, ran(Red, "a")]);
    go(&mut of, &[LoopTurn::RecoveryEnded { how: RecoveryEnd::Well, took_ms: 490 }]);
    assert_eq!(of.next(time(99)), LoopMove::End(Limit(Resource::WallMs)));
}

#[test]
fn the_time_of_a_recovery_counts_once_with_its_tests() {
    let mut of = play(&[vec![began()], done("planner"), vec![ran(NotExecuted, "a")]].concat());
    assert_eq!(of.spent().wall_ms, 1_010);
    go(&mut of, &[LoopTurn::RecoveryBegan {}, ran(Green, "a")]);
    assert_eq!(of.spent().wall_ms, 1_010, "they are part of the recovery");
    let ended = |how| LoopTurn::RecoveryEnded { how, took_ms: 500 };
    let mut left = of.clone();
    go(&mut left, &[ended(RecoveryEnd::NeedsPerson), started(terms())]);
    assert_eq!(left.spent().wall_ms, 1_510, "what was worked counts though it is not over");
    go(&mut of, &[ended(RecoveryEnd::Well)]);
    assert_eq!(of.spent().wall_ms, 1_510);
}

#[test]
fn a_parked_loop_goes_on_when_it_is_time_and_not_for_ever() {
    let away = |until| RoleEnd::Away { until, reason: text("usage limit reached") };
    let mut of = play(&[began(), begins("planner")]);
    go(&mut of, &[ends("planner", away(time(1_000)), Promise::None)]);
    assert_eq!(of.next(time(999)), LoopMove::Wait(time(1_000)));
    assert_eq!(of.next(time(1_000)), role("planner", 1), "it is no fault of the role");
    assert_eq!(of.next(Timestamp::MAX), role("planner", 1), "a clock that jumped ahead");
    go(&mut of, &[begins("planner")]);
    assert_eq!(*of.standing(), StepsStanding::Running);
    go(&mut of, &[ends("planner", away(time(2_000)), Promise::None)]);
    let failed = Failed { reason: text("usage limit reached") };
    assert_eq!(of.next(time(20)), LoopMove::End(failed));
    // Whoever starts it again gives it new patience.
    go(&mut of, &[started(terms())]);
    assert_eq!(of.next(time(20)), role("planner", 1));
}

#[test]
fn what_a_person_has_to_do_stops_it_until_it_is_started_again() {
    let unable = RoleEnd::Unable { reason: text("log the agent in") };
    let mut of = play(&[began(), begins("planner"), ends("planner", unable, Promise::None)]);
    assert_eq!(of.next(Timestamp::MAX), LoopMove::Person(text("log the agent in")));
    go(&mut of, &[started(terms())]);
    assert_eq!(of.next(time(9)), role("planner", 1));
    go(&mut of, &done("planner"));
    go(&mut of, &[ran(NotExecuted, "a"), LoopTurn::RecoveryBegan {}]);
    go(&mut of, &[LoopTurn::RecoveryEnded { how: RecoveryEnd::NeedsPerson, took_ms: 1 }]);
    assert!(matches!(of.next(Timestamp::MAX), LoopMove::Person(_)));
    go(&mut of, &[started(terms())]);
    assert_eq!(of.next(time(99)), LoopMove::Recover, "it was begun, and is not over");
    assert!(of.is_recovering());
}

#[test]
fn whoever_starts_it_again_finds_it_where_it_was() {
    let mut of = play(&[began(), begins("planner")]);
    go(&mut of, &[ends("planner", RoleEnd::Stopped, Promise::None), LoopTurn::Stopped {}]);
    assert_eq!(of.next(time(9)), LoopMove::Over);
    go(&mut of, &[started(terms())]);
    assert_eq!(of.next(time(9)), role("planner", 1));
    assert!(of.was_interrupted(), "it was stopped");
    go(&mut of, &[begins("planner"), started(terms())]);
    assert!(of.was_interrupted(), "its process was killed");
    go(&mut of, &done("planner"));
    assert!(!of.was_interrupted());
    go(&mut of, &[started(terms())]);
    assert_eq!(of.next(time(9)), LoopMove::Tests, "what is done is done");
    // Other steps hold from the next iteration on.
    let fewer = LoopTerms { steps: vec![LoopStep::Tests], ..terms() };
    go(&mut of, &[started(fewer), ran(Red, "a")]);
    assert_eq!(of.next(time(9)), role("reviewer", 1));
}

#[test]
fn a_loop_that_is_over_starts_over_and_counts_again() {
    let mut of = play(&iteration(Red, "a", Made::No));
    go(&mut of, &[LoopTurn::Ended { why: Limit(Resource::Attempts) }]);
    assert_eq!(of.next(time(99)), LoopMove::Over);
    assert_eq!(take(&mut of, began()), Err(NotTaken::Unexpected));
    go(&mut of, &[started(LoopTerms { stuck_after: 1, ..terms() })]);
    assert_eq!(of.next(time(99)), LoopMove::Begin(2));
    assert_eq!((of.spent(), of.unchanged()), (Amounts::default(), 0));
}

/// **Invariant:** Costs of a loop are counted once and never lost.
#[test]
fn costs_are_counted_once_and_never_lost() {
    let spent = |tokens| Amounts { tokens, ..Amounts::default() };
    let charged = |tokens| LoopTurn::Charged { role: text("planner"), spent: spent(tokens) };
    let mut of = play(&[began(), begins("planner"), charged(40), charged(30)]);
    assert_eq!(of.spent().tokens, 40);
    // Killed: the next process asks the role again, and what the first cost stays.
    go(&mut of, &[started(terms()), begins("planner"), charged(5)]);
    assert_eq!(of.spent().tokens, 45);
    go(&mut of, &[ends("planner", RoleEnd::Done, Promise::None)]);
    assert_eq!(of.spent().tokens, 140);
    assert_eq!(of.left(Resource::Tokens), None);
}

/// **Invariant:** No agent starts a loop.
#[test]
fn only_salve_says_what_happens_and_no_agent_starts_a_loop() {
    let mut of = play(&[began()]);
    let before = of.clone();
    let agent = Actor::Agent { name: text("planner") };
    let ada = Actor::Person { name: text("ada") };
    for (by, what) in [
        (&agent, ends("planner", RoleEnd::Done, Promise::None)),
        (&ada, ran(Green, "a")),
        (&agent, started(terms())),
        (&Actor::Person { name: text(" ") }, started(terms())),
    ] {
        let entry = Entry { by: by.clone(), ..entry(9, 1, what) };
        assert_eq!(of.step(&entry), Err(NotTaken::NotTheirs));
    }
    assert_eq!(of, before);
    let theirs = Entry { by: agent, ..entry(1, 0, started(terms())) };
    assert_eq!(Loop::replay(&id(), &[theirs]), Err(NotStarted(id())));
    assert!(Loop::replay(&id(), &[Entry { by: ada, ..entry(1, 0, started(terms())) }]).is_ok());
}

#[test]
fn what_does_not_follow_changes_nothing() {
    let of = play(&[began()]);
    for what in [
        began(),
        begins("reviewer"),
        ends("planner", RoleEnd::Done, Promise::None),
        ran(Green, "a"),
        LoopTurn::RecoveryBegan {},
        LoopTurn::RecoveryEnded { how: RecoveryEnd::Well, took_ms: 1 },
    ] {
        let mut tried = of.clone();
        assert_eq!(take(&mut tried, what.clone()), Err(NotTaken::Unexpected), "{what:?}");
        assert_eq!(tried, of);
    }
    let mut tried = of.clone();
    assert_eq!(tried.step(&entry(9, 2, begins("planner"))), Err(NotTaken::Unexpected));
    assert_eq!(tried.step(&entry(2, 1, begins("planner"))), Err(NotTaken::NotOurs));
    let id = "v2".parse().unwrap();
    let event = LoopEvent::Turned { id, iteration: 1, what: begins("planner") }.into();
    assert_eq!(tried.step(&Entry { event, ..entry(9, 1, began()) }), Err(NotTaken::NotOurs));
    assert_eq!(tried, of);
}

#[test]
fn the_state_file_tells_how_it_stands() {
    let mut recovery = TestIncident::new(policy());
    let viewed = |recovery: &TestIncident| IncidentView::of(recovery.journal.clone()).unwrap();
    let mut of = play(&[vec![began()], done("planner"), vec![ran(NotExecuted, "a")]].concat());
    go(&mut of, &[LoopTurn::RecoveryBegan {}]);
    assert_eq!(state(&of, Some(&viewed(&recovery))).status.as_str(), "running");
    recovery.judge(RemedyKind::Command, "npm ci", RemedyVerdict::Ask);
    let asking = state(&of, Some(&viewed(&recovery)));
    insta::assert_json_snapshot!(asking);
    let read: LoopStateFile =
        serde_json::from_str(&serde_json::to_string(&asking).unwrap()).unwrap();
    assert_eq!(read, asking);
    go(&mut of, &[LoopTurn::Ended { why: Stuck }]);
    assert_eq!(state(&of, None).status.as_str(), "stuck");
}
