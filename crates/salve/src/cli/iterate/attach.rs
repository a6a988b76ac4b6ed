//! `salve loop attach`: recovers the tests of a loop that somebody else runs.
//!
//! It watches the loop's directory for `recovery.json`. With the command of the tests, Salve sees
//! for itself whether they execute; without, it can only run what is proposed, and never calls the
//! outcome proven.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use salve_core::event::{Event, LoopEvent, LoopId, RepairMode, SubjectKind};
use salve_core::scrub::Scrubbed;
use salve_core::view::IncidentView;
use signal_hook::consts::SIGINT;

use super::plan::recovery_terms;
use crate::cli::dev::agents::live;
use crate::cli::dev::locate;
use crate::cli::foundation::{Foundation, Purpose, remedies_of_own, repair_terms};
use crate::cli::heal::{RequestedCheck, capture, plan, records};
use crate::cli::{CliError, Exit, Output};
use crate::config::{Config, LiveSettings, Reload};
use crate::files::{FileKind, read_text};
use crate::heal::inbox::InboxMessage;
use crate::heal::loop_files::LoopFiles;
use crate::heal::loops::{Recovered, Sought};
use crate::heal::records::Records;
use crate::heal::recovery_file::{self, ProposalStamp};
use crate::heal::run::CommandPlan;
use crate::heal::{Presence, RunBase, loops, manifests};
use crate::process::Capture;
use crate::store::{Store, Stream};
use crate::subjects::iteration::{RecoverySubject, RecoveryTerms, RecoveryTests};

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
    let foundation = Foundation::lay(project, &config, out)?;
    let right = foundation.take_right()?;
    let mut voice = foundation.voice(&config);
    let mut base = foundation.base(&config, Purpose::Recoveries, &mut voice)?;
    base.presence = if args.no_wait { Presence::Unattended } else { Presence::Attended };
    let sender = base.inbox.sender();
    foundation.listen(&base.inbox, &[], move |signal| {
        // Nobody is left to tell when it is over.
        let _ = sender.send(InboxMessage::Stop(signal));
    })?;
    let live = live(&base.project, &foundation.store, &foundation.scrubber, out)?;
    let plan = tests_plan(args, &id, &foundation, &config);
    let mut attached = Attached::begin(&base, live, plan, dir, id)?;
    out.remark(format_args!(
        "watching {} for recovery.json of loop {}",
        attached.dir.display(),
        attached.id
    ));
    let mut records = records(&base);
    let capture = || capture(&foundation, &config);
    Ok(match attached.serve(&mut base, &mut records, &capture, args.once)? {
        Ok(exit) => {
            right.give_back();
            exit.into()
        }
        // Something may still be ending.
        Err(stopped) => stopped,
    })
}

/// Returns how the loop's tests are run; without a command there are none.
fn tests_plan(
    args: &Args,
    id: &LoopId,
    foundation: &Foundation<'_>,
    config: &Config,
) -> CommandPlan {
    let wanted = RequestedCheck {
        name: id.to_string(),
        ..RequestedCheck::command(SubjectKind::Iteration, &args.command)
    };
    let plan = plan(&wanted, foundation, config);
    if args.command.is_empty() {
        CommandPlan { argv: Vec::new(), command: Scrubbed::literal("no tests"), ..plan }
    } else {
        plan
    }
}

/// A loop that is served.
struct Attached<'s> {
    id: LoopId,
    /// The settings, looked at again for each proposal.
    live: LiveSettings<'s>,
    dir: PathBuf,
    plan: CommandPlan,
    /// How the tests are recovered.
    terms: RecoveryTerms,
    files: LoopFiles,
    /// The journal's entry at which it began, however often Salve was killed since.
    since: u64,
    began: Timestamp,
    /// The last proposal that was seen.
    seen: ProposalStamp,
}

impl<'s> Attached<'s> {
    fn begin(
        base: &RunBase<'_>,
        live: LiveSettings<'s>,
        plan: CommandPlan,
        dir: PathBuf,
        id: LoopId,
    ) -> Result<Self, CliError> {
        let (writer, root) = (&base.writer, base.project.root());
        let attached = writer.note(vec![Event::Loop(LoopEvent::Attached { id: id.clone() })])?;
        let now = attached.first().map_or_else(|| writer.now(), |entry| entry.at);
        let since = began(writer.store, &id)?;
        let name = writer.scrubber.scrub(id.as_str());
        manifests::changed(writer, root, &name, since)?;
        let mut files = LoopFiles::new(dir.clone(), root, id.as_str());
        let recoveries = files.view(writer.store)?.recoveries().iter();
        let over = recoveries.filter(|one| one.closed_at().is_some());
        let last = over.map(IncidentView::opened_at).max();
        // What was there before counts while it is fresh, and only once.
        let fresh = now.saturating_sub(FRESH).unwrap_or(now);
        // A time to come says nothing: the clock was set back since.
        let last = last.filter(|last| *last <= now);
        let began = last.map_or(fresh, |last| last.max(fresh));
        let (seen, terms) = (ProposalStamp::default(), recovery_terms(live.current()));
        Ok(Self { id, live, dir, plan, terms, files, since, began, seen })
    }

    /// Takes up one proposal after the other.
    fn serve(
        &mut self,
        base: &mut RunBase<'_>,
        records: &mut Records,
        capture: &dyn Fn() -> Capture,
        once: bool,
    ) -> Result<Result<Exit, ExitCode>, CliError> {
        loop {
            if self.has_news(base)? {
                self.reload(base)?;
                let recovered = self.recover(base, records, capture())?;
                if let Recovered::Stopped(signal) = recovered {
                    return self.leave(base, signal);
                }
                if once || matches!(recovered, Recovered::NeedsPerson) {
                    return Ok(Ok(exit_of(&recovered)));
                }
            }
            // Otherwise it is what happens to others, and what came late.
            if let Some(InboxMessage::Stop(signal)) = base.inbox.wait(Some(Instant::now() + LOOK)) {
                return self.leave(base, signal);
            }
        }
    }

    /// Tells whether there is something to do: a question of an earlier run, or a new proposal.
    fn has_news(&mut self, base: &RunBase<'_>) -> Result<bool, CliError> {
        let subject = loops::subject(self.id.as_str(), &base.writer.scrubber);
        if !base.writer.unfinished(&subject)?.is_empty() {
            return Ok(true);
        }
        let stamp = recovery_file::stamp(&self.files.proposal());
        let is_new =
            stamp != self.seen && stamp != ProposalStamp::default() && !is_draft(&self.dir);
        self.seen = stamp;
        Ok(is_new && stamp.is_after(base.writer.on_the_wall(self.began)))
    }

    /// Looks at the settings: what changed holds from this proposal on.
    fn reload(&mut self, base: &mut RunBase<'_>) -> Result<(), CliError> {
        let reload = self.live.reload(base.writer.now())?;
        if let Some(text) = reload.said() {
            base.note(self.id.as_str(), &text);
        }
        if let Reload::Changed(_) | Reload::Waiting { .. } = reload {
            let config = self.live.current();
            base.remedies = remedies_of_own(&base.project, config);
            base.terms = repair_terms(
                config,
                Purpose::Recoveries,
                RepairMode::Legacy,
                &base.writer.scrubber,
            );
            self.terms = recovery_terms(config);
        }
        Ok(())
    }

    fn recover(
        &mut self,
        base: &mut RunBase<'_>,
        records: &mut Records,
        capture: Capture,
    ) -> Result<Recovered, CliError> {
        let sought = Sought {
            iteration: iteration(&self.dir, &mut self.files, base.writer.store)?,
            first: None,
            since: self.since,
            began: base.writer.on_the_wall(self.began),
            dir: self.dir.clone(),
        };
        let plan = self.plan.clone();
        let tests = RecoveryTests { plan, terms: &self.terms, capture, records };
        let subject = RecoverySubject::new(tests, sought, base);
        let recovery = subject.run(base)?;
        self.seen = recovery.seen;
        Ok(recovery.how)
    }

    fn leave(&self, base: &RunBase<'_>, signal: i32) -> Result<Result<Exit, ExitCode>, CliError> {
        match signal {
            SIGINT => {
                base.writer.note(vec![Event::Loop(LoopEvent::Detached { id: self.id.clone() })])?;
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
    let counted = files.view(store)?.recoveries().len();
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
