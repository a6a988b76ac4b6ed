//! The team's tools: issues, proposals, and calls for them.

use rmcp::model::{Tool, ToolAnnotations};
use salve_core::event::Actor;
use salve_core::scrub::Scrubber;
use salve_core::team::{About, RawFix, RawIssue};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::tool::tool;
use super::{RepairTools, RepairToolsError};
use crate::team::{self, OpenTeamWork, TeamError};

/// The tools' names.
pub(super) const NAMES: [&str; 4] =
    ["heal_report_issue", "heal_get_open_issues", "heal_propose_fix", "heal_broadcast"];

/// A call of one of the team's tools.
#[derive(Clone, Debug)]
pub(super) enum TeamToolCall {
    /// `heal_report_issue`.
    Report(RawIssue),
    /// `heal_get_open_issues`.
    Open,
    /// `heal_propose_fix`.
    Propose(String, RawFix),
    /// `heal_broadcast`.
    Want(String, Option<String>),
}

#[derive(Debug, Deserialize)]
struct Issue {
    text: String,
    #[serde(default)]
    check: Option<String>,
    #[serde(default)]
    files: Vec<String>,
    #[serde(default)]
    auto_fix: bool,
}

#[derive(Debug, Deserialize)]
struct NoArguments {}

#[derive(Debug, Deserialize)]
struct ProposalArguments {
    id: String,
    kind: String,
    text: String,
    #[serde(default)]
    why: Option<String>,
}

#[derive(Debug, Deserialize)]
struct ClaimArguments {
    id: String,
    #[serde(default)]
    message: Option<String>,
}

/// Reads a call, if the tool is one of the team's.
pub(super) fn parse(
    name: &str,
    arguments: Value,
) -> Result<Option<TeamToolCall>, serde_json::Error> {
    Ok(Some(match name {
        "heal_report_issue" => {
            let Issue { text, check, files, auto_fix } = serde_json::from_value(arguments)?;
            TeamToolCall::Report(RawIssue { text, check, files, auto_fix })
        }
        "heal_get_open_issues" => {
            let NoArguments {} = serde_json::from_value(arguments)?;
            TeamToolCall::Open
        }
        "heal_propose_fix" => {
            let ProposalArguments { id, kind, text, why } = serde_json::from_value(arguments)?;
            TeamToolCall::Propose(id, RawFix { kind, text, why })
        }
        "heal_broadcast" => {
            let ClaimArguments { id, message } = serde_json::from_value(arguments)?;
            TeamToolCall::Want(id, message)
        }
        _ => return Ok(None),
    }))
}

/// What a call is answered.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TeamToolAnswer {
    ok: bool,
    /// The issue or incident it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    open: Option<OpenTeamWork>,
    next_step: &'static str,
}

impl RepairTools<'_> {
    /// Answers a call of one of the team's tools.
    pub(super) fn team(
        &mut self,
        client: &str,
        call: &TeamToolCall,
    ) -> Result<TeamToolAnswer, RepairToolsError> {
        let by = Actor::Agent { name: self.agent_name(client) };
        let scrubber = self.scrubber().clone();
        let about = |about: About| match about {
            About::Incident(id) => id.to_string(),
            About::Issue(id) => id.to_string(),
        };
        let (id, next_step) = match call {
            TeamToolCall::Open => {
                let open = Some(self.open()?);
                let next_step = "Propose a fix with heal_propose_fix where you know one.";
                return Ok(TeamToolAnswer { ok: true, id: None, open, next_step });
            }
            TeamToolCall::Report(raw) => (self.report(&by, raw, &scrubber)?, reported(raw)),
            TeamToolCall::Propose(id, raw) => {
                let store = self.store()?.ok_or(TeamError::NoProject)?;
                let found = team::propose(store, &by, id, raw, &scrubber)?;
                let next_step = "Salve tries it when it heals the check: behind the gate, and \
                                 kept only if the check is green by it.";
                (about(found), next_step)
            }
            TeamToolCall::Want(id, message) => {
                let store = self.store()?.ok_or(TeamError::NoProject)?;
                let found = team::want(store, &by, id, message.as_deref(), &scrubber)?;
                (about(found), "Whoever listens is told; heal_get_open_issues shows proposals.")
            }
        };
        Ok(TeamToolAnswer { ok: true, id: Some(id), open: None, next_step })
    }

    /// Returns everything that is open for the team.
    pub(super) fn open(&mut self) -> Result<OpenTeamWork, RepairToolsError> {
        match self.store()? {
            Some(store) => Ok(team::open(store)?),
            None => Ok(OpenTeamWork { version: 1, ..OpenTeamWork::default() }),
        }
    }

    fn report(
        &mut self,
        by: &Actor,
        raw: &RawIssue,
        scrubber: &Scrubber,
    ) -> Result<String, RepairToolsError> {
        let checks = self.checks();
        if self.store()?.is_none() {
            // Where nobody asked for Salve, it leaves no traces.
            if checks.is_empty() {
                return Err(TeamError::NoProject.into());
            }
            self.store.made()?;
        }
        let store = self.store()?.ok_or(TeamError::NoProject)?;
        let reported = team::report(store, by, raw, &checks, scrubber)?;
        Ok(reported.issue.to_string())
    }
}

fn reported(raw: &RawIssue) -> &'static str {
    match (&raw.check, raw.auto_fix) {
        (Some(_), true) => "The next `salve heal` of this check acts on it.",
        (Some(_), false) | (None, _) => {
            "A person looks at it: Salve acts only on issues with a check and auto_fix."
        }
    }
}

/// Returns the team's tools as clients are told of them.
pub(super) fn tools() -> Vec<Tool> {
    let writes = || ToolAnnotations::new().read_only(false);
    let (id, text) = (
        json!({ "type": "string", "description": "issueId or incidentId from heal_get_open_issues" }),
        |what: &str| json!({ "type": "string", "description": what }),
    );
    let issue = json!({
        "text": text("What is wrong, and how you know"),
        "check": text("The check of salve.toml that shows it"),
        "files": {
            "type": "array", "maxItems": 50, "items": { "type": "string" },
            "description": "The files it is about, from the project's directory on",
        },
        "auto_fix": { "type": "boolean", "description": "Whether Salve may act on it" },
    });
    let fix = json!({
        "id": id,
        "kind": { "type": "string", "enum": ["command", "patch", "instruction"] },
        "text": text("The command, the unified diff, or what an agent is to do; no secrets"),
        "why": text("Why it should help, in a sentence"),
    });
    let wanted = json!({ "id": id, "message": text("What those who are asked should know") });
    vec![
        tool(
            NAMES[0],
            "Reports something wrong in this project. With a check and auto_fix, Salve heals it \
             when that check runs next; otherwise a person is shown it.",
            schema(issue, &["text"]),
            writes(),
        ),
        tool(
            NAMES[1],
            "Returns what is open: checks that are red, issues that were reported, what is \
             proposed for each, and where proposals are wanted.",
            schema(json!({}), &[]),
            ToolAnnotations::new().read_only(true),
        ),
        tool(
            NAMES[2],
            "Proposes a fix for an open issue or incident. It is put to the gate, tried, and kept \
             only if the check is green by it; it is never run as you send it.",
            schema(fix, &["id", "kind", "text"]),
            writes(),
        ),
        tool(
            NAMES[3],
            "Asks every agent that listens for proposals about an open issue or incident.",
            schema(wanted, &["id"]),
            writes(),
        ),
    ]
}

pub(super) fn schema(properties: Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
    })
}
