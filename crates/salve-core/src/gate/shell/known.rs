//! What runs without a rule where `on_unknown` is `allow`: programs of which it is known what they
//! start, with options, operands and variables of which it is known too.
//!
//! No list of what is dangerous is complete, so these name what is not. A program that is on none of
//! them may start anything, and so may an option, an operand or a variable that its program reads in
//! a way that nobody thought of. What a project's own files say (its package scripts, Makefile, tests
//! and programs) runs, as it would by the bare command.

use super::programs;
use super::word::{CommandWords, ShellWord};

const PROGRAM: &str = "nobody knows what its program starts";
const OPTION: &str = "it has an option that may start something";
const OPERAND: &str = "it has an argument that may start something";
const PLACE: &str = "it leads to another directory";
const VARIABLE: &str = "it sets a variable that may change what runs";
const FILLED: &str = "what it is given is only known when it runs";

/// How many programs may stand in front of the one that runs in the end.
const MAX_FRONT: usize = 4;

/// Programs that start no other one, whatever their arguments.
const ALONE: &str = "echo cat ls true false : mkdir rmdir touch date head tail grep egrep fgrep wc \
                     pwd test [ rm chmod sleep basename dirname tr cut exit return break continue \
                     shift wait kill pkill killall pgrep ps lsof fuser which type uname whoami id \
                     nproc stat du df diff cmp comm paste fold md5sum sha1sum sha256sum cksum seq \
                     rev nl umask ulimit readlink realpath pg_isready cp mv ln tee dd gzip gunzip \
                     uniq base64 jq unset netstat ss free uptime hostname printenv sync mktemp expr";

/// Variables that only tell programs how to speak, how much, or in which stage they are.
const VARIABLES: &str = "LANG LANGUAGE TZ CI NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE COLUMNS \
                         LINES NODE_ENV RAILS_ENV RACK_ENV FLASK_ENV APP_ENV MIX_ENV \
                         ASPNETCORE_ENVIRONMENT PORT HOST DEBUG VERBOSE PYTHONUNBUFFERED \
                         PYTHONDONTWRITEBYTECODE PYTHONIOENCODING PYTHONUTF8 RUST_BACKTRACE RUST_LOG \
                         RUST_TEST_THREADS CARGO_TERM_COLOR CARGO_INCREMENTAL \
                         NEXT_TELEMETRY_DISABLED DO_NOT_TRACK HUSKY PIP_NO_CACHE_DIR \
                         PIP_DISABLE_PIP_VERSION_CHECK PUPPETEER_SKIP_DOWNLOAD \
                         PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD";

/// Packages of the registry whose programs may be run by name.
const PACKAGES: &str = "jest vitest mocha ava tsc vue-tsc eslint prettier next nuxt nuxi astro vite \
                        remix prisma playwright";

/// What may stand behind the options of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operands {
    /// Names of targets, scripts, tests and the like.
    Names,
    /// Packages, by name or from the project.
    Packages,
    /// Files and directories of the project.
    Paths,
    /// Anything that stands in the text.
    Any,
    /// Nothing but the words that may stand first.
    Verbs,
}

/// A program that starts what the project says, or what it always starts, as long as it is given no
/// more than this.
struct KnownProgram {
    names: &'static str,
    /// What its first operand may be; anything of `operands` if empty.
    verbs: &'static str,
    /// Its options: `-x` as it stands, `-x:` with a value behind it, `-x/` with a path of the project
    /// behind it, `-x*` with anything in the same word, `~xyz` for these letters in one word.
    options: &'static str,
    operands: Operands,
}

const fn known(
    names: &'static str,
    verbs: &'static str,
    options: &'static str,
    operands: Operands,
) -> KnownProgram {
    KnownProgram { names, verbs, options, operands }
}

const KNOWN: &[KnownProgram] = &[
    known(
        "npm pnpm yarn bun",
        "ci install i add run run-script test t start build dev lint typecheck format audit ls list \
         outdated prune rebuild dedupe why update up uninstall remove rm cache",
        "-s --silent -q --quiet --no-audit --no-fund --no-progress --legacy-peer-deps --force -f -D \
         -P -E -O -S --save --save-dev --save-exact --production --prod --omit=* --include=* \
         --frozen-lockfile --no-frozen-lockfile --immutable --prefer-offline --offline \
         --ignore-scripts --if-present --workspaces -ws -w --workspace=* -r --recursive \
         --loglevel=* --verbose --no-optional --audit-level=* --package-lock-only --dry-run \
         --no-save --version -v",
        Operands::Packages,
    ),
    known("make gmake", "", "-j* -k -s -B -n --silent --always-make --keep-going", Operands::Names),
    known(
        "cargo",
        "build b check c test t clippy fmt doc clean fetch update tree bench run r nextest",
        "--release -r --workspace --all --all-targets --all-features --no-default-features --tests \
         --lib --bins --examples --doc --locked --offline --frozen -q -v --quiet --verbose -p: \
         --package: --package=* --features: --features=* -F: --bin: --bin=* --test: --test=* \
         --no-run --no-fail-fast -j* --jobs: --jobs=* --check --version",
        Operands::Names,
    ),
    known(
        "go",
        "build test vet fmt mod generate clean list version",
        "-v -race -count=* -short -run: -run=* -timeout: -timeout=* -cover",
        Operands::Paths,
    ),
    known(
        "pip pip3",
        "install check list freeze show uninstall",
        "-r/ --requirement/ -e/ -U --upgrade -q --quiet --no-cache-dir --user -y --no-deps --pre \
         --force-reinstall --no-input --break-system-packages --version",
        Operands::Packages,
    ),
    known(
        "uv poetry pdm pipenv hatch",
        "sync lock install update check",
        "--frozen --locked --no-dev --no-root --quiet -q --all-extras --no-interaction -n --dev",
        Operands::Packages,
    ),
    known(
        "pytest",
        "",
        "-q -v -vv -x -s -k: -m: --lf --ff --maxfail=* --tb=* -n: --durations=* --no-header -ra -rA",
        Operands::Paths,
    ),
    known(
        "jest vitest mocha ava",
        "",
        "--run --coverage --no-coverage --watch=false --watchAll=false -u --update --ci --silent \
         --bail --passWithNoTests -t: --runInBand",
        Operands::Paths,
    ),
    known(
        "tsc vue-tsc",
        "",
        "--noEmit -b --build -p/ --project/ -w --watch --pretty --skipLibCheck --incremental --clean \
         --force",
        Operands::Paths,
    ),
    known(
        "eslint",
        "",
        "--fix --quiet --cache --max-warnings: --max-warnings=* --ext: --no-error-on-unmatched-pattern",
        Operands::Paths,
    ),
    known("prettier", "", "--write --check -w -c -l --list-different", Operands::Paths),
    known("ruff", "check format", "--fix --check --diff -q --quiet", Operands::Paths),
    known(
        "black isort flake8 pyright mypy",
        "",
        "--check --diff -q --quiet --strict --check-only",
        Operands::Paths,
    ),
    known(
        "next nuxt nuxi astro vite remix",
        "build dev start preview lint info prepare generate check",
        "-p: --port: --port=* --host --turbo --turbopack",
        Operands::Paths,
    ),
    known(
        "prisma",
        "generate migrate db validate format",
        "--force --skip-generate --skip-seed",
        Operands::Names,
    ),
    known("playwright", "install install-deps test", "--with-deps", Operands::Paths),
    known(
        "mvn mvnw",
        "clean compile test test-compile package verify install",
        "-q -B -o -U -ntp -e --batch-mode --quiet --offline -DskipTests -DskipTests=true",
        Operands::Verbs,
    ),
    known(
        "gradle gradlew",
        "clean build test check assemble classes testClasses",
        "-q --quiet --offline --no-daemon --stacktrace --info --refresh-dependencies --console=*",
        Operands::Verbs,
    ),
    known(
        "composer",
        "install update dump-autoload dumpautoload validate",
        "--no-dev -n --no-interaction -o --optimize-autoloader --prefer-dist --no-scripts \
         --no-progress --ignore-platform-reqs --quiet -q",
        Operands::Packages,
    ),
    known("bundle bundler", "install check update clean", "--quiet --local -j* --jobs=*", {
        Operands::Packages
    }),
    known("rake", "", "-q -s --trace", Operands::Names),
    known(
        "rails",
        "test db:migrate db:create db:prepare db:setup db:seed db:reset assets:precompile server s \
         routes",
        "-p: -b:",
        Operands::Paths,
    ),
    known("rspec", "", "--fail-fast -fd", Operands::Paths),
    known("phpunit", "", "--testdox --stop-on-failure --filter: --filter=*", Operands::Paths),
    known(
        "dotnet",
        "build test restore clean",
        "-c: --configuration: --no-restore --no-build --nologo",
        Operands::Paths,
    ),
    known(
        "mix",
        "deps.get deps.compile compile test ecto.create ecto.migrate ecto.setup format",
        "--force --check-formatted",
        Operands::Paths,
    ),
    known(
        "git",
        "status add commit push fetch pull branch rev-parse remote ls-files blame describe diff \
         log show restore checkout switch stash reset clean merge init cherry-pick revert gc rm mv",
        "-m: -a -am: -A -u -q -v -b: -B: -n -f -d -D -x -fd -fdx -xdf --all --short --porcelain \
         --oneline --stat --hard --soft --mixed --rebase --no-rebase --ff-only --no-ff --tags \
         --prune --cached --staged --name-only --no-verify --amend --no-edit --force \
         --force-with-lease --abort --theirs --ours --source=* --worktree --depth=* --show-current \
         --verify --quiet -1 --max-count=* --decorate --graph --set-upstream --include-untracked",
        Operands::Any,
    ),
    known("sort gsort", "", "~unrhVbdfgMsz -k: -k* -t: -t* -o/", Operands::Any),
    known(
        "curl",
        "",
        "~sSfLkIigGON046v# -o: -H: -d: -X: -A: -m: -w: --fail --silent --show-error --location --head \
         --max-time: --max-time=* --retry: --retry=* --retry-delay: --retry-connrefused \
         --connect-timeout: --connect-timeout=* --data: --header: --request: --output: \
         --remote-name --compressed --create-dirs -fsSo: -fsSLo: -fLo: -sSLo: -sLo: -sSo: -so: -Lo:",
        Operands::Any,
    ),
    known(
        "wget",
        "",
        "~qcN -nv -nc -O: -O* -qO* -qO: -P: --quiet --spider --tries: --tries=* --timeout=*",
        Operands::Any,
    ),
    known("unzip", "", "~oqnlt -d/", Operands::Any),
    known("docker podman", "ps images logs start stop restart version info", "-a -q", {
        Operands::Names
    }),
    known(
        "docker-compose",
        "up down ps logs build start stop restart pull",
        "-d --detach --build --wait -q --no-deps --remove-orphans --force-recreate",
        Operands::Names,
    ),
];

/// Returns whether a variable may be set without anybody being asked.
pub(super) fn is_harmless(variable: &str) -> bool {
    variable.starts_with("LC_") || is_in(VARIABLES, variable)
}

/// Says why a loop's variable may change what runs: its name is one that programs may read.
pub(super) fn of_loop(variable: &str) -> Option<&'static str> {
    let is_own = variable.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    (!is_own && !is_harmless(variable)).then_some(VARIABLE)
}

/// Says why what is set in front of a command may change what runs, if it may.
pub(super) fn of_assignments(assignments: &CommandWords) -> Option<&'static str> {
    assignments.iter_from(0).find_map(|word| of_setting(word.raw))
}

/// Says why `NAME=value`, or a name alone, may change what runs.
fn of_setting(text: &str) -> Option<&'static str> {
    let name = text.split('=').next().unwrap_or(text).trim_end_matches('+');
    (!is_harmless(name)).then_some(VARIABLE)
}

/// Says why a command may start more than is seen, if it may.
pub(super) fn strange(words: &CommandWords) -> Option<&'static str> {
    let mut at = 0;
    for _ in 0..MAX_FRONT {
        let word = words.get(at)?;
        let Some(program) = word.known() else { return Some(FILLED) };
        let name = programs::name(program);
        let next = |at: usize| words.get(at).and_then(ShellWord::known);
        match name {
            "nohup" => at += 1,
            "time" => at += if next(at + 1) == Some("-p") { 2 } else { 1 },
            "nice" => at += if next(at + 1) == Some("-n") { 3 } else { 1 },
            "timeout" | "gtimeout" => match next(at + 1) {
                Some(limit) if limit.starts_with(|c: char| c.is_ascii_digit()) => at += 2,
                Some(_) | None => return Some(OPTION),
            },
            "env" => {
                at += 1;
                while let Some(text) = next(at).filter(|text| text.contains('=')) {
                    if let Some(why) = of_setting(text) {
                        return Some(why);
                    }
                    at += 1;
                }
            }
            "npx" | "bunx" | "pnpx" => {
                let is_said = |text: &str| matches!(text, "-y" | "--yes" | "--no" | "--no-install");
                at += if next(at + 1).is_some_and(is_said) { 2 } else { 1 };
                // A name that is none of these is some package of the registry.
                let Some(name) = next(at).filter(|name| is_in(PACKAGES, name)) else {
                    return Some(PROGRAM);
                };
                return row(name).map_or(Some(PROGRAM), |row| row.strange(name, words, at + 1));
            }
            "poetry" | "uv" | "pdm" | "pipenv" | "hatch" if next(at + 1) == Some("run") => at += 2,
            "bundle" if next(at + 1) == Some("exec") => at += 2,
            "npm" | "pnpm" | "yarn" if next(at + 1) == Some("exec") => return Some(PROGRAM),
            _ => return of_program(program, name, words, at + 1),
        }
    }
    Some(PROGRAM)
}

/// Says why the program called `name`, whose arguments begin at `at`, may start more than is seen.
fn of_program(program: &str, name: &str, words: &CommandWords, at: usize) -> Option<&'static str> {
    let is_bare = !program.contains('/');
    let is_of_project = !is_bare && is_path(program);
    let arguments = || words.iter_from(at);
    let known: Option<Vec<&str>> = arguments().map(ShellWord::known).collect();
    if !is_bare && !is_of_project {
        return Some(PROGRAM);
    }
    if is_bare && is_in(ALONE, name) {
        return None;
    }
    if is_bare && name == "printf" {
        let first = arguments().next().and_then(ShellWord::known);
        return if first.is_none_or(|text| text.starts_with('-')) { Some(OPTION) } else { None };
    }
    let Some(arguments) = known else { return Some(FILLED) };
    match name {
        "cd" | "pushd" => match *arguments {
            [dir] if is_path(dir) => None,
            _ => Some(PLACE),
        },
        "export" => arguments.iter().find_map(|text| of_setting(text)),
        "set" => arguments.iter().find_map(|text| {
            let is_letters =
                text.starts_with('-') && text[1..].bytes().all(|b| b"euxo".contains(&b));
            let is_named = matches!(*text, "pipefail" | "errexit" | "nounset" | "xtrace");
            (!is_letters && !is_named).then_some(OPTION)
        }),
        "command" if matches!(*arguments, ["-v" | "-V", _]) => None,
        "." | "source" => {
            let is_script = |text: &&&str| text.contains('/') && is_path(text);
            if arguments.first().filter(is_script).is_some() { None } else { Some(OPERAND) }
        }
        "sh" | "bash" | "dash" | "zsh" => of_shell(&arguments),
        "node" | "nodejs" | "tsx" | "ts-node" | "ruby" | "php" => of_script(&arguments),
        "sed" | "gsed" => of_sed(&arguments),
        "tar" | "gtar" | "bsdtar" => of_tar(&arguments),
        "find" | "gfind" => of_find(&arguments),
        "docker" | "podman" if arguments.first() == Some(&"compose") => {
            row("docker-compose").map_or(Some(PROGRAM), |row| row.strange(name, words, at + 1))
        }
        _ if name.starts_with("python") => of_python(&arguments, words, at),
        _ => match row(name) {
            Some(row) => row.strange(name, words, at),
            // The project's own programs do what they contain.
            None if is_of_project && programs::role(name) == programs::Role::Plain => None,
            None => Some(PROGRAM),
        },
    }
}

fn row(name: &str) -> Option<&'static KnownProgram> {
    KNOWN.iter().find(|row| is_in(row.names, name))
}

impl KnownProgram {
    /// Says why the arguments of `name` from `at` on may have it start more than it always does.
    fn strange(&self, name: &str, words: &CommandWords, at: usize) -> Option<&'static str> {
        let mut arguments = words.iter_from(at);
        let mut is_first = true;
        while let Some(word) = arguments.next() {
            let Some(text) = word.known() else { return Some(FILLED) };
            if text.len() > 1 && text.starts_with('-') {
                let value = match self.option(text) {
                    None if text == "--" && self.operands == Operands::Any => continue,
                    None => return Some(OPTION),
                    Some(OptionValue::Within) => continue,
                    Some(OptionValue::Behind) => |_: &str| true,
                    Some(OptionValue::PathBehind) => is_path,
                };
                match arguments.next().map(ShellWord::known) {
                    Some(Some(text)) if value(text) && !writes_more(name, text) => {}
                    Some(Some(_)) => return Some(OPERAND),
                    Some(None) => return Some(FILLED),
                    None => return None,
                }
            } else if !self.takes(text, std::mem::take(&mut is_first)) {
                return Some(OPERAND);
            }
        }
        None
    }

    fn takes(&self, operand: &str, is_first: bool) -> bool {
        if self.operands == Operands::Verbs || is_first && !self.verbs.is_empty() {
            return is_in(self.verbs, operand);
        }
        match self.operands {
            Operands::Names => is_name(operand),
            Operands::Packages => is_package(operand) || is_path(operand),
            Operands::Paths => is_path(operand),
            // `ext::` and its like name a program that git starts.
            Operands::Any => !operand.contains("::"),
            Operands::Verbs => false,
        }
    }

    /// Returns where the value of an option is, if it is one that starts nothing.
    fn option(&self, text: &str) -> Option<OptionValue> {
        let letters = text.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
        self.options.split_ascii_whitespace().find_map(|known| {
            if let Some(set) = known.strip_prefix('~') {
                let is_cluster = letters.is_some_and(|all| all.chars().all(|c| set.contains(c)));
                return is_cluster.then_some(OptionValue::Within);
            }
            let (name, value) = match known.as_bytes().last() {
                Some(b':') => (&known[..known.len() - 1], OptionValue::Behind),
                Some(b'/') => (&known[..known.len() - 1], OptionValue::PathBehind),
                Some(b'*') => {
                    let is_it = text.starts_with(&known[..known.len() - 1]);
                    return is_it.then_some(OptionValue::Within);
                }
                Some(_) | None => (known, OptionValue::Within),
            };
            (text == name).then_some(value)
        })
    }
}

/// Where the value of an option is.
#[derive(Clone, Copy)]
enum OptionValue {
    /// In the same word, or there is none.
    Within,
    /// The next word, whatever it is.
    Behind,
    /// The next word, if that leads to a file of the project.
    PathBehind,
}

/// Returns whether a value has `curl` write a file that no option names.
fn writes_more(name: &str, value: &str) -> bool {
    name == "curl" && value.contains("%output")
}

/// A shell: a script in the text, which is read for itself, or one of the project's.
fn of_shell(arguments: &[&str]) -> Option<&'static str> {
    let options = arguments.iter().take_while(|text| text.starts_with('-')).count();
    let (options, rest) = arguments.split_at(options);
    let is_plain = |text: &&str| text.len() > 1 && text[1..].bytes().all(|b| b"ceux".contains(&b));
    if !options.iter().all(is_plain) {
        return Some(OPTION);
    }
    if options.iter().any(|text| text.contains('c'))
        || rest.first().is_some_and(|file| is_path(file))
    {
        return None;
    }
    Some(OPERAND)
}

/// An interpreter: a script of the project's, which gets all that follows.
fn of_script(arguments: &[&str]) -> Option<&'static str> {
    match *arguments {
        ["--version" | "-v"] => None,
        [file, ..] if file.contains('.') && is_path(file) => None,
        [first, ..] if first.starts_with('-') => Some(OPTION),
        [..] => Some(OPERAND),
    }
}

fn of_python(arguments: &[&str], words: &CommandWords, at: usize) -> Option<&'static str> {
    match *arguments {
        ["-V" | "--version"] => None,
        ["-m", "venv", dir] if is_path(dir) => None,
        [
            "-m",
            module @ ("pip" | "pytest" | "mypy" | "black" | "ruff" | "isort" | "flake8"),
            ..,
        ] => row(module).map_or(Some(PROGRAM), |row| row.strange(module, words, at + 2)),
        ["-m", "unittest", ..] if arguments[2..].iter().all(|text| is_name(text)) => None,
        _ => of_script(arguments),
    }
}

/// `find` with nothing but tests.
fn of_find(arguments: &[&str]) -> Option<&'static str> {
    const TESTS: &str = "-name -iname -path -ipath -type -maxdepth -mindepth -newer -mtime -mmin -size \
                         -print -print0 -not -o -or -a -and -prune -empty -ls ! ( )";
    let is_fine = |text: &&str| !text.starts_with(['-', '!', '(', ')']) || is_in(TESTS, text);
    let is_number = |text: &&str| text[1..].bytes().all(|byte| byte.is_ascii_digit());
    let all = arguments.iter().all(|text| is_fine(text) || is_number(text));
    if all { None } else { Some(OPTION) }
}

/// `tar` with letters that only pack, unpack and list, by the programs that it always takes.
fn of_tar(arguments: &[&str]) -> Option<&'static str> {
    let (letters, rest) = arguments.split_first()?;
    let letters = letters.strip_prefix('-').unwrap_or(letters);
    if letters.is_empty() || !letters.bytes().all(|byte| b"xctzjJvpfkm".contains(&byte)) {
        return Some(OPTION);
    }
    let mut rest = rest.iter();
    while let Some(text) = rest.next() {
        let is_option = text.starts_with('-');
        if *text == "-C" {
            if !rest.next().is_some_and(|dir| is_path(dir)) {
                return Some(OPERAND);
            }
        } else if is_option && !text.starts_with("--strip-components=") {
            return Some(OPTION);
        } else if text.contains(':') {
            // A machine and a file on it: it is reached by a program.
            return Some(OPERAND);
        }
    }
    None
}

/// `sed` with scripts that replace, print or delete, and do nothing else.
fn of_sed(arguments: &[&str]) -> Option<&'static str> {
    let (mut has_script, mut words) = (false, arguments.iter());
    while let Some(text) = words.next() {
        match *text {
            "-n" | "-E" | "-r" | "-u" | "-i" | "-ni" | "-i.bak" | "-Ei" | "-i.orig" => {}
            "-e" => {
                has_script = true;
                if !words.next().is_some_and(|script| edits_only(script)) {
                    return Some(OPERAND);
                }
            }
            option if option.starts_with('-') && option.len() > 1 => return Some(OPTION),
            _ if has_script => {}
            script => {
                has_script = true;
                if !edits_only(script) {
                    return Some(OPERAND);
                }
            }
        }
    }
    None
}

/// Returns whether a script of `sed` is `s/…/…/` with plain flags, or prints or deletes lines.
fn edits_only(script: &str) -> bool {
    let numbers = script.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, ',' | '$'));
    if matches!(numbers, "p" | "d" | "q") {
        return true;
    }
    let Some(rest) = numbers.strip_prefix('s') else { return false };
    let Some(mark) = rest.chars().next() else { return false };
    if !matches!(mark, '/' | '|' | '#' | ',' | '@' | ':' | '!') || script.contains('\n') {
        return false;
    }
    // Within brackets some count the mark as a letter: then it has no third one and is no script.
    let (mut marks, mut is_escaped, mut flags) = (0, false, String::new());
    for c in rest.chars() {
        if marks == 3 {
            flags.push(c);
        } else if is_escaped {
            is_escaped = false;
        } else if c == '\\' {
            is_escaped = true;
        } else if c == mark {
            marks += 1;
        }
    }
    marks == 3 && flags.chars().all(|c| matches!(c, 'g' | 'p' | 'i' | 'I' | '0'..='9'))
}

/// Returns whether a word names a target, a script, a test or a service.
fn is_name(text: &str) -> bool {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '-' | '@');
    !text.is_empty() && !text.starts_with(['-', '.']) && text.chars().all(is_fine)
}

/// Returns whether a word names a package, perhaps with its version.
fn is_package(text: &str) -> bool {
    let name = text
        .strip_prefix('@')
        .map_or(text, |scoped| scoped.split_once('/').map_or("", |(_, name)| name));
    let is_fine = |c: char| {
        c.is_ascii_alphanumeric()
            || matches!(c, '_' | '.' | '-' | '@' | '^' | '~' | ':' | '+')
            || matches!(c, '=' | '<' | '>' | '!' | ',' | '[' | ']')
    };
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    begins && name.chars().all(is_fine)
}

/// Returns whether a word leads to something in the project, as far as its text says.
fn is_path(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(['/', '~', '-', '+', '@'])
        && !names_scheme(text)
        && !text.contains('=')
        && !text.split('/').any(|part| part == "..")
}

/// Returns whether a word is an address, such as `file:/tmp/x`; a file may have a line or a test behind
/// a colon.
fn names_scheme(text: &str) -> bool {
    text.split_once(':').is_some_and(|(scheme, _)| !scheme.contains(['.', '/']))
}

fn is_in(list: &str, name: &str) -> bool {
    list.split_ascii_whitespace().any(|known| known == name)
}
