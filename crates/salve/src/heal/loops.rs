//! Loops, by their ids.

use std::path::{Component, Path};

use salve_core::event::{LoopId, Repeat, Subject, SubjectKind};
use salve_core::scrub::Scrubber;

/// Returns a loop as a subject of incidents.
pub fn subject(loop_id: &str, scrubber: &Scrubber) -> Subject {
    Subject { kind: SubjectKind::Iteration, name: scrubber.scrub(loop_id), repeat: Repeat::Safe }
}

/// Returns the id of the loop whose files are in `dir`: made of the directory's name.
pub fn id_of_dir(dir: &Path) -> LoopId {
    let named = dir.components().rev().find_map(|part| match part {
        Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => {
            None
        }
    });
    LoopId::made_of(&named.unwrap_or_default())
}
