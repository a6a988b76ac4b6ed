//! Keeps what runs in a shadow from writing to the real tree.
//!
//! The kernel's rules only allow. So that everything but one directory may be written to, all that
//! lies beside the way to it is allowed, and then what may be written inside.

use std::fs;
use std::path::{Path, PathBuf};

use landlock::RulesetError;

use crate::sandbox::Writes;

/// Whether the kernel enforces a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confined {
    /// It does.
    Yes,
    /// It cannot; nothing but good manners keeps the rule.
    No,
}

/// Takes from this thread, and from all it starts from now on, the right to write below `shut`;
/// what is `open` may be written wherever it lies.
pub(super) fn confine_writes(shut: &Path, open: &Path) -> Result<Confined, RulesetError> {
    let open = Writes::default().allow(open);
    let is_enforced = beside(shut).into_iter().fold(open, Writes::allow).restrict()?;
    Ok(if is_enforced { Confined::Yes } else { Confined::No })
}

/// Returns all that lies beside the way from the root of the file system to `path`.
fn beside(path: &Path) -> Vec<PathBuf> {
    let mut places = Vec::new();
    for step in path.ancestors() {
        let Some(above) = step.parent() else { break };
        let entries = fs::read_dir(above).into_iter().flatten().flatten();
        let others = entries.map(|entry| entry.path()).filter(|other| other != step);
        // A link leads to where its target stands.
        places.extend(others.filter(|other| !other.is_symlink()));
    }
    places
}
