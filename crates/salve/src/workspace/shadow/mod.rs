//! A kept state of the tree laid out beside the real one, for running a check in.
//!
//! A shadow lies outside of the project, in a private directory, so that no tool finds the
//! project's settings twice or takes the shadow's files for the project's. Around the project's
//! files it shows what lies around the project up to the top of its repository, by links; it has a
//! repository of its own that borrows the real one's objects; and what git ignores is brought along
//! as far as checks need it ([`derived`]).
//!
//! **Invariant:** what is written below the shadow's root stays in the shadow: no file in it is one
//! with a file of the real tree that git tracks, and only installed packages, which tools read, are
//! links into it. [`Shadow::confine_writes`] has the kernel enforce that nothing else of the real tree is
//! written to.

mod confine;
mod derived;
mod env;
mod lay;
mod repo;
#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::packages;
use super::scan::Scanner;
use super::scratch_dir::ScratchDir;
use super::{Snapshot, Workspace, WorkspaceError};

pub use confine::Confined;
use derived::Bringer;
pub(super) use repo::top;

/// A kept state in a directory of its own, until it is dropped.
pub struct Shadow {
    ground: ShadowRoots,
    env: Vec<(OsString, OsString)>,
    lacks: Vec<String>,
    drifted: Vec<String>,
    /// Last, so that it is dropped after all that lies in it.
    _lair: ScratchDir,
}

/// Where the shadow and the real tree lie.
#[derive(Clone, Debug)]
struct ShadowRoots {
    /// The top of the real repository, or the project's root without one.
    real_top: PathBuf,
    /// What stands for it.
    top: PathBuf,
    /// The project's real root.
    real: PathBuf,
    /// What stands for it.
    root: PathBuf,
}

impl ShadowRoots {
    /// Returns what stands for a path of the real tree; any other path stands for itself.
    fn path(&self, real: &Path) -> PathBuf {
        match real.strip_prefix(&self.real_top) {
            Ok(rest) => below(&self.top, rest),
            Err(_) => real.to_path_buf(),
        }
    }

    /// Returns a text about the real tree as one about the shadow.
    fn to_shadow(&self, text: &OsStr) -> OsString {
        OsString::from_vec(swap(text.as_bytes(), &self.real_top, &self.top))
    }
}

impl Workspace {
    /// Lays a snapshot out beside the real tree.
    pub fn shadow(&self, of: &Snapshot) -> Result<Shadow, WorkspaceError> {
        let (scanner, tree) = (&self.scanner, &of.tree);
        let top = top(&scanner.git)?.filter(|top| scanner.root.starts_with(top));
        let real_top = top.unwrap_or_else(|| scanner.root.clone());
        let base = base(&self.shadows, &real_top)?;
        let lair = ScratchDir::claim(&base)?;
        // A large one takes long to remove; what is not gone when this process ends, the next removes.
        std::thread::spawn(move || drop(ScratchDir::left(&base)));
        let name = real_top.file_name().unwrap_or_else(|| OsStr::new("root"));
        let rest = scanner.root.strip_prefix(&real_top).unwrap_or(Path::new(""));
        let top = lair.dir().join(name);
        let root = below(&top, rest);
        let ground = ShadowRoots { real_top, top, real: scanner.root.clone(), root };

        lay::surround(&ground)?;
        let mut lacks = lay::lay(scanner, tree, &ground)?;
        if let Some(store) = self.vault.existing() {
            lay::lay_over(&store, &of.ignored.tree, &ground)?;
        }
        let mut bringer = Bringer::new(&ground);
        tree.hidden.iter().for_each(|path| bringer.bring(Path::new(path)));
        lacks.extend(bringer.lacks);
        if scanner.git.store().is_none() {
            repo::make(&scanner.git, &ground.top)?;
        }
        let env = env::variables(&ground, tree);
        let now = packages::look(&scanner.root, &tree.hidden);
        let drifted = packages::differing(&tree.packages, &now);
        Ok(Shadow { ground, env, lacks, drifted, _lair: lair })
    }
}

impl Shadow {
    /// Returns what stands for the project's root.
    pub fn root(&self) -> &Path {
        &self.ground.root
    }

    /// Returns what stands for a path of the real tree; any other path stands for itself.
    pub fn path(&self, real: &Path) -> PathBuf {
        self.ground.path(real)
    }

    /// Returns a word of a command for the real tree as it is said in the shadow.
    pub fn word(&self, real: &OsStr) -> OsString {
        self.ground.to_shadow(real)
    }

    /// Returns what a check wrote in the shadow as if it had run in the real tree.
    pub fn told(&self, output: &str) -> String {
        let told = swap(output.as_bytes(), &self.ground.top, &self.ground.real_top);
        String::from_utf8_lossy(&told).into_owned()
    }

    /// Returns the variables that a check needs here, to be added to our own.
    pub fn env(&self) -> &[(OsString, OsString)] {
        &self.env
    }

    /// Returns which files of the real tree are missing here, each with the reason, for people.
    pub fn lacks(&self) -> &[String] {
        &self.lacks
    }

    /// Returns the directories of installed packages that are not as they were when the snapshot was
    /// taken, so that a check that passes here says nothing about that state.
    pub fn drifted(&self) -> &[String] {
        &self.drifted
    }

    /// Takes from the calling thread, and from all it starts from now on, the right to write to
    /// the real tree; returns whether the kernel can.
    ///
    /// It cannot be given back, so this is called on a thread that ends with the check.
    pub fn confine_writes(&self) -> Confined {
        // A kernel that knows the rules and refuses them enforces nothing either.
        confine::confine_writes(&self.ground.real_top, &self.ground.top).unwrap_or(Confined::No)
    }
}

impl fmt::Debug for Shadow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shadow({})", self.ground.root.display())
    }
}

/// Returns where shadows lie by default: with the user's caches, else with temporary files.
pub(super) fn usual_base() -> PathBuf {
    crate::dirs::cache().map_or_else(temporary, |cache| cache.join("shadows"))
}

fn temporary() -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    std::env::temp_dir().join(format!("salve-shadows-{user}"))
}

/// Returns a place for shadows that is not inside of what they stand for.
fn base(usual: &Path, real_top: &Path) -> Result<PathBuf, WorkspaceError> {
    let places = [usual.to_path_buf(), temporary()];
    let outside = places.into_iter().find(|place| !place.starts_with(real_top));
    outside.ok_or_else(|| WorkspaceError::NoPlace { top: real_top.to_path_buf() })
}

/// Joins two paths; an empty end would else add a slash.
fn below(top: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() { top.to_path_buf() } else { top.join(rest) }
}

/// Replaces each `from` that is a whole path or the beginning of one.
fn swap(text: &[u8], from: &Path, to: &Path) -> Vec<u8> {
    let (from, to) = (from.as_os_str().as_bytes(), to.as_os_str().as_bytes());
    let mut swapped = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memmem::find(rest, from) {
        let (head, tail) = (&rest[..at], &rest[at + from.len()..]);
        swapped.extend(head);
        let goes_on = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
        let is_path = !tail.first().is_some_and(goes_on) && !head.last().is_some_and(goes_on);
        swapped.extend(if is_path { to } else { from });
        rest = tail;
    }
    swapped.extend(rest);
    swapped
}

/// Returns what stands in the shadow for the text of a link of the real tree.
fn link_text(ground: &ShadowRoots, real_link: &Path, text: &OsStr) -> OsString {
    let target = Path::new(text);
    if target.is_absolute() {
        return ground.path(target).into_os_string();
    }
    let from = real_link.parent().unwrap_or(Path::new("/"));
    // One that leads out of what the shadow shows leads to the real place.
    match lexical(&from.join(target)) {
        Some(full) if full.starts_with(&ground.real_top) => text.to_owned(),
        _ => from.join(target).into_os_string(),
    }
}

/// Resolves `.` and `..` by the words alone.
fn lexical(path: &Path) -> Option<PathBuf> {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir if !clean.pop() => return None,
            std::path::Component::ParentDir | std::path::Component::CurDir => {}
            other => clean.push(other),
        }
    }
    Some(clean)
}
