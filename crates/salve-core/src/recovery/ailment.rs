//! Whether tests executed, and if not, whether that is the infrastructure's doing.

use crate::check::{Results, Sort, Tool};
use crate::class::Class;
use crate::event::Exit;
use crate::playbook::Nature;

/// How much of the tests executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Execution {
    /// All of them, so whatever failed is an assertion's or the code's doing.
    All,
    /// Some; not every file of tests could be loaded.
    Partly,
    /// None.
    Nothing,
}

/// What ails tests that came out red.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ailment {
    /// Nothing that recovery is for: they executed.
    None,
    /// Something around the code.
    Infrastructure,
    /// The code itself.
    Code,
    /// They could not execute, and nobody knows why.
    Unknown,
}

/// Tells how much of the tests executed, from how their command ended and what it said.
///
/// A runner that says so is believed. Where none is recognised, what ails the tests is told by the
/// failure alone.
pub fn executed(results: &Results, class: Class, exit: &Exit) -> Execution {
    if *exit == Exit::Code(0) {
        return Execution::All;
    }
    match results.tool.map(|tool| tool.sort()) {
        Some(Sort::Test) => of_runner(results),
        Some(Sort::Types | Sort::Lint | Sort::Build) => Execution::Nothing,
        None if class == Class::TestFailure => Execution::All,
        None => Execution::Nothing,
    }
}

/// Tells how much a test runner says that it ran.
fn of_runner(results: &Results) -> Execution {
    let counts = results.counts;
    let files = results.failed.iter().filter(|case| case.is_whole_file()).count();
    let unloaded = files > 0 || counts.errors.is_some_and(|errors| errors > 0);
    // Some runners count a file that could not be loaded as one failed test.
    let failed = match counts.failed {
        Some(failed) => failed as usize > files,
        None => results.failed.len() > files,
    };
    let passed = counts.passed.is_some_and(|passed| passed > 0);
    match (unloaded, passed || failed) {
        (true, true) => Execution::Partly,
        (true, false) => Execution::Nothing,
        (false, true) => Execution::All,
        (false, false) => match counts.ran() {
            Some(ran) if ran > 0 => Execution::All,
            Some(_) | None => Execution::Nothing,
        },
    }
}

/// Tells what ails tests, given what was made of the failure's cause.
///
/// A failure is the code's where that is certain: a rule knows it so, or a compiler, a type checker
/// or a linter says it. What only reads like an error of the program may be anything, and so may
/// what is missing though nobody declared it.
pub fn ailment(execution: Execution, nature: Nature, class: Class, tool: Option<Tool>) -> Ailment {
    let is_guess = match tool.map(Tool::sort) {
        Some(Sort::Types | Sort::Lint | Sort::Build) => false,
        Some(Sort::Test) => class.categories().recovery.is_some(),
        None => class == Class::BuildError || class.categories().recovery.is_some(),
    };
    match (execution, nature) {
        (Execution::All, _) => Ailment::None,
        (Execution::Partly | Execution::Nothing, Nature::Code) if is_guess => Ailment::Unknown,
        (Execution::Partly | Execution::Nothing, Nature::Code) => Ailment::Code,
        (Execution::Partly | Execution::Nothing, Nature::Infrastructure | Nature::Transient) => {
            Ailment::Infrastructure
        }
        (Execution::Partly | Execution::Nothing, Nature::Unknown) => match class {
            Class::Unknown | Class::RuntimeError => Ailment::Unknown,
            Class::BuildError if tool.is_none() => Ailment::Unknown,
            known => match known.categories().recovery {
                Some(_) => Ailment::Infrastructure,
                None => Ailment::Code,
            },
        },
    }
}

#[cfg(test)]
mod tests;
