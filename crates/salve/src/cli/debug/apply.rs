//! A patch of a tool's source, or an agent's turn at it: approved, tried by calling the tool, kept
//! only if the tool works.

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write};
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use salve_core::event::{Digest, SubjectKind};
use salve_core::fingerprint::Hints;
use salve_core::id::IssueId;
use serde_json::Value;

use super::Args;
use crate::cli::events::visible;
use crate::cli::foundation::{Foundation, Purpose};
use crate::cli::heal::{capture, incident_limits, records, use_agent};
use crate::cli::output::counted;
use crate::cli::project::{expect_person, locate, scrubber, speaker};
use crate::cli::{CliError, Exit, Output, config};
use crate::config::Config;
use crate::files::{self, FileKind};
use crate::heal::run::CommandPlan;
use crate::learned::{Learned, Sureness, ToolFixItem, When};
use crate::process::{self, keeper};
use crate::project::Project;
use crate::store::Store;
use crate::subjects::tool::{ToolRepair, ToolRepairEnd, ToolRepairTerms, ToolRepairWay};
use crate::team::{self, ProposedToolPatch};
use crate::workspace::Workspace;

/// How long the call may take that shows whether the tool works.
const CALL_LIMIT: Duration = Duration::from_secs(300);

/// The variable by which a worker knows which patch the person saw.
pub(super) const SEEN_PATCH: &str = "SALVE_SEEN_PATCH";

/// What a person wants to be done about a tool.
pub(super) struct PlannedRepair {
    project: Project,
    tool: String,
    error: String,
    /// The arguments of the call, as JSON.
    arguments: String,
    way: ToolRepairWay,
    /// The agent that is called, for this run.
    agent: Option<String>,
    /// Why it should help, as whoever proposed it said.
    why: Option<String>,
    /// The issue that is settled by it.
    issue: Option<IssueId>,
}

impl PlannedRepair {
    /// Reads what is to be done; only a person may want it.
    pub(super) fn of(args: &Args, out: &Output) -> Result<Self, CliError> {
        if process::is_agents() {
            return Err(CliError::needs_person("an agent cannot approve a patch")
                .hint("ask the person you work for to run this command"));
        }
        let project = locate(out)?;
        expect_person(&project)?;
        let arguments = arguments(&args.args)?;
        let scrubber = scrubber();
        let mut planned = Self {
            tool: args.tool.clone().unwrap_or_default(),
            error: String::new(),
            arguments,
            way: ToolRepairWay::Agent(Default::default()),
            agent: args.agent.clone(),
            why: None,
            issue: None,
            project,
        };
        let patch = if let Some(given) = &args.apply {
            let store = Store::open_existing(&planned.project)?
                .ok_or_else(|| CliError::usage("nothing was proposed in this project"))?;
            let found = team::find_tool_patch(&store, given, &scrubber)?;
            let ProposedToolPatch { issue, tool, error, patch, why, .. } = found;
            (planned.tool, planned.error, planned.issue) = (tool, error.into_string(), Some(issue));
            planned.why = why.map(salve_core::scrub::Scrubbed::into_string);
            Some(patch.as_str().as_bytes().to_vec())
        } else {
            planned.error = super::error_text(args)?;
            let read = args.patch.as_ref().map(|file| {
                files::read_bytes(file, FileKind::Document).map_err(|error| {
                    CliError::failed(format!("cannot read {}", file.display()))
                        .because(std::io::Error::from(error))
                })
            });
            read.transpose()?
        };
        if let Some(text) = patch {
            let unfit = |error: &dyn std::fmt::Display| {
                CliError::usage(format!("the patch does not fit: {error}"))
                    .hint("paths begin at the project's root, as git diff writes them")
            };
            let workspace = Workspace::open(&planned.project).map_err(|error| unfit(&error))?;
            let files = workspace.patches().fits(&text).map_err(|error| unfit(&error))?;
            planned.way = ToolRepairWay::Patch { text, files };
        }
        let seen = std::env::var(SEEN_PATCH).ok().filter(|_| keeper::is_worker());
        planned.expect_only(args.only.iter().chain(&seen))?;
        Ok(planned)
    }

    /// Returns the hash of the patch, if one is to be applied.
    pub(super) fn digest(&self) -> Option<Digest> {
        match &self.way {
            ToolRepairWay::Patch { text, .. } => Some(team::tool_patch_digest(text)),
            ToolRepairWay::Agent(_) => None,
        }
    }

    /// Refuses a patch that is another one than was meant, each time that its hash was given.
    fn expect_only<'a>(&self, mut only: impl Iterator<Item = &'a String>) -> Result<(), CliError> {
        let digest = self.digest().map(|digest| digest.to_string()).unwrap_or_default();
        if only.all(|begin| begin.len() >= 8 && digest.starts_with(begin.as_str())) {
            return Ok(());
        }
        Err(CliError::failed("the patch is another one than you saw")
            .hint("look at it once more: the same command without --only"))
    }

    /// Shows what will be done and asks.
    pub(super) fn is_meant(&self, out: &Output) -> Result<bool, CliError> {
        if !std::io::stdin().is_terminal() {
            return Err(CliError::needs_person("a person has to approve this")
                .hint("add --yes once you have read it"));
        }
        let mut to = out.stdout();
        match &self.way {
            ToolRepairWay::Patch { text, files } => {
                for line in String::from_utf8_lossy(text).lines() {
                    writeln!(to, "{}", visible(line))?;
                }
                let lines: Option<u32> = files.iter().map(|file| file.lines).sum();
                let lines = lines.map_or_else(
                    || "lines that cannot be counted".to_owned(),
                    |lines| counted(lines.into(), "line", "lines"),
                );
                let files = counted(files.len() as u64, "file", "files");
                writeln!(to, "This changes {files}, {lines}.")?;
            }
            ToolRepairWay::Agent(_) => {
                let agent = self.agent.as_deref().unwrap_or("the agent of the settings");
                writeln!(to, "{} may change files of this project.", visible(agent))?;
            }
        }
        write!(
            to,
            "Then `{}` is called with {}; if it fails, the change is undone. Go on? [y/N] ",
            visible(&self.tool),
            visible(&self.arguments)
        )?;
        to.flush()?;
        drop(to);
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer)?;
        Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
    }

    /// Does it.
    pub(super) fn carry_out(&self, out: &Output) -> Result<ExitCode, CliError> {
        let mut config = config::in_force(out)?;
        if let Some(agent) = &self.agent {
            use_agent(&mut config, agent);
        }
        let way = match &self.way {
            ToolRepairWay::Agent(_) => ToolRepairWay::Agent(incident_limits(&config)),
            patch @ ToolRepairWay::Patch { .. } => patch.clone(),
        };
        let purpose = match &way {
            ToolRepairWay::Patch { .. } => Purpose::Recoveries,
            ToolRepairWay::Agent(_) => Purpose::Checks,
        };
        let foundation = Foundation::lay(self.project.clone(), &config, out)?;
        let right = foundation.take_right()?;
        let mut voice = foundation.voice(&config);
        let mut base = foundation.base(&config, purpose, &mut voice)?;
        foundation.listen(&base.inbox, &[], |_| {})?;
        let mut records = records(&base);
        let (plan, capture) = (self.plan(&foundation)?, capture(&foundation, &config));
        let terms = ToolRepairTerms { way, error: self.error.clone() };
        let mut repair = ToolRepair::new(plan, terms, capture, &mut records, &base);
        let end = repair.run(&mut base)?;
        drop(repair);
        right.give_back();
        self.tell(end, &foundation, &config, out)
    }

    /// Returns how the tool is called.
    fn plan(&self, foundation: &Foundation<'_>) -> Result<CommandPlan, CliError> {
        let own = std::env::current_exe()
            .map_err(|error| CliError::failed("cannot find Salve itself").because(error))?;
        let words = ["skill", "call", &self.tool, "--bare", "--args", &self.arguments];
        let mut argv: Vec<OsString> = vec![own.into()];
        argv.extend(words.map(OsString::from));
        Ok(CommandPlan {
            kind: SubjectKind::Tool,
            name: self.tool.clone(),
            argv,
            command: foundation.scrubber.scrub(&format!("{} {}", self.tool, self.arguments)),
            dir: self.project.root().to_owned(),
            env: Vec::new(),
            limit: CALL_LIMIT,
            limit_setting: None,
            input: None,
        })
    }

    /// Remembers what helped, settles the issue, and says how it came out.
    fn tell(
        &self,
        end: ToolRepairEnd,
        foundation: &Foundation<'_>,
        config: &Config,
        out: &Output,
    ) -> Result<ExitCode, CliError> {
        let tool = visible(&self.tool);
        match end {
            ToolRepairEnd::Works => {
                self.learn(foundation, config)?;
                let (store, scrubber) = (&foundation.store, &foundation.scrubber);
                if let Some(issue) = self.issue {
                    let id = issue.0.simple().to_string();
                    team::settle(store, &speaker(scrubber), &id, None, scrubber)?;
                }
                out.remark(format_args!(
                    "{tool} works; what helped is remembered. `salve undo` takes the change back"
                ));
                Ok(Exit::Well.into())
            }
            ToolRepairEnd::Fails => {
                out.remark(format_args!("{tool} still fails; the files are as they were"));
                Ok(Exit::Failed.into())
            }
            ToolRepairEnd::NeedsPerson => Ok(Exit::NeedsPerson.into()),
            ToolRepairEnd::Stopped(signal) => {
                Ok(ExitCode::from(u8::try_from(128 + signal).unwrap_or(1)))
            }
        }
    }

    fn learn(&self, foundation: &Foundation<'_>, config: &Config) -> Result<(), CliError> {
        let (store, scrubber) = (&foundation.store, &foundation.scrubber);
        let rules = config.fingerprint_rules();
        let files = match &self.way {
            ToolRepairWay::Patch { files, .. } => {
                let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
                format!("a patch of {}", paths.join(", "))
            }
            ToolRepairWay::Agent(_) => "an agent's change of its source".to_owned(),
        };
        let clean = |text: &str| scrubber.scrub(text).into_string();
        let fix = ToolFixItem {
            tool_name: clean(&self.tool),
            error_pattern: clean(&rules.fingerprint(&self.error, &Hints::default()).key_line),
            root_cause: clean(self.why.as_deref().unwrap_or("its source was wrong")),
            fix_description: clean(&files),
            discovered_at: Some(When(Timestamp::now())),
            confidence: Sureness::High,
        };
        let learned = Learned::new(store, scrubber, rules);
        learned.put_fix(&fix)?;
        // The store has it; the file follows when it can be written again.
        let _ = learned.sync();
        Ok(())
    }
}

/// Returns the arguments of a call, checked and on one line.
fn arguments(text: &str) -> Result<String, CliError> {
    match serde_json::from_str::<Value>(text) {
        Ok(value @ Value::Object(_)) => Ok(value.to_string()),
        Ok(_) | Err(_) => Err(CliError::usage("the arguments are not an object of JSON")
            .hint("--args '{\"namespace\": \"ns\"}'")),
    }
}
