//! What says what is installed and how, and whether it changed in a run of a loop or a job.
//!
//! The state when the run began stands in the journal, so a restart does not forget what an agent
//! changed before it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use salve_core::event::{Digest, Event, Judgement, LoopEvent, LoopId, RemedyVerdict, SeenFile};
use salve_core::recovery::{install_script_words, is_manifest};
use salve_core::scrub::{Scrubbed, Scrubber};

use super::IncidentWriter;
use crate::files::{FileKind, read_bytes, read_text};
use crate::store::{StoreError, Stream};

/// How deep directories are looked into.
const DEPTH: usize = 5;

/// How many changed files are named to a person.
const SHOWN: usize = 5;

/// How many directories are looked into.
const DIRS: usize = 5_000;

/// Directories of derived or foreign files.
const SKIPPED: [&str; 8] =
    ["node_modules", "target", "venv", "dist", "build", "vendor", "site-packages", "__pycache__"];

/// The hash of each such file of a project.
type Manifests = BTreeMap<Scrubbed, Digest>;

/// Returns the judgement on a command while what says what is installed has changed in a run of
/// `whose`: a person is asked.
pub fn judgement_on(changed: &[Scrubbed], whose: &str, scrubber: &Scrubber) -> Option<Judgement> {
    if changed.is_empty() {
        return None;
    }
    let named: Vec<_> = changed.iter().take(SHOWN).map(Scrubbed::as_str).collect();
    let rest = changed.len().saturating_sub(SHOWN);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    let reason = format!("changed in this run of the {whose}: {}{more}", named.join(", "));
    let (rule, reason) = (Scrubbed::literal("changed_manifest"), scrubber.scrub(&reason));
    Some(Judgement { verdict: RemedyVerdict::Ask, rule, reason })
}

/// Returns which of them changed since the run of a loop or a job began at the journal's entry `since`.
///
/// The first call of a run keeps the state that it finds.
pub fn changed(
    writer: &IncidentWriter<'_>,
    root: &Path,
    name: &Scrubbed,
    since: u64,
) -> Result<Vec<Scrubbed>, StoreError> {
    let now = look(root, &writer.scrubber);
    let id = name.as_str().parse().unwrap_or_else(|_| LoopId::made_of(name.as_str()));
    let stream = Stream::Loop(id);
    let kept = writer.store.journal().read(since, &stream, usize::MAX)?;
    let before = kept.into_iter().find_map(|entry| match entry.event {
        Event::Loop(LoopEvent::ManifestsSeen { name: of, files }) if of == *name => Some(files),
        _ => None,
    });
    match before {
        Some(files) => Ok(differing(&files, now)),
        None => {
            let file = |(path, digest)| SeenFile { path, digest };
            let files = now.into_iter().map(file).collect();
            writer
                .note(vec![Event::Loop(LoopEvent::ManifestsSeen { name: name.clone(), files })])?;
            Ok(Vec::new())
        }
    }
}

fn differing(before: &[SeenFile], mut now: Manifests) -> Vec<Scrubbed> {
    let mut changed: Vec<Scrubbed> = before
        .iter()
        .filter(|file| now.remove(&file.path) != Some(file.digest))
        .map(|file| file.path.clone())
        .collect();
    changed.extend(now.into_keys());
    changed.sort();
    changed
}

fn look(root: &Path, scrubber: &Scrubber) -> Manifests {
    let mut found = Manifests::new();
    let mut open = vec![(String::new(), 0)];
    let mut looked = 0;
    while let Some((dir, depth)) = open.pop() {
        looked += 1;
        // What cannot be read cannot be compared either, then and now.
        for item in fs::read_dir(root.join(&dir)).into_iter().flatten().flatten() {
            let (Ok(name), Ok(kind)) = (item.file_name().into_string(), item.file_type()) else {
                continue;
            };
            let path = if dir.is_empty() { name.clone() } else { format!("{dir}/{name}") };
            let is_ours = name == ".cargo" || !name.starts_with('.');
            if kind.is_dir() {
                let wanted = is_ours && !SKIPPED.contains(&name.as_str());
                if wanted && depth < DEPTH && looked + open.len() < DIRS {
                    open.push((path, depth + 1));
                }
            } else if is_manifest(&path) {
                found.insert(scrubber.scrub(&path), digest(&item.path()));
                if name == "package.json" {
                    found.extend(install_scripts(root, &dir, scrubber));
                }
            }
        }
    }
    found
}

/// Returns the files of the project that a package's scripts run when packages are installed.
fn install_scripts(root: &Path, dir: &str, scrubber: &Scrubber) -> Manifests {
    let package = root.join(dir).join("package.json");
    let text = read_text(&package, FileKind::Bulk).unwrap_or_default();
    let mut found = Manifests::new();
    for word in install_script_words(&text) {
        // Programs take names without their ending, and directories for what is in them.
        let names = [word.clone(), format!("{word}.js"), format!("{word}/index.js")];
        for name in names.iter().filter(|name| !Path::new(name).is_absolute()) {
            let path = root.join(dir).join(name);
            let is_file = fs::symlink_metadata(&path).is_ok_and(|meta| !meta.is_dir());
            if is_file {
                let shown = Path::new(dir).join(name);
                found.insert(scrubber.scrub(&shown.to_string_lossy()), digest(&path));
            }
        }
    }
    found
}

/// Returns the hash of a file, or of what is there in its place.
fn digest(path: &Path) -> Digest {
    match read_bytes(path, FileKind::Bulk) {
        Ok(bytes) => Digest::of(&[b"text", &bytes]),
        Err(_) => {
            let link = fs::read_link(path).unwrap_or_default();
            let size = fs::symlink_metadata(path).map(|meta| meta.len()).unwrap_or_default();
            let link = link.as_os_str().as_encoded_bytes();
            Digest::of(&[b"other", link, &size.to_le_bytes()])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::Project;
    use crate::store::Store;

    #[test]
    fn what_changed_since_the_run_began_is_named_even_after_a_restart() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path();
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for path in ["package.json", "web/package.json", "go.mod", "node_modules/a/package.json"] {
            write(path, "1");
        }
        let store = Store::open(&Project::at(root).unwrap()).unwrap();
        let scrubber = crate::scrub::scrubber();
        let name = scrubber.scrub("shop");
        let look = |since| {
            let writer = IncidentWriter::new(&store, scrubber.clone());
            let found = changed(&writer, root, &name, since).unwrap();
            found.into_iter().map(Scrubbed::into_string).collect::<Vec<_>>()
        };
        assert_eq!(look(0), [""; 0], "the run begins");
        write("web/package.json", "2");
        write("node_modules/a/package.json", "2");
        write("src/a.js", "2");
        write(".npmrc", "registry=x");
        fs::remove_file(root.join("go.mod")).unwrap();
        assert_eq!(look(0), [".npmrc", "go.mod", "web/package.json"]);
        let package = r#"{"scripts":{"postinstall":"node tools/post && sh ./x.sh"}}"#;
        write("web/package.json", package);
        for path in ["web/tools/post.js", "web/x.sh", "web/test.js"] {
            write(path, "1");
        }
        let with_scripts = store.journal().last_seq().unwrap();
        assert_eq!(look(with_scripts), [""; 0]);
        for path in ["web/tools/post.js", "web/x.sh", "web/test.js"] {
            write(path, "2");
        }
        assert_eq!(look(with_scripts), ["web/./x.sh", "web/tools/post.js"]);
        let next = store.journal().last_seq().unwrap();
        assert_eq!(look(next), [""; 0], "the next run begins with what is there");
    }
}
