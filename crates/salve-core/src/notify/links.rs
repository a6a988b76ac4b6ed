//! Where a notice leads.

use crate::id::IncidentId;

/// The links that go into a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoticeLinks {
    /// The incident's page.
    pub page: Option<String>,
    /// Where this one question is answered, once.
    pub answer: Option<String>,
}

/// Where the page can be reached by those who are told: scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicAddress {
    scheme: &'static str,
    authority: String,
}

/// That a text is no address of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected https://HOST or http://HOST, with a port if it needs one, and nothing behind it")]
pub struct BadPublicAddress;

impl PublicAddress {
    /// Returns the address as browsers name an origin.
    pub fn origin(&self) -> String {
        format!("{}://{}", self.scheme, self.authority)
    }

    /// Returns what browsers send as `Host`.
    pub fn host(&self) -> &str {
        &self.authority
    }

    /// Tells whether others than this machine can reach it.
    pub fn is_beyond_this_machine(&self) -> bool {
        let host = match self.authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
            _ => &self.authority,
        };
        !(host == "localhost" || host == "[::1]" || host.starts_with("127."))
    }

    /// Returns the address of an incident's page.
    pub fn incident(&self, id: IncidentId) -> String {
        format!("{}/incidents/{}", self.origin(), id.short())
    }

    /// Returns the address at which a code answers its question; the code stays in the browser.
    pub fn answer(&self, code: &str) -> String {
        format!("{}/answer#{code}", self.origin())
    }
}

impl std::str::FromStr for PublicAddress {
    type Err = BadPublicAddress;

    fn from_str(text: &str) -> Result<Self, BadPublicAddress> {
        let (scheme, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => ("https", rest),
            (None, Some(rest)) => ("http", rest),
            (None, None) => return Err(BadPublicAddress),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest).to_ascii_lowercase();
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-.:[]_".contains(c);
        if authority.is_empty() || !authority.chars().all(is_name) {
            return Err(BadPublicAddress);
        }
        Ok(Self { scheme, authority })
    }
}
