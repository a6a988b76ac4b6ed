//! What was said about incidents: for the list of notices, and for toasts.

use jiff::Timestamp;
use salve_core::id::IncidentId;
use salve_core::incident::RepairPhase;
use schemars::JsonSchema;
use serde::Serialize;

use super::{BATCH, ProjectReader, ViewError};
use crate::reading::incident_view;

/// Something that was said about an incident, for the list of notices and for toasts.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::web) struct NoticeLine {
    pub(in crate::web) seq: u64,
    #[schemars(with = "String")]
    pub(in crate::web) at: Timestamp,
    #[schemars(with = "String")]
    pub(in crate::web) incident: IncidentId,
    pub(in crate::web) name: String,
    #[schemars(with = "String")]
    pub(in crate::web) phase: RepairPhase,
    pub(in crate::web) message: String,
}

/// Reads what was said about incidents.
#[derive(Debug)]
pub(in crate::web) struct NoticeReader<'r> {
    reader: &'r mut ProjectReader,
}

impl<'r> NoticeReader<'r> {
    pub(super) fn new(reader: &'r mut ProjectReader) -> Self {
        Self { reader }
    }

    /// Returns what was said since the entry `after`, in its order, and how far was read.
    pub(in crate::web) fn after(
        &mut self,
        after: u64,
    ) -> Result<(Vec<NoticeLine>, u64), ViewError> {
        let entries = self.reader.entries_after(after, BATCH)?;
        let read_to = entries.last().map_or(after, |entry| entry.seq);
        let mut ids: Vec<IncidentId> = entries.iter().filter_map(|entry| entry.incident).collect();
        ids.sort_unstable();
        ids.dedup();
        let mut notices = Vec::new();
        for id in ids {
            let is_new = |notice: &NoticeLine| (after + 1..=read_to).contains(&notice.seq);
            notices.extend(self.of(id)?.into_iter().filter(is_new));
        }
        notices.sort_by_key(|notice| notice.seq);
        Ok((notices, read_to))
    }

    pub(super) fn of(&mut self, id: IncidentId) -> Result<Vec<NoticeLine>, ViewError> {
        let Some(store) = self.reader.store()? else { return Ok(Vec::new()) };
        let Some(view) = incident_view(store.journal(), id)? else { return Ok(Vec::new()) };
        let name = view.subject().name.to_string();
        let said = view.notices().map(|(line, notice)| NoticeLine {
            seq: line.entry.seq,
            at: line.entry.at,
            incident: id,
            name: name.clone(),
            phase: notice.phase,
            message: notice.message.clone(),
        });
        Ok(said.collect())
    }
}
