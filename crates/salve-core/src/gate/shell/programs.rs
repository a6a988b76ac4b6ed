//! Programs that run other programs, as far as the gate knows them.
//!
//! The lists need not be complete: a command that no list knows is still what it is. They only let
//! a pattern reach what is wrapped, and on doubt they say too much.

use std::collections::HashMap;
use std::sync::LazyLock;

/// What a program does with its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Nothing the gate needs to look into.
    Plain,
    /// Some later argument begins a command.
    Wrapper,
    /// As [`Role::Wrapper`], with arguments appended from its input.
    Feeder,
    /// A command begins after `-exec` or a relative of it.
    Finder,
    /// Arguments are, or hold, shell scripts.
    ScriptRunner,
    /// A shell: a script after `-c`, else a file, else its input.
    Shell,
    /// An interpreter of another language.
    Interpreter,
    /// An editor whose scripts may run commands.
    Editor,
    /// Changes what later words mean.
    Redefiner,
    /// A built-in that evaluates subscripts in its arguments.
    Evaluator,
}

/// Returns a program's name without directory and Windows ending.
pub(super) fn name(text: &str) -> &str {
    let base = text.rsplit(['/', '\\']).next().unwrap_or(text);
    [".exe", ".cmd", ".bat", ".com"]
        .iter()
        .find_map(|ending| {
            let cut = base.len().checked_sub(ending.len())?;
            let tail = base.get(cut..)?;
            (cut > 0 && tail.eq_ignore_ascii_case(ending)).then(|| &base[..cut])
        })
        .unwrap_or(base)
}

/// The programs of each role, apart from those with a version in their name.
const ROLES: &[(Role, &str)] = &[
    (
        Role::Wrapper,
        "env command sudo doas nohup timeout gtimeout nice ionice stdbuf setsid exec builtin time \
         strace ltrace chroot unshare nsenter busybox toybox rlwrap unbuffer caffeinate fakeroot \
         proot systemd-run systemd-inhibit taskset numactl prlimit chrt setpriv setarch firejail \
         bwrap faketime npx pnpx bunx uvx pipx dotenv dotenvx direnv mise asdf nix devbox conda \
         mamba poetry uv hatch pdm pipenv bundle docker podman nerdctl kubectl oc vagrant lxc \
         cross-env env-cmd entr watchexec nodemon start winpty wsl gosu su-exec tini dumb-init \
         catchsegv valgrind gdb perf hyperfine runuser pkexec torsocks proxychains proxychains4 \
         corepack sg linux32 linux64 i386 x86_64 eatmydata chpst softlimit ld.so \
         ld-linux-x86-64.so.2 retry ts-node tsx",
    ),
    (Role::Feeder, "xargs gxargs parallel"),
    (Role::Finder, "find gfind fd fdfind"),
    (
        Role::ScriptRunner,
        "eval trap su ssh watch script flock at batch concurrently nix-shell npm-run-all run-p \
         run-s start-server-and-test tmux screen expect dbus-run-session xvfb-run crontab \
         cmd powershell pwsh",
    ),
    (
        Role::Shell,
        ". source sh bash dash zsh ksh mksh ash rbash fish csh tcsh yash elvish nu xonsh",
    ),
    (
        Role::Interpreter,
        "node nodejs deno bun perl ruby php lua luajit awk gawk mawk nawk osascript tclsh Rscript \
         R vim vi nvim ed ex emacs guile scala jshell sqlite3 psql mysql",
    ),
    (Role::Editor, "sed gsed"),
    (Role::Redefiner, "alias unalias shopt enable hash bind complete compgen"),
    (
        Role::Evaluator,
        "let declare typeset local export readonly unset test [ printf read mapfile readarray \
         getopts wait",
    ),
];

/// Returns what the program called `name` does with its arguments.
pub(super) fn role(name: &str) -> Role {
    static KNOWN: LazyLock<HashMap<&str, Role>> = LazyLock::new(|| {
        // Should a name stand in two lists, the first counts.
        let lists = ROLES.iter().rev();
        lists.flat_map(|(role, names)| names.split(' ').map(|name| (name, *role))).collect()
    });
    match KNOWN.get(name) {
        Some(role) => *role,
        None if name.starts_with("python") || name.starts_with("pypy") => Role::Interpreter,
        None => Role::Plain,
    }
}

/// Returns whether `subcommand` of the program called `name` runs what follows it.
pub(super) fn runs_rest(name: &str, subcommand: &str) -> bool {
    match name {
        "npm" => matches!(subcommand, "exec" | "x" | "explore"),
        "pnpm" | "yarn" | "bun" => matches!(subcommand, "exec" | "x" | "dlx" | "run"),
        "cargo" | "go" | "dotnet" | "deno" => matches!(subcommand, "run" | "watch" | "task"),
        "git" => matches!(
            subcommand,
            "foreach" | "bisect" | "filter-branch" | "for-each-repo" | "rebase" | "difftool"
        ),
        "lerna" | "nx" | "turbo" | "rush" | "yarn-workspaces" => {
            matches!(subcommand, "exec" | "run")
        }
        _ => false,
    }
}

/// Variables that name programs, or where to find them.
const RUNNING_VARIABLES: [&str; 27] = [
    "PATH",
    "IFS",
    "ENV",
    "BASH_ENV",
    "SHELL",
    "SHELLOPTS",
    "BASHOPTS",
    "PS4",
    "NODE_OPTIONS",
    "PYTHONSTARTUP",
    "PYTHONPATH",
    "PERL5OPT",
    "PERL5LIB",
    "RUBYOPT",
    "GIT_SSH",
    "GIT_EXTERNAL_DIFF",
    "GIT_ASKPASS",
    "SSH_ASKPASS",
    "GIT_EXEC_PATH",
    "GIT_DIR",
    "CDPATH",
    "MAKEFLAGS",
    "BROWSER",
    "VISUAL",
    "RUSTC",
    "CC",
    "CXX",
];

/// Returns whether setting the variable changes which program runs, or runs one.
pub(super) fn variable_runs(name: &str) -> bool {
    let starts = ["LD_", "DYLD_", "GIT_CONFIG", "BASH_FUNC"];
    let ends = ["COMMAND", "EDITOR", "PAGER", "SHELL", "_WRAPPER"];
    RUNNING_VARIABLES.contains(&name)
        || starts.iter().any(|start| name.starts_with(start))
        || ends.iter().any(|end| name.ends_with(end))
}

/// Programs that run what their arguments or input say, whatever their options.
const BY_NATURE: &str = "gdb lldb m4 gm4 socat nc ncat netcat octave gnuplot run-parts logrotate mutt ctest rpm expect \
     tcpdump openvpn pppd capsh logsave sshpass autoexpect";

/// Returns whether a program runs what it is given, whatever its options.
pub(super) fn runs_by_nature(name: &str) -> bool {
    BY_NATURE.split(' ').any(|known| known == name)
}

/// Options by which programs run their values, or delete: long ones also count cut short.
const BY_OPTION: &[(&str, &str)] = &[
    ("find gfind fd fdfind", "-delete -exec -execdir -ok -okdir -fprint -fprint0 -fprintf -fls"),
    ("fd fdfind", "-x -X --exec --exec-batch"),
    ("split gsplit", "--filter"),
    ("sort gsort", "--compress-program"),
    ("tar gtar bsdtar", "--to-command --use-compress-program --info-script --new-volume-script"),
    ("tar gtar bsdtar", "--checkpoint-action --rsh-command --rmt-command -I -F"),
    ("rsync", "-e --rsh --rsync-path"),
    ("scp sftp", "-S -o -F"),
    ("zip", "-TT --unzip-command -m --move"),
    ("make gmake bmake", "-E --eval"),
    ("cmake", "-P -E -C"),
    ("java", "-XX:OnError -XX:OnOutOfMemoryError -javaagent -agentpath -agentlib"),
    ("man less more", "-P --pager"),
    ("nmap", "--script"),
    ("wget", "--use-askpass --config -i"),
    ("curl", "-K --config"),
    ("git", "--upload-pack --receive-pack --exec-path --template"),
    ("go", "-exec -toolexec -overlay"),
    ("cargo", "--config"),
    ("gcc g++ cc c++ clang clang++", "-wrapper -fplugin -B"),
    ("openssl", "-engine -provider-path"),
    ("pytest", "-p -c --rootdir"),
    ("npm pnpm yarn", "--script-shell --node-options --prefix --git"),
    ("pip pip3", "--config-settings --global-option"),
    ("install ginstall", "--strip-program"),
    ("vite webpack jest vitest", "--config -c"),
];

/// Returns whether `option` of the program called `name` runs its value, or deletes.
pub(super) fn runs_by_option(name: &str, option: &str) -> bool {
    if !option.starts_with('-') {
        return false;
    }
    let bare = option.split('=').next().unwrap_or(option);
    let means = |known: &str| match known.strip_prefix("--") {
        Some(_) => bare.len() > 3 && known.starts_with(bare),
        // A letter may have its value in the same word.
        None if known.len() == 2 => bare.starts_with(known) && !bare.starts_with("--"),
        None => bare == known || bare.starts_with(&format!("{known}:")),
    };
    let rows = BY_OPTION.iter().filter(|(names, _)| names.split(' ').any(|known| known == name));
    rows.flat_map(|(_, options)| options.split(' ')).any(means)
}

/// Returns whether a program takes what it runs from its input.
pub(super) fn runs_input(name: &str) -> bool {
    matches!(name, "make" | "gmake" | "bmake" | "ninja" | "patch" | "dc" | "bc" | "ftp" | "sftp")
}

/// Returns whether an option's name says that its value is run.
pub(super) fn option_runs(option: &str) -> bool {
    let name = option.split('=').next().unwrap_or(option);
    let says = ["exec", "command", "cmd", "shell", "eval", "pager", "editor", "-action", "hook"];
    name.starts_with("--") && says.iter().any(|word| name.contains(word))
}
