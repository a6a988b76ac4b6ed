//! `salve gate`: whether a recovery command may run, and which rule says so.

use std::io::{self, BufRead, Read, Write};
use std::path::{Path, PathBuf};

use salve_core::gate::{
    DEFAULT_TIMEOUT_SECONDS, GateCounters, GatePolicy, GateRule, GateVerdict, PolicyFinding,
    RecoveryProposal, Request, Which, findings, strict,
};
use salve_core::scrub::Scrubber;
use serde::Serialize;
use serde_json::Value;

use super::{CliError, Exit, Output, foundation};
use crate::files::{FileKind, Links, read_text, read_text_where};
use crate::gate::{judge, judge_line, read_policy};
use crate::project::Project;
use crate::scrub::scrubber;

/// The longest line of `--jsonl` that is judged, in bytes.
const MAX_LINE: usize = 4 * 1024 * 1024;

/// Arguments of `salve gate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Nothing is ever run. Exit codes: 0 auto, 3 a person is needed, 1 denied, \
    2 usage.\nWith --jsonl: 0 when every line has its answer. With --explain: 0 when there is \
    nothing to report, 1 otherwise.")]
pub(super) struct Args {
    /// Settings: salve.toml or salve.json, or only their recovery section [default: those in force]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Judge the proposal in this file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["command", "jsonl"])]
    proposal: Option<PathBuf>,
    /// Judge the proposal's fallback instead of its first command
    #[arg(long, requires = "proposal")]
    fallback: bool,
    /// Judge this command
    #[arg(long, value_name = "COMMAND", conflicts_with = "jsonl", allow_hyphen_values = true)]
    command: Option<String>,
    /// Where the command would run, relative to the project [default: its root]
    #[arg(long, value_name = "DIR", requires = "command", allow_hyphen_values = true)]
    working_dir: Option<String>,
    /// What has run unattended so far, as JSON
    #[arg(long, value_name = "FILE", conflicts_with = "jsonl")]
    state: Option<PathBuf>,
    /// Judge one case per line of stdin and answer line by line
    #[arg(long, conflicts_with_all = ["config", "explain"])]
    jsonl: bool,
    /// Report rules that cannot match, contradict each other or say nothing new
    #[arg(long, conflicts_with_all = ["proposal", "command", "state"])]
    explain: bool,
}

/// Judges and prints the answer.
pub(super) fn run(args: Args, out: &Output) -> Result<Exit, CliError> {
    if args.jsonl {
        return answer_lines(io::stdin().lock(), out, &scrubber());
    }
    let (policy, scrubber) = match &args.config {
        Some(file) => (read_policy(&read_config(file)?), scrubber()),
        None => {
            // What waits for a person is not in force.
            let config = super::config::in_force(out)?;
            let scrubber = foundation::scrubber(&config)?;
            (Ok(config.policy), scrubber)
        }
    };
    if args.explain {
        return explain(&policy, out, &scrubber);
    }
    let verdict = judge_arguments(&args, policy, out, &scrubber)?;
    answer(&verdict, out, &scrubber)?;
    Ok(match verdict {
        GateVerdict::Auto(_) => Exit::Well,
        GateVerdict::Human { .. } => Exit::NeedsPerson,
        GateVerdict::Deny { .. } => Exit::Failed,
    })
}

fn read_config(path: &Path) -> Result<String, CliError> {
    read_text_where(path, FileKind::Document, Links::Follow).map_err(|error| {
        CliError::usage(format!("{} {error}", path.display()))
            .hint("name a salve.toml, a salve.json or a file with the recovery section")
    })
}

fn judge_arguments(
    args: &Args,
    policy: Result<GatePolicy, GateVerdict>,
    out: &Output,
    scrubber: &Scrubber,
) -> Result<GateVerdict, CliError> {
    if args.proposal.is_none() && args.command.is_none() {
        return Err(CliError::usage("there is nothing to judge")
            .hint("add --proposal FILE or --command COMMAND, or ask for --explain"));
    }
    let project = Project::locate(out.global().project.as_deref())
        .map_err(|error| CliError::usage(error.to_string()).hint(error.advice()))?;
    let judged = policy.and_then(|policy| {
        let state = read_state(args.state.as_deref())?;
        let request = read_request(args)?;
        Ok(judge(project.root(), &policy, &request, &state, scrubber).verdict)
    });
    Ok(judged.unwrap_or_else(|refusal| refusal))
}

fn read_state(path: Option<&Path>) -> Result<GateCounters, GateVerdict> {
    let Some(path) = path else { return Ok(GateCounters::default()) };
    let bad = |why: String| GateVerdict::deny(GateRule::State, format!("the state {why}"));
    let text =
        read_text_where(path, FileKind::Proposal, Links::Follow).map_err(|e| bad(e.to_string()))?;
    let value = strict::parse(&text).map_err(|error| bad(format!("is {error}")))?;
    GateCounters::read(&value)
        .map_err(|error| GateVerdict::deny(GateRule::State, error.to_string()))
}

fn read_request(args: &Args) -> Result<Request, GateVerdict> {
    let bad = |why: String| GateVerdict::deny(GateRule::Proposal, why);
    if let Some(command) = &args.command {
        let dir = args.working_dir.as_deref().unwrap_or(".");
        return Request::new(command, dir, DEFAULT_TIMEOUT_SECONDS).map_err(|e| bad(e.to_string()));
    }
    let path = args.proposal.as_deref().unwrap_or(Path::new(""));
    let text = read_text(path, FileKind::Proposal)
        .map_err(|error| bad(format!("the proposal {error}")))?;
    let which = if args.fallback { Which::Fallback } else { Which::Recovery };
    let proposal = RecoveryProposal::parse(&text).map_err(|error| bad(error.to_string()))?;
    proposal.request(which).cloned().map_err(|error| bad(error.to_string()))
}

/// One answer, as scripts read it.
#[derive(Serialize)]
struct GateAnswer<'a> {
    version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Value>,
    decision: &'a str,
    rule: String,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<&'a str>,
}

impl<'a> GateAnswer<'a> {
    fn new(id: Option<&'a Value>, verdict: &'a GateVerdict, scrubber: &Scrubber) -> Self {
        Self {
            version: 1,
            id,
            decision: verdict.decision(),
            rule: verdict.rule().to_string(),
            reason: scrubber.scrub(verdict.reason()).into_string(),
            command: match verdict {
                GateVerdict::Auto(approval) => Some(approval.command()),
                GateVerdict::Human { .. } | GateVerdict::Deny { .. } => None,
            },
        }
    }
}

fn answer(verdict: &GateVerdict, out: &Output, scrubber: &Scrubber) -> Result<(), CliError> {
    let answer = GateAnswer::new(None, verdict, scrubber);
    if out.json() {
        return out.fact(&answer);
    }
    let (says, next) = match verdict {
        GateVerdict::Auto(_) => ("auto: it may run unattended", None),
        GateVerdict::Human { .. } => {
            ("human: a person has to approve it", Some("approve or reject it"))
        }
        GateVerdict::Deny { .. } => ("deny: it must not run", None),
    };
    let mut stdout = out.stdout();
    writeln!(stdout, "{says}")?;
    writeln!(stdout, "  rule    {}", answer.rule)?;
    writeln!(stdout, "  reason  {}", answer.reason)?;
    if let Some(command) = answer.command {
        writeln!(stdout, "  runs    {command}")?;
    }
    if let Some(next) = next {
        writeln!(stdout, "  next    {next}")?;
    }
    Ok(())
}

fn answer_lines(
    mut input: impl BufRead,
    out: &Output,
    scrubber: &Scrubber,
) -> Result<Exit, CliError> {
    let mut stdout = io::BufWriter::new(out.exact());
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = input.by_ref().take(MAX_LINE as u64 + 1).read_until(b'\n', &mut line);
        match read.map_err(|error| CliError::failed("cannot read the cases").because(error))? {
            0 => break,
            _ if line.len() > MAX_LINE && !line.ends_with(b"\n") => {
                input.skip_until(b'\n').map_err(CliError::from)?;
            }
            _ => {}
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let (id, verdict) = match std::str::from_utf8(&line) {
            Ok(text) if text.len() <= MAX_LINE => judge_line(text, scrubber),
            Ok(text) => {
                let id = strict::salvage_id(text).unwrap_or(Value::Null);
                (id, GateVerdict::deny(GateRule::Proposal, "the case is too long"))
            }
            Err(error) => {
                let start = String::from_utf8_lossy(&line[..error.valid_up_to()]);
                let id = strict::salvage_id(&start).unwrap_or(Value::Null);
                (id, GateVerdict::deny(GateRule::Proposal, "the case is not UTF-8 text"))
            }
        };
        let answer = GateAnswer::new(Some(&id), &verdict, scrubber);
        serde_json::to_writer(&mut stdout, &answer).map_err(io::Error::from)?;
        stdout.write_all(b"\n")?;
        // Whoever feeds us line by line waits for each answer.
        if !input.fill_buf().is_ok_and(|rest| !rest.is_empty()) {
            stdout.flush()?;
        }
    }
    stdout.flush()?;
    Ok(Exit::Well)
}

/// One remark about the policy, as scripts read it.
#[derive(Serialize)]
struct PolicyRemark<'a> {
    kind: &'static str,
    rule: String,
    other: Option<String>,
    message: &'a str,
}

impl<'a> From<&'a PolicyFinding> for PolicyRemark<'a> {
    fn from(finding: &'a PolicyFinding) -> Self {
        Self {
            kind: finding.kind.name(),
            rule: finding.rule.to_string(),
            other: finding.other.map(|rule| rule.to_string()),
            message: finding.message.as_str(),
        }
    }
}

#[derive(Serialize)]
struct PolicyExplanation<'a> {
    version: u32,
    findings: Vec<PolicyRemark<'a>>,
}

fn explain(
    policy: &Result<GatePolicy, GateVerdict>,
    out: &Output,
    scrubber: &Scrubber,
) -> Result<Exit, CliError> {
    let policy = policy.as_ref().map_err(|refusal| {
        CliError::usage("the settings approve nothing, because they are not valid")
            .because(scrubber.scrub(refusal.reason()).into_string())
    })?;
    let found = findings(policy, scrubber);
    let remarks: Vec<PolicyRemark<'_>> = found.iter().map(PolicyRemark::from).collect();
    let exit = if remarks.is_empty() { Exit::Well } else { Exit::Failed };
    if out.json() {
        out.fact(&PolicyExplanation { version: 1, findings: remarks })?;
        return Ok(exit);
    }
    let mut stdout = out.stdout();
    if remarks.is_empty() {
        writeln!(stdout, "every rule can decide, and none contradicts another")?;
    }
    for remark in remarks {
        let other = remark.other.map(|rule| format!(" and {rule}")).unwrap_or_default();
        writeln!(stdout, "{:<11} {}{other}: {}", remark.kind, remark.rule, remark.message)?;
    }
    Ok(exit)
}
