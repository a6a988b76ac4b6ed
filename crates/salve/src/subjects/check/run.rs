//! One run of a check's command.

use std::sync::Arc;

use super::{CheckPlan, Ran};
use crate::heal::run::{self, Errand};
use crate::process::{Capture, Care};

pub(super) use crate::heal::run::Stopper;

/// Runs a check on a thread of its own; `then` is called there with how it ended.
pub(super) fn start(
    care: &Care,
    plan: &CheckPlan,
    output: Arc<Capture>,
    then: impl FnOnce(Ran) + Send + 'static,
) -> Stopper {
    run::start(care, &errand(plan), output, then)
}

/// Runs a check to its end and waits for it.
pub(super) fn wait(care: &Care, plan: &CheckPlan, output: Arc<Capture>) -> Ran {
    run::wait(care, &errand(plan), output)
}

fn errand(plan: &CheckPlan) -> Errand {
    let CheckPlan { name, argv, dir, env, limit, .. } = plan.clone();
    Errand { name, argv, dir, env, limit }
}
