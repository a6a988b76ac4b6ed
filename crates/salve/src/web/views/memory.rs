//! What is remembered: known failures with their remedies, fixes for tools, and usage patterns.

use jiff::Timestamp;
use salve_core::fingerprint::{Hints, Window};
use salve_core::memory::usage::{Level, UsageRecord};
use salve_core::memory::{Choice, Confidence, Knowledge, rank};
use schemars::JsonSchema;
use serde::Serialize;

use super::{JsonObject, ProjectReader, ViewError};
use crate::learned::{Learned, MemoryAnswer, MemoryQuestion, ToolFixItem, UsagePattern};
use crate::project::Project;
use crate::store::{MemorySize, Page, Store};

/// How many known failures one page shows.
const ROWS: u64 = 50;

/// How many failures are looked through for a text.
const MOST_SEARCHED: u64 = 5_000;

/// How many failures that resemble one are told of.
const NEAR: usize = 3;

/// Which memory is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::web) enum MemoryOwner {
    /// The project's.
    #[default]
    Project,
    /// The user's own, across projects.
    User,
}

/// What of a memory is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::web) struct MemoryQuery {
    /// Which memory.
    pub(in crate::web) owner: MemoryOwner,
    /// Only failures that mention this text.
    pub(in crate::web) text: String,
    /// How many to pass over.
    pub(in crate::web) skip: u64,
}

/// A known failure, and what to try on it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::web) struct KnownFailureRow {
    /// All that is known.
    #[schemars(with = "JsonObject")]
    pub(in crate::web) knowledge: Knowledge,
    /// What is tried, the best first, and what failed before.
    #[serde(skip)]
    pub(in crate::web) choice: Choice,
}

/// A mistake in calling a tool, and how loudly it speaks now.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::web) struct UsagePatternRow {
    #[schemars(with = "JsonObject")]
    pub(in crate::web) pattern: UsagePattern,
    /// How sure it is now.
    #[schemars(with = "serde_json::Value")]
    pub(in crate::web) confidence: Confidence,
    /// Where in its life it is.
    pub(in crate::web) stage: PatternWarning,
}

/// Where in its life a usage pattern is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::web) enum PatternWarning {
    /// It only watches.
    Watching,
    Warning,
    /// It warns most strongly, and blocks where that is wanted.
    Strongest,
    /// It was not seen for so long that it is dropped.
    Expired,
}

/// What is remembered, as far as one page shows it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::web) struct MemoryView {
    pub(in crate::web) owner: MemoryOwner,
    pub(in crate::web) failures: Vec<KnownFailureRow>,
    /// What `skip` is for the next page, if there is one.
    pub(in crate::web) next_skip: Option<u64>,
    #[schemars(with = "JsonObject")]
    pub(in crate::web) counts: MemorySize,
    #[schemars(with = "Vec<JsonObject>")]
    pub(in crate::web) tool_fixes: Vec<ToolFixItem>,
    pub(in crate::web) usage_patterns: Vec<UsagePatternRow>,
}

/// Reads what is remembered, the project's and the user's.
#[derive(Debug)]
pub(in crate::web) struct MemoryReader<'r> {
    reader: &'r mut ProjectReader,
}

impl<'r> MemoryReader<'r> {
    pub(super) fn new(reader: &'r mut ProjectReader) -> Self {
        Self { reader }
    }

    /// Returns what is remembered.
    pub(in crate::web) fn view(&mut self, query: &MemoryQuery) -> Result<MemoryView, ViewError> {
        let now = Timestamp::now();
        let mut view = MemoryView {
            owner: query.owner,
            failures: Vec::new(),
            next_skip: None,
            counts: MemorySize::default(),
            tool_fixes: Vec::new(),
            usage_patterns: Vec::new(),
        };
        let config = self.reader.settings().config()?;
        let scrubber = self.reader.scrubber().clone();
        let user = user_store()?;
        let store = match query.owner {
            MemoryOwner::Project => self.reader.store()?,
            MemoryOwner::User => user.as_ref(),
        };
        let Some(store) = store else { return Ok(view) };
        let (known, next_skip) = wanted(store, query)?;
        view.next_skip = next_skip;
        view.counts = store.memory().counts()?;
        view.failures = known.into_iter().map(|known| row(known, query.owner, now)).collect();
        let learned = Learned::new(store, &scrubber, config.fingerprint_rules());
        view.tool_fixes = learned.fixes()?;
        view.usage_patterns = learned
            .usage_patterns()?
            .into_iter()
            .map(|pattern| pattern_row(pattern, now))
            .collect();
        Ok(view)
    }

    /// Returns what memory says about a failure's text.
    pub(in crate::web) fn answer(&mut self, text: &str) -> Result<MemoryAnswer, ViewError> {
        let config = self.reader.settings().config()?;
        let rules = config.fingerprint_rules();
        let mut window = Window::new(rules);
        window.push(text.as_bytes());
        let scrubber = self.reader.scrubber().clone();
        let text = scrubber.scrub(&window.finish()).into_string();
        let print = rules.fingerprint(&text, &Hints::default());
        let user = if config.settings.memory.user { user_store()? } else { None };
        let learned = |store| Learned::new(store, &scrubber, rules);
        let user = user.as_ref().map(learned);
        let project = self.reader.store()?.map(learned);
        let now = Timestamp::now();
        let question = MemoryQuestion { print: &print, text: &text, tool: None, near: NEAR, now };
        Ok(MemoryAnswer::of(&question, project.as_ref(), user.as_ref())?)
    }
}

/// Opens the user's own memory, if there is one.
fn user_store() -> Result<Option<Store>, ViewError> {
    let Some(dir) = crate::dirs::data() else { return Ok(None) };
    Ok(Store::open_existing(&Project::of_user(dir))?)
}

/// Returns the failures that are wanted, and what to pass over for the next page.
fn wanted(store: &Store, query: &MemoryQuery) -> Result<(Vec<Knowledge>, Option<u64>), ViewError> {
    let text = query.text.to_lowercase();
    if text.is_empty() {
        let page = Page { skip: query.skip, limit: ROWS + 1 };
        let mut known = store.memory().list(page)?;
        let has_more = known.len() as u64 > ROWS;
        known.truncate(usize::try_from(ROWS).unwrap_or(usize::MAX));
        return Ok((known, has_more.then_some(query.skip.saturating_add(ROWS))));
    }
    let mentions = |known: &Knowledge| {
        let failure = &known.failure;
        let texts = [failure.normalized.as_str(), failure.key_line.as_str()];
        let mut remedies = known.remedies.iter().map(|tried| tried.remedy.text.as_str());
        texts.iter().any(|one| one.to_lowercase().contains(&text))
            || remedies.any(|one| one.to_lowercase().contains(&text))
            || failure.class.to_string().contains(&text)
            || failure.signature.to_string().starts_with(&text)
    };
    let all = store.memory().list(Page { skip: 0, limit: MOST_SEARCHED })?;
    let mut found: Vec<Knowledge> = all.into_iter().filter(mentions).collect();
    found.truncate(usize::try_from(ROWS).unwrap_or(usize::MAX));
    Ok((found, None))
}

fn row(knowledge: Knowledge, owner: MemoryOwner, now: Timestamp) -> KnownFailureRow {
    let choice = match owner {
        MemoryOwner::Project => rank(Some(&knowledge), None, now),
        MemoryOwner::User => rank(None, Some(&knowledge), now),
    };
    KnownFailureRow { knowledge, choice }
}

fn pattern_row(pattern: UsagePattern, now: Timestamp) -> UsagePatternRow {
    let usage = UsageRecord::from(&pattern);
    let stage = match usage.level(now) {
        _ if usage.is_expired(now) => PatternWarning::Expired,
        Level::Quiet => PatternWarning::Watching,
        Level::Active => PatternWarning::Warning,
        Level::Strongest => PatternWarning::Strongest,
    };
    UsagePatternRow { confidence: usage.confidence(now), pattern, stage }
}
