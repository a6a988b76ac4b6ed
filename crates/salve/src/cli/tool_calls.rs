//! Serves a desk of failed tool calls: for `salve proxy` and `salve call`.

use std::borrow::Cow;
use std::sync::Arc;

use salve_core::event::{Entry, RepairMode};
use salve_core::incident::Incident;
use uuid::Uuid;

use super::foundation::{self, Purpose};
use super::{CliError, Output};
use crate::dirs;
use crate::heal::inbox::Inbox;
use crate::heal::{IncidentWriter, Presence, Remark, Reporter, RunBase};
use crate::process::Supervisor;
use crate::project::Project;
use crate::store::Store;
use crate::subjects::tool::{CallDesk, ToolCalls};
use crate::telemetry::Telemetry;
use crate::tools::{HealMeans, HealTime};

/// Returns a desk that a thread serves while calls wait there, with the settings that are in force
/// by then.
pub(super) fn desk(care: Supervisor, out: &Output) -> Arc<CallDesk> {
    let global = out.global().clone();
    CallDesk::new(move |desk| {
        let (care, global) = (care.clone(), global.clone());
        let work = move || serve(&desk, &care, HealTime::Any, &Output::new(&global));
        std::thread::Builder::new().name("salve-heal".to_owned()).spawn(work).is_ok()
    })
}

/// Heals the calls of a desk until none waits. Where that cannot be, they go back as they are: a
/// call that fails is no reason for another failure.
pub(super) fn serve(desk: &Arc<CallDesk>, care: &Supervisor, time: HealTime, out: &Output) {
    loop {
        if let Err(error) = heal(desk, care, time, out) {
            out.error(&error);
            desk.give_up();
        }
        if desk.leave() {
            return;
        }
    }
}

fn heal(
    desk: &Arc<CallDesk>,
    care: &Supervisor,
    time: HealTime,
    out: &Output,
) -> Result<(), CliError> {
    let config = super::config::in_force(out)?;
    let scrubber = foundation::scrubber(&config)?;
    let dir = std::env::current_dir().map_err(|error| {
        CliError::failed("cannot find out the present directory").because(error)
    })?;
    let project = Project::locate(out.global().project.as_deref()).ok();
    // Outside of any project, the user's own store takes the journal.
    let keeps = project.clone().or_else(|| dirs::data().map(Project::of_user));
    let keeps = keeps.ok_or_else(|| CliError::failed("there is no place for the journal"))?;
    let store = Store::open(&keeps)?;
    let me = crate::process::this(&scrubber);
    let _telemetry = Telemetry::start(&keeps, &config.settings.telemetry, &me)?;
    let means = HealMeans::new(config.clone(), care.clone(), project, dir).within(time);
    let means = Arc::new(means);
    let remedies = foundation::remedies(&keeps, &config, Cow::Borrowed(&config.policy));
    let mut reporter = QuietReporter;
    let mut base = RunBase {
        project: keeps,
        writer: IncidentWriter::new(&store, scrubber.clone()),
        care: care.clone(),
        rules: config.fingerprint_rules(),
        remedies,
        terms: foundation::repair_terms(
            &config,
            Purpose::Recoveries,
            RepairMode::Legacy,
            &scrubber,
        ),
        agents: None,
        inbox: Inbox::default(),
        reporter: &mut reporter,
        presence: Presence::Unattended,
        by: None,
        spent: Default::default(),
        orphans: 0,
        intent: crate::heal::RunIntent::Heal,
    };
    let mut calls = ToolCalls::new(Arc::clone(desk), Arc::clone(&means), &base)?;
    let cared = base.care_for(&mut calls);
    means.sync_in(&store);
    cared?;
    Ok(())
}

/// Shows nothing: the answer to the call says what was done.
struct QuietReporter;

impl Reporter for QuietReporter {
    fn entry(&mut self, _: &str, _: &Incident, _: &Entry) {}

    fn remark(&mut self, _: &str, _: &Remark) {}
}

/// Starts to care for the processes of calls.
pub(super) fn care() -> Result<Supervisor, CliError> {
    foundation::care(Uuid::new_v4())
}
