//! Which servers restart themselves when a file changes, by what runs.

use crate::watch::SelfReload;

/// Options by which a program watches its own files, whatever it is.
const OPTIONS: [&str; 6] =
    ["--reload", "--watch", "--hot", "--livereload", "--live-reload", "--auto-reload"];

/// Programs that do nothing else than watch files and run something.
const WATCHERS: [&str; 22] = [
    "nodemon",
    "watchfiles",
    "watchmedo",
    "watchexec",
    "cargo-watch",
    "bacon",
    "entr",
    "air",
    "reflex",
    "tsx-watch",
    "ts-node-dev",
    "tsnd",
    "node-dev",
    "live-server",
    "browser-sync",
    "jurigged",
    "hupper",
    "arelo",
    "gow",
    "supervisor",
    "wds",
    "esbuild-dev",
];

/// Programs that watch their files when they are given one of these words; an empty word stands
/// for no word at all.
const SERVING: [(&str, &[&str]); 32] = [
    ("vite", &["", "dev", "serve"]),
    ("next", &["dev"]),
    ("nuxt", &["dev"]),
    ("nuxi", &["dev"]),
    ("astro", &["dev"]),
    ("remix", &["dev", "vite:dev"]),
    ("react-router", &["dev"]),
    ("svelte-kit", &["dev"]),
    ("gatsby", &["develop"]),
    ("ng", &["serve", "s"]),
    ("react-scripts", &["start"]),
    ("vue-cli-service", &["serve"]),
    ("webpack", &["serve", "s"]),
    ("webpack-dev-server", &[""]),
    ("rspack", &["dev", "serve"]),
    ("rsbuild", &["dev"]),
    ("parcel", &["", "serve", "watch"]),
    ("storybook", &["dev"]),
    ("start-storybook", &[""]),
    ("nest", &["start"]),
    ("wrangler", &["dev"]),
    ("vercel", &["dev"]),
    ("netlify", &["dev"]),
    ("eleventy", &["--serve"]),
    ("fastapi", &["dev"]),
    ("manage.py", &["runserver", "runserver_plus"]),
    ("django-admin", &["runserver"]),
    ("tsx", &["watch"]),
    ("dotnet", &["watch"]),
    ("cargo", &["watch", "leptos"]),
    ("hugo", &["server", "serve"]),
    ("mkdocs", &["serve"]),
];

/// Programs that reload with a debugging option or with a word that starts their server.
const DEBUGGING: [(&str, &[&str]); 4] = [
    ("flask", &["--debug"]),
    ("quart", &["--debug"]),
    ("rails", &["server", "s"]),
    ("php", &["-S", "serve"]),
];

/// Tells whether a server reloads by itself, from the command lines of its processes.
pub fn self_reload<'c>(commands: impl IntoIterator<Item = &'c [String]>) -> SelfReload {
    if commands.into_iter().any(reloads) { SelfReload::Reloads } else { SelfReload::Unknown }
}

fn reloads(command: &[String]) -> bool {
    // A shell is given the whole line as one word.
    let words: Vec<&str> = command.iter().flat_map(|word| word.split_whitespace()).collect();
    let is_off = |word: &&str| matches!(*word, "--noreload" | "--no-reload" | "--no-debug");
    if words.iter().any(is_off) {
        return false;
    }
    let takes = |(program, wanted): &(&str, &[&str]), at: usize| {
        program_name(words[at]) == *program && has_word(&words[at + 1..], wanted)
    };
    (0..words.len()).any(|at| {
        let option = words[at].split('=').next().unwrap_or_default();
        OPTIONS.contains(&option)
            || WATCHERS.contains(&program_name(words[at]))
            || SERVING.iter().chain(&DEBUGGING).any(|one| takes(one, at))
    })
}

/// Tells whether what follows a program names one of these; an option is no word.
fn has_word(rest: &[&str], wanted: &[&str]) -> bool {
    let end = rest.iter().position(|word| matches!(*word, "&&" | "||" | ";" | "|" | "&"));
    let rest = &rest[..end.unwrap_or(rest.len())];
    let first = rest.iter().find(|word| !word.starts_with('-')).copied().unwrap_or_default();
    wanted.iter().any(|word| match *word {
        option if option.starts_with('-') => rest.contains(&option),
        // A directory, or the value of an option, is no word of the program's either.
        "" => first.is_empty() || first.contains(['/', '.', ':']) || is_number(first),
        word => first == word || rest.contains(&word),
    })
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the name of a program, without its directory and what marks it as a script.
fn program_name(word: &str) -> &str {
    let name = word.rsplit('/').next().unwrap_or(word);
    let name = name.split('@').next().unwrap_or(name);
    [".js", ".mjs", ".cjs", ".cmd"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reloads_by_itself_is_known_by_its_command() {
        for (command, want) in [
            ("uvicorn app:app --reload", SelfReload::Reloads),
            ("uvicorn app:app", SelfReload::Unknown),
            ("/usr/bin/python3 /p/.venv/bin/flask run --debug --port 5001", SelfReload::Reloads),
            ("flask --app app run", SelfReload::Unknown),
            ("node /p/node_modules/.bin/vite", SelfReload::Reloads),
            ("node /p/node_modules/vite/bin/vite.js --port 5173", SelfReload::Reloads),
            ("vite dev --host", SelfReload::Reloads),
            ("vite build", SelfReload::Unknown),
            ("vite preview", SelfReload::Unknown),
            ("next dev -p 3001", SelfReload::Reloads),
            ("next start", SelfReload::Unknown),
            ("python manage.py runserver 8001", SelfReload::Reloads),
            ("python manage.py runserver --noreload", SelfReload::Unknown),
            ("python manage.py migrate", SelfReload::Unknown),
            ("npx nodemon server.js", SelfReload::Reloads),
            ("node --watch server.js", SelfReload::Reloads),
            ("node --watch-path=src server.js", SelfReload::Unknown),
            ("node server.js", SelfReload::Unknown),
            ("watchfiles app.main", SelfReload::Reloads),
            ("rails server", SelfReload::Reloads),
            ("php -S localhost:8000", SelfReload::Reloads),
            ("php artisan serve", SelfReload::Reloads),
            ("fastapi run", SelfReload::Unknown),
            ("python3 -m http.server", SelfReload::Unknown),
        ] {
            let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
            assert_eq!(self_reload([words.as_slice()]), want, "{command}");
        }
        let shell = ["sh", "-c", "npm run css && vite --port 3000"].map(str::to_owned);
        assert_eq!(self_reload([shell.as_slice()]), SelfReload::Reloads);
        let shell = ["sh", "-c", "vite build && node server.js"].map(str::to_owned);
        assert_eq!(self_reload([shell.as_slice()]), SelfReload::Unknown);
    }
}
