//! Tools in Rust that heal their own calls.
//!
//! A tool fails because the VPN is down or a token has expired. [`macro@auto_heal`] recognises that,
//! does what the settings say about it, once for all calls that wait for it, and calls the function
//! again:
//!
//! ```
//! use salve_auto_heal::{AutoHeal, auto_heal};
//! # use std::sync::atomic::{AtomicBool, Ordering};
//! # static IN: AtomicBool = AtomicBool::new(false);
//!
//! #[auto_heal(cluster = "stage", max_retries = 1)]
//! async fn list_pods(namespace: String) -> Result<String, std::io::Error> {
//! #   if !IN.load(Ordering::SeqCst) { return Err(std::io::Error::other("401 Unauthorized")); }
//!     Ok(format!("the pods of {namespace}"))
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let fixes = tempfile::tempdir()?;
//! AutoHeal::new()
//! #   .fixes_in(fixes.path())
//!     .function("kube_login", |arguments| {
//!         assert_eq!(arguments["cluster"], "stage");
//! #       IN.store(true, Ordering::SeqCst);
//!         Ok(())
//!     })
//!     .install()?;
//! # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
//! # assert_eq!(runtime.block_on(list_pods("web".into()))?, "the pods of web");
//! # Ok(()) }
//! ```
//!
//! A program that installs nothing goes by the section `auto_heal` of the user's own settings,
//! `~/.config/salve/config.toml`: `vpn_script`, `clusters` and `rules`.
//!
//! What is a failure, what helps and whether the call may be made again is decided by the same
//! rules as in `salve proxy` and `salve call`: a call that may have acted is not repeated unless the
//! tool says `read_only` or `idempotent`, and *prod* is never guessed. Write the attribute above
//! `#[tool]`. Arguments are cloned for each call.

mod call;
mod command;
mod flight;
mod healer;
mod outcome;

pub use flight::{Flight, FlightOutcome, WantedFix};
pub use healer::{AlreadyInstalled, AutoHeal, HealNote, SettingsError};
pub use outcome::HealedResult;
#[cfg(feature = "macros")]
pub use salve_auto_heal_macros::{
    auto_heal, auto_heal_ephemeral, auto_heal_konflux, auto_heal_stage,
};

/// What the attributes write; not for use by hand.
#[doc(hidden)]
pub mod __private {
    pub use crate::call::{HealedCall, healed_tool};
    pub use crate::outcome::{Look, LookAtAnswer, LookAtError};
}
