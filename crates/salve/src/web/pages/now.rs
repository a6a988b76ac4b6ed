//! Everything at a glance: servers, what is being healed, what was said last.

use maud::{Markup, html};
use salve_core::event::SubjectKind;
use salve_core::repair::{BrowserError, Server, ServerState};

use super::parts::{
    ago, badge, budget_line, clock, incident_rows, lasting_since, nothing, phase_line, url_encoded,
};
use crate::web::views::{
    IncidentDetails, IncidentRow, NoticeLine, ProjectMood, ProjectOverview, WorkCard, WorkKind,
    WorkStanding,
};
use crate::web::visible::visible;

/// Returns the section.
pub(super) fn page(overview: &ProjectOverview) -> Markup {
    let waiting = overview.waiting;
    html! {
        h1 { (headline(overview.mood())) }
        p.dim { (visible(&overview.root)) }
        @if waiting > 0 {
            p { a.call href="/needs-you" {
                (waiting) @if waiting == 1 { " matter waits for you" } @else { " matters wait for you" }
            } }
        }
        (repair_cards(overview, "healing", "Being healed", IncidentDetails::is_being_healed))
        (repair_cards(overview, "idle", "Not healed, and nothing is done about it now", IncidentDetails::is_idle))
        section aria-labelledby="servers" {
            h2 #servers { "Servers" }
            @if overview.servers.is_empty() {
                (nothing("No server has been started here yet.", Some("salve dev -- npm run dev")))
            } @else {
                div.cards { @for server in &overview.servers {
                    (server_card(overview, server))
                } }
            }
        }
        @if !overview.checks.is_empty() {
            section aria-labelledby="checks" {
                h2 #checks { "Checks and tools" }
                div.cards { @for row in &overview.checks { (check_card(row)) } }
            }
        }
        @if !overview.work.is_empty() {
            section aria-labelledby="work" {
                h2 #work { "Jobs and loops" }
                div.cards { @for card in &overview.work { (work_card(card, is_asked_about(overview, card))) } }
            }
        }
        @if !overview.browser_errors.is_empty() {
            section aria-labelledby="browser" {
                h2 #browser { "In the browser" }
                ul.notices { @for error in &overview.browser_errors { (browser_line(error)) } }
            }
        }
        section aria-labelledby="recent" {
            h2 #recent { "Last incidents" }
            @if overview.recent.is_empty() {
                (nothing("Nothing has failed yet.", Some("salve heal -- npm test")))
            } @else {
                (incident_rows(&overview.recent))
                p { a href="/incidents" { "All incidents" } }
            }
        }
        @if !overview.notices.is_empty() {
            section aria-labelledby="notices" {
                h2 #notices { "What was said last" }
                ul.notices { @for notice in &overview.notices { (notice_line(notice)) } }
            }
        }
    }
}

/// Returns a server's address, as a link where a browser can follow it.
fn address_link(url: &str) -> Markup {
    let is_web = url.starts_with("http://") || url.starts_with("https://");
    html! {
        @if is_web { a href=(url) target="_blank" rel="noreferrer" { (visible(url)) } }
        @else { code { (visible(url)) } }
    }
}

/// Returns the open incidents of which something holds.
fn repair_cards(
    overview: &ProjectOverview,
    id: &str,
    title: &str,
    is_meant: fn(&IncidentDetails) -> bool,
) -> Markup {
    let meant: Vec<_> = overview.open.iter().filter(|details| is_meant(details)).collect();
    html! {
        @if !meant.is_empty() {
            section aria-labelledby=(id) {
                h2 id=(id) { (title) }
                div.cards { @for details in meant { (repair_card(details)) } }
            }
        }
    }
}

fn headline(mood: ProjectMood) -> &'static str {
    match mood {
        ProjectMood::Asking => "You are needed",
        ProjectMood::Healing => "Healing",
        ProjectMood::Unwell => "Something is not well",
        ProjectMood::Empty => "Nothing is under care yet",
        ProjectMood::Well => "All is well",
    }
}

/// Tells whether an incident of a loop asks a person.
fn is_asked_about(overview: &ProjectOverview, card: &WorkCard) -> bool {
    overview.questions().any(|details| {
        details.story.subject == SubjectKind::Iteration && details.story.repair.server == card.id
    })
}

/// Returns a check or a tool by its last incident.
fn check_card(row: &IncidentRow) -> Markup {
    html! {
        article.card data-item id={ "check-" (row.id.short()) } {
            header {
                (badge(row.state, row.proof))
                span.subject { (row.subject.for_people()) " " b { (visible(&row.name)) } }
            }
            p.dim {
                "Last incident: " a href={ "/incidents/" (row.id.short()) } { "heal-" (row.id.short()) }
                " " (ago(row.opened_at))
            }
        }
    }
}

/// Returns a job or a loop as a card.
pub(super) fn work_card(card: &WorkCard, is_asked: bool) -> Markup {
    let (word, class) = match card.standing {
        WorkStanding::Waits => ("needs you", "bad"),
        _ if is_asked => ("needs you", "bad"),
        WorkStanding::Running if !card.is_driven => ("left alone", "warn"),
        WorkStanding::Running => ("running", "busy"),
        WorkStanding::Paused => ("paused", "warn"),
        WorkStanding::Parked => ("parked", "warn"),
        WorkStanding::Stopped => ("stopped", "warn"),
        WorkStanding::Completed => ("completed", "good"),
        WorkStanding::Failed => ("failed", "bad"),
    };
    let (kind, go_on) = match card.kind {
        WorkKind::Job => ("job", format!("salve resume {}", card.id)),
        WorkKind::Loop => ("loop", format!("salve loop run --id {}", card.id)),
    };
    let is_left = !card.is_driven
        && matches!(
            card.standing,
            WorkStanding::Running | WorkStanding::Waits | WorkStanding::Parked
        );
    html! {
        article.card data-item id={ "work-" (kind) "-" (card.id) } {
            header {
                span class={ "badge " (class) } { (word) }
                span.subject { (kind) " " a href="/jobs" { (visible(&card.id)) } }
                span.dim { (ago(card.since)) }
            }
            p { (visible(&card.task)) }
            p.dim { (visible(&card.progress)) }
            @if let Some(reason) = &card.reason { p.why { (visible(reason.as_str())) } }
            @if is_left { p.dim { "No salve runs it now; go on with " code { (visible(&go_on)) } } }
        }
    }
}

fn notice_line(notice: &NoticeLine) -> Markup {
    html! {
        li {
            span.dim { (clock(notice.at)) }
            a href={ "/incidents/" (notice.incident.short()) } { (visible(&notice.message)) }
            span.dim { (visible(&notice.name)) }
        }
    }
}

fn browser_line(error: &BrowserError) -> Markup {
    html! {
        li {
            span.dim { (clock(error.time)) }
            span {
                span.key-line { (visible(&error.message)) }
                @if error.count > 1 { " (" (error.count) " times)" }
                br;
                span.dim {
                    @if let Some(place) = &error.place { (visible(place)) " · " }
                    "on " (visible(&error.page))
                }
            }
            span.dim { (visible(&error.server)) }
        }
    }
}

fn repair_card(details: &IncidentDetails) -> Markup {
    let repair = &details.story.repair;
    html! {
        article.card data-item id={ "repair-" (repair.repair_id.short()) } {
            header {
                (badge(repair.state, repair.proof))
                a href={ "/incidents/" (repair.repair_id.short()) } { b { (visible(&repair.server)) } }
                span.dim { (ago(repair.started_at)) }
            }
            p.key-line { (visible(&repair.key_line)) }
            p { (visible(&repair.message)) }
            (phase_line(details))
            p.dim { (budget_line(details)) }
        }
    }
}

fn server_card(overview: &ProjectOverview, server: &Server) -> Markup {
    let last = overview.last_incidents.get(&server.server);
    let is_run = overview.run_servers.contains(&server.server);
    let (word, class, health) = match server.state {
        ServerState::Starting => ("starting", "busy", "not found well yet"),
        ServerState::Up => ("up", "good", "found well"),
        ServerState::Stopped => ("stopped", "warn", "not running"),
    };
    let order = |order: &str, label: &str| {
        html! {
            button type="button" data-post={ "/api/servers/" (server.server) "/order" }
                data-body={ "{\"order\":\"" (order) "\"}" } { (label) }
        }
    };
    html! {
        article.card data-item id={ "server-" (server.server) } {
            header {
                span class={ "badge " (class) } { (word) }
                b { (visible(&server.server)) }
                span.dim { (lasting_since(server.since)) }
            }
            p { code { (visible(&server.command)) } }
            p.dim {
                (health)
                @if let Some(pid) = server.pid { " · pid " (pid) }
                @if let Some(exit) = &server.exit { " · " (visible(exit)) }
            }
            @if let Some(url) = server.url.as_ref().filter(|_| server.state != ServerState::Stopped) {
                p { (address_link(url)) }
            }
            @if let Some(last) = last {
                p.dim {
                    "Last incident: " (badge(last.state, last.proof)) " "
                    a href={ "/incidents/" (last.id.short()) } { "heal-" (last.id.short()) } " " (ago(last.opened_at))
                }
            }
            p.actions {
                @match server.state {
                    _ if !is_run => span.dim { "No salve runs it now; start it with " code { "salve dev" } },
                    ServerState::Stopped => (order("start", "Start")),
                    ServerState::Starting | ServerState::Up => {
                        (order("restart", "Restart"))
                        (order("stop", "Stop"))
                    }
                }
                a.button href={ "/logs?server=" (url_encoded(&server.server)) } { "Log" }
            }
        }
    }
}
