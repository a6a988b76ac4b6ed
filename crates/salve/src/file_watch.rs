//! Tells when files of a project change, as far as git would look at them.
//!
//! Every directory that is not ignored is watched by itself: a recursive watch would spend a
//! kernel's watches on `node_modules`. What editors and servers leave in passing is no change; see
//! [`salve_core::server::is_edit`].

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use ignore::WalkBuilder;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use salve_core::server::{is_edit, is_watched_dir};

/// How long it has to be quiet before a change is told: one save is several events.
const QUIET: Duration = Duration::from_millis(120);

/// How long a change that never comes to rest is held back at most.
const LONGEST: Duration = Duration::from_secs(1);

/// How many directories are watched at most.
const MOST_DIRS: usize = 8_192;

/// A watch over the files of a project, which ends when it is dropped.
#[derive(Debug)]
pub struct FileWatch {
    ending: Sender<WatchMessage>,
}

/// What the thread that watches hears.
enum WatchMessage {
    /// Something happened to a file.
    Seen(Event),
    /// Nobody wants to know any more.
    End,
}

impl Drop for FileWatch {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.ending.send(WatchMessage::End);
    }
}

impl FileWatch {
    /// Begins to watch; `tell` gets the files that changed, or why they cannot be watched.
    pub fn start(
        root: &Path,
        tell: impl Fn(Result<Vec<PathBuf>, String>) + Send + 'static,
    ) -> Self {
        let (ending, messages) = mpsc::channel();
        let (events, root) = (ending.clone(), root.to_path_buf());
        let watch = move || {
            let on_event = move |event: notify::Result<Event>| {
                // What cannot be read is no change; nobody listens once the watch is over.
                let _ = event.map(|event| events.send(WatchMessage::Seen(event)));
            };
            match notify::recommended_watcher(on_event) {
                Ok(watcher) => WatchedTree::new(root, watcher).watch(&messages, &tell),
                Err(error) => tell(Err(error.to_string())),
            }
        };
        let thread = std::thread::Builder::new().name("file watch".to_owned());
        // Without a thread nothing is watched; a person can still start what is down.
        let _ = thread.stack_size(1 << 20).spawn(watch);
        Self { ending }
    }
}

/// The directories that are watched, and what is ignored in them.
struct WatchedTree {
    root: PathBuf,
    watcher: RecommendedWatcher,
    dirs: HashSet<PathBuf>,
    ignored: Vec<Gitignore>,
}

impl WatchedTree {
    fn new(root: PathBuf, watcher: RecommendedWatcher) -> Self {
        let mut exclude = GitignoreBuilder::new(&root);
        exclude.add(root.join(".git/info/exclude"));
        let exclude = exclude.build().unwrap_or_else(|_| Gitignore::empty());
        let (global, _) = GitignoreBuilder::new(&root).build_global();
        Self { root, watcher, dirs: HashSet::new(), ignored: vec![global, exclude] }
    }

    /// Watches until nobody wants to know any more.
    fn watch(
        mut self,
        messages: &Receiver<WatchMessage>,
        tell: &impl Fn(Result<Vec<PathBuf>, String>),
    ) {
        let root = self.root.clone();
        if let Err(error) = self.add(&root) {
            tell(Err(error.to_string()));
        }
        let mut changed: Vec<PathBuf> = Vec::new();
        let mut first: Option<Instant> = None;
        loop {
            let message = match first {
                None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(_) => messages.recv_timeout(QUIET),
            };
            let is_quiet = match message {
                Ok(WatchMessage::Seen(event)) => {
                    self.take(event, &mut changed);
                    false
                }
                Err(RecvTimeoutError::Timeout) => true,
                Ok(WatchMessage::End) | Err(RecvTimeoutError::Disconnected) => return,
            };
            if changed.is_empty() {
                continue;
            }
            let since = *first.get_or_insert_with(Instant::now);
            if is_quiet || since.elapsed() >= LONGEST {
                tell(Ok(std::mem::take(&mut changed)));
                first = None;
            }
        }
    }

    /// Takes in what happened to files.
    fn take(&mut self, event: Event, changed: &mut Vec<PathBuf>) {
        let is_change = match event.kind {
            EventKind::Create(_) | EventKind::Modify(_) | EventKind::Remove(_) => true,
            EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
            EventKind::Access(_) | EventKind::Any | EventKind::Other => false,
        };
        if !is_change {
            return;
        }
        for path in event.paths {
            let is_dir = path.is_dir();
            if self.is_ignored(&path, is_dir) {
                continue;
            }
            if is_dir {
                // What cannot be watched is missed; the rest goes on.
                let _ = self.add(&path);
            } else if !changed.contains(&path) {
                changed.push(path);
            }
        }
    }

    /// Watches a directory and those below it that are not ignored.
    fn add(&mut self, dir: &Path) -> notify::Result<()> {
        let mut walk = WalkBuilder::new(dir);
        walk.hidden(false).require_git(false).follow_links(false);
        walk.filter_entry(|entry| entry.file_name().to_str().is_none_or(is_watched_dir));
        for entry in walk.build().flatten() {
            let is_dir = entry.file_type().is_some_and(|kind| kind.is_dir());
            if !is_dir || self.dirs.len() >= MOST_DIRS || self.dirs.contains(entry.path()) {
                continue;
            }
            self.watcher.watch(entry.path(), RecursiveMode::NonRecursive)?;
            let rules = entry.path().join(".gitignore");
            if rules.is_file() {
                self.ignored.push(Gitignore::new(rules).0);
            }
            self.dirs.insert(entry.into_path());
        }
        Ok(())
    }

    /// Tells whether git, or what we know of editors and servers, ignores a path.
    fn is_ignored(&self, path: &Path, is_dir: bool) -> bool {
        let Ok(below) = path.strip_prefix(&self.root) else { return true };
        if !is_edit(&below.to_string_lossy()) {
            return true;
        }
        // The rules nearest to it are the last that were read, and have the last word.
        let fitting = self.ignored.iter().rev().filter(|rules| path.starts_with(rules.path()));
        let judged = fitting.into_iter().find_map(|rules| {
            let matched = rules.matched_path_or_any_parents(path, is_dir);
            (!matched.is_none()).then(|| matched.is_ignore())
        });
        judged.unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Longer than anything here takes, on however busy a machine.
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn what_git_ignores_and_what_editors_leave_is_no_change() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for below in ["src/deep", "node_modules/x", "out"] {
            fs::create_dir_all(root.join(below)).unwrap();
        }
        fs::write(root.join(".gitignore"), "out/\n*.gen\n").unwrap();
        fs::write(root.join("src/.gitignore"), "local.py\n").unwrap();
        let (sender, told) = mpsc::channel();
        let watch = FileWatch::start(&root, move |changed| drop(sender.send(changed.unwrap())));
        // The watch begins on a thread of its own: what is written until it is told of.
        let mut seen = Vec::new();
        let begun = Instant::now();
        while seen.is_empty() {
            fs::write(root.join("begin.py"), "").unwrap();
            seen.extend(told.recv_timeout(Duration::from_millis(200)).ok());
            assert!(begun.elapsed() < LONG);
        }
        while told.recv_timeout(2 * LONGEST).is_ok() {}
        let ignored = ["out/a.py", "a.gen", "src/local.py", "node_modules/x/i.js", ".a.py.swp"];
        for path in ignored.iter().chain(&["src/deep/app.py"]) {
            fs::write(root.join(path), "x").unwrap();
        }
        assert_eq!(told.recv_timeout(LONG).unwrap(), [root.join("src/deep/app.py")]);
        // A directory that is new is watched too.
        fs::create_dir(root.join("fresh")).unwrap();
        let begun = Instant::now();
        loop {
            fs::write(root.join("fresh/new.py"), "x").unwrap();
            if let Ok(changed) = told.recv_timeout(Duration::from_millis(200)) {
                assert_eq!(changed, [root.join("fresh/new.py")]);
                break;
            }
            assert!(begun.elapsed() < LONG);
        }
        drop(watch);
    }
}
