//! What happens outside of incidents, by what it is about.

use serde::{Deserialize, Serialize};

use super::{
    Digest, Fix, IssueSettled, LoopId, LoopTurn, Notified, PageFailure, Process, ProcessExit,
    Proof, Proposed, RuleKey, SeenFile, ServerOrder,
};
use crate::id::IssueId;
use crate::id::Signature;
use crate::scrub::Scrubbed;
use crate::widen::UnattendedRules;

/// Something that happened to the settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "snake_case", deny_unknown_fields)]
pub enum ConfigEvent {
    /// A changed configuration took effect.
    #[serde(rename = "config_changed")]
    Changed {
        /// The hash of what holds now.
        digest: Digest,
        /// What changed, one line each.
        changes: Vec<Scrubbed>,
    },
    /// A changed configuration was refused as a whole.
    #[serde(rename = "config_rejected")]
    Rejected {
        /// Why, with file, line and column.
        reason: Scrubbed,
    },
    /// A configuration that widens what runs unattended waits for a person.
    #[serde(rename = "config_pending")]
    Pending {
        /// The hash of the waiting configuration.
        digest: Digest,
        /// What would change, one line each.
        changes: Vec<Scrubbed>,
        /// The rules that hold once it is accepted.
        rules: UnattendedRules,
    },
    /// A person accepted a waiting configuration.
    #[serde(rename = "config_accepted")]
    Accepted {
        /// The hash of what was accepted.
        digest: Digest,
    },
    /// An agent is about to start; until it has ended, nothing wider than this holds.
    #[serde(rename = "config_guarded")]
    Guarded {
        /// The rules that hold.
        rules: UnattendedRules,
    },
    /// An agent has ended and what it left in the configuration was looked at.
    #[serde(rename = "config_released")]
    Released {
        /// The entry that guarded it.
        guard: u64,
    },
}

/// Something that memory took in or dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "snake_case", deny_unknown_fields)]
pub enum MemoryEvent {
    /// Memory took in how a remedy did.
    Learned {
        /// The failure.
        signature: Signature,
        remedy: Digest,
        /// What verification found.
        proof: Proof,
    },
    /// Memory dropped what it knew about a failure.
    Forgotten {
        /// The failure.
        signature: Signature,
    },
    /// The tables by which failures are recognised changed, and know a failure by another
    /// signature: all that was learned, earned and approved under the old one holds under the new.
    Rekeyed {
        /// The signature until now.
        from: Signature,
        /// The signature from now on.
        to: Signature,
    },
    /// A tool call failed, and this came of it.
    ToolFailed {
        /// The tool, or the command.
        tool: Scrubbed,
        /// What it said.
        error: Scrubbed,
        /// What it was called with, as JSON.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context: Option<Scrubbed>,
        /// What was done about it, if anything was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resolution: Option<Scrubbed>,
        /// Whether the call worked when it was repeated.
        healed: bool,
    },
}

/// Something that happened to a dev server, or is wanted of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "snake_case", deny_unknown_fields)]
pub enum ServerEvent {
    /// A server's process was started.
    #[serde(rename = "server_started")]
    Started {
        /// The server's name.
        server: Scrubbed,
        process: Process,
        /// What runs, for people.
        command: Scrubbed,
        /// The run of Salve that started it; every process of the run carries it as a mark.
        run: Scrubbed,
    },
    /// A server was found well.
    #[serde(rename = "server_up")]
    Up {
        /// The server's name.
        server: Scrubbed,
        /// Where it answers, if that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<Scrubbed>,
    },
    /// A server's process ended, and everything it had started with it.
    #[serde(rename = "server_stopped")]
    Stopped {
        /// The server's name.
        server: Scrubbed,
        /// How it ended.
        exit: ProcessExit,
    },
    /// A person wants something of a server.
    #[serde(rename = "server_ordered")]
    Ordered {
        /// The server's name.
        server: Scrubbed,
        /// What is wanted.
        order: ServerOrder,
    },
    /// A page of a server failed in somebody's browser.
    #[serde(rename = "page_failed")]
    PageFailed(PageFailure),
}

/// A session of somebody's agent came or went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "snake_case", deny_unknown_fields)]
pub enum SessionEvent {
    /// An agent's session began to listen for repairs.
    #[serde(rename = "agent_attached")]
    Attached {
        /// The process that serves the session.
        process: Process,
    },
    /// An agent's session ended.
    #[serde(rename = "agent_detached")]
    Detached {
        /// The process that served the session.
        process: Process,
    },
}

/// Something that somebody reported or proposed, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "snake_case", deny_unknown_fields)]
pub enum TeamEvent {
    /// Somebody reported an issue.
    IssueReported {
        issue: IssueId,
        /// What is wrong.
        text: Scrubbed,
        /// The check that shows it, if one does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        check: Option<Scrubbed>,
        /// The files it is about, below the project's root.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<Scrubbed>,
        /// Whether Salve may act on it.
        auto_fix: bool,
    },
    /// An issue is no longer one.
    IssueSettled {
        issue: IssueId,
        /// What settled it.
        how: IssueSettled,
    },
    /// Proposals are wanted from everybody: for this issue, or for the incident it belongs to.
    FixWanted {
        /// The issue, if it is not for an incident.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        issue: Option<IssueId>,
        /// What those who are asked should know.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<Scrubbed>,
    },
    /// Somebody proposed a fix: for this issue, or for the incident it belongs to.
    FixProposed {
        /// The issue, if it is not for an incident.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        issue: Option<IssueId>,
        /// What is to be tried.
        fix: Fix,
        /// Why it should help.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<Scrubbed>,
    },
}

/// Something that happened to a loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "snake_case", deny_unknown_fields)]
pub enum LoopEvent {
    /// Something happened to a loop.
    #[serde(rename = "loop")]
    Turned {
        /// The loop.
        id: LoopId,
        /// The iteration, from 1; 0 before the first.
        iteration: u32,
        /// What happened.
        what: LoopTurn,
    },
    /// Salve began to serve recoveries to a loop that somebody else runs.
    #[serde(rename = "loop_attached")]
    Attached {
        /// The loop.
        id: LoopId,
    },
    /// It stopped doing so, because a person wanted it.
    #[serde(rename = "loop_detached")]
    Detached {
        /// The loop.
        id: LoopId,
    },
    /// What said, when a loop's run began, what is installed and how.
    ManifestsSeen {
        /// The loop.
        name: Scrubbed,
        /// The manifests, lockfiles and settings of package managers.
        files: Vec<SeenFile>,
    },
}

/// Something that happened on the way to tests that execute again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "snake_case", deny_unknown_fields)]
pub enum RecoveryEvent {
    /// A loop's tests could not execute, and that is to be recovered from.
    #[serde(rename = "recovery_sought")]
    Sought {
        /// The iteration of the loop, from 1.
        iteration: u32,
        /// The manifests, lockfiles and settings of package managers that changed in this run.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changed: Vec<Scrubbed>,
    },
    /// Somebody proposed how to recover.
    #[serde(rename = "recovery_proposed")]
    Proposed { proposal: Box<Proposed> },
    /// A proposal for a loop was not taken up.
    #[serde(rename = "recovery_refused")]
    Refused {
        /// The loop.
        name: Scrubbed,
        /// The iteration of the loop, from 1.
        iteration: u32,
        /// Why.
        reason: Scrubbed,
    },
}

/// A person's decision about what may run unattended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "snake_case", deny_unknown_fields)]
pub enum RuleEvent {
    /// A person lets what has proven itself run unattended from now on.
    #[serde(rename = "rule_accepted")]
    Accepted(RuleKey),
    /// A person takes that back.
    #[serde(rename = "rule_withdrawn")]
    Withdrawn(RuleKey),
}

/// Something that is on record for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "snake_case", deny_unknown_fields)]
pub enum NoteEvent {
    /// A damaged store was set aside and what could be read was kept.
    StoreSalvaged {
        /// Entries kept.
        kept: u64,
        /// The file that holds the damaged store now.
        aside: Scrubbed,
    },
    /// Somebody outside is to be told of an entry, was told, or could not be.
    Notified(Notified),
    /// A remark for people.
    Noted {
        /// The remark.
        text: Scrubbed,
    },
}
