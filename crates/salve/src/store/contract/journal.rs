//! What every journal has to do.

use std::thread;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use salve_core::event::{
    Actor, Draft, Entry, Event, IncidentEvent, LoopEvent, NoteEvent, PersonOrder,
};
use salve_core::id::IncidentId;
use salve_core::scrub::Scrubbed;
use uuid::Uuid;

use super::for_every_engine;
use crate::store::{Appended, Stream, StreamPosition};

const LONG: Duration = Duration::from_secs(20);

fn at() -> Timestamp {
    "2026-01-02T03:04:05.678901234Z".parse().unwrap()
}

fn draft(incident: Option<IncidentId>, event: Event) -> Draft {
    Draft { at: at(), by: Actor::Person { name: Scrubbed::literal("ann") }, incident, event }
}

fn note(text: &str) -> Draft {
    let text = serde_json::from_value(text.into()).unwrap();
    draft(None, Event::Note(NoteEvent::Noted { text }))
}

fn of(id: u128, event: IncidentEvent) -> Draft {
    draft(Some(incident(id)), Event::Incident(event))
}

fn released(id: u128) -> Draft {
    of(id, IncidentEvent::Released {})
}

fn incident(number: u128) -> IncidentId {
    IncidentId(Uuid::from_u128(number))
}

fn attached(name: &str) -> Draft {
    draft(None, Event::Loop(LoopEvent::Attached { id: name.parse().unwrap() }))
}

fn texts(entries: &[Entry]) -> Vec<&str> {
    let text = |entry| match entry {
        &Entry { event: Event::Note(NoteEvent::Noted { ref text }), .. } => text.as_str(),
        other => panic!("{other:?} is no note"),
    };
    entries.iter().map(text).collect()
}

fn seqs(entries: &[Entry]) -> Vec<u64> {
    entries.iter().map(|entry| entry.seq).collect()
}

#[test]
fn an_entry_is_read_back_as_it_was_returned() {
    for_every_engine(|bench| {
        let store = bench.open();
        let journal = store.journal();
        assert_eq!(journal.last_seq().unwrap(), 0);
        let one = journal.append(released(7)).unwrap();
        let rest = journal.append_all(vec![note("a"), note("b")]).unwrap();
        assert_eq!((one.seq, seqs(&rest)), (1, vec![2, 3]));
        let all = bench.open().journal().read(0, &Stream::Project, 10).unwrap();
        assert_eq!(all, [vec![one.clone()], rest].concat());
        assert_eq!(journal.entry(1).unwrap(), Some(one));
        assert_eq!(journal.entry(4).unwrap(), None);
        assert_eq!(journal.entry(0).unwrap(), None);
    });
}

#[test]
fn a_stream_has_its_own_entries_and_no_others() {
    for_every_engine(|bench| {
        let store = bench.open();
        let journal = store.journal();
        let pause = || IncidentEvent::Ordered { order: PersonOrder::Pause };
        let [x, y] = [0xabcd << 112, 0xabce << 112];
        let drafts = vec![
            released(x),
            released(y),
            of(x, pause()),
            draft(None, Event::Incident(pause())),
            attached("b-2"),
            attached("a"),
            attached("b-2"),
            note("of nothing"),
        ];
        journal.append_all(drafts).unwrap();
        let find =
            |after, stream: &Stream, limit| seqs(&journal.read(after, stream, limit).unwrap());
        let of_loop = |name: &str| Stream::Loop(name.parse().unwrap());
        assert_eq!(find(0, &Stream::Project, 9), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(find(1, &Stream::Project, 2), [2, 3]);
        assert_eq!(find(u64::MAX, &Stream::Project, 2), [0; 0]);
        assert_eq!(find(0, &Stream::Incident(incident(x)), 9), [1, 3]);
        assert_eq!(find(1, &Stream::Incident(incident(x)), 9), [3]);
        assert_eq!(find(0, &Stream::Orders, 9), [4]);
        assert_eq!(find(0, &of_loop("b-2"), 9), [5, 7]);
        assert_eq!(find(5, &of_loop("b-2"), 9), [7]);
        assert_eq!(find(0, &of_loop("b"), 9), [0; 0]);
        assert_eq!(find(0, &Stream::LoopServices, 9), [5, 6, 7]);
        assert_eq!(find(0, &Stream::Team, 9), [0; 0]);
        assert_eq!(seqs(&journal.tail(&Stream::Project, 2).unwrap()), [7, 8]);
        assert_eq!(seqs(&journal.tail(&Stream::Incident(incident(x)), 1).unwrap()), [3]);
        assert_eq!(seqs(&journal.read_back(3, &Stream::Project, 9).unwrap()), [1, 2]);
        assert_eq!(seqs(&journal.read_back(7, &of_loop("b-2"), 9).unwrap()), [5]);
        assert_eq!(journal.loops().unwrap(), ["a", "b-2"].map(|name| name.parse().unwrap()));
        assert_eq!(journal.incidents_like("abcd").unwrap(), [incident(x)]);
        assert_eq!(journal.incidents_like("ABC").unwrap(), [incident(x), incident(y)]);
        assert_eq!(journal.incidents_like("abcd00000000").unwrap(), [incident(x)]);
        assert_eq!(journal.incidents_like(&incident(x).to_string()).unwrap(), [incident(x)]);
        assert_eq!(journal.incidents_like("b").unwrap(), []);
    });
}

#[test]
fn entries_since_a_time_are_found_though_a_clock_was_set_back() {
    for_every_engine(|bench| {
        let store = bench.open();
        let later = |hours| Timestamp::UNIX_EPOCH + SignedDuration::from_hours(hours);
        let stamped = |(n, hours): (usize, i64)| Draft { at: later(hours), ..note(&n.to_string()) };
        let mut hours = vec![0; 300];
        hours.extend([5, 1, 6]);
        let drafts = hours.into_iter().enumerate().map(stamped).collect();
        store.journal().append_all(drafts).unwrap();
        let found = store.journal().read_since(later(5), &Stream::Project).unwrap();
        assert_eq!(texts(&found), ["300", "302"]);
        assert_eq!(store.journal().read_since(later(0), &Stream::Project).unwrap().len(), 303);
    });
}

/// **Invariant:** Of two who claim, one is refused.
#[test]
fn of_two_who_claim_one_is_refused_and_told_by_what() {
    for_every_engine(|bench| {
        let stores: Vec<_> = (0..8).map(|_| bench.open()).collect();
        let nobody = StreamPosition { stream: Stream::Incident(incident(1)), after: 0 };
        let outcomes: Vec<_> = thread::scope(|scope| {
            let claim = |store: crate::store::Store| {
                let nobody = &nobody;
                scope.spawn(move || store.journal().append_after(nobody, vec![released(1)]))
            };
            let claims: Vec<_> = stores.into_iter().map(claim).collect();
            claims.into_iter().map(|claim| claim.join().unwrap().unwrap()).collect()
        });
        let [winner] =
            bench.open().journal().read(0, &Stream::Project, 9).unwrap().try_into().unwrap();
        let written = Appended::Written(vec![winner.clone()]);
        let refused = Appended::Refused(Box::new(winner));
        assert_eq!(outcomes.iter().filter(|o| **o == written).count(), 1);
        assert_eq!(outcomes.iter().filter(|o| **o == refused).count(), 7);
    });
}

#[test]
fn an_append_on_an_old_view_of_its_stream_is_refused_and_other_streams_do_not_matter() {
    for_every_engine(|bench| {
        let store = bench.open();
        let journal = store.journal();
        let seen = journal.append(released(1)).unwrap().seq;
        journal.append_all(vec![note("of no incident"), released(2), attached("a")]).unwrap();
        let known = StreamPosition { stream: Stream::Incident(incident(1)), after: seen };
        let again = || journal.append_after(&known, vec![released(1), note("with it")]).unwrap();
        assert!(matches!(again(), Appended::Written(entries) if seqs(&entries) == [5, 6]));
        assert!(matches!(again(), Appended::Refused(entry) if entry.seq == 5));
        let of_loop = StreamPosition { stream: Stream::Loop("a".parse().unwrap()), after: 4 };
        let attach = || journal.append_after(&of_loop, vec![attached("a")]).unwrap();
        assert!(matches!(attach(), Appended::Written(_)));
        assert!(matches!(attach(), Appended::Refused(entry) if entry.seq == 7));
        assert_eq!(journal.last_seq().unwrap(), 7, "what is refused is not written");
    });
}

#[test]
fn a_follower_sees_each_entry_once_in_order_while_many_write() {
    const WRITERS: usize = 4;
    const EACH: usize = 50;
    for_every_engine(|bench| {
        let store = bench.open();
        let mut follower = store.journal().follow(0, Stream::Project);
        let mut seen = Vec::new();
        let writers: Vec<_> = (0..WRITERS).map(|writer| (writer, bench.open())).collect();
        thread::scope(|scope| {
            for (writer, store) in writers {
                scope.spawn(move || {
                    for n in 0..EACH {
                        store.journal().append(note(&format!("{writer} {n}"))).unwrap();
                    }
                });
            }
            let deadline = Instant::now() + LONG;
            while seen.len() < WRITERS * EACH && Instant::now() < deadline {
                seen.extend(follower.next(LONG).unwrap());
            }
        });
        assert_eq!(seqs(&seen), (1..=(WRITERS * EACH) as u64).collect::<Vec<_>>());
        for writer in 0..WRITERS {
            let prefix = format!("{writer} ");
            let own: Vec<_> = texts(&seen).into_iter().filter(|t| t.starts_with(&prefix)).collect();
            let want: Vec<_> = (0..EACH).map(|n| format!("{writer} {n}")).collect();
            assert_eq!(own, want, "a writer's own order is kept");
        }
    });
}

#[test]
fn a_follower_of_one_stream_is_not_led_astray_by_others() {
    for_every_engine(|bench| {
        let store = bench.open();
        let journal = store.journal();
        let mut follower = journal.follow(0, Stream::Incident(incident(1)));
        journal.append(note("a")).unwrap();
        assert_eq!(follower.next(Duration::ZERO).unwrap(), []);
        assert_eq!(follower.after(), 1);
        journal.append(released(1)).unwrap();
        assert_eq!(seqs(&follower.next(Duration::ZERO).unwrap()), [2]);
    });
}
