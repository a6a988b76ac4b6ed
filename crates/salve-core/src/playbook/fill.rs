//! The values that a rule's texts may ask for.

use std::collections::BTreeMap;

use super::action::quoted;
use super::catch::{CatchKind, Caught};
use super::condition::View;
use super::facts::{LivingProcess, LockfileState, PortState, ProjectFacts, SalveMark, UnfitScript};
use crate::fingerprint::{Fingerprint, undecorated};

/// Values beside those that a rule catches itself.
const KNOWN: &[&str] = &[
    "manager",
    "damaged",
    "unparsable",
    "lockfile",
    "holder",
    "holder_pid",
    "holder_cwd",
    "service",
    "owner",
    "mode",
    "user",
    "nearest",
    "relative",
    "scripts",
    "example",
    "venv",
    "sources",
    "absent",
    "stale",
    "free",
    "disk",
    "wanted_by",
    "key",
    "where",
    "interpreter",
    "python_manager",
    "build",
    "root",
    "attended",
    "deleted",
    "submodule",
    "parent",
    "script_interpreter",
    "drift",
    "damaged_python",
    "lock_line",
    "sqlite",
    "unset",
    "python",
    "heap",
    "heap_had",
    "node_options",
    "node_env",
    "other_program",
];

/// Values that stand for one word of a command: a path, a name, a version.
const WORDS: &[&str] = &[
    "path",
    "relative",
    "nearest",
    "disk",
    "example",
    "venv",
    "program",
    "package",
    "script",
    "service",
    "root",
    "user",
    "variable",
    "module",
    "import",
    "wanted",
    "deleted",
    "sqlite",
    "python",
    "build",
    "submodule",
    "parent",
];

/// Returns whether a text may ask for the value.
pub(super) fn is_known(name: &str) -> bool {
    KNOWN.contains(&name) || name.parse::<CatchKind>().is_ok()
}

/// Returns the names in braces.
pub(super) fn holes(text: &str) -> impl Iterator<Item = &str> {
    text.split('{').skip(1).filter_map(|rest| rest.split_once('}').map(|(name, _)| name))
}

/// Returns the text with its values filled in; one that is not known is `?`.
pub(super) fn fill(text: &str, values: &Values) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let Some((name, after)) = after.split_once('}') else { break };
        out.push_str(values.0.get(name).map_or("?", String::as_str));
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Returns advice with its values filled in, each as one word of a shell.
///
/// A path may have a space in it or begin with a dash; pasted as it is, the command would act on
/// something else.
pub(super) fn fill_advice(text: &str, values: &Values) -> String {
    let word = |name: &&'static str, value: &String| {
        let value = if value.starts_with('-') { format!("./{value}") } else { value.clone() };
        if WORDS.contains(name) { quoted(&value) } else { value }
    };
    let words = values.0.iter().map(|(name, value)| (*name, word(name, value)));
    fill(text, &Values(words.collect()))
}

/// The values of one diagnosis.
pub(super) struct Values(BTreeMap<&'static str, String>);

impl Values {
    /// Collects what is known.
    pub(super) fn new(caught: &Caught, facts: &ProjectFacts, fingerprint: &Fingerprint) -> Self {
        let view = View { caught, facts };
        let mut values = BTreeMap::new();
        for (kind, value) in caught.iter() {
            values.insert(kind.name(), value.to_owned());
        }
        if let Some(port) = view.port() {
            values.insert("port", port.to_string());
            let service = facts.compose.as_ref().and_then(|file| file.services.get(&port));
            values.extend(service.map(|name| ("service", name.clone())));
        }
        values.insert("key", undecorated(&fingerprint.key_line).to_owned());
        values.insert("user", facts.user.name.clone());
        values.insert("root", facts.root.clone());
        values.insert("example", facts.example_file.clone().unwrap_or_default());
        values.insert("deleted", facts.deleted.first().cloned().unwrap_or_default());
        values.insert("submodule", facts.submodules.first().cloned().unwrap_or_default());
        values.extend(parent(caught).map(|dir| ("parent", dir)));
        values.insert("unset", facts.unset_variables.join(", "));
        values.extend(facts.sqlite.clone().map(|path| ("sqlite", path)));
        values.insert("node_env", facts.node_env.clone().unwrap_or_default());
        if let Some(heap) = &facts.heap {
            values.extend(heap.larger().map(|size| ("heap", size.to_string())));
            let had = heap.had.map_or("its usual size".to_owned(), |size| format!("{size} MB"));
            values.insert("heap_had", had);
            let kept = if heap.has_options { "$NODE_OPTIONS " } else { "" };
            values.insert("node_options", kept.to_owned());
        }
        let mut values = Self(values);
        values.add_projects(facts);
        values.add_things(&view);
        values
    }

    /// Makes every value that a text may ask for the same one.
    #[cfg(test)]
    pub(super) fn all(value: &str) -> Self {
        let kinds = CatchKind::ALL.iter().map(|kind| kind.name());
        Self(KNOWN.iter().copied().chain(kinds).map(|name| (name, value.to_owned())).collect())
    }

    /// Adds a value that only the whole output tells.
    pub(super) fn set_where(&mut self, place: String) {
        self.0.insert("where", place);
    }

    fn add_projects(&mut self, facts: &ProjectFacts) {
        if let Some(node) = &facts.node {
            let manager = node.manager.map(|manager| manager.to_string());
            self.0.extend(manager.map(|name| ("manager", name)));
            let lockfiles = node.lockfiles.join(" and ");
            let lockfile = node.lockfile().map_or(lockfiles, str::to_owned);
            self.0.insert("lockfile", lockfile);
            let scripts: Vec<&str> = node.scripts.keys().map(String::as_str).collect();
            self.0.insert("scripts", scripts.join(", "));
            let absent: Vec<_> = node.absent.iter().take(3).map(String::as_str).collect();
            self.0.insert("absent", absent.join(", "));
            let stale = node.stale.iter().take(3);
            let stale: Vec<String> = stale
                .map(|(name, have, want)| format!("{name} {have} instead of {want}"))
                .collect();
            self.0.insert("stale", stale.join(", "));
            self.0.insert("damaged", node.damaged.join(", "));
            self.0.insert("unparsable", node.unparsable.join(", "));
            match node.lockfile_state {
                LockfileState::Readable => {}
                LockfileState::Conflicted { line } | LockfileState::Broken { line } => {
                    self.0.insert("lock_line", line.to_string());
                }
            }
            self.0.extend(node.build_script().map(|name| ("build", name.to_owned())));
            self.0.extend(node.wanted.as_ref().map(|(what, _)| ("wanted", what.clone())));
            self.0.extend(node.wanted.as_ref().map(|(_, by)| ("wanted_by", by.clone())));
            self.0.extend(node.present.as_ref().map(|version| ("present", version.clone())));
        }
        if let Some(python) = &facts.python {
            self.0.insert("python_manager", python.manager.program().to_owned());
            self.0.insert("sources", python.sources.join(", "));
            self.0.extend(python.venv.as_ref().map(|venv| ("venv", venv.path.clone())));
            if let Some((wanted, by)) = &python.wanted {
                self.0.entry("wanted").or_insert_with(|| wanted.clone());
                self.0.entry("wanted_by").or_insert_with(|| by.clone());
            }
            let drift = python.drift.iter().take(3);
            let drift: Vec<String> = drift
                .map(|one| format!("{} {} instead of {}", one.name, one.present, one.wanted))
                .collect();
            self.0.insert("drift", drift.join(", "));
            let damaged = python.damaged.iter().map(|(name, version)| format!("{name} {version}"));
            self.0.insert("damaged_python", damaged.collect::<Vec<_>>().join(", "));
            self.0.insert("python", python.command());
            let interpreter = python.interpreter.as_ref();
            self.0.extend(interpreter.map(|(path, v)| ("interpreter", format!("{path} ({v})"))));
        }
        if let Some(disk) = &facts.disk {
            self.0.insert("disk", disk.at.clone());
            let (unit, whole) =
                if disk.size < 1 << 30 { ("MiB", 1 << 20) } else { ("GiB", 1 << 30) };
            let (free, size) =
                (disk.free as f64 / f64::from(whole), disk.size as f64 / f64::from(whole));
            let inodes = match disk.all_inodes {
                0 => String::new(),
                _ => format!(" and {} inodes", disk.inodes),
            };
            self.0.insert("free", format!("{free:.1} of {size:.1} {unit}{inodes}"));
        }
    }

    fn add_things(&mut self, view: &View<'_>) {
        let mut holder = None;
        if let Some(path) = view.path() {
            self.0.insert("owner", path.owner.clone());
            self.0.insert("mode", format!("{:o}", path.mode));
            self.0.insert("nearest", path.nearest.clone());
            self.0.extend(path.inside.clone().map(|path| ("relative", path)));
            self.0.extend(path.hold.other.clone().map(|other| ("other_program", other)));
            if let Some(UnfitScript::NoInterpreter(program)) = &path.unfit {
                self.0.insert("script_interpreter", program.clone());
            }
            holder = path.hold.holders.first();
        }
        let pid = view.pid();
        holder = holder.or_else(|| pid.and_then(|pid| view.facts.processes.get(&pid)));
        match view.port().and_then(|port| view.facts.ports.get(&port)) {
            Some(PortState::Held(other)) => holder = holder.or(Some(other)),
            Some(PortState::Hidden { owner }) => {
                self.0.insert("holder", format!("a process of the user {owner}"));
                self.0.insert("holder_pid", "<pid>".to_owned());
                self.0.insert("holder_cwd", "a directory that cannot be seen".to_owned());
            }
            Some(PortState::Free) | None => {}
        }
        if let Some(holder) = holder {
            self.0.insert("holder", told(holder));
            self.0.insert("holder_pid", holder.process.pid.to_string());
            self.0.insert("holder_cwd", holder.cwd.clone());
            self.0.insert("attended", holder.attended.clone().unwrap_or_default());
        }
    }
}

/// Returns the directory of the path that was caught, as it is named there.
fn parent(caught: &Caught) -> Option<String> {
    let (parent, _) = caught.get(CatchKind::Path)?.rsplit_once('/')?;
    (!parent.is_empty()).then(|| parent.to_owned())
}

/// Tells who a process is.
fn told(holder: &LivingProcess) -> String {
    let LivingProcess { process, command, cwd, .. } = holder;
    let mark = match &holder.mark {
        SalveMark::None => String::new(),
        SalveMark::Ours(server) => format!(", server `{server}` of this very run"),
        SalveMark::Living(server) => format!(", server `{server}` of another `salve dev`"),
        SalveMark::Dead(server) => format!(", left by server `{server}` of an earlier `salve dev`"),
    };
    format!("pid {} `{command}` in {cwd}{mark}", process.pid)
}
