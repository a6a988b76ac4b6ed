//! What follows from the facts about a project.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::{NodeProject, PythonProject};

/// Scripts that build, the usual name first.
const BUILDS: &[&str] = &["build", "compile"];

/// Scripts that generate code.
const GENERATES: &[&str] =
    &["codegen", "generate", "gen", "graphql:codegen", "proto", "proto:gen", "prebuild", "prepare"];

/// Words in a script that reach beyond the project.
const OUTWARD: &[&str] =
    &["deploy", "publish", "git push", "docker push", "ssh ", "scp ", "rsync "];

/// Programs whose package has another name.
const PROGRAMS: &[(&str, &str)] = &[
    ("tsc", "typescript"),
    ("ng", "@angular/cli"),
    ("nest", "@nestjs/cli"),
    ("vue-cli-service", "@vue/cli-service"),
    ("remix", "@remix-run/dev"),
    ("react-router", "@react-router/dev"),
    ("svelte-kit", "@sveltejs/kit"),
    ("webpack", "webpack-cli"),
    ("babel", "@babel/cli"),
    ("babel-node", "@babel/node"),
    ("playwright", "@playwright/test"),
    ("tailwindcss", "@tailwindcss/cli"),
    ("biome", "@biomejs/biome"),
    ("nuxi", "nuxt"),
    ("run-p", "npm-run-all"),
    ("run-s", "npm-run-all"),
    ("graphql-codegen", "@graphql-codegen/cli"),
    ("swc", "@swc/cli"),
];

/// Returns the script that builds a package and reaches no further.
pub fn build_script(scripts: &BTreeMap<String, String>) -> Option<&'static str> {
    among(scripts, BUILDS)
}

fn among(scripts: &BTreeMap<String, String>, names: &[&'static str]) -> Option<&'static str> {
    let harmless = |name: &str| {
        scripts.get(name).is_some_and(|text| !OUTWARD.iter().any(|word| text.contains(word)))
    };
    names.iter().copied().find(|name| harmless(name))
}

impl NodeProject {
    /// Returns the script that builds the project and reaches no further.
    pub fn build_script(&self) -> Option<&str> {
        self.script(BUILDS)
    }

    /// Returns the script that generates code and reaches no further.
    pub fn generate_script(&self) -> Option<&str> {
        self.script(GENERATES)
    }

    fn script(&self, names: &[&'static str]) -> Option<&'static str> {
        among(&self.scripts, names)
    }

    /// Returns whether anything is to be installed at all.
    pub fn wants_packages(&self) -> bool {
        !self.declared.is_empty() || !self.locked_bins.is_empty()
    }

    /// Returns whether a declared or locked package brings the program.
    pub fn provides(&self, program: &str) -> bool {
        let named = PROGRAMS.iter().find(|(own, _)| *own == program).map(|(_, package)| *package);
        self.locked_bins.contains_key(program)
            || self.declared.contains_key(program)
            || named.is_some_and(|package| self.declared.contains_key(package))
    }
}

/// Distributions whose module has another name: module, distributions.
const DISTRIBUTIONS: &str = include_str!("../../data/playbook/distributions.txt");

impl PythonProject {
    /// Returns the way from the project's directory up to the root.
    pub(super) fn up(&self) -> String {
        let depth = self.dir.split('/').filter(|part| !part.is_empty()).count();
        "../".repeat(depth)
    }

    /// Returns the Python of the project's environment, as it is called from its directory.
    pub fn command(&self) -> String {
        match self.venv.as_ref().filter(|venv| venv.exists && venv.broken.is_none()) {
            Some(venv) => format!("{}{}/bin/python", self.up(), venv.path),
            None => "python3".to_owned(),
        }
    }

    /// Returns whether a declared distribution has the module.
    pub fn declares(&self, module: &str) -> bool {
        brings(&self.declared, module)
    }

    /// Returns whether a distribution that an installed one requires has the module.
    pub fn requires(&self, module: &str) -> bool {
        brings(&self.required, module)
    }
}

/// Returns whether one of these distributions has the module.
fn brings(distributions: &BTreeSet<String>, module: &str) -> bool {
    let top = module.split('.').next().unwrap_or(module);
    let plain = normal(top);
    if [plain.clone(), format!("python-{plain}"), format!("py{plain}")]
        .iter()
        .any(|name| distributions.contains(name))
    {
        return true;
    }
    let mut known = DISTRIBUTIONS.lines().filter_map(|line| line.split_once(' '));
    known
        .any(|(own, names)| own == top && names.split(' ').any(|name| distributions.contains(name)))
}

/// Returns a distribution's name as the index compares it.
pub(super) fn normal(name: &str) -> String {
    name.to_ascii_lowercase().replace(['_', '.'], "-")
}
