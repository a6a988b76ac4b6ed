//! What memory learns from an incident: what healed it, and what did not help.

use salve_core::event::{Proof, RemedyKind, RemedyOrigin, Scope};
use salve_core::incident::{Incident, TrialReach};
use salve_core::memory::fleet::FixTold;
use salve_core::memory::{RememberedFailure, RememberedKind, RememberedRemedy};
use salve_core::playbook::Action;
use salve_core::scrub::Scrubbed;

use super::case::Case;
use crate::heal::cause::Evidence;
use crate::heal::files::with_causes;
use crate::heal::remedies::RemedyWay;
use crate::heal::run_base::RunBase;
use crate::heal::{Lesson, patches};
use crate::learned::Learned;
use crate::store::StoreError;

/// Tells memory how the incident came out.
pub(super) fn record(base: &mut RunBase<'_>, case: &Case) -> Result<(), StoreError> {
    let credited = case.incident().and_then(Incident::credit);
    let Some((_, signature)) = credited else { return Ok(()) };
    let mut seen = [&case.work.tried, &case.work.first].into_iter().flatten();
    match seen.find(|seen| seen.symptom.signature == signature) {
        Some(seen) => learn(base, case, seen, Proof::Proven),
        None => Ok(()),
    }
}

/// Tells memory that the present remedy did not help.
pub(super) fn did_not_help(base: &mut RunBase<'_>, case: &Case) -> Result<(), StoreError> {
    let was_cut_off = case.trial().is_some_and(|trial| trial.reach == TrialReach::Unsure);
    match &case.work.tried {
        Some(tried) if !was_cut_off => learn(base, case, tried, Proof::Failed),
        Some(_) | None => Ok(()),
    }
}

/// Tells memory how the present remedy did against what it was tried against.
fn learn(
    base: &mut RunBase<'_>,
    case: &Case,
    seen: &Evidence,
    proof: Proof,
) -> Result<(), StoreError> {
    let (Some(incident), Some((kind, text))) = (case.incident(), remembered(base, case)) else {
        return Ok(());
    };
    let Some(digest) = incident.trial().map(|trial| trial.remedy.digest) else { return Ok(()) };
    let lesson = Lesson { fingerprint: &seen.fingerprint, kind, text, digest, proof };
    let origin = incident.trial().map(|trial| trial.remedy.origin);
    // Across projects only what healed is worth knowing; what failed may be this one's doing. What
    // the playbook prescribed it prescribes there too, where a look at that project allows it.
    let is_for_all = proof == Proof::Proven && origin != Some(RemedyOrigin::Playbook);
    let user = is_for_all.then(|| base.remedies.user_to_tell(kind)).flatten();
    // All worktrees of a repository know what one of them learnt.
    let others: Vec<_> = [user, base.remedies.main_to_tell()].into_iter().flatten().collect();
    base.writer.learn(incident.id(), &lesson, base.project.home(), &others)?;
    if origin != Some(RemedyOrigin::Playbook) {
        let told = FixTold::Tried {
            failure: RememberedFailure::new(&seen.fingerprint, &base.writer.scrubber),
            remedy: RememberedRemedy { kind, text: lesson.text },
            at: base.writer.now(),
            incident: incident.id(),
            proof,
        };
        tell_fleet(base, told);
    }
    write_files(base, case.name());
    Ok(())
}

/// Tells the machines of the fleet how a remedy came out, where the user wants that.
fn tell_fleet(base: &RunBase<'_>, told: FixTold) {
    let Some(fleet) = &base.remedies.fleet else { return };
    let name = base.project.home().file_name().unwrap_or_default().to_string_lossy();
    // Nobody here needs what the fleet knows of it.
    if fleet.tell(base.writer.scrubber.scrub(&name), told).is_ok() {
        fleet.sync_before_parting();
    }
}

/// Returns the present remedy as memory keeps it, if it is one for another day too.
fn remembered(base: &RunBase<'_>, case: &Case) -> Option<(RememberedKind, Scrubbed)> {
    let remedy = &case.trial()?.remedy;
    let what = case.cure().map(|cure| cure.what.clone());
    if let Some(RemedyWay::Known { dir: Some(dir), .. }) = &what
        && dir.path() != base.project.root()
    {
        // Memory knows no directory, so elsewhere it would be another command.
        return None;
    }
    match (remedy.kind, what) {
        (RemedyKind::Command, Some(what)) if what.is_lasting() => {
            Some((RememberedKind::Command, remedy.text.clone()))
        }
        (RemedyKind::Patch, Some(RemedyWay::Patch(patch))) => {
            let text = String::from_utf8_lossy(&patch).into_owned();
            Some((RememberedKind::Patch, base.writer.scrubber.scrub(&text)))
        }
        // An earlier run of Salve knew what it does; its text tells enough.
        (RemedyKind::Command, None)
            if remedy.origin == RemedyOrigin::Playbook
                && Action::is_lasting_text(remedy.text.as_str()) =>
        {
            Some((RememberedKind::Command, remedy.text.clone()))
        }
        (RemedyKind::Agent, _) | (RemedyKind::Patch, None) => {
            let before = case.snapshot(Scope::Attempt)?;
            let patch = patches::of_attempt(&base.project, before, &base.writer.scrubber);
            patch.ok().flatten().map(|patch| (RememberedKind::Patch, patch))
        }
        (
            RemedyKind::Command
            | RemedyKind::Patch
            | RemedyKind::Retry
            | RemedyKind::SoftReset
            | RemedyKind::HardReset,
            _,
        ) => None,
    }
}

/// Writes what memory has to the files that people read and share, and takes in their edits.
fn write_files(base: &mut RunBase<'_>, subject: &str) {
    let learned = Learned::new(base.writer.store, &base.writer.scrubber, base.rules);
    match learned.sync() {
        Ok(report) => tell(base, subject, &report),
        // Memory has it all the same; whoever writes the files next writes this too.
        Err(error) => {
            base.note(
                subject,
                &format!("memory's files could not be written: {}", with_causes(&error)),
            );
        }
    }
}

/// Takes in what people changed in memory's files since they were last read.
///
/// What cannot be read is said, and what was known holds.
pub(super) fn read_files(base: &mut RunBase<'_>, subject: &str) {
    if !base.remedies.have_files_changed(&base.project.learned()) {
        return;
    }
    let learned = Learned::new(base.writer.store, &base.writer.scrubber, base.rules);
    match learned.pull() {
        Ok(report) => tell(base, subject, &report),
        Err(error) => {
            base.note(
                subject,
                &format!("memory's files could not be read: {}", with_causes(&error)),
            );
        }
    }
}

fn tell(base: &mut RunBase<'_>, subject: &str, report: &crate::learned::SyncReport) {
    for malformed in &report.malformed {
        base.note(subject, &format!("{malformed}; what was known before holds"));
    }
    for aside in &report.kept_aside {
        base.note(
            subject,
            &format!("the comments of the old file are kept in {}", aside.display()),
        );
    }
}
