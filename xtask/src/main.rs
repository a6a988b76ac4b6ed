//! Development tasks; see `cargo xtask`.

fn main() {}
