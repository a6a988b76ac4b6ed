//! Files that a text writes and may run, in which case nobody has seen what runs.
//!
//! What a program writes is not read, and a manifest is run without being named. So where one
//! command of a text may write a file and a later one may run files, the text is in doubt. What is
//! not known writes and runs; only programs of these lists do one of them or neither.
//!
//! Not in doubt is what package managers and build tools write for one another: what they run is
//! what the project says, and would be run by the second command alone as well.

use super::programs;
use super::script::WrittenFile;
use super::word::{CommandWords, ShellWord};

/// Programs that neither write a file nor run one, whatever their arguments.
const TAME: &str = "echo printf cat ls true false : cd mkdir rmdir touch date head tail grep egrep \
                    fgrep wc pwd test [ rm chmod sleep basename dirname tr cut export unset set \
                    exit return break continue shift wait kill pkill killall pgrep ps lsof fuser \
                    which type uname whoami id nproc stat du df diff cmp md5sum sha1sum sha256sum \
                    cksum seq rev nl pushd popd umask ulimit readlink realpath pg_isready";

/// Programs that write files and run none, as far as no rule on options says otherwise.
const WRITERS: &str = "cp mv ln install ginstall tee dd curl wget tar gtar bsdtar unzip zip gzip \
                       gunzip bzip2 bunzip2 xz unxz zstd base64 sed gsed sort gsort uniq truncate \
                       shred csplit openssl sponge patch";

/// Programs that run what the project's own files say, and write what comes of it.
const BUILDERS: &str = "npm pnpm yarn bun node nodejs deno pip pip3 pytest tox nox uv poetry hatch \
                        pdm pipenv cargo rustc rustup go make gmake bmake ninja cmake ctest meson \
                        bazel gradle gradlew mvn mvnw java javac dotnet swift xcodebuild composer \
                        php phpunit bundle bundler rake rspec rails ruby gem mix elixir tsc tsx \
                        ts-node vite vitest jest mocha ava eslint prettier biome next nuxt nuxi \
                        astro remix webpack rollup esbuild parcel turbo nx lerna ng expo \
                        playwright cypress prisma alembic flask uvicorn gunicorn django-admin ruff \
                        black mypy pyright flake8 pylint isort coverage gcc g++ cc c++ clang \
                        clang++ sh bash dash zsh source . apt apt-get apk dnf yum brew corepack";

/// Subcommands by which a builder writes a file that others of them run.
const WRITING_SUBCOMMANDS: &str =
    "config pkg set set-script init create new add-script env edit publish pack download version";

/// Programs whose first argument is the program that they run.
const TRANSPARENT: &str = "env command nohup timeout gtimeout nice ionice stdbuf setsid exec \
                           builtin time sudo doas npx pnpx bunx uvx xargs gxargs cross-env";

/// Programs that run a program behind `run`, `exec` and the like.
const RUNNING: &str = "poetry uv hatch pdm pipenv bundle pnpm yarn bun npm";

/// Subcommands of git that leave the files of the working tree as they are.
const QUIET_GIT: &str = "status add commit push fetch branch tag rev-parse remote ls-files blame \
                         describe diff log show";

/// What a command does with files.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileUse {
    /// The files that it may write, beside redirections.
    pub(super) writes: Vec<WrittenFile>,
    /// Whether it may run files that are not written here.
    pub(super) may_run: bool,
    /// Whether it may give a name to another file than the one that had it.
    pub(super) renames: bool,
}

/// Programs that copy, move, link or unpack: by them a name may stand for another file.
const RENAMERS: &str = "cp mv ln install ginstall tar gtar bsdtar unzip rsync patch";

/// Returns what a command may do with files.
pub(super) fn file_use(words: &CommandWords) -> FileUse {
    let nothing = || FileUse { writes: Vec::new(), may_run: false, renames: false };
    let unknown = || FileUse { writes: vec![WrittenFile::Unknown], may_run: true, renames: true };
    let Some(at) = effective(words) else { return unknown() };
    let Some(program) = words.get(at).and_then(ShellWord::known) else { return unknown() };
    let name = programs::name(program);
    let arguments = || words.iter_from(at + 1);
    if is_in(TAME, name) {
        nothing()
    } else if is_in(WRITERS, name) {
        let renames = is_in(RENAMERS, name);
        FileUse { writes: written_by(name, arguments()), may_run: false, renames }
    } else if name == "git" {
        FileUse { writes: written_by_git(arguments()), may_run: true, renames: false }
    } else if is_builder(program, name) {
        let writes = arguments().any(|word| match word.known() {
            Some(text) => is_in(WRITING_SUBCOMMANDS, text),
            None => false,
        });
        FileUse {
            writes: writes.then_some(WrittenFile::Unknown).into_iter().collect(),
            may_run: true,
            renames: false,
        }
    } else {
        unknown()
    }
}

/// Returns whether a file is written to be looked at, or to be gone.
pub(super) fn is_inert(file: &str) -> bool {
    let name = programs::name(file);
    let is_told = ["out", "log", "err", "result", "report"].iter().any(|word| name.contains(word));
    matches!(file, "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/tty")
        || matches!(name, "log" | "out" | "err" | "output")
        || [".log", ".out", ".err"].iter().any(|end| name.ends_with(end))
        || (name.ends_with(".txt") && is_told)
}

fn is_in(list: &str, name: &str) -> bool {
    list.split_ascii_whitespace().any(|known| known == name)
}

/// Returns whether a program is one of the project's, or one that runs what those say.
fn is_builder(program: &str, name: &str) -> bool {
    let is_of_project = program.contains('/') && !program.starts_with(['/', '~']);
    let is_versioned = name.starts_with("python") || name.starts_with("pypy");
    is_in(BUILDERS, name) || is_versioned || is_of_project && !is_in(WRITERS, name)
}

/// Returns where the program stands that a command runs in the end, behind `env` and the like.
fn effective(words: &CommandWords) -> Option<usize> {
    let mut at = 0;
    for _ in 0..4 {
        let name = programs::name(words.get(at).and_then(ShellWord::known)?);
        let next = |from: usize| {
            (from..words.len()).find(|&at| {
                let text = words.get(at).map_or("", |word| word.cooked.0);
                let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
                !text.starts_with('-') && !text.contains('=') && !is_number
            })
        };
        if is_in(TRANSPARENT, name) {
            at = next(at + 1)?;
        } else if is_in(RUNNING, name) {
            let runs = |word: &str| matches!(word, "exec" | "x" | "dlx");
            let is_python = !matches!(name, "pnpm" | "yarn" | "bun" | "npm");
            let Some(how) = next(at + 1) else { return Some(at) };
            let text = words.get(how).and_then(ShellWord::known).unwrap_or_default();
            if !(runs(text) || is_python && text == "run") {
                return Some(at);
            }
            at = next(how + 1)?;
        } else {
            return Some(at);
        }
    }
    None
}

/// Returns the files that a program writes which runs none.
fn written_by<'w>(
    name: &str,
    arguments: impl Iterator<Item = ShellWord<'w>> + Clone,
) -> Vec<WrittenFile> {
    let known: Option<Vec<&str>> = arguments.map(ShellWord::known).collect();
    let Some(words) = known else { return vec![WrittenFile::Unknown] };
    let files = || words.iter().filter(|word| !word.starts_with('-'));
    let file = |name: &str| WrittenFile::File(name.to_owned());
    match name {
        "cp" | "mv" | "ln" | "install" | "ginstall" => {
            let leads_elsewhere = |word: &&str| word.starts_with("-t") || word.starts_with("--t");
            match files().next_back() {
                Some(last) if !words.iter().any(leads_elsewhere) => vec![file(last)],
                Some(_) | None => vec![WrittenFile::Unknown],
            }
        }
        "tee" => files().map(|name| file(name)).collect(),
        "dd" => {
            let of = |word: &&str| word.strip_prefix("of=").map(file);
            words.iter().filter_map(of).collect()
        }
        "curl" => written_by_curl(&words),
        "wget" => {
            let is_nothing =
                |word: &&str| matches!(*word, "--spider" | "-O-" | "-qO-" | "-O/dev/null");
            if words.iter().any(is_nothing) { Vec::new() } else { vec![WrittenFile::Unknown] }
        }
        "sed" | "gsed" => {
            let edits = |word: &&str| {
                let is_short = word.starts_with('-') && !word.starts_with("--");
                is_short && word.contains('i')
                    || word.starts_with("--i")
                    || !word.starts_with('-') && word.contains(['w', 'W'])
            };
            if words.iter().any(edits) { vec![WrittenFile::Unknown] } else { Vec::new() }
        }
        "sort" | "gsort" => {
            let is_short = |word: &str| word.starts_with('-') && !word.starts_with("--");
            let names =
                |word: &&str| is_short(word) && word.contains('o') || word.starts_with("--o");
            if words.iter().any(names) { vec![WrittenFile::Unknown] } else { Vec::new() }
        }
        "uniq" if files().count() < 2 => Vec::new(),
        "base64" => Vec::new(),
        _ => vec![WrittenFile::Unknown],
    }
}

/// Returns the files that `curl` writes: none, unless an option says so.
fn written_by_curl(words: &[&str]) -> Vec<WrittenFile> {
    const LONG: [&str; 9] = [
        "--output",
        "--remote",
        "--dump",
        "--cookie-jar",
        "--trace",
        "--stderr",
        "--etag-save",
        "--hsts",
        "--alt-svc",
    ];
    let mut writes = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let is_short = word.starts_with('-') && !word.starts_with("--");
        let says = is_short && word.contains(['o', 'O', 'D', 'J', 'c'])
            || word.len() > 3
                && LONG.iter().any(|long| {
                    word.starts_with(long)
                        || long.starts_with(word.split('=').next().unwrap_or(word))
                });
        if !says {
            continue;
        }
        let is_output = *word == "--output"
            || is_short && word.ends_with('o') && !word.contains(['O', 'D', 'J', 'c']);
        match words.next() {
            Some(name) if is_output => writes.push(WrittenFile::File((*name).to_owned())),
            Some(_) | None => writes.push(WrittenFile::Unknown),
        }
    }
    writes
}

/// Returns what git writes in the working tree.
fn written_by_git<'w>(arguments: impl Iterator<Item = ShellWord<'w>>) -> Vec<WrittenFile> {
    let mut has_subcommand = false;
    for word in arguments {
        let Some(text) = word.known() else { return vec![WrittenFile::Unknown] };
        if text.starts_with("--output") || text.starts_with("-C") || text.starts_with("--git-dir") {
            return vec![WrittenFile::Unknown];
        }
        if !text.starts_with('-') && !has_subcommand {
            has_subcommand = true;
            if !is_in(QUIET_GIT, text) {
                return vec![WrittenFile::Unknown];
            }
        }
    }
    Vec::new()
}
