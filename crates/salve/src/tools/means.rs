//! The means to heal a failed call: the user's rules, what runs them, and where it is written down.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use salve_auto_heal::{Flight, FlightOutcome, WantedFix};
use salve_core::event::{Authority, ProcessExit};
use salve_core::fingerprint::{FingerprintRules, Hints};
use salve_core::scrub::Scrubber;
use salve_core::tool::failure::FailedCall;
use salve_core::tool::rule::{FixReach, HealChoice, HealTable, ToolFix};
use salve_core::tool::session::ToolHints;
use serde_json::Value;
use uuid::Uuid;

use crate::config::{Config, Network, PreventionSettings, SandboxMode, SandboxSettings};
use crate::dirs;
use crate::gate;
use crate::learned::{FailedCalls, Learned, ToolFailure, When};
use crate::process::Supervisor;
use crate::project::Project;
use crate::sandbox::{Sandbox, SandboxEnd, SandboxedCommand, shell};
use crate::store::{Fleet, FlightEnd, FlightError, FlightTerms, Store, StoreError, fix_once};

/// How long a machine that mends something for all may say nothing before another one does it.
const FLEET_LEASE: Duration = Duration::from_secs(15);

/// How much of an error is kept.
const KEPT_ERROR: usize = 2_000;

/// All that is needed to heal a failed call, read when one fails.
#[derive(Debug)]
pub struct HealMeans {
    table: HealTable,
    /// How often a call is tried again, or 0 where healing is off.
    max_retries: u32,
    config: Config,
    care: Supervisor,
    flight: Flight,
    scrubber: Scrubber,
    project: Option<Project>,
    dir: PathBuf,
    time: HealTime,
}

/// How long healing may take, beside each fix's own limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealTime {
    /// As long as it takes.
    Any,
    /// Until then.
    Until(Instant),
}

/// Why a fix was not carried out or did not work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FixError(pub String);

/// What came of a failed call, to be written down.
#[derive(Clone, Debug)]
pub struct Healed<'a> {
    pub call: &'a FailedCall,
    /// What it was called with, where that is known.
    pub arguments: &'a Value,
    /// What was done, in words.
    pub resolution: Option<String>,
    /// Whether the call works now.
    pub is_healed: bool,
}

impl HealMeans {
    /// Gathers the means for calls made in `dir`.
    pub fn new(config: Config, care: Supervisor, project: Option<Project>, dir: PathBuf) -> Self {
        let auto_heal = &config.settings.auto_heal;
        let scrubber =
            config.settings.scrub.scrubber().unwrap_or_else(|_| crate::scrub::scrubber());
        let fixes = dirs::data().unwrap_or_else(|| dir.join(".salve")).join("fixes");
        Self {
            table: config.settings.heal_table(),
            max_retries: if auto_heal.enabled { auto_heal.max_retries } else { 0 },
            care,
            flight: Flight::new(fixes),
            scrubber,
            project,
            dir,
            config,
            time: HealTime::Any,
        }
    }

    /// Bounds all fixes together.
    #[must_use]
    pub fn within(mut self, time: HealTime) -> Self {
        self.time = time;
        self
    }

    /// Returns how long the next fix may take.
    fn fix_limit(&self) -> Duration {
        let limit = self.config.settings.auto_heal.fix_timeout;
        match self.time {
            HealTime::Any => limit,
            HealTime::Until(end) => limit.min(end.saturating_duration_since(Instant::now())),
        }
    }

    /// Returns how often a call is tried again at most.
    pub fn max_retries(&self) -> u32 {
        self.max_retries
    }

    /// Returns whether a call that was tried again so often may be tried once more.
    pub fn may_retry(&self, retries: u32) -> bool {
        retries < self.max_retries
    }

    /// Judges what a failed call said.
    pub fn judge_failure(&self, tool: &str, text: &str) -> FailedCall {
        let rules = self.config.fingerprint_rules();
        let class = rules.fingerprint(text, &Hints::default()).class;
        FailedCall::new(tool, text, class)
    }

    /// Chooses what is done about a failed call.
    pub fn choose(
        &self,
        call: &FailedCall,
        hints: ToolHints,
        has_tool: &dyn Fn(&str) -> bool,
    ) -> HealChoice {
        self.table.choose(call, hints, has_tool)
    }

    /// Tells whether a failed call may be made again.
    pub fn may_repeat(&self, call: &FailedCall, hints: ToolHints) -> bool {
        self.table.may_repeat(call, hints)
    }

    /// Runs a command that shows what a call did, and returns the last of what it says.
    ///
    /// # Errors
    ///
    /// Why it could not show that.
    pub fn look(&self, command: &str) -> Result<String, String> {
        let ran = self.run_held(command, &self.held(&[]), Vec::new())?;
        if ran.exit == ProcessExit::Code(0) {
            return Ok(self.scrub(ran.output.trim_end()));
        }
        Err(self.failure(command, &ran))
    }

    /// Carries out a fix for a call that began at `began`, once for all who need it; what only the
    /// caller can do is done by `by_caller`.
    pub fn fix(
        &self,
        fix: &ToolFix,
        began: Timestamp,
        by_caller: &mut dyn FnMut(&ToolFix) -> Result<(), String>,
    ) -> Result<(), FixError> {
        if let ToolFix::Wait { seconds } = fix {
            let asked = Duration::from_secs(*seconds);
            if asked > self.fix_limit() {
                // Whoever called knows that now, instead of waiting for us.
                return Err(FixError(format!(
                    "the other side asks to wait {seconds} s, which is longer than Salve may wait"
                )));
            }
            std::thread::sleep(asked);
            return Ok(());
        }
        let act = || match fix {
            ToolFix::Run { command, writes, cluster, .. } => {
                self.run(command, &self.held(writes), self.kubeconfig(cluster.as_deref()))
            }
            ToolFix::ConnectVpn { script } => {
                self.run(&expand_home(script), &self.free(), Vec::new())
            }
            ToolFix::Call { .. } | ToolFix::Restart | ToolFix::Wait { .. } => by_caller(fix),
        };
        let wanted = WantedFix { cause: &self.cause(fix), began, writes: &written_by(fix) };
        let outcome = self.flight.fix(&wanted, || self.once_in_fleet(fix, began, act));
        match outcome.map_err(|error| FixError(format!("the fix could not be begun: {error}")))? {
            FlightOutcome::Done => Ok(()),
            FlightOutcome::Failed(why) => Err(FixError(why)),
            FlightOutcome::Useless => Err(FixError(
                "it was done a short while ago and did not help: a person has to look".to_owned(),
            )),
        }
    }

    /// Does a fix once for all machines of the fleet, where its rule says that all of them are helped
    /// by it; a fleet that cannot be asked keeps nothing from being mended here.
    fn once_in_fleet(
        &self,
        fix: &ToolFix,
        began: Timestamp,
        act: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        let (ToolFix::Run { reach: FixReach::Fleet, command, .. }, Ok(Some(terms))) =
            (fix, self.config.settings.fleet.terms())
        else {
            return act();
        };
        let place = self.project.clone().or_else(|| dirs::data().map(Project::of_user));
        let store = place.and_then(|place| Store::open_in_fleet(&place, &terms).ok());
        let Some(flights) = store.as_ref().and_then(Store::fleet).map(Fleet::flights) else {
            return act();
        };
        // On another machine the project lies elsewhere; its name tells it from the others.
        let cause = match (&self.project, self.is_of_project(command)) {
            (Some(project), true) => {
                let name = project.home().file_name().unwrap_or_default().to_string_lossy();
                format!("{} in {name}", fix.cause())
            }
            (_, _) => fix.cause(),
        };
        let ago = Duration::try_from(Timestamp::now().duration_since(began)).unwrap_or_default();
        let since = Instant::now().checked_sub(ago).unwrap_or_else(Instant::now);
        let terms = FlightTerms { lease: FLEET_LEASE, patience: self.fix_limit() };
        let mut act = Some(act);
        let end = fix_once(flights, &cause, since, terms, || {
            match act.take().map_or(Ok(()), |act| act()) {
                Ok(()) => FlightEnd::Done,
                Err(why) => FlightEnd::Failed(self.scrubber.scrub(&why)),
            }
        });
        match (end, act) {
            (Ok(FlightEnd::Done), _) => Ok(()),
            (Ok(FlightEnd::Failed(why)), _) => Err(why.into_string()),
            (Err(FlightError::Store(_)), Some(act)) => act(),
            (Err(error), _) => Err(error.to_string()),
        }
    }

    /// Notes whether a call worked after a fix.
    pub fn judge_fix(&self, fix: &ToolFix, helped: bool) {
        if !matches!(fix, ToolFix::Wait { .. }) {
            // What cannot be noted costs one more fix.
            let _ = self.flight.judge(&self.cause(fix), helped);
        }
    }

    /// Returns what one cause has in common: a restart is one server's own matter, and what a
    /// project's settings name may be something else in the next project.
    fn cause(&self, fix: &ToolFix) -> String {
        let root = self.project.as_ref().map_or(&*self.dir, Project::root);
        match fix {
            ToolFix::Restart => {
                format!("restart in {} by {}", self.dir.display(), std::process::id())
            }
            ToolFix::Run { command, .. } if self.is_of_project(command) => {
                format!("{} in {}", fix.cause(), root.display())
            }
            ToolFix::Run { .. }
            | ToolFix::ConnectVpn { .. }
            | ToolFix::Call { .. }
            | ToolFix::Wait { .. } => fix.cause(),
        }
    }

    fn is_of_project(&self, command: &str) -> bool {
        let rules = self.config.tree.get("auto_heal.rules");
        let is_users = rules.is_some_and(|rules| rules.origin.layer() == "user");
        let program = command.split_whitespace().next().unwrap_or_default();
        let is_relative = program.contains('/') && !program.starts_with(['/', '~']);
        !is_users || is_relative
    }

    /// Returns the sandbox of a rule's command: what it may write to, and any network, because where
    /// one logs in is known to the command alone.
    fn held(&self, writes: &[String]) -> SandboxSettings {
        let mut settings = self.config.settings.recovery.sandbox.clone();
        settings.caches.extend(writes.iter().cloned());
        SandboxSettings { network: Network::Any, ..settings }
    }

    /// Returns the bounds of the user's own program for the VPN: it changes the system's network,
    /// which nothing that is held can do.
    fn free(&self) -> SandboxSettings {
        let settings = self.config.settings.recovery.sandbox.clone();
        SandboxSettings { mode: SandboxMode::Off, ..settings }
    }

    /// Returns the variable that names the settings of a cluster.
    fn kubeconfig(&self, cluster: Option<&str>) -> Vec<(OsString, OsString)> {
        let file = cluster.and_then(|name| self.config.settings.auto_heal.clusters.get(name));
        file.map(|file| ("KUBECONFIG".into(), expand_home(file).into())).into_iter().collect()
    }

    fn run(
        &self,
        command: &str,
        settings: &SandboxSettings,
        env: Vec<(OsString, OsString)>,
    ) -> Result<(), String> {
        let ran = self.run_held(command, settings, env)?;
        if ran.exit == ProcessExit::Code(0) { Ok(()) } else { Err(self.failure(command, &ran)) }
    }

    fn run_held(
        &self,
        command: &str,
        settings: &SandboxSettings,
        env: Vec<(OsString, OsString)>,
    ) -> Result<SandboxEnd, String> {
        let root = self.project.as_ref().map_or(&*self.dir, Project::root);
        let dir = gate::resolve(root, ".").map_err(|error| error.to_string())?;
        let job = SandboxedCommand {
            command,
            argv: shell(command),
            root,
            dir: &dir,
            env,
            name: format!("fix {}", Uuid::new_v4()),
            limit: self.fix_limit(),
            on: Authority::Gate,
        };
        let ran =
            Sandbox::new(settings).run(&self.care, &job).map_err(|error| error.to_string())?;
        if let Some(breach) = &ran.breach {
            return Err(format!("`{command}` was stopped: {breach}"));
        }
        Ok(ran)
    }

    fn failure(&self, command: &str, ran: &SandboxEnd) -> String {
        let output = self.scrubber.scrub(&ran.output);
        let last: Vec<&str> = output.as_str().lines().rev().take(3).collect();
        let last = last.into_iter().rev().collect::<Vec<_>>().join("; ");
        let limit = match self.time {
            HealTime::Any => {
                format!("{} ms", self.config.settings.auto_heal.fix_timeout.as_millis())
            }
            HealTime::Until(_) => "the time that was left".to_owned(),
        };
        let how = match ran.exit {
            ProcessExit::Code(code) => format!("failed with exit code {code}"),
            ProcessExit::Signal(signal) => format!("was ended by signal {signal}"),
            ProcessExit::TimedOut | ProcessExit::Hung => {
                format!("was not done after {limit}")
            }
        };
        format!("`{command}` {how}: {last}")
    }

    /// Writes down what came of a failed call, where the project keeps such things.
    pub fn record(&self, healed: &Healed<'_>) {
        self.with_memory(|learned| {
            // A call is not made to fail by what is kept of it.
            if self.note(&learned, healed).is_ok() {
                let _ = learned.sync();
            }
        });
    }

    /// Writes down what came of a failed call in a store that is open already; the files follow
    /// with [`Self::sync_in`].
    pub fn record_in(&self, store: &Store, healed: &Healed<'_>) {
        // The user's own memory holds what heals, and no statistics.
        if self.project.is_some() {
            let _ = self.note(&self.learned(store), healed);
        }
    }

    /// Brings the files that people read up to date.
    pub fn sync_in(&self, store: &Store) {
        if self.project.is_some() {
            let _ = self.learned(store).sync();
        }
    }

    fn learned<'s>(&'s self, store: &'s Store) -> Learned<'s> {
        Learned::new(store, &self.scrubber, self.config.fingerprint_rules())
    }

    fn note(&self, learned: &Learned<'_>, healed: &Healed<'_>) -> Result<(), StoreError> {
        FailedCalls::of(learned).note(&ToolFailure {
            timestamp: When(Timestamp::now()),
            tool: healed.call.tool.clone(),
            error: healed.call.text.chars().take(KEPT_ERROR).collect(),
            context: healed.arguments.clone(),
            resolution: healed.resolution.clone(),
            auto_healed: healed.is_healed,
        })
    }

    /// Uses the project's memory, making it if there is none; nothing where there is no project.
    pub(super) fn with_memory<T>(&self, work: impl FnOnce(Learned<'_>) -> T) -> Option<T> {
        let store = Store::open(self.project.as_ref()?).ok()?;
        Some(work(self.learned(&store)))
    }

    /// Uses the project's memory if there is one and it answers.
    pub(super) fn with_existing_memory<T, E>(
        &self,
        work: impl FnOnce(Learned<'_>) -> Result<T, E>,
    ) -> Option<T> {
        let project = self.project.as_ref()?;
        if !project.database().exists() && !project.learned().is_dir() {
            return None;
        }
        self.with_memory(work)?.ok()
    }

    /// Returns how calls that are known to fail are treated.
    pub fn prevention(&self) -> PreventionSettings {
        self.config.settings.prevention
    }

    /// Returns the project that the calls are made in.
    pub fn project(&self) -> Option<&Project> {
        self.project.as_ref()
    }

    /// Returns the rules by which failures are recognised.
    pub fn fingerprint_rules(&self) -> &FingerprintRules {
        self.config.fingerprint_rules()
    }

    /// Returns text without its secrets.
    pub fn scrub(&self, text: &str) -> String {
        self.scrubber.scrub(text).as_str().to_owned()
    }
}

/// Returns what a fix writes to: what changes there without it may make it help next time.
fn written_by(fix: &ToolFix) -> Vec<PathBuf> {
    match fix {
        ToolFix::Run { writes, .. } => writes.iter().map(|path| expand_home(path).into()).collect(),
        ToolFix::ConnectVpn { .. }
        | ToolFix::Call { .. }
        | ToolFix::Restart
        | ToolFix::Wait { .. } => Vec::new(),
    }
}

/// Returns a path with the home directory for `~/`.
pub(super) fn expand_home(path: &str) -> String {
    match (path.strip_prefix("~/"), std::env::var("HOME")) {
        (Some(rest), Ok(home)) => format!("{home}/{rest}"),
        _ => path.to_owned(),
    }
}
