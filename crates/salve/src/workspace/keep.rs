//! Keeping a tree in git's object store under a hidden ref, and reading it back.
//!
//! Objects are written by `git fast-import`, which takes bytes as they are: no filter, index, hook
//! or working tree is involved.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use super::error::WorkspaceError;
use super::git::{Git, pipe, quote};
use super::memo::StoredTree;
use super::name::Name;
use super::note;
use super::oid::Oid;
use super::scan::Scanner;
use super::tree::{Gap, Kind, Rel, TreeItem, Why, WorkingTree};

/// Where a tree is kept.
pub(super) struct KeepPlace<'a> {
    pub(super) store: &'a Git,
    /// The ref that is pointed to it.
    pub(super) at: &'a str,
    pub(super) name: Name,
    /// What it shares with this is taken from there.
    pub(super) base: Option<&'a StoredTree>,
}

/// Writes `tree` to the store and points a ref to it.
///
/// Content is read again while it is written, so `tree` is corrected where a file changed since;
/// what went away or grew too large since is taken out.
pub(super) fn keep(
    scanner: &Scanner,
    place: &KeepPlace<'_>,
    tree: &mut WorkingTree,
) -> Result<(), WorkspaceError> {
    let store = place.store;
    let mut stored = place.base.map(StoredTree::oids).unwrap_or_default();
    let oids = tree.items.values().map(|item| item.oid).filter(|oid| !stored.contains(oid));
    let asked = present(store, &oids.collect())?;
    stored.extend(asked);
    let args = ["fast-import", "--quiet", "--force", "--done", "--date-format=now"];
    store.feed(&args, |to| {
        send_blobs(scanner, tree, &stored, to)?;
        send_commit(place, tree, to).map_err(pipe)
    })?;
    Ok(())
}

/// Returns which of `oids` the store has.
fn present(store: &Git, oids: &HashSet<Oid>) -> Result<HashSet<Oid>, WorkspaceError> {
    if oids.is_empty() {
        return Ok(HashSet::new());
    }
    let args = ["cat-file", "--batch-check=%(objectname) %(objecttype)", "--buffer"];
    let answer = store
        .feed(&args, |to| oids.iter().try_for_each(|oid| writeln!(to, "{oid}")).map_err(pipe))?;
    let lines = answer.split(|&byte| byte == b'\n');
    Ok(lines.filter_map(|line| Oid::parse(line.strip_suffix(b" blob")?)).collect())
}

/// Sends what the store does not have yet.
fn send_blobs(
    scanner: &Scanner,
    tree: &mut WorkingTree,
    stored: &HashSet<Oid>,
    to: &mut dyn Write,
) -> Result<(), WorkspaceError> {
    let mut sent = HashSet::new();
    let mut total = 0;
    let missing = |item: &TreeItem| !stored.contains(&item.oid);
    let todo: Vec<Rel> =
        tree.items.iter().filter(|(_, item)| missing(item)).map(|(path, _)| path.clone()).collect();
    for path in todo {
        let read = scanner.content(&scanner.root.join(&path));
        let (item, content) = match read {
            Ok((item, content)) if total + content.len() as u64 <= scanner.limits.total => {
                (item, content)
            }
            other => {
                tree.items.remove(&path);
                if let Some(gap) = gap(other.map(|(_, content)| content.len())) {
                    tree.gaps.insert(path, gap);
                }
                continue;
            }
        };
        if !stored.contains(&item.oid) && sent.insert(item.oid) {
            total += content.len() as u64;
            write!(to, "blob\ndata {}\n", content.len()).map_err(pipe)?;
            to.write_all(&content).and_then(|()| to.write_all(b"\n")).map_err(pipe)?;
        }
        tree.items.insert(path, item);
    }
    Ok(())
}

/// Says why a file is not kept, of which so much was read; one that is gone is not missed.
fn gap(read: io::Result<usize>) -> Option<Gap> {
    match read {
        Ok(size) => Some(Gap { why: Why::TooMuch, size: size as u64, written: 0 }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            Some(Gap { why: Why::TooLarge, size: 0, written: 0 })
        }
        Err(_) => Some(Gap { why: Why::Unreadable, size: 0, written: 0 }),
    }
}

fn send_commit(
    &KeepPlace { at, name, base, .. }: &KeepPlace<'_>,
    tree: &WorkingTree,
    to: &mut dyn Write,
) -> io::Result<()> {
    let message = note::write(name, tree);
    writeln!(to, "commit {at}")?;
    writeln!(to, "committer Salve <salve@localhost> now")?;
    writeln!(to, "data {}", message.len())?;
    writeln!(to, "{message}")?;
    if let Some(base) = base {
        writeln!(to, "M 040000 {} \"\"", base.tree())?;
        for path in base.gone(tree) {
            writeln!(to, "D {}", quote(path))?;
        }
    }
    let is_new = |(path, item): &(&Rel, &TreeItem)| base.is_none_or(|base| !base.has(path, item));
    for (path, item) in tree.items.iter().filter(is_new) {
        writeln!(to, "M {} {} {}", item.kind.mode(), item.oid, quote(path))?;
    }
    writeln!(to, "done")
}

/// Reads the tree under a ref back; nothing if there is none.
pub(super) fn load(store: &Git, at: &str) -> Result<Option<WorkingTree>, WorkspaceError> {
    let target = format!("{at}^{{commit}}");
    let Some(commit) = store.ask(&["rev-parse", "--verify", "--quiet", &target])? else {
        return Ok(None);
    };
    let commit = String::from_utf8_lossy(&commit).trim().to_owned();
    let mut tree = WorkingTree { items: list(store, &commit)?, ..WorkingTree::default() };
    let message = store.read(&["cat-file", "commit", &commit])?;
    let text = String::from_utf8_lossy(&message);
    note::read(&text, &mut tree).ok_or_else(|| strange("cat-file", &message))?;
    Ok(Some(tree))
}

/// Lists the files of a tree, each with what it is; permissions are not part of it.
pub(super) fn list(store: &Git, tree: &str) -> Result<BTreeMap<Rel, TreeItem>, WorkspaceError> {
    let listed = store.read(&["ls-tree", "-r", "-z", "--full-tree", tree])?;
    let mut items = BTreeMap::new();
    for line in listed.split(|&byte| byte == 0).filter(|line| !line.is_empty()) {
        let (path, item) = parse(line).ok_or_else(|| strange("ls-tree", line))?;
        items.insert(path.to_owned(), item);
    }
    Ok(items)
}

/// Lists the files of the user's own tree; what is no file, such as a submodule, is left out.
pub(super) fn committed(
    store: &Git,
    tree: &str,
) -> Result<BTreeMap<Rel, TreeItem>, WorkspaceError> {
    let listed = store.read(&["ls-tree", "-r", "-z", "--full-tree", tree])?;
    let files = listed.split(|&byte| byte == 0).filter_map(parse);
    Ok(files.map(|(path, item)| (path.to_owned(), item)).collect())
}

fn strange(command: &str, said: &[u8]) -> WorkspaceError {
    let said = String::from_utf8_lossy(said).chars().take(200).collect();
    WorkspaceError::Strange { command: command.to_owned(), said }
}

/// Reads `<mode> blob <oid>\t<path>`; a path that is none of a file below the root is not read.
fn parse(line: &[u8]) -> Option<(&OsStr, TreeItem)> {
    let tab = line.iter().position(|&byte| byte == b'\t')?;
    let mut words = line[..tab].split(|&byte| byte == b' ');
    let (mode, _type, oid) = (words.next()?, words.next()?, words.next()?);
    let item = TreeItem { kind: Kind::of_mode(mode)?, permissions: 0, oid: Oid::parse(oid)? };
    let path = OsStr::from_bytes(&line[tab + 1..]);
    let is_inside = |part: Component<'_>| matches!(part, Component::Normal(name) if name != ".git");
    Path::new(path).components().all(is_inside).then_some((path, item))
}

/// Hands out the content of each blob, one at a time, in the order of `oids`.
pub(super) fn contents(
    store: &Git,
    oids: &[Oid],
    mut take: impl FnMut(usize, &[u8]) -> Result<(), WorkspaceError>,
) -> Result<(), WorkspaceError> {
    if oids.is_empty() {
        return Ok(());
    }
    let ask = |to: &mut dyn Write| -> Result<(), WorkspaceError> {
        oids.iter().try_for_each(|oid| writeln!(to, "{oid}")).map_err(pipe)
    };
    store.converse(&["cat-file", "--batch", "--buffer"], ask, |from| {
        let (mut head, mut content) = (String::new(), Vec::new());
        for at in 0..oids.len() {
            head.clear();
            from.read_line(&mut head).map_err(pipe)?;
            let size =
                head.trim_end().rsplit_once(" blob ").map_or(head.as_str(), |(_, size)| size);
            let size: u64 = size.parse().map_err(|_| WorkspaceError::Strange {
                command: "cat-file".to_owned(),
                said: head.trim_end().to_owned(),
            })?;
            content.clear();
            // The content ends with a line feed that does not belong to it.
            let read = from.take(size + 1).read_to_end(&mut content).map_err(pipe)?;
            if read as u64 != size + 1 {
                return Err(pipe(io::ErrorKind::UnexpectedEof.into()));
            }
            content.pop();
            take(at, &content)?;
        }
        Ok(())
    })
}
