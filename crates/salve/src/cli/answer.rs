//! What people say to an incident: `salve approve`, `reject`, `resolve`, `retry`, `pause`,
//! `resume`, `abort`, `refill`, and the recovery spec's spellings of the first three.
//!
//! Every word is tried on the incident first; what it would not take is refused with the reason
//! and not written. An answer is bound to the question's number and to what it is about.

mod fleet;
mod steer;
mod target;

use std::io::Write;
use std::process::Stdio;

use anstyle::{AnsiColor, Style};
use salve_core::event::{Actor, Amounts, Entry, PersonOrder, SubjectKind};
use salve_core::id::IncidentId;
use salve_core::incident::{Ignored, Incident, Phase, RepairPhase};
use salve_core::repair::{self};
use salve_core::scrub::{Scrubbed, Scrubber};
use salve_core::view::IncidentView;
use serde::Serialize;

use self::fleet::{FleetTelling, answer_in_fleet};
pub(super) use self::steer::{ResumeArgs, Steer, resume_job, steer};
use self::target::IncidentTarget;
use super::job::fleet::FleetArgs;
use super::{CliError, Exit, Output, events, project};
use crate::heal::loop_files::LoopFiles;
use crate::heal::people::{self, PersonError, PersonWord};
use crate::process;
use crate::process::quiet_git;
use crate::store::{Journal, Store};

/// Who speaks.
#[derive(Debug, clap::Args)]
struct By {
    /// Who speaks [default: git's user.name, or the login]
    #[arg(long = "as", value_name = "NAME", env = "SALVE_USER")]
    name: Option<String>,
}

/// Which incident is spoken to, and by whom.
#[derive(Debug, clap::Args)]
pub(super) struct To {
    /// The incident's id; its first digits will do, with or without `heal-` [default: the only one
    /// that is not over]
    id: Option<String>,
    #[command(flatten)]
    by: By,
}

/// A remark, which may stand by itself or behind its name.
#[derive(Debug, clap::Args)]
struct RemarkArgs {
    /// A remark, kept with the answer
    #[arg(value_name = "NOTE")]
    bare: Option<String>,
    /// A remark, kept with the answer; needs no id before it
    #[arg(long, value_name = "TEXT", conflicts_with = "bare")]
    note: Option<String>,
}

/// Arguments of `salve approve` and `salve reject`.
#[derive(Debug, clap::Args)]
pub(super) struct AnswerArgs {
    /// The incident's id; its first digits will do, with or without `heal-` [default: the one that
    /// asks]
    id: Option<String>,
    #[command(flatten)]
    note: RemarkArgs,
    /// Answer only this question, as `salve show` gave its number [default: the open one]
    #[arg(long, value_name = "N")]
    question: Option<u32>,
    #[command(flatten)]
    by: By,
    #[command(flatten)]
    fleet: FleetArgs,
}

/// Arguments of `salve reject`.
#[derive(Debug, clap::Args)]
pub(super) struct RejectArgs {
    #[command(flatten)]
    answer: AnswerArgs,
    /// Say no to everything that is asked
    #[arg(long, conflicts_with_all = ["id", "question"])]
    all: bool,
}

/// Arguments of `salve resolve`.
#[derive(Debug, clap::Args)]
pub(super) struct ResolveArgs {
    /// The incident's id; its first digits will do, with or without `heal-` [default: the one that
    /// asks]
    id: Option<String>,
    #[command(flatten)]
    note: RemarkArgs,
    #[command(flatten)]
    by: By,
    #[command(flatten)]
    fleet: FleetArgs,
}

/// Arguments of `salve approve-recovery`, `reject-recovery` and `resolve-recovery`.
#[derive(Debug, clap::Args)]
pub(super) struct RecoveryAnswerArgs {
    /// The loop's id
    #[arg(long = "loop", value_name = "ID")]
    of: String,
    /// A remark, kept with the answer
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    #[command(flatten)]
    by: By,
}

/// Arguments of `salve refill`.
#[derive(Debug, clap::Args)]
pub(super) struct RefillArgs {
    #[command(flatten)]
    to: To,
    /// Attempts to grant
    #[arg(long, value_name = "N", default_value_t = 0)]
    attempts: u64,
    /// Tokens to grant
    #[arg(long, value_name = "N", default_value_t = 0)]
    tokens: u64,
    /// Minutes to grant
    #[arg(long, value_name = "N", default_value_t = 0)]
    minutes: u64,
}

/// What was said, for `--json`.
#[derive(Debug, Serialize)]
struct AnswerLine {
    version: u32,
    id: String,
    by: String,
    said: String,
    seq: u64,
    phase: RepairPhase,
}

/// What a person may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerKind {
    /// Yes to the open question.
    Approve,
    /// No to it.
    Reject,
    /// The matter is settled.
    Resolve,
}

impl AnswerKind {
    /// Returns the command by which it is said.
    fn as_str(self) -> &'static str {
        match self {
            AnswerKind::Approve => "approve",
            AnswerKind::Reject => "reject",
            AnswerKind::Resolve => "resolve",
        }
    }
}

/// Answers the open question of an incident, or settles the incident.
pub(super) fn answer(word: AnswerKind, args: &AnswerArgs, out: &Output) -> Result<Exit, CliError> {
    let AnswerArgs { id, note, question, by, fleet } = args;
    let target = id.as_deref().map_or(IncidentTarget::OnlyOne, IncidentTarget::Id);
    let note_kept = self::note(note.text());
    let telling = FleetTelling { word, id: id.as_deref(), note: note_kept, question: *question };
    if let Some(done) = beyond(&telling, target, fleet, out)? {
        return Ok(done);
    }
    tell(&Telling { word, target, by, note: note.text(), question: *question }, out)
}

/// Says no to one question, or to every one that is open.
pub(super) fn reject(args: &RejectArgs, out: &Output) -> Result<Exit, CliError> {
    if !args.all {
        return answer(AnswerKind::Reject, &args.answer, out);
    }
    let store = project::open_store(out)?;
    let asking = target::asking(store.journal())?;
    drop(store);
    if asking.is_empty() {
        out.remark("no incident asks anything");
    }
    let AnswerArgs { note, by, .. } = &args.answer;
    for id in asking {
        let id = id.to_string();
        let target = IncidentTarget::Id(&id);
        let word = AnswerKind::Reject;
        tell(&Telling { word, target, by, note: note.text(), question: None }, out)?;
    }
    Ok(Exit::Well)
}

/// Answers a job of a fleet, if one is meant.
fn beyond(
    telling: &FleetTelling<'_>,
    target: IncidentTarget<'_>,
    fleet: &FleetArgs,
    out: &Output,
) -> Result<Option<Exit>, CliError> {
    let is_known_here = || {
        let store = Store::open_existing(&project::locate(out)?)?;
        Ok(store.is_some_and(|store| target.find(store.journal(), telling.word).is_ok()))
    };
    answer_in_fleet(telling, fleet, is_known_here, out)
}

/// Says that the matter is settled.
pub(super) fn resolve(args: &ResolveArgs, out: &Output) -> Result<Exit, CliError> {
    let ResolveArgs { id, note, by, fleet } = args;
    let target = id.as_deref().map_or(IncidentTarget::OnlyOne, IncidentTarget::Id);
    let (word, note_kept) = (AnswerKind::Resolve, self::note(note.text()));
    let telling = FleetTelling { word, id: id.as_deref(), note: note_kept, question: None };
    if let Some(done) = beyond(&telling, target, fleet, out)? {
        return Ok(done);
    }
    tell(&Telling { word: AnswerKind::Resolve, target, by, note: note.text(), question: None }, out)
}

/// Answers what the recovery of a loop asks.
pub(super) fn recovery(
    word: AnswerKind,
    args: &RecoveryAnswerArgs,
    out: &Output,
) -> Result<Exit, CliError> {
    let RecoveryAnswerArgs { of, note, by } = args;
    let target = IncidentTarget::Loop(of);
    tell(&Telling { word, target, by, note: note.as_deref(), question: None }, out)
}

impl To {
    fn find(&self, journal: &dyn Journal) -> Result<IncidentId, CliError> {
        match &self.id {
            Some(id) => events::find(journal, id),
            None => target::only_open(journal),
        }
    }
}

impl RemarkArgs {
    fn text(&self) -> Option<&str> {
        self.note.as_deref().or(self.bare.as_deref())
    }
}

/// A word to an incident.
struct Telling<'a> {
    word: AnswerKind,
    target: IncidentTarget<'a>,
    by: &'a By,
    note: Option<&'a str>,
    question: Option<u32>,
}

fn tell(telling: &Telling<'_>, out: &Output) -> Result<Exit, CliError> {
    let note = note(telling.note);
    let answer =
        people::PersonAnswer { note: note.clone(), question: telling.question, shown: None };
    let word = match telling.word {
        AnswerKind::Approve => PersonWord::Approve(answer),
        AnswerKind::Reject => PersonWord::Reject(answer),
        AnswerKind::Resolve => PersonWord::Resolve(note),
    };
    let find = |journal: &dyn Journal| telling.target.find(journal, telling.word);
    say(find, telling.by, out, word)
}

/// Says why a word is not taken, and what can be done.
pub(super) fn refused(id: IncidentId, error: PersonError) -> CliError {
    let id = id.short();
    let show = format!("salve show {id}");
    match error {
        PersonError::Store(error) => error.into(),
        PersonError::Unreadable(error) => {
            CliError::failed(format!("incident {id} cannot be read")).because(error)
        }
        PersonError::NothingAsked(phase) => CliError::failed(format!("incident {id} asks nothing"))
            .because(format!("it is at `{phase}`"))
            .hint(show),
        PersonError::OtherQuestion { number, why } => {
            CliError::failed(format!("question {number} is open now"))
                .because(why)
                .hint(format!("look at it first: {show}"))
        }
        PersonError::NotTaken(why) => {
            let hint = match why {
                Ignored::Exhausted => format!("salve refill {id} --attempts 3"),
                _ => show,
            };
            CliError::failed(format!("incident {id} does not take this")).because(why).hint(hint)
        }
        PersonError::Restless => CliError::failed(error.to_string()).hint("try again"),
    }
}

/// Gives an order.
pub(super) fn order(to: To, order: PersonOrder, out: &Output) -> Result<Exit, CliError> {
    let find = |journal: &dyn Journal| to.find(journal);
    say(find, &to.by, out, PersonWord::Order(order))
}

/// Grants more.
pub(super) fn refill(args: RefillArgs, out: &Output) -> Result<Exit, CliError> {
    let granted = Amounts {
        attempts: args.attempts,
        tokens: args.tokens,
        wall_ms: args.minutes.saturating_mul(60_000),
        ..Amounts::default()
    };
    if granted == Amounts::default() {
        return Err(CliError::usage("nothing is granted").hint("say how much: --attempts 3"));
    }
    let find = |journal: &dyn Journal| args.to.find(journal);
    say(find, &args.to.by, out, PersonWord::Refill(granted))
}

fn note(note: Option<&str>) -> Option<Scrubbed> {
    let note = note.map(str::trim).filter(|note| !note.is_empty())?;
    Some(project::scrubber().scrub(note))
}

/// Says a person's word to an incident, and what came of it.
fn say(
    find: impl FnOnce(&dyn Journal) -> Result<IncidentId, CliError>,
    by: &By,
    out: &Output,
    word: PersonWord,
) -> Result<Exit, CliError> {
    refuse_agents("decide about an incident")?;
    let store = project::open_store(out)?;
    let journal = store.journal();
    let id = find(journal)?;
    let scrubber = project::scrubber();
    let by = Actor::Person { name: speaker(by.name.as_deref(), &store, &scrubber) };
    let taken = people::speak(journal, id, &by, word).map_err(|error| refused(id, error))?;
    let (is_cooling, starts) =
        (matches!(taken.incident.phase(), Phase::CoolingDown { .. }), taken.starts_server);
    if !is_cooling {
        told(taken.entries, out)?;
    }
    if starts && !out.json() {
        let name = events::visible(taken.incident.subject().name.as_str());
        out.remark(format_args!("  the server `{name}` is started again"));
    }
    let next = taken.incident;
    if next.owner().is_none_or(|owner| process::is_gone(owner, &scrubber)) {
        desert(&store, &next, out);
    }
    Ok(Exit::Well)
}

/// Says that nobody is there who would act on it, and brings a loop's files up to date for whom.
fn desert(store: &Store, incident: &Incident, out: &Output) {
    let name = &incident.subject().name;
    let dir = store.project().state_dir().join("loops").join(name.as_str());
    let is_loop = incident.subject().kind == SubjectKind::Iteration && dir.is_dir();
    let how = if is_loop {
        format!("go on with: salve loop run --id {}", events::visible(name.as_str()))
    } else {
        let again = match incident.subject().kind {
            SubjectKind::Check => "when you run `salve heal` again",
            SubjectKind::Server => "when you run `salve dev` again",
            SubjectKind::Tool | SubjectKind::Step | SubjectKind::Iteration => "when one does again",
        };
        format!("it takes effect {again}")
    };
    if is_loop {
        // Whoever goes on with the loop writes what could not be written now.
        let _ = LoopFiles::new(dir, store.project().root(), name.as_str()).refresh(store);
    }
    if !out.json() {
        out.remark(format_args!("  no salve cares for it now; {how}"));
    }
}

/// Refuses where an agent speaks, or anything else that Salve started.
pub(super) fn refuse_agents(to_do: &str) -> Result<(), CliError> {
    let hint = "a person runs this in a terminal of their own";
    if process::is_agents() {
        return Err(CliError::needs_person(format!("an agent cannot {to_do}")).hint(hint));
    }
    let dir = std::env::current_dir().unwrap_or_default();
    process::answerer::judge_own_process(&dir).map_err(|why| {
        CliError::needs_person(format!("this process cannot {to_do}")).because(why).hint(hint)
    })
}

/// Returns the name under which the user speaks.
pub(super) fn speaker(given: Option<&str>, store: &Store, scrubber: &Scrubber) -> Scrubbed {
    let given = given.filter(|name| !name.trim().is_empty()).map(str::to_owned);
    let name = given.or_else(|| git_name(store)).unwrap_or_else(project::user_name);
    scrubber.scrub(name.trim())
}

fn git_name(store: &Store) -> Option<String> {
    let root = store.project().root();
    let mut git = quiet_git(root);
    git.args(["config", "user.name"]).stdin(Stdio::null()).stderr(Stdio::null());
    let output = git.output().ok().filter(|output| output.status.success())?;
    let name = String::from_utf8(output.stdout).ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Tells what was said and what follows.
fn told(entries: Vec<Entry>, out: &Output) -> Result<(), CliError> {
    let Ok(view) = IncidentView::of(entries) else { return Ok(()) };
    let story = repair::IncidentStory::of(&view, &repair::RepairScene::default());
    let Some(last) = story.timeline.last() else { return Ok(()) };
    let id = view.id().short();
    if out.json() {
        let (by, said) = (last.by.clone(), last.text.clone());
        let said = AnswerLine { version: 1, id, by, said, seq: last.seq, phase: view.phase() };
        out.fact(&said)?;
        return Ok(());
    }
    let green = Style::new().fg_color(Some(AnsiColor::Green.into()));
    let (by, text) = (events::visible(&last.by), events::visible(&last.text));
    writeln!(out.fitted(), "{green}●{green:#} heal-{id}  {by} {text}")?;
    Ok(())
}
