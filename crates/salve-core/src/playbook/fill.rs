//! The values that a rule's texts may ask for.

use std::collections::BTreeMap;

use super::catch::{Caught, Kind};
use super::condition::View;
use super::facts::{Facts, Holder, Mark, PortState};
use crate::fingerprint::Fingerprint;

/// Values beside those that a rule catches itself.
const KNOWN: &[&str] = &[
    "manager",
    "damaged",
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
];

/// Returns whether a text may ask for the value.
pub(super) fn is_known(name: &str) -> bool {
    KNOWN.contains(&name) || name.parse::<Kind>().is_ok()
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

/// The values of one diagnosis.
pub(super) struct Values(BTreeMap<&'static str, String>);

impl Values {
    /// Collects what is known.
    pub(super) fn new(caught: &Caught, facts: &Facts, fingerprint: &Fingerprint) -> Self {
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
        values.insert("key", fingerprint.key_line.clone());
        values.insert("user", facts.user.name.clone());
        values.insert("root", facts.root.clone());
        values.insert("example", facts.example_file.clone().unwrap_or_default());
        let mut values = Self(values);
        values.add_projects(facts);
        values.add_things(&view);
        values
    }

    /// Adds a value that only the whole output tells.
    pub(super) fn set_where(&mut self, place: String) {
        self.0.insert("where", place);
    }

    fn add_projects(&mut self, facts: &Facts) {
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
            let interpreter = python.interpreter.as_ref();
            self.0.extend(interpreter.map(|(path, v)| ("interpreter", format!("{path} ({v})"))));
        }
        if let Some(disk) = &facts.disk {
            self.0.insert("disk", disk.at.clone());
            let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
            let (free, size) = (gib(disk.free), gib(disk.size));
            let free = format!("{free:.1} of {size:.1} GiB and {} inodes", disk.inodes);
            self.0.insert("free", free);
        }
    }

    fn add_things(&mut self, view: &View<'_>) {
        let mut holder = None;
        if let Some(path) = view.path() {
            self.0.insert("owner", path.owner.clone());
            self.0.insert("mode", format!("{:o}", path.mode));
            self.0.insert("nearest", path.nearest.clone());
            self.0.extend(path.inside.clone().map(|path| ("relative", path)));
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

/// Tells who a process is.
fn told(holder: &Holder) -> String {
    let Holder { process, command, cwd, .. } = holder;
    let mark = match &holder.mark {
        Mark::None => String::new(),
        Mark::Ours(server) => format!(", server `{server}` of this very run"),
        Mark::Living(server) => format!(", server `{server}` of another `salve dev`"),
        Mark::Dead(server) => format!(", left by server `{server}` of an earlier `salve dev`"),
    };
    format!("pid {} `{command}` in {cwd}{mark}", process.pid)
}
