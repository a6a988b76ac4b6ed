//! `salve loop attach`: recovers the tests of a loop that somebody else runs.
//!
//! It watches the loop's directory for `recovery.json`. With the command of the tests, Salve sees
//! for itself whether they execute; without, it can only run what is proposed, and never calls the
//! outcome proven.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use salve_core::event::{Event, LoopEvent, LoopId, SubjectKind};
use salve_core::scrub::Scrubbed;
use signal_hook::consts::SIGINT;

use crate::cli::dev::agents::live;
use crate::cli::dev::locate;
use crate::cli::ground::shelf_of_own;
use crate::cli::heal::{Wanted, heal_plan, in_clinic, plan};
use crate::cli::{CliError, Exit, Output};
use crate::config::{Config, Live, Reload};
use crate::files::{FileKind, read_text};
use crate::heal::loop_files::LoopFiles;
use crate::heal::loops::{Recovered, Sought};
use crate::heal::recovery_file::{self, Stamp};
use crate::heal::{Presence, loops, manifests};
use crate::process::Capture;
use crate::store::{Store, Stream};
use crate::subjects::check::{CheckPlan, Clinic, Input, Remark};

/// How often the directory is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// How old a proposal may be that was there before.
const FRESH: SignedDuration = SignedDuration::from_hours(1);

/// Arguments of `salve loop attach`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Directory in which the loop's tester writes recovery.json
    dir: PathBuf,
    /// Name of the loop [default: made of the directory's]
    #[arg(long = "loop", value_name = "ID")]
    id: Option<LoopId>,
    /// End after one proposal
    #[arg(long)]
    once: bool,
    /// End when a person has to decide, instead of waiting
    #[arg(long)]
    no_wait: bool,
    /// Command of the loop's tests
    #[arg(last = true, value_name = "TESTCMD")]
    command: Vec<OsString>,
}

/// Serves a loop until the user wants it to end.
pub(in crate::cli) fn run(args: &Args, out: &Output) -> Result<ExitCode, CliError> {
    let project = locate(out)?;
    let config = crate::cli::config::in_force(out)?;
    let dir = std::path::absolute(&args.dir)
        .map_err(|error| CliError::usage("there is no such directory").because(error))?;
    crate::files::make_directories(&dir)
        .map_err(|error| CliError::failed("cannot make the loop's directory").because(error))?;
    let id = args.id.clone().unwrap_or_else(|| loops::id_of_dir(&dir));
    in_clinic(project, &config, out, |clinic, capture| {
        clinic.presence = match args.no_wait {
            true => Presence::Unattended,
            false => Presence::Attended,
        };
        let live = live((&clinic.project, clinic.desk.store), &clinic.desk.scrubber, out)?;
        let mut attached = Attached::begin((clinic, live), &config, (args, dir, id))?;
        out.remark(format_args!(
            "watching {} for recovery.json of loop {}",
            attached.dir.display(),
            attached.id
        ));
        attached.serve(clinic, capture, args.once)
    })
}

/// A loop that is served.
struct Attached<'s> {
    id: LoopId,
    /// The settings, looked at anew for each proposal.
    live: Live<'s>,
    dir: PathBuf,
    plan: CheckPlan,
    files: LoopFiles,
    /// The journal's entry at which it began, however often Salve was killed since.
    since: u64,
    began: Timestamp,
    /// The last proposal that was seen.
    seen: Stamp,
}

impl<'s> Attached<'s> {
    fn begin(
        (clinic, live): (&Clinic<'_>, Live<'s>),
        config: &Config,
        (args, dir, id): (&Args, PathBuf, LoopId),
    ) -> Result<Self, CliError> {
        let (desk, root) = (&clinic.desk, clinic.project.root());
        let attached = desk.note(vec![Event::Loop(LoopEvent::Attached { id: id.clone() })])?;
        let now = attached.first().map_or_else(|| desk.now(), |entry| entry.at);
        let since = began(desk.store, &id)?;
        let name = desk.scrubber.scrub(id.as_str());
        manifests::changed(desk, root, &name, since)?;
        let wanted = Wanted {
            name: id.to_string(),
            ..Wanted::command(SubjectKind::Iteration, &args.command)
        };
        let plan = match args.command.is_empty() {
            false => plan(&wanted, (&clinic.project, config), &desk.scrubber),
            true => CheckPlan {
                argv: Vec::new(),
                command: Scrubbed::literal("no tests"),
                ..plan(&wanted, (&clinic.project, config), &desk.scrubber)
            },
        };
        let mut files = LoopFiles::new(dir.clone(), root, id.as_str());
        let over = files.chronicle(desk.store)?.courses().filter(|one| one.closed.is_some());
        let last = over.map(|course| course.opened).max();
        // What was there before counts while it is fresh, and only once.
        let fresh = now.saturating_sub(FRESH).unwrap_or(now);
        // A time to come says nothing: the clock was set back since.
        let last = last.filter(|last| *last <= now);
        let began = last.map_or(fresh, |last| last.max(fresh));
        Ok(Self { id, live, dir, plan, files, since, began, seen: Stamp::default() })
    }

    /// Takes up one proposal after the other.
    fn serve(
        &mut self,
        clinic: &mut Clinic<'_>,
        capture: &dyn Fn() -> Capture,
        once: bool,
    ) -> Result<Result<Exit, ExitCode>, CliError> {
        loop {
            if self.has_news(clinic)? {
                self.reload(clinic)?;
                let recovered = self.recover(clinic, capture)?;
                if let Recovered::Stopped(signal) = recovered {
                    return self.leave(clinic, signal);
                }
                if once || matches!(recovered, Recovered::NeedsPerson) {
                    return Ok(Ok(exit_of(&recovered)));
                }
            }
            match clinic.inbox.1.recv_timeout(LOOK) {
                Ok(Input::Stop(signal)) => return self.leave(clinic, signal),
                Err(RecvTimeoutError::Disconnected) => return Ok(Ok(Exit::Failed)),
                // What happens to others, and what came late.
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Tells whether there is something to do: a question of an earlier run, or a new proposal.
    fn has_news(&mut self, clinic: &Clinic<'_>) -> Result<bool, CliError> {
        let subject = loops::subject(self.id.as_str(), &clinic.desk.scrubber);
        if !clinic.desk.unfinished(&subject)?.is_empty() {
            return Ok(true);
        }
        let stamp = recovery_file::stamp(&self.files.proposal());
        let is_new = stamp != self.seen && stamp != Stamp::default() && !is_draft(&self.dir);
        self.seen = stamp;
        Ok(is_new && stamp.is_after(clinic.desk.on_the_wall(self.began)))
    }

    /// Looks at the settings: what changed holds from this proposal on.
    fn reload(&mut self, clinic: &mut Clinic<'_>) -> Result<(), CliError> {
        let reload = self.live.reload(clinic.desk.now())?;
        if let Some(text) = reload.said() {
            let text = clinic.desk.scrubber.scrub(&text);
            clinic.face.remark(self.id.as_str(), &Remark::Note(text));
        }
        if let Reload::Changed(_) | Reload::Waiting { .. } = reload {
            let config = self.live.current();
            clinic.shelf = shelf_of_own(&clinic.project, config);
            clinic.heal = heal_plan(config, clinic.agents.is_some(), &clinic.desk.scrubber);
        }
        Ok(())
    }

    fn recover(
        &mut self,
        clinic: &mut Clinic<'_>,
        capture: &dyn Fn() -> Capture,
    ) -> Result<Recovered, CliError> {
        let sought = Sought {
            iteration: iteration(&self.dir, &mut self.files, clinic.desk.store)?,
            first: None,
            since: self.since,
            began: clinic.desk.on_the_wall(self.began),
            dir: self.dir.clone(),
        };
        let recovery = clinic.recover(self.plan.clone(), Arc::new(capture()), sought)?;
        self.seen = recovery.seen;
        Ok(recovery.how)
    }

    fn leave(&self, clinic: &Clinic<'_>, signal: i32) -> Result<Result<Exit, ExitCode>, CliError> {
        match signal {
            SIGINT => {
                clinic.desk.note(vec![Event::Loop(LoopEvent::Detached { id: self.id.clone() })])?;
                Ok(Err(Exit::Interrupted.into()))
            }
            // Whoever ended it may start it again: its limits go on counting.
            other => Ok(Err(ExitCode::from(u8::try_from(128 + other).unwrap_or(1)))),
        }
    }
}

/// Returns the entry at which the present service of a loop began: the first since it last ended.
fn began(store: &Store, id: &LoopId) -> Result<u64, CliError> {
    let mut since = None;
    for entry in store.journal().read(0, &Stream::Loop(id.clone()), usize::MAX)? {
        match entry.event {
            Event::Loop(LoopEvent::Attached { id: of }) if of == *id => {
                since = since.or(Some(entry.seq));
            }
            Event::Loop(LoopEvent::Detached { id: of }) if of == *id => since = None,
            _ => {}
        }
    }
    Ok(since.unwrap_or(0))
}

/// Tells whether what is proposed is Salve's own draft.
fn is_draft(dir: &Path) -> bool {
    let text = read_text(&dir.join("recovery.json"), FileKind::Proposal);
    let value = text.ok().and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
    value.is_some_and(|value| value["source"] == "salve")
}

/// Returns the iteration, from the loop's own state if it says, else counted.
fn iteration(dir: &Path, files: &mut LoopFiles, store: &Store) -> Result<u32, CliError> {
    let text = read_text(&dir.join("state.json"), FileKind::Settings);
    let state = text.ok().and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
    let said = state.and_then(|state| u32::try_from(state["iteration"].as_u64()?).ok());
    let counted = files.chronicle(store)?.courses().count();
    let counted = u32::try_from(counted).unwrap_or(u32::MAX).saturating_add(1);
    Ok(said.filter(|said| *said > 0).unwrap_or(counted))
}

fn exit_of(recovered: &Recovered) -> Exit {
    match recovered {
        Recovered::Executes(_) => Exit::Well,
        Recovered::NotInfrastructure(_) | Recovered::Declined(_) | Recovered::Stopped(_) => {
            Exit::Failed
        }
        Recovered::NeedsPerson => Exit::NeedsPerson,
    }
}
