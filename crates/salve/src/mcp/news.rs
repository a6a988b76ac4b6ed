//! What changed in the journal, for those who listen.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use salve_core::event::{Entry, Event, IncidentEvent, TeamEvent};
use salve_core::id::IncidentId;
use salve_core::team::KINDS;

use super::desk::Desk;
use crate::project::Project;
use crate::store::{Store, StoreError, Stream};

/// How often a project without a store is looked at, and presence is tended to.
const TICK: Duration = Duration::from_secs(1);

/// Something that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct News {
    /// The incidents that have new entries.
    pub(super) changed: BTreeSet<IncidentId>,
    /// Whether everybody should look: incidents were opened, issues reported, proposals wanted.
    pub(super) opened: bool,
    /// Whether what is open for the team changed.
    pub(super) team: bool,
}

/// Follows the journal for as long as the process lives.
pub(super) fn follow(project: &Project, desk: &Desk) {
    let mut known = None;
    loop {
        // What stops us may pass: the disk may have room again, the store may be made anew.
        let _passing = follow_store(project, desk, &mut known);
        thread::sleep(TICK);
    }
}

/// Follows the store that is there, if there is one.
fn follow_store(project: &Project, desk: &Desk, known: &mut Option<u64>) -> Result<(), StoreError> {
    let Some(store) = Store::open_existing(project)? else {
        // All of a store that appears later is news.
        known.get_or_insert(0);
        return Ok(());
    };
    let journal = store.journal();
    let after = match *known {
        Some(after) => after,
        None => journal.last_seq()?,
    };
    let mut follower = journal.follow(after, Stream::Project);
    loop {
        desk.tell(|room| room.tend());
        let entries = follower.next(TICK)?;
        *known = Some(follower.after());
        if let Some(news) = news(&entries) {
            desk.announce(news);
        }
    }
}

fn news(entries: &[Entry]) -> Option<News> {
    let changed: BTreeSet<_> = entries.iter().filter_map(|entry| entry.incident).collect();
    let opened = entries.iter().any(|entry| {
        matches!(
            entry.event,
            Event::Incident(IncidentEvent::Opened { .. })
                | Event::Team(TeamEvent::IssueReported { .. })
                | Event::Team(TeamEvent::FixWanted { .. })
        )
    });
    let is_teams = |entry: &Entry| KINDS.contains(&entry.event.kind());
    let team = opened || entries.iter().any(is_teams);
    (team || !changed.is_empty()).then_some(News { changed, opened, team })
}
