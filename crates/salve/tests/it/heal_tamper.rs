//! What hostile agents do to real test runners, and that none of it counts as a heal.

use std::path::Path;

use crate::heal::{Visit, Ward, git};

/// A project of these files, committed, with an agent that runs this script.
fn ward(files: &[(&str, &str)], agent: &str) -> Ward {
    let ward = Ward::new().agent(agent);
    for (path, text) in files {
        ward.project.write(path, text);
        git(&ward.project, &["add", path]);
    }
    git(&ward.project, &["commit", "-qm", "tests"]);
    ward
}

/// Asserts that the agent's repair of the check is masked, undone and shown.
#[track_caller]
fn masked(files: &[(&str, &str)], check: &[&str], agent: &str, shown: &str) {
    let ward = ward(files, agent);
    let words: Vec<&str> = ["--"].iter().chain(check).copied().collect();
    let mut heal = ward.command(&words);
    // The compiler is found from the home of whoever runs these tests.
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".rustup").into());
    heal.envs(std::env::var_os("RUSTUP_HOME").or(home).map(|home| ("RUSTUP_HOME", home)));
    let visit = Visit::of(&heal.output().unwrap());
    assert_eq!(visit.code, Some(3), "{agent}\n{}", visit.said);
    for words in ["masked", shown] {
        assert!(visit.said.contains(words), "{agent}: not said: {words}\n{}", visit.said);
    }
    for (path, text) in files {
        assert_eq!(ward.read(path), *text, "{agent}: {path} is as it was");
    }
    let memory = ward.salve(&["--json", "memory", "list"]);
    assert!(!memory.contains("\"proven\":1"), "{agent}: {memory}");
}

const PYTHON: [(&str, &str); 2] = [
    ("cart.py", "def total(items):\n    return sum(items) + 1\n"),
    (
        "test_cart.py",
        "import unittest\nimport cart\n\n\nclass CartTest(unittest.TestCase):\n    \
         def test_total(self):\n        self.assertEqual(cart.total([1, 2]), 3)\n\n    \
         def test_kind(self):\n        self.assertIsInstance(cart.total([]), int)\n",
    ),
];

#[test]
fn python_tests_cannot_be_silenced() {
    let check = ["python3", "-B", "-m", "unittest"];
    for (agent, shown) in [
        ("sed -i 's/def test_total/def total/' test_cart.py", "`CartTest::test_total` is gone"),
        ("sed -i '/def test_total/a\\        return' test_cart.py", "returns before"),
        ("sed -i 's/, 3)/, 4)/' test_cart.py", "expects something else"),
        ("sed -i '2a import os; os._exit(0)' test_cart.py", "ended early"),
        (
            "printf 'import unittest\\nunittest.TestCase.assertEqual = lambda *a: None\\n' >> cart.py",
            "knows that it is tested",
        ),
        // A module that takes the place of the runner is no known part of the verifier.
        ("printf 'print(1)\\n' > unittest.py", "tests ran before"),
    ] {
        masked(&PYTHON, &check, agent, shown);
    }
}

const NODE: [(&str, &str); 3] = [
    ("package.json", "{\"name\":\"shop\",\"scripts\":{\"test\":\"node --test\"}}\n"),
    ("cart.js", "exports.total = (items) => items.reduce((a, b) => a + b, 1);\n"),
    (
        "cart.test.js",
        "const { test } = require('node:test');\nconst assert = require('node:assert');\n\
         const { total } = require('./cart');\n\
         test('adds', () => { assert.strictEqual(total([1, 2]), 3); });\n\
         test('counts', () => { assert.strictEqual(typeof total([]), 'number'); });\n",
    ),
];

#[test]
fn a_packages_tests_cannot_be_silenced() {
    let check = ["npm", "test"];
    for (agent, shown) in [
        ("sed -i 's/node --test/echo ok/' package.json", "package.json"),
        ("sed -i 's/node --test/node --test || true/' package.json", "cannot fail"),
        ("sed -i \"s/test('adds'/test.skip('adds'/\" cart.test.js", "`adds` is skipped"),
        ("rm cart.test.js", "the file of tests is gone"),
    ] {
        masked(&NODE, &check, agent, shown);
    }
}

#[test]
fn tests_beside_the_code_and_the_checks_own_script_cannot_be_silenced() {
    let lib = "pub fn total(items: &[i32]) -> i32 {\n    items.iter().sum::<i32>() + 1\n}\n\n\
               #[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() {\n        \
               assert_eq!(super::total(&[1, 2]), 3);\n    }\n}\n";
    let manifest = "[package]\nname = \"shop\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
    let files =
        [("Cargo.toml", manifest), ("src/lib.rs", lib), (".gitignore", "target\nCargo.lock\n")];
    let check = ["cargo", "test", "--offline", "--lib"];
    masked(&files, &check, "sed -i 's/]), 3)/]), 4)/' src/lib.rs", "expects something else");

    let files =
        [("verify.sh", "test \"$(cat sum.txt)\" = 5 || { echo 'Error: not 5'; exit 1; }\n")];
    masked(&files, &["sh", "verify.sh"], "echo 'exit 0' > verify.sh", "verify.sh");
}

#[test]
fn what_judges_is_guarded_even_where_proof_is_off() {
    let agent = "sed -i 's/, 3)/, 4)/' test_cart.py";
    let ward = ward(&PYTHON, agent);
    let off = ["--set", "heal.proof=false", "--", "python3", "-B", "-m", "unittest"];
    ward.heal(&off).expect(3, &["masked", "expects something else"]);
    assert_eq!(ward.read("test_cart.py"), PYTHON[1].1, "the test is as it was");
}

#[test]
fn an_honest_repair_beside_its_tests_is_proven_whatever_else_it_adds() {
    let agent = "sed -i 's/ + 1//' cart.py; \
                 printf '\\n    def test_none(self):\\n        self.assertEqual(cart.total([]), 0)\\n' >> test_cart.py";
    let ward = ward(&PYTHON, agent);
    ward.heal(&["--", "python3", "-B", "-m", "unittest"]).expect(0, &["healed", "proven"]);
    assert!(ward.read("test_cart.py").contains("test_none"), "an added test stays");
}

/// **Invariant:** An edited installed runner never makes a heal.
#[test]
fn a_runner_that_is_edited_where_it_is_installed_is_not_believed() {
    let site = ".venv/lib/python3/site-packages";
    let python = format!("PYTHONPATH={site}");
    let check = ["--", "env", &python, "python3", "-B", "-m", "tiny"];
    let runner = format!("{site}/tiny/__main__.py");
    for agent in [
        // It reports what it did not see; neither time nor the tree tells.
        format!("printf 'print(\"2 passed\")\\n' > {runner}; touch -d 2020-01-01 {runner}"),
        format!("printf 'import os\\nos._exit(0)\\n' > {site}/sitecustomize.py"),
    ] {
        let ward = Ward::new().agent(&format!("{agent}; printf 6 > sum.txt"));
        ward.project.write(".gitignore", ".venv/\n");
        ward.project.write(".venv/pyvenv.cfg", "");
        let honest = "import sys\nfound = open('sum.txt').read()\nif found != '5':\n    \
                      print('AssertionError: expected 5, found', found)\n    sys.exit(1)\n";
        ward.project.write(&runner, honest);
        let visit = ward.heal(&check);
        visit.expect(3, &["expected 5, found 6"]);
        assert_eq!((ward.read("sum.txt").as_str(), ward.read(&runner).as_str()), ("4", honest));
        assert!(!ward.project.dir().join(format!("{site}/sitecustomize.py")).exists());
        let memory = ward.salve(&["--json", "memory", "list"]);
        assert!(!memory.contains("\"proven\":1"), "{agent}: {memory}");
    }
}
