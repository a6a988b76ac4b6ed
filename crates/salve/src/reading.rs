//! Reads a project's journal for those who show it: the one place where its entries become views.
//!
//! The command line, the repair tools, notices and the web page ask here for the views of
//! [`salve_core::view`]; an incident that a newer Salve opened is that Salve's to tell about, and is
//! passed over.

use std::collections::{BTreeMap, BTreeSet};

use salve_core::event::{Entry, LoopId, SubjectKind};
use salve_core::id::IncidentId;
use salve_core::incident::Incident;
use salve_core::iteration::Loop;
use salve_core::overview::{IncidentIndex, IndexedIncident};
use salve_core::repair::{RepairScene, RepairState, Server, ServerState, servers};
use salve_core::scrub::Scrubber;
use salve_core::view::{IncidentView, LoopView};

use crate::process;
use crate::store::{Journal, StoreError, Stream};

/// How many entries about servers are looked at.
const SERVER_ENTRIES: usize = 256;

/// How many incidents are looked at for the repairs of servers, the newest first.
const RECENT_REPAIRS: usize = 50;

/// How many reports of pages are looked at, the newest first.
const PAGE_REPORTS: usize = 200;

/// Why no incident could be found by what somebody typed.
#[derive(Debug, thiserror::Error)]
pub enum IncidentNotFound {
    /// The journal could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It is no beginning of an id.
    #[error("`{0}` is not an incident's id")]
    Malformed(String),
    /// There is none.
    #[error("no incident's id begins with `{0}`")]
    Unknown(String),
    /// Several incidents begin so.
    #[error("several incidents' ids begin with `{given}`")]
    Ambiguous {
        /// What was typed.
        given: String,
        /// The incidents.
        ids: Vec<IncidentId>,
    },
}

/// Finds the one incident whose id begins with `given`, with or without `heal-` before it.
pub fn find_incident(journal: &dyn Journal, given: &str) -> Result<IncidentId, IncidentNotFound> {
    let digits = given.trim();
    let digits = digits.strip_prefix("heal-").unwrap_or(digits);
    let count = digits.chars().filter(|c| *c != '-').count();
    let is_hex = digits.chars().all(|c| c == '-' || c.is_ascii_hexdigit());
    let given = digits.chars().take(60).collect();
    if !(1..=32).contains(&count) || !is_hex {
        return Err(IncidentNotFound::Malformed(given));
    }
    let mut ids = journal.incidents_like(digits)?;
    match ids.pop() {
        Some(one) if ids.is_empty() => Ok(one),
        Some(last) => {
            ids.push(last);
            Err(IncidentNotFound::Ambiguous { given, ids })
        }
        None => Err(IncidentNotFound::Unknown(given)),
    }
}

/// Returns one incident, if this Salve can tell of it.
pub fn incident_view(
    journal: &dyn Journal,
    id: IncidentId,
) -> Result<Option<IncidentView>, StoreError> {
    let entries = journal.read(0, &Stream::Incident(id), usize::MAX)?;
    Ok(IncidentView::of(entries).ok())
}

/// Returns the rows of the last `most` incidents that opened before the entry `before`, the newest
/// first, as an index of the whole journal has them.
pub fn newest_rows(
    journal: &dyn Journal,
    before: u64,
    most: usize,
) -> Result<Vec<IndexedIncident>, StoreError> {
    let mut entries = Vec::new();
    for opened in journal.read_back(before, &Stream::Incidents, most)? {
        if let Some(id) = opened.incident {
            entries.extend(journal.read(0, &Stream::Incident(id), usize::MAX)?);
        }
    }
    // An index hears entries in their order.
    entries.sort_by_key(|entry| entry.seq);
    let mut index = IncidentIndex::default();
    entries.iter().for_each(|entry| index.hear(entry));
    Ok(index.before(before).cloned().collect())
}

/// Returns the last incidents, the newest first, of `most` that were opened.
pub fn recent_incidents(
    journal: &dyn Journal,
    most: usize,
) -> Result<Vec<IncidentView>, StoreError> {
    let mut views = Vec::new();
    for opened in journal.tail(&Stream::Incidents, most)?.iter().rev() {
        if let Some(id) = opened.incident {
            views.extend(incident_view(journal, id)?);
        }
    }
    Ok(views)
}

/// Returns the incidents that are not over, the newest first, of the last `most` that were opened.
pub fn open_incidents(journal: &dyn Journal, most: usize) -> Result<Vec<IncidentView>, StoreError> {
    let mut views = recent_incidents(journal, most)?;
    views.retain(|view| view.outcome().is_none());
    Ok(views)
}

/// Returns the incident if nobody acts on it: the process that owns it is gone, or nobody owns it and
/// the one that opened it, which would take it up in a moment, is gone.
pub fn deserted(view: &IncidentView, scrubber: &Scrubber) -> Option<IncidentId> {
    let opener = view.lines().first().and_then(|line| line.entry.by.process());
    let owner = view.incident().owner().or(opener)?;
    process::is_gone(owner, scrubber).then(|| view.id())
}

/// Tells whether a running process owns an incident, so that what people say to it is heard.
pub fn has_owner(incident: &Incident, scrubber: &Scrubber) -> bool {
    incident.owner().is_some_and(|owner| !process::is_gone(owner, scrubber))
}

/// Returns how an incident stands now.
pub fn repair_state(view: &IncidentView, scrubber: &Scrubber) -> RepairState {
    let deserted = deserted(view, scrubber);
    RepairState::of(view, &RepairScene { deserted: deserted.as_slice(), ..RepairScene::default() })
}

/// Returns the servers under care, the one heard of last at the end; where the journal does not
/// say where one answers, `urls` does.
pub fn servers_under_care(
    journal: &dyn Journal,
    urls: &BTreeMap<String, String>,
    scrubber: &Scrubber,
) -> Result<Vec<Server>, StoreError> {
    let mut servers = servers(&journal.tail(&Stream::Servers, SERVER_ENTRIES)?);
    for server in &mut servers {
        let set = || urls.get(&server.server).cloned();
        server.url = server.url.take().or_else(set);
        // A salve that was killed could not say that its server is gone.
        if server.process.as_ref().is_some_and(|process| process::is_gone(process, scrubber)) {
            server.state = ServerState::Stopped;
            server.pid = None;
        }
    }
    Ok(servers)
}

/// How the servers and their repairs stand at one moment.
#[derive(Debug, Default)]
pub struct RepairMoment {
    /// The last incidents of servers.
    pub repairs: Vec<IncidentView>,
    /// What pages reported from the browser, in its order.
    pub page_failures: Vec<Entry>,
    deserted: Vec<IncidentId>,
    /// The servers under care.
    pub servers: Vec<Server>,
}

impl RepairMoment {
    /// Reads the moment; where the journal does not say where a server answers, `urls` does.
    pub fn read(
        journal: &dyn Journal,
        urls: &BTreeMap<String, String>,
        scrubber: &Scrubber,
    ) -> Result<Self, StoreError> {
        let mut repairs = recent_incidents(journal, RECENT_REPAIRS)?;
        repairs.retain(|view| view.subject().kind == SubjectKind::Server);
        let deserted = repairs.iter().filter_map(|view| deserted(view, scrubber)).collect();
        let servers = servers_under_care(journal, urls, scrubber)?;
        let page_failures = journal.tail(&Stream::PageFailures, PAGE_REPORTS)?;
        Ok(Self { repairs, page_failures, deserted, servers })
    }

    /// Returns what is known beside the incidents, for one server or all.
    pub fn scene<'a>(&'a self, server: Option<&'a str>) -> RepairScene<'a> {
        RepairScene { servers: &self.servers, deserted: &self.deserted, server }
    }
}

/// Returns a loop as the journal has it now.
pub fn loop_view(journal: &dyn Journal, name: &str) -> Result<LoopView, StoreError> {
    let mut view = LoopView::new(name);
    catch_up(&mut view, journal)?;
    Ok(view)
}

/// Takes in what the journal says about a loop since the view's last entry.
///
/// What matters stands in several streams, read one after the other; so only what was on record
/// before the first reading counts, else an entry that is written meanwhile could be passed over.
pub fn catch_up(view: &mut LoopView, journal: &dyn Journal) -> Result<(), StoreError> {
    let (after, upto) = (view.last_seq(), journal.last_seq()?);
    let read = |stream: Stream| journal.read(after, &stream, usize::MAX);
    let mut entries = read(Stream::Settings)?;
    if let Some(id) = view.id() {
        entries.extend(read(Stream::Loop(id))?);
    }
    let opened = read(Stream::Incidents)?;
    let begun = opened.iter().filter(|entry| view.is_begun_by(entry));
    let mut incidents: BTreeSet<IncidentId> = begun.filter_map(|entry| entry.incident).collect();
    incidents.extend(view.recoveries().iter().map(IncidentView::id));
    for id in incidents {
        entries.extend(read(Stream::Incident(id))?);
    }
    entries.retain(|entry| entry.seq <= upto);
    entries.sort_by_key(|entry| entry.seq);
    entries.iter().for_each(|entry| view.hear(entry));
    Ok(())
}

/// Returns the machines of all loops of a project, in the order of their names.
pub fn known_loops(journal: &dyn Journal) -> Result<Vec<Loop>, StoreError> {
    let mut known = Vec::new();
    for id in journal.loops()? {
        known.extend(known_loop(journal, &id)?);
    }
    Ok(known)
}

/// Returns the machine of a loop, if it was ever started.
pub fn known_loop(journal: &dyn Journal, id: &LoopId) -> Result<Option<Loop>, StoreError> {
    let entries = journal.read(0, &Stream::Loop(id.clone()), usize::MAX)?;
    Ok(Loop::replay(id, &entries).ok())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use salve_core::event::{
        Actor, Amounts, Draft, Event, IncidentEvent, IncidentOutcome, Process, Proof,
    };
    use salve_core::scrub::Scrubbed;
    use uuid::Uuid;

    use super::*;
    use crate::project::Project;
    use crate::store::Store;

    fn opened() -> Event {
        let data = r#"{
            "subject": {"kind": "check", "name": "test", "repeat": "safe"},
            "policy": {"person": "ada", "mode": "legacy", "limits": {}, "backoff_ms": 0,
                "engage_ms": 0, "write_ms": 0, "quiet_ms": 0, "watch_ms": 0, "cooldown_ms": 0,
                "max_files": 8, "max_lines": 300, "on_failure": "undo", "at_a_loss": "ask"},
            "symptom": {"signature": "0000000000000001", "class": "import_error",
                "key_line": "Cannot find module './orders'", "acted": "no"}
        }"#;
        Event::of_text("opened", 1, data).unwrap()
    }

    #[test]
    fn the_newest_rows_are_those_of_an_index_of_everything() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&Project::at(dir.path()).unwrap()).unwrap();
        let journal = store.journal();
        let outcome = IncidentOutcome::Recovered(Proof::Proven);
        let ended = Event::Incident(IncidentEvent::Ended { outcome });
        let spent = Amounts { tokens: 7, ..Amounts::default() };
        let charged = Event::Incident(IncidentEvent::Charged { effect: 1, spent });
        // Three lives that overlap; the second is open.
        for (id, event) in [
            (1, opened()),
            (2, opened()),
            (1, charged.clone()),
            (3, opened()),
            (2, charged),
            (3, ended.clone()),
            (1, ended),
        ] {
            let by = Process { pid: 1, started: 1, host: Scrubbed::literal("here") };
            let incident = Some(IncidentId(Uuid::from_u128(id)));
            let by = Actor::Salve(by);
            journal.append(Draft { at: Timestamp::now(), by, incident, event }).unwrap();
        }
        let mut index = IncidentIndex::default();
        for entry in journal.read(0, &Stream::IncidentCourses, 99).unwrap() {
            index.hear(&entry);
        }
        for (before, most) in [(u64::MAX, 99), (u64::MAX, 2), (4, 2), (4, 1), (1, 9)] {
            let want: Vec<_> = index.before(before).take(most).cloned().collect();
            assert_eq!(newest_rows(journal, before, most).unwrap(), want, "{before} {most}");
        }
        assert_eq!(index.rows().len(), 3);
    }
}
