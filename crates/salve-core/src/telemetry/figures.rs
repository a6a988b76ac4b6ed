//! The figures of runs, folded from the journal: counters and timers with bounded tags.
//!
//! Those about jobs are the spec's. Those about incidents are of the same kind for every subject.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use jiff::Timestamp;

use crate::class::Class;
use crate::event::{
    AttemptEnd, Entry, Event, FailureClass, HealStrategy, IncidentEvent, IncidentOutcome, JobEvent,
    JobTurn, LoopEnd, RemedyKind, RemedyVerdict, StepTimer, SubjectKind,
};
use crate::id::{IncidentId, JobId};

/// One figure that an entry adds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    pub name: MetricName,
    /// What is added to a counter, or how long something took, in seconds.
    pub value: f64,
    /// What it is about.
    pub tags: MetricTags,
}

/// What a figure is about. There are few of each, whatever happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricTags {
    /// Nothing in particular.
    None,
    /// A failed attempt at a step: the spec's tags.
    Failure(FailureClass, HealStrategy),
    /// An incident that began.
    Opened(SubjectKind, Class),
    /// A remedy that may be tried.
    Tried(SubjectKind, RemedyKind),
    /// An incident that is over.
    Ended(SubjectKind, IncidentOutcome),
}

impl MetricTags {
    /// Returns the tags by their names.
    pub fn pairs(self) -> Vec<(&'static str, &'static str)> {
        match self {
            Self::None => Vec::new(),
            Self::Failure(class, strategy) => {
                vec![("class", class.as_str()), ("strategy", strategy.as_str())]
            }
            Self::Opened(kind, class) => {
                vec![("subject", kind.as_str()), ("class", class.as_str())]
            }
            Self::Tried(kind, remedy) => {
                vec![("subject", kind.as_str()), ("remedy", remedy_word(remedy))]
            }
            Self::Ended(kind, outcome) => {
                vec![("subject", kind.as_str()), ("outcome", outcome_word(outcome))]
            }
        }
    }
}

fn remedy_word(remedy: RemedyKind) -> &'static str {
    match remedy {
        RemedyKind::Retry => "retry",
        RemedyKind::Command => "command",
        RemedyKind::Patch => "patch",
        RemedyKind::Agent => "agent",
        RemedyKind::SoftReset => "soft_reset",
        RemedyKind::HardReset => "hard_reset",
    }
}

/// Returns the word for how an incident ended.
pub(super) fn outcome_word(outcome: IncidentOutcome) -> &'static str {
    match outcome {
        IncidentOutcome::Recovered(_) => "recovered",
        IncidentOutcome::Resolved => "resolved",
        IncidentOutcome::GivenUp => "given_up",
        IncidentOutcome::Unhealed => "unhealed",
        IncidentOutcome::Aborted => "aborted",
    }
}

/// The figures: those of the spec, then those of incidents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MetricName {
    /// Failures that the controller did something about.
    AttemptsTotal,
    /// Steps that were done after a failure.
    RecoveredTotal,
    /// Jobs that were given up.
    ExhaustedTotal,
    /// How long attempts took.
    StepDuration,
    /// Attempts that took longer than they may.
    WallTimeoutTotal,
    /// Attempts that showed no sign of work.
    IdleTimeoutTotal,
    /// Failures that left the same tree again.
    NoProgressTotal,
    /// Incidents that began.
    IncidentOpenedTotal,
    /// Remedies that were tried.
    IncidentRemediesTotal,
    /// Incidents that are over.
    IncidentEndedTotal,
    /// How long incidents took.
    IncidentDuration,
}

impl MetricName {
    /// Every figure.
    pub const ALL: [Self; 11] = [
        Self::AttemptsTotal,
        Self::RecoveredTotal,
        Self::ExhaustedTotal,
        Self::StepDuration,
        Self::WallTimeoutTotal,
        Self::IdleTimeoutTotal,
        Self::NoProgressTotal,
        Self::IncidentOpenedTotal,
        Self::IncidentRemediesTotal,
        Self::IncidentEndedTotal,
        Self::IncidentDuration,
    ];

    /// Returns its name, for jobs that of the spec.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AttemptsTotal => "task.self_heal.attempts_total",
            Self::RecoveredTotal => "task.self_heal.recovered_total",
            Self::ExhaustedTotal => "task.self_heal.exhausted_total",
            Self::StepDuration => "task.step.duration_seconds",
            Self::WallTimeoutTotal => "task.step.wall_timeout_total",
            Self::IdleTimeoutTotal => "task.step.idle_timeout_total",
            Self::NoProgressTotal => "task.step.no_progress_total",
            Self::IncidentOpenedTotal => "incident.opened_total",
            Self::IncidentRemediesTotal => "incident.remedies_total",
            Self::IncidentEndedTotal => "incident.ended_total",
            Self::IncidentDuration => "incident.duration_seconds",
        }
    }

    /// Returns whether it is how long something took, and no counter.
    pub fn is_timer(self) -> bool {
        match self {
            Self::StepDuration | Self::IncidentDuration => true,
            Self::AttemptsTotal
            | Self::RecoveredTotal
            | Self::ExhaustedTotal
            | Self::WallTimeoutTotal
            | Self::IdleTimeoutTotal
            | Self::NoProgressTotal
            | Self::IncidentOpenedTotal
            | Self::IncidentRemediesTotal
            | Self::IncidentEndedTotal => false,
        }
    }
}

/// Folds entries to figures; it knows of each job how its last attempt failed, and of each open
/// incident what it is about.
#[derive(Clone, Debug, Default)]
pub struct MetricsFold {
    failed: HashMap<JobId, (FailureClass, HealStrategy)>,
    open: HashMap<IncidentId, (SubjectKind, Timestamp)>,
}

impl MetricsFold {
    /// Takes one entry in and returns what it adds.
    pub fn take(&mut self, entry: &Entry) -> Vec<Metric> {
        match &entry.event {
            Event::Job(JobEvent::Advanced { id, what }) => self.job(*id, what),
            Event::Incident(event) => match entry.incident {
                Some(id) => self.incident(id, event, entry.at),
                None => Vec::new(),
            },
            Event::Config(_)
            | Event::Memory(_)
            | Event::Server(_)
            | Event::Session(_)
            | Event::Team(_)
            | Event::Loop(_)
            | Event::Recovery(_)
            | Event::Rule(_)
            | Event::Note(_)
            | Event::Other(_) => Vec::new(),
        }
    }

    fn incident(&mut self, id: IncidentId, event: &IncidentEvent, at: Timestamp) -> Vec<Metric> {
        if let IncidentEvent::Opened { subject, symptom, .. } = event {
            self.open.insert(id, (subject.kind, at));
            let tags = MetricTags::Opened(subject.kind, symptom.class);
            return vec![one(MetricName::IncidentOpenedTotal, tags)];
        }
        let Some((kind, since)) = self.open.get(&id).copied() else { return Vec::new() };
        match event {
            IncidentEvent::Judged { remedy, judgement }
                if judgement.verdict == RemedyVerdict::Allow =>
            {
                let tags = MetricTags::Tried(kind, remedy.kind);
                vec![one(MetricName::IncidentRemediesTotal, tags)]
            }
            IncidentEvent::Ended { outcome } => {
                self.open.remove(&id);
                let tags = MetricTags::Ended(kind, *outcome);
                let value = at.duration_since(since).as_secs_f64().max(0.0);
                vec![
                    one(MetricName::IncidentEndedTotal, tags),
                    Metric { name: MetricName::IncidentDuration, value, tags },
                ]
            }
            // The rest of an incident's life is no figure.
            _ => Vec::new(),
        }
    }

    fn job(&mut self, id: JobId, what: &JobTurn) -> Vec<Metric> {
        match what {
            JobTurn::StepEnded { end, spent, .. } => {
                let value = spent.wall_ms as f64 / 1e3;
                let mut all =
                    vec![Metric { name: MetricName::StepDuration, value, tags: MetricTags::None }];
                match end {
                    AttemptEnd::Done { .. } => {
                        if let Some((class, strategy)) = self.failed.remove(&id) {
                            let tags = MetricTags::Failure(class, strategy);
                            all.push(one(MetricName::RecoveredTotal, tags));
                        }
                    }
                    AttemptEnd::Failed { failure, strategy } => {
                        self.failed.insert(id, (failure.class, *strategy));
                        let tags = MetricTags::Failure(failure.class, *strategy);
                        all.push(one(MetricName::AttemptsTotal, tags));
                        match failure.timer {
                            Some(StepTimer::Wall) => {
                                all.push(one(MetricName::WallTimeoutTotal, MetricTags::None));
                            }
                            Some(StepTimer::Idle) => {
                                all.push(one(MetricName::IdleTimeoutTotal, MetricTags::None));
                            }
                            None => {}
                        }
                        if failure.class == FailureClass::StuckNoProgress {
                            all.push(one(MetricName::NoProgressTotal, MetricTags::None));
                        }
                    }
                    AttemptEnd::Away { .. } | AttemptEnd::Unable { .. } | AttemptEnd::Stopped => {}
                }
                all
            }
            JobTurn::Ended { why: LoopEnd::Failed { .. }, .. } => {
                let failed = self.failed.remove(&id);
                let tags = failed.map_or(MetricTags::None, |(class, strategy)| {
                    MetricTags::Failure(class, strategy)
                });
                vec![one(MetricName::ExhaustedTotal, tags)]
            }
            JobTurn::Ended {
                why: LoopEnd::Completed | LoopEnd::Limit(_) | LoopEnd::Stuck, ..
            }
            | JobTurn::Started { .. }
            | JobTurn::Resumed {}
            | JobTurn::StepBegan { .. }
            | JobTurn::Warned { .. }
            | JobTurn::Charged { .. }
            | JobTurn::ResetBegan { .. }
            | JobTurn::ResetEnded { .. }
            | JobTurn::Remedied { .. }
            | JobTurn::Asked { .. }
            | JobTurn::Ordered { .. }
            | JobTurn::Honored { .. }
            | JobTurn::Stopped {} => Vec::new(),
        }
    }
}

fn one(name: MetricName, tags: MetricTags) -> Metric {
    Metric { name, value: 1.0, tags }
}

/// Returns a figure as StatsD takes it, with the tags that its common dialects know.
///
/// A timer goes out in milliseconds whatever its name says: every server reads `ms` so, and those that
/// tell seconds divide by a thousand.
pub fn statsd_line(prefix: &str, metric: &Metric) -> String {
    let mut line = format!("{prefix}.{}:", metric.name.as_str());
    // Writing to a string does not fail.
    let _ = if metric.name.is_timer() {
        write!(line, "{}|ms", (metric.value * 1e3).round())
    } else {
        write!(line, "{}|c", metric.value)
    };
    for (at, (tag, value)) in metric.tags.pairs().into_iter().enumerate() {
        let before = if at == 0 { "|#" } else { "," };
        let _ = write!(line, "{before}{tag}:{value}");
    }
    line
}

/// Returns all figures of the journal as Prometheus reads them.
pub fn prometheus_text<'e>(prefix: &str, entries: impl IntoIterator<Item = &'e Entry>) -> String {
    let mut fold = MetricsFold::default();
    let mut sums: BTreeMap<(MetricName, String), (f64, u64)> = BTreeMap::new();
    for metric in entries.into_iter().flat_map(|entry| fold.take(entry)) {
        let label = |(tag, value): (&str, &str)| format!("{tag}=\"{value}\"");
        let labels: Vec<String> = metric.tags.pairs().into_iter().map(label).collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let (sum, count) = sums.entry((metric.name, labels)).or_default();
        *sum += metric.value;
        *count += 1;
    }
    let mut text = String::new();
    for name in MetricName::ALL {
        let full = format!("{prefix}.{}", name.as_str()).replace(['.', '-'], "_");
        let kind = if name.is_timer() { "summary" } else { "counter" };
        let _ = writeln!(text, "# TYPE {full} {kind}");
        let own = sums.iter().filter(|((known, _), _)| *known == name);
        for ((_, labels), (sum, count)) in own {
            let _ = if name.is_timer() {
                writeln!(text, "{full}_sum{labels} {sum}\n{full}_count{labels} {count}")
            } else {
                writeln!(text, "{full}{labels} {sum}")
            };
        }
    }
    text
}
