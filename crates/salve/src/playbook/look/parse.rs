//! Whether what a project's configuration loads from `node_modules` parses.
//!
//! A tool that loads its configuration itself tells only that something in it does not parse. Node
//! says of each file whether it does; nothing of it runs.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::node::{self, json as read_json};
use crate::files::{FileKind, read_text};
use crate::process::{asking_command, machine_program};

/// Beginnings of configurations' last extension.
const CONFIGS: [&str; 6] =
    [".config.js", ".config.mjs", ".config.cjs", ".config.ts", ".config.mts", ".config.cts"];

/// How many entries of packages are looked at.
const MOST: usize = 40;

/// Compiles files and those that they load from their own package, and prints those that are
/// neither modules nor scripts. A word in an argument's JSON is the package's directory, then come
/// its entries.
const SCRIPT: &str = r#"
const vm = require('vm'), fs = require('fs'), path = require('path');
const compiles = (text) => {
  text = text.replace(/^#![^\n]*/, '');
  try { new vm.SourceTextModule(text); return true; } catch {}
  try { new vm.Script(`(function (exports, require, module) {${text}\n})`); return true; } catch {}
  return false;
};
for (const word of process.argv.slice(1)) {
  const [top, ...queue] = JSON.parse(word), seen = new Set();
  while (queue.length && seen.size < 400) {
    const file = queue.shift();
    if (seen.has(file)) continue;
    seen.add(file);
    let text;
    try { if (fs.statSync(file).size > 2 << 20) continue; text = fs.readFileSync(file, 'utf8'); } catch { continue; }
    if (!compiles(text)) { console.log(file); continue; }
    for (const [, name] of text.matchAll(/(?:from|import|require\()\s*\(?\s*['"](\.{1,2}\/[^'"]+)['"]/g)) {
      const base = path.resolve(path.dirname(file), name);
      if (!base.startsWith(top + path.sep)) continue;
      const found = [base, base + '.js', base + '.mjs', base + '.cjs', path.join(base, 'index.js')];
      queue.push(...found.filter((one) => /\.[cm]?js$/.test(one)));
    }
  }
}
"#;

/// Returns the files of declared packages that the project's configurations load and that do not
/// parse, from the project's root.
pub(super) fn unparsable(root: &Path, dir: &Path, top: &Path, declared: &[&str]) -> Vec<String> {
    let texts: Vec<String> =
        configurations(dir).filter_map(|file| read_text(&file, FileKind::Settings).ok()).collect();
    let is_loaded = |name: &&&str| {
        let loads = |text: &String| {
            ["'", "\""].iter().any(|quote| {
                ["'", "\"", "/"].iter().any(|end| text.contains(&format!("{quote}{name}{end}")))
            })
        };
        texts.iter().any(loads)
    };
    let places = declared.iter().filter(is_loaded).filter_map(|name| node::place(dir, top, name));
    let words: Vec<String> = places.filter_map(|place| word(&place)).take(MOST).collect();
    if words.is_empty() {
        return Vec::new();
    }
    let mut node = asking_command(&machine_program("node", root));
    node.args(["--no-warnings", "--experimental-vm-modules", "-e", SCRIPT, "--"]).args(words);
    let Ok(told) = node.output() else { return Vec::new() };
    let files = String::from_utf8_lossy(&told.stdout).into_owned();
    let below = |file: &str| Path::new(file).strip_prefix(root).ok()?.to_str().map(str::to_owned);
    files.lines().filter_map(below).take(3).collect()
}

fn configurations(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let files = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    files.map(|file| file.path()).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        CONFIGS.iter().any(|end| name.ends_with(end))
    })
}

/// Returns what the script is told of one package: its directory and its entries.
fn word(place: &Path) -> Option<String> {
    let place = place.canonicalize().ok()?;
    let manifest = read_json(&place.join("package.json"))?;
    let mut entries = Vec::new();
    for key in ["exports", "module", "main"] {
        manifest.get(key).into_iter().for_each(|value| collect(value, &mut entries));
    }
    let files = entries.iter().map(|entry| place.join(entry.trim_start_matches("./")));
    let files = files.filter(|file| {
        let ending = file.extension().and_then(|ending| ending.to_str());
        matches!(ending, Some("js" | "mjs" | "cjs")) && file.is_file()
    });
    let all: Vec<String> =
        std::iter::once(place.clone()).chain(files).map(|p| p.display().to_string()).collect();
    (all.len() > 1).then(|| json!(all).to_string())
}

/// Collects the files that a manifest's field names, whatever the conditions.
fn collect<'v>(value: &'v Value, entries: &mut Vec<&'v str>) {
    match value {
        Value::String(file) => entries.push(file),
        Value::Object(map) => map.values().for_each(|value| collect(value, entries)),
        Value::Array(all) => all.iter().for_each(|value| collect(value, entries)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::find_program;

    #[test]
    fn a_file_of_a_package_that_does_not_parse_is_found_where_the_configuration_loads_it() {
        if find_program("node").is_none() {
            println!("skipped: there is no node");
            return;
        }
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        let write = |file: &str, text: &str| {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("vite.config.ts", "import plugin from '@shop/plugin'\nconst x: number = 1\n");
        write("node_modules/@shop/plugin/package.json", r#"{ "exports": { ".": "./index.js" } }"#);
        let index = "#!/usr/bin/env node\nimport './inner.js'\nexport default 1\n";
        write("node_modules/@shop/plugin/index.js", index);
        write("node_modules/@shop/plugin/inner.js", "module.exports = await1\n");
        write("node_modules/other/package.json", r#"{ "main": "index.js" }"#);
        write("node_modules/other/index.js", "(((");
        let look = || unparsable(&root, &root, &root, &["@shop/plugin", "other"]);
        assert!(look().is_empty(), "what is not loaded may be anything: {:?}", look());
        write("node_modules/@shop/plugin/inner.js", "module.exports = (((\n");
        assert_eq!(look(), ["node_modules/@shop/plugin/inner.js"]);
    }
}
