//! Peels log decorations off a line until its message is left.

/// How loudly a line was logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// Nothing says.
    Plain,
    /// As an error.
    Error,
    /// As a warning.
    Warning,
    /// As information or chatter.
    Info,
}

/// A line without its decorations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peeled<'l> {
    /// What is left after log prefixes went.
    pub(crate) body: &'l str,
    /// What is left of the body after words that only say "error" went.
    pub(crate) core: &'l str,
    /// How loudly it was logged.
    pub(crate) level: Level,
}

/// Peels `line`.
pub(crate) fn peel(line: &str) -> Peeled<'_> {
    let mut level = Level::Plain;
    let mut body = line.trim();
    for (prefix, says) in [
        ("npm ERR! ", Level::Error),
        ("npm error ", Level::Error),
        ("npm WARN ", Level::Warning),
        ("npm warn ", Level::Warning),
    ] {
        if let Some(rest) = body.strip_prefix(prefix) {
            body = rest.trim_start();
            level = says;
        }
    }
    let mut core = body;
    while let Some(rest) =
        ["Error: ", "error: ", "ERROR: ", "Uncaught "].iter().find_map(|p| core.strip_prefix(p))
    {
        core = rest.trim_start();
    }
    Peeled { body, core, level }
}
