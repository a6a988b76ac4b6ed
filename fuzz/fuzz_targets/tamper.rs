//! No edit makes the examination of a change panic, and a file left as it was is never touched.
#![no_main]

use libfuzzer_sys::fuzz_target;
use salve_core::check::tamper::{Edit, Examined, examine};

const PATHS: [&str; 10] = [
    "tests/test_a.py",
    "conftest.py",
    "src/a.test.ts",
    "src/a.rs",
    "tests/a.rs",
    "a_test.go",
    "package.json",
    "pyproject.toml",
    "tsconfig.json",
    "Makefile",
];

fuzz_target!(|input: (u8, &str, &str)| {
    let (pick, before, after) = input;
    let path = PATHS[usize::from(pick) % PATHS.len()];
    let words = ["make".to_owned()];
    let edit = Edit { path, before: Some(before), after: Some(after) };
    assert_eq!(examine(&[edit], &words), examine(&[edit], &words));
    let same = Edit { path, before: Some(before), after: Some(before) };
    assert_eq!(examine(&[same], &words), Examined::default());
});
