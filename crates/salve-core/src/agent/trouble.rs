//! What kinds of trouble agents report.

use crate::scrub::Scrubbed;

/// Why an agent cannot work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trouble {
    /// It is not logged in, or its key is wrong.
    Auth,
    /// Its account has used up what it may use for now; it works again later.
    RateLimit,
    /// There is no money left.
    Billing,
    /// The model's service is overloaded or away; it works again soon.
    Overloaded,
    /// Anything else.
    Other,
}

/// Words, in lower case, that tell a kind; the first row that has one decides.
const WORDS: [(Trouble, &[&str]); 4] = [
    (
        Trouble::Billing,
        &["billing", "credit balance", "insufficient_quota", "payment required", "out of credits"],
    ),
    (
        Trouble::RateLimit,
        &[
            "rate limit",
            "rate_limit",
            "ratelimit",
            "usage limit",
            "usage_limit",
            "session limit",
            "weekly limit",
            "resource_exhausted",
            "too many requests",
            "quota",
            "429",
        ],
    ),
    (
        Trouble::Auth,
        &[
            "authentication",
            "unauthorized",
            "unauthenticated",
            "not logged in",
            "log in",
            "login",
            "api key",
            "api_key",
            "credential",
            "oauth",
            "auth method",
            "401",
            "403",
        ],
    ),
    (
        Trouble::Overloaded,
        &[
            "overloaded",
            "unavailable",
            "server_error",
            "internal server error",
            "502",
            "503",
            "504",
            "529",
        ],
    ),
];

impl Trouble {
    /// Tells the kind from what an agent says.
    pub fn of(text: &str) -> Self {
        let text = text.to_lowercase();
        let tells = |words: &[&str]| words.iter().any(|word| text.contains(word));
        WORDS.iter().find(|(_, words)| tells(words)).map_or(Self::Other, |(kind, _)| *kind)
    }

    /// Returns whether it is there still when the agent is called again at once.
    pub fn lasts(self) -> bool {
        match self {
            Self::Auth | Self::RateLimit | Self::Billing => true,
            Self::Overloaded | Self::Other => false,
        }
    }

    /// Returns whether the service says no, so that sending the same request again cannot help.
    pub fn is_refusal(self) -> bool {
        match self {
            Self::Auth | Self::Billing => true,
            Self::RateLimit | Self::Overloaded | Self::Other => false,
        }
    }

    /// Returns that an agent could not work, and what a person can do about it.
    pub fn complaint(self) -> Scrubbed {
        Scrubbed::literal(match self {
            Self::Auth => "the agent is not logged in: log it in on this machine, or set its key",
            Self::RateLimit => {
                "the agent's account has reached its limit: wait until it is renewed"
            }
            Self::Billing => "the agent's account is empty: add credit to it",
            Self::Overloaded => "the model's service is busy: try again in a while",
            Self::Other => "the agent could not work: run it by hand in the project to see why",
        })
    }

    /// Returns what a person can do about it.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Auth => "log the agent in on this machine, or set its API key",
            Self::RateLimit => "wait until the account's limit is renewed",
            Self::Billing => "add credit to the agent's account",
            Self::Overloaded => "try again in a while; the model's service is busy",
            Self::Other => "run the agent by hand in the project to see what is wrong",
        }
    }
}
