//! Dev servers in Python, Ruby, Rust and Go.

use std::fs;
use std::path::Path;

use super::{Detected, has, read, up_to};

fn found(command: String, framework: Option<&'static str>, why: Vec<String>) -> Option<Detected> {
    Some(Detected { name: "web".to_owned(), command, dir: None, framework, why })
}

/// Django, Flask or FastAPI, by uv, Poetry, a virtual environment or the system's Python.
pub(super) fn python(root: &Path, dir: &Path) -> Option<Detected> {
    let manifests = ["pyproject.toml", "requirements.txt", "requirements/base.txt", "Pipfile"];
    let manifest = manifests.into_iter().find_map(|name| Some((name, read(dir, name)?)));
    let names = |package: &str| {
        let (file, text) = manifest.as_ref()?;
        let word = |word: &str| word.eq_ignore_ascii_case(package);
        let parts = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
        let named = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        let named = named.flat_map(|line| line.split(parts)).any(word);
        named.then(|| format!("{package} in {file}"))
    };
    let (runner, told) = runner(root, dir);
    if has(dir, "manage.py") {
        let why = vec!["manage.py".to_owned(), told];
        return found(format!("{runner}python manage.py runserver"), Some("Django"), why);
    }
    let module = |marks: &[&str]| {
        let files = ["app.py", "main.py", "wsgi.py", "server.py", "app/main.py", "src/main.py"];
        files.into_iter().find_map(|file| {
            let text = read(dir, file)?;
            marks.iter().any(|mark| text.contains(mark)).then_some(file)
        })
    };
    if let Some(file) = module(&["FastAPI("]) {
        let why = [Some(format!("FastAPI in {file}")), names("fastapi"), Some(told)];
        let module = file.trim_end_matches(".py").replace('/', ".");
        let command = format!("{runner}python -m uvicorn {module}:app --reload");
        return found(command, Some("FastAPI"), why.into_iter().flatten().collect());
    }
    if let Some(file) = module(&["Flask("]) {
        let why = [Some(format!("Flask in {file}")), names("flask"), Some(told)];
        let module = file.trim_end_matches(".py").replace('/', ".");
        let command = format!("{runner}python -m flask --app {module} run --debug");
        return found(command, Some("Flask"), why.into_iter().flatten().collect());
    }
    None
}

/// Returns what stands before `python`, and what told us.
pub(super) fn runner(root: &Path, dir: &Path) -> (&'static str, String) {
    if up_to(root, dir).any(|dir| has(dir, "uv.lock")) {
        return ("uv run ", "uv.lock, so uv".to_owned());
    }
    if up_to(root, dir).any(|dir| has(dir, "poetry.lock")) {
        return ("poetry run ", "poetry.lock, so Poetry".to_owned());
    }
    let manifest = read(dir, "pyproject.toml").unwrap_or_default();
    if manifest.contains("[tool.uv]") || manifest.contains("[tool.uv.") {
        return ("uv run ", "tool.uv in pyproject.toml, so uv".to_owned());
    }
    if manifest.contains("[tool.poetry]") {
        return ("poetry run ", "tool.poetry in pyproject.toml, so Poetry".to_owned());
    }
    for (venv, before) in [(".venv", ".venv/bin/"), ("venv", "venv/bin/")] {
        if dir.join(venv).join("bin/python").exists() {
            return (before, format!("the virtual environment {venv}"));
        }
    }
    ("", "no lockfile, so the python on the path".to_owned())
}

pub(super) fn rails(dir: &Path) -> Option<Detected> {
    let gemfile = read(dir, "Gemfile")?;
    let line = |line: &str| {
        let rest = line.trim_start().strip_prefix("gem ");
        rest.is_some_and(|rest| rest.trim_start_matches(['"', '\'', ' ', '(']).starts_with("rails"))
    };
    if !gemfile.lines().any(line) {
        return None;
    }
    let command =
        if has(dir, "bin/rails") { "bin/rails server" } else { "bundle exec rails server" };
    found(command.to_owned(), Some("Rails"), vec!["rails in Gemfile".to_owned()])
}

/// A program of one's own in Rust.
pub(super) fn rust(dir: &Path) -> Option<Detected> {
    let manifest: toml::Table = read(dir, "Cargo.toml")?.parse().ok()?;
    let uses = |name: &&(&str, &str)| {
        manifest.get("dependencies").is_some_and(|all| all.get(name.0).is_some())
    };
    let known = [
        ("axum", "axum"),
        ("actix-web", "Actix Web"),
        ("rocket", "Rocket"),
        ("warp", "warp"),
        ("poem", "Poem"),
        ("leptos", "Leptos"),
    ];
    let framework = known.iter().find(uses);
    let runs = has(dir, "src/main.rs") || manifest.contains_key("bin");
    if !runs || !manifest.contains_key("package") {
        return None;
    }
    let why = framework.map(|(name, _)| format!("{name} in Cargo.toml"));
    let why = why.unwrap_or_else(|| "a program in Cargo.toml".to_owned());
    found("cargo run".to_owned(), framework.map(|(_, title)| *title), vec![why])
}

/// A program of one's own in Go.
pub(super) fn go(dir: &Path) -> Option<Detected> {
    let module = read(dir, "go.mod")?;
    let known = [
        ("gin-gonic/gin", "Gin"),
        ("labstack/echo", "Echo"),
        ("gofiber/fiber", "Fiber"),
        ("go-chi/chi", "chi"),
    ];
    let framework = known.iter().find(|(path, _)| module.contains(path)).map(|(_, title)| *title);
    if has(dir, "main.go") {
        let why = vec!["go.mod and main.go".to_owned()];
        return found("go run .".to_owned(), framework, why);
    }
    let commands = fs::read_dir(dir.join("cmd")).into_iter().flatten().flatten();
    let programs = commands.filter(|entry| has(&entry.path(), "main.go"));
    let names: Vec<_> = programs.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let [name] = &names[..] else { return None };
    let why = vec![format!("go.mod and cmd/{name}/main.go")];
    found(format!("go run ./cmd/{name}"), framework, why)
}
