//! Puts the layers together: defaults, user, project, environment, flags.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use salve_core::event::Digest;
use salve_core::fingerprint::FingerprintRules;
use salve_core::gate::GatePolicy;
use salve_core::scrub::{ScrubKey, Scrubber};

use super::check::check;
use super::parse;
use super::problem::ConfigProblem;
use super::read::{self, SettingsReadError};
use super::schema::schema;
use super::settings::Settings;
use super::tree::{Layer, SettingNode, SettingsText};
use super::valid::{self, Valid};
use super::words::{self, Environment};
use crate::dirs;
use crate::project::Project;

/// The shipped file that holds every default.
pub const DEFAULTS: &str = include_str!("../../data/defaults.toml");

static DEFAULT_TREE: LazyLock<Result<SettingNode, Vec<ConfigProblem>>> =
    LazyLock::new(|| parse::toml(&SettingsText::new(Layer::Default, "default", DEFAULTS)));

pub fn defaults() -> Result<SettingNode, LoadError> {
    DEFAULT_TREE.clone().map_err(LoadError::Invalid)
}

/// Where the settings of one run come from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The project's directory, where there is one.
    pub project: Option<PathBuf>,
    /// The user's own file, which need not exist.
    pub user: Option<PathBuf>,
    pub environment: Environment,
    /// Settings given on the command line as `KEY=VALUE`.
    pub flags: Vec<String>,
}

impl Sources {
    /// Takes the user's file and the environment of this process.
    pub fn of_process(project: Option<&Project>, flags: &[String]) -> Self {
        Self {
            project: project.map(|project| project.root().to_owned()),
            user: user_file(),
            environment: Environment::of_process(),
            flags: flags.to_vec(),
        }
    }
}

/// Returns the path of the user's own settings.
fn user_file() -> Option<PathBuf> {
    Some(dirs::config()?.join("config.toml"))
}

/// Why the settings could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file could not be read.
    #[error(transparent)]
    Read(#[from] SettingsReadError),
    /// There are two files where one is meant.
    #[error("both salve.toml and salve.json are in {}", dir.display())]
    Both {
        /// The project's directory.
        dir: PathBuf,
    },
    /// Settings are wrong; all that was found is listed.
    #[error("{}", list(.0))]
    Invalid(Vec<ConfigProblem>),
}

impl LoadError {
    /// Returns what is wrong, one by one.
    pub fn problems(&self) -> Vec<ConfigProblem> {
        match self {
            LoadError::Invalid(problems) => problems.clone(),
            LoadError::Read(_) | LoadError::Both { .. } => {
                vec![ConfigProblem { origin: None, key: None, message: self.to_string() }]
            }
        }
    }

    /// Returns what the user can do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            LoadError::Read(SettingsReadError::Outside { .. }) => {
                "put a copy of it here, or what you share between projects into the user's settings"
            }
            LoadError::Read(_) => "look at the file, or move it away",
            LoadError::Both { .. } => "keep one of the two",
            LoadError::Invalid(_) => "`salve config schema` describes every setting",
        }
    }
}

fn list(problems: &[ConfigProblem]) -> String {
    match problems {
        [one] => one.to_string(),
        several => {
            let lines = several.iter().map(|problem| format!("\n    {problem}"));
            format!("{} things are wrong:{}", several.len(), lines.collect::<String>())
        }
    }
}

/// Settings in force, and where each of them comes from.
#[derive(Clone, Debug)]
pub struct Config {
    pub settings: Settings,
    /// All layers, merged.
    pub tree: SettingNode,
    /// The defaults and the files, merged: what anyone who can write here can change.
    pub files: SettingNode,
    /// The hash of the files' exact contents.
    pub content: Digest,
    /// What the gate goes by, made from the recovery section.
    pub policy: GatePolicy,
    /// Variables that look misspelt.
    odd: Vec<ConfigProblem>,
    /// The fingerprint rules, if the user has any of their own.
    fingerprints: Option<Arc<FingerprintRules>>,
}

impl Config {
    /// Returns what is not wrong but probably not meant: variables that set nothing, and rules of
    /// the gate that cannot match or that contradict each other.
    ///
    /// Comparing rules takes longer than loading them, so it is done when someone wants to know.
    pub fn warnings(&self) -> Vec<ConfigProblem> {
        // These marks are shown and never kept or compared, so any key serves.
        let scrubber = Scrubber::new(ScrubKey::new([0; 32]));
        let remarks = valid::remarks(&self.policy, &self.tree, &scrubber);
        self.odd.iter().cloned().chain(remarks).collect()
    }

    /// Returns the rules by which failures are recognised: the user's own and the built-in ones.
    pub fn fingerprint_rules(&self) -> &FingerprintRules {
        self.fingerprints.as_deref().unwrap_or_else(|| FingerprintRules::built_in())
    }
}

/// Loads the settings from all their sources.
pub fn load(sources: &Sources) -> Result<Config, LoadError> {
    let mut texts = Vec::new();
    if let Some(path) = &sources.user
        && let Some(text) = read::read(path, None)?
    {
        texts.push(Text { layer: Layer::User, path: path.clone(), shown: shown(path), text });
    }
    if let Some(dir) = &sources.project {
        texts.extend(project_text(dir)?);
    }
    assemble(&texts, sources)
}

/// Checks one file on its own, over the defaults.
pub fn load_file(path: &Path, text: String) -> Result<Config, LoadError> {
    let text = Text { layer: Layer::Project, path: path.to_owned(), shown: shown(path), text };
    assemble(&[text], &Sources::default())
}

/// A settings file as read.
struct Text {
    layer: Layer,
    path: PathBuf,
    shown: String,
    text: String,
}

fn project_text(dir: &Path) -> Result<Option<Text>, LoadError> {
    let one = |name: &str| -> Result<Option<Text>, SettingsReadError> {
        let path = dir.join(name);
        let text = read::read(&path, Some(dir))?;
        let shown = name.to_owned();
        Ok(text.map(|text| Text { layer: Layer::Project, path, shown, text }))
    };
    match (one("salve.toml")?, one("salve.json")?) {
        (Some(_), Some(_)) => Err(LoadError::Both { dir: dir.to_owned() }),
        (one, other) => Ok(one.or(other)),
    }
}

fn assemble(texts: &[Text], sources: &Sources) -> Result<Config, LoadError> {
    let mut files = defaults()?;
    let mut problems = Vec::new();
    for text in texts {
        match text.parse() {
            Ok(layer) => files.overlay(layer),
            Err(found) => problems.extend(found),
        }
    }
    // What is wrong in the environment is told together with what is wrong in the files.
    match (problems.is_empty(), finish(files, hash(texts), sources)) {
        (true, finished) => finished,
        (false, Ok(_)) => Err(LoadError::Invalid(problems)),
        (false, Err(error)) => {
            problems.extend(error.problems());
            Err(LoadError::Invalid(problems))
        }
    }
}

/// Lays the environment and the flags over the files' settings and makes them typed.
pub(super) fn finish(
    files: SettingNode,
    content: Digest,
    sources: &Sources,
) -> Result<Config, LoadError> {
    let mut tree = files.clone();
    let (mut odd, mut problems) = (Vec::new(), Vec::new());
    let nothing = SettingNode::empty(tree.origin.clone());
    let environment = sources.environment.layer(nothing.clone()).and_then(|(layer, misspelt)| {
        odd = misspelt;
        checked(layer)
    });
    let flags = words::flags(&sources.flags, nothing).and_then(checked);
    for layer in [environment, flags] {
        match layer {
            Ok(layer) => tree.overlay(layer),
            Err(found) => problems.extend(found),
        }
    }
    if !problems.is_empty() {
        return Err(LoadError::Invalid(problems));
    }
    let Valid { settings, policy, fingerprints } =
        valid::settings(&tree).map_err(LoadError::Invalid)?;
    Ok(Config { settings, policy, tree, files, content, odd, fingerprints })
}

impl Text {
    fn is_json(&self) -> bool {
        self.path.extension().is_some_and(|ext| ext.eq_ignore_ascii_case("json"))
    }

    fn parse(&self) -> Result<SettingNode, Vec<ConfigProblem>> {
        let file = SettingsText::new(self.layer, &self.shown, &self.text);
        let mut node = if self.is_json() { parse::json(&file)? } else { parse::toml(&file)? };
        let problems = check(schema(), &node, "");
        node.remove("$schema");
        if problems.is_empty() { Ok(node) } else { Err(problems) }
    }
}

fn checked(layer: SettingNode) -> Result<SettingNode, Vec<ConfigProblem>> {
    let problems = check(schema(), &layer, "");
    if problems.is_empty() { Ok(layer) } else { Err(problems) }
}

fn hash(texts: &[Text]) -> Digest {
    // The layer and the format tell the same bytes in another place apart.
    let kind = |text: &Text| [text.layer as u8, u8::from(text.is_json())];
    let kinds: Vec<_> = texts.iter().map(kind).collect();
    let parts = texts.iter().zip(&kinds);
    let parts: Vec<&[u8]> =
        parts.flat_map(|(text, kind)| [kind.as_slice(), text.text.as_bytes()]).collect();
    Digest::of(&parts)
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
