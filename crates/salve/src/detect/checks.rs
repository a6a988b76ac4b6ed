//! Checks of a project: tests, types, lint, build, as its own files name them.

use std::path::Path;

use super::node::{Package, manager};
use super::others::runner;
use super::{Detected, has, read};

/// What npm writes as a test where there is none.
const NO_TEST: &str = "no test specified";

/// Scripts that make a check, by the check's name, the most telling first.
const SCRIPTS: [(&str, &[&str]); 4] = [
    ("test", &["test"]),
    ("types", &["types", "typecheck", "type-check", "tsc", "check-types"]),
    ("lint", &["lint"]),
    ("build", &["build"]),
];

/// Returns the checks of one directory, each once, by name.
pub fn checks(dir: &Path) -> Vec<Detected> {
    let mut found = node(dir);
    found.extend(python(dir));
    found.extend(others(dir));
    found.sort_by(|a, b| a.name.cmp(&b.name));
    // Where several languages have one, the first is the project's main one.
    found.dedup_by(|later, first| later.name == first.name);
    found
}

fn check(name: &str, command: String, why: String) -> Detected {
    Detected { name: name.to_owned(), command, dir: None, framework: None, why: vec![why] }
}

fn node(dir: &Path) -> Vec<Detected> {
    let package = read(dir, "package.json").and_then(|text| serde_json::from_str(&text).ok());
    let Some(package): Option<Package> = package else { return Vec::new() };
    let (manager, _) = manager(dir, &package);
    let is_real = |script: &&str| {
        package.scripts.get(*script).is_some_and(|command| !command.contains(NO_TEST))
    };
    let named = SCRIPTS.iter().filter_map(|(name, scripts)| {
        let script = scripts.iter().find(|script| is_real(script))?;
        let command = match *script {
            "test" => format!("{manager} test"),
            script => format!("{manager} run {script}"),
        };
        Some(check(name, command, format!("script {script} in package.json")))
    });
    let mut found: Vec<Detected> = named.collect();
    let has_types = found.iter().any(|check| check.name == "types");
    if !has_types && has(dir, "tsconfig.json") && package.uses("typescript") {
        let why = "typescript in package.json, tsconfig.json".to_owned();
        found.push(check("types", "npx tsc --noEmit".to_owned(), why));
    }
    found
}

fn python(dir: &Path) -> Vec<Detected> {
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
    let (before, _) = runner(dir);
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
        found(&[("Cargo.toml", "[package]")], &[("test", "cargo test")]);
        found(&[("go.mod", "module m")], &[("lint", "go vet ./..."), ("test", "go test ./...")]);
        found(&[("package.json", "{"), ("notes.txt", "")], &[]);
    }
}
