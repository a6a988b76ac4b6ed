//! `shared = "fleet"`: what all machines share is mended by one of them.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

use crate::jobs_fleet::NatsServer;
use crate::support::Project;
use crate::tools::texts;

/// A machine whose tool needs what all machines share.
fn machine(shared: &Path, reach: &str) -> Project {
    let (project, at) = (Project::new(), shared.display());
    let tool = format!(
        "test -e '{at}/rebuilt' && exit 0\necho x >> '{at}/failed'\n\
         echo 'the shared cache is corrupt' >&2\nexit 1\n"
    );
    project.write("tool.sh", tool);
    // It waits until both have seen the failure, so that both of them want it.
    let fix = format!(
        "while [ $(wc -l < '{at}/failed') -lt 2 ]; do sleep 0.05; done\n\
         echo x >> '{at}/fixes'; touch '{at}/rebuilt'\n"
    );
    project.write("fix.sh", fix);
    let rule = format!(
        "[[auto_heal.rules]]\nmatch = \"cache is corrupt\"\nrun = \"sh fix.sh\"\n\
         writes = [\"{at}\"]\nshared = \"{reach}\"\n\
         [tools.\"sh tool.sh\"]\nread_only = true\n"
    );
    project.write("salve.toml", rule);
    project
}

fn calls(machine: &Project, url: &str) -> Child {
    let mut call = machine.command(&["call", "--", "sh", "tool.sh"]);
    call.env("SALVE_FLEET_URL", url).stdin(Stdio::null());
    call.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Has two machines fail at once and returns how often the cause was mended.
fn mended(reach: &str, url: &str) -> usize {
    let shared = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let at = shared.path().canonicalize().unwrap();
    let machines = [machine(&at, reach), machine(&at, reach)];
    let running: Vec<Child> = machines.iter().map(|machine| calls(machine, url)).collect();
    for call in running {
        let (code, _, err) = texts(&call.wait_with_output().unwrap());
        assert_eq!(code, Some(0), "{err}");
    }
    fs::read_to_string(at.join("fixes")).unwrap().lines().count()
}

/// **Invariant:** What a rule says to be shared by all machines is mended once for all who need it.
#[test]
fn what_machines_share_is_mended_by_one_of_them_and_what_they_do_not_by_each() {
    let Some(server) = NatsServer::start() else { return };
    assert_eq!(mended("fleet", &server.url), 1);
    assert_eq!(mended("machine", &server.url), 2);
    // Where nobody can be asked, each machine helps itself.
    assert_eq!(mended("fleet", "nats://127.0.0.1:9"), 2);
}
