//! The figures of the spec, folded from the journal: counters and timers with bounded tags.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use crate::event::{
    AttemptEnd, Entry, Event, FailureClass, HealStrategy, JobEvent, JobTurn, LoopEnd, StepTimer,
};
use crate::id::JobId;

/// One figure that an entry adds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// The name of the spec.
    pub name: MetricName,
    /// What is added to a counter, or how long something took, in seconds.
    pub value: f64,
    /// What kind of failure it is about, and what was done, where the spec has tags.
    pub tags: Option<(FailureClass, HealStrategy)>,
}

/// The figures of the spec.
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
}

impl MetricName {
    /// Every figure.
    pub const ALL: [Self; 7] = [
        Self::AttemptsTotal,
        Self::RecoveredTotal,
        Self::ExhaustedTotal,
        Self::StepDuration,
        Self::WallTimeoutTotal,
        Self::IdleTimeoutTotal,
        Self::NoProgressTotal,
    ];

    /// Returns the name of the spec.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AttemptsTotal => "task.self_heal.attempts_total",
            Self::RecoveredTotal => "task.self_heal.recovered_total",
            Self::ExhaustedTotal => "task.self_heal.exhausted_total",
            Self::StepDuration => "task.step.duration_seconds",
            Self::WallTimeoutTotal => "task.step.wall_timeout_total",
            Self::IdleTimeoutTotal => "task.step.idle_timeout_total",
            Self::NoProgressTotal => "task.step.no_progress_total",
        }
    }
}

/// Folds entries to figures; it knows of each job how its last attempt failed.
#[derive(Clone, Debug, Default)]
pub struct MetricsFold {
    failed: HashMap<JobId, (FailureClass, HealStrategy)>,
}

impl MetricsFold {
    /// Takes one entry in and returns what it adds.
    pub fn take(&mut self, entry: &Entry) -> Vec<Metric> {
        let Event::Job(JobEvent::Advanced { id, what }) = &entry.event else { return Vec::new() };
        let one = |name, tags| Metric { name, value: 1.0, tags };
        match what {
            JobTurn::StepEnded { end, spent, .. } => {
                let value = spent.wall_ms as f64 / 1e3;
                let mut all = vec![Metric { name: MetricName::StepDuration, value, tags: None }];
                match end {
                    AttemptEnd::Done { .. } => {
                        if let Some(tags) = self.failed.remove(id) {
                            all.push(one(MetricName::RecoveredTotal, Some(tags)));
                        }
                    }
                    AttemptEnd::Failed { failure, strategy } => {
                        let tags = (failure.class, *strategy);
                        self.failed.insert(*id, tags);
                        all.push(one(MetricName::AttemptsTotal, Some(tags)));
                        match failure.timer {
                            Some(StepTimer::Wall) => {
                                all.push(one(MetricName::WallTimeoutTotal, None));
                            }
                            Some(StepTimer::Idle) => {
                                all.push(one(MetricName::IdleTimeoutTotal, None));
                            }
                            None => {}
                        }
                        if failure.class == FailureClass::StuckNoProgress {
                            all.push(one(MetricName::NoProgressTotal, None));
                        }
                    }
                    AttemptEnd::Away { .. } | AttemptEnd::Unable { .. } | AttemptEnd::Stopped => {}
                }
                all
            }
            JobTurn::Ended { why: LoopEnd::Failed { .. }, .. } => {
                let tags = self.failed.remove(id);
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

/// Returns a figure as StatsD takes it, with the tags that its common dialects know.
pub fn statsd_line(prefix: &str, metric: &Metric) -> String {
    let kind = match metric.name {
        MetricName::StepDuration => "ms",
        MetricName::AttemptsTotal
        | MetricName::RecoveredTotal
        | MetricName::ExhaustedTotal
        | MetricName::WallTimeoutTotal
        | MetricName::IdleTimeoutTotal
        | MetricName::NoProgressTotal => "c",
    };
    let mut line = format!("{prefix}.{}:{}|{kind}", metric.name.as_str(), metric.value);
    if let Some((class, strategy)) = metric.tags {
        let _ = write!(line, "|#class:{class},strategy:{strategy}");
    }
    line
}

/// Returns all figures of the journal as Prometheus reads them.
pub fn prometheus_text<'e>(prefix: &str, entries: impl IntoIterator<Item = &'e Entry>) -> String {
    let mut fold = MetricsFold::default();
    let mut sums: BTreeMap<(MetricName, String), (f64, u64)> = BTreeMap::new();
    for metric in entries.into_iter().flat_map(|entry| fold.take(entry)) {
        let labels = match metric.tags {
            Some((class, strategy)) => format!("{{class=\"{class}\",strategy=\"{strategy}\"}}"),
            None => String::new(),
        };
        let (sum, count) = sums.entry((metric.name, labels)).or_default();
        *sum += metric.value;
        *count += 1;
    }
    let mut text = String::new();
    for name in MetricName::ALL {
        let full = format!("{prefix}.{}", name.as_str()).replace(['.', '-'], "_");
        let is_timer = name == MetricName::StepDuration;
        let kind = if is_timer { "summary" } else { "counter" };
        let _ = writeln!(text, "# TYPE {full} {kind}");
        let own = sums.iter().filter(|((known, _), _)| *known == name);
        for ((_, labels), (sum, count)) in own {
            let _ = match is_timer {
                true => writeln!(text, "{full}_sum{labels} {sum}\n{full}_count{labels} {count}"),
                false => writeln!(text, "{full}{labels} {sum}"),
            };
        }
    }
    text
}
