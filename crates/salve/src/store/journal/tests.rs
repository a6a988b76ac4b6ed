//! Tests of the journal.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use salve_core::event::{Actor, IncidentEvent, NoteEvent};
use salve_core::scrub::Scrubbed;
use uuid::Uuid;

use super::*;
use crate::project::Project;

const LONG: Duration = Duration::from_secs(20);

pub(crate) fn project() -> (tempfile::TempDir, Project) {
    let dir = tempfile::tempdir().unwrap();
    let project = Project::at(dir.path()).unwrap();
    (dir, project)
}

fn at() -> Timestamp {
    "2026-01-02T03:04:05.678901234Z".parse().unwrap()
}

pub(crate) fn note(text: &str) -> Draft {
    let text = serde_json::from_value(text.into()).unwrap();
    let by = Actor::Person { name: Scrubbed::literal("ann") };
    Draft { at: at(), by, incident: None, event: Event::Note(NoteEvent::Noted { text }) }
}

fn of(incident: IncidentId, event: Event) -> Draft {
    Draft { incident: Some(incident), event, ..note("") }
}

fn texts(entries: &[Entry]) -> Vec<&str> {
    let mut texts = Vec::new();
    for entry in entries {
        match &entry.event {
            Event::Note(NoteEvent::Noted { text }) => texts.push(text.as_str()),
            other => panic!("{other:?} is no note"),
        }
    }
    texts
}

fn seqs(entries: &[Entry]) -> Vec<u64> {
    entries.iter().map(|entry| entry.seq).collect()
}

fn copy(project: &Project) -> Vec<Entry> {
    let text = fs::read_to_string(project.events()).unwrap();
    text.lines().map(|line| parse_line(line).unwrap()).collect()
}

#[test]
fn an_entry_is_read_back_as_it_was_returned() {
    let (_dir, project) = project();
    let store = Store::open(&project).unwrap();
    let journal = store.journal();
    assert_eq!(journal.last_seq().unwrap(), 0);
    let id = IncidentId(Uuid::from_u128(7));
    let one = journal.append(of(id, Event::Incident(IncidentEvent::Released {}))).unwrap();
    let rest = journal.append_all(vec![note("a"), note("b")]).unwrap();
    assert_eq!((one.seq, seqs(&rest)), (1, vec![2, 3]));
    let all = journal.read(0, &Filter::default(), 10).unwrap();
    assert_eq!(all, [vec![one], rest].concat());
    assert_eq!(copy(&project), all);
}

#[test]
fn a_filter_means_what_it_says() {
    let (_dir, project) = project();
    let store = Store::open(&project).unwrap();
    let journal = store.journal();
    let [x, y] = [0xabcd << 112, 0xabce << 112].map(|n| IncidentId(Uuid::from_u128(n)));
    let late = Draft { at: at() + jiff::SignedDuration::from_hours(1), ..note("late") };
    let drafts = vec![
        of(x, Event::Incident(IncidentEvent::Released {})),
        of(y, Event::Incident(IncidentEvent::Released {})),
        of(x, Event::Incident(IncidentEvent::NothingLeft {})),
        late.clone(),
    ];
    journal.append_all(drafts).unwrap();
    let find = |after, filter: &Filter, limit| seqs(&journal.read(after, filter, limit).unwrap());
    let all = Filter::default();
    assert_eq!(find(0, &all, 9), [1, 2, 3, 4]);
    assert_eq!(find(1, &all, 2), [2, 3]);
    assert_eq!(find(u64::MAX, &all, 2), [0; 0]);
    assert_eq!(find(0, &Filter::incident(x), 9), [1, 3]);
    assert_eq!(find(0, &all.clone().kind("released"), 9), [1, 2]);
    assert_eq!(find(0, &all.clone().kind("released").kind("noted"), 9), [1, 2, 4]);
    assert_eq!(find(0, &Filter::incident(x).kind("released"), 9), [1]);
    assert_eq!(find(0, &Filter { since: Some(late.at), ..all.clone() }, 9), [4]);
    assert_eq!(seqs(&journal.tail(&all, 2).unwrap()), [3, 4]);
    assert_eq!(seqs(&journal.tail(&Filter::incident(x), 1).unwrap()), [3]);
    assert_eq!(journal.incidents_like("abcd").unwrap(), [x]);
    assert_eq!(journal.incidents_like("ABC").unwrap(), [x, y]);
    assert_eq!(journal.incidents_like("abcd00000000").unwrap(), [x]);
    assert_eq!(journal.incidents_like(&x.to_string()).unwrap(), [x]);
    assert_eq!(journal.incidents_like("b").unwrap(), []);
}

#[test]
fn of_two_who_claim_one_is_refused_and_told_by_what() {
    let (_dir, project) = project();
    let id = IncidentId(Uuid::from_u128(1));
    let unless = Unless { any: Filter::incident(id).kind("released"), after: 0 };
    let claim = || {
        let store = Store::open(&project).unwrap();
        store
            .journal()
            .append_unless(vec![of(id, Event::Incident(IncidentEvent::Released {}))], &unless)
            .unwrap()
    };
    let outcomes: Vec<_> = thread::scope(|scope| {
        let claims: Vec<_> = (0..8).map(|_| scope.spawn(claim)).collect();
        claims.into_iter().map(|claim| claim.join().unwrap()).collect()
    });
    let store = Store::open(&project).unwrap();
    let [winner] = store.journal().read(0, &Filter::default(), 9).unwrap().try_into().unwrap();
    let written = Appended::Written(vec![winner.clone()]);
    let refused = Appended::Refused(Box::new(winner));
    assert_eq!(outcomes.iter().filter(|o| **o == written).count(), 1);
    assert_eq!(outcomes.iter().filter(|o| **o == refused).count(), 7);
}

#[test]
fn an_append_on_an_old_view_is_refused() {
    let (_dir, project) = project();
    let store = Store::open(&project).unwrap();
    let journal = store.journal();
    let id = IncidentId(Uuid::from_u128(1));
    let seen = journal.append(of(id, Event::Incident(IncidentEvent::Released {}))).unwrap().seq;
    journal.append(note("of no incident")).unwrap();
    let unless = Unless { any: Filter::incident(id), after: seen };
    let again = || {
        journal
            .append_unless(vec![of(id, Event::Incident(IncidentEvent::NothingLeft {}))], &unless)
            .unwrap()
    };
    assert!(matches!(again(), Appended::Written(_)));
    assert!(matches!(again(), Appended::Refused(entry) if entry.seq == 3));
}

#[test]
fn a_follower_sees_each_entry_once_in_order_while_many_write() {
    const WRITERS: usize = 4;
    const EACH: usize = 50;
    let (_dir, project) = project();
    let store = Store::open(&project).unwrap();
    let mut follower = store.journal().follow(0, Filter::default());
    let mut seen = Vec::new();
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let project = &project;
            scope.spawn(move || {
                let store = Store::open(project).unwrap();
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
    assert_eq!(copy(&project), seen);
}

#[test]
fn a_follower_of_one_kind_is_not_led_astray_by_others() {
    let (_dir, project) = project();
    let store = Store::open(&project).unwrap();
    let journal = store.journal();
    let mut follower = journal.follow(0, Filter::default().kind("noted"));
    let id = IncidentId(Uuid::from_u128(1));
    journal.append(of(id, Event::Incident(IncidentEvent::Released {}))).unwrap();
    assert_eq!(follower.next(Duration::ZERO).unwrap(), []);
    assert_eq!(follower.after(), 1);
    journal.append(note("a")).unwrap();
    assert_eq!(seqs(&follower.next(Duration::ZERO).unwrap()), [2]);
}

#[test]
fn a_follower_goes_on_when_the_file_is_replaced() {
    let (_dir, project) = project();
    let store = Store::open(&project).unwrap();
    let mut follower = store.journal().follow(0, Filter::default());
    let other = Store::open(&project).unwrap();
    other.journal().append_all(vec![note("a"), note("b")]).unwrap();
    assert_eq!(texts(&follower.next(LONG).unwrap()), ["a", "b"]);
    fs::remove_dir_all(project.state_dir()).unwrap();
    other.journal().append(note("c")).unwrap();
    let back = "the store was removed while it was in use, and is back";
    assert_eq!(texts(&follower.next(LONG).unwrap()), [back, "c"]);
}

/// Harms the copy and expects the next append to write it anew.
#[track_caller]
fn check_copy(harm: impl Fn(&PathBuf)) {
    let (_dir, project) = project();
    let store = Store::open(&project).unwrap();
    let journal = store.journal();
    journal.append_all(vec![note("a"), note("b")]).unwrap();
    harm(&project.events());
    journal.append(note("c")).unwrap();
    assert_eq!(texts(&copy(&project)), ["a", "b", "c"]);
    harm(&project.events());
    journal.export().unwrap();
    assert_eq!(texts(&copy(&project)), ["a", "b", "c"]);
}

#[test]
fn a_missing_cut_edited_or_swapped_copy_is_written_anew() {
    check_copy(|path| fs::remove_file(path).unwrap());
    check_copy(|path| fs::write(path, "").unwrap());
    check_copy(|path| fs::write(path, [0xff, 0, b'\n']).unwrap());
    check_copy(|path| {
        let text = fs::read_to_string(path).unwrap();
        fs::write(path, text.replace("ann", "bob")).unwrap();
    });
    check_copy(|path| {
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(file.metadata().unwrap().len() - 1).unwrap();
    });
    check_copy(|path| {
        let text = fs::read(path).unwrap();
        fs::remove_file(path).unwrap();
        fs::write(path, text).unwrap();
    });
    check_copy(|path| fs::remove_file(path.with_file_name("events.state")).unwrap());
    check_copy(|path| fs::write(path.with_file_name("events.state"), "{").unwrap());
}

#[test]
fn a_copy_that_is_left_to_another_is_brought_up_to_date_by_it_or_by_the_next_append() {
    let (_dir, project) = project();
    let [store, another] = [0, 1].map(|_| Store::open(&project).unwrap());
    store.journal().append(note("a")).unwrap();
    store.set_copying(Copying::Later);
    store.journal().append(note("b")).unwrap();
    assert_eq!(texts(&copy(&project)), ["a"]);
    another.journal().export().unwrap();
    assert_eq!(texts(&copy(&project)), ["a", "b"]);
    store.journal().append(note("c")).unwrap();
    another.journal().append(note("d")).unwrap();
    assert_eq!(texts(&copy(&project)), ["a", "b", "c", "d"]);
}

#[test]
fn a_copy_that_cannot_be_written_does_not_stop_the_journal() {
    let (_dir, project) = project();
    let store = Store::open(&project).unwrap();
    fs::create_dir(project.events()).unwrap();
    store.journal().append(note("a")).unwrap();
    let error = store.journal().export().unwrap_err();
    assert!(matches!(error, StoreError::NotAFile { .. }), "{error}");
    fs::remove_dir(project.events()).unwrap();
    store.journal().append(note("b")).unwrap();
    assert_eq!(texts(&copy(&project)), ["a", "b"]);
}
