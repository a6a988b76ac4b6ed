//! What ARCHITECTURE.md says of the code: its layers, its map and the tests it names.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the layer of each module, the topmost first, as the document lists them.
fn documented_layers() -> BTreeMap<String, usize> {
    let text = fs::read_to_string(repository().join("ARCHITECTURE.md")).unwrap();
    let (_, rest) = text.split_once("```layers\n").unwrap();
    let (block, _) = rest.split_once("```").unwrap();
    let modules = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let layers = block.lines().enumerate();
    layers.flat_map(|(n, line)| modules(line).into_iter().map(move |name| (name, n))).collect()
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns every source file below `dir` that is no test.
fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            found.extend(sources(&path));
        } else if name.ends_with(".rs") && name != "tests.rs" {
            found.push(path);
        }
    }
    found
}

/// Returns the code of a file without its comments and its own tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let shipped = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = shipped.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the names that stand behind `prefix` in a text, those of a group in braces too.
fn names_behind<'t>(text: &'t str, prefix: &str) -> Vec<&'t str> {
    let first = |part: &'t str| {
        let end = part.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(part.len());
        &part[..end]
    };
    let behind = |(at, _)| {
        let rest: &'t str = &text[at + prefix.len()..];
        match rest.strip_prefix('{') {
            Some(group) => {
                let group = group.split('}').next().unwrap_or_default();
                group.split(',').map(|part| first(part.trim())).collect::<Vec<_>>()
            }
            None => vec![first(rest)],
        }
    };
    text.match_indices(prefix).flat_map(behind).filter(|name| !name.is_empty()).collect()
}

#[test]
fn modules_use_only_what_lies_below_them() {
    let layers = documented_layers();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    let mut uses = 0;
    for path in sources(&root) {
        let below = path.strip_prefix(&root).unwrap();
        let module = below.iter().next().unwrap().to_string_lossy();
        let module = module.trim_end_matches(".rs");
        if ["lib", "main"].contains(&module) {
            continue;
        }
        let Some(own) = layers.get(module) else {
            wrong.push(format!("{module} is in no layer"));
            continue;
        };
        for used in names_behind(&code(&path), "crate::") {
            // What stands at the crate's root is a constant or a macro of the crate itself.
            let Some(layer) = layers.get(used).filter(|_| used != module) else { continue };
            uses += 1;
            if layer <= own {
                wrong.push(format!("{} uses {used}", below.display()));
            }
        }
    }
    assert!(uses > 100, "only {uses} uses were found: the test no longer sees them");
    assert!(wrong.is_empty(), "against the layers of ARCHITECTURE.md:\n{}", wrong.join("\n"));
}

#[test]
fn subjects_do_not_use_one_another() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/subjects");
    let mut wrong = Vec::new();
    for path in sources(&root) {
        let below = path.strip_prefix(&root).unwrap();
        let subject = below.iter().next().unwrap().to_string_lossy();
        let text = code(&path);
        let others = names_behind(&text, "crate::subjects::").into_iter();
        for other in others.filter(|&other| other != subject && root.join(other).is_dir()) {
            wrong.push(format!("{} uses {other}", below.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_test_and_place_that_is_named_is_there() {
    let page = fs::read_to_string(repository().join("ARCHITECTURE.md")).unwrap();
    let (map, rest) = page.split_once("## Layers").unwrap();
    let (_, invariants) = rest.split_once("## The ten invariants").unwrap();
    let quoted = |text: &str| -> Vec<String> {
        text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    let mut all = String::new();
    for dir in ["crates/salve/src", "crates/salve/tests/it", "crates/salve-core/src"] {
        let mut dirs = vec![repository().join(dir)];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    dirs.push(path);
                } else if path.extension().is_some_and(|end| end == "rs") {
                    all.push_str(&fs::read_to_string(path).unwrap());
                }
            }
        }
    }
    let is_test = |name: &&String| name.matches('_').count() > 2;
    for name in quoted(invariants).iter().filter(is_test) {
        assert!(all.contains(&format!("fn {name}(")), "there is no test {name}");
    }
    for place in quoted(map).iter().filter(|text| text.starts_with("crates/")) {
        assert!(repository().join(place).exists(), "there is no {place}");
    }
}
