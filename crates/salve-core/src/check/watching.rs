//! Commands that watch: they never end by themselves, so they are no checks.

/// Returns whether a command, as a script or a person writes it, watches for changes.
pub fn is_watching(command: &str) -> bool {
    command.split(['&', ';', '|']).any(watches)
}

fn watches(command: &str) -> bool {
    let words: Vec<&str> = command.split_whitespace().collect();
    let has = |word: &str| words.contains(&word);
    let program = |name: &str| words.iter().any(|word| word.rsplit('/').next() == Some(name));
    let flag = |word: &&str| {
        let name = word.split('=').next().unwrap_or(word);
        let off = word.ends_with("=false") || word.ends_with("=0");
        ["--watch", "--watchAll", "--watch-path"].contains(&name) && !off
    };
    if words.iter().any(flag) {
        return true;
    }
    if program("vitest") {
        // Alone it watches, in a terminal at least; `run` and `--run` end.
        let ends = ["run", "--run", "--watch=false", "--no-watch", "related", "list", "bench"];
        return !ends.iter().any(|word| has(word)) || has("watch") || has("dev");
    }
    let short = has("-w") && (program("tsc") || program("vue-tsc") || program("mocha"));
    short
        || program("nodemon")
        || program("watchexec")
        || program("ptw")
        || program("cargo-watch")
        || (has("watch") && program("cargo"))
}

/// What watchers print, last of all, when they have run everything and wait for an edit.
const WAITING: &[&str] = &[
    "Waiting for file changes",
    "Watching for file changes",
    "Watch Usage",
    "waiting for changes",
    "waiting for file changes before restart",
    "[Finished running. Exit status",
    "[Command was successful]",
    "[Command exited with",
];

/// How many of the last lines may hold what a watcher prints when it waits.
const LAST_LINES: usize = 16;

/// Returns whether output ends with the words of a watcher that waits for an edit.
pub fn waits_for_edits(output: &str) -> bool {
    let last = output.lines().rev().take(LAST_LINES);
    last.into_iter().any(|line| WAITING.iter().any(|words| line.contains(words)))
}

/// Words that only run what follows them.
const RUNNERS: &[&[&str]] = &[
    &["npx"],
    &["npm", "exec", "--"],
    &["npm", "exec"],
    &["pnpm", "exec"],
    &["pnpm"],
    &["yarn"],
    &["bunx"],
];

/// Returns the command that does once what a command, as it was typed, does again and again;
/// `script` is what it runs if it names a script of a package.
pub fn ending_form(command: &str, script: Option<&str>) -> Option<String> {
    if let Some(script) = script {
        return once(script, "npx");
    }
    let words: Vec<&str> = command.split_whitespace().collect();
    let runner = RUNNERS.iter().find(|runner| words.starts_with(runner));
    let runner = runner.map_or(&[][..], |runner| runner);
    let rest = words.get(runner.len()..)?.join(" ");
    once(&rest, &runner.join(" ")).map(|once| once.trim_start().to_owned())
}

/// Returns the command that does the same once, if that is known.
pub fn once(command: &str, exec: &str) -> Option<String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let plain = !command.contains(['&', ';', '|', '$', '=']);
    let (program, rest) = words.split_first().filter(|_| plain)?;
    let kept = |flags: &[&str]| {
        let kept = rest.iter().filter(|word| !flags.contains(word)).copied();
        kept.collect::<Vec<&str>>()
    };
    let words = match program.rsplit('/').next().unwrap_or(program) {
        "vitest" => {
            [vec![*program, "run"], kept(&["watch", "dev", "run", "--watch", "-w"])].concat()
        }
        "jest" => [vec![*program], kept(&["--watch", "--watchAll"])].concat(),
        "tsc" | "vue-tsc" => [vec![*program], kept(&["-w", "--watch"])].concat(),
        _ => return None,
    };
    Some(format!("{exec} {}", words.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_watches_is_told_from_what_ends() {
        for command in [
            "vitest",
            "vitest --coverage",
            "vitest watch",
            "jest --watch",
            "jest --watchAll",
            "tsc -w",
            "tsc --noEmit --watch",
            "npm run build && vitest",
            "cargo watch -x test",
            "nodemon --exec pytest",
            "node --test --watch",
        ] {
            assert!(is_watching(command), "{command}");
        }
        for command in [
            "vitest run",
            "vitest --run",
            "jest",
            "jest --watchAll=false",
            "tsc --noEmit",
            "eslint . -w",
            "cargo test",
            "pytest -w",
        ] {
            assert!(!is_watching(command), "{command}");
        }
    }

    #[test]
    fn a_command_that_watches_is_written_so_that_it_ends() {
        let rows = [
            ("vitest", Some("npx vitest run")),
            ("vitest --coverage", Some("npx vitest run --coverage")),
            ("jest --watch src", Some("npx jest src")),
            ("tsc -w --noEmit", Some("npx tsc --noEmit")),
            ("NODE_ENV=test vitest", None),
            ("nodemon x", None),
        ];
        for (command, want) in rows {
            assert_eq!(once(command, "npx").as_deref(), want, "{command}");
        }
    }

    #[test]
    fn a_watcher_that_waits_is_told_from_one_that_works() {
        let waiting = [
            " PASS  Waiting for file changes...\n       press h to show help, press q to quit\n",
            "12:00:00 PM - Found 0 errors. Watching for file changes.\n",
            "Ran all test suites.\n\nWatch Usage\n \u{203a} Press f to run only failed tests.\n",
            "[nodemon] clean exit - waiting for changes before restart\n",
        ];
        waiting.iter().for_each(|text| assert!(waits_for_edits(text), "{text}"));
        let working = ["", "Tests  1 passed (1)\n", "Starting compilation in watch mode...\n"];
        working.iter().for_each(|text| assert!(!waits_for_edits(text), "{text}"));
        let again = format!("Waiting for file changes...\n{}", "a line\n".repeat(LAST_LINES));
        assert!(!waits_for_edits(&again), "it went on to work");
    }

    #[test]
    fn what_ends_is_named_as_it_was_typed() {
        let check = |command: &str, script: Option<&str>, want: Option<&str>| {
            assert_eq!(ending_form(command, script).as_deref(), want, "{command}");
        };
        check("npx vitest --watch", None, Some("npx vitest run"));
        check("vitest watch src", None, Some("vitest run src"));
        check("pnpm exec jest --watchAll", None, Some("pnpm exec jest"));
        check("node_modules/.bin/tsc -w -p .", None, Some("node_modules/.bin/tsc -p ."));
        check("npm test", Some("vitest --watch"), Some("npx vitest run"));
        check("npm run w", Some("nodemon a.js"), None);
        check("nodemon a.js", None, None);
    }
}
