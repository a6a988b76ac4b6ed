//! What agents ask of the journal, and what they tell it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use salve_core::event::{Actor, Draft, Event, IncidentEvent, Process, SessionEvent, SubjectKind};
use salve_core::id::IncidentId;
use salve_core::incident::Incident;
use salve_core::repair::{self, IncidentStory, NoTask, RepairScene, Reported, WaitingTask};
use salve_core::scrub::{Scrubbed, Scrubber};
use salve_core::view::IncidentView;
use serde::Serialize;

use super::error::RepairToolsError;
use crate::config::Sources;
use crate::heal::people::append_word;
use crate::process::answerer;
use crate::project::Project;
use crate::reading::{IncidentNotFound, RepairMoment, deserted, find_incident, incident_view};
use crate::store::{Store, StoreError, StoreOnDemand, Stream};

/// How many incidents are looked at, newest first.
const RECENT: usize = 50;

/// How often what changed meanwhile is looked at again.
const TRIES: usize = 8;

/// How long a client that keeps no session counts as being there.
const LINGER: Duration = Duration::from_secs(300);

/// The longest name of an agent that is kept, in bytes.
const NAME: usize = 100;

/// What a room is opened for.
#[derive(Clone, Debug)]
pub struct RepairToolsPlace {
    pub project: Project,
    /// What takes secrets out of what agents say.
    pub scrubber: Scrubber,
    /// Where servers answer by the settings, by their names.
    pub urls: BTreeMap<String, String>,
    /// Where the settings are.
    pub sources: Sources,
}

/// What is answered to a report that was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Marked {
    /// Always true.
    pub ok: bool,
    /// The phase that was reported.
    pub phase: &'static str,
    /// What comes next.
    pub next_step: String,
    /// The incident.
    pub repair_id: IncidentId,
    /// The attempt it counts for.
    pub attempt: u32,
}

/// What an agent reports, as it came.
#[derive(Clone, Debug, Default)]
pub struct AgentReport {
    /// The incident's id, or its first digits.
    pub repair_id: String,
    /// The phase's name.
    pub phase: String,
    /// The attempt it speaks of.
    pub attempt: Option<u32>,
    /// What it says it changed.
    pub change: salve_core::event::Change,
    /// What it says about it.
    pub message: Option<String>,
}

/// Who is there to take up repairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum AttachedPresence {
    #[default]
    Nobody,
    /// A client with a session.
    Session,
    /// A client that keeps none, heard of then.
    Heard(Instant),
}

/// What is known of the clients of this process.
#[derive(Debug, Default)]
pub(super) struct Clients {
    presence: AttachedPresence,
    /// The name of the one heard of last.
    name: Option<Scrubbed>,
    /// Whom the journal has as being there.
    attached: Option<Scrubbed>,
}

/// The journal as agents see it; a project without a store stays without.
#[derive(Debug)]
pub struct RepairTools<'s> {
    pub(super) place: &'s RepairToolsPlace,
    pub(super) me: &'s Process,
    pub(super) clients: &'s mut Clients,
    pub(super) store: &'s mut StoreOnDemand,
}

impl RepairTools<'_> {
    pub fn project(&self) -> &Project {
        &self.place.project
    }

    /// Returns the names of the checks in the settings as they are now.
    pub(super) fn checks(&self) -> Vec<String> {
        // Mistakes in the settings are told by those who run by them.
        let config = crate::config::load(&self.place.sources);
        config.map(|config| config.settings.checks.into_keys().collect()).unwrap_or_default()
    }

    pub fn scrubber(&self) -> &Scrubber {
        &self.place.scrubber
    }

    /// Returns the store if there is one by now.
    pub(super) fn store(&mut self) -> Result<Option<&Store>, StoreError> {
        self.store.existing()
    }

    /// Takes in that a client with a session is there.
    pub fn arrive(&mut self, name: &str) {
        self.clients.name = Some(self.agent_name(name));
        self.clients.presence = AttachedPresence::Session;
        self.tend();
    }

    /// Remembers the process that has these tools for itself as an agent, for as long as it lives.
    pub fn remember_client(&self) {
        answerer::remember_client(self.place.project.root());
    }

    /// Takes in that a client was heard of that may keep no session.
    pub fn hear(&mut self, name: &str) {
        self.clients.name = Some(self.agent_name(name));
        self.clients.presence = AttachedPresence::Heard(Instant::now());
        self.tend();
    }

    /// Takes in that all clients have left.
    pub fn leave(&mut self) {
        self.clients.presence = AttachedPresence::Nobody;
        self.tend();
    }

    /// Writes to the journal whether somebody is there to take up repairs, when that changed.
    ///
    /// What cannot be written now is written the next time.
    pub fn tend(&mut self) {
        let present = match self.clients.presence {
            AttachedPresence::Nobody => false,
            AttachedPresence::Session => true,
            AttachedPresence::Heard(at) => at.elapsed() < LINGER,
        };
        let process = self.me.clone();
        let (event, name, attached) = match (present, self.clients.attached.take()) {
            (true, None) => {
                let name = self.clients.name.clone().unwrap_or_default();
                (Event::Session(SessionEvent::Attached { process }), name.clone(), Some(name))
            }
            (false, Some(name)) => (Event::Session(SessionEvent::Detached { process }), name, None),
            (_, attached) => {
                self.clients.attached = attached;
                return;
            }
        };
        let was = if attached.is_some() { None } else { Some(name.clone()) };
        let draft =
            Draft { at: Timestamp::now(), by: Actor::Agent { name }, incident: None, event };
        let written = match self.store() {
            Ok(Some(store)) => store.journal().append(draft).is_ok(),
            Ok(None) | Err(_) => false,
        };
        self.clients.attached = if written { attached } else { was };
    }

    /// Returns an agent's name as it is kept.
    pub(super) fn agent_name(&self, name: &str) -> Scrubbed {
        let cut: String = name.chars().take(NAME).collect();
        let name = if cut.trim().is_empty() { "agent" } else { cut.trim() };
        self.place.scrubber.scrub(name)
    }

    /// Returns the repair that waits for an agent, and says in the journal that `client` took it up.
    pub fn task(
        &mut self,
        client: &str,
        server: Option<&str>,
    ) -> Result<WaitingTask, RepairToolsError> {
        let by = Actor::Agent { name: self.agent_name(client) };
        for _ in 0..TRIES {
            let Some(moment) = self.look()? else { return Ok(WaitingTask::Nothing(never())) };
            let views = &moment.repairs;
            let task = repair::task(views, &moment.scene(server));
            let WaitingTask::Repair(found) = &task else { return Ok(task) };
            let Some(view) = views.iter().find(|view| view.id() == found.repair_id) else {
                return Ok(task);
            };
            let Some(event) = view.engage() else { return Ok(task) };
            if self.append(&by, view.incident(), event)? {
                return Ok(task);
            }
        }
        Err(RepairToolsError::Restless)
    }

    /// Takes in what `client` reports.
    pub fn mark(&mut self, client: &str, report: &AgentReport) -> Result<Marked, RepairToolsError> {
        let by = Actor::Agent { name: self.agent_name(client) };
        let message = report.message.as_deref().filter(|text| !text.trim().is_empty());
        let message = message.map(|text| self.scrub_message(text));
        for _ in 0..TRIES {
            let view = self.repair(&report.repair_id)?;
            let step = repair::mark(
                &view,
                Reported {
                    phase: &report.phase,
                    attempt: report.attempt,
                    change: report.change,
                    message: message.clone(),
                },
            )?;
            let (repair_id, attempt) = (view.id(), view.attempt());
            if self.append(&by, view.incident(), step.event)? {
                let (phase, next_step) = (step.phase, step.next_step);
                return Ok(Marked { ok: true, phase, next_step, repair_id, attempt });
            }
        }
        Err(RepairToolsError::Restless)
    }

    /// Returns what an agent said, without secrets and not too long.
    fn scrub_message(&self, text: &str) -> Scrubbed {
        // More than is kept is scrubbed, so that no secret is cut in two at the end.
        const KEPT: usize = 2_000;
        let text: String = text.chars().take(4 * KEPT).collect();
        self.place.scrubber.scrub(&text).head(KEPT)
    }

    /// Appends what an agent said, unless the incident has gone on since it was viewed; returns
    /// whether it did.
    fn append(&mut self, by: &Actor, viewed: &Incident, event: Event) -> Result<bool, StoreError> {
        let Some(store) = self.store()? else { return Ok(false) };
        let (at, by, incident) = (Timestamp::now(), by.clone(), Some(viewed.id()));
        let draft = Draft { at, by, incident, event };
        Ok(append_word(store.journal(), viewed.last_seq(), draft)?.is_some())
    }

    /// Returns how repairs stand.
    pub fn status(
        &mut self,
        server: Option<&str>,
    ) -> Result<repair::RepairStatus, RepairToolsError> {
        let moment = self.look()?.unwrap_or_default();
        Ok(repair::status(&moment.repairs, &moment.scene(server)))
    }

    /// Returns the errors there are to see.
    pub fn errors(&mut self, server: Option<&str>) -> Result<repair::Errors, RepairToolsError> {
        let moment = self.look()?.unwrap_or_default();
        Ok(repair::errors(&moment.repairs, &moment.page_failures, &moment.scene(server)))
    }

    /// Returns one incident's whole story.
    pub fn story(&mut self, id: &str) -> Result<IncidentStory, RepairToolsError> {
        let view = self.repair(id)?;
        let deserted = deserted(&view, &self.place.scrubber);
        let scene = RepairScene { deserted: deserted.as_slice(), ..RepairScene::default() };
        Ok(IncidentStory::of(&view, &scene))
    }

    /// Returns the latest incidents' ids, the newest first, with their subjects.
    pub fn incidents(
        &mut self,
    ) -> Result<Vec<(IncidentId, SubjectKind, String)>, RepairToolsError> {
        let Some(store) = self.store()? else { return Ok(Vec::new()) };
        let opened = store.journal().tail(&Stream::Incidents, RECENT)?;
        let found = opened.iter().rev().filter_map(|entry| match (&entry.event, entry.incident) {
            (Event::Incident(IncidentEvent::Opened { subject, .. }), Some(id)) => {
                Some((id, subject.kind, subject.name.to_string()))
            }
            (_, _) => None,
        });
        Ok(found.collect())
    }

    /// Returns the repair whose id begins with `given`.
    fn repair(&mut self, given: &str) -> Result<IncidentView, RepairToolsError> {
        let Some(store) = self.store()? else { return Err(self.unknown(given)) };
        let found = find_incident(store.journal(), given);
        let found = found.and_then(|id| Ok(incident_view(store.journal(), id)?));
        match found {
            Ok(Some(view)) => Ok(view),
            Ok(None) | Err(IncidentNotFound::Unknown(_) | IncidentNotFound::Malformed(_)) => {
                Err(self.unknown(given))
            }
            Err(IncidentNotFound::Ambiguous { given, .. }) => {
                Err(RepairToolsError::Ambiguous(given))
            }
            Err(IncidentNotFound::Store(error)) => Err(error.into()),
        }
    }

    /// Says that no repair has an id, and which are open.
    fn unknown(&mut self, given: &str) -> RepairToolsError {
        let open = match self.status(None) {
            Ok(status) => status.active_repairs.iter().map(|repair| repair.repair_id).collect(),
            Err(_) => Vec::new(),
        };
        let given = self.place.scrubber.scrub(&given.chars().take(60).collect::<String>());
        RepairToolsError::Unknown { given: given.into_string(), open }
    }

    /// Reads all that is needed to tell how things stand, if there is a store.
    fn look(&mut self) -> Result<Option<RepairMoment>, StoreError> {
        let (scrubber, urls) = (self.place.scrubber.clone(), self.place.urls.clone());
        let Some(store) = self.store()? else { return Ok(None) };
        RepairMoment::read(store.journal(), &urls, &scrubber).map(Some)
    }
}

fn never() -> NoTask {
    NoTask::new(
        "Salve has cared for nothing in this project yet.",
        "Ask the user to start the dev server with `salve dev -- COMMAND`.",
    )
}
