//! What the text of a failure speaks of: modules, paths, ports, programs, processes.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use crate::fingerprint::RecognisedRow;

/// The sort of thing that a rule's pattern catches; a named group of the pattern says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CatchKind {
    /// What JavaScript imports: a package, a part of one, or a file.
    Module,
    /// The file that imports it.
    From,
    /// A Node package.
    Package,
    /// A Python module.
    Import,
    /// A file or directory.
    Path,
    /// A file that its own lock, with `.lock` at the end, stands for.
    Locked,
    Port,
    Program,
    /// A process id.
    Pid,
    /// A variable of the environment.
    Variable,
    /// A host, or host and port.
    Host,
    /// A script of `package.json`.
    Script,
    /// A version or range that is asked for.
    Wanted,
    /// A version that is there.
    Present,
    /// A command that the text itself advises.
    Advice,
    /// Whatever else a person should read.
    Detail,
}

/// Every kind with the name of its group.
const KINDS: [(CatchKind, &str); 16] = [
    (CatchKind::Module, "module"),
    (CatchKind::From, "from"),
    (CatchKind::Package, "package"),
    (CatchKind::Import, "import"),
    (CatchKind::Path, "path"),
    (CatchKind::Locked, "locked"),
    (CatchKind::Port, "port"),
    (CatchKind::Program, "program"),
    (CatchKind::Pid, "pid"),
    (CatchKind::Variable, "variable"),
    (CatchKind::Host, "host"),
    (CatchKind::Script, "script"),
    (CatchKind::Wanted, "wanted"),
    (CatchKind::Present, "present"),
    (CatchKind::Advice, "advice"),
    (CatchKind::Detail, "detail"),
];

impl CatchKind {
    /// Every kind.
    #[cfg(test)]
    pub(super) const ALL: [CatchKind; KINDS.len()] = {
        let mut all = [CatchKind::Module; KINDS.len()];
        let mut at = 0;
        while at < KINDS.len() {
            all[at] = KINDS[at].0;
            at += 1;
        }
        all
    };

    /// Returns the name of the group.
    pub fn name(self) -> &'static str {
        KINDS.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
}

impl FromStr for CatchKind {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        KINDS.iter().find(|(_, own)| *own == name).map(|(kind, _)| *kind).ok_or(())
    }
}

/// What one rule caught in a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Caught(BTreeMap<CatchKind, String>);

impl Caught {
    /// Returns the value of `kind`.
    pub(super) fn get(&self, kind: CatchKind) -> Option<&str> {
        self.0.get(&kind).map(String::as_str)
    }

    /// Returns everything caught.
    pub(super) fn iter(&self) -> impl Iterator<Item = (CatchKind, &str)> {
        self.0.iter().map(|(kind, value)| (*kind, value.as_str()))
    }

    /// Keeps a value unless there is one already.
    pub(super) fn keep(&mut self, kind: CatchKind, value: &str) {
        let value = value.trim();
        if !value.is_empty() {
            self.0.entry(kind).or_insert_with(|| value.to_owned());
        }
    }

    /// Keeps what the holes of a row caught, where a hole has the name of a kind.
    pub(super) fn keep_holes(&mut self, row: &RecognisedRow) {
        for (name, value) in &row.holes {
            if let Ok(kind) = name.parse() {
                self.keep(kind, value);
            }
        }
    }

    /// Adds what follows from what was caught: of a module the package or the file it means, of a
    /// path in `node_modules` the package that owns it, of a locked file its lock.
    pub(super) fn complete(&mut self) {
        if let Some(module) = self.get(CatchKind::Module).map(plain_module) {
            if module.starts_with(['.', '/']) {
                let path = match self.get(CatchKind::From) {
                    Some(from) if module.starts_with('.') => join(parent(from), &module),
                    Some(_) | None => module,
                };
                self.keep(CatchKind::Path, &path);
            } else if let Some(package) = package_of(&module) {
                self.keep(CatchKind::Package, package);
            }
        }
        if let Some(locked) = self.get(CatchKind::Locked) {
            self.keep(CatchKind::Path, &format!("{locked}.lock"));
        }
        for kind in [CatchKind::Path, CatchKind::From] {
            if let Some(package) = self.get(kind).and_then(owner).map(str::to_owned) {
                self.keep(CatchKind::Package, &package);
            }
        }
    }
}

/// The things whose state a diagnosis wants to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clues {
    /// Paths, as the text names them.
    pub paths: BTreeSet<String>,
    /// Files that import something that is missing.
    pub importers: BTreeSet<String>,
    pub ports: BTreeSet<u16>,
    /// Processes.
    pub pids: BTreeSet<u32>,
    pub programs: BTreeSet<String>,
    /// Node packages.
    pub packages: BTreeSet<String>,
    /// Python modules.
    pub imports: BTreeSet<String>,
    /// Variables of the environment.
    pub variables: BTreeSet<String>,
}

impl Clues {
    /// Adds what a rule caught.
    pub(super) fn add(&mut self, caught: &Caught) {
        for (kind, value) in caught.iter() {
            match kind {
                CatchKind::Path => drop(self.paths.insert(value.to_owned())),
                CatchKind::From => {
                    self.paths.insert(value.to_owned());
                    self.importers.insert(value.to_owned());
                }
                CatchKind::Port => self.ports.extend(value.parse::<u16>().ok()),
                CatchKind::Pid => self.pids.extend(value.parse::<u32>().ok()),
                CatchKind::Program => {
                    self.programs.insert(value.to_owned());
                    if value.contains('/') {
                        self.paths.insert(value.to_owned());
                    }
                }
                CatchKind::Package => drop(self.packages.insert(value.to_owned())),
                CatchKind::Import => drop(self.imports.insert(value.to_owned())),
                CatchKind::Host => {
                    let port: Option<u16> =
                        value.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
                    self.ports.extend(port);
                }
                CatchKind::Variable => drop(self.variables.insert(value.to_owned())),
                CatchKind::Module
                | CatchKind::Locked
                | CatchKind::Script
                | CatchKind::Wanted
                | CatchKind::Present
                | CatchKind::Advice
                | CatchKind::Detail => {}
            }
        }
    }
}

/// Returns a module's name without the decorations some tools give it.
fn plain_module(module: &str) -> String {
    let module = module.strip_prefix("file://").unwrap_or(module);
    module
        .split(['?', '#'])
        .next()
        .filter(|_| !module.starts_with('#'))
        .unwrap_or(module)
        .to_owned()
}

/// Returns the package that a bare import belongs to.
pub(super) fn package_of(module: &str) -> Option<&str> {
    if module.starts_with("node:") || module.starts_with(['#', '~', '$']) || module.contains(':') {
        return None;
    }
    let slashes = if module.starts_with('@') { 2 } else { 1 };
    let end = module.match_indices('/').nth(slashes - 1).map_or(module.len(), |(at, _)| at);
    let name = &module[..end];
    let scoped = !module.starts_with('@') || name.contains('/');
    (scoped && !name.is_empty() && !name.contains(char::is_whitespace)).then_some(name)
}

/// Returns the package in `node_modules` that owns a path.
pub(super) fn owner(path: &str) -> Option<&str> {
    let (_, rest) = path.rsplit_once("node_modules/")?;
    package_of(rest).filter(|name| !name.starts_with('.'))
}

/// Returns the directory of a path.
fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}

/// Joins a relative path to a directory, resolving `.` and `..` by name.
fn join(dir: &str, relative: &str) -> String {
    let mut parts: Vec<&str> = dir.split('/').collect();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_a_package_or_a_file() {
        let rows = [
            ("express", Some("express")),
            ("lodash/fp", Some("lodash")),
            ("@acme/core/util", Some("@acme/core")),
            ("@acme", None),
            ("node:fs", None),
            ("#internal", None),
            ("virtual:pwa", None),
        ];
        for (module, want) in rows {
            assert_eq!(package_of(module), want, "{module}");
        }
        assert_eq!(owner("/p/node_modules/a/node_modules/@b/c/x.js"), Some("@b/c"));
        assert_eq!(owner("/p/node_modules/.prisma/client"), None);
        assert_eq!(owner("/p/src/a.js"), None);
    }

    #[test]
    fn a_relative_module_is_beside_the_file_that_imports_it() {
        let mut caught = Caught::default();
        caught.keep(CatchKind::Module, "../lib/tool");
        caught.keep(CatchKind::From, "/p/src/deep/app.js");
        caught.complete();
        assert_eq!(caught.get(CatchKind::Path), Some("/p/src/lib/tool"));
        assert_eq!(caught.get(CatchKind::Package), None);
    }

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        for (kind, name) in KINDS {
            assert_eq!(kind.name(), name);
            assert_eq!(name.parse(), Ok(kind));
        }
    }
}
