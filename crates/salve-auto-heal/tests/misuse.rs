//! Misuse of the attributes is refused with words that help.

#[test]
fn misuse_is_refused_with_words_that_help() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
