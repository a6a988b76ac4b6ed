//! Keys that `salve dev` hears where its servers have no terminal of their own, and `salve heal` while
//! it asks.
//!
//! None is ever needed: each stands for a command that another terminal takes as well. A server
//! that waits for keys itself has them first, as it would without Salve.

use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use salve_core::event::{Actor, SubjectKind};
use salve_core::id::IncidentId;
use salve_core::incident::Phase;
use salve_core::view::IncidentView;

use super::super::foundation::Foundation;
use super::super::terminal_reporter::{Colours, Grade, TerminalLine, window_width};
use super::super::{CliError, answer};
use super::ears;
use super::key_filter::KeyFilter;
use crate::files::{FileKind, read_text};
use crate::heal::inbox::{InboxMessage, NewsSender};
use crate::heal::people::{self, PersonAnswer, PersonWord};
use crate::process::{Outlet, WorkOutput, spawn_thread};
use crate::project::Project;
use crate::reading::open_incidents;
use crate::store::Store;
use crate::subjects::server::ServerNews;

/// What the keys do.
const HELP: &str = "a approve · r reject · l last crash, or what an agent or a remedy writes · \
                    p pause healing, or go on · Ctrl-C end";

/// How many incidents back one looks for a question.
const LOOKED_BACK: usize = 200;

/// How many lines of a log are shown.
const LINES: usize = 30;

/// Who hears the keys.
pub(in crate::cli) struct Keys {
    project: Project,
    outlet: Arc<Outlet>,
    /// What the work under way writes.
    work: WorkOutput,
    /// Where a pause is asked for, if it can be.
    post: Option<Sender<InboxMessage>>,
    /// The person at the terminal.
    by: Actor,
    asked: Asked,
}

/// What a yes or a no is about.
#[derive(Clone, Debug)]
pub(in crate::cli) enum Asked {
    /// Whatever was asked last about a server.
    LatestOfServers,
    /// What this run asked last.
    Here(Arc<Mutex<Option<IncidentId>>>),
}

/// Keys that nobody hears before something is asked: until then what is typed is for the shell.
pub(in crate::cli) struct KeysOnceAsked {
    keys: Option<Keys>,
    asked: Arc<Mutex<Option<IncidentId>>>,
}

impl KeysOnceAsked {
    /// Returns keys for the person at the terminal.
    pub(in crate::cli) fn new(foundation: &Foundation<'_>, by: &Actor) -> Self {
        let asked = Arc::default();
        let keys = Keys::new(foundation, by, Asked::Here(Arc::clone(&asked)));
        Self { keys: Some(keys), asked }
    }

    /// Takes in what is asked now, and begins to listen.
    pub(in crate::cli) fn ask(&mut self, incident: IncidentId) {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Some(incident);
        if let Some(keys) = self.keys.take() {
            keys.hear();
        }
    }
}

/// What somebody says to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyAnswer {
    Yes,
    No,
}

impl Keys {
    /// Returns one who hears what `by` types.
    pub(in crate::cli) fn new(foundation: &Foundation<'_>, by: &Actor, asked: Asked) -> Self {
        let (project, work) = (foundation.project.clone(), foundation.work.clone());
        let outlet = Arc::clone(&foundation.outlet);
        Self { project, outlet, work, post: None, by: by.clone(), asked }
    }

    /// Returns it asking there for a pause when it is wanted.
    #[must_use]
    pub(in crate::cli) fn pausing(self, post: Sender<InboxMessage>) -> Self {
        Self { post: Some(post), ..self }
    }

    /// Begins to listen.
    pub(in crate::cli) fn hear(self) {
        let mut filter = KeyFilter::default();
        ears::each_key(move |read| {
            if let Some(key) = filter.pressed(read, Instant::now()) {
                self.pressed(key);
            }
        });
    }

    /// Begins to listen to the keys that no server waits for.
    pub(super) fn hear_the_rest(self, news: &NewsSender<ServerNews>) {
        let (otherwise, unheard) = mpsc::channel::<Vec<u8>>();
        spawn_thread("unheard keys", move || {
            let mut filter = KeyFilter::default();
            for read in unheard {
                if let Some(key) = filter.pressed(&read, Instant::now()) {
                    self.pressed(key);
                }
            }
        });
        let news = news.clone();
        ears::each_key(move |keys| {
            let (keys, otherwise) = (keys.to_vec(), otherwise.clone());
            // Nobody is left to type for when the servers are gone.
            let _ = news.send(ServerNews::TypedFor { keys, otherwise });
        });
    }

    fn pressed(&self, key: u8) {
        let done = match key {
            b'a' => self.answer(KeyAnswer::Yes),
            b'r' => self.answer(KeyAnswer::No),
            b'l' => Ok(self.log()),
            b'p' => {
                if let Some(post) = &self.post {
                    // Nobody is left to tell when the servers are gone.
                    let _ = post.send(InboxMessage::Pause(self.by.clone()));
                }
                return;
            }
            b'?' => Ok(TerminalLine::new(Grade::News, "keys", HELP)),
            _ => return,
        };
        let line =
            done.unwrap_or_else(|error| TerminalLine::new(Grade::News, "note", error.to_string()));
        let line = line.fitted(window_width());
        self.outlet.say(&line.show(Colours::on(&std::io::stderr())));
    }

    /// Answers the question that was asked last.
    fn answer(&self, answer: KeyAnswer) -> Result<TerminalLine, CliError> {
        let store = Store::open(&self.project)?;
        let asked = match &self.asked {
            Asked::LatestOfServers => latest_of_servers(&store)?,
            Asked::Here(asked) => *asked.lock().unwrap_or_else(PoisonError::into_inner),
        };
        let Some(id) = asked else {
            return Ok(TerminalLine::new(Grade::News, "note", "nothing is asked"));
        };
        let word = match answer {
            KeyAnswer::Yes => PersonWord::Approve(PersonAnswer::default()),
            KeyAnswer::No => PersonWord::Reject(PersonAnswer::default()),
        };
        let taken = people::speak(store.journal(), id, &self.by, word)
            .map_err(|error| answer::refused(id, error))?;
        if taken.starts_server {
            let text = format!("the server starts again  heal-{}", id.short());
            return Ok(TerminalLine::new(Grade::Good, "yes", text));
        }
        let verb = match answer {
            KeyAnswer::Yes => "approved",
            KeyAnswer::No => "rejected",
        };
        Ok(TerminalLine::new(Grade::Good, verb, format!("heal-{}", id.short())))
    }

    /// Returns what is being written while somebody works, else what is known of the last crash.
    fn log(&self) -> TerminalLine {
        let Some(text) = self.work.tail() else { return self.last_crash() };
        let lines: Vec<&str> = text.lines().collect();
        let last = &lines[lines.len().saturating_sub(LINES)..];
        let text = if last.is_empty() { "nothing yet".to_owned() } else { last.join("\n") };
        TerminalLine::new(Grade::News, "log", text)
    }

    /// Returns what is known of the last crash.
    fn last_crash(&self) -> TerminalLine {
        let path = self.project.root().join(".dev-crash.log");
        match read_text(&path, FileKind::Document) {
            Ok(text) => {
                let lines: Vec<&str> = text.lines().take(LINES).collect();
                TerminalLine::new(Grade::News, "crash", lines.join("\n"))
            }
            Err(_) => TerminalLine::new(Grade::News, "crash", "there was none"),
        }
    }
}

/// Returns the server's incident that asks something, the latest of several.
fn latest_of_servers(store: &Store) -> Result<Option<IncidentId>, CliError> {
    let asks = |view: &IncidentView| {
        let cools = matches!(view.incident().phase(), Phase::CoolingDown { .. });
        view.subject().kind == SubjectKind::Server && (cools || view.open_question().is_some())
    };
    let open = open_incidents(store.journal(), LOOKED_BACK)?;
    Ok(open.iter().find(|view| asks(view)).map(IncidentView::id))
}
