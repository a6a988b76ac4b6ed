//! Figures and spans for whoever watches many runs: the journal, folded, sent by StatsD and OTLP.
//!
//! A [`Telemetry`] follows the journal on a thread of its own, so whoever listens, nothing that is
//! under care waits for it; a host that is gone costs nothing. A process tells of what it wrote
//! itself, and of what people said about its own work, so several of them tell nothing twice.

#[cfg(feature = "otlp")]
mod otlp;
mod statsd;

use std::collections::HashSet;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use salve_core::event::{Actor, Entry, Event, JobEvent, Process};
use salve_core::telemetry::{Metric, MetricsFold, Span, SpanFold};
use uuid::Uuid;

#[cfg(feature = "otlp")]
use self::otlp::OtlpExporter;
use self::statsd::StatsdSender;
use crate::config::TelemetrySettings;
use crate::process::spawn_thread;
use crate::project::Project;
use crate::store::{Store, StoreError, Stream};

/// How often the journal is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// How many entries before the present ones are looked at, for what began in them.
const BEFORE: u64 = 20_000;

/// How long the last of it may take to be sent when the run is over.
const PARTING: Duration = Duration::from_millis(700);

/// Tells others what this process does, until it is dropped.
#[derive(Debug)]
pub struct Telemetry {
    /// Whoever is to be told to come to an end, and hears when it is there.
    end: Option<Sender<Sender<()>>>,
}

impl Telemetry {
    /// Begins to tell of what `me` writes to the journal from now on, if anybody listens.
    pub fn start(
        project: &Project,
        settings: &TelemetrySettings,
        me: &Process,
    ) -> Result<Self, StoreError> {
        let targets = TelemetryTargets::of(settings);
        if targets.is_empty() {
            return Ok(Self { end: None });
        }
        let store = Store::open(project)?;
        let after = store.journal().last_seq()?;
        let (end, ended) = mpsc::channel::<Sender<()>>();
        let mut watch = JournalFold::new(me.clone());
        spawn_thread("telemetry", move || {
            let from = after.saturating_sub(BEFORE);
            let known = store.journal().read(from, &Stream::Project, usize::MAX);
            let known = known.unwrap_or_default();
            known.iter().filter(|entry| entry.seq <= after).for_each(|entry| watch.know(entry));
            let mut targets = targets;
            let mut read_to = after;
            loop {
                let parting = match ended.recv_timeout(LOOK) {
                    Ok(told) => Some(told),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => return,
                };
                let news = store.journal().read(read_to, &Stream::Project, usize::MAX);
                for entry in news.unwrap_or_default() {
                    read_to = read_to.max(entry.seq);
                    let (metrics, spans) = watch.take(&entry);
                    targets.tell(metrics, spans);
                }
                targets.flush(parting.is_some());
                if let Some(told) = parting {
                    // Whoever waited for it may have gone.
                    let _ = told.send(());
                    return;
                }
            }
        });
        Ok(Self { end: Some(end) })
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        let Some(end) = self.end.take() else { return };
        let (told, done) = mpsc::channel();
        if end.send(told).is_ok() {
            // What is not sent by then is lost: the run is over, and nobody is to wait for it.
            let _ = done.recv_timeout(PARTING);
        }
    }
}

/// Folds what one process has to tell.
#[derive(Debug)]
struct JournalFold {
    me: Process,
    figures: MetricsFold,
    spans: SpanFold,
    /// The jobs and incidents that this process works on.
    mine: HashSet<Uuid>,
}

impl JournalFold {
    fn new(me: Process) -> Self {
        let (figures, spans, mine) = Default::default();
        Self { me, figures, spans, mine }
    }

    /// Takes in what was told already, or by another process.
    fn know(&mut self, entry: &Entry) {
        let _told = (self.figures.take(entry), self.spans.take(entry));
    }

    /// Takes in an entry; returns what it adds, if it is for this process to tell.
    fn take(&mut self, entry: &Entry) -> (Vec<Metric>, Vec<Span>) {
        let about = match &entry.event {
            Event::Job(JobEvent::Advanced { id, .. }) => Some(id.0),
            _ => entry.incident.map(|id| id.0),
        };
        let added = (self.figures.take(entry), self.spans.take(entry));
        let is_ours = match &entry.by {
            Actor::Salve(process) => {
                let is_me = *process == self.me;
                match about {
                    Some(about) if is_me => drop(self.mine.insert(about)),
                    // Another process works on it now.
                    Some(about) => drop(self.mine.remove(&about)),
                    None => {}
                }
                is_me
            }
            Actor::Person { .. }
            | Actor::Unproven { .. }
            | Actor::Forged { .. }
            | Actor::Agent { .. } => about.is_some_and(|about| self.mine.contains(&about)),
        };
        if is_ours { added } else { Default::default() }
    }
}

/// Whoever is told.
#[derive(Debug)]
struct TelemetryTargets {
    statsd: Option<StatsdSender>,
    #[cfg(feature = "otlp")]
    otlp: Option<OtlpExporter>,
}

impl TelemetryTargets {
    fn of(settings: &TelemetrySettings) -> Self {
        Self {
            statsd: settings
                .statsd
                .as_deref()
                .map(|to| StatsdSender::new(to, settings.prefix.clone())),
            #[cfg(feature = "otlp")]
            otlp: OtlpExporter::of_environment(&settings.prefix),
        }
    }

    fn is_empty(&self) -> bool {
        #[cfg(feature = "otlp")]
        if self.otlp.is_some() {
            return false;
        }
        self.statsd.is_none()
    }

    fn tell(&mut self, metrics: Vec<Metric>, spans: Vec<Span>) {
        if let Some(statsd) = &mut self.statsd {
            metrics.iter().for_each(|metric| statsd.send(metric));
        }
        #[cfg(feature = "otlp")]
        if let Some(otlp) = &mut self.otlp {
            otlp.add(metrics, spans);
        }
        #[cfg(not(feature = "otlp"))]
        drop(spans);
    }

    /// Sends what was gathered, if it is time; `is_last` says that nothing follows.
    fn flush(&mut self, is_last: bool) {
        #[cfg(feature = "otlp")]
        if let Some(otlp) = &mut self.otlp {
            otlp.flush(is_last);
        }
        #[cfg(not(feature = "otlp"))]
        let _ = is_last;
    }
}
