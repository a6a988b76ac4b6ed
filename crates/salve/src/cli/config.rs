//! `salve config`: shows, checks and accepts settings.

mod accept;

use std::io::Write;
use std::path::{Path, PathBuf};

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use serde_json::Value as Json;

use super::{CliError, Exit, Output};
use crate::config::{
    self, Config, ConfigProblem, LiveError, LoadError, SettingRow, Sources, setting_rows,
};
use crate::project::{Project, ProjectError};
use crate::store::Store;
use crate::subjects::job::job_schema;

/// Arguments of `salve config`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ConfigCommand {
    /// Show the settings in force and where each comes from
    Show {
        /// Show only this setting, or this section
        key: Option<String>,
    },
    /// Check the settings and list what is wrong or odd
    Check {
        /// Check this file alone instead; `-` reads TOML from stdin
        file: Option<PathBuf>,
    },
    /// Print the JSON Schema of the settings, for editors
    Schema {
        /// Print that of job files instead
        #[arg(long, conflicts_with = "facts")]
        job: bool,
        /// Print that of what every command prints with `--json` instead
        #[arg(long)]
        facts: bool,
    },
    /// Accept a change that widens what runs unattended and so waits for a person
    Accept(accept::Args),
}

/// The schema of what every command prints with `--json`.
const FACTS_SCHEMA: &str = include_str!("../../data/json-output.schema.json");

/// Runs the command.
pub(super) fn run(args: Args, out: &Output) -> Result<Exit, CliError> {
    match args.command {
        ConfigCommand::Show { key } => show(key.as_deref(), out),
        ConfigCommand::Check { file } => check(file.as_deref(), out),
        ConfigCommand::Schema { job: true, .. } => print_schema(&job_schema(), out),
        ConfigCommand::Schema { facts: true, .. } => {
            out.exact().write_all(FACTS_SCHEMA.as_bytes())?;
            Ok(Exit::Well)
        }
        ConfigCommand::Schema { job: false, facts: false } => schema(out),
        ConfigCommand::Accept(args) => accept::run(args, out),
    }
}

/// Returns the settings in the files, for commands that run nothing by them.
pub(super) fn load(out: &Output) -> Result<Config, CliError> {
    let sources = Sources::of_process(project(out)?.as_ref(), &out.global().set);
    config::load(&sources).map_err(wrong)
}

/// Returns the settings in force: a change that waits for a person does not count yet.
pub(super) fn in_force(out: &Output) -> Result<Config, CliError> {
    let Some(project) = project(out)?.filter(|project| project.database().exists()) else {
        return load(out);
    };
    let sources = Sources::of_process(Some(&project), &out.global().set);
    let store = Store::open(&project)?;
    // Whoever opens it next finds nothing to tell of any more.
    super::project::tell_mended(&store, out);
    // Who asks for the settings opens it again at once.
    store.leave_untidied();
    let scrubber = super::project::scrubber();
    let (config, waiting) =
        config::in_force(store.journal(), &sources, &scrubber).map_err(stuck)?;
    if let Some(digest) = waiting {
        out.remark(format_args!(
            "a change of the settings waits for a person: salve config accept {}",
            accept::short(digest)
        ));
    }
    Ok(config)
}

/// Returns the project, if the command runs in one.
fn project(out: &Output) -> Result<Option<Project>, CliError> {
    match Project::locate(out.global().project.as_deref()) {
        Ok(project) => Ok(Some(project)),
        Err(ProjectError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn wrong(error: LoadError) -> CliError {
    let advice = error.advice();
    CliError::usage("the settings are wrong").because(error).hint(advice)
}

fn stuck(error: LiveError) -> CliError {
    match error {
        LiveError::Load(error) => wrong(error),
        LiveError::Store(error) => error.into(),
        error @ (LiveError::NotThat { .. } | LiveError::NothingWaits) => {
            CliError::failed("nothing was accepted")
                .because(error)
                .hint("`salve config accept` shows what waits")
        }
    }
}

/// What `salve config show --json` prints.
#[derive(Serialize)]
struct Shown {
    version: u32,
    content: String,
    settings: Vec<SettingRow>,
}

fn show(key: Option<&str>, out: &Output) -> Result<Exit, CliError> {
    let config = in_force(out)?;
    let wanted = |name: &str| match key {
        None => true,
        Some(key) => name == key || name.strip_prefix(key).is_some_and(|r| r.starts_with('.')),
    };
    let scrubber = super::project::scrubber();
    let mut settings = setting_rows(&config, &scrubber);
    settings.retain(|setting| wanted(setting.key));
    if settings.is_empty() {
        let unknown = config::unknown_key(key.unwrap_or_default());
        return Err(CliError::usage(unknown).hint("`salve config show` lists every setting"));
    }
    if out.json() {
        out.fact(&Shown { version: 1, content: config.content.to_string(), settings })?;
    } else {
        print(&settings, out)?;
    }
    warn(&config.warnings(), out);
    Ok(Exit::Well)
}

/// Prints settings as TOML that can be read back, each with its source in a comment.
fn print(settings: &[SettingRow], out: &Output) -> Result<(), CliError> {
    let dim = Style::new().fg_color(Some(AnsiColor::BrightBlack.into()));
    let mut to = out.stdout();
    for setting in settings {
        let text = match setting.as_toml() {
            Some(value) => format!("{} = {value}", setting.key),
            None => format!("# {} =", setting.key),
        };
        writeln!(to, "{text:<48}  {dim}# {}{dim:#}", setting.origin())?;
    }
    Ok(())
}

/// What `salve config check --json` prints.
#[derive(Serialize)]
struct CheckedConfig {
    version: u32,
    valid: bool,
    errors: Vec<Fault>,
    warnings: Vec<Fault>,
}

/// One error or warning, as `--json` prints it.
#[derive(Serialize)]
struct Fault {
    source: Option<String>,
    line: Option<u32>,
    column: Option<u32>,
    key: Option<String>,
    message: String,
}

impl From<&ConfigProblem> for Fault {
    fn from(problem: &ConfigProblem) -> Self {
        let place = problem.origin.as_ref().and_then(|origin| origin.place());
        Self {
            source: problem.origin.as_ref().map(|origin| origin.name().to_owned()),
            line: place.map(|place| place.line),
            column: place.map(|place| place.column),
            key: problem.key.clone(),
            message: problem.message.clone(),
        }
    }
}

fn check(file: Option<&Path>, out: &Output) -> Result<Exit, CliError> {
    let loaded = match file {
        None => config::load(&Sources::of_process(project(out)?.as_ref(), &out.global().set)),
        Some(path) => check_file(path),
    };
    if out.json() {
        let errors = loaded.as_ref().err().map(LoadError::problems).unwrap_or_default();
        let warnings = loaded.as_ref().map(|config| config.warnings()).unwrap_or_default();
        out.fact(&CheckedConfig {
            version: 1,
            valid: loaded.is_ok(),
            errors: errors.iter().map(Fault::from).collect(),
            warnings: warnings.iter().map(Fault::from).collect(),
        })?;
        return Ok(if loaded.is_ok() { Exit::Well } else { Exit::Usage });
    }
    match loaded {
        Ok(config) => {
            let warnings = config.warnings();
            warn(&warnings, out);
            if warnings.is_empty() {
                writeln!(out.stdout(), "the settings are valid")?;
            } else {
                writeln!(out.stdout(), "the settings are valid, with the warnings above")?;
            }
            Ok(Exit::Well)
        }
        Err(error) => Err(wrong(error)),
    }
}

fn check_file(path: &Path) -> Result<Config, LoadError> {
    let text = if path.as_os_str() == "-" {
        Some(config::read_from(std::io::stdin().lock(), Path::new("stdin"))?)
    } else {
        config::read(path, None)?
    };
    match text {
        Some(text) => config::load_file(path, text),
        None => Err(config::SettingsReadError::Io {
            path: path.to_owned(),
            source: std::io::ErrorKind::NotFound.into(),
        }
        .into()),
    }
}

/// Tells the warnings in passing.
fn warn(warnings: &[ConfigProblem], out: &Output) {
    let yellow = Style::new().bold().fg_color(Some(AnsiColor::Yellow.into()));
    for warning in warnings {
        out.remark(format_args!("{yellow}warning:{yellow:#} {warning}"));
    }
}

fn schema(out: &Output) -> Result<Exit, CliError> {
    let defaults = config::defaults().map_err(wrong)?.value.to_json();
    print_schema(&config::with_defaults(&defaults), out)
}

fn print_schema(schema: &Json, out: &Output) -> Result<Exit, CliError> {
    if out.json() {
        out.fact(schema)?;
    } else {
        let mut to = out.exact();
        serde_json::to_writer_pretty(&mut to, schema).map_err(std::io::Error::from)?;
        writeln!(to)?;
    }
    Ok(Exit::Well)
}
