//! The nouns of events: remedy, effect, report, outcome.

use serde::{Deserialize, Serialize};

use super::{Digest, ProcessExit, Repeat, Resource, Symptom};
use crate::scrub::Scrubbed;

/// What sort of thing a remedy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemedyKind {
    /// Run the subject again and change nothing.
    Retry,
    /// Run a command.
    Command,
    /// Apply a patch.
    Patch,
    /// Let an agent work on it.
    Agent,
    /// Start the runtime again in the same workspace.
    SoftReset,
    /// Rebuild the workspace and replay its checkpoints.
    HardReset,
}

impl RemedyKind {
    /// Returns whether it edits the files that people write.
    pub fn edits(self) -> bool {
        match self {
            RemedyKind::Patch | RemedyKind::Agent => true,
            RemedyKind::Retry
            | RemedyKind::Command
            | RemedyKind::SoftReset
            | RemedyKind::HardReset => false,
        }
    }
}

/// Who came up with a remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemedyOrigin {
    /// The project's own memory.
    Project,
    /// The user's memory across projects.
    User,
    /// What other machines of a fleet told.
    Fleet,
    /// The rules shipped with Salve.
    Playbook,
    /// An agent's proposal.
    Proposal,
    /// Salve's own resort: retry, agent turn, reset.
    Builtin,
    Person,
}

/// How a remedy can be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Undo {
    /// It changes nothing that would have to be undone.
    Nothing,
    /// By going back to a snapshot taken before it.
    Snapshot,
}

/// Something to try.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remedy {
    /// What sort of thing it is.
    pub kind: RemedyKind,
    /// Who came up with it.
    pub origin: RemedyOrigin,
    /// What it is, for people; what runs is what hashes to `digest`.
    pub text: Scrubbed,
    /// The hash of exactly what would run, see [`Digest::of_command`].
    pub digest: Digest,
    /// How it is undone.
    pub undo: Undo,
    /// Whether it may be tried again in the same incident.
    pub repeat: Repeat,
}

/// What the gate says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemedyVerdict {
    /// It may run unattended.
    Allow,
    /// A person has to decide.
    Ask,
    /// It must not run.
    Deny,
}

/// What the gate says about one remedy, and which rule said so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Judgement {
    pub verdict: RemedyVerdict,
    pub rule: Scrubbed,
    /// The reason, for people.
    pub reason: Scrubbed,
}

/// On whose word a remedy runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Authority {
    /// The gate's rule allowed it.
    Gate,
    /// A person approved it in the journal's entry of this number.
    Approval(u64),
}

/// How far back a roll-back goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// To before this attempt.
    Attempt,
    /// To before the incident's first attempt.
    Incident,
}

/// Something the owner of an incident does in the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Effect {
    /// Keep the state of the workspace.
    Snapshot,
    /// Run the remedy that hashes to `remedy`.
    Apply {
        /// The remedy's hash.
        remedy: Digest,
        /// On whose word.
        on: Authority,
    },
    /// Measure what changed since the snapshot.
    Measure,
    /// Run the subject again in the private layer, where the change is, and without the change.
    VerifyInLayer,
    /// Take the change over from the private layer.
    TakeOver,
    /// Run the subject again and judge it.
    Verify,
    /// Go back to a snapshot.
    RollBack(Scope),
    /// Tell the named person what has to be decided.
    Ask,
    /// Tell memory how it came out.
    Record,
    /// Let go of the lock and whatever else is held.
    Release,
}

/// A stage of a running effect that people want to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectStage {
    /// The subject runs again and is being probed.
    HealthCheck,
    /// The subject looks well and is being proven.
    VerifyingFix,
}

/// How much was changed; what is not known is not zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Change {
    /// Files touched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<u32>,
    /// Lines added and removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<u32>,
}

impl Change {
    /// Tells whether nothing is known.
    pub fn is_unknown(&self) -> bool {
        self.files.is_none() && self.lines.is_none()
    }
}

/// What verification found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// The subject is well, and it was the remedy.
    Proven,
    /// The subject is well, and would be without the remedy.
    Transient,
    /// The subject is well and unwell by turns.
    Flaky,
    /// The subject only looks well because what judges it was weakened.
    Masked,
    /// The subject is unwell.
    Failed,
}

/// What an effect reports when it comes back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum EffectReport {
    /// It did what it should.
    Done,
    /// It could not.
    Failed {
        /// Why.
        reason: Scrubbed,
        /// How the command ended, if one ran.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit: Option<ProcessExit>,
    },
    /// It outlived its limit and was stopped; it may have acted.
    TimedOut,
    /// No agent took part in time.
    NoAgent,
    /// The change was measured.
    Measured(Change),
    /// Somebody edited the same lines meanwhile; nothing was taken over.
    Conflict {
        /// The files.
        paths: Vec<Scrubbed>,
    },
    /// The subject was judged.
    Verified {
        /// What was found.
        proof: Proof,
        /// What was seen, if the subject is unwell.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        symptom: Option<Box<Symptom>>,
    },
}

impl EffectReport {
    /// Returns that it could not, and why.
    pub fn failed(reason: Scrubbed) -> Self {
        EffectReport::Failed { reason, exit: None }
    }
}

/// How far an agent says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentMark {
    /// It fetched its task.
    Started,
    /// It reads the crash log.
    ReadingLog,
    /// It edits files.
    ApplyingFix,
    /// It has finished.
    WroteFiles,
}

/// A person's order to an incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PersonOrder {
    /// Start nothing new until told to resume.
    Pause,
    /// Go on after a pause.
    Resume,
    /// Leave out the remedy in question.
    Skip,
    /// Try again, within the budget.
    Retry,
    /// Stop, undo what is unproven, and close.
    Abort,
    /// Stop trying and ask a person.
    Escalate,
}

/// What a person wants of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerOrder {
    /// Start it, if it is not running.
    Start,
    /// Stop it and leave it so.
    Stop,
    /// Stop it, if it is running, and start it.
    Restart,
}

/// A breaker that stops healing from outside the incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Breaker {
    /// The same failure came up in several incidents.
    SameError,
    /// One file was changed again and again.
    FileChurn,
    /// Healing made new failures; all of it is undone.
    NewErrors,
    /// Processes were left behind.
    Orphans,
    /// One subject failed in many different ways within a short time.
    ManyFailures,
}

/// What a person is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PersonQuestion {
    /// May this remedy run?
    Remedy,
    /// May a change larger than the limits, or of unknown size, stay?
    ChangeTooLarge,
    /// May the agent's change be brought in again, after the same lines were edited meanwhile?
    Conflict,
    /// The budget is used up: refill, or take over?
    Exhausted(Resource),
    /// Nothing is left to try.
    NothingLeft,
    /// The same failure keeps coming back.
    NoProgress,
    /// A change could not be undone.
    RollBackFailed,
    /// The workspace could not be kept safe before a change.
    SnapshotFailed,
    /// It looks well only because what judges it was weakened.
    Masked,
    /// A repair passed and failed by turns, and was undone.
    Flaky,
    /// Something may or may not have acted; repeating it could do harm.
    MayHaveActed,
    /// A breaker stopped healing.
    Tripped(Breaker),
    /// A person wanted to be asked.
    Ordered,
}

impl PersonQuestion {
    /// Tells whether a yes has something done that is ready, rather than another try.
    pub fn is_decision(self) -> bool {
        match self {
            Self::Remedy | Self::ChangeTooLarge | Self::Conflict | Self::MayHaveActed => true,
            Self::Exhausted(_)
            | Self::NothingLeft
            | Self::NoProgress
            | Self::RollBackFailed
            | Self::SnapshotFailed
            | Self::Masked
            | Self::Flaky
            | Self::Tripped(_)
            | Self::Ordered => false,
        }
    }
}

/// How an incident ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IncidentOutcome {
    /// The subject is well, with this proof.
    Recovered(Proof),
    /// A person settled it.
    Resolved,
    /// A person declined what was left.
    GivenUp,
    /// Nothing further was known to try, and nobody was to be asked.
    Unhealed,
    /// It was called off.
    Aborted,
}
