//! The same check for only what failed.
//!
//! A command is narrowed only where it is certain that it judges the failed tests as the whole
//! check would: the runner is known, every word of the command is understood, and nothing in it
//! depends on all tests having run. Otherwise the answer is `None`, and the whole check is run.
//!
//! **A narrowed run that ran no test says nothing**, whatever its exit code; see
//! [`TestCounts::ran`](super::TestCounts::ran).

mod options;
#[cfg(test)]
mod tests;

use super::results::{CheckTool, FailedCase, Results};
use options::{CARGO, GO, JEST, MOCHA, NEXTEST, NODE, Options, PYTEST, UNITTEST, VITEST};

/// The most tests that a command names.
const MOST: usize = 50;

/// The most bytes that the names add to a command.
const LONGEST: usize = 16 * 1024;

/// Words that start a program in the project's environment and change nothing else.
const LAUNCHERS: [&[&str]; 11] = [
    &["uv", "run"],
    &["poetry", "run"],
    &["pdm", "run"],
    &["pipenv", "run"],
    &["rye", "run"],
    &["npx"],
    &["bunx"],
    &["pnpm", "exec"],
    &["yarn", "exec"],
    &["npm", "exec", "--"],
    &["npx", "--no-install"],
];

/// Returns the command that runs only what failed, if that is certain to be the same check.
///
/// The paths of `failed` must be relative to where the command runs, or it would run the tests of
/// another tree; see [`Results::relative_to`].
pub fn narrow(words: &[String], results: &Results) -> Option<Vec<String>> {
    let plain: Vec<&str> = words.iter().map(String::as_str).collect();
    let narrowed = words_for(&plain, results)?;
    let added: usize = narrowed.iter().map(|word| word.len() + 1).sum();
    (added <= LONGEST + words.iter().map(|word| word.len() + 1).sum::<usize>()).then_some(narrowed)
}

/// Returns the command that runs only what failed, where the check is a package's script.
///
/// `script` is what the manifest says that `words` (`npm test`, `pnpm run unit`) runs.
pub fn narrow_script(words: &[String], script: &str, results: &Results) -> Option<Vec<String>> {
    let plain: Vec<&str> = words.iter().map(String::as_str).collect();
    let dashes: &[&str] = match plain.as_slice() {
        ["npm", "test" | "t"] | ["npm", "run" | "run-script", _] => &["--"],
        ["pnpm" | "yarn", "test"] | ["pnpm" | "yarn" | "bun", "run", _] => &[],
        _ => return None,
    };
    let inner = simple(script)?;
    let owned: Vec<String> = inner.iter().map(|word| (*word).to_owned()).collect();
    let narrowed = narrow(&owned, results)?;
    // What is added to a script comes last; nothing in it can be taken away.
    let added = narrowed.strip_prefix(owned.as_slice())?;
    let dashes = dashes.iter().map(|word| (*word).to_owned());
    Some(words.iter().cloned().chain(dashes).chain(added.iter().cloned()).collect())
}

/// Splits a script that is one plain command, without what only a shell understands.
fn simple(script: &str) -> Option<Vec<&str>> {
    if script.contains(|c| "|&;<>$`\"'\\*?(){}[]~#!\n\r".contains(c)) {
        return None;
    }
    let mut words = script.split_ascii_whitespace().peekable();
    words.next_if_eq(&"cross-env");
    while words.next_if(|word| word.contains('=') && !word.starts_with('-')).is_some() {}
    Some(words.collect())
}

fn words_for(words: &[&str], results: &Results) -> Option<Vec<String>> {
    let failed = results.failed.as_slice();
    if results.cut || failed.is_empty() || failed.len() > MOST {
        return None;
    }
    let (options, at) = runner(words)?;
    if results.tool != Some(options.tool) {
        return None;
    }
    let (before, args) = words.split_at(at);
    let mut narrowed: Vec<String> = before.iter().map(|word| (*word).to_owned()).collect();
    narrowed.extend(match options.tool {
        CheckTool::CargoTest => cargo(args, failed)?,
        CheckTool::GoTest => go(args, failed)?,
        CheckTool::Nextest | CheckTool::Mocha => with_filter(options, args, failed)?,
        CheckTool::Pytest
        | CheckTool::Unittest
        | CheckTool::Jest
        | CheckTool::Vitest
        | CheckTool::NodeTest => with_names(options, args, failed)?,
        CheckTool::Tsc
        | CheckTool::Mypy
        | CheckTool::Pyright
        | CheckTool::Eslint
        | CheckTool::Biome
        | CheckTool::Ruff
        | CheckTool::Rustc
        | CheckTool::GoBuild
        | CheckTool::Cc
        | CheckTool::Bundler => return None,
    });
    Some(narrowed)
}

/// Returns the runner that a command starts, and where its arguments begin.
fn runner(words: &[&str]) -> Option<(&'static Options, usize)> {
    let launcher = LAUNCHERS.iter().filter(|launcher| words.starts_with(launcher));
    let start = launcher.map(|launcher| launcher.len()).max().unwrap_or(0);
    let rest = words.get(start..)?;
    let program = rest.first()?.rsplit('/').next()?;
    let python = program
        .strip_prefix("python")
        .is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.'));
    let (options, length) = match (program, rest.get(1..).unwrap_or_default()) {
        ("pytest" | "py.test", _) => (&PYTEST, 1),
        (_, ["-m", "pytest", ..]) if python => (&PYTEST, 3),
        (_, ["-m", "unittest", ..]) if python => (&UNITTEST, 3),
        ("jest", _) => (&JEST, 1),
        ("vitest", ["run", ..]) => (&VITEST, 2),
        ("mocha", _) => (&MOCHA, 1),
        ("node", args) if args.contains(&"--test") => (&NODE, 1),
        ("cargo", ["test" | "t", ..]) => (&CARGO, 2),
        ("cargo", ["nextest", "run", ..]) => (&NEXTEST, 3),
        ("go", ["test", ..]) => (&GO, 2),
        _ => return None,
    };
    Some((options, start + length))
}

/// Names the failed tests, or their files, in place of what the command named.
fn with_names(options: &Options, args: &[&str], failed: &[FailedCase]) -> Option<Vec<String>> {
    let mut kept = options.without_operands(args)?;
    let mut names: Vec<String> = Vec::new();
    for case in failed {
        let name = match options.tool {
            CheckTool::Unittest | CheckTool::Pytest => case.name.as_str(),
            _ => case.file.as_deref()?,
        };
        let known = match options.tool {
            CheckTool::Unittest => is_name(name, '.') && !name.contains("_FailedTest"),
            _ => is_path(name),
        };
        if !known {
            return None;
        }
        if names.iter().all(|other| other != name) {
            names.push(name.to_owned());
        }
    }
    if options.tool == CheckTool::Jest && !kept.iter().any(|word| word == "--runTestsByPath") {
        kept.push("--runTestsByPath".to_owned());
    }
    kept.extend(names);
    Some(kept)
}

/// Adds an expression that only the failed tests fulfil.
fn with_filter(options: &Options, args: &[&str], failed: &[FailedCase]) -> Option<Vec<String>> {
    let operands = options.operands(args)?;
    let mut words: Vec<String> = args.iter().map(|word| (*word).to_owned()).collect();
    if options.tool == CheckTool::Mocha {
        // A hook that failed has no name to look for.
        if failed.iter().any(|case| case.name.contains(" hook ") || case.name.contains(" hook:")) {
            return None;
        }
        let names: Vec<_> = failed.iter().map(|case| escaped(&case.name)).collect();
        words.extend(["--grep".to_owned(), format!("^(?:{})$", names.join("|"))]);
        return Some(words);
    }
    if !operands.is_empty() || !failed.iter().all(|case| is_name(&case.name, ':')) {
        return None;
    }
    let tests: Vec<_> = failed.iter().map(|case| format!("test(={})", case.name)).collect();
    words.extend(["-E".to_owned(), tests.join(" | ")]);
    Some(words)
}

/// Names the failed tests to the program that cargo builds; it takes any of several exact names.
fn cargo(args: &[&str], failed: &[FailedCase]) -> Option<Vec<String>> {
    let end = args.iter().position(|word| *word == "--").unwrap_or(args.len());
    let unfit = ["--no-run", "--doc", "--help", "-h", "--list"];
    if args.iter().any(|word| unfit.contains(word)) {
        return None;
    }
    if !failed.iter().all(|case| is_name(&case.name, ':')) {
        return None;
    }
    let mut words: Vec<String> = args.iter().map(|word| (*word).to_owned()).collect();
    if end == args.len() {
        words.push("--".to_owned());
    }
    if !args[end..].contains(&"--exact") {
        words.push("--exact".to_owned());
    }
    words.extend(failed.iter().map(|case| case.name.clone()));
    Some(words)
}

/// Puts `-run` before everything else, where it cannot be taken for another option's value.
fn go(args: &[&str], failed: &[FailedCase]) -> Option<Vec<String>> {
    let unfit =
        ["run", "bench", "fuzz", "args", "list", "skip", "cover", "coverprofile", "c", "json"];
    let option = |word: &&str| {
        let name = word.trim_start_matches('-').split('=').next().unwrap_or_default();
        word.starts_with('-') && unfit.contains(&name)
    };
    if args.iter().any(option) {
        return None;
    }
    let mut tests: Vec<&str> = Vec::new();
    for case in failed {
        let test = case.name.split('/').next().filter(|name| is_name(name, '_'))?;
        let runs = ["Test", "Example", "Fuzz"].iter().any(|start| test.starts_with(start));
        if !runs {
            return None;
        }
        if !tests.contains(&test) {
            tests.push(test);
        }
    }
    let run = ["-run".to_owned(), format!("^({})$", tests.join("|"))];
    Some(run.into_iter().chain(args.iter().map(|word| (*word).to_owned())).collect())
}

/// Tells whether a text is made of letters, digits, `_` and one further sign.
fn is_name(text: &str, sign: char) -> bool {
    let fits = |c: char| c.is_alphanumeric() || c == '_' || c == sign;
    text.starts_with(|c: char| c.is_alphabetic() || c == '_') && text.chars().all(fits)
}

/// Tells whether a text can only be a path below the directory where the command runs.
fn is_path(text: &str) -> bool {
    let odd = text.starts_with(['-', '/', '~', '@', '\\']) || text.chars().nth(1) == Some(':');
    let up = text.split(['/', '\\']).any(|part| part == "..");
    !odd && !up && !text.is_empty() && !text.contains(char::is_control)
}

/// Returns a regular expression that matches just this text.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if "\\^$.*+?()[]{}|/".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
