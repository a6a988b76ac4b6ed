//! What `--json` prints while something is cared for: a phase, a server that is up, the end.
//!
//! Every line says by `kind` what it is; `data/json-output.schema.json` describes them all.

use std::time::Duration;

use jiff::Timestamp;
use salve_core::class::Class;
use salve_core::event::{Amounts, Proof, SubjectKind};
use salve_core::id::Signature;
use salve_core::incident::RepairPhase;
use salve_core::playbook::PlaybookFinding;
use salve_core::repair::{RepairScene, RepairStanding, RepairState};
use salve_core::view::IncidentView;
use serde::Serialize;

/// One phase of a repair.
#[derive(Serialize)]
pub(super) struct PhaseFact<'a> {
    pub(super) version: u32,
    pub(super) kind: &'static str,
    pub(super) at: Timestamp,
    pub(super) server: &'a str,
    #[serde(rename = "repairId")]
    pub(super) repair_id: String,
    pub(super) phase: RepairPhase,
    pub(super) attempt: u32,
    pub(super) message: &'a str,
    /// What was found out about the cause, where a person has to go on.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(super) findings: &'a [PlaybookFinding],
}

/// A server that answers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UpFact<'a> {
    version: u32,
    kind: &'static str,
    at: Timestamp,
    server: &'a str,
    url: Option<&'a str>,
    after_ms: u64,
    /// The status of its answer, if that was asked for by HTTP.
    status: Option<u16>,
}

impl<'a> UpFact<'a> {
    pub(super) fn new(
        server: &'a str,
        url: Option<&'a str>,
        after: Duration,
        status: Option<u16>,
    ) -> Self {
        let (version, kind, at) = (1, "up", Timestamp::now());
        Self { version, kind, at, server, url, after_ms: whole_ms(after), status }
    }
}

/// What came of one incident.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct IncidentResult {
    repair_id: String,
    subject: SubjectKind,
    name: String,
    state: RepairStanding,
    proof: Option<Proof>,
    class: Class,
    signature: Signature,
    key_line: String,
    attempts: u32,
    duration_ms: u64,
    spent: Amounts,
    /// What models cost, in words; nothing where none was asked.
    cost: Option<String>,
}

impl IncidentResult {
    pub(super) fn of(view: &IncidentView) -> Self {
        let state = RepairState::of(view, &RepairScene::default());
        let spent = view.incident().ledger().spent();
        let took = view.incident().clock().duration_since(view.opened_at());
        Self {
            repair_id: view.id().to_string(),
            subject: view.subject().kind,
            name: state.server,
            state: state.state,
            proof: state.proof,
            class: state.class,
            signature: state.signature,
            key_line: state.key_line,
            attempts: state.attempt,
            duration_ms: u64::try_from(took.as_millis()).unwrap_or_default(),
            spent,
            cost: spent.cost_in_words(),
        }
    }
}

/// What came of one check.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GreenCheck {
    pub(super) name: String,
    pub(super) duration_ms: u64,
}

/// The end of a run, its last line.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunResult {
    pub(super) version: u32,
    pub(super) kind: &'static str,
    pub(super) at: Timestamp,
    pub(super) exit_code: u8,
    pub(super) duration_ms: u64,
    /// What was found green, in its order.
    pub(super) green: Vec<GreenCheck>,
    pub(super) incidents: Vec<IncidentResult>,
    /// What all of them spent.
    pub(super) spent: Amounts,
    pub(super) cost: Option<String>,
}

impl RunResult {
    /// Returns the end of a run that healed nothing.
    pub(super) fn bare(exit_code: u8, took: Duration, green: Vec<GreenCheck>) -> Self {
        Self {
            version: 1,
            kind: "result",
            at: Timestamp::now(),
            exit_code,
            duration_ms: whole_ms(took),
            green,
            incidents: Vec::new(),
            spent: Amounts::default(),
            cost: None,
        }
    }

    pub(super) fn sum(incidents: &[IncidentResult]) -> Amounts {
        incidents.iter().fold(Amounts::default(), |sum, one| sum.plus(one.spent))
    }
}

/// Returns a time in whole milliseconds.
pub(super) fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
