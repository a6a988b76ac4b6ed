//! What a dev server says about itself: where it listens, and whether it is well.
//!
//! Everything here is pure: output, kernel tables and answers come in as values.

pub mod finder;
pub mod health;
pub mod socket;
pub mod url;

pub use finder::UrlFinder;
pub use health::{Expect, Fault, StatusRange};
pub use url::LocalUrl;
