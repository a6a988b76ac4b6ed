//! Settings and rules: shown, accepted and withdrawn by people, and notices tried out.

use axum::extract::Path;
use axum::response::Response;
use jiff::Timestamp;
use salve_core::earned::{EarningTerms, RuleStanding};
use salve_core::event::{Actor, Digest, Draft, Event, RuleEvent};
use schemars::JsonSchema;
use serde::Deserialize;

use super::request::{PersonRequest, ProjectView};
use super::{Decided, json, parse, written};
use crate::heal::earned;
use crate::notify::{self, NoticePlan};
use crate::web::problem::HttpProblem;
use crate::web::views::{ProjectReader, ViewError};

pub(super) async fn settings(
    ProjectView { project, headers, .. }: ProjectView,
) -> Result<Response, HttpProblem> {
    json(&headers, &project.ask(|reader| reader.settings().view()).await??)
}

/// Which change of the settings is accepted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::web) struct AcceptRequest {
    /// The hash of what waits, as it was shown.
    digest: String,
}

pub(super) async fn accept(
    PersonRequest { person, project, body }: PersonRequest,
) -> Result<Response, HttpProblem> {
    let AcceptRequest { digest } = parse(&body)?;
    let digest: Digest = serde_json::from_value(serde_json::Value::String(digest))
        .map_err(|_| HttpProblem::bad_request("the digest is not one"))?;
    let changes = project.ask(move |reader| reader.settings().accept(digest, person)).await??;
    let said = "Accepted: it holds from the next safe point on.";
    written(&serde_json::json!({ "ok": true, "said": said, "changes": changes }))
}

/// A person's word about an earned rule.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::web) struct RuleWordRequest {
    /// The word.
    word: RuleWord,
}

/// What a person says about an earned rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum RuleWord {
    /// The command may run unattended, for a time.
    Accept,
    /// It asks again.
    Withdraw,
}

pub(super) async fn rule_word(
    Path(rule): Path<String>,
    PersonRequest { person, project, body }: PersonRequest,
) -> Result<Response, HttpProblem> {
    let by = Actor::Person { name: person };
    let RuleWordRequest { word } = parse(&body)?;
    let say = move |reader: &mut ProjectReader| say_about_rule(reader, &rule, word, by);
    let said = match word {
        RuleWord::Accept => "It runs without asking from now on.",
        RuleWord::Withdraw => "Withdrawn: it asks again.",
    };
    written(&Decided::new(project.ask(say).await??, said))
}

fn say_about_rule(
    reader: &mut ProjectReader,
    rule: &str,
    word: RuleWord,
    by: Actor,
) -> Result<u64, HttpProblem> {
    let missing = || HttpProblem::missing("there is no such rule").next("GET /api/settings");
    let terms = EarningTerms::from(&reader.settings().config()?.settings.earned);
    let store = reader.store().map_err(ViewError::from)?.ok_or_else(missing)?;
    let earned = earned::load(store.journal()).map_err(ViewError::from)?;
    let rule = earned.rules().find(|one| one.key.to_string() == rule).ok_or_else(missing)?;
    let is_proposed = rule.standing(terms, Timestamp::now()) == RuleStanding::Proposed;
    let event = match word {
        RuleWord::Accept if is_proposed => RuleEvent::Accepted(rule.key),
        RuleWord::Withdraw if rule.accepted.is_some() => RuleEvent::Withdrawn(rule.key),
        RuleWord::Accept => {
            return Err(HttpProblem::conflict(
                "the rule has not earned it, or is accepted already",
            ));
        }
        RuleWord::Withdraw => return Err(HttpProblem::conflict("the rule is not accepted")),
    };
    let (at, event) = (Timestamp::now(), Event::Rule(event));
    let draft = Draft { at, by, incident: None, event };
    Ok(store.journal().append(draft).map_err(ViewError::from)?.seq)
}

/// Says that every way of telling people is to be tried once.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::web) struct NoticeTestRequest {}

pub(super) async fn test_notices(
    PersonRequest { project, body, .. }: PersonRequest,
) -> Result<Response, HttpProblem> {
    let NoticeTestRequest {} = parse(&body)?;
    let plan = move |reader: &mut ProjectReader| -> Result<_, ViewError> {
        Ok((NoticePlan::new(&reader.settings().config()?.settings), reader.project().clone()))
    };
    let (plan, project) = project.ask(plan).await??;
    // A target may take its time; the project's thread must not wait for it.
    let tried = tokio::task::spawn_blocking(move || notify::test(&plan, &project)).await;
    let tried = tried.map_err(|_| HttpProblem::conflict("the test broke off"))?;
    let row = |one: &notify::DeliveryAttempt| serde_json::json!({ "setting": one.setting, "delivered": one.failed.is_none(), "reason": one.failed });
    let channels: Vec<_> = tried.iter().map(row).collect();
    let failed = tried.iter().filter(|one| one.failed.is_some()).count();
    let said = match (tried.len(), failed) {
        (0, _) => "Nobody is told: no webhook is set, and there is no desktop.".to_owned(),
        (all, 0) => format!("Delivered to all {all}."),
        (all, failed) => format!("{failed} of {all} could not be reached."),
    };
    written(&serde_json::json!({ "ok": failed == 0, "said": said, "channels": channels }))
}
