//! One question, for whoever holds its code: what would run, why, and what yes and no do.

use jiff::Timestamp;
use maud::{Markup, html};
use salve_core::repair::QuestionDetail;

use super::needs_you::proposal_facts;
use super::parts::{ago, gate_word, local_time};
use crate::web::views::IncidentDetails;
use crate::web::visible::visible;

/// Returns the question with its two answers.
pub(in crate::web) fn answer_card(
    details: &IncidentDetails,
    question: &QuestionDetail,
    expires: Timestamp,
) -> Markup {
    let (repair, ask) = (&details.story.repair, &question.ask);
    html! {
        article.card.question {
            header {
                span.badge.bad { "needs you" }
                b { (visible(&repair.server)) }
                span.dim { "heal-" (repair.repair_id.short()) " · asked " (ago(question.asked_at)) }
            }
            p.why { (visible(&ask.why)) }
            @if let Some(remedy) = &question.remedy {
                pre.command aria-label="the exact command" { (visible(remedy.text.as_str())) }
                p { (gate_word(remedy)) }
            }
            @if let Some(proposal) = &question.proposal { (proposal_facts(proposal)) }
            p.key-line { (visible(&repair.key_line)) }
            div.answers {
                @if let Some(yes) = &ask.yes {
                    button.yes type="button" data-answer="approve" { b { "Approve" } span { (visible(yes)) } }
                }
                button.no type="button" data-answer="reject" { b { "Reject" } span { (visible(&ask.no)) } }
            }
            p.dim { "This link answers this question only, once, until " (local_time(expires)) "." }
        }
    }
}
