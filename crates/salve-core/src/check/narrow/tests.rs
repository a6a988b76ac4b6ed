use super::*;
use crate::check::TestCounts;

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// Results with these failures, written as `file|name`.
fn results(tool: CheckTool, failed: &[&str]) -> Results {
    let case = |text: &&str| {
        let (file, name) = text.split_once('|').unwrap_or(("", text));
        let file = Some(file.to_owned()).filter(|file| !file.is_empty());
        FailedCase { file, line: None, name: name.to_owned() }
    };
    let failed = failed.iter().map(case).collect();
    Results { tool: Some(tool), failed, counts: TestCounts::default(), places: vec![], cut: false }
}

#[track_caller]
fn check(command: &str, tool: CheckTool, failed: &[&str], want: Option<&[&str]>) {
    let got = narrow(&words(command), &results(tool, failed));
    let got = got.as_ref().map(|words| words.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(got.as_deref(), want, "{command}");
}

#[test]
fn pytest_runs_node_ids() {
    let failed = ["t/test_a.py|t/test_a.py::test_one[a b]", "t/test_b.py|t/test_b.py"];
    let ids = ["t/test_a.py::test_one[a b]", "t/test_b.py"];
    let with = |start: &[&'static str]| [start, &ids].concat();
    let yes = |command: &str, start: &[&'static str]| {
        check(command, CheckTool::Pytest, &failed, Some(&with(start)));
    };
    yes("pytest", &["pytest"]);
    yes("pytest -q t tests/unit", &["pytest", "-q"]);
    yes("uv run pytest -x --tb=short", &["uv", "run", "pytest", "-x", "--tb=short"]);
    yes(
        ".venv/bin/python3.11 -m pytest -k not_slow t",
        &[".venv/bin/python3.11", "-m", "pytest", "-k", "not_slow"],
    );
    for unsure in [
        "pytest --cov=src",
        "pytest --cov-fail-under 90",
        "pytest --weird t",
        "tox",
        "make test",
        "pytest -k",
    ] {
        check(unsure, CheckTool::Pytest, &failed, None);
    }
    check("pytest", CheckTool::Jest, &failed, None);
    check("pytest", CheckTool::Pytest, &["/p/t/test_a.py|/p/t/test_a.py::x"], None);
    check("pytest", CheckTool::Pytest, &["../t.py|../t.py::x"], None);
    check("pytest", CheckTool::Pytest, &["-t.py|-t.py::x"], None);
    check("pytest", CheckTool::Pytest, &[], None);
}

#[test]
fn javascript_runners_run_the_failed_files() {
    let failed = ["src/a.test.js|sum › adds", "src/a.test.js|sum › more"];
    check(
        "npx jest --ci src",
        CheckTool::Jest,
        &failed,
        Some(&["npx", "jest", "--ci", "--runTestsByPath", "src/a.test.js"]),
    );
    check("jest --coverage", CheckTool::Jest, &failed, None);
    check(
        "npx vitest run --reporter=dot",
        CheckTool::Vitest,
        &failed,
        Some(&["npx", "vitest", "run", "--reporter=dot", "src/a.test.js"]),
    );
    check("vitest", CheckTool::Vitest, &failed, None);
    check("vitest run --coverage", CheckTool::Vitest, &failed, None);
    check(
        "node --test test/",
        CheckTool::NodeTest,
        &failed,
        Some(&["node", "--test", "src/a.test.js"]),
    );
    check("node --test", CheckTool::NodeTest, &["/p/a.test.js|adds"], None);
    check(
        "npx mocha test",
        CheckTool::Mocha,
        &["t.js|sum adds (1+1)"],
        Some(&["npx", "mocha", "test", "--grep", "^(?:sum adds \\(1\\+1\\))$"]),
    );
    check("npx mocha", CheckTool::Mocha, &["t.js|sum \"before all\" hook for \"x\""], None);
    check("mocha -g sum", CheckTool::Mocha, &["t.js|sum adds"], None);
}

#[test]
fn rust_and_go_run_the_failed_tests() {
    let failed = ["src/lib.rs|tests::adds", "it::whole"];
    let tail = ["--exact", "tests::adds", "it::whole"];
    check(
        "cargo test",
        CheckTool::CargoTest,
        &failed,
        Some(&[&["cargo", "test", "--"][..], &tail].concat()),
    );
    check(
        "cargo test --workspace -- --test-threads=1",
        CheckTool::CargoTest,
        &failed,
        Some(&[&["cargo", "test", "--workspace", "--", "--test-threads=1"][..], &tail].concat()),
    );
    check("cargo test --no-run", CheckTool::CargoTest, &failed, None);
    check("cargo test", CheckTool::CargoTest, &["src/lib.rs - add (line 3)"], None);
    check("cargo test", CheckTool::Rustc, &["src/lib.rs|E0308 mismatched types"], None);
    check(
        "cargo nextest run -p demo",
        CheckTool::Nextest,
        &failed,
        Some(&[
            "cargo",
            "nextest",
            "run",
            "-p",
            "demo",
            "-E",
            "test(=tests::adds) | test(=it::whole)",
        ]),
    );
    check("cargo nextest run some", CheckTool::Nextest, &failed, None);
    let failed = ["a_test.go|TestAdd", "a_test.go|TestTable/one_two", "a_test.go|TestTable/three"];
    check(
        "go test ./...",
        CheckTool::GoTest,
        &failed,
        Some(&["go", "test", "-run", "^(TestAdd|TestTable)$", "./..."]),
    );
    check("go test -run TestAdd ./...", CheckTool::GoTest, &failed, None);
    check("go test -coverprofile=c.out ./...", CheckTool::GoTest, &failed, None);
    check("go test ./...", CheckTool::GoTest, &["example.com/x|example.com/x"], None);
    check(
        "python -m unittest -v shop",
        CheckTool::Unittest,
        &["a.py|shop.test_u.T.test_a"],
        Some(&["python", "-m", "unittest", "-v", "shop.test_u.T.test_a"]),
    );
    check("python -m unittest", CheckTool::Unittest, &["unittest.loader._FailedTest.shop"], None);
    check("python -m unittest discover -s t", CheckTool::Unittest, &["shop.T.a"], None);
}

#[test]
fn too_many_failures_are_not_named_one_by_one() {
    let names: Vec<String> = (0..=MOST).map(|n| format!("t::n{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    check("cargo test", CheckTool::CargoTest, &names, None);
    let long = "x".repeat(LONGEST);
    check("cargo test", CheckTool::CargoTest, &[&long], None);
    let cut = Results { cut: true, ..results(CheckTool::CargoTest, &["t::a"]) };
    assert_eq!(narrow(&words("cargo test"), &cut), None);
}

#[test]
fn a_packages_script_is_given_further_words() {
    let failed = results(CheckTool::Jest, &["src/a.test.js|sum › adds"]);
    let check = |command: &str, script: &str, want: Option<&str>| {
        let got = narrow_script(&words(command), script, &failed);
        assert_eq!(got.map(|words| words.join(" ")).as_deref(), want, "{command}: {script}");
    };
    check("npm test", "jest --ci", Some("npm test -- --runTestsByPath src/a.test.js"));
    check(
        "npm run unit",
        "NODE_ENV=test jest",
        Some("npm run unit -- --runTestsByPath src/a.test.js"),
    );
    check("pnpm test", "cross-env CI=1 jest", Some("pnpm test --runTestsByPath src/a.test.js"));
    check("npm test", "jest src", None);
    check("npm test", "jest && eslint .", None);
    check("npm test", "jest -t 'x y'", None);
    check("npm test -- --ci", "jest", None);
    check("npm install", "jest", None);
}
