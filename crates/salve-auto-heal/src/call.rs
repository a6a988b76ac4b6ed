//! One call of a tool that heals itself.

use jiff::Timestamp;
use salve_core::fingerprint::{FingerprintRules, Hints};
use salve_core::tool::failure::FailedCall;
use salve_core::tool::inside::{HealedTool, InsideHealing, InsideStep};
use salve_core::tool::rule::ToolFix;
use salve_core::tool::session::ToolHints;

use crate::healer::{AutoHeal, HealNote};

/// Returns what a tool says about itself where it is written.
pub const fn healed_tool(
    name: &'static str,
    cluster: &'static str,
    max_retries: Option<u32>,
    is_read_only: bool,
    is_idempotent: bool,
) -> HealedTool {
    HealedTool { name, cluster, max_retries, hints: ToolHints { is_read_only, is_idempotent } }
}

/// One call, which may be made several times.
#[derive(Debug)]
pub struct HealedCall {
    tool: HealedTool,
    began: Timestamp,
    /// What is known since the first failure; a call that works costs none of it.
    trouble: Option<CallTrouble>,
}

#[derive(Clone, Debug)]
struct CallTrouble {
    healing: InsideHealing,
    /// What was done before the call that runs now.
    last: Option<ToolFix>,
    done: Vec<String>,
}

impl HealedCall {
    /// Begins a call.
    pub fn new(tool: HealedTool) -> Self {
        Self { tool, began: Timestamp::now(), trouble: None }
    }

    /// Takes what came of the call; does what helps, and tells whether to call again.
    pub fn may_call_again(&mut self, failure: Option<String>) -> bool {
        let healer = AutoHeal::installed_for(self.trouble.is_some() || failure.is_some());
        let Some(healer) = healer else { return false };
        let trouble = self.trouble.take();
        let (may, trouble) = next(healer, self.tool, self.began, trouble, failure);
        self.trouble = trouble;
        may
    }

    /// Does the same without blocking the thread that runs other tasks.
    pub async fn may_call_again_async(&mut self, failure: Option<String>) -> bool {
        let healer = AutoHeal::installed_for(self.trouble.is_some() || failure.is_some());
        let Some(healer) = healer else { return false };
        let (tool, began, trouble) = (self.tool, self.began, self.trouble.take());
        let (tell, told) = futures_channel::oneshot::channel();
        let work = move || {
            // Whoever has dropped the call needs no answer.
            let _ = tell.send(next(healer, tool, began, trouble, failure));
        };
        let started = std::thread::Builder::new().name("salve-heal".to_owned()).spawn(work);
        match (started, told.await) {
            (Ok(_), Ok((may, trouble))) => {
                self.trouble = trouble;
                may
            }
            // No thread could be had, or the function that helps has panicked.
            _ => false,
        }
    }
}

impl AutoHeal {
    fn installed_for(is_needed: bool) -> Option<&'static Self> {
        is_needed.then(Self::installed)
    }
}

/// Judges what came of a call, and does what is next.
fn next(
    healer: &AutoHeal,
    tool: HealedTool,
    began: Timestamp,
    trouble: Option<CallTrouble>,
    failure: Option<String>,
) -> (bool, Option<CallTrouble>) {
    let mut trouble = trouble.unwrap_or_else(|| CallTrouble {
        healing: InsideHealing::new(healer.settings(), tool),
        last: None,
        done: Vec::new(),
    });
    if let Some(fix) = trouble.last.take() {
        healer.judge(&fix, failure.is_none());
    }
    let note = |trouble: CallTrouble, is_healed: bool, reason: Option<String>| HealNote {
        tool: tool.name.to_owned(),
        done: trouble.done,
        is_healed,
        reason,
    };
    let Some(text) = failure else {
        healer.tell(&note(trouble, true, None));
        return (false, None);
    };
    let class = FingerprintRules::built_in().fingerprint(&text, &Hints::default()).class;
    let call = FailedCall::new(tool.name, &text, class);
    let mut reason = None;
    loop {
        match trouble.healing.next(&call, &|name| healer.has_function(name)) {
            InsideStep::GiveUp { reason: why } => {
                healer.tell(&note(trouble, false, why.or(reason)));
                return (false, None);
            }
            InsideStep::Fix(fix) => match healer.carry_out(&fix, began) {
                Ok(()) => {
                    trouble.healing.called_again();
                    trouble.done.push(fix.describe());
                    trouble.last = Some(fix);
                    return (true, Some(trouble));
                }
                Err(why) => reason = Some(why),
            },
        }
    }
}
