//! Mistakes in calling tools: found in failures, learned, and warned about before the next call.
//!
//! [`category`] says what kind of mistake an error speaks of, [`extract`] which part of the call is
//! the mistake, [`session`] learns from the calls of one session and follows up each warning, and
//! [`index`] finds the patterns that a call fits before it is made.
//!
//! **Invariant:** a failure of network, credentials or machine is never learned as a mistake.

pub mod category;
pub mod extract;
pub mod form;
pub mod index;
pub mod mistake;
pub mod session;

#[cfg(test)]
mod tests;
