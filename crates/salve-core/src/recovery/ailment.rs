//! Whether tests executed, and if not, whether that is the infrastructure's doing.

use crate::check::{CheckTool, Results, Sort};
use crate::class::Class;
use crate::event::ProcessExit;
use crate::playbook::Nature;

/// How much of the tests executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Execution {
    /// All of them, so whatever failed is an assertion's or the code's doing.
    All,
    /// All were called and none passed, and what they failed by is something around the code: they
    /// never came to judge anything.
    InVain,
    /// Some; not every file of tests could be loaded.
    Partly,
    /// None.
    Nothing,
}

/// What ails tests that came out red.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TestsTrouble {
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
pub fn executed(results: &Results, class: Class, exit: &ProcessExit) -> Execution {
    if *exit == ProcessExit::Code(0) {
        return Execution::All;
    }
    match results.tool.map(|tool| tool.sort()) {
        Some(Sort::Test) => match of_runner(results) {
            Execution::All if is_in_vain(results, class) => Execution::InVain,
            other => other,
        },
        Some(Sort::Types | Sort::Lint | Sort::Build) => Execution::Nothing,
        None if class == Class::TestFailure => Execution::All,
        None => Execution::Nothing,
    }
}

/// Tells whether no test passed, and what they failed by is no assertion and no bug.
///
/// One that passed shows that the infrastructure carries; the others are then the loop's own.
fn is_in_vain(results: &Results, class: Class) -> bool {
    let passed = results.counts.passed.is_some_and(|passed| passed > 0);
    !passed && class.categories().recovery.is_some()
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
/// what is missing though nobody declared it. Tests that were called for nothing are the
/// infrastructure's only where its state shows that, or where somebody who looked says so.
pub fn ailment(
    execution: Execution,
    nature: Nature,
    class: Class,
    tool: Option<CheckTool>,
) -> TestsTrouble {
    let is_guess = match tool.map(CheckTool::sort) {
        Some(Sort::Types | Sort::Lint | Sort::Build) => false,
        Some(Sort::Test) => class.categories().recovery.is_some(),
        None => class == Class::BuildError || class.categories().recovery.is_some(),
    };
    match (execution, nature) {
        (Execution::All, _) => TestsTrouble::None,
        (Execution::InVain, Nature::Infrastructure) => TestsTrouble::Infrastructure,
        (Execution::InVain, Nature::Code) if !is_guess => TestsTrouble::Code,
        (Execution::InVain, Nature::Code | Nature::Transient | Nature::Unknown) => {
            TestsTrouble::Unknown
        }
        (Execution::Partly | Execution::Nothing, Nature::Code) if is_guess => TestsTrouble::Unknown,
        (Execution::Partly | Execution::Nothing, Nature::Code) => TestsTrouble::Code,
        (Execution::Partly | Execution::Nothing, Nature::Infrastructure | Nature::Transient) => {
            TestsTrouble::Infrastructure
        }
        (Execution::Partly | Execution::Nothing, Nature::Unknown) => match class {
            Class::Unknown | Class::RuntimeError => TestsTrouble::Unknown,
            Class::BuildError if tool.is_none() => TestsTrouble::Unknown,
            known => match known.categories().recovery {
                Some(_) => TestsTrouble::Infrastructure,
                None => TestsTrouble::Code,
            },
        },
    }
}

#[cfg(test)]
mod tests;
