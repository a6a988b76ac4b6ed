//! What people order a loop to do.

use super::*;
use crate::event::PersonOrder;

fn orders(order: PersonOrder) -> LoopTurn {
    LoopTurn::Ordered { order }
}

/// Has somebody give an order.
fn says(of: &mut Loop, by: Actor, order: PersonOrder) -> Result<(), NotTaken> {
    let entry = entry(of.stamps().last_seq() + 1, of.iteration(), orders(order));
    of.step(&Entry { by, ..entry })
}

fn ada() -> Actor {
    Actor::Person { name: text("ada") }
}

#[track_caller]
fn ada_says(of: &mut Loop, order: PersonOrder) {
    assert_eq!(says(of, ada(), order), Ok(()), "{order:?} in {of:?}");
}

/// **Invariant:** In a pause nothing begins, and what runs comes to its end.
#[test]
fn in_a_pause_nothing_begins_and_what_runs_comes_to_its_end() {
    let at_work = vec![began(), begins("planner")];
    let mut of = play(&at_work);
    ada_says(&mut of, PersonOrder::Pause);
    assert!(!of.is_called_off(), "the role goes on");
    assert_eq!(state(&of, None).status.as_str(), "running");
    go(&mut of, &[ends("planner", RoleEnd::Done, Promise::None)]);
    assert_eq!(of.next(time(99)), LoopMove::Hold(text("ada")));
    let told = state(&of, None);
    assert_eq!((told.status.as_str(), told.paused_by), ("awaiting_human", Some(text("ada"))));
    // Starting it again is no leave to go on.
    go(&mut of, &[started(terms())]);
    assert_eq!(of.next(time(99)), LoopMove::Hold(text("ada")));
    ada_says(&mut of, PersonOrder::Resume);
    assert_eq!(of.next(time(99)), LoopMove::Tests);
    assert_eq!(
        says(&mut of, ada(), PersonOrder::Resume),
        Err(NotTaken::Unexpected),
        "it is not paused"
    );
    for turns in [vec![], iteration(Red, "a", Made::No)] {
        let mut of = play(&turns);
        ada_says(&mut of, PersonOrder::Pause);
        assert_eq!(of.next(time(99)), LoopMove::Hold(text("ada")));
    }
    // What is over is said.
    let mut of = play(&iteration(Green, "a", Made::Yes));
    ada_says(&mut of, PersonOrder::Pause);
    assert_eq!(of.next(time(99)), LoopMove::End(Completed));
}

#[test]
fn an_abort_stops_it_whatever_it_does_and_loses_no_cost() {
    let away = RoleEnd::Away { until: time(9), reason: text("usage limit reached") };
    for end in [RoleEnd::Stopped, RoleEnd::Done, away] {
        let mut of = play(&[began(), begins("planner")]);
        ada_says(&mut of, PersonOrder::Abort);
        assert!(of.is_called_off());
        assert_eq!(take(&mut of, begins("planner")), Err(NotTaken::Unexpected), "it was faster");
        go(&mut of, &[ends("planner", end, Promise::None)]);
        assert_eq!((of.next(time(99)), of.spent().tokens), (LoopMove::Over, 100));
        assert_eq!(*of.standing(), StepsStanding::Stopped);
        assert_eq!(says(&mut of, ada(), PersonOrder::Abort), Err(NotTaken::Unexpected));
    }
    let mut of = play(&iteration(Red, "a", Made::No));
    ada_says(&mut of, PersonOrder::Abort);
    assert_eq!(take(&mut of, began()), Err(NotTaken::Unexpected), "it was faster");
    go(&mut of, &[started(terms())]);
    assert_eq!(of.next(time(99)), LoopMove::Begin(2));
    // A recovery that is called off with it does not let the loop go on.
    let mut of = play(&[vec![began()], done("planner"), vec![ran(NotExecuted, "a")]].concat());
    go(&mut of, &[LoopTurn::RecoveryBegan {}]);
    ada_says(&mut of, PersonOrder::Abort);
    go(&mut of, &[LoopTurn::RecoveryEnded { how: RecoveryEnd::Rejected, took_ms: 1 }]);
    assert_eq!(of.next(time(99)), LoopMove::Over);
}

#[test]
fn a_role_that_is_skipped_is_left_out_at_its_turn_or_at_its_work() {
    let mut of = play(&[began()]);
    ada_says(&mut of, PersonOrder::Skip);
    assert_eq!(of.next(time(99)), LoopMove::Tests);
    assert_eq!(says(&mut of, ada(), PersonOrder::Skip), Err(NotTaken::Unexpected), "tests are not");
    for end in [RoleEnd::Stopped, RoleEnd::Done, RoleEnd::Short { reason: text("no") }] {
        let mut of = play(&[began(), begins("planner")]);
        ada_says(&mut of, PersonOrder::Skip);
        assert!(of.is_called_off());
        go(&mut of, &[ends("planner", end, Promise::None)]);
        assert_eq!((of.next(time(99)), of.spent().tokens), (LoopMove::Tests, 100));
        assert!(!of.was_interrupted());
    }
    // Killed before it could be ended.
    let mut of = play(&[began(), begins("planner")]);
    ada_says(&mut of, PersonOrder::Skip);
    go(&mut of, &[started(terms())]);
    assert_eq!(of.next(time(99)), LoopMove::Tests);
}

#[test]
fn to_escalate_stops_it_for_a_person() {
    let mut of = play(&[began(), begins("planner")]);
    ada_says(&mut of, PersonOrder::Escalate);
    assert!(of.is_called_off());
    go(&mut of, &[ends("planner", RoleEnd::Stopped, Promise::None)]);
    assert!(matches!(of.next(time(99)), LoopMove::Person(_)));
    go(&mut of, &[started(terms())]);
    assert_eq!(of.next(time(99)), role("planner", 1));
    ada_says(&mut of, PersonOrder::Escalate);
    assert!(matches!(of.next(time(99)), LoopMove::Person(_)));
    // A recovery asks by itself.
    let mut of = play(&[vec![began()], done("planner"), vec![ran(NotExecuted, "a")]].concat());
    go(&mut of, &[LoopTurn::RecoveryBegan {}]);
    assert_eq!(says(&mut of, ada(), PersonOrder::Escalate), Err(NotTaken::Unexpected));
}

/// **Invariant:** Only a person steers a loop.
#[test]
fn only_a_person_orders_and_salve_may_only_hold() {
    let mut of = play(&[began()]);
    let agent = Actor::Agent { name: text("bot") };
    let nobody = Actor::Person { name: text(" ") };
    let all = [
        PersonOrder::Pause,
        PersonOrder::Resume,
        PersonOrder::Skip,
        PersonOrder::Retry,
        PersonOrder::Abort,
        PersonOrder::Escalate,
    ];
    for order in all {
        for by in [&agent, &nobody] {
            assert_eq!(says(&mut of, by.clone(), order), Err(NotTaken::NotTheirs), "{order:?}");
        }
        if order != PersonOrder::Pause {
            assert_eq!(says(&mut of, salve(), order), Err(NotTaken::NotTheirs), "{order:?}");
        }
    }
    assert_eq!(says(&mut of, salve(), PersonOrder::Pause), Ok(()));
    assert_eq!(of.next(time(99)), LoopMove::Hold(text("salve")));
    ada_says(&mut of, PersonOrder::Resume);
    assert_eq!(of.next(time(99)), role("planner", 1));
    go(&mut of, &[LoopTurn::Ended { why: Stuck }]);
    for order in all {
        assert_eq!(says(&mut of, ada(), order), Err(NotTaken::Unexpected), "it is over");
    }
}

#[test]
fn time_never_runs_backwards_whoever_speaks() {
    let mut of = play(&[began()]);
    let late = Entry { at: time(9_000), ..entry(of.stamps().last_seq() + 1, 1, begins("planner")) };
    of.step(&late).unwrap();
    ada_says(&mut of, PersonOrder::Pause);
    assert_eq!(of.stamps().clock(), time(9_000), "another's clock may be behind");
}
