//! What a program heals its tools with.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use jiff::Timestamp;
use salve_core::tool::inside::InsideSettings;
use salve_core::tool::rule::ToolFix;

use crate::command;
use crate::flight::{Flight, FlightOutcome, WantedFix};

type HelpFunction = Box<dyn Fn(&BTreeMap<String, String>) -> Result<(), String> + Send + Sync>;
type HealObserver = Box<dyn Fn(&HealNote) + Send + Sync>;

static INSTALLED: OnceLock<AutoHeal> = OnceLock::new();

/// What failed calls of this program's tools are healed with.
pub struct AutoHeal {
    settings: InsideSettings,
    functions: BTreeMap<String, HelpFunction>,
    flight: Flight,
    observer: HealObserver,
}

/// What came of a call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealNote {
    pub tool: String,
    /// What was done, in words.
    pub done: Vec<String>,
    /// Whether the call worked in the end.
    pub is_healed: bool,
    /// Why nothing more was done, where there is a reason.
    pub reason: Option<String>,
}

impl std::fmt::Display for HealNote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (tool, done) = (&self.tool, self.done.join(", "));
        match (&self.reason, done.is_empty()) {
            _ if self.is_healed => write!(f, "salve: {tool}: {done} and called again: healed"),
            (Some(reason), _) => write!(f, "salve: {tool}: {reason}"),
            (None, true) => write!(f, "salve: {tool}: nothing is known that helps"),
            (None, false) => write!(f, "salve: {tool}: {done}, which did not help"),
        }
    }
}

/// The settings cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError(String);

impl std::fmt::Display for SettingsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "wrong settings: {}", self.0)
    }
}

impl std::error::Error for SettingsError {}

/// Something is installed already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadyInstalled;

impl std::fmt::Display for AlreadyInstalled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("calls are healed already: install before the first call, and once")
    }
}

impl std::error::Error for AlreadyInstalled {}

impl std::fmt::Debug for AutoHeal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let functions: Vec<&String> = self.functions.keys().collect();
        f.debug_struct("AutoHeal")
            .field("settings", &self.settings)
            .field("functions", &functions)
            .finish_non_exhaustive()
    }
}

impl Default for AutoHeal {
    fn default() -> Self {
        Self::new()
    }
}

impl AutoHeal {
    /// Heals with what is added by the other functions.
    pub fn new() -> Self {
        Self::of_settings(InsideSettings::default())
    }

    /// Heals by settings: JSON or TOML with the sections `auto_heal` and `tools`.
    ///
    /// # Errors
    ///
    /// What is wrong with them.
    pub fn from_settings(text: &str) -> Result<Self, SettingsError> {
        InsideSettings::parse(text).map(Self::of_settings).map_err(SettingsError)
    }

    /// Heals by the user's own settings, `~/.config/salve/config.toml`; by none where there are none.
    ///
    /// # Errors
    ///
    /// What is wrong with them.
    pub fn from_user_settings() -> Result<Self, SettingsError> {
        let file = base("XDG_CONFIG_HOME", ".config").map(|dir| dir.join("config.toml"));
        match file.and_then(|file| std::fs::read_to_string(file).ok()) {
            Some(text) => Self::from_settings(&text),
            None => Ok(Self::new()),
        }
    }

    fn of_settings(settings: InsideSettings) -> Self {
        let data = base("XDG_DATA_HOME", ".local/share").unwrap_or_else(std::env::temp_dir);
        Self {
            settings,
            functions: BTreeMap::new(),
            flight: Flight::new(data.join("fixes")),
            observer: Box::new(|note| {
                // A closed stream changes nothing about the call.
                let _ = writeln!(std::io::stderr(), "{note}");
            }),
        }
    }

    /// Adds a function that helps: `vpn_connect` and `kube_login` are used as the tools spec says,
    /// others by rules with `call`.
    #[must_use]
    pub fn function(
        mut self,
        name: &str,
        help: impl Fn(&BTreeMap<String, String>) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.functions.insert(name.to_owned(), Box::new(help));
        self
    }

    /// Tells `observer` what came of calls that failed, instead of writing it to the error output.
    #[must_use]
    pub fn observer(mut self, observer: impl Fn(&HealNote) + Send + Sync + 'static) -> Self {
        self.observer = Box::new(observer);
        self
    }

    /// Keeps what is known of fixes in `dir`. Programs that share it do each fix once.
    #[must_use]
    pub fn fixes_in(mut self, dir: &Path) -> Self {
        self.flight = Flight::new(dir.to_owned());
        self
    }

    /// Heals the tools of this program from now on.
    ///
    /// # Errors
    ///
    /// When something is installed already, or a call has failed before.
    pub fn install(self) -> Result<(), AlreadyInstalled> {
        INSTALLED.set(self).map_err(|_| AlreadyInstalled)
    }

    /// Returns what is installed; the user's settings if nothing is.
    pub(crate) fn installed() -> &'static Self {
        INSTALLED.get_or_init(|| {
            Self::from_user_settings().unwrap_or_else(|error| {
                let _ = writeln!(std::io::stderr(), "salve: {error}; calls are not healed");
                Self::new()
            })
        })
    }

    pub(crate) fn settings(&self) -> &InsideSettings {
        &self.settings
    }

    pub(crate) fn has_function(&self, name: &str) -> bool {
        self.functions.contains_key(name)
    }

    pub(crate) fn tell(&self, note: &HealNote) {
        (self.observer)(note);
    }

    /// Carries out a fix for a call that began at `began`, once for all who need it.
    pub(crate) fn carry_out(&self, fix: &ToolFix, began: Timestamp) -> Result<(), String> {
        if let ToolFix::Wait { seconds } = fix {
            std::thread::sleep(Duration::from_secs(*seconds));
            return Ok(());
        }
        let writes: Vec<PathBuf> = match fix {
            ToolFix::Run { writes, .. } => {
                writes.iter().map(|path| command::home(path).into()).collect()
            }
            ToolFix::ConnectVpn { .. }
            | ToolFix::Call { .. }
            | ToolFix::Restart
            | ToolFix::Wait { .. } => Vec::new(),
        };
        let wanted = WantedFix { cause: &fix.cause(), began, writes: &writes };
        let outcome = self.flight.fix(&wanted, || self.act(fix));
        match outcome.map_err(|error| format!("the fix could not be begun: {error}"))? {
            FlightOutcome::Done => Ok(()),
            FlightOutcome::Failed(why) => Err(why),
            FlightOutcome::Useless => {
                Err("it was done a short while ago and did not help: a person has to look"
                    .to_owned())
            }
        }
    }

    fn act(&self, fix: &ToolFix) -> Result<(), String> {
        match fix {
            ToolFix::Run { command, cluster, .. } => {
                let named = cluster.as_ref().and_then(|name| self.settings.clusters.get(name));
                command::run(command, named.map(String::as_str))
            }
            ToolFix::ConnectVpn { script } => command::run(&command::home(script), None),
            ToolFix::Call { tool, arguments } => match self.functions.get(tool) {
                Some(help) => help(&arguments.iter().cloned().collect()),
                None => Err(format!("there is no function {tool}")),
            },
            ToolFix::Restart => Err("a tool cannot start its own server again".to_owned()),
            ToolFix::Wait { .. } => Ok(()),
        }
    }

    /// Notes whether a call worked after a fix.
    pub(crate) fn judge(&self, fix: &ToolFix, helped: bool) {
        if !matches!(fix, ToolFix::Wait { .. }) {
            // What cannot be noted costs one more fix.
            let _ = self.flight.judge(&fix.cause(), helped);
        }
    }
}

/// Returns one of the user's directories for Salve.
fn base(variable: &str, default: &str) -> Option<PathBuf> {
    let given = std::env::var_os(variable).map(PathBuf::from).filter(|dir| dir.is_absolute());
    let dir = given.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(default)))?;
    Some(dir.join("salve"))
}
