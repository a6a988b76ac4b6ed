//! Answering one question by the code that a message carried: no token is needed, and nothing else
//! can be done with it.

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use schemars::JsonSchema;
use serde::Deserialize;

use super::incidents::write_decision;
use super::{html_answer, parse};
use crate::heal::people::{PersonAnswer, PersonWord};
use crate::page_access::AnswerGrant;
use crate::web::AppState;
use crate::web::page_client::{self, ConnectionEnds};
use crate::web::pages::answer_card;
use crate::web::problem::HttpProblem;
use crate::web::project_handle::ProjectHandle;

/// The code of a question.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::web) struct AnswerLinkRequest {
    /// The code behind the `#` of the link.
    code: String,
}

/// The answer to the question of a code.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::web) struct AnswerLinkAnswer {
    /// The code behind the `#` of the link; it is used up.
    code: String,
    /// The answer.
    answer: LinkAnswer,
}

/// What a link can answer.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum LinkAnswer {
    /// Yes.
    Approve,
    /// No.
    Reject,
}

fn no_such_code() -> HttpProblem {
    HttpProblem::missing("this link was used already, is too old, or is not whole")
        .next("salve status shows what is asked now")
}

impl AppState {
    fn project_of(&self, grant: &AnswerGrant) -> Result<&ProjectHandle, HttpProblem> {
        let found = self.projects.iter().find(|handle| handle.root == grant.project);
        found.ok_or_else(|| HttpProblem::missing("this page does not show that project"))
    }
}

/// Shows the question as HTML.
pub(super) async fn show(
    State(state): State<AppState>,
    body: Bytes,
) -> Result<Response, HttpProblem> {
    let AnswerLinkRequest { code } = parse(&body)?;
    let (grant, expires) = state.access.file().answer_grant(&code)?.ok_or_else(no_such_code)?;
    let handle = state.project_of(&grant)?;
    let card = handle.ask(move |reader| -> Result<String, HttpProblem> {
        let details = reader.incidents().details(&grant.incident.to_string())?;
        let is_asked = |ask: &salve_core::repair::OpenQuestion| {
            ask.number == grant.question && ask.digest == grant.digest
        };
        match &details.question {
            Some(question) if is_asked(&question.ask) => {
                Ok(answer_card(&details, question, expires).into_string())
            }
            Some(_) | None => Err(HttpProblem::conflict("this question is no longer open")),
        }
    });
    Ok(html_answer(card.await??))
}

/// Answers the question and uses the code up.
pub(super) async fn answer(
    State(state): State<AppState>,
    ends: Option<Extension<ConnectionEnds>>,
    body: Bytes,
) -> Result<Response, HttpProblem> {
    let AnswerLinkAnswer { code, answer } = parse(&body)?;
    let ends = ends.map(|Extension(ends)| ends);
    // A code that somebody else got hold of is not used up by them.
    page_client::judge(ends, state.roots()).await.map_err(|why| {
        let detail = format!("this process may not decide for a person: {why}");
        HttpProblem::new(StatusCode::FORBIDDEN, detail)
    })?;
    let grant = state.access.file().redeem_answer(&code)?.ok_or_else(no_such_code)?;
    let handle = state.project_of(&grant)?;
    let given =
        PersonAnswer { note: None, question: Some(grant.question), shown: Some(grant.digest) };
    let word = match answer {
        LinkAnswer::Approve => PersonWord::Approve(given),
        LinkAnswer::Reject => PersonWord::Reject(given),
    };
    let id = grant.incident.to_string();
    write_decision(handle, id, state.person.clone(), move |_| Ok(word)).await
}
