//! What is sealed in a tree beyond the names that say so.
//!
//! A [`SealedPath`] is known by its name. But a name may be a link, a directory on the way to it may be
//! one, and git runs programs from wherever its settings say. [`find`] looks for the sealed places of a
//! tree, and [`SealedReach`] follows each of them, part by part, as the kernel would: what lies on the
//! way and what it leads to is sealed as well.
//!
//! **Invariant:** a change that leaves out what a reach holds leaves everything that can be read
//! through a sealed place as it was.

mod find;
mod git_places;
mod reach;
#[cfg(test)]
mod tests;
mod view;

use std::path::Path;

use salve_core::sealed_path::SealedPath;

pub use find::{SealedPlace, SealedPlaces, find};
pub use git_places::is_part_of_bare;
pub use reach::SealedReach;
pub use view::{FilesView, TreeEntry, TreeView};

/// How deep sealed places are looked for in a project, and in how many directories.
pub const DEEPEST: usize = 6;
/// In how many directories they are looked for.
pub const MOST_DIRECTORIES: usize = 20_000;

/// Directories of packages and of build output, in which nobody's settings are looked for.
const DERIVED: [&str; 6] = ["node_modules", ".venv", "venv", "target", "dist", ".salve"];

/// Follows every sealed place of the files below `root`, and every place where git finds programs.
pub fn reach_of_files(root: &Path) -> SealedReach {
    let Ok(root) = root.canonicalize() else { return SealedReach::default() };
    let places = find(&root, &FilesView);
    SealedReach::of(&root, &places, &FilesView)
}

/// Returns whose a path is that is sealed with all below it.
fn whole(path: &Path) -> Option<SealedPath> {
    SealedPath::of(path.join("any").as_os_str().as_encoded_bytes())
}
