//! What a piece of long work writes, for whoever shows that it goes on.
//!
//! A remedy's words are its own output, for as long as it runs. An agent's are what it says and
//! which tools it uses; they are also kept on disk if somebody asked for that.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use salve_core::scrub::Scrubber;

use super::{Capture, Logs, Outlet, OutputSide, OutputStyle};
use crate::process::lock;

/// How many lines of an agent's words are at hand.
const WORDS: usize = 200;

/// Where the output of the work under way is found; its copies share it.
#[derive(Clone, Debug, Default)]
pub struct WorkOutput(Arc<Mutex<WorkUnderWay>>);

#[derive(Debug, Default)]
struct WorkUnderWay {
    /// What the command under way writes.
    command: Weak<Capture>,
    /// What the agent under way says.
    agent: Option<Arc<Capture>>,
    /// Where agents' words are kept, and how they are scrubbed.
    place: Option<(PathBuf, Scrubber)>,
}

/// What one agent says, until it is dropped.
#[derive(Debug)]
pub struct AgentWords {
    work: WorkOutput,
    words: Arc<Capture>,
    _log: Option<Logs>,
}

impl WorkOutput {
    /// Returns one that keeps what agents say in a file.
    pub fn keeping_words(path: &Path, scrubber: &Scrubber) -> Self {
        let work = Self::default();
        lock(&work.0).place = Some((path.to_path_buf(), scrubber.clone()));
        work
    }

    /// Takes over the output of a command that begins.
    pub fn follow(&self, capture: &Arc<Capture>) {
        lock(&self.0).command = Arc::downgrade(capture);
    }

    /// Begins to take in what an agent says.
    pub fn begin_words(&self) -> AgentWords {
        let words = Capture::new(Arc::new(Outlet::none()), OutputStyle::Plain).with_lines(WORDS);
        let words = Arc::new(words);
        let mut under_way = lock(&self.0);
        let log = under_way.place.as_ref().and_then(|(path, scrubber)| {
            let (dir, name) = (path.parent()?, path.file_stem()?.to_str()?);
            let agents = vec![(name.to_owned(), Arc::clone(&words))];
            // An agent works without its words being kept, as a server does.
            Logs::start(dir.to_path_buf(), agents, scrubber.clone(), |_, _| {}).ok()
        });
        under_way.agent = Some(Arc::clone(&words));
        words.mark_start();
        AgentWords { work: self.clone(), words, _log: log }
    }

    /// Returns the last line that the work under way wrote, without spaces around it.
    pub fn last_line(&self) -> Option<String> {
        let tail = self.tail()?;
        let last = tail.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
        // What a line that redraws itself shows in the end is behind its last return.
        last.rsplit('\r').next().map(str::to_owned)
    }

    /// Returns the last lines that the work under way wrote; nothing if none is.
    pub fn tail(&self) -> Option<String> {
        let under_way = lock(&self.0);
        let command = under_way.command.upgrade();
        command.or_else(|| under_way.agent.clone()).map(|capture| capture.tail())
    }
}

impl AgentWords {
    /// Takes in what the agent said.
    pub fn say(&self, text: &str) {
        for line in text.lines() {
            self.words.keep(OutputSide::Out, format!("{line}\n").as_bytes());
        }
    }
}

impl Drop for AgentWords {
    fn drop(&mut self) {
        let mut under_way = lock(&self.work.0);
        let is_last = |words: &Arc<Capture>| Arc::ptr_eq(words, &self.words);
        // Another one may have begun meanwhile.
        if under_way.agent.as_ref().is_some_and(is_last) {
            under_way.agent = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use salve_core::scrub::ScrubKey;

    use super::*;

    #[test]
    fn an_agents_words_are_at_hand_while_it_works_and_kept_without_secrets() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("agent.log");
        let scrubber = Scrubber::new(ScrubKey::new([7; 32]));
        let work = WorkOutput::keeping_words(&path, &scrubber);
        assert_eq!(work.tail(), None);
        let words = work.begin_words();
        assert_eq!(work.last_line(), None, "it has not said anything");
        words.say("I read the log.\n\nThe key is AKIAQYLPMN5HHHFPZAM2\n");
        words.say("uses Edit");
        assert_eq!(work.last_line().as_deref(), Some("uses Edit"));
        assert!(work.tail().unwrap().starts_with("I read the log.\n"));
        let other = work.begin_words();
        other.say("Another one");
        drop(words);
        assert_eq!(work.last_line().as_deref(), Some("Another one"));
        drop(other);
        assert_eq!(work.tail(), None);
        let kept = std::fs::read_to_string(&path).unwrap();
        assert!(kept.contains("started at") && kept.contains("I read the log.\n"), "{kept}");
        assert!(kept.contains("uses Edit\n") && kept.contains("Another one\n"), "{kept}");
        assert!(!kept.contains("AKIAQYLPMN5HHHFPZAM2"), "{kept}");
    }

    #[test]
    fn what_a_command_writes_comes_first_for_as_long_as_it_runs() {
        let work = WorkOutput::default();
        let words = work.begin_words();
        words.say("I wait");
        let capture =
            Arc::new(Capture::new(Arc::new(Outlet::none()), OutputStyle::Plain).with_lines(9));
        capture.keep(OutputSide::Out, b"added 1 package\r\x1b[Kadded 2 packages\n");
        work.follow(&capture);
        assert_eq!(work.last_line().as_deref(), Some("\x1b[Kadded 2 packages"));
        drop(capture);
        assert_eq!(work.last_line().as_deref(), Some("I wait"));
    }
}
