use super::*;

/// Writes a project of these files and compares what is found, one `name: command` a line.
#[track_caller]
fn check(files: &[(&str, &str)], want: &[&str]) {
    let findings = found(files);
    let got: Vec<_> = findings
        .servers
        .iter()
        .map(|found| match &found.dir {
            Some(dir) => format!("{}: {} in {dir}", found.name, found.command),
            None => format!("{}: {}", found.name, found.command),
        })
        .collect();
    assert_eq!(got, want, "{files:?}");
    assert!(findings.servers.iter().all(|found| !found.why.is_empty()), "{findings:?}");
}

fn found(files: &[(&str, &str)]) -> Findings {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    detect(dir.path())
}

#[test]
fn servers_are_known_by_their_files() {
    let dev = r#"{"scripts": {"start": "x", "dev": "vite"}, "devDependencies": {"vite": "7"}}"#;
    check(&[("package.json", dev), ("package-lock.json", "")], &["web: npm run dev"]);
    check(&[("package.json", dev), ("pnpm-lock.yaml", "")], &["web: pnpm run dev"]);
    check(&[("package.json", dev), ("yarn.lock", "")], &["web: yarn run dev"]);
    check(&[("package.json", dev), ("bun.lock", "")], &["web: bun run dev"]);
    check(
        &[("package.json", r#"{"packageManager": "pnpm@9.1.0", "scripts": {"start": "x"}}"#)],
        &["web: pnpm run start"],
    );
    check(&[("package.json", r#"{"scripts": {"start": "node ."}}"#)], &["web: npm start"]);
    check(&[("package.json", r#"{"dependencies": {"next": "15"}}"#)], &["web: npx next dev"]);
    let express = r#"{"main": "lib/app.js", "dependencies": {"express": "5"}}"#;
    check(&[("package.json", express), ("lib/app.js", "")], &["web: node lib/app.js"]);
    check(&[("manage.py", ""), ("uv.lock", "")], &["web: uv run python manage.py runserver"]);
    check(
        &[("manage.py", ""), ("poetry.lock", "")],
        &["web: poetry run python manage.py runserver"],
    );
    check(
        &[("app.py", "app = Flask(__name__)"), ("requirements.txt", "Flask==3.1")],
        &["web: python -m flask --app app run --debug"],
    );
    check(
        &[("app/main.py", "app = FastAPI()"), (".venv/bin/python", "")],
        &["web: .venv/bin/python -m uvicorn app.main:app --reload"],
    );
    check(&[("Gemfile", "gem \"rails\", \"~> 8\""), ("bin/rails", "")], &["web: bin/rails server"]);
    let cargo = "[package]\nname = \"x\"\n[dependencies]\naxum = \"0.8\"\n";
    check(&[("Cargo.toml", cargo), ("src/main.rs", "")], &["web: cargo run"]);
    check(&[("go.mod", "module x"), ("main.go", "")], &["web: go run ."]);
    check(&[("go.mod", "module x"), ("cmd/api/main.go", "")], &["web: go run ./cmd/api"]);
    check(&[("Procfile", "web: a\nworker: b")], &["web: a", "worker: b"]);
}

#[test]
fn a_procfile_for_development_comes_first_and_one_for_deployment_last() {
    let package = ("package.json", r#"{"scripts": {"dev": "x"}}"#);
    check(&[package, ("Procfile", "web: deployed")], &["web: npm run dev"]);
    check(&[package, ("Procfile.dev", "web: a\ncss: b")], &["css: b", "web: a"]);
}

#[test]
fn parts_in_directories_are_found_where_there_is_nothing_above() {
    check(
        &[
            ("frontend/package.json", r#"{"scripts": {"dev": "vite"}}"#),
            ("Back End/manage.py", ""),
            ("node_modules/x/package.json", r#"{"scripts": {"dev": "x"}}"#),
        ],
        &["back-end: python manage.py runserver in Back End", "frontend: npm run dev in frontend"],
    );
}

#[test]
fn nothing_is_made_up() {
    check(&[], &[]);
    check(&[("package.json", "{ broken")], &[]);
    check(&[("package.json", r#"{"scripts": {"test": "x"}}"#)], &[]);
    check(&[("package.json", r#"{"scripts": "no"}"#)], &[]);
    check(&[("Cargo.toml", "[workspace]"), ("go.mod", "x"), ("Gemfile", "gem 'rake'")], &[]);
    check(&[("Procfile", "not one")], &[]);
}

#[test]
fn a_framework_and_the_services_are_named() {
    let findings = found(&[
        (
            "package.json",
            r#"{"scripts": {"dev": "x"}, "dependencies": {"@sveltejs/kit": "2", "vite": "7"}}"#,
        ),
        ("compose.yaml", "services:\n  db:\n    image: postgres\n  cache: {}\n"),
    ]);
    assert_eq!(findings.servers[0].framework, Some("SvelteKit"));
    assert_eq!(findings.services, ["cache", "db"]);
}

#[test]
fn members_of_a_workspace_are_found_where_the_root_has_no_server() {
    let dev = r#"{"scripts": {"dev": "vite", "test": "vitest"}}"#;
    let findings = found(&[
        ("package.json", r#"{"workspaces": ["apps/*", "!apps/old"]}"#),
        ("package-lock.json", ""),
        ("apps/web/package.json", dev),
        ("apps/old/package.json", dev),
        ("apps/lib/package.json", r#"{"scripts": {"test": "node --test"}}"#),
    ]);
    let told = |list: &[Detected]| {
        let line = |one: &Detected| {
            format!("{}: {} in {}", one.name, one.command, one.dir.clone().unwrap_or_default())
        };
        list.iter().map(line).collect::<Vec<_>>()
    };
    assert_eq!(told(&findings.servers), ["web: npm run dev in apps/web"]);
    assert_eq!(
        told(&findings.checks),
        ["lib-test: npm test in apps/lib", "web-test: npx vitest run in apps/web"]
    );
    check(
        &[
            ("package.json", "{}"),
            ("pnpm-workspace.yaml", "packages:\n  - 'packages/*'\n"),
            ("pnpm-lock.yaml", ""),
            ("packages/api/package.json", dev),
        ],
        &["api: pnpm run dev in packages/api"],
    );
    check(
        &[
            ("pyproject.toml", "[tool.uv.workspace]\nmembers = [\"services/*\"]\n"),
            ("uv.lock", ""),
            ("services/api/main.py", "app = FastAPI()"),
        ],
        &["api: uv run python -m uvicorn main:app --reload in services/api"],
    );
    check(&[("justfile", "dev:\n  air\n")], &["web: just dev"]);
    check(&[("package.json", r#"{"workspaces": ["../x", "/etc"]}"#)], &[]);
}
