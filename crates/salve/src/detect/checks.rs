//! Checks of a project: tests, types, lint, build, as its own files name them.

use std::path::Path;

use salve_core::check::watching;

use super::node::{Package, exec, manager};
use super::others::runner;
use super::{Detected, has, read, targets};

/// What npm writes as a test where there is none.
const NO_TEST: &str = "no test specified";

/// Scripts that make a check, by the check's name, the most telling first.
const SCRIPTS: [(&str, &[&str]); 4] = [
    ("test", &["test", "test:run", "test:ci", "test:unit"]),
    ("types", &["types", "typecheck", "type-check", "tsc", "check-types"]),
    ("lint", &["lint"]),
    ("build", &["build"]),
];

/// Returns the checks of a project's own directory.
pub fn checks(root: &Path) -> Vec<Detected> {
    checks_in(root, root)
}

/// Returns the checks of one directory, each once, by name; what governs it may be above, up to
/// `root`.
pub(super) fn checks_in(root: &Path, dir: &Path) -> Vec<Detected> {
    let mut found = node(root, dir);
    // What the project calls by that name before what its language usually has.
    found.extend(targets::checks(dir));
    found.extend(python(root, dir));
    found.extend(others(dir));
    found.sort_by(|a, b| a.name.cmp(&b.name));
    // Where several languages have one, the first is the project's main one.
    found.dedup_by(|later, first| later.name == first.name);
    found
}

fn check(name: &str, command: String, why: String) -> Detected {
    Detected { name: name.to_owned(), command, dir: None, framework: None, why: vec![why] }
}

fn node(root: &Path, dir: &Path) -> Vec<Detected> {
    let package = read(dir, "package.json").and_then(|text| serde_json::from_str(&text).ok());
    let Some(package): Option<Package> = package else { return Vec::new() };
    let (manager, _) = manager(root, dir, &package);
    let named = SCRIPTS.iter().filter_map(|(name, scripts)| {
        // One that ends by itself is taken before one that has to be told to.
        let ways = scripts.iter().filter_map(|script| by_script(&package, manager, script));
        let (command, script) = ways.min_by_key(|(command, _)| !command.starts_with(manager))?;
        Some(check(name, command, format!("script {script} in package.json")))
    });
    let mut found: Vec<Detected> = named.collect();
    found.extend(by_tasks(dir, &package, manager));
    let has_types = found.iter().any(|check| check.name == "types");
    if !has_types && has(dir, "tsconfig.json") && package.uses("typescript") {
        found.push(types(dir, manager));
    }
    found
}

/// Returns the command that runs a script once, and the script; nothing if it only watches.
fn by_script<'s>(package: &Package, manager: &str, script: &'s str) -> Option<(String, &'s str)> {
    let text = package.scripts.get(script).filter(|text| !text.contains(NO_TEST))?;
    if watching::is_watching(text) {
        return Some((watching::once(text, exec(manager))?, script));
    }
    let command = match script {
        "test" => format!("{manager} test"),
        script => format!("{manager} run {script}"),
    };
    Some((command, script))
}

/// Returns the checks that Turborepo or Nx runs over all packages.
fn by_tasks(dir: &Path, package: &Package, manager: &str) -> Vec<Detected> {
    let exec = exec(manager);
    let turbo = read(dir, "turbo.json").filter(|_| package.uses("turbo")).unwrap_or_default();
    let names = ["test", "typecheck", "lint", "build"];
    if has(dir, "nx.json") && package.uses("nx") {
        let found = ["test", "lint", "build"]
            .map(|name| check(name, format!("{exec} nx run-many -t {name}"), "nx.json".to_owned()));
        return found.into();
    }
    let tasks = names.iter().filter(|name| turbo.contains(&format!("\"{name}\"")));
    let found = tasks.map(|task| {
        let name = if *task == "typecheck" { "types" } else { task };
        check(name, format!("{exec} turbo run {task}"), format!("{task} in turbo.json"))
    });
    found.collect()
}

/// Returns the check of types: of all projects where the settings refer to others, since without
/// `-b` the compiler looks at none of them.
fn types(dir: &Path, manager: &str) -> Detected {
    let settings = read(dir, "tsconfig.json").unwrap_or_default();
    let refers = settings.split_once("\"references\"").is_some_and(|(_, rest)| {
        let list = rest.trim_start_matches([' ', '\t', '\n', '\r', ':']);
        list.strip_prefix('[').is_some_and(|list| !list.trim_start().starts_with(']'))
    });
    let exec = exec(manager);
    if refers {
        let why = "typescript in package.json, references in tsconfig.json".to_owned();
        check("types", format!("{exec} tsc -b"), why)
    } else {
        let why = "typescript in package.json, tsconfig.json".to_owned();
        check("types", format!("{exec} tsc --noEmit"), why)
    }
}

fn python(root: &Path, dir: &Path) -> Vec<Detected> {
    let manifests = ["pyproject.toml", "setup.cfg", "tox.ini", "requirements.txt", "Pipfile"];
    let texts: Vec<_> =
        manifests.iter().filter_map(|name| Some((name, read(dir, name)?))).collect();
    let told = |marks: &[&str], files: &[&str]| {
        let file = files.iter().find(|file| has(dir, file)).map(|file| (*file).to_owned());
        file.or_else(|| {
            let names = |(_, text): &&(&&str, String)| marks.iter().any(|mark| text.contains(mark));
            texts.iter().find(names).map(|(name, _)| format!("{} in {name}", marks[0]))
        })
    };
    let (before, _) = runner(root, dir);
    let python = if before.is_empty() { "python3".to_owned() } else { format!("{before}python") };
    let run = |module: &str| format!("{python} -m {module}");
    [
        ("test", "pytest", told(&["pytest"], &["pytest.ini", "conftest.py", "tests/conftest.py"])),
        ("types", "mypy .", told(&["[tool.mypy]", "[mypy]"], &["mypy.ini", ".mypy.ini"])),
        ("lint", "ruff check .", told(&["[tool.ruff"], &["ruff.toml", ".ruff.toml"])),
    ]
    .into_iter()
    .filter_map(|(name, module, why)| Some(check(name, run(module), why?)))
    .collect()
}

fn others(dir: &Path) -> Vec<Detected> {
    let found = [
        ("test", "cargo test", "Cargo.toml"),
        ("test", "go test ./...", "go.mod"),
        ("lint", "go vet ./...", "go.mod"),
    ];
    let there = found.into_iter().filter(|(_, _, file)| has(dir, file));
    there.map(|(name, command, file)| check(name, command.to_owned(), file.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[track_caller]
    fn found(files: &[(&str, &str)], want: &[(&str, &str)]) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let found = checks(dir.path());
        let got: Vec<_> =
            found.iter().map(|one| (one.name.as_str(), one.command.as_str())).collect();
        assert_eq!(got, want, "{files:?}");
    }

    #[test]
    fn checks_are_what_the_projects_own_files_name() {
        let scripts = r#"{"scripts":{"test":"vitest run","lint":"eslint .","dev":"vite"}}"#;
        found(
            &[("package.json", scripts), ("pnpm-lock.yaml", "")],
            &[("lint", "pnpm run lint"), ("test", "pnpm test")],
        );
        found(
            &[
                ("package.json", r#"{"devDependencies":{"typescript":"5"},"scripts":{}}"#),
                ("tsconfig.json", "{}"),
            ],
            &[("types", "npx tsc --noEmit")],
        );
        let none = r#"{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}"#;
        found(&[("package.json", none)], &[]);
        found(
            &[("pyproject.toml", "[tool.ruff]\n[tool.mypy]\n"), ("requirements.txt", "pytest\n")],
            &[
                ("lint", "python3 -m ruff check ."),
                ("test", "python3 -m pytest"),
                ("types", "python3 -m mypy ."),
            ],
        );
        found(
            &[
                (
                    "package.json",
                    r#"{"devDependencies":{"typescript":"5"},"scripts":{"test":"vitest"}}"#,
                ),
                (
                    "tsconfig.json",
                    r#"{"files": [], "references": [{"path": "./tsconfig.app.json"}]}"#,
                ),
            ],
            &[("test", "npx vitest run"), ("types", "npx tsc -b")],
        );
        let both = r#"{"scripts":{"test":"vitest","test:run":"vitest run"}}"#;
        found(&[("package.json", both)], &[("test", "npm run test:run")]);
        found(&[("package.json", r#"{"scripts":{"test":"nodemon x"}}"#)], &[]);
        let turbo = r#"{"packageManager":"pnpm@9","devDependencies":{"turbo":"2"}}"#;
        found(
            &[("package.json", turbo), ("turbo.json", r#"{"tasks":{"test":{},"lint":{}}}"#)],
            &[("lint", "pnpm exec turbo run lint"), ("test", "pnpm exec turbo run test")],
        );
        found(
            &[("Makefile", "CC=cc\ntest: all\n\tpytest\nlint:\n\truff check --watch\n")],
            &[("test", "make test")],
        );
        found(&[("justfile", "test:\n  pytest\nbuild target:\n  x\n")], &[("test", "just test")]);
        found(
            &[("pyproject.toml", "[tool.uv]\n[tool.pytest.ini_options]\n")],
            &[("test", "uv run python -m pytest")],
        );
        found(&[("Cargo.toml", "[package]")], &[("test", "cargo test")]);
        found(&[("go.mod", "module m")], &[("lint", "go vet ./..."), ("test", "go test ./...")]);
        found(&[("package.json", "{"), ("notes.txt", "")], &[]);
    }
}
