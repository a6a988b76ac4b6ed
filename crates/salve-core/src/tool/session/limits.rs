//! How long calls may take, where the settings say so. A progress report restarts the clock of its call.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{ProxySession, RefusedRequest, WaitingRequest, called_tool};
use crate::tool::envelope::MessageId;
use crate::tool::rule::ToolPattern;

/// How long calls of some tools may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolTimeLimit {
    pub tools: ToolPattern,
    /// How long, in milliseconds.
    pub limit_ms: u64,
}

impl ProxySession {
    /// Takes in how long calls may take.
    pub fn limit(&mut self, limits: Vec<ToolTimeLimit>) {
        self.limits = limits;
    }

    /// Returns the shortest time that a call may take.
    pub fn shortest_limit(&self) -> Option<u64> {
        self.limits.iter().map(|limit| limit.limit_ms).min()
    }

    /// Takes in a word of the server's on how far a request is.
    pub fn progressed(&mut self, line: &[u8], now_ms: u64) {
        #[derive(Deserialize)]
        struct ToldProgress<'a> {
            #[serde(borrow)]
            params: ToldProgressParams<'a>,
        }
        #[derive(Deserialize)]
        struct ToldProgressParams<'a> {
            #[serde(rename = "progressToken", borrow)]
            token: &'a RawValue,
        }
        if self.limits.is_empty() {
            return;
        }
        let Ok(progress) = serde_json::from_slice::<ToldProgress<'_>>(line) else { return };
        let token = progress.params.token.get();
        let asked = self.waiting.values_mut();
        for request in asked.filter(|request| token_of(request).as_deref() == Some(token)) {
            request.since_ms = now_ms;
        }
    }

    /// Gives up on calls that have taken longer than they may; a later answer is dropped.
    pub fn take_overdue(&mut self, now_ms: u64) -> Vec<RefusedRequest> {
        let is_overdue = |request: &WaitingRequest| {
            let tool = request.line.as_deref().filter(|_| request.method == "tools/call");
            let Some(tool) = tool.and_then(called_tool) else { return false };
            let mut limits = self.limits.iter().filter(|limit| limit.tools.matches(&tool));
            let took = now_ms.saturating_sub(request.since_ms);
            request.is_delivered && limits.any(|limit| took >= limit.limit_ms)
        };
        let mut overdue: Vec<&WaitingRequest> = if self.limits.is_empty() {
            Vec::new()
        } else {
            self.waiting.values().filter(|request| is_overdue(request)).collect()
        };
        overdue.sort_unstable_by_key(|request| request.order);
        let ids: Vec<MessageId> = overdue.into_iter().map(|request| request.id.clone()).collect();
        ids.iter().filter_map(|id| self.take_over(id)).collect()
    }
}

/// Returns under which token the client wants to hear of a request's progress, as JSON.
fn token_of(request: &WaitingRequest) -> Option<String> {
    #[derive(Deserialize)]
    struct TokenRequest<'a> {
        #[serde(borrow)]
        params: TokenRequestParams<'a>,
    }
    #[derive(Deserialize)]
    struct TokenRequestParams<'a> {
        #[serde(rename = "_meta", borrow)]
        meta: TokenRequestMeta<'a>,
    }
    #[derive(Deserialize)]
    struct TokenRequestMeta<'a> {
        #[serde(rename = "progressToken", borrow)]
        token: &'a RawValue,
    }
    let asked: TokenRequest<'_> = serde_json::from_slice(request.line.as_deref()?).ok()?;
    Some(asked.params.meta.token.get().to_owned())
}
