//! What a remedy does, step by step.

use std::time::Duration;

use super::facts::LockHold;
use super::set_variable::SetVariable;
use crate::event::Process;

/// What a remedy does: its steps in order. If one fails, what was set aside comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// The steps, in order; none means only to run the subject again.
    pub steps: Vec<ActionStep>,
}

/// One step of an action. Paths are relative to the project's root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionStep {
    /// Moves something derived out of the way; it comes back if a later step fails.
    SetAside {
        /// What to move.
        path: String,
    },
    /// Copies data that a later step changes; it comes back if that step fails, and the copy is
    /// kept if it does not.
    CopyAside {
        /// What to copy.
        path: String,
    },
    /// Deletes something derived that the subject makes again.
    Clear {
        /// What to delete.
        path: String,
    },
    /// Removes a lock whose holder is proven to be gone; the proof is made again right before.
    Unlock {
        /// The lock.
        path: String,
        /// What was known of it.
        hold: LockHold,
    },
    /// Ends processes of this project; the right to do so is proven again right before.
    End {
        /// The one that holds what the subject wants.
        holder: Process,
        /// It and its relatives, the eldest first.
        family: Vec<Process>,
        /// The port it holds, if that is why.
        port: Option<u16>,
        /// What gives the right.
        right: Right,
    },
    /// Runs a program, confined to the project.
    Run {
        /// The program and its arguments.
        argv: Vec<String>,
        /// Where, relative to the root; empty for the root itself.
        dir: String,
        /// How long it may take.
        limit: Duration,
        /// Whether it may change a file that git tracks.
        edits: Edits,
    },
    /// Sets variables for the rest of the run, for the subject alone; nothing is written.
    Environment { variables: Vec<SetVariable> },
}

/// What gives the right to end a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// It is this project's own, and nobody looks after it any more.
    Orphan,
    /// It is this project's own, and a person said yes.
    Consent,
}

/// Which files a command may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edits {
    /// Derived files only.
    Derived,
    /// This lockfile too, relative to the root.
    Lockfile(String),
    /// Whatever the project's own command changes.
    Anything,
}

impl Action {
    /// Returns the action that only runs the subject again.
    pub fn restart() -> Self {
        Self { steps: Vec::new() }
    }

    /// Returns whether it only runs the subject again.
    pub fn is_restart(&self) -> bool {
        self.steps.is_empty()
    }

    /// Returns the commands that it runs.
    pub fn commands(&self) -> impl Iterator<Item = String> {
        self.steps.iter().filter_map(|step| match step {
            ActionStep::Run { argv, .. } => Some(argv.join(" ")),
            ActionStep::SetAside { .. }
            | ActionStep::CopyAside { .. }
            | ActionStep::Clear { .. }
            | ActionStep::Unlock { .. }
            | ActionStep::End { .. }
            | ActionStep::Environment { .. } => None,
        })
    }

    /// Returns whether a step may change a lockfile.
    pub fn edits_lockfile(&self) -> bool {
        let edits =
            |step: &ActionStep| matches!(step, ActionStep::Run { edits: Edits::Lockfile(_), .. });
        self.steps.iter().any(edits)
    }

    /// Returns whether a step may change a file that git tracks.
    pub fn edits_tracked(&self) -> bool {
        self.steps.iter().any(|step| match step {
            ActionStep::Run { edits, .. } => match edits {
                Edits::Derived => false,
                Edits::Lockfile(_) | Edits::Anything => true,
            },
            ActionStep::SetAside { .. }
            | ActionStep::CopyAside { .. }
            | ActionStep::Clear { .. }
            | ActionStep::Unlock { .. }
            | ActionStep::End { .. }
            | ActionStep::Environment { .. } => false,
        })
    }

    /// Returns the variables that it sets for the rest of the run.
    pub fn variables(&self) -> impl Iterator<Item = &SetVariable> {
        self.steps.iter().flat_map(|step| match step {
            ActionStep::Environment { variables } => variables.as_slice(),
            ActionStep::SetAside { .. }
            | ActionStep::CopyAside { .. }
            | ActionStep::Clear { .. }
            | ActionStep::Unlock { .. }
            | ActionStep::End { .. }
            | ActionStep::Run { .. } => &[],
        })
    }

    /// Returns the action but for the variables that it sets.
    pub fn without_variables(&self) -> Self {
        let sets = |step: &&ActionStep| matches!(step, ActionStep::Environment { .. });
        Self { steps: self.steps.iter().filter(|step| !sets(step)).cloned().collect() }
    }

    /// Returns whether all it does is to set variables.
    pub fn only_sets_variables(&self) -> bool {
        let sets = |step: &ActionStep| matches!(step, ActionStep::Environment { .. });
        !self.steps.is_empty() && self.steps.iter().all(sets)
    }

    /// Returns whether it means the same another day: it names no process and no lock, whose
    /// right to go was proven once.
    pub fn is_lasting(&self) -> bool {
        self.steps.iter().all(|step| match step {
            ActionStep::SetAside { .. } | ActionStep::Clear { .. } | ActionStep::Run { .. } => true,
            // The copy is part of what was proven to be safe, and a text alone does not make it.
            ActionStep::CopyAside { .. } | ActionStep::Unlock { .. } | ActionStep::End { .. } => {
                false
            }
            // A shell that sets a variable and ends has done nothing for anybody.
            ActionStep::Environment { .. } => false,
        })
    }

    /// Returns whether an action of this text is lasting; see [`Action::is_lasting`].
    pub fn is_lasting_text(text: &str) -> bool {
        let names_one = |step: &str| {
            let step = step.trim_start_matches(['(', ' ']);
            let name = step.split_once('=').map_or("", |(name, _)| name);
            let is_variable = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            ["kill ", "cp "].iter().any(|word| step.starts_with(word))
                || (step.starts_with("rm ") && !step.starts_with("rm -rf "))
                || (!name.is_empty() && name.chars().all(is_variable))
        };
        !text.split(" && ").any(names_one)
    }

    /// Returns the action as a person would type it.
    pub fn text(&self) -> String {
        if self.is_restart() {
            return "restart".to_owned();
        }
        let steps: Vec<String> = self.steps.iter().map(ActionStep::text).collect();
        steps.join(" && ")
    }
}

impl ActionStep {
    /// Returns the step as a person would type it.
    pub fn text(&self) -> String {
        match self {
            ActionStep::SetAside { path } | ActionStep::Clear { path } => {
                format!("rm -rf {}", quoted(path))
            }
            ActionStep::CopyAside { path } => format!("cp {} .salve/copies/", quoted(path)),
            ActionStep::Unlock { path, .. } => format!("rm {}", quoted(path)),
            ActionStep::End { family, .. } => {
                let pids: Vec<String> = family.iter().map(|one| one.pid.to_string()).collect();
                format!("kill {}", pids.join(" "))
            }
            ActionStep::Run { argv, dir, .. } => {
                let words: Vec<String> = argv.iter().map(|word| quoted(word)).collect();
                let command = words.join(" ");
                if dir.is_empty() {
                    return command;
                }
                format!("(cd {} && {command})", quoted(dir))
            }
            ActionStep::Environment { variables } => {
                let set: Vec<String> = variables.iter().map(SetVariable::text).collect();
                set.join(" ")
            }
        }
    }
}

/// Quotes a word for a shell where that is needed.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@%+,~".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_reads_as_a_person_would_type_it() {
        let run = |dir: &str| ActionStep::Run {
            argv: vec!["npm".into(), "run".into(), "a b".into()],
            dir: dir.into(),
            limit: Duration::from_secs(1),
            edits: Edits::Derived,
        };
        let aside = ActionStep::SetAside { path: "node_modules".into() };
        let action = Action { steps: vec![aside, run(""), run("it's")] };
        let want = r"rm -rf node_modules && npm run 'a b' && (cd 'it'\''s' && npm run 'a b')";
        assert_eq!(action.text(), want);
        assert_eq!(Action::restart().text(), "restart");
        assert!(action.is_lasting() && Action::is_lasting_text(&action.text()));
        let unlock = ActionStep::Unlock { path: "server.pid".into(), hold: LockHold::default() };
        let unlock = Action { steps: vec![unlock] };
        assert!(!unlock.is_lasting() && !Action::is_lasting_text(&unlock.text()));
        let polling = SetVariable::new("CI", "$CI 1");
        let set = Action { steps: vec![ActionStep::Environment { variables: vec![polling] }] };
        assert_eq!(set.text(), "CI=\"$CI 1\"");
        assert!(set.only_sets_variables() && !action.only_sets_variables());
        assert!(!set.is_lasting() && !Action::is_lasting_text(&set.text()));
    }
}
