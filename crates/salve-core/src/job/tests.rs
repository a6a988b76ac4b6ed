//! Jobs from their first entry to their end, on every path.

use jiff::SignedDuration;
use proptest::prelude::*;

use super::*;
use crate::event::{
    Actor, Amounts, AttemptEnd, Digest, Event, FailureClass, JobEvent, JobStepTerms, JobTurn,
    Process, ProcessExit, ResetEnd, ResourceLimits,
};
use crate::id::Signature;
use crate::steps::{NotTaken, StepsStanding};
use crate::telemetry::{MetricsFold, prometheus_text, statsd_line};

fn text(text: &'static str) -> Scrubbed {
    Scrubbed::literal(text)
}

fn id() -> JobId {
    JobId(uuid::Uuid::from_u128(7))
}

fn terms(steps: usize) -> JobTerms {
    let names = ["plan", "build", "test"];
    let step = |id| JobStepTerms { id: text(id), attempts: 3, no_progress: 2 };
    JobTerms {
        objective: text("add search"),
        spec: Digest::of(&[b"spec"]),
        steps: names.into_iter().take(steps).map(step).collect(),
        resets: 1,
        parks: 1,
        limits: ResourceLimits::default(),
    }
}

fn time(seq: u64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(i64::try_from(seq).unwrap())
}

fn salve() -> Actor {
    Actor::Salve(Process { pid: 7, started: 1, host: text("box") })
}

fn ada() -> Actor {
    Actor::Person { name: text("ada") }
}

fn entry(seq: u64, what: JobTurn) -> Entry {
    let by = if matches!(what, JobTurn::Ordered { .. }) { ada() } else { salve() };
    let event = Event::Job(JobEvent::Advanced { id: id(), what });
    Entry { seq, at: time(seq), by, incident: None, event, seal: None }
}

fn fresh(steps: usize) -> Job {
    let started = JobTurn::Started { terms: Box::new(terms(steps)) };
    Job::replay(id(), &[entry(1, started)]).unwrap()
}

fn take(of: &mut Job, what: JobTurn) -> Result<(), NotTaken> {
    let seq = of.stamps().last_seq() + 1;
    of.step(&entry(seq, what))
}

#[track_caller]
fn go(of: &mut Job, turns: &[JobTurn]) {
    for turn in turns {
        assert_eq!(take(of, turn.clone()), Ok(()), "{turn:?} in {of:?}");
    }
}

/// Begins the attempt that is due.
#[track_caller]
fn begin(of: &mut Job) {
    let turn = begins(of);
    go(of, &[turn]);
}

/// Ends the attempt at work.
#[track_caller]
fn end(of: &mut Job, how: AttemptEnd) {
    let turn = ends(of, how);
    go(of, &[turn]);
}

fn checkpoint(name: &str) -> Checkpoint {
    let digest = Digest::of(&[name.as_bytes()]);
    Checkpoint { patch: digest, state: digest, tree: digest }
}

fn failure(class: FailureClass, signature: u64, tree: &str) -> StepFailure {
    StepFailure {
        class,
        signature: Signature(signature),
        summary: text("no luck"),
        command: Some(text("npm test")),
        exit: None,
        timer: None,
        tree: Some(Digest::of(&[tree.as_bytes()])),
        diff: None,
        changed: vec![text("a.txt")],
    }
}

/// Returns the beginning of the attempt that is due.
fn begins(of: &Job) -> JobTurn {
    let JobMove::Attempt { step, attempt, strategy } = of.next(time(9_000)) else {
        panic!("{:?}", of.next(time(9_000)))
    };
    JobTurn::StepBegan { step: u32::try_from(step).unwrap(), attempt, strategy }
}

fn ends(of: &Job, end: AttemptEnd) -> JobTurn {
    let step = u32::try_from(of.at_step().unwrap()).unwrap();
    let attempt = u32::try_from(of.failures().len()).unwrap() + 1;
    let spent = Amounts { wall_ms: 10, ..Amounts::default() };
    JobTurn::StepEnded { step, attempt, end, spent }
}

fn done(of: &mut Job) {
    begin(of);
    end(of, AttemptEnd::Done { checkpoint: checkpoint("x") });
}

/// Lets the attempt that is due fail, and returns what is done about it.
fn fails(of: &mut Job, class: FailureClass, signature: u64, tree: &str) -> HealStrategy {
    begin(of);
    let mut failure = failure(class, signature, tree);
    let (class, strategy) = of.decide(&failure);
    failure.class = class;
    end(of, AttemptEnd::Failed { failure: Box::new(failure), strategy });
    strategy
}

fn orders(of: &mut Job, order: JobOrder) -> Result<(), NotTaken> {
    take(of, JobTurn::Ordered { order })
}

fn resets(of: &mut Job, want: ResetCause) {
    let JobMove::Reset(PendingReset { step, cause }) = of.next(time(9_000)) else {
        panic!("{:?}", of.next(time(9_000)))
    };
    assert_eq!(cause, want);
    let step = u32::try_from(step).unwrap();
    go(
        of,
        &[JobTurn::ResetBegan { step, cause }, JobTurn::ResetEnded { step, end: ResetEnd::Done }],
    );
}

use FailureClass::{
    DeterministicContract, DeterministicPolicy, DeterministicRepo, StuckNoProgress,
    TransientRuntime,
};

#[test]
fn a_job_does_its_steps_once_and_ends_with_the_last() {
    let mut of = fresh(2);
    done(&mut of);
    assert_eq!(of.at_step(), Some(1));
    done(&mut of);
    let ending = JobEnding { why: LoopEnd::Completed, retryable: false };
    assert_eq!(of.next(time(99)), JobMove::End(ending));
    go(&mut of, &[JobTurn::Ended { why: LoopEnd::Completed, retryable: false }]);
    assert_eq!(of.next(time(99)), JobMove::Over);
    assert_eq!(take(&mut of, JobTurn::Resumed {}), Err(NotTaken::Unexpected), "it is done");
    assert_eq!(of.steps().spent().wall_ms, 20);
}

#[test]
fn the_strategies_follow_one_another_in_the_order_of_the_spec() {
    let mut of = fresh(1);
    assert_eq!(fails(&mut of, TransientRuntime, 1, "a"), HealStrategy::SoftReset);
    assert_eq!(fails(&mut of, TransientRuntime, 1, "a"), HealStrategy::HardReset);
    assert_eq!(of.failures()[1].failure.class, StuckNoProgress);
    resets(&mut of, ResetCause::Controller);
    assert_eq!(fails(&mut of, TransientRuntime, 1, "a"), HealStrategy::QueueRetry);
    let JobMove::End(JobEnding { retryable: true, .. }) = of.next(time(99)) else { panic!() };
}

#[test]
fn progress_of_either_kind_is_tried_again_and_to_and_fro_is_none() {
    let mut of = fresh(1);
    assert_eq!(fails(&mut of, TransientRuntime, 1, "a"), HealStrategy::SoftReset);
    assert_eq!(
        fails(&mut of, TransientRuntime, 2, "a"),
        HealStrategy::SoftReset,
        "another failure"
    );
    let mut of = fresh(1);
    fails(&mut of, TransientRuntime, 1, "a");
    assert_eq!(fails(&mut of, TransientRuntime, 1, "b"), HealStrategy::SoftReset, "another tree");
    // Attempts are used up by then.
    assert_eq!(fails(&mut of, TransientRuntime, 1, "a"), HealStrategy::QueueRetry);
    assert_eq!(of.failures()[2].failure.class, StuckNoProgress);
}

#[test]
fn what_cannot_pass_is_tried_once() {
    for class in [DeterministicContract, DeterministicRepo] {
        let mut of = fresh(1);
        assert_eq!(fails(&mut of, class, 1, "a"), HealStrategy::None);
        let JobMove::End(JobEnding { retryable: false, .. }) = of.next(time(99)) else { panic!() };
    }
    let mut of = fresh(1);
    assert_eq!(fails(&mut of, DeterministicPolicy, 1, "a"), HealStrategy::OperatorRequest);
    assert!(matches!(of.next(time(99)), JobMove::Person(_)));
}

#[test]
fn what_an_attempt_met_in_the_leftovers_of_another_is_tried_in_a_fresh_workspace_first() {
    for class in [DeterministicContract, DeterministicRepo] {
        let mut of = fresh(1);
        assert_eq!(fails(&mut of, TransientRuntime, 1, "a"), HealStrategy::SoftReset);
        assert_eq!(fails(&mut of, class, 2, "a"), HealStrategy::HardReset);
        assert_eq!(of.failures()[1].failure.class, class);
        resets(&mut of, ResetCause::Controller);
        assert_eq!(fails(&mut of, class, 2, "a"), HealStrategy::None, "it is the step's own");
    }
    // Nothing was left behind.
    let mut of = fresh(1);
    begin(&mut of);
    let failure = StepFailure { changed: Vec::new(), ..failure(TransientRuntime, 1, "a") };
    let strategy = HealStrategy::SoftReset;
    end(&mut of, AttemptEnd::Failed { failure: Box::new(failure), strategy });
    assert_eq!(fails(&mut of, DeterministicContract, 2, "a"), HealStrategy::None);
}

#[test]
fn another_step_or_another_end_of_its_process_is_another_failure() {
    let mut of = fresh(2);
    assert_eq!(fails(&mut of, TransientRuntime, 1, "a"), HealStrategy::SoftReset);
    done(&mut of);
    // The first step changed nothing, and the network is down for the second one, too.
    assert_eq!(fails(&mut of, TransientRuntime, 1, "a"), HealStrategy::SoftReset);
    let mut again = failure(TransientRuntime, 1, "a");
    assert_eq!(of.decide(&again).0, StuckNoProgress);
    again.exit = Some(ProcessExit::Code(3));
    assert_eq!(of.decide(&again).0, TransientRuntime);
}

#[test]
fn what_was_cut_off_is_set_back_first_and_no_reset_is_counted() {
    let mut of = fresh(2);
    done(&mut of);
    begin(&mut of);
    go(&mut of, &[JobTurn::Resumed {}]);
    assert_eq!(of.resets(), 0);
    assert_eq!(
        take(&mut of, JobTurn::StepBegan { step: 1, attempt: 1, strategy: HealStrategy::None }),
        Err(NotTaken::Unexpected),
        "not before it is set back"
    );
    resets(&mut of, ResetCause::Interrupted);
    done(&mut of);
    assert_eq!(of.checkpoints().len(), 2);
}

#[test]
fn what_is_tried_again_begins_at_its_last_checkpoint_and_what_was_mended_where_it_is() {
    for (retryable, cause) in [(true, Some(ResetCause::Retried)), (false, None)] {
        let mut of = fresh(2);
        done(&mut of);
        let why = LoopEnd::Failed { reason: text("no luck") };
        take(&mut of, JobTurn::Ended { why, retryable }).unwrap();
        take(&mut of, JobTurn::Resumed {}).unwrap();
        let pending = cause.map(|cause| PendingReset { step: 1, cause });
        assert_eq!(of.pending(), pending, "retryable: {retryable}");
    }
}

#[test]
fn people_retry_reset_and_go_back() {
    let mut of = fresh(3);
    done(&mut of);
    fails(&mut of, DeterministicContract, 1, "a");
    go(
        &mut of,
        &[JobTurn::Ended { why: LoopEnd::Failed { reason: text("no luck") }, retryable: false }],
    );
    // Even of one that is over.
    assert_eq!(orders(&mut of, JobOrder::RetryStep), Ok(()));
    assert!(matches!(of.next(time(99)), JobMove::Attempt { step: 1, attempt: 1, .. }));
    // At work, the attempt ends first.
    begin(&mut of);
    assert_eq!(orders(&mut of, JobOrder::HardResetStep), Ok(()));
    assert!(of.is_called_off());
    end(&mut of, AttemptEnd::Stopped);
    resets(&mut of, ResetCause::Operator);
    done(&mut of);
    // Backwards makes a branch of its own.
    assert_eq!((of.at_step(), of.branch()), (Some(2), 1));
    assert_eq!(orders(&mut of, JobOrder::ResumeFromStep { step: 0 }), Ok(()));
    assert_eq!((of.at_step(), of.branch(), of.checkpoints().len()), (Some(0), 2, 0));
    resets(&mut of, ResetCause::ResumeFrom);
    let seq = of.recovery().unwrap().seq;
    go(&mut of, &[JobTurn::Honored { order: seq }]);
    assert!(of.recovery().unwrap().honored);
    done(&mut of);
    // What has no checkpoint cannot be gone on from.
    assert_eq!(orders(&mut of, JobOrder::ResumeFromStep { step: 2 }), Err(NotTaken::Unexpected));
    assert_eq!(orders(&mut of, JobOrder::ResumeFromStep { step: 9 }), Err(NotTaken::Unexpected));
}

#[test]
fn a_cancel_wins_and_a_pause_holds() {
    let mut of = fresh(1);
    assert_eq!(orders(&mut of, JobOrder::Pause), Ok(()));
    assert_eq!(of.next(time(99)), JobMove::Hold(text("ada")));
    assert_eq!(orders(&mut of, JobOrder::Resume), Ok(()));
    begin(&mut of);
    assert_eq!(orders(&mut of, JobOrder::Cancel), Ok(()));
    assert!(of.is_called_off());
    let policy = failure(DeterministicPolicy, 1, "a");
    let strategy = HealStrategy::OperatorRequest;
    end(&mut of, AttemptEnd::Failed { failure: Box::new(policy), strategy });
    assert_eq!(of.next(time(99)), JobMove::Over);
    let agent = Entry {
        by: Actor::Agent { name: text("bot") },
        ..entry(99, JobTurn::Ordered { order: JobOrder::RetryStep })
    };
    assert_eq!(of.step(&agent), Err(NotTaken::NotTheirs));
}

/// **Invariant:** No worker takes back that a person called a job off.
#[test]
fn a_job_that_was_called_off_stays_so_until_a_person_says_otherwise() {
    let failed = |of: &mut Job| {
        let why = LoopEnd::Failed { reason: text("no luck") };
        go(of, &[JobTurn::Ended { why, retryable: true }]);
    };
    let given_back = |of: &mut Job| go(of, &[JobTurn::Stopped {}]);
    for prepare in [&failed as &dyn Fn(&mut Job), &given_back, &begin] {
        let mut of = fresh(1);
        prepare(&mut of);
        assert_eq!(orders(&mut of, JobOrder::Cancel), Ok(()));
        assert_eq!(orders(&mut of, JobOrder::Cancel), Err(NotTaken::Unexpected), "it is already");
        assert_ne!(job_state(&of).retryable, Some(true));
        for how in [WorkEnd::Ended, WorkEnd::Stopped, WorkEnd::Killed] {
            assert_eq!(claim_end(&of, how, time(99)), ClaimEnd::Withdrawn);
        }
        // One that had claimed it before.
        go(&mut of, &[JobTurn::Resumed {}]);
        assert!(of.is_cancelled());
        let mut resumed = of.clone();
        let by_ada = Entry { by: ada(), ..entry(98, JobTurn::Resumed {}) };
        assert_eq!(resumed.step(&by_ada), Ok(()));
        assert!(!resumed.is_cancelled());
        assert_eq!(orders(&mut of, JobOrder::Resume), Ok(()));
        assert!(!of.is_cancelled());
        assert_eq!(claim_end(&of, WorkEnd::Stopped, time(99)), ClaimEnd::Back);
    }
}

#[test]
fn what_was_ordered_as_the_work_ended_is_done_by_the_next_worker() {
    let mut of = fresh(1);
    let why = LoopEnd::Failed { reason: text("no luck") };
    go(&mut of, &[JobTurn::Ended { why, retryable: true }]);
    assert_eq!(orders(&mut of, JobOrder::RetryStep), Ok(()));
    assert_eq!(claim_end(&of, WorkEnd::Ended, time(99)), ClaimEnd::Back);
}

#[test]
fn a_failed_replay_ends_it_and_a_parked_step_goes_on_in_time() {
    let mut of = fresh(1);
    begin(&mut of);
    let away = AttemptEnd::Away { until: time(500), reason: text("quota") };
    end(&mut of, away);
    assert_eq!(of.next(time(99)), JobMove::Wait(time(500)));
    assert!(matches!(of.next(time(500)), JobMove::Attempt { attempt: 1, .. }), "it counts as none");
    orders(&mut of, JobOrder::HardResetStep).unwrap();
    let end = ResetEnd::Failed { reason: text("step-0000.patch was altered") };
    go(&mut of, &[JobTurn::ResetEnded { step: 0, end }]);
    let JobMove::End(JobEnding { why, retryable: false }) = of.next(time(999)) else { panic!() };
    // What was to be set back is still there; a person may want it as it is.
    go(&mut of, &[JobTurn::Ended { why, retryable: false }]);
    let mut as_it_is = of.clone();
    orders(&mut as_it_is, JobOrder::RetryStep).unwrap();
    assert!(matches!(as_it_is.next(time(999)), JobMove::Attempt { .. }));
    go(&mut of, &[JobTurn::Resumed {}]);
    resets(&mut of, ResetCause::Operator);
    done(&mut of);
}

/// Returns every way in which the attempt that is due may go on.
fn branches(of: &Job) -> Vec<Vec<JobTurn>> {
    let next = of.next(time(9_000));
    match next {
        JobMove::Attempt { .. } => {
            let begin = begins(of);
            let mut begun = of.clone();
            go(&mut begun, std::slice::from_ref(&begin));
            let mut ways = vec![vec![begin.clone(), JobTurn::Resumed {}]];
            let kinds = [
                (TransientRuntime, 1),
                (TransientRuntime, 2),
                (DeterministicContract, 1),
                (DeterministicPolicy, 1),
            ];
            for (class, signature) in kinds {
                let mut failure = failure(class, signature, "a");
                let (class, strategy) = begun.decide(&failure);
                failure.class = class;
                let failed = AttemptEnd::Failed { failure: Box::new(failure), strategy };
                ways.push(vec![begin.clone(), ends(&begun, failed)]);
            }
            ways.push(vec![begin, ends(&begun, AttemptEnd::Done { checkpoint: checkpoint("x") })]);
            ways
        }
        JobMove::Reset(PendingReset { step, cause }) => {
            let step = u32::try_from(step).unwrap();
            let failed = ResetEnd::Failed { reason: text("altered") };
            vec![
                vec![
                    JobTurn::ResetBegan { step, cause },
                    JobTurn::ResetEnded { step, end: ResetEnd::Done },
                ],
                vec![JobTurn::ResetEnded { step, end: failed }],
                vec![JobTurn::ResetBegan { step, cause }, JobTurn::Resumed {}],
            ]
        }
        JobMove::End(JobEnding { why, retryable }) => vec![vec![JobTurn::Ended { why, retryable }]],
        JobMove::Wait(_) | JobMove::Hold(_) | JobMove::Person(_) | JobMove::Over => Vec::new(),
    }
}

/// **Invariant:** A step that is done is not run again, and what was cut off is undone first.
#[test]
fn every_path_ends_or_asks_and_no_done_step_is_tried_again() {
    let mut open =
        vec![(fresh(2), vec![entry(1, JobTurn::Started { terms: Box::new(terms(2)) })], 0)];
    let (mut over, mut asked) = (0, 0);
    while let Some((of, entries, cuts)) = open.pop() {
        assert_eq!(Job::replay(id(), &entries), Some(of.clone()), "replay equals life");
        assert!(of.resets() <= 1 && entries.len() < 40, "{entries:?}");
        assert!(of.at_step().is_none_or(|step| step == of.checkpoints().len()));
        match of.next(time(9_000)) {
            JobMove::Over => over += 1,
            JobMove::Person(_) => asked += 1,
            _ => {}
        }
        for way in branches(&of) {
            let cut = way.iter().any(|turn| matches!(turn, JobTurn::Resumed {}));
            if cut && cuts >= 2 {
                continue;
            }
            let (mut next, mut entries) = (of.clone(), entries.clone());
            for turn in way {
                let entry = entry(next.stamps().last_seq() + 1, turn);
                assert_eq!(next.step(&entry), Ok(()));
                entries.push(entry);
            }
            open.push((next, entries, cuts + u32::from(cut)));
        }
    }
    assert!(over > 500 && asked > 50, "{over} {asked}");
}

fn any_turn() -> impl Strategy<Value = JobTurn> {
    let strategies = prop_oneof![
        Just(HealStrategy::None),
        Just(HealStrategy::SoftReset),
        Just(HealStrategy::HardReset),
        Just(HealStrategy::QueueRetry),
        Just(HealStrategy::OperatorRequest),
    ];
    let ends = prop_oneof![
        Just(AttemptEnd::Done { checkpoint: checkpoint("x") }),
        strategies.prop_map(|strategy| AttemptEnd::Failed {
            failure: Box::new(failure(TransientRuntime, 1, "a")),
            strategy,
        }),
        Just(AttemptEnd::Away { until: time(50), reason: text("quota") }),
        Just(AttemptEnd::Unable { reason: text("log in") }),
        Just(AttemptEnd::Stopped),
    ];
    let orders = prop_oneof![
        Just(JobOrder::Pause),
        Just(JobOrder::Resume),
        Just(JobOrder::Cancel),
        Just(JobOrder::RetryStep),
        Just(JobOrder::HardResetStep),
        (0_u32..3).prop_map(|step| JobOrder::ResumeFromStep { step }),
    ];
    prop_oneof![
        Just(JobTurn::Resumed {}),
        (0_u32..3, 1_u32..4).prop_map(|(step, attempt)| JobTurn::StepBegan {
            step,
            attempt,
            strategy: HealStrategy::None
        }),
        (0_u32..3, ends).prop_map(|(step, end)| JobTurn::StepEnded {
            step,
            attempt: 1,
            end,
            spent: Amounts::default()
        }),
        (0_u32..3).prop_map(|step| JobTurn::ResetBegan { step, cause: ResetCause::Operator }),
        (0_u32..3).prop_map(|step| JobTurn::ResetEnded { step, end: ResetEnd::Done }),
        orders.prop_map(|order| JobTurn::Ordered { order }),
        Just(JobTurn::Stopped {}),
        Just(JobTurn::Ended { why: LoopEnd::Failed { reason: text("no") }, retryable: true }),
    ]
}

proptest! {
    /// **Invariant:** Replay equals life; a refused entry changes nothing.
    #[test]
    fn anything_at_all_is_taken_in_or_changes_nothing(turns in prop::collection::vec(any_turn(), 0..60)) {
        let mut of = fresh(3);
        let mut entries = vec![entry(1, JobTurn::Started { terms: Box::new(terms(3)) })];
        for (seq, turn) in (2..).zip(turns) {
            let before = of.clone();
            let entry = entry(seq, turn);
            if of.step(&entry).is_err() {
                prop_assert_eq!(&of, &before);
            }
            if let Some(step) = of.at_step() {
                prop_assert_eq!(step, of.checkpoints().len());
            }
            entries.push(entry);
        }
        prop_assert_eq!(Job::replay(id(), &entries), Some(of));
    }
}

#[test]
fn the_spec_names_what_happens() {
    let mut of = fresh(1);
    let mut names = Vec::new();
    let mut tell = |of: &mut Job, turn: JobTurn| {
        let entry = entry(of.stamps().last_seq() + 1, turn);
        of.step(&entry).unwrap();
        names.extend(task_events(of, &entry).into_iter().map(|event| event.name));
    };
    for _ in 0..2 {
        let begin = begins(&of);
        tell(&mut of, begin);
        let mut failure = failure(TransientRuntime, 1, "a");
        let (class, strategy) = of.decide(&failure);
        failure.class = class;
        let end = ends(&of, AttemptEnd::Failed { failure: Box::new(failure), strategy });
        tell(&mut of, end);
    }
    tell(&mut of, JobTurn::ResetEnded { step: 0, end: ResetEnd::Done });
    let begin = begins(&of);
    tell(&mut of, begin);
    let end = ends(&of, AttemptEnd::Done { checkpoint: checkpoint("x") });
    tell(&mut of, end);
    assert_eq!(
        names,
        [
            "task.step.attempt.started",
            "task.step.attempt.failed",
            "task.self_heal.triggered",
            "task.step.attempt.started",
            "task.step.attempt.failed",
            "task.self_heal.triggered",
            "task.self_heal.escalated",
            "task.resume.from_step",
            "task.step.attempt.started",
            "task.step.attempt.finished",
        ]
    );
}

#[test]
fn a_retry_is_told_the_least_that_helps() {
    let mut of = fresh(2);
    let prompt =
        StepPrompt { instruction: "Write the plan.", verification: Some("`npm test` passes") };
    insta::assert_snapshot!("first", step_prompt(&of, &prompt));
    fails(&mut of, TransientRuntime, 1, "a");
    insta::assert_snapshot!("again", step_prompt(&of, &prompt));
    assert!(matches!(of.standing(), StepsStanding::Running));
}

#[test]
fn the_figures_of_the_spec_are_folded_from_the_entries() {
    let mut of = fresh(1);
    let mut entries = Vec::new();
    let mut note = |of: &mut Job, turn: JobTurn| {
        let entry = entry(of.stamps().last_seq() + 1, turn);
        of.step(&entry).unwrap();
        entries.push(entry);
    };
    let turn = begins(&of);
    note(&mut of, turn);
    let mut failure = failure(TransientRuntime, 1, "a");
    failure.timer = Some(crate::event::StepTimer::Idle);
    let (_, strategy) = of.decide(&failure);
    let turn = ends(&of, AttemptEnd::Failed { failure: Box::new(failure), strategy });
    note(&mut of, turn);
    let turn = begins(&of);
    note(&mut of, turn);
    let turn = ends(&of, AttemptEnd::Done { checkpoint: checkpoint("x") });
    note(&mut of, turn);
    let mut fold = MetricsFold::default();
    let lines: Vec<String> =
        entries.iter().flat_map(|entry| fold.take(entry)).map(|m| statsd_line("p", &m)).collect();
    let tags = "|#class:transient_runtime,strategy:soft_reset";
    assert_eq!(
        lines,
        [
            "p.task.step.duration_seconds:10|ms".to_owned(),
            format!("p.task.self_heal.attempts_total:1|c{tags}"),
            "p.task.step.idle_timeout_total:1|c".to_owned(),
            "p.task.step.duration_seconds:10|ms".to_owned(),
            format!("p.task.self_heal.recovered_total:1|c{tags}"),
        ]
    );
    insta::assert_snapshot!(prometheus_text("p", &entries));
}

/// **Invariant:** A step that cannot pass by itself is tried again only once something was put right.
#[test]
fn a_remedy_lets_a_step_be_tried_that_could_not_pass() {
    let mut of = fresh(2);
    let remedied = || JobTurn::Remedied { remedy: text("npm ci") };
    assert_eq!(take(&mut of, remedied()), Err(NotTaken::Unexpected), "nothing failed");
    assert_eq!(fails(&mut of, FailureClass::DeterministicContract, 1, "a"), HealStrategy::None);
    assert!(matches!(of.next(time(9_000)), JobMove::End(_)));
    go(&mut of, &[remedied()]);
    let attempt = JobMove::Attempt { step: 0, attempt: 2, strategy: HealStrategy::SoftReset };
    assert_eq!(of.next(time(9_000)), attempt);
    done(&mut of);
    assert_eq!(of.checkpoints().len(), 1);
}

#[test]
fn a_remedy_instead_of_a_reset_costs_no_reset() {
    let mut of = fresh(1);
    fails(&mut of, FailureClass::TransientRuntime, 1, "a");
    assert_eq!(fails(&mut of, FailureClass::TransientRuntime, 1, "a"), HealStrategy::HardReset);
    assert_eq!(of.resets(), 1);
    go(&mut of, &[JobTurn::Remedied { remedy: text("npm ci") }]);
    assert_eq!((of.resets(), of.pending()), (0, None));
}

#[test]
fn a_question_about_a_remedy_waits_for_a_person() {
    let mut of = fresh(1);
    fails(&mut of, FailureClass::DeterministicContract, 1, "a");
    go(&mut of, &[JobTurn::Asked { reason: text("may `npm i x` run?") }]);
    assert_eq!(of.next(time(9_000)), JobMove::Person(text("may `npm i x` run?")));
    let again = take(&mut of, JobTurn::Resumed {});
    assert_eq!(again, Ok(()));
    assert!(matches!(of.next(time(9_000)), JobMove::Attempt { .. }));
}

/// **Invariant:** A worker whose job another one took over changes nothing any more.
#[test]
fn whoever_lost_a_job_to_another_cannot_go_on_with_it() {
    let mut of = fresh(2);
    begin(&mut of);
    let other = Actor::Salve(Process { pid: 8, started: 1, host: text("elsewhere") });
    let says = |of: &Job, by: &Actor, what| Entry {
        by: by.clone(),
        ..entry(of.stamps().last_seq() + 1, what)
    };
    let late = ends(&of, AttemptEnd::Done { checkpoint: checkpoint("late") });
    let resumed = says(&of, &other, JobTurn::Resumed {});
    assert_eq!(of.step(&resumed), Ok(()));
    let late = says(&of, &salve(), late);
    assert_eq!(of.step(&late), Err(NotTaken::NotTheirs));
    assert_eq!(of.checkpoints().len(), 0);
    let JobMove::Reset(PendingReset { step, cause }) = of.next(time(9_000)) else { panic!() };
    let step = u32::try_from(step).unwrap();
    for what in [
        JobTurn::ResetBegan { step, cause },
        JobTurn::ResetEnded { step, end: ResetEnd::Done },
        begins_first(),
    ] {
        let entry = says(&of, &other, what);
        assert_eq!(of.step(&entry), Ok(()));
    }
}

fn begins_first() -> JobTurn {
    JobTurn::StepBegan { step: 0, attempt: 1, strategy: HealStrategy::None }
}
