//! What was taken from `CONTROL.md`, so that no word is taken twice.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::PathBuf;

use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use salve_core::control::{Control, ControlWord, KnownWord, Said, WordFate};
use serde::{Deserialize, Serialize};

use super::{ControlError, Lift, changed};
use crate::atomic::WriteError;
use crate::files::{self, FileKind};
use crate::project::Project;

/// What was taken from the file, kept so that nothing is taken twice.
#[derive(Debug, Default, Serialize, Deserialize)]
struct TakenWords {
    version: u32,
    words: Vec<String>,
    /// The places of words that were refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    refused: Vec<usize>,
}

/// What was taken so far, held for one Salve at a time.
pub(super) struct ControlRecord {
    file: File,
    path: PathBuf,
    pub(super) words: Vec<KnownWord>,
    /// When it was written.
    pub(super) written: Timestamp,
}

impl ControlRecord {
    pub(super) fn open(project: &Project) -> Result<Self, ControlError> {
        let path = project.state_dir().join("control.lock");
        let wrong = |source: io::Error| ControlError::Read { path: path.clone(), source };
        let mut file = files::open_lock(&path).map_err(wrong)?;
        flock(&file, FlockOperation::LockExclusive).map_err(|error| wrong(error.into()))?;
        let written = file.metadata().map_err(wrong).map(|meta| changed(&meta))?;
        let mut text = String::new();
        (&mut file).take(FileKind::Settings.limit()).read_to_string(&mut text).map_err(wrong)?;
        // What cannot be read is as good as nothing: words act again rather than never.
        let taken: TakenWords = serde_json::from_str(&text).unwrap_or_default();
        let known = |(at, word): (usize, &String)| {
            let fate =
                if taken.refused.contains(&at) { WordFate::Refused } else { WordFate::Taken };
            Some(KnownWord { word: ControlWord::parse(word)?, fate })
        };
        let words = taken.words.iter().enumerate().filter_map(known).collect();
        Ok(Self { file, path, words, written })
    }

    /// Writes down what the file says, and what of it was refused: words, by their lines, and that a
    /// PAUSE was taken away, which then still counts as there.
    pub(super) fn keep(
        &mut self,
        control: &Control,
        refused: &[usize],
        lift: Option<Lift>,
    ) -> Result<(), ControlError> {
        let known = |said: &Said| {
            let fate =
                if refused.contains(&said.line) { WordFate::Refused } else { WordFate::Taken };
            KnownWord { word: said.word, fate }
        };
        let mut words: Vec<KnownWord> = control.said.iter().map(known).collect();
        match lift {
            Some(Lift::Refused) => {
                words.push(KnownWord { word: ControlWord::Pause, fate: WordFate::Taken })
            }
            Some(Lift::Taken) | None => {}
        }
        if words == self.words {
            return Ok(());
        }
        let is_refused = |(at, known): (usize, &KnownWord)| match known.fate {
            WordFate::Refused => Some(at),
            WordFate::Taken => None,
        };
        let taken = TakenWords {
            version: 1,
            words: words.iter().map(|known| known.word.to_string()).collect(),
            refused: words.iter().enumerate().filter_map(is_refused).collect(),
        };
        let text = serde_json::to_vec(&taken).unwrap_or_default();
        let file = &mut self.file;
        let written =
            file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(&text));
        written.map_err(|source| WriteError::new(&self.path, source))?;
        self.words = words;
        Ok(())
    }
}
