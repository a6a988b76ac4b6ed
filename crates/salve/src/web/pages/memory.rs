//! What Salve remembers: known failures with their remedies, fixes for tools, usage patterns.

use maud::{Markup, html};
use salve_core::memory::{Ranked, RecordStanding, RememberedKind};

use super::parts::{ago, counted, nothing, origin_word, patch_lines, percent};
use crate::learned::MemoryAnswer;
use crate::web::views::{
    KnownFailureRow, MemoryOwner, MemoryQuery, MemoryView, PatternWarning, UsagePatternRow,
};
use crate::web::visible::visible;

/// Returns the section.
pub(super) fn page(query: &MemoryQuery, view: &MemoryView) -> Markup {
    let counts = view.counts;
    html! {
        h1 { "Memory" }
        p.dim {
            (counted(counts.failures, "known failure", "known failures")) ", "
            (counted(counts.remedies, "remedy", "remedies")) " (" (counts.proven) " proven, " (counts.failed) " failed)"
        }
        (paste_form())
        form.filter data-navigate="/memory" role="search" {
            label { span.sr { "Search" } input type="search" name="q" value=(query.text) placeholder="Search failures and remedies" data-search; }
            label { span.sr { "Whose memory" } select name="whose" {
                option value="" selected[query.owner == MemoryOwner::Project] { "This project" }
                option value="user" selected[query.owner == MemoryOwner::User] { "My own, across projects" }
            } }
            button { "Search" }
        }
        section aria-labelledby="known" {
            h2 #known { "Known failures" }
            @if view.failures.is_empty() {
                @if query.text.is_empty() {
                    (nothing("Nothing is known yet. A remedy that is proven to help is remembered; one can be taught, too:", Some("salve memory learn --command 'npm ci' 'the failure’s output'")))
                } @else { (nothing("Nothing that is known mentions this.", None)) }
            }
            div.stack { @for row in &view.failures { (failure_card(row, query.owner)) } }
            @if let Some(skip) = view.next_skip {
                p.pages { a href={ "/memory?skip=" (skip) @if query.owner == MemoryOwner::User { "&whose=user" } } { "Next page" } }
            }
        }
        @if !view.tool_fixes.is_empty() { (tool_fix_section(view)) }
        section aria-labelledby="patterns" {
            h2 #patterns { "Usage patterns" }
            @if view.usage_patterns.is_empty() {
                (nothing("No mistake in calling a tool has come back so far.", Some("salve proxy -- your-mcp-server")))
            } @else { (pattern_table(&view.usage_patterns)) }
        }
    }
}

fn paste_form() -> Markup {
    html! {
        details.card.paste {
            summary { "Paste an error to see what is known about it" }
            form data-fragment="/fragment/memory/check" data-into="memory-answer" {
                label { span.sr { "The error" } textarea name="text" rows="5" placeholder="What the failed command printed" required {} }
                p { button type="submit" { "What is known about this?" } }
            }
            div #memory-answer data-keep aria-live="polite" {}
        }
    }
}

/// Returns what memory says about a pasted error.
pub(in crate::web) fn memory_answer(answer: &MemoryAnswer) -> Markup {
    html! {
        p { b { (answer.class.to_string()) } " · signature " code { (answer.signature.to_string()) } }
        @if !answer.key_line.is_empty() { p.key-line { (visible(&answer.key_line)) } }
        @match answer.last_seen {
            Some(last) => p.dim { "seen " (counted(answer.seen, "time", "times")) ", last " (ago(last)) },
            None => p.dim { "This failure was never seen before." },
        }
        (remedy_list(&answer.remedies, "Try"))
        (remedy_list(&answer.failed_approaches, "Failed before"))
        @for fix in &answer.tool_fixes { p { b { (visible(&fix.tool_name)) } ": " (visible(&fix.fix_description)) } }
        @for near in &answer.near {
            p { (percent(f64::from(near.likeness))) " like " code { (near.signature.to_string()) } " " span.key-line { (visible(&near.normalized)) } }
            @match &near.why_not {
                Some(why) => p.dim { "Its remedies do not apply: " (visible(why)) },
                None => (remedy_list(&near.remedies, "Try")),
            }
        }
        @if answer.remedies.is_empty() && answer.tool_fixes.is_empty() && answer.near.is_empty() {
            p { "No remedy is known. To teach one: " code { "salve memory learn --command 'what helps' 'the same text'" } }
        }
    }
}

fn failure_card(row: &KnownFailureRow, owner: MemoryOwner) -> Markup {
    let known = &row.knowledge;
    let failure = &known.failure;
    let signature = failure.signature.to_string();
    html! {
        article.card data-item id={ "known-" (signature) } {
            header {
                b { (failure.class.to_string()) }
                code { (signature) }
                span.dim { @if known.seen == 0 { "taught " } @else { "seen " (counted(known.seen, "time", "times")) ", last " } (ago(known.last_seen)) }
            }
            @let line = Some(failure.key_line.as_str()).filter(|line| !line.is_empty());
            p.key-line { (visible(line.unwrap_or(failure.normalized.as_str()))) }
            (remedy_list(&row.choice.remedies, "Try"))
            (remedy_list(&row.choice.failed, "Failed before"))
            @if owner == MemoryOwner::Project { (failure_actions(row, &signature)) }
        }
    }
}

fn failure_actions(row: &KnownFailureRow, signature: &str) -> Markup {
    html! {
        details {
            summary { "Change" }
            @for tried in &row.knowledge.remedies {
                form.edit data-post={ "/api/memory/" (signature) "/edit" } {
                    input type="hidden" name="old" value=(tried.remedy.text.as_str());
                    label { (tried.remedy.kind.to_string()) " " textarea name="new" rows="2" { (tried.remedy.text.as_str()) } }
                    p.dim { "A remedy that you change begins without a record; an empty one is dropped." }
                    p { button type="submit" { "Save" } }
                }
            }
            form.edit data-post={ "/api/memory/" (signature) "/edit" } {
                label { "Another command that helps " input type="text" name="new" autocomplete="off"; }
                p { button type="submit" { "Teach" } }
            }
            p.actions {
                button type="button" data-post={ "/api/memory/" (signature) "/promote" } data-body="{}" { "Use in all my projects" }
                button type="button" data-post={ "/api/memory/" (signature) "/forget" } data-body="{}"
                    data-confirm="Forget all that is known about this failure?" { "Forget" }
            }
        }
    }
}

fn remedy_list(remedies: &[Ranked], word: &str) -> Markup {
    html! {
        @for ranked in remedies {
            div.known-remedy {
                span class={ "badge " (standing_class(ranked.standing)) } { (word) }
                @match ranked.remedy.kind {
                    RememberedKind::Patch => details { summary { "a patch" } (patch_lines(ranked.remedy.text.as_str())) },
                    RememberedKind::Command | RememberedKind::Instruction => code { (visible(ranked.remedy.text.as_str())) },
                }
                span.dim {
                    (ranked.remedy.kind.to_string()) ", " (origin_word(ranked.origin)) ", "
                    @match ranked.standing {
                        RecordStanding::Untried => "not proven yet",
                        RecordStanding::Works | RecordStanding::Undecided | RecordStanding::Failed => {
                            "healed " (ranked.record.proven) " of " (ranked.record.tries()) ", " (ranked.confidence.to_string()) " sure"
                        }
                    }
                }
            }
        }
    }
}

fn standing_class(standing: RecordStanding) -> &'static str {
    match standing {
        RecordStanding::Works => "good",
        RecordStanding::Untried | RecordStanding::Undecided => "busy",
        RecordStanding::Failed => "bad",
    }
}

fn tool_fix_section(view: &MemoryView) -> Markup {
    html! {
        section aria-labelledby="tool-fixes" {
            h2 #tool-fixes { "Fixes for tools" }
            div.scroll tabindex="0" { table {
                thead { tr { th { "Tool" } th { "When it says" } th { "Do" } } }
                tbody { @for fix in &view.tool_fixes { tr {
                    td { (visible(&fix.tool_name)) }
                    td { code { (visible(&fix.error_pattern)) } }
                    td { (visible(&fix.fix_description)) }
                } } }
            } }
        }
    }
}

fn pattern_table(patterns: &[UsagePatternRow]) -> Markup {
    html! {
        div.scroll tabindex="0" { table {
            thead { tr { th { "Tool" } th { "Mistake" } th { "Stage" } th { "Sure" } th { "Seen" } th { "Prevented" } th { "Wrong" } th { "Last" } } }
            tbody { @for row in patterns { tr {
                td { (visible(&row.pattern.tool)) }
                td { (visible(&row.pattern.root_cause)) " " span.dim { (visible(&row.pattern.error_category)) } }
                td { (stage_badge(row.stage)) }
                td { (row.confidence.to_string()) }
                td { (row.pattern.observations) }
                td { (row.pattern.success_after_prevention) }
                td { (row.pattern.false_positives) }
                td { (ago(row.pattern.last_seen.0)) }
            } } }
        } }
    }
}

fn stage_badge(stage: PatternWarning) -> Markup {
    let (word, class) = match stage {
        PatternWarning::Watching => ("watches", "busy"),
        PatternWarning::Warning => ("warns", "warn"),
        PatternWarning::Strongest => ("warns strongly", "bad"),
        PatternWarning::Expired => ("expired", "dim"),
    };
    html! { span class={ "badge " (class) } { (word) } }
}
