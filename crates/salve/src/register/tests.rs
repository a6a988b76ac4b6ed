use proptest::prelude::*;

use super::edit::ClientFileShape;
use super::*;

fn edit(shape: ClientFileShape, text: &str, wish: Wish) -> Result<String, String> {
    super::edit::edit(shape, text, wish, PROGRAM)
}

const CLAUDE: ClientFileShape = ClientFileShape::Json { list: "mcpServers", typed: true };

#[track_caller]
fn check(shape: ClientFileShape, text: &str, want: &str) {
    let added = edit(shape, text, Wish::Add).unwrap();
    assert_eq!(added, want, "{text}");
    assert_eq!(edit(shape, &added, Wish::Add).unwrap(), added, "adding twice");
}

#[test]
fn each_client_gets_its_own_shape() {
    check(
        CLAUDE,
        "",
        "{\n  \"mcpServers\": {\n    \"salve\": {\n      \"type\": \"stdio\",\n      \"command\": \"salve\",\n      \"args\": [\"mcp\"]\n    }\n  }\n}\n",
    );
    check(
        Client::Cursor.shape(),
        "{}",
        "{\n  \"mcpServers\": {\n    \"salve\": {\n      \"command\": \"salve\",\n      \"args\": [\"mcp\"]\n    }\n  }\n}",
    );
    let code = edit(Client::Vscode.shape(), "", Wish::Add).unwrap();
    assert!(code.starts_with("{\n  \"servers\": {\n    \"salve\": {\n      \"type\": \"stdio\""));
    check(
        ClientFileShape::Toml,
        "",
        "[mcp_servers.salve]\ncommand = \"salve\"\nargs = [\"mcp\"]\n",
    );
}

#[test]
fn what_stands_in_the_file_stays() {
    check(
        CLAUDE,
        "{\n\t// mine\n\t\"theme\": \"dark\",\n\t\"mcpServers\": {\n\t\t\"other\": {\"command\": \"x\"} // keep\n\t}\n}\n",
        "{\n\t// mine\n\t\"theme\": \"dark\",\n\t\"mcpServers\": {\n\t\t\"other\": {\"command\": \"x\"}, // keep\n\t\t\"salve\": {\n\t\t\t\"type\": \"stdio\",\n\t\t\t\"command\": \"salve\",\n\t\t\t\"args\": [\"mcp\"]\n\t\t}\n\t}\n}\n",
    );
    check(
        ClientFileShape::Toml,
        "model = \"x\" # mine\n\n[mcp_servers.other]\ncommand = \"y\"\n\n[tui]\nx = 1\n",
        "model = \"x\" # mine\n\n[mcp_servers.other]\ncommand = \"y\"\n\n[mcp_servers.salve]\ncommand = \"salve\"\nargs = [\"mcp\"]\n\n[tui]\nx = 1\n",
    );
    check(
        ClientFileShape::Toml,
        "mcp_servers = { other = { command = \"y\" } }\n",
        "mcp_servers = { other = { command = \"y\" } , salve = { command = \"salve\", args = [\"mcp\"] } }\n",
    );
}

#[test]
fn an_entry_that_was_adapted_is_left_alone() {
    let own = "{\"mcpServers\": {\"salve\": {\"command\": \"/opt/salve\", \"args\": [\"mcp\"]}}}";
    check(CLAUDE, own, own);
    let own = "[mcp_servers.salve]\ncommand = '/opt/salve'\n";
    check(ClientFileShape::Toml, own, own);
}

#[test]
fn what_was_added_can_be_taken_out() {
    let before = "{\n  \"mcpServers\": {\n    \"other\": {}\n  }\n}\n";
    let added = edit(CLAUDE, before, Wish::Add).unwrap();
    assert_eq!(edit(CLAUDE, &added, Wish::Remove).unwrap(), before);
    assert_eq!(edit(CLAUDE, before, Wish::Remove).unwrap(), before);
    let before = "[mcp_servers.other]\ncommand = \"y\"\n";
    let added = edit(ClientFileShape::Toml, before, Wish::Add).unwrap();
    assert_eq!(edit(ClientFileShape::Toml, &added, Wish::Remove).unwrap(), before);
}

#[test]
fn a_file_that_is_something_else_is_an_error() {
    for text in
        ["[1]", "{", "{\"mcpServers\": []}", "{\"mcpServers\": {}, \"mcpServers\": {}}", "x"]
    {
        assert!(edit(CLAUDE, text, Wish::Add).is_err(), "{text}");
    }
    for text in ["a = ", "mcp_servers = 1", "[[mcp_servers]]", "a = 1\na = 2"] {
        assert!(edit(ClientFileShape::Toml, text, Wish::Add).is_err(), "{text}");
    }
    let error = edit(ClientFileShape::Toml, "a = 1\nb = \n", Wish::Add).unwrap_err();
    assert!(error.starts_with("line 2: "), "{error}");
}

fn places(dir: &Path) -> Places {
    Places {
        project: dir.join("project"),
        home: Some(dir.join("home")),
        backups: Some(dir.join("backups")),
        homes: ClientHomes::default(),
        program: PROGRAM.to_owned(),
    }
}

#[test]
fn a_file_is_made_changed_with_a_copy_or_left() {
    let dir = tempfile::tempdir().unwrap();
    let places = places(dir.path());
    let add = |client, scope| plan(client, scope, &places, Wish::Add).unwrap();
    assert_eq!(
        add(Client::Gemini, RegistrationScope::User).apply().unwrap(),
        RegistrationDone::Made
    );
    assert!(dir.path().join("home/.gemini/settings.json").is_file());
    assert_eq!(
        add(Client::Gemini, RegistrationScope::User).apply().unwrap(),
        RegistrationDone::Nothing
    );
    let file = dir.path().join("project/.vscode/mcp.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "{\n  // none yet\n}\n").unwrap();
    let change = add(Client::Vscode, RegistrationScope::Project);
    assert!(change.diff().iter().any(|line| line.starts_with("+ ") && line.contains("salve")));
    let RegistrationDone::Changed(Some(copy)) = change.apply().unwrap() else { panic!("no copy") };
    assert_eq!(fs::read_to_string(copy).unwrap(), "{\n  // none yet\n}\n");
    assert!(fs::read_to_string(&file).unwrap().contains("// none yet"));
}

#[test]
fn a_malformed_file_is_named_and_untouched() {
    let dir = tempfile::tempdir().unwrap();
    let places = places(dir.path());
    fs::create_dir_all(&places.project).unwrap();
    let file = places.project.join(".mcp.json");
    fs::write(&file, "{ \"mcpServers\": [").unwrap();
    let error = plan(Client::Claude, RegistrationScope::Project, &places, Wish::Add).unwrap_err();
    assert!(error.to_string().contains(".mcp.json: "), "{error}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "{ \"mcpServers\": [");
}

#[test]
fn a_link_to_the_file_stays_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let places = places(dir.path());
    fs::create_dir_all(dir.path().join("home/.codex")).unwrap();
    let (real, link) =
        (dir.path().join("dotfiles.toml"), dir.path().join("home/.codex/config.toml"));
    fs::write(&real, "model = \"x\"\n").unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    plan(Client::Codex, RegistrationScope::User, &places, Wish::Add).unwrap().apply().unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&real).unwrap().contains("[mcp_servers.salve]"));
}

/// Any JSON with comments and blanks in many places.
fn jsonc() -> impl Strategy<Value = String> {
    let space = prop::sample::select(vec!["", " ", "\n", "\n  ", " /* c */ ", " // d\n", "\t"]);
    let leaf = prop::sample::select(vec!["1", "\"é\\n\"", "true", "null", "[1, 2]", "{}", "[ ]"]);
    let names = prop::sample::subsequence(vec!["a", "mcpServers", "b", "servers"], 0..4);
    (names, prop::collection::vec((space.clone(), space, leaf), 4)).prop_map(|(names, parts)| {
        let property = |(name, (before, after, leaf)): (&&str, &(&str, &str, &str))| {
            let value = if *name == "mcpServers" { "{ \"x\": {} }" } else { leaf };
            format!("{before}\"{name}\":{after}{value}{before}")
        };
        let properties: Vec<_> = names.iter().zip(&parts).map(property).collect();
        format!("{}{{{}{}}}{}", parts[3].0, properties.join(","), parts[3].1, parts[2].1)
    })
}

/// Returns whether all of `part` stands in `whole`, in this order.
fn is_within(part: &str, whole: &str) -> bool {
    let mut rest = whole.chars();
    part.chars().filter(|c| !c.is_whitespace()).all(|wanted| rest.any(|found| found == wanted))
}

proptest! {
    #[test]
    fn adding_loses_nothing_of_any_file(text in jsonc()) {
        let Ok(new) = edit(CLAUDE, &text, Wish::Add) else { return Ok(()) };
        prop_assert!(is_within(&text, &new), "{new}");
        let value = |text: &str| -> serde_json::Value {
            let options = jsonc_parser::ParseOptions::default();
            let root = jsonc_parser::cst::CstRootNode::parse(text, &options).unwrap();
            root.to_serde_value().unwrap()
        };
        let (old, mut with) = (value(&text), value(&new));
        with["mcpServers"].as_object_mut().unwrap().remove("salve").unwrap();
        if old.get("mcpServers").is_none() {
            with.as_object_mut().unwrap().remove("mcpServers");
        }
        prop_assert_eq!(old, with);
        prop_assert_eq!(edit(CLAUDE, &new, Wish::Add).unwrap(), new);
    }

    #[test]
    fn no_text_is_too_strange(text in "\\PC{0,60}") {
        let _ = edit(CLAUDE, &text, Wish::Add);
        let _ = edit(ClientFileShape::Toml, &text, Wish::Add);
    }
}

#[test]
fn where_a_variable_leads_a_client_elsewhere_its_file_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let read = |name: &str| Some(at(&name.to_lowercase()).into_os_string());
    let places = Places { homes: ClientHomes::by(read), ..places(dir.path()) };
    let file = |client: Client, scope| client.file(scope, &places).unwrap();
    for (client, want) in [
        (Client::Claude, "claude_config_dir/.claude.json"),
        (Client::Codex, "codex_home/config.toml"),
        (Client::Gemini, "gemini_cli_home/.gemini/settings.json"),
        (Client::Opencode, "xdg_config_home/opencode/opencode.json"),
    ] {
        assert_eq!(file(client, RegistrationScope::User), at(want));
        assert!(file(client, RegistrationScope::Project).starts_with(at("project")));
    }
}

#[test]
fn nothing_is_left_behind_and_a_program_out_of_the_way_is_named_by_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let places = Places { program: "/opt/s/salve".to_owned(), ..places(dir.path()) };
    for client in [Client::Claude, Client::Codex, Client::Opencode, Client::Vscode] {
        let file = client.file(RegistrationScope::Project, &places).unwrap();
        plan(client, RegistrationScope::Project, &places, Wish::Add).unwrap().apply().unwrap();
        assert!(fs::read_to_string(&file).unwrap().contains("/opt/s/salve"), "{client:?}");
        let done = plan(client, RegistrationScope::Project, &places, Wish::Remove)
            .unwrap()
            .apply()
            .unwrap();
        assert!(matches!(done, RegistrationDone::Removed(_)), "{client:?}: {done:?}");
        assert!(!file.exists(), "{client:?}");
    }
    let own = "{\n  \"theme\": \"dark\"\n}\n";
    let file = Client::Opencode.file(RegistrationScope::Project, &places).unwrap();
    fs::write(&file, own).unwrap();
    for wish in [Wish::Add, Wish::Remove] {
        plan(Client::Opencode, RegistrationScope::Project, &places, wish).unwrap().apply().unwrap();
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), own);
}
