//! What every queue of jobs has to do.

use std::sync::Mutex;
use std::time::Duration;

use salve_core::id::JobId;
use salve_core::job::{ClaimEnd, QueueState, RetryTerms};
use salve_core::scrub::Scrubbed;
use uuid::Uuid;

use super::for_every_queue;
use crate::store::{ClaimStanding, JobArtifact, JobClaim, JobQueue, Store};

/// A lease that no test outlives.
const LONG: Duration = Duration::from_secs(3_600);

fn job(number: u128) -> JobId {
    JobId(Uuid::from_u128(number))
}

fn terms(backoff: Duration) -> RetryTerms {
    let backoff_ms = u64::try_from(backoff.as_millis()).unwrap();
    RetryTerms { max_tries: 2, max_losses: 3, backoff_ms }
}

fn worker() -> Scrubbed {
    Scrubbed::literal("worker 1 on box")
}

fn why() -> Scrubbed {
    Scrubbed::literal("no luck")
}

#[track_caller]
fn claim(store: &Store, lease: Duration) -> JobClaim {
    store.queue().claim(&worker(), lease).unwrap().unwrap()
}

fn is_empty(queue: &dyn JobQueue) -> bool {
    queue.claim(&worker(), LONG).unwrap().is_none()
}

#[test]
fn jobs_are_claimed_in_their_order_and_by_one() {
    for_every_queue(|bench| {
        let (store, other) = (bench.open(), bench.open());
        for number in 1..=3 {
            let payload = format!("payload {number}");
            store.queue().submit(job(number), &payload, terms(LONG)).unwrap();
            store.queue().submit(job(number), "another", terms(LONG)).unwrap();
        }
        for number in 1..=3 {
            let claimed = claim(if number == 2 { &other } else { &store }, LONG);
            let want = (job(number), 1, format!("payload {number}"));
            assert_eq!((claimed.token.job, claimed.token.epoch, claimed.payload), want);
        }
        assert!(is_empty(store.queue()));
        assert_eq!(store.queue().queued(Some(QueueState::Claimed)).unwrap().len(), 3);
        assert_eq!(store.queue().queued(None).unwrap()[0].worker, Some(worker()));
    });
}

/// **Invariant:** A job is held by one worker at most.
#[test]
fn of_many_workers_one_gets_each_job() {
    for_every_queue(|bench| {
        let queue = bench.open();
        for number in 0..60 {
            queue.queue().submit(job(number), "", terms(LONG)).unwrap();
        }
        let got = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let store = bench.open();
                    while let Some(claimed) = store.queue().claim(&worker(), LONG).unwrap() {
                        got.lock().unwrap().push(claimed.token.job);
                        let standing = store.queue().finish(claimed.token, ClaimEnd::Done);
                        assert_eq!(standing.unwrap(), ClaimStanding::Held);
                    }
                });
            }
        });
        let mut got = got.into_inner().unwrap();
        got.sort();
        assert_eq!(got, (0..60).map(job).collect::<Vec<_>>());
    });
}

/// **Invariant:** Whoever lost a job to another can neither keep nor finish anything of it.
#[test]
fn a_lease_that_ran_out_is_taken_over_and_the_old_holder_is_fenced() {
    for_every_queue(|bench| {
        let store = bench.open();
        let queue = store.queue();
        queue.submit(job(1), "", terms(LONG)).unwrap();
        let zombie = claim(&store, Duration::ZERO).token;
        // Nobody else came, so it is still the holder.
        assert_eq!(queue.heartbeat(zombie, Duration::ZERO).unwrap(), ClaimStanding::Held);
        let heir = claim(&store, LONG).token;
        assert!(heir.epoch > zombie.epoch);
        let patch = [JobArtifact { name: "step-0000.patch".to_owned(), bytes: vec![0, 255] }];
        assert_eq!(queue.checkpoint(zombie, &patch).unwrap(), ClaimStanding::Fenced);
        assert_eq!(queue.artifact(job(1), "step-0000.patch").unwrap(), None);
        assert_eq!(queue.heartbeat(zombie, LONG).unwrap(), ClaimStanding::Fenced);
        assert_eq!(queue.finish(zombie, ClaimEnd::Done).unwrap(), ClaimStanding::Fenced);
        assert_eq!(queue.checkpoint(heir, &patch).unwrap(), ClaimStanding::Held);
        assert_eq!(queue.artifact(job(1), "step-0000.patch").unwrap(), Some(vec![0, 255]));
        assert_eq!(queue.artifact(job(2), "step-0000.patch").unwrap(), None);
        assert_eq!(queue.finish(heir, ClaimEnd::Done).unwrap(), ClaimStanding::Held);
        assert_eq!(queue.finish(heir, ClaimEnd::Done).unwrap(), ClaimStanding::Fenced);
        assert!(is_empty(queue));
    });
}

#[test]
fn what_may_pass_waits_and_comes_back_until_it_is_dead_and_a_person_requeues_it() {
    for_every_queue(|bench| {
        let store = bench.open();
        let queue = store.queue();
        queue.submit(job(2), "", terms(LONG)).unwrap();
        queue.finish(claim(&store, LONG).token, ClaimEnd::Retry(why())).unwrap();
        assert!(is_empty(queue), "it waits an hour");
        queue.submit(job(1), "", terms(Duration::ZERO)).unwrap();
        for epoch in 1..=2 {
            let claimed = claim(&store, LONG).token;
            assert_eq!((claimed.job, claimed.epoch), (job(1), epoch));
            queue.finish(claimed, ClaimEnd::Retry(why())).unwrap();
        }
        assert!(is_empty(queue));
        let dead = queue.queued(Some(QueueState::Dead)).unwrap();
        assert_eq!((dead.len(), dead[0].job, dead[0].reason.clone()), (1, job(1), Some(why())));
        assert!(queue.requeue(job(1)).unwrap());
        assert!(!queue.requeue(job(1)).unwrap(), "any worker may have it by now");
        assert!(!queue.requeue(job(3)).unwrap(), "nobody submitted it");
        assert_eq!(claim(&store, LONG).token.job, job(1));
        assert!(!queue.requeue(job(1)).unwrap(), "a worker has it");
        // A person does not wait for an hour.
        assert!(queue.requeue(job(2)).unwrap());
        assert_eq!(claim(&store, LONG).token.job, job(2));
    });
}

#[test]
fn a_job_that_loses_its_workers_again_and_again_is_dead() {
    for_every_queue(|bench| {
        let store = bench.open();
        let queue = store.queue();
        queue.submit(job(1), "", terms(LONG)).unwrap();
        for epoch in 1..=3 {
            assert_eq!(claim(&store, Duration::ZERO).token.epoch, epoch);
        }
        assert!(is_empty(queue));
        assert_eq!(queue.queued(Some(QueueState::Dead)).unwrap().len(), 1);
    });
}

#[test]
fn a_job_that_is_forgotten_leaves_nothing_and_one_that_is_held_stays() {
    for_every_queue(|bench| {
        let store = bench.open();
        let queue = store.queue();
        queue.submit(job(1), "", terms(LONG)).unwrap();
        queue.submit(job(2), "", terms(LONG)).unwrap();
        let held = claim(&store, LONG).token;
        let patch = |bytes| [JobArtifact { name: "step-0000.patch".to_owned(), bytes }];
        queue.checkpoint(held, &patch(vec![1])).unwrap();
        assert!(!queue.forget(job(1)).unwrap(), "a worker has it");
        assert_eq!(queue.finish(held, ClaimEnd::Done).unwrap(), ClaimStanding::Held);
        assert!(queue.forget(job(1)).unwrap() && queue.forget(job(1)).unwrap());
        assert_eq!(queue.artifact(job(1), "step-0000.patch").unwrap(), None);
        assert_eq!(queue.checkpoint(held, &patch(vec![2])).unwrap(), ClaimStanding::Fenced);
        assert!(!queue.requeue(job(1)).unwrap());
        assert_eq!(claim(&store, LONG).token.job, job(2), "others stay");
    });
}

#[test]
fn what_waits_for_a_person_or_was_called_off_is_not_claimed() {
    for_every_queue(|bench| {
        let store = bench.open();
        let queue = store.queue();
        queue.submit(job(1), "", terms(LONG)).unwrap();
        queue.finish(claim(&store, LONG).token, ClaimEnd::Waiting(why())).unwrap();
        assert!(is_empty(queue));
        assert!(queue.requeue(job(1)).unwrap());
        assert!(queue.withdraw(job(1)).unwrap() && !queue.withdraw(job(1)).unwrap());
        assert!(is_empty(queue));
        queue.submit(job(2), "", terms(LONG)).unwrap();
        let held = claim(&store, LONG).token;
        assert!(!queue.withdraw(job(2)).unwrap(), "whoever has it calls it off");
        queue.finish(held, ClaimEnd::Back).unwrap();
        assert_eq!(claim(&store, LONG).token.job, job(2));
    });
}
