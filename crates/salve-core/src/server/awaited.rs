//! What a server that failed says it was waiting for: a service, a file, a program.
//!
//! Whoever waits for a person can look at these cheaply, and start the server when one of them is
//! there.

use std::sync::LazyLock;

use regex_automata::meta::Regex;

/// How many things are waited for at most.
const MOST: usize = 8;

/// Something whose absence a failure names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AwaitedThing {
    /// A service that does not answer.
    Service {
        /// Its host, by name or number.
        host: String,
        port: u16,
    },
    /// A file or directory, as the failure names it.
    Path(String),
    /// A program that was not found.
    Program(String),
}

impl std::fmt::Display for AwaitedThing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Service { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Service { host, port } => write!(f, "{host}:{port}"),
            Self::Path(path) => f.write_str(path),
            Self::Program(program) => write!(f, "the program {program}"),
        }
    }
}

impl AwaitedThing {
    /// Tells whether it is a service on this machine, which can be asked without waiting.
    pub fn is_local_service(&self) -> bool {
        match self {
            Self::Service { host, .. } => {
                host == "localhost"
                    || host == "::1"
                    || host.starts_with("127.")
                    || host == "0.0.0.0"
            }
            Self::Path(_) | Self::Program(_) => false,
        }
    }
}

/// The patterns of refused connections: a host and a port together, or one after the other.
const REFUSED: &[&str] = &[
    r"ECONNREFUSED\s+\[?(?P<host>[0-9a-fA-F:]*:[0-9a-fA-F:]*?|[\w.-]+)\]?:(?P<port>\d{2,5})\b",
    r"(?i)dial tcp \[?(?P<host>[\w.:-]+?)\]?:(?P<port>\d{2,5}): connect: connection refused",
    r#"(?i)connection to server at "(?P<host>[\w.:-]+)"[^\n]*?port (?P<port>\d{2,5}) failed"#,
    r"(?i)error \d+ connecting to (?P<host>[\w.-]+):(?P<port>\d{2,5})\b",
    r"(?i)(?:connection refused|could not connect|can't connect|failed to connect)[^\n]{0,60}?(?P<host>[\w-]+(?:\.[\w-]+)*):(?P<port>\d{2,5})\b",
    r#"(?i)can't reach database server at [`'"]?(?P<host>[\w.-]+)[`'"]?:[`'"]?(?P<port>\d{2,5})"#,
    r"(?i)\b(?P<host>(?:\d{1,3}\.){3}\d{1,3}|localhost):(?P<port>\d{2,5})\b[^\n]{0,60}?connection refused",
];

/// The patterns of files that are missing.
const MISSING: &[&str] = &[
    r#"ENOENT: no such file or directory, \w+ '(?P<path>[^'\n]+)'"#,
    r#"(?:FileNotFoundError|IOError|OSError): \[Errno 2\] No such file or directory: '(?P<path>[^'\n]+)'"#,
    r#"(?i)open (?P<path>[\w./~-]+): no such file or directory"#,
    r#"(?im)^\s*(?:error:|fatal:|sh:|bash:|cat:)[^\n]*?\s(?P<path>[\w./~-]*[./][\w./~-]*): no such file or directory"#,
    r#"(?i)(?:missing|not found|cannot find|could not find|no)\b[^\n]{0,30}?(?P<path>(?:[\w.-]+/)*\.env(?:\.[\w-]+)?)\b"#,
    r#"(?i)(?P<path>(?:[\w.-]+/)*\.env(?:\.[\w-]+)?) (?:file )?(?:is missing|not found|does not exist|is required)"#,
];

/// The patterns of programs that are missing.
const UNKNOWN: &[&str] = &[
    r"(?m)^(?:\S*sh: )(?:line )?(?:\d+: )?(?P<program>[\w.+-]+): (?:command )?not found",
    r"spawn (?P<program>[\w.+-]+) ENOENT",
    r"(?i)command not found: (?P<program>[\w.+-]+)",
];

/// One kind of patterns, made ready once.
struct AwaitedPatterns(Vec<Regex>);

impl AwaitedPatterns {
    fn new(patterns: &[&str]) -> Self {
        Self(patterns.iter().filter_map(|pattern| Regex::new(pattern).ok()).collect())
    }

    /// Calls `found` with the groups of each match.
    fn each(&self, text: &str, mut found: impl FnMut(&dyn Fn(&str) -> Option<String>)) {
        for regex in &self.0 {
            for captures in regex.captures_iter(text) {
                let group = |name: &str| {
                    captures.get_group_by_name(name).map(|span| text[span.range()].to_owned())
                };
                found(&group);
            }
        }
    }
}

static REFUSED_PATTERNS: LazyLock<AwaitedPatterns> =
    LazyLock::new(|| AwaitedPatterns::new(REFUSED));
static MISSING_PATTERNS: LazyLock<AwaitedPatterns> =
    LazyLock::new(|| AwaitedPatterns::new(MISSING));
static UNKNOWN_PATTERNS: LazyLock<AwaitedPatterns> =
    LazyLock::new(|| AwaitedPatterns::new(UNKNOWN));

/// Returns what a failure's output names as missing, each thing once.
pub fn awaited_things(output: &str) -> Vec<AwaitedThing> {
    let mut all = Vec::new();
    REFUSED_PATTERNS.each(output, |group| {
        let port = group("port").and_then(|port| port.parse().ok()).filter(|port| *port > 0);
        if let (Some(host), Some(port)) = (group("host"), port) {
            let host = host.trim_matches(['[', ']']).to_owned();
            all.push(AwaitedThing::Service { host, port });
        }
    });
    MISSING_PATTERNS.each(output, |group| all.extend(group("path").map(AwaitedThing::Path)));
    UNKNOWN_PATTERNS.each(output, |group| all.extend(group("program").map(AwaitedThing::Program)));
    let mut things: Vec<AwaitedThing> = Vec::new();
    for thing in all {
        if !things.contains(&thing) && things.len() < MOST {
            things.push(thing);
        }
    }
    things
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(host: &str, port: u16) -> AwaitedThing {
        AwaitedThing::Service { host: host.into(), port }
    }

    #[test]
    fn a_failure_names_what_it_waits_for() {
        let path = |path: &str| AwaitedThing::Path(path.into());
        let program = |program: &str| AwaitedThing::Program(program.into());
        for (output, want) in [
            ("Error: connect ECONNREFUSED 127.0.0.1:5432", vec![service("127.0.0.1", 5432)]),
            ("Error: connect ECONNREFUSED ::1:5432", vec![service("::1", 5432)]),
            (
                "psycopg.OperationalError: connection to server at \"localhost\" (::1), port 5432 failed: Connection refused",
                vec![service("localhost", 5432)],
            ),
            (
                "redis.exceptions.ConnectionError: Error 111 connecting to localhost:6379. Connection refused.",
                vec![service("localhost", 6379)],
            ),
            (
                "panic: dial tcp 127.0.0.1:5432: connect: connection refused",
                vec![service("127.0.0.1", 5432)],
            ),
            (
                "pymongo.errors.ServerSelectionTimeoutError: localhost:27017: [Errno 111] Connection refused",
                vec![service("localhost", 27017)],
            ),
            ("Error: ENOENT: no such file or directory, open '/app/.env'", vec![path("/app/.env")]),
            (
                "FileNotFoundError: [Errno 2] No such file or directory: 'config/settings.yml'",
                vec![path("config/settings.yml")],
            ),
            ("Error: missing .env file", vec![path(".env")]),
            ("sh: 1: vite: not found", vec![program("vite")]),
            ("bash: line 1: uvicorn: command not found", vec![program("uvicorn")]),
            ("Error: spawn ffmpeg ENOENT", vec![program("ffmpeg")]),
            ("TypeError: x is not a function", vec![]),
            ("GET /missing 404 page not found", vec![]),
        ] {
            assert_eq!(awaited_things(output), want, "{output}");
        }
        assert!(service("127.0.0.1", 1).is_local_service());
        assert!(!service("db", 1).is_local_service());
        assert_eq!(service("::1", 5432).to_string(), "[::1]:5432");
    }

    #[test]
    fn every_pattern_can_be_read() {
        for (patterns, read) in [
            (REFUSED, &REFUSED_PATTERNS.0),
            (MISSING, &MISSING_PATTERNS.0),
            (UNKNOWN, &UNKNOWN_PATTERNS.0),
        ] {
            assert_eq!(patterns.len(), read.len());
        }
    }
}
