//! What was taken from `CONTROL.md`, so that no word is taken twice.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::PathBuf;

use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use salve_core::control::{Control, Word};
use serde::{Deserialize, Serialize};

use super::{ControlError, changed};
use crate::atomic::WriteError;
use crate::project::Project;

/// What was taken from the file, kept so that nothing is taken twice.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Taken {
    version: u32,
    words: Vec<String>,
}

/// What was taken so far, held for one Salve at a time.
pub(super) struct Record {
    file: File,
    path: PathBuf,
    pub(super) words: Vec<Word>,
    /// When it was written.
    pub(super) written: Timestamp,
}

impl Record {
    pub(super) fn open(project: &Project) -> Result<Self, ControlError> {
        let path = project.state_dir().join("control.lock");
        let wrong = |source: io::Error| ControlError::Read { path: path.clone(), source };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(wrong)?;
        flock(&file, FlockOperation::LockExclusive).map_err(|error| wrong(error.into()))?;
        let written = file.metadata().map_err(wrong).map(|meta| changed(&meta))?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(wrong)?;
        // What cannot be read is as good as nothing: words act again rather than never.
        let taken: Taken = serde_json::from_str(&text).unwrap_or_default();
        let words = taken.words.iter().filter_map(|word| Word::parse(word)).collect();
        Ok(Self { file, path, words, written })
    }

    /// Writes down what was taken: all but what was refused.
    pub(super) fn keep(
        &mut self,
        control: &Control,
        refused: &[Word],
        lifted: bool,
    ) -> Result<(), ControlError> {
        let mut words = control.words();
        for word in refused {
            match lifted && *word == Word::Pause {
                true => words.push(Word::Pause),
                false => {
                    if let Some(at) = words.iter().rposition(|known| known == word) {
                        words.remove(at);
                    }
                }
            }
        }
        if words == self.words {
            return Ok(());
        }
        let taken = Taken { version: 1, words: words.iter().map(ToString::to_string).collect() };
        let text = serde_json::to_vec(&taken).unwrap_or_default();
        let file = &mut self.file;
        let written =
            file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(&text));
        written.map_err(|source| WriteError::new(&self.path, source))?;
        self.words = words;
        Ok(())
    }
}
