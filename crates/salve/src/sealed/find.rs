//! Where in a tree sealed places are.

use std::path::{Path, PathBuf};

use salve_core::sealed_path::SealedPath;

use super::view::{TreeEntry, TreeView};
use super::{DEEPEST, DERIVED, MOST_DIRECTORIES, git_places, whole};

/// Files in an editor's directory that name commands; [`SealedPath`] knows them by both names.
const EDITORS: &str = ".vscode";
const EDITORS_FILES: [&str; 4] = ["mcp.json", "tasks.json", "launch.json", "settings.json"];

/// Of how many repositories the settings are read.
const MOST_REPOSITORIES: usize = 100;

/// A sealed place of a tree, by its absolute path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SealedPlace {
    /// Where it is.
    pub path: PathBuf,
    /// Whether what lies in it, if it is a directory, is looked at for links.
    pub inside: LinksInside,
}

/// Whether what lies in a sealed directory may lead on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinksInside {
    /// Links in it lead on.
    LeadsOn,
    /// A repository or Salve's own directory, in which nobody follows links by name.
    Closed,
}

/// The sealed places of a tree, as far as is looked.
#[derive(Clone, Debug, Default)]
pub struct SealedPlaces {
    /// Those that are sealed by their names.
    pub named: Vec<SealedPlace>,
    /// Those where git finds programs, whatever their names.
    pub gits: Vec<SealedPlace>,
}

/// Looks for sealed places in the tree below `root`, six directories deep and in at most 20,000 of
/// them, and for what the repositories among them run.
pub fn find(root: &Path, view: &impl TreeView) -> SealedPlaces {
    let (mut places, mut looked) = (SealedPlaces::default(), 0);
    let mut open = vec![(root.to_path_buf(), 0)];
    let mut repositories = Vec::new();
    while let Some((dir, depth)) = open.pop() {
        looked += 1;
        if looked > MOST_DIRECTORIES {
            break;
        }
        let entries = view.names(&dir);
        places.gits.extend(git_places::of_bare(&dir, &entries).into_iter().map(closed));
        for (name, kind) in entries {
            let path = dir.join(&name);
            let below = path.strip_prefix(root).unwrap_or(&path);
            let is_dir = kind == TreeEntry::Directory;
            match (whole(below), SealedPath::of(below.as_os_str().as_encoded_bytes())) {
                (Some(whose), _) => {
                    let is_git = name.eq_ignore_ascii_case(".git");
                    if is_git {
                        repositories.push((dir.clone(), path.clone()));
                    }
                    let is_closed = is_git || whose == SealedPath::Salve;
                    let inside = if is_closed { LinksInside::Closed } else { LinksInside::LeadsOn };
                    places.named.push(SealedPlace { path, inside });
                }
                (None, Some(_)) if name.eq_ignore_ascii_case(EDITORS) => {
                    let all = EDITORS_FILES.map(|file| leading(path.join(file)));
                    places.named.extend(all);
                }
                (None, Some(_)) if !is_dir => places.named.push(leading(path)),
                (None, _) => {
                    let is_derived = DERIVED.iter().any(|other| name == *other);
                    if is_dir && depth < DEEPEST && !is_derived {
                        open.push((path, depth + 1));
                    }
                }
            }
        }
    }
    let hooks = repositories.first().map_or_else(Vec::new, |(top, _)| git_places::users_hooks(top));
    for (top, dot_git) in repositories.into_iter().take(MOST_REPOSITORIES) {
        places.gits.extend(git_places::of_repository(&top, &dot_git, view));
        places.gits.extend(hooks.iter().flat_map(|dir| git_places::hooks(&top, dir)));
    }
    places
}

/// Makes a place in which links lead on.
pub(super) fn leading(path: PathBuf) -> SealedPlace {
    SealedPlace { path, inside: LinksInside::LeadsOn }
}

/// Makes a place in which they do not.
pub(super) fn closed(path: PathBuf) -> SealedPlace {
    SealedPlace { path, inside: LinksInside::Closed }
}
