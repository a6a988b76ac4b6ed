//! How much is found and how little is hit by mistake, over labelled cases of our own.

use super::fill::fill;
use super::scrubber;

const TOKENS: &str = include_str!("cases/tokens.txt");
const NAMED: &str = include_str!("cases/named.txt");
const LINES: &str = include_str!("cases/lines.txt");
const NEGATIVES: &str = include_str!("cases/negatives.txt");

/// Where a token may stand by itself; `%N` is a name, `%T` the token.
const ANYWHERE: &[&str] = &[
    "2026-01-01T00:00:00Z ERROR request with %T failed: 401",
    "Error: invalid key %T",
    "    at login (auth.js:12:7) [%T]",
    "echo %T | tool login",
    "%T",
    "\x1b[31m%T\x1b[0m",
    "https://api.example.com/v1/%T/items",
];

/// Where a value stands beside its name.
const BESIDE_A_NAME: &[&str] = &[
    "%N=%T",
    "export %N=%T",
    "export %N=\"%T\"",
    "%N: %T",
    "  %N: \"%T\"",
    "{\"%N\": \"%T\", \"n\": 1}",
    "{\\\"%N\\\":\\\"%T\\\"}",
    "%N = '%T'",
    "docker run -e %N=%T app",
    "2026-01-01 DEBUG config %N=%T loaded",
    "loaded {'%N': '%T'}",
    "--%N %T --verbose",
    "--%N=%T",
    "\x1b[2m10:00\x1b[0m \x1b[36m%N\x1b[0m=\x1b[32m%T\x1b[0m is old",
    "\x1b[1;32m%N\x1b[22m: \x1b[32m'%T'\x1b[39m,",
    r#"{"message": "{\"data\": \"{\\\"%N\\\": \\\"%T\\\"}\"}"}"#,
    "spawn failed: ['tool', '--%N', '%T', '--verbose']",
];

fn cases(file: &str) -> impl Iterator<Item = &str> {
    file.lines().filter(|line| !line.is_empty() && !line.starts_with("# "))
}

/// Returns each text with the secret in it.
fn positives() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (file, own) in [(TOKENS, ANYWHERE), (NAMED, &[])] {
        for line in cases(file) {
            let (name, token) = line.split_once(' ').unwrap();
            for (seed, context) in own.iter().chain(BESIDE_A_NAME).enumerate() {
                let token = fill(token, seed as u64);
                all.push((context.replace("%N", name).replace("%T", &token), token));
            }
        }
    }
    all
}

/// Returns the part of a secret that must not be left, be the rest of a URL readable or not.
fn core(secret: &str) -> &str {
    &secret[secret.len() - secret.len().min(12)..]
}

#[test]
fn recall_over_all_kinds_and_contexts() {
    let cases = positives();
    let missed: Vec<_> = cases
        .iter()
        .filter(|(text, secret)| scrubber().scrub(text).as_str().contains(core(secret)))
        .map(|(text, _)| text.as_str())
        .collect();
    let recall = 1.0 - missed.len() as f64 / cases.len() as f64;
    println!("recall {recall:.4} over {} cases", cases.len());
    assert!(recall >= 0.99, "{recall:.4}: missed {}\n{}", missed.len(), missed.join("\n"));
}

#[test]
fn of_a_line_the_secret_goes_and_the_rest_stays() {
    let mut wrong = Vec::new();
    for line in cases(LINES) {
        let line = fill(line, 3);
        let text = line.replace(['«', '»'], "");
        let got = scrubber().scrub(&text);
        let fits = fits(&line, got.as_str());
        if !fits {
            wrong.push(format!("{line}\n  became {got}"));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Returns whether `got` is `line` with a marker for each «secret».
fn fits(line: &str, mut got: &str) -> bool {
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('«') {
        let Some(tail) = got.strip_prefix(before) else { return false };
        let Some(end) = tail.find(']').filter(|_| tail.starts_with("[secret:")) else {
            return false;
        };
        let Some((_, after)) = after.split_once('»') else { return false };
        (rest, got) = (after, &tail[end + 1..]);
    }
    rest == got
}

/// **Invariant:** No ordinary text is hit; every kind is found in every context.
#[test]
fn nothing_else_is_hit() {
    let lines: Vec<_> = cases(NEGATIVES).collect();
    assert!(lines.len() >= 300, "{}", lines.len());
    let mut wrong = Vec::new();
    for line in lines {
        for seed in 0..3 {
            let text = fill(line, seed);
            let got = scrubber().scrub(&text);
            if got != *text {
                wrong.push(format!("{text}\n  became {got}"));
                break;
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
