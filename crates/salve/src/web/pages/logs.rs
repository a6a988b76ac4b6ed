//! What servers wrote: searched, followed, and with the failures marked.

use maud::{Markup, html};

use super::parts::nothing;
use crate::web::ansi;
use crate::web::views::{LogLines, LogQuery, LogView, LogViewLine};
use crate::web::visible::visible;

/// Returns the section.
pub(super) fn page(query: &LogQuery, view: &LogView) -> Markup {
    let failures = view.lines.iter().filter(|line| line.is_failure).count();
    html! {
        h1 { "Logs" }
        @if view.servers.is_empty() {
            (nothing("No server has written anything here.", Some("salve dev -- npm run dev")))
        } @else {
            form.filter data-navigate="/logs" role="search" {
                label { span.sr { "Search" } input type="search" name="q" value=(query.text) placeholder="Only lines with …" data-search; }
                label { span.sr { "Server" } select name="server" {
                    @for name in &view.servers { option value=(name) selected[view.server.as_ref() == Some(name)] { (name) } }
                } }
                label { span.sr { "Lines" } select name="show" {
                    option value="" selected[query.lines == LogLines::All] { "All lines" }
                    option value="failures" selected[query.lines == LogLines::Failures] { "Failures only" }
                } }
                button { "Show" }
            }
            @if let Some(server) = &view.server {
                p.actions.log-actions {
                    label.check { input type="checkbox" id="follow" checked data-follow="log"; " Follow" }
                    button type="button" data-last=".failure" disabled[failures == 0] { "Jump to the last error" }
                    span.dim { (visible(&view.path)) ", " (view.lines.len()) " lines, " (failures) " of them errors" @if view.is_cut { "; earlier ones are in the file" } }
                }
                @if view.lines.is_empty() {
                    (nothing("No line fits.", None))
                } @else {
                    pre.log.whole id="log" tabindex="0" role="region" aria-label={ "log of " (server) } { @for line in &view.lines { (log_line(line)) } }
                }
            } @else { (nothing("There is no such log.", None)) }
        }
    }
}

fn log_line(line: &LogViewLine) -> Markup {
    html! {
        span id={ "b" (line.offset) } class=[line.is_failure.then_some("failure")] { (ansi::line(&line.text)) "\n" }
    }
}
