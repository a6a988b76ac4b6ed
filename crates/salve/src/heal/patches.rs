//! Repairs that are kept as patches, so that the same failure is healed elsewhere without a model.

use salve_core::event::{
    Digest, EffectReport, Judgement, Remedy, RemedyKind, RemedyOrigin, RemedyVerdict, Repeat, Undo,
};
use salve_core::incident::Candidate;
use salve_core::memory::{Ranked, RemedyWord, RememberedKind, TriedRemedy};
use salve_core::scrub::{Scrubbed, Scrubber};
use salve_core::sealed_path::SealedPath;

use super::files::failed;
use super::remedies::{Offer, RemedyWay, SURE};
use crate::process::is_tracked;
use crate::project::Project;
use crate::workspace::{
    FileChange, FileFate, LayerMeans, Moment, Name, PrivateLayer, Workspace, WorkspaceError,
};

/// The longest patch that is remembered.
const LONGEST: usize = 64 << 10;

/// Returns the known patches that fit the project's files as they are.
pub fn offers(project: &Project, known: &[Ranked], scrubber: &Scrubber) -> Vec<Offer> {
    let mut patches =
        known.iter().filter(|known| known.remedy.kind == RememberedKind::Patch).peekable();
    if patches.peek().is_none() {
        return Vec::new();
    }
    let Ok(workspace) = Workspace::open(project) else { return Vec::new() };
    let file = project.learned().join(TriedRemedy::BY_FILE);
    let brought = if is_tracked(&file) { Brought::ByRepository } else { Brought::Here };
    let ground = PatchGround { brought, layers: LayerMeans::over(project.root()) };
    let fitting = patches.filter_map(|known| {
        let patch = known.remedy.text.as_str().as_bytes();
        let files = workspace.patches().fits(patch).ok()?;
        Some(offer(known, &files, &ground, scrubber))
    });
    fitting.collect()
}

/// Where a patch would be tried.
#[derive(Clone, Debug)]
struct PatchGround {
    brought: Brought,
    /// By what it can be tried apart from the user's files.
    layers: LayerMeans,
}

fn offer(known: &Ranked, files: &[FileChange], ground: &PatchGround, scrubber: &Scrubber) -> Offer {
    let patch = known.remedy.text.as_str().as_bytes().to_vec();
    let remedy = Remedy {
        kind: RemedyKind::Patch,
        origin: known.origin,
        text: scrubber.scrub(&format!("{}{}", name("known patch", files), origin_words(known))),
        digest: Digest::of(&[b"patch", &patch]),
        undo: Undo::Snapshot,
        repeat: Repeat::Unsafe,
    };
    let judgement = judgement(known, files, ground);
    let confidence = (known.confidence.share() * 1_000.0).round() as u16;
    let what = RemedyWay::Patch(patch);
    Offer { candidate: Candidate { remedy, confidence }, judgement, what }
}

/// Says where a patch was learnt that this project has never seen heal.
fn origin_words(known: &Ranked) -> String {
    match (known.origin, &known.healed_in) {
        (RemedyOrigin::User, Some(project)) => format!(" from the project {project}"),
        (RemedyOrigin::User, None) => " from your own memory".to_owned(),
        (RemedyOrigin::Fleet, Some(project)) => {
            format!(" from the fleet, where it healed the project {project}")
        }
        (RemedyOrigin::Fleet, None) => " from the fleet".to_owned(),
        (
            RemedyOrigin::Project
            | RemedyOrigin::Playbook
            | RemedyOrigin::Proposal
            | RemedyOrigin::Builtin
            | RemedyOrigin::Person,
            _,
        ) => String::new(),
    }
}

/// Who brought the file of memory that a person may edit and share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Brought {
    /// It came with the repository, whoever wrote it there.
    ByRepository,
    /// Somebody put it there.
    Here,
}

/// Judges a known patch that fits.
///
/// What came with a repository is as trustworthy as whoever wrote that, and what makes new files
/// fits everywhere: what a hostile project had healed by such a patch would be done to every other.
fn judgement(known: &Ranked, files: &[FileChange], ground: &PatchGround) -> Judgement {
    let is_new = files.iter().any(|file| file.fate == FileFate::Created);
    let judged = |verdict, rule, reason| Judgement {
        verdict,
        rule: Scrubbed::literal(rule),
        reason: Scrubbed::literal(reason),
    };
    let (allow, ask) = (RemedyVerdict::Allow, RemedyVerdict::Ask);
    let word = match known.word {
        RemedyWord::File if ground.brought == Brought::ByRepository => RemedyWord::Repository,
        word => word,
    };
    match (word, known.origin) {
        (_, RemedyOrigin::Fleet) if is_new => {
            judged(ask, "memory.new_files", "another machine told it, and it makes new files here")
        }
        (_, RemedyOrigin::Fleet) if ground.layers == LayerMeans::None => {
            let reason =
                "another machine told it, and nothing here can try it apart from your files";
            judged(ask, "memory.fleet", reason)
        }
        (_, RemedyOrigin::Fleet) => {
            let reason = "it healed this failure on another machine, fits, and has to help in a \
                          private layer first";
            judged(allow, "memory.fleet", reason)
        }
        (RemedyWord::Repository, _) => {
            let reason = "it came with the repository, in .salve/learned/healing-patterns.json; \
                          nobody has seen it heal here";
            judged(ask, "memory.file", reason)
        }
        (_, RemedyOrigin::User) if is_new => {
            judged(ask, "memory.new_files", "it is from another project and makes new files here")
        }
        (RemedyWord::Seen, _) => {
            judged(allow, "memory.patch", "it healed this failure before, fits, and can be undone")
        }
        (RemedyWord::File, _) => {
            let reason = ".salve/learned/healing-patterns.json says that it helps, it fits, and can \
                          be undone";
            judged(allow, "memory.patch", reason)
        }
        (RemedyWord::Taught, _) => {
            judged(allow, "memory.patch", "it was taught for this failure, fits, and can be undone")
        }
    }
}

/// Returns exactly the patch that a person approved.
pub fn approved(patch: &[u8], files: &[FileChange], scrubber: &Scrubber) -> Offer {
    let remedy = Remedy {
        kind: RemedyKind::Patch,
        origin: RemedyOrigin::Person,
        text: scrubber.scrub(&name("patch", files)),
        digest: Digest::of(&[b"patch", patch]),
        undo: Undo::Snapshot,
        repeat: Repeat::Unsafe,
    };
    let judgement = Judgement {
        verdict: RemedyVerdict::Allow,
        rule: Scrubbed::literal("debug.apply"),
        reason: Scrubbed::literal("a person approved this very patch"),
    };
    let what = RemedyWay::Patch(patch.to_vec());
    Offer { candidate: Candidate { remedy, confidence: SURE }, judgement, what }
}

/// Returns what a patch is called: by the files it changes.
fn name(what: &str, files: &[FileChange]) -> String {
    match files {
        [] => what.to_owned(),
        [one] => format!("{what} of {}", one.path),
        [one, rest @ ..] => format!("{what} of {} and {} more", one.path, rest.len()),
    }
}

/// Applies a patch in a private layer and returns what came of it.
pub fn apply_in(
    project: &Project,
    layer: &PrivateLayer,
    patch: &[u8],
    scrubber: &Scrubber,
) -> EffectReport {
    let workspace = match Workspace::open(project) {
        Ok(workspace) => workspace,
        Err(error) => return failed(scrubber, &error),
    };
    match workspace.patches().apply_in(layer, patch) {
        Ok(()) => EffectReport::Done,
        Err(error) => failed(scrubber, &error),
    }
}

/// Applies a patch to the tree itself and returns what came of it.
pub fn apply(project: &Project, patch: &[u8], scrubber: &Scrubber) -> EffectReport {
    let workspace = match Workspace::open(project) {
        Ok(workspace) => workspace,
        Err(error) => return failed(scrubber, &error),
    };
    match workspace.patches().apply(patch) {
        Ok(_) => EffectReport::Done,
        Err(error) => failed(scrubber, &error),
    }
}

/// Returns what an attempt changed as a patch, if it can be remembered: it is text, not too long,
/// and without a secret.
pub fn of_attempt(
    project: &Project,
    before: Name,
    scrubber: &Scrubber,
) -> Result<Option<Scrubbed>, WorkspaceError> {
    let workspace = Workspace::open(project)?;
    let new = match workspace.load(before.at(Moment::After))? {
        Some(after) => Some(after),
        // What did not help in a private layer was never anywhere else.
        None => workspace.load(before.at(Moment::InLayer))?,
    };
    let (Some(old), Some(new)) = (workspace.load(before)?, new) else { return Ok(None) };
    let patch = workspace.patches().between(&old, &new)?;
    let Ok(text) = String::from_utf8(patch) else { return Ok(None) };
    let scrubbed = scrubber.scrub(&text);
    // With a secret taken out it would not be the same patch any more.
    let is_whole = scrubbed == *text.as_str();
    // What decides about what runs unattended never travels to another project.
    let is_open = SealedPath::in_patch(&text).is_empty();
    Ok(Some(scrubbed).filter(|_| is_whole && is_open && !text.is_empty() && text.len() <= LONGEST))
}
