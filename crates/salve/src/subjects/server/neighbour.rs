//! A port that a sibling worktree of the same repository holds: the server starts on a free one.
//!
//! Who works in several worktrees at once wants each server to run, so there is nothing to ask. The
//! port is moved for this run only: the settings and the files stay as they are.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::Path;

use salve_core::class::Class;
use salve_core::event::{Event, NoteEvent, ProcessExit};
use salve_core::playbook::{ObservedFailure, Playbook};
use salve_core::server::{LocalUrl, PortMove, PortedCommand, with_port};
use serde_json::Value;

use super::ServerPlan;
use super::life::{ServerCare, place};
use crate::files::{FileKind, read_bytes};
use crate::heal::Remark;
use crate::heal::cause::Evidence;
use crate::playbook;
use crate::probe::{self, PortHolder};
use crate::project::Worktree;
use crate::store::StoreError;

/// How many ports after the one that is taken are looked at.
const LOOKED_AT: u16 = 100;

impl ServerCare<'_, '_, '_> {
    /// Starts the server on a free port if a sibling worktree holds the one that it failed to get;
    /// tells whether it does.
    pub(super) fn starts_on_free_port(&mut self, evidence: &Evidence) -> Result<bool, StoreError> {
        let Some((ports, holder)) = self.held_by_sibling(evidence) else { return Ok(false) };
        let plan = &mut self.server.plan;
        let argv: Vec<String> =
            plan.argv.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let script = script_of(&argv, &plan.dir);
        let Some(ported) = with_port(&argv, script.as_deref(), ports) else { return Ok(false) };
        take_over(plan, &ported, ports);
        self.server.left_ports.push(ports.from);
        let scrubber = &self.context.base.writer.scrubber;
        let where_held = holder.cwd.as_deref().map_or_else(String::new, |cwd| {
            format!(
                " in {}",
                Worktree::of(cwd).map_or(cwd.to_path_buf(), |tree| tree.root).display()
            )
        });
        let text = format!(
            "port {} belongs to another worktree (pid {}, `{}`{where_held}); starts on {} ({})",
            ports.from, holder.pid, holder.command, ports.to, ported.said
        );
        let text = scrubber.scrub(&text);
        self.context
            .base
            .reporter
            .remark(&self.server.plan.name, &Remark::Moved { text: text.clone(), port: ports.to });
        self.context.base.writer.note(vec![Event::Note(NoteEvent::Noted { text })])?;
        self.start(None)?;
        Ok(true)
    }

    /// Returns the port that a sibling worktree holds, with a free one, if that is the failure.
    fn held_by_sibling(&self, evidence: &Evidence) -> Option<(PortMove, PortHolder)> {
        if evidence.symptom.class != Class::PortConflict {
            return None;
        }
        let base = &*self.context.base;
        let own = Worktree::of(&self.server.plan.dir)?;
        let output = evidence.output.as_str();
        let seen = ObservedFailure {
            fingerprint: &evidence.fingerprint,
            exit: &ProcessExit::Code(1),
            output,
        };
        let place = place(&self.server.plan, self.shared, base);
        let expected = playbook::expected_port(&place.ask());
        let named = Playbook::built_in().clues(&seen).ports.into_iter().chain(expected);
        let new = named.filter(|port| !self.server.left_ports.contains(port));
        new.into_iter().find_map(|from| {
            let holder = probe::holder(from)?;
            let theirs = Worktree::of(holder.cwd.as_deref()?)?;
            let to = free_port_after(from).filter(|_| theirs.is_sibling_of(&own))?;
            Some((PortMove { from, to }, holder))
        })
    }
}

/// Changes what runs, for this run only.
fn take_over(plan: &mut ServerPlan, ported: &PortedCommand, ports: PortMove) {
    // What was not changed stays as it was typed, be it text or not.
    let typed = |word: &String| plan.argv.iter().find(|typed| typed.to_string_lossy() == *word);
    let argv = ported.argv.iter().map(|word| typed(word).cloned().unwrap_or_else(|| word.into()));
    plan.argv = argv.collect();
    if let Some((name, value)) = &ported.variable {
        plan.env.retain(|(known, _)| known != name);
        plan.env.push((name.into(), value.into()));
    }
    let set = plan.url.as_deref().and_then(LocalUrl::at_start);
    if let (Some(url), Some(set)) = (&mut plan.url, set)
        && set.port == ports.from
    {
        *url = url.replacen(&format!(":{}", ports.from), &format!(":{}", ports.to), 1);
    }
}

/// Returns the script of package.json that a command runs, if it runs one.
fn script_of(argv: &[String], dir: &Path) -> Option<String> {
    let line = match argv {
        [_, flag, line] if flag == "-c" => line.split_whitespace().map(str::to_owned).collect(),
        words => words.to_vec(),
    };
    let runner = line.first()?;
    if !["npm", "pnpm", "yarn", "bun"].contains(&runner.as_str()) {
        return None;
    }
    let name = line.iter().skip(1).find(|word| *word != "run" && !word.starts_with('-'))?;
    let bytes = read_bytes(&dir.join("package.json"), FileKind::Bulk).ok()?;
    let manifest: Value = serde_json::from_slice(&bytes).ok()?;
    manifest.get("scripts")?.get(name)?.as_str().map(str::to_owned)
}

/// Returns the next port on which nobody listens.
fn free_port_after(port: u16) -> Option<u16> {
    let is_free = |port: &u16| {
        let any = [
            SocketAddr::from((Ipv4Addr::UNSPECIFIED, *port)),
            SocketAddr::from((Ipv6Addr::LOCALHOST, *port)),
        ];
        any.iter().all(|address| match TcpListener::bind(address) {
            Ok(_) => true,
            // A machine without IPv6 has nobody who listens there.
            Err(error) => error.kind() == std::io::ErrorKind::AddrNotAvailable,
        })
    };
    (port.checked_add(1)?..=port.saturating_add(LOOKED_AT)).find(is_free)
}
