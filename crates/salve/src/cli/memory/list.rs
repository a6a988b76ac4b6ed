//! `salve memory list`, `show` and `forget`.

use std::fmt;
use std::io::{IsTerminal, Write};

use anstyle::Style;
use jiff::{SignedDuration, Timestamp};
use salve_core::event::{Draft, Event, MemoryEvent, RemedyOrigin};
use salve_core::id::Signature;
use salve_core::memory::fleet::{Disagreement, FixTold};
use salve_core::memory::{Choice, Knowledge, Ranked, RecordStanding, rank};
use salve_core::scrub::Scrubbed;
use serde::Serialize;

use super::super::{CliError, Exit, project};
use super::{MemoryCommandContext, Whose};
use crate::process;
use crate::store::{Page, Store};

/// Arguments of `salve memory list`.
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// Show up to N failures
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    limit: u64,
    #[command(flatten)]
    whose: Whose,
}

/// Arguments of `salve memory show`.
#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// The failure's signature; its first digits will do
    signature: String,
    #[command(flatten)]
    whose: Whose,
}

/// Arguments of `salve memory forget`.
#[derive(Debug, clap::Args)]
pub(super) struct ForgetArgs {
    /// The failure's signature; its first digits will do
    signature: String,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    whose: Whose,
}

/// Lists known failures.
pub(super) fn list(args: &ListArgs, desk: &MemoryCommandContext<'_>) -> Result<Exit, CliError> {
    let known = match desk.open_existing(args.whose)? {
        Some(store) => store.memory().list(Page { skip: 0, limit: args.limit })?,
        None => Vec::new(),
    };
    if desk.out.json() {
        for known in &known {
            let listing = FailureListing { version: 1, knowledge: Some(known), fleet: None };
            desk.out.fact(&listing)?;
        }
        return Ok(Exit::Well);
    }
    if known.is_empty() {
        desk.out.remark("nothing is known yet");
    }
    let now = Timestamp::now();
    let mut out = desk.out.fitted();
    let dim = Style::new().dimmed();
    for known in &known {
        let failure = &known.failure;
        let best = rank(Some(known), None, now);
        let best = best.remedies.first().map(|best| best.remedy.description());
        let best = best.map(|best| format!("  → {}", first_line(&best))).unwrap_or_default();
        let (class, text) = (failure.class, first_line(failure.normalized.as_str()));
        writeln!(out, "{dim}{}{dim:#}  {class:<18} {text}{best}", failure.signature)?;
    }
    Ok(Exit::Well)
}

/// Shows all that is known about one failure.
pub(super) fn show(args: &ShowArgs, desk: &MemoryCommandContext<'_>) -> Result<Exit, CliError> {
    let told = recall_in_fleet(&args.signature, desk)?;
    let known = match (recall(&args.signature, args.whose, desk), &told) {
        (Ok((_, known)), _) => Some(known),
        (Err(_), Some(_)) => None,
        (Err(error), None) => return Err(error),
    };
    if desk.out.json() {
        let listing =
            FailureListing { version: 1, knowledge: known.as_ref(), fleet: told.as_ref() };
        desk.out.fact(&listing)?;
        return Ok(Exit::Well);
    }
    if let Some(known) = &known {
        print(known, PrintedMemory::of(args.whose), desk)?;
    }
    if let Some(told) = &told {
        print(told, PrintedMemory::Fleet, desk)?;
    }
    Ok(Exit::Well)
}

/// Forgets one failure.
pub(super) fn forget(args: &ForgetArgs, desk: &MemoryCommandContext<'_>) -> Result<Exit, CliError> {
    if process::is_agents() {
        return Err(CliError::needs_person("an agent cannot make Salve forget")
            .hint(format!("ask a person to run: salve memory forget {}", args.signature)));
    }
    let told = recall_in_fleet(&args.signature, desk)?;
    let (store, known) = match (recall(&args.signature, args.whose, desk), told) {
        (Ok(found), _) => found,
        (Err(_), Some(told)) => (desk.open(args.whose)?, told),
        (Err(error), None) => return Err(error),
    };
    desk.expect_person(&store, "make Salve forget")?;
    let signature = known.failure.signature;
    if !args.yes && !confirmed(&known, desk)? {
        return Err(CliError::needs_person(format!("{signature} was not forgotten"))
            .hint(format!("salve memory forget {signature} --yes")));
    }
    store.memory().forget(signature)?;
    if let Some(fleet) = desk.fleet() {
        let told = FixTold::Forgotten { signature, at: Timestamp::now() };
        fleet.tell(Scrubbed::default(), told)?;
        fleet.sync_before_parting();
    }
    if !args.whose.user {
        let by = project::speaker(&desk.scrubber);
        let event = Event::Memory(MemoryEvent::Forgotten { signature });
        store.journal().append(Draft { at: Timestamp::now(), by, incident: None, event })?;
    }
    desk.sync(&store, args.whose)?;
    if desk.out.json() {
        desk.out.fact(&Forgotten { version: 1, forgotten: signature })?;
    } else {
        desk.out.remark(format_args!("forgot {signature}"));
    }
    Ok(Exit::Well)
}

/// Asks a person at a terminal; without one nobody has agreed.
fn confirmed(known: &Knowledge, desk: &MemoryCommandContext<'_>) -> Result<bool, CliError> {
    if desk.out.json() || !std::io::stdin().is_terminal() {
        return Ok(false);
    }
    print(known, PrintedMemory::Project, desk)?;
    desk.out.remark("forget all this? [y/N]");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

#[derive(Debug, Serialize)]
struct FailureListing<'a> {
    version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    knowledge: Option<&'a Knowledge>,
    /// What other machines told.
    #[serde(skip_serializing_if = "Option::is_none")]
    fleet: Option<&'a Knowledge>,
}

/// Whose memory is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PrintedMemory {
    Project,
    User,
    Fleet,
}

impl PrintedMemory {
    fn of(whose: Whose) -> Self {
        if whose.user { Self::User } else { Self::Project }
    }
}

#[derive(Debug, Serialize)]
struct Forgotten {
    version: u32,
    forgotten: Signature,
}

fn print(
    known: &Knowledge,
    from: PrintedMemory,
    desk: &MemoryCommandContext<'_>,
) -> Result<(), CliError> {
    let now = Timestamp::now();
    let mut out = desk.out.fitted();
    let (bold, dim) = (Style::new().bold(), Style::new().dimmed());
    let failure = &known.failure;
    let what = match from {
        PrintedMemory::Project | PrintedMemory::User => "",
        PrintedMemory::Fleet => "  in the fleet",
    };
    writeln!(out, "{bold}{}{bold:#}  {dim}{}{what}{dim:#}", failure.class, failure.signature)?;
    writeln!(out, "  {}", failure.normalized)?;
    writeln!(out, "  {}", sightings(known.seen, known.last_seen, now))?;
    let choice = match from {
        PrintedMemory::Project => rank(Some(known), None, now),
        PrintedMemory::User => rank(None, Some(known), now),
        PrintedMemory::Fleet => Choice::of_fleet(known, now),
    };
    for (word, list) in [("try ", &choice.remedies), ("skip", &choice.failed)] {
        for ranked in list {
            writeln!(out, "  {word}  {}   {}", ranked.remedy.description(), Tally(ranked))?;
            let tried = known.find(&ranked.remedy);
            for outcome in tried.iter().flat_map(|tried| &tried.outcomes) {
                let (ago, by, project) = (age(outcome.at, now), &outcome.by, &outcome.project);
                let proof = serde_json::to_value(outcome.proof).unwrap_or_default();
                let proof = proof.as_str().unwrap_or_default();
                let incident = outcome.incident.map(|id| format!(" in {}", id.short()));
                let incident = incident.unwrap_or_default();
                let project = match from {
                    PrintedMemory::Fleet => format!(" of {project}"),
                    PrintedMemory::Project | PrintedMemory::User => String::new(),
                };
                writeln!(out, "        {dim}{proof} {ago} by {by}{incident}{project}{dim:#}")?;
            }
            if let Some(split) = tried.and_then(Disagreement::about) {
                let (healed, failed) = (split.healed.len(), split.failed.len());
                if from == PrintedMemory::Fleet {
                    writeln!(
                        out,
                        "        they disagree: healed for {healed}, failed for {failed}"
                    )?;
                }
            }
        }
    }
    Ok(())
}

fn recall(
    signature: &str,
    whose: Whose,
    desk: &MemoryCommandContext<'_>,
) -> Result<(Store, Knowledge), CliError> {
    let nothing = || {
        CliError::failed(format!("nothing is known about {signature}")).hint("salve memory list")
    };
    let store = desk.open_existing(whose)?.ok_or_else(nothing)?;
    let known = store.memory().recall(resolve(signature, &store)?)?.ok_or_else(nothing)?;
    Ok((store, known))
}

/// Returns what other machines of the fleet told of a failure, as far as it is used and known here.
fn recall_in_fleet(
    signature: &str,
    desk: &MemoryCommandContext<'_>,
) -> Result<Option<Knowledge>, CliError> {
    let Some(store) = desk.fleet().and_then(|fleet| fleet.store().transpose()).transpose()? else {
        return Ok(None);
    };
    match resolve(signature, &store) {
        Ok(signature) => Ok(store.memory().recall(signature)?),
        // Whether it is any signature is said by the memory that is asked first.
        Err(_) => Ok(None),
    }
}

/// Finds the signature that starts with these digits.
pub(super) fn resolve(prefix: &str, store: &Store) -> Result<Signature, CliError> {
    if let Ok(signature) = prefix.parse() {
        return Ok(signature);
    }
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    if prefix.len() < 4 || !prefix.bytes().all(hex) {
        let what = format!("`{prefix}` is no signature: 16 hex digits, or at least the first 4");
        return Err(CliError::usage(what).hint("salve memory list"));
    }
    match store.memory().signatures_like(prefix)?.as_slice() {
        [one] => Ok(*one),
        [] => {
            Err(CliError::failed(format!("nothing is known about {prefix}…"))
                .hint("salve memory list"))
        }
        [..] => Err(CliError::usage(format!("more than one failure starts with {prefix}"))),
    }
}

/// A remedy's record in a few words.
pub(super) struct Tally<'a>(pub(super) &'a Ranked);

impl fmt::Display for Tally<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ranked { remedy, origin, record, standing, confidence, word: _, healed_in } = self.0;
        let origin = match origin {
            RemedyOrigin::Project => "this project",
            RemedyOrigin::User => "your own memory",
            RemedyOrigin::Fleet => "the fleet",
            RemedyOrigin::Playbook => "shipped with Salve",
            RemedyOrigin::Proposal => "an agent",
            RemedyOrigin::Builtin => "Salve itself",
            RemedyOrigin::Person => "a person",
        };
        write!(f, "({}, {origin}, ", remedy.kind)?;
        if let (RemedyOrigin::User | RemedyOrigin::Fleet, Some(project)) =
            (self.0.origin, healed_in)
        {
            write!(f, "from {project}, ")?;
        }
        match standing {
            RecordStanding::Untried => write!(f, "not tried yet)"),
            RecordStanding::Works | RecordStanding::Undecided | RecordStanding::Failed => {
                write!(f, "healed {} of {}, {confidence} sure)", record.proven, record.tries())
            }
        }
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Says how often and when a failure was seen.
pub(super) fn sightings(seen: u64, last: Timestamp, now: Timestamp) -> String {
    let ago = age(last, now);
    match seen {
        0 => format!("taught {ago}, not seen since"),
        1 => format!("seen once, {ago}"),
        seen => format!("seen {seen} times, last {ago}"),
    }
}

/// Returns how long ago something was, in the largest unit that fits.
fn age(then: Timestamp, now: Timestamp) -> String {
    let ago = now.duration_since(then).max(SignedDuration::ZERO);
    let (hours, minutes) = (ago.as_hours(), ago.as_mins());
    match hours / 24 {
        0 if minutes == 0 => "just now".to_owned(),
        0 if hours == 0 => format!("{minutes} min ago"),
        0 => format!("{hours} h ago"),
        1 => "1 day ago".to_owned(),
        days => format!("{days} days ago"),
    }
}
