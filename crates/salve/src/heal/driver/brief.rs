//! What an agent is told about an incident: the failure, what it names, and what is known.

use salve_core::check::CheckBrief;
use salve_core::event::{Event, IncidentEvent, Scope};
use salve_core::incident::{Incident, Phase};
use salve_core::memory::RememberedKind;
use salve_core::repair::{earlier, evidence_path, who};
use salve_core::scrub::{Scrubbed, Scrubber};
use salve_core::view::IncidentView;

use super::case::Case;
use super::context::ContextReader;
use crate::heal::run_base::RunBase;
use crate::heal::subject::Subjects;
use crate::store::{StoreError, Stream};
use crate::workspace::Workspace;

/// How many incidents back one looks.
const REMEMBERED: usize = 50;
/// How many of the last lines of output an agent is told.
const EXCERPT: usize = 80;

/// Collects what an agent is told; how much of it is told depends on the tier.
pub(super) fn of(
    base: &RunBase<'_>,
    case: &Case,
    subjects: &dyn Subjects,
    at: usize,
) -> Result<Option<CheckBrief>, StoreError> {
    let (Some(incident), Some(seen)) = (case.incident(), case.seen()) else { return Ok(None) };
    let entries = base.writer.entries(incident.id())?;
    let Ok(view) = IncidentView::of(entries) else { return Ok(None) };
    let known = base.remedies.recall(base.writer.store, seen.symptom.signature)?;
    let taught = known.remedies.iter().filter(|one| one.remedy.kind == RememberedKind::Instruction);
    let (tier, policy) = (incident.tier(), incident.policy());
    let terms = base.terms.tiers.terms(tier);
    let results = subjects.results(at, seen.output.as_str(), base);
    let dir = subjects.place(at, base).dir;
    let reader =
        ContextReader { root: base.project.root(), dir: &dir, scrubber: &base.writer.scrubber };
    Ok(Some(CheckBrief {
        incident: incident.id(),
        subject: incident.subject().name.clone(),
        command: subjects.command(at),
        evidence: evidence_path(incident.subject().kind, incident.id()),
        key_line: seen.symptom.key_line.clone(),
        attempt: view.attempt(),
        max_attempts: view.max_attempts(),
        limits: (policy.max_files, policy.max_lines),
        tier,
        strategy: terms.strategy.clone(),
        specialty: None,
        instruction: None,
        taught: taught.map(|one| one.remedy.text.clone()).collect(),
        reports: reports(base, case)?,
        findings: incident.findings().to_vec(),
        failed: reader.failed(&results),
        excerpt: excerpt(&seen.output, &base.writer.scrubber),
        places: reader.places(&results),
        related: reader.related(&results),
        diff: recent(base, case),
        in_vain: known.failed.iter().map(|one| one.remedy.text.clone()).collect(),
        earlier: earlier(&view).collect(),
        history: history(base, incident)?,
        notes: reader.notes(),
        room: usize::try_from(terms.context_kb).unwrap_or(usize::MAX).saturating_mul(1 << 10),
    }))
}

/// Returns what was reported about a subject.
fn reports(base: &RunBase<'_>, case: &Case) -> Result<Vec<Scrubbed>, StoreError> {
    let team = crate::team::read(base.writer.store)?;
    let told = team.of_check(case.name()).map(|issue| {
        let files: Vec<_> = issue.files.iter().map(Scrubbed::as_str).collect();
        let about = match files.as_slice() {
            [] => String::new(),
            files => format!(" (about {})", files.join(", ")),
        };
        let text = format!("{}: {}{about}", who(&issue.by), issue.text);
        base.writer.scrubber.scrub(&text)
    });
    Ok(told.collect())
}

/// Returns what changed since the last commit, before any repair.
fn recent(base: &RunBase<'_>, case: &Case) -> Option<Scrubbed> {
    let workspace = Workspace::open(&base.project).ok()?;
    let before = workspace.load(case.snapshot(Scope::Attempt)?).ok()??;
    let diff = workspace.since_commit(&before).ok()??;
    Some(base.writer.scrubber.scrub(&diff)).filter(|diff| !diff.as_str().is_empty())
}

/// Returns how the last incidents of the same subject came out.
fn history(base: &RunBase<'_>, present: &Incident) -> Result<Vec<Scrubbed>, StoreError> {
    let journal = base.writer.store.journal();
    let openings = journal.tail(&Stream::Incidents, REMEMBERED)?;
    let own = openings.iter().filter(|entry| {
        matches!(&entry.event, Event::Incident(IncidentEvent::Opened { subject, .. })
            if subject == present.subject())
    });
    let mut lines = Vec::new();
    for id in own.filter_map(|entry| entry.incident) {
        let Ok(incident) = Incident::replay(&base.writer.entries(id)?) else { continue };
        if let Phase::Closed(outcome) = incident.phase() {
            let (short, how) = (id.short(), salve_core::repair::ended(outcome));
            let text = format!("heal-{short}: {} ({how})", incident.symptom().key_line);
            lines.push(base.writer.scrubber.scrub(&text));
        }
    }
    Ok(lines)
}

/// Returns the last lines of a subject's output.
fn excerpt(output: &Scrubbed, scrubber: &Scrubber) -> Scrubbed {
    let lines: Vec<&str> = output.as_str().trim_end().lines().collect();
    scrubber.scrub(&lines[lines.len().saturating_sub(EXCERPT)..].join("\n"))
}
