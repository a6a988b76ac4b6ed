//! What the proxy itself says to a client.

use salve_core::event::ProcessExit;
use salve_core::tool::envelope::MessageId;
use salve_core::tool::session::{PossibleEffect, RefusedRequest};
use serde_json::json;

/// The protocol's number for a connection that was closed.
const CONNECTION_CLOSED: i32 = -32_000;

/// Returns the answer to a request that the server did not answer.
///
/// A tool call is answered by a result that is an error, because that is what a model gets to see.
pub(super) fn refusal(request: &RefusedRequest, reason: &str) -> Vec<u8> {
    let effect = match (request.effect, &*request.method) {
        (PossibleEffect::MayHaveActed, _) => {
            " The call may have taken effect and was not repeated: look before you call it again."
        }
        (PossibleEffect::None, "tools/call") => " The call has not taken effect.",
        (PossibleEffect::None, _) => "",
    };
    let text = format!("{reason}{effect}");
    let body = if request.method == "tools/call" {
        let content = json!([{ "type": "text", "text": text }]);
        // The protocol wants the type since 2026-07-28; before, nobody minds it.
        json!({ "content": content, "isError": true, "resultType": "complete" })
    } else {
        json!({ "code": CONNECTION_CLOSED, "message": text })
    };
    let member = if request.method == "tools/call" { "result" } else { "error" };
    let id = request.id.as_json();
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"{member}\":{body}}}\n").into_bytes()
}

/// Returns the word to a client that a request of a dead server needs no answer.
pub(super) fn withdrawal(id: &MessageId) -> Vec<u8> {
    let id = id.as_json();
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\
         \"params\":{{\"requestId\":{id},\"reason\":\"the server was started again\"}}}}\n"
    )
    .into_bytes()
}

/// Returns the word to a server that a call has run out of time.
pub(super) fn out_of_time(id: &MessageId) -> Vec<u8> {
    let id = id.as_json();
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\
         \"params\":{{\"requestId\":{id},\"reason\":\"it took longer than the settings allow\"}}}}\n"
    )
    .into_bytes()
}

/// Returns the word to a client that it should read a list again.
pub(super) fn list_changed(list: &str) -> Vec<u8> {
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/{list}/list_changed\"}}\n")
        .into_bytes()
}

/// Returns a question that every server has to answer at once.
pub(super) fn ping(id: &MessageId) -> Vec<u8> {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}}\n", id.as_json()).into_bytes()
}

/// Says how a process ended.
pub(super) fn ended(exit: &ProcessExit) -> String {
    match exit {
        ProcessExit::Code(code) => format!("ended with exit code {code}"),
        ProcessExit::Signal(signal) => format!("was ended by signal {signal}"),
        ProcessExit::TimedOut => "ran out of time".to_owned(),
        ProcessExit::Hung => "hung and was ended".to_owned(),
    }
}
