//! Settings that judge less than before, in whatever format they are written.
//!
//! Settings are compared line by line: the formats differ, but a setting stands on a line in all
//! of them, and one that spans lines names itself on the first.

use std::collections::{BTreeMap, BTreeSet};

use super::compare::{Note, short};

/// The lines of a file before and after.
pub(super) struct Diff<'t> {
    before: Vec<&'t str>,
    after: Vec<&'t str>,
    was: BTreeMap<&'t str, usize>,
    is: BTreeMap<&'t str, usize>,
}

impl<'t> Diff<'t> {
    /// Compares two texts.
    pub(super) fn new(before: &'t str, after: &'t str) -> Self {
        let lines = |text: &'t str| text.lines().map(str::trim).collect::<Vec<_>>();
        let count = |lines: &[&'t str]| {
            let mut counts = BTreeMap::new();
            lines.iter().for_each(|line| *counts.entry(*line).or_insert(0) += 1);
            counts
        };
        let (before, after) = (lines(before), lines(after));
        let (was, is) = (count(&before), count(&after));
        Self { before, after, was, is }
    }

    /// Returns the lines that are there now and were not, with their numbers from 1.
    pub(super) fn added(&self) -> impl Iterator<Item = (u32, &'t str)> {
        beyond(&self.after, &self.was)
    }

    /// Returns the lines that were there and are not now, with their numbers from 1.
    pub(super) fn removed(&self) -> impl Iterator<Item = (u32, &'t str)> {
        beyond(&self.before, &self.is)
    }

    /// Tells whether a line of the file as it is now is such.
    pub(super) fn now(&self, is_such: impl Fn(&str) -> bool) -> bool {
        self.after.iter().any(|line| is_such(line))
    }
}

/// Returns the lines that occur more often than `others` has them.
fn beyond<'a, 't>(
    lines: &'a [&'t str],
    others: &'a BTreeMap<&'t str, usize>,
) -> impl Iterator<Item = (u32, &'t str)> + use<'a, 't> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    (1..).zip(lines).filter_map(move |(number, line)| {
        let count = seen.entry(line).or_insert(0);
        *count += 1;
        (!line.is_empty() && *count > others.get(line).copied().unwrap_or(0))
            .then_some((number, *line))
    })
}

/// Settings that judge less when they are on.
const LAX: [&str; 22] = [
    "skipLibCheck",
    "passWithNoTests",
    "ignoreBuildErrors",
    "ignoreDuringBuilds",
    "dangerouslyIgnoreUnhandledErrors",
    "ignore_errors",
    "ignore_missing_imports",
    "suppressImplicitAnyIndexErrors",
    "allowUnreachableCode",
    "allowUnusedLabels",
    "continue-on-error",
    "allow_failure",
    "allowOnly",
    "exit-zero",
    "skip_file",
    "automock",
    "isolatedModules",
    "noCheck",
    "allow-unwrap-in-tests",
    "allow-dbg-in-tests",
    "errorOnUnmatchedPattern",
    "no_strict_optional",
];

/// Settings that judge less when they are off.
const STRICT: [&str; 34] = [
    "strict",
    "noImplicitAny",
    "strictNullChecks",
    "strictFunctionTypes",
    "strictBindCallApply",
    "strictPropertyInitialization",
    "noImplicitThis",
    "useUnknownInCatchVariables",
    "alwaysStrict",
    "noUnusedLocals",
    "noUnusedParameters",
    "exactOptionalPropertyTypes",
    "noImplicitReturns",
    "noFallthroughCasesInSwitch",
    "noUncheckedIndexedAccess",
    "noImplicitOverride",
    "noPropertyAccessFromIndexSignature",
    "noEmitOnError",
    "checkJs",
    "disallow_untyped_defs",
    "disallow_any_generics",
    "disallow_incomplete_defs",
    "disallow_untyped_calls",
    "check_untyped_defs",
    "warn_return_any",
    "warn_unused_ignores",
    "strict_optional",
    "strict_equality",
    "no_implicit_optional",
    "enabled",
    "recommended",
    "test",
    "harness",
    "doctest",
];

/// Lists of what is left out.
const LEFT_OUT: [&str; 26] = [
    "exclude",
    "extend-exclude",
    "ignore",
    "ignores",
    "extend-ignore",
    "ignorePatterns",
    "per-file-ignores",
    "testPathIgnorePatterns",
    "modulePathIgnorePatterns",
    "coveragePathIgnorePatterns",
    "watchPathIgnorePatterns",
    "testIgnore",
    "norecursedirs",
    "collect_ignore",
    "collect_ignore_glob",
    "omit",
    "deselect",
    "disable",
    "disable_error_code",
    "disabledRules",
    "exclude_lines",
    "skip",
    "skips",
    "default-filter",
    "includes",
    "overrides",
];

/// Lists of what is judged, or the patterns that find it.
const JUDGED: [&str; 18] = [
    "select",
    "extend-select",
    "include",
    "includes",
    "testMatch",
    "testRegex",
    "testpaths",
    "python_files",
    "python_functions",
    "python_classes",
    "files",
    "spec",
    "roots",
    "projects",
    "enable",
    "extends",
    "plugins",
    "members",
];

/// Numbers that may not fall.
const FLOORS: [&str; 10] = [
    "branches",
    "functions",
    "lines",
    "statements",
    "fail_under",
    "fail-under",
    "cov-fail-under",
    "perFile",
    "thresholds",
    "minimum",
];

/// Returns how settings judge less than before.
pub(super) fn notes(diff: &Diff<'_>) -> Vec<Note> {
    let was: BTreeMap<&str, &str> = diff
        .removed()
        .filter_map(|(_, line)| setting(line))
        .map(|was| (was.key, was.value))
        .collect();
    let keys: BTreeSet<&str> =
        diff.after.iter().filter_map(|line| Some(setting(line)?.key)).collect();
    let mut notes = Vec::new();
    for (number, line) in diff.added() {
        let now = setting(line);
        let before = now.and_then(|now| was.get(now.key).copied());
        if let Some(what) = lax(line, now, before) {
            notes.push(Note { line: Some(number), what });
        } else if let Some(list) = item_of(diff, number, line) {
            let what = format!("`{list}` leaves out more: `{}`", short(line));
            notes.push(Note { line: Some(number), what });
        }
    }
    for (number, line) in diff.removed() {
        let Some(SettingLine { key, value }) = setting(line) else { continue };
        let strict = STRICT.contains(&key) && is_on(value) || FLOORS.contains(&key);
        if strict && !keys.contains(key) {
            let what = format!("a setting is gone: `{}`", short(line));
            notes.push(Note { line: Some(number), what });
        }
    }
    notes
}

/// Says how a line that is new judges less.
fn lax(line: &str, now: Option<SettingLine<'_>>, was: Option<&str>) -> Option<String> {
    if line.starts_with(['#', ';']) || line.starts_with("//") {
        return None;
    }
    let shown = short(line);
    let SettingLine { key, value } = now?;
    let bare = value.trim_matches(['"', '\'', '[', ' ']).to_ascii_lowercase();
    let off = matches!(bare.as_str(), "off" | "\"off\"" | "none" | "allow")
        || bare.starts_with("off\"")
        || bare.starts_with("off'");
    if LAX.contains(&key) && is_on(value) || STRICT.contains(&key) && is_off(value) {
        return Some(format!("judges less strictly: `{shown}`"));
    }
    let warns = was.is_some_and(is_error) && (bare.starts_with("warn") || bare == "1");
    let zero = bare == "0" && was.is_some_and(|was| was != "0");
    if off || warns || zero && !FLOORS.contains(&key) {
        return Some(format!("a rule is off: `{shown}`"));
    }
    if let (Some(now), Some(was)) =
        (value.parse::<f64>().ok(), was.and_then(|was| was.parse::<f64>().ok()))
    {
        let less = FLOORS.contains(&key) && now < was;
        let more = (key.starts_with("max") || key.ends_with("threshold") || key == "line-length")
            && now > was;
        return (less || more).then(|| format!("a limit is laxer: `{shown}` (was {was})"));
    }
    if matches!(key, "setupFiles" | "setupFilesAfterEnv" | "globalSetup" | "-p" | "pytest_plugins")
    {
        return Some(format!("something runs before the tests: `{shown}`"));
    }
    if key == "addopts" {
        let added =
            |option: &str| value.contains(option) && !was.is_some_and(|was| was.contains(option));
        let options = ["-k", "--ignore", "--deselect", "-m", "-p ", "--co", "--lf", "--reruns"];
        return options
            .iter()
            .any(|option| added(option))
            .then(|| format!("tests are left out: `{shown}`"));
    }
    if LEFT_OUT.contains(&key) && !is_empty_list(value) {
        let grew =
            was.is_none_or(|was| items(value).any(|item| !items(was).any(|old| old == item)));
        return grew.then(|| format!("more is left out: `{shown}`"));
    }
    if JUDGED.contains(&key) {
        let was = was?;
        let shrank = items(was).any(|item| !items(value).any(|now| now == item));
        return shrank.then(|| format!("less is judged: `{shown}`"));
    }
    None
}

/// A line that sets something.
#[derive(Clone, Copy, Debug)]
struct SettingLine<'l> {
    key: &'l str,
    value: &'l str,
}

/// Splits `"key": value,`, `key = value`, `key: value,` and `--key=value`.
fn setting(line: &str) -> Option<SettingLine<'_>> {
    let line =
        line.trim_start_matches("- ").trim_start_matches("--").trim_end_matches([',', ';']).trim();
    let at = line.find([':', '='])?;
    let key = line[..at].trim().trim_matches(['"', '\'']);
    let plain = |c: char| c.is_alphanumeric() || "_-./@*".contains(c);
    let value = line[at + 1..].trim();
    (!key.is_empty() && key.len() <= 80 && key.chars().all(plain))
        .then_some(SettingLine { key, value })
}

/// Returns the list that a line on its own is an item of, if that is a list of what is left out.
fn item_of<'t>(diff: &Diff<'t>, number: u32, line: &str) -> Option<&'t str> {
    let at = usize::try_from(number).ok()?.checked_sub(1)?;
    let quoted = line.starts_with(['"', '\'', '/']) || line.starts_with("- ");
    if !quoted || setting(line).is_some() {
        return None;
    }
    for line in diff.after.get(..at)?.iter().rev().take(200) {
        if line.starts_with([']', '}']) {
            return None;
        }
        if let Some(SettingLine { key, value }) = setting(line) {
            let opens = value.is_empty() || value.ends_with(['[', '{', '(']);
            return (opens && LEFT_OUT.contains(&key)).then_some(key);
        }
    }
    None
}

fn items(value: &str) -> impl Iterator<Item = &str> {
    let item = |c: char| matches!(c, ',' | '[' | ']' | '{' | '}' | ' ' | '"' | '\'' | '(' | ')');
    value.split(item).filter(|item| !item.is_empty())
}

fn is_empty_list(value: &str) -> bool {
    items(value).next().is_none()
}

fn is_on(value: &str) -> bool {
    matches!(
        value.trim_matches(['"', '\'']).to_ascii_lowercase().as_str(),
        "true" | "1" | "yes" | "on"
    )
}

fn is_off(value: &str) -> bool {
    matches!(
        value.trim_matches(['"', '\'']).to_ascii_lowercase().as_str(),
        "false" | "0" | "no" | "off"
    )
}

fn is_error(value: &str) -> bool {
    let value = value.trim_matches(['"', '\'', '[']);
    value.starts_with("error")
        || value == "2"
        || value.starts_with("2,")
        || value == "deny"
        || value == "forbid"
}
