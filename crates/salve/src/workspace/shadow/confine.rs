//! Keeps what runs in a shadow from writing to the real tree.
//!
//! The kernel's rules only allow. So that everything but one directory may be written to, all that
//! lies beside the way to it is allowed, and then what may be written inside.

use std::fs;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    RulesetStatus,
};

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
pub(super) fn confine(shut: &Path, open: &Path) -> Result<Confined, RulesetError> {
    let writes = AccessFs::from_write(ABI::V5);
    let mut rules = Ruleset::default().handle_access(writes)?.create()?;
    for place in beside(shut).into_iter().chain([open.to_path_buf()]) {
        // What went away meanwhile cannot be written to either.
        let Ok(fd) = PathFd::new(&place) else { continue };
        let access = if place.is_dir() { writes } else { writes & AccessFs::from_file(ABI::V5) };
        rules = rules.add_rule(PathBeneath::new(fd, access))?;
    }
    let status = rules.restrict_self()?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Confined::Yes,
        RulesetStatus::NotEnforced => Confined::No,
    })
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
