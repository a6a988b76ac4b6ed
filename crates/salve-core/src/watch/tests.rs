//! When a server is well, ill or hung, in tables.

use ProbeAnswer::{Bad, Good, Nobody, Silent, Slow, Still, Stranger};

use super::*;

fn terms(strictness: Strictness) -> WatchTerms {
    WatchTerms {
        strictness,
        retries: 3,
        delay_ms: 10,
        soak_ms: 30,
        startup_ms: 1_000,
        survive_ms: 50,
        liveness_ms: 100,
        grace_ms: 25,
    }
}

/// Lets a server give these answers, then the last of them for ever, and returns its turns.
fn turns(mut watch: ServerWatch, answers: &[ProbeAnswer]) -> Vec<(u64, WatchTurn)> {
    let mut answers = answers.iter().copied();
    let (mut now, mut last, mut turns) = (0, None, Vec::new());
    for _ in 0..1_000 {
        let seen = match watch.due(now) {
            Due::Probe => {
                last = answers.next().or(last);
                ServerSight::Answered(last.expect("an answer"))
            }
            Due::At(at) => {
                now = at;
                ServerSight::Time
            }
            Due::Nothing => break,
        };
        turns.extend(watch.hear(now, seen).map(|turn| (now, turn)));
    }
    turns
}

#[track_caller]
fn check(strictness: Strictness, answers: &[ProbeAnswer], want: &[(u64, WatchTurn)]) {
    let watch = ServerWatch::new(terms(strictness), Address::Known);
    assert_eq!(turns(watch, answers), want, "{answers:?}");
}

#[test]
fn a_server_is_well_when_it_answers_and_still_does_after_the_soak() {
    let want = [(0, WatchTurn::Soaking), (30, WatchTurn::Well)];
    for strictness in [Strictness::Lenient, Strictness::Strict] {
        check(strictness, &[Good], &want);
    }
}

#[test]
fn where_nothing_is_proven_the_first_good_answer_will_do() {
    let terms = WatchTerms { soak_ms: 0, ..terms(Strictness::Lenient) };
    let watch = ServerWatch::new(terms, Address::Known);
    assert_eq!(turns(watch, &[Nobody, Good]), [(10, WatchTurn::Well)]);
    let watch = ServerWatch::new(terms, Address::Unknown);
    assert_eq!(turns(watch, &[]), [(50, WatchTurn::Well)]);
}

/// Lets time pass for a server that always answers badly, and returns when it was asked.
fn looks(watch: &mut ServerWatch, until: u64) -> Vec<u64> {
    let (mut now, mut looks) = (0, Vec::new());
    while now <= until {
        match watch.due(now) {
            Due::Probe => {
                looks.push(now);
                let answer = ServerSight::Answered(Bad);
                if let Some(WatchTurn::Unwell(_)) = watch.hear(now, answer) {
                    watch.leave_running(now);
                }
            }
            Due::At(at) => now = at,
            Due::Nothing => break,
        }
    }
    looks
}

#[test]
fn a_server_that_answers_badly_is_asked_more_and_more_seldom() {
    let mut watch = ServerWatch::new(terms(Strictness::Lenient), Address::Known);
    let seen = looks(&mut watch, 10_000);
    assert_eq!(seen[..8], [0, 20, 60, 140, 300, 620, 1_000, 1_100]);
    assert_eq!(seen[8..], [1_300, 1_700, 2_500, 4_100, 7_100]);
    assert!(watch.is_ill());
}

#[test]
fn an_ill_server_is_looked_at_when_a_file_changed_and_is_well_once_it_answers() {
    for liveness_ms in [100, 0] {
        let terms = WatchTerms { liveness_ms, soak_ms: 0, ..terms(Strictness::Lenient) };
        let mut watch = ServerWatch::new(terms, Address::Known);
        looks(&mut watch, 2_000);
        watch.hear(2_000, ServerSight::Changed);
        assert_eq!(watch.due(2_000), Due::At(2_010), "{liveness_ms}");
        assert_eq!(watch.due(2_010), Due::Probe);
        let well = watch.hear(2_011, ServerSight::Answered(Good));
        assert_eq!(well, Some(WatchTurn::Well));
    }
}

#[test]
fn only_one_that_hangs_or_is_in_the_way_of_a_remedy_is_ended() {
    use {FaultTold as F, SelfReload as R, ServerTrouble as T, TroubleCourse as C};
    for (trouble, reload, fault, want) in [
        (T::Unhealthy, R::Unknown, F::Silent, C::LeaveRunning),
        (T::Unhealthy, R::Reloads, F::Told, C::LeaveRunning),
        (T::NotListening, R::Unknown, F::Silent, C::LeaveRunning),
        (T::Replaced, R::Unknown, F::Silent, C::LeaveRunning),
        (T::Hung, R::Unknown, F::Silent, C::End),
        (T::Hung, R::Unknown, F::Told, C::End),
        (T::Hung, R::Reloads, F::Silent, C::End),
        (T::Hung, R::Reloads, F::Told, C::LeaveRunning),
        (T::Impaired, R::Reloads, F::Told, C::End),
    ] {
        assert_eq!(course_of(trouble, reload, fault), want, "{trouble:?} {reload:?} {fault:?}");
    }
}

#[test]
fn a_server_that_does_not_listen_yet_has_its_start_up_time() {
    let want = [(20, WatchTurn::Soaking), (50, WatchTurn::Well)];
    for strictness in [Strictness::Lenient, Strictness::Strict] {
        check(strictness, &[Nobody, Stranger, Good], &want);
    }
    let want = [(1_020, WatchTurn::Unwell(ServerTrouble::NotListening))];
    check(Strictness::Strict, &[Nobody], &want);
    let want = [(1_020, WatchTurn::Unwell(ServerTrouble::Replaced))];
    check(Strictness::Lenient, &[Stranger], &want);
}

#[test]
fn bad_answers_count_at_once_only_when_a_remedy_is_verified() {
    check(Strictness::Strict, &[Bad], &[(20, WatchTurn::Unwell(ServerTrouble::Unhealthy))]);
    check(Strictness::Strict, &[Silent], &[(20, WatchTurn::Unwell(ServerTrouble::Hung))]);
    check(Strictness::Lenient, &[Bad], &[(1_000, WatchTurn::Unwell(ServerTrouble::Unhealthy))]);
    let want = [(20, WatchTurn::Soaking), (50, WatchTurn::Well)];
    check(Strictness::Strict, &[Bad, Bad, Good], &want);
}

/// **Invariant:** A server is well only when it still answers after the soak.
#[test]
fn four_good_seconds_are_not_health() {
    let want = [
        (0, WatchTurn::Soaking),
        // Bad at the end of the soak: it has to begin again.
        (40, WatchTurn::Soaking),
        (70, WatchTurn::Well),
    ];
    check(Strictness::Strict, &[Good, Bad, Good], &want);
}

#[test]
fn a_server_that_was_well_is_unwell_when_it_fails_past_the_grace() {
    let unwell = |at, ailment| {
        [(0, WatchTurn::Soaking), (30, WatchTurn::Well), (at, WatchTurn::Unwell(ailment))]
    };
    check(Strictness::Lenient, &[Good, Good, Silent], &unwell(160, ServerTrouble::Hung));
    // Two looks at a broken page will do.
    check(Strictness::Lenient, &[Good, Good, Bad], &unwell(155, ServerTrouble::Unhealthy));
    let fine = [(0, WatchTurn::Soaking), (30, WatchTurn::Well)];
    check(Strictness::Lenient, &[Good, Good, Bad, Silent, Good], &fine);
}

#[test]
fn a_server_that_answers_nowhere_has_to_stay_up() {
    let watch = ServerWatch::new(terms(Strictness::Strict), Address::Unknown);
    assert_eq!(turns(watch, &[]), [(50, WatchTurn::Soaking), (80, WatchTurn::Well)]);
}

#[test]
fn an_address_may_turn_up_at_any_time() {
    let mut watch = ServerWatch::new(terms(Strictness::Strict), Address::Unknown);
    assert_eq!(watch.hear(5, ServerSight::Address), Some(WatchTurn::Checking));
    assert_eq!(watch.due(5), Due::Probe);
    assert_eq!(watch.due(6), Due::Nothing, "one probe at a time");
    assert_eq!(watch.hear(7, ServerSight::Answered(Good)), Some(WatchTurn::Soaking));
    assert_eq!(watch.hear(8, ServerSight::Address), None, "it is known");

    let mut watch = ServerWatch::new(terms(Strictness::Strict), Address::Unknown);
    assert_eq!(watch.hear(50, ServerSight::Time), Some(WatchTurn::Soaking));
    assert_eq!(watch.hear(60, ServerSight::Address), Some(WatchTurn::Checking));
    let mut watch = ServerWatch::new(terms(Strictness::Strict), Address::Unknown);
    watch.hear(50, ServerSight::Time);
    assert_eq!(watch.hear(80, ServerSight::Time), Some(WatchTurn::Well));
    assert_eq!(watch.due(80), Due::Nothing);
    assert_eq!(watch.hear(90, ServerSight::Address), Some(WatchTurn::Checking));
    assert_eq!(watch.due(90), Due::Probe);
}

#[test]
fn a_server_that_stays_well_is_looked_at_more_seldom() {
    let terms = WatchTerms { soak_ms: 0, ..terms(Strictness::Lenient) };
    let (mut watch, mut now, mut looks) = (ServerWatch::new(terms, Address::Known), 0, Vec::new());
    while looks.len() < 6 {
        match watch.due(now) {
            Due::Probe => {
                looks.push(now);
                watch.hear(now, ServerSight::Answered(Good));
            }
            Due::At(at) => now = at,
            Due::Nothing => break,
        }
    }
    assert_eq!(looks, [0, 100, 300, 600, 900, 1_200]);
}

#[test]
fn without_liveness_nobody_looks_at_a_server_that_is_well() {
    let terms = WatchTerms { liveness_ms: 0, ..terms(Strictness::Lenient) };
    let watch = ServerWatch::new(terms, Address::Known);
    assert_eq!(turns(watch, &[Good]), [(0, WatchTurn::Soaking), (30, WatchTurn::Well)]);
}

#[test]
fn a_server_that_answers_elsewhere_is_asked_there() {
    let mut watch = ServerWatch::new(terms(Strictness::Lenient), Address::Known);
    assert_eq!(watch.due(0), Due::Probe);
    watch.hear(1, ServerSight::Answered(Good));
    let before = watch.hear(2, ServerSight::Moved);
    assert_eq!((before, watch.due(2)), (Some(WatchTurn::Checking), Due::Probe));
    assert!(watch.awaits_answer());
    watch.hear(3, ServerSight::Answered(Good));
    assert!(!watch.awaits_answer());
}

/// **Invariant:** A server that may only be slow is never taken for one that hangs, unless a remedy has
/// to show that it helps.
#[test]
fn slow_is_not_hung() {
    let want = [(400, WatchTurn::Soaking), (430, WatchTurn::Well)];
    check(Strictness::Lenient, &[[Slow; 40].as_slice(), &[Good]].concat(), &want);
    let watch = ServerWatch::new(terms(Strictness::Lenient), Address::Known);
    assert_eq!(turns(watch, &[Slow]), [], "it is waited for");
    let late = [[Slow; 200].as_slice(), &[Good]].concat();
    let turn = turns(ServerWatch::new(terms(Strictness::Lenient), Address::Known), &late);
    assert_eq!(turn.last().map(|(_, turn)| *turn), Some(WatchTurn::Well), "{turn:?}");
    let want = [(0, WatchTurn::Soaking), (30, WatchTurn::Well)];
    check(Strictness::Lenient, &[[Good, Good].as_slice(), &[Slow; 50], &[Good]].concat(), &want);
    let verified = turns(ServerWatch::new(terms(Strictness::Strict), Address::Known), &[Slow]);
    assert!(matches!(verified[..], [(1_000.., WatchTurn::Unwell(ServerTrouble::Hung))]));
}

#[test]
fn one_that_did_nothing_for_long_hangs_without_further_proof() {
    let hung = WatchTurn::Unwell(ServerTrouble::Hung);
    check(Strictness::Strict, &[Slow, Still], &[(40, hung)]);
    let fine = [(0, WatchTurn::Soaking), (30, WatchTurn::Well), (130, hung)];
    check(Strictness::Lenient, &[Good, Good, Still], &fine);
    let starts = [[Still; 3].as_slice(), &[Good]].concat();
    check(Strictness::Lenient, &starts, &[(30, WatchTurn::Soaking), (60, WatchTurn::Well)]);
}
