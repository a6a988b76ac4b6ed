//! `/mcp` of `salve serve`: agents use the repair tools by the page's own tokens.

use serde_json::{Value, json};

use crate::support::Project;
use crate::web::{Answer, Page, token};

/// Sends a message of the protocol, in a session if there is one.
fn send(page: &Page, path: &str, token: &str, session: Option<&str>, message: &Value) -> Answer {
    let (host, body) = (&page.host, message.to_string());
    let session = session.map_or(String::new(), |id| format!("mcp-session-id: {id}\r\n"));
    let length = body.len();
    page.raw(
        format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\naccept: \
             application/json, text/event-stream\r\ncontent-type: application/json\r\n\
             authorization: Bearer {token}\r\n{session}content-length: {length}\r\n\r\n{body}"
        )
        .as_bytes(),
    )
}

fn greeting() -> Value {
    json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": { "protocolVersion": "2025-06-18", "capabilities": {},
                    "clientInfo": { "name": "test", "version": "1" } },
    })
}

/// Calls one tool in a session of its own and returns what was answered.
pub(crate) fn call_tool(page: &Page, token: &str, name: &str, arguments: &Value) -> String {
    let opened = send(page, "/mcp", token, None, &greeting());
    let session = opened.head.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
    let session = session.unwrap().to_owned();
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(send(page, "/mcp", token, Some(&session), &ready).status, 202);
    let call = json!({
        "jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": { "name": name, "arguments": arguments },
    });
    send(page, "/mcp", token, Some(&session), &call).body
}

#[test]
fn an_agent_uses_the_tools_by_its_token_and_a_viewer_does_not() {
    let project = Project::new();
    let page = Page::of(&project);
    let agent = token(&project, "agent");
    let opened = send(&page, "/mcp", &agent, None, &greeting());
    assert_eq!(opened.status, 200, "{opened:?}");
    assert!(opened.body.contains("canvas_get_repair_task"), "{opened:?}");
    let session = opened.head.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
    let session = session.unwrap().to_owned();
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(send(&page, "/mcp", &agent, Some(&session), &ready).status, 202);
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" });
    let listed = send(&page, "/mcp", &agent, Some(&session), &list);
    for tool in ["canvas_get_repair_task", "heal_report_issue", "check_known_issues"] {
        assert!(listed.body.contains(tool), "{tool}: {listed:?}");
    }
    let call = json!({
        "jsonrpc": "2.0", "id": 3, "method": "tools/call",
        "params": { "name": "canvas_get_repair_task", "arguments": {} },
    });
    let called = send(&page, "/mcp", &agent, Some(&session), &call);
    assert!(called.body.contains("pending"), "{called:?}");
    // Whoever may only look, and whoever shows nothing, reaches no tool.
    let viewer = token(&project, "viewer");
    assert_eq!(send(&page, "/mcp", &viewer, None, &greeting()).status, 403);
    assert_eq!(send(&page, "/mcp", &viewer, Some(&session), &list).status, 403);
    assert_eq!(send(&page, "/mcp", "nothing", None, &greeting()).status, 401);
    assert_eq!(send(&page, "/mcp/no-such-project", &agent, None, &greeting()).status, 404);
    let large = json!({ "jsonrpc": "2.0", "id": 4, "method": "x".repeat(70_000) });
    assert_eq!(send(&page, "/mcp", &agent, Some(&session), &large).status, 413);
    // The client ends its session; nobody else's method of that kind is taken.
    let host = &page.host;
    let end = |path: &str| {
        let head = format!(
            "DELETE {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\nauthorization: \
             Bearer {agent}\r\nmcp-session-id: {session}\r\n\r\n"
        );
        page.raw(head.as_bytes()).status
    };
    assert_eq!(end("/api/status"), 405);
    assert!((200..300).contains(&end("/mcp")));
    assert_eq!(send(&page, "/mcp", &agent, Some(&session), &list).status, 404);
}
