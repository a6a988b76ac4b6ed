//! `salve debug`: why a tool fails, where it is written, and a patch that a person approves.

mod apply;

use std::io::{IsTerminal as _, Read as _, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anstyle::Style;

use super::events::visible;
use super::project::{self, kept_telling, locate};
use super::{CliError, Exit, Output, config, foundation};
use crate::learned::Learned;
use crate::process::keeper::{self, WorkerVariable};
use crate::store::Store;
use crate::tools::{DebugQuestion, DiagnosisSource, ToolDebug};

/// How many lines of source are shown.
const SHOWN_LINES: usize = 40;
/// The longest error that is read.
const LONGEST: u64 = 64 << 10;

/// Arguments of `salve debug`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The tool that fails
    #[arg(required_unless_present = "apply")]
    tool: Option<String>,
    /// What it said [default: stdin]
    error: Option<String>,
    /// Apply this patch, call the tool, and keep the change only if the tool works
    #[arg(long, value_name = "FILE", conflicts_with_all = ["apply", "agent"])]
    patch: Option<PathBuf>,
    /// Do so with the patch that an agent proposed in this issue
    #[arg(long, value_name = "ISSUE", conflicts_with_all = ["tool", "agent"])]
    apply: Option<String>,
    /// Let this agent change the source; the change is kept only if the tool works
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Arguments of the call that shows whether it helped, as JSON
    #[arg(long, value_name = "JSON", default_value = "{}")]
    args: String,
    /// Only if the patch is the one whose hash begins so
    #[arg(long, value_name = "HEX")]
    only: Option<String>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// Says what is known, or applies what a person approves.
pub(super) fn run(args: &Args, out: &Output) -> Result<ExitCode, CliError> {
    if args.patch.is_none() && args.apply.is_none() && args.agent.is_none() {
        return look(args, out).map(ExitCode::from);
    }
    let is_worker = keeper::is_worker();
    let repair = apply::PlannedRepair::of(args, out)?;
    if !is_worker && !args.yes && !repair.is_meant(out)? {
        return Ok(Exit::Failed.into());
    }
    // The worker reads the patch once more: it has to be the one that the person saw.
    let seen = repair
        .digest()
        .map(|digest| WorkerVariable { name: apply::SEEN_PATCH, value: digest.to_string() });
    kept_telling(seen, || repair.carry_out(out))
}

fn look(args: &Args, out: &Output) -> Result<Exit, CliError> {
    let tool = args.tool.as_deref().unwrap_or_default();
    let error = error_text(args)?;
    let config = config::load(out)?;
    let scrubber = foundation::scrubber(&config)?;
    let project = locate(out)?;
    let question = DebugQuestion {
        tool,
        error: &error,
        root: project.root(),
        config: &config,
        scrubber: &scrubber,
    };
    // What was shared in git is known before anything was stored here.
    let has_memory = project.database().exists() || project.learned().is_dir();
    let store = if has_memory { Some(Store::open(&project)?) } else { None };
    let found = match &store {
        Some(store) => {
            project::tell_mended(store, out);
            let learned = Learned::new(store, &scrubber, config.fingerprint_rules());
            // A file that cannot be read leaves the last good state in force.
            let _ = learned.pull();
            question.answer(Some(&learned))?
        }
        None => question.answer(None)?,
    };
    if out.json() {
        out.fact(&found)?;
    } else {
        show(&found, out)?;
    }
    Ok(Exit::Well)
}

/// Returns what the tool said.
fn error_text(args: &Args) -> Result<String, CliError> {
    let text = match &args.error {
        Some(text) => text.clone(),
        None if std::io::stdin().is_terminal() => String::new(),
        None => {
            let mut bytes = Vec::new();
            let read = std::io::stdin().lock().take(LONGEST).read_to_end(&mut bytes);
            read.map_err(|error| CliError::failed("cannot read stdin").because(error))?;
            String::from_utf8_lossy(&bytes).into_owned()
        }
    };
    if text.trim().is_empty() {
        let tool = args.tool.as_deref().unwrap_or("TOOL");
        return Err(CliError::usage("say what the tool said")
            .hint(format!("salve debug {tool} 'manifest unknown: app:abc123'")));
    }
    Ok(text)
}

fn show(found: &ToolDebug, out: &Output) -> Result<(), CliError> {
    let (bold, dim) = (Style::new().bold(), Style::new().dimmed());
    let mut to = out.stdout();
    writeln!(to, "{bold}{}{bold:#}", visible(&found.tool_name))?;
    let place = match (&found.source_file, found.source_line) {
        (Some(file), Some(line)) => format!("{file}:{line}"),
        _ => "not found below the directories of debug.roots".to_owned(),
    };
    let by = match found.by {
        DiagnosisSource::Memory => "  (from memory)",
        DiagnosisSource::Usage => "  (by what the error says)",
        DiagnosisSource::Rules => "  (by the rules on failed calls)",
        DiagnosisSource::Playbook => "  (by the playbook)",
        DiagnosisSource::Class | DiagnosisSource::Nobody => "",
    };
    writeln!(to, "  {dim}error    {dim:#}  {}", visible(&found.error_message))?;
    writeln!(to, "  {dim}diagnosis{dim:#}  {}{dim}{by}{dim:#}", visible(&found.diagnosis))?;
    writeln!(to, "  {dim}fix      {dim:#}  {}", visible(&found.proposed_fix))?;
    writeln!(to, "  {dim}source   {dim:#}  {}", visible(&place))?;
    for other in &found.other_places {
        writeln!(to, "  {dim}or       {dim:#}  {}", visible(other))?;
    }
    let code = found.source_code.as_deref().unwrap_or_default();
    let lines: Vec<&str> = code.lines().collect();
    for line in lines.iter().take(SHOWN_LINES) {
        writeln!(to, "    {}", visible(line))?;
    }
    if lines.len() > SHOWN_LINES {
        writeln!(to, "    … {} more lines", lines.len() - SHOWN_LINES)?;
    }
    Ok(())
}
