//! What commands need of the project and its files, with errors for people.

use crate::atomic::WriteError;
use crate::project::{Project, ProjectError};

use super::{CliError, Output};

/// Finds the project the user means.
pub(super) fn locate(out: &Output) -> Result<Project, CliError> {
    Ok(Project::locate(out.global().project.as_deref())?)
}

impl From<ProjectError> for CliError {
    fn from(error: ProjectError) -> Self {
        let advice = error.advice();
        match error {
            ProjectError::NotFound { .. } | ProjectError::NoDirectory { .. } => {
                Self::usage("there is no project to work in").because(error).hint(advice)
            }
            ProjectError::NotOurs { .. } | ProjectError::Make { .. } => {
                Self::failed("cannot use the project's .salve directory")
                    .because(error)
                    .hint(advice)
            }
        }
    }
}

impl From<WriteError> for CliError {
    fn from(error: WriteError) -> Self {
        let advice = error.advice();
        Self::failed("cannot write a file").because(error).hint(advice)
    }
}
