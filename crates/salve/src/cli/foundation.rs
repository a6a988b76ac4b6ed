//! What every command that heals stands on, made in one place.
//!
//! [`Foundation`] owns what has to outlive a run: the store, the notices, the outlet. A
//! [`RunBase`] is built on it for what the command cares for.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use salve_core::earned::EarningTerms;
use salve_core::event::{Actor, RepairMode};
use salve_core::scrub::Scrubber;
use uuid::Uuid;

use super::dev::agents;
use super::listen::{Heard, listen};
use super::project::{presence, rekey_memory, speaker, tell_mended, user_name};
use super::terminal_reporter::{AnswerWay, RunTold, TerminalReporter};
use super::{CliError, Output};
use crate::config::Config;
use crate::dirs;
use crate::door::Door;
use crate::fleet_memory::FleetMemory;
use crate::heal::inbox::{Inbox, InboxMessage};
use crate::heal::remedies::Remedies;
use crate::heal::right::{NotGiven, RunLock, RunRight};
use crate::heal::{IncidentWriter, RepairTerms, Reporter, RunBase, RunIntent, control};
use crate::notify::{NoticePlan, Notifier};
use crate::process::{Outlet, Supervisor, WorkOutput, strays};
use crate::project::Project;
use crate::sandbox::Sandbox;
use crate::store::{Store, StoreError, Stream};
use crate::telemetry::Telemetry;

/// How long what a killed run left may take to end by itself.
const STRAYS: Duration = Duration::from_secs(2);

/// What a run cares for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Dev servers, which agents that listen may repair.
    Servers,
    /// Checks, which only agents of ours repair.
    Checks,
    /// The recovery of a loop's tests, in which no agent takes part.
    Recoveries,
    /// Steps of a job, which their own agents do again.
    Steps,
}

/// What outlives a run.
pub(super) struct Foundation<'o> {
    pub(super) project: Project,
    pub(super) store: Store,
    pub(super) scrubber: Scrubber,
    pub(super) outlet: Arc<Outlet>,
    /// The mark of this run.
    pub(super) run: Uuid,
    pub(super) notices: RefCell<Notifier>,
    /// What the work under way writes.
    pub(super) work: WorkOutput,
    /// Where people's words come in while this runs.
    door: Option<Door>,
    /// Whoever is told figures and spans of this run.
    _telemetry: Telemetry,
    out: &'o Output,
}

/// How many entries are looked at together when the door is closed.
const PORTION: usize = 1000;

impl Drop for Foundation<'_> {
    /// Looks once more at all that was written while the door was open: what is a person's word there
    /// and was not announced is noted as refused when it is read, and no later Salve believes it.
    fn drop(&mut self) {
        let mut after = self.door.as_ref().map_or(u64::MAX, Door::since);
        while let Ok(entries) = self.store.journal().read(after, &Stream::Project, PORTION) {
            let Some(last) = entries.last() else { return };
            after = last.seq;
        }
    }
}

impl<'o> Foundation<'o> {
    /// Opens the project's store and begins to tell those who want to be told.
    pub(super) fn lay(
        project: Project,
        config: &Config,
        out: &'o Output,
    ) -> Result<Self, CliError> {
        let store = Store::open(&project)?;
        Self::lay_on(store, config, out)
    }

    /// Begins to tell those who want to be told, on a store that is open.
    pub(super) fn lay_on(store: Store, config: &Config, out: &'o Output) -> Result<Self, CliError> {
        let (scrubber, project) = (scrubber(config)?, store.project().clone());
        let door = match Door::open(&project, || store.journal().last_seq()) {
            Err(StoreError::Word(error)) => {
                // Nobody can answer where there is no place for a key either.
                out.remark(format_args!("people's answers are not looked at: {error}"));
                None
            }
            door => Some(door?),
        };
        tell_mended(&store, out);
        rekey_memory(&store, config, &scrubber, out);
        let notices = Notifier::start(&project, NoticePlan::new(&config.settings), &scrubber)?;
        let notices = RefCell::new(notices);
        let (run, outlet) = (Uuid::new_v4(), outlet(out));
        let me = crate::process::this(&scrubber);
        let _telemetry = Telemetry::start(&project, &config.settings.telemetry, &me)?;
        let work = WorkOutput::keeping_words(&project.agent_log(), &scrubber);
        Ok(Self { project, store, scrubber, outlet, run, notices, work, door, _telemetry, out })
    }

    /// Takes the right to heal checks, and clears away what a run that was killed left.
    pub(super) fn take_right(&self) -> Result<RunLock, CliError> {
        self.ask_for_right().map_err(|error| {
            CliError::failed("the checks of this project are being healed")
                .because(error)
                .hint("wait until it is done: salve status")
        })
    }

    /// Takes the right to heal, unless somebody else has it.
    pub(super) fn ask_for_right(&self) -> Result<RunLock, NotGiven> {
        let me = crate::process::this(&self.scrubber);
        let right = RunLock::take_for(&self.project, RunRight::Checks, &me, self.run)?;
        if let Some(before) = right.run_before() {
            // It must not go on writing while this one heals.
            strays::end(&[before], &[], STRAYS);
        }
        for path in crate::playbook::give_back(self.project.root(), &self.scrubber) {
            let text = format!("gave back {path}, which an interrupted repair had moved away");
            self.out.remark(text);
        }
        Ok(right)
    }

    /// Returns who shows what happens.
    pub(super) fn voice(&self, config: &Config) -> TerminalReporter<'_> {
        TerminalReporter {
            outlet: self.outlet.clone(),
            out: self.out,
            store: &self.store,
            answers: AnswerWay::Commands,
            keys: None,
            several: false,
            terms: EarningTerms::from(&config.settings.earned),
            views: HashMap::new(),
            checked: HashMap::new(),
            told: RunTold::begin(),
            work: self.work.clone(),
            progress: None,
        }
    }

    /// Returns what a run stands on.
    pub(super) fn base<'a>(
        &'a self,
        config: &'a Config,
        purpose: Purpose,
        reporter: &'a mut dyn Reporter,
    ) -> Result<RunBase<'a>, CliError> {
        let agents = match purpose {
            Purpose::Servers if !config.settings.agent.autostart => None,
            Purpose::Servers | Purpose::Checks => {
                agents::all(&self.project, &self.store, config, &self.scrubber, self.out)?
            }
            Purpose::Recoveries | Purpose::Steps => None,
        };
        let by_agent = match purpose {
            Purpose::Servers => config.settings.agent.repair,
            Purpose::Checks | Purpose::Recoveries | Purpose::Steps => agents.is_some(),
        };
        let mut remedies = remedies(&self.project, config, Cow::Borrowed(&config.policy));
        remedies.fleet = FleetMemory::of(&config.settings, &user_name(), &self.scrubber);
        if let Some(fleet) = &remedies.fleet {
            fleet.sync_aside();
        }
        let mode = if by_agent { RepairMode::Agent } else { RepairMode::Legacy };
        Ok(RunBase {
            project: self.project.clone(),
            writer: IncidentWriter::new(&self.store, self.scrubber.clone()),
            care: care(self.run)?.telling(self.work.clone()),
            rules: config.fingerprint_rules(),
            remedies,
            terms: repair_terms(config, purpose, mode, &self.scrubber),
            agents,
            inbox: Inbox::default(),
            reporter,
            presence: presence(),
            by: Some(speaker(&self.scrubber)).filter(|by| matches!(by, Actor::Person { .. })),
            spent: Default::default(),
            orphans: 0,
            intent: RunIntent::Heal,
        })
    }

    /// Begins to hand on what comes from outside: the journal, signals, CONTROL.md. What another
    /// signal than one to end means is said by `signal`.
    pub(super) fn listen(
        &self,
        inbox: &Inbox,
        others: &'static [i32],
        signal: impl Fn(i32) + Clone + Send + 'static,
    ) -> Result<(), CliError> {
        let sender = inbox.sender();
        let tell = move |heard| match heard {
            Heard::Journal(entries) => sender.send(InboxMessage::Journal(entries)).is_ok(),
            Heard::Stop(signal) => sender.send(InboxMessage::Stop(signal)).is_ok(),
            Heard::Signal(number) => {
                signal(number);
                true
            }
        };
        listen(&self.project, &self.store, tell, others)?;
        let person = self.scrubber.scrub(&user_name());
        let mut watch = control::ControlFileWatch::new(&self.project, person, &self.scrubber);
        let sender = inbox.sender();
        // Nobody is left to tell when the run is over.
        let tell = move |text| drop(sender.send(InboxMessage::Note { subject: 0, text }));
        // What is there already counts at once.
        watch.look(&self.store).into_iter().for_each(&tell);
        watch.go_on(tell);
        Ok(())
    }
}

/// Returns how repairs go, as the settings say.
pub(super) fn repair_terms(
    config: &Config,
    purpose: Purpose,
    mode: RepairMode,
    scrubber: &Scrubber,
) -> RepairTerms {
    let (heal, agent, repair) =
        (&config.settings.heal, &config.settings.agent, &config.settings.repair);
    let days = match purpose {
        Purpose::Servers => config.settings.server.crash_log_days,
        Purpose::Checks | Purpose::Recoveries | Purpose::Steps => heal.attempt_days,
    };
    RepairTerms {
        person: scrubber.scrub(&user_name()),
        mode,
        engage: agent.engage_timeout,
        write: agent.write_timeout,
        max_files: repair.max_files,
        max_lines: repair.max_loc,
        on_failure: agent.on_failure.into(),
        breakers: heal.breakers.clone(),
        tiers: heal.tiers.clone(),
        broadcast: heal.broadcast,
        kept: Duration::from_secs(u64::from(days) * 86_400),
    }
}

/// Returns the scrubber that the settings ask for.
pub(super) fn scrubber(config: &Config) -> Result<Scrubber, CliError> {
    let scrubber = config.settings.scrub.scrubber();
    scrubber.map_err(|error| CliError::usage("the settings are wrong").because(error))
}

/// Returns where the output of subjects goes; with `--json`, stdout is kept free for facts.
fn outlet(out: &Output) -> Arc<Outlet> {
    let side = || rustix::stdio::stderr().try_clone_to_owned().ok();
    Arc::new(if out.json() { Outlet::new(side(), side()) } else { Outlet::standard() })
}

/// Returns the remedies under settings that need not outlive them.
pub(super) fn remedies_of_own(project: &Project, config: &Config) -> Remedies<'static> {
    remedies(project, config, Cow::Owned(config.policy.clone()))
}

pub(super) fn remedies<'p>(
    project: &Project,
    config: &Config,
    policy: Cow<'p, salve_core::gate::GatePolicy>,
) -> Remedies<'p> {
    let (root, auto) = (project.root().to_path_buf(), config.settings.playbook.auto);
    let user = dirs::data().filter(|_| config.settings.memory.user);
    let sandbox = Sandbox::new(&config.settings.recovery.sandbox);
    let mut remedies = Remedies::new(root, policy, auto, sandbox, user);
    remedies.terms = EarningTerms::from(&config.settings.earned);
    remedies.patches = config.settings.memory.patches;
    remedies
}

/// Starts to care for the processes of a run.
pub(super) fn care(run: Uuid) -> Result<Supervisor, CliError> {
    Supervisor::start(run)
        .map_err(|error| CliError::failed("cannot care for processes").because(error))
}
