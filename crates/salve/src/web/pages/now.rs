//! Everything at a glance: servers, what is being healed, what was said last.

use maud::{Markup, html};
use salve_core::repair::{BrowserError, Server, ServerState};

use super::parts::{
    ago, badge, budget_line, clock, incident_rows, lasting_since, nothing, phase_line,
};
use crate::web::views::{IncidentDetails, IncidentRow, NoticeLine, ProjectOverview};
use crate::web::visible::visible;

/// Returns the section.
pub(super) fn page(overview: &ProjectOverview) -> Markup {
    let waiting = overview.questions().count();
    let healing: Vec<_> = overview.open.iter().filter(|details| is_being_healed(details)).collect();
    html! {
        h1 { (headline(waiting, healing.len())) }
        p.dim { (visible(&overview.root)) }
        @if waiting > 0 {
            p { a.call href="/needs-you" {
                (waiting) @if waiting == 1 { " incident waits for you" } @else { " incidents wait for you" }
            } }
        }
        @if !healing.is_empty() {
            section aria-labelledby="healing" {
                h2 #healing { "Being healed" }
                div.cards { @for details in healing { (repair_card(details)) } }
            }
        }
        section aria-labelledby="servers" {
            h2 #servers { "Servers" }
            @if overview.servers.is_empty() {
                (nothing("No server has been started here yet.", Some("salve dev -- npm run dev")))
            } @else {
                div.cards { @for server in &overview.servers {
                    (server_card(server, overview.last_incidents.get(&server.server)))
                } }
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

/// Tells whether something is still done about an incident, or to be done by itself.
fn is_being_healed(details: &IncidentDetails) -> bool {
    details.question.is_none() && !details.story.repair.state.is_over()
}

fn headline(waiting: usize, healing: usize) -> &'static str {
    match (waiting, healing) {
        (0, 0) => "All is well",
        (0, _) => "Healing",
        (_, _) => "You are needed",
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

fn server_card(server: &Server, last: Option<&IncidentRow>) -> Markup {
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
                    ServerState::Stopped => (order("start", "Start")),
                    ServerState::Starting | ServerState::Up => {
                        (order("restart", "Restart"))
                        (order("stop", "Stop"))
                    }
                }
            }
        }
    }
}
