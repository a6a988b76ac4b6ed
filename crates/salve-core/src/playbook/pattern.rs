//! The patterns of rules: compiled small, catching values by their named groups.

use regex_automata::meta::Regex;
use regex_automata::util::syntax;

use super::catch::{Caught, Kind};
use super::rule::RuleError;

/// Keeps the values of the first match; returns whether there was one.
pub(super) fn keep(regex: &Regex, text: &str, caught: &mut Caught) -> bool {
    let mut groups = regex.create_captures();
    regex.captures(text, &mut groups);
    if !groups.is_match() {
        return false;
    }
    for (index, name) in groups.group_info().pattern_names(0.into()).enumerate() {
        let kind = name.and_then(|name| name.parse::<Kind>().ok());
        if let (Some(kind), Some(span)) = (kind, groups.get_group(index)) {
            caught.keep(kind, &text[span.range()]);
        }
    }
    true
}

/// Compiles a pattern; its named groups must be kinds.
pub(super) fn pattern(rule: &str, source: &str) -> Result<Regex, RuleError> {
    let bad = |reason: String| RuleError::Pattern {
        rule: rule.to_owned(),
        pattern: source.to_owned(),
        reason,
    };
    let config = Regex::config().nfa_size_limit(Some(1 << 21));
    let lines = syntax::Config::new().multi_line(true);
    let regex = Regex::builder().configure(config).syntax(lines).build(&ascii(source));
    let regex = regex.map_err(|error| bad(error.to_string()))?;
    let info = regex.group_info();
    for name in info.pattern_names(0.into()).flatten() {
        name.parse::<Kind>().map_err(|()| bad(format!("unknown group `{name}`")))?;
    }
    Ok(regex)
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
