//! Tests of opening, reading and writing.

use std::thread;

use super::*;

fn project() -> (tempfile::TempDir, Project) {
    let dir = tempfile::tempdir().unwrap();
    let project = Project::at(dir.path()).unwrap();
    (dir, project)
}

fn put(store: &Database, name: &str) {
    let sql = "INSERT INTO meta VALUES (?1, '')";
    store.write_tables(Durability::Process, |tx| tx.execute(sql, [name])).unwrap();
}

fn names(store: &Database) -> Vec<String> {
    let sql = "SELECT name FROM meta WHERE value = '' ORDER BY name";
    let all = |tx: &Transaction<'_>| {
        tx.prepare(sql)?.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()
    };
    store.read_tables(all).unwrap()
}

#[test]
fn what_was_written_is_there_for_the_next_who_opens() {
    let (_dir, project) = project();
    let store = Database::open(&project).unwrap();
    put(&store, "a");
    let other = Database::open(&project).unwrap();
    put(&other, "b");
    drop(store);
    assert_eq!(names(&other), ["a", "b"]);
}

#[test]
fn a_failing_write_writes_nothing() {
    let (_dir, project) = project();
    let store = Database::open(&project).unwrap();
    let error = store.write_tables(Durability::Process, |tx| {
        tx.execute("INSERT INTO meta VALUES ('a', '')", [])?;
        tx.execute("INSERT INTO meta VALUES ('a', '')", [])
    });
    assert!(matches!(error, Err(StoreError::Other { .. })), "{error:?}");
    assert_eq!(names(&store), [""; 0]);
}

#[test]
fn only_the_durable_write_waits_for_the_disk() {
    let (_dir, project) = project();
    let store = Database::open(&project).unwrap();
    let level = |durability| {
        let get = |tx: &Transaction<'_>| tx.pragma_query_value(None, "synchronous", |r| r.get(0));
        store.write_tables::<i64>(durability, get).unwrap()
    };
    let levels = [Durability::Process, Durability::Power, Durability::Process].map(level);
    assert_eq!(levels, [1, 2, 1], "1 is NORMAL, 2 is FULL");
}

#[test]
fn a_removed_file_comes_back_with_all_that_was_in_it() {
    let (_dir, project) = project();
    let store = Database::open(&project).unwrap();
    put(&store, "a");
    for name in ["salve.db", "salve.db-wal", "salve.db-shm", "salve.lock"] {
        fs::remove_file(project.state_dir().join(name)).unwrap();
    }
    put(&store, "b");
    drop(store);
    assert_eq!(names(&Database::open(&project).unwrap()), ["a", "b"]);
}

/// **Invariant:** A store that is removed while it is in use comes back whole.
#[test]
fn a_removed_directory_comes_back_for_all_who_had_it_open() {
    let (_dir, project) = project();
    let (one, other) = (Database::open(&project).unwrap(), Database::open(&project).unwrap());
    put(&one, "a");
    fs::remove_dir_all(project.state_dir()).unwrap();
    assert_eq!(names(&one), ["a"]);
    put(&other, "b");
    put(&one, "c");
    assert_eq!(names(&other), ["a", "b", "c"]);
}

#[test]
fn what_is_not_a_file_is_refused_and_left_alone() {
    let (_dir, project) = project();
    let state = project.make_state_dir().unwrap();
    fs::create_dir(project.database()).unwrap();
    let error = Database::open(&project).unwrap_err();
    assert!(matches!(error, StoreError::NotAFile { found: "a directory", .. }), "{error}");
    fs::remove_dir(project.database()).unwrap();
    fs::write(state.join("target"), "theirs").unwrap();
    std::os::unix::fs::symlink(state.join("target"), project.database()).unwrap();
    let error = Database::open(&project).unwrap_err();
    assert!(matches!(error, StoreError::NotAFile { found: "a symbolic link", .. }), "{error}");
    assert_eq!(fs::read_to_string(state.join("target")).unwrap(), "theirs");
}

#[test]
fn ten_threads_open_a_new_store_at_once() {
    let (_dir, project) = project();
    let open = |n: usize| put(&Database::open(&project).unwrap(), &n.to_string());
    thread::scope(|scope| (0..10).for_each(|n| drop(scope.spawn(move || open(n)))));
    assert_eq!(names(&Database::open(&project).unwrap()).len(), 10);
}
