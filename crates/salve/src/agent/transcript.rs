//! What an agent said and did, kept for people to read later.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use salve_core::agent::Sign;
use salve_core::repair::exit_text;
use salve_core::scrub::Scrubber;

use super::Ending;
use crate::files::{make_directories, open_to_append};

/// How much is kept of what the agents of one incident say.
const MOST_BYTES: u64 = 512 << 10;

/// Where the words of an agent are kept.
#[derive(Clone, Debug)]
pub struct TranscriptPlace {
    /// The file; what earlier agents of the incident said stays in it.
    pub path: PathBuf,
    /// What stands above them: which attempt, and whose.
    pub heading: String,
}

/// The file that an agent's words go to, without secrets.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    /// Nothing if there is no file, it is full, or it could not be written.
    file: Option<File>,
    left: u64,
}

impl Transcript {
    /// Opens the file of a run; a run whose words cannot be kept goes on without.
    pub(super) fn open(place: Option<&TranscriptPlace>, scrubber: &Scrubber) -> Self {
        let file = place.and_then(|place| {
            make_directories(place.path.parent()?).ok()?;
            open_to_append(&place.path, 0o666).ok()
        });
        let length = file.as_ref().and_then(|file| Some(file.metadata().ok()?.len()));
        let left = MOST_BYTES.saturating_sub(length.unwrap_or(0));
        let mut transcript = Self { file: file.filter(|_| left > 0), left };
        if let Some(place) = place {
            transcript.write("", &place.heading, scrubber);
        }
        transcript
    }

    /// Keeps what a line of the agent's output says.
    pub(super) fn hear(&mut self, sign: &Sign, scrubber: &Scrubber) {
        match sign {
            Sign::Said(text) => self.write("said: ", text, scrubber),
            Sign::Used { tool } => self.write("used: ", tool, scrubber),
            Sign::Trouble { text, .. } => self.write("trouble: ", text, scrubber),
            Sign::Retry { text, .. } => self.write("waits: ", text, scrubber),
            Sign::Result { text, .. } => self.write("last word: ", text, scrubber),
            Sign::Session { .. } | Sign::Spent(_) => {}
        }
    }

    /// Keeps how the run ended.
    pub(super) fn end(&mut self, ending: &Ending, scrubber: &Scrubber) {
        let text = format!("after {:.1} s, {}", ending.took.as_secs_f64(), exit_text(&ending.exit));
        self.write("ended: ", &text, scrubber);
    }

    fn write(&mut self, word: &str, text: &str, scrubber: &Scrubber) {
        let Some(file) = &mut self.file else { return };
        let at = Timestamp::now().to_zoned(TimeZone::system());
        let text = scrubber.scrub(text.trim());
        let mut line = format!("{} {word}{}\n", at.strftime("%H:%M:%S"), indented(text.as_str()));
        if line.len() as u64 > self.left {
            line = "(the rest is not kept)\n".to_owned();
            self.left = 0;
        }
        let is_kept = file.write_all(line.as_bytes()).is_ok();
        self.left = self.left.saturating_sub(line.len() as u64);
        if !is_kept || self.left == 0 {
            self.file = None;
        }
    }
}

/// Returns a text whose further lines cannot be taken for lines of their own.
fn indented(text: &str) -> String {
    text.replace('\n', "\n         ")
}

#[cfg(test)]
mod tests {
    use salve_core::scrub::ScrubKey;

    use super::*;

    fn said(text: &str) -> Sign {
        Sign::Said(text.to_owned())
    }

    #[test]
    fn words_are_kept_without_secrets_and_within_bounds() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".salve/healing-attempts/0a1b2c3d.agent.log");
        let place = TranscriptPlace { path: path.clone(), heading: "attempt 1: claude".to_owned() };
        let scrubber = Scrubber::new(ScrubKey::new([7; 32]));
        let mut transcript = Transcript::open(Some(&place), &scrubber);
        transcript.hear(&said("two\nlines ghp_16C7e42F292c6912E7710c838347Ae178B4a"), &scrubber);
        transcript.hear(&Sign::Used { tool: "Edit".to_owned() }, &scrubber);
        let kept = std::fs::read_to_string(&path).unwrap();
        assert!(kept.contains("attempt 1: claude\n"), "{kept}");
        assert!(kept.contains("said: two\n         lines "), "{kept}");
        assert!(kept.contains("used: Edit\n") && !kept.contains("ghp_16C7"), "{kept}");
        // What comes later is kept as long as there is room, and the room has an end.
        for attempt in 0..40 {
            let mut next = Transcript::open(Some(&place), &scrubber);
            next.hear(&said(&"x".repeat(20_000 + attempt)), &scrubber);
        }
        let kept = std::fs::metadata(&path).unwrap().len();
        assert!(kept > MOST_BYTES - 20_100 && kept <= MOST_BYTES + 30, "{kept}");
        let kept = std::fs::read_to_string(&path).unwrap();
        assert!(kept.contains("(the rest is not kept)\n"));
        Transcript::open(None, &scrubber).hear(&said("nowhere"), &scrubber);
    }
}
