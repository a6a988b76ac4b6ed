//! What git ignores of what was done in a layer.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::upper::UpperContent;
use crate::workspace::error::WorkspaceError;
use crate::workspace::git::{Git, pipe};
use crate::workspace::scan::Scanner;
use crate::workspace::tree::Rel;

/// Returns which of the paths that something was done to git ignores by the rules of the real tree.
///
/// A repository inside of the project has rules of its own, and git refuses to answer for it from
/// outside, as it does for what lies behind a link that the layer has replaced.
pub(super) fn ignored_among(
    scanner: &Scanner,
    content: &UpperContent,
) -> Result<BTreeSet<Rel>, WorkspaceError> {
    let mut repositories: BTreeMap<PathBuf, Vec<&Rel>> = BTreeMap::new();
    let mut known = BTreeMap::new();
    for path in content.touched().filter(|path| !scanner.leads_through_link(path)) {
        let repository = repository_of(scanner, Path::new(path), &mut known);
        repositories.entry(repository).or_default().push(path);
    }
    let mut ignored = BTreeSet::new();
    for (repository, paths) in repositories {
        ignored.extend(ignored_in(scanner, &repository, &paths)?);
    }
    Ok(ignored)
}

/// Returns the nearest repository inside of the project that a path is in, or the empty path.
fn repository_of(scanner: &Scanner, path: &Path, known: &mut BTreeMap<PathBuf, bool>) -> PathBuf {
    let mut above = path.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty());
    let found = above.find(|dir| {
        let is_one = || scanner.root.join(dir).join(".git").symlink_metadata().is_ok();
        *known.entry(dir.to_path_buf()).or_insert_with(is_one)
    });
    found.map(Path::to_path_buf).unwrap_or_default()
}

/// Returns which of these paths git ignores in one repository.
fn ignored_in(
    scanner: &Scanner,
    repository: &Path,
    paths: &[&Rel],
) -> Result<Vec<Rel>, WorkspaceError> {
    let is_whole = repository.as_os_str().is_empty();
    let inner = Git::at(&scanner.root.join(repository));
    let git = if is_whole { &scanner.git } else { &inner };
    let below = |path: &Rel| Path::new(path).strip_prefix(repository).map(Path::to_path_buf);
    let asked = git.feed(&["check-ignore", "-z", "--stdin"], |to| {
        let mut each = paths.iter().filter_map(|path| below(path).ok());
        each.try_for_each(|path| {
            to.write_all(path.as_os_str().as_bytes()).and_then(|()| to.write_all(&[0]))
        })
        .map_err(pipe)
    });
    match asked {
        Ok(listed) => {
            let paths = listed.split(|&byte| byte == 0).filter(|path| !path.is_empty());
            let whole = |path: &[u8]| repository.join(OsStr::from_bytes(path)).into_os_string();
            Ok(paths.map(whole).collect())
        }
        // It says so too where it ignores none of them. Where it cannot tell, all count.
        Err(WorkspaceError::Git { .. }) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
