//! Which of a person's words were used, and by what: kept beside the user's key, out of the project.
//!
//! A word that nobody announced to the Salve that ran is noted here as well, so that none believes it.
//!
//! A yes is good once. The journal says that it was used, but somebody may put the project's `.salve`
//! back as it was before: the yes with its seal is there, and its use is not. So the use is noted here
//! as well, before what was allowed begins, and a word whose use is missing in the journal is history.
//!
//! **Invariant:** a word that was used allows nothing in a journal that does not have its use.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use salve_core::event::Digest;
use serde::{Deserialize, Serialize};

use crate::dirs;

/// The version of a line.
const VERSION: u32 = 1;
/// How long the file may become before its older half is dropped.
const LONGEST: u64 = 4 << 20;

/// A word that was used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UsedWord {
    version: u32,
    /// The word's seal, which is made of the word and its place.
    pub seal: String,
    /// The number of the entry that used it.
    pub used_by: u64,
    /// What that entry says.
    pub digest: Digest,
}

impl UsedWord {
    /// Makes the note that an entry used the word with a seal.
    pub fn new(seal: String, used_by: u64, digest: Digest) -> Self {
        Self { version: VERSION, seal, used_by, digest }
    }

    /// Makes the note that nobody is to believe the word with a seal: no entry has that number.
    pub fn refused(seal: String, digest: Digest) -> Self {
        Self::new(seal, 0, digest)
    }
}

/// The user's note of all words that were used.
#[derive(Debug)]
pub struct UsedWords {
    path: PathBuf,
    /// What the file looked like when it was read last, and what it said.
    known: Option<(FileLook, HashMap<String, UsedWord>)>,
}

/// What tells whether a file was changed.
type FileLook = (u64, u64, i64, i64);

impl UsedWords {
    /// Returns the user's own note; nothing if there is no directory for it.
    pub fn of_user() -> Option<Self> {
        dirs::data().map(|dir| Self::at(dir.join("used-words.jsonl")))
    }

    fn at(path: PathBuf) -> Self {
        Self { path, known: None }
    }

    /// Returns the use of the word with a seal, as it was noted first.
    ///
    /// # Errors
    ///
    /// When there is a note that cannot be read.
    pub fn find(&mut self, seal: &str) -> io::Result<Option<UsedWord>> {
        self.read()?;
        Ok(self.known.as_ref().and_then(|(_, words)| words.get(seal)).cloned())
    }

    /// Notes uses of words that were not used before.
    ///
    /// # Errors
    ///
    /// When they cannot be kept.
    pub fn note(&mut self, uses: Vec<UsedWord>) -> io::Result<()> {
        let mut new = Vec::new();
        for word in uses {
            if self.find(&word.seal)?.is_none() {
                serde_json::to_writer(&mut new, &word)?;
                new.push(b'\n');
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        if let Some(dir) = self.path.parent() {
            fs::create_dir_all(dir)?;
        }
        let mut options = OpenOptions::new();
        options.create(true).append(true).mode(0o600).custom_flags(no_follow());
        let mut file = options.open(&self.path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        if file.metadata()?.len() > LONGEST {
            drop_older_half(&file, &self.path)?;
        }
        // After a power cut the journal may have lost the use as well: then nothing was used.
        file.write_all(&new)
    }

    fn read(&mut self) -> io::Result<()> {
        let meta = match fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.known = None;
                return Ok(());
            }
            meta => meta?,
        };
        let look = (meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec());
        if self.known.as_ref().is_none_or(|(known, _)| *known != look) {
            let mut options = OpenOptions::new();
            let file = options.read(true).custom_flags(no_follow()).open(&self.path)?;
            if !file.metadata()?.is_file() {
                return Err(io::Error::other("it is no file"));
            }
            let mut text = Vec::new();
            file.take(2 * LONGEST).read_to_end(&mut text)?;
            // A line that a kill cut short says nothing.
            let lines = text.split(|&byte| byte == b'\n');
            let mut words = HashMap::new();
            for word in lines.filter_map(|line| serde_json::from_slice::<UsedWord>(line).ok()) {
                words.entry(word.seal.clone()).or_insert(word);
            }
            self.known = Some((look, words));
        }
        Ok(())
    }
}

fn no_follow() -> i32 {
    (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed()
}

/// Keeps the newer half of the lines; whoever calls has the lock.
fn drop_older_half(file: &File, path: &Path) -> io::Result<()> {
    let text = fs::read(path)?;
    let half = text.len() / 2;
    let from = memchr::memchr(b'\n', &text[half..]).map_or(text.len(), |end| half + end + 1);
    // It is open for appending: what is written goes to its end, wherever that is.
    file.set_len(0)?;
    let mut file = file;
    file.write_all(&text[from..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_is_noted_once_and_found_by_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("salve/used");
        let [mut one, mut other] = [(); 2].map(|()| UsedWords::at(path.clone()));
        assert_eq!(one.find("a").unwrap(), None);
        let word = |seal: &str, by| UsedWord::new(seal.to_owned(), by, Digest::of(&[b"x"]));
        one.note(vec![word("a", 7), word("b", 7)]).unwrap();
        other.note(vec![word("a", 9), word("c", 9)]).unwrap();
        assert_eq!(other.find("a").unwrap(), Some(word("a", 7)), "the first use counts");
        assert_eq!(one.find("c").unwrap(), Some(word("c", 9)));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_note_that_grew_long_keeps_its_newer_half() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("used");
        let line = |seal: u64| {
            let word = UsedWord::new(format!("{seal:08}"), seal, Digest::of(&[b"x"]));
            serde_json::to_string(&word).unwrap() + "\n"
        };
        let count = LONGEST / line(0).len() as u64 + 2;
        fs::write(&path, (0..count).map(line).collect::<String>()).unwrap();
        let mut words = UsedWords::at(path.clone());
        words.note(vec![UsedWord::new("new".to_owned(), 1, Digest::of(&[b"x"]))]).unwrap();
        assert!(fs::metadata(&path).unwrap().len() < LONGEST * 2 / 3);
        assert!(words.find("new").unwrap().is_some());
        assert!(words.find(&format!("{:08}", count - 1)).unwrap().is_some());
        assert!(words.find("00000000").unwrap().is_none());
    }
}
