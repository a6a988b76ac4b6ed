//! Tests of mending: damage of every kind, and nothing deleted.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::thread;

use tempfile::TempDir;

use super::*;
use crate::store::sqlite::Durability;
use crate::store::sqlite::database::Database;
use crate::store::sqlite::own;
use crate::store::{Store, Stream};

const ENTRIES: usize = 300;
const PAGE: usize = 4096;

/// A closed store with entries, from which damaged ones are made.
struct Sound {
    dir: TempDir,
}

impl Sound {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&Project::at(dir.path()).unwrap()).unwrap();
        let drafts = (0..ENTRIES).map(|n| draft(&format!("remark {n} {}", "x".repeat(n % 90))));
        store.journal().append_all(drafts.collect()).unwrap();
        Self { dir }
    }

    fn pages(&self) -> usize {
        fs::read(self.dir.path().join(".salve/salve.db")).unwrap().len() / PAGE
    }

    /// Returns a copy of the project with its files as they are.
    fn copy(&self) -> (TempDir, Project) {
        let dir = tempfile::tempdir().unwrap();
        let project = Project::at(dir.path()).unwrap();
        let state = project.make_state_dir().unwrap();
        for file in fs::read_dir(self.dir.path().join(".salve")).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), state.join(file.file_name())).unwrap();
        }
        // Whoever opens it writes nothing into it then; and opened by hand, a log would be gone.
        if !beside(&project.database(), "-wal").exists() {
            own::mark(&Connection::open(project.database()).unwrap(), &project).unwrap();
        }
        (dir, project)
    }
}

fn draft(text: &str) -> Draft {
    let text = serde_json::from_value(text.into()).unwrap();
    let by = Actor::Person { name: Scrubbed::literal("ann") };
    Draft {
        at: Timestamp::UNIX_EPOCH,
        by,
        incident: None,
        event: Event::Note(NoteEvent::Noted { text }),
    }
}

fn overwrite(path: &Path, offset: usize, bytes: &[u8]) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, offset as u64).unwrap();
}

fn aside(project: &Project) -> Vec<PathBuf> {
    let files = fs::read_dir(project.state_dir()).unwrap().map(|file| file.unwrap().path());
    files.filter(|file| file.to_string_lossy().contains(".corrupt-")).collect()
}

/// Returns how many of the remarks are there, each in its place.
fn remarks(store: &Store) -> usize {
    let entries = store.journal().read(0, &Stream::Project, usize::MAX).unwrap();
    let right = entries.iter().filter(|entry| match &entry.event {
        Event::Note(NoteEvent::Noted { text }) => {
            text.as_str().starts_with(&format!("remark {} ", entry.seq.saturating_sub(1)))
        }
        _ => false,
    });
    right.count()
}

fn saved(mended: &Mended) -> &SavedEntries {
    match mended {
        Mended::Saved(saved) => saved,
        Mended::PutAside(aside) => panic!("{aside:?}"),
    }
}

/// Harms a copy of the store and expects `least` remarks, working appends and the harmed file
/// kept as it was.
#[track_caller]
fn check(sound: &Sound, what: &str, harm: impl Fn(&Project), least: usize) {
    let (_dir, project) = sound.copy();
    harm(&project);
    let harmed = fs::read(project.database()).unwrap();
    let store = Store::open(&project).unwrap_or_else(|error| panic!("{what}: {error}"));
    let found = remarks(&store);
    assert!(found >= least, "{what}: {found} of {least}");
    store.journal().append(draft("after")).unwrap();
    let mended = store.mended();
    let aside = mended.first().and_then(|mended| saved(mended).aside.as_ref());
    if let Some(aside) = aside {
        assert_eq!(fs::read(aside).unwrap(), harmed, "{what}: the damaged file is kept");
        let all = store.journal().read(0, &Stream::Project, usize::MAX).unwrap();
        let told = all.iter().filter(|entry| entry.event.kind() == "store_salvaged");
        assert_eq!(told.count(), 1, "{what}: the mending is on record");
    }
    assert!(mended.len() <= 1, "{what}: mended once, not {mended:?}");
    drop(store);
    let again = Store::open(&project).unwrap();
    assert_eq!((again.mended(), remarks(&again)), (vec![], found), "{what}: and then it is sound");
}

/// **Invariant:** A damaged store is kept byte for byte, and loses no entry while the copy is
/// intact.
#[test]
fn a_damaged_page_anywhere_costs_no_entry() {
    let sound = Sound::new();
    for page in 0..sound.pages() {
        for (kind, bytes) in [("zeros", vec![0; PAGE]), ("garbage", vec![0xa5; PAGE])] {
            let harm = |project: &Project| overwrite(&project.database(), page * PAGE, &bytes);
            check(&sound, &format!("{kind} on page {page}"), harm, ENTRIES);
            let half = |project: &Project| {
                overwrite(&project.database(), page * PAGE + PAGE / 2, &bytes[PAGE / 2..]);
            };
            check(&sound, &format!("{kind} on half of page {page}"), half, ENTRIES);
        }
    }
}

/// **Invariant:** A view in the place of a table is not read while a damaged store is mended.
#[test]
fn an_endless_view_in_a_damaged_store_keeps_nobody_busy() {
    let sound = Sound::new();
    let harm = |project: &Project| {
        let conn = Connection::open(project.database()).unwrap();
        let plant = "ALTER TABLE meta RENAME TO kept_meta; CREATE VIEW meta AS \
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) \
             SELECT 'sealed_from' AS name, max(i) AS value FROM n;";
        conn.execute_batch(plant).unwrap();
        conn.close().unwrap();
        overwrite(&project.database(), 0, &[0; 16]);
    };
    let begun = std::time::Instant::now();
    check(&sound, "a view for the marks", harm, ENTRIES);
    // Before, it took as long as somebody let it.
    assert!(begun.elapsed() < RESCUE * 3, "{:?}", begun.elapsed());
}

#[test]
fn a_damaged_header_costs_no_entry_even_without_the_copy() {
    let sound = Sound::new();
    for offset in (0..100).step_by(4) {
        let harm = |project: &Project| {
            overwrite(&project.database(), offset, &[0xde, 0xad, 0xbe, 0xef]);
            fs::remove_file(project.events()).unwrap();
        };
        check(&sound, &format!("header at {offset}"), harm, ENTRIES);
    }
}

#[test]
fn a_damaged_page_costs_only_its_own_entries_without_the_copy() {
    let sound = Sound::new();
    // The first pages hold the schema and the roots, through which all others are found.
    let first_leaf = sound.pages() / 2;
    for page in first_leaf..sound.pages() {
        let harm = |project: &Project| {
            overwrite(&project.database(), page * PAGE, &[0xa5; PAGE]);
            fs::remove_file(project.events()).unwrap();
        };
        check(&sound, &format!("page {page}"), harm, ENTRIES - 60);
    }
}

#[test]
fn a_truncated_file_costs_no_entry() {
    let sound = Sound::new();
    let whole = sound.pages() * PAGE;
    for len in [0, 1, 15, 16, 99, 100, 512, PAGE, PAGE + 7, whole / 2, whole - PAGE, whole - 1] {
        let harm = |project: &Project| {
            let file = OpenOptions::new().write(true).open(project.database()).unwrap();
            file.set_len(len as u64).unwrap();
        };
        check(&sound, &format!("cut to {len}"), harm, ENTRIES);
    }
}

#[test]
fn a_damaged_log_costs_no_entry() {
    let sound = Sound::new();
    // The log is there because the store is still open, as after a sudden death.
    let project = Project::at(sound.dir.path()).unwrap();
    let store = Store::open(&project).unwrap();
    store.journal().append(draft(&format!("remark {ENTRIES} "))).unwrap();
    let log = |project: &Project| beside(&project.database(), "-wal");
    let len = fs::metadata(log(&project)).unwrap().len() as usize;
    assert!(len > PAGE);
    for offset in [0, 4, 12, 24, 32, 40, 56, 100, len / 2, len - 1] {
        let harm = |project: &Project| overwrite(&log(project), offset, &[0x5a]);
        check(&sound, &format!("log at {offset}"), harm, ENTRIES + 1);
    }
    let harm = |project: &Project| fs::write(log(project), vec![0x5a; len]).unwrap();
    check(&sound, "garbage log", harm, ENTRIES + 1);
    let harm = |project: &Project| fs::remove_file(log(project)).unwrap();
    check(&sound, "no log", harm, ENTRIES + 1);
}

#[test]
fn something_else_in_the_databases_place_is_kept_and_the_journal_restored() {
    let sound = Sound::new();
    let harm = |project: &Project| fs::write(project.database(), "my shopping list\n").unwrap();
    check(&sound, "text", harm, ENTRIES);
    let harm = |project: &Project| fs::write(project.database(), [0; 10_000]).unwrap();
    check(&sound, "zeros", harm, ENTRIES);
}

#[test]
fn a_removed_database_is_restored_from_the_copy_and_that_is_on_record() {
    let (_dir, project) = Sound::new().copy();
    fs::remove_file(project.database()).unwrap();
    let store = Store::open(&project).unwrap();
    let kept = ENTRIES as u64;
    assert_eq!(store.mended(), [Mended::Saved(SavedEntries { kept, lost: 0, aside: None })]);
    assert_eq!(remarks(&store), ENTRIES);
    assert_eq!(store.journal().last_seq().unwrap(), kept + 1);
}

#[test]
fn many_who_find_the_damage_at_once_mend_it_once() {
    let (_dir, project) = Sound::new().copy();
    overwrite(&project.database(), 0, &[0; 100]);
    let append = || Store::open(&project).unwrap().journal().append(draft("x")).unwrap().seq;
    let mut seqs: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(append)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    seqs.sort_unstable();
    let first = ENTRIES as u64 + 2;
    assert_eq!(seqs, (first..first + 8).collect::<Vec<_>>());
    assert_eq!(aside(&project).len(), 1);
    assert_eq!(remarks(&Store::open(&project).unwrap()), ENTRIES);
}

#[test]
fn damage_found_while_the_store_is_open_is_mended_and_followers_go_on() {
    let (_dir, project) = Sound::new().copy();
    let store = Store::open(&project).unwrap();
    let mut follower = store.journal().follow(ENTRIES as u64, Stream::Project);
    let other = Store::open(&project).unwrap();
    for page in 1..Sound::new().pages() {
        overwrite(&project.database(), page * PAGE, &[0xa5; PAGE]);
    }
    let seq = other.journal().append(draft("after")).unwrap().seq;
    assert_eq!(other.mended().len(), 1);
    let news = follower.next(std::time::Duration::from_secs(20)).unwrap();
    let news: Vec<_> = news.iter().map(|entry| entry.seq).collect();
    assert_eq!(news, [seq - 1, seq]);
    assert_eq!(remarks(&store), ENTRIES);
}

/// **Invariant:** Restoring brings in no secret.
#[test]
fn an_edited_copy_brings_in_no_secret() {
    let (_dir, project) = Sound::new().copy();
    let token = format!("gh{}{}", "p_", "a1B2c3D4e5F6".repeat(3));
    let text = fs::read_to_string(project.events()).unwrap();
    fs::write(project.events(), text.replacen("remark 7 ", &format!("remark 7 {token} "), 1))
        .unwrap();
    fs::remove_file(project.database()).unwrap();
    let store = Store::open(&project).unwrap();
    store.update_copy().unwrap();
    assert_eq!(remarks(&store), ENTRIES);
    assert!(!fs::read_to_string(project.events()).unwrap().contains(&token));
}

#[test]
fn other_tables_are_rescued_around_the_damage() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("old.db");
    let schema = "CREATE TABLE a (id INTEGER PRIMARY KEY, x TEXT NOT NULL) STRICT; \
                  CREATE TABLE b (a INTEGER NOT NULL REFERENCES a (id), x TEXT NOT NULL, \
                  PRIMARY KEY (a, x)) STRICT, WITHOUT ROWID;";
    let old = Connection::open(&path).unwrap();
    old.execute_batch(schema).unwrap();
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)";
    let text = "printf('%0100d', i) FROM n";
    let fill =
        format!("{many} INSERT INTO a SELECT i, {text}; {many} INSERT INTO b SELECT i, {text}");
    old.execute_batch(&fill).unwrap();
    let pages: i64 = old.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    old.close().unwrap();
    // Two pages of the one table and one of the other, which was filled after it.
    overwrite(&path, 60 * PAGE, &[0xa5; PAGE]);
    overwrite(&path, 90 * PAGE, &[0; PAGE]);
    overwrite(&path, (usize::try_from(pages).unwrap() - 40) * PAGE, &[0xa5; PAGE]);
    let fresh = Connection::open_in_memory().unwrap();
    fresh.execute_batch(schema).unwrap();
    fresh.pragma_update(None, "foreign_keys", false).unwrap();
    let tx = Transaction::new_unchecked(&fresh, TransactionBehavior::Immediate).unwrap();
    rows::rescue(&path, &tx, RESCUE).unwrap();
    let count = |sql: &str| tx.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    for table in ["a", "b"] {
        let kept = count(&format!("SELECT count(*) FROM {table}"));
        assert!((4800..5000).contains(&kept), "{table}: {kept}");
    }
    assert_eq!(count("SELECT count(*) FROM a WHERE x <> printf('%0100d', id)"), 0);
    assert_eq!(count("SELECT count(*) FROM b WHERE a NOT IN (SELECT id FROM a)"), 0, "no orphan");
}

#[test]
fn memory_is_rescued_too() {
    let (_dir, project) = Sound::new().copy();
    let memory = |store: &Database| -> (i64, i64) {
        let sql = "SELECT (SELECT count(*) FROM failure), (SELECT count(*) FROM remedy)";
        store.read_tables(|tx| tx.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))).unwrap()
    };
    let store = Database::open(&project).unwrap();
    let sql = "INSERT INTO failure VALUES (7, 1, '', '', '', NULL, 0, 0, 1, 1, 0, ''); \
               INSERT INTO remedy VALUES (7, x'00', '', '', 0, '', '[]', '[]');";
    store.write_tables(Durability::Process, |tx| tx.execute_batch(sql)).unwrap();
    drop(store);
    overwrite(&project.database(), 0, &[0xa5; 100]);
    let store = Database::open(&project).unwrap();
    assert_eq!((store.mended().len(), memory(&store)), (1, (1, 1)));
}

#[test]
fn a_mending_cut_short_at_any_point_is_done_by_the_next() {
    type Cut<'a> = &'a dyn Fn(&Project);
    let sound = Sound::new();
    let work = |project: &Project| project.state_dir().join(format!("{WORK}x"));
    let cut: [(&str, Cut<'_>); 3] = [
        ("while building", &|project| {
            fs::create_dir(work(project)).unwrap();
            fs::write(work(project).join("fresh.db"), "half").unwrap();
        }),
        ("after the log was set aside", &|project| {
            fs::write(beside(&project.database(), ".corrupt-1-wal"), "log").unwrap();
        }),
        ("before the new one takes its place", &|project| {
            let aside = beside(&project.database(), ".corrupt-1");
            fs::write(aside, "the new one").unwrap();
        }),
    ];
    for (what, cut) in cut {
        let harm = |project: &Project| {
            overwrite(&project.database(), 0, &[0xa5; 100]);
            cut(project);
        };
        check(&sound, what, harm, ENTRIES);
    }
}

/// **Invariant:** A newer or foreign store is never touched.
#[test]
fn a_newer_or_foreign_store_is_never_touched() {
    let sound = Sound::new();
    for (sql, foreign) in [
        ("PRAGMA user_version = 99; UPDATE meta SET value = '99' WHERE name = 'schema'", false),
        ("PRAGMA application_id = 7; DROP TABLE meta", true),
    ] {
        let (_dir, project) = sound.copy();
        let conn = Connection::open(project.database()).unwrap();
        conn.execute_batch(sql).unwrap();
        conn.close().unwrap();
        let before = fs::read(project.database()).unwrap();
        let error = Store::open(&project).unwrap_err();
        match error {
            StoreError::Foreign { .. } => assert!(foreign),
            StoreError::Newer { found: 99, .. } => assert!(!foreign),
            other => panic!("{other}"),
        }
        assert_eq!(fs::read(project.database()).unwrap(), before);
        assert_eq!(aside(&project), [""; 0].map(PathBuf::from));
    }
}

#[test]
fn a_write_that_meets_no_damage_mends_nothing() {
    let (_dir, project) = Sound::new().copy();
    assert_eq!(mend(&project).unwrap(), None);
    let store = Database::open(&project).unwrap();
    store.write_tables(Durability::Process, |_| Ok(())).unwrap();
    assert_eq!((store.mended(), aside(&project)), (vec![], vec![]));
}

/// Harms a copy of the store in its sound state and opens it; whatever is lost, that ends.
#[track_caller]
fn opens_in_time(sound: &Sound, what: &str, harm: impl Fn(&mut Vec<u8>)) {
    let (_dir, project) = sound.copy();
    let mut bytes = fs::read(project.database()).unwrap();
    harm(&mut bytes);
    fs::write(project.database(), bytes).unwrap();
    let began = std::time::Instant::now();
    let store = Store::open(&project).unwrap_or_else(|error| panic!("{what}: {error}"));
    let entries = store.journal().read(0, &Stream::Project, usize::MAX).unwrap();
    assert!(entries.len() >= ENTRIES, "{what}: {} entries", entries.len());
    store.journal().append(draft("after")).unwrap();
    store.update_copy().unwrap();
    assert!(began.elapsed() < Duration::from_secs(60), "{what}: {:?}", began.elapsed());
}

/// **Invariant:** No damage keeps a reader busy for ever.
#[test]
fn rows_in_any_order_on_a_page_neither_spin_nor_cost_an_entry() {
    let sound = Sound::new();
    let is_leaf = |bytes: &[u8], page: usize| bytes[page * PAGE] == 0x0d && page > 0;
    for page in 1..sound.pages() {
        // The list of cells follows the header of a page: two bytes each.
        let cells = |bytes: &[u8]| {
            let count = u16::from_be_bytes([bytes[page * PAGE + 3], bytes[page * PAGE + 4]]);
            usize::from(count).min(1000)
        };
        opens_in_time(&sound, &format!("reversed on page {page}"), |bytes| {
            if is_leaf(bytes, page) {
                let (from, count) = (page * PAGE + 8, cells(bytes));
                let mut list: Vec<[u8; 2]> = bytes[from..from + 2 * count]
                    .chunks_exact(2)
                    .map(|cell| [cell[0], cell[1]])
                    .collect();
                list.reverse();
                bytes[from..from + 2 * count].copy_from_slice(&list.concat());
            }
        });
        opens_in_time(&sound, &format!("the first again and again on page {page}"), |bytes| {
            if is_leaf(bytes, page) {
                let (from, count) = (page * PAGE + 8, cells(bytes));
                let first = [bytes[from], bytes[from + 1]];
                bytes[from..from + 2 * count].copy_from_slice(&first.repeat(count));
            }
        });
    }
}

#[test]
fn a_page_that_is_reached_from_itself_or_from_everywhere_is_no_trap() {
    let sound = Sound::new();
    for page in 1..sound.pages() {
        for target in 1..sound.pages() {
            opens_in_time(&sound, &format!("all below {page} is {target}"), |bytes| {
                let start = page * PAGE;
                if bytes[start] != 0x05 {
                    return;
                }
                let to = u32::try_from(target + 1).unwrap().to_be_bytes();
                bytes[start + 8..start + 12].copy_from_slice(&to);
                let count = u16::from_be_bytes([bytes[start + 3], bytes[start + 4]]);
                for cell in 0..usize::from(count) {
                    let at = start + 12 + 2 * cell;
                    let cell = usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
                    bytes[start + cell..start + cell + 4].copy_from_slice(&to);
                }
            });
        }
    }
}

/// **Invariant:** A row that says something else than the copy is found.
#[test]
fn a_row_that_says_something_else_than_the_copy_is_found_and_put_right() {
    let sound = Sound::new();
    let (_dir, project) = sound.copy();
    // A copied project's copy of the journal is another file, which is rewritten first.
    Store::open(&project).unwrap().update_copy().unwrap();
    assert_eq!(Store::examine(&project).unwrap(), None);
    let conn = Connection::open(project.database()).unwrap();
    conn.execute("UPDATE entry SET data = replace(data, 'remark 7 ', 'remark 8 ')", []).unwrap();
    drop(conn);
    let store = Store::open(&project).unwrap();
    assert_eq!(remarks(&store), ENTRIES - 1);
    drop(store);
    let mended = Store::examine(&project).unwrap().unwrap();
    assert_eq!(saved(&mended).lost, 0);
    assert_eq!(remarks(&Store::open(&project).unwrap()), ENTRIES);
    assert_eq!(Store::examine(&project).unwrap(), None);
}
