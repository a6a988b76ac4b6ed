//! System calls by which a command could change how others run.
//!
//! Neither mounts nor Landlock say anything about limits and priorities: any process may change
//! those of every other one of the same user. The filter lets a command change only its own, and
//! keeps it from the keys that the kernel holds for the user.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpOp, SeccompFilter, SeccompRule, TargetArch,
    apply_filter,
};

use super::sockets::{OTHER_TABLE, rule};

/// The number by which a call means whoever makes it.
const ITSELF: u64 = 0;
/// The kind of target that is one process, of `setpriority` and of `ioprio_set`.
const ONE_PROCESS: u64 = 0;
const ONE_PROCESS_IO: u64 = 1;

/// Takes from this thread, and from all that it starts, the calls that change how others run.
pub(super) fn restrict() -> Result<(), Error> {
    apply_filter(&program()?)
}

/// Takes from this thread, and from all that it starts, the calls by which the kernel's keys are reached:
/// it keeps them by user, whatever namespaces a process lives in.
///
/// # Errors
///
/// When the kernel cannot filter calls.
pub(crate) fn deny_keys() -> Result<(), Error> {
    apply_filter(&compiled(BTreeMap::from(KEYS.map(|call| (call, Vec::new()))))?)
}

/// The calls by which keys are reached.
const KEYS: [i64; 3] = [libc::SYS_keyctl, libc::SYS_add_key, libc::SYS_request_key];

fn program() -> Result<BpfProgram, Error> {
    use SeccompCmpOp::Ne;
    let mut rules = BTreeMap::from([
        (libc::SYS_prlimit64, vec![rule(&[(0, Ne, ITSELF)])?]),
        (libc::SYS_setpriority, vec![rule(&[(0, Ne, ONE_PROCESS)])?, rule(&[(1, Ne, ITSELF)])?]),
        (libc::SYS_ioprio_set, vec![rule(&[(0, Ne, ONE_PROCESS_IO)])?, rule(&[(1, Ne, ITSELF)])?]),
    ]);
    rules.extend(KEYS.map(|call| (call, Vec::new())));
    compiled(rules)
}

fn compiled(mut rules: BTreeMap<i64, Vec<SeccompRule>>) -> Result<BpfProgram, Error> {
    if cfg!(target_arch = "x86_64") {
        let other: Vec<_> =
            rules.iter().map(|(call, of)| (call | OTHER_TABLE, of.clone())).collect();
        rules.extend(other);
    }
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    Ok(SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?.try_into()?)
}
