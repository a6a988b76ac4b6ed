//! A workspace of uv: several projects with one lockfile and one environment.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::super::super::FailedSubject;
use super::super::nearest;
use super::{collect, normalised};
use crate::files::{FileKind, read_text};

/// Returns where the workspace is that a project belongs to, if it has no lockfile of its own.
pub(super) fn around(ask: &FailedSubject<'_>, dir: &Path) -> Option<PathBuf> {
    if dir.join("uv.lock").is_file() || dir.join("requirements.txt").is_file() {
        return None;
    }
    nearest(ask, "uv.lock").filter(|top| dir.starts_with(top) && is_workspace(top))
}

/// Tells whether a directory is the top of a workspace.
pub(super) fn is_workspace(dir: &Path) -> bool {
    let manifest = read_text(&dir.join("pyproject.toml"), FileKind::Document).ok();
    let manifest = manifest.and_then(|text| toml::from_str::<toml::Value>(&text).ok());
    let uv = manifest.as_ref().and_then(|manifest| manifest.get("tool")?.get("uv"));
    uv.is_some_and(|uv| uv.get("workspace").is_some())
}

/// Returns the members of a workspace and what they declare, normalised, as the lockfile has it.
pub(super) fn declared(dir: &Path) -> BTreeSet<String> {
    let lock = read_text(&dir.join("uv.lock"), FileKind::Bulk).unwrap_or_default();
    toml::from_str(&lock).map(|lock| declared_in(&lock)).unwrap_or_default()
}

fn declared_in(lock: &toml::Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let is_member = |package: &&toml::Value| {
        let source = package.get("source");
        ["editable", "virtual"].iter().any(|kind| source.and_then(|it| it.get(kind)).is_some())
    };
    for package in packages.into_iter().flatten().filter(is_member) {
        let name = package.get("name").and_then(toml::Value::as_str);
        found.extend(name.map(normalised));
        for key in ["dependencies", "optional-dependencies", "dev-dependencies"] {
            names(package.get(key), &mut found);
        }
    }
    found
}

/// Adds the names in lists of `{ name = "…" }`, however deep.
fn names(value: Option<&toml::Value>, found: &mut BTreeSet<String>) {
    match value {
        Some(toml::Value::Array(list)) => list.iter().for_each(|one| names(Some(one), found)),
        Some(toml::Value::Table(table)) => match table.get("name") {
            Some(name) => collect(Some(name), found),
            None => table.values().for_each(|one| names(Some(one), found)),
        },
        Some(_) | None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_members_of_a_workspace_declare_is_declared() {
        let lock = r#"
[[package]]
name = "api"
source = { editable = "api" }
dependencies = [{ name = "Starlette" }, { name = "shop-lib" }]

[package.dev-dependencies]
dev = [{ name = "pytest" }]

[[package]]
name = "root"
source = { virtual = "." }

[[package]]
name = "starlette"
source = { registry = "https://pypi.org/simple" }
dependencies = [{ name = "anyio" }]
"#;
        let found: Vec<String> = declared_in(&toml::from_str(lock).unwrap()).into_iter().collect();
        assert_eq!(found, ["api", "pytest", "root", "shop-lib", "starlette"]);
    }
}
