//! Whatever stands in the place of a proposal, nothing blocks, nothing is followed, nothing old counts.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

struct Desk {
    dir: TempDir,
    began: Timestamp,
}

impl Desk {
    fn new() -> Self {
        let began = Timestamp::now() - SignedDuration::from_secs(5);
        Self { dir: tempfile::tempdir().unwrap(), began }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("recovery.json")
    }

    fn read(&self) -> FoundProposal {
        read(&self.path(), Turn { iteration: 6, began: self.began }).1
    }

    /// Asserts that what is there is refused, and how that is said.
    #[track_caller]
    fn refuses(&self, want: &str) {
        let since = Instant::now();
        let found = self.read();
        let FoundProposal::Refused(refused) = found else { panic!("not refused: {found:?}") };
        let said = refused.to_string();
        assert!(said.contains(want), "{said}");
        assert!(!said.contains("SECRET"), "nothing of it is repeated: {said}");
        assert!(since.elapsed() < Duration::from_secs(60), "it came to an end");
    }
}

fn good() -> Value {
    json!({
        "version": 1,
        "timestamp": Timestamp::now(),
        "category": "dependency",
        "severity": "blocking",
        "diagnosis": {
            "error_pattern": "Cannot find module",
            "root_cause": "a package is missing",
            "evidence": ["test-output.txt:3: Cannot find module 'a'"]
        },
        "recovery": {
            "command": "npm ci", "expected_outcome": "the tests start", "confidence": "high"
        }
    })
}

#[test]
fn a_proposal_of_this_iteration_is_read_and_no_file_is_none() {
    let desk = Desk::new();
    assert!(matches!(desk.read(), FoundProposal::Nothing));
    std::fs::write(desk.path(), good().to_string()).unwrap();
    let FoundProposal::Proposal(proposal) = desk.read() else { panic!("it is a proposal") };
    assert_eq!(proposal.recovery().command(), "npm ci");
    let mut own = good();
    own["source"] = json!("salve");
    std::fs::write(desk.path(), own.to_string()).unwrap();
    assert!(matches!(desk.read(), FoundProposal::Nothing), "our own draft is nobody's proposal");
}

#[test]
fn a_half_written_proposal_is_refused_when_nobody_finishes_it() {
    let desk = Desk::new();
    let text = good().to_string();
    std::fs::write(desk.path(), &text[..text.len() / 2]).unwrap();
    desk.refuses("recovery.json is not a proposal: the proposal is not valid JSON");
}

#[test]
fn a_proposal_that_is_just_being_written_is_waited_for() {
    let desk = Desk::new();
    let text = good().to_string();
    std::fs::write(desk.path(), &text[..text.len() / 2]).unwrap();
    let (begun, path) = (AtomicBool::new(false), desk.path());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !begun.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            std::fs::write(&path, &text).unwrap();
        });
        begun.store(true, Ordering::Release);
        assert!(matches!(desk.read(), FoundProposal::Proposal(_)));
    });
}

#[test]
fn a_proposal_that_is_replaced_while_it_is_read_is_read_whole() {
    let desk = Desk::new();
    std::fs::write(desk.path(), good().to_string()).unwrap();
    let (done, path) = (AtomicBool::new(false), desk.path());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut count = 0;
            while !done.load(Ordering::Acquire) {
                count += 1;
                let mut value = good();
                value["recovery"]["command"] = json!(format!("npm ci # {count}"));
                let next = path.with_extension("next");
                std::fs::write(&next, value.to_string()).unwrap();
                std::fs::rename(&next, &path).unwrap();
            }
        });
        for _ in 0..3 {
            match desk.read() {
                FoundProposal::Proposal(one) => {
                    assert!(one.recovery().command().starts_with("npm ci"))
                }
                FoundProposal::Refused(RecoveryFileRefused::Restless) => {}
                other => panic!("{other:?}"),
            }
        }
        done.store(true, Ordering::Release);
    });
}

#[test]
fn a_pipe_a_device_a_directory_and_a_link_are_refused_at_once() {
    let desk = Desk::new();
    mknodat(CWD, desk.path(), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    desk.refuses(", not a file");
    std::fs::remove_file(desk.path()).unwrap();
    std::fs::create_dir(desk.path()).unwrap();
    desk.refuses(", not a file");
    std::fs::remove_dir(desk.path()).unwrap();
    // A device proper needs rights that tests may lack; where they have them, it is refused too.
    let zero = rustix::fs::makedev(1, 5);
    let made = mknodat(CWD, desk.path(), FileType::CharacterDevice, Mode::RUSR, zero);
    if made.is_ok() {
        desk.refuses("recovery.json");
        std::fs::remove_file(desk.path()).unwrap();
    }
    let key = desk.dir.path().join("id_ed25519");
    std::fs::write(&key, "-----BEGIN SECRET KEY-----").unwrap();
    for target in [key.as_path(), Path::new("/dev/zero"), Path::new("nowhere")] {
        symlink(target, desk.path()).unwrap();
        desk.refuses("symbolic link");
        std::fs::remove_file(desk.path()).unwrap();
    }
}

#[test]
fn two_gigabytes_and_ten_thousand_levels_are_refused() {
    let desk = Desk::new();
    std::fs::File::create(desk.path()).unwrap().set_len(2 << 30).unwrap();
    desk.refuses("is larger than 256 KiB");
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    std::fs::write(desk.path(), format!("{{\"version\": {deep}}}")).unwrap();
    desk.refuses("deep");
}

#[test]
fn what_is_another_iterations_is_refused() {
    let desk = Desk::new();
    let mut last_week = good();
    last_week["timestamp"] = json!(Timestamp::now() - SignedDuration::from_hours(7 * 24));
    std::fs::write(desk.path(), last_week.to_string()).unwrap();
    desk.refuses("from before this iteration");
    let mut other = good();
    other["iteration"] = json!(5);
    std::fs::write(desk.path(), other.to_string()).unwrap();
    desk.refuses("of iteration 5");
    std::fs::write(desk.path(), good().to_string()).unwrap();
    let file = std::fs::File::options().write(true).open(desk.path()).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(3_600)).unwrap();
    desk.refuses("before this iteration began");
}
