//! Files that git tracks, that are gone from the working tree, and that a failure names.

use std::path::Path;

use super::{git, submodules};

/// How many deleted files are compared with the output. A branch that removes more of them at once
/// was not left behind by a slip.
const MOST: usize = 200;

/// Returns the deleted files that the output names, by path, as an import or as a module.
pub(super) fn named(root: &Path, output: &str) -> Vec<String> {
    let deleted = git::deleted(root, MOST);
    let submodules = submodules::paths(root);
    let is_file = |path: &String| !submodules.contains(path);
    deleted.into_iter().filter(|path| is_file(path) && is_named(path, output)).collect()
}

/// Returns whether the output speaks of the file: its path, its path without ending as an import
/// writes it, or its dotted name as Python writes it.
fn is_named(path: &str, output: &str) -> bool {
    let stem = path.rsplit_once('.').map_or(path, |(stem, _)| stem);
    let stem = stem.strip_suffix("/index").or(stem.strip_suffix("/__init__")).unwrap_or(stem);
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    if contains_word(output, path) || (stem.contains('/') && contains_word(output, stem)) {
        return true;
    }
    let name = stem.rsplit('/').next().unwrap_or(stem);
    let full = path.rsplit('/').next().unwrap_or(path);
    match full.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "py" => {
            let inner = stem.strip_prefix("src/").unwrap_or(stem);
            let dotted = inner.replace('/', ".");
            (inner.contains('/') && contains_word(output, &dotted))
                || output.contains(&format!("No module named '{name}'"))
        }
        "rs" => output.contains(&format!("module `{name}`")),
        // An import is written from where the importer is: `./util`, `../lib/util.js`.
        _ => ["'", "\"", "`"].iter().any(|end| {
            output.contains(&format!("/{name}{end}")) || output.contains(&format!("/{full}{end}"))
        }),
    }
}

/// Returns whether the text has the word with nothing of a name or path at either side.
pub(super) fn contains_word(text: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(|c| part(c) || c == '.') && !after.is_some_and(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deleted_file_is_known_however_a_tool_names_it() {
        let rows = [
            ("src/util.js", "Error: Cannot find module './util'", true),
            ("src/util.ts", "Failed to resolve import \"../util\" from \"src/a/main.ts\"", true),
            ("lib/util.js", "Cannot find module '/srv/shop/lib/util.js'", true),
            ("shop/util.py", "ModuleNotFoundError: No module named 'shop.util'", true),
            ("util.py", "ModuleNotFoundError: No module named 'util'", true),
            ("src/shop/util.py", "No module named 'shop.util'", true),
            ("src/util.rs", "error[E0583]: file not found for module `util`", true),
            ("src/util.js", "Error: Cannot find module './utils'", false),
            ("src/util.js", "Error: Cannot find module 'util-deprecate'", false),
            ("a.txt", "no such file", false),
        ];
        for (path, output, want) in rows {
            assert_eq!(is_named(path, output), want, "{path}: {output}");
        }
    }
}
