//! Servers that wait for a person, or are ill: what may have mended them, and starting them again.
//!
//! After a give-up Salve keeps looking. A changed file, a service that answers, a file that was
//! missing start the server again at once, and none of it counts as an attempt.
//!
//! **Invariant:** a server does not start itself by what it writes: a file that changed while it
//! ran counts once, and later only when it changes while the server is down.

use std::path::{Path, PathBuf};

use salve_core::event::{Event, IncidentEvent};
use salve_core::incident::{DueEffect, Incident, Phase};
use salve_core::watch::ServerSight;

use super::awaiting::AwaitingWatch;
use super::life::ServerCare;
use super::servers::Servers;
use super::{CaredServer, Held, ProcessState, ServerNews, StartCause, Stir};
use crate::file_watch::FileWatch;
use crate::heal::{Remark, SubjectContext, millis};
use crate::store::StoreError;

/// Tells whether an incident waits for a person.
pub(super) fn waits(incident: &Incident) -> bool {
    matches!(incident.phase(), Phase::Asking { .. } | Phase::CoolingDown { .. })
}

impl Servers {
    /// Watches the project's files for as long as that may help a server.
    pub(super) fn watch_files(&mut self, context: &mut SubjectContext<'_, '_>) {
        let is_of_use = self.all.iter().enumerate().any(|(at, server)| {
            let is_open = context.incident(at).is_some_and(|incident| match incident.phase() {
                Phase::Choosing
                | Phase::Due { .. }
                | Phase::Doing { .. }
                | Phase::Asking { .. }
                | Phase::CoolingDown { .. } => true,
                Phase::Ending { .. } | Phase::Closed(_) => false,
            });
            let is_ill = matches!(&server.state, ProcessState::Up(life) if life.watch.is_ill());
            server.held == Held::No && (is_open || is_ill)
        });
        match (is_of_use, &self.files) {
            (true, None) => {
                let news = self.news();
                let tell = move |changed| drop(news.send(ServerNews::FilesChanged(changed)));
                self.files = Some(FileWatch::start(context.base.project.root(), tell));
            }
            (false, Some(_)) => self.files = None,
            (true, Some(_)) | (false, None) => {}
        }
    }

    /// Takes in which files changed.
    pub(super) fn files_changed(
        &mut self,
        changed: Result<Vec<PathBuf>, String>,
        context: &mut SubjectContext<'_, '_>,
    ) {
        let paths = match changed {
            Ok(paths) => paths,
            Err(error) => {
                let text =
                    format!("files cannot be watched ({error}); `salve start` starts it again");
                context.note(0, &text);
                return;
            }
        };
        let root = context.base.project.root().to_path_buf();
        for server in &mut self.all {
            let changed = |path: &&PathBuf| !server.own_writes.contains(*path);
            match &mut server.state {
                ProcessState::Up(life) if life.watch.is_ill() => {
                    if let Some(why) = paths.first().map(|path| in_words(path, &root)) {
                        server.cause = StartCause::Changed(why);
                    }
                    life.watch.hear(millis(life.since.elapsed()), ServerSight::Changed);
                }
                ProcessState::Up(_) => {
                    let new: Vec<PathBuf> = paths.iter().filter(changed).cloned().collect();
                    server.changed_meanwhile.extend(new);
                }
                ProcessState::Down | ProcessState::Clearing(_) => server.is_stirred_by(&paths),
            }
        }
    }

    /// Starts a server again that waits for a person, if what stood in its way has changed.
    pub(super) fn start_if_stirred(
        &mut self,
        at: usize,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        let server = &mut self.all[at];
        let is_down = matches!(server.state, ProcessState::Down) && server.held == Held::No;
        let waits = context.incident(at).is_some_and(waits);
        if !is_down || !waits {
            return Ok(());
        }
        let root = context.base.project.root();
        let is_news = |path: &&PathBuf| {
            // What a remedy wrote, or what was undone of it, mends nothing.
            !context.cases.get(at).is_some_and(|case| case.has_written(root, path))
        };
        let why = match server.stirred.take() {
            Some(Stir::Arrived(what)) => Some(what),
            Some(Stir::Files(paths)) => paths.iter().find(is_news).map(|it| in_words(it, root)),
            None => None,
        };
        let Some(why) = why else { return Ok(()) };
        server.cause = StartCause::Changed(why);
        self.one(at, context).start(None)
    }
}

impl CaredServer {
    /// Takes in that files changed while it was down.
    fn is_stirred_by(&mut self, paths: &[PathBuf]) {
        match &mut self.stirred {
            Some(Stir::Files(before)) => before.extend(paths.iter().cloned()),
            // That is reason enough.
            Some(Stir::Arrived(_)) => {}
            None => self.stirred = Some(Stir::Files(paths.iter().cloned().collect())),
        }
    }

    /// Starts over with what may have mended it, since it starts now.
    pub(super) fn forget_what_stirred(&mut self, verifies: Option<DueEffect>) {
        self.stirred = None;
        self.changed_meanwhile.clear();
        self.awaiting = None;
        if verifies.is_some() {
            self.cause = StartCause::Wanted;
        }
    }
}

impl ServerCare<'_, '_, '_> {
    /// Writes that a server whose incident waits for a person starts again.
    pub(super) fn tell_tried_again(&mut self) {
        let why = match (&self.server.cause, &self.server.started_by) {
            (StartCause::Wanted, Some(_)) => "somebody wanted it".to_owned(),
            // What no person started ends no cooldown.
            (StartCause::Wanted, None) => return,
            (StartCause::Changed(why), _) => why.clone(),
        };
        let why = self.context.base.writer.scrubber.scrub(&why);
        self.context.base.reporter.remark(
            &self.server.plan.name,
            &Remark::TriedAgain { command: self.server.plan.command.clone(), why: why.clone() },
        );
        self.context.say(self.at, vec![Event::Incident(IncidentEvent::TriedAgain { why })]);
    }

    /// Settles an incident that waited for a person, once the server is well without Salve's help.
    pub(super) fn tell_came_back(&mut self) {
        let scrubber = &self.context.base.writer.scrubber;
        let why = match (&self.server.cause, &self.server.started_by) {
            (StartCause::Wanted, Some(_)) => {
                return self.settle_questions("started by hand, and well");
            }
            (StartCause::Wanted, None) => scrubber.scrub("it was started again"),
            (StartCause::Changed(why), _) => scrubber.scrub(why),
        };
        let back = Event::Incident(IncidentEvent::CameBack { why });
        self.context.say(self.at, vec![back]);
        // What else it waited for is over with it.
        self.settle_questions("well again");
    }

    /// Settles the incident of a server that was ill and became well while it was looked into.
    pub(super) fn settle_if_well(&mut self) {
        let ProcessState::Up(life) = &mut self.server.state else { return };
        let is_well = life.was_ill && life.watch.is_well() && life.verifies.is_none();
        if !is_well || !self.context.incident(self.at).is_some_and(waits) {
            return;
        }
        life.was_ill = false;
        let scrubber = &self.context.base.writer.scrubber;
        let url = life.address.as_deref().map(|url| scrubber.scrub(url));
        let verified = Remark::Verified { url, soak: life.soak };
        self.context.base.reporter.remark(&self.server.plan.name, &verified);
        self.tell_came_back();
    }

    /// Takes in that packages are there again which were gone while the server ran.
    pub(super) fn are_back(&mut self) {
        if self.context.incident(self.at).is_some_and(waits) {
            self.server.cause = StartCause::Changed("its packages are there again".to_owned());
            self.tell_came_back();
        }
    }

    /// Begins to look for what a failure names as missing, and remembers what changed meanwhile.
    pub(super) fn await_what_is_missing(&mut self, output: &str) {
        let news = self.shared.news_of(self.at, self.server.generation);
        self.server.awaiting = AwaitingWatch::begin(output, &self.server.plan.dir, news);
        let changed = std::mem::take(&mut self.server.changed_meanwhile);
        if !changed.is_empty() {
            self.server.is_stirred_by(&changed);
        }
        self.server.own_writes.extend(changed);
    }
}

/// Returns that a file changed, in words.
fn in_words(path: &Path, root: &Path) -> String {
    format!("{} changed", path.strip_prefix(root).unwrap_or(path).display())
}
