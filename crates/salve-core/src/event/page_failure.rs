//! What a page in somebody's browser reports about itself.

use serde::{Deserialize, Serialize};

use crate::scrub::Scrubbed;

/// A failure that a page of a server saw in the browser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageFailure {
    /// The server whose page it is.
    pub server: Scrubbed,
    /// How it failed.
    pub way: PageFailureWay,
    /// What the browser said.
    pub message: Scrubbed,
    /// The script's file, line and column, or the address that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Scrubbed>,
    /// The page's own path.
    pub page: Scrubbed,
}

/// How a page fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PageFailureWay {
    /// An error that no code caught.
    Uncaught,
    /// A promise that was rejected, which no code took note of.
    Rejection,
    /// A request that got no answer, or a 5xx.
    Request,
    /// A script, style or image that could not be loaded.
    Resource,
}
