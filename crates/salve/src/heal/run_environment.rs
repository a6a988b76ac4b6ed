//! The variables that remedies set for one subject, for the rest of a run.

use std::ffi::{OsStr, OsString};

use salve_core::playbook::SetVariable;

/// The environment that a subject is started with: what it was given, and what remedies set.
#[derive(Clone, Debug, Default)]
pub struct RunEnvironment {
    given: Vec<(OsString, OsString)>,
    /// Of remedies that helped.
    kept: Vec<SetVariable>,
    /// Of the remedy that is tried.
    tried: Vec<SetVariable>,
}

/// What becomes of the variables of a remedy.
#[derive(Clone, Copy, Debug)]
pub enum EnvironmentChange<'v> {
    /// These are tried, and no others.
    Try(&'v [SetVariable]),
    /// These helped, so they hold for the rest of the run.
    Keep(&'v [SetVariable]),
}

impl RunEnvironment {
    /// Returns the environment of a subject that is given these variables.
    pub fn new(given: &[(OsString, OsString)]) -> Self {
        Self { given: given.to_vec(), ..Self::default() }
    }

    /// Takes in what becomes of a remedy's variables, and returns what the subject gets from now
    /// on.
    pub fn change(&mut self, change: EnvironmentChange<'_>) -> Vec<(OsString, OsString)> {
        match change {
            EnvironmentChange::Try(variables) => self.tried = variables.to_vec(),
            EnvironmentChange::Keep(variables) => {
                self.tried.clear();
                self.kept.retain(|old| variables.iter().all(|new| new.name != old.name));
                self.kept.extend_from_slice(variables);
            }
        }
        self.over(|name| std::env::var_os(name))
    }

    fn over(&self, outer: impl Fn(&OsStr) -> Option<OsString>) -> Vec<(OsString, OsString)> {
        let mut all = self.given.clone();
        for variable in self.kept.iter().chain(&self.tried) {
            let name = OsString::from(&variable.name);
            let had =
                all.iter().rev().find(|(own, _)| *own == name).map(|(_, value)| value.clone());
            let had = had.or_else(|| outer(&name)).unwrap_or_default();
            let value = variable.value_over(&had.to_string_lossy());
            all.retain(|(own, _)| *own != name);
            all.push((name, value.into()));
        }
        all
    }
}

/// Returns how variables that helped can be made to stay.
pub fn how_to_keep(variables: &[SetVariable]) -> String {
    if let Some(path) = variables.iter().find(|one| one.keeps_inherited() && one.name == "PATH") {
        let bin = path.value.split(':').next().unwrap_or_default();
        return format!(
            "set for this run only: {}. To keep it, activate that environment first: . {bin}/activate",
            path.text()
        );
    }
    let set: Vec<String> = variables.iter().map(SetVariable::text).collect();
    let lines: Vec<String> =
        variables.iter().map(|one| format!("{} = {:?}", one.name, one.value_over(""))).collect();
    format!(
        "set for this run only: {}. To keep it, write into salve.toml, under the name of what \
         runs: env = {{ {} }}",
        set.join(" "),
        lines.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value<'e>(env: &'e [(OsString, OsString)], name: &str) -> Option<&'e str> {
        let mut all = env.iter().filter(|(own, _)| own == name);
        let one = all.next().and_then(|(_, value)| value.to_str());
        assert!(all.next().is_none(), "{name} is there twice");
        one
    }

    #[test]
    fn what_helped_stays_and_what_is_tried_goes_with_the_next_remedy() {
        let given = [("PATH".into(), "/given".into()), ("A".into(), "1".into())];
        let mut env = RunEnvironment::new(&given);
        let venv = [SetVariable::new("PATH", "/venv/bin:$PATH")];
        let heap = [SetVariable::new("NODE_OPTIONS", "$NODE_OPTIONS --x")];
        let tried = env.change(EnvironmentChange::Try(&venv));
        assert_eq!(value(&tried, "PATH"), Some("/venv/bin:/given"));
        assert_eq!(value(&tried, "A"), Some("1"));
        let kept = env.change(EnvironmentChange::Keep(&venv));
        assert_eq!(value(&kept, "PATH"), Some("/venv/bin:/given"));
        env.change(EnvironmentChange::Try(&heap));
        let both = env.over(|_| Some("--outer".into()));
        assert_eq!(value(&both, "NODE_OPTIONS"), Some("--outer --x"));
        assert_eq!(value(&both, "PATH"), Some("/venv/bin:/given"));
        let next = env.change(EnvironmentChange::Try(&[]));
        assert_eq!(value(&next, "NODE_OPTIONS"), None);
        assert_eq!(value(&next, "PATH"), Some("/venv/bin:/given"));
    }

    #[test]
    fn a_way_to_keep_a_variable_can_be_pasted() {
        let heap = [SetVariable::new("NODE_OPTIONS", "--max-old-space-size=4096")];
        let told = how_to_keep(&heap);
        assert!(told.ends_with("env = { NODE_OPTIONS = \"--max-old-space-size=4096\" }"), "{told}");
        let venv = [SetVariable::new("PATH", "/p/.venv/bin:$PATH")];
        assert!(how_to_keep(&venv).ends_with(". /p/.venv/bin/activate"));
    }
}
