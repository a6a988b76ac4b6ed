//! What is wrong with a setting: where, what was expected, and the nearest right name.

use std::fmt;

use super::tree::ValueOrigin;

/// One thing wrong with the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    /// Where it was written, if it was written at all.
    pub origin: Option<ValueOrigin>,
    /// The setting's dotted name, if it is about one.
    pub key: Option<String>,
    /// What is wrong and what was expected; never the value itself, which may be a secret.
    pub message: String,
}

impl ConfigProblem {
    /// Makes a problem with a setting written at `origin`.
    pub fn at(origin: &ValueOrigin, key: &str, message: impl Into<String>) -> Self {
        let key = (!key.is_empty()).then(|| key.to_owned());
        Self { origin: Some(origin.clone()), key, message: message.into() }
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(origin) = &self.origin {
            write!(f, "{origin}: ")?;
        }
        if let Some(key) = &self.key {
            write!(f, "{key}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// Returns the known name nearest to `name`, if any is near enough to be meant.
pub(super) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A name of any length may stand in a hostile file; comparing is quadratic.
    if name.len() > 80 {
        return None;
    }
    let known: Vec<_> = known.into_iter().collect();
    let distance = |known: &str| strsim::damerau_levenshtein(name, known);
    let near = |known: &&&str| distance(known) <= 1 + known.len().max(name.len()) / 4;
    let nearest = || known.iter().min_by_key(|known| distance(known)).filter(near);
    // Leaving out the end of a long name is as common as a slip of the finger.
    let begun = known.iter().find(|known| name.len() >= 4 && known.starts_with(name));
    begun.or_else(nearest).copied()
}

/// Returns a name fit for a message: on one line, without control characters, not too long.
pub(super) fn shown(name: &str) -> String {
    let mut text: String = name.chars().take(60).flat_map(char::escape_debug).collect();
    if name.chars().nth(60).is_some() {
        text.push('…');
    }
    text
}
