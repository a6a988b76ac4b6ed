//! The patterns of rules: compiled when they are first wanted, catching values by named groups.
//!
//! A process that asks the playbook does so because something has just crashed, and most patterns
//! are about something else. Each knows words of which a match has to hold one, so only the few
//! that may match at all are ever compiled.

use std::sync::OnceLock;

use memchr::memmem;
use regex_automata::meta::Regex;
use regex_automata::util::syntax;
use regex_syntax::hir::{Hir, HirKind};

use super::catch::{CatchKind, Caught};
use super::rule::PlaybookRuleError;

/// The fewest bytes a word needs to tell anything.
const TELLING: usize = 3;

/// A text, and the same in small letters.
#[derive(Clone, Copy, Debug)]
pub(super) struct CasedText<'a> {
    pub(super) raw: &'a str,
    pub(super) small: &'a str,
}

#[derive(Debug)]
pub(super) struct RulePattern {
    source: String,
    /// Words in small letters of which a match holds one, if that is known.
    words: Option<Vec<Vec<u8>>>,
    regex: OnceLock<Option<Regex>>,
}

impl RulePattern {
    /// Reads a pattern; its named groups must be kinds.
    pub(super) fn new(rule: &str, source: &str) -> Result<Self, PlaybookRuleError> {
        let bad = |reason: String| PlaybookRuleError::Pattern {
            rule: rule.to_owned(),
            pattern: source.to_owned(),
            reason,
        };
        let source = ascii(source);
        // Whether letters are small is left aside: the words are looked for in small letters.
        let plain = source.replace("(?i)", "").replace("(?i:", "(?:");
        let mut parser = regex_syntax::ParserBuilder::new().multi_line(true).build();
        let hir = parser.parse(&plain).map_err(|error| bad(error.to_string()))?;
        for name in names(&source) {
            name.parse::<CatchKind>().map_err(|()| bad(format!("unknown group `{name}`")))?;
        }
        Ok(Self { words: words(&hir), source, regex: OnceLock::new() })
    }

    /// Compiles it, for whoever wants to know that it can be.
    pub(super) fn compile(&self, rule: &str) -> Result<(), PlaybookRuleError> {
        build(&self.source).map(drop).map_err(|reason| PlaybookRuleError::Pattern {
            rule: rule.to_owned(),
            pattern: self.source.clone(),
            reason,
        })
    }

    /// Returns whether it matches somewhere in `text`.
    pub(super) fn is_match(&self, text: CasedText<'_>) -> bool {
        self.regex_for(text).is_some_and(|regex| regex.is_match(text.raw))
    }

    /// Keeps the values of the first match; returns whether there was one.
    pub(super) fn keep(&self, text: CasedText<'_>, caught: &mut Caught) -> bool {
        let Some(regex) = self.regex_for(text) else { return false };
        let mut groups = regex.create_captures();
        regex.captures(text.raw, &mut groups);
        if !groups.is_match() {
            return false;
        }
        for (index, name) in groups.group_info().pattern_names(0.into()).enumerate() {
            let kind = name.and_then(|name| name.parse::<CatchKind>().ok());
            if let (Some(kind), Some(span)) = (kind, groups.get_group(index)) {
                caught.keep(kind, &text.raw[span.range()]);
            }
        }
        true
    }

    /// Returns what is to be searched with, if a match is possible at all.
    fn regex_for(&self, text: CasedText<'_>) -> Option<&Regex> {
        let is_there = |word: &Vec<u8>| memmem::find(text.small.as_bytes(), word).is_some();
        let is_possible = self.words.as_ref().is_none_or(|words| words.iter().any(is_there));
        // A test proves that every shipped pattern compiles, so nothing is lost here.
        is_possible.then(|| self.regex.get_or_init(|| build(&self.source).ok()).as_ref())?
    }
}

/// Returns words in small letters of which every match holds one; nothing if there are none that
/// tell anything.
fn words(hir: &Hir) -> Option<Vec<Vec<u8>>> {
    match hir.kind() {
        HirKind::Literal(literal) => {
            let word = literal.0.to_ascii_lowercase();
            (word.len() >= TELLING).then(|| vec![word])
        }
        HirKind::Capture(capture) => words(&capture.sub),
        HirKind::Repetition(repeated) if repeated.min > 0 => words(&repeated.sub),
        HirKind::Concat(parts) => {
            let shortest = |words: &Vec<Vec<u8>>| words.iter().map(Vec::len).min().unwrap_or(0);
            parts.iter().filter_map(words).max_by_key(shortest)
        }
        HirKind::Alternation(parts) => {
            let all: Option<Vec<_>> = parts.iter().map(words).collect();
            all.map(|all| all.concat())
        }
        HirKind::Empty | HirKind::Class(_) | HirKind::Look(_) | HirKind::Repetition(_) => None,
    }
}

fn build(source: &str) -> Result<Regex, String> {
    let config = Regex::config().nfa_size_limit(Some(1 << 21));
    let lines = syntax::Config::new().multi_line(true);
    let regex = Regex::builder().configure(config).syntax(lines).build(source);
    regex.map_err(|error| error.to_string())
}

/// Returns the names of a pattern's groups.
fn names(source: &str) -> impl Iterator<Item = &str> {
    source.split("(?P<").skip(1).filter_map(|rest| Some(rest.split_once('>')?.0))
}

/// Returns the pattern with its classes of letters, digits and spaces those of ASCII alone, which
/// makes the compiled one a small part of the size.
fn ascii(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() * 2);
    let mut chars = pattern.chars();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        match c {
            '[' => in_class = true,
            ']' => in_class = false,
            _ => {}
        }
        if c != '\\' {
            out.push(c);
            continue;
        }
        let class = match chars.next() {
            Some('w') => "0-9A-Za-z_",
            Some('d') => "0-9",
            Some('s') => r"\t\n\r ",
            Some('b') if !in_class => {
                out.push_str(r"(?-u:\b)");
                continue;
            }
            other => {
                out.push('\\');
                out.extend(other);
                continue;
            }
        };
        if in_class {
            out.push_str(class);
        } else {
            out.extend(["[", class, "]"]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn is_match(pattern: &RulePattern, raw: &str) -> bool {
        pattern.is_match(CasedText { raw, small: &raw.to_ascii_lowercase() })
    }

    #[test]
    fn a_pattern_is_compiled_only_where_a_match_is_possible() {
        let pattern =
            RulePattern::new("r", r"^\w+: Cannot find (?:module|package) '(?P<module>[^']+)'");
        let pattern = pattern.unwrap();
        assert!(!is_match(&pattern, "all is well\nCannot open"));
        assert!(pattern.regex.get().is_none());
        assert!(is_match(&pattern, "x\nError: Cannot find package 'zod'"));
        assert!(pattern.regex.get().is_some());
    }

    #[test]
    fn what_may_match_is_never_passed_over() {
        for (source, text) in [
            (r"(?i)address already in use", "ADDRESS Already In Use"),
            (r"\d+ errors?", "7 errors"),
            (r"(?:a|b)c", "xbc"),
            (r".*gone", "all gone"),
            (r"(?:Missing|no)? script", " script"),
            (r"(?:EADDRINUSE|(?i:port \d+ is taken))", "Port 80 IS taken"),
        ] {
            assert!(is_match(&RulePattern::new("r", source).unwrap(), text), "{source}");
        }
    }

    #[test]
    fn a_group_of_no_kind_is_refused() {
        let refused = RulePattern::new("r", "(?P<nonsense>x)").unwrap_err();
        assert!(refused.to_string().contains("nonsense"), "{refused}");
    }
}
