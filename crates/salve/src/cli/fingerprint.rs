//! `salve fingerprint`: tells what a failure is.
//!
//! What is read goes through the scrubber before anything else looks at it, so that no secret is
//! shown or becomes part of a signature.

use std::fs::File;
use std::io::{self, BufRead, Read, Write};
use std::path::PathBuf;

use anstyle::{AnsiColor, Style};
use salve_core::fingerprint::{Fingerprint, FingerprintRules, Hints, Window};
use salve_core::scrub::Scrubber;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CliError, Exit, Output, config, foundation};

/// Arguments of `salve fingerprint`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Take one JSON object {"id", "text"} per line and answer line by line
    #[arg(long)]
    jsonl: bool,
    /// Exit code of the failed command
    #[arg(long, value_name = "N", allow_negative_numbers = true, conflicts_with = "jsonl")]
    exit_code: Option<i32>,
    /// Signal that ended it, such as KILL
    #[arg(long, value_name = "NAME", conflicts_with = "jsonl")]
    signal: Option<String>,
    /// Name of the tool that failed
    #[arg(long, value_name = "NAME", conflicts_with = "jsonl")]
    tool: Option<String>,
    /// File with the failure's output [default: stdin]
    file: Option<PathBuf>,
}

/// Runs the command.
pub(super) fn run(args: Args, out: &Output) -> Result<Exit, CliError> {
    let mut input: Box<dyn Read> = match &args.file {
        Some(path) => Box::new(File::open(path).map_err(|error| {
            CliError::failed(format!("cannot open {}", path.display())).because(error)
        })?),
        None => Box::new(io::stdin().lock()),
    };
    let config = config::load(out)?;
    let rules = config.fingerprint_rules();
    let scrubber = foundation::scrubber(&config)?;
    let judge = FailureReader { rules, scrubber };
    if args.jsonl {
        return answer_lines(input, &judge, out);
    }
    let hints = Hints { exit_code: args.exit_code, signal: args.signal, tool: args.tool };
    let mut window = Window::new(rules);
    let mut piece = vec![0; 64 * 1024];
    loop {
        match input.read(&mut piece) {
            Ok(0) => break,
            Ok(size) => window.push(&piece[..size]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(CliError::failed("cannot read the output").because(error)),
        }
    }
    let print = judge.fingerprint(&window.finish(), &hints);
    if out.json() {
        out.fact(&print)?;
    } else {
        show(&print, out)?;
    }
    Ok(Exit::Well)
}

/// What is needed to tell what a failure is.
struct FailureReader<'c> {
    rules: &'c FingerprintRules,
    scrubber: Scrubber,
}

impl FailureReader<'_> {
    /// Scrubs a text and returns its fingerprint.
    fn fingerprint(&self, text: &str, hints: &Hints) -> Fingerprint {
        self.rules.fingerprint(self.scrubber.scrub(text).as_str(), hints)
    }
}

/// Prints a fingerprint for a person.
fn show(print: &Fingerprint, out: &Output) -> Result<(), CliError> {
    let mut stdout = out.stdout();
    let bold = Style::new().bold();
    let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
    let dim = Style::new().dimmed();
    write!(stdout, "{red}{}{red:#}", print.class)?;
    if print.error_type != print.class.as_str() {
        write!(stdout, "  {bold}{}{bold:#}", print.error_type)?;
    }
    writeln!(stdout)?;
    if !print.key_line.is_empty() {
        writeln!(stdout, "  {}", print.key_line)?;
    }
    let label = if print.identity.is_some() { "known as " } else { "reduced  " };
    writeln!(stdout, "  {dim}{label}{dim:#}  {}", print.normalized)?;
    writeln!(stdout, "  {dim}signature{dim:#}  {}", print.signature)?;
    Ok(())
}

/// One question of `--jsonl`.
#[derive(Debug, Deserialize)]
struct FingerprintQuery {
    id: Value,
    text: String,
    #[serde(default)]
    exit_code: Option<i32>,
    #[serde(default)]
    signal: Option<String>,
    #[serde(default)]
    tool: Option<String>,
}

/// One answer of `--jsonl`.
#[derive(Debug, Serialize)]
struct FingerprintAnswer<'a> {
    id: &'a Value,
    version: u32,
    signature: String,
    class: &'a str,
    error_type: &'a str,
    key_line: &'a str,
    normalized: &'a str,
    identity: Option<&'a str>,
}

/// What is said about a line that is no question.
#[derive(Debug, Serialize)]
struct BadQueryAnswer {
    id: Value,
    line: usize,
    error: String,
}

/// Answers every line of `input`, and goes on after a malformed one.
fn answer_lines(
    input: impl Read,
    judge: &FailureReader<'_>,
    out: &Output,
) -> Result<Exit, CliError> {
    let mut input = io::BufReader::new(input);
    let mut stdout = io::BufWriter::new(out.exact());
    let mut exit = Exit::Well;
    let mut raw = Vec::new();
    for number in 1.. {
        raw.clear();
        let read = input.read_until(b'\n', &mut raw);
        if read.map_err(|error| CliError::failed("cannot read the questions").because(error))? == 0
        {
            break;
        }
        if raw.trim_ascii().is_empty() {
            continue;
        }
        match question(&raw, number) {
            Ok(question) => answer(question, judge, &mut stdout)?,
            Err(refusal) => {
                serde_json::to_writer(&mut stdout, &refusal).map_err(io::Error::from)?;
                exit = Exit::Failed;
            }
        }
        stdout.write_all(b"\n")?;
        if input.buffer().is_empty() {
            stdout.flush()?;
        }
    }
    stdout.flush()?;
    Ok(exit)
}

/// Reads one question; a refusal carries the id if there is one.
fn question(raw: &[u8], line: usize) -> Result<FingerprintQuery, BadQueryAnswer> {
    let refuse =
        |id, error: serde_json::Error| BadQueryAnswer { id, line, error: error.to_string() };
    let text = String::from_utf8_lossy(raw);
    let value: Value = serde_json::from_str(&text).map_err(|error| refuse(Value::Null, error))?;
    let id = value.get("id").cloned().unwrap_or(Value::Null);
    serde_json::from_value(value).map_err(|error| refuse(id, error))
}

/// Writes the answer to one question.
fn answer(
    question: FingerprintQuery,
    judge: &FailureReader<'_>,
    stdout: &mut impl Write,
) -> Result<(), CliError> {
    let FingerprintQuery { id, text, exit_code, signal, tool } = question;
    let print = judge.fingerprint(&text, &Hints { exit_code, signal, tool });
    let answer = FingerprintAnswer {
        id: &id,
        version: print.version,
        signature: print.signature.to_string(),
        class: print.class.as_str(),
        error_type: &print.error_type,
        key_line: &print.key_line,
        normalized: &print.normalized,
        identity: print.identity.as_deref(),
    };
    serde_json::to_writer(stdout, &answer).map_err(io::Error::from)?;
    Ok(())
}
