//! `salve run`: the steps of a job, one after the other, each wrapped in self-healing; and
//! `salve resume RUN`, which goes on with one.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use salve_core::event::{Actor, Draft, JobEvent, JobTurn, LoopEnd};
use salve_core::id::JobId;
use salve_core::job::Job;
use salve_core::scrub::Scrubber;
use signal_hook::consts::SIGINT;
use uuid::Uuid;

use super::super::dev::agents::{DEFAULT_AGENT, agent_help, for_role, live, mcp};
use super::super::dev::locate;
use super::super::foundation::{Foundation, Purpose};
use super::super::heal::use_agent;
use super::super::project::{kept, speaker};
use super::super::serve::{PageArgs, beside};
use super::super::{CliError, Exit, Output};
use super::fleet::FleetArgs;
use super::lines::{JobRunner, JobTeller, StepReporter};
use super::result_ways::ResultWays;
use super::{find, wanted};
use crate::agent::Mcp;
use crate::config::{CommandLine, Config, RoleEntry};
use crate::files::{FileKind, Links, read_text, read_text_where};
use crate::heal::IncidentWriter;
use crate::heal::agents::AgentPlan;
use crate::heal::inbox::{InboxMessage, NewsQueue};
use crate::heal::records::Records;
use crate::heal::right::{JobClaimant, NotGiven, RunLock, RunRight};
use crate::process::strays;
use crate::project::Project;
use crate::store::{ClaimToken, Store, Stream};
use crate::subjects::job::{
    JobDriver, JobError, JobFile, JobFolder, JobOutcome, JobParts, JobSpec, NamedAgent, StepLimits,
    sweep_unbegun,
};
use crate::workspace::{StartFrom, StepStore};

/// How long what a killed run left may take to end by itself.
const STRAYS: Duration = Duration::from_secs(2);

/// Arguments of `salve run`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 all steps are done, 1 the job failed or was called off, 2 usage or \
    config, 3 a person is needed, 130 interrupted. Go on with: salve resume RUN."
)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    page: PageArgs,
    /// Job file: TOML, YAML or JSON (`salve config schema --job` describes it)
    #[arg(value_name = "FILE", conflicts_with_all = ["step", "command"])]
    file: Option<PathBuf>,
    /// Command of a step, instead of a file; may be given several times
    #[arg(long, value_name = "COMMAND", conflicts_with = "command")]
    step: Vec<String>,
    /// Ref to start from [default: the job's, or HEAD]
    #[arg(long, value_name = "REF", conflicts_with = "here")]
    start: Option<String>,
    /// Start from the files as they are, with what is not committed
    #[arg(long)]
    here: bool,
    #[arg(long, value_name = "AGENT", help = agent_help("Agent for steps that name none", DEFAULT_AGENT))]
    agent: Option<String>,
    /// Attempts at a step [default: job.step_max_attempts]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    attempts: Option<u32>,
    /// Seconds that an attempt may take [default: job.step_timeout_seconds]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    wall: Option<u64>,
    /// Seconds that an attempt may show no sign of work [default: job.step_idle_timeout_seconds]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    idle: Option<u64>,
    /// Command of the only step
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs a job, in two processes: one that works and one that keeps.
pub(in crate::cli) fn run(args: &Args, out: &Output) -> Result<ExitCode, CliError> {
    kept(|| {
        let file = args.job()?;
        let from = StartChoice { here: args.here, start: args.start.clone() };
        beside(&args.page, &locate(out)?, out)?;
        drive(args.agent.as_deref(), out, &RunOf::Person, |ground| begin(&from, &file, ground))
    })
}

/// Returns the id, if a run of a job is meant by it.
pub(in crate::cli) fn meant(id: Option<&str>, out: &Output) -> Result<Option<String>, CliError> {
    let (Some(id), Some(store)) = (id, Store::open_existing(&locate(out)?)?) else {
        return Ok(None);
    };
    Ok(find(&store, id)?.map(|_| id.to_owned()))
}

/// Goes on with a run of a job.
pub(in crate::cli) fn resume(digits: &str, out: &Output) -> Result<ExitCode, CliError> {
    kept(|| drive(None, out, &RunOf::Person, |ground| go_on(digits, ground)))
}

/// Goes on with a job that a worker claimed.
pub(super) fn run_claimed(
    claim: ClaimToken,
    fleet: &FleetArgs,
    out: &Output,
) -> Result<ExitCode, CliError> {
    let id = claim.job.0.simple().to_string();
    drive(None, out, &RunOf::Worker(claim, fleet.clone()), |ground| go_on(&id, ground))
}

/// Who has a job run.
enum RunOf {
    /// A person, here and now.
    Person,
    /// A worker, under a claim, in the queue of a fleet if one is meant.
    Worker(ClaimToken, FleetArgs),
}

/// Where the workspace of a job starts from, as the command line has it.
pub(super) struct StartChoice {
    /// Whether the files as they are were chosen.
    pub(super) here: bool,
    /// The ref that was chosen.
    pub(super) start: Option<String>,
}

impl StartChoice {
    /// Returns where the workspace of a job starts from.
    pub(super) fn of(&self, file: &JobFile) -> StartFrom {
        match (self.here, self.start.as_ref().or(file.job.start.as_ref())) {
            (true, _) => StartFrom::Files,
            (false, Some(name)) => StartFrom::Ref(name.clone()),
            (false, None) => StartFrom::Usual,
        }
    }
}

/// Reads a job file.
pub(super) fn read_job(path: &Path) -> Result<JobFile, CliError> {
    let text = read_text_where(path, FileKind::Document, Links::Follow);
    let text = text.map_err(|error| {
        CliError::usage(format!("cannot read the job {}", path.display())).because(error)
    })?;
    JobFile::read(&path.to_string_lossy(), &text)
        .map_err(|error| CliError::usage("the job file is wrong").because(error))
}

impl Args {
    /// Returns the job that is meant.
    fn job(&self) -> Result<JobFile, CliError> {
        let limits = StepLimits {
            attempts: self.attempts,
            wall_seconds: self.wall,
            idle_seconds: self.idle,
            no_progress: None,
        };
        if let Some(path) = &self.file {
            let mut file = read_job(path)?;
            file.override_limits(limits);
            return Ok(file);
        }
        let lines: Vec<CommandLine> = if self.command.is_empty() {
            self.step.iter().cloned().map(CommandLine::Line).collect()
        } else {
            // A job is kept as text, so that another machine can go on with it.
            let words = self.command.iter().map(|word| word.to_str().map(str::to_owned));
            let words: Option<Vec<String>> = words.collect();
            vec![CommandLine::Words(words.ok_or_else(|| {
                CliError::usage("the command has bytes that are no text (UTF-8)")
                    .hint("put it into a script, and let the job run that")
            })?)]
        };
        if lines.is_empty() {
            return Err(CliError::usage("there is nothing to run")
                .hint("salve run JOB.toml, salve run --step 'npm ci' --step 'npm test', or salve run -- COMMAND"));
        }
        Ok(JobFile::of_commands(lines, limits))
    }
}

/// What a run of a job stands on.
pub(super) struct JobGround<'g> {
    pub(super) project: &'g Project,
    pub(super) store: &'g Store,
    pub(super) config: &'g Config,
    pub(super) scrubber: &'g Scrubber,
    pub(super) writer: &'g IncidentWriter<'g>,
    pub(super) by: Actor,
    pub(super) run: Uuid,
    /// The claim under which a worker runs it.
    pub(super) claim: Option<ClaimToken>,
}

/// A job that is about to be driven.
pub(super) struct ReadyJob {
    pub(super) of: Job,
    spec: JobSpec,
    folder: JobFolder,
    workspace: StepStore,
    pub(super) right: RunLock,
}

/// Starts a job: its file, its workspace, its first entry.
pub(super) fn begin(
    from: &StartChoice,
    file: &JobFile,
    ground: &JobGround<'_>,
) -> Result<ReadyJob, CliError> {
    let spec = validated(file, ground)?;
    sweep_unbegun(ground.project, ground.store)?;
    let id = JobId(Uuid::now_v7());
    let folder = JobFolder::of(ground.project, id);
    let right = take_right(id, ground)?;
    folder.keep_spec(&file.to_json())?;
    let start = from.of(file);
    let workspace =
        StepStore::make(ground.project.root(), folder.dir(), &start).map_err(|error| {
            let advice = error.advice();
            CliError::usage("the job's workspace cannot be made").because(error).hint(advice)
        })?;
    let terms = Box::new(spec.terms.clone());
    let of = append(id, JobTurn::Started { terms }, ground)?;
    Ok(ReadyJob { of, spec, folder, workspace, right })
}

/// Goes on with a job where it was left.
fn go_on(digits: &str, ground: &JobGround<'_>) -> Result<ReadyJob, CliError> {
    let known = wanted(ground.store, digits)?;
    let id = known.id();
    let folder = JobFolder::of(ground.project, id);
    if !folder.is_kept() {
        return Err(CliError::usage(format!("the files of the job {} were removed", id.short()))
            .hint("start it again: salve run FILE"));
    }
    let right = take_right(id, ground)?;
    if matches!(known.standing(), salve_core::steps::StepsStanding::Ended(LoopEnd::Completed)) {
        // Whoever was killed as it ended left its files behind the journal.
        let entries = ground.store.journal().read(0, &Stream::Jobs, usize::MAX)?;
        folder.bring_up(id, &entries).map_err(JobError::from)?;
        right.give_back();
        return Err(CliError::usage(format!("the job {} is done", id.short()))
            .hint(format!("salve control {} resume_from_step STEP", id.short())));
    }
    let path = folder.spec();
    let text = read_text(&path, FileKind::Document).map_err(|error| {
        CliError::failed(format!("cannot read {}", path.display())).because(error)
    })?;
    let file = JobFile::read("job.json", &text)
        .map_err(|error| CliError::failed("the job's file is damaged").because(error))?;
    let spec = validated(&file, ground)?;
    if spec.terms.spec != known.terms().spec {
        return Err(CliError::needs_person("the job's file was changed since it was started")
            .because(format!("{} is not what was run", path.display()))
            .hint("start it again: salve run FILE"));
    }
    let workspace = StepStore::open(folder.dir()).map_err(|error| {
        let advice = error.advice();
        CliError::failed("the job's workspace cannot be used").because(error).hint(advice)
    })?;
    if workspace.is_gone() {
        // Somebody cleared it away; what its steps did is in the checkpoints.
        let step = known.checkpoints().len();
        workspace.remake(step).map_err(JobError::from)?;
    }
    if ground.claim.is_some() {
        folder.give_back_missing(&known, ground.store.queue())?;
    }
    ground.writer.go_on_from(known.stamps().clock());
    let of = append(id, JobTurn::Resumed {}, ground)?;
    Ok(ReadyJob { of, spec, folder, workspace, right })
}

pub(super) fn validated(file: &JobFile, ground: &JobGround<'_>) -> Result<JobSpec, CliError> {
    file.validate(&ground.config.settings.job, ground.scrubber)
        .map_err(|error| CliError::usage("the job is wrong").because(error))
}

/// Takes the right to run a job, and ends what a run that was killed left.
fn take_right(id: JobId, ground: &JobGround<'_>) -> Result<RunLock, CliError> {
    let short = id.short();
    let (me, run) = (&ground.writer.me, ground.run);
    let right = match ground.claim {
        Some(ClaimToken { epoch, .. }) => {
            RunLock::seize_job(ground.project, &short, &JobClaimant { me, run, epoch })
        }
        None => RunLock::take_for(ground.project, RunRight::Job(&short), me, run),
    };
    let right = right.map_err(not_given)?;
    if let Some(before) = right.run_before() {
        strays::end(&[before], &[], STRAYS);
    }
    Ok(right)
}

/// Says why nobody else may run a job now.
pub(super) fn not_given(error: NotGiven) -> CliError {
    let words = match &error {
        NotGiven::Held { .. } => "the job is being run",
        NotGiven::System { .. } => "it cannot be told whether the job is being run",
    };
    CliError::failed(words).because(error)
}

/// Writes an entry and returns the job as it is then.
fn append(id: JobId, what: JobTurn, ground: &JobGround<'_>) -> Result<Job, CliError> {
    let event = JobEvent::Advanced { id, what }.into();
    let draft = Draft { by: ground.by.clone(), ..ground.writer.draft(None, event) };
    ground.store.journal().append(draft)?;
    let entries = ground.store.journal().read(0, &Stream::Jobs, usize::MAX)?;
    Job::replay(id, &entries)
        .ok_or_else(|| CliError::failed("the journal does not have the job that was started"))
}

impl RunOf {
    /// Returns the claim under which it is run, if it is.
    fn claim(&self) -> Option<ClaimToken> {
        match self {
            Self::Person => None,
            Self::Worker(claim, _) => Some(*claim),
        }
    }
}

/// Lays what a run of a job stands on: in a fleet, with the queue of the fleet.
fn lay_for<'o>(
    of: &RunOf,
    project: Project,
    config: &Config,
    out: &'o Output,
) -> Result<Foundation<'o>, CliError> {
    let in_fleet = match of {
        RunOf::Person => None,
        RunOf::Worker(_, fleet) => fleet.store(config, &project)?,
    };
    match in_fleet {
        Some(store) => Foundation::lay_on(store, config, out),
        None => Foundation::lay(project, config, out),
    }
}

/// Makes a job ready and drives it.
fn drive(
    agent: Option<&str>,
    out: &Output,
    of: &RunOf,
    ready: impl FnOnce(&JobGround<'_>) -> Result<ReadyJob, CliError>,
) -> Result<ExitCode, CliError> {
    let project = locate(out)?;
    let mut config = super::super::config::in_force(out)?;
    if let Some(agent) = agent {
        use_agent(&mut config, agent);
    }
    let foundation = lay_for(of, project.clone(), &config, out)?;
    let claim = of.claim();
    let (store, scrubber, run) = (&foundation.store, &foundation.scrubber, foundation.run);
    let by = match claim {
        Some(_) => Actor::Salve(crate::process::this(scrubber)),
        None => starter(scrubber)?,
    };
    let outlet = foundation.outlet.clone();
    let mut reporter = StepReporter { out, outlet: outlet.clone() };
    let mut base = foundation.base(&config, Purpose::Steps, &mut reporter)?;
    let ground = JobGround {
        project: &project,
        store,
        config: &config,
        scrubber,
        writer: &base.writer,
        by,
        run,
        claim,
    };
    let ReadyJob { of, spec, folder, workspace, right } = ready(&ground)?;
    base.project = project.copy_at(&workspace.dir())?;
    base.remedies.root = base.project.root().to_path_buf();
    let sender = base.inbox.sender();
    foundation.listen(&base.inbox, &[], move |signal| {
        // Nobody is left to tell when the job is over.
        let _ = sender.send(InboxMessage::Stop(signal));
    })?;
    // Several jobs of a worker share its terminal.
    let progress = if claim.is_none() { JobTeller::progress(out, &outlet) } else { None };
    let ways = ResultWays::of(&project, &folder, &workspace)?;
    let runner = if claim.is_some() { JobRunner::Worker } else { JobRunner::Person };
    let mut teller = JobTeller { out, outlet: outlet.clone(), progress, ways, runner };
    teller.greet(&of);
    let mcp = mcp(&project)?;
    let planner = |agent: &NamedAgent| plan_agent(&config, &mcp, agent);
    let parts = JobParts {
        folder,
        workspace,
        spec,
        live: live(&project, store, scrubber, out)?,
        planner: &planner,
        outlet,
        news: NewsQueue::new(base.inbox.sender()),
        claim,
        records: Records::new(&project, base.terms.kept),
        face: &mut teller,
    };
    let mut driver = JobDriver { base, parts };
    let outcome = driver.run(of)?;
    if !matches!(outcome, JobOutcome::Stopped(_)) {
        // Otherwise something may still be ending.
        right.give_back();
    }
    Ok(exit_of(&outcome))
}

/// Returns how the agent of a step is started, or what is missing.
fn plan_agent(
    config: &Config,
    mcp: &Mcp,
    NamedAgent { runtime, model }: &NamedAgent,
) -> Result<AgentPlan, String> {
    let mut own = config.clone();
    if let Some(runtime) = runtime {
        use_agent(&mut own, runtime);
    }
    if own.settings.agent.runtime.is_none() {
        let said = "neither the step, the job nor the settings name an agent: set agent.runtime in \
                    salve.toml";
        return Err(said.to_owned());
    }
    let entry = RoleEntry { model: model.clone(), ..RoleEntry::default() };
    for_role("step", &entry, &own.settings.agent, mcp).map_err(|error| {
        let hint = error.hint_text().unwrap_or_default();
        format!("{error}: {hint}")
    })
}

/// Returns who starts the job: a person, and never an agent that Salve started.
pub(super) fn starter(scrubber: &Scrubber) -> Result<Actor, CliError> {
    match speaker(scrubber) {
        by @ (Actor::Person { .. } | Actor::Salve(_)) => Ok(by),
        Actor::Agent { .. } | Actor::Unproven { .. } | Actor::Forged { .. } => {
            Err(CliError::usage("an agent cannot start a job")
                .hint("let the person who started you run it"))
        }
    }
}

/// Returns what an outcome means to the shell.
fn exit_of(outcome: &JobOutcome) -> ExitCode {
    match outcome {
        JobOutcome::Over(LoopEnd::Completed) | JobOutcome::Parked => Exit::Well.into(),
        JobOutcome::Over(LoopEnd::Limit(_) | LoopEnd::Stuck | LoopEnd::Failed { .. })
        | JobOutcome::CalledOff => Exit::Failed.into(),
        JobOutcome::NeedsPerson(_) => Exit::NeedsPerson.into(),
        JobOutcome::Stopped(SIGINT) => Exit::Interrupted.into(),
        JobOutcome::Stopped(signal) => ExitCode::from(u8::try_from(128 + signal).unwrap_or(1)),
    }
}

impl From<JobError> for CliError {
    fn from(error: JobError) -> Self {
        match error {
            JobError::Store(error) => error.into(),
            JobError::Write(error) => error.into(),
            JobError::Fenced => Self::failed(error.to_string()),
            JobError::Workspace(error) => {
                let advice = error.advice();
                Self::failed("the job's workspace cannot be used").because(error).hint(advice)
            }
        }
    }
}
