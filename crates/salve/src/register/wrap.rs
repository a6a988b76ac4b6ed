//! Puts the servers that a client already has behind `salve proxy`, and takes them out again.
//!
//! What a file was before is kept beside the user's data, so that taking the proxy out gives back the
//! very bytes; in a file that was edited since, only the entries are changed back.

use std::fs;
use std::path::{Path, PathBuf};

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use toml_edit::{Array, DocumentMut, Item, TableLike, Value, value};

use super::edit::{ClientFileShape, TOML_LIST, toml_mistake};
use super::{Client, NAME, Places, RegisterError, RegistrationPlan, RegistrationScope};
use crate::atomic::{self, WriteError};
use crate::files::{FileKind, read_bytes};

/// The words before a wrapped server's own.
const PROXY: [&str; 3] = ["proxy", "--name", "--"];
const SALVE: &str = "salve";

/// Whether servers are put behind the proxy or taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrapping {
    /// Behind it.
    Wrap,
    /// Out again.
    Unwrap,
}

/// How a client reaches one of its servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reached {
    /// Through `salve proxy`.
    Wrapped,
    /// By its own command.
    Direct,
    /// By an address, which this proxy does not stand before.
    Remote,
    /// It is Salve itself.
    Salve,
}

/// One server of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedServer {
    /// Its name in the client's file.
    pub name: String,
    /// How the client reaches it.
    pub reached: Reached,
}

/// A server's command in a client's file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Words {
    command: String,
    args: Vec<String>,
}

impl Words {
    fn is_wrapped(&self) -> bool {
        let program = self.command.rsplit('/').next().unwrap_or_default();
        let is_proxy = self.args.first().is_some_and(|word| word == PROXY[0]);
        program == SALVE && is_proxy && self.args.iter().any(|word| word == PROXY[2])
    }

    fn reached(&self, name: &str) -> Reached {
        if self.is_wrapped() {
            Reached::Wrapped
        } else if name == NAME {
            Reached::Salve
        } else {
            Reached::Direct
        }
    }

    /// Returns how many words the proxy put before the server's own.
    fn own_from(&self) -> usize {
        self.args.iter().position(|word| word == PROXY[2]).map_or(0, |at| at + 1)
    }
}

/// What a file was before its servers were wrapped.
#[derive(Debug, Serialize, Deserialize)]
struct Before {
    version: u32,
    /// The text.
    original: String,
    /// The digest of the text that Salve made of it.
    wrapped: String,
}

/// Returns the servers of a client, and how it reaches each.
pub fn list(
    client: Client,
    scope: RegistrationScope,
    places: &Places,
) -> Result<Vec<ListedServer>, RegisterError> {
    let file = ClientFile::read(client, scope, places)?;
    let mut servers = Vec::new();
    file.edit(&mut |name, words| {
        let reached = words.map_or(Reached::Remote, |words| words.reached(name));
        servers.push(ListedServer { name: name.to_owned(), reached });
        None
    })?;
    Ok(servers)
}

/// Returns how a client's file has to change for `named` servers, or all if none is named; nothing
/// is written.
pub fn plan_wrapping(
    client: Client,
    scope: RegistrationScope,
    places: &Places,
    wish: Wrapping,
    named: &[String],
) -> Result<WrapPlan, RegisterError> {
    let file = ClientFile::read(client, scope, places)?;
    let is_meant = |name: &str| named.is_empty() || named.iter().any(|one| one == name);
    let edited = file.edit(&mut |name, words| {
        let words = words.filter(|_| is_meant(name))?;
        match (wish, words.reached(name)) {
            (Wrapping::Wrap, Reached::Direct) => Some(Rewording::Wrap),
            (Wrapping::Unwrap, Reached::Wrapped) => Some(Rewording::Unwrap),
            (Wrapping::Wrap | Wrapping::Unwrap, _) => None,
        }
    })?;
    let kept = places.backups.as_ref().map(|dir| dir.join("wrapped"));
    let plan = RegistrationPlan {
        path: file.path.clone(),
        old: file.text.clone(),
        new: edited,
        backups: places.backups.clone(),
    };
    let record = kept.map(|dir| dir.join(format!("{}.json", plan.copy_name())));
    let before = record.as_ref().and_then(|path| read_before(path));
    let old = file.text.as_deref().unwrap_or_default();
    // Only a file that nobody has touched since is given back as a whole.
    let known = before.filter(|before| before.wrapped == digest(old));
    let is_all = wish == Wrapping::Unwrap && named.is_empty();
    let new = match &known {
        Some(before) if is_all => before.original.clone(),
        Some(_) | None => plan.new.clone(),
    };
    let original = known.map_or_else(|| old.to_owned(), |before| before.original);
    Ok(WrapPlan { plan: RegistrationPlan { new, ..plan }, record, original })
}

/// A change of a client's file, and what is kept so that it can be taken back.
#[derive(Clone, Debug)]
pub struct WrapPlan {
    /// The change.
    pub plan: RegistrationPlan,
    record: Option<PathBuf>,
    original: String,
}

impl WrapPlan {
    /// Keeps what the file was; must be done before it is changed.
    pub fn keep_original(&self) -> Result<(), RegisterError> {
        let Some(path) = self.record.as_ref().filter(|_| !self.plan.is_done()) else {
            return Ok(());
        };
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).map_err(|error| WriteError::new(dir, error))?;
        }
        let original = self.original.clone();
        let before = Before { version: 1, original, wrapped: digest(&self.plan.new) };
        let text = serde_json::to_string(&before).unwrap_or_default();
        atomic::write(path, text).map_err(RegisterError::from)
    }
}

fn read_before(path: &Path) -> Option<Before> {
    serde_json::from_slice(&read_bytes(path, FileKind::Document).ok()?).ok()
}

fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is done to one server's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rewording {
    Wrap,
    Unwrap,
}

/// Looks at a server's name and command, if it has one, and says what becomes of it.
type ServerJudge<'j> = &'j mut dyn FnMut(&str, Option<&Words>) -> Option<Rewording>;

/// What a server's entry is to say.
#[derive(Clone, Copy, Debug)]
enum NewWords<'p> {
    /// That this program starts it.
    Wrap { program: &'p str },
    /// What it said.
    Unwrap,
}

/// Says what becomes of a server's entry.
type EntryJudge<'j, 'p> = &'j mut dyn FnMut(&str, Option<&Words>) -> Option<NewWords<'p>>;

/// A proxy before one server.
#[derive(Clone, Copy, Debug)]
struct ProxyBefore<'a> {
    program: &'a str,
    name: &'a str,
}

/// A client's file as it stands.
struct ClientFile {
    shape: ClientFileShape,
    path: PathBuf,
    text: Option<String>,
    /// What starts the proxy there.
    program: String,
}

impl ClientFile {
    fn read(
        client: Client,
        scope: RegistrationScope,
        places: &Places,
    ) -> Result<Self, RegisterError> {
        let path = client.file(scope, places)?;
        let path = path.canonicalize().unwrap_or(path);
        let text = super::read(&path)?;
        Ok(Self { shape: client.shape(), path, text, program: places.program_in(scope) })
    }

    fn edit(&self, judge: ServerJudge<'_>) -> Result<String, RegisterError> {
        let text = self.text.as_deref().unwrap_or_default();
        if text.trim().is_empty() {
            return Ok(text.to_owned());
        }
        let mut judged = |name: &str, words: Option<&Words>| {
            Some(match judge(name, words)? {
                Rewording::Wrap => NewWords::Wrap { program: &self.program },
                Rewording::Unwrap => NewWords::Unwrap,
            })
        };
        let edited = match self.shape {
            ClientFileShape::Json { list, .. } => edit_json(text, list, &SPLIT, &mut judged),
            ClientFileShape::Toml => edit_toml(text, &mut judged),
            ClientFileShape::Opencode => edit_json(text, "mcp", &JOINED, &mut judged),
        };
        edited.map_err(|why| RegisterError::Malformed { path: self.path.clone(), why })
    }
}

/// How an entry in JSON holds the words of its server's command.
struct JsonEntry {
    words: fn(&CstObject) -> Option<Words>,
    wrap: fn(&CstObject, ProxyBefore<'_>, &Words),
    unwrap: fn(&CstObject, &Words),
}

/// The program and its arguments are two members.
const SPLIT: JsonEntry = JsonEntry { words: json_words, wrap: wrap_json, unwrap: unwrap_json };
/// The program and its arguments are one list.
const JOINED: JsonEntry =
    JsonEntry { words: joined_words, wrap: wrap_joined, unwrap: unwrap_joined };

fn edit_json(
    text: &str,
    list: &str,
    how: &JsonEntry,
    judge: EntryJudge<'_, '_>,
) -> Result<String, String> {
    let (mark, body) = match text.strip_prefix('\u{feff}') {
        Some(body) => ("\u{feff}", body),
        None => ("", text),
    };
    let root = CstRootNode::parse(body, &ParseOptions::default()).map_err(|e| e.to_string())?;
    let object = root.object_value().ok_or("expected a JSON object")?;
    let Some(servers) = object.object_value(list) else { return Ok(text.to_owned()) };
    for property in servers.properties() {
        let Some(name) = property.decoded_name() else { continue };
        let Some(entry) = property.object_value() else { continue };
        let words = (how.words)(&entry);
        match (judge(&name, words.as_ref()), words) {
            (Some(NewWords::Wrap { program }), Some(words)) => {
                (how.wrap)(&entry, ProxyBefore { program, name: &name }, &words);
            }
            (Some(NewWords::Unwrap), Some(words)) => (how.unwrap)(&entry, &words),
            (Some(_), None) | (None, _) => {}
        }
    }
    Ok(format!("{mark}{root}"))
}

fn text(node: Option<jsonc_parser::cst::CstNode>) -> Option<String> {
    node?.as_string_lit()?.decoded_value().ok()
}

fn json_words(entry: &CstObject) -> Option<Words> {
    let command = text(entry.get("command")?.value())?;
    let args = match entry.get("args") {
        Some(args) => args.array_value()?.elements(),
        None => Vec::new(),
    };
    let args = args.into_iter().map(|word| text(Some(word))).collect::<Option<_>>()?;
    Some(Words { command, args })
}

fn wrap_json(entry: &CstObject, proxy: ProxyBefore<'_>, words: &Words) {
    let args = entry.array_value_or_set("args");
    let before = [PROXY[0], PROXY[1], proxy.name, PROXY[2], &words.command];
    for (at, word) in before.into_iter().enumerate() {
        args.insert(at, word.into());
    }
    if let Some(command) = entry.get("command") {
        command.set_value(CstInputValue::String(proxy.program.to_owned()));
    }
}

fn unwrap_json(entry: &CstObject, words: &Words) {
    let own = words.own_from();
    let Some(command) = words.args.get(own) else { return };
    if let Some(property) = entry.get("command") {
        property.set_value(CstInputValue::String(command.clone()));
    }
    if let Some(args) = entry.array_value("args") {
        args.elements().into_iter().take(own + 1).for_each(|word| word.remove());
    }
}

fn joined_words(entry: &CstObject) -> Option<Words> {
    let words = entry.array_value("command")?.elements().into_iter();
    let mut words = words.map(|word| text(Some(word))).collect::<Option<Vec<_>>>()?.into_iter();
    Some(Words { command: words.next()?, args: words.collect() })
}

fn wrap_joined(entry: &CstObject, proxy: ProxyBefore<'_>, _: &Words) {
    let Some(words) = entry.array_value("command") else { return };
    let before = [proxy.program, PROXY[0], PROXY[1], proxy.name, PROXY[2]];
    for (at, word) in before.into_iter().enumerate() {
        words.insert(at, word.into());
    }
}

fn unwrap_joined(entry: &CstObject, words: &Words) {
    if let Some(all) = entry.array_value("command") {
        all.elements().into_iter().take(words.own_from() + 1).for_each(|word| word.remove());
    }
}

fn edit_toml(text: &str, judge: EntryJudge<'_, '_>) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|error| toml_mistake(text, &error))?;
    let Some(servers) = document.get_mut(TOML_LIST).and_then(Item::as_table_like_mut) else {
        return Ok(text.to_owned());
    };
    for (name, item) in servers.iter_mut() {
        let Some(entry) = item.as_table_like_mut() else { continue };
        let words = toml_words(entry);
        match (judge(name.get(), words.as_ref()), words) {
            (Some(NewWords::Wrap { program }), Some(words)) => {
                let before = [PROXY[0], PROXY[1], name.get(), PROXY[2], &words.command];
                let all = before.into_iter().chain(words.args.iter().map(String::as_str));
                set_toml(entry, program, all.collect());
            }
            (Some(NewWords::Unwrap), Some(words)) => {
                let own = words.own_from();
                if let Some(command) = words.args.get(own) {
                    let args = words.args.iter().skip(own + 1).map(String::as_str).collect();
                    set_toml(entry, command, args);
                }
            }
            (Some(_), None) | (None, _) => {}
        }
    }
    Ok(document.to_string())
}

fn toml_words(entry: &dyn TableLike) -> Option<Words> {
    let command = entry.get("command")?.as_str()?.to_owned();
    let args = match entry.get("args") {
        Some(args) => args.as_array()?.iter().map(Value::as_str).collect::<Option<Vec<_>>>()?,
        None => Vec::new(),
    };
    Some(Words { command, args: args.into_iter().map(str::to_owned).collect() })
}

fn set_toml(entry: &mut dyn TableLike, command: &str, args: Array) {
    entry.insert("command", value(command));
    entry.insert("args", value(args));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(client: Client, text: &str) -> (tempfile::TempDir, Places, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().join("project");
        let places = Places {
            project: project.clone(),
            home: Some(dir.path().join("home")),
            backups: Some(dir.path().join("backups")),
            homes: crate::register::ClientHomes::default(),
            program: "salve".to_owned(),
        };
        let path = client.file(RegistrationScope::Project, &places).unwrap();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        (dir, places, path)
    }

    fn change(client: Client, places: &Places, wish: Wrapping, named: &[&str]) {
        let named: Vec<String> = named.iter().map(|name| (*name).to_owned()).collect();
        let plan = plan_wrapping(client, RegistrationScope::Project, places, wish, &named).unwrap();
        plan.keep_original().unwrap();
        plan.plan.apply().unwrap();
    }

    fn states(client: Client, places: &Places) -> Vec<(String, Reached)> {
        let listed = list(client, RegistrationScope::Project, places).unwrap();
        listed.into_iter().map(|server| (server.name, server.reached)).collect()
    }

    const JSON: &str = "{\n  // mine\n  \"mcpServers\": {\n    \"files\": { \"command\": \"npx\",\n       \
         \"args\": [\"-y\", \"server-files\" ,\n  \"/data\"], \"env\": {\"A\": \"1\"} },\n    \"bare\": \
         {\"command\": \"/opt/bare\"},\n    \"far\": {\"type\": \"http\", \"url\": \"https://x\"},\n    \
         \"salve\": {\"command\": \"salve\", \"args\": [\"mcp\"]},\n  },\n}\n";

    #[test]
    fn opencodes_servers_are_wrapped_in_their_one_list() {
        let text = "{\n  \"mcp\": {\n    // mine\n    \"files\": {\"type\": \"local\", \"command\": \
                    [\"npx\", \"-y\", \"f\"]},\n    \"far\": {\"type\": \"remote\", \"url\": \
                    \"https://x\"}\n  }\n}\n";
        let (_dir, places, path) = stage(Client::Opencode, text);
        change(Client::Opencode, &places, Wrapping::Wrap, &[]);
        let wrapped = fs::read_to_string(&path).unwrap();
        let words: String = wrapped.split_whitespace().collect();
        let want = r#"["salve","proxy","--name","files","--","npx","-y","f"]"#;
        assert!(words.contains(want), "{wrapped}");
        let states = states(Client::Opencode, &places);
        let want = [("files", Reached::Wrapped), ("far", Reached::Remote)];
        assert_eq!(states, want.map(|(name, how)| (name.to_owned(), how)));
        // In a file that was edited since, only the entries are changed back.
        fs::write(&path, wrapped.replace("// mine", "// yours")).unwrap();
        change(Client::Opencode, &places, Wrapping::Unwrap, &[]);
        let words: String = fs::read_to_string(&path).unwrap().split_whitespace().collect();
        assert!(words.contains(r#""command":["npx","-y","f"]"#), "{words}");
    }

    #[test]
    fn servers_are_wrapped_and_given_back_byte_for_byte() {
        for client in [Client::Claude, Client::Gemini, Client::Cursor] {
            let (_dir, places, path) = stage(client, JSON);
            change(client, &places, Wrapping::Wrap, &[]);
            let want = [
                ("files", Reached::Wrapped),
                ("bare", Reached::Wrapped),
                ("far", Reached::Remote),
                ("salve", Reached::Salve),
            ];
            assert_eq!(states(client, &places), want.map(|(name, how)| (name.to_owned(), how)));
            let text = fs::read_to_string(&path).unwrap();
            let words: String = text.split_whitespace().collect();
            let wrapped = r#"["proxy","--name","files","--","npx","-y","server-files","/data"]"#;
            assert!(words.contains(wrapped), "{text}");
            assert!(words.contains(r#"["proxy","--name","bare","--","/opt/bare"]"#), "{text}");
            assert!(text.contains("// mine") && text.contains("\"env\": {\"A\": \"1\"}"), "{text}");
            change(client, &places, Wrapping::Wrap, &[]);
            assert_eq!(fs::read_to_string(&path).unwrap(), text, "twice is once");
            change(client, &places, Wrapping::Unwrap, &[]);
            assert_eq!(fs::read_to_string(&path).unwrap(), JSON);
        }
    }

    #[test]
    fn one_after_the_other_comes_back_and_an_edited_file_keeps_its_edits() {
        let (_dir, places, path) = stage(Client::Claude, JSON);
        change(Client::Claude, &places, Wrapping::Wrap, &["bare"]);
        change(Client::Claude, &places, Wrapping::Wrap, &["files"]);
        change(Client::Claude, &places, Wrapping::Unwrap, &[]);
        assert_eq!(fs::read_to_string(&path).unwrap(), JSON);
        change(Client::Claude, &places, Wrapping::Wrap, &[]);
        let edited = fs::read_to_string(&path).unwrap().replace("// mine", "// ours");
        fs::write(&path, edited).unwrap();
        change(Client::Claude, &places, Wrapping::Unwrap, &[]);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("// ours") && !text.contains("proxy"), "{text}");
        let reached = states(Client::Claude, &places);
        assert_eq!(reached[0], ("files".to_owned(), Reached::Direct));
    }

    #[test]
    fn a_salve_that_no_shell_finds_by_its_name_is_named_by_its_path() {
        for (client, text) in [(Client::Claude, JSON), (Client::Codex, TOML)] {
            let (_dir, mut places, path) = stage(client, text);
            places.program = "/opt/s/salve".to_owned();
            change(client, &places, Wrapping::Wrap, &["files"]);
            let wrapped = fs::read_to_string(&path).unwrap();
            assert!(wrapped.contains("\"/opt/s/salve\""), "{wrapped}");
            assert_eq!(states(client, &places)[0], ("files".to_owned(), Reached::Wrapped));
            change(client, &places, Wrapping::Unwrap, &[]);
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    const TOML: &str = "model = \"x\" # kept\n\n[mcp_servers.files]\ncommand = \"npx\"\nargs = \
                        [\"-y\",  \"f\"]\n[mcp_servers.far]\nurl = \"https://x\"\n";

    #[test]
    fn codex_has_its_own_shape() {
        let (_dir, places, path) = stage(Client::Codex, TOML);
        change(Client::Codex, &places, Wrapping::Wrap, &[]);
        let text = fs::read_to_string(&path).unwrap();
        let args = r#"args = ["proxy", "--name", "files", "--", "npx", "-y", "f"]"#;
        assert!(text.contains(args) && text.contains("# kept"), "{text}");
        change(Client::Codex, &places, Wrapping::Unwrap, &[]);
        assert_eq!(fs::read_to_string(&path).unwrap(), TOML);
    }
}
