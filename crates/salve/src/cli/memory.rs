//! `salve memory`: looks up, teaches and manages known remedies.

mod check;
mod learn;
mod list;
mod share;
mod stats;
mod sync;

use std::io::{self, IsTerminal, Read};

use salve_core::event::Actor;
use salve_core::fingerprint::{Fingerprint, FingerprintRules, Hints, Window};
use salve_core::scrub::Scrubber;

use super::{CliError, Exit, Output, config, foundation, project};
use crate::config::Config;
use crate::dirs;
use crate::door;
use crate::fleet_memory::FleetMemory;
use crate::learned::{Learned, LearnedError, SyncReport};
use crate::project::{Project, ProjectError};
use crate::store::Store;

/// Arguments of `salve memory`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: MemoryCommand,
}

#[derive(Debug, clap::Subcommand)]
enum MemoryCommand {
    /// Say what is known about a failure: remedies, failed approaches, near matches
    Check(check::Args),
    /// Teach a remedy for a failure, or a fix for a tool's error
    Learn(learn::Args),
    /// List known failures, the last seen first
    List(list::ListArgs),
    /// Show all that is known about one failure
    Show(list::ShowArgs),
    /// Drop all that is known about one failure
    Forget(list::ForgetArgs),
    /// Show how much is known and how much it has helped
    Stats(stats::Args),
    /// Write everything that is known as JSON lines
    Export(share::ExportArgs),
    /// Exchange outcomes with the machines of the fleet
    Sync(sync::Args),
    /// Import what `export` wrote; importing it twice changes nothing
    Import(share::ImportArgs),
}

/// Runs the command.
pub(super) fn run(args: Args, out: &Output) -> Result<Exit, CliError> {
    let desk = MemoryCommandContext::new(out)?;
    match args.command {
        MemoryCommand::Check(args) => check::run(args, &desk),
        MemoryCommand::Learn(args) => learn::run(args, &desk),
        MemoryCommand::List(args) => list::list(&args, &desk),
        MemoryCommand::Show(args) => list::show(&args, &desk),
        MemoryCommand::Forget(args) => list::forget(&args, &desk),
        MemoryCommand::Stats(_) => stats::run(&desk),
        MemoryCommand::Sync(args) => sync::run(&args, &desk),
        MemoryCommand::Export(args) => share::export(&args, &desk),
        MemoryCommand::Import(args) => share::import(&args, &desk),
    }
}

/// Which memory a command is about.
#[derive(Clone, Copy, Debug, clap::Args)]
struct Whose {
    /// Use your own memory across projects instead of the project's
    #[arg(long)]
    user: bool,
}

/// What every part of the command needs.
pub(super) struct MemoryCommandContext<'a> {
    pub(super) out: &'a Output,
    scrubber: Scrubber,
    config: Config,
}

impl<'a> MemoryCommandContext<'a> {
    pub(super) fn new(out: &'a Output) -> Result<Self, CliError> {
        let config = config::load(out)?;
        let scrubber = foundation::scrubber(&config)?;
        Ok(Self { out, scrubber, config })
    }

    /// Returns the rules that tell failures apart, the user's own included.
    fn rules(&self) -> &FingerprintRules {
        self.config.fingerprint_rules()
    }

    /// Returns the memory of the fleet, where the settings use one.
    fn fleet(&self) -> Option<FleetMemory> {
        FleetMemory::of(&self.config.settings, &project::user_name(), &self.scrubber)
    }

    /// Opens the memory a command is about, making it if there is none.
    fn open(&self, whose: Whose) -> Result<Store, CliError> {
        if whose.user {
            let store = Store::open(&user_project()?)?;
            project::tell_mended(&store, self.out);
            project::tell_rekeyed(self.learned(&store).rekey(), self.out);
            return Ok(store);
        }
        let store = project::open_store(self.out)?;
        project::tell_rekeyed(self.learned(&store).rekey(), self.out);
        self.tell(&self.learned(&store).pull()?);
        Ok(store)
    }

    /// Refuses unless a person asks: what is taught may run, and what is forgotten helps nobody any more.
    pub(super) fn expect_person(&self, store: &Store, what: &str) -> Result<(), CliError> {
        let refused = || CliError::needs_person(format!("only a person can {what}"));
        // The user's own memory is no project's: it is judged by the one it is said in as well.
        let here = Project::locate(self.out.global().project.as_deref()).ok();
        let roots = [Some(store.project()), here.as_ref()].into_iter().flatten();
        let refused = match roots.map(Project::root).try_for_each(door::may_speak) {
            Err(error) => refused().because(error),
            Ok(()) => match project::speaker(&self.scrubber) {
                Actor::Person { .. } => return Ok(()),
                Actor::Agent { .. }
                | Actor::Salve(_)
                | Actor::Unproven { .. }
                | Actor::Forged { .. } => refused(),
            },
        };
        Err(refused.hint("a person runs this in a terminal of their own"))
    }

    /// Opens the memory a command is about if there is one.
    fn open_existing(&self, whose: Whose) -> Result<Option<Store>, CliError> {
        if whose.user { self.user_store() } else { self.store_of(&project::locate(self.out)?) }
    }

    /// Opens the project's memory if there is a project and it has one.
    pub(super) fn project_store(&self) -> Result<Option<Store>, CliError> {
        match Project::locate(self.out.global().project.as_deref()) {
            Ok(project) => self.store_of(&project),
            Err(ProjectError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn store_of(&self, project: &Project) -> Result<Option<Store>, CliError> {
        // A shared file can be there before anything else is.
        let shared = project.learned().is_dir() && !project.database().exists();
        let store =
            if shared { Some(Store::open(project)?) } else { Store::open_existing(project)? };
        if let Some(store) = &store {
            project::tell_mended(store, self.out);
            project::tell_rekeyed(self.learned(store).rekey(), self.out);
            match self.learned(store).pull() {
                Ok(report) => self.tell(&report),
                // What is known already can be told all the same.
                Err(error) => {
                    self.out.remark(format_args!("changed files were not taken in: {error}"));
                }
            }
        }
        Ok(store)
    }

    /// Opens the user's own memory if there is one.
    fn user_store(&self) -> Result<Option<Store>, CliError> {
        let Ok(project) = user_project() else { return Ok(None) };
        let store = Store::open_existing(&project)?;
        if let Some(store) = &store {
            project::tell_rekeyed(self.learned(store).rekey(), self.out);
        }
        Ok(store)
    }

    pub(super) fn learned<'s>(&'s self, store: &'s Store) -> Learned<'s> {
        Learned::new(store, &self.scrubber, self.rules())
    }

    /// Writes the shared files again after a change of the project's memory.
    fn sync(&self, store: &Store, whose: Whose) -> Result<(), CliError> {
        if !whose.user {
            self.tell(&self.learned(store).sync()?);
        }
        Ok(())
    }

    pub(super) fn tell(&self, report: &SyncReport) {
        for malformed in &report.malformed {
            self.out.remark(format_args!("left alone until it is mended: {malformed}"));
        }
        for file in &report.taken_in {
            self.out.remark(format_args!("took in the changes in {file}"));
        }
        for copy in &report.kept_aside {
            let copy = copy.display();
            self.out.remark(format_args!("comments that have no place any more are in {copy}"));
        }
    }

    /// Returns the fingerprint of a text, or of stdin, and the text itself as far as it matters.
    fn fingerprint(
        &self,
        text: Option<&str>,
        tool: Option<&str>,
    ) -> Result<(Fingerprint, String), CliError> {
        let mut window = Window::new(self.rules());
        match text {
            Some(text) => window.push(text.as_bytes()),
            None => read_stdin(|piece| window.push(piece))?,
        }
        let text = self.scrubber.scrub(&window.finish()).into_string();
        if text.trim().is_empty() {
            return Err(CliError::usage("there is no failure in an empty text"));
        }
        let hints = Hints { tool: tool.map(str::to_owned), ..Hints::default() };
        Ok((self.rules().fingerprint(&text, &hints), text))
    }
}

fn read_stdin(mut take: impl FnMut(&[u8])) -> Result<(), CliError> {
    let mut stdin = io::stdin().lock();
    if stdin.is_terminal() {
        return Err(CliError::usage("no failure was given")
            .hint("give its text as an argument or pipe the failed command's output in"));
    }
    let mut piece = vec![0; 64 * 1024];
    loop {
        match stdin.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(size) => take(piece.get(..size).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(CliError::failed("cannot read stdin").because(error)),
        }
    }
}

/// Returns where the user's own memory is.
fn user_project() -> Result<Project, CliError> {
    let dir = dirs::data().ok_or_else(|| {
        CliError::failed("there is no place for your own memory")
            .hint("set HOME or XDG_DATA_HOME to an absolute path")
    })?;
    Ok(Project::of_user(dir))
}

impl From<LearnedError> for CliError {
    fn from(error: LearnedError) -> Self {
        match error {
            LearnedError::Store(error) => error.into(),
            LearnedError::Write(error) => error.into(),
        }
    }
}
