//! Submodules of git that were not fetched and that a failure names.

use std::fs;
use std::path::{Component, Path};

use super::deleted::contains_word;
use crate::files::{FileKind, read_text};

/// Returns the submodules that the output names and whose directories are empty or missing.
pub(super) fn named(root: &Path, output: &str) -> Vec<String> {
    let is_empty = |path: &String| {
        fs::read_dir(root.join(path)).map_or(true, |mut entries| entries.next().is_none())
    };
    paths(root).into_iter().filter(|path| is_named(path, output) && is_empty(path)).collect()
}

/// Returns where the submodules are that `.gitmodules` lists.
pub(super) fn paths(root: &Path) -> Vec<String> {
    let text = read_text(&root.join(".gitmodules"), FileKind::Settings).unwrap_or_default();
    let path = |line: &str| {
        let (name, path) = line.split_once('=')?;
        (name.trim() == "path").then(|| path.trim().trim_matches('"').to_owned())
    };
    // A repository says that itself, so it may not lead anywhere else.
    let is_inside = |path: &String| {
        Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
    };
    text.lines().filter_map(path).filter(|path| !path.is_empty() && is_inside(path)).collect()
}

/// Returns whether the output speaks of the submodule: its path, also right behind the option of a
/// compiler, or its name as Python imports it.
fn is_named(path: &str, output: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let other = [format!("-I{path}"), format!("-L{path}"), format!("No module named '{name}'")];
    contains_word(output, path) || other.iter().any(|one| output.contains(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_submodule_is_told_where_it_is_empty_and_named() {
        let root = tempfile::tempdir().unwrap();
        let modules = "[submodule \"lib\"]\n\tpath = vendor/lib\n\turl = ../lib\n\
                       [submodule \"there\"]\n\tpath = vendor/there\n\turl = ../there\n";
        fs::write(root.path().join(".gitmodules"), modules).unwrap();
        fs::create_dir_all(root.path().join("vendor/lib")).unwrap();
        fs::create_dir_all(root.path().join("vendor/there/src")).unwrap();
        let rows = [
            ("fatal error: vendor/lib/seven.c: No such file", vec!["vendor/lib"]),
            ("fatal error: vendor/there/x.c: No such file", vec![]),
            ("fatal error: vendor/library/x.c: No such file", vec![]),
            ("cc -Ivendor/lib -c t.c -o t.o", vec!["vendor/lib"]),
            ("ModuleNotFoundError: No module named 'lib'", vec!["vendor/lib"]),
        ];
        for (output, want) in rows {
            assert_eq!(named(root.path(), output), want, "{output}");
        }
    }
}
