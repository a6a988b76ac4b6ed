//! Servers go on where nothing can be recorded any more, as on a disk that became full.
//!
//! Healing needs its records: without them nothing is repaired, and nothing that runs is ended either.
//! As soon as records can be kept again, healing goes on, and what failed meanwhile is started again.

use std::time::{Duration, Instant};

use salve_core::event::{Event, NoteEvent, ProcessExit};
use salve_core::scrub::Scrubbed;

use super::ending::interrupt_run;
use super::servers::Servers;
use super::{AfterEnd, Held, LifeNews, ProcessState, ServerNews};
use crate::heal::files::with_causes;
use crate::heal::inbox::InboxMessage;
use crate::heal::interruption::Interruption;
use crate::heal::{Remark, RunBase, spawn_thread};
use crate::process::Running;
use crate::store::StoreError;

/// How often it is tried whether records can be kept again.
const LOOK: Duration = Duration::from_secs(2);

/// How often in one run records may fail and be kept again before nothing is tried any more.
const MOST: u32 = 5;

/// How servers came through a time without records.
pub(super) enum UnrecordedEnd {
    /// Records can be kept again.
    Over,
    /// The user ended everything, by this signal.
    Stopped(i32),
    /// No server is left.
    NothingRuns,
}

/// Returns whether a server runs that would end with Salve.
pub(super) fn runs_any(servers: &Servers) -> bool {
    servers.all.iter().any(|server| matches!(server.state, ProcessState::Up(_)))
}

/// Servers that run while nothing can be recorded.
pub(super) struct UnrecordedServers<'s>(pub(super) &'s mut Servers);

impl UnrecordedServers<'_> {
    /// Looks after the servers while nothing can be recorded; `times` counts how often that was so.
    pub(super) fn run(
        &mut self,
        error: &StoreError,
        times: u32,
        base: &mut RunBase<'_>,
    ) -> UnrecordedEnd {
        let name = self.0.all.first().map(|server| server.plan.name.clone()).unwrap_or_default();
        let what = with_causes(error);
        let text = format!("{what}\nnothing can be recorded, so nothing is healed; servers run on");
        base.note(&name, &text);
        for server in &mut self.0.all {
            match &mut server.state {
                ProcessState::Up(life) => life.verifies = None,
                // What it failed of is looked at once that can be recorded.
                ProcessState::Down => {
                    server.waits |= !server.ended_well && server.held == Held::No;
                }
                ProcessState::Clearing(_) => {}
            }
        }
        let (mut later, mut due) = (Vec::new(), Instant::now() + LOOK);
        loop {
            match base.inbox.wait(Some(due)) {
                Some(InboxMessage::Stop(signal)) => {
                    self.interrupt_all(signal, base);
                    return UnrecordedEnd::Stopped(signal);
                }
                Some(InboxMessage::Woken) => {
                    later.extend(self.0.news.next().and_then(|news| self.hear_only(news, base)));
                }
                Some(InboxMessage::Note { text, .. }) => base.note(&name, &text),
                // The journal tells it again, or it is of a repair that did not come to its end.
                Some(
                    InboxMessage::Done { .. }
                    | InboxMessage::Agent { .. }
                    | InboxMessage::Diagnosed { .. }
                    | InboxMessage::Journal(_)
                    | InboxMessage::Pause(_),
                )
                | None => {}
            }
            if self.0.all.iter().all(|server| matches!(server.state, ProcessState::Down)) {
                return UnrecordedEnd::NothingRuns;
            }
            if Instant::now() >= due {
                due = Instant::now() + LOOK;
                let text = Scrubbed::literal("records can be kept again");
                let again = Event::Note(NoteEvent::Noted { text });
                if times < MOST && base.writer.note(vec![again]).is_ok() {
                    base.note(&name, "records can be kept again: healing goes on");
                    let news = self.0.news();
                    // Nobody else takes them.
                    later.into_iter().for_each(|one| drop(news.send(one)));
                    return UnrecordedEnd::Over;
                }
            }
        }
    }

    /// Takes in what needs no record, and returns what has to wait for one.
    fn hear_only(&mut self, news: ServerNews, base: &mut RunBase<'_>) -> Option<ServerNews> {
        match news {
            ServerNews::Of { server, generation, what } => {
                let one = self.0.all.get(server).filter(|one| one.generation == generation)?;
                match (what, &one.state) {
                    (LifeNews::Exited(ended), ProcessState::Up(_)) => {
                        self.is_down(server, ended.exit, base);
                        None
                    }
                    (LifeNews::Cleared(_), ProcessState::Clearing(then)) => {
                        self.0.all[server].waits = !matches!(then, AfterEnd::Stopped);
                        self.0.all[server].state = ProcessState::Down;
                        None
                    }
                    (what, _) => Some(ServerNews::Of { server, generation, what }),
                }
            }
            ServerNews::Resized { rows, cols } => {
                self.0.resize(rows, cols);
                None
            }
            ServerNews::Typed(keys) | ServerNews::TypedFor { keys, .. } => {
                self.0.each_up(|life| life.running.type_in(&keys));
                None
            }
            ServerNews::Signal(signal) => {
                self.0.each_up(|life| life.running.signal(signal));
                None
            }
            changed @ ServerNews::FilesChanged(_) => Some(changed),
        }
    }

    /// Takes in that a server's process ended by itself.
    fn is_down(&mut self, at: usize, exit: ProcessExit, base: &mut RunBase<'_>) {
        let server = &mut self.0.all[at];
        server.ended_well = exit == ProcessExit::Code(0);
        server.waits = !server.ended_well;
        base.reporter.remark(&server.plan.name, &Remark::Ended { exit });
        if let ProcessState::Up(life) = std::mem::replace(&mut server.state, ProcessState::Down) {
            let (care, running, grace) = (base.care.clone(), life.running, server.plan.timing.stop);
            server.last_run = Some(running.clone());
            spawn_thread("ending", move || drop(care.end(&running, grace)));
        }
    }

    /// Hands the signal by which the user ends Salve on to all servers, and ends what it leaves.
    fn interrupt_all(&mut self, signal: i32, base: &RunBase<'_>) {
        let runs: Vec<(Running, Duration)> = self
            .0
            .all
            .iter_mut()
            .filter_map(|server| match std::mem::replace(&mut server.state, ProcessState::Down) {
                ProcessState::Up(life) => Some((life.running, server.plan.timing.stop)),
                ProcessState::Down | ProcessState::Clearing(_) => None,
            })
            .collect();
        std::thread::scope(|scope| {
            for (running, grace) in &runs {
                let interruption = Interruption::new(signal, *grace, drop);
                let care = &base.care;
                scope.spawn(move || {
                    interrupt_run(care, running, interruption, *grace);
                    running.wait_for_output(LOOK);
                });
            }
        });
    }
}
