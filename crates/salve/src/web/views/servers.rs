//! The servers under care: how they and their repairs stand, and what their pages report.

use jiff::Timestamp;
use salve_core::event::{Actor, Draft, Event, PageFailure, ServerEvent};
use salve_core::repair::{self, BrowserError, Server};

use super::{ProjectReader, ViewError};
use crate::process;
use crate::reading::{RepairMoment, servers_under_care};

/// Reads how servers and their repairs stand, and keeps what their pages report.
#[derive(Debug)]
pub(in crate::web) struct ServerReader<'r> {
    reader: &'r mut ProjectReader,
}

impl<'r> ServerReader<'r> {
    pub(super) fn new(reader: &'r mut ProjectReader) -> Self {
        Self { reader }
    }

    /// Returns the servers under care, each with where it answers.
    pub(in crate::web) fn list(&mut self) -> Result<Vec<Server>, ViewError> {
        let (urls, scrubber) = (self.reader.watched.urls.clone(), self.reader.scrubber().clone());
        let Some(store) = self.reader.store()? else { return Ok(Vec::new()) };
        let mut servers = servers_under_care(store.journal(), &urls, &scrubber)?;
        servers.sort_by(|one, other| one.server.cmp(&other.server));
        Ok(servers)
    }

    /// Returns how the servers' repairs stand, as `canvas_get_repair_status` says it; one answer
    /// serves everybody who asks until the journal has more.
    pub(in crate::web) fn repair_status(&mut self) -> Result<String, ViewError> {
        let last = self.reader.last_seq()?;
        if let Some((seq, known)) = &self.reader.repairs
            && *seq == last
        {
            return Ok(known.clone());
        }
        let moment = self.repair_moment()?;
        let status = repair::status(&moment.repairs, &moment.scene(None));
        let told = serde_json::to_string(&status).unwrap_or_default();
        self.reader.repairs = Some((last, told.clone()));
        Ok(told)
    }

    fn repair_moment(&mut self) -> Result<RepairMoment, ViewError> {
        let (urls, scrubber) = (self.reader.watched.urls.clone(), self.reader.scrubber().clone());
        let Some(store) = self.reader.store()? else { return Ok(RepairMoment::default()) };
        Ok(RepairMoment::read(store.journal(), &urls, &scrubber)?)
    }

    /// Returns what failed in the browser since the servers were started last.
    pub(super) fn browser_errors(&mut self) -> Result<Vec<BrowserError>, ViewError> {
        let moment = self.repair_moment()?;
        Ok(repair::browser_errors(&moment.page_failures, &moment.scene(None)))
    }

    /// Writes what a page of a server reports.
    pub(in crate::web) fn keep_page_failure(
        &mut self,
        failure: PageFailure,
    ) -> Result<(), ViewError> {
        let by = Actor::Salve(process::this(self.reader.scrubber()));
        let event = Event::Server(ServerEvent::PageFailed(failure));
        let Some(store) = self.reader.store()? else { return Ok(()) };
        store.journal().append(Draft { at: Timestamp::now(), by, incident: None, event })?;
        Ok(())
    }
}
