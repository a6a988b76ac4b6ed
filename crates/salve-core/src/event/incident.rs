//! What happens in an incident's life.

use serde::{Deserialize, Serialize};

use super::{
    AgentMark, Amounts, Breaker, Change, ChangedFile, Digest, Effect, EffectReport, EffectStage,
    IncidentOutcome, IncidentPolicy, Judgement, PersonOrder, Process, Remedy, Resource,
    RunVariable, Subject, Symptom,
};
use crate::playbook::Nature;
use crate::playbook::PlaybookFinding;
use crate::scrub::Scrubbed;

/// One step in an incident's life; see [`crate::incident`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "snake_case", deny_unknown_fields)]
pub enum IncidentEvent {
    /// An incident began with its first symptom, under these terms.
    Opened {
        /// What is under care.
        subject: Subject,
        /// The terms that hold for the whole incident.
        policy: Box<IncidentPolicy>,
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
        findings: Vec<PlaybookFinding>,
    },
    /// A remedy was chosen and the gate judged it.
    Judged {
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
    Progressed { effect: u32, stage: EffectStage },
    /// An effect came back.
    Finished { effect: u32, report: EffectReport },
    /// An agent told how far its repair is.
    Marked {
        /// The attempt it speaks of, from 1.
        attempt: u32,
        /// How far it is.
        mark: AgentMark,
        /// What it says it changed.
        #[serde(default, skip_serializing_if = "Change::is_unknown")]
        reported: Change,
        /// What it says about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<Scrubbed>,
    },
    /// Salve started an agent for a remedy that it is to apply; its own limit holds from here on.
    AgentLaunched {
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
    /// A private layer is laid for the agent or the patch of an effect; written before it works.
    LayerLaid { effect: u32 },
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
    /// A remedy set variables for the rest of the run; nothing was written anywhere.
    EnvironmentSet {
        /// The effect that sets them.
        effect: u32,
        variables: Vec<RunVariable>,
    },
    /// What an effect has cost so far; the larger of two such statements counts.
    Charged {
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
    Tripped { breaker: Breaker },
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
    /// What a person was asked about is no longer what is proposed; it is chosen again.
    Superseded {},
    /// The subject of an incident that waits for a person was run again, which is no attempt of
    /// Salve's: somebody wanted it, or what stood in its way has changed.
    TriedAgain { why: Scrubbed },
    /// The subject of an incident that waited for a person is well, without a remedy of Salve's.
    CameBack {
        /// What had changed.
        why: Scrubbed,
    },
    /// A person gave an order to the incident.
    Ordered { order: PersonOrder },
    /// It was said why a verification came out as it did.
    ProofExplained {
        why: Scrubbed,
        /// Whether the change was found needless and is undone.
        #[serde(default)]
        taken_back: bool,
    },
    /// The check of an incident that a person settled was seen to be green.
    SeenGreen {},
    /// After everything was undone, the counters went back to the last valid ones.
    CountersRestored {
        /// Which ones hold now.
        restored: Scrubbed,
    },
    /// The incident has its outcome; recording and letting go follow.
    Ended {
        /// How it ended.
        outcome: IncidentOutcome,
    },
}
