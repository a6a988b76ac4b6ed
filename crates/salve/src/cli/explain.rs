//! `salve explain`: what an error is, and which rule says so.

use std::io::{Read, Write};

use anstyle::Style;
use salve_core::class::Class;
use salve_core::fingerprint::Hints;
use salve_core::id::Signature;
use serde::Serialize;

use super::events::visible;
use super::{CliError, Exit, Output, config, foundation};
use crate::project::Project;
use crate::store::Store;

/// The most that is read from stdin.
const MOST: u64 = 16 * 1024 * 1024;

/// Arguments of `salve explain`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The error's text [default: stdin]
    text: Option<String>,
}

/// What is known about an error, for `--json`.
#[derive(Debug, Serialize)]
struct ErrorExplanation {
    version: u32,
    class: Class,
    error_type: String,
    signature: Signature,
    key_line: String,
    /// The anchor that names it, if one does.
    rule: Option<String>,
    identity: Option<String>,
    normalized: String,
    why: String,
}

/// Explains an error.
pub(super) fn run(args: Args, out: &Output) -> Result<Exit, CliError> {
    let text = match args.text {
        Some(text) => text,
        None => {
            let mut bytes = Vec::new();
            let read = std::io::stdin().lock().take(MOST).read_to_end(&mut bytes);
            read.map_err(|error| CliError::failed("cannot read stdin").because(error))?;
            String::from_utf8_lossy(&bytes).into_owned()
        }
    };
    if text.trim().is_empty() {
        return Err(CliError::usage("there is no error to explain")
            .hint("salve explain \"Error: Cannot find module 'x'\""));
    }
    let config = config::load(out)?;
    let scrubber = foundation::scrubber(&config)?;
    let text = scrubber.scrub(&text);
    let print = config.fingerprint_rules().fingerprint(text.as_str(), &Hints::default());
    let rule = print
        .identity
        .as_deref()
        .map(|identity| identity.split_once('(').map_or(identity, |(rule, _)| rule).to_owned());
    let why = match &rule {
        Some(rule) => format!("the rule `{rule}` names the failure by its key line"),
        None if print.class == Class::Unknown => "no rule knows it".to_owned(),
        None => format!("no rule names it; its words say `{}`", print.class),
    };
    let explanation = ErrorExplanation {
        version: 1,
        class: print.class,
        error_type: print.error_type,
        signature: print.signature,
        key_line: print.key_line,
        rule,
        identity: print.identity,
        normalized: print.normalized,
        why,
    };
    if out.json() {
        out.fact(&explanation)?;
    } else {
        show(&explanation, out)?;
    }
    Ok(Exit::Well)
}

fn show(explanation: &ErrorExplanation, out: &Output) -> Result<(), CliError> {
    let ErrorExplanation { class, key_line, signature, why, .. } = explanation;
    let (bold, dim) = (Style::new().bold(), Style::new().dimmed());
    let mut to = out.fitted();
    writeln!(to, "{bold}{class}{bold:#}  {}", visible(&explanation.error_type))?;
    writeln!(to, "  {}", visible(key_line))?;
    writeln!(to, "  {dim}why      {dim:#}  {}", visible(why))?;
    if let Some(identity) = &explanation.identity {
        writeln!(to, "  {dim}known as {dim:#}  {}", visible(identity))?;
    }
    writeln!(to, "  {dim}signature{dim:#}  {signature}")?;
    let remedies = known_remedies(*signature, out);
    writeln!(to, "  {dim}memory   {dim:#}  {remedies}")?;
    Ok(())
}

/// Says whether memory knows remedies for a failure; a project without a store knows none.
fn known_remedies(signature: Signature, out: &Output) -> String {
    let project = Project::locate(out.global().project.as_deref()).ok();
    let store = project.and_then(|project| Store::open_existing(&project).ok().flatten());
    if store.is_some() {
        format!("salve memory show {signature}    what helped before")
    } else {
        "nothing was remembered here yet".to_owned()
    }
}
