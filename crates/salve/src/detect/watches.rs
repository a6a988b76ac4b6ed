//! Commands that watch: they never end by themselves, so they are no checks.

/// Returns whether a command, as a script or a person writes it, watches for changes.
pub(super) fn is_watching(command: &str) -> bool {
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

/// Returns the command that does the same once, if that is known.
pub(super) fn once(command: &str, exec: &str) -> Option<String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let plain = !command.contains(['&', ';', '|', '$', '=']);
    let (program, rest) = words.split_first().filter(|_| plain)?;
    let kept = |flags: &[&str]| {
        let kept = rest.iter().filter(|word| !flags.contains(word)).copied();
        kept.collect::<Vec<&str>>()
    };
    let words = match *program {
        "vitest" => [vec!["vitest", "run"], kept(&["watch", "dev", "--watch", "-w"])].concat(),
        "jest" => [vec!["jest"], kept(&["--watch", "--watchAll"])].concat(),
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
}
