//! Dev servers of packages for Node and Bun.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::{Detected, has, read, up_to};

/// The parts of a package.json that matter here.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Package {
    pub(super) scripts: BTreeMap<String, String>,
    dependencies: BTreeMap<String, serde_json::Value>,
    dev_dependencies: BTreeMap<String, serde_json::Value>,
    package_manager: Option<String>,
    main: Option<String>,
}

impl Package {
    /// Returns whether it depends on a package.
    pub(super) fn uses(&self, name: &str) -> bool {
        self.dependencies.contains_key(name) || self.dev_dependencies.contains_key(name)
    }
}

/// Frameworks by their package, the most telling first, with what starts them without a script.
const FRAMEWORKS: [(&str, &str, &str); 14] = [
    ("next", "Next.js", "next dev"),
    ("nuxt", "Nuxt", "nuxt dev"),
    ("astro", "Astro", "astro dev"),
    ("@sveltejs/kit", "SvelteKit", "vite dev"),
    ("@remix-run/dev", "Remix", "remix vite:dev"),
    ("@react-router/dev", "React Router", "react-router dev"),
    ("@angular/core", "Angular", "ng serve"),
    ("gatsby", "Gatsby", "gatsby develop"),
    ("react-scripts", "Create React App", "react-scripts start"),
    ("vite", "Vite", "vite"),
    ("webpack-dev-server", "webpack", "webpack serve"),
    ("@nestjs/core", "NestJS", "nest start --watch"),
    ("fastify", "Fastify", ""),
    ("express", "Express", ""),
];
/// Scripts that start a dev server, the most telling first.
const SCRIPTS: [&str; 5] = ["dev", "start:dev", "develop", "serve", "start"];

pub(super) fn detect(root: &Path, dir: &Path) -> Option<Detected> {
    let package: Package = serde_json::from_str(&read(dir, "package.json")?).ok()?;
    let framework = FRAMEWORKS.iter().find(|(name, ..)| package.uses(name));
    let (manager, told) = manager(root, dir, &package);
    let mut why = Vec::new();
    let command = if let Some(script) =
        SCRIPTS.iter().find(|name| package.scripts.contains_key(**name))
    {
        why.push(format!("script {script} in package.json"));
        match (manager, *script) {
            ("npm", "start") => "npm start".to_owned(),
            (manager, script) => format!("{manager} run {script}"),
        }
    } else if let Some((_, _, start)) = framework.filter(|(.., start)| !start.is_empty()) {
        format!("{} {start}", exec(manager))
    } else {
        let files = package.main.as_deref().into_iter().chain(["server.js", "index.js", "app.js"]);
        let main = files.into_iter().find(|file| has(dir, file))?;
        why.push(main.to_owned());
        format!("{} {main}", if manager == "bun" { "bun" } else { "node" })
    };
    why.extend(framework.map(|(name, ..)| format!("{name} in package.json")));
    why.push(told);
    let framework = framework.map(|(_, title, _)| *title);
    Some(Detected { name: "web".to_owned(), command, dir: None, framework, why })
}

/// Returns what runs a program of an installed package.
pub(super) fn exec(manager: &str) -> &'static str {
    match manager {
        "pnpm" => "pnpm exec",
        "yarn" => "yarn",
        "bun" => "bunx",
        _ => "npx",
    }
}

/// Returns the package manager and what told us: the package itself, or a directory above it up to
/// the root, where a workspace has its lockfile.
pub(super) fn manager(root: &Path, dir: &Path, package: &Package) -> (&'static str, String) {
    let known = ["npm", "pnpm", "yarn", "bun"];
    let above = up_to(root, dir).skip(1).filter_map(|dir| {
        let package: Package = serde_json::from_str(&read(dir, "package.json")?).ok()?;
        package.package_manager
    });
    for said in package.package_manager.clone().into_iter().chain(above) {
        let said = said.split('@').next().unwrap_or_default();
        if let Some(name) = known.into_iter().find(|name| *name == said) {
            return (name, format!("packageManager {name} in package.json"));
        }
    }
    let lockfiles = [
        ("pnpm", "pnpm-lock.yaml"),
        ("yarn", "yarn.lock"),
        ("bun", "bun.lock"),
        ("bun", "bun.lockb"),
        ("npm", "package-lock.json"),
        ("npm", "npm-shrinkwrap.json"),
    ];
    let found =
        up_to(root, dir).find_map(|dir| lockfiles.into_iter().find(|(_, file)| has(dir, file)));
    match found {
        Some((name, file)) => (name, format!("{file}, so {name}")),
        None => ("npm", "no lockfile, so npm".to_owned()),
    }
}
