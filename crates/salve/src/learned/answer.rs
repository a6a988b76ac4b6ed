//! What the project's memory and the user's own say about one failure.

use jiff::Timestamp;
use salve_core::class::Class;
use salve_core::fingerprint::Fingerprint;
use salve_core::id::Signature;
use salve_core::memory::{Choice, Knowledge, Ranked, RecordStanding, rank};
use salve_core::near::{Match, NearAgreement, Side, agree};
use serde::Serialize;

use super::{Learned, ToolFixItem};
use crate::store::StoreError;

/// What memory is asked about.
#[derive(Clone, Copy, Debug)]
pub struct MemoryQuestion<'q> {
    /// The failure.
    pub print: &'q Fingerprint,
    /// Its text, without secrets.
    pub text: &'q str,
    /// The tool that failed, if one did.
    pub tool: Option<&'q str>,
    /// How many near matches to tell of, when the failure itself is not known.
    pub near: usize,
    /// The time that counts as now.
    pub now: Timestamp,
}

/// What memory says about one failure.
#[derive(Debug, Serialize)]
pub struct MemoryAnswer {
    /// The version of its shape.
    pub version: u32,
    /// The failure's signature.
    pub signature: Signature,
    /// The kind of failure.
    pub class: Class,
    /// The error's own name.
    pub error_type: String,
    /// The line that names it.
    pub key_line: String,
    /// The line without what varies.
    pub normalized: String,
    /// Whether this very failure was seen before.
    pub known: bool,
    /// Whether anything was tried on it.
    pub tried_before: bool,
    /// How often it was seen.
    pub seen: u64,
    /// When it was last seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<Timestamp>,
    /// The remedy to try first, as the specs write it.
    pub successful_fix: Option<String>,
    /// What was tried, as the specs' memory store answers.
    pub results: Vec<TriedRemedyLine>,
    /// What to try, the best first.
    pub remedies: Vec<Ranked>,
    /// What failed before.
    pub failed_approaches: Vec<Ranked>,
    /// What fixes the tool's error.
    pub tool_fixes: Vec<ToolFixItem>,
    /// Failures that resemble it, where it is not known itself.
    pub near: Vec<NearMatch>,
}

/// One remedy that was tried, as the specs' memory store tells it.
#[derive(Debug, Serialize)]
pub struct TriedRemedyLine {
    /// What was tried.
    pub description: String,
    /// What came of it.
    pub result: &'static str,
}

/// A known failure that resembles the one asked about.
#[derive(Debug, Serialize)]
pub struct NearMatch {
    /// The failure's signature.
    pub signature: Signature,
    /// How alike they are, from 0 to 1.
    pub likeness: f32,
    /// The kind of failure.
    pub class: Class,
    /// The line without what varies.
    pub normalized: String,
    /// Whether class and identity agree, so that its remedies may be tried.
    pub agrees: bool,
    /// Why its remedies do not apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
    /// What to try, the best first.
    pub remedies: Vec<Ranked>,
}

impl MemoryAnswer {
    /// Asks the project's memory and the user's own, as far as there are such.
    pub fn of(
        question: &MemoryQuestion<'_>,
        project: Option<&Learned<'_>>,
        user: Option<&Learned<'_>>,
    ) -> Result<Self, StoreError> {
        let MemoryQuestion { print, text, tool, near: most_near, now } = *question;
        let recall = |learned: Option<&Learned<'_>>| match learned {
            Some(learned) => learned.store().memory().recall(print.signature),
            None => Ok(None),
        };
        let (here, elsewhere) = (recall(project)?, recall(user)?);
        let memories = || project.into_iter().chain(user);
        let mut tool_fixes = Vec::new();
        for learned in memories() {
            tool_fixes.extend(learned.known_issues(tool, text)?.fixes);
        }
        let mut near = Vec::new();
        if here.is_none() && elsewhere.is_none() && most_near > 0 {
            for learned in memories() {
                near.extend(near_matches(learned, question)?);
            }
            near.sort_by(|a: &NearMatch, b| b.likeness.total_cmp(&a.likeness));
            near.truncate(most_near);
        }
        let choice = rank(here.as_ref(), elsewhere.as_ref(), now);
        let known: Vec<&Knowledge> = here.iter().chain(&elsewhere).collect();
        Ok(Self {
            version: 1,
            signature: print.signature,
            class: print.class,
            error_type: print.error_type.clone(),
            key_line: print.key_line.clone(),
            normalized: print.normalized.clone(),
            known: !known.is_empty(),
            tried_before: choice.tried_before(),
            seen: known.iter().map(|known| known.seen).sum(),
            last_seen: known.iter().map(|known| known.last_seen).max(),
            successful_fix: choice
                .remedies
                .iter()
                .find(|ranked| ranked.standing == RecordStanding::Works)
                .map(|ranked| ranked.remedy.description()),
            results: tried_lines(&choice),
            remedies: choice.remedies,
            failed_approaches: choice.failed,
            tool_fixes,
            near,
        })
    }
}

fn tried_lines(choice: &Choice) -> Vec<TriedRemedyLine> {
    let all = choice.remedies.iter().chain(&choice.failed);
    let lines = all.filter_map(|ranked| {
        let result = match ranked.standing {
            RecordStanding::Untried => return None,
            RecordStanding::Works => "success",
            RecordStanding::Undecided => "inconclusive",
            RecordStanding::Failed => "failed",
        };
        Some(TriedRemedyLine { description: ranked.remedy.description(), result })
    });
    lines.collect()
}

fn near_matches(
    learned: &Learned<'_>,
    question: &MemoryQuestion<'_>,
) -> Result<Vec<NearMatch>, StoreError> {
    let print = question.print;
    let asked = Side {
        class: print.class,
        identity: print.identity.as_deref(),
        normalized: &print.normalized,
    };
    let found = learned.store().memory().near()?.find(&print.normalized, question.near)?;
    let one = |(near, known): (Match, Knowledge)| {
        let failure = &known.failure;
        let side = Side {
            class: failure.class,
            identity: failure.identity.as_ref().map(AsRef::as_ref),
            normalized: failure.normalized.as_str(),
        };
        let why_not = match agree(asked, side) {
            NearAgreement::Agrees => None,
            NearAgreement::ClassDiffers => Some(format!("that is {}", failure.class)),
            NearAgreement::ClassUnknown => Some("neither class is known".to_owned()),
            NearAgreement::IdentityDiffers(parts) => {
                Some(format!("not about the same: {}", parts.join(", ")))
            }
        };
        NearMatch {
            signature: near.signature,
            likeness: near.likeness,
            class: failure.class,
            normalized: failure.normalized.to_string(),
            agrees: why_not.is_none(),
            why_not,
            remedies: rank(Some(&known), None, question.now).remedies,
        }
    };
    Ok(found.into_iter().map(one).collect())
}
