//! `salve fingerprint`: tells what a failure is.

use std::io::{self, BufRead, Read, Write};
use std::path::PathBuf;

use salve_core::fingerprint::{Hints, Rules};
use serde::{Deserialize, Serialize};

use super::{CliError, Exit, Output};

/// Arguments of `salve fingerprint`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Take one JSON object {"id", "text"} per line and answer line by line
    #[arg(long)]
    jsonl: bool,
    /// Exit code of the failed command
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    exit_code: Option<i32>,
    /// Signal that ended it, such as KILL
    #[arg(long, value_name = "NAME")]
    signal: Option<String>,
    /// Name of the tool that failed
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// File with the failure's output [default: stdin]
    file: Option<PathBuf>,
}

/// Runs the command.
pub(super) fn run(args: Args, out: &Output) -> Result<Exit, CliError> {
    if args.jsonl {
        return answer_lines(out);
    }
    let mut text = Vec::new();
    match &args.file {
        Some(path) => {
            let failed = || CliError::failed(format!("cannot read {}", path.display()));
            text = std::fs::read(path).map_err(|error| failed().because(error))?;
        }
        None => {
            io::stdin()
                .lock()
                .read_to_end(&mut text)
                .map_err(|error| CliError::failed("cannot read stdin").because(error))?;
        }
    }
    let hints = Hints { exit_code: args.exit_code, signal: args.signal, tool: args.tool };
    let print = Rules::built_in().fingerprint(&String::from_utf8_lossy(&text), &hints);
    if out.json() {
        out.fact(&print)?;
        return Ok(Exit::Well);
    }
    let mut stdout = out.stdout();
    writeln!(stdout, "{}  {}", print.signature, print.class)?;
    writeln!(stdout, "{}", print.key_line)?;
    Ok(Exit::Well)
}

/// One question of `--jsonl`.
#[derive(Debug, Deserialize)]
struct Question {
    id: serde_json::Value,
    text: String,
    exit_code: Option<i32>,
    signal: Option<String>,
    tool: Option<String>,
}

/// One answer of `--jsonl`.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    id: serde_json::Value,
    version: u32,
    signature: String,
    class: &'a str,
    error_type: &'a str,
    key_line: &'a str,
    normalized: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    identity: Option<&'a str>,
}

/// Answers every line of stdin.
fn answer_lines(out: &Output) -> Result<Exit, CliError> {
    let rules = Rules::built_in();
    let mut stdout = io::BufWriter::new(out.stdout());
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|error| CliError::failed("cannot read stdin").because(error))?;
        let question: Question = serde_json::from_str(&line)
            .map_err(|error| CliError::failed("bad line").because(error))?;
        let hints =
            Hints { exit_code: question.exit_code, signal: question.signal, tool: question.tool };
        let print = rules.fingerprint(&question.text, &hints);
        let answer = Answer {
            id: question.id,
            version: print.version,
            signature: print.signature.to_string(),
            class: print.class.as_str(),
            error_type: &print.error_type,
            key_line: &print.key_line,
            normalized: &print.normalized,
            identity: print.identity.as_deref(),
        };
        serde_json::to_writer(&mut stdout, &answer).map_err(io::Error::from)?;
        stdout.write_all(b"\n")?;
    }
    stdout.flush()?;
    Ok(Exit::Well)
}
