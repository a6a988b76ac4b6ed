//! What waits for a person: each question with everything that is needed to answer it.

use maud::{Markup, html};
use salve_core::event::{Digest, PersonQuestion, Proposed, RemedyKind, SubjectKind};
use salve_core::gate::DEFAULT_TIMEOUT_SECONDS;
use salve_core::repair::QuestionDetail;
use salve_core::view::RemedyTried;

use super::fleet;
use super::now::work_card;
use super::parts::{ago, finding_line, gate_word, nothing, origin_word, patch_lines, place_badge};
use super::settings::{proposed_rule_card, waiting_card};
use crate::web::views::{AttemptDiff, IncidentDetails, PersonNeeds};
use crate::web::visible::visible;

/// Returns the section.
pub(super) fn page(needs: &PersonNeeds) -> Markup {
    html! {
        h1 { "Needs you" }
        @if needs.count() == 0 {
            (nothing("Nothing waits for you.", None))
        }
        @for one in needs.questions() { (question_card(one.details, one.question, one.diffs)) }
        @for one in &needs.fleet { (fleet::question_card(one)) }
        @if let Some(waiting) = &needs.settings { (waiting_card(waiting)) }
        @for rule in &needs.rules { (proposed_rule_card(rule)) }
        @for card in &needs.work { (work_card(card, true)) }
    }
}

/// Returns one question as a card with a form.
pub(super) fn question_card(
    details: &IncidentDetails,
    question: &QuestionDetail,
    diffs: &[AttemptDiff],
) -> Markup {
    let (repair, ask) = (&details.story.repair, &question.ask);
    let id = repair.repair_id.short();
    html! {
        article.card.question data-item id={ "ask-" (id) "-" (ask.number) } {
            header {
                span.badge.bad { "needs you" }
                span.subject { (details.story.subject.for_people()) " " b { (visible(&repair.server)) } }
                a href={ "/incidents/" (id) } { "heal-" (id) }
                span.dim { "asked " (ago(question.asked_at)) }
            }
            p.why { (visible(&ask.why)) }
            @if let Some(remedy) = &question.remedy {
                pre.command aria-label="the exact command" { (visible(remedy.text.as_str())) }
                p { (gate_word(remedy)) }
                p.dim {
                    (origin_word(remedy.origin))
                    @if question.proposal.is_none() && runs_at_the_root(remedy) {
                        "; runs in the project's directory, at most " (DEFAULT_TIMEOUT_SECONDS) " s"
                    }
                }
            }
            @if let Some(proposal) = &question.proposal { (proposal_facts(proposal)) }
            @if let Some(diff) = diffs.last().filter(|_| ask.question != PersonQuestion::Remedy) {
                details { summary { "The change, attempt " (diff.attempt) " " (place_badge(diff.place)) } (patch_lines(&diff.patch)) }
            }
            p.key-line { (visible(&repair.key_line)) }
            @for finding in &repair.findings {
                (finding_line(finding))
            }
            @if !repair.tried.is_empty() {
                p { "Already tried:" }
                ul { @for tried in &repair.tried { li { (visible(tried)) } } }
            }
            p { a href={ "/incidents/" (id) } { "Evidence, diff and timeline" } }
            (answer_form(&repair.repair_id.to_string(), question))
            @if !details.is_cared_for { (unheard_note(details)) }
        }
    }
}

/// Says that nobody would act on an answer now, and what to type.
pub(super) fn unheard_note(details: &IncidentDetails) -> Markup {
    let name = &details.story.repair.server;
    let next = match details.story.subject {
        SubjectKind::Server => "salve dev".to_owned(),
        SubjectKind::Check => format!("salve heal -- {name}"),
        SubjectKind::Iteration => format!("salve loop run --id {name}"),
        SubjectKind::Step => "salve jobs".to_owned(),
        SubjectKind::Tool => String::new(),
    };
    html! {
        p.warn.note {
            "No salve cares for this now: what you answer takes effect when one does again"
            @if next.is_empty() { "." } @else { ": " code { (visible(&next)) } }
        }
    }
}

/// Tells whether a command is to run in the project's directory for the usual time: its hash was
/// made of exactly that.
fn runs_at_the_root(remedy: &RemedyTried) -> bool {
    let millis = DEFAULT_TIMEOUT_SECONDS.saturating_mul(1_000);
    remedy.kind == RemedyKind::Command
        && remedy.digest == Digest::of_command(remedy.text.as_str(), ".", millis)
}

fn answer_form(id: &str, question: &QuestionDetail) -> Markup {
    let ask = &question.ask;
    html! {
        form data-post={ "/api/incidents/" (id) "/answer" } {
            input type="hidden" name="question" value=(ask.number) data-number;
            input type="hidden" name="digest" value=(ask.digest.to_string());
            label { "Note " input type="text" name="note" maxlength="2000" autocomplete="off"; }
            div.answers {
                @if let Some(yes) = &ask.yes {
                    button.yes type="submit" name="answer" value="approve" data-key="a" {
                        b { "Approve" } span { (visible(yes)) }
                    }
                }
                button.no type="submit" name="answer" value="reject" data-key="r" {
                    b { "Reject" } span { (visible(&ask.no)) }
                }
                button type="submit" name="answer" value="resolve" data-key="s" {
                    b { "Settled" } span { "you took care of it yourself" }
                }
            }
            p.dim { "It waits until it is answered. Asked of " (visible(&ask.person)) "." }
        }
    }
}

/// Returns what somebody proposed says about itself: the cause, where it runs, what it should do.
pub(super) fn proposal_facts(proposal: &Proposed) -> Markup {
    html! {
        dl {
            dt { "Cause" } dd { (visible(proposal.root_cause.as_str())) }
            dt { "Runs in" } dd {
                @match proposal.recovery.working_dir.as_str() {
                    "" | "." => "the project's directory",
                    dir => code { (visible(dir)) },
                }
                ", at most " (proposal.recovery.timeout_seconds) " s"
            }
            dt { "Expected" } dd { (visible(proposal.expected_outcome.as_str())) }
            @if let Some(confidence) = proposal.recovery.confidence {
                dt { "Confidence" } dd { (format!("{confidence:?}").to_lowercase()) }
            }
            @if !proposal.evidence.is_empty() {
                dt { "Evidence" }
                dd { @for line in &proposal.evidence { code.block { (visible(line.as_str())) } } }
            }
            @if let Some(fallback) = &proposal.fallback {
                dt { "Else" } dd { code { (visible(fallback.command.as_str())) } }
            }
        }
    }
}
