//! The whole story of one incident.

use jiff::Timestamp;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use salve_core::event::PersonQuestion;
use salve_core::playbook::PlaybookFinding;
use salve_core::repair::{AgentPart, RepairStanding, Size, TimelineEntry};
use salve_core::view::RemedyTried;
use schemars::JsonSchema;
use serde::Serialize;

use super::needs_you::question_card;
use super::parts::{
    ago, badge, budget_line, clock, counted, duration, finding_line, gate_word, kind_word,
    origin_word, patch_lines, phase_line, place_badge, result_word,
};
use super::what_if;
use crate::web::ansi;
use crate::web::views::{AttemptDiff, ChangePlace, IncidentDetails, TextTail};
use crate::web::visible::visible;

/// Everything about an incident that leaves the machine in one file.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::web) struct ExportedIncident {
    /// The version of its shape.
    pub(in crate::web) version: u32,
    /// When it was written.
    #[schemars(with = "String")]
    pub(in crate::web) exported_at: Timestamp,
    pub(in crate::web) incident: IncidentDetails,
    /// What the failure printed.
    pub(in crate::web) evidence: Option<TextTail>,
    /// What agents that Salve started said.
    pub(in crate::web) transcript: Option<TextTail>,
    /// What attempts changed.
    pub(in crate::web) diffs: Vec<AttemptDiff>,
}

/// What an incident left behind beside its journal.
#[derive(Clone, Copy, Debug)]
pub(super) struct IncidentFiles<'f> {
    pub(super) evidence: Option<&'f TextTail>,
    pub(super) transcript: Option<&'f TextTail>,
    pub(super) diffs: &'f [AttemptDiff],
}

/// Returns an incident as a page that needs nothing else: no script, no style elsewhere.
pub(in crate::web) fn export_page(exported: &ExportedIncident, style: &str) -> Markup {
    let ExportedIncident { incident, evidence, transcript, diffs, exported_at, .. } = exported;
    let (evidence, transcript) = (evidence.as_ref(), transcript.as_ref());
    let files = IncidentFiles { evidence, transcript, diffs };
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
                (story(incident, files))
            } }
        }
    }
}

/// Returns the section.
pub(super) fn page(details: &IncidentDetails, files: IncidentFiles<'_>) -> Markup {
    let diffs = files.diffs;
    let id = details.story.repair.repair_id.short();
    html! {
        p { a href="/incidents" { "Incidents" } " / heal-" (id) }
        (head(details))
        @if let Some(question) = &details.question { (question_card(details, question, diffs)) }
        (order_buttons(details, diffs))
        (what_if::form(details))
        (story(details, files))
    }
}

/// Returns what the incident is and how it stands.
fn head(details: &IncidentDetails) -> Markup {
    let repair = &details.story.repair;
    html! {
        h1 { (details.story.subject.for_people()) " " (visible(&repair.server)) }
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
fn story(details: &IncidentDetails, files: IncidentFiles<'_>) -> Markup {
    let IncidentFiles { evidence, transcript, diffs } = files;
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
        @if let Some(transcript) = transcript { (transcript_section(transcript)) }
        @if let Some(evidence) = evidence { (evidence_section(evidence, &repair.key_line)) }
        section aria-labelledby="timeline" {
            h2 #timeline { "Timeline" }
            ol.timeline { @for moment in &told_moments(&details.story.timeline) { (moment_item(moment)) } }
        }
    }
}

/// Returns what can be done about the incident besides answering.
fn order_buttons(details: &IncidentDetails, diffs: &[AttemptDiff]) -> Markup {
    let id = details.story.repair.repair_id;
    let order = |order: &str, label: &str| {
        html! {
            button type="button" data-post={ "/api/incidents/" (id) "/order" }
                data-body={ "{\"order\":\"" (order) "\"}" } { (label) }
        }
    };
    let asked = details.question.as_ref().map(|question| question.ask.question);
    let is_used_up = matches!(asked, Some(PersonQuestion::Exhausted(_)));
    let has = |place: ChangePlace| diffs.iter().any(|diff| diff.place == place);
    html! {
        p.actions {
            @match details.story.repair.state {
                RepairStanding::Healing | RepairStanding::AwaitingAgent => {
                    @if details.is_paused { (order("resume", "Resume")) } @else { (order("pause", "Pause")) }
                    (order("abort", "Call off"))
                }
                RepairStanding::NeedsHuman if !is_used_up => {}
                RepairStanding::Cooldown | RepairStanding::NeedsHuman => {
                    button type="button" data-post={ "/api/incidents/" (id) "/refill" }
                        data-body="{\"attempts\":1}" { "Grant one more attempt" }
                }
                RepairStanding::Deserted => (order("abort", "Call off")),
                RepairStanding::Recovered | RepairStanding::Resolved | RepairStanding::GivenUp | RepairStanding::Unhealed | RepairStanding::Aborted => {
                    @if has(ChangePlace::InFiles) {
                        button type="button" data-post={ "/api/incidents/" (id) "/undo" } data-body="{}"
                            data-confirm="Give the files back as they were before this repair?" { "Undo the repair" }
                    } @else if has(ChangePlace::TakenBack) {
                        button type="button" data-post={ "/api/incidents/" (id) "/undo" }
                            data-body="{\"direction\":\"redo\"}" { "Take the undoing back" }
                    }
                }
            }
            button type="button" data-download={ "/api/incidents/" (id) "/export.html" } data-file={ "heal-" (id.short()) ".html" } { "Export as HTML" }
            button type="button" data-download={ "/api/incidents/" (id) "/export.json" } data-file={ "heal-" (id.short()) ".json" } { "as JSON" }
            button type="button" data-copy=(words_for_agent(details)) { "Copy for agent" }
        }
    }
}

/// Returns what a person pastes into an agent that is to look into the incident.
fn words_for_agent(details: &IncidentDetails) -> String {
    let repair = &details.story.repair;
    let id = repair.repair_id.short();
    let what = format!("The {} `{}`", details.story.subject.for_people(), repair.server);
    let mut lines = vec![
        format!("{what} failed ({}): {}", repair.class, repair.key_line),
        format!("What it printed: {}", repair.crash_log_path),
    ];
    let next = |finding: &PlaybookFinding| format!("{} {}", finding.what, finding.next);
    lines.extend(repair.findings.iter().map(|finding| next(finding).trim().to_owned()));
    lines.extend(repair.tried.iter().map(|tried| format!("Tried without success: {tried}")));
    lines.push(format!("The whole story: salve show {id}"));
    lines.join("\n")
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
                        @if let Some(lines) = file.lines { " (" (counted(u64::from(lines), "line", "lines")) ")" }
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
                    summary { "Attempt " (diff.attempt) " " (place_badge(diff.place)) }
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

fn transcript_section(transcript: &TextTail) -> Markup {
    html! {
        section aria-labelledby="transcript" {
            h2 #transcript { "What the agent said and did" }
            p.dim {
                "In its own words, which nobody checked; without secrets, in "
                code { (visible(&transcript.path)) }
                @if transcript.is_cut { ", its end" }
            }
            pre.log tabindex="0" { @for line in &transcript.lines { (ansi::line(line)) "\n" } }
        }
    }
}

/// One moment of a timeline, and whether what it began came to its end with nothing more to tell.
struct ToldMoment<'t> {
    entry: &'t TimelineEntry,
    is_done: bool,
}

/// Returns what is told of a timeline: that something was done is told with what was begun, and
/// what other machines keep in the same journal is theirs to tell.
fn told_moments(timeline: &[TimelineEntry]) -> Vec<ToldMoment<'_>> {
    let mut told: Vec<ToldMoment<'_>> = Vec::new();
    for entry in timeline {
        let begun = told.last_mut().filter(|last| last.entry.event == "requested");
        match begun {
            Some(begun) if entry.event == "finished" && entry.text == "done" => {
                begun.is_done = true;
            }
            _ if entry.event == "job" => {}
            _ => told.push(ToldMoment { entry, is_done: false }),
        }
    }
    told
}

fn moment_item(ToldMoment { entry: moment, is_done }: &ToldMoment<'_>) -> Markup {
    html! {
        li class=[moment.ignored.as_ref().map(|_| "ignored")] {
            time datetime=(moment.at.to_string()) { (clock(moment.at)) }
            span.by { (visible(&moment.by)) }
            span {
                (visible(&moment.text))
                @if *is_done { span.dim { ": done" } }
                @for notice in &moment.phases { " " span.phase { (notice.phase.to_string()) } }
                @if let Some(why) = &moment.ignored { span.dim { " (changed nothing: " (visible(why)) ")" } }
            }
        }
    }
}
