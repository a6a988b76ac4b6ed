//! Loops, by their ids: where their files are, and which incident is open.

use std::path::{Component, Path, PathBuf};

use salve_core::event::{Repeat, Subject, SubjectKind};
use salve_core::incident::Incident;
use salve_core::scrub::Scrubber;

use super::unfinished;
use crate::project::Project;
use crate::store::{Store, StoreError};

/// The longest id.
const LONGEST: usize = 64;

/// Returns a loop as a subject of incidents.
pub fn subject(loop_id: &str, scrubber: &Scrubber) -> Subject {
    Subject { kind: SubjectKind::Iteration, name: scrubber.scrub(loop_id), repeat: Repeat::Safe }
}

/// Returns the loop's incident that is not over, if there is one.
pub fn open(
    store: &Store,
    loop_id: &str,
    scrubber: &Scrubber,
) -> Result<Option<Incident>, StoreError> {
    Ok(unfinished(store, &subject(loop_id, scrubber))?.pop())
}

/// Tells whether a text is the id of a loop: small letters, digits and `-`, safe as a file's name.
pub fn is_id(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.len() <= LONGEST && !text.starts_with('-') && text.chars().all(fits)
}

/// Returns the id that fits a name best.
pub fn id_of(name: &str) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    let parts = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    let mut id = parts.collect::<Vec<_>>().join("-");
    id.truncate(LONGEST);
    Some(id.trim_end_matches('-').to_owned()).filter(|id| is_id(id))
}

/// Returns where a loop's files are.
pub fn dir(project: &Project, loop_id: &str) -> PathBuf {
    project.state_dir().join("loops").join(loop_id)
}

/// Returns the id of the loop whose files are in `dir`: its own name where it says nothing better.
pub fn id_of_dir(dir: &Path) -> Option<String> {
    let named = dir.components().rev().find_map(|part| match part {
        Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => {
            None
        }
    });
    id_of(&named?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_safe_as_a_files_name() {
        for id in ["pinpoint-v1", "a", "0"] {
            assert!(is_id(id), "{id}");
        }
        for text in ["", "-a", "A", "a/b", "..", "a b", "é", &"a".repeat(65)] {
            assert!(!is_id(text), "{text}");
        }
        assert_eq!(id_of("Pin Point_v1/"), Some("pin-point-v1".into()));
        assert_eq!(id_of("///"), None);
        assert_eq!(id_of_dir(Path::new("/srv/Shop Loop/.")), Some("shop-loop".into()));
    }
}
