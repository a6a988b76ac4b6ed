//! Stories told against the real `salve` binary, one file each.

mod support;
