use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode};

use super::*;
use crate::atomic;

/// A project whose `.salve` is there, and a file of the user's outside it.
struct Ground {
    _home: tempfile::TempDir,
    root: PathBuf,
    precious: PathBuf,
}

impl Ground {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let top = home.path().canonicalize().unwrap();
        let (root, precious) = (top.join("project"), top.join("precious"));
        fs::create_dir_all(root.join(".salve")).unwrap();
        fs::write(&precious, "mine").unwrap();
        Self { _home: home, root, precious }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }
}

#[test]
fn only_a_regular_file_of_fitting_size_is_read() {
    let ground = Ground::new();
    let at = |name: &str| ground.at(name);
    fs::write(at("good"), "text").unwrap();
    fs::write(at("large"), vec![b'x'; (64 << 10) + 1]).unwrap();
    fs::write(at("binary"), b"a\nb\n\xff\xfe").unwrap();
    symlink("good", at("link")).unwrap();
    symlink("/dev/zero", at("endless")).unwrap();
    symlink(&ground.precious, at("leaving")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    rustix::fs::mkfifoat(CWD, at("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    let read = |name: &str| read_text(&at(name), FileKind::Note);
    let refused = |name: &str| match read(name) {
        Err(FileError::NotRegular(kind)) => kind,
        other => panic!("{name}: {other:?}"),
    };

    assert_eq!(read("good").unwrap(), "text");
    assert_eq!(refused("link"), "a symbolic link");
    assert_eq!(refused("endless"), "a symbolic link");
    assert_eq!(refused("pipe"), "a named pipe");
    assert_eq!(refused("socket"), "a socket");
    assert_eq!(refused(".salve"), "a directory");
    assert!(matches!(read("large"), Err(FileError::TooLarge(_))));
    assert!(matches!(read("binary"), Err(FileError::NotText(3))));
    assert!(read("absent").unwrap_err().is_absent());
    assert_eq!(read_start(&at("large"), 3).unwrap(), b"xxx");

    let followed = |name, links| read_text_where(&at(name), FileKind::Note, links);
    assert_eq!(followed("link", Links::Follow).unwrap(), "text");
    assert_eq!(followed("link", Links::Inside(&ground.root)).unwrap(), "text");
    assert_eq!(followed("leaving", Links::Follow).unwrap(), "mine");
    let leaving = followed("leaving", Links::Inside(&ground.root));
    assert!(matches!(leaving, Err(FileError::Outside)), "{leaving:?}");
    for links in [Links::Follow, Links::Inside(&ground.root)] {
        for name in ["endless", "pipe", "dangling", "socket"] {
            let read = followed(name, links);
            assert!(matches!(read, Err(FileError::NotRegular(_))), "{name} {links:?}: {read:?}");
        }
    }
}

/// **Invariant:** Below `.salve` nothing is reached through a link or written through a hard link.
#[test]
fn nothing_below_the_state_directory_is_reached_through_a_link() {
    let ground = Ground::new();
    let outside = ground.root.with_file_name("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("dev.log"), "theirs").unwrap();
    symlink(&outside, ground.at(".salve/logs")).unwrap();
    let log = ground.at(".salve/logs/dev.log");

    assert!(read_bytes(&log, FileKind::Bulk).is_err());
    assert!(open_to_append(&log, 0o600).is_err());
    assert!(open_lock(&log).is_err());
    assert!(atomic::write(&log, "ours").is_err());
    assert!(atomic::write_new(&ground.at(".salve/logs/new"), "ours").is_err());
    assert!(rename(&log, &ground.at(".salve/taken")).is_err());
    assert!(remove(&log).is_err());
    for dir in [".salve/logs", ".salve/logs/below/deeper"] {
        let error = make_directories(&ground.at(dir)).unwrap_err();
        assert!(error.to_string().contains("logs is a link"), "{dir}: {error}");
    }
    assert_eq!(fs::read_to_string(outside.join("dev.log")).unwrap(), "theirs");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}

/// Puts something at the second path that may lead to the first.
type Plant = fn(&Path, &Path);

#[test]
fn a_planted_file_is_not_written_to() {
    let ground = Ground::new();
    let plants: [(&str, Plant); 4] = [
        ("a symbolic link", |precious, path| symlink(precious, path).unwrap()),
        ("a hard link", |precious, path| fs::hard_link(precious, path).unwrap()),
        ("a named pipe", |_, path| rustix::fs::mkfifoat(CWD, path, Mode::RUSR).unwrap()),
        ("a directory", |_, path| fs::create_dir(path).unwrap()),
    ];
    for (found, plant) in plants {
        let path = ground.at(&format!(".salve/{}", found.replace(' ', "-")));
        plant(&ground.precious, &path);
        for opened in [open_lock(&path), open_to_append(&path, 0o600)] {
            let error = opened.unwrap_err().to_string();
            assert!(error.contains(found), "{found}: {error}");
        }
    }
    assert_eq!(fs::read_to_string(&ground.precious).unwrap(), "mine");
}

#[test]
fn a_link_that_stands_for_the_whole_state_directory_is_refused() {
    let ground = Ground::new();
    let elsewhere = ground.root.with_file_name("elsewhere");
    fs::rename(ground.at(".salve"), &elsewhere).unwrap();
    symlink(&elsewhere, ground.at(".salve")).unwrap();
    assert!(make_directories(&ground.at(".salve/run")).is_err());
    assert!(atomic::write(&ground.at(".salve/state"), "x").is_err());
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn real_directories_are_made_and_files_keep_what_they_hold() {
    let ground = Ground::new();
    make_directories(&ground.at(".salve/run/deep")).unwrap();
    make_directories(&ground.at(".salve/run/deep")).unwrap();
    make_directories(&ground.at("src/deep")).unwrap();
    let log = ground.at(".salve/run/deep/log");
    for _ in 0..2 {
        open_to_append(&log, 0o600).unwrap().write_all(b"line\n").unwrap();
    }
    assert_eq!(read_text(&log, FileKind::Note).unwrap(), "line\nline\n");
    assert_eq!(fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
    rename(&log, &ground.at(".salve/old")).unwrap();
    remove(&ground.at(".salve/old")).unwrap();
    assert!(fs::symlink_metadata(ground.at(".salve/old")).is_err());
    // A directory that may be entered but not listed is no hindrance.
    fs::set_permissions(ground.at("src"), Permissions::from_mode(0o311)).unwrap();
    atomic::write(&ground.at("src/deep/file"), "x").unwrap();
    assert_eq!(read_text(&ground.at("src/deep/file"), FileKind::Note).unwrap(), "x");
}
