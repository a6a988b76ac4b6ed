//! How a client began its session and what it set since, so that a server that starts over can be
//! told the same.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use super::{MessageLine, hints};
use crate::tool::envelope::MessageId;

/// A request of the client's, and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GreetingRequest {
    pub id: MessageId,
    pub line: MessageLine,
}

/// How the client greeted its server, to be repeated to the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientGreeting {
    initialize: Option<GreetingRequest>,
    initialized: Option<MessageLine>,
    /// What the client set or subscribed to since, by what the next of its kind replaces.
    settings: BTreeMap<String, GreetingRequest>,
    is_answered: bool,
    /// Which lists the server has, by their names in the protocol.
    lists: Vec<&'static str>,
}

impl ClientGreeting {
    /// Takes in a request of the client's.
    pub fn asked(&mut self, id: &MessageId, method: &str, line: &MessageLine) {
        let kept = || GreetingRequest { id: id.clone(), line: Arc::clone(line) };
        match method {
            "initialize" => *self = Self { initialize: Some(kept()), ..Self::default() },
            "logging/setLevel" => {
                self.settings.insert(method.to_owned(), kept());
            }
            "resources/subscribe" => {
                if let Some(uri) = resource_of(line) {
                    self.settings.insert(format!("resource {uri}"), kept());
                }
            }
            "resources/unsubscribe" => {
                if let Some(uri) = resource_of(line) {
                    self.settings.remove(&format!("resource {uri}"));
                }
            }
            _ => {}
        }
    }

    /// Takes in the client's word that it has read the server's answer.
    pub fn initialized(&mut self, line: Option<&[u8]>) {
        self.initialized = line.map(Arc::from);
    }

    /// Takes in the server's answer to `initialize`; `line` is missing where it was too long to keep.
    pub fn answered(&mut self, line: Option<&[u8]>) {
        self.is_answered = true;
        self.lists = line.map(hints::lists_of).unwrap_or_default();
    }

    /// Returns how the client began, if the server has answered that.
    pub fn beginning(&self) -> Option<&GreetingRequest> {
        self.initialize.as_ref().filter(|_| self.is_answered)
    }

    /// Returns the client's word that it has read the server's answer.
    pub fn read_word(&self) -> Option<&MessageLine> {
        self.initialized.as_ref()
    }

    /// Returns what the client set and has not taken back.
    pub fn settings(&self) -> impl Iterator<Item = &GreetingRequest> {
        self.settings.values()
    }

    /// Returns which lists of the server the client should read again, as the protocol names them.
    pub fn lists(&self) -> &[&'static str] {
        &self.lists
    }
}

/// Returns which resource a request is about.
fn resource_of(line: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Subscription<'a> {
        #[serde(borrow)]
        params: Resource<'a>,
    }
    #[derive(Deserialize)]
    struct Resource<'a> {
        #[serde(borrow)]
        uri: Cow<'a, str>,
    }
    let asked = serde_json::from_slice::<Subscription<'_>>(line).ok()?;
    Some(asked.params.uri.into_owned())
}
