//! An incident replayed under other settings.

use salve_core::event::{Judgement, Remedy, RemedyKind, RemedyVerdict};
use salve_core::gate::{DEFAULT_TIMEOUT_SECONDS, GateCounters, GatePolicy, GateVerdict, Request};
use salve_core::what_if::{CourseDifference, OtherTerms, replay_under};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{JsonObject, ProjectReader, ViewError};
use crate::config;
use crate::gate;
use crate::store::Stream;

/// What is other than it was.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::web) struct WhatIfRequest {
    /// How often a remedy may be tried.
    #[serde(default)]
    attempts: Option<u64>,
    /// How many tokens may be spent.
    #[serde(default)]
    tokens: Option<u64>,
    /// How long it may take, in seconds.
    #[serde(default)]
    seconds: Option<u64>,
    /// How long nothing is tried once the budget is used up, in seconds.
    #[serde(default)]
    cooldown_seconds: Option<u64>,
    /// The most files that a repair may change without a person.
    #[serde(default)]
    max_files: Option<u32>,
    /// The most lines that a repair may change without a person.
    #[serde(default)]
    max_lines: Option<u32>,
    /// Settings for the gate, one `KEY=VALUE` on each line.
    #[serde(default)]
    settings: Option<String>,
}

/// What would have been.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::web) struct WhatIfAnswer {
    /// How many entries the incident has.
    pub(in crate::web) entries: usize,
    /// How many of them both courses share.
    pub(in crate::web) shared: usize,
    /// Where the courses part; nothing where they are the same.
    #[schemars(with = "Option<JsonObject>")]
    pub(in crate::web) difference: Option<CourseDifference>,
    /// Remedies whose verdict cannot be judged again: today's gate says something else than then.
    pub(in crate::web) not_judged: Vec<String>,
}

impl WhatIfRequest {
    fn terms(&self) -> OtherTerms {
        OtherTerms {
            attempts: self.attempts,
            tokens: self.tokens,
            seconds: self.seconds,
            cooldown_seconds: self.cooldown_seconds,
            max_files: self.max_files,
            max_lines: self.max_lines,
        }
    }

    fn flags(&self) -> Vec<String> {
        let lines = self.settings.as_deref().unwrap_or_default().lines();
        lines.map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }
}

/// Replays an incident under other settings.
pub(in crate::web) fn replay_incident(
    reader: &mut ProjectReader,
    given: &str,
    request: &WhatIfRequest,
) -> Result<WhatIfAnswer, ViewError> {
    let id = reader.incidents().view(given)?.id();
    let flags = request.flags();
    let policies = if flags.is_empty() {
        None
    } else {
        let mut sources = reader.watched.sources.clone();
        sources.flags.extend(flags);
        let wrong = |error: config::LoadError| ViewError::Settings(error.to_string());
        Some((reader.settings().config()?.policy, config::load(&sources).map_err(wrong)?.policy))
    };
    let root = reader.project().root().to_owned();
    let scrubber = reader.scrubber().clone();
    let entries = match reader.store()? {
        Some(store) => store.journal().read(0, &Stream::Incident(id), usize::MAX)?,
        None => Vec::new(),
    };
    let judge = |policy: &GatePolicy, remedy: &Remedy| -> Option<RemedyVerdict> {
        let request = Request::new(remedy.text.as_str(), ".", DEFAULT_TIMEOUT_SECONDS).ok()?;
        let counters = GateCounters::default();
        Some(match gate::judge(&root, policy, &request, &counters, &scrubber).verdict {
            GateVerdict::Auto(_) => RemedyVerdict::Allow,
            GateVerdict::Human { .. } => RemedyVerdict::Ask,
            GateVerdict::Deny { .. } => RemedyVerdict::Deny,
        })
    };
    let not_judged = std::cell::RefCell::new(Vec::new());
    let rejudge = |remedy: &Remedy, judgement: &Judgement| {
        let is_command = remedy.kind == RemedyKind::Command;
        let Some((now, other)) = policies.as_ref().filter(|_| is_command) else {
            return judgement.verdict;
        };
        // Only where today's gate says what it said then, the other one's word compares.
        match (judge(now, remedy), judge(other, remedy)) {
            (Some(then), Some(instead)) if then == judgement.verdict => instead,
            _ => {
                not_judged.borrow_mut().push(remedy.text.to_string());
                judgement.verdict
            }
        }
    };
    let replayed = replay_under(&entries, &request.terms(), rejudge);
    let difference = replayed.map_err(|error| ViewError::Settings(error.to_string()))?;
    let upto = difference.as_ref().map_or(u64::MAX, |difference| difference.after_seq);
    let shared = entries.iter().filter(|entry| entry.seq <= upto).count();
    let not_judged = not_judged.into_inner();
    Ok(WhatIfAnswer { entries: entries.len(), shared, difference, not_judged })
}
