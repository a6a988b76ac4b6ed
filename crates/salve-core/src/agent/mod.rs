//! What coding agents print while they work, and what they are told before.
//!
//! A [`AgentStream`] takes in one line after the other of a headless run and says what it means. It
//! knows five dialects; what it does not know it counts and passes over, so that a newer release
//! of an agent is never an error. Nothing here is believed about the repair itself: changes, tests
//! and health are measured elsewhere.

mod claude;
mod codex;
mod gemini;
mod known;
mod lines;
mod opencode;
mod prices;
mod prompt;
mod trouble;

use std::collections::HashMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::event::Amounts;

pub use known::{KnownAgent, SHIPPED_AGENTS, known_agents, known_title};
pub use prices::TokenPrices;
pub use prompt::{Earlier, server_brief};
pub use trouble::Trouble;

/// The longest text of an agent that is passed on, in bytes.
const LONGEST_TEXT: usize = 2000;

/// How many messages are told apart at once; the parts of one follow each other closely.
const MESSAGES: usize = 1000;

/// How an agent's output is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// `claude -p --output-format stream-json --verbose`.
    Claude,
    /// `codex exec --json`.
    Codex,
    /// `gemini -p … --output-format stream-json`.
    Gemini,
    /// `opencode run --format json`.
    Opencode,
    /// Any program: text, with JSON lines of Salve's own shape among it.
    Lines,
}

/// What is particular to a dialect; a new one is a row in [`Dialect::traits`] and a reader beside it.
struct DialectTraits {
    /// Reads one object; nothing where it means nothing.
    read: fn(&mut AgentStream, &Value) -> Option<Vec<Sign>>,
    /// Reads one line of what it writes to stderr, where it tells what it waits for.
    complain: fn(&mut AgentStream, &str) -> Option<Sign>,
    /// What becomes of a line that is no object.
    plain: PlainLines,
    /// Whether it can say what its run costs in money.
    tells_money: bool,
}

/// What lines are that hold no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlainLines {
    /// Things the agent says; it need not name a result at its end.
    Said,
    /// Nothing that is known.
    Unknown,
}

impl Dialect {
    fn traits(self) -> DialectTraits {
        use PlainLines::{Said, Unknown};
        let silent = |_: &mut AgentStream, _: &str| None;
        let row =
            |read, plain, tells_money| DialectTraits { read, complain: silent, plain, tells_money };
        match self {
            Self::Claude => row(claude::read, Unknown, true),
            Self::Codex => row(codex::read, Unknown, false),
            Self::Gemini => {
                DialectTraits { complain: gemini::complaint, ..row(gemini::read, Unknown, false) }
            }
            Self::Opencode => DialectTraits {
                complain: |_, line| opencode::complaint(line),
                ..row(opencode::read, Unknown, true)
            },
            Self::Lines => row(lines::read, Said, true),
        }
    }

    /// Returns whether an agent that speaks it can say what its run costs in money.
    pub fn tells_money(self) -> bool {
        self.traits().tells_money
    }

    /// Returns whether an agent that speaks it has finished only once it names a result.
    pub fn names_result(self) -> bool {
        self.traits().plain == PlainLines::Unknown
    }
}

/// What one line means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sign {
    /// A session began.
    Session {
        /// What the agent calls it.
        id: String,
    },
    /// The agent said something.
    Said(String),
    /// The agent used a tool.
    Used {
        /// The tool's name.
        tool: String,
    },
    /// What the run has cost until now, in all.
    Spent(TokenUsage),
    /// Something went wrong that the agent may still get over.
    Trouble {
        /// What kind of thing.
        kind: Trouble,
        /// What it says.
        text: String,
    },
    /// The service refused a request, and the agent waits to send it again.
    Retry {
        /// Why it was refused.
        kind: Trouble,
        /// What it says, with the count of tries.
        text: String,
        /// For how long it waits, where it says so.
        pause: Option<Duration>,
    },
    /// The agent says that it has finished.
    Result {
        /// Whether it says that it succeeded.
        verdict: AgentVerdict,
        /// What it says.
        text: String,
    },
}

/// How an agent judges its own run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentVerdict {
    Finished,
    /// It gave up or was stopped.
    Failed,
}

/// Tokens and money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenUsage {
    /// Tokens read that were in no cache.
    pub input: u64,
    /// Tokens read from a cache.
    pub cached: u64,
    /// Tokens written, thoughts included.
    pub output: u64,
    /// Money in millionths; 0 where the agent tells none.
    pub money_micros: u64,
}

impl TokenUsage {
    /// Returns what a budget is charged: tokens that came from no cache, and money.
    ///
    /// Tokens from a cache are not counted: every turn reads the whole session again from there.
    pub fn amounts(&self) -> Amounts {
        Amounts {
            tokens: self.input.saturating_add(self.output),
            money_micros: self.money_micros,
            ..Amounts::default()
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            cached: self.cached.saturating_add(other.cached),
            output: self.output.saturating_add(other.output),
            money_micros: self.money_micros.saturating_add(other.money_micros),
        }
    }

    fn max(self, other: Self) -> Self {
        Self {
            input: self.input.max(other.input),
            cached: self.cached.max(other.cached),
            output: self.output.max(other.output),
            money_micros: self.money_micros.max(other.money_micros),
        }
    }
}

/// What the model read before its first answer.
#[derive(Clone, Debug)]
struct Opening {
    /// The message with that answer.
    message: String,
    /// How many tokens of it were in no cache.
    input: u64,
}

/// Reads one agent's output.
///
/// **Invariant:** what [`AgentStream::spent`] returns never falls.
#[derive(Clone, Debug)]
pub struct AgentStream {
    dialect: Dialect,
    /// What tokens cost, for an agent that tells no money.
    prices: Option<TokenPrices>,
    spent: TokenUsage,
    /// What each message cost that is known by a name of its own.
    messages: HashMap<String, TokenUsage>,
    /// What the messages cost that are no longer told apart.
    settled: TokenUsage,
    opening: Option<Opening>,
    /// The message that is being written, where its parts do not name it.
    writing: Option<String>,
    last_said: String,
    /// The beginning of a complaint that goes on in the next line.
    complaint: String,
    unknown: u64,
}

impl AgentStream {
    /// Begins to read.
    pub fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            prices: None,
            spent: TokenUsage::default(),
            messages: HashMap::new(),
            settled: TokenUsage::default(),
            opening: None,
            writing: None,
            last_said: String::new(),
            complaint: String::new(),
            unknown: 0,
        }
    }

    /// Takes these prices where the agent tells no money.
    pub fn with_prices(mut self, prices: Option<TokenPrices>) -> Self {
        self.prices = prices;
        self
    }

    /// Takes one line in, without its line feed.
    pub fn line(&mut self, line: &str) -> Vec<Sign> {
        let line = line.trim();
        if line.is_empty() {
            return Vec::new();
        }
        let Some(value) = object(line) else {
            return self.plain(line);
        };
        let before = self.spent;
        let signs = (self.dialect.traits().read)(self, &value);
        let Some(mut signs) = signs else {
            self.unknown += 1;
            return Vec::new();
        };
        if self.spent != before {
            // The cost comes first, so that a result is never taken in before what it cost.
            signs.insert(0, Sign::Spent(self.spent()));
        }
        signs
    }

    /// Takes in one line of what it writes to stderr, where some tell what they wait for.
    pub fn complaint(&mut self, line: &str) -> Option<Sign> {
        (self.dialect.traits().complain)(self, line.trim())
    }

    /// Returns what the run has cost so far.
    pub fn spent(&self) -> TokenUsage {
        let estimate = self.prices.map_or(0, |prices| prices.money_micros(&self.spent));
        // The larger one counts, so that the sum does not fall when the agent names it at its end.
        TokenUsage { money_micros: self.spent.money_micros.max(estimate), ..self.spent }
    }

    /// Returns the tokens that the work has taken so far: all but those that the model read before
    /// its first answer, which are the agent program's own instructions and the task.
    ///
    /// Where the agent does not tell them apart, these are all.
    pub fn worked(&self) -> u64 {
        let opening = self.opening.as_ref().map_or(0, |opening| opening.input);
        self.spent.amounts().tokens.saturating_sub(opening)
    }

    /// Counts the lines that were not understood.
    pub fn unknown(&self) -> u64 {
        self.unknown
    }

    fn plain(&mut self, line: &str) -> Vec<Sign> {
        match self.dialect.traits().plain {
            PlainLines::Said => self.say(line),
            PlainLines::Unknown => {
                self.unknown += 1;
                Vec::new()
            }
        }
    }

    /// Remembers and passes on what the agent said.
    fn say(&mut self, text: &str) -> Vec<Sign> {
        let text = short(text);
        if text.is_empty() {
            return Vec::new();
        }
        self.last_said.clone_from(&text);
        vec![Sign::Said(text)]
    }

    /// Takes in what one message cost; of two statements about it the larger counts.
    fn charge_message(&mut self, id: &str, usage: TokenUsage) {
        let known = self.messages.entry(id.to_owned()).or_default();
        *known = known.max(usage);
        let opening =
            self.opening.get_or_insert_with(|| Opening { message: id.to_owned(), input: 0 });
        if opening.message == id {
            opening.input = known.input;
        }
        let sum = self.messages.values().fold(self.settled, |sum, usage| sum.plus(*usage));
        self.spent = self.spent.max(sum);
        if self.messages.len() >= MESSAGES {
            self.settled = sum;
            self.messages.clear();
        }
    }

    /// Takes in what everything cost until now.
    fn charge_total(&mut self, usage: TokenUsage) {
        self.spent = self.spent.max(usage);
    }
}

/// Reads a JSON object.
fn object(line: &str) -> Option<Value> {
    if !line.starts_with('{') {
        return None;
    }
    serde_json::from_str::<Value>(line).ok().filter(Value::is_object)
}

/// Returns a field's text, or none.
fn text<'v>(value: &'v Value, field: &str) -> Option<&'v str> {
    value.get(field)?.as_str()
}

/// Returns a field's number, or 0.
fn number(value: &Value, field: &str) -> u64 {
    value.get(field).and_then(Value::as_u64).unwrap_or(0)
}

/// Returns a field's sum of dollars in millionths, or 0.
fn micros(value: &Value, field: &str) -> u64 {
    let dollars = value.get(field).and_then(Value::as_f64).unwrap_or(0.0);
    // A float is cut to the range of the number it becomes; what is no number becomes 0.
    (dollars * 1e6).round() as u64
}

/// Returns the beginning of a text.
fn short(text: &str) -> String {
    let text = text.trim();
    let mut end = text.len().min(LONGEST_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

#[cfg(test)]
mod tests;
