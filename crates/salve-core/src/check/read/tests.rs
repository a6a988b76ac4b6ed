//! Real outputs of real tools, shortened, and anything else that may come.

use proptest::prelude::*;

use super::*;

/// What a row expects: the failed cases as `file:line name`, and the counts in their order.
struct Want {
    tool: CheckTool,
    failed: &'static [&'static str],
    /// Passed, failed, skipped, errors, total; -1 where the output does not say.
    counts: [i64; 5],
}

fn shown(case: &FailedCase) -> String {
    let line = case.line.map_or(String::new(), |line| format!(":{line}"));
    format!("{}{line} {}", case.file.as_deref().unwrap_or("-"), case.name)
}

#[track_caller]
fn check(output: &str, want: &Want) {
    let crlf = output.replace('\n', "\r\n");
    let coloured =
        output.replace("FAIL", "\x1b[31m\x1b[1mFAIL\x1b[0m").replace("  ● ", "\x1b[1m  ● \x1b[22m");
    let noisy = format!("> app@1.0.0 test\n> run\n\n{output}\nnpm error code ELIFECYCLE\n");
    for output in [output, &crlf, &coloured, &noisy] {
        let got = read(output);
        assert_eq!(got.tool, Some(want.tool), "{output}");
        assert_eq!(got.failed.iter().map(shown).collect::<Vec<_>>(), want.failed, "{output}");
        let counts = got.counts;
        let counts = [counts.passed, counts.failed, counts.skipped, counts.errors, counts.total];
        assert_eq!(counts.map(|count| count.map_or(-1, i64::from)), want.counts, "{output}");
    }
}

#[track_caller]
fn places(output: &str, want: &[(&str, u32)]) {
    let got = read(output).places;
    let got: Vec<_> = got.iter().map(|p| (p.file.as_str(), p.line.unwrap_or(0))).collect();
    assert_eq!(got, want, "{output}");
}

const PYTEST: &str = "\
============================= test session starts ==============================
platform linux -- Python 3.11.7, pytest-9.2.0, pluggy-1.7.0
collected 8 items

tests/test_price.py F..FFsxE                                             [100%]

=================================== FAILURES ===================================
__________________________________ test_total __________________________________

    def test_total():
>       assert total([1, 2]) == 3
E       assert 4 == 3
E        +  where 4 = total([1, 2])

tests/test_price.py:4: AssertionError
=========================== short test summary info ============================
FAILED tests/test_price.py::test_total - assert 4 == 3
FAILED tests/test_price.py::TestMore::test_str[a b] - AssertionError: assert '...
FAILED tests/test_price.py::TestMore::test_str[x::y - z] - AssertionError: ass...
ERROR tests/test_price.py::test_fix - ValueError: no fixture
ERROR tests/test_gone.py
========== 3 failed, 2 passed, 1 skipped, 1 xfailed, 2 errors in 0.08s ==========
";

#[test]
fn pytest_names_its_cases_in_the_summary() {
    check(
        PYTEST,
        &Want {
            tool: CheckTool::Pytest,
            failed: &[
                "tests/test_price.py tests/test_price.py::test_total",
                "tests/test_price.py tests/test_price.py::TestMore::test_str[a b]",
                "tests/test_price.py tests/test_price.py::TestMore::test_str[x::y - z]",
                "tests/test_price.py tests/test_price.py::test_fix",
                "tests/test_gone.py tests/test_gone.py",
            ],
            counts: [2, 3, 2, 2, 7],
        },
    );
    places(PYTEST, &[("tests/test_price.py", 4)]);
}

#[test]
fn pytest_without_summary_names_them_as_it_runs() {
    check(
        "tests/test_a.py::test_one PASSED  [ 50%]\n\
         tests/test_a.py::test_two[x y] FAILED  [100%]\n\
         1 failed, 1 passed, 2 warnings in 61.20s (0:01:01)\n",
        &Want {
            tool: CheckTool::Pytest,
            failed: &["tests/test_a.py tests/test_a.py::test_two[x y]"],
            counts: [1, 1, 0, 0, 2],
        },
    );
    check(
        "[gw1] [ 50%] FAILED tests/test_a.py::test_two \n1 failed, 1 passed in 1.20s\n",
        &Want {
            tool: CheckTool::Pytest,
            failed: &["tests/test_a.py tests/test_a.py::test_two"],
            counts: [1, 1, 0, 0, 2],
        },
    );
    check(
        "no tests ran in 0.00s\n",
        &Want { tool: CheckTool::Pytest, failed: &[], counts: [0, 0, -1, -1, 0] },
    );
}

#[test]
fn unittest_of_any_python() {
    let rule = "=".repeat(70);
    let output = format!(
        "FE.s\n{rule}\nERROR: test_b (shop.test_u.T.test_b)\nSays what it does.\n{}\n\
         Traceback (most recent call last):\n  File \"/p/shop/test_u.py\", line 4, in test_b\n\
         \x20   pay()\n  File \"/p/shop/pay.py\", line 9, in pay\nKeyError: 'k'\n\n\
         {rule}\nFAIL: test_a (shop.test_u.T)\n{}\nAssertionError: 1 != 2\n\n\
         {}\nRan 4 tests in 0.001s\n\nFAILED (failures=1, errors=1, skipped=1)\n",
        "-".repeat(70),
        "-".repeat(70),
        "-".repeat(70)
    );
    check(
        &output,
        &Want {
            tool: CheckTool::Unittest,
            failed: &["/p/shop/test_u.py:4 shop.test_u.T.test_b", "- shop.test_u.T.test_a"],
            counts: [1, 1, 1, 1, 4],
        },
    );
    check(
        "..\n-----\nRan 2 tests in 0.001s\n\nOK\n",
        &Want { tool: CheckTool::Unittest, failed: &[], counts: [2, 0, 0, 0, 2] },
    );
}

const JEST: &str = "\
FAIL src/sum.test.js
  ● sum › adds

    expect(received).toBe(expected) // Object.is equality

    Expected: 3
    Received: 2

    > 2 |   test('adds', () => { expect(1+1).toBe(3); });
        |                                    ^

      at Object.toBe (src/sum.test.js:2:36)

  ● sum › deep › arrow › fails too

    TypeError: boom

      at Object.<anonymous> (src/sum.test.js:5:72)

FAIL src/load.test.js (5.21 s)
  ● Test suite failed to run

    Cannot find module './nope' from 'src/load.test.js'

      at Resolver._throwModNotFoundError (node_modules/jest-resolve/build/index.js:1031:11)
      at Object.require (src/load.test.js:1:11)

PASS src/fine.test.js
  ● Console

    console.log
      hello

Test Suites: 2 failed, 1 passed, 3 total
Tests:       2 failed, 1 skipped, 1 todo, 2 passed, 6 total
Snapshots:   1 failed, 1 total
Time:        0.98 s
Ran all test suites.
";

#[test]
fn jest_names_files_and_titles() {
    check(
        JEST,
        &Want {
            tool: CheckTool::Jest,
            failed: &[
                "src/sum.test.js sum › adds",
                "src/sum.test.js sum › deep › arrow › fails too",
                "src/load.test.js src/load.test.js",
            ],
            counts: [2, 2, 2, -1, 6],
        },
    );
    places(JEST, &[("src/sum.test.js", 2), ("src/sum.test.js", 5), ("src/load.test.js", 1)]);
    check(
        "No tests found, exiting with code 1\nRun with `--passWithNoTests` to exit with code 0\n",
        &Want { tool: CheckTool::Jest, failed: &[], counts: [0, -1, -1, -1, 0] },
    );
}

#[test]
fn vitest_names_files_and_titles() {
    check(
        " RUN  v4.1.12 /p\n\n ❯ src/sum.test.ts (4 tests | 2 failed | 1 skipped) 19ms\n     × adds 14ms\n\n\
         ⎯⎯⎯⎯⎯⎯ Failed Suites 1 ⎯⎯⎯⎯⎯⎯⎯\n\n FAIL  src/load.test.ts [ src/load.test.ts ]\n\
         Error: Cannot find module './nope' imported from /p/src/load.test.ts\n ❯ src/load.test.ts:1:1\n\n\
         ⎯⎯⎯⎯⎯⎯⎯ Failed Tests 2 ⎯⎯⎯⎯⎯⎯⎯\n\n FAIL  src/sum.test.ts > sum > adds\n\
         AssertionError: expected 2 to be 3\n ❯ src/sum.test.ts:3:36\n\n\
         \x20FAIL  |web| src/sum.test.ts > sum > deep > fails too\nTypeError: boom\n\n\
         \x20Test Files  2 failed (2)\n      Tests  2 failed | 1 passed | 1 skipped (4)\n   Duration  955ms\n",
        &Want {
            tool: CheckTool::Vitest,
            failed: &[
                "src/load.test.ts src/load.test.ts",
                "src/sum.test.ts sum > adds",
                "src/sum.test.ts sum > deep > fails too",
            ],
            counts: [1, 2, 1, -1, 4],
        },
    );
}

#[test]
fn mocha_numbers_its_failures() {
    check(
        "\n\n  sum\n    1) adds\n    ✔ ok\n    - later\n\n\n  1 passing (25ms)\n  1 pending\n  3 failing\n\n\
         \x20 1) sum\n       adds:\n\n      AssertionError [ERR_ASSERTION]: 2 == 3\n      + expected - actual\n\n\
         \x20     at Context.<anonymous> (test/sum.spec.js:3:29)\n\
         \x20     at process.processImmediate (node:internal/timers:483:21)\n\n\
         \x20 2) top level:\n     TypeError: boom\n      at Context.<anonymous> (test/sum.spec.js:9:32)\n\n\
         \x20 3) sum\n       hooky\n         \"before all\" hook for \"never\":\n     Error: hook\n",
        &Want {
            tool: CheckTool::Mocha,
            failed: &[
                "test/sum.spec.js:3 sum adds",
                "test/sum.spec.js:9 top level",
                "- sum hooky \"before all\" hook for \"never\"",
            ],
            counts: [1, 3, 1, -1, 5],
        },
    );
}

#[test]
fn node_writes_tap_or_for_people() {
    check(
        "TAP version 13\n# Subtest: adds\nnot ok 1 - adds\n  ---\n  location: '/p/a.test.js:2:1'\n\
         \x20 failureType: 'testCodeFailure'\n  ...\n# Subtest: later\nnot ok 2 - later # TODO\n  ---\n\
         \x20 location: '/p/a.test.js:5:1'\n  ...\n# Subtest: group\n    # Subtest: inner\n    not ok 1 - inner\n\
         \x20     ---\n      location: '/p/a.test.js:6:27'\n      failureType: 'testCodeFailure'\n      ...\n\
         \x20   1..1\nnot ok 3 - group\n  ---\n  location: '/p/a.test.js:6:1'\n\
         \x20 failureType: 'subtestsFailed'\n  ...\n# Subtest: /p/b.test.js\nnot ok 4 - /p/b.test.js\n  ---\n\
         \x20 location: '/p/b.test.js:1:1'\n  ...\n1..4\n# tests 5\n# suites 1\n# pass 1\n# fail 3\n\
         # cancelled 0\n# skipped 0\n# todo 1\n# duration_ms 430.6\n",
        &Want {
            tool: CheckTool::NodeTest,
            failed: &[
                "/p/a.test.js:2 adds",
                "/p/a.test.js:6 group > inner",
                "/p/b.test.js:1 /p/b.test.js",
            ],
            counts: [1, 3, 1, -1, 5],
        },
    );
    check(
        "▶ group\n  ✖ inner (0.4ms)\n✖ group (1.4ms)\nℹ tests 3\nℹ suites 1\nℹ pass 1\nℹ fail 2\nℹ cancelled 0\n\
         ℹ skipped 0\nℹ todo 0\nℹ duration_ms 4\n\n✖ failing tests:\n\ntest at lib/a.test.js:6:27\n\
         ✖ inner (0.296384ms)\n  Error: boom\n\ntest at lib/b.test.js:1:1\n✖ /p/lib/b.test.js (157.9ms)\n",
        &Want {
            tool: CheckTool::NodeTest,
            failed: &["lib/a.test.js:6 inner", "lib/b.test.js:1 lib/b.test.js"],
            counts: [1, 2, 0, -1, 3],
        },
    );
}

const CARGO: &str = "\
   Compiling demo v0.1.0 (/p)
     Running unittests src/lib.rs (target/debug/deps/demo-8348ca7a80742723)

running 4 tests
test tests::no_panic - should panic ... FAILED
test tests::ok ... ok
test tests::slow ... ignored
test tests::adds ... FAILED

failures:

---- tests::adds stdout ----

thread 'tests::adds' (9472) panicked at src/lib.rs:11:17:
assertion `left == right` failed
  left: 2
 right: 3
failures:
    not::a_test but output


failures:
    tests::adds
    tests::no_panic

test result: FAILED. 1 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.20s

error: test failed, to rerun pass `--lib`
   Doc-tests demo

running 1 test
test src/lib.rs - add (line 3) ... FAILED

test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.19s
";

#[test]
fn cargo_sums_all_its_programs() {
    check(
        &CARGO.replace("failures:\n    not::a_test but output\n", ""),
        &Want {
            tool: CheckTool::CargoTest,
            failed: &[
                "- tests::no_panic",
                "src/lib.rs:11 tests::adds",
                "- src/lib.rs - add (line 3)",
            ],
            counts: [1, 3, 1, -1, 5],
        },
    );
    places(CARGO, &[("src/lib.rs", 11)]);
}

#[test]
fn nextest_lists_its_failures() {
    check(
        "        PASS [   0.004s] (1/5) demo tests::ok\n        FAIL [   0.163s] (5/5) demo tests::adds\n\
         \x20 stdout ───\n\n    running 1 test\n    test tests::adds ... FAILED\n\n    failures:\n        tests::adds\n\n\
         \x20   test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.14s\n\n\
         \x20 stderr ───\n    thread 'tests::adds' (9597) panicked at src/lib.rs:11:17:\n────────────\n\
         \x20    Summary [   0.168s] 5 tests run: 2 passed, 3 failed, 1 skipped\n\
         \x20       FAIL [   0.017s] demo::it whole\n        FAIL [   0.163s] (5/5) demo tests::adds\nerror: test run failed\n",
        &Want {
            tool: CheckTool::Nextest,
            failed: &["src/lib.rs:11 tests::adds", "- whole"],
            counts: [2, 3, 1, -1, 6],
        },
    );
}

#[test]
fn go_names_tests_and_packages() {
    check(
        "# example.com/demo/other [example.com/demo/other.test]\n\
         other/o.go:2:23: cannot use \"x\" (untyped string constant) as int value in return statement\n\
         --- FAIL: TestAdd (0.00s)\n    a_test.go:3: got 2\n--- FAIL: TestTable (0.00s)\n\
         \x20   --- FAIL: TestTable/one_two (0.00s)\n        a_test.go:6: no\nFAIL\nFAIL\texample.com/demo\t0.006s\n\
         FAIL\texample.com/demo/other [build failed]\nok  \texample.com/demo/fine\t0.003s\nFAIL\n",
        &Want {
            tool: CheckTool::GoTest,
            failed: &[
                "a_test.go:3 TestAdd",
                "a_test.go:6 TestTable/one_two",
                "example.com/demo/other example.com/demo/other",
                "other/o.go:2 cannot use \"x\" (untyped string constant) as int value in return statement",
            ],
            counts: [-1, 3, -1, 2, -1],
        },
    );
    check(
        "=== RUN   TestAdd\n    a_test.go:3: got 2\n--- FAIL: TestAdd (0.00s)\n=== RUN   TestOK\n\
         --- PASS: TestOK (0.00s)\n=== RUN   TestSkip\n    a_test.go:5: later\n--- SKIP: TestSkip (0.00s)\n\
         FAIL\nFAIL\texample.com/demo\t0.008s\n",
        &Want {
            tool: CheckTool::GoTest,
            failed: &["a_test.go:3 TestAdd"],
            counts: [1, 1, 1, 0, 3],
        },
    );
}

#[test]
fn compilers_name_file_line_and_error() {
    check(
        "src/t.ts(1,7): error TS2322: Type 'string' is not assignable to type 'number'.\n\
         src/u.ts:2:19 - error TS7006: Parameter 'a' implicitly has an 'any' type.\n\n\
         error TS18003: No inputs were found in config file.\n\n\
         Found 2 errors in 2 files.\n\nErrors  Files\n     1  src/t.ts:1\n",
        &Want {
            tool: CheckTool::Tsc,
            failed: &[
                "src/t.ts:1 TS2322: Type 'string' is not assignable to type 'number'.",
                "src/u.ts:2 TS7006: Parameter 'a' implicitly has an 'any' type.",
                "- TS18003: No inputs were found in config file.",
            ],
            counts: [-1, -1, -1, 3, -1],
        },
    );
    check(
        "m.py:3: error: Incompatible return value type  [return-value]\nm.py:9:5: note: See here\n\
         Found 1 error in 1 file (checked 1 source file)\n",
        &Want {
            tool: CheckTool::Mypy,
            failed: &["m.py:3 Incompatible return value type  [return-value]"],
            counts: [-1, -1, -1, 1, -1],
        },
    );
    check(
        "/p/m.py\n  /p/m.py:3:12 - error: Type \"int\" is not assignable (reportReturnType)\n\
         1 error, 0 warnings, 0 informations\n",
        &Want {
            tool: CheckTool::Pyright,
            failed: &["/p/m.py:3 Type \"int\" is not assignable (reportReturnType)"],
            counts: [-1, -1, -1, 1, -1],
        },
    );
    check(
        "main.c: In function 'main':\nmain.c:3:5: error: 'x' undeclared (first use in this function)\n",
        &Want {
            tool: CheckTool::Cc,
            failed: &["main.c:3 'x' undeclared (first use in this function)"],
            counts: [-1, -1, -1, 1, -1],
        },
    );
    check(
        "warning: unused variable: `y`\n --> src/main.rs:2:9\n\nerror[E0308]: mismatched types\n --> src/main.rs:1:25\n  |\n\
         error: unused import: `a`\n   --> src/lib.rs:4:5\n\n\
         error: could not compile `demo` (bin \"demo\") due to 2 previous errors\n",
        &Want {
            tool: CheckTool::Rustc,
            failed: &["src/main.rs:1 E0308 mismatched types", "src/lib.rs:4 unused import: `a`"],
            counts: [-1, -1, -1, 2, -1],
        },
    );
    check(
        "error: linking with `cc` failed: exit status: 1\nerror: could not compile `demo` (lib)\n",
        &Want {
            tool: CheckTool::Rustc,
            failed: &["- could not compile `demo` (lib)"],
            counts: [-1, -1, -1, 0, -1],
        },
    );
}

#[test]
fn linters_name_file_line_and_rule() {
    check(
        "\n/p/src/bad.js\n  3:10  error  Parsing error: Unexpected token (\n\n/p/src/l.js\n\
         \x20 1:12  error    Missing semicolon                    semi\n\
         \x20 2:7   warning  Expected '===' and instead saw '=='  eqeqeq\n\n✖ 3 problems (2 errors, 1 warning)\n",
        &Want {
            tool: CheckTool::Eslint,
            failed: &[
                "/p/src/bad.js:3 Parsing error: Unexpected token (",
                "/p/src/l.js:1 semi Missing semicolon",
            ],
            counts: [-1, -1, -1, 2, -1],
        },
    );
    check(
        "/p/src/l.js\n  2:7  warning  Expected '==='  eqeqeq\n\n✖ 1 problem (0 errors, 1 warning)\n\n\
         ESLint found too many warnings (maximum: 0).\n",
        &Want {
            tool: CheckTool::Eslint,
            failed: &["/p/src/l.js:2 eqeqeq Expected '==='"],
            counts: [-1, -1, -1, 0, -1],
        },
    );
    check(
        "F401 [*] `os` imported but unused\n --> m.py:1:8\n  |\n1 | import os, sys\n  |        ^^\nhelp: Remove unused import\n\n\
         F821 Undefined name `undefined`\n --> m.py:5:7\n\nFound 2 errors.\n[*] 1 fixable with `--fix`.\n",
        &Want {
            tool: CheckTool::Ruff,
            failed: &[
                "m.py:1 F401 `os` imported but unused",
                "m.py:5 F821 Undefined name `undefined`",
            ],
            counts: [-1, -1, -1, 2, -1],
        },
    );
    check(
        "m.py:1:8: F401 [*] `os` imported but unused\nFound 1 error.\n",
        &Want {
            tool: CheckTool::Ruff,
            failed: &["m.py:1 F401 `os` imported but unused"],
            counts: [-1, -1, -1, 1, -1],
        },
    );
    check(
        "src/bad.js:1:7 lint/correctness/noUnusedVariables  FIXABLE  ━━━━━━━━━━\n\n  ! This variable a is unused.\n\n\
         src/bad.js:2:7 lint/suspicious/noDoubleEquals  FIXABLE  ━━━━━━━━━━━━━\n\n  × Using == may be unsafe.\n\n\
         Checked 3 files in 7ms. No fixes applied.\nFound 1 error.\nFound 1 warning.\n",
        &Want {
            tool: CheckTool::Biome,
            failed: &["src/bad.js:2 lint/suspicious/noDoubleEquals Using == may be unsafe."],
            counts: [-1, -1, -1, 1, -1],
        },
    );
}

#[test]
fn of_a_watching_tool_only_the_last_run_counts() {
    let run = |failed: u32| {
        format!(
            "FAIL src/a.test.js\n  ● n{failed}\n\nTest Suites: 1 failed, 1 total\n\
             Tests:       {failed} failed, 4 total\nRan all test suites.\n\n\
             Watch Usage: Press w to show more.\n"
        )
    };
    let got = read(&format!("{}{}", run(3), run(2)));
    assert_eq!(got.counts.failed, Some(2));
    assert_eq!(got.failed.iter().map(shown).collect::<Vec<_>>(), ["src/a.test.js n2"]);
}

#[test]
fn two_tools_in_one_output_are_put_together_and_the_red_one_leads() {
    let types = "src/t.ts(1,7): error TS2322: Type 'string' is not assignable to type 'number'.\n";
    let green = "Test Suites: 1 passed, 1 total\nTests:       4 passed, 4 total\n";
    let got = read(&format!("{types}{green}"));
    assert_eq!((got.tool, got.counts.passed, got.failed.len()), (Some(CheckTool::Tsc), Some(4), 1));
    let twice = read(&format!("{green}{green}"));
    assert_eq!(twice.counts.total, Some(8));
}

#[test]
fn an_unknown_tool_leaves_only_places() {
    let got = read("boom in ./lib/thing.ex:12: undefined function\nFAILED once more\n");
    assert_eq!((got.tool, got.failed.len(), got.counts), (None, 0, TestCounts::default()));
    assert_eq!(got.places, [ErrorPlace { file: "lib/thing.ex".into(), line: Some(12) }]);
}

#[test]
fn results_of_two_trees_compare_once_they_are_relative() {
    let of = |root: &str| {
        let text = format!("{root}/a.py:3:12 - error: bad\n1 error, 0 warnings, 0 informations\n");
        read(&text).relative_to(root)
    };
    assert_eq!(of("/p/real"), of("/tmp/shadow"));
    assert!(of("/p/real").shares_a_failure_with(&of("/tmp/shadow")));
    assert_eq!(of("/p/real").files(), ["a.py"]);
}

#[test]
fn a_huge_output_is_read_in_linear_time_and_kept_small() {
    let line =
        "--- FAIL: TestA/b (0.00s)\ntest a::b ... FAILED\na.rs:1:2: error: x\n    b.go:3: y\n";
    let many: String = (0..40_000).map(|n| line.replace("TestA", &format!("Test{n}"))).collect();
    let got = read(&format!("running 3 tests\n{many}FAIL\tpkg\t0.1s\n"));
    assert!(got.cut && got.failed.len() <= MOST_CASES && got.places.len() <= MOST_PLACES);
    for unit in ["● ", ": ", "[", "a:1:", "(", " > ", "\x1b[", "🦀", "'"] {
        let _ = read(&unit.repeat(1_000_000 / unit.len()));
    }
}

proptest! {
    #[test]
    fn anything_is_read_within_bounds(text in "(?s).{0,400}") {
        let got = read(&text);
        prop_assert!(got.failed.len() <= MOST_CASES && got.places.len() <= MOST_PLACES);
    }

    #[test]
    fn pieces_of_real_outputs_in_any_order_are_read(
        picks in prop::collection::vec((0..3_usize, 0..60_usize), 0..40)
    ) {
        let texts = [PYTEST, JEST, CARGO];
        let line = |(text, line): &(usize, usize)| texts[*text].lines().nth(*line).unwrap_or("");
        let mixed: Vec<_> = picks.iter().map(line).collect();
        let got = read(&mixed.join("\n"));
        prop_assert!(got.failed.iter().all(|case| !case.name.is_empty()));
    }
}
