//! Paths that are never part of a change, whoever makes it: an agent, a proposal, a known patch.
//!
//! They decide what runs without a person: Salve's own settings and records, git's settings and
//! hooks, and the settings by which coding agents and editors start commands and servers. A change of
//! them is shown to a person, who may take it over; it never travels with a repair.
//!
//! A path is matched by its parts at any depth, since a package of a monorepo has such files too, and
//! without regard to case, since some file systems have none.
//!
//! **Invariant:** a path that is sealed in one place is sealed in every directory below it.

/// Directories that are sealed with all in them.
const DIRECTORIES: &[(&str, SealedPath)] = &[
    (".git", SealedPath::Git),
    (".githooks", SealedPath::Git),
    (".husky", SealedPath::Git),
    (".salve", SealedPath::Salve),
    (".claude", SealedPath::Agent),
    (".codex", SealedPath::Agent),
    (".gemini", SealedPath::Agent),
    (".opencode", SealedPath::Agent),
    (".cursor", SealedPath::Agent),
    (".windsurf", SealedPath::Agent),
    (".continue", SealedPath::Agent),
    (".roo", SealedPath::Agent),
    (".kiro", SealedPath::Agent),
    (".qwen", SealedPath::Agent),
    (".junie", SealedPath::Agent),
    (".amazonq", SealedPath::Agent),
    (".idea", SealedPath::Editor),
    (".vs", SealedPath::Editor),
    (".devcontainer", SealedPath::Editor),
    (".zed", SealedPath::Editor),
];

/// Files that are sealed by their names.
const FILES: &[(&str, SealedPath)] = &[
    ("salve.toml", SealedPath::Salve),
    ("salve.json", SealedPath::Salve),
    (".mcp.json", SealedPath::Agent),
    ("opencode.json", SealedPath::Agent),
    ("opencode.jsonc", SealedPath::Agent),
    (".aider.conf.yml", SealedPath::Agent),
    ("crush.json", SealedPath::Agent),
    (".crush.json", SealedPath::Agent),
];

/// How the names of files end by which an editor opens several directories with tasks of their own.
const WORKSPACE_END: &[u8] = b".code-workspace";

/// Files in an editor's directory that name commands; the others, such as word lists, do not.
const EDITOR_FILES: &[(&str, &str)] = &[
    (".vscode", "mcp.json"),
    (".vscode", "tasks.json"),
    (".vscode", "launch.json"),
    (".vscode", "settings.json"),
];

/// The directory that stands for its files where something else is in its place: a link there leads to
/// files that are not sealed.
const EDITORS_DIRECTORY: &str = ".vscode";

/// Salve's files in a project's root; their names go on with an id.
const SALVES_AT_ROOT: &[&str] = &[".dev-crash", ".dev-repair.lock"];

/// Whose file a sealed path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SealedPath {
    /// Salve's settings and records.
    Salve,
    /// Git's repository and hooks.
    Git,
    /// A coding agent's settings, which name commands and servers.
    Agent,
    /// An editor's settings that name commands.
    Editor,
}

impl SealedPath {
    /// Says whose file `path` is if it is sealed; `path` is relative to the project's root, its parts
    /// divided by `/`, and need not be valid UTF-8.
    pub fn of(path: &[u8]) -> Option<Self> {
        let mut parts = path.split(|&byte| byte == b'/').filter(|part| !part.is_empty()).peekable();
        let first = parts.peek().copied().unwrap_or_default();
        if SALVES_AT_ROOT.iter().any(|name| starts_with(first, name)) {
            return Some(Self::Salve);
        }
        while let Some(part) = parts.next() {
            let directory = DIRECTORIES.iter().find(|(name, _)| is(part, name));
            let next = parts.peek().copied();
            let in_editors = |&&(dir, file): &&(&str, &str)| {
                is(part, dir) && next.is_some_and(|next| is(next, file))
            };
            let file = FILES.iter().find(|(name, _)| next.is_none() && is(part, name));
            if next.is_none() && (is(part, EDITORS_DIRECTORY) || ends_with(part, WORKSPACE_END)) {
                return Some(Self::Editor);
            }
            match directory.or(file) {
                Some((_, whose)) => return Some(*whose),
                None if EDITOR_FILES.iter().find(in_editors).is_some() => {
                    return Some(Self::Editor);
                }
                None => {}
            }
        }
        None
    }

    /// Returns every path in a project's root that is sealed by its whole name.
    pub fn at_root() -> impl Iterator<Item = String> {
        let whole = DIRECTORIES.iter().chain(FILES).map(|(name, _)| (*name).to_owned());
        whole.chain(EDITOR_FILES.iter().map(|(dir, file)| format!("{dir}/{file}")))
    }

    /// Returns the sealed paths that a patch in git's form names, in order; nothing can be said of a
    /// name that is quoted, so such a patch counts as sealed where the quoted text is.
    pub fn in_patch(patch: &str) -> Vec<String> {
        let headers = ["--- ", "+++ ", "rename from ", "rename to ", "copy from ", "copy to "];
        let mut found = Vec::new();
        for line in patch.lines() {
            let pair = line.strip_prefix("diff --git ").map(|pair| pair.split(' ').collect());
            let one = headers.iter().find_map(|header| line.strip_prefix(header));
            let names: Vec<&str> = pair.or(one.map(|name| vec![name])).unwrap_or_default();
            for name in names {
                let bare = name.split('\t').next().unwrap_or(name).trim_matches('"');
                let short = ["a/", "b/"].iter().find_map(|side| bare.strip_prefix(side));
                let path = short.unwrap_or(bare);
                if Self::of(path.as_bytes()).is_some() && !found.iter().any(|known| known == path) {
                    found.push(path.to_owned());
                }
            }
        }
        found
    }
}

fn is(part: &[u8], name: &str) -> bool {
    part.eq_ignore_ascii_case(name.as_bytes())
}

fn ends_with(part: &[u8], end: &[u8]) -> bool {
    let from = part.len().checked_sub(end.len());
    from.and_then(|from| part.get(from..)).is_some_and(|found| found.eq_ignore_ascii_case(end))
}

fn starts_with(part: &[u8], name: &str) -> bool {
    part.get(..name.len()).is_some_and(|begin| is(begin, name))
}

#[cfg(test)]
mod tests {
    use super::SealedPath::{self, Agent, Editor, Git, Salve};

    #[test]
    fn what_names_commands_is_sealed_wherever_it_lies() {
        for (path, want) in [
            ("salve.toml", Some(Salve)),
            ("packages/web/Salve.TOML", Some(Salve)),
            (".salve/loops/x/plan.md", Some(Salve)),
            (".dev-crash.0123abcd.log", Some(Salve)),
            (".dev-repair.lock", Some(Salve)),
            (".git/hooks/pre-commit", Some(Git)),
            ("vendor/lib/.git", Some(Git)),
            (".husky/pre-push", Some(Git)),
            (".mcp.json", Some(Agent)),
            (".claude/settings.json", Some(Agent)),
            ("apps/a/.codex/config.toml", Some(Agent)),
            (".gemini/settings.json", Some(Agent)),
            ("opencode.jsonc", Some(Agent)),
            (".cursor/mcp.json", Some(Agent)),
            (".vscode/mcp.json", Some(Editor)),
            (".vscode/tasks.json", Some(Editor)),
            ("web/.vscode", Some(Editor)),
            (".vscode/words.txt", None),
            ("web/shop.code-workspace", Some(Editor)),
            ("shop.code-workspace/notes.md", None),
            (".idea/runConfigurations/Shop.xml", Some(Editor)),
            (".roo/mcp.json", Some(Agent)),
            (".aider.conf.yml", Some(Agent)),
            ("sub/Crush.json", Some(Agent)),
            ("docs/kiro.md", None),
            ("src/salve.toml.rs", None),
            ("salve.toml/readme", None),
            ("src/.dev-crash.rs", None),
            ("src/git/mod.rs", None),
            (".github/workflows/ci.yml", None),
            (".gitignore", None),
            ("CLAUDE.md", None),
            ("", None),
        ] {
            assert_eq!(SealedPath::of(path.as_bytes()), want, "{path}");
        }
        assert_eq!(SealedPath::of(b"\xff/.git/x"), Some(Git));
    }

    #[test]
    fn a_patch_that_names_a_sealed_path_is_known() {
        let plain = "diff --git a/src/a.rs b/src/a.rs\n--- a/src/a.rs\n+++ b/src/a.rs\n";
        assert!(SealedPath::in_patch(plain).is_empty());
        for patch in [
            "diff --git a/salve.toml b/salve.toml\nnew file mode 100644\n",
            "--- /dev/null\n+++ b/.mcp.json\n@@ -0,0 +1 @@\n+{}\n",
            "rename from src/a\nrename to .claude/hook.sh\n",
            "--- a/x\n+++ \"b/.git/hooks/\\303\\274\"\n",
        ] {
            let both = format!("{plain}{patch}");
            assert_eq!(SealedPath::in_patch(&both).len(), 1, "{patch}");
        }
    }
}
