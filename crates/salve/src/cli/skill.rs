//! `salve skill`: runs and checks skills.

use std::collections::BTreeMap;
use std::io::{BufRead as _, Read as _, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use salve_core::scrub::Scrubber;
use serde::Serialize;
use serde_json::Value;

use super::{CliError, Exit, Output, config, foundation};
use crate::files::{self, FileKind};
use crate::project::Project;
use crate::scrub::scrub_value;
use crate::skills::{
    CallHealer, FindingSeverity, Skill, SkillFinding, SkillReport, SkillRun, SkillTools, StepState,
    ToolCallError, check_skill, parse_skill,
};

/// How long a call may take.
const CALL_LIMIT: Duration = Duration::from_secs(300);
/// How much a client may send.
const CLIENTS_LONGEST: u64 = 16 << 20;

/// Arguments of `salve skill`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: SkillCommand,
}

#[derive(Debug, clap::Subcommand)]
enum SkillCommand {
    /// Run the steps of a skill
    Run(RunArgs),
    /// Say what is wrong with a skill, with line numbers
    Check(CheckArgs),
    /// Call one tool, as a step would
    Call(CallArgs),
}

#[derive(Debug, clap::Args)]
struct RunArgs {
    /// The skill's file
    file: PathBuf,
    /// An input of the skill
    #[arg(long, value_name = "NAME=VALUE")]
    input: Vec<String>,
    /// Call no tool; say which would be called
    #[arg(long)]
    dry_run: bool,
    /// Read the inputs from stdin, one line of JSON, and end when stdin does
    #[arg(long, hide = true)]
    for_client: bool,
}

#[derive(Debug, clap::Args)]
struct CheckArgs {
    /// The skill's file
    file: PathBuf,
}

#[derive(Debug, clap::Args)]
struct CallArgs {
    /// The tool
    tool: String,
    /// Its arguments, as JSON
    #[arg(long, value_name = "JSON", default_value = "{}")]
    args: String,
    /// Without Salve's healing
    #[arg(long)]
    bare: bool,
}

#[derive(Debug, Serialize)]
struct CheckFact<'a> {
    version: u32,
    file: &'a str,
    findings: &'a [SkillFinding],
}

/// Runs the command.
pub(super) fn run(args: &Args, out: &Output) -> Result<Exit, CliError> {
    match &args.command {
        SkillCommand::Run(args) => run_skill(args, out),
        SkillCommand::Check(args) => check(args, out),
        SkillCommand::Call(args) => call_tool(args, out),
    }
}

fn read(file: &Path) -> Result<Skill, CliError> {
    let name = file.display();
    let text = files::read_bytes(file, FileKind::Document).map_err(|error| {
        CliError::failed(format!("cannot read {name}")).because(std::io::Error::from(error))
    })?;
    let text = String::from_utf8_lossy(&text);
    parse_skill(&text)
        .map_err(|error| CliError::usage(format!("{name}:{}: {}", error.line, error.reason)))
}

fn check(args: &CheckArgs, out: &Output) -> Result<Exit, CliError> {
    let findings = check_skill(&read(&args.file)?);
    let name = args.file.display().to_string();
    if out.json() {
        out.fact(&CheckFact { version: 1, file: &name, findings: &findings })?;
    } else {
        let mut stdout = out.stdout();
        for SkillFinding { line, severity, text } in &findings {
            let how = match severity {
                FindingSeverity::Error => "error",
                FindingSeverity::Warning => "warning",
            };
            writeln!(stdout, "{name}:{line}: {how}: {text}")?;
        }
        if findings.is_empty() {
            out.remark("nothing is wrong with it");
        }
    }
    let is_wrong = findings.iter().any(|finding| finding.severity == FindingSeverity::Error);
    Ok(if is_wrong { Exit::Failed } else { Exit::Well })
}

fn run_skill(args: &RunArgs, out: &Output) -> Result<Exit, CliError> {
    let skill = read(&args.file)?;
    let inputs = if args.for_client { clients_inputs()? } else { inputs(&args.input, &skill)? };
    let healer = if skill.heals_itself() { CallHealer::Skill } else { CallHealer::Salve };
    let (mut tools, scrubber) = tools(healer, out)?;
    let caller = if args.dry_run { None } else { Some(&mut tools) };
    let report = SkillRun { skill: &skill, inputs, tools: caller }.run();
    tell(&report, &scrubber, out)?;
    Ok(if report.ok { Exit::Well } else { Exit::Failed })
}

/// Returns the tools of the settings, and what takes secrets out of what they say.
fn tools(healer: CallHealer, out: &Output) -> Result<(SkillTools, Scrubber), CliError> {
    let config = config::in_force(out)?;
    let scrubber = foundation::scrubber(&config)?;
    let here = std::env::current_dir().map_err(|error| {
        CliError::failed("cannot find out the present directory").because(error)
    })?;
    let project = Project::locate(out.global().project.as_deref()).ok();
    let dir = project.map_or(here, |project| project.root().to_owned());
    let salve = std::env::current_exe()
        .map_err(|error| CliError::failed("cannot find Salve itself").because(error))?;
    let mut tools = SkillTools::new(dir, salve, healer);
    tools.servers.clone_from(&config.settings.skills.servers);
    tools.commands.clone_from(&config.settings.skills.commands);
    Ok((tools, scrubber))
}

fn call_tool(args: &CallArgs, out: &Output) -> Result<Exit, CliError> {
    let arguments = match serde_json::from_str(&args.args) {
        Ok(Value::Object(arguments)) => arguments,
        Ok(_) | Err(_) => {
            return Err(CliError::usage("the arguments are not an object of JSON")
                .hint("--args '{\"namespace\": \"ns\"}'"));
        }
    };
    let healer = if args.bare { CallHealer::Skill } else { CallHealer::Salve };
    let (mut tools, scrubber) = tools(healer, out)?;
    match tools.call(&args.tool, &arguments, CALL_LIMIT) {
        Ok(value) => {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            writeln!(out.exact(), "{}", scrubber.scrub(&text).as_str())?;
            Ok(Exit::Well)
        }
        Err(error @ ToolCallError::NoTool(_)) => Err(CliError::usage("there is no such tool")
            .because(error)
            .hint("name its server in [skills.servers] of salve.toml")),
        Err(error) => {
            // It is what a repair of the tool goes by, so nothing stands around it.
            let _ = writeln!(anstream::stderr(), "{}", scrubber.scrub(&error.to_string()).as_str());
            Ok(Exit::Failed)
        }
    }
}

/// Reads the inputs that a client sent, and from then on ends with it.
fn clients_inputs() -> Result<BTreeMap<String, Value>, CliError> {
    let mut line = String::new();
    let read = std::io::stdin().lock().take(CLIENTS_LONGEST).read_line(&mut line);
    read.map_err(|error| CliError::failed("cannot read the inputs").because(error))?;
    let inputs = serde_json::from_str(&line)
        .map_err(|error| CliError::usage("the inputs are not an object of JSON").because(error))?;
    let watch = || {
        // Nobody says anything more: what comes is the end, and with it nobody wants the result.
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        std::process::exit(1);
    };
    std::thread::Builder::new()
        .name("client's end".to_owned())
        .spawn(watch)
        .map_err(|error| CliError::failed("cannot watch who asked").because(error))?;
    Ok(inputs)
}

fn inputs(given: &[String], skill: &Skill) -> Result<BTreeMap<String, Value>, CliError> {
    let mut inputs = BTreeMap::new();
    for input in given {
        let Some((name, value)) = input.split_once('=') else {
            return Err(CliError::usage(format!("`{input}` is not NAME=VALUE")));
        };
        inputs.insert(name.to_owned(), Value::String(value.to_owned()));
    }
    let missing = skill.inputs.iter().find(|input| {
        input.is_required && input.default.is_null() && !inputs.contains_key(&input.name)
    });
    match missing {
        Some(input) => Err(CliError::usage(format!("the skill needs the input `{}`", input.name))
            .hint(format!("--input {}=…", input.name))),
        None => Ok(inputs),
    }
}

/// Prints what happened, without secrets.
fn tell(report: &SkillReport, scrubber: &Scrubber, out: &Output) -> Result<(), CliError> {
    let clean = scrub_value(scrubber, &serde_json::to_value(report).unwrap_or_default());
    if out.json() {
        let mut fact = clean;
        fact["version"] = 1.into();
        return out.fact(&fact);
    }
    let mut stdout = out.stdout();
    for (step, clean) in report.steps.iter().zip(clean["steps"].as_array().into_iter().flatten()) {
        let text = |key: &str| clean[key].as_str().map(str::to_owned);
        let state = step.state.as_str();
        writeln!(stdout, "{state:<9} {}  because {}", step.id, text("why").unwrap_or_default())?;
        if !step.inputs.is_empty() {
            writeln!(stdout, "          with {}", clean["inputs"])?;
        }
        if matches!(step.state, StepState::Worked | StepState::Failed) && !step.result.is_null() {
            let result = text("result").unwrap_or_else(|| clean["result"].to_string());
            for line in result.lines().take(20) {
                writeln!(stdout, "          {line}")?;
            }
        }
    }
    Ok(())
}
