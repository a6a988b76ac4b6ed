//! What only SQLite's journal does: its copy, and a file that is replaced.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use salve_core::event::{Actor, NoteEvent};
use salve_core::scrub::Scrubbed;

use super::super::database::lock_path;
use super::super::lock::{HeldLock, Share};
use super::super::{export, open};
use super::*;
use crate::project::Project;
use crate::store::{Store, parse_line};

const LONG: Duration = Duration::from_secs(20);

fn project() -> (tempfile::TempDir, Project) {
    let dir = tempfile::tempdir().unwrap();
    let project = Project::at(dir.path()).unwrap();
    (dir, project)
}

fn at() -> Timestamp {
    "2026-01-02T03:04:05.678901234Z".parse().unwrap()
}

fn note(text: &str) -> Draft {
    let text = serde_json::from_value(text.into()).unwrap();
    let by = Actor::Person { name: Scrubbed::literal("ann") };
    Draft { at: at(), by, incident: None, event: Event::Note(NoteEvent::Noted { text }) }
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

fn copy(project: &Project) -> Vec<Entry> {
    let text = fs::read_to_string(project.events()).unwrap();
    text.lines().map(|line| parse_line(line).unwrap()).collect()
}

#[test]
fn a_follower_goes_on_when_the_file_is_replaced() {
    let (_dir, project) = project();
    let store = Store::open(&project).unwrap();
    let mut follower = store.journal().follow(0, Stream::Project);
    let other = Store::open(&project).unwrap();
    other.journal().append_all(vec![note("a"), note("b")]).unwrap();
    assert_eq!(texts(&follower.next(LONG).unwrap()), ["a", "b"]);
    fs::remove_dir_all(project.state_dir()).unwrap();
    other.journal().append(note("c")).unwrap();
    let back = "the store was removed while it was in use, and is back";
    assert_eq!(texts(&follower.next(LONG).unwrap()), [back, "c"]);
}

/// Harms the copy and expects the next append to write it again.
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
    store.update_copy().unwrap();
    assert_eq!(texts(&copy(&project)), ["a", "b", "c"]);
}

/// **Invariant:** `events.jsonl` equals the journal after any harm.
#[test]
fn a_missing_cut_edited_or_swapped_copy_is_rewritten() {
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
    another.update_copy().unwrap();
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
    let error = store.update_copy().unwrap_err();
    assert!(matches!(error, StoreError::NotAFile { .. }), "{error}");
    fs::remove_dir(project.events()).unwrap();
    store.journal().append(note("b")).unwrap();
    assert_eq!(texts(&copy(&project)), ["a", "b"]);
}

/// **Invariant:** One process at a time copies: nobody who opens the store takes the lock away from
/// whoever is copying, also where several found no store at the same moment.
#[test]
fn whoever_opens_the_store_leaves_the_lock_of_those_who_copy() {
    let (_dir, project) = project();
    project.make_state_dir().unwrap();
    let alone = HeldLock::take(&lock_path(&project), Share::Alone, LONG).unwrap();
    // It has seen that there is no store, and waits.
    let (begins, begun) = std::sync::mpsc::channel();
    let second = std::thread::spawn({
        let project = project.clone();
        move || {
            begins.send(()).unwrap();
            Store::open(&project).unwrap().journal().append(note("second")).unwrap();
        }
    });
    begun.recv().unwrap();
    open::make_ready(&project, &mut Vec::new()).unwrap();
    let state = project.state_dir().join("events.state");
    let copying = HeldLock::take(&state, Share::Alone, LONG).unwrap();
    fs::write(&state, "kept").unwrap();
    drop(alone);
    second.join().unwrap();
    assert_eq!(fs::read_to_string(&state).unwrap(), "kept");
    assert!(HeldLock::take(&state, Share::Alone, Duration::ZERO).is_err());
    drop(copying);
    export::forget_copy(&project);
    let held = HeldLock::take(&state, Share::Alone, LONG).unwrap();
    export::forget_copy(&project);
    assert!(HeldLock::take(&state, Share::Alone, Duration::ZERO).is_err());
    drop(held);
    Store::open(&project).unwrap().journal().append(note("third")).unwrap();
    assert_eq!(texts(&copy(&project)), ["second", "third"]);
}
