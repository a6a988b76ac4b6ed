//! Which files judge: told by their paths alone.

use super::{CheckWords, VerifierPart};

/// Directories whose files are tests or what tests compare with.
const TEST_DIRS: [&str; 10] = [
    "tests",
    "test",
    "__tests__",
    "spec",
    "specs",
    "e2e",
    "cypress",
    "testdata",
    "__mocks__",
    "__fixtures__",
];

/// File names, whole.
const NAMES: [(&str, VerifierPart); 58] = [
    ("conftest.py", VerifierPart::Runner),
    ("sitecustomize.py", VerifierPart::Runner),
    ("usercustomize.py", VerifierPart::Runner),
    ("pytest.ini", VerifierPart::Runner),
    (".pytest.ini", VerifierPart::Runner),
    ("pytest.toml", VerifierPart::Runner),
    ("tox.ini", VerifierPart::Runner),
    ("noxfile.py", VerifierPart::Runner),
    (".coveragerc", VerifierPart::Runner),
    ("nextest.toml", VerifierPart::Runner),
    ("bunfig.toml", VerifierPart::Runner),
    ("runtests.py", VerifierPart::Runner),
    (".eslintignore", VerifierPart::Lint),
    ("biome.json", VerifierPart::Lint),
    ("biome.jsonc", VerifierPart::Lint),
    ("ruff.toml", VerifierPart::Lint),
    (".ruff.toml", VerifierPart::Lint),
    (".flake8", VerifierPart::Lint),
    (".pylintrc", VerifierPart::Lint),
    ("pylintrc", VerifierPart::Lint),
    ("clippy.toml", VerifierPart::Lint),
    (".clippy.toml", VerifierPart::Lint),
    ("rustfmt.toml", VerifierPart::Lint),
    (".rustfmt.toml", VerifierPart::Lint),
    (".editorconfig", VerifierPart::Lint),
    (".oxlintrc.json", VerifierPart::Lint),
    ("deno.json", VerifierPart::Lint),
    ("deno.jsonc", VerifierPart::Lint),
    ("mypy.ini", VerifierPart::Types),
    (".mypy.ini", VerifierPart::Types),
    ("pyrightconfig.json", VerifierPart::Types),
    ("jsconfig.json", VerifierPart::Types),
    ("package.json", VerifierPart::Manifest),
    ("Cargo.toml", VerifierPart::Manifest),
    ("pyproject.toml", VerifierPart::Manifest),
    ("setup.cfg", VerifierPart::Runner),
    (".gitlab-ci.yml", VerifierPart::Ci),
    ("azure-pipelines.yml", VerifierPart::Ci),
    ("bitbucket-pipelines.yml", VerifierPart::Ci),
    (".travis.yml", VerifierPart::Ci),
    ("Jenkinsfile", VerifierPart::Ci),
    (".pre-commit-config.yaml", VerifierPart::Ci),
    ("lefthook.yml", VerifierPart::Ci),
    ("turbo.json", VerifierPart::Ci),
    ("nx.json", VerifierPart::Ci),
    ("project.json", VerifierPart::Ci),
    ("Makefile", VerifierPart::Script),
    ("makefile", VerifierPart::Script),
    ("GNUmakefile", VerifierPart::Script),
    ("justfile", VerifierPart::Script),
    ("Justfile", VerifierPart::Script),
    (".justfile", VerifierPart::Script),
    ("Taskfile.yml", VerifierPart::Script),
    ("Taskfile.yaml", VerifierPart::Script),
    ("Rakefile", VerifierPart::Script),
    ("tasks.py", VerifierPart::Script),
    ("dodo.py", VerifierPart::Script),
    ("build.rs", VerifierPart::Script),
];

/// File names up to their first dot, where any ending may follow, as in `jest.config.mjs`.
const STEMS: [(&str, VerifierPart); 26] = [
    ("jest.config", VerifierPart::Runner),
    ("jest.setup", VerifierPart::Runner),
    ("jest.preset", VerifierPart::Runner),
    ("vitest.config", VerifierPart::Runner),
    ("vitest.setup", VerifierPart::Runner),
    ("vitest.workspace", VerifierPart::Runner),
    ("vite.config", VerifierPart::Runner),
    ("setupTests", VerifierPart::Runner),
    ("setup-tests", VerifierPart::Runner),
    ("test-setup", VerifierPart::Runner),
    (".mocharc", VerifierPart::Runner),
    ("karma.conf", VerifierPart::Runner),
    ("playwright.config", VerifierPart::Runner),
    ("cypress.config", VerifierPart::Runner),
    ("ava.config", VerifierPart::Runner),
    (".nycrc", VerifierPart::Runner),
    (".c8rc", VerifierPart::Runner),
    ("babel.config", VerifierPart::Runner),
    (".swcrc", VerifierPart::Runner),
    (".eslintrc", VerifierPart::Lint),
    ("eslint.config", VerifierPart::Lint),
    (".prettierrc", VerifierPart::Lint),
    ("prettier.config", VerifierPart::Lint),
    (".stylelintrc", VerifierPart::Lint),
    (".golangci", VerifierPart::Lint),
    ("tsconfig", VerifierPart::Types),
];

/// Returns which part of the verifier a file is by its path, if it is one.
pub(super) fn part(path: &str, words: CheckWords<'_>) -> Option<VerifierPart> {
    let path = path.strip_prefix("./").unwrap_or(path);
    let name = path.rsplit('/').next().unwrap_or(path);
    if installed(path) {
        return Some(VerifierPart::Installed);
    }
    if path.starts_with(".github/") || path.starts_with(".circleci/") || path.starts_with(".husky/")
    {
        return Some(VerifierPart::Ci);
    }
    if path.ends_with(".cargo/config.toml") || path.ends_with(".cargo/config") {
        return Some(VerifierPart::Runner);
    }
    if let Some((_, part)) = NAMES.iter().find(|(known, _)| *known == name) {
        return Some(*part);
    }
    let stem = |known: &str| {
        name.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    if let Some((_, part)) = STEMS.iter().find(|(known, _)| stem(known)) {
        return Some(*part);
    }
    if name.starts_with("tsconfig.") || name.starts_with("tsconfig-") {
        return Some(VerifierPart::Types);
    }
    if name.ends_with(".pth") {
        return Some(VerifierPart::Runner);
    }
    if named_by(words, path) {
        return Some(VerifierPart::Script);
    }
    tests(path, name)
}

fn tests(path: &str, name: &str) -> Option<VerifierPart> {
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
    if extension == "snap" || path.split('/').any(|dir| dir == "__snapshots__") {
        return Some(VerifierPart::Snapshot);
    }
    let by_name = match extension {
        "py" => stem.starts_with("test_") || stem.ends_with("_test") || stem == "test",
        "go" => stem.ends_with("_test"),
        "rs" => {
            matches!(stem, "test" | "tests") || stem.ends_with("_test") || stem.ends_with("_tests")
        }
        "js" | "jsx" | "ts" | "tsx" | "mjs" | "cjs" | "mts" | "cts" | "vue" | "svelte" => {
            stem.ends_with(".test")
                || stem.ends_with(".spec")
                || stem.ends_with(".cy")
                || stem == "test"
        }
        "rb" => stem.ends_with("_spec") || stem.ends_with("_test"),
        "java" | "kt" | "cs" | "swift" | "scala" => {
            stem.ends_with("Test") || stem.ends_with("Tests")
        }
        "php" => stem.ends_with("Test"),
        "exs" => stem.ends_with("_test"),
        _ => false,
    };
    let directories = path.rsplit_once('/').map_or("", |(directories, _)| directories);
    let by_directory = directories.split('/').any(|dir| TEST_DIRS.contains(&dir));
    if !by_name && !by_directory {
        return None;
    }
    let code = [
        "py", "go", "rs", "js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts", "rb", "java", "kt",
        "cs", "swift", "scala", "php", "exs", "vue", "svelte", "sh",
    ];
    Some(if code.contains(&extension) { VerifierPart::Tests } else { VerifierPart::Snapshot })
}

/// Tells whether a file belongs to an installed package, the runner's own included.
fn installed(path: &str) -> bool {
    let inner = format!("/{path}");
    ["/node_modules/", "/site-packages/", "/dist-packages/"].iter().any(|dir| inner.contains(dir))
}

/// Tells whether the check's command names a file.
fn named_by(words: CheckWords<'_>, path: &str) -> bool {
    let is = |word: &str| word.strip_prefix("./").unwrap_or(word) == path;
    // A shell's text is one word of the command, so its own words are looked at, too.
    words.iter().any(|word| is(word) || word.split_whitespace().any(is))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_judges_is_known_by_its_path() {
        let words =
            ["sh".to_owned(), "-c".to_owned(), "./scripts/check.sh && go run tool.go".to_owned()];
        let check =
            |path: &str, want: Option<VerifierPart>| assert_eq!(part(path, &words), want, "{path}");
        for path in [
            "test_a.py",
            "a/b_test.py",
            "tests/helpers.py",
            "src/a.test.ts",
            "a.spec.jsx",
            "pkg/a_test.go",
            "src/__tests__/a.js",
            "tests/it.rs",
            "src/store/tests.rs",
            "spec/a_spec.rb",
            "src/test/FooTest.java",
        ] {
            check(path, Some(VerifierPart::Tests));
        }
        for path in
            ["src/__snapshots__/a.snap", "a.snap", "tests/golden/out.txt", "pkg/testdata/in.json"]
        {
            check(path, Some(VerifierPart::Snapshot));
        }
        check("conftest.py", Some(VerifierPart::Runner));
        check("src/sitecustomize.py", Some(VerifierPart::Runner));
        check("vitest.config.mts", Some(VerifierPart::Runner));
        check(".config/nextest.toml", Some(VerifierPart::Runner));
        check(".cargo/config.toml", Some(VerifierPart::Runner));
        check("eslint.config.js", Some(VerifierPart::Lint));
        check("web/.eslintrc.json", Some(VerifierPart::Lint));
        check("tsconfig.build.json", Some(VerifierPart::Types));
        check(".github/workflows/ci.yml", Some(VerifierPart::Ci));
        check("package.json", Some(VerifierPart::Manifest));
        check("scripts/check.sh", Some(VerifierPart::Script));
        check("tool.go", Some(VerifierPart::Script));
        check("Makefile", Some(VerifierPart::Script));
        check("node_modules/jest/bin/jest.js", Some(VerifierPart::Installed));
        check(".venv/lib/python3.11/site-packages/_pytest/main.py", Some(VerifierPart::Installed));
        for path in [
            "src/app.py",
            "src/contest.py",
            "lib/latest.js",
            "README.md",
            "src/testing.rs",
            "src/attest.go",
        ] {
            check(path, None);
        }
    }
}
