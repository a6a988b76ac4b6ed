//! The files of a fleet's job: fetched from the git remote that has them, or sent as a bundle.

use std::fs;
use std::process::{Command, Stdio};

use crate::heal::{Visit, git};
use crate::jobs::Works;
use crate::jobs_fleet::NatsServer;
use crate::support::Project;

/// Somebody with a project whose remote is a bare repository beside it.
struct Origin {
    works: Works,
    server: NatsServer,
}

impl Origin {
    fn new() -> Option<Self> {
        let server = NatsServer::start()?;
        let works = Works::new();
        let remote = works.out().join("origin.git");
        git(&works.project, &["init", "-q", "--bare", &remote.display().to_string()]);
        git(&works.project, &["remote", "add", "origin", &remote.display().to_string()]);
        Some(Self { works, server })
    }

    fn pushes(&self) {
        git(&self.works.project, &["push", "-q", "origin", "HEAD:refs/heads/main"]);
    }

    fn salve(&self, args: &[&str]) -> Visit {
        self.works.salve(&[args, &["--fleet", &self.server.url]].concat())
    }

    fn submits(&self, args: &[&str]) -> Visit {
        let job = r#"{ "steps": [{ "command": "cat a.txt > seen.txt" }] }"#;
        self.works.project.write("job.json", job);
        self.salve(&[&["submit", "job.json"], args].concat())
    }

    fn id(visit: &Visit) -> String {
        assert_eq!(visit.code, Some(0), "{}", visit.said);
        visit.said.split_whitespace().next().unwrap_or_default().to_owned()
    }

    /// Has a machine with nothing of the project run what is queued.
    fn works_elsewhere(&self) {
        let machine = Project::new();
        let args = ["worker", "--until-empty", "--fleet", &self.server.url];
        let mut command: Command = machine.command(&args);
        command.args(["--set", "job.queue_backoff_seconds=0"]).stdin(Stdio::null());
        let visit = Visit::of(&command.output().unwrap());
        assert_eq!(visit.code, Some(0), "{}", visit.said);
    }

    fn takes(&self, id: &str) -> String {
        let taken = self.salve(&["jobs", "take", id]);
        assert_eq!(taken.code, Some(0), "{}", taken.said);
        fs::read_to_string(self.works.project.dir().join("seen.txt")).unwrap()
    }
}

#[test]
fn a_worker_fetches_from_the_remote_what_was_pushed() {
    let Some(origin) = Origin::new() else { return };
    let unpushed = origin.submits(&["--remote"]);
    unpushed.expect(2, &["workers cannot fetch", "not known to have HEAD", "--bundle"]);
    origin.pushes();
    let submitted = origin.submits(&["--remote"]);
    let id = Origin::id(&submitted);
    submitted.expect(0, &["workers fetch", "file:///"]);
    origin.works_elsewhere();
    assert_eq!(origin.takes(&id), "one\n");
    // A path is nobody else's remote, so it is not chosen unless it is asked for.
    let usual = origin.submits(&[]);
    assert!(!usual.said.contains("workers fetch"), "{}", usual.said);
    let bundled = Origin::id(&origin.submits(&["--bundle"]));
    origin.works_elsewhere();
    let shown = origin.salve(&["show", &bundled]).said;
    assert!(shown.contains("completed"), "{shown}");
}

#[test]
fn a_remote_that_is_gone_is_said_with_what_to_do() {
    let Some(origin) = Origin::new() else { return };
    origin.pushes();
    let id = Origin::id(&origin.submits(&["--remote", "--set", "job.queue_max_tries=1"]));
    fs::remove_dir_all(origin.works.out().join("origin.git")).unwrap();
    origin.works_elsewhere();
    let dead = origin.salve(&["jobs", "dead"]).said;
    assert!(dead.contains(&id) && dead.contains("cannot fetch from file:///"), "{dead}");
    assert!(dead.contains("--bundle"), "{dead}");
}

#[test]
fn submodules_do_not_travel_and_that_is_said() {
    let Some(origin) = Origin::new() else { return };
    let project = &origin.works.project;
    let inner = origin.works.out().join("inner");
    let inner = inner.display().to_string();
    git(project, &["init", "-q", &inner]);
    git(project, &["-C", &inner, "commit", "-q", "--allow-empty", "-m", "inner"]);
    let add = ["-c", "protocol.file.allow=always", "submodule", "-q", "add", &inner, "vendor"];
    git(project, &add);
    git(project, &["commit", "-qm", "with a submodule"]);
    let refused = origin.submits(&[]);
    refused.expect(2, &["submodules do not travel with a job: vendor", "--without-submodules"]);
    let id = Origin::id(&origin.submits(&["--without-submodules"]));
    origin.works_elsewhere();
    assert_eq!(origin.takes(&id), "one\n");
}
