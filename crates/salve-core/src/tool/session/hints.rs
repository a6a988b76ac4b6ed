//! What a server says about itself and its tools.

use serde::Deserialize;

/// What a server says about one of its tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolHints {
    /// It changes nothing.
    pub is_read_only: bool,
    /// Calling it twice with the same arguments does no more than calling it once.
    pub is_idempotent: bool,
}

/// Returns what an answer to `tools/list` says about each tool.
pub(super) fn hints_of(line: &[u8]) -> Vec<(String, ToolHints)> {
    #[derive(Deserialize)]
    struct Listed {
        result: Tools,
    }
    #[derive(Deserialize)]
    struct Tools {
        tools: Vec<ListedTool>,
    }
    #[derive(Deserialize)]
    struct ListedTool {
        name: String,
        annotations: Option<Annotations>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Annotations {
        read_only_hint: Option<bool>,
        idempotent_hint: Option<bool>,
    }
    let listed = serde_json::from_slice::<Listed>(line).map(|listed| listed.result.tools);
    let hints = |tool: ListedTool| {
        let said = |hint: fn(&Annotations) -> Option<bool>| {
            tool.annotations.as_ref().and_then(hint).unwrap_or_default()
        };
        let hints = ToolHints {
            is_read_only: said(|annotations| annotations.read_only_hint),
            is_idempotent: said(|annotations| annotations.idempotent_hint),
        };
        (tool.name, hints)
    };
    listed.unwrap_or_default().into_iter().map(hints).collect()
}

/// Returns which lists the server has whose answer to `initialize` this is.
pub(super) fn lists_of(line: &[u8]) -> Vec<&'static str> {
    #[derive(Deserialize)]
    struct InitializeAnswer {
        result: Initialized,
    }
    #[derive(Deserialize)]
    struct Initialized {
        #[serde(default)]
        capabilities: serde_json::Map<String, serde_json::Value>,
    }
    let Ok(answered) = serde_json::from_slice::<InitializeAnswer>(line) else { return Vec::new() };
    let capabilities = answered.result.capabilities;
    ["tools", "resources", "prompts"]
        .into_iter()
        .filter(|list| capabilities.contains_key(*list))
        .collect()
}
