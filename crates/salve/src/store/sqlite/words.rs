//! People's words in the journal: let in by those they are for, sealed, and judged when read.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use salve_core::event::{Actor, Digest, Entry};

use super::database::Database;
use super::journal::{RawEntry, row_at, words_before};
use crate::door::{self, LetIn, WordStanding};
use crate::seal_keys::{SealKeys, SealWorth};
use crate::store::StoreError;
use crate::used_words::{UsedWord, UsedWords};

/// What rows need that carry people's words: the keys, and that they were let in.
#[derive(Debug)]
pub(super) struct WordPass {
    keys: SealKeys,
    _let_in: LetIn,
}

impl WordPass {
    /// Seals a row for its place in the journal.
    pub(super) fn seal(&self, row: &RawEntry, seq: u64) -> Option<String> {
        let content = row.sealed_content(seq)?;
        self.keys.seal(content).map(|seal| seal.to_string())
    }
}

/// Judges who is believed to have said what stands in the journal.
#[derive(Debug)]
pub(super) struct WordJudge {
    database: Arc<Database>,
    /// The user's keys as they were read last.
    keys: RefCell<Option<SealKeys>>,
    sealed_from: Cell<Option<SealStart>>,
    used: RefCell<Option<UsedWords>>,
}

/// Where seals begin in a file, as far as it was looked up.
#[derive(Clone, Copy, Debug)]
struct SealStart {
    /// Which opening of the file that was.
    opening: u32,
    /// From which entry on words bear seals.
    seq: u64,
}

impl WordJudge {
    /// Judges the words of a database's journal.
    pub(super) fn new(database: &Arc<Database>) -> Self {
        let database = Arc::clone(database);
        let used = RefCell::new(UsedWords::of_user());
        Self { database, keys: RefCell::new(None), sealed_from: Cell::new(None), used }
    }

    /// Notes, outside of the project, which words the entries use that were just written: what begins
    /// in an incident uses all that people granted there before. Nothing has begun yet.
    pub(super) fn note_uses(&self, rows: &[RawEntry], first: u64) -> Result<(), StoreError> {
        let mut uses = Vec::new();
        for (seq, row) in (first..).zip(rows) {
            if let Some(incident) = row.begins_in() {
                let words = self.database.read_tables(|tx| words_before(tx, incident, seq))?;
                let used = |seal| UsedWord::new(seal, seq, row.use_digest(seq));
                uses.extend(words.into_iter().map(used));
            }
        }
        if let Some(used) = self.used.borrow_mut().as_mut().filter(|_| !uses.is_empty()) {
            // Without the note, the journal alone says that they were used.
            let _ = used.note(uses);
        }
        Ok(())
    }

    /// Notes that nobody announced a word while its Salve ran: no other one believes it either.
    fn refuse(&self, row: &RawEntry) {
        let refused = |seal: &str| UsedWord::refused(seal.to_owned(), row.use_digest(row.seq));
        let refused = row.seal().map(refused);
        if let (Some(used), Some(word)) = (self.used.borrow_mut().as_mut(), refused) {
            // Without the note it is this Salve alone that does not believe it.
            let _ = used.note(vec![word]);
        }
    }

    /// Returns whether a word was used, and its use does not stand in this journal: then the journal is
    /// from before it, put back by somebody.
    fn is_from_before_its_use(&self, seal: &str) -> Result<bool, StoreError> {
        let found = match self.used.borrow_mut().as_mut().map(|used| used.find(seal)) {
            // Whoever can make it unreadable could remove it as well.
            None | Some(Ok(None) | Err(_)) => return Ok(false),
            Some(Ok(Some(found))) => found,
        };
        let row = self.database.read_tables(|tx| row_at(tx, found.used_by))?;
        Ok(row.is_none_or(|row| row.use_digest(found.used_by) != found.digest))
    }

    /// Has the words of people among `rows` let in; nothing if there are none.
    pub(super) fn let_in(&self, rows: &[RawEntry]) -> Result<Option<WordPass>, StoreError> {
        let words: Vec<Digest> = rows.iter().filter_map(RawEntry::word).collect();
        if words.is_empty() {
            return Ok(None);
        }
        let let_in = door::announce(self.database.project().root(), &words)?;
        Ok(Some(WordPass { keys: SealKeys::of_user()?, _let_in: let_in }))
    }

    /// Returns the entry with who says so as far as it is believed.
    pub(super) fn judged(&self, row: &RawEntry, mut entry: Entry) -> Result<Entry, StoreError> {
        let Actor::Person { name } = &entry.by else { return Ok(entry) };
        let name = name.clone();
        // JSON has several spellings of one name; only the one that Salve writes is sealed.
        let Some(word) = row.word() else {
            entry.by = Actor::Forged { name };
            return Ok(entry);
        };
        let worth = match (&entry.seal, row.sealed_content(entry.seq)) {
            (Some(seal), Some(content)) => self.worth(seal, content),
            (Some(_), None) => SealWorth::Wrong,
            (None, _) if entry.seq < self.sealed_from()? => SealWorth::OfOldKey,
            (None, _) => SealWorth::Wrong,
        };
        let standing = door::standing(self.database.project().root(), word, entry.seq);
        if (worth, standing) == (SealWorth::Holds, WordStanding::Unannounced) {
            self.refuse(row);
        }
        entry.by = match (worth, standing) {
            (SealWorth::Holds, WordStanding::NotOurs | WordStanding::Announced) => {
                let seal = row.seal();
                if !seal.map_or(Ok(false), |seal| self.is_from_before_its_use(seal))? {
                    return Ok(entry);
                }
                Actor::Unproven { name }
            }
            (SealWorth::OfOldKey, WordStanding::NotOurs | WordStanding::Announced) => {
                Actor::Unproven { name }
            }
            (SealWorth::Wrong, _) | (_, WordStanding::Unannounced) => Actor::Forged { name },
        };
        Ok(entry)
    }

    fn worth(&self, seal: &salve_core::event::Seal, content: Digest) -> SealWorth {
        let known = self.keys.borrow().as_ref().map(|keys| keys.worth(seal, content));
        match known {
            // An old key may have become one meanwhile, and an unknown one known.
            Some(SealWorth::Holds) => SealWorth::Holds,
            Some(SealWorth::OfOldKey | SealWorth::Wrong) | None => {
                // Without keys nothing is believed.
                let keys = SealKeys::of_user().ok();
                let worth = keys.as_ref().map(|keys| keys.worth(seal, content));
                *self.keys.borrow_mut() = keys;
                worth.unwrap_or(SealWorth::Wrong)
            }
        }
    }

    /// Returns the number of the first entry from which on every word has to bear a seal.
    fn sealed_from(&self) -> Result<u64, StoreError> {
        let opening = self.database.openings();
        if let Some(known) = self.sealed_from.get().filter(|known| known.opening == opening) {
            return Ok(known.seq);
        }
        let seq = self.database.read_tables(|tx| {
            let sql = "SELECT min(coalesce((SELECT CAST(value AS INTEGER) FROM meta \
                       WHERE name = 'sealed_from'), 1), \
                       coalesce((SELECT min(seq) FROM entry WHERE seal IS NOT NULL), ?1))";
            tx.prepare_cached(sql)?.query_row([i64::MAX], |row| row.get::<_, u64>(0))
        })?;
        self.sealed_from.set(Some(SealStart { opening, seq }));
        Ok(seq)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use rusqlite::Connection;
    use salve_core::event::{Draft, Event, NoteEvent};
    use salve_core::scrub::Scrubbed;

    use super::*;
    use crate::door::Door;
    use crate::project::Project;
    use crate::store::{Store, Stream};

    fn word(text: &'static str) -> Draft {
        let event = Event::Note(NoteEvent::Noted { text: Scrubbed::literal(text) });
        let by = Actor::Person { name: Scrubbed::literal("ada") };
        Draft { at: Timestamp::now(), by, incident: None, event }
    }

    fn project() -> (tempfile::TempDir, Project) {
        let dir = tempfile::tempdir().unwrap();
        let project = Project::at(dir.path()).unwrap();
        (dir, project)
    }

    fn sql(project: &Project, sql: &str) {
        Connection::open(project.database()).unwrap().execute_batch(sql).unwrap();
    }

    fn speakers(project: &Project) -> Vec<&'static str> {
        let entries = Store::open(project).unwrap().journal().read(0, &Stream::Project, 99);
        let name = |by: &Actor| match by {
            Actor::Person { .. } => "person",
            Actor::Unproven { .. } => "unproven",
            Actor::Forged { .. } => "forged",
            Actor::Salve(_) | Actor::Agent { .. } => "other",
        };
        entries.unwrap().iter().map(|entry| name(&entry.by)).collect()
    }

    const COPY: &str = "INSERT INTO entry (at, by, incident, kind, version, data, seal) \
                        SELECT at, by, incident, kind, version, data, seal FROM entry WHERE seq = 1";

    /// **Invariant:** A person's word without a seal that holds at its very place is believed by
    /// nobody.
    #[test]
    fn a_word_is_believed_with_its_seal_at_its_place_only() {
        for (harm, want) in [
            ("", &["person", "person"][..]),
            (COPY, &["person", "person", "forged"]),
            ("UPDATE entry SET seal = NULL WHERE seq = 2", &["person", "forged"]),
            ("UPDATE entry SET data = '{\"text\":\"no\"}' WHERE seq = 2", &["person", "forged"]),
            ("UPDATE entry SET at = at + 1 WHERE seq = 2", &["person", "forged"]),
            ("UPDATE entry SET seal = 'x' WHERE seq = 2", &["person", "forged"]),
            (
                "UPDATE entry SET by = '{\"person\":{\"name\":\"eve\"}}' WHERE seq = 2",
                &["person", "forged"],
            ),
            // Another spelling of the same is another word.
            (
                "UPDATE entry SET by = ' {\"person\":{\"name\":\"ada\"}}' WHERE seq = 2",
                &["person", "forged"],
            ),
        ] {
            let (_dir, project) = project();
            let store = Store::open(&project).unwrap();
            store.journal().append_all(vec![word("yes"), word("yes again")]).unwrap();
            sql(&project, harm);
            assert_eq!(speakers(&project), want, "{harm}");
        }
    }

    #[test]
    fn words_from_before_seals_are_history_until_the_first_sealed_one() {
        let (_dir, project) = project();
        let store = Store::open(&project).unwrap();
        store.journal().append_all(vec![word("old"), word("older")]).unwrap();
        sql(
            &project,
            "UPDATE entry SET seal = NULL; UPDATE meta SET value = '99' WHERE name = 'sealed_from'",
        );
        assert_eq!(speakers(&project), ["unproven", "unproven"]);
        store.journal().append_all(vec![word("new"), word("newer")]).unwrap();
        sql(&project, "UPDATE entry SET seal = NULL WHERE seq = 4");
        assert_eq!(speakers(&project), ["unproven", "unproven", "person", "forged"]);
    }

    /// **Invariant:** A Salve that runs believes no word that was not announced to it, though its
    /// seal holds.
    #[test]
    fn a_word_that_nobody_announced_is_not_believed_while_the_door_is_open() {
        let (_dir, project) = project();
        let store = Store::open(&project).unwrap();
        store.journal().append(word("before")).unwrap();
        let door = Door::open(&project, || store.journal().last_seq()).unwrap();
        store.journal().append(word("announced")).unwrap();
        assert_eq!(speakers(&project), ["person", "person"]);
        // Somebody who knows the key writes a row of their own.
        let row = RawEntry::of(&word("by the key alone"));
        let seal = SealKeys::of_user().unwrap().seal(row.sealed_content(3).unwrap()).unwrap();
        let conn = Connection::open(project.database()).unwrap();
        let tx = conn.unchecked_transaction().unwrap();
        row.with_seal(Some(seal.into())).insert(&tx, 3).unwrap();
        tx.commit().unwrap();
        assert_eq!(speakers(&project), ["person", "person", "forged"]);
        drop(door);
        assert_eq!(speakers(&project), ["person", "person", "unproven"], "later neither");
    }
}
