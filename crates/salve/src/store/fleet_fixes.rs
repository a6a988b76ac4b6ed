//! What the machines of a fleet tell one another about remedies, as an interface.

use std::fmt::Debug;

use super::StoreError;

/// The messages of a fleet about remedies, in their order.
pub trait FleetFixes: Debug {
    /// Keeps a message, signed with the key in the credentials where there is one; it replaces what
    /// is at its place.
    fn tell_fix(&self, place: &str, body: &str) -> Result<(), StoreError>;

    /// Returns the messages behind a place in their order, as an earlier portion said it.
    fn fixes_after(&self, after: Option<&str>) -> Result<FixPortion, StoreError>;

    /// Tells whether there is a key by which the user's own messages are known.
    fn has_key(&self) -> bool;
}

/// Some messages, and where those begin that come later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixPortion {
    pub messages: Vec<FixMessage>,
    /// What [`FleetFixes::fixes_after`] is told next time.
    pub next: String,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FixMessage {
    /// Somebody said this.
    Said(SaidFix),
    /// It makes no sense, or its seal does not hold.
    Garbage,
}

/// What somebody said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaidFix {
    pub body: String,
    pub author: FixAuthor,
}

/// Whose word a message is, as far as that is proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FixAuthor {
    /// It is signed with our own key.
    Me,
    /// It is signed with this key.
    Key(String),
    /// It is not signed: whoever may write to the fleet may have said it.
    Unknown,
}
