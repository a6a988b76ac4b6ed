//! A variable that a remedy sets for the rest of a run.

use std::borrow::Cow;

use crate::event::RunVariable;
use crate::scrub::Scrubber;

/// A variable that a subject gets when it is started the next time.
///
/// `$NAME` in its value stands for what the variable of that very name was before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetVariable {
    pub name: String,
    pub value: String,
}

impl SetVariable {
    /// Makes one.
    pub fn new(name: &str, value: &str) -> Self {
        Self { name: name.to_owned(), value: value.to_owned() }
    }

    /// Returns the value where the variable was `inherited` before.
    pub fn value_over(&self, inherited: &str) -> String {
        self.value.replace(&self.inherited_mark(), inherited).trim().to_owned()
    }

    /// Returns whether the value keeps what the variable was before.
    pub fn keeps_inherited(&self) -> bool {
        self.value.contains(&self.inherited_mark())
    }

    /// Returns the assignment as a person would type it.
    pub fn text(&self) -> String {
        let Self { name, value } = self;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@%+,~$".contains(c);
        let value: Cow<'_, str> =
            if value.chars().all(is_plain) { value.into() } else { format!("\"{value}\"").into() };
        format!("{name}={value}")
    }

    /// Returns it as the journal has it.
    pub fn scrubbed(&self, scrubber: &Scrubber) -> RunVariable {
        RunVariable { name: scrubber.scrub(&self.name), value: scrubber.scrub(&self.value) }
    }

    fn inherited_mark(&self) -> String {
        format!("${}", self.name)
    }
}

impl From<&RunVariable> for SetVariable {
    fn from(variable: &RunVariable) -> Self {
        Self::new(variable.name.as_str(), variable.value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_may_keep_what_the_variable_was() {
        let path = SetVariable::new("PATH", "/p/.venv/bin:$PATH");
        assert_eq!(path.value_over("/usr/bin"), "/p/.venv/bin:/usr/bin");
        assert_eq!(path.text(), "PATH=/p/.venv/bin:$PATH");
        let node = SetVariable::new("NODE_OPTIONS", "$NODE_OPTIONS --max-old-space-size=4096");
        assert_eq!(node.value_over(""), "--max-old-space-size=4096");
        assert_eq!(node.text(), "NODE_OPTIONS=\"$NODE_OPTIONS --max-old-space-size=4096\"");
        assert!(node.keeps_inherited() && !SetVariable::new("CI", "1").keeps_inherited());
    }
}
