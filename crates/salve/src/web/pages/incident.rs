//! The whole story of one incident.

use jiff::Timestamp;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use salve_core::repair::{AgentPart, RepairStanding, Size, TimelineEntry};
use salve_core::view::RemedyTried;
use serde::Serialize;

use super::needs_you::question_card;
use super::parts::{
    ago, badge, budget_line, clock, counted, duration, finding_line, gate_word, kind_word,
    origin_word, patch_lines, phase_line, result_word, subject_word,
};
use super::what_if;
use crate::web::ansi;
use crate::web::views::{AttemptDiff, IncidentDetails, TextTail};
use crate::web::visible::visible;

/// Everything about an incident that leaves the machine in one file.
#[derive(Debug, Serialize)]
pub(in crate::web) struct ExportedIncident {
    /// The version of its shape.
    pub(in crate::web) version: u32,
    /// When it was written.
    pub(in crate::web) exported_at: Timestamp,
    pub(in crate::web) incident: IncidentDetails,
    pub(in crate::web) evidence: Option<TextTail>,
    pub(in crate::web) diffs: Vec<AttemptDiff>,
}

/// Returns an incident as a page that needs nothing else: no script, no style elsewhere.
pub(in crate::web) fn export_page(exported: &ExportedIncident, style: &str) -> Markup {
    let ExportedIncident { incident, evidence, diffs, exported_at, .. } = exported;
    let repair = &incident.story.repair;
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "heal-" (repair.repair_id.short()) " · Salve" }
                style { (PreEscaped(style)) }
            }
            body { main {
                (head(incident))
                p.dim { "Began " (repair.started_at) ", written " (exported_at) "." }
                (story(incident, evidence.as_ref(), diffs))
            } }
        }
    }
}

/// Returns the section.
pub(super) fn page(
    details: &IncidentDetails,
    evidence: Option<&TextTail>,
    diffs: &[AttemptDiff],
) -> Markup {
    let id = details.story.repair.repair_id.short();
    html! {
        p { a href="/incidents" { "Incidents" } " / heal-" (id) }
        (head(details))
        @if let Some(question) = &details.question { (question_card(details, question, diffs)) }
        (order_buttons(details))
        (what_if::form(details))
        (story(details, evidence, diffs))
    }
}

/// Returns what the incident is and how it stands.
fn head(details: &IncidentDetails) -> Markup {
    let repair = &details.story.repair;
    html! {
        h1 { (subject_word(details.story.subject)) " " (visible(&repair.server)) }
        p.head-line {
            (badge(repair.state, repair.proof)) " "
            span { "opened " (ago(repair.started_at)) } " "
            span.dim { (budget_line(details)) }
        }
        p.key-line { (visible(&repair.key_line)) }
        p.dim { (repair.class.to_string()) " · signature " code { (repair.signature.to_string()) } }
        (phase_line(details))
    }
}

/// Returns everything that happened, and what it left behind.
fn story(details: &IncidentDetails, evidence: Option<&TextTail>, diffs: &[AttemptDiff]) -> Markup {
    let repair = &details.story.repair;
    html! {
        @if !repair.findings.is_empty() {
            section aria-labelledby="findings" {
                h2 #findings { "What was found out" }
                @for finding in &repair.findings {
                    (finding_line(finding))
                }
            }
        }
        @if !details.remedies.is_empty() {
            section aria-labelledby="remedies" {
                h2 #remedies { "Remedies" }
                ol.remedies { @for remedy in &details.remedies { (remedy_item(remedy)) } }
            }
        }
        @if repair.agent.iter().any(|part| part.name.is_some()) { (agent_table(&repair.agent)) }
        @if !diffs.is_empty() { (diff_section(diffs)) }
        @if let Some(evidence) = evidence { (evidence_section(evidence, &repair.key_line)) }
        section aria-labelledby="timeline" {
            h2 #timeline { "Timeline" }
            ol.timeline { @for moment in &details.story.timeline { (moment_item(moment)) } }
        }
    }
}

/// Returns what can be done about the incident besides answering.
fn order_buttons(details: &IncidentDetails) -> Markup {
    let id = details.story.repair.repair_id;
    let order = |order: &str, label: &str| {
        html! {
            button type="button" data-post={ "/api/incidents/" (id) "/order" }
                data-body={ "{\"order\":\"" (order) "\"}" } { (label) }
        }
    };
    let has_changed = details.remedies.iter().any(|remedy| !remedy.files.is_empty());
    html! {
        p.actions {
            @match details.story.repair.state {
                RepairStanding::Healing | RepairStanding::AwaitingAgent => {
                    (order("pause", "Pause")) (order("resume", "Resume")) (order("abort", "Call off"))
                }
                RepairStanding::Cooldown | RepairStanding::NeedsHuman => {
                    button type="button" data-post={ "/api/incidents/" (id) "/refill" }
                        data-body="{\"attempts\":1}" { "Grant one more attempt" }
                }
                RepairStanding::Deserted => (order("abort", "Call off")),
                RepairStanding::Recovered | RepairStanding::Resolved | RepairStanding::GivenUp | RepairStanding::Unhealed | RepairStanding::Aborted => {
                    @if has_changed {
                        button type="button" data-post={ "/api/incidents/" (id) "/undo" } data-body="{}"
                            data-confirm="Give the files back as they were before this repair?" { "Undo the repair" }
                        button type="button" data-post={ "/api/incidents/" (id) "/undo" }
                            data-body="{\"direction\":\"redo\"}" { "Take the undoing back" }
                    }
                }
            }
            button type="button" data-download={ "/api/incidents/" (id) "/export.html" } data-file={ "heal-" (id.short()) ".html" } { "Export as HTML" }
            button type="button" data-download={ "/api/incidents/" (id) "/export.json" } data-file={ "heal-" (id.short()) ".json" } { "as JSON" }
            button type="button" data-copy={ "salve show " (id.short()) } { "Copy for agent" }
        }
    }
}

fn remedy_item(remedy: &RemedyTried) -> Markup {
    html! {
        li {
            p { span.dim { "attempt " (remedy.attempt) " · " (kind_word(remedy.kind)) " · " (origin_word(remedy.origin)) } }
            pre.command { (visible(remedy.text.as_str())) }
            p { (gate_word(remedy)) }
            p {
                (result_word(&remedy.result))
                @if let Some(ms) = remedy.took_ms { span.dim { " after " (duration(ms)) } }
            }
            @if !remedy.files.is_empty() {
                p.dim {
                    "changed "
                    @for (at, file) in remedy.files.iter().enumerate() {
                        @if at > 0 { ", " }
                        code { (visible(file.path.as_str())) }
                        @if let Some(lines) = file.lines { " (" (lines) ")" }
                    }
                    @if remedy.more_files > 0 { " and " (remedy.more_files) " more" }
                }
            }
        }
    }
}

fn agent_table(parts: &[AgentPart]) -> Markup {
    let amount =
        |count: Option<u32>, one: &str, many: &str| Some(counted(u64::from(count?), one, many));
    let size = |size: Size, unknown: &str| {
        let files = amount(size.files_changed, "file", "files");
        let told: Vec<_> =
            files.into_iter().chain(amount(size.lines_changed, "line", "lines")).collect();
        html! { td {
            @if told.is_empty() { span.dim { (unknown) } } @else { (told.join(", ")) }
        } }
    };
    html! {
        section aria-labelledby="agents" {
            h2 #agents { "What agents said, and what was measured" }
            div.scroll tabindex="0" { table {
                thead { tr { th { "Attempt" } th { "Agent" } th { "Said" } th { "Measured" } } }
                tbody { @for part in parts { tr {
                    td { (part.attempt) }
                    td { @match &part.name { Some(name) => (visible(name)), None => span.dim { "nobody came" } } }
                    (size(part.reported, "nothing"))
                    (size(part.measured, "not measured"))
                } } }
            } }
        }
    }
}

fn diff_section(diffs: &[AttemptDiff]) -> Markup {
    html! {
        section aria-labelledby="diffs" {
            h2 #diffs { "What was changed" }
            @for diff in diffs {
                details open[diffs.len() == 1] id={ "diff-" (diff.attempt) } {
                    summary { "Attempt " (diff.attempt) }
                    (patch_lines(&diff.patch))
                }
            }
        }
    }
}

fn evidence_section(evidence: &TextTail, key_line: &str) -> Markup {
    let key = key_line.trim();
    let is_key = |line: &str| !key.is_empty() && ansi::plain(line).contains(key);
    let marked = evidence.lines.iter().rposition(|line| is_key(line));
    html! {
        section aria-labelledby="evidence" {
            h2 #evidence { "Evidence" }
            p.dim {
                code { (visible(&evidence.path)) }
                @if evidence.is_cut { ", its end" }
                @if marked.is_some() { " · " a href="#key-line" data-jump { "jump to the error" } }
            }
            pre.log tabindex="0" {
                @for (at, line) in evidence.lines.iter().enumerate() {
                    @if Some(at) == marked { mark #key-line { (ansi::line(line)) "\n" } }
                    @else { (ansi::line(line)) "\n" }
                }
            }
        }
    }
}

fn moment_item(moment: &TimelineEntry) -> Markup {
    html! {
        li class=[moment.ignored.as_ref().map(|_| "ignored")] {
            time datetime=(moment.at.to_string()) { (clock(moment.at)) }
            span.by { (visible(&moment.by)) }
            span {
                (visible(&moment.text))
                @for notice in &moment.phases { " " span.phase { (notice.phase.to_string()) } }
                @if let Some(why) = &moment.ignored { span.dim { " (changed nothing: " (visible(why)) ")" } }
            }
        }
    }
}
