//! Cases for the gate: from files and lines to a verdict.
//!
//! Every way in ends in [`decide`] or in a refusal; there is no third.

use std::path::Path;

use salve_core::gate::{
    GateCase, GateCounters, GatePolicy, GateRule, GateVerdict, RecoveryProposal, Request, Which,
    decide, strict,
};
use salve_core::scrub::Scrubber;
use serde_json::{Map, Value};

use super::{WorkingDir, place, resolve};

/// The settings of a `recovery` section, by which a bare one is told from a whole file.
const SETTINGS: [&str; 6] = [
    "enabled",
    "auto_approve",
    "require_human",
    "max_auto_recoveries_per_run",
    "cooldown_seconds",
    "on_unknown",
];

/// A verdict, and the directory it speaks about.
#[derive(Debug)]
pub struct GateJudgement {
    /// The gate's answer.
    pub verdict: GateVerdict,
    /// The directory to run in, held open; there is one whenever the answer is not a refusal.
    pub dir: Option<WorkingDir>,
}

/// Judges a request in the repository at `root`.
pub fn judge(
    root: &Path,
    policy: &GatePolicy,
    request: &Request,
    state: &GateCounters,
    scrubber: &Scrubber,
) -> GateJudgement {
    let resolved = resolve(root, request.working_dir());
    let place = place(&resolved);
    let verdict = decide(GateCase { policy, request, place: &place, state }, scrubber);
    let dir = match verdict {
        GateVerdict::Auto(_) | GateVerdict::Human { .. } => resolved.ok(),
        GateVerdict::Deny { .. } => None,
    };
    GateJudgement { verdict, dir }
}

/// Reads the policy from the text of a settings file, JSON or TOML, whole or only the section.
///
/// # Errors
///
/// Returns a refusal when the text is not valid, for any reason.
pub fn read_policy(text: &str) -> Result<GatePolicy, GateVerdict> {
    let invalid = |why: String| GateVerdict::deny(GateRule::Config, why);
    let value = if text.trim_start().starts_with('{') {
        strict::parse(text).map_err(|error| invalid(error.to_string()))?
    } else {
        toml::from_str(text)
            .map_err(|error| invalid(format!("not valid TOML: {}", error.message())))?
    };
    let Some(map) = value.as_object() else {
        return Err(invalid("the settings should be a table".into()));
    };
    let bare = map.keys().any(|key| SETTINGS.contains(&key.as_str()));
    let section = match (map.get("recovery"), bare) {
        (Some(_), true) => {
            let why = "settings stand both in `recovery` and beside it; it is unclear which count";
            return Err(invalid(why.into()));
        }
        (Some(section), false) => section,
        (None, true) => &value,
        (None, false) => &Value::Object(Map::new()),
    };
    GatePolicy::read(section).map_err(|error| invalid(error.to_string()))
}

/// Judges one line of `salve gate --jsonl` and returns its id, if it can be read, and the verdict.
pub fn judge_line(line: &str, scrubber: &Scrubber) -> (Value, GateVerdict) {
    let value = match strict::parse(line) {
        Ok(value) => value,
        Err(error) => {
            let id = strict::salvage_id(line).unwrap_or(Value::Null);
            return (id, GateVerdict::deny(GateRule::Proposal, format!("the case is {error}")));
        }
    };
    let id = value.get("id").cloned().unwrap_or(Value::Null);
    let verdict = judge_case(&value, scrubber).unwrap_or_else(|refusal| refusal);
    (id, verdict)
}

fn judge_case(case: &Value, scrubber: &Scrubber) -> Result<GateVerdict, GateVerdict> {
    let malformed = |why: &str| GateVerdict::deny(GateRule::Proposal, why);
    let map = case.as_object().ok_or_else(|| malformed("a case should be an object"))?;
    let policy = match map.get("config") {
        None => GatePolicy::read(&Value::Object(Map::new())),
        Some(section) => GatePolicy::read(section),
    };
    let policy = policy.map_err(|error| GateVerdict::deny(GateRule::Config, error.to_string()))?;
    let root =
        map.get("repo").and_then(Value::as_str).filter(|root| !root.is_empty()).ok_or_else(
            || GateVerdict::deny(GateRule::WorkingDir, "`repo` should name a directory"),
        )?;
    let state = match map.get("state") {
        None => Ok(GateCounters::default()),
        Some(state) => GateCounters::read(state),
    };
    let state = state.map_err(|error| GateVerdict::deny(GateRule::State, error.to_string()))?;
    let request = read_request(map).map_err(|error| malformed(&error))?;
    Ok(judge(Path::new(root), &policy, &request, &state, scrubber).verdict)
}

fn read_request(case: &Map<String, Value>) -> Result<Request, String> {
    let proposal = match (case.get("proposal"), case.get("proposal_text")) {
        (Some(proposal), None) => RecoveryProposal::read(proposal),
        (None, Some(Value::String(text))) => RecoveryProposal::parse(text),
        (None, Some(_)) => return Err("`proposal_text` should be a text".into()),
        (None, None) => return Err("there is no proposal".into()),
        (Some(_), Some(_)) => return Err("there are two proposals".into()),
    };
    let which = case.get("which").map_or(Ok(Which::Recovery), Which::read);
    let (proposal, which) = (proposal.map_err(text)?, which.map_err(text)?);
    proposal.request(which).cloned().map_err(text)
}

fn text(error: salve_core::gate::BadProposal) -> String {
    error.to_string()
}
