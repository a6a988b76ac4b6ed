//! Whether the agents and editors that know of Salve would start one that is there.

use std::path::Path;

use super::Finding;
use crate::process::find_program;
use crate::register::{Client, Places, RegistrationScope, registered_program};

const CHECK: &str = "registrations";

/// Looks at the settings files of all clients, and starts nothing.
pub(super) fn examine(places: &Places) -> Finding {
    let (mut there, mut wrong) = (Vec::new(), Vec::new());
    let mut mend = String::new();
    for client in Client::ALL {
        for scope in [RegistrationScope::Project, RegistrationScope::User] {
            let Ok(file) = client.file(scope, places) else { continue };
            let title = format!("{} ({})", client.title(), short(&file, places));
            match registered_program(client, scope, places) {
                Ok(None) => {}
                Ok(Some(program)) if is_there(&program) => there.push(title),
                Ok(Some(program)) => {
                    wrong.push(format!("{title} starts `{program}`, which is not there"));
                    mend = again(client, scope);
                }
                Err(error) => {
                    wrong.push(error.to_string());
                    mend = "correct that file: its client cannot read it either".to_owned();
                }
            }
        }
    }
    match (wrong.is_empty(), there.is_empty()) {
        (false, _) => Finding::warn(CHECK, wrong.join("; "), mend),
        (true, false) => Finding::ok(CHECK, there.join(", ")),
        (true, true) => Finding::ok(CHECK, "none: `salve mcp install` tells an agent about Salve"),
    }
}

/// Says how an entry is made again, since one that is there is left as it is.
fn again(client: Client, scope: RegistrationScope) -> String {
    let words = format!("--client {} --scope {}", client.word(), scope.word());
    format!("salve mcp install {words} --remove, then salve mcp install {words}")
}

/// Returns whether a program would be found by whoever starts it.
fn is_there(program: &str) -> bool {
    if program.contains('/') {
        Path::new(program).is_file()
    } else {
        find_program(program).is_some()
    }
}

/// Returns a file as people name it.
fn short(file: &Path, places: &Places) -> String {
    if let Ok(below) = file.strip_prefix(&places.project) {
        return below.display().to_string();
    }
    let home = places.home.as_ref().and_then(|home| file.strip_prefix(home).ok());
    home.map_or_else(|| file.display().to_string(), |below| format!("~/{}", below.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::FindingState;
    use crate::register::ClientHomes;

    #[test]
    fn a_registration_that_starts_nothing_is_named_with_what_makes_it_again() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places {
            project: dir.path().join("project"),
            home: Some(dir.path().join("home")),
            backups: None,
            homes: ClientHomes::default(),
            program: "salve".to_owned(),
        };
        assert_eq!(examine(&places).state, FindingState::Ok);
        let write = |program: &str| {
            let file = Client::Claude.file(RegistrationScope::Project, &places).unwrap();
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            let text = format!("{{\"mcpServers\":{{\"salve\":{{\"command\":\"{program}\"}}}}}}");
            std::fs::write(file, text).unwrap();
        };
        write("/no/such/salve");
        let found = examine(&places);
        assert_eq!(found.state, FindingState::Warn);
        assert!(
            found.detail.contains("Claude Code (.mcp.json) starts `/no/such/salve`"),
            "{found:?}"
        );
        let mend = found.mend.unwrap();
        assert!(mend.contains("--client claude --scope project --remove"), "{mend}");
        write("/bin/sh");
        let found = examine(&places);
        assert_eq!(
            (found.state, found.detail.as_str()),
            (FindingState::Ok, "Claude Code (.mcp.json)")
        );
        std::fs::write(places.project.join(".mcp.json"), "{ not json").unwrap();
        let found = examine(&places);
        assert!(
            found.state == FindingState::Warn && found.detail.contains(".mcp.json"),
            "{found:?}"
        );
    }
}
