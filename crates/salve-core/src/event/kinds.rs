//! Every kind of thing that may happen.

use serde::{Deserialize, Serialize};

use super::{
    Amounts, Breaker, Change, ChangedFile, Digest, Effect, Exit, Fix, Foreign, Judgement, LoopId,
    Mark, Notified, Order, Outcome, Policy, Process, Proof, Proposed, Remedy, Report, Resource,
    RuleKey, SeenFile, ServerOrder, Settled, Stage, Subject, Symptom, Turn,
};
use crate::id::{IssueId, Signature};
use crate::playbook::{Finding, Nature};
use crate::scrub::Scrubbed;
use crate::widen::Rules;

/// One thing that happened.
///
/// The variants up to [`Event::Ended`] are an incident's life; see [`crate::incident`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// An incident began with its first symptom, under these terms.
    Opened {
        /// What is under care.
        subject: Subject,
        /// The terms that hold for the whole incident.
        policy: Box<Policy>,
        /// What was seen.
        symptom: Box<Symptom>,
    },
    /// A process took the incident.
    Claimed {
        /// The owner whose place it takes because that very process is gone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instead_of: Option<Process>,
    },
    /// The owner let go of an incident that is not over.
    Released {},
    /// The subject failed (again).
    Sickened {
        /// What was seen.
        symptom: Box<Symptom>,
    },
    /// It was found out what sort of failure it is; this changes nothing by itself.
    Diagnosed {
        /// What sort of trouble it is.
        nature: Nature,
        /// The rule that recognised it.
        rule: Scrubbed,
        /// What was found out, for a person.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        findings: Vec<Finding>,
    },
    /// A remedy was chosen and the gate judged it.
    Judged {
        /// The remedy.
        remedy: Box<Remedy>,
        /// What the gate said.
        judgement: Judgement,
    },
    /// Nothing that fits is left to try.
    NothingLeft {},
    /// An effect is about to run; always written before it does.
    Requested {
        /// The effect's number within the incident, from 1.
        effect: u32,
        /// What is to be done.
        what: Effect,
    },
    /// A running effect reached a stage worth showing.
    Progressed {
        /// The effect.
        effect: u32,
        /// The stage.
        stage: Stage,
    },
    /// An effect came back.
    Finished {
        /// The effect.
        effect: u32,
        /// What it reports.
        report: Report,
    },
    /// An agent told how far its repair is.
    Marked {
        /// The attempt it speaks of, from 1.
        attempt: u32,
        /// How far it is.
        mark: Mark,
        /// What it says it changed.
        #[serde(default, skip_serializing_if = "Change::is_unknown")]
        reported: Change,
        /// What it says about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<Scrubbed>,
    },
    /// Salve started an agent for a remedy that it is to apply; its own limit holds from here on.
    AgentLaunched {
        /// The effect.
        effect: u32,
        /// The agent's process.
        process: Process,
        /// The agent's name.
        agent: Scrubbed,
        /// The model that it was asked to use, if not its own choice.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<Scrubbed>,
        /// How long it may take at most, its ending included.
        limit_ms: u64,
    },
    /// The files that a remedy was found to have changed.
    FilesChanged {
        /// The effect that found them.
        effect: u32,
        /// The files, see [`ChangedFile::some`].
        files: Vec<ChangedFile>,
        /// How many more there are.
        #[serde(default)]
        more: u32,
    },
    /// What an effect has cost so far; the larger of two such statements counts.
    Charged {
        /// The effect.
        effect: u32,
        /// Its whole cost until now.
        spent: Amounts,
    },
    /// A named person granted more.
    Refilled {
        /// What is added to the budget.
        granted: Amounts,
    },
    /// The budget is used up.
    Exhausted {
        /// What ran out.
        resource: Resource,
    },
    /// The cooldown is over.
    CooledDown {},
    /// A breaker outside the incident says: stop trying.
    Tripped {
        /// The breaker.
        breaker: Breaker,
    },
    /// A person said yes to one question, once.
    Approved {
        /// The question's number within the incident, from 1.
        question: u32,
        /// The hash of exactly what was shown: command, directory and time-out.
        digest: Digest,
        /// The person's remark.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<Scrubbed>,
    },
    /// A person said no to one question.
    Rejected {
        /// The question's number within the incident, from 1.
        question: u32,
        /// The hash of what was shown.
        digest: Digest,
        /// The person's remark.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<Scrubbed>,
    },
    /// A person says the matter is settled.
    Resolved {
        /// How.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<Scrubbed>,
    },
    /// What a person was asked about is no longer what is proposed; it is chosen anew.
    Superseded {},
    /// A person gave an order to the incident.
    Ordered {
        /// The order.
        order: Order,
    },
    /// The incident has its outcome; recording and letting go follow.
    Ended {
        /// How it ended.
        outcome: Outcome,
    },
    /// A changed configuration took effect.
    ConfigChanged {
        /// The hash of what holds now.
        digest: Digest,
        /// What changed, one line each.
        changes: Vec<Scrubbed>,
    },
    /// A changed configuration was refused as a whole.
    ConfigRejected {
        /// Why, with file, line and column.
        reason: Scrubbed,
    },
    /// A configuration that widens what runs unattended waits for a person.
    ConfigPending {
        /// The hash of the waiting configuration.
        digest: Digest,
        /// What would change, one line each.
        changes: Vec<Scrubbed>,
        /// The rules that hold once it is accepted.
        rules: Rules,
    },
    /// A person accepted a waiting configuration.
    ConfigAccepted {
        /// The hash of what was accepted.
        digest: Digest,
    },
    /// An agent is about to start; until it has ended, nothing wider than this holds.
    ConfigGuarded {
        /// The rules that hold.
        rules: Rules,
    },
    /// An agent has ended and what it left in the configuration was looked at.
    ConfigReleased {
        /// The entry that guarded it.
        guard: u64,
    },
    /// Memory took in how a remedy did.
    Learned {
        /// The failure.
        signature: Signature,
        /// The remedy.
        remedy: Digest,
        /// What verification found.
        proof: Proof,
    },
    /// Memory dropped what it knew about a failure.
    Forgotten {
        /// The failure.
        signature: Signature,
    },
    /// A damaged store was set aside and what could be read was kept.
    StoreSalvaged {
        /// Entries kept.
        kept: u64,
        /// The file that holds the damaged store now.
        aside: Scrubbed,
    },
    /// A server's process was started.
    ServerStarted {
        /// The server's name.
        server: Scrubbed,
        /// The process.
        process: Process,
        /// What runs, for people.
        command: Scrubbed,
        /// The run of Salve that started it; every process of the run carries it as a mark.
        run: Scrubbed,
    },
    /// A server was found well.
    ServerUp {
        /// The server's name.
        server: Scrubbed,
        /// Where it answers, if that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<Scrubbed>,
    },
    /// A server's process ended, and everything it had started with it.
    ServerStopped {
        /// The server's name.
        server: Scrubbed,
        /// How it ended.
        exit: Exit,
    },
    /// A person wants something of a server.
    ServerOrdered {
        /// The server's name.
        server: Scrubbed,
        /// What is wanted.
        order: ServerOrder,
    },
    /// An agent's session began to listen for repairs.
    AgentAttached {
        /// The process that serves the session.
        process: Process,
    },
    /// An agent's session ended.
    AgentDetached {
        /// The process that served the session.
        process: Process,
    },
    /// Somebody reported an issue.
    IssueReported {
        /// The issue.
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
        /// The issue.
        issue: IssueId,
        /// What settled it.
        how: Settled,
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
    /// Something happened to a loop.
    Loop {
        /// The loop.
        id: LoopId,
        /// The iteration, from 1; 0 before the first.
        iteration: u32,
        /// What happened.
        what: Turn,
    },
    /// Salve began to serve recoveries to a loop that somebody else runs.
    LoopAttached {
        /// The loop.
        id: LoopId,
    },
    /// It stopped doing so, because a person wanted it.
    LoopDetached {
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
    /// A loop's tests could not execute, and that is to be recovered from.
    RecoverySought {
        /// The iteration of the loop, from 1.
        iteration: u32,
        /// The manifests, lockfiles and settings of package managers that changed in this run.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changed: Vec<Scrubbed>,
    },
    /// Somebody proposed how to recover.
    RecoveryProposed {
        /// The proposal.
        proposal: Box<Proposed>,
    },
    /// A proposal for a loop was not taken up.
    RecoveryRefused {
        /// The loop.
        name: Scrubbed,
        /// The iteration of the loop, from 1.
        iteration: u32,
        /// Why.
        reason: Scrubbed,
    },
    /// Somebody outside is to be told of an entry, was told, or could not be.
    Notified(Notified),
    /// A person lets what has proven itself run unattended from now on.
    RuleAccepted(RuleKey),
    /// A person takes that back.
    RuleWithdrawn(RuleKey),
    /// A remark for people.
    Noted {
        /// The remark.
        text: Scrubbed,
    },
    /// Something a newer Salve wrote; kept and passed on as it is.
    #[serde(skip)]
    Other(Foreign),
}
