//! The sandbox with real commands.

use super::*;

/// Returns the sandbox of the default settings.
pub(crate) fn usual() -> Sandbox {
    let settings = crate::config::defaults().unwrap().value.to_json();
    let recovery = settings["recovery"]["sandbox"].clone();
    Sandbox::new(&serde_json::from_value(recovery).unwrap())
}
