//! The Node packages that were installed when a server was found well, and those that are gone.
//!
//! A server that has loaded what it needs goes on answering when its packages are deleted, and
//! fails one request later. Only what was there and is still declared can be gone, so nothing is
//! said of a project that never was installed, or no longer wants a package.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::files::{FileKind, read_bytes};

/// Packages that were there.
#[derive(Clone, Debug)]
pub(super) struct InstalledPackages {
    manifest: PathBuf,
    /// Each by its name, with the `node_modules` that it is in.
    there: Vec<(String, PathBuf)>,
}

impl InstalledPackages {
    /// Looks at what is installed for a server that runs in `dir`, within `root`.
    pub(super) fn look(dir: &Path, root: &Path) -> Option<Self> {
        let inside: Vec<&Path> = dir.ancestors().take_while(|dir| dir.starts_with(root)).collect();
        let manifest = inside.iter().map(|dir| dir.join("package.json")).find(|f| f.is_file())?;
        let place = |name: String| {
            let places = inside.iter().map(|dir| dir.join("node_modules"));
            let found = places.into_iter().find(|modules| modules.join(&name).is_dir());
            found.map(|modules| (name, modules))
        };
        let there: Vec<_> = declared(&manifest).into_iter().filter_map(place).collect();
        (!there.is_empty()).then_some(Self { manifest, there })
    }

    /// Returns which packages are gone, as programs say it of the first.
    pub(super) fn gone(&self) -> Option<String> {
        let is_gone = |(name, modules): &&(String, PathBuf)| !modules.join(name).is_dir();
        self.there.iter().find(is_gone)?;
        let wanted = declared(&self.manifest);
        let gone = self.there.iter().filter(is_gone).filter(|(name, _)| wanted.contains(name));
        let (name, modules) = gone.clone().next()?;
        let what = match gone.count() - 1 {
            _ if !modules.is_dir() => "node_modules is gone".to_owned(),
            0 => format!("node_modules/{name} is gone"),
            more => format!("node_modules/{name} and {more} more are gone"),
        };
        Some(format!("Error: Cannot find package '{name}': {what}"))
    }
}

/// Returns the packages that a manifest declares, those first that a server needs to run.
fn declared(manifest: &Path) -> Vec<String> {
    let bytes = read_bytes(manifest, FileKind::Bulk).unwrap_or_default();
    let manifest: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let groups = ["dependencies", "devDependencies"].into_iter();
    let names = groups.filter_map(|group| manifest.get(group)?.as_object());
    names.flat_map(|group| group.keys().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_what_was_there_and_is_still_wanted_can_be_gone() {
        let dir = tempfile::tempdir().unwrap();
        let (root, web) = (dir.path(), dir.path().join("apps/web"));
        let manifest = |text: &str| fs::write(web.join("package.json"), text).unwrap();
        // One beside the server, one at the workspace's root, one that was never installed.
        for place in ["node_modules/react", "apps/web/node_modules/@acme/ui"] {
            fs::create_dir_all(root.join(place)).unwrap();
        }
        manifest(r#"{"dependencies":{"react":"1","left":"1"},"devDependencies":{"@acme/ui":"1"}}"#);
        let seen = InstalledPackages::look(&web, root).unwrap();
        assert_eq!(seen.gone(), None);
        fs::remove_dir(root.join("apps/web/node_modules/@acme/ui")).unwrap();
        let told = "Error: Cannot find package '@acme/ui': node_modules/@acme/ui is gone";
        assert_eq!(seen.gone().as_deref(), Some(told));
        fs::remove_dir_all(root.join("node_modules")).unwrap();
        let told = "Error: Cannot find package 'react': node_modules is gone";
        assert_eq!(seen.gone().as_deref(), Some(told));
        manifest(r#"{"dependencies":{"left":"1"}}"#);
        assert_eq!(seen.gone(), None, "nobody wants them any more");
        assert!(InstalledPackages::look(&web, root).is_none());
    }
}
