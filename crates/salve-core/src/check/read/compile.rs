//! Compilers and type checkers, which write a file, a line and a message.

use super::super::results::CheckTool;
use super::{ReadResults, ToolReader, number, place};

/// Reads what rustc, cargo and clippy write for people.
#[derive(Default)]
pub(super) struct Rustc {
    found: ReadResults,
    /// The message of the error whose place comes next.
    error: Option<String>,
    errors: u32,
}

impl ToolReader for Rustc {
    fn line(&mut self, line: &str, number: usize) {
        let arrow = line.trim_start().strip_prefix("--> ");
        if let (Some(message), Some(at)) = (&self.error, arrow) {
            if let Some(place) = place::token(at) {
                let message = message.clone();
                self.errors = self.errors.saturating_add(1);
                self.found.saw(CheckTool::Rustc, number);
                self.found.fail(Some(&place.file), place.line, &message);
                self.found.at(&place.file, place.line);
            }
            self.error = None;
        } else if let Some(rest) = line.strip_prefix("error[E") {
            self.error = rest.split_once("]: ").map(|(code, text)| format!("E{code} {text}"));
        } else if let Some(text) = line.strip_prefix("error: ") {
            if text.starts_with("could not compile `") {
                self.found.saw(CheckTool::Rustc, number);
                if self.errors == 0 {
                    self.found.fail(None, None, text);
                }
            } else {
                self.error = Some(text.to_owned());
            }
        } else if line.starts_with("warning") {
            self.error = None;
        }
    }

    fn finish(mut self: Box<Self>) -> Option<ReadResults> {
        self.found.counts.errors = Some(self.errors);
        self.found.answer()
    }
}

/// One error that a compiler reports in a line.
struct CompilerFinding<'t> {
    file: &'t str,
    line: Option<u32>,
    name: &'t str,
}

/// How one compiler writes.
struct CompilerDialect {
    tool: CheckTool,
    /// Reads an error.
    finding: fn(&str) -> Option<CompilerFinding<'_>>,
    /// Tells whether an error alone shows that it was this tool.
    telling: bool,
    /// Reads the line that sums up and is surely the tool's own.
    closing: fn(&str) -> Option<u32>,
}

const DIALECTS: [CompilerDialect; 6] = [
    CompilerDialect { tool: CheckTool::Tsc, finding: tsc, telling: true, closing: never },
    CompilerDialect { tool: CheckTool::Mypy, finding: mypy, telling: false, closing: mypy_end },
    CompilerDialect {
        tool: CheckTool::Pyright,
        finding: pyright,
        telling: false,
        closing: pyright_end,
    },
    CompilerDialect { tool: CheckTool::Cc, finding: cc, telling: true, closing: never },
    CompilerDialect { tool: CheckTool::GoBuild, finding: go, telling: true, closing: never },
    CompilerDialect { tool: CheckTool::Rustc, finding: rust_short, telling: true, closing: never },
];

/// Reads what one compiler writes, line by line.
struct Compiler {
    dialect: &'static CompilerDialect,
    found: ReadResults,
    errors: u32,
    /// Whether a line named the package whose errors follow.
    package: bool,
}

/// Returns a reader for each compiler.
pub(super) fn compilers() -> impl Iterator<Item = Box<dyn ToolReader>> {
    DIALECTS.iter().map(|dialect| {
        let (found, errors, package) = (ReadResults::default(), 0, false);
        Box::new(Compiler { dialect, found, errors, package }) as Box<dyn ToolReader>
    })
}

impl ToolReader for Compiler {
    fn line(&mut self, line: &str, number: usize) {
        self.package |= line.starts_with("# ");
        if let Some(errors) = (self.dialect.closing)(line) {
            self.found.saw(self.dialect.tool, number);
            self.errors = self.errors.max(errors);
        } else if let Some(finding) = (self.dialect.finding)(line) {
            if self.dialect.tool == CheckTool::GoBuild && !self.package {
                return;
            }
            if self.dialect.telling {
                self.found.saw(self.dialect.tool, number);
            }
            let CompilerFinding { file, line, name } = finding;
            self.found.fail((!file.is_empty()).then_some(file), line, name);
            if !file.is_empty() {
                self.found.at(file, line);
            }
        }
    }

    fn finish(mut self: Box<Self>) -> Option<ReadResults> {
        let seen = u32::try_from(self.found.failed.len()).unwrap_or(u32::MAX);
        self.found.counts.errors = Some(self.errors.max(seen));
        self.found.answer()
    }
}

fn never(_: &str) -> Option<u32> {
    None
}

/// Splits `a.c:3:5: error: text` into the place and what follows it.
fn head(line: &str) -> Option<(&str, Option<u32>, &str)> {
    let (at, text) = line.split_once(": ")?;
    let (file, numbers) = at.split_once(':').filter(|(file, _)| file.len() > 1)?;
    let (row, rest) = number(numbers)?;
    let column = rest.is_empty() || rest.strip_prefix(':').and_then(number).is_some();
    (column && !file.contains(' ')).then_some((file, Some(row), text))
}

fn ends_in(file: &str, extensions: &[&str]) -> bool {
    file.rsplit_once('.').is_some_and(|(_, end)| extensions.contains(&end))
}

/// Reads `a.ts(1,7): error TS2322: text`, `a.ts:1:7 - error TS2322: text` and `error TS18003: …`.
fn tsc(line: &str) -> Option<CompilerFinding<'_>> {
    let at = line.find("error TS")?;
    let name = &line[at + "error ".len()..];
    let (code, _) = name.strip_prefix("TS").and_then(number)?;
    let before = line[..at].trim_end();
    if before.is_empty() {
        return (code > 0).then_some(CompilerFinding { file: "", line: None, name });
    }
    let (file, row) = match before.strip_suffix("):").and_then(|rest| rest.rsplit_once('(')) {
        Some((file, position)) => (file, number(position)?.0),
        None => {
            let (file, position) = before.strip_suffix(" -")?.split_once(':')?;
            (file, number(position)?.0)
        }
    };
    Some(CompilerFinding { file, line: Some(row), name })
}

/// Reads `a.py:3: error: text  [code]`.
fn mypy(line: &str) -> Option<CompilerFinding<'_>> {
    let (file, line, text) = head(line)?;
    let name = text.strip_prefix("error: ")?;
    ends_in(file, &["py", "pyi"]).then_some(CompilerFinding { file, line, name })
}

fn mypy_end(line: &str) -> Option<u32> {
    if line.starts_with("Success: no issues found in ") {
        return Some(0);
    }
    let (errors, rest) = number(line.strip_prefix("Found ")?)?;
    let ends = rest.contains("(checked ") || rest.contains("(errors prevented");
    (rest.starts_with(" error") && ends).then_some(errors)
}

/// Reads `  /p/a.py:3:12 - error: text (rule)`.
fn pyright(line: &str) -> Option<CompilerFinding<'_>> {
    let (at, name) = line.split_once(" - error: ")?;
    let (file, position) = at.trim_start().rsplit_once(".py:").map(|(_, p)| p).map(|position| {
        let at = at.trim_start();
        (&at[..at.len() - position.len() - 1], position)
    })?;
    Some(CompilerFinding { file, line: Some(number(position)?.0), name })
}

fn pyright_end(line: &str) -> Option<u32> {
    let (errors, rest) = number(line)?;
    let ends = rest.starts_with(" error") && rest.contains(" warning");
    (ends && rest.contains(" information")).then_some(errors)
}

/// Reads `a.c:3:5: error: text` and `A.java:3: error: text`.
fn cc(line: &str) -> Option<CompilerFinding<'_>> {
    let (file, line, text) = head(line)?;
    let name = text.strip_prefix("error: ").or_else(|| text.strip_prefix("fatal error: "))?;
    let extensions =
        ["c", "cc", "cpp", "cxx", "h", "hh", "hpp", "m", "mm", "java", "swift", "zig", "cu", "kt"];
    ends_in(file, &extensions).then_some(CompilerFinding { file, line, name })
}

/// Reads `pkg/a.go:2:23: text`, below the line that names the package.
fn go(line: &str) -> Option<CompilerFinding<'_>> {
    let (file, line, name) = head(line.strip_prefix("vet: ").unwrap_or(line))?;
    ends_in(file, &["go"]).then_some(CompilerFinding { file, line, name })
}

/// Reads `src/main.rs:1:25: error[E0308]: text`.
fn rust_short(line: &str) -> Option<CompilerFinding<'_>> {
    let (file, line, text) = head(line)?;
    let error = text.starts_with("error[E") || text.starts_with("error: ");
    (error && ends_in(file, &["rs"])).then_some(CompilerFinding { file, line, name: text })
}
