//! What a dev server says about itself: where it listens, and whether it is well.
//!
//! Everything here is pure: output, kernel tables and answers come in as values.

pub mod awaited;
pub mod debugging;
pub mod edits;
pub mod finder;
pub mod health;
pub mod installing;
pub mod port;
pub mod reload;
pub mod socket;
pub mod url;

pub use awaited::{AwaitedThing, awaited_things};
pub use debugging::{debugger_ports, may_be_debugged};
pub use edits::{is_edit, is_watched_dir};
pub use finder::UrlFinder;
pub use health::{Expect, Fault, StatusRange};
pub use installing::installs_packages;
pub use port::{PortMove, PortedCommand, with_port};
pub use reload::self_reload;
pub use url::LocalUrl;
