//! Linters.

use super::super::results::{CheckTool, FailedCase};
use super::{ReadResults, ToolReader, number, place};

/// Reads what ESLint writes: a file, and below it its findings.
#[derive(Default)]
pub(super) struct Eslint {
    found: ReadResults,
    file: Option<String>,
    /// Warnings, which matter only when there are too many of them.
    warnings: Vec<FailedCase>,
    too_many: bool,
}

impl ToolReader for Eslint {
    fn line(&mut self, line: &str, number: usize) {
        if let Some(errors) = problems(line) {
            self.found.saw(CheckTool::Eslint, number);
            let sum = self.found.counts.errors.unwrap_or(0).saturating_add(errors);
            self.found.counts.errors = Some(sum);
        } else if line.starts_with("ESLint found too many warnings") {
            self.too_many = true;
        } else if let Some((row, rest)) = finding(line) {
            self.finding(row, rest);
        } else if line.is_empty() {
            self.file = None;
        } else if !line.starts_with(' ') && place::is_ours(line) {
            self.file = Some(line.to_owned());
        }
    }

    fn finish(mut self: Box<Self>) -> Option<ReadResults> {
        if self.too_many && self.found.failed.is_empty() {
            for warning in std::mem::take(&mut self.warnings) {
                self.found.fail(warning.file.as_deref(), warning.line, &warning.name);
            }
        }
        self.found.answer()
    }
}

impl Eslint {
    fn finding(&mut self, row: u32, rest: &str) {
        let Some(file) = self.file.clone() else { return };
        let (message, rule) = match rest.rsplit_once("  ") {
            Some((message, rule)) if !rule.contains(' ') => (message.trim(), rule),
            _ => (rest, ""),
        };
        let (level, message) = message.split_once(' ').unwrap_or((message, ""));
        let name = format!("{rule} {}", message.trim());
        let name = name.trim();
        match level {
            "error" => {
                self.found.fail(Some(&file), Some(row), name);
                self.found.at(&file, Some(row));
            }
            _ if self.warnings.len() < 100 => {
                self.warnings.push(FailedCase {
                    file: Some(file),
                    line: Some(row),
                    name: name.into(),
                });
            }
            _ => {}
        }
    }
}

/// Reads `  3:10  error  Text  rule` and returns the line and what follows the place.
fn finding(line: &str) -> Option<(u32, &str)> {
    let (row, rest) = number(line.strip_prefix("  ")?.trim_start())?;
    let (_, rest) = number(rest.strip_prefix(':')?)?;
    let rest = rest.strip_prefix("  ")?.trim_start();
    (rest.starts_with("error ") || rest.starts_with("warning ")).then_some((row, rest))
}

/// Reads `✖ 3 problems (2 errors, 1 warning)`.
fn problems(line: &str) -> Option<u32> {
    let (_, rest) = number(line.strip_prefix("✖ ")?)?;
    let (_, inner) = rest.strip_prefix(" problem")?.split_once('(')?;
    number(inner).map(|(errors, _)| errors)
}

/// Reads what Ruff writes, whole or concise.
#[derive(Default)]
pub(super) struct Ruff {
    found: ReadResults,
    /// The finding whose place comes next.
    title: Option<String>,
}

impl ToolReader for Ruff {
    fn line(&mut self, line: &str, number: usize) {
        let arrow = line.trim_start().strip_prefix("--> ");
        if let (Some(title), Some(at)) = (self.title.take(), arrow) {
            if let Some(place) = place::token(at) {
                self.found.fail(Some(&place.file), place.line, &title);
                self.found.at(&place.file, place.line);
            }
        } else if is_code(line) || line.starts_with("unformatted: ") {
            self.title = Some(line.replacen(" [*]", "", 1));
        } else if let Some((at, title)) = line.split_once(": ").filter(|(_, t)| is_code(t)) {
            if let Some(place) = place::token(at) {
                self.found.fail(Some(&place.file), place.line, &title.replacen(" [*]", "", 1));
                self.found.at(&place.file, place.line);
            }
        } else if let Some(file) = line.strip_prefix("Would reformat: ") {
            self.found.fail(Some(file), None, file);
        } else if line == "All checks passed!" {
            self.found.saw(CheckTool::Ruff, number);
            self.found.counts.errors = Some(0);
        } else if !self.found.failed.is_empty() && is_end(line) {
            self.found.saw(CheckTool::Ruff, number);
        }
    }

    fn finish(mut self: Box<Self>) -> Option<ReadResults> {
        let errors = u32::try_from(self.found.failed.len()).unwrap_or(u32::MAX);
        self.found.counts.errors = Some(errors);
        self.found.answer()
    }
}

/// Tells whether a text begins with a rule's code, as in `F401 [*] …`.
fn is_code(text: &str) -> bool {
    let code = text.split(' ').next().unwrap_or_default();
    let letters = code.len() - code.trim_start_matches(|c: char| c.is_ascii_uppercase()).len();
    let digits = code[letters..].len();
    text.len() > code.len()
        && (1..=6).contains(&letters)
        && (3..=4).contains(&digits)
        && code[letters..].bytes().all(|byte| byte.is_ascii_digit())
        || text.starts_with("invalid-syntax: ")
}

fn is_end(line: &str) -> bool {
    let errors = line.strip_prefix("Found ").and_then(number);
    errors.is_some_and(|(_, rest)| rest.starts_with(" error"))
        || line.ends_with(" would be reformatted")
}

/// Reads what Biome writes.
#[derive(Default)]
pub(super) struct Biome {
    found: ReadResults,
    /// The rule and the place of the finding whose message comes next.
    title: Option<(String, place::Located)>,
}

impl ToolReader for Biome {
    fn line(&mut self, line: &str, line_number: usize) {
        if line.ends_with("━━━━") && !line.starts_with(' ') {
            self.title = heading(line);
        } else if let Some(message) = line.strip_prefix("  × ") {
            // Warnings and remarks begin with another sign.
            if let Some((rule, at)) = self.title.take() {
                self.found.fail(Some(&at.file), Some(at.line), &format!("{rule} {message}"));
                self.found.at(&at.file, Some(at.line));
            }
        } else if let Some(rest) = line.strip_prefix("Checked ") {
            if number(rest).is_some_and(|(_, rest)| rest.starts_with(" file")) {
                self.found.saw(CheckTool::Biome, line_number);
                self.found.counts.errors.get_or_insert(0);
            }
        } else if let Some((errors, rest)) = line.strip_prefix("Found ").and_then(number)
            && rest.starts_with(" error")
            && self.found.tool.is_some()
        {
            self.found.counts.errors = Some(errors);
        }
    }

    fn finish(self: Box<Self>) -> Option<ReadResults> {
        self.found.answer()
    }
}

/// Reads `src/a.js:2:7 lint/suspicious/noDoubleEquals  FIXABLE  ━━━━`.
fn heading(line: &str) -> Option<(String, place::Located)> {
    let (at, rest) = line.split_once(' ')?;
    let rule = rest.split(' ').next()?;
    Some((rule.to_owned(), place::Located::of(at)?))
}
