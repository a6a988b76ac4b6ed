//! Outputs of tests that executed, and of tests that could not.

use super::*;
use crate::check;
use crate::fingerprint::{FingerprintRules, Hints};
use Execution::{All, InVain, Nothing, Partly};
use TestsTrouble as A;

/// What ran, what it wrote, and how much of it executed.
const OUTPUTS: &[(&str, &str, i32, Execution)] = &[
    (
        "pytest, an assertion",
        "===== test session starts =====\ncollected 2 items\n\ntest_a.py .F   [100%]\n\n\
         ===== FAILURES =====\n    def test_b():\n>       assert 1 == 2\nE       assert 1 == 2\n\n\
         test_a.py:5: AssertionError\n===== short test summary info =====\n\
         FAILED test_a.py::test_b - assert 1 == 2\n===== 1 failed, 1 passed in 0.02s =====\n",
        1,
        All,
    ),
    (
        "pytest, nothing could be collected",
        "===== test session starts =====\ncollected 0 items / 1 error\n\n===== ERRORS =====\n\
         ImportError while importing test module '/srv/shop/test_a.py'.\n\
         E   ModuleNotFoundError: No module named 'requests'\n\
         ===== short test summary info =====\nERROR test_a.py\n\
         !!!!! Interrupted: 1 error during collection !!!!!\n===== 1 error in 0.05s =====\n",
        2,
        Nothing,
    ),
    ("pytest is not there", "/usr/bin/python3: No module named pytest\n", 1, Nothing),
    (
        "jest, an assertion",
        "FAIL src/a.test.js\n  ● adds\n\n    expect(received).toBe(expected)\n\n\
         Test Suites: 1 failed, 1 total\nTests:       1 failed, 1 passed, 2 total\n",
        1,
        All,
    ),
    (
        "jest, a suite that could not run beside one that did",
        "PASS src/b.test.js\nFAIL src/a.test.js\n  ● Test suite failed to run\n\n\
             Cannot find module 'lodash' from 'src/a.test.js'\n\n\
         Test Suites: 1 failed, 1 passed, 2 total\nTests:       3 passed, 3 total\n",
        1,
        Partly,
    ),
    (
        "jest, no suite could run",
        "FAIL src/a.test.js\n  ● Test suite failed to run\n\n\
             Cannot find module 'lodash' from 'src/a.test.js'\n\n\
         Test Suites: 1 failed, 1 total\nTests:       0 total\n",
        1,
        Nothing,
    ),
    (
        "vitest, an assertion",
        " FAIL  src/a.test.ts > adds\nAssertionError: expected 3 to be 4\n\n \
         Test Files  1 failed (1)\n      Tests  1 failed | 2 passed (3)\n",
        1,
        All,
    ),
    (
        "vitest could not start",
        "failed to load config from /srv/shop/vitest.config.ts\n\n⎯ Startup Error ⎯\n\
         Error: Cannot start service: Host version \"0.21.5\" does not match binary version \
         \"0.27.2\"\n",
        1,
        Nothing,
    ),
    (
        "vitest, a suite that could not be loaded",
        " FAIL  src/a.test.ts [ src/a.test.ts ]\nError: Failed to resolve import \"lodash\" from \
         \"src/a.ts\"\n\n Test Files  1 failed (1)\n      Tests  no tests\n",
        1,
        Nothing,
    ),
    (
        "mocha, an assertion",
        "  sum\n    1) adds\n\n  0 passing (3ms)\n  1 failing\n\n  1) sum\n       adds:\n\n      \
         AssertionError: 1 == 2\n      at Context.<anonymous> (test/a.js:4:10)\n",
        1,
        All,
    ),
    (
        "mocha could not load a file",
        "Error: Cannot find module 'chai'\nRequire stack:\n- /srv/shop/test/a.js\n    at \
         Function._resolveFilename (node:internal/modules/cjs/loader:1225:15)\n",
        1,
        Nothing,
    ),
    (
        "node --test, an assertion",
        "TAP version 13\n# Subtest: adds\nnot ok 1 - adds\n  ---\n  duration_ms: 1.2\n  failureType: \
         'testCodeFailure'\n  error: 'Expected values to be strictly equal'\n  code: \
         'ERR_ASSERTION'\n  ...\n1..1\n# tests 1\n# suites 0\n# pass 0\n# fail 1\n# cancelled 0\n# \
         skipped 0\n# todo 0\n",
        1,
        All,
    ),
    (
        "cargo test, an assertion",
        "running 1 test\ntest adds ... FAILED\n\nfailures:\n\n---- adds stdout ----\nthread 'adds' \
         panicked at src/lib.rs:8:9:\nassertion `left == right` failed\n\nfailures:\n    adds\n\n\
         test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished \
         in 0.00s\n",
        101,
        All,
    ),
    (
        "cargo test does not compile",
        "   Compiling shop v0.1.0 (/srv/shop)\nerror[E0425]: cannot find value `total` in this \
         scope\n --> src/lib.rs:4:5\n\nerror: could not compile `shop` (lib test) due to 1 previous \
         error\n",
        101,
        Nothing,
    ),
    (
        "go test, an assertion",
        "--- FAIL: TestAdd (0.00s)\n    a_test.go:7: got 3, want 4\nFAIL\nFAIL\texample.com/shop\t\
         0.002s\nFAIL\n",
        1,
        All,
    ),
    (
        "go test does not build",
        "# example.com/shop [example.com/shop.test]\n./a_test.go:6:10: undefined: Add\nFAIL\t\
         example.com/shop [build failed]\nFAIL\n",
        1,
        Nothing,
    ),
    (
        "node --test, every test lacks a package",
        "TAP version 13\n# Subtest: adds\nnot ok 1 - adds\n  ---\n  duration_ms: 1.2\n  failureType: \
         'testCodeFailure'\n  error: \"Cannot find module 'left-pad'\"\n  code: \
         'MODULE_NOT_FOUND'\n  ...\n# Subtest: subtracts\nnot ok 2 - subtracts\n  ---\n  \
         failureType: 'testCodeFailure'\n  error: \"Cannot find module 'left-pad'\"\n  code: \
         'MODULE_NOT_FOUND'\n  ...\n1..2\n# tests 2\n# suites 0\n# pass 0\n# fail 2\n# cancelled \
         0\n# skipped 0\n# todo 0\n",
        1,
        InVain,
    ),
    (
        "node --test, one lacks a package and another passes",
        "TAP version 13\n# Subtest: adds\nnot ok 1 - adds\n  ---\n  duration_ms: 1.2\n  failureType: \
         'testCodeFailure'\n  error: \"Cannot find module 'left-pad'\"\n  code: \
         'MODULE_NOT_FOUND'\n  ...\nok 2 - subtracts\n1..2\n# tests 2\n# suites 0\n# pass 1\n# fail \
         1\n# cancelled 0\n# skipped 0\n# todo 0\n",
        1,
        All,
    ),
    (
        "jest, every test finds its database gone",
        "FAIL src/a.test.js\n  ● adds\n\n    connect ECONNREFUSED 127.0.0.1:5432\n\n      at \
         TCPConnectWrap.afterConnect (node:net:1607:16)\n\nTest Suites: 1 failed, 1 total\nTests:   \
             1 failed, 1 total\n",
        1,
        InVain,
    ),
    (
        "pytest, every test finds its database gone",
        "===== test session starts =====\ncollected 1 item\n\ntest_a.py F   [100%]\n\n\
         ===== FAILURES =====\n    def test_b():\n>       connect()\nE       \
         ConnectionRefusedError: [Errno 111] Connection refused\n\ntest_a.py:5: \
         ConnectionRefusedError\n===== short test summary info =====\nFAILED test_a.py::test_b - \
         ConnectionRefusedError: [Errno 111] Connection refused\n===== 1 failed in 0.02s =====\n",
        1,
        InVain,
    ),
    ("a script that fails", "the service is not there\n", 1, Nothing),
    ("anything that passes", "whatever\n", 0, All),
];

#[test]
fn tests_executed_or_they_did_not() {
    for (what, output, exit, want) in OUTPUTS {
        let class = FingerprintRules::built_in().fingerprint(output, &Hints::default()).class;
        let got = executed(&check::read(output), class, &ProcessExit::Code(*exit));
        assert_eq!(got, *want, "{what} ({class})");
    }
}

/// **Invariant:** Assertions and code are never recovered from.
#[test]
fn what_executed_is_never_recovered_from_and_code_neither() {
    for class in Class::ALL {
        for nature in [Nature::Infrastructure, Nature::Transient, Nature::Code, Nature::Unknown] {
            assert_eq!(ailment(All, nature, *class, None), A::None);
        }
        for execution in [Partly, Nothing] {
            let of = |nature| ailment(execution, nature, *class, Some(CheckTool::Rustc));
            assert_eq!(of(Nature::Code), A::Code);
            assert_eq!(of(Nature::Infrastructure), A::Infrastructure);
        }
    }
    // Tests that were called for nothing: only what its state shows, or somebody says, is its doing.
    for class in [Class::Network, Class::ImportError, Class::Environment] {
        let of = |nature| ailment(InVain, nature, class, Some(CheckTool::Jest));
        assert_eq!(of(Nature::Infrastructure), A::Infrastructure);
        for nature in [Nature::Code, Nature::Transient, Nature::Unknown] {
            assert_eq!(of(nature), A::Unknown, "{class}");
        }
    }
    let compiled = ailment(Nothing, Nature::Code, Class::BuildError, Some(CheckTool::Rustc));
    assert_eq!(compiled, A::Code);
    // What is missing though nobody declared it may be either: the tester's word counts.
    for tool in [None, Some(CheckTool::Jest), Some(CheckTool::Pytest)] {
        assert_eq!(ailment(Nothing, Nature::Code, Class::ImportError, tool), A::Unknown);
        assert_eq!(ailment(Nothing, Nature::Code, Class::SyntaxError, tool), A::Code);
    }
    // Where the playbook knows nothing, the kind of failure tells.
    for (class, want) in [
        (Class::TypeError, A::Code),
        (Class::SyntaxError, A::Code),
        (Class::BuildError, A::Unknown),
        (Class::RuntimeError, A::Unknown),
        (Class::VersionMismatch, A::Infrastructure),
        (Class::DiskFull, A::Infrastructure),
        (Class::Unknown, A::Unknown),
    ] {
        assert_eq!(ailment(Nothing, Nature::Unknown, class, None), want, "{class}");
    }
}
