//! What is known about a tool that fails: its source, what is wrong with it, and what may help.
//!
//! Memory is asked first, then what the error says about the call, the settings, the playbook and
//! the class. Where nobody knows anything, that is said; nothing is made up.

use std::path::{Path, PathBuf};

use salve_core::class::Class;
use salve_core::event::RemedyKind;
use salve_core::playbook::{Nature, Prescription};
use salve_core::prevention::extract::{EarlierSuccess, FailedArguments, from_error};
use salve_core::prevention::mistake::CallArguments;
use salve_core::scrub::Scrubber;
use salve_core::tool::failure::FailedCall;
use salve_core::tool::rule::HealChoice;
use salve_core::tool::session::ToolHints;
use serde::Serialize;

use super::means::expand_home;
use super::source::{ToolSource, find_tool};
use crate::config::Config;
use crate::heal::cause::{self, Evidence, FailurePlace};
use crate::learned::{Learned, MemoryAnswer, MemoryQuestion};
use crate::sandbox::Sandbox;
use crate::store::StoreError;

/// What is said where nobody knows why the tool fails.
const NOTHING: &str = "Nothing is known about this error.";
/// What is said where nobody knows what helps.
const NO_FIX: &str = "No fix is known.";

/// A tool that fails, and where its source may be.
#[derive(Clone, Copy, Debug)]
pub struct DebugQuestion<'q> {
    pub tool: &'q str,
    /// What it said.
    pub error: &'q str,
    /// The project's root.
    pub root: &'q Path,
    /// The settings.
    pub config: &'q Config,
    /// What takes secrets out.
    pub scrubber: &'q Scrubber,
}

/// Who says what is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DiagnosisSource {
    /// Somebody taught it, or it healed this failure before.
    Memory,
    /// The error itself says what is wrong with the call.
    Usage,
    /// A rule of the settings, or of those that ship with Salve.
    Rules,
    Playbook,
    /// Only the class of the failure is known.
    Class,
    Nobody,
}

/// What is known about a tool that fails, in the spec's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolDebug {
    pub tool_name: String,
    /// The file that it is written in, from the project's root on where it is below that.
    pub source_file: Option<String>,
    /// The line where it begins there.
    pub source_line: Option<usize>,
    /// What is written there about it.
    pub source_code: Option<String>,
    /// What it said.
    pub error_message: String,
    /// What is wrong.
    pub diagnosis: String,
    /// What may help.
    pub proposed_fix: String,
    /// Whether more is known than the class of the failure.
    pub known: bool,
    /// Who says so.
    pub by: DiagnosisSource,
    /// Other places that may be meant, each as `file:line`.
    pub other_places: Vec<String>,
}

/// What is wrong and what may help.
struct ToolAdvice {
    by: DiagnosisSource,
    diagnosis: String,
    fix: Option<String>,
}

impl DebugQuestion<'_> {
    /// Answers; `learned` is the project's memory, where it has one.
    ///
    /// # Errors
    ///
    /// When memory cannot be read.
    pub fn answer(&self, learned: Option<&Learned<'_>>) -> Result<ToolDebug, StoreError> {
        let Self { tool, error, scrubber, .. } = *self;
        let found = find_tool(&self.roots(), tool);
        let advice = self.advice(learned)?;
        let clean = |text: &str| scrubber.scrub(text).into_string();
        let (source_file, source_line, source_code, others) = match found {
            Some(ToolSource { file, line, code, others }) => {
                let places = others.iter().map(|place| self.shown(Path::new(place))).collect();
                (Some(self.shown(&file)), Some(line), Some(clean(&code)), places)
            }
            None => (None, None, None, Vec::new()),
        };
        Ok(ToolDebug {
            tool_name: clean(tool),
            source_file,
            source_line,
            source_code,
            error_message: clean(error),
            known: !matches!(advice.by, DiagnosisSource::Class | DiagnosisSource::Nobody),
            diagnosis: clean(&advice.diagnosis),
            proposed_fix: clean(advice.fix.as_deref().unwrap_or(NO_FIX)),
            by: advice.by,
            other_places: others,
        })
    }

    /// Returns the directories that the settings declare.
    fn roots(&self) -> Vec<PathBuf> {
        let roots = self.config.settings.debug.roots.iter();
        roots.map(|root| self.root.join(expand_home(root))).collect()
    }

    fn shown(&self, file: &Path) -> String {
        file.strip_prefix(self.root).unwrap_or(file).display().to_string()
    }

    fn advice(&self, learned: Option<&Learned<'_>>) -> Result<ToolAdvice, StoreError> {
        if let Some(learned) = learned
            && let Some(advice) = self.of_memory(learned)?
        {
            return Ok(advice);
        }
        let found = self.of_usage().or_else(|| self.of_rules()).or_else(|| self.of_playbook());
        Ok(found.unwrap_or_else(|| self.of_class()))
    }

    fn of_memory(&self, learned: &Learned<'_>) -> Result<Option<ToolAdvice>, StoreError> {
        let by = DiagnosisSource::Memory;
        let known = learned.known_issues(Some(self.tool), self.error)?;
        if let Some(fix) = known.fixes.into_iter().next() {
            let cause = fix.root_cause.trim().to_owned();
            let diagnosis = if cause.is_empty() {
                format!("This error is known: `{}`.", fix.error_pattern)
            } else {
                cause
            };
            return Ok(Some(ToolAdvice { by, diagnosis, fix: Some(fix.fix_description) }));
        }
        let error = self.scrubber.scrub(self.error);
        let print =
            self.config.fingerprint_rules().fingerprint(error.as_str(), &Default::default());
        let question = MemoryQuestion {
            print: &print,
            text: error.as_str(),
            tool: Some(self.tool),
            near: 0,
            now: jiff::Timestamp::now(),
        };
        let answer = MemoryAnswer::of(&question, Some(learned), None)?;
        Ok(answer.successful_fix.map(|fix| ToolAdvice {
            by,
            diagnosis: format!("This failure was seen {} times and healed before.", answer.seen),
            fix: Some(fix),
        }))
    }

    /// Returns what the error says about how the tool was called, where it says what to change.
    fn of_usage(&self) -> Option<ToolAdvice> {
        let arguments = CallArguments::default();
        let call = FailedArguments { tool: self.tool, arguments: &arguments, error: self.error };
        let learned = from_error(&call, EarlierSuccess::No)?;
        let kind = learned.category.as_str().to_lowercase().replace('_', " ");
        let diagnosis = format!("The error speaks of how the tool was called: {kind}.");
        let fix = Some(learned.mistake.advice());
        Some(ToolAdvice { by: DiagnosisSource::Usage, diagnosis, fix })
    }

    fn of_rules(&self) -> Option<ToolAdvice> {
        let rules = self.config.fingerprint_rules();
        let class = rules.fingerprint(self.error, &Default::default()).class;
        let call = FailedCall::new(self.tool, self.error, class);
        let by = DiagnosisSource::Rules;
        let category = call.category.as_str();
        let table = self.config.settings.heal_table();
        match table.choose(&call, ToolHints::default(), &|_| false) {
            HealChoice::Fixes(fixes) if !fixes.is_empty() => {
                let names: Vec<String> = fixes.iter().map(|fix| fix.name()).collect();
                let diagnosis = format!("What failed is around the tool, not in it: {category}.");
                Some(ToolAdvice { by, diagnosis, fix: Some(names.join("; or ")) })
            }
            HealChoice::Person(why) => {
                Some(ToolAdvice { by, diagnosis: why.to_string(), fix: None })
            }
            HealChoice::Fixes(_) | HealChoice::Nothing | HealChoice::MayHaveActed { .. } => None,
        }
    }

    fn of_playbook(&self) -> Option<ToolAdvice> {
        let rules = self.config.fingerprint_rules();
        let evidence = Evidence::of(self.error, None, rules, self.scrubber);
        if !cause::may_be_known(&evidence) {
            return None;
        }
        let sandbox = Sandbox::new(&self.config.settings.recovery.sandbox);
        let place = FailurePlace::new(self.root, self.root, &[], &[], &sandbox);
        let found = cause::diagnose(&evidence, &place, self.scrubber);
        let rule = found.rule.as_deref()?;
        let finding = found.findings.first();
        // For a server, a fault of its own code may have been chance; a tool that was asked the same
        // again says the same.
        let helps = |one: &&Prescription| {
            found.nature != Nature::Code || one.remedy.kind != RemedyKind::Retry
        };
        let remedy = found.remedies.iter().find(helps);
        let diagnosis = finding
            .map(|finding| finding.what.to_string())
            .or_else(|| remedy.map(|remedy| remedy.why.to_string()))
            .unwrap_or_else(|| format!("The playbook knows it as `{rule}`."));
        let fix = remedy
            .map(|remedy| remedy.remedy.text.to_string())
            .or_else(|| finding.map(|finding| finding.next.to_string()));
        Some(ToolAdvice { by: DiagnosisSource::Playbook, diagnosis, fix })
    }

    fn of_class(&self) -> ToolAdvice {
        let rules = self.config.fingerprint_rules();
        let print = rules.fingerprint(self.error, &Default::default());
        let (by, diagnosis) = match print.class {
            Class::Unknown => (DiagnosisSource::Nobody, NOTHING.to_owned()),
            class => (DiagnosisSource::Class, format!("It is a failure of the class {class}.")),
        };
        ToolAdvice { by, diagnosis, fix: None }
    }
}
