//! Advice that can do no harm when it is pasted.
//!
//! What a person reads is filled in with values from a failure's own text, so a path may be
//! anything: `/`, a home directory, a name with a space or a leading dash. Advice is therefore
//! looked at after it was filled in, and one that could do harm is not given at all.
//!
//! **Invariant:** no advice changes owners or modes recursively, acts on `/`, a home directory or
//! what a wildcard finds, ends processes by name, throws away work that git keeps, or uses `sudo`
//! on anything but one exact path inside the project. Held by
//! `every_advice_is_harmless_whatever_the_failure_names`.

/// What is told where the advice itself might do harm.
pub(super) const NO_ADVICE: &str = "Look at the path that the message names (ls -ld shows owner and mode); no command is given here, \
     since it might do harm there.";

/// Programs that change who may do what with a file.
const RIGHTS: &[&str] = &["chown", "chmod", "chgrp", "chattr", "setfacl"];

/// Programs that take files away.
const REMOVERS: &[&str] = &["rm", "mv", "rmdir", "shred", "truncate", "unlink"];

/// Programs that no advice names, whatever they are given.
const NEVER: &[&str] =
    &["pkill", "killall", "dd", "mkfs", "shutdown", "reboot", "curl", "wget", "doas", "su"];

/// Words of git that throw work away or send it elsewhere.
const GIT: &[&str] = &["reset", "clean", "push", "stash", "checkout", "rebase", "filter-branch"];

/// Why an advice could do harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// It changes owners or modes of everything below a directory.
    Recursive,
    /// It acts on `/`, a home directory, everything here, or something outside the project.
    Wide,
    /// It has more rights than one exact path inside the project needs.
    Privileged,
    /// It ends processes that it does not name one by one.
    Processes,
    /// It throws away work, or does what no advice should.
    Work,
}

/// Returns why `advice` could do harm in the project at `root`, if it could.
pub fn harm_of(advice: &str, root: &str) -> Option<Harm> {
    let segments = advice.split([';', '|', '&', '\n', '`', '(', ')', ',']);
    segments.filter_map(|segment| harm_in(segment, root)).next()
}

/// Looks at one part of an advice, which may be prose that ends with a command.
fn harm_in(segment: &str, root: &str) -> Option<Harm> {
    let words = words_of(segment);
    words.iter().enumerate().find_map(|(at, word)| {
        let program = word.rsplit('/').next().unwrap_or(word);
        let args = &words[at + 1..];
        let targets = || args.iter().filter(|arg| !arg.starts_with('-')).map(String::as_str);
        let is_wide = |target: &str| is_wide(target, root);
        if NEVER.contains(&program) {
            return Some(Harm::Work);
        }
        if RIGHTS.contains(&program) {
            let recursive = |arg: &String| {
                arg == "--recursive"
                    || arg.starts_with('-') && !arg.starts_with("--") && arg.contains('R')
            };
            if args.iter().any(recursive) {
                return Some(Harm::Recursive);
            }
            // The first word is the owner or the mode.
            return targets().skip(1).any(is_wide).then_some(Harm::Wide);
        }
        if REMOVERS.contains(&program) {
            return targets().any(is_wide).then_some(Harm::Wide);
        }
        match program {
            "sudo" => is_privileged(args).then_some(Harm::Privileged),
            "kill" => {
                let named = |arg: &String| {
                    arg.starts_with('<') || arg.parse::<u32>().is_ok_and(|pid| pid > 1)
                };
                (!args.iter().all(named)).then_some(Harm::Processes)
            }
            "git" => {
                let word = args.first().map_or("", String::as_str);
                let restored = word == "restore" && targets().skip(1).any(is_wide);
                (GIT.contains(&word) || restored).then_some(Harm::Work)
            }
            "docker" => args.iter().any(|arg| arg == "prune" || arg == "rm").then_some(Harm::Work),
            "find" => args.iter().any(|a| a == "-delete" || a == "-exec").then_some(Harm::Work),
            _ => None,
        }
    })
}

/// Returns whether `sudo` is used for anything but the owner or mode of one path.
fn is_privileged(args: &[String]) -> bool {
    let [program, _who, path] = args else { return true };
    !RIGHTS.contains(&program.as_str()) || path.starts_with('-')
}

/// Returns whether a target is more than one exact path inside the project.
fn is_wide(target: &str, root: &str) -> bool {
    if target.starts_with('<') {
        return false;
    }
    let own = target.strip_prefix(root).and_then(|rest| rest.strip_prefix('/'));
    let inside = match own.filter(|_| !root.is_empty()) {
        Some(own) => own,
        None if target.starts_with(['/', '~', '$']) => return true,
        None => target,
    };
    let parts = || inside.split('/').filter(|part| !matches!(*part, "" | "."));
    inside.contains(['*', '?', '$', '~']) || parts().next().is_none() || parts().any(|p| p == "..")
}

/// Splits at white space outside of quotes, and takes the quotes and the prose's marks off.
fn words_of(segment: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quote, mut open) = (String::new(), None, false);
    for c in segment.chars() {
        match quote {
            Some(end) if c == end => quote = None,
            Some(_) => word.push(c),
            None if c == '\'' || c == '"' => (quote, open) = (Some(c), true),
            None if c.is_whitespace() => {
                if open || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                open = false;
            }
            None => word.push(c),
        }
    }
    if open || !word.is_empty() {
        words.push(word);
    }
    words.iter().map(|word| word.trim_end_matches(['.', ':']).to_owned()).map(keep_dot).collect()
}

/// A lone dot was a target, not the end of a sentence.
fn keep_dot(word: String) -> String {
    if word.is_empty() { ".".to_owned() } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_do_harm_is_told_from_what_could_not() {
        let rows = [
            ("sudo chown -R me /", Some(Harm::Privileged)),
            ("chown -R me dist", Some(Harm::Recursive)),
            ("chmod --recursive 755 .", Some(Harm::Recursive)),
            ("make it yours: chown me /", Some(Harm::Wide)),
            ("sudo chown me dist/out.js", None),
            ("sudo chown me /srv/shop/dist/out.js", None),
            ("sudo chown me /etc/passwd", Some(Harm::Wide)),
            ("sudo sysctl fs.inotify.max_user_watches=524288", Some(Harm::Privileged)),
            ("rm -rf .venv; python3 -m venv .venv", None),
            ("rm -rf /", Some(Harm::Wide)),
            ("rm -rf ~", Some(Harm::Wide)),
            ("rm -rf $HOME/x", Some(Harm::Wide)),
            ("rm '/home/me'", Some(Harm::Wide)),
            ("rm .", Some(Harm::Wide)),
            ("rm ../other", Some(Harm::Wide)),
            ("rm ?", Some(Harm::Wide)),
            ("rm *", Some(Harm::Wide)),
            ("rm /srv/shop", Some(Harm::Wide)),
            ("rm '/srv/shop/a b.lock'", None),
            ("kill 4711", None),
            ("kill -9 -1", Some(Harm::Processes)),
            ("kill 1", Some(Harm::Processes)),
            ("ps -fp 4711; kill <pid>", None),
            ("pkill node", Some(Harm::Work)),
            ("If that was a mistake: git restore src/util.js", None),
            ("git restore .", Some(Harm::Work)),
            ("git reset --hard", Some(Harm::Work)),
            ("df -h /; du -xsh * .[!.]* | sort -h", None),
            ("Correct it; starting again changes nothing.", None),
        ];
        for (advice, want) in rows {
            assert_eq!(harm_of(advice, "/srv/shop"), want, "{advice}");
        }
    }
}
