//! `salve memory export` and `import`: memory as JSON lines.
//!
//! The first line names the format and its version, each other line is one thing known. What comes
//! in goes through the scrubber, whatever its sender says, and is merged: taking the same file in
//! again changes nothing.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;

use jiff::Timestamp;
use salve_core::memory::{
    Knowledge, RemedyTrial, RememberedFailure, RememberedRemedy, TriedRemedy,
};
use salve_core::scrub::{Scrubbed, Scrubber};
use serde::{Deserialize, Serialize};

use super::super::{CliError, Exit};
use super::{MemoryCommandContext, Whose};
use crate::learned::{LearnedPattern, ToolFailure, ToolFixItem, UsagePattern};
use crate::store::Store;

/// The version of the format.
const VERSION: u32 = 1;
/// The longest line that is read.
const LONGEST: u64 = 4 << 20;
/// Failures merged in one transaction.
const PORTION: usize = 1000;

/// Arguments of `salve memory export`.
#[derive(Debug, clap::Args)]
pub(super) struct ExportArgs {
    /// File to write [default: stdout]
    file: Option<PathBuf>,
    #[command(flatten)]
    whose: Whose,
}

/// Arguments of `salve memory import`.
#[derive(Debug, clap::Args)]
pub(super) struct ImportArgs {
    /// File to read [default: stdin]
    file: Option<PathBuf>,
    #[command(flatten)]
    whose: Whose,
}

/// One line of an export.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "snake_case")]
enum ExportLine {
    SalveMemory(Header),
    Failure(Box<Knowledge>),
    ToolFix(ToolFixItem),
    ToolFailure(ToolFailure),
    Pattern(LearnedPattern),
    UsagePattern(Box<UsagePattern>),
}

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    version: u32,
    #[serde(default)]
    exported_at: Option<Timestamp>,
}

/// What an import did.
#[derive(Debug, Default, Serialize)]
struct ImportSummary {
    version: u32,
    failures: u64,
    new_or_changed: u64,
    others: u64,
}

/// Writes everything.
pub(super) fn export(args: &ExportArgs, desk: &MemoryCommandContext<'_>) -> Result<Exit, CliError> {
    let store = desk.open(args.whose)?;
    match &args.file {
        None => write_all(&store, desk, &mut desk.out.exact())?,
        Some(path) => {
            let mut failed = None;
            let written = crate::atomic::write_with(path, |file| {
                write_all(&store, desk, file).map_err(|error| {
                    failed = Some(error);
                    io::Error::other("the export stopped")
                })
            });
            if let Some(error) = failed {
                return Err(error);
            }
            written?;
            desk.out.remark(format_args!("exported to {}", path.display()));
        }
    }
    Ok(Exit::Well)
}

fn write_all(
    store: &Store,
    desk: &MemoryCommandContext<'_>,
    mut out: &mut dyn Write,
) -> Result<(), CliError> {
    let mut put = |line: &ExportLine| {
        serde_json::to_writer(&mut out, line).map_err(io::Error::from)?;
        out.write_all(b"\n").map_err(CliError::from)
    };
    let exported_at = Some(Timestamp::now());
    put(&ExportLine::SalveMemory(Header { version: VERSION, exported_at }))?;
    store.memory().each(|portion| {
        portion.into_iter().try_for_each(|known| put(&ExportLine::Failure(Box::new(known))))
    })?;
    let learned = desk.learned(store);
    learned.fixes()?.into_iter().try_for_each(|fix| put(&ExportLine::ToolFix(fix)))?;
    let failures = learned.failures()?;
    failures.into_iter().try_for_each(|failure| put(&ExportLine::ToolFailure(failure)))?;
    learned.patterns()?.into_iter().try_for_each(|pattern| put(&ExportLine::Pattern(pattern)))?;
    let patterns = learned.usage_patterns()?;
    patterns.into_iter().try_for_each(|p| put(&ExportLine::UsagePattern(Box::new(p))))
}

/// Takes everything in.
pub(super) fn import(args: &ImportArgs, desk: &MemoryCommandContext<'_>) -> Result<Exit, CliError> {
    let input: Box<dyn Read> = match &args.file {
        Some(path) => Box::new(File::open(path).map_err(|error| {
            CliError::failed(format!("cannot open {}", path.display())).because(error)
        })?),
        None => Box::new(io::stdin().lock()),
    };
    let store = desk.open(args.whose)?;
    desk.expect_person(&store, "import what others know")?;
    let mut lines = Lines { input: BufReader::new(input), number: 0 };
    let mut fact = ImportSummary { version: VERSION, ..ImportSummary::default() };
    let result = take_all(&mut lines, &store, desk, &mut fact);
    desk.sync(&store, args.whose)?;
    // The next question should not have to wait for the index.
    store.memory().near()?;
    result?;
    if desk.out.json() {
        desk.out.fact(&fact)?;
    } else {
        let ImportSummary { failures, new_or_changed, others, .. } = fact;
        desk.out.remark(format_args!(
            "took in {failures} failures, {new_or_changed} of them new or changed, \
             and {others} other entries"
        ));
    }
    Ok(Exit::Well)
}

fn take_all(
    lines: &mut Lines,
    store: &Store,
    desk: &MemoryCommandContext<'_>,
    fact: &mut ImportSummary,
) -> Result<(), CliError> {
    match lines.next_line()? {
        Some(ExportLine::SalveMemory(Header { version: VERSION, .. })) => {}
        Some(ExportLine::SalveMemory(Header { version, .. })) => {
            let what = format!("the file has version {version}; this Salve knows {VERSION}");
            return Err(CliError::failed(what).hint("update Salve"));
        }
        Some(_) | None => {
            return Err(CliError::failed("this is no export of memory")
                .hint("salve memory export FILE writes one"));
        }
    }
    let learned = desk.learned(store);
    let mut waiting = Vec::with_capacity(PORTION);
    loop {
        let line = lines.next_line();
        let more = matches!(line, Ok(Some(ExportLine::Failure(_))));
        if !waiting.is_empty() && (!more || waiting.len() == PORTION) {
            fact.failures += waiting.len() as u64;
            fact.new_or_changed += store.memory().merge(&waiting)?;
            waiting.clear();
        }
        let Some(line) = line? else { return Ok(()) };
        fact.others += u64::from(!more);
        match line {
            ExportLine::Failure(known) => waiting.push(clean(*known, &desk.scrubber)),
            ExportLine::ToolFix(fix) => learned.put_fix(&fix)?,
            ExportLine::ToolFailure(failure) => learned.put_failure(&failure)?,
            ExportLine::Pattern(pattern) => learned.put_pattern(&pattern)?,
            ExportLine::UsagePattern(pattern) => learned.put_usage_pattern(&pattern)?,
            ExportLine::SalveMemory(_) => {}
        }
    }
}

/// The lines of an import.
struct Lines {
    input: BufReader<Box<dyn Read>>,
    number: u64,
}

impl Lines {
    /// Reads the next line that is not empty.
    fn next_line(&mut self) -> Result<Option<ExportLine>, CliError> {
        loop {
            self.number += 1;
            let number = self.number;
            let mut bytes = Vec::new();
            let mut limited = self.input.by_ref().take(LONGEST + 1);
            limited
                .read_until(b'\n', &mut bytes)
                .map_err(|error| CliError::failed("cannot read the import").because(error))?;
            if bytes.is_empty() {
                return Ok(None);
            }
            let bad = |why: String| {
                CliError::failed(format!("line {number} of the import cannot be used: {why}"))
                    .hint("mend it and import again; what was taken in already does no harm")
            };
            if bytes.len() as u64 > LONGEST {
                return Err(bad(format!("it is longer than {} MiB", LONGEST >> 20)));
            }
            if !bytes.trim_ascii().is_empty() {
                return parse(&bytes).map(Some).map_err(bad);
            }
        }
    }
}

fn parse(bytes: &[u8]) -> Result<ExportLine, String> {
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}

/// Scrubs all text of what somebody sent, and bounds what it claims.
fn clean(known: Knowledge, scrubber: &Scrubber) -> Knowledge {
    let scrub = |text: Scrubbed| scrubber.scrub(text.as_str());
    let outcome = |outcome: RemedyTrial| RemedyTrial {
        by: scrub(outcome.by),
        project: scrub(outcome.project),
        ..outcome
    };
    let tried = |mut tried: TriedRemedy| {
        let over = tried.outcomes.len().saturating_sub(TriedRemedy::KEPT);
        tried.outcomes.drain(..over);
        TriedRemedy {
            remedy: RememberedRemedy { kind: tried.remedy.kind, text: scrub(tried.remedy.text) },
            by: scrub(tried.by),
            outcomes: tried.outcomes.into_iter().map(outcome).collect(),
            ..tried
        }
    };
    let failure = known.failure;
    Knowledge {
        failure: RememberedFailure {
            error_type: scrub(failure.error_type),
            normalized: scrub(failure.normalized),
            identity: failure.identity.map(scrub),
            key_line: scrub(failure.key_line),
            ..failure
        },
        remedies: known.remedies.into_iter().map(tried).collect(),
        ..known
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_line_is_read_or_refused_without_panic(bytes: Vec<u8>, head in "[{]\"kind\":\"[a-z_]*\",.*") {
            let _ = parse(&bytes);
            let _ = parse(head.as_bytes());
        }
    }
}
