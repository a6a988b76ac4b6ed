//! Looks at the machine and the project, and says how to mend what is wrong.
//!
//! Each check only looks: nothing is installed, changed or left behind.

mod fleet;
mod machine;
mod notices;
mod probe;
mod project;
mod registrations;

use serde::Serialize;

use crate::project::Project;

pub use fleet::examine_fleet;
pub(crate) use probe::answer_of;

/// How well one thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingState {
    /// As it should be.
    Ok,
    /// Salve works, with something missing.
    Warn,
    /// Salve cannot do its work.
    Fail,
}

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub check: &'static str,
    /// How well it is.
    pub state: FindingState,
    /// What was seen.
    pub detail: String,
    /// What to do about it; always there unless all is well.
    pub mend: Option<String>,
}

impl Finding {
    fn ok(check: &'static str, detail: impl Into<String>) -> Self {
        Self { check, state: FindingState::Ok, detail: detail.into(), mend: None }
    }

    fn warn(check: &'static str, detail: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { check, state: FindingState::Warn, detail: detail.into(), mend: Some(mend.into()) }
    }

    fn fail(check: &'static str, detail: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { check, state: FindingState::Fail, detail: detail.into(), mend: Some(mend.into()) }
    }
}

/// Runs every check; `project` is the one to look at, where there is one.
pub fn examine(project: Option<&Project>) -> Vec<Finding> {
    let mut findings = machine::examine(project.map(Project::root));
    findings.extend(project::examine(project));
    findings
}

#[cfg(test)]
mod tests {
    use salve_core::playbook::harm_of;

    use super::*;

    /// The doctor's own texts, with what they are filled in with left out.
    const SOURCES: [&str; 6] = [
        include_str!("fleet.rs"),
        include_str!("machine.rs"),
        include_str!("notices.rs"),
        include_str!("probe.rs"),
        include_str!("project.rs"),
        include_str!("registrations.rs"),
    ];

    #[test]
    fn no_advice_of_the_doctor_can_do_harm() {
        for literal in SOURCES.iter().flat_map(|text| text.split('"')) {
            assert_eq!(harm_of(literal, "/srv/shop"), None, "{literal}");
        }
        let dir = tempfile::tempdir().unwrap();
        let project = Project::at(dir.path()).unwrap();
        for finding in examine(Some(&project)).into_iter().chain(examine(None)) {
            let advice = finding.mend.unwrap_or_default();
            assert_eq!(harm_of(&advice, "/srv/shop"), None, "{advice}");
        }
    }
}
