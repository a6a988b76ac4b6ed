//! The settings in force, each with where it comes from, the rules, and what waits for a person.

use jiff::Timestamp;
use salve_core::earned::EarningTerms;
use salve_core::event::Digest;
use salve_core::scrub::Scrubbed;
use schemars::JsonSchema;
use serde::Serialize;

use super::{JsonObject, ProjectReader, ViewError};
use crate::config::{self, Config, LiveSettings, Reload, SettingRow, setting_rows};
use crate::heal::rule_list::{RuleListRow, RuleState, written_rules};

/// The settings as they are shown.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::web) struct SettingsView {
    /// Every setting.
    #[schemars(with = "Vec<JsonObject>")]
    pub(in crate::web) settings: Vec<SettingRow>,
    /// What may run unattended, what asks, and what was earned.
    #[schemars(with = "Vec<JsonObject>")]
    pub(in crate::web) rules: Vec<RuleListRow>,
    /// A change that waits for a person.
    pub(in crate::web) waiting: Option<WaitingSettings>,
    /// What is odd about the settings.
    pub(in crate::web) warnings: Vec<String>,
}

/// A change of the settings that would widen what runs unattended.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::web) struct WaitingSettings {
    /// The hash of what waits.
    #[schemars(with = "String")]
    pub(in crate::web) digest: Digest,
    /// What accepting it would change.
    #[schemars(with = "Vec<String>")]
    pub(in crate::web) changes: Vec<Scrubbed>,
}

/// Reads the settings and rules, and accepts a change of them.
#[derive(Debug)]
pub(in crate::web) struct ConfigReader<'r> {
    reader: &'r mut ProjectReader,
}

impl<'r> ConfigReader<'r> {
    pub(super) fn new(reader: &'r mut ProjectReader) -> Self {
        Self { reader }
    }

    /// Returns the settings in force: a change that waits for a person does not count yet.
    pub(in crate::web) fn config(&mut self) -> Result<Config, ViewError> {
        let (sources, scrubber) =
            (self.reader.watched.sources.clone(), self.reader.scrubber().clone());
        let wrong = |error: &dyn std::fmt::Display| ViewError::Settings(error.to_string());
        match self.reader.store()? {
            Some(store) => match config::in_force(store.journal(), &sources, &scrubber) {
                Ok((config, _)) => Ok(config),
                Err(error) => Err(wrong(&error)),
            },
            None => config::load(&sources).map_err(|error| wrong(&error)),
        }
    }

    /// Returns the settings as they are shown.
    pub(in crate::web) fn view(&mut self) -> Result<SettingsView, ViewError> {
        let config = self.config()?;
        let scrubber = self.reader.scrubber().clone();
        let mut rules = written_rules(&config, &scrubber);
        rules.extend(self.earned_rules(&config)?);
        Ok(SettingsView {
            settings: setting_rows(&config, &scrubber),
            rules,
            waiting: self.waiting()?,
            warnings: config.warnings().iter().map(ToString::to_string).collect(),
        })
    }

    /// Returns the rules that commands have earned or are about to.
    fn earned_rules(&mut self, config: &Config) -> Result<Vec<RuleListRow>, ViewError> {
        let terms = EarningTerms::from(&config.settings.earned);
        let now = Timestamp::now();
        self.reader.store()?;
        let ProjectReader { store: Some(store), earned, .. } = &mut *self.reader else {
            return Ok(Vec::new());
        };
        let earned = earned.catch_up(store.journal())?;
        Ok(earned.rules().map(|rule| RuleListRow::of_earned(rule, terms, now)).collect())
    }

    /// Returns the approvals that a person could make last.
    pub(in crate::web) fn proposed_rules(&mut self) -> Result<Vec<RuleListRow>, ViewError> {
        // Who has wrong settings is told so on their page; nothing is earned by them.
        let Ok(config) = self.config() else { return Ok(Vec::new()) };
        let mut rules = self.earned_rules(&config)?;
        rules.retain(|rule| rule.state == RuleState::Proposed);
        Ok(rules)
    }

    /// Returns the change of the settings that waits for a person, if one does.
    pub(in crate::web) fn waiting(&mut self) -> Result<Option<WaitingSettings>, ViewError> {
        let (sources, scrubber) =
            (self.reader.watched.sources.clone(), self.reader.scrubber().clone());
        let Some(store) = self.reader.store()? else { return Ok(None) };
        let Ok((config, Some(digest))) = config::in_force(store.journal(), &sources, &scrubber)
        else {
            return Ok(None);
        };
        let Ok(wanted) = config::load(&sources) else { return Ok(None) };
        let changes = config::changes(&config, &wanted, &scrubber);
        Ok(Some(WaitingSettings { digest, changes }))
    }

    /// Accepts the change that waits, if it is exactly this one.
    pub(in crate::web) fn accept(
        &mut self,
        digest: Digest,
        person: Scrubbed,
    ) -> Result<Vec<Scrubbed>, ViewError> {
        let (sources, scrubber) =
            (self.reader.watched.sources.clone(), self.reader.scrubber().clone());
        let wrong = |error: &dyn std::fmt::Display| ViewError::Settings(error.to_string());
        let nothing = || ViewError::Settings("no change of the settings waits".to_owned());
        let Some(store) = self.reader.store()? else { return Err(nothing()) };
        let now = Timestamp::now();
        let mut live = LiveSettings::open(store.journal(), sources, scrubber, now)
            .map_err(|error| wrong(&error))?;
        match live.accept(digest, person, now).map_err(|error| wrong(&error))? {
            Reload::Changed(changes) => Ok(changes),
            Reload::Unchanged | Reload::Waiting { .. } | Reload::Rejected(_) => Ok(Vec::new()),
        }
    }
}
