//! Giving a server another port, in the way in which it takes one.

/// A port that a server wants, and the one that it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortMove {
    /// The one that it wants.
    pub from: u16,
    /// The one that it gets.
    pub to: u16,
}

/// How a server is started on another port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortedCommand {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// A variable it gets besides.
    pub variable: Option<(&'static str, String)>,
    /// What tells it the port, in words.
    pub said: String,
}

/// How a program takes a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PortWay {
    /// By this option.
    Option(&'static str),
    /// As an argument without a name.
    Argument,
}

/// Programs that take a port, by a word of theirs and what may follow it; an empty word stands for
/// anything.
const PROGRAMS: [(&str, &str, PortWay); 16] = [
    ("vite", "", PortWay::Option("--port")),
    ("next", "dev", PortWay::Option("--port")),
    ("nuxt", "dev", PortWay::Option("--port")),
    ("nuxi", "dev", PortWay::Option("--port")),
    ("astro", "dev", PortWay::Option("--port")),
    ("react-router", "dev", PortWay::Option("--port")),
    ("ng", "serve", PortWay::Option("--port")),
    ("webpack", "serve", PortWay::Option("--port")),
    ("uvicorn", "", PortWay::Option("--port")),
    ("fastapi", "dev", PortWay::Option("--port")),
    ("flask", "run", PortWay::Option("--port")),
    ("hugo", "server", PortWay::Option("--port")),
    ("rails", "server", PortWay::Option("--port")),
    ("manage.py", "runserver", PortWay::Argument),
    ("http.server", "", PortWay::Argument),
    ("gunicorn", "", PortWay::Option("--bind")),
];

/// Programs that run a script of package.json, and what has to stand before its own arguments.
const RUNNERS: [(&str, &[&str]); 4] =
    [("npm", &["--"]), ("pnpm", &[]), ("yarn", &[]), ("bun", &[])];

/// Returns how a server is started on another port; nothing where it would not take one.
///
/// `script` is the script of package.json that the command runs, if it runs one. What names the
/// port already is changed, what is known to take one gets it by its own option, and anything else
/// is told by `PORT`, which most servers of their own heed.
pub fn with_port(argv: &[String], script: Option<&str>, ports: PortMove) -> Option<PortedCommand> {
    if let [shell, flag, line] = argv
        && flag == "-c"
    {
        let words = plain_words(line)?;
        let ported = with_port(&words, script, ports)?;
        let argv = vec![shell.clone(), flag.clone(), ported.argv.join(" ")];
        return Some(PortedCommand { argv, ..ported });
    }
    let to = ports.to;
    if let Some(at) = argv.iter().position(|word| names_port(word, ports.from)) {
        let mut argv = argv.to_vec();
        let kept = argv[at].len() - ports.from.to_string().len();
        argv[at] = format!("{}{to}", &argv[at][..kept]);
        return Some(PortedCommand { said: argv[at].clone(), argv, variable: None });
    }
    let way = way_of(argv);
    let said = |way: PortWay| match way {
        PortWay::Option("--bind") => format!("--bind 127.0.0.1:{to}"),
        PortWay::Option(option) => format!("{option} {to}"),
        PortWay::Argument => to.to_string(),
    };
    let by_variable = || PortedCommand {
        argv: argv.to_vec(),
        variable: Some(("PORT", to.to_string())),
        said: format!("PORT={to}"),
    };
    let (way, before): (PortWay, &[&str]) = match (way, script) {
        (Some(way), _) => (way, &[]),
        (None, None) => return Some(by_variable()),
        (None, Some(script)) => {
            let words = plain_words(script);
            // It says its port itself, in a way that cannot be changed from here.
            if script.contains(&ports.from.to_string()) {
                return None;
            }
            match words.as_deref().and_then(way_of) {
                None => return Some(by_variable()),
                Some(way) => (way, before_arguments(argv)?),
            }
        }
    };
    let said = said(way);
    let added = before.iter().copied().chain(said.split(' ')).map(str::to_owned);
    let argv = argv.iter().cloned().chain(added).collect();
    Some(PortedCommand { argv, variable: None, said })
}

/// Returns what stands between a script's name and the arguments that are handed on to it.
fn before_arguments(argv: &[String]) -> Option<&'static [&'static str]> {
    let runs = |(program, _): &&(&str, &[&str])| argv.first().is_some_and(|word| word == program);
    let (_, before) = RUNNERS.iter().find(runs)?;
    // The arguments begin once.
    let has_begun = argv.iter().any(|word| word == "--");
    Some(if has_begun { &[] } else { before })
}

/// Returns how a program takes a port, from its words.
fn way_of(words: &[String]) -> Option<PortWay> {
    let file = |word: &String| word.rsplit('/').next().unwrap_or(word).to_owned();
    let runs = |(program, verb, _): &&(&str, &str, PortWay)| {
        let at = words.iter().position(|word| file(word) == *program);
        let next = at.and_then(|at| words[at + 1..].iter().find(|word| !word.starts_with('-')));
        at.is_some() && (verb.is_empty() || next.is_some_and(|word| word == verb))
    };
    PROGRAMS.iter().find(runs).map(|(_, _, way)| *way)
}

/// Tells whether a word names a port: alone, behind a host, or behind an option's or a variable's
/// name.
fn names_port(word: &str, port: u16) -> bool {
    let Some(before) = word.strip_suffix(&port.to_string()) else { return false };
    before.is_empty() || before.ends_with(['=', ':']) || matches!(before, "-p" | "-P" | "-b")
}

/// Returns the words of a line that a shell would only split.
fn plain_words(line: &str) -> Option<Vec<String>> {
    let is_plain = !line.contains([
        '\'', '"', '`', '$', '|', '&', ';', '<', '>', '(', ')', '\\', '*', '?', '#', '\n',
    ]);
    is_plain.then(|| line.split_whitespace().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(command: &str, script: Option<&str>, want: Option<&str>) {
        let argv: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let ports = PortMove { from: 3000, to: 3001 };
        let got = with_port(&argv, script, ports).map(|ported| {
            let variable = ported.variable.map(|(name, value)| format!("{name}={value} "));
            format!("{}{}", variable.unwrap_or_default(), ported.argv.join(" "))
        });
        assert_eq!(got.as_deref(), want, "{command}");
    }

    #[test]
    fn a_port_goes_where_the_server_takes_it() {
        for (command, script, want) in [
            ("node server.js --port 3000", None, Some("node server.js --port 3001")),
            ("node server.js --port=3000", None, Some("node server.js --port=3001")),
            ("gunicorn -b 0.0.0.0:3000 app", None, Some("gunicorn -b 0.0.0.0:3001 app")),
            ("env PORT=3000 node server.js", None, Some("env PORT=3001 node server.js")),
            ("python3 -m http.server 3000", None, Some("python3 -m http.server 3001")),
            ("node server.js", None, Some("PORT=3001 node server.js")),
            ("uvicorn app:app --reload", None, Some("uvicorn app:app --reload --port 3001")),
            (".venv/bin/flask run --debug", None, Some(".venv/bin/flask run --debug --port 3001")),
            ("python manage.py runserver", None, Some("python manage.py runserver 3001")),
            ("gunicorn app", None, Some("gunicorn app --bind 127.0.0.1:3001")),
            ("npm run dev", Some("vite --host"), Some("npm run dev -- --port 3001")),
            ("npm run dev -- --host", Some("vite"), Some("npm run dev -- --host --port 3001")),
            ("pnpm dev", Some("next dev --turbo"), Some("pnpm dev --port 3001")),
            ("npm start", Some("node server.js"), Some("PORT=3001 npm start")),
            ("npm start", Some("PORT=3000 node server.js"), None),
            ("npm run dev", Some("vite --port 3000"), None),
            ("npm run dev", Some("tsc && node dist/a.js"), Some("PORT=3001 npm run dev")),
            ("make dev", Some("vite"), None),
        ] {
            check(command, script, want);
        }
    }

    #[test]
    fn a_line_for_a_shell_is_changed_only_where_it_is_plain() {
        let ports = PortMove { from: 3000, to: 3001 };
        let line = |text: &str| ["sh", "-c", text].map(str::to_owned).to_vec();
        let moved = |text: &str| with_port(&line(text), None, ports).map(|ported| ported.argv);
        assert_eq!(moved("PORT=3000 node a.js"), Some(line("PORT=3001 node a.js")));
        assert_eq!(moved("flask run"), Some(line("flask run --port 3001")));
        assert_eq!(moved("flask run | tee log"), None);
    }
}
