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

/// Returns the shipped sources of the crates that programs are made of, with the crate's name.
fn shipped() -> Vec<(&'static str, PathBuf)> {
    let of = |name| {
        let files = sources(&repository().join("crates").join(name).join("src")).into_iter();
        files.filter(|path| !is_of_tests(path)).map(move |path| (name, path))
    };
    ["salve", "salve-core"].into_iter().flat_map(of).collect()
}

fn is_of_tests(path: &Path) -> bool {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    name.ends_with("tests") || ["testing", "in_memory", "contract"].contains(&name.as_ref())
}

/// Returns the word behind one of these kinds at the beginning of a line, visibility and the like
/// left out.
fn defined<'l>(line: &'l str, kinds: &[&str]) -> Option<&'l str> {
    let line = match line.strip_prefix("pub") {
        // `pub(in crate::web)` is as visible as that says, and no word of the definition.
        Some(rest) => {
            rest.strip_prefix('(').map_or(Some(rest), |rest| Some(rest.split_once(')')?.1))?
        }
        None => line,
    };
    let mut words = line.split([' ', '(', '<', ':', '{', ';']).filter(|word| !word.is_empty());
    let kind = words.find(|word| !["async", "const", "unsafe"].contains(word))?;
    kinds.contains(&kind).then(|| words.next()).flatten()
}

#[test]
fn what_a_line_defines_is_seen_whoever_may_see_it() {
    for (line, want) in [
        ("fn plain(&self) {", Some("plain")),
        ("pub fn open<T>(of: T) {", Some("open")),
        ("pub(crate) async fn near() {", Some("near")),
        ("pub(super) const fn above(self) {", Some("above")),
        ("pub(in crate::web) fn within(&mut self) {", Some("within")),
        ("pub(in crate::web) struct Other {", None),
        ("const PUBLIC: u8 = 1;", None),
        ("let public = fn_of(1);", None),
    ] {
        assert_eq!(defined(line, &["fn"]), want, "{line}");
    }
}

/// A type with more methods than this, about forty, has more than one responsibility.
const MOST_METHODS: usize = 42;

#[test]
fn no_type_has_more_methods_than_one_responsibility_needs() {
    let mut methods: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for (of, path) in shipped() {
        let mut owner = None;
        for line in code(&path).lines() {
            if let Some(head) = line.strip_prefix("impl") {
                let head = head.rsplit_once(" for ").map_or(head, |(_, own)| own);
                let head = if head.starts_with('<') {
                    head.split_once("> ").map_or("", |p| p.1)
                } else {
                    head
                };
                owner = head.trim().split([' ', '<', '{']).next().map(str::to_owned);
            } else if line == "}" {
                owner = None;
            } else if let (Some(owner), Some(_)) = (&owner, defined(line.trim_start(), &["fn"]))
                && line.starts_with("    ")
                && !line.starts_with("     ")
            {
                *methods.entry((of, owner.clone())).or_default() += 1;
            }
        }
    }
    assert!(methods.len() > 300, "only {} types were found", methods.len());
    let large: Vec<_> = methods.iter().filter(|(_, count)| **count > MOST_METHODS).collect();
    assert!(large.is_empty(), "{large:?}");
}

/// **Invariant:** A name means one thing: at most 8 in 100 types of a crate share theirs.
#[test]
fn few_types_of_a_crate_share_a_name() {
    for of in ["salve", "salve-core"] {
        let mut all: BTreeMap<String, usize> = BTreeMap::new();
        for (_, path) in shipped().into_iter().filter(|(name, _)| *name == of) {
            let text = code(&path);
            let names = text.lines().filter(|line| !line.starts_with(' '));
            let kinds = ["struct", "enum", "trait", "union"];
            for name in names.filter_map(|line| defined(line, &kinds)) {
                *all.entry(name.to_owned()).or_default() += 1;
            }
        }
        // Each command has its `Args`.
        all.remove("Args");
        let total: usize = all.values().sum();
        let shared: usize = all.values().filter(|count| **count > 1).sum();
        assert!(total > 400, "only {total} types of {of} were found");
        assert!(shared * 100 <= total * 8, "{shared} of {total} types of {of} share their name");
    }
}

/// A public name means one thing across both crates.
#[test]
fn no_public_type_of_one_crate_has_a_name_of_the_others() {
    let public = |of: &str| -> BTreeMap<String, PathBuf> {
        let mut all = BTreeMap::new();
        for (_, path) in shipped().into_iter().filter(|(name, _)| *name == of) {
            let text = code(&path);
            let lines = text.lines().filter(|line| line.starts_with("pub"));
            let names = lines.filter_map(|line| defined(line, &["struct", "enum", "trait"]));
            all.extend(names.map(|name| (name.to_owned(), path.clone())));
        }
        all
    };
    let (core, acts) = (public("salve-core"), public("salve"));
    assert!(core.len() > 400 && acts.len() > 400, "the test no longer sees them");
    let both: Vec<_> = core.keys().filter(|name| acts.contains_key(*name)).collect();
    assert!(both.is_empty(), "{both:?}");
}

/// A new kind of subject plugs in by the trait alone: the driver asks none what kind it is.
#[test]
fn the_driver_knows_no_kind_of_subject() {
    let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/heal/driver");
    let files = sources(&driver);
    assert!(files.len() > 10, "the test no longer sees the driver");
    for path in files.iter().filter(|path| !is_of_tests(path)) {
        assert!(!code(path).contains("SubjectKind"), "{}", path.display());
    }
}

/// Returns the parameters of the function whose name begins the text, with their types.
fn parameters(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found, mut last) = (0_i32, None, Vec::new(), ' ');
    for (at, letter) in text.char_indices() {
        match letter {
            '(' if depth == 0 => start = Some(at + 1),
            ',' if depth == 1 => {
                found.extend(start.map(|start| text[start..at].trim()));
                start = start.map(|_| at + 1);
            }
            ')' if depth == 1 && start.is_some() => {
                found.extend(start.map(|start| text[start..at].trim()));
                break;
            }
            _ => {}
        }
        match letter {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            '>' if last != '-' && last != '=' => depth -= 1,
            _ => {}
        }
        last = letter;
    }
    found.retain(|part| !part.is_empty());
    found
}

/// Tells whether a parameter is a tuple: one, none or several of them in a row are alike to a reader.
fn is_tuple(parameter: &str) -> bool {
    let Some((_, of)) = parameter.split_once(": ") else { return false };
    let of = of.trim_start_matches('&').trim_start_matches("mut ");
    let of = ["Option<", "Result<", "io::Result<"]
        .iter()
        .find_map(|of_| of.strip_prefix(*of_))
        .unwrap_or(of);
    let of = of.trim_start_matches('&').trim_start_matches("mut ");
    of.starts_with('(') && !of.starts_with("()")
}

/// Parameters that travel together have a name.
#[test]
fn no_parameter_is_a_tuple() {
    let parts =
        parameters("f<F: Fn(u8, u8) -> u8>(&self, a: (u8, &str), b: [u8; 2]) -> (u8, u8) {");
    assert_eq!(parts, ["&self", "a: (u8, &str)", "b: [u8; 2]"]);
    assert!(
        is_tuple("a: (u8, &str)") && is_tuple("(a, b): &(A, B)") && is_tuple("a: Option<(A, B)>")
    );
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for (_, path) in shipped() {
        let text = code(&path);
        for (at, _) in text.match_indices("fn ") {
            let head = &text[at + 3..];
            let name = head.split(['(', '<']).next().unwrap_or_default();
            let parameters = parameters(head);
            seen += parameters.len();
            // `From` is given what another type is made of.
            if name != "from" && parameters.into_iter().any(is_tuple) {
                wrong.push(format!("{}: {name}", path.display()));
            }
        }
    }
    assert!(seen > 10_000, "only {seen} parameters were found: the test no longer sees them");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// An agent that Salve starts is a table in `data/agents.toml`, and a dialect is a row and a reader in
/// core's `agent`: nothing else knows them by name but what edits the settings files of each.
#[test]
fn an_agent_is_known_by_name_in_one_place() {
    let homes = [
        "salve-core/src/agent/",
        "salve/src/register/",
        "salve/src/cli/hook.rs",
        "salve/src/cli/mcp/install.rs",
    ];
    let names = ["Claude", "Codex", "Gemini", "Opencode"];
    let mut wrong = Vec::new();
    for (_, path) in shipped() {
        let place = path.to_string_lossy().into_owned();
        if homes.iter().any(|home| place.contains(home)) {
            continue;
        }
        let text = code(&path);
        let is_named = |name: &&&str| {
            text.contains(&format!("::{name}"))
                || text.contains(&format!("\"{}\"", name.to_lowercase()))
        };
        wrong.extend(names.iter().filter(is_named).map(|name| format!("{place}: {name}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
