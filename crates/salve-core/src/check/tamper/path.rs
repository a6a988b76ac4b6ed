//! Which files judge: told by their paths alone.

use super::{Part, Words};

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
const NAMES: [(&str, Part); 58] = [
    ("conftest.py", Part::Runner),
    ("sitecustomize.py", Part::Runner),
    ("usercustomize.py", Part::Runner),
    ("pytest.ini", Part::Runner),
    (".pytest.ini", Part::Runner),
    ("pytest.toml", Part::Runner),
    ("tox.ini", Part::Runner),
    ("noxfile.py", Part::Runner),
    (".coveragerc", Part::Runner),
    ("nextest.toml", Part::Runner),
    ("bunfig.toml", Part::Runner),
    ("runtests.py", Part::Runner),
    (".eslintignore", Part::Lint),
    ("biome.json", Part::Lint),
    ("biome.jsonc", Part::Lint),
    ("ruff.toml", Part::Lint),
    (".ruff.toml", Part::Lint),
    (".flake8", Part::Lint),
    (".pylintrc", Part::Lint),
    ("pylintrc", Part::Lint),
    ("clippy.toml", Part::Lint),
    (".clippy.toml", Part::Lint),
    ("rustfmt.toml", Part::Lint),
    (".rustfmt.toml", Part::Lint),
    (".editorconfig", Part::Lint),
    (".oxlintrc.json", Part::Lint),
    ("deno.json", Part::Lint),
    ("deno.jsonc", Part::Lint),
    ("mypy.ini", Part::Types),
    (".mypy.ini", Part::Types),
    ("pyrightconfig.json", Part::Types),
    ("jsconfig.json", Part::Types),
    ("package.json", Part::Manifest),
    ("Cargo.toml", Part::Manifest),
    ("pyproject.toml", Part::Manifest),
    ("setup.cfg", Part::Runner),
    (".gitlab-ci.yml", Part::Ci),
    ("azure-pipelines.yml", Part::Ci),
    ("bitbucket-pipelines.yml", Part::Ci),
    (".travis.yml", Part::Ci),
    ("Jenkinsfile", Part::Ci),
    (".pre-commit-config.yaml", Part::Ci),
    ("lefthook.yml", Part::Ci),
    ("turbo.json", Part::Ci),
    ("nx.json", Part::Ci),
    ("project.json", Part::Ci),
    ("Makefile", Part::Script),
    ("makefile", Part::Script),
    ("GNUmakefile", Part::Script),
    ("justfile", Part::Script),
    ("Justfile", Part::Script),
    (".justfile", Part::Script),
    ("Taskfile.yml", Part::Script),
    ("Taskfile.yaml", Part::Script),
    ("Rakefile", Part::Script),
    ("tasks.py", Part::Script),
    ("dodo.py", Part::Script),
    ("build.rs", Part::Script),
];

/// File names up to their first dot, where any ending may follow, as in `jest.config.mjs`.
const STEMS: [(&str, Part); 26] = [
    ("jest.config", Part::Runner),
    ("jest.setup", Part::Runner),
    ("jest.preset", Part::Runner),
    ("vitest.config", Part::Runner),
    ("vitest.setup", Part::Runner),
    ("vitest.workspace", Part::Runner),
    ("vite.config", Part::Runner),
    ("setupTests", Part::Runner),
    ("setup-tests", Part::Runner),
    ("test-setup", Part::Runner),
    (".mocharc", Part::Runner),
    ("karma.conf", Part::Runner),
    ("playwright.config", Part::Runner),
    ("cypress.config", Part::Runner),
    ("ava.config", Part::Runner),
    (".nycrc", Part::Runner),
    (".c8rc", Part::Runner),
    ("babel.config", Part::Runner),
    (".swcrc", Part::Runner),
    (".eslintrc", Part::Lint),
    ("eslint.config", Part::Lint),
    (".prettierrc", Part::Lint),
    ("prettier.config", Part::Lint),
    (".stylelintrc", Part::Lint),
    (".golangci", Part::Lint),
    ("tsconfig", Part::Types),
];

/// Returns which part of the verifier a file is by its path, if it is one.
pub(super) fn part(path: &str, words: Words<'_>) -> Option<Part> {
    let path = path.strip_prefix("./").unwrap_or(path);
    let name = path.rsplit('/').next().unwrap_or(path);
    if installed(path) {
        return Some(Part::Installed);
    }
    if path.starts_with(".github/") || path.starts_with(".circleci/") || path.starts_with(".husky/")
    {
        return Some(Part::Ci);
    }
    if path.ends_with(".cargo/config.toml") || path.ends_with(".cargo/config") {
        return Some(Part::Runner);
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
        return Some(Part::Types);
    }
    if name.ends_with(".pth") {
        return Some(Part::Runner);
    }
    if named_by(words, path) {
        return Some(Part::Script);
    }
    tests(path, name)
}

fn tests(path: &str, name: &str) -> Option<Part> {
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
    if extension == "snap" || path.split('/').any(|dir| dir == "__snapshots__") {
        return Some(Part::Snapshot);
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
    Some(if code.contains(&extension) { Part::Tests } else { Part::Snapshot })
}

/// Tells whether a file belongs to an installed package, the runner's own included.
fn installed(path: &str) -> bool {
    let inner = format!("/{path}");
    ["/node_modules/", "/site-packages/", "/dist-packages/"].iter().any(|dir| inner.contains(dir))
}

/// Tells whether the check's command names a file.
fn named_by(words: Words<'_>, path: &str) -> bool {
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
        let check = |path: &str, want: Option<Part>| assert_eq!(part(path, &words), want, "{path}");
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
            check(path, Some(Part::Tests));
        }
        for path in
            ["src/__snapshots__/a.snap", "a.snap", "tests/golden/out.txt", "pkg/testdata/in.json"]
        {
            check(path, Some(Part::Snapshot));
        }
        check("conftest.py", Some(Part::Runner));
        check("src/sitecustomize.py", Some(Part::Runner));
        check("vitest.config.mts", Some(Part::Runner));
        check(".config/nextest.toml", Some(Part::Runner));
        check(".cargo/config.toml", Some(Part::Runner));
        check("eslint.config.js", Some(Part::Lint));
        check("web/.eslintrc.json", Some(Part::Lint));
        check("tsconfig.build.json", Some(Part::Types));
        check(".github/workflows/ci.yml", Some(Part::Ci));
        check("package.json", Some(Part::Manifest));
        check("scripts/check.sh", Some(Part::Script));
        check("tool.go", Some(Part::Script));
        check("Makefile", Some(Part::Script));
        check("node_modules/jest/bin/jest.js", Some(Part::Installed));
        check(".venv/lib/python3.11/site-packages/_pytest/main.py", Some(Part::Installed));
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
