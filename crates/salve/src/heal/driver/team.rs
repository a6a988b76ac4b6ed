//! What a team has to do with an incident: proposals how to heal it, asked for and offered.

use jiff::{SignedDuration, Timestamp};
use salve_core::event::{Actor, Digest, Event, IncidentEvent, RemedyVerdict, TeamEvent};
use salve_core::id::IncidentId;
use salve_core::incident::Incident;

use super::case::Case;
use crate::heal::agents::others;
use crate::heal::proposals::{self, ProposalJudge};
use crate::heal::remedies::Offer;
use crate::heal::run_base::RunBase;
use crate::store::{StoreError, Stream};

/// How many incidents back one looks.
const REMEMBERED: usize = 50;

/// What those who listen were asked about an incident.
#[derive(Debug, Default)]
pub(super) struct TeamCall {
    /// Since which entry, and until when, proposals are waited for.
    asked: Option<ProposalCall>,
    /// The proposals of which it was said that the gate denies them.
    denied: Vec<Digest>,
}

#[derive(Clone, Copy, Debug)]
struct ProposalCall {
    since: u64,
    until: Timestamp,
}

/// Who of those who were asked has proposed something.
enum Answers {
    /// Everybody.
    All,
    /// Who reported the issue, whose word comes first.
    Reporter,
    /// Some others, or nobody.
    Some,
}

/// Returns what is proposed for the present incident and was not tried without success.
pub(super) fn proposed(base: &mut RunBase<'_>, case: &mut Case) -> Result<Vec<Offer>, StoreError> {
    let Some(seen) = case.seen() else { return Ok(Vec::new()) };
    let team = crate::team::read(base.writer.store)?;
    let proposals = team.ranked(&alike(base, case)?, case.name());
    if proposals.is_empty() {
        return Ok(Vec::new());
    }
    let known = base.remedies.recall(base.writer.store, seen.symptom.signature)?;
    let bench = ProposalJudge {
        project: &base.project,
        mode: base.terms.mode,
        failed: &known.failed,
        scrubber: &base.writer.scrubber,
    };
    let offers = proposals::offers(&proposals, &base.remedies, &bench);
    tell_denied(base, case, &offers);
    Ok(offers)
}

/// Returns until when proposals are waited for before anything dearer is tried.
///
/// Those who listen are asked once an incident, when only an agent's turn is left or nothing.
pub(super) fn await_proposals<'a>(
    base: &mut RunBase<'a>,
    case: &mut Case,
    has_cheap: impl FnOnce(&mut RunBase<'a>, &mut Case) -> Result<bool, StoreError>,
) -> Result<Option<Timestamp>, StoreError> {
    if base.terms.broadcast.is_zero() {
        return Ok(None);
    }
    let now = base.writer.now();
    let Some(ProposalCall { since, until }) = case.work.team.asked else {
        return if has_cheap(base, case)? { Ok(None) } else { ask(base, case, now) };
    };
    if now >= until {
        return Ok(None);
    }
    let is_over = match answers(base, case, since)? {
        Answers::All => true,
        Answers::Reporter => has_cheap(base, case)?,
        Answers::Some => false,
    };
    Ok((!is_over).then_some(until))
}

/// Asks those who listen for proposals, and returns until when they are waited for.
fn ask(
    base: &mut RunBase<'_>,
    case: &mut Case,
    now: Timestamp,
) -> Result<Option<Timestamp>, StoreError> {
    let listening = others(base.writer.store, &base.writer.scrubber)?.len();
    let (Some(id), true) = (case.incident().map(Incident::id), listening > 0) else {
        return Ok(None);
    };
    let limit = SignedDuration::try_from(base.terms.broadcast).unwrap_or(SignedDuration::MAX);
    let until = now.saturating_add(limit).unwrap_or(Timestamp::MAX);
    base.writer.add(id, Event::Team(TeamEvent::FixWanted { issue: None, note: None }))?;
    case.catch_up(base)?;
    let since = case.incident().map_or(0, Incident::last_seq);
    case.work.team.asked = Some(ProposalCall { since, until });
    let seconds = base.terms.broadcast.as_secs_f64();
    base.note(
        case.name(),
        &format!(
            "asked those who listen ({listening}) for proposals; waiting {seconds:.1} s at most"
        ),
    );
    Ok(Some(until))
}

/// Returns who of those who listen has proposed something since an entry.
fn answers(base: &RunBase<'_>, case: &Case, since: u64) -> Result<Answers, StoreError> {
    let store = base.writer.store;
    let team = crate::team::read(store)?;
    let meant = team.ranked(&alike(base, case)?, case.name());
    let has_answered = |who: &Actor| meant.iter().any(|one| one.seq > since && one.by == *who);
    if others(store, &base.writer.scrubber)?.iter().all(has_answered) {
        return Ok(Answers::All);
    }
    let mut reporters = team.of_check(case.name()).map(|issue| &issue.by);
    Ok(if reporters.any(has_answered) { Answers::Reporter } else { Answers::Some })
}

/// Returns the incidents of this subject with the present failure: what was proposed for one of
/// them is for all.
fn alike(base: &RunBase<'_>, case: &Case) -> Result<Vec<IncidentId>, StoreError> {
    let (Some(incident), Some(seen)) = (case.incident(), case.seen()) else {
        return Ok(Vec::new());
    };
    let journal = base.writer.store.journal();
    let openings = journal.tail(&Stream::Incidents, REMEMBERED)?;
    let alike = openings.iter().filter(|entry| {
        matches!(&entry.event, Event::Incident(IncidentEvent::Opened { subject, symptom, .. })
            if subject == incident.subject() && symptom.signature == seen.symptom.signature)
    });
    Ok(alike.filter_map(|entry| entry.incident).chain([incident.id()]).collect())
}

/// Says once of each proposal that must not run why it does not.
fn tell_denied(base: &mut RunBase<'_>, case: &mut Case, offers: &[Offer]) {
    let denied = offers.iter().filter(|offer| offer.judgement.verdict == RemedyVerdict::Deny);
    for Offer { candidate, judgement, .. } in denied {
        let remedy = &candidate.remedy;
        if !case.work.team.denied.contains(&remedy.digest) {
            case.work.team.denied.push(remedy.digest);
            let line = remedy.text.lines().next().unwrap_or_default().head(120);
            let text = format!("proposed and denied: `{line}` ({})", judgement.reason);
            base.note(case.name(), &text);
        }
    }
}
