//! The calls of one session: what they teach, and what became of each warning.
//!
//! A warned call that is changed and works is a prevention; one that goes on as it was and works
//! shows that the warning was wrong; one that fails confirms it.

use std::collections::{HashMap, HashSet, VecDeque};

use super::extract::{EarlierSuccess, FailedArguments, from_change, from_error, from_preparation};
use super::index::{PatternIndex, UsageWarning, WorkedBefore};
use super::mistake::{CallArguments, LearnedMistake};
use crate::memory::usage::Warned;

/// The most calls that a session remembers.
const MOST_CALLS: usize = 200;
/// From here on a repeated failure is answered with what was tried.
const REPEATED: usize = 3;

/// A tool call, as far as prevention looks at it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    pub tool: String,
    /// What it is called with.
    pub arguments: CallArguments,
}

/// How a call came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    Worked,
    /// It failed, by its caller's mistake for all that is known.
    Failed {
        /// What the tool said.
        error: String,
    },
    /// It failed for the network, the credentials or the machine.
    Hindered,
    /// It was not made, because a warning blocked it.
    Blocked,
}

/// Something to be kept.
#[derive(Clone, Debug, PartialEq)]
pub enum UsageLesson {
    /// A mistake was made.
    Observed(LearnedMistake),
    /// A warning came out so.
    Settled {
        /// The pattern's name.
        id: String,
        /// How.
        warned: Warned,
    },
}

/// What a finished call leads to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FinishedCall {
    /// What was learned.
    pub lessons: Vec<UsageLesson>,
    /// What the caller is told besides its answer.
    pub note: Option<String>,
}

/// A warning whose outcome is not known yet.
#[derive(Clone, Debug)]
struct OpenWarning {
    id: String,
    tool: String,
    fate: WarnedCallFate,
}

/// What became of a call that was warned about and did not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WarnedCallFate {
    /// It was made and failed.
    Failed,
    /// It was not made.
    Blocked,
}

#[derive(Clone, Debug)]
struct PastCall {
    call: ToolCall,
    outcome: CallOutcome,
    /// Whether something was learned from it by a later call.
    is_settled: bool,
}

#[derive(Clone, Debug, Default)]
pub struct CallSession {
    calls: VecDeque<PastCall>,
    open: Vec<OpenWarning>,
    /// What was observed already, so that a call that is made again and again counts once.
    observed: HashSet<(String, String)>,
    failures: HashMap<(String, String), usize>,
}

impl CallSession {
    /// Returns what has worked before this call.
    pub fn worked_before(&self, call: &ToolCall) -> WorkedBefore<'_> {
        let worked = self.calls.iter().filter(|past| past.outcome == CallOutcome::Worked);
        let mut before = WorkedBefore::default();
        for past in worked {
            before.tools.insert(&past.call.tool);
            before.same_call |= past.call == *call;
        }
        before
    }

    /// Takes in how a call came out that got these warnings.
    pub fn finished(
        &mut self,
        index: &PatternIndex,
        call: ToolCall,
        outcome: CallOutcome,
        warnings: &[UsageWarning],
    ) -> FinishedCall {
        let lessons = self.follow_up(index, &call, &outcome, warnings);
        let mut finished = FinishedCall { lessons, note: None };
        match &outcome {
            CallOutcome::Worked => self.learn_from_success(&call, &mut finished.lessons),
            CallOutcome::Failed { error } => {
                self.learn_from_failure(&call, error, &mut finished.lessons);
                finished.note = self.repeated(&call);
            }
            CallOutcome::Hindered => finished.note = self.repeated(&call),
            CallOutcome::Blocked => {}
        }
        self.calls.push_back(PastCall { call, outcome, is_settled: false });
        if self.calls.len() > MOST_CALLS {
            self.calls.pop_front();
        }
        finished
    }

    /// Ends the session: a warned call that failed and was never changed is confirmed.
    pub fn end(&mut self) -> Vec<UsageLesson> {
        let failed = self.open.drain(..).filter(|open| open.fate == WarnedCallFate::Failed);
        failed
            .map(|open| UsageLesson::Settled { id: open.id, warned: Warned::FailedAnyway })
            .collect()
    }

    fn follow_up(
        &mut self,
        index: &PatternIndex,
        call: &ToolCall,
        outcome: &CallOutcome,
        warnings: &[UsageWarning],
    ) -> Vec<UsageLesson> {
        let mut lessons = Vec::new();
        // What the network did says nothing about a warning.
        let has_worked = match outcome {
            CallOutcome::Worked => true,
            CallOutcome::Failed { .. } => false,
            CallOutcome::Hindered => return lessons,
            CallOutcome::Blocked => {
                self.await_change(call, warnings, WarnedCallFate::Blocked);
                return lessons;
            }
        };
        let before = self.worked_before(call);
        let fits: HashSet<String> = index
            .matching(&call.tool, &call.arguments, &before)
            .into_iter()
            .map(|pattern| pattern.id.clone())
            .collect();
        drop(before);
        let mut settled = HashSet::new();
        self.open.retain(|open| {
            if open.tool != call.tool {
                return true;
            }
            let warned = match (fits.contains(&open.id), has_worked) {
                (false, true) => Warned::Prevented,
                (true, true) => Warned::FalsePositive,
                (true, false) => Warned::FailedAnyway,
                (false, false) => return true,
            };
            settled.insert(open.id.clone());
            lessons.push(UsageLesson::Settled { id: open.id.clone(), warned });
            false
        });
        let is_new = |warning: &&UsageWarning| !settled.contains(&warning.id);
        if has_worked {
            lessons.extend(warnings.iter().filter(is_new).map(|warning| UsageLesson::Settled {
                id: warning.id.clone(),
                warned: Warned::FalsePositive,
            }));
        } else {
            self.await_change(call, warnings, WarnedCallFate::Failed);
        }
        lessons
    }

    fn await_change(&mut self, call: &ToolCall, warnings: &[UsageWarning], fate: WarnedCallFate) {
        for warning in warnings {
            let known = self.open.iter_mut().find(|open| open.id == warning.id);
            match known {
                Some(open) if fate == WarnedCallFate::Failed => open.fate = fate,
                Some(_) => {}
                None => self.open.push(OpenWarning {
                    id: warning.id.clone(),
                    tool: call.tool.clone(),
                    fate,
                }),
            }
        }
    }

    fn learn_from_failure(&mut self, call: &ToolCall, error: &str, lessons: &mut Vec<UsageLesson>) {
        let earlier = if self.worked_before(call).same_call {
            EarlierSuccess::Yes
        } else {
            EarlierSuccess::No
        };
        let failed = FailedArguments { tool: &call.tool, arguments: &call.arguments, error };
        let learned = from_error(&failed, earlier);
        self.observe(learned, call, lessons);
    }

    /// Learns from the last failure of the same tool that nothing was learned from yet.
    fn learn_from_success(&mut self, call: &ToolCall, lessons: &mut Vec<UsageLesson>) {
        self.failures.remove(&key(call));
        let is_failure = |past: &PastCall| {
            past.call.tool == call.tool
                && !past.is_settled
                && matches!(past.outcome, CallOutcome::Failed { .. })
        };
        let Some(at) = self.calls.iter().rposition(is_failure) else { return };
        let Some(past) = self.calls.get(at).cloned() else { return };
        let CallOutcome::Failed { error } = &past.outcome else { return };
        let failed = FailedArguments { tool: &call.tool, arguments: &past.call.arguments, error };
        let learned = if past.call.arguments == call.arguments {
            let between = self.calls.iter().skip(at + 1);
            let worked = between.filter(|past| past.outcome == CallOutcome::Worked);
            let mut tools: Vec<&str> = worked.map(|past| past.call.tool.as_str()).collect();
            tools.sort_unstable();
            tools.dedup();
            // With several in between nobody knows which one it was.
            match tools.as_slice() {
                [first] => from_preparation(&failed, first),
                _ => None,
            }
        } else {
            from_change(&failed, &call.arguments)
        };
        for past in self.calls.iter_mut().filter(|past| is_failure(past)) {
            past.is_settled = true;
        }
        self.observe(learned, &past.call, lessons);
    }

    fn observe(
        &mut self,
        learned: Option<LearnedMistake>,
        call: &ToolCall,
        lessons: &mut Vec<UsageLesson>,
    ) {
        let Some(learned) = learned else { return };
        let (_, arguments) = key(call);
        if self.observed.insert((learned.id.clone(), arguments)) {
            lessons.push(UsageLesson::Observed(learned));
        }
    }

    /// Counts a failure; from the third of the same call on, says what was tried.
    fn repeated(&mut self, call: &ToolCall) -> Option<String> {
        let count = self.failures.entry(key(call)).or_default();
        *count += 1;
        let count = *count;
        if count < REPEATED {
            return None;
        }
        let others = self.calls.iter().filter(|past| past.call.tool == call.tool);
        let mut tried: Vec<String> = Vec::new();
        for past in others.filter(|past| past.call.arguments != call.arguments) {
            let how = match &past.outcome {
                CallOutcome::Worked => "worked",
                CallOutcome::Failed { .. } | CallOutcome::Hindered => "failed",
                CallOutcome::Blocked => "was not made",
            };
            let line = format!("with {} it {how}", short(&past.call.arguments));
            if !tried.contains(&line) {
                tried.push(line);
            }
        }
        let tried = match tried.len().checked_sub(3) {
            _ if tried.is_empty() => "nothing else was tried".to_owned(),
            Some(over) => tried.split_off(over).join("; "),
            None => tried.join("; "),
        };
        Some(format!(
            "This call of `{}` has failed {count} times in this session with the same arguments \
             ({tried}). Do not retry unchanged: change the arguments, do what is missing first, or \
             ask the user.",
            call.tool
        ))
    }
}

fn key(call: &ToolCall) -> (String, String) {
    let arguments = serde_json::Value::Object(call.arguments.clone()).to_string();
    (call.tool.clone(), arguments)
}

fn short(arguments: &CallArguments) -> String {
    let text = serde_json::Value::Object(arguments.clone()).to_string();
    let cut: String = text.chars().take(120).collect();
    if cut.len() < text.len() { format!("{cut}…") } else { cut }
}
